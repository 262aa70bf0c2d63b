/* test_graph_nodes.c - graphs from ONNX's textual form: order, older operator sets, exact rewrites, all problems at
 * once, damaged text, and the way back into text. */
#include "graph/base/graph_state.h"
#include "graph_test.h"

#include <stdlib.h>

#include "graph/build.h"

static enum vc_status parse(const char *text)
{
    return vc_graph_parse_text(ctx, text, strlen(text), NULL, &graph);
}

static void build(const char *text)
{
    if (parse(text) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
}

/* The operators of the graph, with blanks between them. */
static void expect_ops(const char *ops)
{
    char all[1000] = "";

    for (uint32_t k = 0; k < vc_graph_node_count(graph); k++) {
        strcat(all, k == 0 ? "" : " ");
        strcat(all, vc_graph_node(graph, k)->op);
    }
    assert_string_equal(all, ops);
}

static void expect_shape(const char *name, const char *shape)
{
    uint32_t v = vc_graph_find(graph, name);
    char all[400] = "";

    assert_int_not_equal(v, VC_NO_VALUE);
    for (unsigned d = 0; d < vc_graph_value(graph, v)->n_dims; d++) {
        char text[100];

        strcat(all, d == 0 ? "" : " ");
        strcat(all, vc_graph_dim_text(graph, vc_graph_value(graph, v)->shape[d], text, sizeof text));
    }
    assert_string_equal(all, shape);
}

static void a_layer(void **state)
{
    (void)state;
    build("<ir_version: 8, opset_import: [\"\" : 17]>\n"
          "net (float[N, 3] \"x.1\") => (float[N, 2] y) # two values each\n"
          "<float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {0.5, -1e1}> {\n"
          "    t = MatMul (\"x.1\", w)\n"
          "    [the_sum] y = Add (t, b)\n"
          "}");
    expect_ops("MatMul Add");
    expect_shape("y", "N 2");
    assert_string_equal(vc_graph_node(graph, 1)->name, "the_sum");
    assert_int_equal(vc_graph_output(graph, 0), vc_graph_find(graph, "y"));
}

/* Nodes come in any order; where they are sorted, the order stays. */
static void order(void **state)
{
    (void)state;
    build("g (float[2] x) => (float[2] z) { z = Sqrt (y)  y = Exp (x2)  x2 = Abs (x)  w = Neg (x) }");
    expect_ops("Abs Exp Sqrt");
}

static void names_of_sizes(void **state)
{
    (void)state;
    build("g (float[?, \"my size\", 4] x, int64[K] i) => (float y) { t = Gather<axis = 2> (x, i)  y = Relu (t) }");
    expect_shape("y", "x_dim0 my size K");
}

/* Exporters that call every open size "?" mean different ones; ends far behind a dimension are its end. */
static void open_sizes(void **state)
{
    (void)state;
    build("<opset_import: [\"\" : 9]>\n"
          "g (float[\"?\", 4, \"?\"] x) => (float y) {\n"
          "    a = Slice<starts = [0, 1], ends = [1000000000, 9223372036854775807], axes = [0, 2]> (x)  y = Relu (a)\n"
          "}");
    expect_shape("y", "x_dim0 4 x_dim2 - 1");
}

/* Names that stand for others: an output has a node of its own. */
static void identities(void **state)
{
    (void)state;
    build("<opset_import: [\"\" : 13]>\n"
          "g (float[2] x, bool t) => (float[2] y, float[2] z)\n"
          "{ a = Identity (x)  b, mask = Dropout (a)  y = Relu (b)  c = Cast<to = 10> (y)  z = Identity (c) }");
    expect_ops("Relu Identity");
    assert_string_equal(vc_graph_value(graph, vc_graph_output(graph, 1))->name, "z");
}

/* What was an attribute in older operator sets. */
static void older_sets(void **state)
{
    (void)state;
    build("<opset_import: [\"\" : 7]>\n"
          "g (float[B, 1, 6] x) => (float y) {\n"
          "    a = Squeeze<axes = [1]> (x)\n"
          "    b = Unsqueeze<axes = [0]> (a)\n"
          "    c = Slice<starts = [1], ends = [5], axes = [2]> (b)\n"
          "    d, e = Split<axis = 2, split = [1, 3]> (c)\n"
          "    f = Clip<min = -1.0, max = 6.0> (e)\n"
          "    h = Pad<pads = [0, 0, 1, 0, 0, 0], value = 2.0> (f)\n"
          "    y = ReduceSum<axes = [2], keepdims = 0> (h)\n"
          "}");
    expect_shape("a", "B 6");
    expect_shape("c", "1 B 4");
    expect_shape("h", "1 B 4");
    expect_shape("y", "1 B");
}

/* Softmax before 13 takes all dimensions from the axis on as one. */
/* Operators that the graph has in other words. */
static void in_other_words(void **state)
{
    (void)state;
    build("<opset_import: [\"\" : 23]>\n"
          "g (float[B, 6] x, uint8 zero, float s, float[6] w) => (float y, float u, int64 c, float l)\n"
          "{ y = Swish<alpha = 2.0> (x) u = SimplifiedLayerNormalization (y, w) k = CastLike (x, zero)\n"
          "  q = QuantizeLinear (x, s, zero) c = Add (k, q) l = ReduceLogSum<keepdims = 0> (x) }");
    expect_ops("Mul Sigmoid Mul RMSNormalization Cast QuantizeLinear Add ReduceSum Log");
    assert_int_equal(vc_graph_node(graph, 5)->attrs[0].i, 2);
    vc_graph_close(graph);
    graph = NULL;
    assert_int_equal(parse("<opset_import: [\"\" : 23]> g (float x, uint8 u) => (float y)\n"
                           "{ n = Neg (u) y = CastLike (x, n) }"),
                     VC_E_FORMAT);
    expect_says(ctx, "does not say how many bits the integers of input 1 have");
    vc_graph_close(graph);
    graph = NULL;
    build("<opset_import: [\"\" : 13]> g (float[N] x) => (float y, bool m) { y, m = Dropout (x) }");
    expect_ops("Dropout");
}

static void older_softmax(void **state)
{
    (void)state;
    build("<opset_import: [\"\" : 11]>\n"
          "g (float[2, 3, 4] x) => (float y, float z) { y = Softmax (x)  z = Softmax<axis = 2> (x) }");
    expect_ops("Flatten Softmax Reshape Softmax");
    expect_shape("y", "2 3 4");
}

static void sizes_of_inputs(void **state)
{
    (void)state;
    build("g (float[B, S, 8] x) => (float y) <int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}, int64[2] rest = "
          "{4, 2}> {\n"
          "    s = Shape (x)\n"
          "    b = Gather<axis = 0> (s, zero)  n = Gather<axis = 0> (s, one)\n"
          "    b1 = Unsqueeze (b, axis)  n1 = Unsqueeze (n, axis)\n"
          "    all = Concat<axis = 0> (b1, n1, rest)\n"
          "    y = Reshape (x, all)\n"
          "}");
    expect_shape("y", "B S 4 2");
}

#define LAYER_NORM(text)                                                                                              \
    "g (float[B, 4] x) => (float y) <int64[1] last = {-1}, float two = {2}, float eps = {1e-5}, float[4] w = {1, 2, " \
    "3, 4}, float[4] bias = {1, 1, 1, 1}, float one = {1}, float half = {0.5}, float root = {1.4142135381698608}, "   \
    "float s = {0.7978845834732056}, float c = {0.044714998453855515}, float three = {3}> {" text "}"

static void layer_norm_is_known(void **state)
{
    (void)state;
    build(
        LAYER_NORM("m = ReduceMean (x, last) d = Sub (x, m) q = Pow (d, two) v = ReduceMean (q, last) e = Add (v, eps) "
                   "r = Sqrt (e) n = Div (d, r) a = Mul (n, w) y = Add (a, bias)"));
    expect_ops("LayerNormalization");
    assert_int_equal(vc_graph_node(graph, 0)->n_inputs, 3);
    expect_shape("y", "B 4");
}

/* The mean over another dimension is no layer normalization. */
static void other_means_stay(void **state)
{
    (void)state;
    build("g (float[5, 4] x) => (float y) <int64[1] first = {0}, float two = {2}, float eps = {1e-5}> {"
          "m = ReduceMean (x, first) d = Sub (x, m) q = Pow (d, two) v = ReduceMean (q, first) e = Add (v, eps) "
          "r = Sqrt (e) y = Div (d, r)}");
    expect_ops("ReduceMean Sub Pow ReduceMean Add Sqrt Div");
}

static void gelu_is_known(void **state)
{
    static const char *const forms[] = {
        LAYER_NORM("a = Div (x, root) e = Erf (a) f = Add (e, one) g = Mul (x, f) y = Mul (g, half)"),
        LAYER_NORM("h = Mul (x, half) a = Div (x, root) e = Erf (a) f = Add (one, e) y = Mul (h, f)"),
        LAYER_NORM("p = Pow (x, three) k = Mul (p, c) a = Add (x, k) t = Mul (a, s) h = Tanh (t) f = Add (h, one) "
                   "g = Mul (x, half) y = Mul (g, f)"),
        LAYER_NORM("p = Mul (x, c) q = Mul (p, x) k = Add (q, one) t = Mul (x, s) u = Mul (t, k) h = Tanh (u) "
                   "f = Add (one, h) g = Mul (half, x) y = Mul (g, f)")};

    (void)state;
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        build(forms[k]);
        expect_ops("Gelu");
        assert_int_equal(vc_graph_node(graph, 0)->n_attrs, k < 2 ? 0 : 1);
        vc_graph_close(graph);
        graph = NULL;
    }
    build(LAYER_NORM("a = Div (x, root) e = Erf (a) f = Add (e, one) g = Mul (x, f) y = Mul (g, one)"));
    expect_ops("Div Erf Add Mul Mul"); /* twice as large */
}

