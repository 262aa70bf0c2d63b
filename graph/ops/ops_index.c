/* ops_index.c - shapes of what looks elements up by numbers, and of what makes elements from numbers.
 * Indices themselves are data: the loops check them (loops_index.h, place_of).
 *
 *     Gather            data [V, C], indices [b, s], axis 0              [b, s, C]            rows of an embedding
 *     GatherElements    data [b, V], indices [b, k], axis 1              [b, k]               one number for each element
 *     GatherND          data [b, s, C], indices [m, 2]                   [m, C]               a tuple for each place
 *     ScatterND         data [b, s, C], indices [m, 2], updates [m, C]   [b, s, C]
 *     ScatterElements   data [b, V], indices and updates [b, k]          [b, V]
 *     OneHot            indices [b, s], depth V                          [b, s, V]
 *     ConstantOfShape   a list {b, 12}                                   [b, 12]
 *     Range             0, s, 1                                          [s]
 *     Trilu             [b, s, s]                                        [b, s, s]
 *
 * Gather, ConstantOfShape and Range also compute known elements, which is how exporters take a shape apart
 * and put it together: Shape, Gather 0, Unsqueeze, Concat, Reshape. */

#include "graph/ops/ops.h"

/* ---- Gather and its relatives ---- */

/* {batch, 12, 64} with the index 1 is {12}: how exporters take one dimension of a shape.
 * An index that depends on an input, or lies outside, leaves the elements unknown; the loop reports the
 * latter at the first run. */
static void gather_elems(struct vc_infer *in)
{
    struct vc_dim elems[VC_MAX_ELEMS];
    size_t n_x, n;
    const struct vc_dim *x = vc_infer_elems(in, 0, &n_x);
    const struct vc_dim *at = vc_infer_elems(in, 1, &n);

    if (x == NULL || at == NULL) {
        return;
    }
    for (size_t k = 0; k < n; k++) {
        int64_t from = vc_dim_is_number(at[k]) ? at[k].size : INT64_MAX;

        from = from < 0 ? from + (int64_t)n_x : from;
        if (from < 0 || from >= (int64_t)n_x) {
            return;
        }
        elems[k] = x[from];
    }
    vc_infer_out_elems(in, 0, elems, n);
}

/* [a..., size, b...] with indices [i...] is [a..., i..., b...]. The rank is checked before shape[] is filled. */
void vc_infer_gather(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const struct vc_graph_value *at = vc_infer_in(in, 1);
    unsigned axis = vc_infer_axis(in, vc_infer_int(in, "axis", 0), x->n_dims);
    struct vc_dim shape[2 * VC_GRAPH_MAX_DIMS];
    unsigned n_dims = x->n_dims + at->n_dims - 1;

    if (in->failed || !vc_infer_types(in, "ai")) {
        return;
    }
    if (n_dims > VC_GRAPH_MAX_DIMS) {
        vc_infer_fail(in, "the output would have %u dimensions; %d are supported", n_dims, VC_GRAPH_MAX_DIMS);
        return;
    }
    memcpy(shape, x->shape, axis * sizeof *shape);
    memcpy(shape + axis, at->shape, at->n_dims * sizeof *shape);
    memcpy(shape + axis + at->n_dims, x->shape + axis + 1, (x->n_dims - axis - 1) * sizeof *shape);
    vc_infer_out(in, 0, x->dtype, shape, n_dims);
    gather_elems(in);
}

/* The output has the shape of the indices, which may have any size along the axis, and no more than the data
 * along the others (within_shape of the loops). */
void vc_infer_gather_elements(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const struct vc_graph_value *at = vc_infer_in(in, 1);

    vc_infer_axis(in, vc_infer_int(in, "axis", 0), x->n_dims);
    if (!in->failed && vc_infer_types(in, "ai") && vc_infer_rank(in, 1, x->n_dims, x->n_dims)) {
        vc_infer_out(in, 0, x->dtype, at->shape, at->n_dims);
    }
}

