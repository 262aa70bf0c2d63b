/* ops_move.c - shapes of what puts elements into other places and computes nothing.
 *
 *     Transpose     [a, b, c], perm {2, 0, 1}                     [c, a, b]
 *     Concat        [a, 3] and [a, 4], axis 1                     [a, 7]
 *     Slice         [a, 10], axis 1, start 2, end 9, step 3       [a, 3]            elements 2, 5, 8
 *     Split         [a, 10], axis 1, three parts                  [a, 4], [a, 4], [a, 2]
 *     Expand        [a, 1] to [1, 5]                              [a, 5]
 *     Tile          [a, 3], repeats {1, 2}                        [a, 6]
 *     Pad           [a, 3], pads {0, 1, 0, 2}                     [a, 6]
 *     DepthToSpace  [a, 12, h, w], block 2                        [a, 3, 2*h, 2*w]
 *
 * Letters are sizes that depend on inputs. They are computed with as polynomials (dims.h): a slice of all
 * but the first of `sequence` positions has sequence - 1.
 *
 * The second half of each function moves known elements, too (facts[v].elems): shape arithmetic slices,
 * joins and pads lists of dimensions. How an operator moves elements is said by strides, as the loops do it
 * (run.h, vc_run_view).
 *
 * What says how to move (starts, pads, repeats, a shape) must be known while the graph is built, as numbers
 * or polynomials. Where it is computed from values of an input, the shape of the result would depend on
 * what a user feeds, and the node is refused. */

#include "graph/ops/ops.h"

/* Known elements of input 0 as those of output `out`, in another order: along dimension k of the output they are
 * step[k] apart, from `first` on.
 *     {batch, 12, 64} sliced by [::-1]: first 2, step {-1}     ->     {64, 12, batch}
 * Gives up where the output has more than VC_MAX_ELEMS elements.
 * That many elements are more than any list of dimensions has; a longer list is data, and no size is
 * computed from it. */
static void moved_elems(struct vc_infer *in, unsigned out, int64_t first, const int64_t *step,
                        const struct vc_dim *shape, unsigned n_dims)
{
    struct vc_dim elems[VC_MAX_ELEMS];
    size_t n;
    const struct vc_dim *x = vc_infer_all_elems(in, 0, &n);
    size_t all = 1;

    for (unsigned k = 0; k < n_dims; k++) {
        if (x == NULL || !vc_dim_is_number(shape[k]) || shape[k].size > VC_MAX_ELEMS) {
            return;
        }
        all *= (size_t)shape[k].size;
        if (all > VC_MAX_ELEMS) {
            return;
        }
    }
    for (size_t i = 0; x != NULL && i < all; i++) {
        size_t rest = i;
        int64_t at = first;

        for (unsigned k = n_dims; k-- > 0;) {
            at += (int64_t)(rest % (size_t)shape[k].size) * step[k];
            rest /= (size_t)shape[k].size;
        }
        elems[i] = x[at];
    }
    if (x != NULL) {
        vc_infer_out_elems(in, out, elems, all);
    }
}

/* Strides of input 0 in C order. Its elements are known, so that its dimensions are small numbers.
 *     shape [2, 3, 4]: step {12, 4, 1}
 */
static void steps_of(const struct vc_graph_value *x, int64_t *step)
{
    int64_t all = 1;

    for (unsigned k = x->n_dims; k-- > 0;) {
        step[k] = all;
        all *= x->shape[k].size;
    }
}

/* Without perm the dimensions are reversed. Known elements move by the strides of their old dimensions.
 * perm has to name each dimension once: a repeated one would leave out another. */
void vc_infer_transpose(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    bool seen[VC_GRAPH_MAX_DIMS] = {false};
    size_t n;
    const int64_t *perm = vc_infer_ints(in, "perm", &n);

    if (perm != NULL && n != x->n_dims) {
        vc_infer_fail(in, "perm has %zu numbers; the input has %u dimensions", n, x->n_dims);
        return;
    }
    for (unsigned k = 0; k < x->n_dims; k++) {
        int64_t from = perm != NULL ? perm[k] : (int64_t)(x->n_dims - 1 - k);

        VC_LEAVE_IF(from < 0 || from >= (int64_t)x->n_dims || seen[from],
                    vc_infer_fail(in, "perm is no order of %u dimensions", x->n_dims));
        seen[from] = true;
        shape[k] = x->shape[from];
    }
    vc_infer_out(in, 0, x->dtype, shape, x->n_dims);
    if (vc_infer_all_elems(in, 0, &n) != NULL) {
        int64_t step[VC_GRAPH_MAX_DIMS], moved[VC_GRAPH_MAX_DIMS];

        steps_of(x, step);
        for (unsigned k = 0; k < x->n_dims; k++) {
            moved[k] = step[perm != NULL ? perm[k] : (int64_t)(x->n_dims - 1 - k)];
        }
        moved_elems(in, 0, 0, moved, shape, x->n_dims);
    }
}

