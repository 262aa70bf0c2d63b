/* lift.c - see lift.h.
 *
 *     find     nodes from the last to the first: which places of each value its readers want. A node whose operator has a rule
 *              hands the places of its output on to its inputs; all others want everything.
 *     make     nodes in order: where a reader wants fewer places than a value has, a Slice is put before it
 *
 *     x  all          q = MatMul(x, wq)  place 0 of 64      reads Slice(x, 0:1)
 *                     k = MatMul(x, wk)  all                reads x
 *
 * A value that is wanted at several ranges of one axis has the least range with all of them, and readers slice that. */
#include "graph/lift.h"

#include "graph/ops/ops.h"

/* What is wanted of a value: nothing, count places of an axis from start on, everything. */
struct places {
    enum { UNREAD = 0, SOME, ALL } kind;
    unsigned axis;
    int64_t start, count;
};

struct of_value {
    struct places wanted, cut; /* cut: of the last Slice of it */
    uint32_t sliced;           /* what that makes */
};

struct of_node {
    struct places p; /* of its outputs; of one that `selects`, of its first input */
    bool selects;    /* its output is places of its input, with another shape */
};

struct lift {
    const struct vc_graph *of;
    struct vc_lifted *out;
    struct vc_graph *to; /* out->graph */
    const bool *fixed;
    bool drops;
    bool any; /* some value has fewer places */
    struct of_value *values;
    struct of_node *nodes;
};

/* What a rule says of input k: the axis of its places, or: */
enum { WHOLE = -1, NEVER = -2 }; /* all of it is read; the node needs all places */

/* For output 0 at these places, with ends of at most half of the axis: its size there is 2 or more. */
typedef int rule(const struct lift *l, const struct vc_graph_node *node, const struct places *p, unsigned k);

static int64_t size_of(const struct lift *l, uint32_t v, unsigned axis)
{
    return vc_dim_value(&l->of->dims, l->of->values[v].shape[axis]);
}

static unsigned dims_of(const struct lift *l, uint32_t v)
{
    return l->of->values[v].n_dims;
}

static unsigned axis_of(const struct vc_graph_node *node, int64_t otherwise, unsigned n_dims)
{
    int64_t axis = vc_node_int(node, "axis", otherwise);

    return (unsigned)(axis < 0 ? axis + (int64_t)n_dims : axis);
}

static uint32_t input(const struct vc_graph_node *node, unsigned k)
{
    return k < node->n_inputs ? node->inputs[k] : VC_NO_VALUE;
}

/* ---- rules, by the column `axes` of ops.inc ---- */

/* Inputs that broadcast, aligned at their last dimensions. */
static int lift_each(const struct lift *l, const struct vc_graph_node *node, const struct places *p, unsigned k)
{
    int at = (int)p->axis + (int)dims_of(l, node->inputs[k]) - (int)dims_of(l, node->outputs[0]);
    int64_t size = at < 0 ? 1 : size_of(l, node->inputs[k], (unsigned)at);

    return size == 1 ? WHOLE : size == size_of(l, node->outputs[0], p->axis) ? at : NEVER;
}

/* The first input alone has places: also of a Reduce over other axes, which stay. Scales of FakeQuantize are of parts of the last
 * axis. One place behind an axis that is summed up would be summed up in another order (engine/loops/train_strided.h). */
static int lift_first(const struct lift *l, const struct vc_graph_node *node, const struct places *p, unsigned k)
{
    unsigned last = dims_of(l, node->inputs[0]) - 1;
    int64_t part = vc_node_int(node, "size", 0);
    bool parts = vc_node_is(node, VC_OP_fake_quantize) &&
                 (p->axis == last || (part != 0 && size_of(l, node->inputs[0], last) % part != 0));

    if (parts || (vc_node_is(node, VC_OP_dropout) && l->drops) || last + 1 != dims_of(l, node->outputs[0])) {
        return NEVER;
    }
    for (unsigned d = 0; p->count == 1 && d < p->axis; d++) {
        if (size_of(l, node->inputs[0], d) > size_of(l, node->outputs[0], d)) {
            return NEVER;
        }
    }
    return k == 0 ? lift_each(l, node, p, k) : WHOLE;
}

