/* test_engine_lift.c - graphs of which only some places are read (graph/lift.h) beside the same graphs as a whole, which a program has
 * whose loss reads what the selections read. Judges: the whole program's bits of outputs, its gradients to rounding, the inference
 * of shapes once more (graph/sizes.h), and how many multiply-adds are left. */
#include "engine_test.h"
#include "graph/lift.h"
#include "graph/sizes.h"

#define MOST 16

struct graph_case {
    const char *text;
    uint64_t share; /* of 100 multiply-adds, those that are left at most; 100: nothing may be left out */
};

#define LINES         "(float[2,6,8] x, float[8] pa, float[8] pb, float[8,8] pc, float[8,8] pd, float[8,8] pe, float[8,8] pf"
#define HEAD(q, k, v) q " = MatMul(h, pc)  " k " = MatMul(h, pd)  " v " = MatMul(h, pe)  "
#define BEHIND        "o = MatMul(a, pf)  r = Add(o, h)  s = LayerNormalization(r, pa, pb)  g = Gelu(s)  t = MatMul(g, pf)  "

static const struct graph_case cases[] = {
    /* the first token of a layer of BERT; the last one by a Slice; a mask with rows of queries; and of keys alone */
    {LINES ", float[2,1,1,6] m) => (float[2,8] y) <int64 at = {0}> { h = LayerNormalization(x, pa, pb)  " HEAD(
         "q", "k", "v") "a = Attention<q_num_heads: int = 2, kv_num_heads: int = 2>(q, k, v, m)  " BEHIND
                        "w = Gather<axis: int = 1>(t, at)  y = Tanh(w) }",
     55},
    {LINES
     ", float[2,2,6,6] m) => (float[2,1,8] y) <int64[1] from = {-1}, int64[1] to = {9999}, int64[1] axis = {-2}> { h = "
     "Relu(x)  " HEAD("q", "k", "v") "a = Attention<q_num_heads: int = 2, kv_num_heads: int = 2>(q, k, v, m)  " BEHIND
                                     "y = Slice(t, from, to, axis) }",
     55},
    /* attention as exporters write it, with shapes that follow a hidden state's; a mask that a Where makes and an Expand repeats */
    {"(float[n,6,8] x, float[8] pa, float[8] pb, float[8,8] pc, float[8,8] pd, float[8,8] pe, float[8,8] pf, "
     "float[1,1,6] m) => (float[n,8] y) <int64[1] zero = {0}, int64[2] heads = {2, 4}, int64[4] all = {2, 1, "
     "6, 6}, float scale = {0.5}, "
     "float low = {-9.0}, int64[1] one = {1}, int64 at = {-6}> { h = Relu(x)  " HEAD(
         "q", "k", "v") "i = Shape<start: int = 0, end: int = 2>(q)  j = Concat<axis: int = 0>(i, heads)  qr = "
                        "Reshape(q, j)  qt = Transpose<perm: ints = [0, 2, 1, 3]>(qr)  "
                        "kr = Reshape(k, j)  kt = Transpose<perm: ints = [0, 2, 3, 1]>(kr)  vr = Reshape(v, j)  "
                        "vt = Transpose<perm: ints = [0, 2, 1, 3]>(vr)  "
                        "b = MatMul(qt, kt)  c = Mul(b, scale)  mu = Unsqueeze(m, one)  n = Expand(mu, all)  u = "
                        "Greater(n, scale)  d = Where(u, c, low)  e = Add(d, n)  "
                        "f = Softmax(e)  p = MatMul(f, vt)  pt = Transpose<perm: ints = [0, 2, 1, 3]>(p)  hs = "
                        "Shape(pt)  i2 = Shape<start: int = 0, end: int = 2>(pt)  "
                        "minus = Neg(one)  j2 = Concat<axis: int = 0>(i2, minus)  a = Reshape(pt, j2)  " BEHIND
                        "w = Gather<axis: int = 1>(t, at)  y = Tanh(w) }",
     60},
/* the last token of a decoder: causal, with tables of positions; of its first token attention stays */
#define DECODER(at)                                                                                                   \
    LINES ") => (float[2,8] y) <int64[1] ax = {2}, int64[3] parts = {8, 8, 8}, int64 at = {" at                       \
          "}, float[1,6,2] cs = {1.0, 0.5, 0.2, 0.3, 0.7, 0.4, "                                                      \
          "0.9, 0.1, 0.3, 0.8, 0.6, 0.2}, int64[3] two = {2, 6, 2}> { h = RMSNormalization(x, pa)  ta = Expand(cs, "  \
          "two)  tb = Neg(ta)  cat = Concat<axis: int = 1>(pc, pd, pe)  "                                             \
          "qkv = MatMul(h, cat)  q, k, v = Split<axis: int = 2>(qkv, parts)  qo = RotaryEmbedding<num_heads: int = "  \
          "2>(q, ta, tb)  ko = RotaryEmbedding<num_heads: int = 2>(k, ta, tb)  "                                      \
          "a = Attention<q_num_heads: int = 2, kv_num_heads: int = 2, is_causal: int = 1>(qo, ko, v)  o = MatMul(a, " \
          "pf)  r = Add(o, x)  s = RMSNormalization(r, pb)  "                                                         \
          "g = MatMul(s, pc)  z = Sigmoid(g)  t = Mul(g, z)  w = Gather<axis: int = 1>(t, at)  y = Tanh(w) }"
    {DECODER("-1"), 70},
    {DECODER("0"), 80},
    /* read twice, at two places, at two that are far apart; a range of a half, and of more; as an output, as a sum over all */
    {LINES ") => (float[2,8] y) <int64 at = {1}, int64 to = {0}> { h = Relu(x)  t = MatMul(h, pc)  u = MatMul(t, pd)  "
           "a = Gather<axis: int = 1>(u, at)  "
           "b = Gather<axis: int = 1>(u, at)  c = Gather<axis: int = 1>(u, to)  d = Gather<axis: int = 1>(t, at)  e = "
           "Add(a, b)  f = Mul(c, d)  y = Sub(e, f) }",
     35},
    {LINES ") => (float[2,8] y) <int64 at = {0}, int64 to = {5}> { h = Relu(x)  t = MatMul(h, pc)  a = Gather<axis: "
           "int = 1>(t, at)  "
           "b = Gather<axis: int = 1>(t, to)  y = Mul(a, b) }",
     100},
    {LINES ") => (float[2,3,8] y) <int64[1] from = {2}, int64[1] to = {5}, int64[1] axis = {1}> { h = Relu(x)  t = "
           "MatMul(h, pc)  y = Slice(t, from, to, axis) }",
     50},
    {LINES ") => (float[2,4,8] y) <int64[1] from = {1}, int64[1] to = {5}, int64[1] axis = {1}> { h = Relu(x)  t = "
           "MatMul(h, pc)  y = Slice(t, from, to, axis) }",
     100},
    {LINES ") => (float[2,8] y, float[2,6,8] t) <int64 at = {0}> { t = MatMul(x, pc)  a = Gather<axis: int = 1>(t, at) "
           " y = Relu(a) }",
     100},
    {LINES
     ") => (float[2,8] y) <int64 at = {0}, int64[1] over = {1}> { t = MatMul(x, pc)  a = Gather<axis: int = 1>(t, at)  "
     "b = ReduceMean<keepdims: int = 0>(t, over)  y = Add(a, b) }",
     100},
    /* an index that rows of data have; a Softmax over places; a step of two; places along another axis of the same value */
    {LINES ", int64[1] at) => (float[2,1,8] y) { t = MatMul(x, pc)  y = Gather<axis: int = 1>(t, at) }", 100},
    {LINES ") => (float[2,8] y) <int64 at = {0}> { t = MatMul(x, pc)  u = Softmax<axis: int = 1>(t)  a = Gather<axis: "
           "int = 1>(u, at)  y = Relu(a) }",
     100},
    {LINES ") => (float[2,3,8] y) <int64[1] from = {0}, int64[1] to = {6}, int64[1] axis = {1}, int64[1] by = {2}> { t "
           "= MatMul(x, pc)  u = Relu(t)  "
           "y = Slice(u, from, to, axis, by) }",
     100},
    {LINES ") => (float[2] y) <int64 at = {0}, int64[1] from = {1}, int64[1] to = {5}, int64[1] axis = {1}, int64[1] b "
           "= {0}, int64[1] e = {2}> { t = MatMul(x, pc)  "
           "u = Slice(t, from, to, axis)  v = Slice(u, b, e, axis)  w = Gather<axis: int = 1>(v, at)  y = Gather<axis: "
           "int = 1>(w, at) }",
     20},
    /* a normalization in small steps, positions that are trained, the rows of a matrix, a Concat of features, Dropout */
    {LINES ") => (float[2,8] y) <int64 at = {2}, int64[1] last = {-1}, float two = {2.0}, float e = {0.01}> { h = "
           "MatMul(x, pc)  m = ReduceMean(h, last)  d = Sub(h, m)  "
           "p = Pow(d, two)  w = ReduceMean(p, last)  v = Squeeze(w, last)  u = Unsqueeze(v, last)  z = Add(u, e)  q = "
           "Sqrt(z)  n = Div(d, q)  t = MatMul(n, pd)  y = Gather<axis: int = 1>(t, at) }",
     17},
    {"(float[2,6,8] x, float[6,8] pa, float[8,8] pc) => (float[2,8] y) <int64 at = {3}> { h = Add(x, pa)  t = "
     "MatMul(h, pc)  y = Gather<axis: int = 1>(t, at) }",
     17},
    {"(float[7,8] x, float[8,5] pa, float[7,5] pb, float[5,5] pc) => (float[2,10] y) <int64[1] from = {3}, int64[1] to "
     "= {5}, int64[1] axis = {0}> { "
     "h = Gemm<alpha: float = 2.0>(x, pa, pb)  r = Tanh(h)  t = MatMul(r, pc)  c = Concat<axis: int = 1>(t, r)  y = "
     "Slice(c, from, to, axis) }",
     74},
    {LINES ") => (float[2,8] y) <int64 at = {0}, float ratio = {0.5}> { t = MatMul(x, pc)  d, m = Dropout(t, ratio)  k "
           "= Not(m)  u = MatMul(d, pd)  a = Gather<axis: int = 1>(u, at)  y = Relu(a) }",
     60},
    /* columns behind an axis that is summed up: one column alone would be added up in another order */
    {"(float[2,64,6] x, float[6,6] pa) => (float[2,1] y) <int64[1] over = {1}, int64 at = {3}> { h = Relu(x)  t = "
     "MatMul(h, pa)  r = ReduceMean(t, over)  y = Gather<axis: int = 2>(r, at) }",
     100},
    {"(float[2,64,6] x, float[6] pa) => (float[2,1] y) <int64[1] over = {1}, int64 at = {3}> { t = Mul(x, pa)  r = "
     "ReduceSum(t, over)  y = Gather<axis: int = 2>(r, at) }",
     100},
    /* a convolution mixes columns, and channels of one column do not */
    {"(float[2,3,4,6] x, float[5,3,3,3] pa, float[5,5] pb) => (float[2,4,5] y) <int64 at = {-1}> { c = Conv<pads: ints "
     "= [1, 1, 1, 1]>(x, pa)  r = Relu(c)  "
     "p = Transpose<perm: ints = [0, 2, 3, 1]>(r)  t = MatMul(p, pb)  y = Gather<axis: int = 2>(t, at) }",
     90},
};

