/* plan_ops.c - the table of operators. */
#include "engine/plan_ops.h"

#include <string.h>

static const struct vc_train_op ops[] = {
#define OP(id, name, data_inputs, view) \
    {name, data_inputs, vc_train_saves_##id, vc_train_forward_##id, vc_train_backward_##id, view},
#include "engine/train_ops.inc"
#undef OP
};

const struct vc_train_op *vc_train_op_find(const char *name)
{
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        if (strcmp(ops[k].name, name) == 0) {
            return &ops[k];
        }
    }
    return NULL;
}

bool vc_train_wants(const struct vc_engine *e, const struct vc_graph_node *node, unsigned k)
{
    return k < node->n_inputs && node->inputs[k] != VC_NO_VALUE && e->values[node->inputs[k]].trained;
}
