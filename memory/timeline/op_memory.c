/* op_memory.c - what each operator keeps for its backward step, as PyTorch's eager mode does (docs/memory-model.md). */
#include <string.h>

#include "graph/ops/ops.h"
#include "memory/timeline/timeline.h"

#define F VC_SAVES_FIRST
#define O VC_SAVES_OUTPUT
#define I VC_SAVES_INPUTS

static const struct vc_op_memory table[] = {
    /* products */
    {.op = "MatMul", .saves = I, .cast = VC_CAST_HALF},
    {.op = "Gemm", .saves = I, .cast = VC_CAST_HALF},
    {.op = "Conv", .saves = I, .cast = VC_CAST_HALF},
    {.op = "ConvTranspose", .saves = I, .cast = VC_CAST_HALF},
    {.op = "Attention", .saves = I | O, .cast = VC_CAST_HALF},
    /* element by element, by their input or by their output */
    {.op = "Add", .in_place = true, .same_grad = true},
    {.op = "Sub", .in_place = true, .same_grad = true},
    {.op = "Sum", .same_grad = true},
    {.op = "Neg"},
    {.op = "Mul", .saves = I},
    {.op = "Div", .saves = I},
    {.op = "Relu", .saves = O, .in_place = true},
    {.op = "Sigmoid", .saves = O, .in_place = true},
    {.op = "Tanh", .saves = O, .in_place = true},
    {.op = "Exp", .saves = O, .cast = VC_CAST_FLOAT},
    {.op = "Sqrt", .saves = O},
    {.op = "Reciprocal", .saves = O, .cast = VC_CAST_FLOAT},
    {.op = "LeakyRelu", .saves = F, .in_place = true},
    {.op = "Elu", .saves = F, .in_place = true},
    {.op = "Selu", .saves = F, .in_place = true},
    {.op = "Gelu", .saves = F},
    {.op = "Mish", .saves = F, .in_place = true},
    {.op = "HardSigmoid", .saves = F, .in_place = true},
    {.op = "HardSwish", .saves = F, .in_place = true},
    {.op = "Softplus", .saves = F, .cast = VC_CAST_FLOAT},
    {.op = "Softsign", .saves = F},
    {.op = "Clip", .saves = F, .in_place = true},
    {.op = "PRelu", .saves = F},
    {.op = "Pow", .saves = F, .cast = VC_CAST_FLOAT},
    {.op = "Log", .saves = F, .cast = VC_CAST_FLOAT},
    {.op = "Abs", .saves = F},
    {.op = "Erf", .saves = F},
    {.op = "Sin", .saves = F},
    {.op = "Cos", .saves = F},
    {.op = "Sign"},
    {.op = "Floor"},
    {.op = "Ceil"},
    {.op = "Round"},
    {.op = "Where", .saves = F},
    {.op = "Min", .saves = I},
    {.op = "Max", .saves = I},
    {.op = "Cast"},
    /* normalizations */
    {.op = "Softmax", .saves = O, .cast = VC_CAST_FLOAT},
    {.op = "LogSoftmax", .saves = O, .cast = VC_CAST_FLOAT},
    {.op = "BatchNormalization", .saves = F | VC_SAVES_CHANNELS, .in_place = true},
    {.op = "InstanceNormalization", .saves = F | VC_SAVES_CHANNELS},
    {.op = "GroupNormalization", .saves = F | VC_SAVES_CHANNELS, .cast = VC_CAST_FLOAT},
    {.op = "LayerNormalization", .saves = F | VC_SAVES_ROWS, .cast = VC_CAST_FLOAT},
    {.op = "RMSNormalization", .saves = F | VC_SAVES_ROWS, .cast = VC_CAST_FLOAT},
    /* windows */
    {.op = "MaxPool", .saves = F | VC_SAVES_PLACES},
    {.op = "AveragePool", .saves = F},
    {.op = "GlobalAveragePool"},
    {.op = "GlobalMaxPool", .saves = VC_SAVES_PLACES},
    {.op = "Resize"},
    /* reductions */
    {.op = "ReduceMean"},
    {.op = "ReduceSum"},
    {.op = "ReduceMax", .saves = F | O},
    {.op = "ReduceMin", .saves = F | O},
    {.op = "ReduceProd", .saves = F | O},
    {.op = "ReduceL2", .saves = F | O},
    {.op = "ReduceSumSquare", .saves = F},
    {.op = "CumSum"},
    /* shapes */
    {.op = "Identity", .view = true},
    {.op = "Dropout", .view = true},
    {.op = "Flatten", .view = true},
    {.op = "Reshape", .view = true},
    {.op = "Squeeze", .view = true},
    {.op = "Unsqueeze", .view = true},
    {.op = "Transpose", .view = true},
    {.op = "Expand", .view = true},
    {.op = "Slice", .view = true},
    {.op = "Split", .view = true},
    {.op = "Concat"},
    {.op = "Pad"},
    {.op = "Tile"},
    {.op = "Gather"},
    {.op = "DepthToSpace"},
    {.op = "SpaceToDepth"},
    {.op = "Trilu"},
    {.op = "RotaryEmbedding"},
    /* chosen elements: which ones is kept */
    {.op = "TopK", .saves = VC_SAVES_PLACES},
    {.op = "GatherElements", .saves = VC_SAVES_INDEX},
    {.op = "ScatterElements", .saves = VC_SAVES_INDEX},
};

/* Another operator that computes each element from one element. */
static const struct vc_op_memory unary = {.op = "", .saves = F, .in_place = true};
static const struct vc_op_memory other = {.op = "", .saves = I | O, .unknown = true};

const struct vc_op_memory *vc_op_memory(const char *op)
{
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        if (strcmp(table[k].op, op) == 0) {
            return &table[k];
        }
    }
    return vc_op_is_unary(op) ? &unary : &other;
}
