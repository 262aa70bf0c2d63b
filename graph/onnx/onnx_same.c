/* onnx_same.c - operators of ONNX that the graph has in other words, and types that a node takes from another value.
 *
 *     y = Swish<alpha = 1.7>(x)     ->     t = Mul(x, 1.7); s = Sigmoid(t); y = Mul(x, s)
 *
 * Called for every node after onnx_older.c.
 *
 * Also here: what onnxruntime's dynamic quantization writes (DynamicQuantizeLinear, MatMulInteger,
 * ConvInteger). */

#include "graph/onnx/onnx_build.h"

/* Casts to the type of the second input. For integers the file has to say how many bits they have
 * (vc_onnx_type_of_input). */
static bool take_cast_like(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_value *like = vc_onnx_input(b, node, 1);
    int64_t to = vc_onnx_type_of_input(b, node->from, 1);
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);

    if (node->n_inputs != 2 || like == NULL || x == NULL) { /* one that is unknown has been told already */
        return !vc_onnx_has_input(node, 0) || !vc_onnx_has_input(node, 1);
    }
    to = like->dtype == VC_DTYPE_F32 ? VC_ONNX_FLOAT : like->dtype == VC_DTYPE_BOOL ? VC_ONNX_BOOL : to;
    VC_RETURN_IF(to == 0, vc_onnx_refuse(b, node, "the file does not say how many bits the integers of input 1 have"));
    if (x->dtype == VC_DTYPE_F32 && to == VC_ONNX_FLOAT) {
        vc_onnx_set_output(b, node->from, 0, node->inputs[0]);
        return false;
    }
    return vc_onnx_ends_in_cast(b, node, node->inputs[0], to);
}

/* Indices and the depth may be floats, which are cut off. */
static bool take_one_hot(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    for (unsigned k = 0; k < 2; k++) {
        const struct vc_graph_value *x = vc_onnx_input(b, node, k);
        double depth;

        if (x != NULL && x->dtype == VC_DTYPE_F32) {
            node->inputs[k] = vc_onnx_scalar(b, node->inputs[k], &depth) && depth >= 0 && depth < 1e9
                                  ? vc_graph_add_int(b->graph, (int64_t)depth)
                                  : vc_onnx_cast(b, node->inputs[k], VC_ONNX_INT64);
        }
    }
    return true;
}

/* The type of the codes is the type of the zero point in the file, which becomes the attribute
 * output_dtype. */
static bool take_quantize(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    int64_t type = vc_onnx_type_of_input(b, node->from, 2);

    if (vc_onnx_has_input(node, 2) && vc_onnx_int(node, "output_dtype", 0) == 0 && type != 0) {
        vc_onnx_drop_attr(node, "output_dtype");
        node->attrs[node->n_attrs++] = vc_attr_int("output_dtype", type);
    }
    return true;
}

/* sigmoid(alpha x) of the first input. */
static uint32_t gate(struct vc_onnx_build *b, const struct vc_onnx_node *node)
{
    const struct vc_graph_attr *alpha = vc_onnx_attr(node, "alpha");
    uint32_t x = node->inputs[0];

    if (alpha != NULL && alpha->kind == VC_ATTR_FLOAT && alpha->f != 1) {
        x = vc_onnx_two_in(b, "Mul", x, vc_graph_add_float(b->graph, alpha->f));
    }
    return vc_onnx_one_in(b, "Sigmoid", x);
}

/* x * sigmoid(alpha x), and of SwiGLU times the second input. */
static bool take_swish(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    unsigned n = strcmp(node->op, "SwiGLU") == 0 ? 2 : 1;
    uint32_t in[2] = {vc_onnx_number(node, 0), VC_NO_VALUE};

    if (node->n_inputs != n || in[0] == VC_NO_VALUE || node->inputs[n - 1] == VC_NO_VALUE) {
        return true;
    }
    in[1] = gate(b, node);
    if (n == 2) {
        in[0] = vc_onnx_two_in(b, "Mul", in[0], in[1]);
        in[1] = node->inputs[1];
    }
    return vc_onnx_ends_in(b, node, "Mul", in, 2, NULL, 0);
}