/* Rows of the first matrix, and stacks of both. */
static int lift_matmul(const struct lift *l, const struct vc_graph_node *node, const struct places *p, unsigned k)
{
    unsigned behind = dims_of(l, node->outputs[0]) - p->axis; /* 1: columns, 2: rows */

    if (behind < 2 || dims_of(l, node->inputs[0]) < 2 || dims_of(l, node->inputs[1]) < 2) {
        return NEVER;
    }
    return k == 1 && behind == 2 ? WHOLE : lift_each(l, node, p, k);
}

/* Along another axis: Softmax, Concat, Split. */
static int lift_softmax(const struct lift *l, const struct vc_graph_node *node, const struct places *p, unsigned k)
{
    bool last = vc_node_is(node, VC_OP_softmax) || vc_node_is(node, VC_OP_log_softmax);

    if (p->axis == axis_of(node, last ? -1 : 0, dims_of(l, node->inputs[0]))) {
        return NEVER;
    }
    return k == 0 || vc_node_is(node, VC_OP_concat) ? (int)p->axis : WHOLE;
}

static int lift_layer_norm(const struct lift *l, const struct vc_graph_node *node, const struct places *p, unsigned k)
{
    return p->axis >= axis_of(node, -1, dims_of(l, node->inputs[0])) ? NEVER : lift_each(l, node, p, k);
}

static int lift_transpose(const struct lift *l, const struct vc_graph_node *node, const struct places *p, unsigned k)
{
    const struct vc_graph_attr *perm = vc_node_attr(node, "perm");

    return perm != NULL ? (int)perm->ints[p->axis] : (int)(dims_of(l, node->inputs[k]) - 1 - p->axis);
}

/* The axis of the input that has as many elements, and as many before it. */
static int lift_reshape(const struct lift *l, const struct vc_graph_node *node, const struct places *p, unsigned k)
{
    uint32_t x = node->inputs[0];
    int64_t before = 1;
    int64_t seen = 1;

    if (k != 0) {
        return WHOLE;
    }
    for (unsigned d = 0; d < p->axis; d++) {
        before *= size_of(l, node->outputs[0], d);
    }
    for (unsigned d = 0; d < dims_of(l, x); seen *= size_of(l, x, d++)) {
        if (seen == before && size_of(l, x, d) == size_of(l, node->outputs[0], p->axis)) {
            return (int)d;
        }
    }
    return NEVER;
}

/* A Slice that cuts one axis by steps of 1, or a Gather of one place: which places of its first input it reads. */
static bool selection(const struct lift *l, const struct vc_graph_node *node, struct places *p)
{
    int64_t ints[4][VC_GRAPH_MAX_DIMS];
    size_t n[4] = {0};
    unsigned n_dims = dims_of(l, node->inputs[0]);

    *p = (struct places){UNREAD, 0, 0, 0};
    for (unsigned k = 0; k < 4; k++) {
        if (input(node, k + 1) != VC_NO_VALUE &&
            !vc_graph_ints(l->of, node->inputs[k + 1], ints[k], VC_GRAPH_MAX_DIMS, &n[k])) {
            return false;
        }
    }
    if (vc_node_is(node, VC_OP_gather)) {
        *p = (struct places){SOME, axis_of(node, 0, n_dims), ints[0][0], 1};
        p->start += n[0] == 1 && p->start < 0 ? size_of(l, node->inputs[0], p->axis) : 0;
        return n[0] == 1 && p->start >= 0 && p->start < size_of(l, node->inputs[0], p->axis);
    }
    for (size_t i = 0; i < n[0]; i++) {
        int64_t axis = n[2] == 0 ? (int64_t)i : ints[2][i] < 0 ? ints[2][i] + n_dims : ints[2][i];
        int64_t size = size_of(l, node->inputs[0], (unsigned)axis);
        int64_t count = size_of(l, node->outputs[0], (unsigned)axis);
        int64_t start = ints[0][i] < 0 ? ints[0][i] + size : ints[0][i];

        if ((n[3] != 0 && ints[3][i] != 1) || (p->kind == SOME && count != size)) {
            return false;
        }
        if (count != size) {
            *p = (struct places){SOME, (unsigned)axis, start < 0 ? 0 : start, count};
        }
    }
    return p->kind == SOME;
}

