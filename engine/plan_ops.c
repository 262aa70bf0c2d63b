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
