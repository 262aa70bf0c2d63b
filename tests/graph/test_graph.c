/* test_graph.c - building a graph: shapes that are known at once, all problems in one go, what nothing needs goes. */
#include "graph/base/graph_state.h"
#include "graph_test.h"

static uint32_t input(const char *name, const char *symbol, int64_t size)
{
    struct vc_dim shape[2] = {vc_dim_symbol(&graph->dims, symbol), vc_dim_number(size)};

    return vc_graph_add_input(graph, name, VC_DTYPE_F32, shape, 2);
}

static uint32_t param(const char *name, uint64_t rows, uint64_t columns, bool transposed)
{
    uint64_t shape[2] = {rows, columns};
    struct vc_param_spec spec = {
        .tensor = name, .index = VC_NO_TENSOR, .n_dims = 2, .shape = shape, .transposed = transposed};

    return vc_graph_add_param(graph, name, &spec);
}

static void expect_shape(uint32_t value, const char *a, const char *b)
{
    const struct vc_graph_value *v = vc_graph_value(graph, value);
    char text[100];

    assert_int_equal(v->n_dims, 2);
    assert_string_equal(vc_graph_dim_text(graph, v->shape[0], text, sizeof text), a);
    assert_string_equal(vc_graph_dim_text(graph, v->shape[1], text, sizeof text), b);
}

static enum vc_status finish(void)
{
    return vc_graph_finish(graph, &graph);
}

static void a_layer(void **state)
{
    uint32_t x = input("x", "batch", 64);
    uint32_t w = param("fc.weight", 10, 64, true);
    uint32_t y = vc_graph_add(graph, "MatMul", "fc", (uint32_t[]){x, w}, 2);
    uint32_t spare = param("spare", 3, 4, false);
    uint32_t z;
    char text[64];

    (void)state;
    vc_graph_add(graph, "Relu", "nobody", &y, 1);
    vc_graph_add(graph, "Relu", "neither", &spare, 1);
    z = vc_graph_add(graph, "Relu", NULL, &y, 1);
    vc_graph_add_output(graph, z);
    assert_int_equal(finish(), VC_OK);
    assert_int_equal(vc_graph_node_count(graph), 2);
    assert_int_equal(vc_graph_param_count(graph), 1);
    assert_int_equal(vc_graph_value_count(graph), 4);
    assert_int_equal(vc_graph_find(graph, "spare"), VC_NO_VALUE);
    y = vc_graph_find(graph, "fc");
    expect_shape(y, "batch", "10");
    assert_int_equal(vc_graph_value(graph, y)->n_uses, 1);
    assert_string_equal(vc_graph_symbol(graph, 0, NULL), "batch");
    assert_null(vc_graph_symbol(graph, 1, NULL));
    assert_string_equal(vc_graph_dim_text(graph, vc_graph_node(graph, 0)->macs, text, sizeof text), "640*batch");
    assert_int_equal(vc_graph_bind(ctx, graph, "batch", 3), VC_OK);
    assert_int_equal(vc_graph_dim_value(graph, vc_graph_node(graph, 0)->macs), 1920);
    assert_int_equal(vc_graph_bind(ctx, graph, "bath", 3), VC_E_ARGUMENT);
    expect_says(ctx, "no input has a dimension 'bath'");
    assert_int_equal(vc_graph_bind(ctx, graph, "batch", 0), VC_E_ARGUMENT);
}

