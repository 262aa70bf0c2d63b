/* llm_keys.c - metadata of a GGUF model from config.json, in the kinds that llama.cpp insists on; and what a
 * configuration may say that llama.cpp computes in another way: refused, or told where only long texts differ.
 *
 * Three parts: sizes that several keys share; checks (vc_llm_check, before any tensor is planned); the keys. Most keys
 * are rows of arch/arch_keys.c, which this file reads as it would a list; functions here are for what no row says. */
#include "formats/gguf_folder/llm_parts.h"
#include "formats/huggingface/config/hf_config.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

/* Whether the family is written as that general.architecture. */
static bool is(const struct vc_arch_family *family, const char *architecture)
{
    return strcmp(family->gguf, architecture) == 0;
}

/* Gemma 4 rotates the larger heads of its full layers whole: what does not turn there has a divisor of 1e30
 * (llm_rope.c). */
uint64_t vc_llm_rotated(const struct vc_arch_sizes *sizes, const struct llm_rope *rope)
{
    return sizes->full_head != 0 ? sizes->full_head : (uint64_t)((double)sizes->head_size * rope->share);
}

/* llama.cpp scales by the head size; gemma says another number, but in the largest models.
 *
 * Both divide scores by a square root: transformers by that of "query_pre_attn_scalar" s, llama.cpp by that of d, the
 * head size, or in the largest model of the family hidden size / heads. The factor is sqrt(d / s). Gemma 2 27B: d = 4608
 * / 32 = 144 = s, factor 1. */
double vc_llm_attention_factor(const struct llm_config *config, const struct vc_arch_family *family,
                               const struct vc_arch_sizes *sizes)
{
    double there = (double)(sizes->layers == family->largest ? sizes->hidden / sizes->heads : sizes->head_size);

    return family->largest == 0 ? 1.0
                                : sqrt(there / vc_llm_real(config, "query_pre_attn_scalar",
                                                           vc_llm_usual(config, "query_pre_attn_scalar", 0.0)));
}

/* Tokens that a sliding layer looks back; 0: all. null, and "use_sliding_window" false, mean that there is none;
 * transformers of Qwen2 say the size all the same. */
static uint64_t window_of(const struct llm_config *config)
{
    const json_t *said = json_object_get(config->part, "sliding_window");
    uint64_t both = strcmp(config->model_type, "modernbert") == 0 ? vc_llm_count(config, "local_attention", 128) : 0;
    uint64_t usual = (uint64_t)vc_llm_usual(config, "sliding_window", 0);

    if (both != 0) { /* of both sides */
        return both;
    }
    if (json_is_null(said) || !vc_llm_flag(config, "use_sliding_window", usual != 0 || said != NULL)) {
        return 0;
    }
    return vc_llm_count(config, "sliding_window", usual);
}

/* llama.cpp tells recurrent layers by their key heads, of which they have none. */
static bool has_no_keys(const struct vc_arch_family *family)
{
    return vc_arch_has(family, VC_ARCH_RECURRENT) && !vc_llm_says_recurrent(family);
}

/* Gemma 4: full layers have larger heads, layers that use the keys of others may have a feed-forward part of twice the
 * size. Nemotron-H: layers with a feed-forward part have nothing else. */
struct vc_arch_sizes vc_llm_layer_sizes(const struct llm_config *config, const struct vc_arch_family *family,
                                        const struct vc_arch_sizes *sizes, uint64_t layer)
{
    struct vc_arch_sizes own = *sizes;

    if (sizes->full_head != 0 && !vc_llm_is_second(config, family, layer)) {
        own.head_size = sizes->full_head;
        own.key_heads = sizes->full_keys;
    }
    own.feed_forward *= sizes->wide && layer >= sizes->owners ? 2 : 1;
    if (has_no_keys(family) && (vc_llm_kinds(config, family, sizes, layer) & LLM_FIRST) == 0) {
        own.key_heads = 0;
    }
    if (vc_is_one_of(family->gguf, "nemotron_h|nemotron_h_moe")) {
        unsigned kinds = vc_llm_kinds(config, family, sizes, layer);

        own.feed_forward = (kinds & LLM_SPARSE) != 0 ? sizes->expert_size : own.feed_forward;
        own.feed_forward = (kinds & (LLM_DENSE | LLM_SPARSE)) != 0 ? own.feed_forward : 0;
    }
    return own;
}

/* ---- checks ---- */

/* "config.json: "sliding_window" is not there, which llama.cpp has not in a model of the kind 'gemma3'". */
static enum vc_status refuse_key(struct vc_ctx *ctx, const struct vc_arch_family *family, const char *key,
                                 const char *why)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED, "config.json: \"%s\" %s, which llama.cpp has not in a model of the kind '%s'",
                   key, why, family->gguf);
}

/* Layers without rotary embeddings: every fourth, in llama.cpp. The list has 1 for a layer with rotary embeddings: 1 1
 * 1 0 1 1 1 0. */
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

/* llama.cpp takes keys and values of the last sliding and the last full layer that have some, from the two last ones.
 */
static enum vc_status check_owners(struct vc_ctx *ctx, const struct llm_config *config,
                                   const struct vc_arch_family *family, const struct vc_arch_sizes *sizes)
{
    return sizes->owners < 2 ||
                   (sizes->owners < sizes->layers && (!vc_llm_is_second(config, family, sizes->owners - 2) ||
                                                      vc_llm_is_second(config, family, sizes->owners - 1)))
               ? refuse_key(ctx, family, "num_kv_shared_layers",
                            "leaves no sliding layer and a full one behind it in front of them")
               : VC_OK;
}

