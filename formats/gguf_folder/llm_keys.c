/* llm_keys.c - metadata of a GGUF model from config.json, in the kinds that llama.cpp insists on; and what a
 * configuration may say that llama.cpp computes in another way: refused, or told where only long texts differ. */
#include "formats/gguf_folder/llm_parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>

static bool is(const struct llm_family *family, const char *architecture)
{
    return strcmp(family->architecture, architecture) == 0;
}

uint64_t vc_llm_rotated(const struct llm_sizes *sizes, const struct llm_rope *rope)
{
    return (uint64_t)((double)sizes->head_size * rope->share);
}

/* llama.cpp scales by the head size; gemma says another number, but in the largest models. */
double vc_llm_attention_factor(const struct llm_config *config, const struct llm_family *family,
                               const struct llm_sizes *sizes)
{
    uint64_t largest = is(family, "gemma2") ? 46 : is(family, "gemma3") ? 62 : 0;
    double there = (double)(sizes->layers == largest ? sizes->hidden / sizes->heads : sizes->head_size);

    return largest == 0 ? 1.0 : sqrt(there / vc_llm_real(config, "query_pre_attn_scalar", 256.0));
}

/* Tokens that a sliding layer looks back; 0: all. */
static uint64_t window_of(const struct llm_config *config, const struct llm_family *family)
{
    const json_t *said = json_object_get(config->part, "sliding_window");

    if (json_is_null(said) || !vc_llm_flag(config, "use_sliding_window", family->window != 0 || said != NULL)) {
        return 0;
    }
    return vc_llm_count(config, "sliding_window", family->window);
}

/* ---- checks ---- */

static enum vc_status refuse_key(struct vc_ctx *ctx, const struct llm_family *family, const char *key, const char *why)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED, "config.json: \"%s\" %s, which llama.cpp has not in a model of the kind '%s'",
                   key, why, family->architecture);
}

/* Layers without rotary embeddings: every fourth, in llama.cpp. */
static bool is_every_fourth(const struct llm_config *config, uint64_t layers)
{
    const json_t *list = vc_llm_find(config, "no_rope_layers");

    if (list == NULL) {
        return vc_llm_count(config, "no_rope_layer_interval", 4) == 4;
    }
    for (uint64_t i = 0; i < layers; i++) {
        if ((json_integer_value(json_array_get(list, (size_t)i)) != 0) != ((i + 1) % 4 != 0)) {
            return false;
        }
    }
    return json_array_size(list) == layers;
}

static enum vc_status check_family(struct vc_ctx *ctx, const struct llm_config *config, const struct llm_family *family,
                                   const struct llm_sizes *sizes, const struct llm_rope *rope)
{
    static const char cap[] = "attn_logit_softcapping";

    if (is(family, "qwen3moe") && !vc_llm_flag(config, "norm_topk_prob", false)) {
        return refuse_key(ctx, family, "norm_topk_prob", "is false");
    }
    if (is(family, "qwen2moe") && vc_llm_flag(config, "norm_topk_prob", false)) {
        return refuse_key(ctx, family, "norm_topk_prob", "is true");
    }
    if (is(family, "smollm3") && !is_every_fourth(config, sizes->layers)) {
        return refuse_key(ctx, family, "no_rope_layers", "is not every fourth layer");
    }
    if (is(family, "gemma2") && (json_is_null(json_object_get(config->part, cap)) ||
                                 json_is_null(json_object_get(config->part, "final_logit_softcapping")))) {
        return refuse_key(ctx, family, cap, "or \"final_logit_softcapping\" is null");
    }
    if (is(family, "gpt-oss") && ((float)vc_llm_real(config, "swiglu_alpha", 1.702) != 1.702F ||
                                  vc_llm_real(config, "swiglu_limit", 7.0) != 7.0)) {
        return refuse_key(ctx, family, "swiglu_alpha", "or \"swiglu_limit\" is not 1.702 and 7");
    }
    if (is(family, "mistral3") && strcmp(rope->type, "yarn") != 0) {
        return refuse_key(ctx, family, "rope_type", "is not yarn");
    }
    if (is(family, "bert") && (vc_llm_flag(config, "is_decoder", false) ||
                               strcmp(vc_llm_word(config, "position_embedding_type", "absolute"), "absolute") != 0)) {
        return refuse_key(ctx, family, "is_decoder", "is true, or positions are no table");
    }
    if (is(family, "gemma3") && vc_llm_find(config, cap) != NULL) {
        return refuse_key(ctx, family, cap, "is there");
    }
    if (is(family, "gemma3") && vc_llm_flag(config, "use_bidirectional_attention", false)) {
        return refuse_key(ctx, family, "use_bidirectional_attention", "is true");
    }
    return VC_OK;
}

