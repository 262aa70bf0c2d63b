/* test_memory_runtime.c - what programs keep beside the values that are needed: floats of codes, masks of dropout, what
 * PyTorch's modules hold. */
#include <stdio.h>

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

/* A mask of a byte for each value, and a copy of what Relu keeps. */
static void test_dropout(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *with = read_net(ctx, "input x [batch, 100]\nlinear a 512\nrelu\ndropout\nlinear b 10\n");
    struct vc_graph *without = read_net(ctx, "input x [batch, 100]\nlinear a 512\nrelu\nlinear b 10\n");
    struct vc_memory_options options = training(VC_OPTIMIZER_SGD);
    struct vc_memory_report a;
    struct vc_memory_report b;

    (void)unused;
    bind(ctx, with, 8, 0);
    bind(ctx, without, 8, 0);
    a = count(ctx, with, &options);
    b = count(ctx, without, &options);
    assert_int_equal(bytes_of(&a, VC_MEMORY_ACTIVATIONS) - bytes_of(&b, VC_MEMORY_ACTIVATIONS), 8 * 512 * (1 + 4));
    vc_graph_close(with);
    vc_graph_close(without);
    test_ctx_done(ctx);
}

static void check_no_cache(const char *config, int64_t sequence)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_config(ctx, config);
    struct vc_memory_options options;
    struct vc_memory_report r;

    vc_memory_defaults(&options);
    options.context_tokens = 40;
    bind(ctx, graph, 2, sequence);
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_KV_CACHE), 0);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* Encoders whose scores get numbers by distance, a matrix as large as a causal mask. */
static void test_encoders(void **unused)
{
    static const char t5[] = "{\"architectures\": [\"T5EncoderModel\"], \"model_type\": \"t5\", \"vocab_size\": 97, "
                             "\"d_model\": 64, \"d_kv\": 8, \"d_ff\": 96, \"num_layers\": 3, \"num_heads\": 8}";
    static const char mpnet[] =
        "{\"architectures\": [\"MPNetModel\"], \"model_type\": \"mpnet\", \"vocab_size\": 97, \"hidden_size\": 64, "
        "\"intermediate_size\": 96, \"num_hidden_layers\": 2, \"num_attention_heads\": 4}";

    (void)unused;
    check_no_cache(t5, 17);
    check_no_cache(t5, 1);
    check_no_cache(mpnet, 17);
}

/* The decoder's own positions, and once those of the encoder; an encoder has none. */
static void test_cross(void **unused)
{
    static const char t5[] =
        "{\"architectures\": [\"T5ForConditionalGeneration\"], \"model_type\": \"t5\", \"vocab_size\": 97, "
        "\"d_model\": 64, \"d_kv\": 8, \"d_ff\": 96, \"num_layers\": 3, \"num_decoder_layers\": 2, "
        "\"num_heads\": 8}";
    char bert[512];
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_config(ctx, t5);
    struct vc_memory_options options;
    struct vc_memory_report r;

    (void)unused;
    vc_memory_defaults(&options);
    options.context_tokens = 40;
    bind(ctx, graph, 2, 17);
    assert_int_equal(vc_graph_bind(ctx, graph, "decoder_sequence", 1), VC_OK);
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_KV_CACHE), 2 * 2 * 2 * (40 + 17) * 64 * 4);
    vc_graph_close(graph);
    snprintf(bert, sizeof bert, BERT_TEXT, 64, 128, 2, 4, 97);
    graph = read_config(ctx, bert);
    bind(ctx, graph, 2, 17);
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_KV_CACHE), 0);
    assert_true(r.eager.bytes > r.moments[VC_MOMENT_PEAK].bytes);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoded),  cmocka_unit_test(test_over_budget), cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_encoders), cmocka_unit_test(test_cross),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