static enum vc_status check_gemma4(struct vc_ctx *ctx, const struct llm_config *config,
                                   const struct vc_arch_family *family, const struct vc_arch_sizes *sizes)
{
    if (strcmp(vc_llm_word(config, "use_bidirectional_attention", ""), "all") == 0) {
        return refuse_key(ctx, family, "use_bidirectional_attention", "is \"all\"");
    }
    return check_owners(ctx, config, family, sizes);
}

/* llama.cpp's graph has these numbers in its code: 20 layers with keys and values, every fifth of them full, 10 with
 * sparse activations. */
static enum vc_status check_gemma3n(struct vc_ctx *ctx, const struct llm_config *config,
                                    const struct vc_arch_family *family, const struct vc_arch_sizes *sizes)
{
    static const struct {
        const char *key;
        double value;
    } fixed[] = {{"altup_num_inputs", 4},
                 {"altup_active_idx", 0},
                 {"laurel_rank", 64},
                 {"final_logit_softcapping", 30},
                 {"hidden_size_per_layer_input", 256}};
    const json_t *sparse = vc_llm_find(config, "activation_sparsity_pattern");
    bool spread =
        json_is_array(sparse) ? json_array_size(sparse) == sizes->layers : sparse == NULL && sizes->layers > 10;

    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (json_is_null(json_object_get(config->part, fixed[i].key)) ||
            vc_llm_real(config, fixed[i].key, fixed[i].value) != fixed[i].value) {
            return refuse_key(ctx, family, fixed[i].key, "is another number than Google's models have");
        }
    }
    for (uint64_t i = 0; i < sizes->layers; i++) {
        double share = json_number_value(json_array_get(sparse, (size_t)i));

        spread = spread && (sparse == NULL || share == (i < 10 ? 0.95 : 0.0));
        if (vc_llm_is_second(config, family, i) != ((i + 1) % 5 != 0)) {
            return refuse_key(ctx, family, "layer_types", "has not full attention in each fifth layer");
        }
    }
    if (!spread || !vc_llm_flag(config, "altup_correct_scale", true)) {
        return refuse_key(ctx, family, "activation_sparsity_pattern",
                          "is not 0.95 in the first ten layers and 0 in the others, or \"altup_correct_scale\" false");
    }
    if (sizes->owners != (sizes->layers < 20 ? sizes->layers : 20)) {
        return refuse_key(ctx, family, "num_kv_shared_layers", "does not leave 20 layers with keys and values");
    }
    return check_owners(ctx, config, family, sizes);
}

/* T5's two kinds of feed-forward parts are known by their tensors; llama.cpp has the farthest distance in its code. */
static enum vc_status check_t5(struct vc_ctx *ctx, const struct llm_config *config, const struct vc_arch_family *family)
{
    if (!vc_is_one_of(vc_llm_word(config, "feed_forward_proj", "relu"), "relu|gated-gelu")) {
        return refuse_key(ctx, family, "feed_forward_proj", "is neither \"relu\" nor \"gated-gelu\"");
    }
    return vc_llm_count(config, "relative_attention_max_distance", 128) != 128
               ? refuse_key(ctx, family, "relative_attention_max_distance", "is not 128")
               : VC_OK;
}

/* Of nomic-embed-text's first program: what its configuration may say, and its models do not. */
static enum vc_status check_nomic(struct vc_ctx *ctx, const struct llm_config *config,
                                  const struct vc_arch_family *family)
{
    static const char no[] = "prenorm|qkv_proj_bias|mlp_fc1_bias|mlp_fc2_bias|rotary_emb_interleaved|causal";

    for (const char *at = no; at != NULL; at = strchr(at, '|') != NULL ? strchr(at, '|') + 1 : NULL) {
        char key[32];

        (void)snprintf(key, sizeof key, "%.*s", (int)strcspn(at, "|"), at);
        VC_RETURN_IF(json_is_true(vc_llm_find(config, key)), refuse_key(ctx, family, key, "is true"));
    }
    if (vc_llm_count(config, "moe_every_n_layers", 0) != 0) {
        return refuse_key(ctx, family, "moe_every_n_layers", "is above 0");
    }
    return vc_llm_real(config, "rotary_emb_fraction", 1.0) != 1.0 ||
                   vc_llm_find(config, "rotary_emb_scale_base") != NULL
               ? refuse_key(ctx, family, "rotary_emb_fraction", "is not 1, or there is a \"rotary_emb_scale_base\"")
               : VC_OK;
}

/* llama.cpp knows by heart how far a layer looks, which layers are rotated, and how scores grow with the position. */
static enum vc_status check_llama4(struct vc_ctx *ctx, const struct llm_config *config,
                                   const struct vc_arch_family *family, const struct vc_arch_sizes *sizes)
{
    const json_t *layers = vc_llm_find(config, "moe_layers");
    uint64_t chunk = vc_llm_count(config, "attention_chunk_size", 8192);
    size_t n = 0;

    if (!is_every_fourth(config, sizes->layers)) {
        return refuse_key(ctx, family, "no_rope_layers", "is not every fourth layer");
    }
    if (vc_llm_flag(config, "use_qk_norm", true) != (sizes->experts != 128)) { /* it goes by the number of experts */
        return refuse_key(ctx, family, "use_qk_norm", sizes->experts != 128 ? "is false" : "is true");
    }
    if (chunk != 8192 && chunk < sizes->context) {
        return refuse_key(ctx, family, "attention_chunk_size", "is not 8192");
    }
    if (sizes->context > 8192 &&
        (vc_llm_count(config, "floor_scale", 8192) != 8192 || (float)vc_llm_real(config, "attn_scale", 0.1) != 0.1F)) {
        return refuse_key(ctx, family, "floor_scale", "is not 8192, or \"attn_scale\" not 0.1");
    }
    for (uint64_t i = 0; layers != NULL && i < sizes->layers; i++) {
        bool experts = (uint64_t)json_integer_value(json_array_get(layers, n)) == i && n < json_array_size(layers);

        if (experts != ((i + 1) % sizes->step == 0)) {
            return refuse_key(ctx, family, "moe_layers", "is not each layer of \"interleave_moe_layer_step\"");
        }
        n += experts;
    }
    return VC_OK;
}

