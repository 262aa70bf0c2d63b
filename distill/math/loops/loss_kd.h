/* loss_kd.h - the divergence of the student's softened answers from the teacher's (Hinton, Vinyals, Dean,
 * arXiv 1503.02531):
 *
 *     T^2 sum of p (log p - log q),   p = softmax(t / T), q = softmax(z / T)          d / dz = T (q - p)
 *
 *     T = 1    p  0.7 0.2 0.1        loss 0.085
 *              q  0.5 0.3 0.2        d / dz -0.2 0.1 0.1
 *
 * The factor T^2 keeps gradients of the same size at any temperature: softer answers differ by 1 / T, and
 * so does the derivative of z / T.
 *
 * Part of loss_loops.h. */

/* The divergence of one row times T^2, and T (q - p) times `by` added to the gradient. A probability is the exponential
 * that its sum was made of, times the inverse of the sum. */
static double NAME(kd_row)(const struct vc_loss_spec *spec, size_t n, const REAL *z, const REAL *teacher, double by,
                           double *gradient)
{
    double t = spec->temperature;
    double *of_z = gradient + n;
    double *of_teacher = gradient + 2 * n;
    const struct NAME(soft) q = NAME(soft_of)(z, n, t, of_z);
    const struct NAME(soft) p = NAME(soft_of)(teacher, n, t, of_teacher);
    double lane[LANES] = {0};

    const double per_q = 1 / q.sum, per_p = 1 / p.sum, step = by * t;
    for (size_t first = 0; first < n; first += PART) {
        size_t m = n - first < PART ? n - first : PART;
        double terms[PART];

        for (size_t i = 0; i < m; i++) {
            size_t c = first + i;
            double of_p = of_teacher[c] * per_p;
            double term = of_p * (NAME(log_p)(&p, teacher[c]) - NAME(log_p)(&q, z[c]));

            terms[i] = of_p == 0 ? 0 : term;
            gradient[c] += step * (of_z[c] * per_q - of_p);
        }
        NAME(add_terms)(terms, m, lane);
    }
    return t * t * NAME(sum_of)(lane);
}

/* The same where k classes of the teacher are known. All others are one class, whose probability is what is
 * left:
 *
 *     p = 1 - sum of p over the k,  q = 1 - sum of q over the k;   d / dz of the others: T (q_c - p q_c / q)
 *
 * `rest` is the log of the sum of exp(t / T) over all classes of the teacher, so the probabilities of the k
 * are exact. Left over by rounding, p may be below 0 and counts as 0 then; q is kept above 0, since its log
 * is taken. */
static double NAME(top_row)(const struct vc_loss_spec *spec, size_t n, const REAL *z,
                            const struct vc_teacher_rows *teacher, size_t row, double by, double *gradient)
{
    const REAL *logits = (const REAL *)teacher->logits + row * teacher->k;
    const int32_t *classes = teacher->classes + row * teacher->k;
    double t = spec->temperature;
    struct NAME(soft) q = NAME(soft_of)(z, n, t, NULL);
    double p_rest = 1;
    double q_rest = 1;
    double sum = 0;

    for (size_t i = 0; i < teacher->k; i++) {
        double log_p = (double)logits[i] * q.by - teacher->rest[row];
        double log_q = NAME(log_p)(&q, z[classes[i]]);

        sum += NAME(divergence)(log_p, log_q);
        p_rest -= vc_exp_f64(log_p);
        q_rest -= vc_exp_f64(log_q);
    }
    p_rest = p_rest > 0 && teacher->k < n ? p_rest : 0;
    q_rest = q_rest > 0x1p-1000 ? q_rest : 0x1p-1000;
    sum += p_rest > 0 ? p_rest * (vc_log_f64(p_rest) - vc_log_f64(q_rest)) : 0;
    for (size_t c = 0; c < n; c++) {
        gradient[c] += by * t * vc_exp_f64(NAME(log_p)(&q, z[c])) * (1 - p_rest / q_rest);
    }
    for (size_t i = 0; i < teacher->k; i++) {
        double q_c = vc_exp_f64(NAME(log_p)(&q, z[classes[i]]));

        gradient[classes[i]] +=
            by * t * (q_c * p_rest / q_rest - vc_exp_f64((double)logits[i] * q.by - teacher->rest[row]));
    }
    return t * t * sum;
}
