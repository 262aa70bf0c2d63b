/* test_layer_edits.c - layers 1 and 3 of 4 go: every form in which a configuration or the metadata of GGUF may speak of
 * layers, by kind of value. Tables of what goes in and what comes out; test_edits.c has the other edits. */
#include "formats_test.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "core/model/edit.h"
#include "core/model/program.h"
#include "formats/gguf/gguf.h"
#include "formats/huggingface/hf_rewrite.h"
#include "gguf_builder.h"
#include "tasks.h"

#include <vcompress/depth.h>

static const uint64_t gone[] = {1, 3};
static const struct vc_edit layers = {.key = VC_EDIT_LAYERS, .before = 4, .after = 2, .n_dropped = 2, .dropped = gone};

/* ---- config.json ---- */

struct config_case {
    const char *in;      /* the members beside the number of layers */
    const char *out;     /* as they are afterwards; NULL: refused */
    const char *because; /* "'name' because", of a refusal */
};

static const struct config_case config_cases[] = {
    /* Lists with an entry for each layer. */
    {"\"layer_types\": []", "\"layer_types\": []", NULL},
    {"\"layers_block_type\": [\"a\", [1, 2], {\"b\": \",\"}, 0]", "\"layers_block_type\": [\"a\", {\"b\": \",\"}]",
     NULL},
    {"\"num_query_heads\": 8", "\"num_query_heads\": 8", NULL},
    {"\"hybrid_override_pattern\": \"M\\n-E\"", "\"hybrid_override_pattern\": \"M-\"", NULL},
    /* Numbers of layers. */
    {"\"mlp_only_layers\": []", "\"mlp_only_layers\": []", NULL},
    {"\"mlp_only_layers\": [1, 3]", "\"mlp_only_layers\": []", NULL},
    {"\"full_attn_idxs\": [2, 9]", "\"full_attn_idxs\": [1, 7]", NULL},
    {"\"moe_layers\": [0.5]", NULL, "'moe_layers' has entries that are not numbers of layers"},
    {"\"moe_layers\": [\"0\"]", NULL, "'moe_layers' has entries that are not numbers of layers"},
    {"\"moe_layers\": \"all\"", "\"moe_layers\": \"all\"", NULL},
    /* So many from the first. */
    {"\"num_dense_layers\": 0", "\"num_dense_layers\": 0", NULL},
    {"\"num_dense_layers\": 3", "\"num_dense_layers\": 2", NULL},
    {"\"num_dense_layers\": -1", "\"num_dense_layers\": -1", NULL},
    {"\"num_dense_layers\": 4", "\"num_dense_layers\": 4", NULL},
    /* Refused, unless it says nothing. */
    {"\"num_kv_shared_layers\": 0", "\"num_kv_shared_layers\": 0", NULL},
    {"\"num_kv_shared_layers\": -1", "\"num_kv_shared_layers\": -1", NULL},
    {"\"scale_attn_by_inverse_layer_idx\": false", "\"scale_attn_by_inverse_layer_idx\": false", NULL},
    {"\"deepstack_visual_indexes\": null", "\"deepstack_visual_indexes\": null", NULL},
    {"\"deepstack_visual_indexes\": []", "\"deepstack_visual_indexes\": []", NULL},
    {"\"scale_attn_by_inverse_layer_idx\": true", NULL,
     "'scale_attn_by_inverse_layer_idx' speaks of layers by their number"},
    {"\"deepstack_visual_indexes\": [0, 2, 8]", "\"deepstack_visual_indexes\": [0, 1, 6]", NULL},
    {"\"deepstack_visual_indexes\": [0, 1]", NULL, "'deepstack_visual_indexes' names layer 1, which has to stay"},
    {"\"stage_names\": \"a\"", NULL, "'stage_names' speaks of layers by their number"},
    /* Patterns: not asked where they say each layer, or every second one of what stays. */
    {"\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 1", NULL},
    {"\"decoder_sparse_step\": 0", "\"decoder_sparse_step\": 0", NULL},
    {"\"moe_layer_freq\": [1, 2, 3, 4]", "\"moe_layer_freq\": [1, 3]", NULL},
    {"\"attn_layer_period\": 2, \"layers_block_type\": null", NULL, "of 'attn_layer_period' every layer"},
    {"\"attn_layer_period\": 2, \"layers_block_type\": []", NULL, "of 'attn_layer_period' every layer"},
    {"\"attn_layer_period\": 2, \"layers_block_type\": [1, 2, 3, 4]",
     "\"attn_layer_period\": 2, \"layers_block_type\": [1, 3]", NULL},
    {"\"sliding_window_pattern\": \"LG\", \"layer_types\": [1, 2, 3, 4]",
     "\"sliding_window_pattern\": \"LG\", \"layer_types\": [1, 3]", NULL},
    /* Lists that nobody knows. */
    {"\"odd_blocks\": [1]", NULL, "'odd_blocks' is a list whose meaning is not known"},
    {"\"odd_layers\": [\"a\", \"b\", \"c\", \"d\"]", NULL, "'odd_layers' is a list whose meaning is not known"},
    {"\"odd_layers\": [\"a\", \"b\"]", "\"odd_layers\": [\"a\", \"b\"]", NULL},
    {"\"odd_layers\": []", "\"odd_layers\": []", NULL},
    {"\"things\": [1, 2, 3, 4]", "\"things\": [1, 2, 3, 4]", NULL},
    /* Of a type that no table has, a list with an entry per layer may be one of layers. */
    {"\"model_type\": \"unheard\", \"things\": [1, 2, 3, 4]", NULL, "'things' is a list whose meaning is not known"},
    {"\"model_type\": \"unheard\", \"things\": [1, 2, 3]", "\"model_type\": \"unheard\", \"things\": [1, 2, 3]", NULL},
    {"\"model_type\": \"unheard\", \"eos_token_id\": [1, 2, 3, 4]",
     "\"model_type\": \"unheard\", \"eos_token_id\": [1, 2, 3, 4]", NULL},
    {"\"model_type\": \"llama\", \"things\": [1, 2, 3, 4]", "\"model_type\": \"llama\", \"things\": [1, 2, 3, 4]",
     NULL},
    /* GPT-Neo's lists. */
    {"\"attention_types\": [[[\"g\", \"l\"], 2]]", "\"attention_types\": [[[\"g\", \"g\"], 1]]", NULL},
    {"\"attention_types\": [[[\"g\", \"l\"], 3]]", NULL, "'attention_types' has not a word for each layer"},
    {"\"attention_types\": [[[\"g\", \"l\"], -3]]", NULL, "'attention_types' has not a word for each layer"},
    {"\"attention_types\": [[[1, 2], 2]]", NULL, "'attention_types' has no words"},
    {"\"attention_types\": []", NULL, "'attention_types' has not a word for each layer"},
    /* What a kind of model does without a word. */
    {"\"model_type\": \"gemma3\"", "\"model_type\": \"gemma3\"", NULL}, /* all four slide */
    {"\"model_type\": \"gemma2\"",
     "\"model_type\": \"gemma2\",\n  \"layer_types\": [\"sliding_attention\", \"sliding_attention\"]", NULL},
    {"\"layer_types\": null, \"model_type\": \"vaultgemma\"",
     "\"layer_types\": [\"sliding_attention\", \"sliding_attention\"], \"model_type\": \"vaultgemma\"", NULL},
    {"\"model_type\": \"minimax\", \"layer_types\": [1, 2, 3, 4]", NULL, "layers of 'minimax' compute by their number"},
    {"\"model_type\": \"cohere2\", \"sliding_window_pattern\": 3",
     "\"model_type\": \"cohere2\", \"sliding_window_pattern\": 3,\n  \"layer_types\": [\"sliding_attention\", "
     "\"full_attention\"]",
     NULL},
    {"\"model_type\": \"exaone4\", \"sliding_window_pattern\": \"LLLG\"", NULL,
     "'sliding_window_pattern' is a pattern"},
    {"\"model_type\": \"smollm3\", \"no_rope_layer_interval\": 2",
     "\"model_type\": \"smollm3\", \"no_rope_layer_interval\": 2,\n  \"no_rope_layers\": [1, 1]", NULL},
    {"\"model_type\": \"deepseek_v3\"", "\"model_type\": \"deepseek_v3\",\n  \"first_k_dense_replace\": 2", NULL},
    {"\"model_type\": \"glm4_moe_lite\"", "\"model_type\": \"glm4_moe_lite\"", NULL}, /* layer 0 alone is dense */
    {"\"model_type\": \"deepseek_v32\", \"first_k_dense_replace\": 2",
     "\"model_type\": \"deepseek_v32\", \"first_k_dense_replace\": 1", NULL},
    {"\"model_type\": \"nllb-moe\"", NULL, "of 'decoder_sparse_step' every layer"},
    {"\"model_type\": \"gemma3n_text\"", NULL, "'num_kv_shared_layers' speaks of layers by their number"},
    {"\"model_type\": \"gemma4_text\", \"hidden_size_per_layer_input\": 0", NULL, "so that layer 3 has to stay"},
    {"\"model_type\": \"kimi_linear\"", NULL, "'layer_types' is not there, and transformers makes it by a rule"},
    {"\"model_type\": \"inkling_text\", \"local_layer_ids\": [0, 2]",
     "\"model_type\": \"inkling_text\", \"local_layer_ids\": [0, 1]", NULL},
    {"\"model_type\": \"qwen2_moe\", \"use_sliding_window\": false",
     "\"model_type\": \"qwen2_moe\", \"use_sliding_window\": false", NULL},
    {"\"model_type\": \"qwen2_moe\", \"use_sliding_window\": true", NULL, "'use_sliding_window' says of what kind"},
    {"\"model_type\": \"gemma3\", \"sliding_window_pattern\": 1",
     "\"model_type\": \"gemma3\", \"sliding_window_pattern\": 1", NULL},
    {"\"model_type\": \"gemma2\", \"layer_types\": []",
     "\"model_type\": \"gemma2\", \"layer_types\": [\"sliding_attention\", \"sliding_attention\"]", NULL},
    {"\"model_type\": \"llama\"", "\"model_type\": \"llama\"", NULL},
    {"\"model_type\": 5", "\"model_type\": 5", NULL},
};

