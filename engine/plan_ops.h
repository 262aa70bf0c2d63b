/* plan_ops.h - the functions of the operators (train_ops.inc): their instructions.
 *
 *     vc_train_forward_<id>     makes the node's results: called in the order of the nodes, and again for a part that is
 *                               computed twice
 *     vc_train_backward_<id>    makes gradients of its inputs from those of its outputs: called in reverse, once, where a
 *                               gradient came
 *
 * Both only add instructions; nothing is computed then. A problem is noted with vc_plan_fail and ends the
 * making. */
#pragma once

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

/* The operator has the instructions of another one, `as`. */
#define VC_TRAIN_SAME(id, as)                                       \
    void vc_train_forward_##id(struct vc_engine *e, uint32_t node)  \
    {                                                               \
        vc_train_forward_##as(e, node);                             \
    }                                                               \
    void vc_train_backward_##id(struct vc_engine *e, uint32_t node) \
    {                                                               \
        vc_train_backward_##as(e, node);                            \
    }