/* What it cuts along the same axis is a selection (find_node). */
static int lift_slice(const struct lift *l, const struct vc_graph_node *node, const struct places *p, unsigned k)
{
    struct places own;

    return !selection(l, node, &own) || own.axis == p->axis ? NEVER : k == 0 ? (int)p->axis : WHOLE;
}

/* Not by places of the indices: one that is out of range is an error, wherever it is. */
static int lift_gather(const struct lift *l, const struct vc_graph_node *node, const struct places *p, unsigned k)
{
    unsigned axis = axis_of(node, 0, dims_of(l, node->inputs[0]));
    unsigned n = dims_of(l, node->inputs[1]);

    if (p->axis >= axis && p->axis < axis + n) {
        return NEVER;
    }
    return k != 0 ? WHOLE : p->axis < axis ? (int)p->axis : (int)(p->axis + 1 - n);
}

/* Queries, and rows of the mask. A causal query is one that sees all keys: the last one. */
static int lift_attention(const struct lift *l, const struct vc_graph_node *node, const struct places *p, unsigned k)
{
    uint32_t x = node->inputs[k];
    unsigned axis = dims_of(l, node->inputs[0]) - 2;
    int64_t queries = size_of(l, node->outputs[0], p->axis);

    if (p->axis != (dims_of(l, node->inputs[0]) == 4 ? 2 : 1) || input(node, 4) != VC_NO_VALUE ||
        node->n_outputs != 1 ||
        (vc_node_int(node, "is_causal", 0) != 0 &&
         (p->count != 1 || p->start != queries - 1 || size_of(l, node->inputs[1], axis) != queries))) {
        return NEVER;
    }
    if (k == 3 && dims_of(l, x) >= 2 && size_of(l, x, dims_of(l, x) - 2) != 1) {
        return (int)dims_of(l, x) - 2;
    }
    return k == 0 ? (int)p->axis : WHOLE;
}

/* Positions, or tables of them for each place. */
static int lift_rotary(const struct lift *l, const struct vc_graph_node *node, const struct places *p, unsigned k)
{
    if (p->axis != (dims_of(l, node->inputs[0]) == 4 ? 2 : 1)) {
        return NEVER;
    }
    return k == 0 ? (int)p->axis : k == 3 || input(node, 3) == VC_NO_VALUE ? 1 : WHOLE;
}

/* Words of the column without a rule: these operators mix places, or have none, or are rare. */
/* clang-format off */
enum { lift_gemm, lift_einsum = 0, lift_conv = 0, lift_conv_transpose = 0, lift_pool = 0, lift_batch_norm = 0, lift_group_norm = 0,
       lift_quantize = 0, lift_recurrent = 0, lift_arg = 0, lift_along = 0, lift_new = 0, lift_mixes = 0, lift_constant = 0,
       lift_tile = 0, lift_pad = 0, lift_resize = 0 };
/* clang-format on */
#define lift_concat lift_softmax
#define lift_split  lift_softmax
#define lift_expand lift_first
#define lift_reduce lift_first

static rule *const rules[VC_OPS] = {
#define OP(id, name, min_in, max_in, min_out, max_out, axes, reads, backward, eager) [VC_OP_##id] = (rule *)lift_##axes,
#include "graph/ops/ops.inc"
#undef OP
};

/* ---- find ---- */

/* Both, as one range; ALL where that is more than half of the axis. */
static struct places join(const struct lift *l, uint32_t v, struct places a, struct places b)
{
    bool whole = l->fixed[v] || l->of->values[v].kind != VC_VALUE_RESULT || l->of->facts[v].elems != NULL ||
                 a.kind == ALL || b.kind == ALL || (a.kind == SOME && a.axis != b.axis) ||
                 vc_graph_elements(l->of, v) < 1;
    int64_t end = b.start + b.count;

    if (a.kind == SOME && !whole) {
        end = a.start + a.count > end ? a.start + a.count : end;
        b.start = a.start < b.start ? a.start : b.start;
        b.count = end - b.start;
    }
    return whole || b.count > size_of(l, v, b.axis) / 2 ? (struct places){.kind = ALL} : b;
}

/* Integers that follow from shapes become constants, which are what they were whatever becomes of the shapes. */
static bool is_known(const struct lift *l, const struct vc_graph_node *node)
{
    uint32_t v = node->n_outputs == 1 ? node->outputs[0] : VC_NO_VALUE;

    return v != VC_NO_VALUE && l->of->facts[v].elems != NULL && l->of->values[v].dtype != VC_DTYPE_F32;
}