static void check_config(const struct config_case *c)
{
    const struct vc_out_list outs = {.n_edits = 1, .edits = &layers};
    const struct vc_hf_change change = {.outs = &outs};
    struct vc_ctx *ctx = test_ctx();
    struct vc_text out;
    char text[300];
    char want[300];
    enum vc_status status;

    (void)snprintf(text, sizeof text, "{\"num_hidden_layers\": 4, %s}", c->in);
    (void)snprintf(want, sizeof want, "{\"num_hidden_layers\": 2, %s}", c->out != NULL ? c->out : "");
    vc_text_init(&out, ctx);
    status = vc_hf_rewrite(ctx, text, strlen(text), &change, &out);
    if (c->out == NULL) {
        if (status != VC_E_UNSUPPORTED || strstr(vc_ctx_message(ctx), c->because) == NULL) {
            fail_msg("%s: %s, \"%s\"", text, vc_status_name(status), vc_ctx_message(ctx));
        }
    } else if (status != VC_OK || strcmp(out.data, want) != 0) {
        fail_msg("%s: %s, %s", text, vc_status_name(status), status == VC_OK ? out.data : vc_ctx_message(ctx));
    }
    vc_text_release(&out);
    test_ctx_done(ctx);
}

/* Of the layers of that list, four of which two go. */
static const struct {
    const char *list, *in;
    const char *out; /* NULL: refused */
    const char *because;
} list_cases[] = {
    /* The first part that the name tells. */
    {"decoder.bert.encoder.layer", "{\"encoder\": {\"num_hidden_layers\": 4}, \"decoder\": {\"num_hidden_layers\": 4}}",
     "{\"encoder\": {\"num_hidden_layers\": 4}, \"decoder\": {\"num_hidden_layers\": 2}}", NULL},
    {"encoder.encoder.layer", "{\"encoder\": {\"num_hidden_layers\": 4}, \"decoder\": {\"num_hidden_layers\": 4}}",
     "{\"encoder\": {\"num_hidden_layers\": 2}, \"decoder\": {\"num_hidden_layers\": 4}}", NULL},
    {"qformer.encoder.layer",
     "{\"qformer_config\": {\"num_hidden_layers\": 4}, \"text_config\": {\"num_hidden_layers\": 4}}",
     "{\"qformer_config\": {\"num_hidden_layers\": 2}, \"text_config\": {\"num_hidden_layers\": 4}}", NULL},
    {"model.visual.blocks", "{\"vision_config\": {\"depth\": 4}, \"text_config\": {\"num_hidden_layers\": 4}}",
     "{\"vision_config\": {\"depth\": 2}, \"text_config\": {\"num_hidden_layers\": 4}}", NULL},
    {"model.language_model.layers", "{\"vision_config\": {\"depth\": 4}, \"text_config\": {\"num_hidden_layers\": 4}}",
     "{\"vision_config\": {\"depth\": 4}, \"text_config\": {\"num_hidden_layers\": 2}}", NULL},
    /* The key of that part, of its own names. */
    {"model.decoder.layers",
     "{\"is_encoder_decoder\": true, \"encoder_layers\": 4, \"decoder_layers\": 4, \"num_hidden_layers\": 4}",
     "{\"is_encoder_decoder\": true, \"encoder_layers\": 4, \"decoder_layers\": 2, \"num_hidden_layers\": 4}", NULL},
    {"model.decoder.layers", "{\"decoder_layers\": 4, \"num_hidden_layers\": 4}",
     "{\"decoder_layers\": 2, \"num_hidden_layers\": 4}", NULL},
    {"model.decoder.layers", "{\"encoder_num_hidden_layers\": 4, \"decoder_num_hidden_layers\": 4}",
     "{\"encoder_num_hidden_layers\": 4, \"decoder_num_hidden_layers\": 2}", NULL},
    {"decoder.model.decoder.layers", "{\"decoder\": {\"decoder_layers\": 4, \"encoder_layers\": 4}}",
     "{\"decoder\": {\"decoder_layers\": 2, \"encoder_layers\": 4}}", NULL},
    {"speecht5.decoder.wrapped_decoder.layers", "{\"is_encoder_decoder\": true, \"decoder_layers\": 4}",
     "{\"is_encoder_decoder\": true, \"decoder_layers\": 2}", NULL},
    {"speecht5.decoder.prenet.layers", "{\"is_encoder_decoder\": true, \"decoder_layers\": 4}", NULL,
     "which key states the 4 layers of speecht5.decoder.prenet.layers is not known"},
    /* A list beside the main one of its part, and numbers of layers that something outside is as wide as. */
    {"vision_model.global_transformer.layers",
     "{\"vision_config\": {\"num_hidden_layers\": 4, \"num_global_layers\": 4, \"intermediate_layers_indices\": [1]}}",
     "{\"vision_config\": {\"num_hidden_layers\": 4, \"num_global_layers\": 2, \"intermediate_layers_indices\": [1]}}",
     NULL},
    {"vision_model.transformer.layers",
     "{\"vision_config\": {\"num_hidden_layers\": 4, \"num_global_layers\": 4, \"intermediate_layers_indices\": [0, "
     "2]}}",
     "{\"vision_config\": {\"num_hidden_layers\": 2, \"num_global_layers\": 4, \"intermediate_layers_indices\": [0, "
     "1]}}",
     NULL},
    {"vision_model.transformer.layers",
     "{\"vision_config\": {\"num_hidden_layers\": 4, \"intermediate_layers_indices\": [3]}}", NULL,
     "'intermediate_layers_indices' names layer 3, which has to stay"},
    {"model.extra.layers", "{\"num_hidden_layers\": 4, \"num_extra_layers\": 4}", NULL,
     "\"num_extra_layers\" is 4, too, so it is not known which key states how many layers model.extra.layers has"},
    {"model.layers", "{\"num_hidden_layers\": 4, \"num_extra_layers\": 3, \"num_nextn_predict_layers\": 4}",
     "{\"num_hidden_layers\": 2, \"num_extra_layers\": 3, \"num_nextn_predict_layers\": 4}", NULL},
    /* What other parts say by number. */
    {"vision_tower.encoder.layers", "{\"vision_config\": {\"num_hidden_layers\": 4}, \"vision_feature_layer\": 2}",
     "{\"vision_config\": {\"num_hidden_layers\": 2}, \"vision_feature_layer\": 1}", NULL},
    {"vision_tower.encoder.layers",
     "{\"vision_config\": {\"num_hidden_layers\": 4}, \"vision_feature_layer\": [-2, -5, 4]}",
     "{\"vision_config\": {\"num_hidden_layers\": 2}, \"vision_feature_layer\": [-1, -3, 2]}", NULL},
    {"vision_tower.encoder.layers", "{\"vision_config\": {\"num_hidden_layers\": 4}, \"vision_feature_layer\": 5}",
     NULL, "'vision_feature_layer' names a layer that there is not"},
    {"language_model.layers", "{\"text_config\": {\"num_hidden_layers\": 4}, \"vision_feature_layer\": 2}",
     "{\"text_config\": {\"num_hidden_layers\": 2}, \"vision_feature_layer\": 2}", NULL},
    {"model.language_model.layers",
     "{\"text_config\": {\"num_hidden_layers\": 4}, \"vision_config\": {\"deepstack_visual_indexes\": [5]}}",
     "{\"text_config\": {\"num_hidden_layers\": 2}, \"vision_config\": {\"deepstack_visual_indexes\": [5]}}", NULL},
    {"model.language_model.layers",
     "{\"text_config\": {\"num_hidden_layers\": 4}, \"vision_config\": {\"deepstack_visual_indexes\": [5, 9]}}", NULL,
     "'deepstack_visual_indexes' feeds the first 2 layers, so that layer 1 has to stay"},
};

