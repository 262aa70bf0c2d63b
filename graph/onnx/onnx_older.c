/* onnx_older.c - nodes of operator sets 7 to 28 as those of VC_GRAPH_OPSET: what was an attribute and is an
 * input now, operators with other names, defaults that changed. Only where the result is the same.
 *
 *     Squeeze<axes = [0]>(x), set 11     ->     Squeeze(x, axes) with a constant [0]
 *
 * To add an operator: a function and a row in vc_onnx_modernize; the history of an operator is in
 * ONNX's Changelog.md. */

#include "graph/onnx/onnx_build.h"

/* ---- one function for each operator, or for some that are alike ---- */

/* Squeeze, Unsqueeze: set 13; reductions: 13 (ReduceSum) and 18; Reshape-1 has its shape so. */
static bool take_axes(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    vc_onnx_ints_to_input(b, node, strcmp(node->op, "Reshape") == 0 ? "shape" : "axes", 1);
    return true;
}

/* Before set 18 the parts without sizes had to be equal; since then the last one may be smaller. */
static bool take_split(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);
    int64_t n = (int64_t)node->from->n_outputs;
    int64_t axis = vc_onnx_int(node, "axis", 0);

    vc_onnx_ints_to_input(b, node, "split", 1);
    if (b->opset < 18 && !vc_onnx_has_input(node, 1) && x != NULL && n != 0) {
        axis += axis < 0 ? (int64_t)x->n_dims : 0;
        VC_RETURN_IF(
            axis >= 0 && axis < (int64_t)x->n_dims && vc_dim_is_number(x->shape[axis]) && x->shape[axis].size % n != 0,
            vc_onnx_refuse(b, node, "its outputs have no equal sizes, as they have to before operator set 18"));
    }
    return true;
}

/* Slice-1: starts, ends, axes. */
static bool take_slice(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    if (vc_onnx_attr(node, "starts") != NULL) {
        vc_onnx_ints_to_input(b, node, "starts", 1);
        vc_onnx_ints_to_input(b, node, "ends", 2);
        vc_onnx_ints_to_input(b, node, "axes", 3);
    }
    return true;
}

/* A float in an attribute becomes input k, unless the input is there. */
static void float_to_input(struct vc_onnx_build *b, struct vc_onnx_node *node, const char *name, unsigned k)
{
    const struct vc_graph_attr *attr = vc_onnx_attr(node, name);

    if (attr != NULL && attr->kind == VC_ATTR_FLOAT && !vc_onnx_has_input(node, k)) {
        vc_onnx_set_input(node, k, vc_graph_add_float(b->graph, attr->f));
        vc_onnx_drop_attr(node, name);
    }
}

/* Clip-6 has min and max as attributes, by default the least and the largest float: no limit, so a missing
 * one stays missing. */
static bool take_clip(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    float_to_input(b, node, "min", 1);
    float_to_input(b, node, "max", 2);
    return true;
}

/* Pad-2: pads, value. */
static bool take_pad(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    vc_onnx_ints_to_input(b, node, "pads", 1);
    float_to_input(b, node, "value", 2);
    return true;
}

static void note_training(struct vc_onnx_build *b, const struct vc_onnx_node *node)
{
    const char *output = vc_onnx_output_name(b, node->from, 0);

    vc_graph_asks_training(b->graph, node->op, *node->from->name == '\0' && output != NULL ? output : node->from->name);
}

/* Inference drops nothing: the output is the input, whose value is marked (training of a student drops
 * there). The mask, where something uses it, is all true and needs the node. */
static bool take_dropout(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    if (node->n_inputs == 0 || node->inputs[0] == VC_NO_VALUE) {
        return true;
    }
    vc_onnx_drop_attr(node, "ratio");
    const struct vc_graph_value *mode = vc_onnx_input(b, node, 2);
    if (mode != NULL && mode->data != NULL && mode->dtype == VC_DTYPE_BOOL && *(const int64_t *)mode->data != 0) {
        note_training(b, node);
    }
    if (vc_onnx_output_is_used(b, node->from, 1)) {
        return true;
    }
    if (node->inputs[0] < b->graph->n_values) {
        b->graph->values[node->inputs[0]].dropped = true;
    }
    vc_onnx_set_output(b, node->from, 0, node->inputs[0]);
    return false;
}

/* The output is the input: no node. */
static bool take_same(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    if (node->n_inputs == 1 && node->inputs[0] != VC_NO_VALUE && node->from->n_outputs == 1) {
        vc_onnx_set_output(b, node->from, 0, node->inputs[0]);
        return false;
    }
    return true;
}

