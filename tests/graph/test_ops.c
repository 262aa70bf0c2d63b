/* test_ops.c - operators that are given what they do not support: one sentence each; sizes of exporters' chains, which
 * fold; indices that are out of range only when the graph is run. What operators compute:
 * tests/judge/test_graph_ops.py. */
#include "graph_test.h"

#include <stdio.h>
#include <stdlib.h>

#include "graph/forward.h"
#include "graph/ops/ops.h"

/* An input of a node: "f2,3" floats of 2 x 3; "i", "b" integers and truth values; "=1,2" a constant list of integers;
 * "=5" likewise of one; "~0.5,1" a constant list of floats; "fn,3" with a symbol n; "-" not given. */
static uint32_t value_of(const char *text)
{
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    int64_t ints[VC_GRAPH_MAX_DIMS];
    double reals[VC_GRAPH_MAX_DIMS];
    unsigned n = 0;
    char kind = *text++;

    if (kind == '-') {
        return VC_NO_VALUE;
    }
    for (char *after; kind == '~' && *text != '\0'; text = *after == ',' ? after + 1 : after) {
        reals[n++] = strtod(text, &after);
    }
    if (kind == '~') {
        return vc_graph_add_constant(graph, NULL, VC_DTYPE_F32, (int64_t[]){n}, 1, reals);
    }
    while (*text != '\0') {
        char *after;

        ints[n] = strtoll(text, &after, 10);
        if (after == text) {
            char name[2] = {*text, '\0'};

            shape[n++] = vc_dim_symbol(&graph->dims, name);
            after++;
        } else {
            shape[n] = vc_dim_number(ints[n]);
            n++;
        }
        text = *after == ',' ? after + 1 : after;
    }
    if (kind == '=') {
        return vc_graph_add_ints(graph, ints, n);
    }
    return vc_graph_add_input(graph, NULL,
                              kind == 'f'   ? VC_DTYPE_F32
                              : kind == 'i' ? VC_DTYPE_I64
                                            : VC_DTYPE_BOOL,
                              shape, n);
}

/* An attribute: "axis=3", "perm=0,1" (a list where there is a comma), "mode:cubic". */
static struct vc_graph_attr attr_of(const char *text, char *name, int64_t *ints)
{
    size_t n = strcspn(text, "=:");

    snprintf(name, 64, "%.*s", (int)n, text);
    if (text[n] == ':') {
        return vc_attr_string(name, text + n + 1);
    }
    if (strchr(text, ',') == NULL) {
        return vc_attr_int(name, strtoll(text + n + 1, NULL, 10));
    }
    text += n + 1;
    for (n = 0; *text != '\0'; n++) {
        char *after;

        ints[n] = strtoll(text, &after, 10);
        text = *after == ',' ? after + 1 : after;
    }
    return vc_attr_ints(name, ints, n);
}

struct refused {
    const char *op;
    const char *inputs[6];
    const char *attrs[4];
    unsigned n_outputs;
    const char *says;
};

static uint32_t add(const struct refused *c)
{
    uint32_t inputs[6];
    struct vc_graph_attr attrs[4];
    char names[4][64];
    int64_t ints[4][16];
    struct vc_node_spec spec = {.op = c->op, .inputs = inputs, .attrs = attrs};

    spec.n_outputs = c->n_outputs != 0 ? c->n_outputs : 1;
    while (spec.n_inputs < 6 && c->inputs[spec.n_inputs] != NULL) {
        inputs[spec.n_inputs] = value_of(c->inputs[spec.n_inputs]);
        spec.n_inputs++;
    }
    while (spec.n_attrs < 4 && c->attrs[spec.n_attrs] != NULL) {
        attrs[spec.n_attrs] = attr_of(c->attrs[spec.n_attrs], names[spec.n_attrs], ints[spec.n_attrs]);
        spec.n_attrs++;
    }
    return vc_graph_add_node(graph, &spec);
}