/* Known elements of all inputs one after the other; each is a number or a list. The result has one dimension,
 * since known elements are of numbers and lists only; {batch} and {12, 64} joined are {batch, 12, 64}. */
static void concat_elems(struct vc_infer *in)
{
    struct vc_dim elems[VC_MAX_ELEMS];
    size_t all = 0;

    for (unsigned k = 0; k < vc_infer_n_in(in); k++) {
        size_t n;
        const struct vc_dim *x = vc_infer_elems(in, k, &n);

        if (x == NULL || n > VC_MAX_ELEMS - all) {
            return;
        }
        memcpy(elems + all, x, n * sizeof *elems);
        all += n;
    }
    vc_infer_out_elems(in, 0, elems, all);
}

/* The axis adds up; every other dimension has to be the same in all inputs. */
void vc_infer_concat(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    unsigned axis;

    VC_LEAVE_IF(!vc_infer_has(in, "axis"), vc_infer_fail(in, "the attribute axis is missing"));
    axis = vc_infer_axis(in, vc_infer_int(in, "axis", 0), x->n_dims);
    if (in->failed || !vc_infer_types(in, "ax")) {
        return;
    }
    memcpy(shape, x->shape, x->n_dims * sizeof *shape);
    for (unsigned k = 1; k < vc_infer_n_in(in); k++) {
        const struct vc_graph_value *y = vc_infer_in(in, k);

        VC_LEAVE_IF(y == NULL, vc_infer_fail(in, "input %u is missing", k));
        if (!vc_infer_rank(in, k, x->n_dims, x->n_dims)) {
            return;
        }
        for (unsigned d = 0; d < x->n_dims; d++) {
            char what[48];

            snprintf(what, sizeof what, "dimension %u of the inputs", d);
            shape[d] = d == axis ? vc_dim_add(vc_infer_dims(in), shape[d], y->shape[d])
                                 : vc_infer_same(in, what, shape[d], y->shape[d]);
        }
    }
    vc_infer_out(in, 0, x->dtype, shape, x->n_dims);
    concat_elems(in);
}

/* ---- Slice ---- */

/* What writers say for "to the end" of a dimension whose size they do not know: INT32_MAX, INT64_MAX, 10^9. */
#define TO_THE_END 1000000000

/* Where a slice begins or ends, as an index from 0: negative numbers count from the end, and numbers beyond an end
 * are that end. A backward slice ends at -1, before the first element. Where sizes depend on inputs, the slice is
 * taken to lie within the dimension, as it did for the size that its author had; sizes.c and forward.c check the
 * result for each run.
 *     size 10, forwards:      2 is 2,  -3 is 7,  15 is 10,  -20 is 0
 *     size 10, backwards:     start 15 is 9, end -20 is -1
 *     size n (open):         -3 is n - 3, 10^9 or more is n
 */
static struct vc_dim slice_bound(struct vc_dims *dims, struct vc_dim at, struct vc_dim size, bool backwards,
                                 bool is_end)
{
    const int64_t low = backwards && is_end ? -1 : 0; /* a start is an element, an end may be before all of them */
    int64_t least;
    bool negative = vc_dim_is_number(at)
                        ? at.size < 0
                        : vc_dim_least(dims, vc_dim_subtract(dims, vc_dim_number(0), at), &least) && least > 0;

    if (backwards && is_end && vc_dim_is_number(at) && (at.size == INT32_MAX || at.size == INT64_MAX)) {
        return vc_dim_number(-1); /* no end, as onnxruntime has it */
    }
    if (vc_dim_is_number(at) && at.size <= -TO_THE_END) { /* before the first element, whatever the size is */
        return vc_dim_number(low);
    }
    if (negative) {
        at = vc_dim_add(dims, at, size);
    }
    if (vc_dim_is_number(at) && at.size >= TO_THE_END) {
        return backwards ? vc_dim_subtract(dims, size, vc_dim_number(1)) : size;
    }
    if (vc_dim_is_number(at) && vc_dim_is_number(size)) {
        int64_t high = backwards ? size.size - 1 : size.size;

        return vc_dim_number(at.size < low ? low : at.size > high ? high : at.size);
    }
    return at;
}