/* Of input k, where the node's are found: ALL, or some; UNREAD: the node needs all places of its output. */
static struct places input_places(const struct lift *l, const struct vc_graph_node *node, unsigned k)
{
    const struct of_node *at = &l->nodes[node - l->of->nodes];
    struct places p = at->p;
    int axis = WHOLE;

    if (p.kind == SOME && at->selects) {
        axis = k == 0 ? (int)p.axis : WHOLE;
    } else if (p.kind == SOME && node->inputs[k] != VC_NO_VALUE) {
        rule *of = node->row != NULL ? rules[node->row->op] : NULL;

        axis = of != NULL ? of(l, node, &p, k) : NEVER;
    }
    p.kind = axis == WHOLE ? ALL : axis == NEVER ? UNREAD : SOME;
    p.axis = (unsigned)axis;
    return p;
}

/* What the readers of its outputs want is known; what it wants of its inputs follows. A Gather of one place hands nothing on
 * but that. */
static void find_node(struct lift *l, const struct vc_graph_node *node)
{
    struct of_node *at = &l->nodes[node - l->of->nodes];
    struct places out = {UNREAD, 0, 0, 0};
    struct places in;
    bool gathers = vc_node_is(node, VC_OP_gather);

    for (unsigned k = 0; k < node->n_outputs; k++) {
        if (node->outputs[k] != VC_NO_VALUE && l->values[node->outputs[k]].wanted.kind != UNREAD) {
            out = join(l, node->outputs[k], out, l->values[node->outputs[k]].wanted);
        }
    }
    if (out.kind == UNREAD || is_known(l, node)) {
        return;
    }
    if ((gathers || vc_node_is(node, VC_OP_slice)) && selection(l, node, &in)) {
        out.kind = gathers ? ALL : out.kind;
        at->selects = out.kind == ALL || out.axis == in.axis;
        in.start += out.kind == SOME ? out.start : 0;
        in.count = out.kind == SOME ? out.count : in.count;
    }
    at->p = at->selects ? in : out;
    if (!at->selects && (node->row == NULL || rules[node->row->op] == NULL)) {
        at->p.kind = out.kind = ALL;
    }
    for (unsigned k = 0; k < node->n_inputs; k++) {
        if (input_places(l, node, k).kind == UNREAD) {
            at->p.kind = out.kind = ALL;
        }
    }
    for (unsigned k = 0; k < node->n_outputs; k++) {
        if (node->outputs[k] != VC_NO_VALUE && l->values[node->outputs[k]].wanted.kind != UNREAD) {
            l->values[node->outputs[k]].wanted = out;
        }
    }
    l->any = l->any || out.kind == SOME;
    for (unsigned k = 0; k < node->n_inputs; k++) {
        if (node->inputs[k] != VC_NO_VALUE) {
            struct places *wanted = &l->values[node->inputs[k]].wanted;

            *wanted = join(l, node->inputs[k], *wanted, input_places(l, node, k));
        }
    }
}

/* ---- make ---- */

/* A list of integers as a value. */
static uint32_t add_ints(struct lift *l, const int64_t *ints, size_t n)
{
    const struct vc_dim size = vc_dim_number((int64_t)n);
    uint32_t v = l->to->n_values++;

    l->to->values[v] = (struct vc_graph_value){.name = "",
                                               .kind = VC_VALUE_CONSTANT,
                                               .dtype = VC_DTYPE_I64,
                                               .n_dims = 1,
                                               .node = VC_NO_NODE,
                                               .param = VC_NO_PARAM};
    l->to->values[v].shape = vc_graph_copy(l->to, &size, 1, sizeof size);
    l->to->values[v].data = vc_graph_copy(l->to, ints, n, sizeof *ints);
    return v;
}

/* The value's shape in numbers, at these places. */
static void shape_value(struct lift *l, uint32_t v, const struct vc_graph_value *like, const struct places *p)
{
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];

    for (unsigned d = 0; d < like->n_dims; d++) {
        shape[d] =
            vc_dim_number(p->kind == SOME && d == p->axis ? p->count : vc_dim_value(&l->of->dims, like->shape[d]));
    }
    l->to->values[v].shape = vc_graph_copy(l->to, shape, like->n_dims, sizeof *shape);
}

