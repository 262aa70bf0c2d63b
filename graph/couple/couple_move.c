/* couple_move.c - rules of operators that put elements into other places and compute nothing. Reshape ties
 * axes by sizes alone; Slice and Split cut axes into parts; what repeats, pads or stretches an axis fixes
 * it.
 *
 *     Transpose   axes change places                            all may lose units
 *     Reshape     [b, s, 768] to [b, s, 12, 64]                 the axis is product(12, 64): heads and their inner units
 *     Concat      [b, 64] and [b, 128]                          concat(x, y)
 *     Slice       [b, 2304], 0 to 768                           concat(nothing, part, rest)
 *     Split       [b, 2304] in three                            concat(q, k, v)
 *     Expand      [b, 1, 64] to [b, 8, 64]                      the 8 are fixed, the 64 pass
 *     ConstantOfShape  Concat({2}, b, {64})                     the 2 and the 64 may lose units: first states of an LSTM
 *     Tile        [b, 64], repeats {1, 2}                       product(2, axis): units of the axis may go, in both copies
 *     Pad         [b, c, h, w], h and w padded                  h and w are fixed, the channels pass
 *     Gather      [V, C] by indices [b, s]                      [b, s, C]: rows fixed, C may lose units
 *     Resize      [b, c, h, w] to [b, c, 2*h, 2*w]              h and w are fixed
 *
 * Where the graph comes from a file (c->of_file), sizes in it have to be written anew once units are gone:
 * the shape of a Reshape, the bounds of a Slice. vc_couple_say states which terms such numbers follow;
 * where a number cannot be stated, the axis is fixed. */

#include "graph/couple/couple_rules.h"

/* ---- other dimensions, the same elements in the same order ---- */

/* The dimensions of a value that are not 1.
 * A dimension of 1 has no units, and Reshape, Squeeze and Unsqueeze may put ones anywhere. */
struct side {
    unsigned n;
    unsigned axis[VC_GRAPH_MAX_DIMS];
    struct vc_dim size[VC_GRAPH_MAX_DIMS];
};

/* The axes of the value and their sizes, in order. */
static void take_side(struct side *side, const struct vc_graph_value *value)
{
    side->n = 0;
    for (unsigned k = 0; k < value->n_dims; k++) {
        if (!vc_dim_is_number(value->shape[k]) || value->shape[k].size != 1) {
            side->axis[side->n] = k;
            side->size[side->n++] = value->shape[k];
        }
    }
}

/* The fewest dimensions of both sides, from i and j on, with the same product: *p and *q of them.
 *     [batch, 12, 64] to [batch, 768]     batch = batch (1 and 1), then 12 * 64 = 768 (2 and 1)
 * Without a match all remaining dimensions are one segment.
 * Sums of *p and *q are tried from small to large, so that segments are as short as can be and axes are
 * tied as finely as sizes allow. Equal sizes of axes that only happen to be next to each other ([4, 4] to
 * [4, 4]) give the same result as the order of elements does. */
static void next_segment(struct vc_couple *c, const struct side *in, unsigned i, const struct side *out, unsigned j,
                         unsigned *p, unsigned *q)
{
    for (unsigned all = 2; all <= in->n - i + out->n - j; all++) {
        for (*p = 1; *p < all && *p <= in->n - i; ++*p) {
            *q = all - *p;
            if (*q <= out->n - j && vc_dim_equal(vc_dim_product(&c->graph->dims, in->size + i, *p),
                                                 vc_dim_product(&c->graph->dims, out->size + j, *q))) {
                return;
            }
        }
    }
    *p = in->n - i;
    *q = out->n - j;
}

/* p dimensions of the input are q of the output: both are factors of one product. One output dimension is that
 * product itself.
 *     [12, 64] to [768]        product(axis, axis) is the output
 *     [768] to [12, 64]        axis = product(new, new)
 *     [4, 192] to [12, 64]     product(axis, axis) = product(new, new), which couple_axes.c divides into 4, 3 and 64
 */
