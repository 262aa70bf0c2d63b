/* plan_uses.c - who reads a value, and what the backward instructions of a node need of it, by the graph alone: asked before
 * and while instructions are made. Which nodes become one (x sigmoid(x), codes and back) depends on it. */
#include "engine/train_program.h"

/* Same scale and zero point as values of the graph, not as numbers. */
bool vc_plan_decodes(const struct vc_engine *e, uint32_t node, uint32_t coder)
{
    const struct vc_graph_node *q = vc_plan_node(e, coder);
    const struct vc_graph_node *n = vc_plan_node(e, node);

    return vc_node_is(q, VC_OP_quantize) && vc_node_is(n, VC_OP_dequantize) && n->inputs[0] == q->outputs[0] &&
           n->inputs[1] == q->inputs[1] &&
           (n->n_inputs > 2 ? n->inputs[2] : VC_NO_VALUE) == (q->n_inputs > 2 ? q->inputs[2] : VC_NO_VALUE) &&
           !vc_plan_asks_definition(e, node);
}

/* Searches from the node behind the value's maker to last_reader. */
bool vc_plan_has_other_readers(const struct vc_engine *e, uint32_t v, uint32_t node)
{
    const struct vc_graph *g = e->graph;

    if (e->wanted[v]) {
        return true;
    }
    for (uint32_t n = g->values[v].node + 1; n <= e->values[v].last_reader; n++) {
        for (unsigned k = 0; n != node && !vc_plan_decodes(e, n, node) && k < g->nodes[n].n_inputs; k++) {
            if (g->nodes[n].inputs[k] == v) {
                return true;
            }
        }
    }
    return false;
}

/* ---- x sigmoid(x), which graphs have as two nodes ---- */

/* Exporters write it in this order: Mul(x, Sigmoid(x)). */
bool vc_plan_is_swish(const struct vc_engine *e, uint32_t node)
{
    const struct vc_graph *g = e->graph;
    const struct vc_graph_node *mul = &g->nodes[node];

    if (!vc_node_is(mul, VC_OP_mul) || g->values[mul->inputs[1]].kind != VC_VALUE_RESULT) {
        return false;
    }
    const struct vc_graph_node *sigmoid = &g->nodes[g->values[mul->inputs[1]].node];
    return vc_node_is(sigmoid, VC_OP_sigmoid) && sigmoid->inputs[0] == mul->inputs[0] &&
           !vc_plan_has_other_readers(e, mul->inputs[1], node);
}

/* ---- what is saved ---- */

/* Whether the gradient of input k of a node is needed. */
static bool wants(const struct vc_engine *e, const struct vc_graph_node *node, unsigned k)
{
    return k < node->n_inputs && node->inputs[k] != VC_NO_VALUE && e->values[node->inputs[k]].trained;
}

/* FACTOR bits hold only if the other factor's gradient is wanted: of x * w with a frozen w nothing is
 * saved. */
unsigned vc_plan_saves(const struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    unsigned needs = n->row != NULL ? n->row->backward : 0;

    if (vc_plan_is_swish(e, node)) {
        return VC_NEEDS_IN(0);
    }
    return (needs & (VC_NEEDS_ALL_IN | VC_NEEDS_Y)) |
           ((needs & VC_NEEDS_FACTOR_0) != 0 && wants(e, n, 1) ? VC_NEEDS_IN(0) : 0) |
           ((needs & VC_NEEDS_FACTOR_1) != 0 && wants(e, n, 0) ? VC_NEEDS_IN(1) : 0);
}
