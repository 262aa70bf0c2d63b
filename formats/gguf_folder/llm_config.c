/* llm_config.c - config.json as llama.cpp's metadata need it. Files of transformers 4 and 5 say the same things in
 * different places; here they are looked up in both.
 *
 * A model that also sees or hears has its text part in "text_config" and the like. A key is looked for in that part
 * first, then at the top: transformers' composite classes put "tie_word_embeddings" and token ids there. What neither
 * says is the default of transformers' class (arch/arch.h), and only then the caller's `otherwise`. */
#include "formats/gguf_folder/llm_parts.h"

#include <stdlib.h>

#include "core/base/checked.h"
#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/infolder.h"
#include "kernels/functions.h"

/* Sets root, part, model_type and arch; they point into out->json. */
enum vc_status vc_llm_config_read(struct vc_ctx *ctx, const struct vc_model *source, struct llm_config *out)
{
    VC_SCOPED char *text = NULL;
    size_t n = 0;

    *out = (struct llm_config){.root = NULL};
    VC_CALL(vc_hf_config_read_beside(ctx, vc_infolder_path(source->folder), &text, &n));
    VC_REFUSE_IF(text == NULL, ctx, VC_E_UNSUPPORTED, "has no config.json, which says what the model computes");
    if (vc_hf_config_parse(ctx, text, n, true, &out->json) != VC_OK) {
        return vc_context(ctx, VC_HF_CONFIG_NAME);
    }
    VC_CALL_ALLOC(out->wrong = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *out->wrong));
    out->root = out->json.root;
    out->part = vc_config_text(out->root);
    out->model_type = json_string_value(vc_llm_find(out, "model_type"));
    out->arch = vc_arch_find_text(out->model_type);
    return VC_OK;
}

/* A row without a list of tensors ("layer") is for graphs only. */
const struct vc_arch_family *vc_llm_family(const char *model_type)
{
    const struct vc_arch_family *family = vc_arch_family(model_type);

    return family != NULL && family->layer != NULL ? family : NULL;
}

/* snprintf's count may pass `room`; the loop ends there, and the text is cut. */
const char *vc_llm_family_list(char *list, size_t room)
{
    const struct vc_arch_family *f;
    size_t n = 0;

    for (size_t i = 0; (f = vc_arch_family_at(i)) != NULL && n < room; i++) {
        if (f->layer != NULL) {
            n += (size_t)snprintf(list + n, room - n, "%s%s", i == 0 ? "" : ", ", f->types);
        }
    }
    return list;
}

void vc_llm_config_free(struct vc_ctx *ctx, struct llm_config *config)
{
    vc_hf_json_free(&config->json);
    vc_free(ctx, config->wrong);
    *config = (struct llm_config){.root = NULL};
}

json_t *vc_llm_find(const struct llm_config *config, const char *names)
{
    json_t *value = vc_config_find(config->part, names);

    return value != NULL ? value : vc_config_find(config->root, names);
}

/* Records that a value is of a wrong kind, if it is the first. */
static void note_wrong(const struct llm_config *config, const char *names, const json_t *value, const char *wanted)
{
    if (config->wrong != NULL && config->wrong->names == NULL) {
        *config->wrong = (struct llm_wrong){names, wanted, value};
    }
}