/* Number of elements from start to end by step: ceil(length / |step|), at least 0.
 * Sizes that depend on inputs are divided with dims.h, whose quotient is rounded down, as here.
 *
 *     [:n:2] of a dimension n               floor((n + 1)/2)
 *     [::-1] of a dimension 5               first 4, behind -1: 5
 */
static struct vc_dim slice_size(struct vc_dims *dims, struct vc_dim start, struct vc_dim end, int64_t step,
                                struct vc_dim size)
{
    struct vc_dim first = slice_bound(dims, start, size, step < 0, false);
    struct vc_dim behind = slice_bound(dims, end, size, step < 0, true);
    struct vc_dim length = step > 0 ? vc_dim_subtract(dims, behind, first) : vc_dim_subtract(dims, first, behind);
    int64_t stride = step > 0 ? step : -step;

    if (!vc_dim_is_number(first) || !vc_dim_is_number(behind)) {
        int64_t least;

        /* first >= 0 for the usual 0:n of a fixed dimension: no more than there is */
        if (step > 0 && vc_dim_is_number(size) && vc_dim_least(dims, vc_dim_subtract(dims, behind, size), &least) &&
            least >= 0) {
            length = vc_dim_subtract(dims, size, first);
        }
    }
    length = vc_dim_divide(dims, vc_dim_add(dims, length, vc_dim_number(stride - 1)), vc_dim_number(stride));
    return vc_dim_is_number(length) && length.size < 0 ? vc_dim_number(0) : length;
}

/* The elements of a slice of what is known: along each axis from a start that is a number.
 * `first` is where the walk begins in the elements of the input, and a step of the slice multiplies the
 * stride of its axis. */
static void slice_elems(struct vc_infer *in, const int64_t *axes, const struct vc_dim *starts, const int64_t *steps,
                        size_t n, const struct vc_dim *shape)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    int64_t step[VC_GRAPH_MAX_DIMS];
    int64_t first = 0;

    steps_of(x, step);
    for (size_t k = 0; k < n; k++) {
        unsigned axis = vc_infer_axis(in, axes[k], x->n_dims);
        struct vc_dim from = slice_bound(vc_infer_dims(in), starts[k], x->shape[axis], steps[k] < 0, false);

        if (in->failed || !vc_dim_is_number(from)) {
            return;
        }
        first += from.size * step[axis];
        step[axis] *= steps[k];
    }
    moved_elems(in, 0, first, step, shape, x->n_dims); /* shape is what slice_size made: all of them are there */
}

/* Inputs: starts, ends, axes (default 0, 1, ...), steps (default 1). Starts and ends may depend on sizes of
 * inputs, axes and steps may not. Each axis once; a step of INT64_MIN has no absolute value.
 * More than VC_GRAPH_MAX_DIMS axes cannot be: n is at most the rank of the input. */
