/* couple_compute.c - rules of operators that compute: one element at a time, products, convolutions, norms,
 * reductions.
 *
 *     joined       axes that meet element by element, or that a product sums over
 *     fixed        axes over which something is computed that a removed unit would change: Softmax, means, windows
 *     made         axes of a weight along which units are computed: rows of a Linear, filters of a Conv
 */

#include "graph/couple/couple_rules.h"

/* ---- one element at a time, and what is like it ---- */

/* Axes of the outputs first: each is the axis of an input that has it with a size above 1. Then all inputs
 * are joined with output 0, which ties parameters (a bias) to what they are added to. */
void vc_couple_each(struct vc_couple *c)
{
    const struct vc_graph_node *node = vc_couple_node(c);

    for (unsigned k = 0; k < node->n_inputs; k++) {
        const struct vc_graph_value *in = vc_couple_in(c, k);

        for (unsigned o = 0; in != NULL && o < node->n_outputs; o++) { /* each axis is that of an input that has it */
            const struct vc_graph_value *out = vc_couple_out(c, o);

            for (unsigned i = 0; out != NULL && i < in->n_dims; i++) {
                uint32_t term = vc_couple_axis(c, k, in->n_dims - 1 - i);

                if (vc_axes_resolve(&c->axes, term) != VC_AXIS_ONE) {
                    vc_couple_set(c, o, out->n_dims - 1 - i, term);
                }
            }
        }
    }
    for (unsigned k = 0; k < node->n_inputs && vc_couple_out(c, 0) != NULL; k++) {
        vc_couple_broadcast(c, k);
    }
}

/* The first input alone has the shape; others are single numbers (Clip, Dropout). */
void vc_couple_first(struct vc_couple *c)
{
    for (unsigned o = 0; o < vc_couple_node(c)->n_outputs; o++) {
        for (unsigned k = 0; k < vc_couple_in(c, 0)->n_dims; k++) {
            vc_couple_set(c, o, k, vc_couple_axis(c, 0, k));
        }
    }
}

/* The cautious rule: nothing of the inputs or outputs can be removed. */
void vc_couple_mixes(struct vc_couple *c)
{
    for (unsigned k = 0; k < vc_couple_node(c)->n_inputs; k++) {
        vc_couple_fix_input(c, k, "mixes it");
    }
    vc_couple_new(c);
}

/* The axes of the outputs are the operator's own. */
void vc_couple_new(struct vc_couple *c)
{
    for (unsigned o = 0; o < vc_couple_node(c)->n_outputs; o++) {
        for (unsigned k = 0; vc_couple_out(c, o) != NULL && k < vc_couple_out(c, o)->n_dims; k++) {
            vc_couple_set_fixed(c, o, k, "makes it");
        }
    }
}

/* One scale for each row goes with its row; scales for blocks fix the axis, since a block would lose a part. */
void vc_couple_quantize(struct vc_couple *c)
{
    const struct vc_graph_value *x = vc_couple_in(c, 0);

    vc_couple_pass(c);
    for (unsigned k = 1; k < 3; k++) {
        const struct vc_graph_value *in = vc_couple_in(c, k);

        if (in != NULL && in->n_dims == 1 && x->n_dims != 0) {
            vc_axes_join(&c->axes, vc_couple_axis(c, k, 0),
                         vc_couple_axis(c, 0, vc_couple_int_axis(c, "axis", 1, x->n_dims)));
        } else if (in != NULL && in->n_dims > 1) {
            vc_couple_fix_input(c, 0, "has scales for blocks of it");
            vc_couple_fix_input(c, k, "has scales for blocks of it");
        }
    }
}

/* ---- products of matrices ---- */

static const char summed[] = "sums over it";

/* Axes before the last two of both sides are joined. Where both sides are computed (scores, values of attention),
 * numbers among them are heads, and the columns of the right side are the size of a head, which stays. */
static void batches(struct vc_couple *c)
{
    const struct vc_graph_value *a = vc_couple_in(c, 0);
    const struct vc_graph_value *b = vc_couple_in(c, 1);
    unsigned n = vc_couple_out(c, 0)->n_dims;
    bool both = vc_couple_depends(c, 0) && vc_couple_depends(c, 1);
    bool heads = false;

    for (unsigned i = 2; i < n || i < a->n_dims || i < b->n_dims; i++) {
        uint32_t left = i < a->n_dims ? vc_couple_axis(c, 0, a->n_dims - 1 - i) : VC_AXIS_ONE;
        uint32_t right = i < b->n_dims ? vc_couple_axis(c, 1, b->n_dims - 1 - i) : VC_AXIS_ONE;

        vc_axes_join(&c->axes, left, right);
        left = vc_axes_resolve(&c->axes, left) == VC_AXIS_ONE ? right : left;
        vc_couple_set(c, 0, n - 1 - i, left);
        if (both && vc_dim_is_number(vc_axes_term(&c->axes, vc_axes_resolve(&c->axes, left))->size)) {
            vc_axes_set_unit(&c->axes, left, VC_UNIT_HEADS);
            heads = heads || vc_axes_resolve(&c->axes, left) != VC_AXIS_ONE;
        }
    }
    if (heads) {
        vc_couple_fix(c, vc_couple_axis(c, 1, b->n_dims - 1), "has heads of that size");
    }
}