static double real_value(const struct llm_config *config, const json_t *value, const char *names, double otherwise)
{
    if (value != NULL && !json_is_number(value) && !json_is_null(value)) {
        note_wrong(config, names, value, "a number");
    }
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

/* Of a list with an entry for each layer, all alike, that entry: "moe_topk": [8, 8, 8]. */
static const json_t *only_entry(const json_t *value)
{
    const json_t *first = json_array_get(value, 0);

    for (size_t i = 1; i < json_array_size(value); i++) {
        first = json_equal(first, json_array_get(value, i)) ? first : NULL;
    }
    return first != NULL ? first : value;
}

/* A negative number is "none" to many keys: "pad_token_id": -1. A fraction of 0 is a whole number: 2.0. */
uint64_t vc_llm_count(const struct llm_config *config, const char *names, uint64_t otherwise)
{
    const json_t *value = only_entry(vc_llm_find(config, names));
    double x = real_value(config, value, names, -1.0);

    if (json_is_integer(value)) {
        return json_integer_value(value) >= 0 ? (uint64_t)json_integer_value(value) : otherwise;
    }
    if (json_is_real(value) && !(x == floor(x) && x < 0x1p53)) {
        note_wrong(config, names, value, "a whole number");
    }
    return x >= 0.0 && x == floor(x) && x < 0x1p53 ? (uint64_t)x : otherwise;
}

double vc_llm_real(const struct llm_config *config, const char *names, double otherwise)
{
    return real_value(config, vc_llm_find(config, names), names, otherwise);
}

bool vc_llm_flag(const struct llm_config *config, const char *names, bool otherwise)
{
    const json_t *value = vc_llm_find(config, names);

    if (json_is_string(value) || json_is_number(value)) {
        note_wrong(config, names, value, "true or false");
    }
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* A truth value is no wrong word: "use_bidirectional_attention" is true, false or "all". */
const char *vc_llm_word(const struct llm_config *config, const char *names, const char *otherwise)
{
    const json_t *value = vc_llm_find(config, names);

    if (json_is_number(value)) {
        note_wrong(config, names, value, "a text");
    }
    return json_is_string(value) ? json_string_value(value) : otherwise;
}

double vc_llm_real_of(const struct llm_config *config, const json_t *object, const char *name, double otherwise)
{
    return real_value(config, json_object_get(object, name), name, otherwise);
}

enum vc_status vc_llm_config_check(struct vc_ctx *ctx, const struct llm_config *config)
{
    static const char *const others[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_TRUE] = "true", [JSON_FALSE] = "false"};
    const struct llm_wrong *wrong = config->wrong;
    const char *key;
    size_t n;

    if (wrong == NULL || wrong->names == NULL) {
        return VC_OK;
    }
    key = vc_config_key(vc_config_find(config->part, wrong->names) == wrong->value ? config->part : config->root,
                        wrong->names, &n);
    VC_REFUSE_IF(json_is_string(wrong->value), ctx, VC_E_FORMAT, "%s: %.*s is \"%.40s\", not %s", VC_HF_CONFIG_NAME,
                 (int)n, key, json_string_value(wrong->value), wrong->wanted);
    VC_REFUSE_IF(json_is_number(wrong->value), ctx, VC_E_FORMAT, "%s: %.*s is %.9g, not %s", VC_HF_CONFIG_NAME, (int)n,
                 key, json_number_value(wrong->value), wrong->wanted);
    return vc_fail(ctx, VC_E_FORMAT, "%s: %.*s is %s, not %s", VC_HF_CONFIG_NAME, (int)n, key,
                   others[json_typeof(wrong->value)], wrong->wanted);
}

/* vc_arch_number answers its third argument for a name without a number, so a later name that has one wins. */
double vc_llm_usual(const struct llm_config *config, const char *names, double otherwise)
{
    char name[64];

    while (names != NULL) {
        const char *end = strchr(names, '|');

        (void)snprintf(name, sizeof name, "%.*s", (int)(end != NULL ? (size_t)(end - names) : strlen(names)), names);
        otherwise = vc_arch_number(config->arch, name, otherwise);
        names = end != NULL ? end + 1 : NULL;
    }
    return otherwise;
}

/* Says of a size that it follows from others. transformers then calculates it, and does not take the class's default:
 * "head_dim": null is hidden size / heads. */
static bool is_null(const struct llm_config *config, const char *names)
{
    return json_is_null(json_object_getn(config->part, names, strcspn(names, "|")));
}

/* How many layers the lists of kinds have. */
static uint64_t count_of_kinds(const struct llm_config *config)
{
    const char *letters = json_string_value(vc_llm_find(config, "hybrid_override_pattern"));

    return letters != NULL ? strlen(letters) : json_array_size(vc_llm_find(config, "layer_types|layers_block_type"));
}

enum vc_status vc_llm_kinds_check(struct vc_ctx *ctx, const struct llm_config *config,
                                  const struct vc_arch_family *family, uint64_t layers)
{
    const char *name = vc_llm_find(config, "layer_types") != NULL ? "layer_types" : "layers_block_type";
    const char *words = vc_arch_slides(family) ? "full_attention|sliding_attention"
                                               : "full_attention|attention|linear_attention|mamba|conv|mlp|moe";
    const json_t *types = vc_llm_find(config, name);
    const char *letters = json_string_value(vc_llm_find(config, "hybrid_override_pattern"));

    if (!vc_arch_has_kinds(family)) {
        return VC_OK;
    }
    VC_REFUSE_IF(letters != NULL && (strlen(letters) != layers || strspn(letters, "M*-E") != layers), ctx, VC_E_FORMAT,
                 "%s: \"hybrid_override_pattern\" has no 'M', '*', '-' or 'E' for each of %llu layers",
                 VC_HF_CONFIG_NAME, (unsigned long long)layers);
    VC_REFUSE_IF(types != NULL && json_array_size(types) != layers, ctx, VC_E_FORMAT,
                 "%s: \"%s\" has %zu entries, expected %llu", VC_HF_CONFIG_NAME, name, json_array_size(types),
                 (unsigned long long)layers);
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *word = json_string_value(json_array_get(types, i));

        VC_REFUSE_IF(word == NULL || !vc_is_one_of(word, words), ctx, VC_E_UNSUPPORTED,
                     "%s: entry %zu of \"%s\" is no kind of layer that is known here: %.40s", VC_HF_CONFIG_NAME, i,
                     name, word != NULL ? word : "no text");
    }
    return VC_OK;
}