/* ReduceLogSum, ReduceL1, ReduceL2 and ReduceSumSquare: the sum of x, |x| or x x, and the last two of their last step. */
static bool take_reduced(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const char *last = strcmp(node->op, "ReduceL2") == 0 ? "Sqrt" : NULL;

    last = strcmp(node->op, "ReduceLogSum") == 0 ? "Log" : last;
    if (vc_onnx_input(b, node, 0) != NULL && strcmp(node->op, "ReduceL1") == 0) {
        node->inputs[0] = vc_onnx_one_in(b, "Abs", node->inputs[0]);
    } else if (vc_onnx_input(b, node, 0) != NULL && strcmp(node->op, "ReduceLogSum") != 0) {
        node->inputs[0] = vc_onnx_two_in(b, "Mul", node->inputs[0], node->inputs[0]);
    }
    node->op = "ReduceSum";
    if (last == NULL) {
        return true;
    }
    uint32_t sum = vc_onnx_add_one(b, node->op, NULL, node->inputs, node->n_inputs, node->attrs, node->n_attrs);
    return vc_onnx_ends_in(b, node, last, &sum, 1, NULL, 0);
}

/* Sum, Mean, Min and Max of one or more inputs: the first with the second, the result with the third, ... */
static bool take_many(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    bool mean = strcmp(node->op, "Mean") == 0;
    unsigned n = node->n_inputs;
    uint32_t in[2] = {vc_onnx_number(node, 0), VC_NO_VALUE};

    node->op = mean || strcmp(node->op, "Sum") == 0 ? "Add" : node->op;
    for (unsigned k = 0; k < n; k++) {
        if (vc_onnx_input(b, node, k) == NULL) {
            return true;
        }
    }
    if (n == 2 && !mean) {
        return true;
    }
    if (n == 1) {
        vc_onnx_set_output(b, node->from, 0, in[0]);
    }
    for (unsigned k = 1; k + !mean < n; k++) {
        in[0] = vc_onnx_two_in(b, node->op, in[0], node->inputs[k]);
    }
    in[1] = mean ? vc_graph_add_float(b->graph, n) : node->inputs[n - (n != 0)];
    return n == 0 || (n > 1 && vc_onnx_ends_in(b, node, mean ? "Div" : node->op, in, 2, NULL, 0));
}

/* onnxruntime's SimplifiedLayerNormalization, which stands in the default domain, is RMSNormalization. */
static bool take_simplified(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    VC_RETURN_IF(vc_onnx_output_is_used(b, node->from, 1),
                 vc_onnx_refuse(b, node, "its second output is used, which is for training"));
    vc_onnx_drop_attr(node, "stash_type");
    node->op = "RMSNormalization";
    return true;
}

/* x / (bias + alpha * mean)^beta: the mean of squares over `size` channels around each, zeros beyond the first and the
 * last, is a window over the channels of [n, 1, channels, all else]. */
static bool take_lrn(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);
    const int64_t size = vc_onnx_int(node, "size", 0);
    const int64_t rows[3] = {0, 0, -1}, kernel[2] = {size, 1}, pads[4] = {(size - 1) / 2, 0, size / 2, 0}, one = 1;
    const struct vc_graph_attr attrs[] = {vc_attr_ints("kernel_shape", kernel, 2), vc_attr_ints("pads", pads, 4),
                                          vc_attr_int("count_include_pad", 1)};

    if (x == NULL) {
        return true;
    }
    VC_RETURN_IF(size < 1 || size > 1 << 20 || x->n_dims < 2,
                 vc_onnx_refuse(b, node, "it needs a size, and an input with channels"));
    uint32_t v = vc_onnx_two_in(b, "Mul", node->inputs[0], node->inputs[0]);
    v = vc_onnx_with_ints(b, "Unsqueeze", vc_onnx_with_ints(b, "Reshape", v, rows, 3), &one, 1);
    v = vc_onnx_add_one(b, "AveragePool", NULL, &v, 1, attrs, 3);
    v = vc_onnx_two_in(b, "Mul", v, vc_graph_add_float(b->graph, vc_onnx_float(node, "alpha", 1e-4)));
    v = vc_onnx_two_in(b, "Add", v, vc_graph_add_float(b->graph, vc_onnx_float(node, "bias", 1)));
    v = vc_onnx_two_in(b, "Pow", v, vc_graph_add_float(b->graph, vc_onnx_float(node, "beta", 0.75)));
    v = vc_onnx_two_in(b, "Reshape", v, vc_onnx_one_in(b, "Shape", node->inputs[0]));
    return vc_onnx_ends_in(b, node, "Div", (const uint32_t[]){node->inputs[0], v}, 2, NULL, 0);
}

