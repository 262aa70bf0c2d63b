/* loss_bce.h - answers of yes or no, a number each. Of a teacher the divergence of two classes, whose
 * gradient is that of torch.nn.BCEWithLogitsLoss with the teacher's shares as targets (its entropy, which
 * moves no weight, is taken away, so that the loss is 0 where both agree); of y torch.nn.BCEWithLogitsLoss
 * itself:
 *
 *     teacher    T^2 mean of p (log p - log q) + (1 - p) (log (1 - p) - log (1 - q)),   p = 1 / (1 + exp(-t / T)), q of z
 *                d / dz = T (q - p) / n
 *     y          mean of log(1 + exp(z)) - y z
 *                d / dz = (q - y) / n
 *
 *     T = 1    p 0.9, q 0.6: loss 0.226, d / dz -0.3          y 1, q 0.6: loss 0.511, d / dz -0.4
 *
 * Part of loss_loops.h. */

/* log(1 + exp(x)) without an exponential that is too large. */
static double NAME(soft_plus)(double x)
{
    return x > 0 ? x + vc_log_f64(1 + vc_exp_f64(-x)) : vc_log_f64(1 + vc_exp_f64(x));
}

/* 1 / (1 + exp(-x)): an exponential of a negative number alone, which never overflows. */
static double NAME(share)(double x)
{
    return x > 0 ? 1 / (1 + vc_exp_f64(-x)) : vc_exp_f64(x) / (1 + vc_exp_f64(x));
}

/* log p is -log(1 + exp(-t)), and log (1 - p) is -log(1 + exp(t)): neither is a difference of numbers near
 * 1. */
static double NAME(bce_row)(const struct vc_loss_spec *spec, size_t n, const REAL *z, const REAL *teacher, double by,
                            double *gradient)
{
    double lane[LANES] = {0};

    for (size_t first = 0; first < n; first += PART) {
        size_t m = n - first < PART ? n - first : PART;
        double terms[PART];

        for (size_t i = 0; i < m; i++) {
            double t = (double)teacher[first + i] / spec->temperature;
            double x = (double)z[first + i] / spec->temperature;

            terms[i] = NAME(divergence)(-NAME(soft_plus)(-t), -NAME(soft_plus)(-x)) +
                       NAME(divergence)(-NAME(soft_plus)(t), -NAME(soft_plus)(x));
            gradient[first + i] += by * spec->temperature * (NAME(share)(x) - NAME(share)(t)) / (double)n;
        }
        NAME(add_terms)(terms, m, lane);
    }
    return spec->temperature * spec->temperature * NAME(sum_of)(lane) / (double)n;
}

/* The same with targets from 0 to 1 in place of a teacher. */
static double NAME(bce_y_row)(const struct vc_loss_spec *spec, size_t n, const REAL *z, const REAL *y, double by,
                              double *gradient)
{
    double lane[LANES] = {0};

    for (size_t first = 0; first < n; first += PART) {
        size_t m = n - first < PART ? n - first : PART;
        double terms[PART];

        for (size_t i = 0; i < m; i++) {
            double x = (double)z[first + i];

            terms[i] = NAME(soft_plus)(x) - (double)y[first + i] * x;
            gradient[first + i] += by * (NAME(share)(x) - (double)y[first + i]) / (double)n;
        }
        NAME(add_terms)(terms, m, lane);
    }
    return NAME(sum_of)(lane) / (double)n;
}