/* A size that there has to be, and that is no larger than an i32, as llama.cpp has them. What config.json does not say
 * is what transformers takes; else there are as many key heads as heads, which fill the hidden size. heads stands
 * before key heads and head size in the table of pairs, so it is not 0 in the division. */
static enum vc_status need(struct vc_ctx *ctx, const struct llm_config *config, const struct vc_arch_pair *key,
                           struct vc_arch_sizes *sizes)
{
    uint64_t *size = vc_arch_pair_size(sizes, key);
    uint64_t usual = is_null(config, key->names) ? 0 : (uint64_t)vc_llm_usual(config, key->names, 0);
    uint64_t otherwise = usual != 0 ? usual : *size;
    bool may_be_0 = key->source != VC_FROM_SIZE && key->source != VC_FROM_HEAD_SIZE;

    otherwise = otherwise == 0 && key->otherwise > 0 ? (uint64_t)key->otherwise : otherwise;
    if (otherwise == 0 && key->field == offsetof(struct vc_arch_sizes, layers)) {
        otherwise = count_of_kinds(config);
    } else if (otherwise == 0 && key->field == offsetof(struct vc_arch_sizes, feed_forward)) {
        otherwise = 4 * sizes->hidden; /* "n_inner": null */
    } else if (otherwise == 0 && key->field == offsetof(struct vc_arch_sizes, decoder_layers)) {
        otherwise = sizes->layers;
    } else if (otherwise == 0 && key->field == offsetof(struct vc_arch_sizes, step_rank)) {
        otherwise = (sizes->hidden + 15) / 16;
    } else if (otherwise == 0 && key->field == offsetof(struct vc_arch_sizes, key_heads)) {
        otherwise = sizes->heads;
    } else if (otherwise == 0 && key->field == offsetof(struct vc_arch_sizes, head_size)) {
        otherwise = sizes->hidden / (sizes->heads != 0 ? sizes->heads : 1);
    }
    *size = vc_llm_count(config, key->names, otherwise);
    VC_CALL(vc_llm_config_check(ctx, config));
    VC_REFUSE_IF((*size == 0 && !may_be_0) || *size > INT32_MAX, ctx, VC_E_UNSUPPORTED,
                 "%s: expected a whole number for \"%.*s\"", VC_HF_CONFIG_NAME, (int)strcspn(key->names, "|"),
                 key->names);
    return VC_OK;
}