/* Its name before operator set 11. */
static bool take_scatter(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    node->op = "ScatterElements";
    return true;
}

/* Ones and zeros that an exporter writes where a normalization has nothing to learn are no parameters. */
static bool take_instance_norm(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    for (unsigned k = 1; k < 3 && k < node->n_inputs; k++) {
        const struct vc_graph_value *v = vc_onnx_input(b, node, k);
        const struct vc_program_tensor *tensor = v == NULL ? NULL : vc_onnx_tensor_of(b, node->inputs[k]);
        bool same = tensor != NULL && (vc_onnx_is_made_up(v->name) || strstr(v->name, "Constant") != NULL);

        for (size_t i = 0; same && i < (size_t)tensor->shape[0]; i++) {
            same = vc_onnx_real_at(tensor, i) == (k == 1 ? 1 : 0);
        }
        node->inputs[k] = same ? vc_onnx_add_tensor(b, NULL, tensor) : node->inputs[k];
    }
    return true;
}

/* ---- what onnxruntime's dynamic quantization writes ---- */

/* ONNX's definition of DynamicQuantizeLinear in nodes, uint8 codes:
 *     scale = (max(x, 0) - min(x, 0)) / 255, 1 where that is 0
 *     zero  = clip(round(-min(x, 0) / scale), 0, 255)
 *     y     = QuantizeLinear(x, scale, zero)
 */
void vc_onnx_dynamic_codes(struct vc_onnx_build *b, uint32_t x, const char *const names[3], uint32_t out[3])
{
    const struct vc_graph_attr keep = vc_attr_int("keepdims", 0);
    const struct vc_graph_attr to = vc_attr_int("to", VC_ONNX_UINT8);
    const struct vc_graph_attr type = vc_attr_int("output_dtype", VC_ONNX_UINT8);
    uint32_t zero = vc_graph_add_float(b->graph, 0);
    uint32_t in[3] = {x};
    uint32_t most = vc_onnx_two_in(b, "Max", vc_onnx_add_one(b, "ReduceMax", NULL, in, 1, &keep, 1), zero);
    uint32_t least = vc_onnx_two_in(b, "Min", vc_onnx_add_one(b, "ReduceMin", NULL, in, 1, &keep, 1), zero);
    uint32_t scale = vc_onnx_two_in(b, "Div", vc_onnx_two_in(b, "Sub", most, least), vc_graph_add_float(b->graph, 255));

    in[0] = vc_onnx_two_in(b, "Equal", scale, zero);
    in[1] = vc_graph_add_float(b->graph, 1);
    in[2] = scale;
    scale = vc_onnx_add_one(b, "Where", names[1], in, 3, NULL, 0);
    in[0] = vc_onnx_one_in(b, "Round", vc_onnx_two_in(b, "Div", vc_onnx_one_in(b, "Neg", least), scale));
    in[1] = zero;
    in[2] = vc_graph_add_float(b->graph, 255);
    in[0] = vc_onnx_add_one(b, "Clip", NULL, in, 3, NULL, 0);
    out[1] = in[1] = scale;
    out[2] = in[2] = vc_onnx_add_one(b, "Cast", names[2], in, 1, &to, 1);
    in[0] = x;
    out[0] = vc_onnx_add_one(b, "QuantizeLinear", names[0], in, 3, &type, 1);
}

static bool take_dynamic_quantize(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const char *names[3];
    uint32_t out[3];

    VC_RETURN_IF(node->n_inputs != 1 || node->inputs[0] == VC_NO_VALUE || node->from->n_outputs != 3,
                 vc_onnx_refuse(b, node, "has one input and three outputs"));
    for (unsigned k = 0; k < 3; k++) {
        names[k] = vc_onnx_output_name(b, node->from, k);
    }
    vc_onnx_dynamic_codes(b, node->inputs[0], names, out);
    for (unsigned k = 0; k < 3; k++) {
        vc_onnx_set_output(b, node->from, k, out[k]);
    }
    return false;
}

