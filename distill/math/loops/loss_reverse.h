/* loss_reverse.h - the divergence of the teacher's softened answers from the student's (MiniLLM, arXiv
 * 2306.08543): the student leaves out what it cannot say, where the forward divergence spreads over all
 * that the teacher says:
 *
 *     T^2 R,   R = sum of q (log q - log p),   p = softmax(t / T), q = softmax(z / T)
 *     d / dz = T q (log q - log p - R)
 *
 *     T = 1    p  0.7 0.2 0.1        loss 0.092
 *              q  0.5 0.3 0.2        d / dz -0.21 0.09 0.12
 *
 * Part of loss_loops.h. */

/* Two walks: R is in the gradient of every class, so it must be known first. */
static double NAME(reverse_row)(const struct vc_loss_spec *spec, size_t n, const REAL *z, const REAL *teacher,
                                double by, double *gradient)
{
    double t = spec->temperature;
    struct NAME(soft) q = NAME(soft_of)(z, n, t, NULL);
    struct NAME(soft) p = NAME(soft_of)(teacher, n, t, NULL);
    double lane[LANES] = {0};

    for (size_t first = 0; first < n; first += PART) {
        size_t m = n - first < PART ? n - first : PART;
        double terms[PART];

        for (size_t i = 0; i < m; i++) {
            terms[i] = NAME(divergence)(NAME(log_p)(&q, z[first + i]), NAME(log_p)(&p, teacher[first + i]));
        }
        NAME(add_terms)(terms, m, lane);
    }
    double sum = NAME(sum_of)(lane);
    for (size_t c = 0; c < n; c++) {
        double log_q = NAME(log_p)(&q, z[c]);

        gradient[c] += by * t * (NAME(divergence)(log_q, NAME(log_p)(&p, teacher[c])) - vc_exp_f64(log_q) * sum);
    }
    return t * t * sum;
}
