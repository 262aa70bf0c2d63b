/* test_forward.c - the reference forward pass: values by hand, in both precisions, and inputs that do not fit. */
#include "graph/base/graph_state.h"
#include "graph_test.h"

#include <math.h>
#include <stdlib.h>

#include "graph/build.h"
#include "graph/forward.h"

/* What a run is given and what it gave. */
struct world {
    enum vc_precision precision;
    int64_t rows, columns; /* of the input x */
    double x[12];
    double out[12];
    size_t n_out;
    unsigned n_taken;
};

static void put(const struct world *w, void *to, size_t k, double value)
{
    if (w->precision == VC_PRECISION_F32) {
        ((float *)to)[k] = (float)value;
    } else {
        ((double *)to)[k] = value;
    }
}

/* The parameter's element i is i + 1. */
static enum vc_status feed_param(struct vc_ctx *c, void *user, const struct vc_graph_param *param, void *elements)
{
    (void)c;
    for (size_t k = 0; k < param->shape[0] * param->shape[1]; k++) {
        put(user, elements, k, (double)(k + 1));
    }
    return VC_OK;
}

static enum vc_status feed_input(struct vc_ctx *c, void *user, uint32_t k, struct vc_run_value *value)
{
    struct world *w = user;

    assert_int_equal(k, 0);
    *value = (struct vc_run_value){.n_dims = 2, .shape = {w->rows, w->columns}, .is_real = true};
    value->n = (size_t)(w->rows * w->columns);
    value->data = vc_alloc_array(c, VC_TAG_MISC, value->n, 8);
    for (size_t i = 0; i < value->n; i++) {
        put(w, value->data, i, w->x[i]);
    }
    return VC_OK;
}

static enum vc_status take(struct vc_ctx *c, void *user, uint32_t value, const struct vc_run_value *elements)
{
    struct world *w = user;

    (void)c;
    (void)value;
    w->n_out = elements->n;
    w->n_taken++;
    for (size_t k = 0; k < elements->n; k++) {
        w->out[k] = w->precision == VC_PRECISION_F32 ? (double)((const float *)elements->data)[k]
                                                     : ((const double *)elements->data)[k];
    }
    return VC_OK;
}

/* y = relu(x @ w - 8), with w [2, 3] and x [batch, 2]. */
static void build(void)
{
    struct vc_dim shape[2] = {vc_dim_symbol(&graph->dims, "batch"), vc_dim_number(2)};
    uint64_t tensor[2] = {2, 3};
    struct vc_param_spec spec = {.tensor = "w", .index = VC_NO_TENSOR, .n_dims = 2, .shape = tensor};
    uint32_t x = vc_graph_add_input(graph, "x", VC_DTYPE_F32, shape, 2);
    uint32_t w = vc_graph_add_param(graph, "w", &spec);
    uint32_t y = vc_graph_add(graph, "MatMul", "product", (uint32_t[]){x, w}, 2);

    y = vc_graph_add(graph, "Sub", NULL, (uint32_t[]){y, vc_graph_add_float(graph, 8)}, 2);
    y = vc_graph_add(graph, "Relu", "y", &y, 1);
    vc_graph_add_output(graph, y);
    assert_int_equal(vc_graph_finish(graph, &graph), VC_OK);
}

static enum vc_status run(struct world *w, const char *name)
{
    struct vc_run_calls calls = {.user = w, .param = feed_param, .input = feed_input, .take = take};
    uint32_t wanted = vc_graph_find(graph, name);

    assert_int_not_equal(wanted, VC_NO_VALUE);
    return vc_graph_forward(ctx, graph, w->precision, &calls, &wanted, 1);
}

/* A context that has run a model with inputs of its own keeps the kernels. */
static int end_with_kernels(void **state)
{
    (void)state;
    vc_graph_close(graph);
    vc_ctx_free(ctx);
    return 0;
}

/* An input of 8,000 elements, in the shape that the graph states. */
static enum vc_status feed_long(struct vc_ctx *c, void *user, uint32_t k, struct vc_run_value *value)
{
    const struct vc_graph_value *input = &graph->values[graph->inputs[k]];