void vc_infer_slice(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    int64_t axes[VC_GRAPH_MAX_DIMS] = {0, 1, 2, 3, 4, 5, 6, 7};
    int64_t steps[VC_GRAPH_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    bool seen[VC_GRAPH_MAX_DIMS] = {false};
    size_t n, n_ends, n_more;
    const struct vc_dim *starts = vc_infer_elems(in, 1, &n);
    const struct vc_dim *ends = vc_infer_elems(in, 2, &n_ends);

    if (!vc_infer_types(in, "ai")) {
        return;
    }
    VC_LEAVE_IF(
        starts == NULL || ends == NULL,
        vc_infer_fail(in, "where the slice begins and ends is computed from values, not from the sizes of inputs"));
    VC_LEAVE_IF(n != n_ends || n > x->n_dims,
                vc_infer_fail(in, "%zu starts and %zu ends are given for %u dimensions", n, n_ends, x->n_dims));
    for (unsigned k = 3; k < vc_infer_n_in(in); k++) {
        if (vc_infer_in(in, k) == NULL) {
            continue;
        }
        if (!vc_infer_numbers(in, k, k == 3 ? "the list of axes" : "the list of steps", k == 3 ? axes : steps,
                              VC_GRAPH_MAX_DIMS, &n_more)) {
            return;
        }
        VC_LEAVE_IF(n_more != n,
                    vc_infer_fail(in, "%zu starts and %zu %s are given", n, n_more, k == 3 ? "axes" : "steps"));
    }
    memcpy(shape, x->shape, x->n_dims * sizeof *shape);
    for (size_t k = 0; k < n; k++) {
        unsigned axis = vc_infer_axis(in, axes[k], x->n_dims);

        if (!in->failed && (seen[axis] || steps[k] == 0 || steps[k] == INT64_MIN)) {
            vc_infer_fail(in, seen[axis] ? "axis %lld is listed twice" : "the step along axis %lld is 0 or too large",
                          (long long)axes[k]);
        }
        if (in->failed) {
            return;
        }
        seen[axis] = true;
        shape[axis] = slice_size(vc_infer_dims(in), starts[k], ends[k], steps[k], x->shape[axis]);
    }
    vc_infer_out(in, 0, x->dtype, shape, x->n_dims);
    if (vc_infer_all_elems(in, 0, &n_more) != NULL) {
        slice_elems(in, axes, starts, steps, n, shape);
    }
}

/* ---- Split ---- */

/* Without sizes all parts have ceil(size / n) elements and the last part what remains, as ONNX-18 has it.
 * With sizes their sum has to be the dimension, and the same test at the end holds for both.
 *
 *     10 in 3 parts: ceil(10 / 3) = 4, 4, and 10 - 8 = 2
 */
void vc_infer_split(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    struct vc_graph_value of = *x;
    struct vc_dims *dims = vc_infer_dims(in);
    unsigned axis = vc_infer_axis(in, vc_infer_int(in, "axis", 0), x->n_dims);
    int64_t n = vc_infer_n_out(in);
    int64_t parts = vc_infer_int(in, "num_outputs", n);
    int64_t step[VC_GRAPH_MAX_DIMS];
    size_t n_sizes = 0, n_known;
    const struct vc_dim *sizes = vc_infer_elems(in, 1, &n_sizes);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    struct vc_dim sum = vc_dim_number(0);

    if (in->failed || !vc_infer_types(in, "ai")) {
        return;
    }
    VC_LEAVE_IF(vc_infer_in(in, 1) != NULL && (sizes == NULL || n_sizes != (size_t)n),
                vc_infer_fail(in, sizes == NULL ? "the sizes of the parts are computed from values"
                                                : "there are more or fewer sizes than parts"));
    VC_LEAVE_IF(parts != n,
                vc_infer_fail(in, "num_outputs is %lld and there are %lld outputs", (long long)parts, (long long)n));
    struct vc_dim chunk = vc_dim_divide(dims, vc_dim_add(dims, of.shape[axis], vc_dim_number(n - 1)), vc_dim_number(n));
    bool known = vc_infer_all_elems(in, 0, &n_known) != NULL; /* then all dimensions are numbers */
    memcpy(shape, of.shape, of.n_dims * sizeof *shape);
    if (known) {
        steps_of(&of, step);
    }
    for (int64_t k = 0; k < n; k++) {
        shape[axis] = sizes != NULL ? sizes[k] : k + 1 < n ? chunk : vc_dim_subtract(dims, of.shape[axis], sum);
        struct vc_dim from = sum;
        sum = vc_dim_add(dims, sum, shape[axis]);
        vc_infer_out(in, (unsigned)k, of.dtype, shape, of.n_dims);
        if (known && !in->failed && vc_dim_is_number(sum) && sum.size <= of.shape[axis].size) {
            moved_elems(in, (unsigned)k, from.size * step[axis], step, shape, of.n_dims);
        }
    }
    vc_infer_same(in, "the sum of the parts and the dimension", sum, of.shape[axis]);
}

/* ---- Expand, Tile, Pad ---- */

/* Broadcasts the input with the wanted shape: a wanted 1 keeps the input's dimension.
 * A known element that is alone is repeated as far as the result is a number or a short list. */
void vc_infer_expand(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    size_t n, n_known;
    const struct vc_dim *wanted = vc_infer_elems(in, 1, &n);
    const struct vc_dim *known = vc_infer_elems(in, 0, &n_known);
    struct vc_graph_value to = {.name = "the shape", .shape = wanted, .n_dims = (unsigned)n};
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    struct vc_dim elems[VC_MAX_ELEMS];
    unsigned n_dims;

    if (!vc_infer_types(in, "ai") || !vc_infer_rank(in, 1, 1, 1)) {
        return;
    }
    VC_LEAVE_IF(wanted == NULL || n > VC_GRAPH_MAX_DIMS,
                vc_infer_fail(in, wanted == NULL ? "the shape is computed from values, not from the sizes of inputs"
                                                 : "the shape has too many dimensions"));
    if (!vc_infer_broadcast(in, x, &to, shape, &n_dims)) {
        return;
    }
    vc_infer_out(in, 0, x->dtype, shape, n_dims);
    if (known != NULL && n_known == 1 && n_dims <= 1 &&
        (n_dims == 0 || (vc_dim_is_number(shape[0]) && shape[0].size <= VC_MAX_ELEMS))) {
        n = n_dims == 0 ? 1 : (size_t)shape[0].size;
        for (size_t k = 0; k < n; k++) {
            elems[k] = known[0];
        }
        vc_infer_out_elems(in, 0, elems, n);
    }
}

/* Each dimension times its repeats; the result has no known elements. */
void vc_infer_tile(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    size_t n;
    const struct vc_dim *repeats = vc_infer_elems(in, 1, &n);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];

    if (!vc_infer_types(in, "ai")) {
        return;
    }
    VC_LEAVE_IF(repeats == NULL || n != x->n_dims,
                vc_infer_fail(in, repeats == NULL
                                      ? "how often to repeat is computed from values, not from the sizes of inputs"
                                      : "there has to be one number of repeats for each dimension"));
    for (unsigned k = 0; k < x->n_dims; k++) {
        shape[k] = vc_dim_multiply(vc_infer_dims(in), x->shape[k], repeats[k]);
    }
    vc_infer_out(in, 0, x->dtype, shape, x->n_dims);
}