static void join_segment(struct vc_couple *c, const struct side *in, unsigned i, unsigned p, const struct side *out,
                         unsigned j, unsigned q)
{
    uint32_t from[VC_GRAPH_MAX_DIMS], to[VC_GRAPH_MAX_DIMS];

    for (unsigned k = 0; k < p; k++) {
        from[k] = vc_couple_axis(c, 0, in->axis[i + k]);
    }
    uint32_t term = vc_axes_product(&c->axes, from, p);
    if (q == 1) {
        vc_couple_set(c, 0, out->axis[j], term);
        return;
    }
    for (unsigned k = 0; k < q; k++) {
        to[k] = vc_axes_atom(&c->axes, out->size[j + k]);
        vc_couple_set(c, 0, out->axis[j + k], to[k]);
    }
    vc_axes_join(&c->axes, term, vc_axes_product(&c->axes, to, q));
}

/* The new shape as a file writes it: numbers follow their terms; dimensions that depend on inputs are 0 (the
 * input's dimension at that place) or -1 (once). False: it cannot be written like this, and the axes are fixed.
 * 0 is used where more than one dimension is open and the input has the same size at that place, unless
 * allowzero gives 0 another meaning. A size that is 0 itself cannot be written. */
static bool say_shape(struct vc_couple *c)
{
    const struct vc_graph_value *x = vc_couple_in(c, 0);
    const struct vc_graph_value *y = vc_couple_out(c, 0);
    struct vc_size sizes[VC_GRAPH_MAX_DIMS];
    unsigned n_open = 0;
    bool rest = false;

    for (unsigned k = 0; k < y->n_dims; k++) {
        n_open += vc_dim_is_number(y->shape[k]) ? 0 : 1;
    }
    for (unsigned k = 0; k < y->n_dims; k++) {
        sizes[k] = (struct vc_size){.term = vc_couple_out_axis(c, k), .number = 1};
        if (vc_dim_is_number(y->shape[k]) && y->shape[k].size == 0) {
            return false;
        }
        if (vc_dim_is_number(y->shape[k])) {
            continue;
        }
        sizes[k].term = VC_AXIS_ONE;
        if (n_open > 1 && k < x->n_dims && vc_dim_equal(x->shape[k], y->shape[k]) &&
            vc_couple_int(c, "allowzero", 0) == 0) {
            sizes[k].number = 0;
        } else if (!rest) {
            sizes[k].number = -1;
            rest = true;
        } else {
            return false;
        }
    }
    vc_couple_say(c, 1, NULL, sizes, y->n_dims);
    return true;
}

/* Reshape, Flatten, Squeeze, Unsqueeze: by the shapes alone, since the elements keep their order. Dimensions of 1
 * are left out on both sides. */
void vc_couple_reshape(struct vc_couple *c)
{
    struct side in;
    struct side out;
    unsigned i = 0;
    unsigned j = 0;

    take_side(&in, vc_couple_in(c, 0));
    take_side(&out, vc_couple_out(c, 0));
    while (i < in.n && j < out.n) {
        unsigned p, q;

        next_segment(c, &in, i, &out, j, &p, &q);
        join_segment(c, &in, i, p, &out, j, q);
        i += p;
        j += q;
    }
    if (c->of_file && vc_node_is(vc_couple_node(c), VC_OP_reshape) && !say_shape(c)) {
        for (unsigned k = 0; k < out.n; k++) {
            vc_couple_fix(c, vc_couple_out_axis(c, out.axis[k]), vc_couple_unsayable);
        }
    }
}

/* Axis k of the output is axis perm[k] of the input.
 * Without perm the axes are reversed. */
void vc_couple_transpose(struct vc_couple *c)
{
    const struct vc_graph_attr *perm = vc_couple_attr(c, "perm");
    unsigned n = vc_couple_in(c, 0)->n_dims;

    for (unsigned k = 0; k < n; k++) {
        vc_couple_set(c, 0, k, vc_couple_axis(c, 0, perm != NULL ? (unsigned)perm->ints[k] : n - 1 - k));
    }
}

/* ---- parts of an axis ---- */