/* How many numbers along the last dimension of input k name one element; 0 after a problem. The rank of the output
 * depends on it, so that it has to be a number. */
static unsigned tuple_size(struct vc_infer *in, unsigned k, unsigned most)
{
    const struct vc_graph_value *at = vc_infer_in(in, k);
    struct vc_dim last = at->n_dims != 0 ? at->shape[at->n_dims - 1] : vc_dim_number(0);

    VC_LEAVE_WITH(!vc_dim_is_number(last) || last.size < 1 || last.size > most,
                  vc_infer_fail(in, "the last dimension of '%s' has to be a number from 1 to %u", at->name, most), 0);
    return (unsigned)last.size;
}

/* Output: indices' shape without the last dimension, then what the tuple leaves of the input's dimensions.
 *     data [b, s, C], indices [b, m, 1], batch_dims 1     [b, m, C]: list b of indices looks into data[b]
 */
void vc_infer_gather_nd(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const struct vc_graph_value *at = vc_infer_in(in, 1);
    int64_t batch = vc_infer_int(in, "batch_dims", 0);
    struct vc_dim shape[2 * VC_GRAPH_MAX_DIMS];
    unsigned n_dims, tuple;

    if (!vc_infer_types(in, "ai")) {
        return;
    }
    VC_LEAVE_IF(batch < 0 || batch >= (int64_t)x->n_dims || batch >= (int64_t)at->n_dims,
                vc_infer_fail(in, "batch_dims is %lld", (long long)batch));
    tuple = tuple_size(in, 1, x->n_dims - (unsigned)batch);
    n_dims = at->n_dims - 1 + x->n_dims - (unsigned)batch - tuple;
    if (!in->failed && n_dims > VC_GRAPH_MAX_DIMS) {
        vc_infer_fail(in, "the output would have %u dimensions; %d are supported", n_dims, VC_GRAPH_MAX_DIMS);
    }
    if (in->failed) {
        return;
    }
    for (unsigned k = 0; k < batch; k++) {
        vc_infer_same(in, "the batch dimensions", x->shape[k], at->shape[k]);
    }
    memcpy(shape, at->shape, (at->n_dims - 1) * sizeof *shape);
    memcpy(shape + at->n_dims - 1, x->shape + batch + tuple, (x->n_dims - (unsigned)batch - tuple) * sizeof *shape);
    vc_infer_out(in, 0, x->dtype, shape, n_dims);
}

/* How updates are put where elements are already: "none" overwrites, the others combine. Truth values have
 * neither sum nor order here. */
static void check_reduction(struct vc_infer *in)
{
    const char *how = vc_infer_string(in, "reduction", "none");

    if (strcmp(how, "none") != 0 && strcmp(how, "add") != 0 && strcmp(how, "mul") != 0 && strcmp(how, "min") != 0 &&
        strcmp(how, "max") != 0) {
        vc_infer_fail(in, "the reduction '%s' is not supported", how);
    } else if (strcmp(how, "none") != 0 && vc_infer_in(in, 0)->dtype == VC_DTYPE_BOOL) {
        vc_infer_fail(in, "truth values cannot be reduced");
    }
}

/* Updates have the indices' shape without the tuple, then the dimensions of x behind the tuple.
 * The result has the type and shape of x, whatever is written. */
void vc_infer_scatter_nd(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const struct vc_graph_value *at = vc_infer_in(in, 1);
    const struct vc_graph_value *updates = vc_infer_in(in, 2);
    unsigned tuple;

    check_reduction(in);
    if (in->failed || !vc_infer_types(in, "aix")) {
        return;
    }
    tuple = tuple_size(in, 1, x->n_dims);
    if (in->failed || !vc_infer_rank(in, 2, at->n_dims - 1 + x->n_dims - tuple, at->n_dims - 1 + x->n_dims - tuple)) {
        return;
    }
    for (unsigned k = 0; k < updates->n_dims; k++) {
        vc_infer_same(in, "the shape of the updates", updates->shape[k],
                      k < at->n_dims - 1 ? at->shape[k] : x->shape[k - (at->n_dims - 1) + tuple]);
    }
    vc_infer_out_like(in);
}