static void test_lists(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof list_cases / sizeof list_cases[0]; i++) {
        struct vc_edit edit = layers;
        const struct vc_out_list outs = {.n_edits = 1, .edits = &edit};
        const struct vc_hf_change change = {.outs = &outs};
        struct vc_ctx *ctx = test_ctx();
        struct vc_text out;
        enum vc_status status;

        edit.list = list_cases[i].list;
        vc_text_init(&out, ctx);
        status = vc_hf_rewrite(ctx, list_cases[i].in, strlen(list_cases[i].in), &change, &out);
        if (list_cases[i].out == NULL) {
            assert_int_equal(status, VC_E_UNSUPPORTED);
            assert_non_null(strstr(vc_ctx_message(ctx), list_cases[i].because));
        } else {
            assert_int_equal(status, VC_OK);
            assert_string_equal(out.data, list_cases[i].out);
        }
        vc_text_release(&out);
        test_ctx_done(ctx);
    }
}

static void test_config(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof config_cases / sizeof config_cases[0]; i++) {
        check_config(&config_cases[i]);
    }
}

/* ---- GGUF ---- */

enum { U8 = 0, I8 = 1, U16 = 2, U32 = 4, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9, U64 = 10, I64 = 11 };

struct value {
    const char *key;
    uint32_t kind, of; /* of: what an array has */
    uint64_t numbers[4];
    unsigned n; /* of an array */
};