/* Codes minus their zero points: one for all, or one for each row on the left (k 0), for each column on the
 * right (k 1). A list of zero points for rows needs a second dimension to broadcast along rows. */
uint32_t vc_onnx_centred(struct vc_onnx_build *b, const struct vc_onnx_node *node, unsigned k)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, k);
    const struct vc_graph_value *zero = vc_onnx_input(b, node, 2 + k);
    uint32_t in[2] = {node->inputs[k], zero == NULL ? VC_NO_VALUE : node->inputs[2 + k]};

    if (zero == NULL || x == NULL) {
        return in[0];
    }
    if (k == 0 && zero->n_dims == 1 && x->n_dims > 1 &&
        !vc_dim_equal(zero->shape[0], vc_dim_number(1))) { /* a row of the matrix has one */
        const int64_t axis = 1;

        in[1] = vc_onnx_with_ints(b, "Unsqueeze", in[1], &axis, 1);
    }
    return vc_onnx_two_in(b, "Sub", in[0], in[1]);
}

static bool take_matmul_integer(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    uint32_t in[2];

    if (node->n_inputs < 2 || node->inputs[0] == VC_NO_VALUE || node->inputs[1] == VC_NO_VALUE) {
        return true;
    }
    in[1] = vc_onnx_centred(b, node, 1);
    in[0] = vc_onnx_centred(b, node, 0);
    return vc_onnx_ends_in(b, node, "MatMul", in, 2, NULL, 0);
}

/* Integers are convolved as floats: the sums are integers below 2^24 in f32 for usual sizes, and then
 * exact. */
static bool take_conv_integer(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_value *zero = vc_onnx_input(b, node, 3);
    const struct vc_graph_value *w = vc_onnx_input(b, node, 1);
    unsigned n_dims = w == NULL ? 0 : w->n_dims;
    bool each = zero != NULL && zero->n_dims == 1 && n_dims > 1; /* filter has a zero point */
    uint32_t in[2];

    if (w == NULL || vc_onnx_input(b, node, 0) == NULL) { /* as in take_cast_like */
        return !vc_onnx_has_input(node, 0) || !vc_onnx_has_input(node, 1);
    }
    in[0] = vc_onnx_centred(b, node, 0);
    if (each) {
        int64_t axes[VC_GRAPH_MAX_DIMS];

        for (unsigned k = 1; k < n_dims; k++) {
            axes[k - 1] = k;
        }
        in[1] = vc_onnx_two_in(b, "Sub", node->inputs[1],
                               vc_onnx_with_ints(b, "Unsqueeze", node->inputs[3], axes, n_dims - 1));
    } else {
        in[1] = vc_onnx_centred(b, node, 1);
    }
    in[0] = vc_onnx_cast(b, in[0], VC_ONNX_FLOAT);
    in[1] = vc_onnx_cast(b, in[1], VC_ONNX_FLOAT);
    in[0] = vc_onnx_add_one(b, "Conv", NULL, in, 2, node->attrs, node->n_attrs);
    return vc_onnx_ends_in_cast(b, node, in[0], VC_ONNX_INT32);
}

bool vc_onnx_reword(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    static const struct vc_onnx_rewrite rows[] = {{"CastLike", take_cast_like},
                                                  {"OneHot", take_one_hot},
                                                  {"QuantizeLinear", take_quantize},
                                                  {"MaxPool Resize", vc_onnx_through_floats},
                                                  {"Swish SwiGLU", take_swish},
                                                  {"ReduceLogSum ReduceL1 ReduceL2 ReduceSumSquare", take_reduced},
                                                  {"Sum Mean Min Max", take_many},
                                                  {"SimplifiedLayerNormalization", take_simplified},
                                                  {"InstanceNormalization", take_instance_norm},
                                                  {"Scatter", take_scatter},
                                                  {"LRN", take_lrn},
                                                  {"AffineGrid", vc_onnx_take_affine},
                                                  {"GridSample", vc_onnx_take_grid},
                                                  {"DynamicQuantizeLinear", take_dynamic_quantize},
                                                  {"MatMulInteger", take_matmul_integer},
                                                  {"ConvInteger", take_conv_integer}};
    vc_onnx_taker *take = vc_onnx_find_taker(rows, sizeof rows / sizeof *rows, node->op);

    return take == NULL || take(b, node);
}