/* Whether sections are those of time, height and width, and all pairs of a head are in one: [24, 20, 20] of 128. */
static bool shares_pairs(const json_t *sections, uint64_t rotated)
{
    json_int_t sum = 0;
    bool fine = json_array_size(sections) == 3;

    for (size_t i = 0; i < 3 && fine; i++) {
        json_int_t n = json_integer_value(json_array_get(sections, i));

        fine = n >= 0 && n <= (json_int_t)rotated;
        sum += n;
    }
    return fine && (uint64_t)sum == rotated / 2;
}

/* DeepSeek's kind: llama.cpp turns neighbours of a head, takes the best groups of experts wherever there are some, and
 * tells models without compressed queries by their layers. */
static enum vc_status check_latent(struct vc_ctx *ctx, const struct llm_config *config,
                                   const struct vc_arch_family *family, const struct vc_arch_sizes *sizes)
{
    if (vc_arch_is_latent(family) && !vc_llm_flag(config, "rope_interleave", true)) {
        return refuse_key(ctx, family, "rope_interleave", "is false");
    }
    if (strcmp(config->model_type, "deepseek_v2") == 0 && sizes->groups > 1 &&
        strcmp(vc_llm_word(config, "topk_method", "greedy"), "group_limited_greedy") != 0) {
        return refuse_key(ctx, family, "topk_method", "is not \"group_limited_greedy\", and \"n_group\" is above 1");
    }
    if (sizes->groups > 1 && (sizes->experts % sizes->groups != 0 || sizes->groups_used > sizes->groups)) {
        return refuse_key(ctx, family, "n_group", "does not divide the experts, or is less than \"topk_group\"");
    }
    if (vc_arch_is_latent(family) && sizes->query_rank == 0 && sizes->layers != 26 && sizes->layers != 27 &&
        !(sizes->layers == 48 && vc_llm_count(config, "vocab_size", 0) == 128256)) {
        return refuse_key(ctx, family, "q_lora_rank", "is not there in a model without 26 or 27 layers");
    }
    return VC_OK;
}

/* llama.cpp adds half of both, and rotates in all layers without experts. */
static enum vc_status check_cohere_moe(struct vc_ctx *ctx, const struct llm_config *config,
                                       const struct vc_arch_family *family, const struct vc_arch_sizes *sizes)
{
    bool rotates = vc_llm_count(config, "prefix_dense_sliding_window_pattern", 1) == 1;

    if (vc_llm_find(config, "layer_types") == NULL) {
        return refuse_key(ctx, family, "layer_types", "is not there");
    }
    for (uint64_t i = 0; i < sizes->dense && !rotates; i++) {
        if (!vc_llm_is_second(config, family, i)) {
            return refuse_key(ctx, family, "prefix_dense_sliding_window_pattern", "is not 1");
        }
    }
    return sizes->shared != 0 &&
                   strcmp(vc_llm_word(config, "shared_expert_combination_strategy", "average"), "average") != 0
               ? refuse_key(ctx, family, "shared_expert_combination_strategy", "is not \"average\"")
               : VC_OK;
}

/* Layers that keep a state, alone or between those of attention: their heads, and which layers they are. */
static enum vc_status check_recurrent(struct vc_ctx *ctx, const struct llm_config *config,
                                      const struct vc_arch_family *family, const struct vc_arch_sizes *sizes)
{
    if (vc_llm_says_recurrent(family) && vc_llm_count(config, "linear_value_head_dim", 128) != sizes->unit) {
        return refuse_key(ctx, family, "linear_value_head_dim", "is not \"linear_key_head_dim\"");
    }
    if (sizes->value_units % sizes->key_units != 0) {
        return refuse_key(ctx, family, "linear_num_value_heads", "is no multiple of \"linear_num_key_heads\"");
    }
    if (vc_llm_says_recurrent(family) && vc_llm_count(config, "full_attention_interval", 4) == 0) {
        return refuse_key(ctx, family, "full_attention_interval", "is 0");
    }
    if (vc_is_one_of(family->gguf, "granitehybrid|jamba") && vc_arch_size_of(sizes, 'i') != 2 * sizes->hidden) {
        return refuse_key(ctx, family, "mamba_expand", "is not 2");
    }
    if (is(family, "jamba") &&
        (vc_llm_count(config, "attn_layer_period", 0) == 0 || vc_llm_find(config, "attn_layer_offset") == NULL ||
         vc_llm_count(config, "expert_layer_period", 2) == 0)) {
        return refuse_key(ctx, family, "attn_layer_period", "or \"attn_layer_offset\" is not there");
    }
    if (is(family, "falcon-h1") &&
        (vc_llm_count(config, "mamba_d_ssm", vc_arch_size_of(sizes, 'i')) != vc_arch_size_of(sizes, 'i') ||
         (vc_llm_flag(config, "mamba_rms_norm", false) && vc_llm_flag(config, "mamba_norm_before_gate", true)))) {
        return refuse_key(ctx, family, "mamba_norm_before_gate", "is true, or \"mamba_d_ssm\" not all heads together");
    }
    return VC_OK;
}

/* What llama.cpp's graph of a family does without asking a key: another value in config.json cannot be written, so it
 * is refused. A row per check; the order decides which sentence is seen first, nothing else. */
