/* onnx_qlinear.c - operators on codes, written by onnxruntime's static quantization. Each becomes three kinds of nodes:
 * decode the inputs, compute the operator on floats, encode the result.
 *
 *     QLinearConv (x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero)
 *     ->  DequantizeLinear (x, ...), DequantizeLinear (w, ...), Conv, QuantizeLinear
 *
 * Scale and zero point of an input are the next two inputs.
 *
 * A row of vc_onnx_take_qlinear for each operator. take_one and take_two leave out "QLinear" of the
 * operator's name, which gives the operator on floats. */

#include "graph/onnx/onnx_build.h"

/* Adds input k as floats. With several scales, each scale belongs to an index of `axis`. */
static uint32_t decoded(struct vc_onnx_build *b, const struct vc_onnx_node *node, unsigned k, int64_t axis)
{
    const struct vc_graph_attr attr = vc_attr_int("axis", axis);
    const uint32_t in[3] = {vc_onnx_number(node, k), vc_onnx_number(node, k + 1), vc_onnx_number(node, k + 2)};

    return vc_onnx_add_one(b, "DequantizeLinear", NULL, in, in[2] == VC_NO_VALUE ? 2 : 3, &attr, 1);
}

/* Makes output 0: the codes of the value, with scale and zero point from inputs k and k + 1. Returns false. */
static bool encode(struct vc_onnx_build *b, const struct vc_onnx_node *node, uint32_t value, unsigned k)
{
    int64_t type = vc_onnx_type_of_input(b, node->from, k + 1);
    const struct vc_graph_attr attr = vc_attr_int("output_dtype", type != 0 ? type : VC_ONNX_UINT8);
    const uint32_t in[3] = {value, vc_onnx_number(node, k), vc_onnx_number(node, k + 1)};

    return vc_onnx_ends_in(b, node, "QuantizeLinear", in, in[2] == VC_NO_VALUE ? 2 : 3, &attr, 1);
}

/* True if the node has all inputs from `first` to end - 1. */
static bool has_inputs(const struct vc_onnx_node *node, unsigned first, unsigned end)
{
    for (unsigned k = first; k < end; k++) {
        if (!vc_onnx_has_input(node, k)) {
            return false;
        }
    }
    return true;
}

/* Adds the bias as floats: 32-bit codes whose scale is (input 1) * (input 4) * more. */
static uint32_t decoded_bias(struct vc_onnx_build *b, const struct vc_onnx_node *node, unsigned k, double more,
                             int64_t axis)
{
    const struct vc_graph_attr attr = vc_attr_int("axis", axis);
    uint32_t in[2] = {vc_onnx_number(node, 1), vc_onnx_number(node, 4)};

    in[1] = vc_onnx_add_one(b, "Mul", NULL, in, 2, NULL, 0);
    if (more != 1) {
        in[0] = vc_graph_add_float(b->graph, more);
        in[1] = vc_onnx_add_one(b, "Mul", NULL, in, 2, NULL, 0);
    }
    in[0] = vc_onnx_number(node, k);
    return vc_onnx_add_one(b, "DequantizeLinear", NULL, in, 2, &attr, 1);
}

/* Weights have a scale for each filter (axis 0); the bias is 32-bit codes with scale x_scale * w_scale. */
static bool take_conv(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    uint32_t in[3];

    VC_RETURN_IF(!has_inputs(node, 0, 8) || vc_onnx_int(node, "channels_last", 0) != 0,
                 vc_onnx_refuse(b, node, "one of its first eight inputs is missing, or channels_last is set"));
    vc_onnx_drop_attr(node, "channels_last");
    in[0] = decoded(b, node, 0, 1);
    in[1] = decoded(b, node, 3, 0);
    in[2] = vc_onnx_has_input(node, 8) ? decoded_bias(b, node, 8, 1, 0) : VC_NO_VALUE;
    return encode(b, node,
                  vc_onnx_add_one(b, "Conv", NULL, in, in[2] == VC_NO_VALUE ? 2 : 3, node->attrs, node->n_attrs), 6);
}

/* Scales of rows on the left, of columns on the right. */
static bool take_matmul(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);
    uint32_t in[2];

    VC_RETURN_IF(!has_inputs(node, 0, 8), vc_onnx_refuse(b, node, "one of its eight inputs is missing"));
    in[0] = decoded(b, node, 0, x != NULL && x->n_dims > 1 ? -2 : -1);
    in[1] = decoded(b, node, 3, -1);
    return encode(b, node, vc_onnx_add_one(b, "MatMul", NULL, in, 2, NULL, 0), 6);
}

/* alpha * A' B' + C. The result stays floats if the node has no scale for the result. */
static bool take_gemm(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    bool swapped = vc_onnx_int(node, "transB", 0) != 0;
    double alpha = vc_onnx_float(node, "alpha", 1);
    const struct vc_graph_attr attrs[3] = {vc_attr_int("transA", vc_onnx_int(node, "transA", 0)),
                                           vc_attr_int("transB", swapped), vc_attr_float("alpha", alpha)};
    uint32_t in[3];
    bool codes = vc_onnx_has_input(node, 7);

    VC_RETURN_IF(!has_inputs(node, 0, 5), vc_onnx_refuse(b, node, "one of its first five inputs is missing"));
    in[0] = decoded(b, node, 0, 0);
    in[1] = decoded(b, node, 3, swapped ? 0 : 1);
    in[2] = vc_onnx_has_input(node, 6) ? decoded_bias(b, node, 6, alpha, -1) : VC_NO_VALUE;
    in[0] = vc_onnx_add_one(b, "Gemm", codes ? NULL : vc_onnx_output_name(b, node->from, 0), in,
                            in[2] == VC_NO_VALUE ? 2 : 3, attrs, 3);
    if (codes) {
        return encode(b, node, in[0], 7);
    }
    vc_onnx_set_output(b, node->from, 0, in[0]);
    return false;
}

