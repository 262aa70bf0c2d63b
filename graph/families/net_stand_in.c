/* net_stand_in.c - a decoder of known kind with the sizes of one whose computation is not known, to estimate memory.
 *
 *     {"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "multi_query": true, ...}
 *     {"model_type": "qwen3", "hidden_size": 4544, "num_attention_heads": 71, "num_key_value_heads": 1, ...}
 *
 * Sizes have other names in other families, and parts that a decoder of Qwen's kind lacks become parts of the same size:
 * an MLP without a gate a narrower one with it, heads of MLA heads of the mean size of a key and a value, layers with a
 * state in place of keys and values layers with a window of one position. The towers for pictures and sounds beside it are
 * counted, not computed. Layers of several kinds (Mamba beside MLPs, RWKV) become layers of the mean size. Encoders of
 * BERT's kind become BERT, encoders with a decoder T5. */

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

/* Elements of weights are counted as doubles, which no product of a stranger's sizes overflows; a number that no model has
 * is 0. */
static uint64_t elems(double n)
{
    return n > 0 && n < 1e15 ? (uint64_t)n : 0;
}

/* A gate is told by the function of an MLP: "silu", "swiglu"; the name that Gemma and ModernBERT have for the key. */
static bool has_gate(const json_t *text)
{
    const char *word = json_string_value(vc_config_find(text, "feed_forward_proj|hidden_act|activation_function"));

    return json_object_get(text, "hidden_activation") != NULL ||
           (word != NULL &&
            (strncmp(word, "gated", 5) == 0 || strstr(word, "silu") != NULL || strstr(word, "glu") != NULL));
}

/* Parameters of a tower of transformer layers that reads pictures or sounds, with the layer that makes rows of them, their
 * positions, and what makes them as wide as the text; biases and norms as where there is all of that. */
static double tower_params(const json_t *config, double wide)
{
    double h = (double)size_of(config, "embed_dim|hidden_size|d_model", 0);
    json_int_t blocks = size_of(config, "num_blocks", 0); /* conformers: two MLPs with a gate, a convolution */
    double layers =
        (double)(blocks != 0 ? blocks : size_of(config, "num_hidden_layers|depth|num_layers|encoder_layers", 0));
    double f = (double)size_of(config, "intermediate_size|encoder_ffn_dim", 4 * (json_int_t)h);
    double patch = (double)size_of(config, "patch_size|spatial_patch_size", 14);

    double edge = (double)size_of(config, "image_size", 0) / patch;
    double side = (double)size_of(config, "spatial_merge_size|scale_factor", 0);
    double merged = h * side * side;
    double out = (double)size_of(config, "out_hidden_size", 0);
    double merger = json_object_get(config, "use_fine_route") == NULL
                        ? merged * (merged + out)           /* of neighbours, as in Qwen's */
                        : out * (5 * merged + 8 * h + out); /* two routes, of which one is four times as wide */

    double each = blocks != 0 ? 7 * h * h + 6 * h * f : 4 * h * h + (has_gate(config) ? 3 : 2) * h * f;
    double wider = merger < 1 ? (h + wide) * wide : merger;

    return layers * (each + 9 * h + f) + wider + (3 * patch * patch + edge * edge + 8) * h;
}