/* Gemma 4: heads of layers that do not slide have sizes of their own, by a key, or by an entry for each such layer.
 *
 *     "per_layer_config": {"5": {"head_dim": 512, "num_key_value_heads": 2}, ...}
 *
 * 512 and 256 are the defaults of transformers' Gemma4TextConfig. */
static void read_full_sizes(const struct llm_config *config, const struct vc_arch_family *family,
                            struct vc_arch_sizes *out)
{
    json_t *entries = vc_llm_find(config, "per_layer_config");
    const char *layer;
    json_t *entry;

    out->full_head = vc_llm_count(config, "global_head_dim", 512);
    out->full_keys = out->key_heads;
    if (vc_llm_flag(config, "attention_k_eq_v", false)) {
        out->full_keys = vc_llm_count(config, "num_global_key_value_heads", out->key_heads);
    }
    json_object_foreach(entries, layer, entry)
    {
        const json_t *head = json_object_get(entry, "head_dim");
        const json_t *keys = json_object_get(entry, "num_key_value_heads");

        if (!vc_llm_is_second(config, family, strtoull(layer, NULL, 10))) {
            out->full_head = json_is_integer(head) ? (uint64_t)json_integer_value(head) : out->full_head;
            out->full_keys = json_is_integer(keys) ? (uint64_t)json_integer_value(keys) : out->full_keys;
        }
    }
    out->wide = out->owners != out->layers && vc_llm_flag(config, "use_double_wide_mlp", false);
}

/* Gemma 3n and 4: layers have inputs of their own, and the last ones use keys and values of others. */
static void read_layer_inputs(const struct llm_config *config, struct vc_arch_sizes *out)
{
    uint64_t shared =
        vc_llm_count(config, "num_kv_shared_layers", (uint64_t)vc_llm_usual(config, "num_kv_shared_layers", 0));

    out->input = vc_llm_count(config, "hidden_size_per_layer_input", 256);
    out->owners = shared < out->layers ? out->layers - shared : 0;
}

/* Elements of a head of a recurrent layer: "auto" is what fills the inner size. */
static uint64_t recurrent_head(const struct llm_config *config, const struct vc_arch_sizes *sizes)
{
    const char *names = "mamba_d_head|mamba_head_dim|head_dim";

    if (json_is_string(vc_llm_find(config, names)) || vc_llm_find(config, names) == NULL) {
        return vc_llm_count(config, "mamba_expand|expand", 2) * sizes->hidden / sizes->value_units;
    }
    return vc_llm_count(config, names, 64);
}

/* Layers in front without experts, where a list says it layer by layer. VC_E_UNSUPPORTED: there are some behind. */
static enum vc_status take_dense_layers(struct vc_ctx *ctx, const struct llm_config *config, struct vc_arch_sizes *out)
{
    const json_t *list = vc_llm_find(config, "mlp_layer_types");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        bool dense = word != NULL && strcmp(word, "dense") == 0;

        out->dense = i == 0 ? 0 : out->dense;
        VC_REFUSE_IF(dense && out->dense != i, ctx, VC_E_UNSUPPORTED,
                     "%s: \"mlp_layer_types\" has \"dense\" behind \"sparse\", which llama.cpp has not",
                     VC_HF_CONFIG_NAME);
        out->dense += dense;
    }
    return VC_OK;
}