/* Indices and updates have the same shape and x's rank. Along axes other than `axis` the indices must not be
 * larger than x, which the loops test (within_shape). */
void vc_infer_scatter_elements(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const struct vc_graph_value *at = vc_infer_in(in, 1);

    vc_infer_axis(in, vc_infer_int(in, "axis", 0), x->n_dims);
    check_reduction(in);
    if (in->failed || !vc_infer_types(in, "aix") || !vc_infer_rank(in, 1, x->n_dims, x->n_dims) ||
        !vc_infer_rank(in, 2, x->n_dims, x->n_dims)) {
        return;
    }
    for (unsigned k = 0; k < x->n_dims; k++) {
        vc_infer_same(in, "the shape of the updates", vc_infer_in(in, 2)->shape[k], at->shape[k]);
    }
    vc_infer_out_like(in);
}

/* The values are [off, on]; the dimension `depth` is inserted at the axis, by default as the last.
 *     indices [b, s], depth 5, axis -1     [b, s, 5]
 *     axis 1                               [b, 5, s]
 */
void vc_infer_one_hot(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const struct vc_graph_value *values = vc_infer_in(in, 2);
    size_t n;
    const struct vc_dim *depth = vc_infer_elems(in, 1, &n);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS + 1];
    unsigned axis = vc_infer_axis(in, vc_infer_int(in, "axis", -1), x->n_dims + 1);

    if (in->failed || !vc_infer_types(in, "iia") || !vc_infer_rank(in, 2, 1, 1)) {
        return;
    }
    VC_LEAVE_IF(depth == NULL || n != 1 || x->n_dims == VC_GRAPH_MAX_DIMS,
                vc_infer_fail(in, depth == NULL ? "the depth is computed from values, not from the sizes of inputs"
                                                : "the output has too many dimensions, or the depth too many numbers"));
    vc_infer_same(in, "the number of values, which are off and on", values->shape[0], vc_dim_number(2));
    memcpy(shape, x->shape, axis * sizeof *shape);
    shape[axis] = depth[0];
    memcpy(shape + axis + 1, x->shape + axis, (x->n_dims - axis) * sizeof *shape);
    vc_infer_out(in, 0, values->dtype, shape, x->n_dims + 1);
}

/* ---- what is made from numbers ---- */

/* The attribute value is the element: a float, or an integer. (A tensor of truth values: Expand one.)
 * A missing attribute is the float 0, as ONNX has it. Known elements are integers: a list of equal sizes,
 * as for the repeats of a Tile. */
void vc_infer_constant_of_shape(struct vc_infer *in)
{
    size_t n;
    const struct vc_dim *shape = vc_infer_elems(in, 0, &n);
    const struct vc_graph_node *node = &in->graph->nodes[in->index];
    bool integer = node->n_attrs != 0 && node->attrs[0].kind == VC_ATTR_INT;
    struct vc_dim elems[VC_MAX_ELEMS];
    struct vc_dim element;

    if (integer) {
        element = vc_dim_number(vc_infer_int(in, "value", 0));
    } else {
        vc_infer_float(in, "value", 0);
        element = vc_dim_bad();
    }
    if (!vc_infer_types(in, "i") || !vc_infer_rank(in, 0, 1, 1)) {
        return;
    }
    VC_LEAVE_IF(shape == NULL || n > VC_GRAPH_MAX_DIMS,
                vc_infer_fail(in, shape == NULL ? "the shape is computed from values, not from the sizes of inputs"
                                                : "the shape has too many dimensions"));
    vc_infer_out(in, 0, integer ? VC_DTYPE_I64 : VC_DTYPE_F32, shape, (unsigned)n);
    if (integer && n <= 1 && (n == 0 || (vc_dim_is_number(shape[0]) && shape[0].size <= VC_MAX_ELEMS))) {
        size_t all = n == 0 ? 1 : (size_t)shape[0].size;

        for (size_t k = 0; k < all && !in->failed; k++) {
            elems[k] = element;
        }
        vc_infer_out_elems(in, 0, elems, in->failed ? 0 : all);
    }
}