enum vc_status vc_llm_check(struct vc_ctx *ctx, const struct llm_config *config, const struct llm_family *family,
                            const struct llm_sizes *sizes, const struct llm_rope *rope, struct vc_model *model)
{
    const char *activation = vc_llm_word(config, "hidden_activation|hidden_act|activation_function", NULL);
    uint64_t window = window_of(config, family);
    enum vc_status status = VC_OK;

    if (activation != NULL && !vc_llm_is_one_of(activation, family->activation)) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "config.json: the activation is '%s', expected '%.*s'", activation,
                       (int)strcspn(family->activation, "|"), family->activation);
    }
    if ((family->flags & LLM_HEADS_FILL) != 0 && sizes->heads * sizes->head_size != sizes->hidden) {
        return refuse_key(ctx, family, "head_dim", "times the heads is not the hidden size");
    }
    if (vc_llm_rotated(sizes, rope) % 2 != 0 || sizes->head_size % 2 != 0) {
        return refuse_key(ctx, family, "head_dim", "is odd");
    }
    if (sizes->experts_used > sizes->experts) {
        return refuse_key(ctx, family, "num_experts_per_tok", "is more than there are experts");
    }
    if ((family->flags & LLM_SLIDES) != 0 && window == 0) {
        return refuse_key(ctx, family, "sliding_window", "is not there");
    }
    VC_TRY(check_family(ctx, config, family, sizes, rope));
    if ((family->flags & LLM_WINDOW_LOST) != 0 && window != 0 && window < sizes->context) {
        VC_TRY(vc_model_add_fact(
            ctx, model, VC_FACT_NOTE,
            "llama.cpp has no sliding window in such a model: answers are the same up to %" PRIu64 " tokens", window));
    }
out:
    return status;
}

/* ---- keys ---- */

/* general.file_type: of the type that most elements have. */
static uint32_t file_type(const struct llm_plan *plan)
{
    static const struct {
        enum vc_dtype dtype;
        uint32_t number;
    } numbers[] = {{VC_DTYPE_F32, 0}, {VC_DTYPE_F16, 1}, {VC_DTYPE_BF16, 32}, {VC_DTYPE_MXFP4, 38}};
    uint64_t n[VC_DTYPE_COUNT] = {0};
    size_t most = 0;

    for (size_t i = 0; i < plan->n; i++) {
        uint64_t elems = 1;

        for (unsigned d = 0; d < plan->tensors[i].n_dims; d++) {
            elems *= plan->tensors[i].shape[d];
        }
        n[plan->tensors[i].dtype] += elems;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        most = n[numbers[i].dtype] > n[numbers[most].dtype] ? i : most;
    }
    return numbers[most].number;
}

static bool has_letters(const char *text, const char *part)
{
    size_t n = strlen(part);

    for (; *text != '\0'; text++) {
        if (strncasecmp(text, part, n) == 0) {
            return true;
        }
    }
    return false;
}

/* The last part of "_name_or_path"; not where llama.cpp takes it for the name of a vocabulary that it treats in a
 * special way. A folder's own name is no part of what is in it. There is always a name: older transformers want one. */