static void rms_norm_is_known(void **state)
{
    (void)state;
    build(LAYER_NORM("q = Mul (x, x) v = ReduceMean (q, last) e = Add (v, eps) r = Sqrt (e) i = Reciprocal (r) "
                     "n = Mul (x, i) y = Mul (w, n)"));
    expect_ops("RMSNormalization");
}

/* ---- problems ---- */

static const char *const broken =
    "<opset_import: [\"\" : 17]>\n"
    "g (float[2, 3] x, string s) => (float y, float nothing) <float[2] c = {1, 2}> {\n"
    "    a = Add (b2, x)\n"
    "    b2 = Mul (a, x)\n"
    "    d = Relu (missing)\n"
    "    x = Neg (c)\n"
    "    c2 = Frobnicate (x)\n"
    "    e = com.example.Relu (x)\n"
    "    f = If <then_branch = t () => (float q) { q = Constant <value = float {1.0}> () }> (x)\n"
    "    y = MatMul (x, x)\n"
    "}";

static bool has_problem(const char *words)
{
    for (uint32_t k = 0; vc_graph_problem(graph, k) != NULL; k++) {
        if (strstr(vc_graph_problem(graph, k), words) != NULL) {
            return true;
        }
    }
    return false;
}

static void all_problems_at_once(void **state)
{
    static const char *const words[] = {"the value 'x' is made twice",
                                        "Relu 'd' uses 'missing', which nothing makes",
                                        "nothing makes the output 'nothing'",
                                        "in a cycle: Add 'a', Mul 'b2'",
                                        "the operator 'Frobnicate'",
                                        "Relu 'e' is of the domain 'com.example'",
                                        "If 'f' has a graph inside (then_branch)",
                                        "the input 's' is of a type",
                                        "MatMul 'y': the inner dimensions: 3 and 2 differ"};

    (void)state;
    assert_int_equal(parse(broken), VC_E_FORMAT);
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        if (!has_problem(words[k])) {
            fail_msg("no problem says: %s", words[k]);
        }
    }
    assert_null(vc_graph_problem(graph, sizeof words / sizeof *words));
}

