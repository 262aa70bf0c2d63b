/* loops_norm.h - part of op_loops.h: normalizations and Softmax.
 *
 * Statistics are sums by sum_of over the elements of a row that lie together; the variance divides by n, not n - 1. */

/* Softmax along any axis: rows are `inner` apart, and inner * outer rows of `size` elements are done one after the
 * other. */
static void softmax_all(struct vc_run *run, bool logarithm)
{
    const struct vc_run_value *x = run->in[0];
    unsigned axis = vc_run_axis(vc_node_int(run->node, "axis", -1), x->n_dims);
    size_t size = (size_t)x->shape[axis];
    size_t inner = vc_run_count(x, axis + 1, x->n_dims);
    REAL *out = vc_run_out(run, 0, true, x->shape, x->n_dims);

    for (size_t i = 0; out != NULL && x->n != 0 && i < x->n / size; i++) {
        size_t at = i / inner * size * inner + i % inner;

        softmax_row((const REAL *)x->data + at, out + at, size, inner, logarithm);
    }
}

RUN(softmax)
{
    softmax_all(run, false);
}

RUN(log_softmax)
{
    softmax_all(run, true);
}

/* y = (x - mean) / sqrt(variance + epsilon) of n numbers that lie together; the variance is that of all of them, not of
 * a sample. Without `centred` the mean is taken to be 0: the root mean square. */
static void normalize(const REAL *x, REAL *y, size_t n, REAL epsilon, bool centred, REAL *mean, REAL *inverse)
{
    *mean = centred ? sum_of(x, n, 1) / (REAL)n : 0;
    for (size_t k = 0; k < n; k++) {
        y[k] = (x[k] - *mean) * (x[k] - *mean);
    }
    *inverse = 1 / MATH(sqrt)(sum_of(y, n, 1) / (REAL)n + epsilon);
    for (size_t k = 0; k < n; k++) {
        y[k] = (x[k] - *mean) * *inverse;
    }
}

/* y = y * scale + bias, which broadcast to y. */
static void scale_and_shift(struct vc_run *run, REAL *y)
{
    const struct vc_run_value *scale = run->in[1];
    const struct vc_run_value *bias = run->n_in > 2 && run->in[2] != NULL ? run->in[2] : scale;
    const struct vc_run_value *three[3] = {&run->out[0], scale, bias};
    struct vc_run_walk walk;

    if (!vc_run_walk_begin(run, &walk, three, 3)) {
        return;
    }
    VC_LEAVE_IF(walk.n_dims != run->out[0].n_dims ||
                    memcmp(walk.shape, run->out[0].shape, walk.n_dims * sizeof *walk.shape),
                vc_run_fail(run, "the scale or the bias is larger than the input"));
    for (size_t i = 0; i < run->out[0].n; i++, vc_run_walk_next(&walk)) {
        y[i] *= ((const REAL *)scale->data)[walk.place[1]];
        y[i] += bias != scale ? ((const REAL *)bias->data)[walk.place[2]] : 0;
    }
}

/* A row is all dimensions from the axis on; the statistics are optional outputs 1 and 2. */
static void layer_norm(struct vc_run *run, bool centred)
{
    const struct vc_run_value *x = run->in[0];
    unsigned axis = vc_run_axis(vc_node_int(run->node, "axis", -1), x->n_dims);
    REAL epsilon = (REAL)vc_node_float(run->node, "epsilon", (double)1e-5f);
    size_t size = vc_run_count(x, axis, x->n_dims);
    REAL *out = vc_run_out(run, 0, true, x->shape, x->n_dims);
    int64_t shape[VC_GRAPH_MAX_DIMS];
    REAL *statistics[2];

    for (unsigned k = 0; k < x->n_dims; k++) {
        shape[k] = k < axis ? x->shape[k] : 1;
    }
    statistics[0] = vc_run_out(run, 1, true, shape, x->n_dims);
    statistics[1] = vc_run_out(run, 2, true, shape, x->n_dims);
    for (size_t i = 0; out != NULL && x->n != 0 && i < x->n / size; i++) {
        REAL mean, inverse;

        normalize((const REAL *)x->data + i * size, out + i * size, size, epsilon, centred, &mean, &inverse);
        if (statistics[0] != NULL) {
            statistics[0][i] = mean;
        }
        if (statistics[1] != NULL) {
            statistics[1][i] = inverse;
        }
    }
    if (out != NULL) {
        scale_and_shift(run, out);
    }
}

RUN(layer_norm)
{
    layer_norm(run, true);
}

RUN(rms_norm)
{
    layer_norm(run, false);
}

/* y = (x - mean) / sqrt(variance + epsilon) * scale + bias, with four numbers for each channel. */
RUN(batch_norm)
{
    const struct vc_run_value *x = run->in[0];
    REAL epsilon = (REAL)vc_node_float(run->node, "epsilon", (double)1e-5f);
    size_t channels = (size_t)x->shape[1];
    size_t inner = vc_run_count(x, 2, x->n_dims);

    if (!vc_run_expect(run, 1, "scale", channels) || !vc_run_expect(run, 2, "bias", channels) ||
        !vc_run_expect(run, 3, "mean", channels) || !vc_run_expect(run, 4, "variance", channels)) {
        return;
    }
    REAL *out = vc_run_out(run, 0, true, x->shape, x->n_dims);
    for (size_t i = 0; out != NULL && i < x->n; i++) {
        size_t c = i / inner % channels;

        out[i] = (((const REAL *)x->data)[i] - ((const REAL *)run->in[3]->data)[c]) /
                     MATH(sqrt)(((const REAL *)run->in[4]->data)[c] + epsilon) * ((const REAL *)run->in[1]->data)[c] +
                 ((const REAL *)run->in[2]->data)[c];
    }
    for (unsigned k = 1; k < 3; k++) { /* the statistics as they were */
        void *same = vc_run_out(run, k, true, run->in[2 + k]->shape, 1);

        if (same != NULL && channels != 0) {
            memcpy(same, run->in[2 + k]->data, channels * sizeof(REAL));
        }
    }
}

/* Each of the groups of channels of each sample on its own, then scale and bias of the channel. */
static void group_norm(struct vc_run *run, size_t groups)
{
    const struct vc_run_value *x = run->in[0];
    REAL epsilon = (REAL)vc_node_float(run->node, "epsilon", (double)1e-5f);
    size_t channels = (size_t)x->shape[1];
    size_t inner = vc_run_count(x, 2, x->n_dims);
    size_t size = groups == 0 ? 0 : vc_run_count(x, 1, x->n_dims) / groups;

    if (groups != 0 && channels % groups != 0) {
        vc_run_fail(run, "%zu channels cannot be divided into %zu groups", channels, groups);
    }
    if (!vc_run_expect(run, 1, "scale", channels) || !vc_run_expect(run, 2, "bias", channels)) {
        return;
    }
    REAL *out = vc_run_out(run, 0, true, x->shape, x->n_dims);
    for (size_t i = 0; out != NULL && x->n != 0 && i < x->n / size; i++) {
        REAL mean, inverse;

        normalize((const REAL *)x->data + i * size, out + i * size, size, epsilon, true, &mean, &inverse);
    }
    for (size_t i = 0; out != NULL && i < x->n; i++) {
        size_t c = i / inner % channels;

        out[i] = out[i] * ((const REAL *)run->in[1]->data)[c] + ((const REAL *)run->in[2]->data)[c];
    }
}

RUN(instance_norm)
{
    group_norm(run, (size_t)run->in[0]->shape[1]);
}

RUN(group_norm)
{
    group_norm(run, (size_t)vc_node_int(run->node, "num_groups", 1));
}