static void add_number(struct bytes *b, uint32_t kind, uint64_t v)
{
    static const unsigned char sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8};
    unsigned i;

    for (i = 0; i < sizes[kind]; i++) {
        unsigned char byte = (unsigned char)(v >> (8 * i));

        bytes_add(b, &byte, 1);
    }
}

static void add_value(struct gguf_builder *g, const struct value *v)
{
    struct bytes b = {NULL, 0, 0};
    unsigned i;

    if (v->kind == ARRAY) {
        bytes_u32(&b, v->of);
        bytes_u64(&b, v->n);
        for (i = 0; i < v->n; i++) {
            add_number(&b, v->of, v->numbers[i]);
        }
    } else {
        add_number(&b, v->kind, v->numbers[0]);
    }
    gguf_pair(g, v->key, v->kind, b.p, b.n);
    bytes_release(&b);
}

/* A model with the layers that are named by `stay`, which are then 0, 1, ... */
static struct bytes gguf_with(const char *stay, uint64_t count, const struct value *value)
{
    static const uint64_t dims[] = {32, 4};
    const struct value block_count = {.key = "llama.block_count", .kind = U32, .numbers = {count}};
    struct gguf_builder g = {0};
    unsigned i;

    gguf_pair_string(&g, "general.architecture", "llama");
    add_value(&g, &block_count);
    add_value(&g, value);
    gguf_pair_string(&g, "llama.note", "text");
    for (i = 0; stay[i] != '\0'; i++) {
        char name[40];

        (void)snprintf(name, sizeof name, "blk.%u.w.weight", i);
        gguf_tensor(&g, name, 0, 2, dims, 512);
    }
    return gguf_finish(&g);
}

