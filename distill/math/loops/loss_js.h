/* loss_js.h - the Jensen-Shannon divergence of both softened answers (Lin 1991; generalized knowledge
 * distillation, arXiv 2306.13649, with beta 1/2):
 *
 *     T^2 (sum of p (log p - log m) + sum of q (log q - log m)) / 2,   m = (p + q) / 2
 *     d / dz = T q (d - sum of q d) / 2,   d = log q - log m
 *
 *     T = 1    p  0.7 0.2 0.1        m     0.6 0.25 0.15        loss 0.022
 *              q  0.5 0.3 0.2        d / dz -0.051 0.024 0.027
 *
 * It is at most T^2 log 2, however far apart the answers are, where the other two have no end.
 *
 * Part of loss_loops.h. */

/* log of (exp(a) + exp(b)) / 2. */
static double NAME(log_mean)(double a, double b)
{
    double most = a > b ? a : b;
    double least = a > b ? b : a;

    return most + vc_log_f64((1 + vc_exp_f64(least - most)) / 2);
}

/* Both sums in the first walk; the gradient, which needs that of q, in the second. */
static double NAME(js_row)(const struct vc_loss_spec *spec, size_t n, const REAL *z, const REAL *teacher, double by,
                           double *gradient)
{
    double t = spec->temperature;
    struct NAME(soft) q = NAME(soft_of)(z, n, t, NULL);
    struct NAME(soft) p = NAME(soft_of)(teacher, n, t, NULL);
    double of_p[LANES] = {0};
    double of_q[LANES] = {0};

    for (size_t first = 0; first < n; first += PART) {
        size_t m = n - first < PART ? n - first : PART;
        double p_terms[PART], q_terms[PART];

        for (size_t i = 0; i < m; i++) {
            double log_p = NAME(log_p)(&p, teacher[first + i]);
            double log_q = NAME(log_p)(&q, z[first + i]);
            double log_m = NAME(log_mean)(log_p, log_q);

            p_terms[i] = NAME(divergence)(log_p, log_m);
            q_terms[i] = NAME(divergence)(log_q, log_m);
        }
        NAME(add_terms)(p_terms, m, of_p);
        NAME(add_terms)(q_terms, m, of_q);
    }
    double sum = NAME(sum_of)(of_q);
    for (size_t c = 0; c < n; c++) {
        double log_q = NAME(log_p)(&q, z[c]);
        double log_m = NAME(log_mean)(NAME(log_p)(&p, teacher[c]), log_q);

        gradient[c] += by * t * (NAME(divergence)(log_q, log_m) - vc_exp_f64(log_q) * sum) / 2;
    }
    return t * t * (NAME(sum_of)(of_p) + sum) / 2;
}
