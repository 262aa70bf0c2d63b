/* test_net.c - graphs from config.json: parameters and multiply-adds of well-known models against published
 * figures, and configurations that are damaged or say something that nobody understands. */
#include "facade/graph_config.h"
#include "support.h"

#include <vcompress/graph.h>

#include "scratch.h"

static struct vc_ctx *ctx;

static int begin(void **state)
{
    ctx = test_ctx();
    return scratch_make(state);
}

static int end(void **state)
{
    vc_ctx_free(ctx);
    return scratch_clear(state);
}

/* ---- well-known models ---- */

static const char *const text_symbols[] = {"batch", "sequence", NULL};
static const char *const image_symbols[] = {"batch", "height", "width", NULL};
static const char *const batch_symbol[] = {"batch", NULL};

/* Parameters, those that a token uses, and multiply-adds of one sample: of 128 tokens, of an image of 224 x 224. They
 * are what tests/judge/test_graph_counts.py compares with transformers and torch's own counter. */
static const struct known {
    const char *name;
    uint64_t params, active;
    int64_t macs;
    const char *const *symbols;
    int64_t sizes[3];
    const char *config;
} known[] = {
    {"BERT-base",
     109482240,
     109482240,
     11174215680,
     text_symbols,
     {1, 128},
     "{\"model_type\":\"bert\",\"architectures\":[\"BertModel\"],\"hidden_size\":768,\"num_hidden_layers\":12,"
     "\"num_attention_heads\":12,\"intermediate_size\":3072,\"vocab_size\":30522,\"max_position_embeddings\":512,"
     "\"type_vocab_size\":2}"},
    {"BERT-large",
     335141888,
     335141888,
     39461060608,
     text_symbols,
     {1, 128},
     "{\"model_type\":\"bert\",\"architectures\":[\"BertModel\"],\"hidden_size\":1024,\"num_hidden_layers\":24,"
     "\"num_attention_heads\":16,\"intermediate_size\":4096,\"vocab_size\":30522,\"max_position_embeddings\":512,"
     "\"type_vocab_size\":2}"},
    {"GPT-2",
     124439808,
     124439808,
     16114089984,
     text_symbols,
     {1, 128},
     "{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":768,\"n_layer\":12,\"n_head\":12,"
     "\"vocab_size\":50257,\"n_positions\":1024,\"n_ctx\":1024}"},
    {"Llama-2-7B",
     6738415616,
     6738415616,
     850000871424,
     text_symbols,
     {1, 128},
     "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":4096,"
     "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":32,\"intermediate_size\":11008,"
     "\"vocab_size\":32000,\"max_position_embeddings\":4096,\"rope_scaling\":null,\"tie_word_embeddings\":false}"},
    {"Mistral-7B",
     7241732096,
     7241732096,
     914425380864,
     text_symbols,
     {1, 128},
     "{\"model_type\":\"mistral\",\"architectures\":[\"MistralForCausalLM\"],\"hidden_size\":4096,"
     "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":14336,"
     "\"vocab_size\":32000,\"max_position_embeddings\":32768,\"sliding_window\":4096,\"rope_theta\":10000.0}"},
    {"Mixtral-8x7B",
     46702792704,
     12879925248,
     1636114104320,
     text_symbols,
     {1, 128},
     "{\"model_type\":\"mixtral\",\"architectures\":[\"MixtralForCausalLM\"],\"hidden_size\":4096,"
     "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":14336,"
     "\"num_local_experts\":8,\"num_experts_per_tok\":2,\"vocab_size\":32000,\"max_position_embeddings\":32768,"
     "\"sliding_window\":null,\"rope_theta\":1000000.0}"},
    {"Qwen2.5-7B",
     7615616512,
     7615616512,
     908284919808,
     text_symbols,
     {1, 128},
     "{\"model_type\":\"qwen2\",\"architectures\":[\"Qwen2ForCausalLM\"],\"hidden_size\":3584,"
     "\"num_hidden_layers\":28,\"num_attention_heads\":28,\"num_key_value_heads\":4,\"intermediate_size\":18944,"
     "\"vocab_size\":152064,\"max_position_embeddings\":131072,\"max_window_layers\":28,\"sliding_window\":131072,"
     "\"use_sliding_window\":false,\"rope_theta\":1000000.0,\"tie_word_embeddings\":false}"},
    {"ViT-B/16",
     86567656,
     86567656,
     17563828224,
     batch_symbol,
     {1},
     "{\"model_type\":\"vit\",\"architectures\":[\"ViTForImageClassification\"],\"hidden_size\":768,"
     "\"num_hidden_layers\":12,\"num_attention_heads\":12,\"intermediate_size\":3072,\"image_size\":224,"
     "\"patch_size\":16,\"num_channels\":3,\"num_labels\":1000}"},
    {"ResNet-50",
     25557032,
     25557032,
     4089184256,
     image_symbols,
     {1, 224, 224},
     "{\"model_type\":\"resnet\",\"architectures\":[\"ResNetForImageClassification\"],\"embedding_size\":64,"
     "\"hidden_sizes\":[256,512,1024,2048],\"depths\":[3,4,6,3],\"layer_type\":\"bottleneck\",\"num_labels\":1000}"},
    {"Gemma-2-2B",
     2614341888,
     2614341888,
     336349626368,
     text_symbols,
     {1, 128},
     "{\"model_type\":\"gemma2\",\"hidden_size\":2304,\"num_hidden_layers\":26,\"num_attention_heads\":8,"
     "\"num_key_value_heads\":4,\"head_dim\":256,\"intermediate_size\":9216,\"vocab_size\":256000}"},
    {"Gemma-3-1B",
     999885952,
     999885952,
     128840630272,
     text_symbols,
     {1, 128},
     "{\"model_type\":\"gemma3_text\",\"hidden_size\":1152,\"num_hidden_layers\":26,"
     "\"num_attention_heads\":4,\"num_key_value_heads\":1,\"head_dim\":256,\"intermediate_size\":6912,"
     "\"vocab_size\":262144}"},
    {"OLMo-2-7B",
     7298617344,
     7298617344,
     885837004800,
     text_symbols,
     {1, 128},
     "{\"model_type\":\"olmo2\",\"hidden_size\":4096,\"num_hidden_layers\":32,\"num_attention_heads\":32,"
     "\"intermediate_size\":11008,\"vocab_size\":100352}"},
    {"Qwen1.5-MoE",
     14315784192,
     2689173504,
     305963991040,
     text_symbols,
     {1, 128},
     "{\"model_type\":\"qwen2_moe\",\"hidden_size\":2048,\"num_hidden_layers\":24,"
     "\"num_attention_heads\":16,\"num_key_value_heads\":16,\"intermediate_size\":5632,"
     "\"vocab_size\":151936,\"num_experts\":60,\"num_experts_per_tok\":4}"},
    {"Qwen3-30B",
     30532122624,
     3353032704,
     395774525440,
     text_symbols,
     {1, 128},
     "{\"model_type\":\"qwen3_moe\",\"hidden_size\":2048,\"num_hidden_layers\":48,"
     "\"num_attention_heads\":32,\"num_key_value_heads\":4,\"head_dim\":128,\"intermediate_size\":6144,"
     "\"vocab_size\":151936,\"num_experts\":128,\"num_experts_per_tok\":8}"},
};