static void put_name(const struct llm_config *config, struct llm_pairs *pairs)
{
    const char *name = json_string_value(json_object_get(config->root, "_name_or_path"));
    const char *slash = name != NULL ? strrchr(name, '/') : NULL;

    name = slash != NULL ? slash + 1 : name;
    if (name == NULL || name[0] == '\0' || has_letters(name, "phi-3") || has_letters(name, "phi3") ||
        has_letters(name, "modern-bert")) {
        name = "model";
    }
    vc_llm_put_text(pairs, "general.name", name);
}

/* Whether layer i slides, by the list, or by the rule of the family where there is none. */
static bool slides(const struct llm_config *config, const struct llm_family *family, uint64_t i)
{
    const json_t *types = vc_llm_find(config, "layer_types");
    const char *type = json_string_value(json_array_get(types, (size_t)i));
    uint64_t period =
        is(family, "olmo2") ? 4 : vc_llm_count(config, "sliding_window_pattern|_sliding_window_pattern", 6);

    if (types != NULL) {
        return type != NULL && strcmp(type, "sliding_attention") == 0;
    }
    return is(family, "gemma2") || is(family, "gpt-oss") ? i % 2 == 0 : period == 0 || (i + 1) % period != 0;
}

static enum vc_status put_windows(struct vc_ctx *ctx, const struct llm_config *config, const struct llm_family *family,
                                  const struct llm_sizes *sizes, struct llm_pairs *pairs)
{
    const json_t *types = vc_llm_find(config, "layer_types");

    if (types != NULL && json_array_size(types) != sizes->layers) {
        return vc_fail(ctx, VC_E_FORMAT, "config.json: \"layer_types\" has %zu entries, expected %" PRIu64,
                       json_array_size(types), sizes->layers);
    }
    vc_llm_put_u32(pairs, ".attention.sliding_window", window_of(config, family));
    vc_llm_put_array(pairs, ".attention.sliding_window_pattern", GGUF_BOOL, sizes->layers);
    for (uint64_t i = 0; i < sizes->layers; i++) {
        vc_llm_element_u8(pairs, slides(config, family, i));
    }
    return VC_OK;
}

static void put_family(const struct llm_config *config, const struct llm_family *family, const struct llm_sizes *sizes,
                       const struct llm_rope *rope, struct llm_pairs *pairs)
{
    if (is(family, "gemma2")) {
        vc_llm_put_f32(pairs, ".attn_logit_softcapping", vc_llm_real(config, "attn_logit_softcapping", 50.0));
        vc_llm_put_f32(pairs, ".final_logit_softcapping", vc_llm_real(config, "final_logit_softcapping", 30.0));
    } else if (is(family, "gemma3")) {
        vc_llm_put_f32(pairs, ".rope.freq_base_swa", rope->local_theta);
        if (vc_llm_find(config, "final_logit_softcapping") != NULL) {
            vc_llm_put_f32(pairs, ".final_logit_softcapping", vc_llm_real(config, "final_logit_softcapping", 0.0));
        }
    } else if (is(family, "granite")) {
        vc_llm_put_f32(pairs, ".attention.scale", vc_llm_real(config, "attention_multiplier", 1.0));
        vc_llm_put_f32(pairs, ".embedding_scale", vc_llm_real(config, "embedding_multiplier", 1.0));
        vc_llm_put_f32(pairs, ".residual_scale", vc_llm_real(config, "residual_multiplier", 1.0));
        vc_llm_put_f32(pairs, ".logit_scale", vc_llm_real(config, "logits_scaling", 1.0));
    } else if (is(family, "phi3")) {
        vc_llm_put_u32(pairs, ".attention.sliding_window", window_of(config, family));
    } else if (is(family, "mistral3")) {
        vc_llm_put_f32(pairs, ".rope.scaling.yarn_log_multiplier", vc_llm_real_of(rope->block, "mscale_all_dim", 0.0));
        vc_llm_put_f32(pairs, ".attention.temperature_scale", vc_llm_real_of(rope->block, "llama_4_scaling_beta", 0.0));
    } else if (is(family, "qwen2moe")) {
        vc_llm_put_u32(pairs, ".expert_shared_feed_forward_length", sizes->shared_size);
    }
}

