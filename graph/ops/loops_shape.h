/* loops_shape.h - part of loops.h: what moves elements and computes nothing. */

RUN(shape)
{
    const struct vc_run_value *x = run->in[0];
    int64_t from = vc_run_int(run, "start", 0);
    int64_t to = vc_run_int(run, "end", x->n_dims);
    int64_t n;
    int64_t *out;

    from = from < 0 ? from + x->n_dims : from;
    to = to < 0 ? to + x->n_dims : to;
    from = from < 0 ? 0 : from > x->n_dims ? x->n_dims : from;
    to = to < from ? from : to > x->n_dims ? x->n_dims : to;
    n = to - from;
    out = vc_run_out(run, 0, false, &n, 1);
    for (int64_t k = 0; out != NULL && k < n; k++) {
        out[k] = x->shape[from + k];
    }
}

/* The elements stay as they lie. 0 in the shape: as the input's (unless allowzero); one -1: what is left. */
RUN(reshape)
{
    const struct vc_run_value *x = run->in[0];
    const int64_t *wanted = run->in[1]->data;
    int64_t shape[VC_GRAPH_MAX_DIMS];
    unsigned n_dims = (unsigned)run->in[1]->n;
    bool zero = vc_run_int(run, "allowzero", 0) != 0;
    size_t known = 1;
    int open = -1;
    char *out;

    for (unsigned k = 0; k < n_dims; k++) {
        shape[k] = wanted[k] == 0 && !zero && k < x->n_dims ? x->shape[k] : wanted[k];
        if (shape[k] == -1) {
            open = (int)k;
        } else {
            known *= (size_t)shape[k];
        }
    }
    if (open >= 0) {
        shape[open] = known == 0 ? 0 : (int64_t)(x->n / known);
        known *= (size_t)shape[open];
    }
    if (known != x->n) {
        vc_run_fail(run, "%zu elements do not have the shape asked for", x->n);
        return;
    }
    out = vc_run_out(run, 0, x->is_real, shape, n_dims);
    if (out != NULL && x->n != 0) {
        memcpy(out, x->data, x->n * (x->is_real ? sizeof(REAL) : sizeof(int64_t)));
    }
}