static enum vc_status check_family(struct vc_ctx *ctx, const struct llm_config *config,
                                   const struct vc_arch_family *family, const struct vc_arch_sizes *sizes,
                                   const struct llm_rope *rope)
{
    static const char cap[] = "attn_logit_softcapping";

    bool sum_is_1 = vc_llm_flag(config, "norm_topk_prob", vc_arch_flag(config->arch, "norm_topk_prob"));

    if (vc_arch_has(family, VC_ARCH_SUM_KEY) && sum_is_1 != vc_arch_has(family, VC_ARCH_SUM_IS_1)) {
        return refuse_key(ctx, family, "norm_topk_prob", sum_is_1 ? "is true" : "is false");
    }
    VC_CALL(check_recurrent(ctx, config, family, sizes));
    if (is(family, "olmoe") && vc_llm_find(config, "clip_qkv") != NULL) {
        return refuse_key(ctx, family, "clip_qkv", "is there");
    }
    if (is(family, "olmoe") && sizes->heads != sizes->key_heads) {
        return refuse_key(ctx, family, "num_key_value_heads", "is not the number of heads");
    }
    VC_CALL(check_latent(ctx, config, family, sizes));
    if (is(family, "cohere2moe")) {
        return check_cohere_moe(ctx, config, family, sizes);
    }
    if (is(family, "exaone4") && window_of(config) != 0 && sizes->layers != 64) {
        return refuse_key(ctx, family, "sliding_window", "is there in a model without 64 layers");
    }
    if (is(family, "llama4")) {
        return check_llama4(ctx, config, family, sizes);
    }
    if (is(family, "ernie4_5-moe") && vc_llm_count(config, "moe_layer_end_index", sizes->layers) + 1 < sizes->layers) {
        return refuse_key(ctx, family, "moe_layer_end_index", "is not that of the last layer");
    }
    if (is(family, "command-r") && vc_llm_flag(config, "use_qk_norm", false)) {
        return refuse_key(ctx, family, "use_qk_norm", "is true");
    }
    if (is(family, "gpt2") && !(vc_llm_flag(config, "scale_attn_weights", true) &&
                                !vc_llm_flag(config, "scale_attn_by_inverse_layer_idx", false))) {
        return refuse_key(ctx, family, "scale_attn_weights", "is false, or \"scale_attn_by_inverse_layer_idx\" true");
    }
    if (is(family, "falcon") && (vc_llm_flag(config, "alibi", false) || !vc_llm_flag(config, "parallel_attn", true))) {
        return refuse_key(ctx, family, "alibi", "is true, or \"parallel_attn\" false");
    }
    if (is(family, "starcoder") && sizes->key_heads != 1) {
        return refuse_key(ctx, family, "multi_query", "is false");
    }
    if (is(family, "bloom") && vc_llm_flag(config, "apply_residual_connection_post_layernorm", false)) {
        return refuse_key(ctx, family, "apply_residual_connection_post_layernorm", "is true");
    }
    if (is(family, "nemotron_h_moe") && vc_llm_find(config, "moe_latent_size") != NULL) {
        return refuse_key(ctx, family, "moe_latent_size", "is there");
    }
    if (vc_arch_has(family, VC_ARCH_SECTIONS) &&
        !shares_pairs(json_object_get(rope->block, "mrope_section"), vc_llm_rotated(sizes, rope))) {
        return refuse_key(ctx, family, "mrope_section",
                          "is no list of three numbers of pairs, all of a head's together");
    }
    if (is(family, "gemma4")) {
        return check_gemma4(ctx, config, family, sizes);
    }
    if (is(family, "gemma3n")) {
        return check_gemma3n(ctx, config, family, sizes);
    }
    if (vc_is_one_of(family->gguf, "t5|t5encoder")) {
        return check_t5(ctx, config, family);
    }
    if (is(family, "nomic-bert")) {
        return check_nomic(ctx, config, family);
    }
    if (is(family, "smollm3") && !is_every_fourth(config, sizes->layers)) {
        return refuse_key(ctx, family, "no_rope_layers", "is not every fourth layer");
    }
    if (vc_arch_has(family, VC_ARCH_CAPS_SCORES) &&
        (json_is_null(json_object_get(config->part, cap)) ||
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
    if (family->largest != 0 &&
        !(vc_llm_real(config, "query_pre_attn_scalar", vc_llm_usual(config, "query_pre_attn_scalar", 0.0)) > 0.0)) {
        return refuse_key(ctx, family, "query_pre_attn_scalar", "is no number above 0");
    }
    if (vc_arch_has(family, VC_ARCH_CAPS_LOGITS) && !vc_arch_has(family, VC_ARCH_CAPS_SCORES) &&
        vc_llm_find(config, cap) != NULL) {
        return refuse_key(ctx, family, cap, "is there");
    }
    if (vc_arch_slides(family) && json_is_true(vc_llm_find(config, "use_bidirectional_attention"))) {
        return refuse_key(ctx, family, "use_bidirectional_attention", "is true");
    }
    return VC_OK;
}

/* model NULL: on the way back, where the checks only compare config.json with the file. */
static enum vc_status note(struct vc_ctx *ctx, struct vc_model *model, const char *text)
{
    return model == NULL ? VC_OK : vc_model_add_fact(ctx, model, VC_FACT_NOTE, "%s", text);
}

static enum vc_status note_window(struct vc_ctx *ctx, struct vc_model *model, uint64_t window)
{
    char text[128];

    (void)snprintf(text, sizeof text,
                   "llama.cpp has no sliding window in such a model: answers are the same up to %" PRIu64 " tokens",
                   window);
    return note(ctx, model, text);
}

/* Checks of all families, then of one. A window that llama.cpp ignores is no error: texts up to its size have the same
 * answers. */
enum vc_status vc_llm_check(struct vc_ctx *ctx, const struct llm_config *config, const struct vc_arch_family *family,
                            const struct vc_arch_sizes *sizes, const struct llm_rope *rope, struct vc_model *model)
{
    const char *activation =
        vc_llm_word(config, "hidden_activation|mlp_hidden_act|hidden_act|activation_function|activation", NULL);
    uint64_t window = window_of(config);

    VC_REFUSE_IF(activation != NULL && family->activation != NULL && !vc_is_one_of(activation, family->activation), ctx,
                 VC_E_UNSUPPORTED, "config.json: the activation is '%s', expected '%.*s'", activation,
                 (int)strcspn(family->activation, "|"), family->activation);
    if (vc_arch_has(family, VC_ARCH_HEADS_FILL) && sizes->heads * sizes->head_size != sizes->hidden) {
        return refuse_key(ctx, family, "head_dim", "times the heads is not the hidden size");
    }
    if (vc_llm_rotated(sizes, rope) % 2 != 0 || sizes->head_size % 2 != 0) {
        return refuse_key(ctx, family, "head_dim", "is odd");
    }
    if (sizes->experts_used > sizes->experts) {
        return refuse_key(ctx, family, "num_experts_per_tok", "is more than there are experts");
    }
    if (vc_arch_slides(family) && window == 0 && !is(family, "exaone4")) {
        return refuse_key(ctx, family, "sliding_window", "is not there");
    }
    VC_CALL(vc_llm_kinds_check(ctx, config, family, sizes->layers));
    VC_CALL(check_family(ctx, config, family, sizes, rope));
    if (strcmp(config->model_type, "deepseek_v2") == 0 && sizes->groups > 1) {
        VC_CALL(note(
            ctx, model,
            "llama.cpp chooses groups of experts by the two best of each, the source by the best one: answers differ"));
    }
    if (strcmp(config->model_type, "falcon_mamba") == 0 &&
        vc_llm_real(config, "mixer_rms_eps", 1e-6) != vc_llm_real(config, "layer_norm_epsilon", 1e-5)) {
        VC_CALL(
            note(ctx, model,
                 "llama.cpp has \"layer_norm_epsilon\" in the place of \"mixer_rms_eps\": answers differ a little"));
    }
    if (vc_arch_loses_window(family) && window != 0 && window < sizes->context) {
        VC_CALL(note_window(ctx, model, window));
    }
    return VC_OK;
}

/* ---- keys ---- */

/* "rope_..." are stored where the rotary embeddings are scaled, the others where llama.cpp loses the window
 * (put_rest). */
const char *const vc_llm_rest[] = {"rope_parameters",    "rope_scaling",      "model_type", "sliding_window",
                                   "use_sliding_window", "max_window_layers", NULL};

/* What the values of the rows of arch/arch_keys.c come from. */
struct numbers {
    const struct llm_config *config;
    const struct vc_arch_family *family;
    const struct vc_arch_sizes *sizes;
    const struct llm_rope *rope;
};

/* NaN and infinities in a config.json are 0 here (hf_json.c). An epsilon of 0 would divide by 0 at a row of zeros. */
enum vc_status vc_llm_epsilon_check(struct vc_ctx *ctx, const struct llm_config *config, const char *names)
{
    VC_REFUSE_IF(!(vc_llm_real(config, names, 1.0) > 0.0), ctx, VC_E_FORMAT,
                 "%s: \"%s\" is no number above 0, which norms add to a mean of squares", VC_HF_CONFIG_NAME, names);
    return VC_OK;
}

/* Hybrids whose attention has no rotary positions. */
static bool turns_nothing(const struct llm_config *config, const struct vc_arch_family *family)
{
    return vc_is_one_of(family->gguf, "granitehybrid|nemotron_h|nemotron_h_moe") &&
           !vc_arch_has(family, VC_ARCH_PARTIAL) &&
           strcmp(vc_llm_word(config, "position_embedding_type", ""), "rope") != 0;
}

/* Writes the pair of one row. A size that differs between layers is an array with an entry for each layer (`listed`).
 * The head size is written only if it is not hidden size / heads (`unusual`): llama.cpp then calculates the same. A
 * real number that config.json does not say is the default of the class, then the row's `otherwise`. */
static void put_key(const struct numbers *from, const struct vc_arch_pair *key, struct llm_pairs *pairs)
{
    const struct vc_arch_sizes *sizes = from->sizes;
    struct vc_arch_sizes own = *sizes; /* of a layer */
    bool unusual = sizes->head_size_given || sizes->head_size * sizes->heads != sizes->hidden;
    bool listed = (key->field == offsetof(struct vc_arch_sizes, key_heads) && sizes->full_keys != 0 &&
                   sizes->full_keys != sizes->key_heads) ||
                  (key->field == offsetof(struct vc_arch_sizes, feed_forward) && sizes->wide) ||
                  (key->field == offsetof(struct vc_arch_sizes, key_heads) &&
                   (has_no_keys(from->family) || strcmp(from->family->class_name, "GraniteMoeHybrid") == 0)) ||
                  (key->field == offsetof(struct vc_arch_sizes, feed_forward) &&
                   vc_is_one_of(from->family->gguf, "nemotron_h|nemotron_h_moe"));
    bool flag;

    if (key->field == offsetof(struct vc_arch_sizes, context) && turns_nothing(from->config, from->family)) {
        own.context = 1 << 20; /* no position says where it ends */
    }
    switch (key->source) {
    case VC_FROM_SIZE:
    case VC_FROM_HEAD_SIZE:
        if (listed) {
            vc_llm_put_array(pairs, key->gguf, GGUF_I32, sizes->layers);
            for (uint64_t i = 0; i < sizes->layers; i++) {
                own = vc_llm_layer_sizes(from->config, from->family, sizes, i);

                vc_llm_element_u32(pairs, (uint32_t)*vc_arch_pair_size(&own, key));
            }
        } else if (key->source == VC_FROM_SIZE || unusual) {
            vc_llm_put_u32(pairs, key->gguf, *vc_arch_pair_size(&own, key));
        }
        break;
    case VC_FROM_COUNT:
    case VC_FROM_COUNT_IF_ANY:
        if (key->source == VC_FROM_COUNT || *vc_arch_pair_size(&own, key) != 0) {
            vc_llm_put_u32(pairs, key->gguf, *vc_arch_pair_size(&own, key));
        }
        break;
    case VC_FROM_LETTER:
        vc_llm_put_u32(pairs, key->gguf, vc_arch_size_of(sizes, (char)key->field));
        break;
    case VC_FROM_CONSTANT:
        vc_llm_put_u32(pairs, key->gguf, (uint64_t)key->otherwise);
        break;
    case VC_FROM_FLAG:
        flag = key->otherwise != 0 || vc_arch_flag(from->config->arch, key->names);
        vc_llm_put_bool(pairs, key->gguf, vc_llm_flag(from->config, key->names, flag));
        break;
    case VC_FROM_VOCABULARY:
        vc_llm_put_u32(pairs, key->gguf, sizes->vocabulary);
        break;
    case VC_FROM_ROTATED:
        vc_llm_put_u32(pairs, key->gguf, vc_llm_rotated(sizes, from->rope));
        break;
    case VC_FROM_WINDOW:
        vc_llm_put_u32(pairs, key->gguf, window_of(from->config));
        break;
    case VC_FROM_THETA:
    case VC_FROM_LOCAL_THETA:
        vc_llm_put_f32(pairs, key->gguf, key->source == VC_FROM_THETA ? from->rope->theta : from->rope->local_theta);
        break;
    default:
        if (key->source != VC_FROM_REAL_IF_SAID || vc_llm_find(from->config, key->names) != NULL) {
            vc_llm_put_f32(
                pairs, key->gguf,
                vc_llm_real(from->config, key->names, vc_llm_usual(from->config, key->names, key->otherwise)));
        }
    }
}

/* general.file_type: of the type that most elements have. The numbers are those of llama_ftype in llama.h. Ties go to
 * the earlier row. */
static uint32_t file_type(const struct llm_plan *plan)
{
    static const struct {
        enum vc_dtype dtype;
        uint32_t number;
    } numbers[] = {{VC_DTYPE_F32, 0},   {VC_DTYPE_F16, 1},    {VC_DTYPE_Q4_0, 2},  {VC_DTYPE_Q8_0, 7},
                   {VC_DTYPE_BF16, 32}, {VC_DTYPE_MXFP4, 38}, {VC_DTYPE_NVFP4, 39}};
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

/* Whether the text holds the part, in letters of any case. */
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

/* The kinds of all layers. An array of truth values: true for a layer that slides, or is recurrent. */
static void put_kinds(const struct llm_config *config, const struct vc_arch_family *family,
                      const struct vc_arch_sizes *sizes, struct llm_pairs *pairs)
{
    bool recurrent = vc_arch_has(family, VC_ARCH_RECURRENT);

    if (!recurrent && window_of(config) == 0) { /* exaone4 */
        return;
    }
    if (!recurrent) {
        vc_llm_put_u32(pairs, ".attention.sliding_window", window_of(config));
    }
    vc_llm_put_array(pairs, recurrent ? ".attention.recurrent_layers" : ".attention.sliding_window_pattern", GGUF_BOOL,
                     sizes->layers);
    for (uint64_t i = 0; i < sizes->layers; i++) {
        vc_llm_element_u8(pairs, vc_llm_is_second(config, family, i));
    }
}

/* Keys without a suffix are of full layers, "_swa" of sliding ones. */
static void put_gemma4(const struct vc_arch_sizes *sizes, struct llm_pairs *pairs)
{
    vc_llm_put_u32(pairs, ".attention.shared_kv_layers", sizes->layers - sizes->owners);
    vc_llm_put_u32(pairs, ".embedding_length_per_layer_input", sizes->input);
    vc_llm_put_u32(pairs, ".attention.key_length", sizes->full_head);
    vc_llm_put_u32(pairs, ".attention.value_length", sizes->full_head);
    vc_llm_put_u32(pairs, ".attention.key_length_swa", sizes->head_size);
    vc_llm_put_u32(pairs, ".attention.value_length_swa", sizes->head_size);
    vc_llm_put_u32(pairs, ".rope.dimension_count_swa", sizes->head_size);
}

/* The standard normal distribution has 95 % below 1.6448533, so that the gate of a tenth of the layers keeps a twentieth;
 * minus infinity keeps all. */
static void put_gemma3n(const struct vc_arch_sizes *sizes, struct llm_pairs *pairs)
{
    vc_llm_put_u32(pairs, ".altup.active_idx", 0);
    vc_llm_put_u32(pairs, ".altup.num_inputs", sizes->copies);
    vc_llm_put_u32(pairs, ".embedding_length_per_layer_input", sizes->input);
    vc_llm_put_u32(pairs, ".attention.shared_kv_layers", sizes->layers - sizes->owners);
    vc_llm_put_array(pairs, ".activation_sparsity_scale", GGUF_F32, sizes->layers);
    for (uint64_t i = 0; i < sizes->layers; i++) {
        vc_llm_element_f32(pairs, i < 10 ? 1.6448533535003662F : -INFINITY);
    }
}

/* Of models that also see: how many pairs of a head are turned by time, height and width of a picture, and how many
 * layers get features of pictures. A folder of the text part alone has no such layers. 11 + 11 + 10 are the 32 pairs of
 * Qwen3.5's 64 rotated elements, and the fourth number is llama.cpp's, always 0. */
static void put_sections(const struct llm_config *config, const struct llm_rope *rope, const char *architecture,
                         struct llm_pairs *pairs)
{
    static const uint32_t usual[4] = {11, 11, 10, 0};
    const json_t *sections = json_object_get(rope->block, "mrope_section");
    const json_t *seen = json_object_get(json_object_get(config->root, "vision_config"), "deepstack_visual_indexes");

    vc_llm_put_array(pairs, ".rope.dimension_sections", GGUF_I32, 4);
    for (size_t i = 0; i < 4; i++) {
        vc_llm_element_u32(pairs,
                           sections != NULL ? (uint32_t)json_integer_value(json_array_get(sections, i)) : usual[i]);
    }
    if (seen != NULL && strncmp(architecture, "qwen3vl", 7) == 0) {
        vc_llm_put_u32(pairs, ".n_deepstack_layers", json_array_size(seen));
    }
}

const char *const vc_llm_xielu[4] = {"alpha_n", "alpha_p", "beta", "eps"};

enum vc_status vc_llm_xielu_put(struct vc_ctx *ctx, const struct vc_model *source, const struct vc_arch_sizes *sizes,
                                struct llm_pairs *pairs)
{
    char name[64];

    for (size_t k = 0; k < 4; k++) {
        (void)snprintf(name, sizeof name, "xielu.%s", vc_llm_xielu[k]);
        vc_llm_put_array(pairs, name, GGUF_F32, sizes->layers);
        for (uint64_t i = 0; i < sizes->layers; i++) {
            size_t at = 0;
            float value;

            (void)snprintf(name, sizeof name, "layers.%" PRIu64 ".mlp.act_fn.%s", i, vc_llm_xielu[k]);
            while (at < source->n_tensors && !vc_ends_in(source->tensors[at].name, name)) {
                at++;
            }
            VC_REFUSE_IF(at == source->n_tensors, ctx, VC_E_UNSUPPORTED,
                         "no tensor of the folder is '%s', which llama.cpp needs of this activation", name);
            VC_REFUSE_IF(source->tensors[at].n_elems != 1, ctx, VC_E_UNSUPPORTED,
                         "%s: it has %" PRIu64 " elements, expected 1", name, source->tensors[at].n_elems);
            VC_CALL(vc_llm_value_read(ctx, source, at, 0, &value));
            vc_llm_element_f32(pairs, value);
        }
    }
    return VC_OK;
}

/* An encoder sees the whole text: its attention is not causal. */
static void put_encoder(const struct vc_arch_sizes *sizes, struct llm_pairs *pairs)
{
    vc_llm_put_bool(pairs, ".attention.causal", false);
    vc_llm_put_u32(pairs, ".vocab_size", sizes->vocabulary);
    vc_llm_put_u32(pairs, "tokenizer.ggml.token_type_count", sizes->types);
}

/* What transformers computes by and no key of llama.cpp's says: "vcompress.config" has it, for the way back. llama.cpp
 * reads no such key. */
static enum vc_status put_rest(struct vc_ctx *ctx, const struct llm_config *config, const struct vc_arch_family *family,
                               const struct llm_rope *rope, struct llm_pairs *pairs)
{
    uint64_t window = vc_arch_loses_window(family) ? window_of(config) : 0;
    const char *keeps = family->keeps != NULL ? family->keeps : "";
    bool other = !vc_arch_loses_window(family) &&
                 vc_arch_family_of_gguf(family->gguf, vc_arch_has(family, VC_ARCH_EXPERTS), vc_arch_slides(family)) !=
                     family; /* whom the way back takes the file for */
    char name[64];
    json_t *rest = json_object();
    bool failed = rest == NULL;

    for (size_t i = 0; vc_llm_rest[i] != NULL; i++) {
        json_t *value = vc_llm_find(config, vc_llm_rest[i]);
        bool wanted = window != 0 || (other && strcmp(vc_llm_rest[i], "model_type") == 0);

        if (strncmp(vc_llm_rest[i], "rope_", 5) == 0) {
            wanted = strcmp(rope->type, "default") != 0;
        }
        if (wanted && strchr(family->types, '+') != NULL && strcmp(vc_llm_rest[i], "model_type") == 0) {
            failed = json_object_set_new(rest, "model_type", json_string(family->types)) != 0 || failed;
        } else if (value != NULL && wanted) {
            failed = json_object_set(rest, vc_llm_rest[i], value) != 0 || failed;
        }
    }
    for (size_t n = strcspn(keeps, "|"); keeps[0] != '\0'; keeps += n + (keeps[n] == '|'), n = strcspn(keeps, "|")) {
        (void)snprintf(name, sizeof name, "%.*s", (int)n, keeps);
        json_t *value = vc_llm_find(config, name);
        failed = (value != NULL && json_object_set(rest, name, value) != 0) || failed;
    }
    if (window != 0) {
        failed = json_object_set_new(rest, "sliding_window", json_integer((json_int_t)window)) != 0 || failed;
    }
    if (json_object_size(rest) != 0) {
        char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
        failed = failed || text == NULL;
        if (text != NULL) {
            vc_llm_put_text(pairs, VC_LLM_REST, text);
        }
        free(text);
    }
    json_decref(rest);
    return failed ? vc_fail(ctx, VC_E_NOMEM, "cannot allocate memory for metadata") : VC_OK;
}

void vc_llm_general_put(const struct llm_config *config, const char *architecture, const char *type,
                        const struct llm_plan *plan, struct llm_pairs *pairs)
{
    vc_llm_put_text(pairs, VC_GGUF_KEY_ARCHITECTURE, architecture);
    vc_llm_put_text(pairs, "general.type", type);
    put_name(config, pairs);
    vc_llm_put_u32(pairs, vc_gguf_known_keys[GGUF_FILE_TYPE], file_type(plan));
    vc_llm_put_u32(pairs, vc_gguf_known_keys[GGUF_QUANTIZER], VC_GGUF_QUANTIZATION);
}

/* Architecture, type and name, then the rows in the order of their table, then what only some families have. */
enum vc_status vc_llm_keys_put(struct vc_ctx *ctx, const struct llm_config *config, const struct vc_arch_family *family,
                               const struct vc_arch_sizes *sizes, const struct llm_rope *rope,
                               const struct llm_plan *plan, struct llm_pairs *pairs)
{
    const struct numbers from = {.config = config, .family = family, .sizes = sizes, .rope = rope};

    vc_llm_general_put(config, family->gguf, "model", plan, pairs);
    for (const struct vc_arch_pair *key = vc_arch_pairs; key->gguf != NULL; key++) {
        if (vc_arch_writes_pair(family, key)) {
            if (key->source == VC_FROM_EPSILON) {
                VC_CALL(vc_llm_epsilon_check(ctx, config, key->names));
            }
            put_key(&from, key, pairs);
        }
    }
    if (vc_arch_has(family, VC_ARCH_ENCODER)) {
        put_encoder(sizes, pairs);
    }
    if (strcmp(family->gguf, "mistral3") == 0) {
        vc_llm_put_f32(pairs, ".rope.scaling.yarn_log_multiplier",
                       vc_llm_real_of(config, rope->block, "mscale_all_dim", 0.0));
        vc_llm_put_f32(pairs, ".attention.temperature_scale",
                       vc_llm_real_of(config, rope->block, "llama_4_scaling_beta", 0.0));
    }
    if (vc_arch_is_latent(family)) { /* 1: weights of experts are of a softmax; 2: sigmoids */
        bool softmax =
            strcmp(vc_llm_word(config, "scoring_func",
                               vc_is_one_of(config->model_type, "deepseek_v2|mistral4") ? "softmax" : "sigmoid"),
                   "softmax") == 0;

        vc_llm_put_u32(pairs, ".expert_gating_func", softmax ? 1 : 2);
    }
    if (is(family, "cohere2moe")) { /* 3: a softmax of the chosen experts */
        bool softmax = strcmp(vc_llm_word(config, "expert_selection_fn", "softmax"), "softmax") == 0;

        vc_llm_put_u32(pairs, ".expert_gating_func", softmax ? 3 : 2);
    }
    if (is(family, "mistral4")) { /* how scores grow with the position */
        vc_llm_put_f32(pairs, ".attention.temperature_scale",
                       vc_llm_real_of(config, rope->block, "llama_4_scaling_beta", 0.0));
        vc_llm_put_u32(
            pairs, ".attention.temperature_length",
            (uint64_t)vc_llm_real_of(config, rope->block, "original_max_position_embeddings", (double)sizes->context));
    }
    if (is(family, "glm-dsa")) { /* others use what the last layer with an indexer chose */
        vc_llm_put_array(pairs, ".attention.indexer.types", GGUF_BOOL, sizes->layers);
        for (uint64_t i = 0; i < sizes->layers; i++) {
            const json_t *type = json_array_get(vc_llm_find(config, "indexer_types"), (size_t)i);

            vc_llm_element_u8(pairs, !json_is_string(type) || strcmp(json_string_value(type), "full") == 0);
        }
    }
    if (vc_is_one_of(family->gguf, "modern-bert|eurobert")) {
        vc_llm_put_bool(pairs, ".attention.causal", false);
    }
    if (is(family, "modern-bert")) {
        vc_llm_put_text(pairs, ".hidden_activation", vc_llm_word(config, "hidden_activation", "gelu"));
    }
    if (vc_is_one_of(family->gguf, "command-r|cohere2|cohere2moe|nemotron|modern-bert|eurobert|exaone-moe") &&
        !vc_is_one_of(rope->type, "linear|yarn")) {
        vc_llm_put_text(pairs, ".rope.scaling.type", "none");
    }
    if (is(family, "mamba")) { /* Falcon's have norms inside */
        vc_llm_put_bool(pairs, ".ssm.dt_b_c_rms", strcmp(config->model_type, "falcon_mamba") == 0);
    }
    if (is(family, "falcon")) {
        vc_llm_put_text(pairs, ".tensor_data_layout", "jploski");
    }
    if (vc_is_one_of(family->gguf, "granitehybrid|nemotron_h|nemotron_h_moe")) { /* whether positions are rotated */
        vc_llm_put_bool(pairs, ".rope.scaling.finetuned", !turns_nothing(config, family));
    }
    if (is(family, "gemma4")) {
        put_gemma4(sizes, pairs);
    }
    if (is(family, "gemma3n")) {
        put_gemma3n(sizes, pairs);
    }
    if (vc_llm_says_recurrent(family)) {
        vc_llm_put_u32(pairs, ".full_attention_interval", vc_llm_count(config, "full_attention_interval", 4));
    }
    if (vc_arch_has(family, VC_ARCH_SECTIONS) || vc_is_one_of(family->gguf, "qwen35|qwen35moe")) {
        put_sections(config, rope, family->gguf, pairs);
    }
    if (vc_arch_slides(family) || vc_llm_says_recurrent(family)) {
        put_kinds(config, family, sizes, pairs);
    }
    return put_rest(ctx, config, family, rope, pairs);
}