/* Sizes that follow from others, family by family. */
static enum vc_status derive_sizes(struct vc_ctx *ctx, const struct llm_config *config,
                                   const struct vc_arch_family *family, struct vc_arch_sizes *out)
{
    const char *gguf = family->gguf;

    if (vc_arch_is_latent(family)) {
        out->head_size = vc_llm_count(config, "qk_rope_head_dim", 64);
        out->plain = vc_llm_count(config, "qk_nope_head_dim", 128);
        VC_REFUSE_IF(out->plain > INT32_MAX || out->head_size > INT32_MAX, ctx, VC_E_FORMAT,
                     "%s: \"qk_nope_head_dim\" or \"qk_rope_head_dim\" is no size", VC_HF_CONFIG_NAME);
    }
    if (strcmp(gguf, "mamba") == 0) {
        out->value_units = out->feed_forward = vc_llm_count(config, "intermediate_size|d_inner", 2 * out->hidden);
        out->key_units = out->unit = 1;
    } else if (strcmp(gguf, "jamba") == 0) { /* one expert is none */
        out->value_units = vc_llm_count(config, "mamba_expand", 2) * out->hidden;
        out->key_units = out->unit = 1;
        out->experts_used = vc_min_u64(out->experts_used, out->experts);
    } else if (out->state != 0) {
        out->unit = recurrent_head(config, out);
    }
    out->state = out->state != 0 ? out->state : out->unit;
    if (vc_is_one_of(gguf, "mamba|mamba2")) { /* no attention: these divide nothing */
        out->heads = out->head_size = 2;
    }
    if (vc_is_one_of(gguf, "falcon|starcoder")) {
        out->key_heads = vc_llm_flag(config, "multi_query", true) ? 1 : out->heads;
        if (vc_llm_flag(config, "new_decoder_architecture", false)) {
            out->key_heads = vc_llm_count(config, "num_kv_heads", out->heads);
        }
    }
    out->key_heads = out->key_heads != 0 ? out->key_heads : out->heads;
    if (strcmp(family->class_name, "GraniteMoeHybrid") == 0 && !vc_arch_has(family, VC_ARCH_EXPERTS)) {
        out->feed_forward = vc_llm_count(config, "shared_intermediate_size", out->feed_forward);
    }
    if (strcmp(gguf, "lfm2") == 0 && vc_llm_flag(config, "block_auto_adjust_ff_dim", true)) {
        double factor = vc_llm_real(config, "block_ffn_dim_multiplier", 1.0);
        uint64_t multiple = vc_llm_count(config, "block_multiple_of", 256);
        uint64_t size = (uint64_t)(factor * (double)(2 * out->feed_forward / 3));

        VC_REFUSE_IF(multiple == 0 || !(factor > 0 && factor < 1024), ctx, VC_E_FORMAT,
                     "%s: \"block_multiple_of\" or \"block_ffn_dim_multiplier\" is no number above 0",
                     VC_HF_CONFIG_NAME);
        out->feed_forward = (size + multiple - 1) / multiple * multiple;
    }
    VC_CALL(take_dense_layers(ctx, config, out));
    if (vc_arch_is_latent(family) && !vc_arch_has(family, VC_ARCH_EXPERTS)) {
        out->dense = out->layers;
    }
    if (!vc_arch_has(family, VC_ARCH_SHARED_EXPERT)) {
        out->shared_size = out->expert_size * (strcmp(gguf, "llama4") == 0 ? 1 : out->shared);
    }
    if (strcmp(gguf, "hunyuan-moe") == 0) {
        out->shared_size = out->feed_forward;
    }
    return VC_OK;
}

/* The sizes of recurrent layers begin as Qwen3-Next's class has them; then every row of sizes that the family knows is
 * read. Encoders: RoBERTa counts positions from pad_token_id + 1, and llama.cpp's table begins at the first that a
 * token has. */