static void slices_and_ties(void **state)
{
    uint64_t shape[2] = {192, 64};
    struct vc_param_spec spec = {.tensor = "qkv", .n_dims = 2, .shape = shape, .sliced = true, .count = 64};
    uint32_t x = input("x", "tokens", 64);
    uint32_t q = vc_graph_add_param(graph, "q", &spec);
    uint32_t k;
    uint32_t again;

    (void)state;
    spec.first = 64;
    spec.transposed = true;
    k = vc_graph_add_param(graph, "k", &spec);
    again = vc_graph_add_param(graph, "k2", &spec);
    x = vc_graph_add(graph, "MatMul", NULL, (uint32_t[]){x, q}, 2);
    x = vc_graph_add(graph, "MatMul", NULL, (uint32_t[]){x, k}, 2);
    x = vc_graph_add(graph, "MatMul", NULL, (uint32_t[]){x, again}, 2);
    vc_graph_add_output(graph, x);
    assert_int_equal(finish(), VC_OK);
    assert_int_equal(vc_graph_param(graph, 0)->tied_to, VC_NO_PARAM);
    assert_int_equal(vc_graph_param(graph, 1)->tied_to, VC_NO_PARAM); /* other rows of the tensor */
    assert_int_equal(vc_graph_param(graph, 2)->tied_to, 1);
}

/* Shape, arithmetic on sizes and Reshape leave nothing but the Reshape, whose shape is symbolic. */
static void sizes_are_folded(void **state)
{
    uint32_t x = input("x", "batch", 64);
    uint32_t shape = vc_graph_add(graph, "Shape", NULL, &x, 1);
    uint32_t factor = vc_graph_add_ints(graph, (int64_t[]){2, 2}, 2);
    uint32_t wanted;
    uint32_t y;

    (void)state;
    shape = vc_graph_add(graph, "Mul", NULL, (uint32_t[]){shape, factor}, 2);
    factor = vc_graph_add_ints(graph, (int64_t[]){1, 4}, 2);
    shape = vc_graph_add(graph, "Div", NULL, (uint32_t[]){shape, factor}, 2);
    wanted = vc_graph_add_ints(graph, (int64_t[]){0, -1}, 2);
    y = vc_graph_add(graph, "Reshape", "y", (uint32_t[]){x, shape}, 2);
    y = vc_graph_add(graph, "Reshape", "z", (uint32_t[]){y, wanted}, 2);
    vc_graph_add_output(graph, y);
    assert_int_equal(finish(), VC_OK);
    expect_shape(vc_graph_find(graph, "y"), "2*batch", "32");
    expect_shape(vc_graph_find(graph, "z"), "2*batch", "32");
    assert_int_equal(vc_graph_value(graph, vc_graph_node(graph, vc_graph_node_count(graph) - 1)->inputs[1])->kind,
                     VC_VALUE_CONSTANT);
}

static void all_problems_at_once(void **state)
{
    uint32_t x = input("x", "batch", 64);
    uint32_t w = param("w", 10, 63, true);
    uint32_t y = vc_graph_add(graph, "MatMul", "y", (uint32_t[]){x, w}, 2);
    uint32_t z = vc_graph_add(graph, "Relu", "z", &y, 1); /* says nothing: y is unknown */
    uint32_t u = vc_graph_add(graph, "Rely", "u", &x, 1);
    uint32_t behind = vc_graph_add(graph, "GridSample", "behind", (uint32_t[]){x, u}, 2); /* nor does this one */
    struct vc_graph_attr attr = vc_attr_int("fast", 1);
    const char *name = "v";

    (void)state;
    vc_graph_add(graph, "Relu", "z", &x, 1);
    vc_graph_add(graph, "Add", "two", &x, 1);
    vc_graph_add_node(graph, &(struct vc_node_spec){.op = "Relu",
                                                    .name = "last",
                                                    .n_inputs = 1,
                                                    .inputs = &x,
                                                    .n_outputs = 1,
                                                    .output_names = &name,
                                                    .n_attrs = 1,
                                                    .attrs = &attr});
    vc_graph_add_output(graph, z);
    vc_graph_add_output(graph, behind);
    assert_int_equal(finish(), VC_E_FORMAT);
    expect_says(ctx, "MatMul 'y': the inner dimensions: 64 and 63 differ");
    assert_string_equal(vc_graph_problem(graph, 1),
                        "the operator 'Rely' is not supported; the most similar one is Relu");
    assert_string_equal(vc_graph_problem(graph, 2), "the value 'z' is made twice");
    assert_string_equal(vc_graph_problem(graph, 3), "Add 'two': has 1 inputs; the operator takes 2 to 2");
    assert_string_equal(vc_graph_problem(graph, 4), "Relu 'last': the attribute fast is not supported");
    assert_null(vc_graph_problem(graph, 5));
}

