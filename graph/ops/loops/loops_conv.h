/* loops_conv.h - part of op_loops.h: convolutions.
 *
 * One loop for one to three spatial dimensions and for both directions: a tap is one element of the kernel, added
 * for all windows where it lies in the input. Taps go in the order of channels, then of the kernel's elements. */

/* The windows o along dimension k of which element `at` is in the input: from *first to before *end. */
static void windows_inside(const struct vc_window *w, unsigned k, int64_t at, int64_t *first, int64_t *end)
{
    int64_t from = w->before[k] - at * w->dilation[k]; /* o * stride >= from, and < from + in */
    int64_t to = from + w->in[k];

    *first = from <= 0 ? 0 : (from - 1) / w->stride[k] + 1;
    *end = to <= 0 ? 0 : (to - 1) / w->stride[k] + 1;
    *end = *end > w->out[k] ? w->out[k] : *end;
}

/* For element (d, h, v) of all windows: out += weight * in, with in at the element; or, transposed, in += weight * out.
 */
static void add_tap(const struct vc_window *w, int64_t d, int64_t h, int64_t v, REAL weight, REAL *in, REAL *out,
                    bool transposed)
{
    int64_t first[3], end[3];

    windows_inside(w, 0, d, &first[0], &end[0]);
    windows_inside(w, 1, h, &first[1], &end[1]);
    windows_inside(w, 2, v, &first[2], &end[2]);
    for (int64_t i = first[0]; i < end[0]; i++) {
        int64_t x = vc_window_place(w, 0, i, d);

        for (int64_t j = first[1]; j < end[1]; j++) {
            REAL *row = in + (x * w->in[1] + vc_window_place(w, 1, j, h)) * w->in[2];
            REAL *to = out + (i * w->out[1] + j) * w->out[2];

            for (int64_t k = first[2]; k < end[2]; k++) {
                int64_t z = k * w->stride[2] - w->before[2] + v * w->dilation[2];

                if (transposed) {
                    row[z] += weight * to[k];
                } else {
                    to[k] += weight * row[z];
                }
            }
        }
    }
}

/* The same for all elements of the window, in their order. */
static void add_window(const struct vc_window *w, const REAL *weights, REAL *in, REAL *out, bool transposed)
{
    for (int64_t d = 0; d < w->kernel[0]; d++) {
        for (int64_t h = 0; h < w->kernel[1]; h++) {
            for (int64_t v = 0; v < w->kernel[2]; v++) {
                add_tap(w, d, h, v, weights[(d * w->kernel[1] + h) * w->kernel[2] + v], in, out, transposed);
            }
        }
    }
}

static void add_bias(const struct vc_run *run, REAL *out, size_t filters, size_t inner)
{
    const REAL *bias = run->n_in > 2 && run->in[2] != NULL ? run->in[2]->data : NULL;

    for (size_t i = 0; bias != NULL && i < run->out[0].n; i++) {
        out[i] += bias[i / inner % filters];
    }
}

/* Where the taps of channel number c go: into `part`, if there is more than one such sum, else into `out`. */
static REAL *begin_channel(REAL *out, REAL *part, size_t c, size_t n)
{
    if (part != NULL && c % SUMMED_FIRST == 0) {
        memset(part, 0, n * sizeof *part);
    }
    return part != NULL ? part : out;
}

/* Adds the finished sum of up to SUMMED_FIRST channels to the output. */
static void end_channel(REAL *out, const REAL *part, size_t c, size_t channels, size_t n)
{
    if (part != NULL && (c % SUMMED_FIRST == SUMMED_FIRST - 1 || c + 1 == channels)) {
        add_rows(out, part, n);
    }
}

/* Room for a sum of n elements beside the output; NULL where all channels are one sum, or run->status is set. */
static REAL *alloc_part(struct vc_run *run, size_t channels, size_t n)
{
    REAL *part = channels <= SUMMED_FIRST ? NULL : vc_alloc_array(run->ctx, VC_TAG_TILES, n + 1, sizeof *part);

    if (part == NULL && channels > SUMMED_FIRST) {
        run->status = VC_E_NOMEM;
    }
    return part;
}

