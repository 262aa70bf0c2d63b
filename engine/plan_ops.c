/* plan_ops.c - the table of operators. */
#include "engine/plan_ops.h"

static const struct vc_train_op ops[VC_OPS] = {
#define OP(id) [VC_OP_##id] = {vc_train_forward_##id, vc_train_backward_##id},
#include "engine/train_ops.inc"
#undef OP
};

const struct vc_train_op *vc_train_op_of(const struct vc_graph_node *node)
{
    return node->row != NULL && ops[node->row->op].forward != NULL ? &ops[node->row->op] : NULL;
}

/* Whether the gradient of input k of a node is needed. */
static bool wants(const struct vc_engine *e, const struct vc_graph_node *node, unsigned k)
{
    return k < node->n_inputs && node->inputs[k] != VC_NO_VALUE && e->values[node->inputs[k]].trained;
}

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
