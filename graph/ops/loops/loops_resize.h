/* loops_resize.h - part of op_loops.h: Resize. Which elements an element is a sum of is said by graph/ops/resize.h. */

/* The rows of all dimensions for one element of the output. */
struct resize_rows {
    size_t n[VC_GRAPH_MAX_DIMS];
    int64_t *from[VC_GRAPH_MAX_DIMS];
    double *weight[VC_GRAPH_MAX_DIMS];
};

/* The sum over all combinations, the first dimension fastest. */
static REAL resize_sum(const struct vc_run_view *view, const REAL *x, const struct resize_rows *rows)
{
    size_t n = 1;
    REAL sum = 0;

    for (unsigned k = 0; k < view->n_dims; k++) {
        n *= rows->n[k];
    }
    for (size_t i = 0; i < n; i++) {
        REAL all = 1;
        int64_t place = 0;
        size_t left = i;

        for (unsigned k = 0; k < view->n_dims; left /= rows->n[k], k++) {
            all *= (REAL)rows->weight[k][left % rows->n[k]];
            place += rows->from[k][left % rows->n[k]] * view->step[k];
        }
        sum += all * x[place];
    }
    return sum;
}

/* The sizes of the output; false: failed. */
static bool resize_shape(struct vc_run *run, int64_t *shape)
{
    const struct vc_run_value *x = run->in[0];
    const struct vc_dim *stated = run->graph->values[run->node->outputs[0]].shape;

    for (unsigned k = 0; k < x->n_dims; k++) {
        shape[k] = vc_dim_value(&run->graph->dims, stated[k]);
        VC_LEAVE_WITH(
            shape[k] < 0 || (x->shape[k] == 0 && shape[k] != 0),
            vc_run_fail(run, "a dimension of %lld cannot become %lld", (long long)x->shape[k], (long long)shape[k]),
            false);
    }
    return true;
}

RUN(resize)
{
    const struct vc_run_value *x = run->in[0];
    struct vc_run_view view = vc_run_view_of(x);
    struct vc_run_walk walk = {.n_dims = x->n_dims};
    struct vc_resize_axis axes[VC_GRAPH_MAX_DIMS];
    struct resize_rows rows;
    const char *why;
    size_t most = 1;

    if (!resize_shape(run, walk.shape)) {
        return;
    }
    VC_LEAVE_IF(!vc_resize_axes(run->graph, run->node, x->shape, walk.shape, x->n_dims, sizeof(REAL) == 8, axes, &why),
                vc_run_fail(run, "%s", why));
    REAL *out = vc_run_out(run, 0, true, walk.shape, x->n_dims);
    for (unsigned k = 0; k < x->n_dims; k++) {
        most += vc_resize_most(&axes[k]);
    }
    int64_t *from = vc_alloc_array(run->ctx, VC_TAG_MISC, most, sizeof *from + sizeof(double));
    double *weight = (double *)(void *)(from + (from != NULL ? most : 0));
    run->status = from == NULL ? VC_E_NOMEM : run->status;
    for (unsigned k = 0, at = 0; from != NULL && k < x->n_dims; at += (unsigned)vc_resize_most(&axes[k]), k++) {
        rows.from[k] = from + at;
        rows.weight[k] = weight + at;
    }
    for (size_t i = 0; out != NULL && from != NULL && i < run->out[0].n; i++, vc_run_walk_next(&walk)) {
        for (unsigned k = 0; k < x->n_dims; k++) {
            rows.n[k] = vc_resize_row(&axes[k], walk.at[k], rows.from[k], rows.weight[k]);
        }
        out[i] = resize_sum(&view, x->data, &rows);
    }
    vc_free(run->ctx, from);
}