/* Mamba has no heads of attention; those of Mamba 2 are the state's. */
static bool has_attention(const json_t *text)
{
    bool state = size_of(text, "state_size", 0) != 0;

    return size_of(text,
                   state ? "num_attention_heads"
                         : "num_attention_heads|n_head|n_heads|num_heads|decoder_attention_heads",
                   0) != 0;
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

    if (word != NULL) { /* RecurrentGemma's attention has a window */
        bool window = strcmp(word, "attention") == 0 && json_object_get(text, "attention_window_size") != NULL;

        return window ? KEEPS_WINDOW : kept_by(word);
    }
    if (json_object_get(text, "attn_layer_indices") != NULL) { /* null: no layer of a Bamba attends */
        return KEEPS_STATE;
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

/* Layers scan, convolve or attend in a way that is told by no size of attention: a layer's kind says so, or a size that only
 * such layers have. The two of Nemotron-H without a sequence are none. */
static bool has_state(const json_t *text, json_int_t layers)
{
    bool found =
        vc_config_find(text, "state_size|ssm_state_size|mamba_d_state|mamba_d_ssm|linear_key_head_dim|lru_width|"
                             "conv_L_cache|conv_kernel|qk_dim_factor|attention_hidden_size") != NULL;

    for (json_int_t k = 0; !found && k < layers; k++) {
        const char *word = vc_config_kind(text, (uint64_t)k);

        found =
            kept_of(text, k) == KEEPS_STATE && (word == NULL || (strcmp(word, "mlp") != 0 && strcmp(word, "moe") != 0));
    }
    return found;
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
            json_integer(slides ? size_of(text, "sliding_window|attention_chunk_size|attention_window_size", 4096)
                                : 1));
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
    size_t kinds =
        json_array_size(json_object_get(text, "moe_intermediate_size")); /* of experts: ERNIE 4.5 VL, side by side */
    json_int_t shared = size_of(
        text, "shared_expert_intermediate_size|moe_shared_expert_intermediate_size|shared_intermediate_size", 0);
    json_int_t dense = size_of(text, "first_k_dense_replace|num_dense_layers|moe_layer_start_index", 0);
    json_int_t step = size_of(text, "decoder_sparse_step|interleave_moe_layer_step|expert_layer_period", 1);
    json_t *list = json_array();

    size *= kinds > 1 && (json_int_t)kinds != layers ? (json_int_t)kinds : 1;
    if (n < 2 || json_is_false(json_object_get(text, "is_moe"))) { /* Doge has experts only where it says so */
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
    json_int_t own = has_attention(text)
                         ? size_of(text, "num_attention_heads|n_head|n_heads|num_heads|decoder_attention_heads", 0)
                         : 0;
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

/* What stands in for a model: sizes tell which. */
enum form { FORM_NONE, FORM_DECODER, FORM_ENCODER, FORM_PAIR };

static bool ends_in(const char *name, const char *end)
{
    return name != NULL && strlen(name) >= strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

/* No models of pictures and sounds alone, nor such with parts whose
 * weights are not known here: tables and products of entities (LUKE), towers of several stages or of projections (Florence 2,
 * Inkling, Idefics 2), a decoder taken out of one whose attention leaves blocks out (BigBird-Pegasus). */
static enum form form_of(const json_t *config, const json_t *text, const char *type)
{
    static const char *const others[] = {"projection_dim", "projection_size",   "conv_dim",        "num_conv_layers",
                                         "block_sizes",    "entity_vocab_size", "perceiver_config"};
    static const char *const ends[] = {"ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "ForImageTextToText"};
    const char *name = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
    const json_t *tower = json_object_get(config, "vision_config");
    bool causal = ends_in(name, "ForCausalLM");
    bool writes = name == NULL;
    /* "FrobnicatorModel" does not say what it computes; a type with "bert" in it does. */
    bool bare = ends_in(name, "Model") && !ends_in(name, "LMHeadModel") && strstr(type, "bert") == NULL;

    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        bool here = json_object_get(config, others[k]) != NULL || json_object_get(text, others[k]) != NULL;

        /* PaliGemma's projection makes rows of pictures as wide as the text */
        if (here && (tower == NULL || size_of(config, others[k], 0) != size_of(text, "hidden_size", 1))) {
            return FORM_NONE;
        }
    }
    if (json_object_get(tower, "depths") != NULL || json_object_get(tower, "n_layers") != NULL ||
        (causal && json_object_get(text, "attention_type") != NULL)) {
        return FORM_NONE;
    }
    for (size_t k = 0; name != NULL && k < sizeof ends / sizeof *ends; k++) {
        writes = writes || strstr(name, ends[k]) != NULL;
    }
    if (json_is_true(json_object_get(config, "is_encoder_decoder"))) {
        return causal                                                      ? FORM_DECODER
               : bare || json_object_get(config, "encoder_config") != NULL ? FORM_NONE /* the latter: of sounds */
                                                                           : FORM_PAIR;
    }
    if (!json_is_true(json_object_get(text, "is_decoder")) &&
        (json_object_get(text, "type_vocab_size") != NULL || json_is_true(json_object_get(text, "is_encoder")) ||
         ends_in(name, "ForMaskedLM") || (strstr(type, "bert") != NULL && strstr(type, "decoder") == NULL))) {
        return bare ? FORM_NONE : FORM_ENCODER;
    }
    return writes ? FORM_DECODER : FORM_NONE;
}

/* Parameters of the projections of an attention with these heads. */
static double attention_params(const json_t *out)
{
    double size = (double)size_of(out, "hidden_size", 0) * (double)size_of(out, "head_dim", 0);

    return 2 * size * (double)(size_of(out, "num_attention_heads", 0) + size_of(out, "num_key_value_heads", 0));
}

/* Channels of a Mamba's layer; 0: not stated. */
static double inner_of(const json_t *text, double h)
{
    double heads = (double)size_of(text, "mamba_num_heads", 0) * (double)size_of(text, "mamba_head_dim", 0);
    double own = (double)size_of(text, "mamba_d_ssm", 0);

    return own > 0 ? own : heads > 0 ? heads : (double)size_of(text, "mamba_expand|expand", 0) * h;
}

/* What scans take as transformers 5.24 writes them out, with the stream and the projections of their layer; fitted to live
 * tensors and never below (docs/memory-model.md). Mamba has discrete_A and deltaB_u, with a product, of [positions,
 * inner, state]; the chunks of Mamba 2 have squares for each head, its keys copied for each; so has the gated delta rule,
 * in chunks of 64. */
static void set_scan(const json_t *text, double h, double layers, struct vc_net_others *others)
{
    double size = (double)size_of(text, "linear_key_head_dim", 0);
    double value_heads = (double)size_of(text, "linear_num_value_heads", 0);
    double values = value_heads * (double)size_of(text, "linear_value_head_dim", 0);
    double state = (double)size_of(text, "mamba_d_state|state_size|ssm_state_size", 0);
    double groups = (double)size_of(text, "mamba_n_groups|n_groups|mamba_ngroups", 0);
    double heads = (double)size_of(text, "mamba_n_heads|mamba_num_heads|n_mamba_heads|num_heads", 0);
    double inner = inner_of(text, h);
    json_int_t chunk = size_of(text, "mamba_chunk_size|chunk_size", 0);
    double scan = 0;

    if (values > 0) {
        double keys = (double)size_of(text, "linear_num_key_heads", 0) * size;

        chunk = 64;
        scan = 4 * 64 * value_heads + 6 * value_heads * size + 4 * keys + 8.5 * values + 4 * h;
        others->states = elems(layers * values * size);
    } else if (groups < 1) {
        chunk = 1;
        scan = state > 0 && inner > 0 ? inner * (3 * state + 9) + 4 * h + h / 8 + 2 * state : 0;
        others->states = elems(layers * inner * state);
    } else if (chunk != 0 && heads > 0 && state > 0 && inner > 0) {
        double squares = (double)chunk * heads;
        double copies = heads * state;
        double rest = 4 * groups * state + 4 * h;
        double first = 4 * squares + 4 * copies + 7 * inner;
        double second = 2 * squares + 5 * copies + 12 * inner;

        scan = rest + (first > second ? first : second);
        others->states = elems(layers * inner * state);
    }
    others->scan = elems(scan);
    others->chunk = (uint64_t)chunk;
}

/* Of a layer with a state, by what its configuration has: gated linear attention (Qwen 3.5), Mamba 2, Mamba; 0: not
 * known, as those of attention. */
static double state_params(const json_t *text, double h)
{
    double keys = (double)size_of(text, "linear_num_key_heads", 0) * (double)size_of(text, "linear_key_head_dim", 0);
    double values =
        (double)size_of(text, "linear_num_value_heads", 0) * (double)size_of(text, "linear_value_head_dim", 0);
    double inner = inner_of(text, h);
    double state = (double)size_of(text, "mamba_d_state|state_size|ssm_state_size", 16);
    double groups = (double)size_of(text, "mamba_n_groups|n_groups|mamba_ngroups", 0);

    if (values > 0) {
        return h * (2 * keys + 3 * values);
    }
    if (inner < 1) {
        return 0;
    }
    return groups > 0 ? h * (3 * inner + 2 * groups * state +
                             (double)size_of(text, "mamba_n_heads|mamba_num_heads|n_mamba_heads|num_heads", 0))
                      : 3 * h * inner + inner * (h / 8 + 3 * state);
}

/* What layers have beyond the attention of the decoder: of a state, of a gate, of both side by side (Falcon H1). */
static double more_params(const json_t *out, const json_t *text, json_int_t layers)
{
    double h = (double)size_of(out, "hidden_size", 0);
    double attention = attention_params(out);
    double state = state_params(text, h);
    double gate =
        json_is_true(json_object_get(text, "attn_output_gate")) || size_of(text, "linear_num_value_heads", 0) != 0
            ? h * (double)size_of(out, "head_dim", 0) * (double)size_of(out, "num_attention_heads", 0)
            : 0;
    bool both = size_of(text, "mamba_d_ssm", 0) != 0;
    double sum = 0;

    for (json_int_t k = 0; k < layers; k++) {
        enum kept kept = kept_of(text, k);

        if (both) {
            sum += state;
        } else if (kept == KEEPS_ALL) {
            sum += gate;
        } else if (kept == KEEPS_STATE && state > attention) {
            sum += state - attention;
        }
    }
    return sum;
}

/* What a layer of some types has beyond that, in the mean. */
static double odd_params(const json_t *out, const json_t *text, const char *type, double f)
{
    double h = (double)size_of(out, "hidden_size", 0);
    double d = (double)size_of(out, "head_dim", 0);

    if (strcmp(type, "xlnet") == 0) { /* products of positions */
        return h * h;
    }
    if (strcmp(type, "xmod") == 0) { /* an adapter for each language */
        return 2 * h * h / (double)size_of(text, "adapter_reduction_factor", 2) *
               (double)json_array_size(json_object_get(text, "languages"));
    }
    if (strcmp(type, "jetmoe") == 0) { /* experts for queries, and behind attention */
        return 2 * h * d *
               ((double)size_of(text, "num_local_experts", 1) * (double)size_of(out, "num_key_value_heads", 1) -
                (double)size_of(out, "num_attention_heads", 1));
    }
    return strcmp(type, "longcat_flash") == 0 ? attention_params(out) + 6 * h * f
                                              : 0; /* two layers beside the experts */
}

/* Parameters of the layers of models that have several kinds of these, or share some; 0 for other parameters. *experts: of
 * those a part that is of experts. *kept: keys and values of a position in a layer that keeps them, elements. */
static double mixed_params(const json_t *text, const char *type, double h, json_int_t layers, double *experts,
                           double *kept)
{
    double f = (double)size_of(text, "intermediate_size", 4 * (json_int_t)h);
    double heads = (double)size_of(text, "num_attention_heads", 1);
    double keys = (double)size_of(text, "num_key_value_heads", (json_int_t)heads);
    double d = (double)size_of(text, "attention_head_dim|head_dim", (json_int_t)(h / heads));
    double wide = (double)size_of(text, "attention_hidden_size", (json_int_t)h);
    double lru = (double)size_of(text, "lru_width", (json_int_t)h);
    double each = (double)size_of(text, "moe_intermediate_size", (json_int_t)f);
    double shared =
        (double)size_of(text, "moe_shared_expert_intermediate_size", 0) * (double)size_of(text, "n_shared_experts", 1);
    bool zamba = strncmp(type, "zamba", 5) == 0;
    bool gemma = strcmp(type, "recurrent_gemma") == 0;
    bool each_one = zamba || gemma; /* layers are of one kind each, as those of Nemotron-H and Dory */
    double mlp = (has_no_gate(type) ? 2 : 3) * h;
    double sum = 0;

    *kept = gemma ? 0 : 2 * keys * d;
    if (strcmp(type, "rwkv") == 0) {
        *kept = 0;
        return (double)layers * (4 * h * wide + h * h + 2 * h * f);
    }
    for (json_int_t k = 0; k < layers; k++) {
        const char *kind = vc_config_kind(text, (uint64_t)k);
        const char *word = kind != NULL ? kind : "";
        bool keeps = kept_of(text, k) != KEEPS_STATE;

        each_one = each_one || strcmp(word, "mlp") == 0 || strcmp(word, "moe") == 0;
        if (zamba) { /* one layer of attention, or a few, for all places where it is */
            sum += state_params(text, h) + (keeps ? h * h + (double)size_of(text, "adapter_rank", 0) * (h + 2 * f) : 0);
        } else if (gemma) { /* all layers of the stand-in have the window */
            *kept += keeps ? 2 * keys * d / (double)layers : 0;
            sum += 3 * h * (f / 2) + (keeps ? 2 * h * d * (heads + keys) : 3 * h * lru + 2 * lru * lru / heads);
        } else if (strcmp(word, "moe") == 0) {
            *experts += (double)size_of(text, "n_routed_experts", 0) * mlp * each;
            sum += mlp * shared;
        } else {
            sum += keeps ? 2 * h * d * (heads + keys) : strcmp(word, "mlp") == 0 ? mlp * f : state_params(text, h);
        }
    }
    sum = each_one ? sum : 0;
    return !zamba ? sum : sum + (double)size_of(text, "num_mem_blocks", 1) * (3 * wide * wide + wide * h + 3 * h * f);
}

/* Layers of Gemma 4 that see all positions have wider heads than the others, 512 where the configuration says nothing. */
static double wider_heads(const json_t *text, const char *type, double h, json_int_t layers)
{
    double heads = (double)size_of(text, "num_attention_heads", 1);
    double keys = (double)size_of(text, "num_global_key_value_heads|num_key_value_heads", (json_int_t)heads);
    double more = (double)(size_of(text, "global_head_dim", 512) - size_of(text, "head_dim", 256));
    double sum = 0;

    for (json_int_t k = 0; strncmp(type, "gemma4", 6) == 0 && k < layers; k++) {
        const char *kind = vc_config_kind(text, (uint64_t)k);

        sum += kind != NULL && strcmp(kind, "full_attention") == 0 ? 2 * more * h * (heads + keys) : 0;
    }
    return sum;
}

/* Tables of a part of each layer's input beside the table of words (Gemma 3n, Gemma 4), and what reads them. */
static double layer_inputs(const json_t *text, double h, double layers)
{
    double part = (double)size_of(text, "hidden_size_per_layer_input", 0);

    return part * layers * ((double)size_of(text, "vocab_size_per_layer_input", 0) + 3 * h);
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
    double wide = (double)h * (double)heads;
    double params = (narrow != 0 ? (double)narrow * (double)(h + heads * key) : wide * (double)key) +
                    (double)h * (double)(latent + rotated) +
                    (double)latent * (double)heads * (double)(key - rotated + value) + wide * (double)value;
    json_int_t size = (json_int_t)(params / (4 * wide)) / 2 * 2;

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

/* The width of an MLP with a gate of so many parameters; a narrow one where none are left. */
static json_int_t rest_as_mlp(double params, double h)
{
    return params > 96 * h && params < 3e7 * h ? in_blocks((json_int_t)(params / (3 * h))) : 32;
}

/* Biases, and the scales of norms with a mean, of families without a gate, which have these; the table of positions where
 * nothing tells of rotary or other positions. Longer ones than 8192 are those of models that leave such keys out. */
static double plain_params(const json_t *text, const char *type, double h, double layers)
{
    double f = (double)size_of(text, "intermediate_size|ffn_dim|n_inner", 4 * (json_int_t)h);
    double longest = (double)size_of(text, "max_position_embeddings|n_positions|n_ctx", 0);
    bool rotary =
        vc_config_find(text, "rope_theta|rope_parameters|rope_scaling|rotary_dim|rotary_pct|alibi|attn_config") != NULL;

    return (has_no_gate(type) ? layers * (9 * h + f) : 0) + (rotary || longest > 8192 ? 0 : (longest + 2) * h);
}

/* Tables beside those of words, of each pair of sizes "X_vocab_size" and "X_embed_dim" (RoCBERT's shapes and sounds) or
 * "X_emb_size" (entities). */
static double table_params(const json_t *text)
{
    static const char end[] = "_vocab_size";
    double sum = 0;
    const char *key;
    const json_t *value;

    json_object_foreach((json_t *)(uintptr_t)text, key, value)
    {
        int stem = (int)strlen(key) - (int)strlen(end);
        char other[128];

        if (stem > 0 && ends_in(key, end)) {
            snprintf(other, sizeof other, "%.*s_embed_dim|%.*s_emb_size", stem, key, stem, key);
            sum += (double)size_in(value) * (double)size_of(text, other, 0);
        }
    }
    return sum;
}

/* LFM2's MLP is two thirds as wide as its configuration says, in multiples. */
static json_int_t adjusted(const json_t *text, json_int_t f)
{
    double by = json_number_value(json_object_get(text, "block_ffn_dim_multiplier"));
    json_int_t step = size_of(text, "block_multiple_of", 1);

    if (!json_is_true(json_object_get(text, "block_auto_adjust_ff_dim"))) {
        return f;
    }
    f = (json_int_t)((double)(2 * f / 3) * (by > 0 && by < 1000 ? by : 1));
    return (f + step - 1) / step * step;
}

/* What LFM2's convolutions have more than the attention that stands in for them. */
static double conv_params(const json_t *out, const json_t *text, double h, json_int_t layers)
{
    double more = 4 * h * h + (double)size_of(text, "conv_L_cache", 0) * h - attention_params(out);
    double sum = 0;

    for (json_int_t k = 0; k < layers; k++) {
        const char *kind = vc_config_kind(text, (uint64_t)k);

        sum += kind != NULL && strcmp(kind, "conv") == 0 ? more : 0;
    }
    return sum;
}

/* The sizes of the decoder. */
static json_t *make(const json_t *text, const char *type, json_int_t h, json_int_t layers, json_int_t words,
                    struct vc_net_others *others)
{
    json_int_t f =
        size_of(text, "intermediate_size|ffn_hidden_size|n_inner|ffn_dim|ffn_size|dff|dim_ff|decoder_ffn_dim", 0);
    bool recurrent = !has_attention(text);
    double wide = (double)h;
    double experts = 0;
    double kept = 0;
    double mixed = mixed_params(text, type, wide, layers, &experts, &kept);
    json_t *out = json_object();

    f = f != 0 && f < 10000000 ? f : size_of(text, "expansion_ratio", 4) * h;
    f = strcmp(type, "moshi") == 0 ? f / 2 : f;
    f = has_no_gate(type) ? in_blocks(2 * f / 3) : adjusted(text, f);
    set(out, "hidden_size", h);
    set(out, "num_hidden_layers", layers);
    set(out, "vocab_size", words);
    set_heads(out, text, h);
    if (recurrent && mixed < 1 && state_params(text, wide) > 0) { /* no MLP beside the state's projections */
        f = rest_as_mlp(state_params(text, wide) - attention_params(out), wide);
    }
    if (mixed > 0) { /* narrow heads, and an MLP of what is left */
        set(out, "num_attention_heads", h < 64 ? 1 : h / 64);
        set(out, "num_key_value_heads", 1);
        set(out, "head_dim", 64);
        others->counted = 128;
        others->kept = others->latent = elems(kept);
        f = rest_as_mlp(mixed / (double)layers - attention_params(out), wide);
    }
    set(out, "intermediate_size", f);
    set(out, "max_position_embeddings",
        size_of(text, "max_position_embeddings|n_positions|n_ctx|max_seq_len|seq_length|max_sequence_length", 1 << 20));
    set_latent(out, text, others);
    others->state = has_state(text, layers);
    if (others->state) {
        set_scan(text, wide, (double)layers, others);
    }
    set_layers(out, text, layers);
    (void)json_object_set_new(out, "model_type", json_string(mixed > 0 ? "qwen3" : set_experts(out, text, layers, f)));
    (void)json_object_set_new(out, "tie_word_embeddings",
                              json_boolean(json_is_true(json_object_get(text, "tie_word_embeddings"))));
    others->params = elems(layer_inputs(text, wide, (double)layers) + wider_heads(text, type, wide, layers) +
                           plain_params(text, type, wide, (double)layers));
    others->coded =
        elems(mixed > 0   ? experts
              : recurrent ? 0
                          : more_params(out, text, layers)) +
        elems((double)layers * odd_params(out, text, type, (double)f) + conv_params(out, text, wide, layers));
    if (vc_config_find(text, "decoder_layers|num_decoder_layers") !=
        NULL) { /* of an encoder's text, which nobody gives */
        others->coded += elems(4 * (double)layers * wide * wide);
    }
    if (strcmp(type, "longcat_flash") == 0) {
        others->kept *= 2;
        others->latent *= 2;
    } else if (json_object_get(text, "num_layers_per_stack") != NULL) { /* HRM: two stacks, walked several times */
        others->counted = (uint64_t)layers;
        others->kept = others->latent = (uint64_t)size_of(text, "num_hidden_layers", layers);
    }
    return out;
}

/* BERT, with a head that tells masked words where the model has one of words. */
static json_t *make_encoder(const json_t *text, const char *type, const char *name, json_int_t h, json_int_t layers,
                            json_int_t words, struct vc_net_others *others)
{
    bool tells = ends_in(name, "LM") || ends_in(name, "LMHeadModel") || ends_in(name, "ForPreTraining") ||
                 ends_in(name, "Decoder");
    json_int_t f = size_of(text, "intermediate_size|n_inner|hidden_dim|d_inner", 4 * h);
    json_int_t heads = size_of(text, "num_attention_heads|n_heads|n_head", 1);
    json_int_t narrow = size_of(text, "input_embedding_size", 0) + size_of(text, "output_embedding_size", 0);
    json_t *out = json_pack("{s:s, s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "model_type", "bert",
                            "architectures", tells ? "BertForMaskedLM" : "BertModel", "hidden_act", "gelu",
                            "hidden_size", h, "num_hidden_layers", layers, "vocab_size", words, "num_attention_heads",
                            h % heads == 0 ? heads : 1, "intermediate_size", has_gate(text) ? 3 * f / 2 : f,
                            "max_position_embeddings", size_of(text, "max_position_embeddings", 512), "type_vocab_size",
                            size_of(text, "type_vocab_size", 1));

    others->params =
        elems((double)words * (double)(narrow - h)) + elems(table_params(text)) +
        (narrow == 0 && json_is_false(json_object_get(text, "tie_word_embeddings")) ? elems((double)words * (double)h)
                                                                                    : 0);
    others->coded =
        elems((double)layers * (odd_params(out, text, type, (double)f) +
                                (json_object_get(text, "attention_window") != NULL ? 3.0 * (double)(h * h) : 0)));
    return out;
}

/* T5 with an encoder and a decoder of these sizes, MLPs of their mean width; each may have a configuration of its own,
 * and then a table of words. */
static json_t *make_pair(const json_t *config, const json_t *text, const char *name, struct vc_net_others *others)
{
    const json_t *own = json_object_get(config, "encoder");
    const json_t *reads = own != NULL ? vc_config_text(own) : text;
    const json_t *writes = own != NULL ? json_object_get(config, "decoder") : text;
    json_int_t h = size_of(writes, "d_model|hidden_size", 0);
    json_int_t n = size_of(reads, "encoder_layers|num_encoder_layers|num_layers|num_hidden_layers", 0);
    json_int_t n_writes = size_of(writes, "decoder_layers|num_decoder_layers|num_layers|num_hidden_layers", n);
    json_int_t f = size_of(reads, "encoder_ffn_dim|d_ff|intermediate_size", 4 * h);
    json_int_t f_writes = size_of(writes, "decoder_ffn_dim|d_ff|intermediate_size", f);
    json_int_t heads =
        size_of(writes, "decoder_attention_heads|num_decoder_attention_heads|num_heads|num_attention_heads",
                h < 64 ? 1 : h / 64);
    json_int_t keys = size_of(writes, "num_key_value_heads", heads);
    json_int_t d = size_of(writes, "d_kv|head_dim", h / (heads != 0 ? heads : 1));
    json_int_t narrow = d * (heads + keys) / (2 * heads); /* as large with a key for each head */
    json_int_t words = size_of(writes, "vocab_size|tgt_vocab_size|decoder_vocab_size", size_of(text, "vocab_size", 0));
    json_int_t experts = size_of(text, "num_experts", 0);
    json_int_t longest = size_of(text, "max_position_embeddings", 0);
    double wide = (double)h;
    json_t *out;

    if (h == 0 || h >= 1000000 || n == 0 || n > 4096 || n_writes > 4096 || f > 10000000 || f_writes > 10000000 ||
        words == 0 || heads > 65536 || d > 65536 || narrow == 0) {
        return NULL;
    }
    out = json_pack("{s:s, s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b}", "model_type", "t5",
                    "architectures", ends_in(name, "Model") ? "T5Model" : "T5ForConditionalGeneration",
                    "feed_forward_proj", has_gate(writes) ? "gated-silu" : "relu", "d_model", h, "num_layers", n,
                    "num_decoder_layers", n_writes, "d_ff", (n * f + n_writes * f_writes) / (n + n_writes), "num_heads",
                    heads, "d_kv", narrow, "vocab_size", words, "tie_word_embeddings",
                    !json_is_false(json_object_get(config, "tie_word_embeddings")), "has_relative_attention_bias",
                    json_object_get(config, "encoder_ffn_dim") == NULL); /* BART's kind has none */
    if (keys != heads) {
        others->counted = (uint64_t)(2 * heads * narrow);
        others->kept = others->latent = (uint64_t)(2 * keys * d);
    }
    others->params =
        elems(wide * (double)(size_of(text, "max_encoder_position_embeddings", longest) +
                              size_of(text, "max_decoder_position_embeddings", longest) +
                              (own != NULL ? size_of(reads, "vocab_size", 0) : size_of(text, "src_vocab_size", 0))));
    if (json_object_get(text, "attention_window") != NULL) { /* LED's products for what all see */
        others->coded = elems(3 * (double)n * wide * wide);
    }
    if (experts > 1) {
        others->coded += elems((double)(experts - 1) * 2 * wide *
                               ((double)(n / size_of(text, "encoder_sparse_step", 1) * f) +
                                (double)(n_writes / size_of(text, "decoder_sparse_step", 1) * f_writes)));
    }
    return out;
}

/* Layers as a number, or as a list of their kinds; of a decoder that could have an encoder its own. */
static json_int_t layers_of(const json_t *text)
{
    json_int_t stack = size_of(text, "num_layers_per_stack", 0);
    json_int_t kinds = (json_int_t)json_array_size(json_object_get(text, "layers_block_type"));

    return stack != 0 ? 2 * stack
                      : size_of(text, "num_hidden_layers|n_layer|n_layers|decoder_layers|num_decoder_layers|num_layers",
                                kinds);
}

/* What the letters of the sums that were measured are of a position, by the keys that stand_ins.py reads (KEYS there). */
static void set_widths(const json_t *text, json_int_t h, struct vc_net_others *others)
{
    json_int_t heads =
        size_of(text, "num_attention_heads|n_head|n_heads|num_heads|decoder_attention_heads", h < 64 ? 1 : h / 64);
    json_int_t f = adjusted(text, size_of(text,
                                          "intermediate_size|ffn_hidden_size|n_inner|ffn_dim|ffn_size|dff|dim_ff|"
                                          "decoder_ffn_dim|d_ff|hidden_dim|d_inner",
                                          4 * h));
    json_int_t d = size_of(text, "head_dim|kv_channels|d_kv", h / heads);
    json_int_t keys = size_of(text, "num_key_value_heads|num_kv_heads|n_head_kv|multi_query_group_num", heads);
    json_int_t experts = size_of(text, "n_routed_experts|num_experts|num_local_experts|moe_num_experts", 0);
    json_int_t chosen =
        size_of(text, "num_experts_per_tok|num_experts_per_token|moe_topk|moe_k|top_k_experts|experts_per_token", 2);
    json_int_t expert = size_of(text, "moe_intermediate_size|expert_ffn_hidden_size|expert_intermediate_size", f);
    json_int_t shared =
        size_of(text, "shared_expert_intermediate_size|moe_shared_expert_intermediate_size|shared_intermediate_size",
                expert * size_of(text, "n_shared_experts|num_shared_experts|moe_num_shared_experts", 0));
    json_int_t layers = layers_of(text);

    if (json_is_true(json_object_get(text, "multi_query")) &&
        !json_is_true(json_object_get(text, "new_decoder_architecture"))) {
        keys = 1;
    }
    if (size_of(text, "kv_lora_rank", 0) != 0) { /* MLA */
        d = (size_of(text, "qk_nope_head_dim", 128) + size_of(text, "qk_rope_head_dim", 64) +
             size_of(text, "v_head_dim", 128)) /
            2;
        keys = heads;
    }
    if (experts < 2) {
        experts = chosen = shared = 0;
    }
    const struct {
        char letter;
        double width;
    } all[] = {{'h', (double)h},
               {'f', (double)f},
               {'q', (double)heads * (double)d},
               {'k', (double)keys * (double)d},
               {'d', (double)d},
               {'v', (double)size_of(text, "vocab_size|padded_vocab_size", 0)},
               {'o', 1},
               {'e', (double)chosen * (double)expert},
               {'c', (double)chosen * (double)h},
               {'r', (double)experts},
               {'g', (double)shared},
               {'l', (double)layers * (double)h},
               {'j', (double)layers * (double)experts},
               {'t', (double)layers * (double)keys * (double)d}};

    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        others->widths[all[k].letter - 'a'] = elems(all[k].width);
    }
    others->heads = (uint64_t)heads;
    others->shares_keys = keys < heads;
}

/* What was measured of models of the type. */
static void set_measured(const struct vc_arch *arch, const json_t *text, double h, struct vc_net_others *others)
{
    double n = (double)size_of(text, "n_positions|max_position_embeddings|n_ctx", 0);

    others->params += elems(vc_arch_number(arch, "rows", 0) * h);
    others->masks =
        elems((vc_arch_number(arch, "masks", 0) * (double)layers_of(text) + vc_arch_number(arch, "mask", 0)) * n * n);
    others->weights = (uint32_t)vc_arch_number(arch, "weights", 0);
    others->open = vc_arch_is(arch, "live", "unknown");
    for (unsigned half = 0; half < 2; half++) {
        others->sums[half] = others->open ? NULL : vc_arch_text(arch, half ? "live_half" : "live");
        if (others->sums[half] != NULL && others->sums[half][0] >= '0' && others->sums[half][0] <= '9') {
            others->sums[half] = NULL;
            others->live[half] = (uint32_t)vc_arch_number(arch, half ? "live_half" : "live", 0);
        }
        others->logits[half] = (uint32_t)vc_arch_number(arch, half ? "logits_half" : "logits", 0);
        others->scores[half] = (uint32_t)vc_arch_number(arch, half ? "scores_half" : "scores", 0);
    }
    if (others->sums[0] != NULL) {
        set_widths(text, (json_int_t)h, others);
    }
}

json_t *vc_net_stand_in(const json_t *config, struct vc_net_others *others)
{
    static const char *const towers[] = {"vision_config", "audio_config", "vision_tower_config", "audio_encoder_config",
                                         "qformer_config"};
    const char *name = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
    json_t *text = json_copy(vc_config_text(config));
    const char *type = json_string_value(json_object_get(text, "model_type"));
    json_int_t h = size_of(text, "hidden_size|n_embd|d_model|dim|emb_dim", 0);
    json_int_t layers = layers_of(text);
    json_int_t words = size_of(text, "vocab_size|padded_vocab_size", size_of(config, "vocab_size", 0));
    json_t *out = NULL;

    *others = (struct vc_net_others){.params = 0};
    type = type != NULL ? type : json_string_value(json_object_get(config, "model_type"));
    enum form form = type != NULL ? form_of(config, text, type) : FORM_NONE;
    bool biased = form == FORM_PAIR && json_object_get(config, "encoder_ffn_dim") != NULL &&
                  strncmp(type, "m2m", 3) != 0 && strncmp(type, "nllb", 4) != 0 && strcmp(type, "fsmt") != 0;
    others->scales = biased || vc_config_find(text, "logit_scale|logits_scaling") != NULL;
    if (form == FORM_PAIR) {
        out = make_pair(config, text, name, others);
    } else if (form != FORM_NONE && h != 0 && h < 1000000 && layers != 0 && layers <= 4096 && words != 0) {
        complete(text, type);
        out = form == FORM_ENCODER ? make_encoder(text, type, name, h, layers, words, others)
                                   : make(text, type, h, layers, words, others);
    }
    set_measured(vc_arch_find_text(type), text, (double)h, others);
    for (size_t k = 0; out != NULL && k < sizeof towers / sizeof *towers; k++) {
        const json_t *tower = json_object_get(config, towers[k]);

        others->params += json_is_object(tower) ? elems(tower_params(tower, (double)h)) : 0;
    }
    json_decref(text);
    return out;
}