static enum vc_status drop_two(struct vc_ctx *ctx, struct vc_job *job)
{
    struct vc_depth_options depth;

    vc_depth_defaults(&depth);
    depth.drop = "1,3";
    return vc_job_add_depth(ctx, job, &depth);
}

/* The value behind the drop; because: NULL, or why it is refused. */
static void check_gguf(struct value in, struct value out, const char *because)
{
    struct vc_ctx *ctx = test_ctx();
    struct task task = task_copy();

    task.add = drop_two;
    (void)save_own("in.gguf", gguf_with("0123", 4, &in));
    (void)save_own("want.gguf", gguf_with("02", 2, &out));
    if (because != NULL) {
        must_refuse(ctx, "in.gguf", "out.gguf", task, because);
    } else {
        struct bytes got, want;

        must_run(ctx, "in.gguf", "out.gguf", task);
        got = load("out.gguf");
        want = load("want.gguf");
        if (got.n < want.n - 1024 || memcmp(got.p, want.p, want.n - 1024) != 0) { /* all before the values */
            fail_msg("%s: %u is not as it should be", in.key, (unsigned)in.kind);
        }
        bytes_release(&got);
        bytes_release(&want);
    }
    vc_ctx_free(ctx);
    empty_folder();
}

static void test_gguf(void **state)
{
    static const struct value same[] = {
        {.key = "llama.rope.sections", .kind = ARRAY, .of = U32, .numbers = {4, 4, 1, 4}, .n = 4},
        {.key = "llama.other", .kind = ARRAY, .of = U32, .numbers = {1, 2, 3}, .n = 3},
        {.key = "llama.scales", .kind = ARRAY, .of = F32, .numbers = {1, 2}, .n = 2},
        {.key = "llama.flag", .kind = BOOL, .numbers = {1}},
        {.key = "llama.eps", .kind = F32, .numbers = {4}},
        {.key = "llama.leading_dense_block_count", .kind = U32, .numbers = {4}},
        {.key = "llama.leading_dense_block_count", .kind = U32, .numbers = {9}},
        {.key = "llama.nextn_predict_layers", .kind = U32, .numbers = {0}},
        {.key = "llama.full_attention_interval", .kind = U32, .numbers = {1}},
        {.key = "llamas.block_count", .kind = U32, .numbers = {4}},
    };
    struct value list = {.key = "llama.sizes", .kind = ARRAY, .numbers = {10, 20, 30, 40}, .n = 4};
    struct value kept = {.key = "llama.sizes", .kind = ARRAY, .numbers = {10, 30}, .n = 2};
    struct value dense = {.key = "llama.leading_dense_block_count", .kind = U8, .numbers = {3}};
    struct value fewer = {.key = "llama.leading_dense_block_count", .kind = U8, .numbers = {2}};
    static const uint32_t kinds[] = {U8, I8, U16, U32, F32, BOOL, U64, I64};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof same / sizeof same[0]; i++) {
        check_gguf(same[i], same[i], NULL);
    }
    for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        uint64_t unit = kinds[i] == BOOL ? 0 : 1;

        list.of = kept.of = kinds[i];
        list.numbers[0] = kept.numbers[0] = 10 * unit;
        list.numbers[2] = kept.numbers[1] = 30 * unit;
        list.numbers[1] = list.numbers[3] = 1;
        check_gguf(list, kept, NULL);
    }
    check_gguf(dense, fewer, NULL);
    dense.kind = fewer.kind = I64;
    check_gguf(dense, fewer, NULL);
    dense.key = "llama.nextn_predict_layers";
    check_gguf(dense, dense, "'llama.nextn_predict_layers' speaks of layers by their number, and layers are left out");
    dense.key = "llama.full_attention_interval";
    check_gguf(dense, dense, "of 'full_attention_interval' every layer is what its number says, in a pattern of 3");
}

