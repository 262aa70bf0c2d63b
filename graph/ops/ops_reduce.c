/* ops_reduce.c - shapes of what makes fewer elements along axes, or runs along one. */

#include "graph/ops/ops.h"

/* One number of integers that are all known: ReduceProd of a shape is the number of elements. */
static void reduced_elem(struct vc_infer *in, char op)
{
    struct vc_dims *dims = vc_infer_dims(in);
    struct vc_dim all = vc_dim_number(op == '*');
    size_t n;
    const struct vc_dim *x = vc_infer_elems(in, 0, &n);

    if (x == NULL || (op != '*' && op != '+') || vc_infer_in(in, 0)->n_dims != 1) {
        return;
    }
    for (size_t k = 0; k < n; k++) {
        all = op == '*' ? vc_dim_multiply(dims, all, x[k]) : vc_dim_add(dims, all, x[k]);
    }
    vc_infer_out_elems(in, 0, &all, 1);
}

/* Axes are an input in set 18 and later. An empty list means all axes, or none with noop_with_empty_axes. Min and
 * Max (op 'm') of no elements have no value and are refused; sums of no elements are 0. */
static void infer_reduce(struct vc_infer *in, const char *types, char op)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    bool keep = vc_infer_int(in, "keepdims", 1) != 0;
    bool nothing = vc_infer_int(in, "noop_with_empty_axes", 0) != 0;
    bool marked[VC_GRAPH_MAX_DIMS];
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    unsigned n_dims = 0;
    size_t n;

    if (!vc_infer_types(in, types) || !vc_infer_axes(in, 1, x->n_dims, marked, &n)) {
        return;
    }
    for (unsigned k = 0; k < x->n_dims; k++) {
        bool goes = n == 0 ? !nothing : marked[k];

        VC_LEAVE_IF(goes && op == 'm' && vc_dim_is(x->shape[k], 0),
                    vc_infer_fail(in, "dimension %u has no elements to choose from", k));
        if (!goes || keep) {
            shape[n_dims++] = goes ? vc_dim_number(1) : x->shape[k];
        }
    }
    vc_infer_out(in, 0, x->dtype, shape, n_dims);
    if (n != 0 || !nothing) {
        reduced_elem(in, op);
    }
}

#define REDUCE(id, types, op)               \
    void vc_infer_##id(struct vc_infer *in) \
    {                                       \
        infer_reduce(in, types, op);        \
    }

REDUCE(reduce_sum, "ni", '+')
REDUCE(reduce_prod, "ni", '*')
REDUCE(reduce_max, "ni", 'm')
REDUCE(reduce_min, "ni", 'm')
REDUCE(reduce_mean, "fi", ' ')
REDUCE(reduce_log_sum_exp, "fi", ' ')
#undef REDUCE

/* The index of the largest or smallest element along one axis, which stays with size 1 unless keepdims is
 * 0. */
static void infer_arg(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    bool keep = vc_infer_int(in, "keepdims", 1) != 0;
    unsigned axis = vc_infer_axis(in, vc_infer_int(in, "axis", 0), x->n_dims);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    unsigned n_dims = 0;

    vc_infer_int(in, "select_last_index", 0);
    if (in->failed || !vc_infer_types(in, "n")) {
        return;
    }
    VC_LEAVE_IF(vc_dim_is(x->shape[axis], 0), vc_infer_fail(in, "dimension %u has no elements to choose from", axis));
    for (unsigned k = 0; k < x->n_dims; k++) {
        if (k != axis || keep) {
            shape[n_dims++] = k != axis ? x->shape[k] : vc_dim_number(1);
        }
    }
    vc_infer_out(in, 0, VC_DTYPE_I64, shape, n_dims);
}

void vc_infer_arg_max(struct vc_infer *in)
{
    infer_arg(in);
}

void vc_infer_arg_min(struct vc_infer *in)
{
    infer_arg(in);
}

void vc_infer_cumsum(struct vc_infer *in)
{
    int64_t axis;
    size_t n;

    vc_infer_int(in, "exclusive", 0);
    vc_infer_int(in, "reverse", 0);
    if (vc_infer_types(in, "ni") && vc_infer_single(in, 1, "the axis") &&
        vc_infer_numbers(in, 1, "the axis", &axis, 1, &n)) {
        vc_infer_axis(in, axis, vc_infer_in(in, 0)->n_dims);
        vc_infer_out_like(in);
    }
}

/* k may depend on sizes of inputs; where both are numbers k must not exceed the dimension. */
void vc_infer_top_k(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    enum vc_dtype dtype = x->dtype;
    unsigned n_dims = x->n_dims;
    unsigned axis = vc_infer_axis(in, vc_infer_int(in, "axis", -1), x->n_dims);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    size_t n;
    const struct vc_dim *k = vc_infer_elems(in, 1, &n);

    vc_infer_int(in, "largest", 1);
    vc_infer_int(in, "sorted", 1);
    if (in->failed || !vc_infer_types(in, "ni")) {
        return;
    }
    VC_LEAVE_IF(
        k == NULL || n != 1,
        vc_infer_fail(in, k == NULL ? "k is computed from values, not from the sizes of inputs" : "k is no number"));
    VC_LEAVE_IF(vc_dim_is_number(k[0]) && vc_dim_is_number(x->shape[axis]) && k[0].size > x->shape[axis].size,
                vc_infer_fail(in, "k is %lld, and there are %lld elements", (long long)k[0].size,
                              (long long)x->shape[axis].size));
    memcpy(shape, x->shape, n_dims * sizeof *shape);
    shape[axis] = k[0];
    vc_infer_out(in, 0, dtype, shape, n_dims);
    vc_infer_out(in, 1, VC_DTYPE_I64, shape, n_dims);
}
