/* loss_ce.h - cross-entropy with the label of a row, torch.nn.CrossEntropyLoss; s is the share of each
 * label that is spread over all classes (arXiv 1512.00567), w the weight of a class, C how many there are.
 * The sum of all rows is divided by the sum of their w[y]:
 *
 *     -(1 - s) w[y] log q[y] - s / C sum of w log q,   q = softmax(z)
 *     d / dz = ((1 - s) w[y] + s / C sum of w) q - (1 - s) w[y] onehot(y) - s / C w
 *
 *     q 0.5 0.3 0.2, y = 0    s = 0      loss 0.693    d / dz -0.5  0.3  0.2
 *                             s = 0.1    loss 0.741    d / dz -0.43 0.27 0.17
 *
 * Part of loss_loops.h. */

/* Without smoothing and weights: one walk, and no gradient where the labels count nothing (by 0, the teacher alone). */
static double NAME(plain_ce_row)(size_t n, const REAL *z, int64_t label, double by, double *gradient)
{
    double *restrict of_z = by != 0 ? gradient + n : NULL;
    struct NAME(soft) q = NAME(soft_of)(z, n, 1, of_z);
    const double step = by / q.sum;

    for (size_t c = 0; of_z != NULL && c < n; c++) {
        gradient[c] += step * of_z[c];
    }
    gradient[label] -= by;
    return -NAME(log_p)(&q, z[label]);
}

/* `own` is what the label's class counts for, `all` what all classes get together. */
static double NAME(ce_row)(const struct vc_loss_spec *spec, size_t n, const REAL *z, int64_t label, double by,
                           double *gradient)
{
    const double *weights = spec->class_weights;
    double spread = spec->label_smoothing / (double)n;
    double own, all, sum;
    struct NAME(soft) q;

    if (spec->label_smoothing == 0 && weights == NULL) {
        return NAME(plain_ce_row)(n, z, label, by, gradient);
    }
    q = NAME(soft_of)(z, n, 1, NULL);
    own = (1 - spec->label_smoothing) * (weights != NULL ? weights[label] : 1);
    all = 0;
    sum = -own * NAME(log_p)(&q, z[label]);
    for (size_t c = 0; c < n; c++) {
        double w = weights != NULL ? weights[c] : 1;

        all += spread * w;
        sum -= spread * w * NAME(log_p)(&q, z[c]);
        gradient[c] -= by * spread * w;
    }
    for (size_t c = 0; c < n; c++) {
        gradient[c] += by * (own + all) * vc_exp_f64(NAME(log_p)(&q, z[c]));
    }
    gradient[label] -= by * own;
    return sum;
}
