/* loops_pool.h - part of op_loops.h: pools. */

enum pool { POOL_MAX, POOL_AVERAGE };

/* The elements of window `o` that are in the input, in their order; and how many the window has with padding, but
 * without what hangs over the padding's end. */
static REAL pool_window(const struct vc_window *w, const REAL *x, const int64_t *o, enum pool kind, bool with_pads)
{
    REAL all = kind == POOL_MAX ? -(REAL)INFINITY : 0;
    size_t n = 0;
    size_t padded = 1;

    for (int64_t d = 0; d < w->kernel[0]; d++) {
        int64_t i = vc_window_place(w, 0, o[0], d);

        for (int64_t h = 0; i >= 0 && h < w->kernel[1]; h++) {
            int64_t j = vc_window_place(w, 1, o[1], h);

            for (int64_t v = 0; j >= 0 && v < w->kernel[2]; v++) {
                int64_t k = vc_window_place(w, 2, o[2], v);

                if (k >= 0) {
                    REAL e = x[(i * w->in[1] + j) * w->in[2] + k];

                    all = kind != POOL_MAX ? all + e : e > all || e != e ? e : all;
                    n++;
                }
            }
        }
    }
    for (unsigned k = 0; k < 3 && with_pads; k++) {
        int64_t first = o[k] * w->stride[k] - w->before[k];
        int64_t inside = 0;

        for (int64_t at = 0; at < w->kernel[k]; at++) {
            inside += first + at * w->dilation[k] < w->in[k] + w->behind[k];
        }
        padded *= (size_t)inside;
    }
    return kind == POOL_MAX ? all : all / (REAL)(with_pads ? padded : n);
}

static void pool(struct vc_run *run, enum pool kind)
{
    const struct vc_run_value *x = run->in[0];
    bool with_pads = vc_run_int(run, "count_include_pad", 0) != 0;
    struct vc_window w;
    size_t inner;
    REAL *out;

    if (!vc_run_window(run, NULL, vc_run_int(run, "ceil_mode", 0) != 0, &w)) {
        return;
    }
    out = out_of_window(run, x->shape[1], w.out);
    inner = volume(w.out);
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
    REAL *out;

    for (unsigned k = 0; k < x->n_dims; k++) {
        shape[k] = k < 2 ? x->shape[k] : 1;
    }
    out = vc_run_out(run, 0, true, shape, x->n_dims);
    for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {
        REAL all = kind == POOL_MAX ? -(REAL)INFINITY : 0;

        for (size_t k = 0; k < inner; k++) {
            REAL e = ((const REAL *)x->data)[i * inner + k];

            all = kind != POOL_MAX ? all + e : e > all || e != e ? e : all;
        }
        out[i] = kind == POOL_MAX ? all : all / (REAL)inner;
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
