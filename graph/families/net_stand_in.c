/* net_stand_in.c - a decoder of known kind with the sizes of one whose computation is not known, to estimate memory.
 *
 *     {"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "multi_query": true, ...}
 *     {"model_type": "qwen3", "hidden_size": 4544, "num_attention_heads": 71, "num_key_value_heads": 1, ...}
 *
 * Sizes have other names in other families, and parts that a decoder of Qwen's kind lacks become parts of the same size:
 * an MLP without a gate a narrower one with it, heads of MLA heads of the mean size of a key and a value, layers with a
 * state in place of keys and values layers with a window of one position. The towers for pictures and sounds beside it are
 * counted, not computed. Encoders, and decoders that read another text, are none of this kind. */
#include <string.h>

#include "arch/arch.h"
#include "arch/arch_config.h"
#include "graph/families/net.h"

/* A number that a size can be; of a list with one for each layer ("intermediate_size" of Gemma 3n) their mean. 0: it is
 * none. */
static json_int_t size_in(const json_t *value)
{
    json_int_t sum = 0;

    if (json_is_integer(value)) {
        return json_integer_value(value) > 0 && json_integer_value(value) < INT32_MAX ? json_integer_value(value) : 0;
    }
    for (size_t k = 0; k < json_array_size(value); k++) {
        const json_t *item = json_array_get(value, k);

        sum += json_is_integer(item) ? size_in(item) : 0;
    }
    return json_array_size(value) == 0 ? 0 : sum / (json_int_t)json_array_size(value);
}

/* The first of the keys "n_embd|hidden_size" that is there, if it is a size; else `otherwise`. */
static json_int_t size_of(const json_t *config, const char *keys, json_int_t otherwise)
{
    json_int_t size = size_in(vc_config_find(config, keys));

    return size != 0 ? size : otherwise;
}

/* Whether MLPs of such a model have no gate: two matrices, not three. */
static bool has_no_gate(const char *type)
{
    return vc_arch_flag(vc_arch_find_text(type), "mlp_has_no_gate");
}

/* Parameters of a tower of transformer layers that reads pictures or sounds, with the layer that makes rows of them. */
static json_int_t tower_params(const json_t *config)
{
    json_int_t h = size_of(config, "embed_dim|hidden_size|d_model", 0);
    json_int_t layers = size_of(config, "num_hidden_layers|depth|num_layers|encoder_layers", 0);
    json_int_t f = size_of(config, "intermediate_size|encoder_ffn_dim", 4 * h);
    json_int_t patch = size_of(config, "patch_size|spatial_patch_size", 14);

    return h < 65536 && layers < 1024 && f < 1000000 && patch < 1024
               ? layers * (4 * h * h + 2 * h * f) + 3 * patch * patch * h
               : 0;
}

/* Mamba has no heads of attention; those of Mamba 2 are the state's. */
static bool has_attention(const json_t *text)
{
    bool state = size_of(text, "state_size", 0) != 0;

    return size_of(text, state ? "num_attention_heads" : "num_attention_heads|n_head|n_heads|num_heads", 0) != 0;
}

/* Keys and values of a layer: all, of a window, or none, but a state. */
enum kept { KEEPS_ALL, KEEPS_WINDOW, KEEPS_STATE };

/* By a word of "layer_types" and the like. */
static enum kept kept_by(const char *word)
{
    if (strcmp(word, "sliding_attention") == 0 || strcmp(word, "chunked_attention") == 0) {
        return KEEPS_WINDOW;
    }
    return strstr(word, "full") != NULL || strcmp(word, "attention") == 0 || strcmp(word, "hybrid") == 0 ? KEEPS_ALL
                                                                                                         : KEEPS_STATE;
}

/* What layer number `layer` keeps. */
static enum kept kept_of(const json_t *text, json_int_t layer)
{
    const char *word = vc_config_kind(text, (uint64_t)layer);
    json_int_t every = size_of(text, "full_attention_interval|sliding_window_pattern|_sliding_window_pattern", 0);
    json_int_t period = size_of(text, "attn_layer_period", 0);

    if (word != NULL) {
        return kept_by(word);
    }
    if (json_object_get(text, "attn_layer_indices") != NULL) { /* null: no layer of a Bamba attends */
        return KEEPS_STATE;
    }
    if (period != 0) {
        return layer % period == size_of(text, "attn_layer_offset", 0) ? KEEPS_ALL : KEEPS_STATE;
    }
    if (every != 0 && (layer + 1) % every == 0) {
        return KEEPS_ALL;
    }
    if (every != 0) {
        return size_of(text, "full_attention_interval", 0) != 0 ? KEEPS_STATE : KEEPS_WINDOW;
    }
    if (!has_attention(text)) {
        return KEEPS_STATE;
    }
    return size_of(text, "sliding_window", 0) != 0 && !json_is_false(json_object_get(text, "use_sliding_window"))
               ? KEEPS_WINDOW
               : KEEPS_ALL;
}