static const struct refused refused[] = {
    {"Add", {"f2", "i2"}, {0}, 1, "has integers; the operator takes floats"},
    {"Add", {"b2", "b2"}, {0}, 1, "has truth values; the operator takes floats or integers"},
    {"Sqrt", {"i2"}, {0}, 1, "has integers; the operator takes floats"},
    {"MatMul", {"f2,2", "i2,2"}, {0}, 1, "has integers"},
    {"MatMul", {"f2,3", "f2,3"}, {0}, 1, "the inner dimensions: 3 and 2 differ"},
    {"Mod", {"f2", "f2"}, {0}, 1, "needs fmod = 1"},
    {"Max", {"f2", "-"}, {0}, 1, "input 1 is missing"},
    {"PRelu", {"f3", "f2,3"}, {0}, 1, "the slope has more dimensions"},
    {"Clip", {"f3", "f2"}, {0}, 1, "the least value, 'input_1', has to be a single number"},
    {"Gelu", {"f3"}, {"approximate:quick"}, 1, "the approximation 'quick' is not supported"},
    {"Cast", {"f3"}, {"to=8"}, 1, "the type with number 8 is not supported"},
    {"Where", {"i2", "f2", "f2"}, {0}, 1, "has integers; the operator takes truth values"},
    {"Where", {"b2", "f2", "i2"}, {0}, 1, "are of different types"},
    {"Gemm", {"f2,3", "f3,4", "f9,4"}, {0}, 1, "do not broadcast"},
    {"Gemm", {"f1,3", "f3,4", "f9,4"}, {0}, 1, "'c' and the product"},
    {"MatMul", {"b2,3", "b3,4"}, {0}, 1, "floats or integers"},
    {"Einsum", {"f2,3", "f3,4"}, {"equation:ij,jk,kl->il"}, 1, "another number of inputs"},
    {"Einsum", {"f2,3", "f3,4"}, {"equation:ij"}, 1, "another number of inputs"},
    {"Einsum", {"f2,3", "f3,4"}, {0}, 1, "the attribute equation is missing"},
    {"Einsum", {"f2,3", "f3,4"}, {"equation:ijk,jk"}, 1, "another number of letters"},
    {"Einsum", {"f2,3", "f3,4"}, {"equation:i,jk"}, 1, "another number of letters"},
    {"Einsum", {"f2,3", "f3,4"}, {"equation:ij,jk->il"}, 1, "one that no input has"},
    {"Einsum", {"f2,3", "f3,4"}, {"equation:ij,jk->ii"}, 1, "in the output twice"},
    {"Einsum", {"f2,3", "f3,4"}, {"equation:ij,jk->i->k"}, 1, "more than one output"},
    {"Einsum", {"f2,3", "f3,4"}, {"equation:ij,jk->i,k"}, 1, "more than one output"},
    {"Einsum", {"f2,3", "f3,4"}, {"equation:i1,1k"}, 1, "no letter"},
    {"Einsum", {"f2,3", "f3,4"}, {"equation:i......,jk"}, 1, "no letter"},
    {"Einsum", {"f2,3", "f3,4"}, {"equation:ij,jk-ik"}, 1, "no letter"},
    {"Einsum", {"f2,3", "f3,4"}, {"equation:ij,,jk"}, 1, "another number of"},
    {"Einsum", {"f2,3", "f4,5"}, {"equation:ij,jk->ik"}, 1, "sizes of the same letter: 3 and 4"},
    {"Einsum", {"i2,3"}, {"equation:ij"}, 1, "floats"},
    {"Einsum", {"f2,3", "-"}, {"equation:ij,jk"}, 1, "input 1 is missing"},
    {"Einsum", {"f1,1,1,1,1", "f1,1,1,1"}, {"equation:abcde,fghi"}, 1, "more than 8 dimensions"},
    {"Conv", {"f1,3,5", "f4,2,3"}, {0}, 1, "the channels of the input"},
    {"Conv", {"f1,3,5", "f4,3,3"}, {"group=2"}, 1, "cannot be divided into 2 groups"},
    {"Conv", {"f1,3,5", "f4,3,3"}, {"group=0"}, 1, "cannot be divided into 0 groups"},
    {"Conv", {"f1,3,5", "f4,3,3"}, {"pads=1,2,3"}, 1, "pads has 3 numbers; 2 are needed"},
    {"Conv", {"f1,3,5,5", "f4,3,3,3"}, {"strides=0,1"}, 1, "strides has the number 0"},
    {"Conv", {"f1,3,5,5", "f4,3,3,3"}, {"kernel_shape=2,2"}, 1, "kernel_shape does not fit the weights"},
    {"Conv", {"f1,3,5,5", "f4,3,3,3"}, {"auto_pad:SAME"}, 1, "auto_pad is 'SAME'"},
    {"Conv", {"f1,3,5,5", "f4,3,9,9"}, {0}, 1, "dimension 2 of the output is negative"},
    {"Conv", {"f1,3,5,5", "f4,3,3,3", "f5"}, {0}, 1, "the filters and the bias: 4 and 5 differ"},
    {"Conv", {"f1,2,3,4,5,6", "f1,2,3,4,5,6"}, {0}, 1, "has 6 dimensions; 3 to 5 are supported"},
    {"ConvTranspose", {"f1,3,5", "f4,3,3"}, {0}, 1, "the channels of the input and of the weights"},
    {"ConvTranspose", {"f1,3,5", "f3,3,3"}, {"output_shape=5,5"}, 1, "output_shape has 2 numbers"},
    {"MaxPool", {"f1,3,5"}, {0}, 1, "the attribute kernel_shape is missing"},
    {"MaxPool", {"f1,3,5,5"}, {"kernel_shape=2,2"}, 2, "has 2 outputs"},
    {"Softmax", {"f2,3"}, {"axis=2"}, 1, "there is no axis 2"},
    {"LayerNormalization", {"f2,3", "f4"}, {0}, 1, "do not broadcast"},
    {"LayerNormalization", {"f2,1", "f4"}, {0}, 1, "is larger than the input in dimension 1"},
    {"RMSNormalization", {"f3", "f2,3"}, {0}, 1, "has more dimensions than the input"},
    {"BatchNormalization", {"f2,3", "f3", "f3", "f4", "f3"}, {0}, 1, "the channels of the input"},
    {"GroupNormalization", {"f2,3,4", "f3", "f3"}, {"num_groups=2"}, 1, "cannot be divided into 2 groups"},
    {"Attention", {"f1,4,9", "f1,4,9", "f1,4,9"}, {0}, 1, "the number of heads is missing"},
    {"Attention", {"f1,4,9", "f1,4,9", "f1,4,9"}, {"q_num_heads=2", "kv_num_heads=2"}, 1, "into 2 heads"},
    {"Attention", {"f1,3,4,8", "f1,2,4,8", "f1,2,4,8"}, {0}, 1, "3 heads of queries cannot share 2 heads"},
    {"Attention", {"f1,2,4,8", "f1,2,4,8", "f1,2,4,8", "i4,4"}, {0}, 1, "has integers"},
    {"Attention", {"f1,2,4,8", "f1,2,4,8", "f1,2,4,8", "b4,5"}, {0}, 1, "the mask and the scores"},
    {"Attention", {"f1,2,4,8", "f1,2,4,8", "f1,2,4,8", "-", "f1,2,3,8"}, {0}, 1, "given together"},
    {"RotaryEmbedding", {"f1,2,4,7", "f9,3", "f9,3", "i1,4"}, {0}, 1, "cannot be rotated in pairs"},
    {"RotaryEmbedding", {"f1,2,4,8", "f9,3", "f9,3", "i1,4"}, {0}, 1, "half of what is rotated"},
    {"RNN", {"f7,3,5", "f1,4,5", "f1,4,3"}, {0}, 1, "the weights of the input"},
    {"GRU", {"f7,3,5", "f1,12,5", "f1,12,4"}, {"hidden_size=5"}, 1, "hidden_size and the weights of the state"},
    {"GRU", {"f7,3,5", "f2,12,5", "f2,12,4"}, {0}, 1, "the weights of the input: 2 and 1 differ"},
    {"LSTM", {"f7,3,5", "f1,16,5", "f1,16,4", "f1,16"}, {0}, 1, "the bias"},
    {"LSTM", {"f7,3,5", "f1,16,5", "f1,16,4", "-", "i4"}, {0}, 1, "the lengths and the rows"},
    {"LSTM", {"f7,3,5", "f1,16,5", "f1,16,4", "-", "f3"}, {0}, 1, "has floats"},
    {"LSTM", {"f7,3,5", "f1,16,5", "f1,16,4"}, {"direction:sideways"}, 1, "no direction 'sideways'"},
    {"LSTM", {"f7,3,5", "f1,16,5", "f1,16,4"}, {"activations:Sigmoid,Tanh"}, 1, "fewer activations"},
    {"LSTM",
     {"f7,3,5", "f1,16,5", "f1,16,4"},
     {"activations:Sigmoid,Tanh,Sin"},
     1,
     "is not supported: Sigmoid,Tanh,Sin"},
    {"RNN", {"f7,3,5", "f1,4,5", "f1,4,4"}, {"activations:Tanh,Tanh"}, 1, "more activations"},
    {"RNN", {"f7,3,5", "f1,4,5", "f1,4,4"}, {"activation_alpha=1"}, 1, "activation_alpha"},
    {"ReduceSum", {"f2,3", "=2"}, {0}, 1, "there is no axis 2"},
    {"ReduceSum", {"f2,3", "=0,-2"}, {0}, 1, "axis -2 is listed twice"},
    {"ReduceSum", {"f2,3", "i1"}, {0}, 1, "the list of axes is computed while the model runs"},
    {"ReduceMax", {"f0,3", "=0"}, {0}, 1, "no elements to choose from"},
    {"ArgMax", {"f2,0"}, {"axis=1"}, 1, "no elements to choose from"},
    {"TopK", {"f2,3", "=4"}, {0}, 2, "k is 4, and there are 3 elements"},
    {"CumSum", {"f2,3", "=7"}, {0}, 1, "there is no axis 7"},
    {"Reshape", {"f2,3", "=4,-1"}, {0}, 1, "6 elements cannot be divided into parts of 4"},
    {"Reshape", {"f2,3", "i2"}, {0}, 1, "the shape is computed from values"},
    {"Squeeze", {"f2,3", "=0"}, {0}, 1, "dimension 0 has size 2"},
    {"Unsqueeze", {"f1,1,1,1,1,1,1,1", "=0"}, {0}, 1, "would have 9 dimensions"},
    {"Flatten", {"f2,3"}, {"axis=3"}, 1, "there is no axis 3"},
    {"Transpose", {"f2,3"}, {"perm=0,0"}, 1, "perm is no order of 2 dimensions"},
    {"Transpose", {"f2,3"}, {"perm=0,1,2"}, 1, "perm has 3 numbers"},
    {"Concat", {"f2,3", "f2,3"}, {0}, 1, "the attribute axis is missing"},
    {"Concat", {"f2,3", "f4,4"}, {"axis=0"}, 1, "dimension 1 of the inputs: 3 and 4 differ"},
    {"Concat", {"f9223372036854775807,1", "f2,1"}, {"axis=0"}, 1, "overflows"},
    {"Slice", {"f5", "=0", "=3", "=0", "=0"}, {0}, 1, "the step along axis 0 is 0"},
    {"Slice", {"f5", "=0,1", "=3"}, {0}, 1, "2 starts and 1 ends"},
    {"Slice", {"f5,5", "=0,0", "=3,3", "=1,-1"}, {0}, 1, "axis -1 is listed twice"},
    {"Slice", {"f5", "i1", "=3"}, {0}, 1, "is computed from values"},
    {"Split", {"f5", "=2,2"}, {0}, 2, "the sum of the parts and the dimension: 4 and 5 differ"},
    {"Split", {"f5"}, {"num_outputs=3"}, 2, "num_outputs is 3 and there are 2 outputs"},
    {"Expand", {"f3", "=2,4"}, {0}, 1, "do not broadcast"},
    {"Tile", {"f3", "=2,4"}, {0}, 1, "one number of repeats for each dimension"},
    {"Tile", {"f3", "=-1"}, {0}, 1, "dimension 0 of the output is negative"},
    {"Pad", {"f3", "=1,1"}, {"mode:mirror"}, 1, "the mode 'mirror' is not supported"},
    {"Pad", {"f3", "=1,1", "i"}, {0}, 1, "another type"},
    {"Pad", {"f3", "=-2,-2"}, {0}, 1, "dimension 0 of the output is negative"},
    {"DepthToSpace", {"f1,6,2,2"}, {"blocksize=2"}, 1, "cannot be divided into 4"},
    {"SpaceToDepth", {"f1,6,3,2"}, {"blocksize=2"}, 1, "cannot be divided into 2"},
    {"DepthToSpace", {"f1,6,2,2"}, {"blocksize=4294967296"}, 1, "the block's size is 4294967296"},
    {"Gather", {"f3", "f2"}, {0}, 1, "has floats; the operator takes integers"},
    {"Gather", {"f1,1,1,1,1", "i1,1,1,1,1"}, {0}, 1, "would have 9 dimensions"},
    {"GatherND", {"f3,4", "i2,3"}, {0}, 1, "has to be a number from 1 to 2"},
    {"ScatterND", {"f3,4", "i2,1", "f2,5"}, {0}, 1, "the shape of the updates: 5 and 4 differ"},
    {"OneHot", {"i3", "i1", "f2"}, {0}, 1, "the depth is computed from values"},
    {"Trilu", {"f3"}, {0}, 1, "has 1 dimensions; 2 to 8 are supported"},
    {"Range", {"=1", "=5", "=0"}, {0}, 1, "the step is 0"},
    {"Range", {"=0", "=9000000000000000000", "=1"}, {0}, 1, "more elements than can be counted"},
    {"ConstantOfShape", {"=4294967296,4294967296"}, {0}, 1, "more elements than can be counted"},
    {"ConstantOfShape", {"=4294967296,4294967296,4294967296"}, {0}, 1, "more elements than can be counted"},
    {"Tile", {"f1099511627776", "=1099511627776"}, {0}, 1, "overflows"},
    {"Expand", {"f1", "=4294967296,536870912"}, {0}, 1, "more elements than can be counted"},
    {"Range", {"i", "=5", "=1"}, {0}, 1, "the range is computed from values"},
    {"ConstantOfShape", {"=-2,3"}, {0}, 1, "dimension 0 of the output is negative"},
    {"Resize", {"f1,1,4,4", "-", "-", "=1,1,8,8"}, {"mode:area"}, 1, "mode 'area' is not supported"},
    {"Resize",
     {"f1,1,4,4", "-", "-", "=1,1,8,8"},
     {"coordinate_transformation_mode:tf_crop_and_resize"},
     1,
     "the roi is computed"},
    {"Resize",
     {"f1,1,4,4", "-", "-", "=1,1,8,8"},
     {"antialias=1", "coordinate_transformation_mode:tf_crop_and_resize"},
     1,
     "antialias of a crop is not supported"},
    {"Resize",
     {"f4,4", "~0,0,nan,1", "-", "=8,8"},
     {"coordinate_transformation_mode:tf_crop_and_resize"},
     1,
     "the roi has nan"},
    {"Resize", {"f1,1,4,4", "-", "-", "=8,8"}, {0}, 1, "2 sizes or scales are given for 4 axes"},
    {"Resize", {"f1,1,4,4", "-", "f4"}, {0}, 1, "the list of scales is computed while the model runs"},
    {"QuantizeLinear", {"f3,4", "f", "i"}, {0}, 1, "the attribute output_dtype is missing"},
    {"QuantizeLinear", {"f3,4", "f"}, {"output_dtype=17"}, 1, "codes of the type with number 17"},
    {"FakeQuantize", {"f3,4"}, {"codes:int4"}, 1, "codes of the type 'int4' are not supported"},
    {"FakeQuantize", {"f3,4"}, {"size=3"}, 1, "rows are no multiple of 3 elements"},
    {"FakeQuantize", {"f3,4", "f3"}, {0}, 1, "has to be a single number"},
    {"DequantizeLinear", {"i3,4", "f3"}, {0}, 1, "the scale and the input: 3 and 4 differ"},
    {"DequantizeLinear", {"i3,4", "f3,3"}, {"block_size=2"}, 1, "the scale and the input: 3 and 2 differ"},
    {"DequantizeLinear", {"f3,4", "f"}, {0}, 1, "has floats; the operator takes integers"},
    {"Relu", {"f3"}, {"alpha=1"}, 1, "the attribute alpha is not supported"},
    {"LeakyRelu", {"f3"}, {"alpha=1"}, 1, "the attribute alpha is of another kind"},
};

