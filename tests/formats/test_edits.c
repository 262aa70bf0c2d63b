/* test_edits.c - sizes of a model that passes change: what becomes of them in config.json, in the metadata of GGUF and
 * in ONNX; what is refused because it would go on saying the old number. */
#include "formats_test.h"

#include <stdlib.h>

#include "core/base/checked.h"
#include "core/chain/pass.h"
#include "core/model/edit.h"
#include "formats/formats.h"
#include "formats/huggingface/config/hf_layers.h"
#include "formats/huggingface/hf_rewrite.h"
#include "formats/json/json_member.h"
#include "gguf_builder.h"
#include "onnx_builder.h"
#include "scratch.h"

static const uint64_t second_and_last[] = {1, 3};

#define ONE(what, from, to) (struct vc_edit[]){{.key = VC_EDIT_##what, .before = (from), .after = (to)}}, 1
#define LAYERS \
    (struct vc_edit[]){{.key = VC_EDIT_LAYERS, .before = 4, .after = 2, .n_dropped = 2, .dropped = second_and_last}}, 1
#define TWO(a, a_from, a_to, b, b_from, b_to)                                      \
    (struct vc_edit[]){{.key = VC_EDIT_##a, .before = (a_from), .after = (a_to)},  \
                       {.key = VC_EDIT_##b, .before = (b_from), .after = (b_to)}}, \
        2

/* ---- lists of a text ---- */

static void expect_list(const char *text, const uint64_t *numbers, size_t n, const char *want)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_text out;

    vc_text_init(&out, ctx);
    vc_json_list_drop(text, strlen(text), numbers, n, &out);
    assert_int_equal(out.status, VC_OK);
    assert_string_equal(out.data, want);
    vc_text_release(&out);
    test_ctx_done(ctx);
}

static void test_lists(void **state)
{
    static const uint64_t all[] = {0, 1, 2};
    static const uint64_t first[] = {0};
    static const uint64_t beyond[] = {7};

    (void)state;
    expect_list("[1, 2, 3, 4]", second_and_last, 2, "[1, 3]");
    expect_list("[1, 2, 3, 4]", first, 1, "[2, 3, 4]");
    expect_list("[\n  \"a\",\n  {\"b\": [1, 2]},\n  \"c,]\",\n  null\n]", second_and_last, 2,
                "[\n  \"a\",\n  \"c,]\"\n]");
    expect_list("[ 1,2 ,3 ]", all, 3, "[  ]");
    expect_list("[]", first, 1, "[]");
    expect_list("[1e-5 ]", beyond, 1, "[1e-5 ]");
}

/* ---- config.json ---- */

/* The text with the edits made; free it. NULL: refused, and `sentence` has why. */
static char *edit_config(const char *text, const struct vc_edit *edits, size_t n, char *sentence, size_t capacity)
{
    struct vc_ctx *ctx = test_ctx();
    const struct vc_out_list outs = {.n_edits = n, .edits = edits};
    const struct vc_hf_change change = {.outs = &outs};
    struct vc_text out;
    char *copy = NULL;

    vc_text_init(&out, ctx);
    assert_true(vc_hf_rewrite_needed(&change));
    if (vc_hf_rewrite(ctx, text, strlen(text), &change, &out) == VC_OK) {
        copy = malloc(out.n + 1);
        assert_non_null(copy);
        memcpy(copy, out.data, out.n + 1);
    } else {
        snprintf(sentence, capacity, "%s", vc_ctx_message(ctx));
    }
    vc_text_release(&out);
    test_ctx_done(ctx);
    return copy;
}

static void expect_config(const char *text, const struct vc_edit *edits, size_t n, const char *want)
{
    char sentence[512] = "";
    char *got = edit_config(text, edits, n, sentence, sizeof sentence);

    if (got == NULL) {
        fail_msg("%s", sentence);
    }
    assert_string_equal(got, want);
    free(got);
}

static void refuse_config(const char *text, const struct vc_edit *edits, size_t n, const char *want)
{
    char sentence[512] = "";

    assert_null(edit_config(text, edits, n, sentence, sizeof sentence));
    assert_string_equal(sentence, want);
}

static void test_config_keys(void **state)
{
    (void)state;
    expect_config("{\"hidden_size\": 64 , \"x\": 1e-05}\n", ONE(HIDDEN, 64, 48),
                  "{\"hidden_size\": 48 , \"x\": 1e-05}\n");
    expect_config("{\"n_embd\":64}", ONE(HIDDEN, 64, 48), "{\"n_embd\":48}");
    expect_config("{\"intermediate_size\": 256}", ONE(INTERMEDIATE, 256, 200), "{\"intermediate_size\": 200}");
    expect_config("{\"d_model\": 64, \"d_ff\": 256}", ONE(INTERMEDIATE, 256, 200), "{\"d_model\": 64, \"d_ff\": 200}");
    /* The name means something else here: its number says so. */
    expect_config("{\"dim\": 64, \"hidden_dim\": 256}", ONE(HIDDEN, 64, 48), "{\"dim\": 48, \"hidden_dim\": 256}");
    expect_config("{\"intermediate_size\": 512, \"moe_intermediate_size\": 256}", ONE(EXPERT, 256, 200),
                  "{\"intermediate_size\": 512, \"moe_intermediate_size\": 200}");
    /* Equal numbers of other parts stay. */
    expect_config("{\"intermediate_size\": 256, \"moe_intermediate_size\": 256}", ONE(INTERMEDIATE, 256, 200),
                  "{\"intermediate_size\": 200, \"moe_intermediate_size\": 256}");
    expect_config("{\"shared_expert_intermediate_size\": 256, \"moe_intermediate_size\": 64}",
                  TWO(SHARED, 256, 200, EXPERT, 64, 48),
                  "{\"shared_expert_intermediate_size\": 200, \"moe_intermediate_size\": 48}");
    expect_config("{\"encoder_ffn_dim\": 256, \"decoder_ffn_dim\": 256}", TWO(ENCODER, 256, 200, DECODER, 256, 128),
                  "{\"encoder_ffn_dim\": 200, \"decoder_ffn_dim\": 128}");
    expect_config("{\"n_layer\": 4}", ONE(LAYERS, 4, 2), "{\"n_layer\": 2}");
    expect_config("{\"num_attention_heads\": 8, \"head_dim\": 8}", ONE(HEADS, 8, 6),
                  "{\"num_attention_heads\": 6, \"head_dim\": 8}");
    expect_config("{\"num_key_value_heads\": 4}", ONE(KV_HEADS, 4, 2), "{\"num_key_value_heads\": 2}");
    expect_config("{\"head_dim\": 128}", ONE(HEAD_SIZE, 128, 64), "{\"head_dim\": 64}");
    expect_config("{\"num_local_experts\": 8}", ONE(EXPERTS, 8, 6), "{\"num_local_experts\": 6}");
    expect_config("{\"num_experts\": 8, \"num_experts_per_tok\": 6}", ONE(EXPERTS, 8, 6),
                  "{\"num_experts\": 6, \"num_experts_per_tok\": 6}");
    refuse_config("{\"num_experts\": 8, \"num_experts_per_tok\": 6}", ONE(EXPERTS, 8, 5),
                  "config.json: \"num_experts_per_tok\" is 6, and 5 of 8 experts would be left to choose from");
    refuse_config(
        "{\"n_routed_experts\": 8, \"n_group\": 4}", ONE(EXPERTS, 8, 4),
        "config.json: \"n_group\" divides the experts into 4 parts by their numbers, so that those which stay "
        "would come into others");
    expect_config("{\"vocab_size\": 1000}", ONE(VOCABULARY, 1000, 900), "{\"vocab_size\": 900}");
    expect_config("{\"hidden_size\": 64, \"intermediate_size\": 256}", TWO(HIDDEN, 64, 48, INTERMEDIATE, 256, 200),
                  "{\"hidden_size\": 48, \"intermediate_size\": 200}");
}

static void test_config_sections(void **state)
{
    (void)state;
    expect_config("{\"text_config\": {\"a\": \"}\", \"hidden_size\": 64}, \"vision_config\": {\"hidden_size\": 64}}",
                  ONE(HIDDEN, 64, 48),
                  "{\"text_config\": {\"a\": \"}\", \"hidden_size\": 48}, \"vision_config\": {\"hidden_size\": 64}}");
    expect_config("{\"hidden_size\": 64, \"llm_config\": {\"hidden_size\": 64}, \"z\": 1}", ONE(HIDDEN, 64, 48),
                  "{\"hidden_size\": 48, \"llm_config\": {\"hidden_size\": 48}, \"z\": 1}");
    refuse_config("{\"vision_config\": {\"hidden_size\": 64}}", ONE(HIDDEN, 64, 48),
                  "config.json: no key of it says that the hidden size is 64, which becomes 48; expected one such as "
                  "\"hidden_size\"");
}

static void test_config_layers(void **state)
{
    (void)state;
    expect_config("{\"num_hidden_layers\": 4, \"layer_types\": [\"a\", \"b\", \"c\", \"d\"], \"stop\": [1, 2, 3, 4]}",
                  LAYERS, "{\"num_hidden_layers\": 2, \"layer_types\": [\"a\", \"c\"], \"stop\": [1, 2, 3, 4]}");
    expect_config("{\"text_config\": {\"layer_types\": [1, 2, 3, 4], \"num_hidden_layers\": 4}}", LAYERS,
                  "{\"text_config\": {\"layer_types\": [1, 3], \"num_hidden_layers\": 2}}");
    expect_config("{\"num_hidden_layers\": 4, \"mlp_only_layers\": [0, 1, 2]}", LAYERS,
                  "{\"num_hidden_layers\": 2, \"mlp_only_layers\": [0, 1]}");
    expect_config(
        "{\"n_layer\": 4, \"first_k_dense_replace\": 2, \"max_window_layers\": 28, \"hybrid_override_pattern\": "
        "\"M-*E\", \"num_attention_heads\": [1, 2, 3, 4], \"layer_types\": null}",
        LAYERS,
        "{\"n_layer\": 2, \"first_k_dense_replace\": 1, \"max_window_layers\": 28, \"hybrid_override_pattern\": "
        "\"M*\", \"num_attention_heads\": [1, 3], \"layer_types\": null}");
    expect_config("{\"num_layers\": 4, \"attention_types\": [[[\"g\", \"l\"], 1], [[\"x\"], 2]]}", LAYERS,
                  "{\"num_layers\": 2, \"attention_types\": [[[\"g\", \"x\"], 1]]}");
    /* What another part of the model says of its layers stays. */
    expect_config(
        "{\"model_type\": \"gemma3\", \"text_config\": {\"num_hidden_layers\": 4, \"layer_types\": [1, 2, 3, 4]}, "
        "\"vision_config\": {\"num_hidden_layers\": 4, \"stage_names\": [1]}}",
        LAYERS,
        "{\"model_type\": \"gemma3\", \"text_config\": {\"num_hidden_layers\": 2, \"layer_types\": [1, 3]}, "
        "\"vision_config\": {\"num_hidden_layers\": 4, \"stage_names\": [1]}}");
}

#define LIST(name)                                                                                                     \
    (struct vc_edit[]){                                                                                                \
        {.key = VC_EDIT_LAYERS, .before = 4, .after = 2, .n_dropped = 2, .dropped = second_and_last, .list = (name)}}, \
        1

/* Models with several lists of layers: the names of the tensors say which number is meant. */
static void test_config_lists(void **state)
{
    static const char t5[] = "{\"is_encoder_decoder\": true, \"num_layers\": 4, \"num_decoder_layers\": 4}";
    static const char bart[] = "{\"is_encoder_decoder\": true, \"encoder_layers\": 4, \"decoder_layers\": 4, "
                               "\"num_hidden_layers\": 4}";
    static const char clip[] =
        "{\"text_config\": {\"num_hidden_layers\": 4}, \"vision_config\": {\"num_hidden_layers\": 4}}";

    (void)state;
    expect_config(t5, LIST("encoder.block"),
                  "{\"is_encoder_decoder\": true, \"num_layers\": 2, \"num_decoder_layers\": 4}");
    expect_config(t5, LIST("decoder.block"),
                  "{\"is_encoder_decoder\": true, \"num_layers\": 4, \"num_decoder_layers\": 2}");
    expect_config(
        bart, LIST("model.encoder.layers"),
        "{\"is_encoder_decoder\": true, \"encoder_layers\": 2, \"decoder_layers\": 4, \"num_hidden_layers\": 2}");
    expect_config(
        bart, LIST("model.decoder.layers"),
        "{\"is_encoder_decoder\": true, \"encoder_layers\": 4, \"decoder_layers\": 2, \"num_hidden_layers\": 4}");
    expect_config(clip, LIST("text_model.encoder.layers"),
                  "{\"text_config\": {\"num_hidden_layers\": 2}, \"vision_config\": {\"num_hidden_layers\": 4}}");
    expect_config(clip, LIST("vision_model.encoder.layers"),
                  "{\"text_config\": {\"num_hidden_layers\": 4}, \"vision_config\": {\"num_hidden_layers\": 2}}");
    /* A decoder alone, and an encoder alone. */
    expect_config("{\"num_hidden_layers\": 4}", LIST("model.decoder.layers"), "{\"num_hidden_layers\": 2}");
    expect_config("{\"num_hidden_layers\": 4}", LIST("encoder.layer"), "{\"num_hidden_layers\": 2}");
    refuse_config(
        "{\"is_encoder_decoder\": true, \"num_layers\": 4}", LIST("decoder.block"),
        "config.json: no key of it says that the number of layers is 4, which becomes 2; expected one such as "
        "\"decoder_layers\"");
}

#define LAST (struct vc_edit[]){{.key = VC_EDIT_LAYERS, .before = 4, .after = 3, .n_dropped = 1, .dropped = last}}, 1

/* What layers are by their number has to hold for those that are left. */
static void test_config_layers_refused(void **state)
{
    static const uint64_t last[] = {3};

    (void)state;
    refuse_config("{\"num_hidden_layers\": 4, \"layer_types\": [1, 2, 3]}", LAYERS,
                  "config.json: 'layer_types' has not an entry for each layer, and layers are left out");
    refuse_config("{\"num_hidden_layers\": 4, \"mlp_only_layers\": [-1]}", LAYERS,
                  "config.json: 'mlp_only_layers' has entries that are not numbers of layers, and layers are left out");
    refuse_config("{\"num_hidden_layers\": 4, \"odd_layers\": [1, 3]}", LAYERS,
                  "config.json: 'odd_layers' is a list whose meaning is not known, and layers are left out");
    refuse_config("{\"num_hidden_layers\": 4, \"num_kv_shared_layers\": 2}", LAYERS,
                  "config.json: 'num_kv_shared_layers' speaks of layers by their number, and layers are left out");
    refuse_config("{\"num_hidden_layers\": 4, \"hybrid_override_pattern\": \"M-\"}", LAYERS,
                  "config.json: 'hybrid_override_pattern' has not a character for each layer, and layers are left out");
    refuse_config("{\"num_layers\": 4, \"attention_types\": [[[\"g\"], 3]]}", LAYERS,
                  "config.json: 'attention_types' has not a word for each layer, and layers are left out");
    refuse_config("{\"num_hidden_layers\": 4, \"sliding_window_pattern\": \"LG\"}", LAYERS,
                  "config.json: 'sliding_window_pattern' is a pattern that repeats, and layers are left out");
    refuse_config(
        "{\"num_hidden_layers\": 4, \"decoder_sparse_step\": 2}", LAYERS,
        "config.json: of 'decoder_sparse_step' every layer is what its number says, in a pattern of 2, so that "
        "the layers which stay would become others; leave out whole patterns");
    refuse_config("{\"num_hidden_layers\": 4, \"model_type\": \"jamba\"}", LAYERS,
                  "config.json: of 'attn_layer_period' every layer is what its number says, in a pattern of 8, so that "
                  "the layers which stay would become others; leave out whole patterns");
    /* The part for text says no type of its own. */
    expect_config(
        "{\"model_type\": \"gemma3\", \"text_config\": {\"num_hidden_layers\": 4, \"sliding_window_pattern\": 2}}",
        LAYERS,
        "{\"model_type\": \"gemma3\", \"text_config\": {\"num_hidden_layers\": 2, \"sliding_window_pattern\": 2,\n  "
        "\"layer_types\": [\"sliding_attention\", \"sliding_attention\"]}}");
    /* The last layers go, or the lists say it one by one. */
    expect_config("{\"num_hidden_layers\": 4, \"decoder_sparse_step\": 2}", LAST,
                  "{\"num_hidden_layers\": 3, \"decoder_sparse_step\": 2}");
    expect_config("{\"num_hidden_layers\": 4, \"model_type\": \"gemma2\"}", LAST,
                  "{\"num_hidden_layers\": 3, \"model_type\": \"gemma2\"}");
    expect_config("{\"num_hidden_layers\": 4, \"sliding_window_pattern\": 2, \"layer_types\": [1, 2, 3, 4]}", LAYERS,
                  "{\"num_hidden_layers\": 2, \"sliding_window_pattern\": 2, \"layer_types\": [1, 3]}");
}

/* How weights are quantized is said by names that have numbers. */
static void test_config_names(void **state)
{
    (void)state;
    expect_config("{\"num_hidden_layers\": 4, \"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}",
                  LIST("model.layers"),
                  "{\"num_hidden_layers\": 2, \"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}");
    assert_true(vc_hf_layers_are_named("model.layers", "model.layers.3.mlp"));
    assert_true(vc_hf_layers_are_named("model.layers", "-:model\\.layers\\.5\\..*"));
    assert_true(vc_hf_layers_are_named("h", "transformer.h.0"));
    assert_false(vc_hf_layers_are_named("model.layers", "lm_head"));
    assert_false(vc_hf_layers_are_named("model.layers", "model.layers.*.mlp"));
    assert_false(vc_hf_layers_are_named("h", "lm_head.0"));
    assert_false(vc_hf_layers_are_named("", "1"));
}

/* Against a look at every layer. */
static void test_periods(void **state)
{
    unsigned set, period;

    (void)state;
    for (set = 1; set < 127; set++) {
        uint64_t dropped[7];
        struct vc_edit edit = {.key = VC_EDIT_LAYERS, .before = 7, .dropped = dropped};
        uint64_t i, k;

        for (i = 0; i < 7; i++) {
            if ((set >> i & 1) != 0) {
                dropped[edit.n_dropped++] = i;
            }
        }
        for (period = 1; period <= 7; period++) {
            bool keeps = true;

            for (i = 0, k = 0; i < 7; i++) {
                assert_int_equal(vc_edit_drops_layer(&edit, i), set >> i & 1);
                assert_int_equal(vc_edit_layers_below(&edit, i), k);
                keeps = keeps && ((set >> i & 1) != 0 || i % period == k % period);
                k += (set >> i & 1) == 0;
            }
            assert_int_equal(vc_edit_keeps_period(&edit, period), keeps);
        }
    }
}

static void test_config_refused(void **state)
{
    (void)state;
    refuse_config("{}", ONE(INTERMEDIATE, 256, 200),
                  "config.json: no key of it says that the intermediate size is 256, which becomes 200; expected one "
                  "such as \"intermediate_size\"");
    refuse_config("{\"intermediate_size\": 255}", ONE(INTERMEDIATE, 256, 200),
                  "config.json: no key of it says that the intermediate size is 256, which becomes 200; expected one "
                  "such as \"intermediate_size\"");
    refuse_config("{\"n_inner\": null}", ONE(INTERMEDIATE, 256, 200),
                  "config.json: no key of it says that the intermediate size is 256, which becomes 200; expected one "
                  "such as \"intermediate_size\"");
    refuse_config("[]", ONE(HIDDEN, 64, 48), "config.json: is no JSON object");
    /* Without a number of key/value heads it is that of the heads, which has to change in the same way. */
    expect_config("{\"num_attention_heads\": 8, \"head_dim\": 8}", TWO(HEADS, 8, 6, KV_HEADS, 8, 6),
                  "{\"num_attention_heads\": 6, \"head_dim\": 8}");
    refuse_config("{\"num_attention_heads\": 8, \"head_dim\": 8}", TWO(HEADS, 8, 6, KV_HEADS, 8, 4),
                  "config.json: no key of it says that the number of key/value heads is 8, which becomes 4; expected "
                  "one such as \"num_key_value_heads\"");
    /* Without a size of heads it is calculated. */
    refuse_config("{\"hidden_size\": 64, \"num_attention_heads\": 8}", ONE(HEADS, 8, 4),
                  "config.json: has no \"head_dim\", so that a head would be taken for one of size 16 in place of 8");
    refuse_config("{\"hidden_size\": 64, \"num_attention_heads\": 8}", ONE(HIDDEN, 64, 48),
                  "config.json: has no \"head_dim\", so that a head would be taken for one of size 6 in place of 8");
    refuse_config("{\"hidden_size\": 64, \"num_attention_heads\": 8, \"head_dim\": 16}", ONE(HIDDEN, 64, 50),
                  "config.json: 8 heads would not divide a hidden size of 50, which loaders refuse; round_to 8 makes a "
                  "multiple of it");
    /* Loaders that look at that refuse heads, too; others take any number of them. */
    refuse_config(
        "{\"hidden_size\": 64, \"num_attention_heads\": 4, \"head_dim\": 16, \"model_type\": \"llama\"}",
        TWO(HEADS, 4, 3, KV_HEADS, 4, 3),
        "config.json: 3 heads would not divide the hidden size of 64, which loaders refuse; 2 or 4 of 4 heads "
        "do");
    refuse_config("{\"text_config\": {\"hidden_size\": 64, \"num_attention_heads\": 16, \"num_key_value_heads\": 8, "
                  "\"head_dim\": 16, \"model_type\": \"gemma3_text\"}, \"model_type\": \"qwen2\"}",
                  TWO(HEADS, 16, 12, KV_HEADS, 8, 6),
                  "config.json: 12 heads would not divide the hidden size of 64, which loaders refuse; 8 or 16 of 16 "
                  "heads do");
    expect_config("{\"hidden_size\": 64, \"num_attention_heads\": 4, \"head_dim\": 16, \"model_type\": \"qwen2\"}",
                  TWO(HEADS, 4, 3, KV_HEADS, 4, 3),
                  "{\"hidden_size\": 64, \"num_attention_heads\": 3, \"head_dim\": 16, \"model_type\": \"qwen2\"}");
    expect_config("{\"hidden_size\": 64, \"num_attention_heads\": 8, \"head_dim\": 16}", ONE(HIDDEN, 64, 48),
                  "{\"hidden_size\": 48, \"num_attention_heads\": 8, \"head_dim\": 16}");
    expect_config("{\"hidden_size\": 64, \"num_attention_heads\": 8}", TWO(HEADS, 8, 4, HIDDEN, 64, 32),
                  "{\"hidden_size\": 32, \"num_attention_heads\": 4}");
}

/* ---- files ---- */

/* Writes a copy of the file whose metadata is edited, as a job does whose passes change no weight. */
static enum vc_status copy_edited(struct vc_ctx *ctx, const char *from, const char *to, const struct vc_edit *edits,
                                  size_t n)
{
    const struct vc_write_options options = {.path = to, .force = true};
    struct vc_out_list list = {.n_edits = n, .edits = edits};
    struct vc_out_tensor outs[16] = {{.name = NULL}};
    struct vc_model *model = NULL;
    struct vc_sink *sink = NULL;
    uint64_t file_bytes;
    enum vc_status status;
    char data[256];
    size_t i;

    VC_TRY(vc_model_open(ctx, from, NULL, &model));
    VC_TRY(vc_sink_create(ctx, model, &options, &sink));
    assert_true(sink->accepts_raw && model->n_tensors <= 16);
    for (i = 0; i < model->n_tensors; i++) {
        const struct vc_tensor *t = &model->tensors[i];

        outs[i] = (struct vc_out_tensor){.name = t->name,
                                         .dtype = t->dtype,
                                         .n_dims = t->n_dims,
                                         .shape = t->shape,
                                         .size_bytes = t->size_bytes,
                                         .form = VC_FORM_RAW,
                                         .kept = true,
                                         .source = i,
                                         .source_dtype = t->dtype};
    }
    list.n = model->n_tensors;
    list.tensors = outs;
    VC_TRY(sink->ops->layout(ctx, sink, &list, &file_bytes));
    VC_TRY(sink->ops->begin(ctx, sink));
    for (i = 0; i < list.n; i++) {
        struct vc_packet packet = {.buffer = NULL};
        size_t n_bytes = (size_t)outs[i].size_bytes;

        assert_true(n_bytes <= sizeof data);
        VC_TRY(vc_source_read_any(ctx, model, i, VC_FORM_RAW, 0, data, n_bytes));
        VC_TRY(vc_sink_pack(ctx, sink, i, 0, data, n_bytes, &packet));
        VC_TRY(sink->ops->emit(ctx, sink, &packet));
    }
    VC_TRY(sink->ops->finish(ctx, sink, &file_bytes));
    VC_TRY(sink->ops->commit(ctx, sink));
out:
    if (sink != NULL) {
        sink->ops->free(ctx, sink);
    }
    vc_model_close(model);
    return status;
}

/* ---- GGUF ---- */

static const uint64_t dims[] = {4, 2};

static void add_array(struct gguf_builder *g, const char *key, const uint32_t *values, size_t n)
{
    struct bytes b = {NULL, 0, 0};
    size_t i;

    bytes_u32(&b, 4); /* of kind u32 */
    bytes_u64(&b, n);
    for (i = 0; i < n; i++) {
        bytes_u32(&b, values[i]);
    }
    gguf_pair(g, key, 9, b.p, b.n);
    bytes_release(&b);
}

struct sizes {
    uint32_t width, inner, layers, heads, kv, head, experts;
    uint32_t per_layer[4];
    size_t n_per_layer;
};

static const struct sizes usual = {.width = 64,
                                   .inner = 256,
                                   .layers = 4,
                                   .heads = 8,
                                   .kv = 4,
                                   .head = 8,
                                   .experts = 6,
                                   .per_layer = {1, 2, 3, 4},
                                   .n_per_layer = 4};

static struct bytes gguf_of(struct sizes s)
{
    static const char *const words[] = {"a", "b"};
    struct gguf_builder g = {0};

    gguf_pair_u32(&g, "general.file_type", 0);
    gguf_pair_u32(&g, "llama.embedding_length", s.width);
    gguf_pair_string(&g, "general.architecture", "llama");
    gguf_pair_strings(&g, "tokenizer.ggml.tokens", words, 2);
    gguf_pair_u32(&g, "llama.feed_forward_length", s.inner);
    gguf_pair_u32(&g, "llama.block_count", s.layers);
    gguf_pair_u32(&g, "llama.attention.head_count", s.heads);
    gguf_pair_u32(&g, "llama.attention.head_count_kv", s.kv);
    gguf_pair_u32(&g, "llama.attention.key_length", s.head);
    gguf_pair_u32(&g, "llama.attention.value_length", s.head);
    gguf_pair_u32(&g, "llama.expert_count", s.experts);
    gguf_pair_u32(&g, "other.block_count", 4);
    add_array(&g, "llama.rope.dimension_sections", (const uint32_t[]){16, 24, 24, 0}, 4);
    add_array(&g, "llama.sliding", s.per_layer, s.n_per_layer);
    gguf_pair_u32(&g, "general.quantization_version", 2);
    gguf_tensor(&g, "w", 0, 2, dims, 32);
    return gguf_finish(&g);
}

static void expect_gguf(const struct vc_edit *edits, size_t n, struct sizes want)
{
    struct vc_ctx *ctx = test_ctx();

    (void)save_own("in.gguf", gguf_of(usual));
    (void)save_own("want.gguf", gguf_of(want));
    if (copy_edited(ctx, in_folder("in.gguf"), in_folder("out.gguf"), edits, n) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    expect_same("out.gguf", "want.gguf");
    empty_folder();
    test_ctx_done(ctx);
}

static void refuse_gguf(struct bytes file, const struct vc_edit *edits, size_t n, const char *want)
{
    struct vc_ctx *ctx = test_ctx();

    (void)save_own("in.gguf", file);
    assert_int_equal(copy_edited(ctx, in_folder("in.gguf"), in_folder("out.gguf"), edits, n), VC_E_UNSUPPORTED);
    assert_string_equal(vc_ctx_message(ctx), want);
    assert_false(exists("out.gguf"));
    empty_folder();
    test_ctx_done(ctx);
}

static void test_gguf_keys(void **state)
{
    struct sizes want = usual;

    (void)state;
    expect_gguf(NULL, 0, usual);
    want.width = 48;
    expect_gguf(ONE(HIDDEN, 64, 48), want);
    want.inner = 200;
    expect_gguf(TWO(HIDDEN, 64, 48, INTERMEDIATE, 256, 200), want);
    want = usual;
    want.heads = 6;
    expect_gguf(ONE(HEADS, 8, 6), want);
    want.kv = 2;
    expect_gguf(TWO(HEADS, 8, 6, KV_HEADS, 4, 2), want);
    want = usual;
    want.head = 16;
    expect_gguf(ONE(HEAD_SIZE, 8, 16), want);
    want = usual;
    want.experts = 5;
    expect_gguf(ONE(EXPERTS, 6, 5), want);
}

static void test_gguf_layers(void **state)
{
    struct sizes want = usual;

    (void)state;
    want.layers = 2;
    want.per_layer[1] = 3;
    want.n_per_layer = 2;
    expect_gguf(LAYERS, want);
}

/* A number per layer: those that say the old size change. */
static void test_gguf_arrays(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct gguf_builder g = {0};

    (void)state;
    gguf_pair_string(&g, "general.architecture", "a");
    add_array(&g, "a.feed_forward_length", (const uint32_t[]){256, 128, 256}, 3);
    gguf_tensor(&g, "w", 0, 2, dims, 32);
    (void)save_own("in.gguf", gguf_finish(&g));
    gguf_pair_string(&g, "general.architecture", "a");
    add_array(&g, "a.feed_forward_length", (const uint32_t[]){200, 128, 200}, 3);
    gguf_tensor(&g, "w", 0, 2, dims, 32);
    (void)save_own("want.gguf", gguf_finish(&g));
    assert_int_equal(copy_edited(ctx, in_folder("in.gguf"), in_folder("out.gguf"), ONE(INTERMEDIATE, 256, 200)), VC_OK);
    expect_same("out.gguf", "want.gguf");
    empty_folder();
    test_ctx_done(ctx);
}

static void test_gguf_refused(void **state)
{
    struct gguf_builder g = {0};

    (void)state;
    refuse_gguf(gguf_of(usual), ONE(INTERMEDIATE, 255, 200),
                "no key of the metadata says that the intermediate size is 255, which becomes 200; expected "
                "'llama.feed_forward_length'");
    refuse_gguf(gguf_of(usual), ONE(VOCABULARY, 2, 1),
                "no key of the metadata says that the size of the vocabulary is 2, which becomes 1; expected "
                "'llama.vocab_size'");
    gguf_tensor(&g, "w", 0, 2, dims, 32);
    refuse_gguf(gguf_finish(&g), ONE(HIDDEN, 64, 48),
                "no key of the metadata says that the hidden size is 64, which becomes 48; expected "
                "'<architecture>.embedding_length'");
    gguf_pair_string(&g, "general.architecture", "a");
    gguf_pair_u32(&g, "a.embedding_length", 64);
    gguf_pair_u32(&g, "a.attention.head_count", 8);
    gguf_tensor(&g, "w", 0, 2, dims, 32);
    refuse_gguf(gguf_finish(&g), ONE(HEADS, 8, 4),
                "the metadata has no 'a.attention.key_length', so that a head would be taken for one of size 16 in "
                "place of 8");
    gguf_pair_string(&g, "general.architecture", "a");
    gguf_pair_u32(&g, "a.vocab_size", 2);
    gguf_pair_strings(&g, "tokenizer.ggml.tokens", (const char *const[]){"a", "b"}, 2);
    gguf_tensor(&g, "w", 0, 2, dims, 32);
    refuse_gguf(gguf_finish(&g), ONE(VOCABULARY, 2, 1),
                "the metadata lists the vocabulary ('tokenizer.ggml.tokens'), whose size changes");
    gguf_pair_string(&g, "general.architecture", "a");
    gguf_pair_u32(&g, "a.expert_count", 8);
    gguf_pair_u32(&g, "a.expert_used_count", 6);
    gguf_tensor(&g, "w", 0, 2, dims, 32);
    refuse_gguf(gguf_finish(&g), ONE(EXPERTS, 8, 5),
                "'a.expert_used_count' is 6, and 5 of 8 experts would be left to choose from");
    gguf_pair_string(&g, "general.architecture", "a");
    gguf_pair_u32(&g, "a.expert_count", 8);
    gguf_pair_u32(&g, "a.expert_group_count", 4);
    gguf_tensor(&g, "w", 0, 2, dims, 32);
    refuse_gguf(
        gguf_finish(&g), ONE(EXPERTS, 8, 4),
        "'a.expert_group_count' divides the experts into 4 parts by their numbers, so that those which stay would "
        "come into others");
}

/* ---- ONNX ---- */

static void test_onnx(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct onnx_builder g = {0};

    (void)state;
    onnx_raw(&g, "w", 1, 2, dims, NULL, 32);
    onnx_op(&g, "MatMul", "x w", "y");
    onnx_info(&g, 11, "x");
    onnx_info(&g, 12, "y");
    (void)save_own("plain.onnx", onnx_finish(&g));
    assert_int_equal(copy_edited(ctx, in_folder("plain.onnx"), in_folder("out.onnx"), ONE(HIDDEN, 64, 48)), VC_OK);
    onnx_raw(&g, "w", 1, 2, dims, NULL, 32);
    onnx_op(&g, "MatMul", "x w", "y");
    onnx_info(&g, 11, "x");
    onnx_info(&g, 12, "y");
    onnx_info(&g, 13, "h");
    (void)save_own("told.onnx", onnx_finish(&g));
    /* Shapes that are declared for values inside may be wrong by then: they go. */
    assert_int_equal(copy_edited(ctx, in_folder("told.onnx"), in_folder("out.onnx"), ONE(HIDDEN, 64, 48)), VC_OK);
    assert_false(holds("out.onnx", "\n\1h"));
    assert_int_equal(copy_edited(ctx, in_folder("told.onnx"), in_folder("out.onnx"), NULL, 0), VC_OK);
    assert_true(holds("out.onnx", "\n\1h"));
    /* Nodes do not leave a graph. */
    assert_int_equal(copy_edited(ctx, in_folder("told.onnx"), in_folder("no.onnx"), LAYERS), VC_E_UNSUPPORTED);
    assert_string_equal(
        vc_ctx_message(ctx),
        "layers are left out, and the nodes that compute them would have to leave the graph, too: export "
        "the model without them, or write another format, such as .safetensors");
    assert_false(exists("no.onnx"));
    empty_folder();
    test_ctx_done(ctx);
}

/* What metadata says of layers beside lists with an entry for each. */
static struct bytes gguf_of_layers(const char *architecture, const char *key, uint32_t n_layers, uint32_t value)
{
    struct gguf_builder g = {0};
    char name[80];

    gguf_pair_string(&g, "general.architecture", architecture);
    snprintf(name, sizeof name, "%s.block_count", architecture);
    gguf_pair_u32(&g, name, n_layers);
    snprintf(name, sizeof name, "%s.%s", architecture, key);
    gguf_pair_u32(&g, name, value);
    gguf_tensor(&g, "w", 0, 2, dims, 32);
    return gguf_finish(&g);
}

static struct bytes gguf_named(const char *architecture, const char *key, uint32_t value)
{
    return gguf_of_layers(architecture, key, 4, value);
}

static void expect_named(const char *architecture, const char *key, uint32_t n_layers, uint32_t value,
                         const struct vc_edit *edits, size_t n, uint32_t want_layers, uint32_t want_value)
{
    struct vc_ctx *ctx = test_ctx();

    (void)save_own("in.gguf", gguf_of_layers(architecture, key, n_layers, value));
    (void)save_own("want.gguf", gguf_of_layers(architecture, key, want_layers, want_value));
    if (copy_edited(ctx, in_folder("in.gguf"), in_folder("out.gguf"), edits, n) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    expect_same("out.gguf", "want.gguf");
    empty_folder();
    test_ctx_done(ctx);
}

static void test_gguf_depth(void **state)
{
    (void)state;
    refuse_gguf(
        gguf_named("gemma2", "x", 1), LAYERS,
        "of 'gemma2' every layer is what its number says, in a pattern of 2, so that the layers which stay would "
        "become others; leave out whole patterns");
    refuse_gguf(
        gguf_named("gemma-embedding", "x", 1), LAYERS,
        "of 'gemma-embedding' every layer is what its number says, in a pattern of 6, so that the layers which stay "
        "would become others; leave out whole patterns");
    refuse_gguf(
        gguf_named("a", "full_attention_interval", 4), LAYERS,
        "of 'full_attention_interval' every layer is what its number says, in a pattern of 4, so that the layers "
        "which stay would become others; leave out whole patterns");
    refuse_gguf(gguf_named("a", "nextn_predict_layers", 1), LAYERS,
                "'a.nextn_predict_layers' speaks of layers by their number, and layers are left out");
    refuse_gguf(gguf_named("a", "x", 1), LIST("dec.blk"),
                "no key of the metadata says that the number of layers is 4, which becomes 2; expected "
                "'a.decoder_block_count'");
    expect_named("a", "leading_dense_block_count", 4, 2, LAYERS, 2, 1);
    expect_named("gemma2", "attention.sliding_window_pattern", 4, 1, LAYERS, 2, 1); /* no pattern */
    expect_named("t5", "decoder_block_count", 4, 4, LIST("dec.blk"), 4, 2);
    expect_named("t5", "decoder_block_count", 4, 4, LIST("enc.blk"), 2, 4);
}

/* ---- memory ---- */

static const struct vc_edit several[] = {
    {.key = VC_EDIT_LAYERS, .before = 4, .after = 2, .n_dropped = 2, .dropped = second_and_last},
    {.key = VC_EDIT_HIDDEN, .before = 64, .after = 48}};

static void test_allocations(void **state)
{
    static const char text[] = "{\"text_config\": {\"num_hidden_layers\": 4, \"layer_types\": [1, 2, 3, 4], "
                               "\"hidden_size\": 64}}";
    struct vc_ctx *ctx = test_ctx();
    const struct vc_out_list outs = {.n_edits = 2, .edits = several};
    const struct vc_hf_change change = {.outs = &outs};
    enum vc_status status = VC_E_NOMEM;
    uint64_t n;

    (void)state;
    for (n = 1; status != VC_OK; n++) {
        struct vc_text out;

        vc_text_init(&out, ctx);
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_hf_rewrite(ctx, text, strlen(text), &change, &out);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        vc_text_release(&out);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
    }
    assert_true(n > 6);
    (void)save_own("in.gguf", gguf_of(usual));
    for (n = 1, status = VC_E_NOMEM; status != VC_OK; n++) {
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = copy_edited(ctx, in_folder("in.gguf"), in_folder("out.gguf"), several, 2);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        assert_int_equal(exists("out.gguf"), status == VC_OK);
    }
    assert_true(n > 20);
    empty_folder();
    vc_ctx_free(ctx);
}

/* ---- edits of several passes ---- */

/* Edits of two passes join in the source's numbers; a list of layers that cannot be is refused, whatever its numbers.
 */
static void test_joined(void **state)
{
    static const uint64_t first[] = {1, 3};
    static const uint64_t second[] = {0, 2}; /* of what is left, 0 2 4 5: the source's 0 and 4 */
    static const uint64_t joined[] = {0, 1, 3, 4};
    static const uint64_t twice[] = {1, 1};
    static const uint64_t beyond[] = {2, 1ULL << 60};
    struct vc_ctx *ctx = test_ctx();
    struct vc_arena arena = {0};
    struct vc_plan plan = {.arena = &arena};
    struct vc_edit edit = {.key = VC_EDIT_LAYERS, .before = 6, .after = 4, .n_dropped = 2, .dropped = twice};

    (void)state;
    assert_int_equal(vc_plan_edit(ctx, &plan, &edit), VC_E_INTERNAL);
    edit.dropped = beyond;
    assert_int_equal(vc_plan_edit(ctx, &plan, &edit), VC_E_INTERNAL);
    assert_int_equal(plan.n_edits, 0);
    edit.dropped = first;
    assert_int_equal(vc_plan_edit(ctx, &plan, &edit), VC_OK);
    assert_int_equal(vc_plan_edit(ctx, &plan, &edit), VC_E_INTERNAL); /* there are 4 by now, not 6 */
    edit = (struct vc_edit){.key = VC_EDIT_LAYERS, .before = 4, .after = 2, .n_dropped = 2, .dropped = second};
    assert_int_equal(vc_plan_edit(ctx, &plan, &edit), VC_OK);
    assert_int_equal(plan.n_edits, 1);
    assert_int_equal(plan.edits[0].before, 6);
    assert_int_equal(plan.edits[0].after, 2);
    assert_int_equal(plan.edits[0].n_dropped, 4);
    assert_memory_equal(plan.edits[0].dropped, joined, sizeof joined);
    vc_arena_release(ctx, &arena);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_config_keys),
        cmocka_unit_test(test_config_sections),
        cmocka_unit_test(test_config_layers),
        cmocka_unit_test(test_config_refused),
        cmocka_unit_test(test_gguf_keys),
        cmocka_unit_test(test_config_lists),
        cmocka_unit_test(test_config_layers_refused),
        cmocka_unit_test(test_config_names),
        cmocka_unit_test(test_periods),
        cmocka_unit_test(test_gguf_depth),
        cmocka_unit_test(test_gguf_layers),
        cmocka_unit_test(test_gguf_arrays),
        cmocka_unit_test(test_gguf_refused),
        cmocka_unit_test(test_onnx),
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_joined),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
