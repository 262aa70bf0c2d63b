/* loss_mse.h - the squared error of values, torch.nn.MSELoss. Of logits it is the limit of the divergence
 * at a high temperature (arXiv 1503.02531, section 2.1):
 *
 *     mean of (z - t)^2          d / dz = 2 (z - t) / n
 *
 *     z 0.5 2, t 0 1: loss 0.625, d / dz 0.5 1
 *
 * Part of loss_loops.h. */

/* The mean of (z - t)^2 over the classes of a row. */
static double NAME(mse_row)(const struct vc_loss_spec *spec, size_t n, const REAL *z, const REAL *teacher, double by,
                            double *gradient)
{
    double lane[LANES] = {0};

    for (size_t first = 0; first < n; first += PART) {
        size_t m = n - first < PART ? n - first : PART;
        double terms[PART];

        for (size_t i = 0; i < m; i++) {
            double d = (double)z[first + i] - (double)teacher[first + i];

            terms[i] = d * d;
            gradient[first + i] += by * 2 * d / (double)n;
        }
        NAME(add_terms)(terms, m, lane);
    }
    return NAME(sum_of)(lane) / (double)n;
}