/* Exporters store equal tensors once and give the others their names by Identity. The names are kept
 * (vc_onnx_other_name): they may belong to weights that only happened to be equal. */
static bool take_identity(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);
    const char *name = vc_onnx_output_name(b, node->from, 0);

    if (x != NULL && x->kind == VC_VALUE_PARAMETER && x->dtype == VC_DTYPE_F32 && node->n_inputs == 1 && name != NULL) {
        node->inputs[0] = vc_onnx_other_name(b, node->inputs[0], name);
    }
    return take_same(b, node);
}

/* Casts among float types are left out: all floats have the precision of the run. */
static bool take_cast(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    int64_t to = vc_onnx_int(node, "to", 0);
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);

    if (x != NULL && x->dtype == VC_DTYPE_F32 &&
        (to == VC_ONNX_FLOAT || to == VC_ONNX_FLOAT16 || to == VC_ONNX_DOUBLE || to == VC_ONNX_BFLOAT16)) {
        return take_same(b, node);
    }
    return true;
}

/* spatial (before 9) is what is always done now; training outputs are left out, with a note of the graph. */
static bool take_batch_norm(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    VC_RETURN_IF(vc_onnx_int(node, "spatial", 1) == 0,
                 vc_onnx_refuse(b, node, "statistics for each pixel (spatial=0) are not supported"));
    if (vc_onnx_int(node, "training_mode", 0) != 0) {
        note_training(b, node);
    }
    vc_onnx_drop_attr(node, "spatial");
    vc_onnx_drop_attr(node, "training_mode");
    return true;
}

/* Before 13 Softmax flattened all dimensions from `axis` (default 1) on into one. With the last axis that
 * is the same; else the node becomes Flatten, Softmax over -1, Reshape to the old shape. */
static bool take_softmax(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);
    int64_t axis = vc_onnx_int(node, "axis", 1);
    struct vc_graph_attr last = vc_attr_int("axis", -1);
    struct vc_graph_attr from = vc_attr_int("axis", axis);
    uint32_t in[2];

    if (b->opset >= 13 || x == NULL) {
        return true;
    }
    if (axis < -(int64_t)x->n_dims || axis >= (int64_t)x->n_dims - 1 || axis == -1) {
        vc_onnx_drop_attr(node, "axis");
        node->attrs[node->n_attrs++] = vc_attr_int("axis", axis); /* the last one, or one that there is not */
        return true;
    }
    axis += axis < 0 ? (int64_t)x->n_dims : 0;
    from.i = axis;
    in[1] = vc_onnx_one_in(b, "Shape", node->inputs[0]);
    in[0] = vc_onnx_add_one(b, "Flatten", NULL, node->inputs, 1, &from, 1);
    in[0] = vc_onnx_add_one(b, node->op, NULL, in, 1, &last, 1);
    return vc_onnx_ends_in(b, node, "Reshape", in, 2, NULL, 0);
}

/* Upsample, and Resize-10: "asymmetric" coordinates, rounded down. Making an image smaller differed between
 * runtimes then and is refused. */
static bool take_resize(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    struct vc_graph_attr *scales = vc_onnx_attr(node, "scales");
    bool upsample = strcmp(node->op, "Upsample") == 0;

    if (!upsample && b->opset > 10) {
        return true;
    }
    if (scales != NULL && scales->kind == VC_ATTR_FLOATS) {
        const int64_t n = (int64_t)scales->n;

        vc_onnx_set_input(node, 1, vc_graph_add_constant(b->graph, NULL, VC_DTYPE_F32, &n, 1, scales->floats));
        vc_onnx_drop_attr(node, "scales");
    }
    VC_RETURN_IF(node->n_inputs != 2, vc_onnx_refuse(b, node, "its scales are missing"));
    const struct vc_graph_value *v = vc_onnx_input(b, node, 1);
    for (int64_t k = 0; v != NULL && k < (v->n_dims == 1 && v->data != NULL ? v->shape[0].size : 0); k++) {
        VC_RETURN_IF(
            ((const double *)v->data)[k] < 1,
            vc_onnx_refuse(b, node, "making an image smaller in this way is not supported before operator set 11"));
    }
    vc_onnx_set_input(node, 2, node->inputs[1]);
    node->inputs[1] = VC_NO_VALUE;
    node->op = "Resize";
    node->attrs[node->n_attrs++] = vc_attr_string("coordinate_transformation_mode", "asymmetric");
    node->attrs[node->n_attrs++] = vc_attr_string("nearest_mode", "floor");
    return true;
}