static void well_known_models(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        const struct known *model = &known[k];
        struct vc_graph *graph = NULL;
        struct vc_graph_blocks *blocks = NULL;
        int64_t macs;

        if (vc_graph_build_config(ctx, save_text("config.json", model->config), &graph) != VC_OK) {
            fail_msg("%s: %s", model->name, vc_ctx_message(ctx));
        }
        for (size_t i = 0; model->symbols[i] != NULL; i++) {
            assert_int_equal(vc_graph_bind(ctx, graph, model->symbols[i], model->sizes[i]), VC_OK);
        }
        assert_int_equal(vc_graph_blocks_make(ctx, graph, NULL, NULL, &blocks), VC_OK);
        macs = vc_graph_dim_value(graph, blocks->blocks[0].macs);
        print_message("%-12s %llu parameters, %lld multiply-adds, %u nodes\n", model->name,
                      (unsigned long long)blocks->blocks[0].n_params, (long long)macs,
                      (unsigned)vc_graph_node_count(graph));
        assert_true(blocks->blocks[0].n_params == model->params);
        assert_true(blocks->blocks[0].n_active == model->active);
        assert_true(macs == model->macs);
        vc_result_free(blocks);
        vc_graph_close(graph);
    }
}

/* What a graph says about experts: which nodes are theirs, and how many a token uses. */
static void experts(void **state)
{
    struct vc_graph *graph = NULL;
    uint32_t per_token = 7;
    uint32_t n = 0;

    (void)state;
    assert_int_equal(vc_graph_build_config(ctx,
                                           save_text("config.json", "{\"model_type\":\"mixtral\",\"hidden_size\":16,"
                                                                    "\"num_hidden_layers\":3,\"num_attention_heads\":2,"
                                                                    "\"num_key_value_heads\":2,\"vocab_size\":10,"
                                                                    "\"intermediate_size\":8,\"num_local_experts\":5}"),
                                           &graph),
                     VC_OK);
    assert_int_equal(vc_graph_experts(graph, &per_token), 5);
    assert_int_equal(per_token, 2);
    for (uint32_t k = 0; k < vc_graph_node_count(graph); k++) {
        const struct vc_graph_node *node = vc_graph_node(graph, k);

        assert_int_equal(node->expert, strstr(node->block, ".experts.") != NULL);
        n += node->expert && strcmp(node->op, "MatMul") == 0;
    }
    assert_int_equal(n, 3 * 5 * 3);
    vc_graph_close(graph);
    assert_int_equal(vc_graph_build_config(ctx,
                                           save_text("config.json", "{\"model_type\":\"llama\",\"hidden_size\":16,"
                                                                    "\"num_hidden_layers\":1,\"vocab_size\":10,"
                                                                    "\"num_attention_heads\":2,"
                                                                    "\"intermediate_size\":8}"),
                                           &graph),
                     VC_OK);
    assert_int_equal(vc_graph_experts(graph, &per_token), 0);
    vc_graph_close(graph);
}

