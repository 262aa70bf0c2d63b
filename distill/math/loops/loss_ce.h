/* loss_ce.h - cross-entropy with the label of a row, torch.nn.CrossEntropyLoss:
 *
 *     -log softmax(z)[y]          d / dz = softmax(z) - onehot(y)
 *
 * Part of loss_loops.h. */

static double NAME(ce_row)(size_t n, const REAL *z, int64_t label, double by, double *gradient)
{
    struct NAME(soft) q = NAME(soft_of)(z, n, 1);

    for (size_t c = 0; c < n; c++) {
        gradient[c] += by * vc_exp_f64(NAME(log_p)(&q, z[c]));
    }
    gradient[label] -= by;
    return -NAME(log_p)(&q, z[label]);
}