/* The axis becomes a concatenation; other axes of all inputs are joined. */
void vc_couple_concat(struct vc_couple *c)
{
    const struct vc_graph_node *node = vc_couple_node(c);
    unsigned n = vc_couple_in(c, 0)->n_dims;
    unsigned axis = vc_couple_int_axis(c, "axis", 0, n);
    uint32_t *parts = vc_alloc_array(c->ctx, VC_TAG_MISC, node->n_inputs, sizeof *parts);

    VC_LEAVE_IF(parts == NULL, c->axes.status = VC_E_NOMEM);
    vc_couple_pass(c);
    for (unsigned k = 0; k < node->n_inputs; k++) {
        parts[k] = vc_couple_axis(c, k, axis);
        for (unsigned d = 0; d < n; d++) {
            if (d != axis) {
                vc_axes_join(&c->axes, vc_couple_axis(c, 0, d), vc_couple_axis(c, k, d));
            }
        }
    }
    vc_couple_set(c, 0, axis, vc_axes_concat(&c->axes, parts, node->n_inputs));
    vc_free(c->ctx, parts);
}

/* Elements first to first + count of an axis of input 0, the elements before and those behind, as three terms whose
 * concatenation is the axis.
 * An empty part before or behind is left out by vc_axes_concat. */
static void part_of(struct vc_couple *c, unsigned axis, int64_t first, int64_t count, uint32_t parts[3])
{
    int64_t size = vc_couple_in(c, 0)->shape[axis].size;

    parts[0] = vc_axes_atom(&c->axes, vc_dim_number(first));
    parts[1] = vc_axes_atom(&c->axes, vc_dim_number(count));
    parts[2] = vc_axes_atom(&c->axes, vc_dim_number(size - first - count));
    vc_axes_join(&c->axes, vc_couple_axis(c, 0, axis), vc_axes_concat(&c->axes, parts, 3));
}

/* Where a bound of a forward slice is, from 0 to size: negative ones count from the end. */
static int64_t clamp(int64_t at, int64_t size)
{
    at = at < 0 ? at + size : at;
    return at < 0 ? 0 : at > size ? size : at;
}

/* What a node says about the bounds of a slice along one axis. */
struct bounds {
    struct vc_size start, end;
    bool known; /* both are numbers */
    bool part;  /* and a part is taken that may change its size */
};

/* Three cases: all of the axis (the end becomes INT64_MAX, right for any size), a part with known bounds, and
 * anything else, which fixes the axis.
 * `watch` is the axis that the number is a bound of: the number is rewritten when units of that axis go.
 *
 *     x[:, 64:128] of [b, 192]     parts {64, 64, 64}; start is the first part, end the first two
 */
static struct bounds slice_axis(struct vc_couple *c, unsigned axis, struct vc_dim start, struct vc_dim end,
                                struct vc_dim step)
{
    struct vc_dim size = vc_couple_in(c, 0)->shape[axis];
    struct vc_dim count = vc_couple_out(c, 0)->shape[axis];
    bool forward = vc_dim_is_number(step) && step.size == 1;
    struct bounds bounds = {
        .start.number = start.size, .end.number = end.size, .known = vc_dim_is_number(start) && vc_dim_is_number(end)};
    uint32_t parts[3];

    if (forward && vc_dim_equal(size, count)) {
        bounds.end.number = INT64_MAX; /* all of it: passed on, whatever its size becomes */
        return bounds;
    }
    if (forward && vc_dim_is_number(size) && vc_dim_is_number(count) && vc_dim_is_number(start) &&
        clamp(start.size, size.size) + count.size <= size.size) {
        part_of(c, axis, clamp(start.size, size.size), count.size, parts);
        vc_couple_set(c, 0, axis, parts[1]);
        bounds.start = (struct vc_size){.term = parts[0], .watch = vc_couple_axis(c, 0, axis)};
        bounds.end = (struct vc_size){.term = vc_axes_concat(&c->axes, parts, 2), .watch = vc_couple_axis(c, 0, axis)};
        bounds.part = true;
        return bounds;
    }
    vc_couple_fix(c, vc_couple_axis(c, 0, axis), "takes some of it");
    vc_couple_set_fixed(c, 0, axis, "takes some of it");
    return bounds;
}

/* If the file's bounds cannot be written as numbers, parts that would move are fixed.
 * A slice whose bounds are computed from values mixes everything. */