static void what_is_refused(void **state)
{
    unsigned n_wrong = 0;

    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
        const char *problem;

        begin(state);
        add(&refused[k]);
        problem = vc_graph_problem(graph, 0);
        if (problem == NULL || strstr(problem, refused[k].says) == NULL || vc_graph_problem(graph, 1) != NULL) {
            print_error("%s: \"%s\" does not say \"%s\"\n", refused[k].op, problem == NULL ? "" : problem,
                        refused[k].says);
            n_wrong++;
        }
        end(state);
    }
    assert_int_equal(n_wrong, 0);
    begin(state);
}

/* ---- sizes that are computed from sizes ---- */

static void expect_elems(uint32_t value, const char *expected)
{
    const struct vc_dim *elems = graph->facts[value].elems;
    const struct vc_graph_value *v = vc_graph_value(graph, value);
    char text[256] = "";
    size_t n = v->n_dims == 0 ? 1 : (size_t)v->shape[0].size;

    assert_non_null(elems);
    for (size_t k = 0; k < n; k++) {
        char one[64];

        strcat(strcat(text, k == 0 ? "" : ", "), vc_graph_dim_text(graph, elems[k], one, sizeof one));
    }
    assert_string_equal(text, expected);
}

static uint32_t op2(const char *op, uint32_t a, uint32_t b)
{
    return vc_graph_add(graph, op, NULL, (uint32_t[]){a, b}, 2);
}

