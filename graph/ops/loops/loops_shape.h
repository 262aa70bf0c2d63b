/* loops_shape.h - part of op_loops.h: shapes, and elements that stay as they lie.
 *
 * Shape, Size and the shape inputs of Reshape are known when the graph is built in most graphs and never run; these
 * loops are for the others. */

RUN(shape)
{
    const struct vc_run_value *x = run->in[0];
    int64_t from = vc_node_int(run->node, "start", 0);
    int64_t to = vc_node_int(run->node, "end", x->n_dims);

    from = from < 0 ? from + x->n_dims : from;
    to = to < 0 ? to + x->n_dims : to;
    from = from < 0 ? 0 : from > x->n_dims ? x->n_dims : from;
    to = to < from ? from : to > x->n_dims ? x->n_dims : to;
    int64_t n = to - from;
    int64_t *out = vc_run_out(run, 0, false, &n, 1);
    for (int64_t k = 0; out != NULL && k < n; k++) {
        out[k] = x->shape[from + k];
    }
}

RUN(size)
{
    int64_t *out = vc_run_out(run, 0, false, NULL, 0);

    if (out != NULL) {
        *out = (int64_t)run->in[0]->n;
    }
}

RUN(identity)
{
    reshaped(run, run->in[0]->shape, run->in[0]->n_dims);
}

/* The mask says that every element stays. */
RUN(dropout)
{
    reshaped(run, run->in[0]->shape, run->in[0]->n_dims);
    int64_t *mask = vc_run_out(run, 1, false, run->in[0]->shape, run->in[0]->n_dims);
    for (size_t i = 0; mask != NULL && i < run->in[0]->n; i++) {
        mask[i] = 1;
    }
}

RUN(flatten)
{
    const struct vc_run_value *x = run->in[0];
    unsigned axis = vc_run_axis(vc_node_int(run->node, "axis", 1), x->n_dims);
    int64_t shape[2] = {1, 1};

    for (unsigned k = 0; k < x->n_dims; k++) {
        if (__builtin_mul_overflow(shape[k >= axis], x->shape[k], &shape[k >= axis])) {
            vc_run_fail(run, "the output's size overflows");
        }
    }
    reshaped(run, shape, 2);
}

RUN(squeeze)
{
    const struct vc_run_value *x = run->in[0];
    const struct vc_dim *stated = run->graph->values[run->node->inputs[0]].shape;
    bool given = run->n_in > 1 && run->in[1] != NULL;
    bool marked[VC_GRAPH_MAX_DIMS];
    int64_t shape[VC_GRAPH_MAX_DIMS];
    unsigned n_dims = 0;

    vc_run_axes(run, 1, x->n_dims, marked);
    for (unsigned k = 0; k < x->n_dims; k++) {
        if (!(given ? marked[k] : vc_dim_is_number(stated[k]) && stated[k].size == 1)) {
            shape[n_dims++] = x->shape[k];
        }
    }
    reshaped(run, shape, n_dims);
}

RUN(unsqueeze)
{
    const struct vc_run_value *x = run->in[0];
    unsigned n_dims = x->n_dims + (unsigned)run->in[1]->n;
    bool marked[VC_GRAPH_MAX_DIMS];
    int64_t shape[VC_GRAPH_MAX_DIMS];
    unsigned from = 0;

    vc_run_axes(run, 1, n_dims, marked);
    for (unsigned k = 0; k < n_dims; k++) {
        shape[k] = marked[k] ? 1 : x->shape[from++];
    }
    reshaped(run, shape, n_dims);
}

/* 0 in the shape: as the input's (unless allowzero); one -1: what is left. */
RUN(reshape)
{
    const struct vc_run_value *x = run->in[0];
    const int64_t *wanted = run->in[1]->data;
    int64_t shape[VC_GRAPH_MAX_DIMS];
    unsigned n_dims = (unsigned)run->in[1]->n;
    bool zero = vc_node_int(run->node, "allowzero", 0) != 0;
    int64_t known = 1;
    int open = -1;

    for (unsigned k = 0; k < n_dims; k++) {
        shape[k] = wanted[k] == 0 && !zero && k < x->n_dims ? x->shape[k] : wanted[k];
        if (shape[k] == -1 && open < 0) {
            open = (int)k;
        } else if (shape[k] < 0 || __builtin_mul_overflow(known, shape[k], &known)) {
            vc_run_fail(run, "%zu elements do not have the shape asked for", x->n);
            return;
        }
    }
    if (open >= 0) {
        shape[open] = known == 0 ? 0 : (int64_t)x->n / known;
    }
    reshaped(run, shape, n_dims);
}