/* ---- the keys as a program ---- */

#define KEY(name, value)                                                         \
    {                                                                            \
        .key = (name), .is_integer = true, .integer = (value), .number = (value) \
    }

static void test_keys(void **state)
{
    static int64_t sizes[] = {64, 96, 64, -1};
    static int64_t three[] = {1, 2, 3};
    static struct vc_program_key keys[] = {
        KEY("a.block_count", 4),
        KEY("a.leading_dense_block_count", 3),
        KEY("a.embedding_length", 64),
        KEY("a.leading_dense_block_count", -1),
        {.key = "a.name", .text = "x"},
        {.key = "alone"},
        {.key = "a.feed_forward_length", .n = 4, .integers = sizes},
        {.key = "a.rope.sections", .n = 4, .integers = sizes},
        {.key = "a.three", .n = 3, .integers = three},
    };
    const struct vc_edit edits[] = {layers, {.key = VC_EDIT_INTERMEDIATE, .before = 64, .after = 32}};
    struct vc_program program = {.kind = VC_PROGRAM_KEYS, .keys = keys, .n_keys = sizeof keys / sizeof keys[0]};
    struct vc_ctx *ctx = test_ctx();
    struct vc_arena arena = {0};

    (void)state;
    assert_true(vc_gguf_says(&program, VC_EDIT_LAYERS, 4));
    assert_false(vc_gguf_says(&program, VC_EDIT_LAYERS, 5));
    assert_true(vc_gguf_says(&program, VC_EDIT_INTERMEDIATE, 96));
    assert_false(vc_gguf_says(&program, VC_EDIT_INTERMEDIATE, UINT64_MAX));
    assert_false(vc_gguf_says(&program, VC_EDIT_EXPERTS, 4));
    assert_int_equal(vc_gguf_edit_keys(ctx, edits, 2, &arena, &program), VC_OK);
    assert_int_equal(program.keys[0].integer, 2);
    assert_int_equal(program.keys[1].integer, 2);
    assert_int_equal(program.keys[2].integer, 64);
    assert_int_equal(program.keys[3].integer, -1);
    assert_int_equal(program.keys[6].n, 2);
    assert_int_equal(program.keys[6].integers[0], 32);
    assert_int_equal(program.keys[6].integers[1], 32);
    assert_int_equal(program.keys[7].n, 4);
    assert_int_equal(program.keys[7].integers[0], 64);
    assert_int_equal(program.keys[8].n, 3);
    vc_arena_release(ctx, &arena);
    test_ctx_done(ctx);
}