/* x of [b, s, 12] to [b, s, 3, 4], as exporters write it: Concat of Unsqueeze of Gather of Shape. */
static void a_reshape_of_an_exporter(void **state)
{
    uint32_t x = value_of("fb,s,12");
    uint32_t zero = vc_graph_add_ints(graph, (int64_t[]){0}, 1);
    uint32_t shape = vc_graph_add(graph, "Shape", NULL, &x, 1);
    uint32_t parts[3];
    uint32_t all;
    char text[64];
    struct vc_graph_attr axis = vc_attr_int("axis", 0);

    (void)state;
    for (int k = 0; k < 2; k++) {
        parts[k] = op2("Unsqueeze", op2("Gather", shape, vc_graph_add_int(graph, k)), zero);
    }
    parts[2] = vc_graph_add_ints(graph, (int64_t[]){3, 4}, 2);
    all = vc_graph_add_node(
        graph, &(struct vc_node_spec){
                   .op = "Concat", .n_inputs = 3, .n_outputs = 1, .n_attrs = 1, .inputs = parts, .attrs = &axis});
    expect_elems(all, "b, s, 3, 4");
    x = op2("Reshape", x, all);
    assert_string_equal(vc_graph_dim_text(graph, vc_graph_value(graph, x)->shape[1], text, sizeof text), "s");
    expect_elems(vc_graph_add(graph, "Size", NULL, &x, 1), "12*b*s");
    expect_elems(op2("ReduceProd", all, zero), "12*b*s");
}