static void add_node(struct lift *l, const struct vc_graph_node *node, uint32_t origin)
{
    for (unsigned k = 0; k < node->n_outputs; k++) {
        if (node->outputs[k] != VC_NO_VALUE) {
            l->to->values[node->outputs[k]].node = l->to->n_nodes;
        }
    }
    l->out->origin[l->to->n_nodes] = origin;
    l->to->nodes[l->to->n_nodes++] = *node;
}

/* The node as another operator, with inputs and no attributes. */
static void become(struct lift *l, struct vc_graph_node *node, const char *op, const uint32_t *inputs, unsigned n)
{
    node->op = op;
    node->row = vc_op_find(op);
    node->attrs = NULL;
    node->n_attrs = 0;
    node->inputs = vc_graph_copy(l->to, inputs, n, sizeof *inputs);
    node->n_inputs = n;
}

/* The value that has places p of v, for the node: v itself, or a Slice of it before the node. */
static uint32_t cut(struct lift *l, const struct vc_graph_node *node, uint32_t v, struct places p)
{
    const struct places *has = &l->values[v].wanted;
    struct places *last = &l->values[v].cut;

    if (p.kind == ALL || (has->kind == SOME && has->start == p.start && has->count == p.count)) {
        return v;
    }
    if (last->kind == SOME && last->axis == p.axis && last->start == p.start && last->count == p.count) {
        return l->values[v].sliced;
    }
    *last = p;
    p.start -= has->kind == SOME ? has->start : 0;
    const int64_t at[3] = {p.start, p.start + p.count, p.axis};
    const uint32_t in[4] = {v, add_ints(l, at, 1), add_ints(l, at + 1, 1), add_ints(l, at + 2, 1)};
    struct vc_graph_node slice = *node;

    uint32_t y = l->values[v].sliced = l->to->n_values++;
    l->to->values[y] = l->to->values[v];
    l->to->values[y].kind = VC_VALUE_RESULT;
    l->to->values[y].param = VC_NO_PARAM;
    l->to->values[y].data = NULL;
    shape_value(l, y, &l->of->values[v], &p);
    slice.n_outputs = 1;
    slice.outputs = vc_graph_copy(l->to, &y, 1, sizeof y);
    slice.macs = vc_dim_number(0);
    become(l, &slice, "Slice", in, 4);
    add_node(l, &slice, VC_NO_NODE);
    return y;
}

/* The node as it is, or with fewer places of its output, or of what it reads. */
static void make_node(struct lift *l, uint32_t n)
{
    const struct vc_graph_node *of = &l->of->nodes[n];
    bool as_it_is = l->nodes[n].p.kind != SOME || (l->nodes[n].selects && l->values[of->inputs[0]].wanted.kind == ALL &&
                                                   l->values[of->outputs[0]].wanted.kind == ALL);
    int64_t ints[VC_MAX_ELEMS];
    size_t n_ints;

    if (is_known(l, of) && vc_graph_ints(l->of, of->outputs[0], ints, VC_MAX_ELEMS, &n_ints)) {
        l->to->values[of->outputs[0]].kind = VC_VALUE_CONSTANT;
        l->to->values[of->outputs[0]].node = VC_NO_NODE;
        l->to->values[of->outputs[0]].data = vc_graph_copy(l->to, ints, n_ints, sizeof *ints);
        return;
    }
    if (as_it_is) {
        add_node(l, of, n);
        return;
    }
    struct vc_graph_node node = *of;
    uint32_t *in = vc_graph_copy(l->to, of->inputs, of->n_inputs, sizeof *in);
    struct vc_graph_attr *attrs = vc_graph_copy(l->to, of->attrs, of->n_attrs, sizeof *attrs);
    const struct vc_graph_value *y = &l->to->values[of->outputs[0]];
    bool moves = l->nodes[n].selects || rules[of->row->op] == lift_reshape;

    for (unsigned k = 0; in != NULL && k < of->n_inputs; k++) {
        in[k] = in[k] != VC_NO_VALUE ? cut(l, of, in[k], input_places(l, of, k)) : in[k];
    }
    for (unsigned k = 0; attrs != NULL && k < of->n_attrs; k++) { /* of attention: the last query sees all keys */
        attrs[k].i = strcmp(attrs[k].name, "is_causal") == 0 ? 0 : attrs[k].i;
    }
    if (in == NULL || attrs == NULL || y->shape == NULL) {
        return;
    }
    node.inputs = in;
    node.attrs = attrs;
    if (moves || vc_node_is(of, VC_OP_expand)) {
        for (unsigned d = 0; d < y->n_dims; d++) {
            ints[d] = y->shape[d].size;
        }
        const uint32_t both[2] = {in[0], add_ints(l, ints, y->n_dims)};
        become(l, &node, moves ? "Reshape" : of->op, both, 2);
    }
    if (!l->nodes[n].selects) {
        int64_t per_place = vc_dim_value(&l->of->dims, of->macs) / size_of(l, of->outputs[0], l->nodes[n].p.axis);

        node.macs = vc_dim_number(per_place * l->nodes[n].p.count);
    }
    add_node(l, &node, n);
}