/* ---- folders that are quantized already ---- */

static enum vc_status drop_one(struct vc_ctx *ctx, struct vc_job *job)
{
    struct vc_depth_options depth;

    vc_depth_defaults(&depth);
    depth.drop = "1";
    depth.layers = "model.layers"; /* they are not alike */
    return vc_job_add_depth(ctx, job, &depth);
}

/* in/: three layers, the last one with a second matrix. */
static void make_folder(struct vc_ctx *ctx, const char *config)
{
    static const char *const names[] = {"0.up_proj", "1.up_proj", "2.up_proj", "2.down_proj"};
    struct zip_builder z = {0};
    size_t i;

    for (i = 0; i < 4; i++) {
        char name[60];

        (void)snprintf(name, sizeof name, "model.layers.%c.mlp%s.weight.npy", names[i][0], names[i] + 1);
        zip_add_bytes(&z, name, npy_matrix(32, 32), NULL);
    }
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save("in.npz", &z.out);
    zip_release(&z);
    assert_int_equal(mkdir(in_folder("in"), 0700), 0);
    must_run(ctx, "in.npz", "in/model.safetensors", task_copy());
    save_text("in/config.json", config);
}

/* A configuration names layers by numbers: it is written anew where the codes are ours, goes where nothing is left to
 * say, and is refused where its loader is another. */