/* What the file says about values between nodes and outputs, all of it before anything is read. */
static void declared_shapes(void **state)
{
    (void)state;
    build("<opset_import: [\"\" : 13]> g (float[N, 4] x, float[4, 3] w) => (float[1, 3] y, float z)\n"
          "<float[\"unk__1\", 3] t, float[?, ?] y, float16[9, 9] none> { t = MatMul (x, w) y = Relu (t) z = Neg (t) }");
    vc_graph_close(graph);
    graph = NULL;
    assert_int_equal(
        parse("<opset_import: [\"\" : 13]> g (float[N, 4] x, float[4, 3] w) => (float[N, 5] y, int64[N, 1] i)\n"
              "<float[N, 7] t, bool[N, 3] r, float[N, 3, 1] n>\n"
              "{ t = MatMul (x, w) r = Relu (t) n = Neg (r) y = Abs (n) i = ArgMax<axis = 1> (y) }"),
        VC_E_FORMAT);
    assert_string_equal(vc_graph_problem(graph, 0), "the file says that the shape of 't' is [N, 7]; it is [N, 3]");
    assert_string_equal(vc_graph_problem(graph, 1), "the file says that 'r' has truth values; it has floats");
    assert_string_equal(vc_graph_problem(graph, 2), "the file says that the shape of 'n' is [N, 3, 1]; it is [N, 3]");
    assert_string_equal(vc_graph_problem(graph, 3), "the file says that the shape of 'y' is [N, 5]; it is [N, 3]");
    assert_null(vc_graph_problem(graph, 4));
}