/* "layer_types" and "sliding_window" of the decoder. */
static void set_layers(json_t *out, const json_t *text, json_int_t layers)
{
    json_t *list = json_array();
    bool slides = false;
    bool shorter = false;

    for (json_int_t k = 0; k < layers; k++) {
        enum kept kept = kept_of(text, k);

        slides = slides || kept == KEEPS_WINDOW;
        shorter = shorter || kept != KEEPS_ALL;
        (void)json_array_append_new(list, json_string(kept == KEEPS_ALL ? "full_attention" : "sliding_attention"));
    }
    (void)json_object_set_new(out, "layer_types", list);
    if (shorter) {
        (void)json_object_set_new(out, "use_sliding_window", json_true());
        (void)json_object_set_new(
            out, "sliding_window",
            json_integer(slides ? size_of(text, "sliding_window|attention_chunk_size", 4096) : 1));
    }
}

static void set(json_t *out, const char *key, json_int_t value)
{
    (void)json_object_set_new(out, key, json_integer(value));
}

/* Experts, where the model has some: their number, size and choice; layers in front without any; what all tokens go
 * through. Returns the type of such a decoder. */
static const char *set_experts(json_t *out, const json_t *text, json_int_t layers, json_int_t f)
{
    json_int_t n = size_of(text, "n_routed_experts|num_experts|num_local_experts|moe_num_experts", 0);
    json_int_t size = size_of(text, "moe_intermediate_size|expert_ffn_hidden_size|expert_intermediate_size", f);
    json_int_t shared = size_of(text, "shared_expert_intermediate_size|moe_shared_expert_intermediate_size", 0);
    json_int_t dense = size_of(text, "first_k_dense_replace|num_dense_layers|moe_layer_start_index", 0);
    json_int_t step = size_of(text, "decoder_sparse_step|interleave_moe_layer_step|expert_layer_period", 1);
    json_t *list = json_array();

    if (n < 2) {
        json_decref(list);
        return "qwen3";
    }
    shared =
        shared != 0 ? shared : size * size_of(text, "n_shared_experts|num_shared_experts|moe_num_shared_experts", 0);
    if (size_of(text, "intermediate_size_mlp", 0) !=
        0) { /* Llama 4: one shared expert, and layers without any are wider */
        shared = f;
        set(out, "intermediate_size", size_of(text, "intermediate_size_mlp", f));
    }
    for (json_int_t k = 0; k < dense && k < layers; k++) {
        (void)json_array_append_new(list, json_integer(k));
    }
    (void)json_object_set_new(out, "mlp_only_layers", list);
    set(out, "num_experts", n);
    set(out, "num_experts_per_tok",
        size_of(text, "num_experts_per_tok|num_experts_per_token|moe_topk|moe_k|top_k_experts|experts_per_token", 2));
    set(out, "moe_intermediate_size", size);
    set(out, "decoder_sparse_step", step);
    set(out, "shared_expert_intermediate_size", shared != 0 ? shared : 1); /* there is always one */
    return "qwen2_moe";
}

/* Heads of one query, their keys' number and size. Falcon has a key for all heads, or for groups of them. */
static void set_heads(json_t *out, const json_t *text, json_int_t h)
{
    json_int_t own = has_attention(text) ? size_of(text, "num_attention_heads|n_head|n_heads|num_heads", 0) : 0;
    json_int_t heads = own != 0 ? own : h < 64 ? 1 : h / 64;
    const json_t *attention = json_object_get(text, "attn_config"); /* MPT */
    json_int_t keys = size_of(text, "num_key_value_heads|num_kv_heads|n_head_kv|multi_query_group_num",
                              size_of(attention, "kv_n_heads", heads));
    json_int_t size = own == 0 ? h / heads : size_of(text, "head_dim|kv_channels", h / heads);

    if (json_is_true(json_object_get(text, "multi_query")) &&
        !json_is_true(json_object_get(text, "new_decoder_architecture"))) {
        keys = 1;
    }
    set(out, "num_attention_heads", heads);
    set(out, "num_key_value_heads", keys > 0 && heads % keys == 0 ? keys : heads);
    set(out, "head_dim", size + size % 2);
}

/* Whether a model of such a configuration writes text, and reads no other one for it: no encoder, of text, pictures or
 * sounds; and whether its layers are of a form that sizes tell. */
