/* answer_path.c - see answer_path.h: nodes that leave elements as they are, and where an axis goes in them.
 *
 * What counts as "the same elements" is decided here once, for the way back (before_move) and for axes
 * (follow). */
#include "graph/answers/answer_path.h"

#include <math.h>

const struct vc_graph_node *vc_answer_maker(const struct vc_graph *graph, uint32_t v)
{
    uint32_t node = v != VC_NO_VALUE ? graph->values[v].node : VC_NO_NODE;

    return node != VC_NO_NODE ? &graph->nodes[node] : NULL;
}

uint32_t vc_answer_in(const struct vc_graph_node *node, unsigned k)
{
    return k < node->n_inputs ? node->inputs[k] : VC_NO_VALUE;
}

bool vc_answer_is_fixed(const struct vc_graph *graph, uint32_t v)
{
    return v != VC_NO_VALUE &&
           (graph->values[v].kind == VC_VALUE_CONSTANT || graph->values[v].kind == VC_VALUE_PARAMETER);
}

bool vc_answer_number(const struct vc_graph *graph, uint32_t v, double *number)
{
    const struct vc_graph_value *value = v != VC_NO_VALUE ? &graph->values[v] : NULL;

    if (value == NULL || value->kind != VC_VALUE_CONSTANT || value->dtype != VC_DTYPE_F32) {
        return false;
    }
    for (unsigned k = 0; k < value->n_dims; k++) {
        if (value->shape[k].size != 1) {
            return false;
        }
    }
    *number = *(const double *)value->data;
    return true;
}

/* True if both dimensions are equal for all sizes, or for the sizes that are bound. */
static bool same_dim(const struct vc_graph *graph, struct vc_dim a, struct vc_dim b)
{
    int64_t value = vc_dim_value(&graph->dims, a);

    return vc_dim_equal(a, b) || (value >= 0 && value == vc_dim_value(&graph->dims, b));
}

/* Two symbols count as equal if they are bound to the same size: shapes of Expand and Where often are
 * symbols of two inputs. */
bool vc_answer_same_shape(const struct vc_graph *graph, uint32_t a, uint32_t b)
{
    const struct vc_graph_value *x = &graph->values[a];
    const struct vc_graph_value *y = &graph->values[b];
    bool same = x->n_dims == y->n_dims;

    for (unsigned k = 0; same && k < x->n_dims; k++) {
        same = same_dim(graph, x->shape[k], y->shape[k]);
    }
    return same;
}

/* ---- nodes that move elements ---- */

/* Slice: no steps, or steps of 1. */
static bool steps_are_1(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    uint32_t steps = vc_answer_in(node, 4);
    const struct vc_graph_value *value = steps != VC_NO_VALUE ? &graph->values[steps] : NULL;

    if (value == NULL) {
        return true;
    }
    if (value->kind != VC_VALUE_CONSTANT || value->n_dims != 1) {
        return false;
    }
    for (int64_t k = 0; k < value->shape[0].size; k++) {
        if (((const int64_t *)value->data)[k] != 1) {
            return false;
        }
    }
    return true;
}

/* DequantizeLinear(QuantizeLinear(x)): x, whose elements are hardly changed. VC_NO_VALUE for codes of a
 * file. */
static uint32_t before_codes(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    const struct vc_graph_node *coder = vc_answer_maker(graph, vc_answer_in(node, 0));

    return coder != NULL && vc_node_is(coder, VC_OP_quantize) ? vc_answer_in(coder, 0) : VC_NO_VALUE;
}

/* True if output 0 has the elements of input 0 in their order. Operators of many inputs count with one
 * input only. */
static bool is_plain(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    uint32_t x = vc_answer_in(node, 0);
    uint32_t y = node->outputs[0];

    switch (node->row->op) {
    case VC_OP_identity:
    case VC_OP_dropout:
    case VC_OP_flatten:
    case VC_OP_reshape:
    case VC_OP_squeeze:
    case VC_OP_unsqueeze:
    case VC_OP_fake_quantize:
        return true;
    case VC_OP_cast:
        return graph->values[x].dtype == VC_DTYPE_F32;
    case VC_OP_concat:
        return node->n_inputs == 1;
    case VC_OP_split:
        return node->n_outputs == 1;
    case VC_OP_expand:
    case VC_OP_tile:
        return vc_answer_same_shape(graph, x, y);
    case VC_OP_slice:
        return vc_answer_same_shape(graph, x, y) && steps_are_1(graph, node);
    default:
        return false;
    }
}