enum vc_status vc_llm_sizes_read(struct vc_ctx *ctx, const struct llm_config *config,
                                 const struct vc_arch_family *family, struct vc_arch_sizes *out)
{
    *out = (struct vc_arch_sizes){.kernel = 4, .unit = 128, .key_units = 16, .value_units = 32};
    for (const struct vc_arch_pair *key = vc_arch_pairs; key->gguf != NULL; key++) {
        if (key->source <= VC_FROM_COUNT_IF_ANY && vc_arch_knows_pair(family, key)) {
            VC_CALL(need(ctx, config, key, out));
        }
    }
    VC_CALL(vc_llm_config_check(ctx, config));
    out->head_size_given = vc_llm_find(config, "head_dim|d_kv") != NULL || vc_llm_usual(config, "head_dim", 0) != 0;
    out->expert_size = out->expert_size != 0 ? out->expert_size : out->feed_forward;
    VC_CALL(derive_sizes(ctx, config, family, out));
    if (vc_arch_has(family, VC_ARCH_ENCODER)) {
        out->types = vc_llm_count(config, "type_vocab_size", strcmp(config->model_type, "distilbert") == 0 ? 1 : 2);
        out->skipped = vc_is_one_of(config->model_type, "bert|distilbert|nomic_bert")
                           ? 0
                           : vc_llm_count(config, "pad_token_id", 1) + 1;
        VC_REFUSE_IF(out->skipped >= out->context, ctx, VC_E_FORMAT, "%s: \"pad_token_id\" leaves no positions",
                     VC_HF_CONFIG_NAME);
        out->context -= out->skipped;
        out->context = vc_min_u64(out->context, vc_llm_count(config, "max_trained_positions", out->context));
    }
    if (strcmp(family->gguf, "gemma3n") == 0) {
        read_layer_inputs(config, out);
        out->input_rows = vc_llm_count(config, "vocab_size_per_layer_input", 0);
        out->copies = vc_llm_count(config, "altup_num_inputs", 4);
        out->laurel = vc_llm_count(config, "laurel_rank", 64);
    }
    if (strcmp(family->gguf, "gemma4") == 0) {
        read_layer_inputs(config, out);
        read_full_sizes(config, family, out);
        VC_REFUSE_IF(out->full_head == 0 || out->full_head > INT32_MAX || out->full_keys == 0 || out->input > INT32_MAX,
                     ctx, VC_E_FORMAT, "%s: \"global_head_dim\", key heads or inputs of layers are no sizes",
                     VC_HF_CONFIG_NAME);
    }
    VC_REFUSE_IF(out->heads % out->key_heads != 0 || (out->full_keys != 0 && out->heads % out->full_keys != 0), ctx,
                 VC_E_FORMAT, "%s: %llu heads cannot share %llu key heads%s", VC_HF_CONFIG_NAME,
                 (unsigned long long)out->heads,
                 (unsigned long long)(out->heads % out->key_heads != 0 ? out->key_heads : out->full_keys),
                 vc_llm_find(config, "num_key_value_heads") == NULL
                     ? ", which transformers takes where \"num_key_value_heads\" is not there"
                     : "");
    return VC_OK;
}

/* HunYuan stretches its positions once and for all: theta times alpha ^ (d / (d - 2)) for heads of d. */
static void take_alpha(const struct llm_config *config, const struct vc_arch_family *family, struct llm_rope *rope)
{
    double alpha = vc_llm_real_of(config, rope->block, "alpha", 0.0);
    double heads = (double)vc_llm_count(config, "num_attention_heads", 1);
    double d = (double)vc_llm_count(config, "head_dim", (uint64_t)(vc_llm_real(config, "hidden_size", 0.0) / heads));

    if (strcmp(family->gguf, "hunyuan-dense") == 0 && strcmp(rope->type, "dynamic") == 0 && alpha > 0 && d > 2) {
        rope->theta *= vc_exp_f64(vc_log_f64(alpha) * (d / (d - 2)));
        rope->type = "default";
    }
}

