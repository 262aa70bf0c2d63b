/* plan_ops.h - the functions of the operators (train_ops.inc): their instructions. */
#ifndef VC_ENGINE_PLAN_OPS_H
#define VC_ENGINE_PLAN_OPS_H

#include "engine/train_program.h"

#define OP(id)                                                      \
    void vc_train_forward_##id(struct vc_engine *e, uint32_t node); \
    void vc_train_backward_##id(struct vc_engine *e, uint32_t node);
#include "engine/train_ops.inc"
#undef OP

/* Both functions of an operator: name_forward and name_backward with more arguments. */
#define VC_TRAIN_OP(id, name, ...)                                  \
    void vc_train_forward_##id(struct vc_engine *e, uint32_t node)  \
    {                                                               \
        name##_forward(e, node, __VA_ARGS__);                       \
    }                                                               \
    void vc_train_backward_##id(struct vc_engine *e, uint32_t node) \
    {                                                               \
        name##_backward(e, node, __VA_ARGS__);                      \
    }

#endif