static void unknown_sets(void **state)
{
    (void)state;
    assert_int_equal(parse("<opset_import: [\"\" : 6]> g (float x) => (float y) { y = Relu (x) }"), VC_E_FORMAT);
    expect_says(ctx, "its operator set is 6; 7 to 28 are supported");
}

static void damaged_text(void **state)
{
    static const char *const texts[][2] = {
        {"", "line 1: expected the name of the graph"},
        {"g (float[2 x) => () {}", "line 1: expected ']' at 'x) => () {}'"},
        {"g (float x) =>\n(float y) { y = (x) }", "line 2: expected an operator"},
        {"g (float x) => (float y) { y = Relu (x) ", "expected a name"},
        {"g (float x) => (float y) <float[2] w = {1}> { y = Relu (x) }", "1 values, and 2"},
        {"g (float x) => (float y) <int64[1] w = {1.5}> { y = Relu (x) }", "expected an integer"},
        {"g (float x) => (float y) { y = Elu <alpha = > (x) }", "expected a number"},
        {"g (float x) => (float y) { y = Elu <alpha = 99999999999999999999> (x) }", "integer of 64 bits"},
        {"g (float \"x) => (float y) { y = Relu (x) }", "'\"' at the end"},
        {"<opset_import: [\"\" : 23], what: ?> g () => () {}", "expected"},
        {"g (float x) => (float y) { y = Relu (x) }\n<domain: \"d\"> f (x) => (y) { y = Neg (x) }",
         "line 2: expected the end of the text (functions are not read) at '<domain"}};

    (void)state;
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        assert_int_equal(parse(texts[k][0]), VC_E_FORMAT);
        expect_says(ctx, texts[k][1]);
        assert_null(graph);
    }
}

/* Cut off anywhere, the text is refused, and nothing is left behind. */
static void cut_text(void **state)
{
    const char *text = "<ir_version: 8, opset_import: [\"\" : 13], metadata_props: [\"a\" : \"b\"]>\n"
                       "g (float[N, 3] x = ) => (float y) <float[2] w = {1, -2.5}> { [n] y = Elu <alpha = 0.5> (x) }";

    (void)state;
    for (size_t n = 0; n < strlen(text); n++) {
        char *copy = malloc(n + 1); /* so that a read behind it is seen */

        memcpy(copy, text, n);
        assert_int_equal(vc_graph_parse_text(ctx, copy, n, NULL, &graph), VC_E_FORMAT);
        free(copy);
        vc_graph_close(graph);
        graph = NULL;
    }
}

/* ---- and back ---- */