static bool is_decoder(const json_t *config, const char *type)
{
    static const char *const others[] = {"projection_dim", "projection_size", "conv_dim", "encoder_layers"};
    static const char *const ends[] = {"ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "ForImageTextToText"};
    const char *name = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
    bool writes = name == NULL;
    bool others_form =
        strncmp(type, "rwkv", 4) == 0 || strncmp(type, "zamba", 5) == 0 || strcmp(type, "recurrent_gemma") == 0;

    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        if (json_object_get(config, others[k]) != NULL || json_object_get(vc_config_text(config), others[k]) != NULL) {
            return false;
        }
    }
    for (size_t k = 0; name != NULL && k < sizeof ends / sizeof *ends; k++) {
        writes = writes || strstr(name, ends[k]) != NULL;
    }
    return writes && !others_form && !json_is_true(json_object_get(config, "is_encoder_decoder")) &&
           strstr(type, "bert") == NULL;
}

/* Parameters of the projections of an attention with these heads. */
static json_int_t attention_params(const json_t *out)
{
    json_int_t h = size_of(out, "hidden_size", 0);
    json_int_t d = size_of(out, "head_dim", 0);

    return 2 * h * d * (size_of(out, "num_attention_heads", 0) + size_of(out, "num_key_value_heads", 0));
}

/* Of a layer with a state, by what its configuration has: gated linear attention (Qwen 3.5), Mamba 2, Mamba; 0: not
 * known, as those of attention. */
static json_int_t state_params(const json_t *text, json_int_t h)
{
    json_int_t keys = size_of(text, "linear_num_key_heads", 0) * size_of(text, "linear_key_head_dim", 0);
    json_int_t values = size_of(text, "linear_num_value_heads", 0) * size_of(text, "linear_value_head_dim", 0);
    json_int_t inner = size_of(text, "mamba_d_ssm", size_of(text, "mamba_expand|expand", 0) * h);
    json_int_t state = size_of(text, "mamba_d_state|state_size", 16);
    json_int_t groups = size_of(text, "mamba_n_groups|n_groups", 0);

    if (values != 0) {
        return h * (2 * keys + 3 * values);
    }
    if (inner == 0) {
        return 0;
    }
    return groups != 0 ? h * (3 * inner + 2 * groups * state) : 3 * h * inner + inner * (h / 8 + 3 * state);
}

/* What layers have beyond the attention of the decoder: of a state, of a gate, of both side by side (Falcon H1). */
static json_int_t more_params(const json_t *out, const json_t *text, json_int_t layers)
{
    json_int_t h = size_of(out, "hidden_size", 0);
    json_int_t attention = attention_params(out);
    json_int_t state = state_params(text, h);
    json_int_t gate =
        json_is_true(json_object_get(text, "attn_output_gate")) || size_of(text, "linear_num_value_heads", 0) != 0
            ? h * size_of(out, "head_dim", 0) * size_of(out, "num_attention_heads", 0)
            : 0;
    bool both = size_of(text, "mamba_d_ssm", 0) != 0;
    json_int_t sum = 0;

    for (json_int_t k = 0; k < layers; k++) {
        enum kept kept = kept_of(text, k);

        sum += both                                       ? state
               : kept == KEEPS_ALL                        ? gate
               : kept == KEEPS_STATE && state > attention ? state - attention
                                                          : 0;
    }
    return sum;
}

/* Tables of a part of each layer's input beside the table of words (Gemma 3n, Gemma 4), and what reads them. */
static json_int_t layer_inputs(const json_t *text, json_int_t h, json_int_t layers)
{
    json_int_t part = size_of(text, "hidden_size_per_layer_input", 0);

    return part * layers * (size_of(text, "vocab_size_per_layer_input", 0) + 3 * h);
}

/* MLA: heads as large as its weights are, and what positions keep: keys and values of all heads as transformers has them,
 * the latent vector elsewhere. */
static void set_latent(json_t *out, const json_t *text, struct vc_net_others *others)
{
    json_int_t h = size_of(out, "hidden_size", 0);
    json_int_t heads = size_of(out, "num_attention_heads", 1);
    json_int_t latent = size_of(text, "kv_lora_rank", 0);
    json_int_t rotated = size_of(text, "qk_rope_head_dim", 64);
    json_int_t key = size_of(text, "qk_nope_head_dim", 128) + rotated;
    json_int_t value = size_of(text, "v_head_dim", 128);
    json_int_t narrow = size_of(text, "q_lora_rank", 0);
    json_int_t params = (narrow != 0 ? narrow * (h + heads * key) : h * heads * key) + h * (latent + rotated) +
                        latent * heads * (key - rotated + value) + heads * value * h;
    json_int_t size = params / (4 * h * heads) / 2 * 2;

    if (latent != 0) {
        set(out, "num_key_value_heads", heads);
        set(out, "head_dim", size < 2 ? 2 : size);
        others->counted = (uint64_t)(2 * heads * size_of(out, "head_dim", 2));
        others->kept = (uint64_t)(heads * (key + value));
        others->latent = (uint64_t)(latent + rotated);
    }
}

