/* ops_shape.c - shapes of what moves elements and computes nothing, and the elements of shapes. */
#include "graph/ops/ops.h"

void vc_infer_shape(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    int64_t n_dims = x->n_dims;
    int64_t from = vc_infer_int(in, "start", 0);
    int64_t to = vc_infer_int(in, "end", n_dims);
    struct vc_dim n;

    from = from < 0 ? from + n_dims : from;
    to = to < 0 ? to + n_dims : to;
    from = from < 0 ? 0 : from > n_dims ? n_dims : from;
    to = to < from ? from : to > n_dims ? n_dims : to;
    n = vc_dim_number(to - from);
    vc_infer_out(in, 0, VC_DTYPE_I64, &n, 1);
    vc_infer_out_elems(in, 0, x->shape == NULL ? NULL : x->shape + from, (size_t)(to - from));
}

/* What the dimension -1 is: the elements that are left. */
static struct vc_dim open_dim(struct vc_infer *in, const struct vc_graph_value *x, const struct vc_dim *shape, size_t n,
                              size_t open)
{
    struct vc_dims *dims = vc_infer_dims(in);
    struct vc_dim all = vc_dim_product(dims, x->shape, x->n_dims);
    struct vc_dim known = vc_dim_number(1);

    for (size_t k = 0; k < n; k++) {
        known = k == open ? known : vc_dim_multiply(dims, known, shape[k]);
    }
    if (vc_dim_is_number(known) && known.size == 0) {
        return vc_dim_number(0);
    }
    if (vc_dim_is_number(all) && vc_dim_is_number(known) && all.size % known.size != 0) {
        vc_infer_fail(in, "%lld elements cannot be divided into parts of %lld", (long long)all.size,
                      (long long)known.size);
    }
    return vc_dim_divide(dims, all, known);
}

void vc_infer_reshape(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    bool zero = vc_infer_int(in, "allowzero", 0) != 0;
    size_t n;
    const struct vc_dim *wanted = vc_infer_elems(in, 1, &n);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    struct vc_dim all;
    struct vc_dim made;
    size_t open = (size_t)-1;
    size_t n_known;
    const struct vc_dim *known = vc_infer_elems(in, 0, &n_known);

    if (wanted == NULL || n > VC_GRAPH_MAX_DIMS) {
        vc_infer_fail(in, wanted == NULL ? "the shape is computed from values, not from the sizes of inputs"
                                         : "the shape has too many dimensions");
        return;
    }
    for (size_t k = 0; k < n; k++) {
        bool number = vc_dim_is_number(wanted[k]);

        shape[k] = number && wanted[k].size == 0 && !zero && k < x->n_dims ? x->shape[k] : wanted[k];
        if (number && wanted[k].size == -1 && open == (size_t)-1) {
            open = k;
        } else if (vc_dim_is_number(shape[k]) && shape[k].size < 0) {
            vc_infer_fail(in, "dimension %zu of the shape is %lld", k, (long long)shape[k].size);
        }
    }
    if (in->failed) {
        return;
    }
    if (open != (size_t)-1) {
        shape[open] = open_dim(in, x, shape, n, open);
    }
    all = vc_dim_product(vc_infer_dims(in), x->shape, x->n_dims);
    made = vc_dim_product(vc_infer_dims(in), shape, (unsigned)n);
    if (vc_dim_is_number(all) && vc_dim_is_number(made) && all.size != made.size) {
        vc_infer_fail(in, "%lld elements cannot have a shape of %lld", (long long)all.size, (long long)made.size);
    }
    vc_infer_out(in, 0, x->dtype, shape, (unsigned)n);
    if (known != NULL && n <= 1) {
        vc_infer_out_elems(in, 0, known, n_known);
    }
}