/* transformers 5: "rope_parameters", one block, or a block for each kind of layer ("full_attention",
 * "sliding_attention"). transformers 4: "rope_scaling" with "rope_theta" beside it. Refused: what the class reads and
 * llama.cpp cannot compute, so that no file is written with other positions than the source. */
enum vc_status vc_llm_rope_read(struct vc_ctx *ctx, const struct llm_config *config,
                                const struct vc_arch_family *family, struct llm_rope *out)
{
    const json_t *block = vc_llm_find(config, "rope_parameters|rope_scaling");
    const json_t *full = json_object_get(block, "full_attention");
    const json_t *local = json_object_get(block, "sliding_attention");
    const char *local_type = json_string_value(json_object_get(local, "rope_type"));
    double theta = vc_llm_real(config, "rope_theta|rotary_emb_base|global_rope_theta",
                               vc_llm_usual(config, "rope_theta", 10000.0));

    if (block != NULL && !json_is_object(block)) {
        note_wrong(config, "rope_parameters|rope_scaling", block, "an object");
    }
    block = json_is_object(full) ? full : json_is_object(block) ? block : NULL;
    out->block = block;
    const json_t *type = vc_config_find(block, "rope_type|type");
    if (type != NULL && !json_is_string(type)) {
        note_wrong(config, "rope_type", type, "a text");
    }
    out->type = json_is_string(type) ? json_string_value(type) : "default";
    out->theta = vc_llm_real_of(config, block, "rope_theta", theta);
    if (strcmp(out->type, "mrope") == 0) { /* older files; "mrope_section" says the rest */
        out->type = "default";
    }
    take_alpha(config, family, out);
    out->local_theta = vc_llm_real_of(config, local, "rope_theta",
                                      vc_llm_real(config, "rope_local_base_freq|local_rope_theta", 10000.0));
    if (!(out->theta > 0.0 && out->local_theta > 0.0)) { /* NaN and infinities are 0 here (hf_json.c) */
        return vc_fail(ctx, VC_E_FORMAT, "%s: \"%s\" is no number above 0, the base of rotary embeddings",
                       VC_HF_CONFIG_NAME, out->theta > 0.0 ? "rope_local_base_freq" : "rope_theta");
    }
    VC_REFUSE_IF(
        block == NULL &&
            (vc_arch_is(config->arch, "rope_type", "yarn") || vc_arch_is(config->arch, "rope_type", "llama3")),
        ctx, VC_E_UNSUPPORTED,
        "%s: there is no \"rope_parameters\", and transformers takes a scaling with numbers of its own for a '%s'",
        VC_HF_CONFIG_NAME, config->model_type);
    if (block == NULL && vc_arch_is(config->arch, "rope_type", "proportional")) {
        out->type = "proportional";
    }
    const char *names = strcmp(family->class_name, "Bamba") == 0 ? "" : "partial_rotary_factor|rotary_pct";
    out->share = vc_llm_real_of(/* Bamba's class has 0.5 in the place of what stands outside of the block */
                                config, block, "partial_rotary_factor",
                                vc_llm_real(config, names, vc_llm_usual(config, "partial_rotary_factor", 1.0)));
    if (vc_llm_find(config, "rotary_dim") != NULL && vc_llm_find(config, "head_dim") != NULL &&
        vc_arch_has(family, VC_ARCH_PARTIAL)) { /* MiniMax says the elements themselves */
        out->share = vc_llm_real(config, "rotary_dim", 0.0) / vc_llm_real(config, "head_dim", 1.0);
    }
    VC_REFUSE_IF(!vc_arch_has(family, VC_ARCH_PARTIAL) && !vc_arch_is_latent(family) && out->share != 1.0 &&
                     strcmp(out->type, "default") != 0,
                 ctx, VC_E_UNSUPPORTED,
                 "%s: \"partial_rotary_factor\" is not 1, and a '%s' of transformers rotates all of each head",
                 VC_HF_CONFIG_NAME, config->model_type);
    out->share = vc_arch_has(family, VC_ARCH_PARTIAL) ? out->share : 1.0; /* its class does not read the key */
    VC_REFUSE_IF(local_type != NULL && strcmp(local_type, "default") != 0, ctx, VC_E_UNSUPPORTED,
                 "%s: rotary embeddings of sliding layers are scaled ('%s')", VC_HF_CONFIG_NAME, local_type);
    VC_REFUSE_IF(!(out->share > 0.0 && out->share <= 1.0), ctx, VC_E_FORMAT,
                 "%s: \"partial_rotary_factor\" is no share", VC_HF_CONFIG_NAME);
    return VC_OK;
}

