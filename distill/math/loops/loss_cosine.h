/* loss_cosine.h - 1 - the cosine of two rows, torch.nn.CosineEmbeddingLoss with a target of 1 (hidden
 * states of DistilBERT, arXiv 1910.01108):
 *
 *     1 - z t / (|z| |t|)          d / dz = z (z t) / (|z|^3 |t|) - t / (|z| |t|)
 *
 *     z 3 4, t 4 3: loss 0.04, d / dz -0.045 0.034        at right angles to z, as its length does not matter
 *
 * Part of loss_loops.h. */

/* 1 - the cosine of both rows; where one of them is 0, so is the cosine, and its gradient. */
static double NAME(cosine_row)(const struct vc_loss_spec *spec, size_t n, const REAL *z, const REAL *teacher, double by,
                               double *gradient)
{
    double zt = NAME(dot)(z, teacher, n);
    double zz = NAME(dot)(z, z, n);
    double tt = NAME(dot)(teacher, teacher, n);

    double norms = sqrt(zz) * sqrt(tt);
    if (norms == 0) {
        return 1;
    }
    for (size_t c = 0; c < n; c++) {
        gradient[c] -= by * ((double)teacher[c] / norms - (double)z[c] * (zt / norms / zz));
    }
    return 1 - zt / norms;
}