/* ---- configurations that are wrong ---- */

#define LLAMA                                                                                        \
    "\"model_type\":\"llama\",\"hidden_size\":16,\"num_hidden_layers\":1,\"num_attention_heads\":2," \
    "\"intermediate_size\":8,\"vocab_size\":10"
#define BERT                                                                                        \
    "\"model_type\":\"bert\",\"hidden_size\":16,\"num_hidden_layers\":1,\"num_attention_heads\":2," \
    "\"intermediate_size\":8,\"vocab_size\":10"

#define SIZES                                                                                       \
    "\"hidden_size\":16,\"num_hidden_layers\":2,\"num_attention_heads\":2,\"intermediate_size\":8," \
    "\"vocab_size\":10,\"num_key_value_heads\":2"
#define T5 \
    "\"model_type\":\"t5\",\"d_model\":16,\"d_kv\":4,\"num_heads\":2,\"num_layers\":1,\"d_ff\":8,\"vocab_size\":10"
#define GEMMA3   "{\"model_type\":\"gemma3_text\"," SIZES ",\"head_dim\":8"
#define QWEN_MOE "{\"model_type\":\"qwen2_moe\"," SIZES

static const struct {
    const char *config, *words[3];
} wrong[] = {
    {"{}", {"config.json: model_type is missing; known are bert, roberta"}},
    {"[1]", {"config.json"}},
    {"{\"model_type\": \"llama\"", {"config.json"}},
    {"{\"model_type\":7}", {"model_type is missing"}},
    {"{\"model_type\":\"zamba9\"}", {"config.json: model_type is 'zamba9'; known are"}},
    {"{\"model_type\":\"llama\"}",
     {"config.json: hidden_size is missing", "num_hidden_layers is missing", "vocab_size is missing"}},
    {"{" LLAMA ",\"architectures\":[\"LlamaForImageClassification\"]}",
     {"architectures names 'LlamaForImageClassification'; of the type llama are known LlamaModel, LlamaForCausalLM, "
      "LlamaForSequenceClassification, LlamaForTokenClassification, LlamaForQuestionAnswering"}},
    {"{" LLAMA ",\"architectures\":[\"LlamaForSequenceClassification\"],\"pad_token_id\":[1]}",
     {"pad_token_id is [1], not a number"}},
    {"{" LLAMA ",\"hidden_act\":\"snake\"}", {"config.json: hidden_act is \"snake\", none of gelu,"}},
    {"{" LLAMA ",\"hidden_act\":7}", {"config.json: hidden_act is 7, not a string"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"spiral\",\"factor\":2}}",
     {"config.json: rope_scaling is {\"type\":\"spiral\",\"factor\":2}, whose rope_type is not one of default, "
      "linear"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"spiral\",\"factor\":2,\"original_max_position_embeddings\":8192,"
     "\"finetuned\":true}}",
     {"rope_scaling is {\"type\":\"spiral\",\"factor\":2,\"original_max_position_embeddings\":8..., whose"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}}", {"rope_scaling", "which has no factor"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":-1}}", {"whose factor is no number above 0"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"twist\":1}}",
     {"whose member twist is not known"}},
    {"{" LLAMA ",\"rope_scaling\":[2]}", {"rope_scaling is [2], not an object"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1],\"short_factor\":[1]}}",
     {"whose long_factor is no list of 4 numbers"}},
    {"{" LLAMA ",\"attn_logit_softcapping\":50.0}",
     {"config.json: attn_logit_softcapping is 50.0, which is not supported for models of the type llama"}},
    {"{" LLAMA ",\"layer_types\":[\"linear_attention\"]}", {"layer_types is [\"linear_attention\"]"}},
    {"{" LLAMA ",\"num_key_value_heads\":3}", {"2 cannot be divided into 3"}},
    {"{" LLAMA ",\"num_key_value_heads\":0}", {"num_key_value_heads is 0, not a whole number from 1 to 2147483647"}},
    {"{" LLAMA ",\"head_dim\":1e300}", {"head_dim is 1.0", "not a whole number from 1 to 2147483647"}},
    {"{" LLAMA ",\"head_dim\":3}", {"rotary positions of 3 elements"}},
    {"{" LLAMA ",\"attention_bias\":1}", {"attention_bias is 1, neither true nor false"}},
    {"{" LLAMA ",\"rms_norm_eps\":\"small\"}", {"rms_norm_eps is \"small\", not a number"}},
    {"{\"model_type\":\"llama\",\"hidden_size\":16,\"num_hidden_layers\":1000000000,\"num_attention_heads\":2,"
     "\"intermediate_size\":8,\"vocab_size\":10}",
     {"num_hidden_layers is 1000000000, not a whole number from 0 to 10000"}},
    {"{\"model_type\":\"llama\",\"hidden_size\":\"16\",\"num_hidden_layers\":[],\"num_attention_heads\":2.5,"
     "\"intermediate_size\":-8,\"vocab_size\":null}",
     {"hidden_size is \"16\"", "num_attention_heads is 2.5", "vocab_size"}},
    {"{" BERT ",\"is_decoder\":true}", {"is_decoder is true, which is not supported for models of the type bert"}},
    {"{" BERT ",\"position_embedding_type\":\"relative_key\"}", {"position_embedding_type is \"relative_key\""}},
    {"{" BERT ",\"architectures\":\"BertModel\"}", {"architectures names nothing"}},
    {"{\"model_type\":\"roberta\"," SIZES ",\"architectures\":[\"RobertaForPreTraining\"]}",
     {"architectures names 'RobertaForPreTraining'; of the type roberta are known RobertaModel, RobertaForMaskedLM"}},
    {"{\"model_type\":\"electra\"," SIZES ",\"embedding_size\":0}", {"embedding_size is 0, not a whole number from 1"}},
    {"{" T5 ",\"relative_attention_num_buckets\":3}", {"relative_attention_num_buckets is 3, not a number from 4"}},
    {"{" T5 ",\"relative_attention_max_distance\":31}",
     {"relative_attention_max_distance is 31, not a number from that"}},
    {"{" T5 ",\"relative_attention_max_distance\":2000000000}",
     {"2000000000, not a number from that of buckets to 100000"}},
    {"{" T5 ",\"feed_forward_proj\":\"gated-snake\"}", {"feed_forward_proj is \"gated-snake\", none of gelu,"}},
    {"{" T5 ",\"architectures\":[\"T5ForSequenceClassification\"]}",
     {"of the type t5 are known T5Model, T5EncoderModel, T5ForConditionalGeneration"}},
    {"{\"model_type\":\"t5\"}", {"d_model is missing", "num_layers is missing", "vocab_size is missing"}},
    {"{\"model_type\":\"whisper\",\"d_model\":16,\"encoder_layers\":1,\"encoder_attention_heads\":3}",
     {"decoder_layers is missing", "d_model by encoder_attention_heads: 16 cannot be divided into 3"}},
    {"{\"model_type\":\"mpnet\"," SIZES ",\"relative_attention_num_buckets\":16}",
     {"relative_attention_num_buckets is 16, fewer than the 32 that are used"}},
    {"{\"model_type\":\"mixtral\",\"hidden_size\":16,\"num_hidden_layers\":10000,\"num_attention_heads\":2,"
     "\"num_key_value_heads\":2,\"intermediate_size\":8,\"vocab_size\":10,\"num_local_experts\":1000000}",
     {"num_local_experts is 1000000, which are too many"}},
    {"{\"model_type\":\"olmo\"," SIZES ",\"architectures\":[\"OlmoForTokenClassification\"]}",
     {"of the type olmo are known OlmoModel, OlmoForCausalLM, OlmoForSequenceClassification"}},
    {GEMMA3 ",\"architectures\":[\"Gemma3Model\"]}",
     {"architectures names 'Gemma3Model'; of the type gemma3_text are known Gemma3TextModel, Gemma3ForCausalLM"}},
    {GEMMA3 ",\"attn_logit_softcapping\":50}", {"attn_logit_softcapping is 50, which is not supported"}},
    {GEMMA3 ",\"final_logit_softcapping\":0}", {"final_logit_softcapping is 0, not a number above 0"}},
    {GEMMA3 ",\"query_pre_attn_scalar\":-1}", {"query_pre_attn_scalar is -1, not a number above 0"}},
    {GEMMA3 ",\"use_bidirectional_attention\":true}", {"use_bidirectional_attention is true, which is not supported"}},
    {GEMMA3 ",\"sliding_window_pattern\":0}", {"sliding_window_pattern is 0, not a whole number from 1"}},
    {GEMMA3 ",\"rope_parameters\":7}", {"rope_parameters is 7, not an object"}},
    {GEMMA3 ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\"}}}", {"which has no factor"}},
    {GEMMA3 ",\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"default\",\"turns\":1}}}",
     {"whose member turns is not known"}},
    {"{\"model_type\":\"gemma2\"," SIZES ",\"layer_types\":[\"full_attention\"]}",
     {"layer_types is [\"full_attention\"], not a list with a word for each layer"}},
    {"{\"model_type\":\"olmo\"," SIZES ",\"clip_qkv\":-8.0}", {"clip_qkv is -8.0, not a number above 0"}},
    {"{\"model_type\":\"qwen2\"," SIZES ",\"layer_types\":[\"sliding_attention\",\"full_attention\"]}",
     {"layer_types is [\"sliding_attention\",\"full_attention\"], but use_sliding_window is not true"}},
    {QWEN_MOE ",\"num_experts\":2}", {"num_experts_per_tok is missing; more than there are experts"}},
    {QWEN_MOE ",\"num_experts\":2,\"num_experts_per_tok\":3}", {"num_experts_per_tok is 3, more than there are"}},
    {QWEN_MOE ",\"num_experts\":2000000}", {"num_experts is 2000000, which are too many"}},
    {QWEN_MOE ",\"mlp_only_layers\":3}", {"mlp_only_layers is 3, not a list of layers"}},
    {QWEN_MOE ",\"mlp_only_layers\":[\"2\"]}", {"mlp_only_layers is [\"2\"], not a list of layers"}},
    {QWEN_MOE ",\"decoder_sparse_step\":0}", {"decoder_sparse_step is 0, not a whole number from 1"}},
    {"{\"model_type\":\"resnet\",\"hidden_sizes\":[8,8],\"depths\":[1]}", {"depths is [1], not a list with a size"}},
    {"{\"model_type\":\"resnet\",\"hidden_sizes\":[8],\"depths\":[1],\"layer_type\":\"odd\"}",
     {"layer_type is \"odd\""}},
    {"{\"model_type\":\"vit\",\"hidden_size\":16,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
     "\"intermediate_size\":8,\"image_size\":[16,0]}",
     {"image_size is [16,0], neither a size nor two of them"}},
};