    *value = (struct vc_run_value){.n_dims = input->n_dims, .n = 8000, .is_real = true};
    value->data = vc_alloc_array(c, VC_TAG_MISC, value->n, 8);
    for (unsigned d = 0; d < input->n_dims; d++) {
        value->shape[d] = input->shape[d].size;
    }
    for (size_t i = 0; i < value->n; i++) {
        put(user, value->data, i, (double)(1 + (float)(i % 97) / 970));
    }
    return VC_OK;
}

static enum vc_status take_first(struct vc_ctx *c, void *user, uint32_t value, const struct vc_run_value *elements)
{
    struct world *w = user;

    (void)c;
    (void)value;
    w->out[0] =
        w->precision == VC_PRECISION_F32 ? (double)*(const float *)elements->data : *(const double *)elements->data;
    return VC_OK;
}

/* Sums of 8,000 elements of one sign, of which an f32 sum from front to back would be wrong by 1e-5 and more. */
static void long_sums(void **state)
{
    static const char *const names[] = {"s", "l", "r", "p", "m", "g", "c"};
    static const char text[] =
        "<opset_import: [\"\" : 23]>\n"
        "g (float[1, 8000] x, float[1, 1, 8000] x3, float[8000, 1] w, float[1, 8000, 1] k, float[8000] one)"
        " => (float[1, 8000] s, float[1, 8000] l, float[1, 8000] r, float[1, 1, 1] p, float[1, 1] m, float[1, 1] g,"
        " float[1, 1, 1] c) {\n"
        "    s = Softmax (x)  l = LogSoftmax (x)  r = RMSNormalization (x, one)  p = GlobalAveragePool (x3)\n"
        "    m = MatMul (x, w)  g = Gemm (x, w)  t = Transpose<perm = [0, 2, 1]> (x3)  c = Conv (t, k)\n"
        "}";

    (void)state;
    assert_int_equal(vc_graph_parse_text(ctx, text, strlen(text), NULL, &graph), VC_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint32_t wanted = vc_graph_find(graph, names[i]);
        double y[2];

        for (int k = 0; k < 2; k++) {
            struct world w = {.precision = k == 0 ? VC_PRECISION_F32 : VC_PRECISION_F64};
            struct vc_run_calls calls = {.user = &w, .param = feed_param, .input = feed_long, .take = take_first};

            if (vc_graph_forward(ctx, graph, w.precision, &calls, &wanted, 1) != VC_OK) {
                fail_msg("%s", vc_ctx_message(ctx));
            }
            y[k] = w.out[0];
        }
        print_message("%s: %.9g, %.1e\n", names[i], y[1], fabs(y[0] / y[1] - 1));
        assert_true(fabs(y[0] / y[1] - 1) < 2e-6);
    }
}

static void a_layer_by_hand(void **state)
{
    (void)state;
    build();
    for (int k = 0; k < 2; k++) {
        struct world w = {
            .precision = k == 0 ? VC_PRECISION_F32 : VC_PRECISION_F64, .rows = 2, .columns = 2, .x = {1, 2, 0, 0.5}};
        const double product[6] = {9, 12, 15, 2, 2.5, 3};
        const double y[6] = {1, 4, 7, 0, 0, 0};

        assert_int_equal(run(&w, "product"), VC_OK);
        assert_int_equal(w.n_out, 6);
        assert_memory_equal(w.out, product, sizeof product);
        assert_int_equal(run(&w, "y"), VC_OK);
        assert_memory_equal(w.out, y, sizeof y);
        assert_int_equal(w.n_taken, 2);
        assert_int_equal(run(&w, "w"), VC_OK); /* a parameter */
        assert_true(w.out[5] == 6);
    }
}

static void other_sizes_of_the_input(void **state)
{
    struct world w = {.precision = VC_PRECISION_F64, .rows = 3, .columns = 2, .x = {1, 2, 0, 0, 4, 4}};

    (void)state;
    build();
    assert_int_equal(run(&w, "y"), VC_OK);
    assert_int_equal(w.n_out, 9);
    w.rows = 1;
    assert_int_equal(run(&w, "y"), VC_OK);
    assert_int_equal(w.n_out, 3);
    w.columns = 3;
    assert_int_equal(run(&w, "y"), VC_E_ARGUMENT);
    expect_says(ctx, "the input 'x' has size 3 in dimension 1; the model takes 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_layer_by_hand, begin, end),
        cmocka_unit_test_setup_teardown(long_sums, begin_without, end_with_kernels),
        cmocka_unit_test_setup_teardown(other_sizes_of_the_input, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