static void too_many_problems(void **state)
{
    (void)state;
    for (int k = 0; k < VC_GRAPH_MAX_PROBLEMS + 5; k++) {
        vc_graph_complain(graph, "problem %d", k);
    }
    assert_int_equal(finish(), VC_E_FORMAT);
    assert_string_equal(vc_graph_problem(graph, VC_GRAPH_MAX_PROBLEMS - 2), "problem 98");
    assert_string_equal(vc_graph_problem(graph, VC_GRAPH_MAX_PROBLEMS - 1), "and 6 more problems");
    assert_null(vc_graph_problem(graph, VC_GRAPH_MAX_PROBLEMS));
}

static void odd_parameters(void **state)
{
    uint64_t shape[9] = {4, 4, 1, 1, 1, 1, 1, 1, 1};
    struct vc_param_spec spec = {.tensor = "t", .n_dims = 2, .shape = shape, .sliced = true, .first = 3, .count = 2};

    (void)state;
    vc_graph_add_param(graph, "a", &spec);
    spec = (struct vc_param_spec){.tensor = "t", .n_dims = 9, .shape = shape};
    vc_graph_add_param(graph, "b", &spec);
    spec = (struct vc_param_spec){.tensor = "t", .n_dims = 1, .shape = shape, .transposed = true};
    vc_graph_add_param(graph, "c", &spec);
    assert_int_equal(finish(), VC_E_FORMAT);
    assert_string_equal(vc_graph_problem(graph, 0), "a: elements 3 to 5 of axis 0 are outside of the tensor");
    assert_non_null(strstr(vc_graph_problem(graph, 1), "9 dimensions"));
    assert_non_null(strstr(vc_graph_problem(graph, 2), "transposed"));
}

static void without_outputs(void **state)
{
    (void)state;
    input("x", "n", 1);
    assert_int_equal(finish(), VC_E_FORMAT);
    expect_says(ctx, "the graph has no outputs");
}

/* Every allocation fails once; nothing is left behind, and no other failure is told. */
static void no_memory(void **state)
{
    (void)state;
    vc_graph_close(graph);
    graph = NULL;
    for (uint64_t n = 1; n < 2000; n++) {
        uint32_t x;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        if (vc_graph_create(ctx, &graph) != VC_OK) {
            assert_null(graph);
            continue;
        }
        x = input("x", "batch", 4);
        for (int k = 0; k < 100; k++) {
            x = vc_graph_add(graph, "Relu", NULL, &x, 1);
        }
        vc_graph_add_output(graph, x);
        if (finish() == VC_OK) {
            vc_pool_fail_at(ctx->shared->pool, 0, 0);
            assert_int_equal(vc_graph_node_count(graph), 100);
            return;
        }
        assert_null(graph);
        assert_int_equal(ctx->status, VC_E_NOMEM);
        vc_clear_error(ctx);
    }
    fail_msg("not even the last allocation was reached");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_layer, begin, end),
        cmocka_unit_test_setup_teardown(slices_and_ties, begin, end),
        cmocka_unit_test_setup_teardown(sizes_are_folded, begin, end),
        cmocka_unit_test_setup_teardown(all_problems_at_once, begin, end),
        cmocka_unit_test_setup_teardown(too_many_problems, begin, end),
        cmocka_unit_test_setup_teardown(odd_parameters, begin, end),
        cmocka_unit_test_setup_teardown(without_outputs, begin, end),
        cmocka_unit_test_setup_teardown(no_memory, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
