/* plan_ops.h - the functions of the operators (train_ops.inc): what they save, and their instructions. A view has
 * none: its output is its input with another shape, and so is the gradient. */
#ifndef VC_DISTILL_PLAN_OPS_H
#define VC_DISTILL_PLAN_OPS_H

#include "engine/train_program.h"

#define OP(id, name, data_inputs, view)                                                        \
    unsigned vc_train_saves_##id(const struct vc_engine *e, const struct vc_graph_node *node); \
    void vc_train_forward_##id(struct vc_engine *e, uint32_t node);                            \
    void vc_train_backward_##id(struct vc_engine *e, uint32_t node);
#include "engine/train_ops.inc"
#undef OP

/* Whether the gradient of input k of a node is needed; before there are instructions. */
bool vc_train_wants(const struct vc_engine *e, const struct vc_graph_node *node, unsigned k);

#endif