/* A known list between copies of the padding's value: PyTorch exports the pads of F.pad in this way.
 * Negative pads (cutting off) are left out: the elements are unknown then, and what needs them is refused. */
static void padded_elems(struct vc_infer *in, const struct vc_dim *pads)
{
    struct vc_dim elems[VC_MAX_ELEMS];
    size_t n, n_value;
    const struct vc_dim *x = vc_infer_elems(in, 0, &n);
    const struct vc_dim *value = vc_infer_elems(in, 2, &n_value);
    const struct vc_dim fill = value != NULL ? *value : vc_dim_number(0);

    if (x == NULL || (vc_infer_in(in, 2) != NULL && value == NULL) || !vc_dim_is_number(pads[0]) ||
        !vc_dim_is_number(pads[1]) || pads[0].size < 0 || pads[0].size > VC_MAX_ELEMS || pads[1].size < 0 ||
        pads[1].size > VC_MAX_ELEMS || n + (size_t)(pads[0].size + pads[1].size) > VC_MAX_ELEMS) {
        return;
    }
    for (size_t k = 0; k < n + (size_t)(pads[0].size + pads[1].size); k++) {
        elems[k] = k >= (size_t)pads[0].size && k - (size_t)pads[0].size < n ? x[k - (size_t)pads[0].size] : fill;
    }
    vc_infer_out_elems(in, 0, elems, n + (size_t)(pads[0].size + pads[1].size));
}

/* Pads are [begin of axis 0, begin of axis 1, ..., end of axis 0, ...]; negative ones cut elements off.
 * The mode changes no size. Known elements are padded in mode "constant" only. */