/* Where(Equal(shape, -1), ones, shape) of exporters' Expand; comparisons of sizes, which are 1 or more. */
static void a_choice_between_sizes(void **state)
{
    uint32_t x = value_of("fb,s");
    uint32_t shape = vc_graph_add(graph, "Shape", NULL, &x, 1);
    uint32_t equal = op2("Equal", shape, vc_graph_add_ints(graph, (int64_t[]){-1}, 1));
    uint32_t ones = vc_graph_add_ints(graph, (int64_t[]){1, 1}, 2);
    uint32_t greater;

    (void)state;
    expect_elems(vc_graph_add(graph, "Where", NULL, (uint32_t[]){equal, ones, shape}, 3), "b, s");
    expect_elems(op2("Greater", shape, vc_graph_add_int(graph, 0)), "1, 1");
    expect_elems(op2("Less", shape, vc_graph_add_int(graph, 1)), "0, 0");
    expect_elems(vc_graph_add(graph, "Not", NULL, (uint32_t[]){equal}, 1), "1, 1");
    expect_elems(op2("Max", shape, vc_graph_add_int(graph, 1)), "b, s");
    greater = op2("Greater", shape, vc_graph_add_int(graph, 1));
    assert_null(graph->facts[greater].elems);
    expect_elems(op2("Max", shape, vc_graph_add_int(graph, 5)), "b + max(0, -b + 5), s + max(0, -s + 5)");
    expect_elems(op2("Min", shape, vc_graph_add_int(graph, 5)), "b - max(0, b - 5), s - max(0, s - 5)");
}