static void test_named_layers(void **state)
{
    static const struct vc_rule rules[] = {{"*down_proj*", false}};
    struct vc_ctx *ctx = test_ctx();
    struct task int8 = task_int8();
    struct task shorter = task_copy();

    (void)state;
    shorter.add = drop_one;
    int8.quantize.rules = rules;
    int8.quantize.n_rules = 1;
    int8.write.layout = "compressed-tensors";
    make_folder(ctx, "{\"model_type\": \"llama\", \"num_hidden_layers\": 3, \"torch_dtype\": \"float32\"}");
    must_run(ctx, "in", "q", int8);
    assert_true(holds("q/config.json", "model.layers.2.mlp.down_proj"));
    must_run(ctx, "q", "out", shorter);
    assert_true(holds("out/config.json", "model.layers.1.mlp.down_proj"));
    assert_false(holds("out/config.json", "model.layers.2"));
    assert_true(holds("out/config.json", "\"num_hidden_layers\": 2"));
    remove_path("out");
    /* The same as another loader would say it, of codes that it does not know. */
    save_text("q/config.json", "{\"num_hidden_layers\": 3, \"quantization_config\": {\"quant_method\": \"fp8\", \"x\": "
                               "[{\"model.layers.2.mlp\": 1}]}}");
    assert_int_not_equal(run_task(ctx, "q", "out", &shorter), VC_OK);
    assert_false(exists("out"));
    /* Nothing is quantized: what it said of layers says nothing. */
    save_text("in/config.json",
              "{\"num_hidden_layers\": 3, \"quantization_config\": {\"quant_method\": \"fp8\", \"x\": "
              "[1, \"model.layers.2.mlp\"]}}");
    must_run(ctx, "in", "out", shorter);
    assert_false(holds("out/config.json", "model.layers"));
    remove_path("in");
    remove_path("q");
    remove_path("out");
    empty_folder();
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config), cmocka_unit_test(test_lists),        cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_keys),   cmocka_unit_test(test_named_layers),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