static void printed_and_read(void **state)
{
    static const char text[] =
        "<opset_import: [\"\" : 23], metadata_props: [\"vcompress.parameter:w\" : \"fc.weight\"]>\n"
        "g (float[\"my size\", 4] \"x.0\", float[6, 4] w) => (float y)\n"
        "<float[3] b = {0.1, -inf, 1e30}, int64[1] first = {0}, int64[1] end = {3}, int64[1] axis = {0}> {\n"
        "    p = Slice (w, first, end, axis)\n"
        "    t = Transpose<perm = [1, 0]> (p)\n"
        "    m = MatMul (\"x.0\", t)\n"
        "    a = Add (m, b)\n"
        "    s = Shape (a)\n"
        "    c = ConstantOfShape<value = float[1] {2.5}> (s)\n"
        "    [\"a \\\"name\\\"\"] e = Elu<alpha = 0.25> (c)\n"
        "    y = Add (e, a)\n"
        "    t2 = Transpose (w)\n"
        "}";
    char *first = NULL;
    char *second = NULL;

    (void)state;
    build(text);
    assert_int_equal(vc_graph_print_text(ctx, graph, &first), VC_OK);
    vc_graph_close(graph);
    graph = NULL;
    build(first);
    assert_int_equal(vc_graph_print_text(ctx, graph, &second), VC_OK);
    assert_string_equal(first, second);
    vc_text_free(first);
    vc_text_free(second);
}

/* Inputs that need not be given are still such behind a text; of others there are none. */
static void optional_inputs(void **state)
{
    const struct vc_graph_value *mask;
    char *text = NULL;

    (void)state;
    build("<opset_import: [\"\" : 23], metadata_props: [\"vcompress.optional:m\" : \"-3\"]>\n"
          "g (int64[N] x, int64[N] m) => (int64[N] y) { y = Add (x, m) }");
    assert_int_equal(vc_graph_print_text(ctx, graph, &text), VC_OK);
    vc_graph_close(graph);
    graph = NULL;
    build(text);
    vc_text_free(text);
    mask = vc_graph_value(graph, vc_graph_find(graph, "m"));
    assert_true(mask->optional && mask->otherwise == -3);
    assert_false(vc_graph_value(graph, vc_graph_find(graph, "x"))->optional);
    vc_graph_close(graph);
    graph = NULL;
    assert_int_equal(parse("<opset_import: [\"\" : 23], metadata_props: [\"vcompress.optional:m\" : \"1.5\","
                           " \"vcompress.optional:x\" : \"1\"]>\n"
                           "g (float[N] x, int64[N] m) => (float[N] y, int64[N] z) { y = Neg (x) z = Neg (m) }"),
                     VC_E_FORMAT);
    assert_string_equal(vc_graph_problem(graph, 0),
                        "the input 'x' is noted to be '1' if it is not given, which is no such integer");
    assert_string_equal(vc_graph_problem(graph, 1),
                        "the input 'm' is noted to be '1.5' if it is not given, which is no such integer");
    assert_null(vc_graph_problem(graph, 2));
}

/* What static quantization writes: decoded, computed as floats, and codes again. */
static void operators_on_codes(void **state)
{
    (void)state;
    build("<opset_import: [\"\" : 17, \"com.microsoft\" : 1]>\n"
          "g (int8[N, 2, 4, 4] x, int8[3, 2, 3, 3] w) => (int8[N, 3, 2, 2] y, int8[N, 2, 2, 2] z)\n"
          "<float a = {0.5}, int8 i = {3}, float[3] b = {1, 2, 4}, int8[3] j = {0, 0, 0}, int32[3] c = {1, 2, 3}> {\n"
          "    y = QLinearConv (x, a, i, w, b, j, a, i, c)\n"
          "    s = com.microsoft.QLinearAdd (x, a, i, x, a, i, a, i)\n"
          "    z = MaxPool<kernel_shape = [2, 2], strides = [2, 2]> (s)\n"
          "}");
    expect_ops("DequantizeLinear DequantizeLinear Mul DequantizeLinear Conv QuantizeLinear "
               "DequantizeLinear DequantizeLinear Add QuantizeLinear Cast MaxPool Cast");
    expect_shape("y", "N 3 2 2");
    expect_shape("z", "N 2 2 2");
}