void vc_couple_slice(struct vc_couple *c)
{
    unsigned n_dims = vc_couple_in(c, 0)->n_dims;
    size_t n, n_more;
    const struct vc_dim *starts = vc_couple_elems(c, 1, &n);
    const struct vc_dim *ends = vc_couple_elems(c, 2, &n_more);
    const struct vc_dim *axes = vc_couple_elems(c, 3, &n_more);
    const struct vc_dim *steps = vc_couple_elems(c, 4, &n_more);
    struct vc_size first[VC_GRAPH_MAX_DIMS] = {{.number = 0}};
    struct vc_size behind[VC_GRAPH_MAX_DIMS] = {{.number = 0}};
    bool known = true;

    VC_LEAVE_IF(starts == NULL || ends == NULL || n > VC_GRAPH_MAX_DIMS, vc_couple_mixes(c));
    vc_couple_pass(c);
    for (size_t k = 0; k < n; k++) {
        unsigned axis = axes != NULL ? vc_couple_place(axes[k].size, n_dims) : (unsigned)k;
        struct bounds bounds = slice_axis(c, axis, starts[k], ends[k], steps != NULL ? steps[k] : vc_dim_number(1));

        first[k] = bounds.start;
        behind[k] = bounds.end;
        known = known && bounds.known;
    }
    if (known) {
        vc_couple_say(c, 1, "starts", first, n);
        vc_couple_say(c, 2, "ends", behind, n);
        return;
    }
    for (size_t k = 0; k < n && c->of_file; k++) {
        unsigned axis = axes != NULL ? vc_couple_place(axes[k].size, n_dims) : (unsigned)k;

        if (behind[k].watch != VC_AXIS_ONE) {
            vc_couple_fix(c, vc_couple_axis(c, 0, axis), vc_couple_unsayable);
        }
    }
}

/* A Split by the number of parts alone makes equal parts: unless all parts are one term, a removal could leave
 * unequal ones, and the axis is fixed.
 * It runs when all rules have run, since later nodes may join the parts (the sum q + k has units of both). */
void vc_couple_check_split(struct vc_couple *c)
{
    const struct vc_graph_node *node = vc_couple_node(c);
    unsigned axis = vc_couple_int_axis(c, "axis", 0, vc_couple_in(c, 0)->n_dims);
    uint32_t first = vc_axes_resolve(&c->axes, c->axis[c->first[node->outputs[0]] + axis]);

    for (unsigned o = 1; o < node->n_outputs && vc_couple_in(c, 1) == NULL && c->of_file; o++) {
        uint32_t other = node->outputs[o] == VC_NO_VALUE ? first : c->axis[c->first[node->outputs[o]] + axis];

        if (vc_axes_resolve(&c->axes, other) != first) {
            vc_couple_fix(c, vc_couple_axis(c, 0, axis), "makes parts of one size");
            return;
        }
    }
}

/* Parts follow each other from element `first`; sizes that depend on inputs fix the axis. Sizes in a file
 * are stated anew.
 * Each part is cut from the same axis, so that the concatenations are joined with each other and end as one
 * of all parts. */
void vc_couple_split(struct vc_couple *c)
{
    const struct vc_graph_node *node = vc_couple_node(c);
    const struct vc_graph_value *x = vc_couple_in(c, 0);
    unsigned axis = vc_couple_int_axis(c, "axis", 0, x->n_dims);
    struct vc_size *sizes = vc_calloc_array(c->ctx, VC_TAG_MISC, node->n_outputs, sizeof *sizes);
    bool known = vc_dim_is_number(x->shape[axis]);
    int64_t first = 0;

    VC_LEAVE_IF(sizes == NULL, c->axes.status = VC_E_NOMEM);
    vc_couple_first(c);
    for (unsigned o = 0; o < node->n_outputs; o++) {
        const struct vc_graph_value *out = vc_couple_out(c, o);
        uint32_t parts[3];

        known = known && out != NULL && vc_dim_is_number(out->shape[axis]) &&
                first + out->shape[axis].size <= x->shape[axis].size;
        if (known) {
            part_of(c, axis, first, out->shape[axis].size, parts);
            vc_couple_set(c, o, axis, parts[1]);
            sizes[o] = (struct vc_size){.term = parts[1], .number = out->shape[axis].size};
            first += out->shape[axis].size;
        } else if (out != NULL) {
            vc_couple_fix(c, vc_couple_axis(c, 0, axis), "takes some of it");
            vc_couple_set_fixed(c, o, axis, "takes some of it");
        }
    }
    if (known && vc_couple_in(c, 1) != NULL) {
        vc_couple_say(c, 1, "split", sizes, node->n_outputs);
    }
    vc_free(c->ctx, sizes);
}

