/* test_memory_runtime.c - what programs keep beside the values that are needed: floats of codes, masks of dropout, what
 * PyTorch's modules hold. */
#include <stdio.h>
#include <string.h>

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
    /* the peak is at the pool: the input is there to the end, Relu wrote over the convolution's values; the large weight,
     * 512 x 128, comes later */
    assert_int_equal(bytes_of(&r, VC_MEMORY_PARAMETERS), coded);
    assert_int_equal(bytes_of(&r, VC_MEMORY_TRANSIENT), 0);
    assert_int_equal(r.moments[VC_MOMENT_PEAK].bytes, coded + 64 * ((1 + 8) * 32 * 32 + 8 * 4 * 4) * 4);
    bind(ctx, graph, 1, 0);
    r = count(ctx, graph, &options); /* now it is at that weight's product: 128 values in, 512 out */
    assert_int_equal(bytes_of(&r, VC_MEMORY_TRANSIENT), 2 * 512 * 128);
    assert_int_equal(r.moments[VC_MOMENT_PEAK].bytes, coded + 2 * 512 * 128 + (32 * 32 + 128 + 512) * 4);
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

/* What a layer keeps: the difference of two and one, whose number stands for # in the text. */
static uint64_t kept_by_layer(const char *text, const struct vc_memory_options *options, int64_t sequence)
{
    struct vc_ctx *ctx = test_ctx();
    uint64_t kept[2];

    for (int k = 0; k < 2; k++) {
        char config[1024];
        struct vc_graph *graph;
        struct vc_memory_report r;

        snprintf(config, sizeof config, "%s", text);
        *strchr(config, '#') = (char)('1' + k);
        graph = read_config(ctx, config);
        bind(ctx, graph, 2, sequence);
        r = count(ctx, graph, options);
        assert_null(r.unknown);
        kept[k] = bytes_of(&r, VC_MEMORY_ACTIVATIONS);
        vc_graph_close(graph);
    }
    test_ctx_done(ctx);
    return kept[1] - kept[0];
}

#define BERT_OF(probabilities)                                                                                         \
    "{\"architectures\": [\"BertModel\"], \"model_type\": \"bert\", \"hidden_size\": 32, \"intermediate_size\": 128, " \
    "\"num_hidden_layers\": #, \"num_attention_heads\": 4, \"vocab_size\": 50" probabilities "}"

/* The configuration's probabilities count, and those that transformers means where it has none: 0.1. A layer of BERT
 * has masks of 2 sbh bytes, and attention as products of a s^2 b with another copy of four times that. */
static void test_configured_dropout(void **unused)
{
    struct vc_memory_options options = training(VC_OPTIMIZER_SGD);
    const uint64_t sbh = 64 * 2 * 32;
    const uint64_t scores = 4 * 64 * 64 * 2;
    uint64_t none;

    (void)unused;
    options.attention = VC_ATTENTION_EAGER;
    options.dropout = VC_DROPOUT_NEVER;
    none = kept_by_layer(BERT_OF(""), &options, 64);
    options.dropout = VC_DROPOUT_STATED;
    assert_int_equal(kept_by_layer(BERT_OF(""), &options, 64), none + 2 * sbh + 5 * scores);
    assert_int_equal(kept_by_layer(BERT_OF(", \"hidden_dropout_prob\": 0"), &options, 64), none + 5 * scores);
    assert_int_equal(kept_by_layer(BERT_OF(", \"attention_probs_dropout_prob\": 0.0"), &options, 64), none + 2 * sbh);
    assert_int_equal(
        kept_by_layer(BERT_OF(", \"hidden_dropout_prob\": 0, \"attention_probs_dropout_prob\": 0"), &options, 64),
        none);
    options.attention = VC_ATTENTION_FUSED; /* one kernel makes its mask again */
    none = kept_by_layer(BERT_OF(", \"hidden_dropout_prob\": 0"), &options, 64);
    assert_int_equal(kept_by_layer(BERT_OF(""), &options, 64), none + 2 * sbh);
}

#define DECODER_OF(type, class, more)                                                                                 \
    "{\"architectures\": [\"" class "\"], \"model_type\": \"" type "\", \"hidden_size\": 64, \"vocab_size\": 50, "    \
                                    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"num_hidden_layers\": " \
                                    "#" more "}"

/* Experts have as many rows as are chosen for all tokens, however many of them there are: of each row its copy, gate,
 * up, the function of gate, the product, and the result. */