void vc_infer_pad(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const char *mode = vc_infer_string(in, "mode", "constant");
    int64_t axes[VC_GRAPH_MAX_DIMS] = {0, 1, 2, 3, 4, 5, 6, 7};
    size_t n_axes = x->n_dims;
    size_t n;
    const struct vc_dim *pads = vc_infer_elems(in, 1, &n);
    struct vc_dims *dims = vc_infer_dims(in);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];

    if (!vc_infer_types(in, "aiai") || !vc_infer_single(in, 2, "the padding's value")) {
        return;
    }
    if (vc_infer_in(in, 2) != NULL && vc_infer_in(in, 2)->dtype != x->dtype) {
        vc_infer_fail(in, "the padding's value has another type than the input");
    }
    if (strcmp(mode, "constant") != 0 && strcmp(mode, "reflect") != 0 && strcmp(mode, "edge") != 0 &&
        strcmp(mode, "wrap") != 0) {
        vc_infer_fail(in, "the mode '%s' is not supported; 'constant', 'reflect', 'edge' and 'wrap' are", mode);
    }
    if (vc_infer_in(in, 3) != NULL) {
        vc_infer_numbers(in, 3, "the list of axes", axes, VC_GRAPH_MAX_DIMS, &n_axes);
    }
    if (in->failed) {
        return;
    }
    VC_LEAVE_IF(pads == NULL || n != 2 * n_axes,
                vc_infer_fail(in, pads == NULL ? "the padding is computed from values, not from the sizes of inputs"
                                               : "there have to be two numbers of padding for each axis"));
    memcpy(shape, x->shape, x->n_dims * sizeof *shape);
    for (size_t k = 0; k < n_axes; k++) {
        unsigned axis = vc_infer_axis(in, axes[k], x->n_dims);

        if (in->failed) {
            return;
        }
        shape[axis] = vc_dim_add(dims, shape[axis], vc_dim_add(dims, pads[k], pads[k + n_axes]));
    }
    vc_infer_out(in, 0, x->dtype, shape, x->n_dims);
    if (x->n_dims == 1 && n_axes == 1 && strcmp(mode, "constant") == 0) {
        padded_elems(in, pads);
    }
}

/* ---- blocks of pixels to channels and back ---- */

/* DepthToSpace (to_space) divides channels by block * block and multiplies pixels; SpaceToDepth the other way
 * round. What is divided has to come out even where it is a number.
 *     block 2, to space      [n, 12, 5, 7]      [n, 3, 10, 14]
 *     block 2, to depth      [n, 3, 10, 14]     [n, 12, 5, 7]
 *
 * The mode says in which order the channels are taken, and the loops do that. */
static void infer_blocks(struct vc_infer *in, bool to_space)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    int64_t block = vc_infer_int(in, "blocksize", 0);
    const char *mode = vc_infer_string(in, "mode", "DCR");
    struct vc_dims *dims = vc_infer_dims(in);
    struct vc_dim shape[4];
    struct vc_dim b = vc_dim_number(block);
    struct vc_dim square = vc_dim_multiply(dims, b, b);

    if (!vc_infer_rank(in, 0, 4, 4)) {
        return;
    }
    VC_LEAVE_IF(block < 1 || vc_dim_is_bad(square), vc_infer_fail(in, "the block's size is %lld", (long long)block));
    if (strcmp(mode, "DCR") != 0 && strcmp(mode, "CRD") != 0) {
        vc_infer_fail(in, "the mode '%s' is not supported; 'DCR' and 'CRD' are", mode);
        return;
    }
    shape[0] = x->shape[0];
    shape[1] = to_space ? vc_dim_divide(dims, x->shape[1], square) : vc_dim_multiply(dims, x->shape[1], square);
    for (unsigned k = 2; k < 4; k++) {
        shape[k] = to_space ? vc_dim_multiply(dims, x->shape[k], b) : vc_dim_divide(dims, x->shape[k], b);
    }
    for (unsigned k = 1; k < 4; k++) {
        struct vc_dim divisor = k == 1 ? square : b;

        VC_LEAVE_IF(to_space == (k == 1) && vc_dim_is_number(x->shape[k]) && x->shape[k].size % divisor.size != 0,
                    vc_infer_fail(in, "dimension %u, %lld, cannot be divided into %lld", k, (long long)x->shape[k].size,
                                  (long long)divisor.size));
    }
    vc_infer_out(in, 0, x->dtype, shape, 4);
}

void vc_infer_depth_to_space(struct vc_infer *in)
{
    infer_blocks(in, true);
}

void vc_infer_space_to_depth(struct vc_infer *in)
{
    infer_blocks(in, false);
}