/* Those of the class's defaults that a configuration may leave out, and that change sizes. */
static void complete(json_t *text, const char *type)
{
    static const char *const keys[] = {
        "tie_word_embeddings", "multi_query", "sliding_window", "expand", "state_size", "full_attention_interval"};
    const struct vc_arch *arch = vc_arch_find_text(type);
    struct vc_arch_default own;

    for (size_t k = 0; vc_arch_default(arch, k, &own); k++) {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            if (strlen(keys[i]) == own.n_key && strncmp(keys[i], own.key, own.n_key) == 0 &&
                json_object_get(text, keys[i]) == NULL) {
                (void)json_object_set_new(text, keys[i], json_loadb(own.value, own.n_value, JSON_DECODE_ANY, NULL));
            }
        }
    }
}

/* So that groups and blocks of codes divide it as they divide sizes that people choose. */
static json_int_t in_blocks(json_int_t n)
{
    json_int_t block = n > 8192 ? 256 : n > 1024 ? 128 : 32;

    return n < block ? block : (n + block / 2) / block * block;
}

/* The sizes of the decoder. */
static json_t *make(const json_t *text, const char *type, json_int_t h, json_int_t layers, json_int_t words,
                    struct vc_net_others *others)
{
    json_int_t f = size_of(text, "intermediate_size|ffn_hidden_size|n_inner|ffn_dim|ffn_size|dff", 0);
    bool recurrent = !has_attention(text);
    json_t *out = json_object();

    f = f != 0 && f < 10000000 ? f : size_of(text, "expansion_ratio", 4) * h;
    f = has_no_gate(type) || json_is_true(json_object_get(text, "block_auto_adjust_ff_dim")) ? in_blocks(2 * f / 3) : f;
    set(out, "hidden_size", h);
    set(out, "num_hidden_layers", layers);
    set(out, "vocab_size", words);
    set_heads(out, text, h);
    if (recurrent &&
        state_params(text, h) != 0) { /* nothing but the state's projections, where others have an MLP, too */
        json_int_t rest = state_params(text, h) - attention_params(out);

        f = rest > 96 * h ? in_blocks(rest / (3 * h)) : 32;
    }
    set(out, "intermediate_size", f);
    set(out, "max_position_embeddings",
        size_of(text, "max_position_embeddings|n_positions|n_ctx|max_seq_len|seq_length|max_sequence_length", 1 << 20));
    set_latent(out, text, others);
    set_layers(out, text, layers);
    (void)json_object_set_new(out, "model_type", json_string(set_experts(out, text, layers, f)));
    (void)json_object_set_new(out, "tie_word_embeddings",
                              json_boolean(json_is_true(json_object_get(text, "tie_word_embeddings"))));
    others->params = (uint64_t)layer_inputs(text, h, layers);
    others->coded = recurrent ? 0 : (uint64_t)more_params(out, text, layers);
    return out;
}

json_t *vc_net_stand_in(const json_t *config, struct vc_net_others *others)
{
    static const char *const towers[] = {"vision_config", "audio_config", "vision_tower_config",
                                         "audio_encoder_config"};
    json_t *text = json_copy(vc_config_text(config));
    const char *type = json_string_value(json_object_get(text, "model_type"));
    json_int_t h = size_of(text, "hidden_size|n_embd|d_model|dim", 0);
    json_int_t layers = size_of(text, "num_hidden_layers|n_layer|n_layers|num_layers", 0);
    json_int_t words = size_of(text, "vocab_size|padded_vocab_size", size_of(config, "vocab_size", 0));
    json_t *out = NULL;

    *others = (struct vc_net_others){.params = 0};
    type = type != NULL ? type : json_string_value(json_object_get(config, "model_type"));
    if (type != NULL && h != 0 && h < 1000000 && layers != 0 && layers <= 4096 && words != 0 &&
        is_decoder(config, type)) {
        complete(text, type);
        out = make(text, type, h, layers, words, others);
    }
    for (size_t k = 0; out != NULL && k < sizeof towers / sizeof *towers; k++) {
        const json_t *tower = json_object_get(config, towers[k]);

        others->params += json_is_object(tower) ? (uint64_t)tower_params(tower) : 0;
    }
    json_decref(text);
    return out;
}