/* The inner axes are joined: neurons of one layer are the columns of the next. A product of two computed sides sums
 * over something that no weight can shrink, which is fixed. */
void vc_couple_matmul(struct vc_couple *c)
{
    const struct vc_graph_value *a = vc_couple_in(c, 0);
    const struct vc_graph_value *b = vc_couple_in(c, 1);
    unsigned n = vc_couple_out(c, 0)->n_dims;
    unsigned columns = b->n_dims > 1 ? 1 : 0;
    uint32_t over = vc_couple_axis(c, 0, a->n_dims - 1);

    vc_axes_join(&c->axes, over, vc_couple_axis(c, 1, b->n_dims - 1 - columns));
    if (a->n_dims > 1) {
        vc_couple_set(c, 0, n - 1 - columns, vc_couple_axis(c, 0, a->n_dims - 2));
        vc_couple_makes(c, 0, a->n_dims - 2);
    }
    if (columns != 0) {
        vc_couple_set(c, 0, n - 1, vc_couple_axis(c, 1, b->n_dims - 1));
        vc_couple_makes(c, 1, b->n_dims - 1);
    }
    if (a->n_dims > 1 && b->n_dims > 1) {
        batches(c);
    }
    if (vc_couple_depends(c, 0) && vc_couple_depends(c, 1)) {
        vc_couple_fix(c, over, summed);
    }
}

/* C's axes broadcast to the output, so that a bias loses the element of a removed row. */
void vc_couple_gemm(struct vc_couple *c)
{
    unsigned at = vc_couple_int(c, "transA", 0) != 0 ? 1 : 0;
    unsigned bt = vc_couple_int(c, "transB", 0) != 0 ? 1 : 0;

    vc_axes_join(&c->axes, vc_couple_axis(c, 0, 1 - at), vc_couple_axis(c, 1, bt));
    vc_couple_set(c, 0, 0, vc_couple_axis(c, 0, at));
    vc_couple_set(c, 0, 1, vc_couple_axis(c, 1, 1 - bt));
    vc_couple_makes(c, 0, at);
    vc_couple_makes(c, 1, 1 - bt);
    vc_couple_broadcast(c, 2);
    if (vc_couple_depends(c, 0) && vc_couple_depends(c, 1)) {
        vc_couple_fix(c, vc_couple_axis(c, 0, 1 - at), summed);
    }
}

/* ---- convolutions and pools ---- */

/* Heights and widths: a window moves along them, and no unit can go. */
static void sides(struct vc_couple *c, unsigned from)
{
    const struct vc_graph_value *x = vc_couple_in(c, 0);

    for (unsigned k = from; k < x->n_dims; k++) {
        vc_couple_fix(c, vc_couple_axis(c, 0, k), "moves a window along it");
        vc_couple_set_fixed(c, 0, k, "moves a window along it");
    }
}

void vc_couple_pool(struct vc_couple *c)
{
    vc_couple_set(c, 0, 0, vc_couple_axis(c, 0, 0));
    vc_couple_set(c, 0, 1, vc_couple_axis(c, 0, 1));
    sides(c, 2);
}

/* The groups of a convolution. Depthwise (one input channel for each group): a channel goes with its group, and the
 * attribute is written anew. Otherwise the number of groups stays, and an equal share of each group may go. */
static uint32_t groups_of(struct vc_couple *c, int64_t inputs_of_each)
{
    uint32_t groups = vc_axes_atom(&c->axes, vc_dim_number(vc_couple_int(c, "group", 1)));

    if (inputs_of_each == 1) {
        vc_couple_state(c, "group", groups);
    } else {
        vc_couple_fix(c, groups, "has that many groups");
    }
    return groups;
}

static uint32_t product2(struct vc_couple *c, uint32_t outer, uint32_t inner)
{
    return vc_axes_product(&c->axes, (uint32_t[]){outer, inner}, 2);
}