/* ceil((limit - start) / step), at least 0, on dimensions: Range(0, sequence, 1) has `sequence` elements.
 * The sum with stride - 1 before a division that rounds down makes it one that rounds up. */
static struct vc_dim range_size(struct vc_dims *dims, struct vc_dim start, struct vc_dim limit, int64_t step)
{
    struct vc_dim length = step > 0 ? vc_dim_subtract(dims, limit, start) : vc_dim_subtract(dims, start, limit);
    int64_t stride = step > 0 ? step : -step;

    length = vc_dim_divide(dims, vc_dim_add(dims, length, vc_dim_number(stride - 1)), vc_dim_number(stride));
    return vc_dim_is_number(length) && length.size < 0 ? vc_dim_number(0) : length;
}

/* Integers may depend on sizes of inputs; floats have to be constants, since the count is a floating-point
 * quotient.
 * A step that is no constant is refused, since its sign decides which way to count. */
void vc_infer_range(struct vc_infer *in)
{
    struct vc_dim elems[VC_MAX_ELEMS];
    struct vc_dim size;
    int64_t step;
    size_t n[3];
    const struct vc_dim *from = vc_infer_elems(in, 0, &n[0]);
    const struct vc_dim *to = vc_infer_elems(in, 1, &n[1]);

    if (!vc_infer_types(in, "nx") || !vc_infer_single(in, 0, "the start") || !vc_infer_single(in, 1, "the limit") ||
        !vc_infer_single(in, 2, "the step")) {
        return;
    }
    if (vc_infer_in(in, 0)->dtype == VC_DTYPE_F32 &&
        (from == NULL || to == NULL || vc_infer_elems(in, 2, &n[2]) == NULL)) {
        double ends[3], count;

        for (unsigned k = 0; k < 3; k++) {
            if (!vc_infer_floats(in, k, "the range", &ends[k], 1, &n[0])) {
                return;
            }
        }
        count = vc_range_count(ends[0], ends[1], ends[2]);
        VC_LEAVE_IF(count < 0, vc_infer_fail(in, "the range has no end"));
        size = vc_dim_number((int64_t)count);
        vc_infer_out(in, 0, VC_DTYPE_F32, &size, 1);
        return;
    }
    VC_LEAVE_IF(from == NULL || to == NULL,
                vc_infer_fail(in, "the range is computed from values, not from the sizes of inputs"));
    if (!vc_infer_numbers(in, 2, "the step", &step, 1, &n[2])) {
        return;
    }
    VC_LEAVE_IF(step == 0 || step == INT64_MIN, vc_infer_fail(in, "the step is %lld", (long long)step));
    size = range_size(vc_infer_dims(in), from[0], to[0], step);
    vc_infer_out(in, 0, vc_infer_in(in, 0)->dtype, &size, 1);
    if (vc_dim_is_number(size) && size.size <= VC_MAX_ELEMS) {
        for (int64_t k = 0; k < size.size; k++) {
            elems[k] = vc_dim_add(vc_infer_dims(in), from[0],
                                  vc_dim_multiply(vc_infer_dims(in), vc_dim_number(k), vc_dim_number(step)));
        }
        vc_infer_out_elems(in, 0, elems, (size_t)size.size);
    }
}

/* The diagonal k is an input and may differ from run to run; the shape does not depend on it. */
void vc_infer_trilu(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);

    vc_infer_int(in, "upper", 1);
    if (vc_infer_types(in, "ai") && vc_infer_rank(in, 0, 2, VC_GRAPH_MAX_DIMS) && vc_infer_single(in, 1, "k")) {
        vc_infer_out(in, 0, x->dtype, x->shape, x->n_dims);
    }
}