/* Add and Mul of two inputs; `op` is the end of the node's name. */
static bool take_two(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    uint32_t in[2];

    VC_RETURN_IF(!has_inputs(node, 0, 2) || !has_inputs(node, 3, 5) || !vc_onnx_has_input(node, 6),
                 vc_onnx_refuse(b, node, "an input or a scale is missing"));
    in[0] = decoded(b, node, 0, 0);
    in[1] = decoded(b, node, 3, 0);
    return encode(b, node, vc_onnx_add_one(b, node->op + strlen("QLinear"), NULL, in, 2, NULL, 0), 6);
}

/* Operators with one input; attributes are the attributes of the operator on floats. */
static bool take_one(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    bool softmax = strcmp(node->op, "QLinearSoftmax") == 0;
    uint32_t x;

    VC_RETURN_IF(!has_inputs(node, 0, 2) || !vc_onnx_has_input(node, 3) || vc_onnx_int(node, "channels_last", 0) != 0,
                 vc_onnx_refuse(b, node, "an input or a scale is missing, or channels_last is set"));
    VC_RETURN_IF(softmax && vc_onnx_int(node, "opset", 0) < 13 && vc_onnx_int(node, "axis", -1) != -1,
                 vc_onnx_refuse(b, node, "before operator set 13 it is supported along the last axis (-1)"));
    vc_onnx_drop_attr(node, "channels_last");
    vc_onnx_drop_attr(node, "opset");
    if (strcmp(node->op, "QLinearReduceMean") == 0) {
        const struct vc_graph_attr *axes = vc_onnx_attr(node, "axes");
        const struct vc_graph_attr keep = vc_attr_int("keepdims", vc_onnx_int(node, "keepdims", 1));
        uint32_t in[2] = {decoded(b, node, 0, 0), VC_NO_VALUE};

        if (axes != NULL && axes->kind == VC_ATTR_INTS) {
            in[1] = vc_graph_add_ints(b->graph, axes->ints, axes->n);
        }
        x = vc_onnx_add_one(b, "ReduceMean", NULL, in, in[1] == VC_NO_VALUE ? 1 : 2, &keep, 1);
    } else {
        x = decoded(b, node, 0, 0);
        x = vc_onnx_add_one(b, node->op + strlen("QLinear"), NULL, &x, 1, node->attrs, node->n_attrs);
    }
    return encode(b, node, x, 3);
}

/* The result's scale and zero point, then three inputs for each part. */
static bool take_concat(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    unsigned n = node->n_inputs < 5 || (node->n_inputs - 2) % 3 != 0 ? 0 : (node->n_inputs - 2) / 3;

    for (unsigned k = 0; k < n; k++) {
        if (!has_inputs(node, 2 + 3 * k, 4 + 3 * k)) {
            n = 0;
        }
    }
    VC_RETURN_IF(n == 0 || !has_inputs(node, 0, 1), vc_onnx_refuse(b, node, "an input or a scale is missing"));
    for (unsigned k = 0; k < n; k++) { /* in the places of inputs that were taken */
        uint32_t x = decoded(b, node, 2 + 3 * k, 0);

        node->inputs[2 + k] = x;
    }
    return encode(b, node, vc_onnx_add_one(b, "Concat", NULL, node->inputs + 2, n, node->attrs, node->n_attrs), 0);
}

static bool take_where(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    uint32_t in[3];

    VC_RETURN_IF(!has_inputs(node, 0, 3) || !has_inputs(node, 4, 6) || !vc_onnx_has_input(node, 7),
                 vc_onnx_refuse(b, node, "an input or a scale is missing"));
    in[0] = node->inputs[0];
    in[1] = decoded(b, node, 1, 0);
    in[2] = decoded(b, node, 4, 0);
    return encode(b, node, vc_onnx_add_one(b, "Where", NULL, in, 3, NULL, 0), 7);
}

bool vc_onnx_take_qlinear(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    static const struct vc_onnx_rewrite rows[] = {
        {"QLinearConv", take_conv},
        {"QLinearMatMul", take_matmul},
        {"QGemm", take_gemm},
        {"QLinearAdd QLinearMul", take_two},
        {"QLinearSigmoid QLinearLeakyRelu QLinearSoftmax QLinearAveragePool QLinearGlobalAveragePool QLinearReduceMean",
         take_one},
        {"QLinearConcat", take_concat},
        {"QLinearWhere", take_where}};
    vc_onnx_taker *take =
        *node->op == 'Q' ? vc_onnx_find_taker(rows, sizeof rows / sizeof *rows, node->op) : NULL; /* most are not */

    return take != NULL && !take(b, node);
}

/* MaxPool and nearest Resize of integer codes: cast to f32, compute, cast back. Both only choose among elements, and
 * 8-bit codes are exact in f32, so the result has the same codes. */
bool vc_onnx_through_floats(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);
    const struct vc_graph_attr *mode = vc_onnx_attr(node, "mode");
    bool nearest = mode == NULL || mode->kind != VC_ATTR_STRING || strcmp(mode->s, "nearest") == 0;

    if (x == NULL || x->dtype != VC_DTYPE_I64 || !nearest || vc_onnx_output_is_used(b, node->from, 1)) {
        return true;
    }
    node->inputs[0] = vc_onnx_cast(b, node->inputs[0], VC_ONNX_FLOAT);
    uint32_t y = vc_onnx_add_one(b, node->op, NULL, node->inputs, node->n_inputs, node->attrs, node->n_attrs);
    return vc_onnx_ends_in_cast(b, node, y, VC_ONNX_INT64);
}
