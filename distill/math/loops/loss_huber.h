/* loss_huber.h - the squared error, which is linear beyond delta (Huber 1964), torch.nn.HuberLoss: rows
 * that are far off do not rule the rest:
 *
 *     mean of e^2 / 2 where |e| <= delta, else delta (|e| - delta / 2),   e = z - t
 *     d / dz = max(-delta, min(delta, e)) / n
 *
 *     delta 1, n 1    e 0.5: loss 0.125, d / dz 0.5        e 3: loss 2.5, d / dz 1
 *
 * Part of loss_loops.h. */

/* `cut` is the error, cut off at delta: the gradient of either part. */
static double NAME(huber_row)(const struct vc_loss_spec *spec, size_t n, const REAL *z, const REAL *teacher, double by,
                              double *gradient)
{
    double delta = spec->huber_delta;
    double lane[LANES] = {0};

    for (size_t first = 0; first < n; first += PART) {
        size_t m = n - first < PART ? n - first : PART;
        double terms[PART];

        for (size_t i = 0; i < m; i++) {
            double e = (double)z[first + i] - (double)teacher[first + i];
            double size = fabs(e);
            double cut = size <= delta ? e : copysign(delta, e);

            terms[i] = size <= delta ? e * e / 2 : delta * (size - delta / 2);
            gradient[first + i] += by * cut / (double)n;
        }
        NAME(add_terms)(terms, m, lane);
    }
    return NAME(sum_of)(lane) / (double)n;
}
