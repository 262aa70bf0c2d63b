/* loops_pool.h - part of op_loops.h: pools. */

enum pool { POOL_MAX, POOL_AVERAGE };

/* The elements of window `o` that are in the input, in their order; and how many the window has with padding, but
 * without what hangs over the padding's end. */
static REAL pool_window(const struct vc_window *w, const REAL *x, const int64_t *o, enum pool kind, bool with_pads)
{
    REAL all = kind == POOL_MAX ? -(REAL)INFINITY : 0;
    double padded = 1;
    size_t n = 0;
    int64_t first[3], end[3];

    for (unsigned k = 0; k < 3; k++) {
        int64_t begin = o[k] * w->stride[k] - w->before[k];
        int64_t room = w->in[k] + w->behind[k] - begin; /* up to the end of the padding */
        int64_t inside = room <= 0 ? 0 : (room - 1) / w->dilation[k] + 1;

        vc_window_inside(w, k, o[k], &first[k], &end[k]);
        padded *= (double)(inside < w->kernel[k] ? inside : w->kernel[k]);
    }
    for (int64_t d = first[0]; d < end[0]; d++) {
        int64_t i = vc_window_place(w, 0, o[0], d);

        for (int64_t h = first[1]; h < end[1]; h++) {
            int64_t j = vc_window_place(w, 1, o[1], h);

            for (int64_t v = first[2]; v < end[2]; v++) {
                REAL e = x[(i * w->in[1] + j) * w->in[2] + vc_window_place(w, 2, o[2], v)];

                all = kind != POOL_MAX ? all + e : e > all || e != e ? e : all;
                n++;
            }
        }
    }
    return kind == POOL_MAX ? all : all / (with_pads ? (REAL)padded : (REAL)n);
}

/* Output i is window (i % inner) of channel (i / inner); o[] are its three coordinates. */
static void pool(struct vc_run *run, enum pool kind)
{
    const struct vc_run_value *x = run->in[0];
    bool with_pads = vc_node_int(run->node, "count_include_pad", 0) != 0;
    struct vc_window w;
    REAL *out;

    if (!vc_run_window(run, NULL, vc_node_int(run->node, "ceil_mode", 0) != 0, &w)) {
        return;
    }
    out = out_of_window(run, x->shape[1], w.out);
    size_t inner = volume(w.out);
    for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {
        size_t at = i % inner;
        int64_t o[3] = {(int64_t)(at / (size_t)w.out[2] / (size_t)w.out[1]),
                        (int64_t)(at / (size_t)w.out[2] % (size_t)w.out[1]), (int64_t)(at % (size_t)w.out[2])};

        out[i] = pool_window(&w, (const REAL *)x->data + i / inner * volume(w.in), o, kind, with_pads);
    }
}

RUN(max_pool)
{
    pool(run, POOL_MAX);
}

RUN(average_pool)
{
    pool(run, POOL_AVERAGE);
}

static void global_pool(struct vc_run *run, enum pool kind)
{
    const struct vc_run_value *x = run->in[0];
    size_t inner = vc_run_count(x, 2, x->n_dims);
    int64_t shape[VC_GRAPH_MAX_DIMS];

    for (unsigned k = 0; k < x->n_dims; k++) {
        shape[k] = k < 2 ? x->shape[k] : 1;
    }
    REAL *out = vc_run_out(run, 0, true, shape, x->n_dims);
    for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {
        const REAL *from = (const REAL *)x->data + i * inner;

        out[i] = kind == POOL_MAX ? -(REAL)INFINITY : sum_of(from, inner, 1) / (REAL)inner;
        for (size_t k = 0; kind == POOL_MAX && k < inner; k++) {
            out[i] = from[k] > out[i] || from[k] != from[k] ? from[k] : out[i];
        }
    }
}

RUN(global_average_pool)
{
    global_pool(run, POOL_AVERAGE);
}

RUN(global_max_pool)
{
    global_pool(run, POOL_MAX);
}