/* ---- more of the same ---- */

/* An axis that is repeated is new and fixed. In a file's shape the others may be written as 1: Expand keeps
 * their size.
 * An axis that the input does not have, or has with 1, is repeated. */
void vc_couple_expand(struct vc_couple *c)
{
    const struct vc_graph_value *x = vc_couple_in(c, 0);
    const struct vc_graph_value *y = vc_couple_out(c, 0);

    struct vc_size sizes[VC_GRAPH_MAX_DIMS];
    bool known = true;

    for (unsigned k = 0; k < y->n_dims; k++) {
        unsigned from = k + x->n_dims - y->n_dims; /* wraps around where x has no such axis */
        bool has = k + x->n_dims >= y->n_dims;
        uint32_t term = has ? vc_couple_axis(c, 0, from) : VC_AXIS_ONE;

        if (vc_axes_resolve(&c->axes, term) == VC_AXIS_ONE) {
            vc_couple_set_fixed(c, 0, k, "repeats it");
            sizes[k] = (struct vc_size){.number = y->shape[k].size};
            known = known && vc_dim_is_number(y->shape[k]);
        } else {
            vc_couple_set(c, 0, k, term);
            sizes[k] = (struct vc_size){.watch = term, .number = 1};
        }
    }
    vc_couple_say_or_fix(c, 1, sizes, y->n_dims, known);
}

/* All elements are the same, so that units of any axis may go whose size can be written: in the list of the shape, or in
 * a part of it that nothing else reads. */
void vc_couple_constant(struct vc_couple *c)
{
    const struct vc_graph_value *shape = vc_couple_in(c, 0);
    const struct vc_graph_value *y = vc_couple_out(c, 0);
    uint32_t self = c->node;
    struct vc_size sizes[VC_GRAPH_MAX_DIMS];
    unsigned n_known = 0; /* dimensions that are numbers */
    unsigned at = 0;

    for (unsigned k = 0; k < y->n_dims; k++) {
        sizes[k] = (struct vc_size){.term = vc_axes_atom(&c->axes, y->shape[k])};
        vc_couple_set(c, 0, k, sizes[k].term);
        n_known += vc_dim_is_number(y->shape[k]) ? 1 : 0;
    }
    if (n_known != y->n_dims && shape->node != VC_NO_NODE && shape->n_uses == 1 &&
        vc_node_is(vc_graph_node(c->graph, shape->node), VC_OP_concat)) {
        c->node = shape->node;
    }
    while (c->node != self && at < vc_couple_node(c)->n_inputs && at < y->n_dims && vc_couple_in(c, at)->n_dims == 1 &&
           vc_dim_is_number(vc_couple_in(c, at)->shape[0]) && vc_couple_in(c, at)->shape[0].size == 1) {
        at++; /* each part says one dimension */
    }
    for (unsigned k = 0; k < y->n_dims; k++) {
        if (c->node == self ? n_known != y->n_dims : at != y->n_dims || !vc_dim_is_number(y->shape[k])) {
            vc_couple_fix(c, sizes[k].term, "makes it");
        } else if (c->node != self) {
            vc_couple_say(c, k, NULL, &sizes[k], 1);
        }
    }
    if (c->node == self && n_known == y->n_dims) {
        vc_couple_say(c, 0, NULL, sizes, y->n_dims);
    }
    c->node = self;
}

/* Repeats times the axis: the units of the axis may go, the number of repeats stays.
 * The number of repeats is a factor that is fixed: no copy may lose other units than the rest. */
void vc_couple_tile(struct vc_couple *c)
{
    const struct vc_graph_value *x = vc_couple_in(c, 0);
    size_t n;
    const struct vc_dim *repeats = vc_couple_elems(c, 1, &n);

    VC_LEAVE_IF(repeats == NULL || n != x->n_dims, vc_couple_mixes(c));
    for (unsigned k = 0; k < x->n_dims; k++) {
        uint32_t pair[2] = {vc_axes_atom(&c->axes, repeats[k]), vc_couple_axis(c, 0, k)};

        vc_couple_fix(c, pair[0], "repeats it");
        vc_couple_set(c, 0, k, vc_axes_product(&c->axes, pair, 2));
    }
}