/* y[n, f, o] = bias[f] + sum over c and k of weights[f, c, k] * x[n, c of the group, o * stride - before + k *
 * dilation]. Sums of SUMMED_FIRST channels, each in the order of c, then k; then the sum of these; the bias last. */
RUN(conv)
{
    const struct vc_run_value *x = run->in[0];
    const struct vc_run_value *weights = run->in[1];
    size_t groups = (size_t)vc_node_int(run->node, "group", 1);
    size_t filters = (size_t)weights->shape[0];
    size_t channels = (size_t)weights->shape[1];
    size_t all = (size_t)x->shape[1];
    struct vc_window w;
    REAL *out;

    VC_LEAVE_IF(
        all % groups != 0 || filters % groups != 0 || all / groups != channels,
        vc_run_fail(run, "%zu channels in %zu groups do not fit weights of %zu channels", all, groups, channels));
    if (!vc_run_expect(run, 2, "bias", filters) || !vc_run_window(run, weights->shape + 2, false, &w)) {
        return;
    }
    out = out_of_window(run, weights->shape[0], w.out);
    if (out == NULL || run->out[0].n == 0) {
        return;
    }
    REAL *part = alloc_part(run, channels, volume(w.out));
    memset(out, 0, run->out[0].n * sizeof *out);
    for (size_t i = 0; run->status == VC_OK && i < (size_t)x->shape[0] * filters; i++) {
        REAL *to = out + i * volume(w.out);
        size_t f = i % filters;

        for (size_t c = 0; c < channels; c++) {
            size_t from = i / filters * all + f / (filters / groups) * channels + c;

            add_window(&w, (const REAL *)weights->data + (f * channels + c) * volume(w.kernel),
                       (REAL *)x->data + from * volume(w.in), begin_channel(to, part, c, volume(w.out)), false);
            end_channel(to, part, c, channels, volume(w.out));
        }
    }
    vc_free(run->ctx, part);
    add_bias(run, out, filters, volume(w.out));
}

/* The transpose of a convolution: y[n, f, o * stride - before + k * dilation] += weights[c, f of the group, k] * x[n,
 * c, o]. Sums as those of conv. */
RUN(conv_transpose)
{
    const struct vc_run_value *x = run->in[0];
    const struct vc_run_value *weights = run->in[1];
    size_t groups = (size_t)vc_node_int(run->node, "group", 1);
    size_t each = (size_t)weights->shape[1]; /* filters of a group */
    size_t filters = each * groups;
    size_t channels = (size_t)x->shape[1];
    struct vc_window w;

    VC_LEAVE_IF(channels % groups != 0 || channels != (size_t)weights->shape[0],
                vc_run_fail(run, "%zu channels in %zu groups do not fit weights of %lld channels", channels, groups,
                            (long long)weights->shape[0]));
    if (!vc_run_expect(run, 2, "bias", filters) || !vc_run_window_transposed(run, weights->shape + 2, &w)) {
        return;
    }
    REAL *out = out_of_window(run, (int64_t)filters, w.in);
    if (out == NULL || run->out[0].n == 0) {
        return;
    }
    REAL *part = alloc_part(run, channels / groups, volume(w.in));
    memset(out, 0, run->out[0].n * sizeof *out);
    for (size_t i = 0; run->status == VC_OK && i < (size_t)x->shape[0] * filters; i++) {
        REAL *to = out + i * volume(w.in);
        size_t group = i % filters / each;

        for (size_t c = 0; c < channels / groups; c++) {
            size_t from = group * (channels / groups) + c;

            add_window(&w, (const REAL *)weights->data + (from * each + i % each) * volume(w.kernel),
                       begin_channel(to, part, c, volume(w.in)),
                       (REAL *)x->data + (i / filters * channels + from) * volume(w.out), true);
            end_channel(to, part, c, channels / groups, volume(w.in));
        }
    }
    vc_free(run->ctx, part);
    add_bias(run, out, filters, volume(w.in));
}