/* Positions: Slice of 0 ... 511 up to the length, and Range. */
static void positions(void **state)
{
    uint32_t x = value_of("fb,s");
    uint32_t table = value_of("i1,512");
    uint32_t shape = vc_graph_add(graph, "Shape", NULL, &x, 1);
    uint32_t one = vc_graph_add_ints(graph, (int64_t[]){1}, 1);
    uint32_t zero = vc_graph_add_ints(graph, (int64_t[]){0}, 1);
    uint32_t length =
        vc_graph_add(graph, "Slice", NULL, (uint32_t[]){shape, one, vc_graph_add_ints(graph, (int64_t[]){2}, 1)}, 3);
    uint32_t y = vc_graph_add(graph, "Slice", NULL, (uint32_t[]){table, zero, length, one}, 4);
    uint32_t size = vc_graph_add(graph, "Squeeze", NULL, (uint32_t[]){length}, 1);
    char text[64];

    (void)state;
    expect_elems(length, "s");
    assert_string_equal(vc_graph_dim_text(graph, vc_graph_value(graph, y)->shape[1], text, sizeof text), "s");
    y = vc_graph_add(graph, "Range", NULL, (uint32_t[]){vc_graph_add_int(graph, 0), size, vc_graph_add_int(graph, 2)},
                     3);
    assert_string_equal(vc_graph_dim_text(graph, vc_graph_value(graph, y)->shape[0], text, sizeof text),
                        "floor((s + 1)/2)");
}

