/* test_graph_blocks.c - the parts of a graph by the names of its blocks: sums, repeated ones, values that leave them;
 * and the blocks that names of ONNX nodes and parameters say. */
#include "graph/base/graph_state.h"
#include "support.h"

#include <stdlib.h>

#include "graph/build.h"

static struct vc_ctx *ctx;
static struct vc_graph *graph;
static struct vc_graph_blocks *blocks;

static int begin(void **state)
{
    (void)state;
    ctx = test_ctx();
    graph = NULL;
    blocks = NULL;
    return 0;
}

static int end(void **state)
{
    (void)state;
    vc_result_free(blocks);
    vc_graph_close(graph);
    test_ctx_done(ctx);
    return 0;
}

/* x @ w [n, n], in the graph's block. */
static uint32_t layer(uint32_t x, const char *name, uint64_t n)
{
    uint64_t shape[2] = {n, n};
    struct vc_param_spec spec = {.tensor = name, .index = VC_NO_TENSOR, .n_dims = 2, .shape = shape};
    uint32_t w = vc_graph_find(graph, name);

    if (w == VC_NO_VALUE) {
        w = vc_graph_add_param(graph, name, &spec);
    }
    return vc_graph_add(graph, "MatMul", NULL, (uint32_t[]){x, w}, 2);
}

static const struct vc_graph_block *find(const char *path)
{
    for (uint32_t k = 0; k < blocks->n; k++) {
        if (strcmp(blocks->blocks[k].path, path) == 0) {
            return &blocks->blocks[k];
        }
    }
    fail_msg("there is no block '%s'", path);
    return NULL;
}

static void make(void)
{
    assert_int_equal(vc_graph_blocks_make(ctx, graph, NULL, NULL, &blocks), VC_OK);
}

static void layers_that_repeat(void **state)
{
    struct vc_dim shape[2];
    uint32_t x;

    (void)state;
    assert_int_equal(vc_graph_create(ctx, &graph), VC_OK);
    shape[0] = vc_dim_symbol(&graph->dims, "batch");
    shape[1] = vc_dim_number(4);
    x = vc_graph_add_input(graph, "x", VC_DTYPE_F32, shape, 2);
    for (int k = 0; k < 3; k++) {
        char name[32];

        snprintf(name, sizeof name, "w%d", k);
        vc_graph_set_block(graph, "layers.%d.fc", k);
        x = layer(x, name, 4);
        vc_graph_set_block(graph, "layers.%d", k);
        x = vc_graph_add(graph, k == 1 ? "Relu" : "Tanh", NULL, &x, 1);
    }
    vc_graph_set_block(graph, "head");
    x = layer(x, "w0", 4); /* tied to the first layer */
    vc_graph_add_output(graph, x);
    assert_int_equal(vc_graph_finish(graph, &graph), VC_OK);
    make();
    assert_int_equal(blocks->n, 9); /* the graph, layers, three, an fc in each, head */
    assert_int_equal(blocks->blocks[0].n_params, 48);
    assert_int_equal(blocks->blocks[0].n_nodes, 7);
    assert_int_equal(blocks->blocks[0].n_own, 0);
    assert_int_equal(find("head")->n_params, 0);
    assert_int_equal(find("layers.0")->n_like, 2);
    assert_int_equal(find("layers.1")->n_like, 1); /* another function */
    assert_int_equal(find("layers.2")->n_like, 0);
    assert_ptr_equal(&blocks->blocks[find("layers.2")->like], find("layers.0"));
    assert_int_equal(find("layers.2")->n_params, 16);
    assert_int_equal(find("layers.0.fc")->depth, 3);
    assert_int_equal(vc_graph_bind(ctx, graph, "batch", 5), VC_OK);
    assert_int_equal(vc_graph_dim_value(graph, find("layers")->macs), 3 * 5 * 16);
    assert_int_equal(vc_graph_dim_value(graph, blocks->blocks[0].macs), 4 * 5 * 16);
    /* the function's value leaves the layer, the product the fc inside */
    assert_int_equal(find("layers.0")->output, vc_graph_node(graph, 1)->outputs[0]);
    assert_int_equal(find("layers.0.fc")->output, vc_graph_node(graph, 0)->outputs[0]);
    assert_int_equal(blocks->blocks[0].output, vc_graph_output(graph, 0));
    assert_string_equal(blocks->blocks[blocks->of_node[0]].path, "layers.0.fc");
}

static void names_of_onnx(void **state)
{
    static const char text[] =
        "<ir_version: 10, opset_import: [\"\" : 23]>\n"
        "graph (float[n, 2] x) => (float[n, 2] y)\n"
        "<float[2, 2] \"layer1.0.fc.weight\" = {1, 2, 3, 4}, float[2] \"onnx::Add_3\" = {1, 2}> {\n"
        "  a = MatMul (x, \"layer1.0.fc.weight\")\n"
        "  b = Add (a, \"onnx::Add_3\")\n"
        "  y = Relu (b)\n"
        "}\n";

    (void)state;
    if (vc_graph_parse_text(ctx, text, strlen(text), NULL, &graph) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    for (uint32_t k = 0; k < 3; k++) {
        assert_string_equal(vc_graph_node(graph, k)->block, "layer1.0.fc");
    }
}

/* Every allocation fails once. */
static void no_memory(void **state)
{
    uint64_t n = 1;

    layers_that_repeat(state);
    for (;; n++) {
        enum vc_status status;

        vc_result_free(blocks);
        blocks = NULL;
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_graph_blocks_make(ctx, graph, NULL, NULL, &blocks);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        if (status == VC_OK) {
            break;
        }
        assert_int_equal(status, VC_E_NOMEM);
        assert_null(blocks);
        assert_true(n < 100);
    }
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(layers_that_repeat, begin, end),
        cmocka_unit_test_setup_teardown(names_of_onnx, begin, end),
        cmocka_unit_test_setup_teardown(no_memory, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