/* The open size of a graph that has one is 2: shapes that nodes compute with stay nodes there. */
static void parse(struct net *net, const char *text)
{
    net_parse(net, text);
    if (vc_graph_symbol(net->graph, 0, NULL) != NULL) {
        assert_int_equal(vc_graph_bind(net->ctx, net->graph, "n", 2), VC_OK);
    }
}

/* What one program computes; whole: the loss reads what selections read, at a gradient of 0. */
struct outcome {
    double numbers[3][4096]; /* outputs, gradients of weights, of inputs */
    size_t n[3];
    uint64_t macs;
};

static void note(struct outcome *out, int which, const struct vc_weights *w, const void *from, size_t n)
{
    for (size_t i = 0; from != NULL && i < n; i++) {
        assert_true(out->n[which] < 4096);
        out->numbers[which][out->n[which]++] = net_get(w, from, i);
    }
}

static void run(const char *text, enum vc_graph_precision precision, unsigned threads, bool whole, struct outcome *out)
{
    struct vc_engine_options options = {
        .train = true, .threads = threads, .dropout = true, .seed = 5, .input_grads = true};
    const struct vc_engine_pass pass = {.training = true, .norm_share = -1};
    struct net net = {.ctx = test_ctx(), .random = 1};
    uint32_t kept[MOST];
    uint64_t again;

    parse(&net, text);
    for (uint32_t n = 0; whole && n < net.graph->n_nodes; n++) {
        const struct vc_graph_node *node = &net.graph->nodes[n];

        if ((strcmp(node->op, "Gather") == 0 || strcmp(node->op, "Slice") == 0) &&
            node->inputs[0] != net.graph->outputs[net.graph->n_outputs - 1]) {
            kept[options.n_kept++] = node->inputs[0];
        }
    }
    options.kept = kept;
    net_weights(&net, precision);
    net_engine(&net, &options);
    net_numbers(&net);
    memset(net.cotangents + net.n_outputs, 0, sizeof(double));
    size_t own = 0;
    for (uint32_t k = 0; k < net.graph->n_outputs; k++) {
        own += vc_engine_output(net.engine, k)->n;
    }
    memset(net.cotangents + own, 0, (net.n_outputs - own) * sizeof(double));
    *out = (struct outcome){.macs = 0};
    vc_engine_recomputed(net.engine, &again, &out->macs);
    vc_weights_clear(net.weights);
    net_forward(&net, &pass);
    for (uint32_t k = 0; k < net.graph->n_outputs; k++) {
        note(out, 0, net.weights, vc_engine_output(net.engine, k)->data, vc_engine_output(net.engine, k)->n);
    }
    net_backward(&net);
    for (size_t k = 0; k < net.weights->n; k++) {
        note(out, 1, net.weights, net.weights->items[k].grad, net.weights->items[k].n);
    }
    for (uint32_t k = 0; k < net.graph->n_inputs; k++) {
        note(out, 2, net.weights, vc_engine_input(net.engine, k)->grad, vc_engine_input(net.engine, k)->n);
    }
    net_end(&net);
}