/* ---- what only a run can tell ---- */

struct feed {
    int64_t shape[2][VC_GRAPH_MAX_DIMS];
    int64_t element; /* of integers; floats are 1 */
};

static enum vc_status feed_input(struct vc_ctx *c, void *user, uint32_t k, struct vc_run_value *value)
{
    const struct feed *feed = user;
    const struct vc_graph_value *v = vc_graph_value(graph, vc_graph_input(graph, k));

    *value = (struct vc_run_value){.n_dims = v->n_dims, .n = 1, .is_real = v->dtype == VC_DTYPE_F32};
    for (unsigned d = 0; d < v->n_dims; d++) {
        value->shape[d] = feed->shape[k][d];
        value->n *= (size_t)value->shape[d];
    }
    value->data = vc_alloc_array(c, VC_TAG_MISC, value->n + 1, 8);
    assert_non_null(value->data);
    for (size_t i = 0; i < value->n; i++) {
        if (value->is_real) {
            ((double *)value->data)[i] = 1;
        } else {
            ((int64_t *)value->data)[i] = feed->element;
        }
    }
    return VC_OK;
}

static enum vc_status take(struct vc_ctx *c, void *user, uint32_t value, const struct vc_run_value *elements)
{
    (void)c;
    (void)user;
    (void)value;
    (void)elements;
    return VC_OK;
}

static enum vc_status run(const struct refused *c, const struct feed *feed)
{
    struct feed copy = *feed;
    struct vc_run_calls calls = {.user = &copy, .input = feed_input, .take = take};

    vc_graph_add_output(graph, add(c));
    assert_int_equal(vc_graph_finish(graph, &graph), VC_OK);
    return vc_graph_forward(ctx, graph, VC_PRECISION_F64, &calls, graph->outputs, graph->n_outputs);
}