/* Axes without padding pass; what is padded is fixed, since new elements belong to no unit.
 * Pads that are not known are taken to pad; axes that are not listed are not padded. */
void vc_couple_pad(struct vc_couple *c)
{
    const struct vc_graph_value *x = vc_couple_in(c, 0);
    size_t n, n_axes;
    const struct vc_dim *pads = vc_couple_elems(c, 1, &n);
    const struct vc_dim *axes = vc_couple_elems(c, 3, &n_axes);
    bool padded[VC_GRAPH_MAX_DIMS];

    for (unsigned k = 0; k < x->n_dims; k++) {
        padded[k] = pads == NULL || (vc_couple_in(c, 3) != NULL && axes == NULL);
    }
    n_axes = axes != NULL ? n_axes : n / 2;
    for (size_t k = 0; pads != NULL && k < n_axes && 2 * n_axes == n; k++) {
        unsigned axis = axes != NULL ? vc_couple_place(axes[k].size, x->n_dims) : (unsigned)k;

        if (axis < x->n_dims) {
            padded[axis] = !vc_dim_is_number(pads[k]) || pads[k].size != 0 || !vc_dim_is_number(pads[k + n_axes]) ||
                           pads[k + n_axes].size != 0;
        }
    }
    vc_couple_pass(c);
    for (unsigned k = 0; k < x->n_dims; k++) {
        if (padded[k]) {
            vc_couple_fix(c, vc_couple_axis(c, 0, k), "adds to its ends");
            vc_couple_set_fixed(c, 0, k, "adds to its ends");
        }
    }
}

/* Rows that are chosen by numbers stay (tokens of an embedding); columns are units that the embedding
 * makes.
 * The axes of the indices stand in the output where the axis was. */
void vc_couple_gather(struct vc_couple *c)
{
    const struct vc_graph_value *x = vc_couple_in(c, 0);
    const struct vc_graph_value *at = vc_couple_in(c, 1);
    unsigned axis = vc_couple_int_axis(c, "axis", 0, x->n_dims);
    unsigned to = 0;

    vc_couple_fix(c, vc_couple_axis(c, 0, axis), "looks it up by numbers");
    for (unsigned k = 0; k < x->n_dims; k++) {
        for (unsigned i = 0; k == axis && i < at->n_dims; i++) {
            vc_couple_set(c, 0, to++, vc_couple_axis(c, 1, i));
        }
        if (k != axis) {
            vc_couple_makes(c, 0, k);
            vc_couple_set(c, 0, to++, vc_couple_axis(c, 0, k));
        }
    }
}

/* The new sizes (input 3 of Resize) as numbers that follow their axes, of all axes or of those in the
 * attribute. */
static void say_resized(struct vc_couple *c)
{
    const struct vc_graph_value *y = vc_couple_out(c, 0);
    const struct vc_graph_attr *axes = vc_couple_attr(c, "axes");
    struct vc_size sizes[VC_GRAPH_MAX_DIMS];
    unsigned n = axes != NULL && axes->n <= VC_GRAPH_MAX_DIMS ? (unsigned)axes->n : y->n_dims;
    bool known = true;

    for (unsigned k = 0; k < n; k++) {
        unsigned axis = axes != NULL ? vc_couple_place(axes->ints[k], y->n_dims) : k;

        sizes[k] = (struct vc_size){.term = vc_couple_out_axis(c, axis), .number = 1};
        known = known && vc_dim_is_number(y->shape[axis]);
    }
    vc_couple_say_or_fix(c, 3, sizes, n, known);
}

/* Axes whose size stays pass on.
 * Scales (input 2) are ratios and need no rewriting. */
void vc_couple_resize(struct vc_couple *c)
{
    const struct vc_graph_value *x = vc_couple_in(c, 0);
    const struct vc_graph_value *y = vc_couple_out(c, 0);

    vc_couple_pass(c);
    for (unsigned k = 0; k < x->n_dims; k++) {
        if (!vc_dim_equal(x->shape[k], y->shape[k])) {
            vc_couple_fix(c, vc_couple_axis(c, 0, k), "stretches it");
            vc_couple_set_fixed(c, 0, k, "stretches it");
        }
    }
    if (vc_couple_in(c, 3) != NULL) {
        say_resized(c);
    }
}