static void test_experts_trained(void **unused)
{
    struct vc_memory_options options = training(VC_OPTIMIZER_SGD);
    uint64_t one;
    uint64_t two;
    uint64_t many;

    (void)unused;
    one = kept_by_layer(DECODER_OF("mixtral", "MixtralForCausalLM",
                                   ", \"intermediate_size\": 96, \"num_local_experts\": 8, \"num_experts_per_tok\": 1"),
                        &options, 32);
    two = kept_by_layer(DECODER_OF("mixtral", "MixtralForCausalLM",
                                   ", \"intermediate_size\": 96, \"num_local_experts\": 8, \"num_experts_per_tok\": 2"),
                        &options, 32);
    many =
        kept_by_layer(DECODER_OF("mixtral", "MixtralForCausalLM",
                                 ", \"intermediate_size\": 96, \"num_local_experts\": 16, \"num_experts_per_tok\": 2"),
                      &options, 32);
    assert_true(two - one >= 2 * 32 * (4 * 96 + 2 * 64) * 4);
    assert_true(two - one <= 2 * 32 * (4 * 96 + 2 * 64 + 8) * 4);
    assert_true(many - two <= 2 * 32 * 8 * 4 * 4); /* the router's own numbers */
}

/* A cap of scores keeps the tangent of each; one product for queries, keys and values is kept whole with values. */
static void test_capped_and_packed(void **unused)
{
    struct vc_memory_options options = training(VC_OPTIMIZER_SGD);
    uint64_t capped;
    uint64_t packed;

    (void)unused;
    options.attention = VC_ATTENTION_EAGER;
    capped = kept_by_layer(DECODER_OF("gemma2", "Gemma2ForCausalLM", ", \"head_dim\": 16, \"intermediate_size\": 96"),
                           &options, 32);
    assert_int_equal(capped - kept_by_layer(DECODER_OF("gemma2", "Gemma2ForCausalLM",
                                                       ", \"head_dim\": 16, \"intermediate_size\": 96, "
                                                       "\"attn_logit_softcapping\": null"),
                                            &options, 32),
                     4 * 32 * 32 * 2 * 4);
    options.attention = VC_ATTENTION_FUSED;
    packed = kept_by_layer(DECODER_OF("phi3", "Phi3ForCausalLM", ", \"intermediate_size\": 96, \"pad_token_id\": 0"),
                           &options, 32);
    assert_int_equal(
        packed - kept_by_layer(DECODER_OF("llama", "LlamaForCausalLM", ", \"intermediate_size\": 96"), &options, 32),
        2 * 32 * (64 + 2 * 32) * 4);
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

/* What a program does with weights that a scheme names, and with floats, which are no scheme. */
static void test_program_weights(void **unused)
{
    (void)unused;
    for (unsigned k = VC_RUN_BY_ANY + 1; vc_memory_program_facts(k)->name != NULL; k++) {
        assert_int_not_equal(vc_memory_program_weights(k, "int8") == VC_WEIGHTS_NOT_TAKEN, k != VC_RUN_BY_LLAMA_CPP);
    }
    assert_int_equal(vc_memory_program_weights(VC_RUN_BY_BITSANDBYTES, NULL), VC_WEIGHTS_KEPT);
    assert_int_equal(vc_memory_program_weights(VC_RUN_BY_BITSANDBYTES, "nf4"), VC_WEIGHTS_KEPT);
    assert_int_equal(vc_memory_program_weights(VC_RUN_BY_BITSANDBYTES, "q4_k"), VC_WEIGHTS_NOT_TAKEN);
    assert_int_equal(vc_memory_program_weights(VC_RUN_BY_ONNXRUNTIME, "q4_k"), VC_WEIGHTS_NOT_TAKEN);
    assert_int_equal(vc_memory_program_weights(VC_RUN_BY_LLAMA_CPP, "q4_k"), VC_WEIGHTS_KEPT);
    assert_int_equal(vc_memory_program_weights(VC_RUN_BY_TRANSFORMERS, "nf4"), VC_WEIGHTS_DECODED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoded),
        cmocka_unit_test(test_over_budget),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_configured_dropout),
        cmocka_unit_test(test_program_weights),
        cmocka_unit_test(test_experts_trained),
        cmocka_unit_test(test_capped_and_packed),
        cmocka_unit_test(test_encoders),
        cmocka_unit_test(test_cross),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