static void what_a_run_refuses(void **state)
{
    static const struct {
        struct refused node;
        struct feed feed;
    } cases[] = {
        {{"Gather", {"f3,2", "i4"}, {0}, 1, "the index 3 is outside of the dimension of 3"}, {{{3, 2}, {4}}, 3}},
        {{"Gather", {"f3,2", "i4"}, {0}, 1, "the index -4 is outside of"}, {{{3, 2}, {4}}, -4}},
        {{"Gather", {"f3,n", "i4"}, {0}, 1, "the index 7 is outside of"}, {{{3, 0}, {4}}, 7}},
        {{"GatherElements", {"f3,2", "i3,2"}, {0}, 1, "the index 3 is outside of"}, {{{3, 2}, {3, 2}}, 3}},
        {{"GatherND", {"f3,2", "i4,1"}, {0}, 1, "the index 9 is outside of"}, {{{3, 2}, {4, 1}}, 9}},
        {{"MatMul", {"fa,b", "fc,d"}, {0}, 1, "the inner dimensions: 3 and 4 differ (a is 2, b is 3, c is 4, d is 5)"},
         {{{2, 3}, {4, 5}}, 0}},
        {{"Add", {"fa", "fb"}, {0}, 1, "do not broadcast: dimension 0 is 3 and 2 (a is 3, b is 2)"}, {{{3}, {2}}, 0}},
        {{"Concat", {"fa,b", "fc,d"}, {"axis=0"}, 1, "dimension 1 of the inputs: 3 and 4 differ"},
         {{{2, 3}, {1, 4}}, 0}},
        {{"Split", {"fa"}, {0}, 3, NULL}, {{{7}}, 0}},
        {{"Reshape", {"fa,b", "=4,-1"}, {0}, 1, "6 elements cannot be divided into parts of 4 (a is 2, b is 3)"},
         {{{2, 3}}, 0}},
        {{"Squeeze", {"fa,b", "=0"}, {0}, 1, "dimension 0 has size 2 and cannot be left out"}, {{{2, 3}}, 0}},
        {{"MaxPool", {"f1,1,n"}, {"kernel_shape=3,"}, 1, "a window of 3 elements does not fit into 2"},
         {{{1, 1, 2}}, 0}},
        {{"LayerNormalization", {"fa,b", "fc"}, {0}, 1, "is larger than the input"}, {{{2, 1}, {4}}, 0}},
        {{"TopK", {"fn", "=4"}, {0}, 2, "k is 4, and there are 3 elements"}, {{{3}}, 0}},
        {{"ArgMax", {"fn,0"}, {"axis=0"}, 1, NULL}, {{{3, 0}}, 0}},
        {{"ArgMax", {"fn,2"}, {"axis=0"}, 1, "no elements to choose from"}, {{{0, 2}}, 0}},
        {{"Pad", {"fn", "=2,2"}, {"mode:reflect"}, 1, "cannot be padded by 2 and 2"}, {{{0}}, 0}},
        /* symbols that were taken to be a number, slices that were taken to lie within */
        {{"Concat", {"fn,3", "f2,m"}, {"axis=0"}, 1, "dimension"}, {{{1, 3}, {2, 4}}, 0}},
        {{"Slice", {"fn", "=0", "=4"}, {0}, 1, "its output is [2] and would be [4] for all sizes"}, {{{2}}, 0}},
        /* a window larger than all there is takes no longer than its input */
        {{"MaxPool", {"f1,1,3"}, {"kernel_shape=1000000000,", "pads=999999999,0"}, 1, NULL}, {{{1, 1, 3}}, 0}},
        {{"AveragePool", {"f1,1,3"}, {"kernel_shape=1000000000,", "pads=999999999,0", "count_include_pad=1"}, 1, NULL},
         {{{1, 1, 3}}, 0}},
        {{"ConstantOfShape", {"=1000000,1000000"}, {0}, 1, "the output [1000000, 1000000] has 1000000000000 elements"},
         {{{0}}, 0}},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        enum vc_status status;

        begin(state);
        status = run(&cases[k].node, &cases[k].feed);
        if (cases[k].node.says == NULL) {
            assert_int_equal(status, VC_OK);
        } else {
            assert_int_equal(status, VC_E_FORMAT);
            expect_says(ctx, cases[k].node.says);
        }
        end(state);
    }
    begin(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_refused, end),
        cmocka_unit_test_setup_teardown(a_reshape_of_an_exporter, begin, end),
        cmocka_unit_test_setup_teardown(a_choice_between_sizes, begin, end),
        cmocka_unit_test_setup_teardown(positions, begin, end),
        cmocka_unit_test_teardown(what_a_run_refuses, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
