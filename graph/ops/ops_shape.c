/* ops_shape.c - shapes of what gives the same elements another shape, and Shape and Size, whose elements are the
 * dimensions themselves: here shape arithmetic begins. */
#include "graph/ops/ops.h"

/* start and end count from the end if negative and are clamped, so that Shape(start = -2) of [batch, 3, h, w] is
 * {h, w}. */
void vc_infer_shape(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    int64_t n_dims = x->n_dims;
    int64_t from = vc_infer_int(in, "start", 0);
    int64_t to = vc_infer_int(in, "end", n_dims);

    from = from < 0 ? from + n_dims : from;
    to = to < 0 ? to + n_dims : to;
    from = from < 0 ? 0 : from > n_dims ? n_dims : from;
    to = to < from ? from : to > n_dims ? n_dims : to;
    struct vc_dim n = vc_dim_number(to - from);
    vc_infer_out(in, 0, VC_DTYPE_I64, &n, 1);
    vc_infer_out_elems(in, 0, x->shape == NULL ? NULL : x->shape + from, (size_t)(to - from));
}

void vc_infer_size(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    struct vc_dim all = vc_dim_product(vc_infer_dims(in), x->shape, x->n_dims);

    vc_infer_out(in, 0, VC_DTYPE_I64, NULL, 0);
    vc_infer_out_elems(in, 0, &all, 1);
}

/* Output 0 with the elements of input 0 in another shape; known elements stay known. */
static void reshaped(struct vc_infer *in, const struct vc_dim *shape, unsigned n_dims)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    size_t n;
    const struct vc_dim *known = vc_infer_all_elems(in, 0, &n);

    vc_infer_out(in, 0, x->dtype, shape, n_dims);
    if (known != NULL) {
        vc_infer_out_elems(in, 0, known, n);
    }
}

void vc_infer_identity(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);

    reshaped(in, x->shape, x->n_dims);
}

/* Nothing is dropped when a model is run: ratio and training_mode say nothing. */
void vc_infer_dropout(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);

    vc_infer_int(in, "seed", 0);
    vc_infer_out(in, 0, x->dtype, x->shape, x->n_dims);
    vc_infer_out(in, 1, VC_DTYPE_BOOL, x->shape, x->n_dims);
}

/* [2, 3, 4] with axis 1 becomes [2, 12]; axis n_dims is allowed and gives [24, 1]. */
void vc_infer_flatten(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    int64_t axis = vc_infer_int(in, "axis", 1);
    unsigned at = axis == (int64_t)x->n_dims ? x->n_dims : vc_infer_axis(in, axis, x->n_dims);
    struct vc_dim shape[2];

    if (!in->failed) {
        shape[0] = vc_dim_product(vc_infer_dims(in), x->shape, at);
        shape[1] = vc_dim_product(vc_infer_dims(in), x->shape + at, x->n_dims - at);
        vc_infer_out(in, 0, x->dtype, shape, 2);
    }
}

/* Without a list of axes all dimensions go that are 1 whatever the sizes of inputs are. */
void vc_infer_squeeze(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    bool marked[VC_GRAPH_MAX_DIMS];
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    unsigned n_dims = 0;
    size_t n;

    if (!vc_infer_axes(in, 1, x->n_dims, marked, &n)) {
        return;
    }
    for (unsigned k = 0; k < x->n_dims; k++) {
        bool one = vc_dim_is(x->shape[k], 1);

        VC_LEAVE_IF(
            marked[k] && vc_dim_is_number(x->shape[k]) && !one,
            vc_infer_fail(in, "dimension %u has size %lld and cannot be left out", k, (long long)x->shape[k].size));
        if (!(vc_infer_in(in, 1) != NULL ? marked[k] : one)) {
            shape[n_dims++] = x->shape[k];
        }
    }
    reshaped(in, shape, n_dims);
}

void vc_infer_unsqueeze(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    bool marked[VC_GRAPH_MAX_DIMS];
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    size_t n;
    unsigned from = 0;

    vc_infer_elems(in, 1, &n);
    if (x->n_dims + n > VC_GRAPH_MAX_DIMS) {
        vc_infer_fail(in, "the output would have %zu dimensions; %d are supported", x->n_dims + n, VC_GRAPH_MAX_DIMS);
        return;
    }
    if (vc_infer_axes(in, 1, x->n_dims + (unsigned)n, marked, &n)) {
        for (unsigned k = 0; k < x->n_dims + n; k++) {
            shape[k] = marked[k] ? vc_dim_number(1) : x->shape[from++];
        }
        reshaped(in, shape, x->n_dims + (unsigned)n);
    }
}

/* What the dimension -1 is: all elements divided by the product of the other dimensions. The quotient has to be
 * exact for numbers; with symbols it may stay a quotient, which sizes.c checks for each run. */
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

/* ONNX: 0 takes the input's dimension at that place (unless allowzero), one -1 is computed. Element counts that
 * differ for all sizes are refused at once; others at the run. */
void vc_infer_reshape(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    bool zero = vc_infer_int(in, "allowzero", 0) != 0;
    size_t n;
    const struct vc_dim *wanted = vc_infer_elems(in, 1, &n);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    size_t open = (size_t)-1;

    if (!vc_infer_types(in, "ai") || !vc_infer_rank(in, 1, 1, 1)) {
        return;
    }
    VC_LEAVE_IF(wanted == NULL || n > VC_GRAPH_MAX_DIMS,
                vc_infer_fail(in, wanted == NULL ? "the shape is computed from values, not from the sizes of inputs"
                                                 : "the shape has too many dimensions"));
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
    struct vc_dim all = vc_dim_product(vc_infer_dims(in), x->shape, x->n_dims);
    struct vc_dim made = vc_dim_product(vc_infer_dims(in), shape, (unsigned)n);
    if (vc_dim_differ(vc_infer_dims(in), all, made)) {
        char text[2][128];

        vc_infer_fail(in, "%s elements cannot have a shape of %s",
                      vc_dim_text(vc_infer_dims(in), all, text[0], sizeof text[0]),
                      vc_dim_text(vc_infer_dims(in), made, text[1], sizeof text[1]));
    }
    reshaped(in, shape, (unsigned)n);
}