static void put_encoder(const struct llm_config *config, const struct llm_family *family, const struct llm_sizes *sizes,
                        struct llm_pairs *pairs)
{
    vc_llm_put_f32(pairs, ".attention.layer_norm_epsilon", vc_llm_real(config, "layer_norm_eps", family->epsilon));
    vc_llm_put_bool(pairs, ".attention.causal", false);
    vc_llm_put_u32(pairs, ".vocab_size", sizes->vocabulary);
    vc_llm_put_u32(pairs, "tokenizer.ggml.token_type_count", sizes->types);
}

enum vc_status vc_llm_keys_put(struct vc_ctx *ctx, const struct llm_config *config, const struct llm_family *family,
                               const struct llm_sizes *sizes, const struct llm_rope *rope, const struct llm_plan *plan,
                               struct llm_pairs *pairs)
{
    bool head_size = (family->flags & LLM_NO_HEAD_SIZE) == 0 &&
                     (sizes->head_size_given || sizes->head_size * sizes->heads != sizes->hidden);
    enum vc_status status = VC_OK;

    vc_llm_put_text(pairs, VC_GGUF_KEY_ARCHITECTURE, family->architecture);
    vc_llm_put_text(pairs, "general.type", "model");
    put_name(config, pairs);
    vc_llm_put_u32(pairs, vc_gguf_known_keys[GGUF_FILE_TYPE], file_type(plan));
    vc_llm_put_u32(pairs, vc_gguf_known_keys[GGUF_QUANTIZER], VC_GGUF_QUANTIZATION);
    vc_llm_put_u32(pairs, ".block_count", sizes->layers);
    vc_llm_put_u32(pairs, ".context_length", sizes->context);
    vc_llm_put_u32(pairs, ".embedding_length", sizes->hidden);
    vc_llm_put_u32(pairs, ".feed_forward_length", sizes->feed_forward);
    vc_llm_put_u32(pairs, ".attention.head_count", sizes->heads);
    if ((family->flags & LLM_ENCODER) != 0) {
        put_encoder(config, family, sizes, pairs);
        return VC_OK;
    }
    vc_llm_put_u32(pairs, ".attention.head_count_kv", sizes->key_heads);
    if (head_size) {
        vc_llm_put_u32(pairs, ".attention.key_length", sizes->head_size);
        vc_llm_put_u32(pairs, ".attention.value_length", sizes->head_size);
    }
    vc_llm_put_f32(pairs, ".attention.layer_norm_rms_epsilon",
                   vc_llm_real(config, "rms_norm_eps|norm_eps", family->epsilon != 0 ? family->epsilon : 1e-6));
    vc_llm_put_u32(pairs, ".vocab_size", sizes->vocabulary);
    vc_llm_put_f32(pairs, ".rope.freq_base", rope->theta);
    vc_llm_put_u32(pairs, ".rope.dimension_count", vc_llm_rotated(sizes, rope));
    if (sizes->experts != 0) {
        vc_llm_put_u32(pairs, ".expert_count", sizes->experts);
        vc_llm_put_u32(pairs, ".expert_used_count", sizes->experts_used);
    }
    if ((family->flags & LLM_EXPERT_SIZE) != 0) {
        vc_llm_put_u32(pairs, ".expert_feed_forward_length", sizes->expert_size);
    }
    put_family(config, family, sizes, rope, pairs);
    VC_TRY((family->flags & LLM_SLIDES) != 0 ? put_windows(ctx, config, family, sizes, pairs) : VC_OK);
out:
    return status;
}