/* Slices and transposes of parameters are the parameters' own. */
static void parts_of_parameters(void **state)
{
    const struct vc_graph_param *param;
    char *text = NULL;

    (void)state;
    build("<opset_import: [\"\" : 13], metadata_props: [\"vcompress.parameter:w\" : \"fc.weight\"]>\n"
          "g (float[N, 4] x, float[6, 4] w) => (float y, float z)\n"
          "<int64[1] first = {3}, int64[1] end = {100}, int64[1] axis = {-2}> {\n"
          "    p = Slice (w, first, end, axis)  t = Transpose (p)  y = MatMul (x, t)  z = Gemm<transB = 1> (x, w)\n"
          "}");
    expect_ops("MatMul Gemm");
    assert_int_equal(vc_graph_param_count(graph), 2);
    param = vc_graph_param(graph, vc_graph_value(graph, vc_graph_find(graph, "t"))->param);
    assert_string_equal(param->tensor, "fc.weight");
    assert_true(param->sliced && param->transposed && param->axis == 0 && param->first == 3 && param->count == 3);
    expect_shape("y", "N 3");
    assert_int_equal(vc_graph_print_text(ctx, graph, &text), VC_OK);
    vc_graph_close(graph);
    graph = NULL;
    build(text);
    vc_text_free(text);
    expect_ops("MatMul Gemm");
    assert_int_equal(vc_graph_param_count(graph), 2);
    expect_shape("t", "4 3");
}

/* A packed projection whose weight is split. */
static void split_parameters(void **state)
{
    static const char *const names[] = {"q", "k", "v"};

    (void)state;
    build("<opset_import: [\"\" : 13], metadata_props: [\"vcompress.parameter:w\" : \"qkv\"]>\n"
          "g (float[N, 4] x, float[4, 9] w) => (float a, float b, float c, float d)\n"
          "<int64[3] sizes = {2, 3, 4}> {\n"
          "    q, k, v = Split<axis = -1> (w, sizes)  a = MatMul (x, q)  b = MatMul (x, k)  c = MatMul (x, v)\n"
          "    e, f, h = Split<axis = 1> (w)  t = Transpose (f)  d = Gemm<transB = 1> (x, t)\n"
          "}");
    expect_ops("MatMul MatMul MatMul Gemm");
    for (unsigned k = 0; k < 3; k++) {
        const struct vc_graph_param *param =
            vc_graph_param(graph, vc_graph_value(graph, vc_graph_find(graph, names[k]))->param);

        assert_true(param->sliced && param->axis == 1 && param->first == (k == 0 ? 0 : k == 1 ? 2 : 5));
        assert_int_equal(param->count, k + 2);
    }
    expect_shape("t", "3 4");
    vc_graph_close(graph);
    graph = NULL;
    assert_int_equal(
        parse("<opset_import: [\"\" : 13], metadata_props: [\"vcompress.parameter:w\" : \"qkv\"]>\n"
              "g (float[4, 9] w) => (float a) <int64[2] sizes = {2, 3}> { a, b = Split<axis = 1> (w, sizes) }"),
        VC_E_FORMAT);
    expect_says(ctx, "the sum of the parts and the dimension: 5 and 9 differ");
}