static void assert_near(const struct outcome *a, const struct outcome *b, int which, double most)
{
    assert_int_equal(a->n[which], b->n[which]);
    for (size_t i = 0; i < a->n[which]; i++) {
        assert_true(fabs(a->numbers[which][i] - b->numbers[which][i]) <= most * (1 + fabs(b->numbers[which][i])));
    }
}

static void test_whole(void **state)
{
    static struct outcome part, other, whole;

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (int f64 = 0; f64 < 2; f64++) {
            enum vc_graph_precision precision = f64 ? VC_GRAPH_F64 : VC_GRAPH_F32;

            run(cases[k].text, precision, 1, false, &part);
            run(cases[k].text, precision, 3, false, &other);
            run(cases[k].text, precision, 2, true, &whole);
            assert_memory_equal(&part, &other, sizeof part);
            assert_true(100 * part.macs <= cases[k].share * whole.macs &&
                        (cases[k].share < 100 || part.macs == whole.macs));
            assert_near(&part, &whole, 0, 0);
            assert_near(&part, &whole, 1, f64 ? 1e-13 : 1e-5);
            assert_near(&part, &whole, 2, f64 ? 1e-13 : 1e-5);
        }
    }
}

/* The lifted graph is one that inference agrees with. */
static void test_shapes(void **state)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct net net = {.ctx = test_ctx()};
        struct vc_lifted *lifted;
        bool fixed[256] = {false};

        parse(&net, cases[k].text);
        fixed[net.graph->outputs[0]] = fixed[net.graph->outputs[net.graph->n_outputs - 1]] = true;
        assert_int_equal(vc_graph_lift(net.ctx, net.graph, fixed, true, &lifted), VC_OK);
        assert_true((lifted != NULL) == (cases[k].share < 100));
        for (uint32_t v = 0; lifted != NULL && v < lifted->graph.n_values; v++) { /* inference reads these */
            const struct vc_graph_value *value = &lifted->graph.values[v];
            struct vc_dim elems[VC_GRAPH_MAX_DIMS];

            if (value->kind == VC_VALUE_CONSTANT &&
                (v >= net.graph->n_values || net.graph->values[v].kind == VC_VALUE_RESULT)) {
                for (int64_t i = 0; i < value->shape[0].size; i++) {
                    elems[i] = vc_dim_number(((const int64_t *)value->data)[i]);
                }
                lifted->graph.facts[v].elems = vc_graph_copy(&lifted->graph, elems, VC_GRAPH_MAX_DIMS, sizeof *elems);
            }
        }
        for (uint32_t v = 0; lifted != NULL && v < lifted->graph.n_values;
             v++) { /* its maker is the node that makes it */
            uint32_t maker = lifted->graph.values[v].node;
            bool makes = maker == VC_NO_NODE;

            assert_true(makes || maker < lifted->graph.n_nodes);
            for (unsigned i = 0; !makes && i < lifted->graph.nodes[maker].n_outputs; i++) {
                makes = lifted->graph.nodes[maker].outputs[i] == v;
            }
            assert_true(makes);
        }
        if (lifted != NULL && vc_graph_check_sizes(net.ctx, &lifted->graph, NULL, 0) != VC_OK) {
            fail_msg("%s\n%s", vc_ctx_message(net.ctx), cases[k].text);
        }
        vc_graph_lift_free(net.ctx, lifted);
        net_end(&net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_whole)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