/* What both kinds share, once the channels are said: windows, the bias, the batch. */
static void convolve(struct vc_couple *c, uint32_t channels)
{
    const struct vc_graph_value *w = vc_couple_in(c, 1);

    for (unsigned k = 2; k < w->n_dims; k++) {
        vc_couple_fix(c, vc_couple_axis(c, 1, k), "moves a window of that size");
    }
    vc_couple_set(c, 0, 0, vc_couple_axis(c, 0, 0));
    vc_couple_set(c, 0, 1, channels);
    sides(c, 2);
    if (vc_couple_in(c, 2) != NULL) {
        vc_axes_join(&c->axes, vc_couple_axis(c, 2, 0), channels);
    }
    if (vc_couple_depends(c, 1)) {
        vc_couple_fix_input(c, 1, summed);
    }
}

/* With groups the input's channels are product(groups, weights' axis 1), the filters product(groups, share). */
void vc_couple_conv(struct vc_couple *c)
{
    const struct vc_graph_value *w = vc_couple_in(c, 1);
    int64_t n = vc_couple_int(c, "group", 1);
    uint32_t rows = vc_couple_axis(c, 1, 0);

    VC_LEAVE_IF(!vc_dim_is_number(w->shape[0]) || !vc_dim_is_number(w->shape[1]) || n < 1, vc_couple_mixes(c));
    vc_couple_makes(c, 1, 0);
    if (n == 1) {
        vc_axes_join(&c->axes, vc_couple_axis(c, 0, 1), vc_couple_axis(c, 1, 1));
    } else {
        uint32_t groups = groups_of(c, w->shape[1].size);
        uint32_t share = vc_axes_atom(&c->axes, vc_dim_number(w->shape[0].size / n));

        vc_axes_join(&c->axes, vc_couple_axis(c, 0, 1), product2(c, groups, vc_couple_axis(c, 1, 1)));
        vc_axes_join(&c->axes, rows, product2(c, groups, share));
    }
    convolve(c, rows);
}

/* Axis 0 of the weights has the input's channels, axis 1 the filters of one group. */
void vc_couple_conv_transpose(struct vc_couple *c)
{
    const struct vc_graph_value *w = vc_couple_in(c, 1);
    int64_t n = vc_couple_int(c, "group", 1);
    uint32_t channels = vc_couple_axis(c, 1, 1);

    VC_LEAVE_IF(!vc_dim_is_number(w->shape[0]) || !vc_dim_is_number(w->shape[1]) || n < 1, vc_couple_mixes(c));
    vc_couple_makes(c, 1, 1);
    vc_axes_join(&c->axes, vc_couple_axis(c, 0, 1), vc_couple_axis(c, 1, 0));
    if (n > 1) {
        uint32_t groups = groups_of(c, w->shape[0].size / n);
        uint32_t share = vc_axes_atom(&c->axes, vc_dim_number(w->shape[0].size / n));

        vc_axes_join(&c->axes, vc_couple_axis(c, 1, 0), product2(c, groups, share));
        channels = product2(c, groups, channels);
        if (w->shape[0].size == n) { /* a row for each group: it makes what its group makes */
            vc_couple_makes(c, 1, 0);
        }
    }
    convolve(c, channels);
}

/* ---- normalizations ---- */

/* One number for each channel: BatchNormalization, InstanceNormalization. */
void vc_couple_batch_norm(struct vc_couple *c)
{
    const struct vc_graph_node *node = vc_couple_node(c);

    vc_couple_pass(c);
    for (unsigned k = 1; k < node->n_inputs; k++) {
        vc_axes_join(&c->axes, vc_couple_axis(c, k, 0), vc_couple_axis(c, 0, 1));
    }
    for (unsigned k = 1; k < node->n_outputs; k++) {
        vc_couple_set(c, k, 0, vc_couple_axis(c, 0, 1));
    }
    for (unsigned k = 2; node->n_inputs == 3 && k < vc_couple_in(c, 0)->n_dims; k++) {
        vc_couple_fix(c, vc_couple_axis(c, 0, k), "takes the mean over it");
    }
}

/* The channels of a group share a mean: they stay together, and groups go as a whole, with num_groups. */
void vc_couple_group_norm(struct vc_couple *c)
{
    const struct vc_graph_value *x = vc_couple_in(c, 0);
    int64_t n = vc_couple_int(c, "num_groups", 1);

    VC_LEAVE_IF(!vc_dim_is_number(x->shape[1]) || n < 1, vc_couple_mixes(c));
    uint32_t groups = vc_axes_atom(&c->axes, vc_dim_number(n));
    uint32_t share = vc_axes_atom(&c->axes, vc_dim_number(x->shape[1].size / n));
    vc_axes_set_unit(&c->axes, share, VC_UNIT_HIDDEN);
    vc_couple_state(c, "num_groups", groups);
    vc_couple_pass(c);
    vc_axes_join(&c->axes, vc_couple_axis(c, 0, 1), product2(c, groups, share));
    for (unsigned k = 1; k < 3; k++) {
        vc_axes_join(&c->axes, vc_couple_axis(c, k, 0), vc_couple_axis(c, 0, 1));
    }
    for (unsigned k = 2; k < x->n_dims; k++) {
        vc_couple_fix(c, vc_couple_axis(c, 0, k), "takes the mean over it");
    }
}