/* How transformers' class makes the list of the kinds of layers; NULL: its layers are alike. Classes may have several
 * lists with rules; the one for "layer_types" counts. */
static const struct vc_arch_list *rule_of_kinds(const struct llm_config *config)
{
    const struct vc_arch_list *rule = NULL;
    size_t i = 0;

    do {
        rule = config->arch != NULL ? vc_arch_list(config->arch->type, i++) : NULL;
    } while (rule != NULL && strcmp(rule->list, "layer_types") != 0);
    return rule;
}

/* By the list, or by the rule of the class where there is none, which makes full attention of every so many layers.
 * VC_ARCH_LAST_ENDS: transformers makes the last layer a full one, whatever the list says. */
bool vc_llm_is_second(const struct llm_config *config, const struct vc_arch_family *family, uint64_t layer)
{
    const struct vc_arch_list *rule = rule_of_kinds(config);
    const char *type = vc_config_kind(config->part, layer);
    uint64_t layers = vc_llm_count(config, "num_hidden_layers", 0);
    char names[128]; /* of the number in it; saved models of some versions have it with the line in front */

    if (!vc_arch_has_kinds(family) || (rule != NULL && rule->rule == VC_ARCH_LAST_ENDS && layer + 1 == layers)) {
        return false;
    }
    if (vc_llm_find(config, "layer_types") != NULL || type != NULL) {
        return type != NULL &&
               (vc_arch_has(family, VC_ARCH_RECURRENT) ? !vc_is_one_of(type, "full_attention|attention|mlp|moe")
                                                       : strcmp(type, "sliding_attention") == 0);
    }
    if (rule == NULL) {
        return false;
    }
    (void)snprintf(names, sizeof names, "%s|_%s", rule->key, rule->key);
    return !vc_arch_list_other(rule, vc_llm_count(config, names, rule->number), layer, layers);
}

/* Layers of Nemotron-H have one part each; others have attention or what is in its place, and a feed-forward part. */
unsigned vc_llm_kinds(const struct llm_config *config, const struct vc_arch_family *family,
                      const struct vc_arch_sizes *sizes, uint64_t layer)
{
    const char *type = vc_config_kind(config->part, layer);
    bool experts = vc_arch_has(family, VC_ARCH_EXPERTS) && layer >= sizes->dense &&
                   (sizes->step <= 1 || (layer + 1) % sizes->step == 0);

    if (strcmp(family->gguf, "jamba") == 0) {
        experts = sizes->experts > 1 && layer % vc_llm_count(config, "expert_layer_period", 2) ==
                                            vc_llm_count(config, "expert_layer_offset", 1);
    }
    if (type != NULL && vc_is_one_of(family->gguf, "nemotron_h|nemotron_h_moe") && vc_is_one_of(type, "mlp|moe")) {
        return strcmp(type, "mlp") == 0 ? LLM_DENSE : LLM_SPARSE;
    }
    if (vc_is_one_of(family->gguf, "nemotron_h|nemotron_h_moe")) {
        return vc_llm_is_second(config, family, layer) ? LLM_SECOND : LLM_FIRST;
    }
    return (vc_llm_is_second(config, family, layer) ? LLM_SECOND : LLM_FIRST) | (experts ? LLM_SPARSE : LLM_DENSE);
}