/* Parts that nobody uses, and what torch makes of pad(): a list of pairs, turned around. */
static void parts_and_pads(void **state)
{
    (void)state;
    build("<opset_import: [\"\" : 17]> g (float[N, 6] x) => (float y) { y, other = Split<axis = 1> (x) }");
    expect_shape("y", "N 3"); /* an output that nobody uses is a part all the same */
    vc_graph_close(graph);
    graph = NULL;
    build("<opset_import: [\"\" : 17]> g (float[N, 3, 8, 10] x) => (float y)\n"
          "<int64[8] list = {1, 2, 3, 4, 0, 0, 0, 0}, int64[2] pairs = {-1, 2}, int64[1] last = {-1},\n"
          " int64[1] first = {-9223372036854775807}, int64[1] axis = {0}, int64[1] flat = {-1}> {\n"
          "    a = Reshape (list, pairs)  b = Slice (a, last, first, axis, last)  c = Transpose<perm = [1, 0]> (b)\n"
          "    d = Reshape (c, flat)  e = Cast<to = 7> (d)  y = Pad (x, e)\n"
          "}");
    expect_ops("Pad");
    expect_shape("y", "N 3 15 13");
    vc_graph_close(graph);
    graph = NULL; /* sizes that Split takes apart, of equal parts and of others */
    build("<opset_import: [\"\" : 20]> g (float[N, 3, 8, 10] x) => (float y, float z)\n"
          "<int64[2] sizes = {1, 3}, int64[1] minus = {-1}> {\n"
          "    s = Shape (x)  n, c, h, w = Split<num_outputs = 4> (s)  wide = Mul (h, w)\n"
          "    list = Concat<axis = 0> (n, wide, c)  y = Reshape (x, list)\n"
          "    first, rest = Split (s, sizes)  some = Concat<axis = 0> (rest, minus)  z = Reshape (x, some)\n"
          "}");
    expect_shape("y", "N 80 3");
    expect_shape("z", "3 8 10 N");
    vc_graph_close(graph);
    graph = NULL; /* behind an operator that is not there CastLike is not told */
    assert_int_equal(
        parse("<opset_import: [\"\" : 20]> g (float[N] x) => (float y) { u = Foo (x)  y = CastLike (u, x) }"),
        VC_E_FORMAT);
    assert_null(strstr(vc_ctx_message(ctx), "CastLike"));
}

static void no_memory(void **state)
{
    const char *text = LAYER_NORM("m = ReduceMean (x, last) d = Sub (x, m) q = Pow (d, two) v = ReduceMean (q, last) "
                                  "e = Add (v, eps) r = Sqrt (e) n = Div (d, r) a = Mul (n, w) y = Add (a, bias)");

    (void)state;
    for (uint64_t n = 1; n < 20000; n++) {
        enum vc_status status;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = parse(text);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        if (status == VC_OK) {
            assert_true(n > 20);
            return;
        }
        assert_int_equal(status, VC_E_NOMEM);
        assert_null(graph);
    }
    fail_msg("not even the last allocation was reached");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_layer, begin_without, end),
        cmocka_unit_test_setup_teardown(order, begin_without, end),
        cmocka_unit_test_setup_teardown(open_sizes, begin_without, end),
        cmocka_unit_test_setup_teardown(names_of_sizes, begin_without, end),
        cmocka_unit_test_setup_teardown(identities, begin_without, end),
        cmocka_unit_test_setup_teardown(older_sets, begin_without, end),
        cmocka_unit_test_setup_teardown(in_other_words, begin_without, end),
        cmocka_unit_test_setup_teardown(older_softmax, begin_without, end),
        cmocka_unit_test_setup_teardown(sizes_of_inputs, begin_without, end),
        cmocka_unit_test_setup_teardown(layer_norm_is_known, begin_without, end),
        cmocka_unit_test_setup_teardown(other_means_stay, begin_without, end),
        cmocka_unit_test_setup_teardown(gelu_is_known, begin_without, end),
        cmocka_unit_test_setup_teardown(rms_norm_is_known, begin_without, end),
        cmocka_unit_test_setup_teardown(all_problems_at_once, begin_without, end),
        cmocka_unit_test_setup_teardown(declared_shapes, begin_without, end),
        cmocka_unit_test_setup_teardown(unknown_sets, begin_without, end),
        cmocka_unit_test_setup_teardown(damaged_text, begin_without, end),
        cmocka_unit_test_setup_teardown(cut_text, begin_without, end),
        cmocka_unit_test_setup_teardown(printed_and_read, begin_without, end),
        cmocka_unit_test_setup_teardown(optional_inputs, begin_without, end),
        cmocka_unit_test_setup_teardown(operators_on_codes, begin_without, end),
        cmocka_unit_test_setup_teardown(parts_of_parameters, begin_without, end),
        cmocka_unit_test_setup_teardown(split_parameters, begin_without, end),
        cmocka_unit_test_setup_teardown(parts_and_pads, begin_without, end),
        cmocka_unit_test_setup_teardown(no_memory, begin_without, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