static bool is_said(const struct vc_graph *graph, const char *words)
{
    for (uint32_t k = 0; vc_graph_problem(graph, k) != NULL; k++) {
        if (strstr(vc_graph_problem(graph, k), words) != NULL) {
            return true;
        }
    }
    return false;
}

static void wrong_configurations(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        struct vc_graph *graph = NULL;

        assert_int_equal(vc_graph_build_config(ctx, save_text("config.json", wrong[k].config), &graph), VC_E_FORMAT);
        for (size_t i = 0; i < 3 && wrong[k].words[i] != NULL; i++) {
            if (graph == NULL ? strstr(vc_ctx_message(ctx), wrong[k].words[i]) == NULL
                              : !is_said(graph, wrong[k].words[i])) {
                fail_msg("%s: not said: %s; but %s", wrong[k].config, wrong[k].words[i], vc_ctx_message(ctx));
            }
        }
        vc_graph_close(graph);
    }
}

/* Keys of other classes, and what null means: the two configurations of a pair are one graph. */
static void same_graphs(void **state)
{
    static const char *const pairs[][2] = {
        {"{\"model_type\":\"starcoder2\"," SIZES ",\"norm_epsilon\":0.5,\"layer_norm_eps\":0.25}",
         "{\"model_type\":\"starcoder2\"," SIZES ",\"norm_epsilon\":0.5}"},
        {"{\"model_type\":\"stablelm\"," SIZES ",\"norm_eps\":0.5}", "{\"model_type\":\"stablelm\"," SIZES "}"},
        {"{\"model_type\":\"smollm3\"," SIZES ",\"no_rope_layer_interval\":2,\"use_sliding_window\":true}",
         "{\"model_type\":\"smollm3\"," SIZES ",\"no_rope_layer_interval\":2}"},
        {"{\"model_type\":\"qwen2\"," SIZES
         ",\"use_sliding_window\":true,\"sliding_window\":null,\"max_window_layers\":0}",
         "{\"model_type\":\"qwen2\"," SIZES "}"},
    };

    (void)state;
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        char *texts[2];

        for (size_t i = 0; i < 2; i++) {
            struct vc_graph *graph = NULL;

            if (vc_graph_build_config(ctx, save_text("config.json", pairs[k][i]), &graph) != VC_OK) {
                fail_msg("%s: %s", pairs[k][i], vc_ctx_message(ctx));
            }
            assert_int_equal(vc_graph_print_text(ctx, graph, &texts[i]), VC_OK);
            vc_graph_close(graph);
        }
        assert_string_equal(texts[0], texts[1]);
        vc_text_free(texts[0]);
        vc_text_free(texts[1]);
    }
}

