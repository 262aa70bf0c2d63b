/* test_memory_runtime.c - what programs keep beside the values that are needed: floats of codes, masks of dropout, what
 * PyTorch's modules hold. */
#include "nets.h"

/* Codes that are decoded while a product reads them: their floats live at that step, and only there. */
static void test_decoded(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, "input x [batch, 1, 32, 32]\nconv c 8 kernel=3 pad=1\nrelu\n"
                                           "maxpool kernel=8\nflatten\nlinear a 512\nlinear b 10\n");
    struct vc_memory_options options;
    struct vc_memory_report r;
    uint64_t coded;

    (void)unused;
    bind(ctx, graph, 64, 0);
    vc_memory_defaults(&options);
    options.activations = VC_DTYPE_F32;
    options.scheme = "int8";
    r = count(ctx, graph, &options);
    coded = bytes_of(&r, VC_MEMORY_PARAMETERS);
    options.runtime = VC_RUNTIME_LAYERWISE;
    r = count(ctx, graph, &options);
    /* the peak is at the convolution's values; the large weight, 512 x 128, comes later */
    assert_int_equal(bytes_of(&r, VC_MEMORY_PARAMETERS), coded);
    assert_int_equal(bytes_of(&r, VC_MEMORY_TRANSIENT), 0);
    assert_int_equal(r.moments[VC_MOMENT_PEAK].bytes, coded + 2 * 64 * 8 * 32 * 32 * 4);
    bind(ctx, graph, 1, 0);
    r = count(ctx, graph, &options); /* now it is at that weight's product: 128 values in, 512 out */
    assert_int_equal(bytes_of(&r, VC_MEMORY_TRANSIENT), 2 * 512 * 128);
    assert_int_equal(r.moments[VC_MOMENT_PEAK].bytes, coded + 2 * 512 * 128 + (128 + 512) * 4);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* A budget that no plan reaches is told. */
static void test_over_budget(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, SIMPLE);
    struct vc_memory_options options = training(VC_OPTIMIZER_ADAM);
    struct vc_memory_report r;

    (void)unused;
    bind(ctx, graph, 64, 0);
    options.recompute = VC_RECOMPUTE_AUTO;
    options.budget_bytes = 1 << 20;
    r = count(ctx, graph, &options);
    assert_int_equal(r.over_budget, r.moments[VC_MOMENT_PEAK].bytes - (1 << 20));
    options.budget_bytes = 1 << 30;
    r = count(ctx, graph, &options);
    assert_int_equal(r.over_budget, 0);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoded),
        cmocka_unit_test(test_over_budget),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