/* There is room for a Slice of each input, with three lists of integers, and for a shape. */
static enum vc_status make(struct lift *l, struct vc_ctx *ctx)
{
    const struct vc_graph *of = l->of;
    size_t more = 1;

    for (uint32_t n = 0; n < of->n_nodes; n++) {
        more += l->nodes[n].p.kind == SOME ? of->nodes[n].n_inputs + (size_t)1 : 0;
    }
    *l->to = *of;
    l->to->arena = (struct vc_arena){0};
    l->to->n_nodes = 0;
    l->to->nodes = vc_alloc_array(ctx, VC_TAG_MISC, of->n_nodes + more, sizeof *of->nodes);
    l->to->values = vc_calloc_array(ctx, VC_TAG_MISC, of->n_values + 4 * more, sizeof *of->values);
    l->to->facts = vc_calloc_array(ctx, VC_TAG_MISC, of->n_values + 4 * more, sizeof *of->facts);
    l->out->origin = vc_alloc_array(ctx, VC_TAG_MISC, of->n_nodes + more, sizeof *l->out->origin);
    VC_CALL(l->to->nodes != NULL && l->to->values != NULL && l->to->facts != NULL && l->out->origin != NULL
                ? VC_OK
                : VC_E_NOMEM);
    memcpy(l->to->values, of->values, of->n_values * sizeof *of->values);
    memcpy(l->to->facts, of->facts, of->n_values * sizeof *of->facts);
    for (uint32_t v = 0; v < of->n_values; v++) {
        shape_value(l, v, &of->values[v], &l->values[v].wanted);
    }
    for (uint32_t n = 0; n < of->n_nodes; n++) {
        make_node(l, n);
    }
    return l->to->status;
}

enum vc_status vc_graph_lift(struct vc_ctx *ctx, const struct vc_graph *graph, const bool *fixed, bool drops,
                             struct vc_lifted **out)
{
    VC_SCOPED struct of_value *values = vc_calloc_array(ctx, VC_TAG_MISC, graph->n_values + (size_t)1, sizeof *values);
    VC_SCOPED struct of_node *nodes = vc_calloc_array(ctx, VC_TAG_MISC, graph->n_nodes + (size_t)1, sizeof *nodes);
    struct lift l = {.of = graph, .fixed = fixed, .drops = drops, .values = values, .nodes = nodes};
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_CALL_ALLOC(values);
    VC_CALL_ALLOC(nodes);
    for (uint32_t v = 0; v < graph->n_values; v++) {
        values[v].wanted.kind = fixed[v] ? ALL : UNREAD;
    }
    for (uint32_t n = graph->n_nodes; n-- > 0;) {
        find_node(&l, &graph->nodes[n]);
    }
    if (l.any) {
        VC_CALL_ALLOC(l.out = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *l.out));
        l.to = &l.out->graph;
        status = make(&l, ctx);
        *out = status == VC_OK ? l.out : NULL;
    }
    if (status != VC_OK) {
        vc_graph_lift_free(ctx, l.out);
    }
    return status;
}

void vc_graph_lift_free(struct vc_ctx *ctx, struct vc_lifted *lifted)
{
    if (lifted != NULL) {
        vc_arena_release(ctx, &lifted->graph.arena);
        VC_FREE_ALL(ctx, lifted->graph.nodes, lifted->graph.values, lifted->graph.facts, lifted->origin, lifted);
    }
}