uint32_t vc_answer_before_move(const struct vc_graph *graph, const struct vc_graph_node *node, bool *moves)
{
    *moves = false;
    if (node->row == NULL || node->n_inputs == 0 || node->n_outputs == 0 || node->outputs[0] == VC_NO_VALUE) {
        return VC_NO_VALUE;
    }
    if (vc_node_is(node, VC_OP_dequantize)) {
        return before_codes(graph, node);
    }
    *moves = vc_node_is(node, VC_OP_transpose);
    return *moves || is_plain(graph, node) ? vc_answer_in(node, 0) : VC_NO_VALUE;
}

/* A number that is subtracted from, or divided (1 - x, 1 / x), turns the order round and is no scale. */
uint32_t vc_answer_before_scale(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    bool adds = vc_node_is(node, VC_OP_add) || vc_node_is(node, VC_OP_sub);
    bool scales = vc_node_is(node, VC_OP_mul) || vc_node_is(node, VC_OP_div);
    double x;

    if (vc_node_is(node, VC_OP_clip)) {
        return vc_answer_in(node, 0);
    }
    for (unsigned k = 0; (adds || scales) && k < 2; k++) {
        bool turns = k == 0 && (vc_node_is(node, VC_OP_sub) || vc_node_is(node, VC_OP_div));
        uint32_t other = vc_answer_in(node, 1 - k);

        if (!turns && vc_answer_number(graph, vc_answer_in(node, k), &x) && (adds ? fabs(x) <= 1e-3 : x > 0) &&
            vc_answer_same_shape(graph, other, node->outputs[0])) {
            return other;
        }
    }
    return VC_NO_VALUE;
}

/* Transposes end the walk: the elements have another order behind them. */
uint32_t vc_answer_unmoved(const struct vc_graph *graph, uint32_t v)
{
    for (unsigned k = 0; k < VC_ANSWER_STEPS; k++) {
        const struct vc_graph_node *node = vc_answer_maker(graph, v);
        bool moves = false;
        uint32_t before = node != NULL ? vc_answer_before_move(graph, node, &moves) : VC_NO_VALUE;

        if (before == VC_NO_VALUE || moves) {
            break;
        }
        v = before;
    }
    return v;
}

/* ---- axes ---- */

struct vc_dim vc_answer_behind(struct vc_graph *graph, uint32_t v, unsigned axis)
{
    const struct vc_graph_value *value = &graph->values[v];

    return vc_dim_product(&graph->dims, value->shape + axis + 1, value->n_dims - axis - 1);
}

/* The place of the axis in what a Transpose makes: perm is reversed where it is not given. */
static bool follow_transpose(const struct vc_graph *graph, const struct vc_graph_node *node, unsigned *axis)
{
    const struct vc_graph_attr *perm = vc_node_attr(node, "perm");
    unsigned n = graph->values[node->outputs[0]].n_dims;

    if (perm == NULL) {
        *axis = n - 1 - *axis;
        return true;
    }
    for (unsigned k = 0; k < n; k++) {
        if (perm->ints[k] == (int64_t)*axis) {
            *axis = k;
            return true;
        }
    }
    return false;
}

/* A Reshape keeps an axis if some dimension of the output has its size and as many elements behind it. */
bool vc_answer_follow(struct vc_graph *graph, const struct vc_graph_node *node, unsigned *axis)
{
    uint32_t x = vc_answer_in(node, 0);
    uint32_t y = node->outputs[0];
    struct vc_dim size, behind;

    if (vc_node_is(node, VC_OP_transpose)) {
        return follow_transpose(graph, node, axis);
    }
    if (vc_answer_same_shape(graph, x, y)) {
        return true;
    }
    size = graph->values[x].shape[*axis];
    behind = vc_answer_behind(graph, x, *axis);
    for (unsigned k = 0; k < graph->values[y].n_dims; k++) {
        if (same_dim(graph, graph->values[y].shape[k], size) &&
            same_dim(graph, vc_answer_behind(graph, y, k), behind)) {
            *axis = k;
            return true;
        }
    }
    return false;
}