/* Sizes whose products do not fit are problems of the values that have them, or no problem at all: nothing is read. */
static void huge_sizes(void **state)
{
    struct vc_graph *graph = NULL;
    enum vc_status status = vc_graph_build_config(
        ctx,
        save_text("config.json",
                  "{\"model_type\":\"bert\",\"hidden_size\":2147483646,\"num_hidden_layers\":2,"
                  "\"num_attention_heads\":2,\"intermediate_size\":2147483647,\"vocab_size\":2147483647}"),
        &graph);

    (void)state;
    assert_true(status == VC_OK || status == VC_E_FORMAT);
    vc_graph_close(graph);
}

/* One layer of each family: whichever allocation fails, it is said, and nothing is left behind. */
static void no_memory(void **state)
{
    static const char *const configs[] = {
        "{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
        "{" BERT ",\"architectures\":[\"BertForMaskedLM\"]}",
        "{\"model_type\":\"gpt2\",\"n_embd\":8,\"n_layer\":1,\"n_head\":2,\"vocab_size\":9,\"n_positions\":6}",
        "{\"model_type\":\"mixtral\",\"hidden_size\":16,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
        "\"num_key_value_heads\":2,\"intermediate_size\":8,\"vocab_size\":10,\"num_local_experts\":2}",
        "{\"model_type\":\"vit\",\"hidden_size\":16,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
        "\"intermediate_size\":8,\"image_size\":8,\"patch_size\":4}",
        "{\"model_type\":\"resnet\",\"embedding_size\":4,\"hidden_sizes\":[8],\"depths\":[1]}",
    };

    (void)state;
    for (size_t k = 0; k < sizeof configs / sizeof *configs; k++) {
        const char *path = save_text("config.json", configs[k]);
        enum vc_status status = VC_E_NOMEM;
        uint64_t n;

        for (n = 1; status != VC_OK; n += TEST_STRIDE) {
            struct vc_graph *graph = NULL;

            vc_pool_fail_at(ctx->shared->pool, n, 0);
            status = vc_graph_build_config(ctx, path, &graph);
            vc_pool_fail_at(ctx->shared->pool, 0, 0);
            if (status != VC_OK && (status != VC_E_NOMEM || graph != NULL)) {
                fail_msg("%s, allocation %u: %s", configs[k], (unsigned)n, vc_ctx_message(ctx));
            }
            vc_graph_close(graph);
            assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
        }
        assert_true(n > 100);
    }
}