/* Before 10 k was an attribute. */
static bool take_top_k(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_attr *k = vc_onnx_attr(node, "k");

    if (k != NULL && k->kind == VC_ATTR_INT && node->n_inputs == 1) {
        vc_onnx_set_input(node, 1, vc_graph_add_ints(b->graph, &k->i, 1));
        vc_onnx_drop_attr(node, "k");
    }
    return true;
}

/* The attribute value is a tensor of one element; it becomes a float or an integer. A truth value is made
 * as an integer and cast. */
static bool take_constant_of_shape(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_program_tensor *tensor = NULL;
    double x = 0;

    for (size_t k = 0; k < node->from->n_attrs; k++) {
        tensor = node->from->attrs[k].kind == VC_PROGRAM_TENSOR ? node->from->attrs[k].tensor : tensor;
    }
    if (tensor == NULL) {
        return true;
    }
    uint32_t constant = vc_onnx_add_tensor(b, NULL, tensor);
    VC_RETURN_IF(constant == VC_NO_VALUE || !vc_onnx_scalar(b, constant, &x),
                 vc_onnx_refuse(b, node, "its value is no single number"));
    if (b->graph->values[constant].dtype == VC_DTYPE_F32) {
        node->attrs[node->n_attrs++] = vc_attr_float("value", x);
        return true;
    }
    node->attrs[node->n_attrs++] = vc_attr_int("value", *(const int64_t *)b->graph->values[constant].data);
    if (b->graph->values[constant].dtype == VC_DTYPE_BOOL) {
        uint32_t v = vc_onnx_add_one(b, node->op, NULL, node->inputs, node->n_inputs, node->attrs, node->n_attrs);

        return vc_onnx_ends_in_cast(b, node, v, VC_ONNX_BOOL);
    }
    return true;
}

/* Before 21 scale and bias had one element for each group; now one for each channel: [groups] -> [groups,
 * 1] -> [groups, channels / groups] -> [channels]. */
static bool take_group_norm(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);
    int64_t groups = vc_onnx_int(node, "num_groups", 0);

    if (b->opset >= 21 || x == NULL || x->n_dims < 2 || groups < 1 || !vc_dim_is_number(x->shape[1])) {
        return true;
    }
    for (unsigned k = 1; k < 3 && k < node->n_inputs; k++) {
        const int64_t wide[2] = {groups, x->shape[1].size / groups};
        const int64_t column[2] = {groups, 1};
        const int64_t flat = -1;
        uint32_t v = vc_onnx_with_ints(b, "Reshape", node->inputs[k], column, 2);

        v = vc_onnx_with_ints(b, "Expand", v, wide, 2);
        node->inputs[k] = vc_onnx_with_ints(b, "Reshape", v, &flat, 1);
    }
    return true;
}

/* Inputs that give shapes and have to be known when the graph is built: computes them where nodes of
 * constants make them. A row says: operator, first and last such input. */
static void know_inputs(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    static const struct {
        const char *op;
        unsigned first, last;
    } rows[] = {
        {"Resize", 1, 3},  {"Upsample", 1, 1}, {"Reshape", 1, 1},   {"Slice", 1, 4},           {"Pad", 1, 3},
        {"Expand", 1, 1},  {"Tile", 1, 1},     {"TopK", 1, 1},      {"ConstantOfShape", 0, 0}, {"Range", 0, 2},
        {"Squeeze", 1, 1}, {"Split", 1, 1},    {"Unsqueeze", 1, 1}, {"OneHot", 1, 1},          {"CumSum", 1, 1}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (unsigned k = rows[i].first; strcmp(rows[i].op, node->op) == 0 && k <= rows[i].last; k++) {
            if (vc_onnx_has_input(node, k)) {
                node->inputs[k] = vc_onnx_known(b, node->inputs[k]);
            }
        }
    }
}

bool vc_onnx_modernize(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    static const struct vc_onnx_rewrite rows[] = {
        {"Squeeze Unsqueeze ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare "
         "ReduceLogSum ReduceLogSumExp Reshape",
         take_axes},
        {"Split", take_split},
        {"Slice", take_slice},
        {"Clip", take_clip},
        {"Pad", take_pad},
        {"Dropout", take_dropout},
        {"Identity", take_identity},
        {"Cast", take_cast},
        {"BatchNormalization", take_batch_norm},
        {"Softmax LogSoftmax", take_softmax},
        {"Upsample Resize", take_resize},
        {"TopK", take_top_k},
        {"ConstantOfShape", take_constant_of_shape},
        {"GroupNormalization", take_group_norm}};
    vc_onnx_taker *take = vc_onnx_find_taker(rows, sizeof rows / sizeof *rows, node->op);

    know_inputs(b, node);
    return take == NULL || take(b, node);
}