/* Normalized axes are hidden units: removing some changes the mean of the others, so `hidden` is removed only when
 * asked for. */
void vc_couple_layer_norm(struct vc_couple *c)
{
    const struct vc_graph_value *x = vc_couple_in(c, 0);
    unsigned from = vc_couple_int_axis(c, "axis", -1, x->n_dims);

    vc_couple_pass(c);
    for (unsigned k = 1; k < vc_couple_node(c)->n_inputs; k++) {
        vc_couple_broadcast(c, k);
    }
    for (unsigned k = 0; k < x->n_dims; k++) {
        for (unsigned o = 1; o < vc_couple_node(c)->n_outputs; o++) {
            vc_couple_set(c, o, k, k < from ? vc_couple_axis(c, 0, k) : VC_AXIS_ONE);
        }
        if (k >= from) {
            vc_axes_set_unit(&c->axes, vc_couple_axis(c, 0, k), VC_UNIT_HIDDEN);
        }
    }
}

void vc_couple_softmax(struct vc_couple *c)
{
    vc_couple_pass(c);
    vc_couple_fix(c, vc_couple_axis(c, 0, vc_couple_int_axis(c, "axis", -1, vc_couple_in(c, 0)->n_dims)),
                  "divides by the sum over it");
}

/* ---- along axes ---- */

/* Axes in `over` are fixed, and in the output 1 or gone. */
static void reduce(struct vc_couple *c, const bool *over)
{
    const struct vc_graph_value *x = vc_couple_in(c, 0);
    bool keeps = vc_couple_int(c, "keepdims", 1) != 0;
    unsigned to = 0;

    for (unsigned k = 0; k < x->n_dims; k++) {
        if (over[k]) {
            vc_couple_fix(c, vc_couple_axis(c, 0, k), "makes one of it");
        }
        if (!over[k] || keeps) {
            vc_couple_set(c, 0, to++, over[k] ? VC_AXIS_ONE : vc_couple_axis(c, 0, k));
        }
    }
}

/* Axes that are given but not known count as all axes. */
void vc_couple_reduce(struct vc_couple *c)
{
    const struct vc_graph_value *x = vc_couple_in(c, 0);
    bool over[VC_GRAPH_MAX_DIMS] = {false};
    size_t n;
    const struct vc_dim *axes = vc_couple_elems(c, 1, &n);
    bool all = n == 0 && vc_couple_int(c, "noop_with_empty_axes", 0) == 0;

    for (unsigned k = 0; k < x->n_dims; k++) {
        over[k] = all;
    }
    for (size_t k = 0; axes != NULL && k < n; k++) {
        over[vc_couple_place(axes[k].size, x->n_dims) % VC_GRAPH_MAX_DIMS] = true;
    }
    reduce(c, over);
}

void vc_couple_arg(struct vc_couple *c)
{
    bool over[VC_GRAPH_MAX_DIMS] = {false};

    over[vc_couple_int_axis(c, "axis", 0, vc_couple_in(c, 0)->n_dims) % VC_GRAPH_MAX_DIMS] = true;
    reduce(c, over);
}

/* TopK, CumSum, Trilu: places along some axis count. Which one does not matter to those that have none. */
void vc_couple_along(struct vc_couple *c)
{
    const struct vc_graph_value *x = vc_couple_in(c, 0);
    bool trilu = vc_node_is(vc_couple_node(c), VC_OP_trilu);
    bool cumsum = vc_node_is(vc_couple_node(c), VC_OP_cumsum);
    unsigned axis = vc_couple_int_axis(c, "axis", -1, x->n_dims);
    size_t n;
    const struct vc_dim *elems = vc_couple_elems(c, 1, &n);

    if (cumsum && elems != NULL && n == 1) {
        axis = vc_couple_place(elems[0].size, x->n_dims);
    }
    vc_couple_first(c);
    for (unsigned k = 0; k < x->n_dims; k++) {
        if (trilu ? k + 2 >= x->n_dims : k == axis) {
            vc_couple_fix(c, vc_couple_axis(c, 0, k), "goes by places along it");
            for (unsigned o = 0; !trilu && !cumsum && o < vc_couple_node(c)->n_outputs; o++) {
                vc_couple_set_fixed(c, o, k, "makes it");
            }
        }
    }
}