static void no_file(void **state)
{
    struct vc_graph *graph = NULL;

    (void)state;
    assert_int_equal(vc_graph_build_config(ctx, in_folder("none.json"), &graph), VC_E_IO);
    assert_null(graph);
    expect_says(ctx, "none.json");
}

/* A folder with a config.json and no weights is the graph of that file; with neither it is refused. */
static void folder_without_weights(void **state)
{
    struct vc_graph *graph = NULL;
    struct vc_model *beside = NULL;

    (void)state;
    assert_int_not_equal(vc_graph_open(ctx, in_folder("."), NULL, false, &beside, &graph), VC_OK);
    assert_null(graph);
    assert_null(beside);
    save_text("config.json", known[0].config);
    assert_int_equal(vc_graph_open(ctx, in_folder("."), NULL, false, &beside, &graph), VC_OK);
    assert_null(beside);
    assert_true(vc_graph_lists(graph)->n_params > 100);
    vc_graph_close(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(well_known_models, begin, end),
        cmocka_unit_test_setup_teardown(experts, begin, end),
        cmocka_unit_test_setup_teardown(wrong_configurations, begin, end),
        cmocka_unit_test_setup_teardown(same_graphs, begin, end),
        cmocka_unit_test_setup_teardown(huge_sizes, begin, end),
        cmocka_unit_test_setup_teardown(no_memory, begin, end),
        cmocka_unit_test_setup_teardown(no_file, begin, end),
        cmocka_unit_test_setup_teardown(folder_without_weights, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
