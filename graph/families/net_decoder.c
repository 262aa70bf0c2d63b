/* net_decoder.c - decoders of the form of Llama: norms, rotary positions, grouped queries, a gated MLP or
 * experts. What differs between families is a row of arch/arch_family.c; no family has code of its own
 * here.
 *
 *     x = embed(ids)
 *     each layer    x += attention(norm(x));  x += mlp(norm(x))        places of norms: VC_NORMS_BEFORE, _BEHIND, both
 *     norm, then a head: lm_head, score, qa_outputs, or nothing
 *
 * Keys are read first (read_config), then constants are made, then layers. To add a family: a row there. */
#include "graph/families/net_decoder.h"

#include <math.h>

/* ---- configuration ---- */

static bool has(const struct vc_decoder *d, enum vc_arch_trait trait)
{
    return vc_arch_has(d->family, trait);
}

static bool builds(const struct vc_decoder *d, enum vc_arch_build what)
{
    return (d->family->builds & what) != 0;
}

/* The class's default for a key that config.json does not have; a key that is null means `otherwise`. */
static double if_absent(const struct vc_decoder *d, const char *key, double otherwise)
{
    return json_object_get(d->net->config, key) == NULL ? vc_arch_number(d->usual, key, otherwise) : otherwise;
}

/* "layer_types" has one word for each layer; only full_attention and sliding_attention are built.
 * Words of other kinds of layers (linear_attention, ...) name modules that are not built here. */
static void check_layer_types(struct vc_decoder *d)
{
    struct vc_net *net = d->net;

    if (d->layer_types != NULL &&
        (!json_is_array(d->layer_types) || json_array_size(d->layer_types) != (size_t)d->layers)) {
        vc_net_refuse(net, "layer_types", "not a list with a word for each layer");
    }
    for (size_t k = 0; !net->failed && k < json_array_size(d->layer_types); k++) {
        const char *word = json_string_value(json_array_get(d->layer_types, k));

        if (word == NULL || (strcmp(word, "full_attention") != 0 && strcmp(word, "sliding_attention") != 0)) {
            vc_net_refuse(net, "layer_types", "of which only full_attention and sliding_attention are supported");
        } else if (d->window == 0 && strcmp(word, "sliding_attention") == 0) {
            vc_net_refuse(net, "layer_types", "but use_sliding_window is not true, or sliding_window is null");
        }
    }
}

/* How config.json says which layers have a sliding window differs: always (ALL), by use_sliding_window
 * (USED), from or up to a layer on (BEHIND, BEFORE), by a period (PATTERN). layer_types wins over all but
 * ALL and USED.
 * Keys are read even where they do not count, so that they are asked for. */
static void read_windows(struct vc_decoder *d)
{
    struct vc_net *net = d->net;
    enum vc_arch_windows kind = d->family->windows;
    bool flag = kind >= VC_WINDOW_USED && kind <= VC_WINDOW_BEFORE;

    if (kind == VC_WINDOW_NONE) {
        return;
    }
    if (flag && !vc_net_flag(net, "use_sliding_window", false)) {
        (void)vc_net_count(net, "sliding_window", 0);
    } else { /* null is no window, but where the pattern asks for one */
        bool absent = json_object_get(net->config, "sliding_window") == NULL;
        bool as_class = kind == VC_WINDOW_ALL || builds(d, VC_BUILD_ROTATES_SOME);
        int64_t usual = as_class ? (int64_t)if_absent(d, "sliding_window", 0) : !flag || absent ? 4096 : 0;

        d->window = vc_net_size(net, "sliding_window", usual);
    }
    if (kind == VC_WINDOW_BEHIND || kind == VC_WINDOW_BEFORE) {
        d->first_window = vc_net_count(net, "max_window_layers", 28);
    }
    if (kind == VC_WINDOW_PATTERN) {
        d->kinds = vc_arch_list(d->usual->type, 0);
        d->pattern = vc_net_size(net, "sliding_window_pattern", (int64_t)d->kinds->number);
    }
    if (kind > VC_WINDOW_USED || builds(d, VC_BUILD_ROTATES_SOME)) {
        d->layer_types = vc_net_get(net, "layer_types");
        check_layer_types(d);
    }
}

/* "no_rope_layers" is a list with a number for each layer, 0 where it is not rotated; without it the class's counts. */
static void read_rotated(struct vc_decoder *d)
{
    struct vc_net *net = d->net;

    if (builds(d, VC_BUILD_ROTATES_SOME)) {
        d->turns = vc_arch_list(d->usual->type, 0);
        d->turn_interval = vc_net_size(net, "no_rope_layer_interval", (int64_t)d->turns->number);
        d->turned = vc_net_get(net, "no_rope_layers");
        bool good = d->turned == NULL || json_array_size(d->turned) == (size_t)d->layers;
        for (size_t k = 0; good && k < json_array_size(d->turned); k++) {
            good = json_is_integer(json_array_get(d->turned, k));
        }
        if (!good) {
            vc_net_refuse(net, "no_rope_layers", "not a list with a whole number for each layer");
        }
    }
}

static bool has_window(const struct vc_decoder *d, int64_t layer);

static bool rotates(const struct vc_decoder *d, int64_t layer)
{
    if (builds(d, VC_BUILD_ROTATES_SLIDING)) {
        return has_window(d, layer);
    }
    return d->turned != NULL ? json_integer_value(json_array_get(d->turned, (size_t)layer)) != 0
                             : d->turns == NULL || !vc_arch_list_other(d->turns, (uint64_t)d->turn_interval,
                                                                       (uint64_t)layer, (uint64_t)d->layers);
}

/* VC_WINDOW_BEFORE: layers 0, 2, 4, ... below max_window_layers. PATTERN: layers that the class's list does
 * not name as other. */
static bool has_window(const struct vc_decoder *d, int64_t layer)
{
    if (d->layer_types != NULL) {
        return strcmp(json_string_value(json_array_get(d->layer_types, (size_t)layer)), "sliding_attention") == 0;
    }
    switch (d->family->windows) {
    case VC_WINDOW_BEHIND:
        return d->window != 0 && layer >= d->first_window;
    case VC_WINDOW_BEFORE:
        return d->window != 0 && layer < d->first_window && layer % 2 == 0;
    case VC_WINDOW_PATTERN:
        return !vc_arch_list_other(d->kinds, (uint64_t)d->pattern, (uint64_t)layer, (uint64_t)d->layers);
    default:
        return d->window != 0 && !(builds(d, VC_BUILD_ROTATES_SOME) && rotates(d, layer));
    }
}

/* A missing key gives `otherwise`; a number that is there has to be above 0.
 * A key that is null is missing. */
static double positive(struct vc_net *net, const char *key, double otherwise)
{
    double x = vc_net_real(net, key, otherwise);

    if (!(x > 0) && json_is_number(json_object_get(net->config, key))) {
        vc_net_refuse(net, key, "not a number above 0");
    }
    return x;
}

/* A number that bends scores or logits, c * tanh(x / c); 0 for families without it, and for null. */
static double cap(struct vc_decoder *d, enum vc_arch_trait trait, const char *key)
{
    return has(d, trait) ? positive(d->net, key, if_absent(d, key, 0)) : 0;
}

/* Gemma's config.json says "gelu" where the code computes the tanh form (GELU_IS_TANH): the family's own
 * word is taken.
 * The family's word may be a list with bars, of which the first is the usual one. */
static void read_mlp(struct vc_decoder *d)
{
    struct vc_net *net = d->net;
    const char *usual = d->family->activation;

    d->inner = vc_net_size(net, "intermediate_size", VC_NET_REQUIRED);
    d->mlp_bias = (has(d, VC_ARCH_MLP_BIAS) && vc_net_flag(net, "mlp_bias", false)) ||
                  (builds(d, VC_BUILD_USE_BIAS) && vc_net_flag(net, "use_bias", true));
    d->act_key = has(d, VC_ARCH_OWN_ACT_KEY) ? "hidden_activation" : "hidden_act";
    usual = vc_net_print(net, "%.*s", (int)strcspn(usual, "|"), usual);
    d->act = vc_net_word(net, d->act_key, usual);
    if (has(d, VC_ARCH_GELU_IS_TANH) && strcmp(d->act, "gelu") == 0) {
        d->act = usual;
    }
    vc_net_check_activation(net, d->act_key, d->act);
    vc_decoder_read_experts(d);
}

/* What embeddings, scores, what a layer adds, and logits are multiplied by. llama.cpp scales scores as usual where a GGUF
 * model has no factor. */
static void read_factors(struct vc_decoder *d)
{
    struct vc_net *net = d->net;

    d->embedding_factor = has(d, VC_ARCH_SCALED) ? sqrt((double)d->hidden) : 1;
    d->added_factor = 1;
    d->logit_factor = builds(d, VC_BUILD_LOGIT_SCALE) ? vc_net_real(net, "logit_scale", 0.0625) : 1;
    if (builds(d, VC_BUILD_FACTORS)) {
        d->embedding_factor = vc_net_real(net, "embedding_multiplier", 1);
        d->scale = vc_net_real(net, "attention_multiplier", net->gguf != NULL ? d->scale : 1);
        d->added_factor = vc_net_real(net, "residual_multiplier", 1);
        d->logit_factor = 1 / positive(net, "logits_scaling", 1);
    }
}

/* By the key that the class has: a number under the key of another class says nothing. */
static double read_epsilon(struct vc_decoder *d)
{
    bool layer_norm_eps = vc_arch_number(d->usual, "layer_norm_eps", 0) != 0;

    if (has(d, VC_ARCH_PLAIN_NORM)) {
        return 1e-5;
    }
    return builds(d, VC_BUILD_MEANS)
               ? vc_net_real(d->net, layer_norm_eps ? "layer_norm_eps" : "norm_eps|norm_epsilon", 1e-5)
               : vc_net_real(d->net, "rms_norm_eps", vc_arch_number(d->usual, "rms_norm_eps", 1e-6));
}

/* Order matters in two places: head_dim falls back to hidden / heads after read_mlp, and windows are read
 * before scales. Each key that is read counts as asked for. */
static void read_config(struct vc_decoder *d)
{
    static const char scalar[] = "query_pre_attn_scalar";
    struct vc_net *net = d->net;

    d->hidden = vc_net_size(net, "hidden_size", VC_NET_REQUIRED);
    d->layers = vc_net_layers(net, "num_hidden_layers");
    d->heads = vc_net_size(net, "num_attention_heads", VC_NET_REQUIRED);
    d->vocabulary = vc_net_size(net, "vocab_size", VC_NET_REQUIRED);
    d->kv_heads =
        vc_net_size(net, "num_key_value_heads", (int64_t)if_absent(d, "num_key_value_heads", (double)d->heads));
    d->head_dim = vc_net_size(net, "head_dim", (int64_t)if_absent(d, "head_dim", 0));
    d->epsilon = read_epsilon(d);
    d->tied = vc_net_flag(net, "tie_word_embeddings", vc_arch_flag(d->usual, "tie_word_embeddings"));
    d->output_bias =
        (has(d, VC_ARCH_BIASES) && vc_net_flag(net, "attention_bias", vc_arch_flag(d->usual, "attention_bias"))) ||
        (builds(d, VC_BUILD_USE_BIAS) && vc_net_flag(net, "use_bias", true));
    d->qkv_bias = d->output_bias || (has(d, VC_ARCH_QKV_BIAS) && vc_net_flag(net, "qkv_bias", true)) ||
                  (builds(d, VC_BUILD_USE_QKV_BIAS) && vc_net_flag(net, "use_qkv_bias", false));
    d->parallel = builds(d, VC_BUILD_PARALLEL) ||
                  (builds(d, VC_BUILD_USE_PARALLEL) &&
                   vc_net_flag(net, "use_parallel_residual", vc_arch_flag(d->usual, "use_parallel_residual")));
    d->score_dropout = vc_net_probability(net, "attention_dropout", 0);
    d->dropout = has(d, VC_ARCH_DROPS) ? vc_net_probability(net, "resid_pdrop|residual_dropout", 0) : 0;
    read_mlp(d);
    if (d->head_dim == 0) {
        d->head_dim = vc_net_share(net, "hidden_size by num_attention_heads", d->hidden, d->heads);
    }
    (void)vc_net_share(net, "num_attention_heads by num_key_value_heads", d->heads, d->kv_heads);
    read_windows(d);
    read_rotated(d);
    d->scale = 1 / sqrt(d->family->largest != 0 ? positive(net, scalar, vc_arch_number(d->usual, scalar, 1))
                                                : (double)d->head_dim);
    d->score_cap = cap(d, VC_ARCH_CAPS_SCORES, "attn_logit_softcapping");
    d->logit_cap = cap(d, VC_ARCH_CAPS_LOGITS, "final_logit_softcapping");
    d->clip = has(d, VC_ARCH_CLIPPED) ? positive(net, "clip_qkv", 0) : 0;
    read_factors(d);
}

/* LOCAL_ROPE (Gemma 3): layers with a window have a base of their own, and no scaling. */
static void read_rope(struct vc_decoder *d)
{
    struct vc_net *net = d->net;
    double theta = vc_arch_number(d->usual, "rope_theta", 10000);

    d->rope.neighbours = builds(d, VC_BUILD_NEIGHBOURS);
    if (!has(d, VC_ARCH_LOCAL_ROPE)) {
        vc_net_rope_make(net, d->head_dim, theta, &d->rope);
        return;
    }
    vc_net_rope_make_part(net, "full_attention", "rope_theta", d->head_dim, theta, &d->rope);
    vc_net_rope_make_part(net, "sliding_attention", "rope_local_base_freq", d->head_dim, 10000, &d->local_rope);
}

/* ---- layers ---- */

/* PLAIN_NORM: LayerNormalization with a scale of ones (OLMo). FROM_1: the scale is 1 + weight (Gemma), but not
 * in GGUF, whose tensors have the sum. MEANS: LayerNormalization, with a bias if it SHIFTS. wide_scale: the weight is
 * multiplied in f32 before the result is rounded, as in OLMo 2, whose norms are behind, and by WIDE (Cohere). */
static uint32_t norm(struct vc_decoder *d, uint32_t x, const char *module, int64_t n)
{
    struct vc_graph_attr attrs[2] = {vc_attr_int("axis", -1), vc_attr_float("epsilon", d->epsilon)};
    struct vc_net *net = d->net;
    const char *op = builds(d, VC_BUILD_MEANS) ? "LayerNormalization" : "RMSNormalization";
    bool from_1 = has(d, VC_ARCH_FROM_1) && net->gguf == NULL;
    uint32_t inputs[3] = {x, d->ones};

    if (has(d, VC_ARCH_PLAIN_NORM)) {
        return vc_net_node(net, "LayerNormalization", module, inputs, 2, attrs, 2);
    }
    if (!from_1 && !builds(d, VC_BUILD_MEANS)) {
        x = vc_net_rms_norm(net, x, module, n, d->epsilon);
    } else {
        inputs[1] = vc_net_vector(net, vc_net_print(net, "%s.weight", module), n);
        if (from_1) {
            inputs[1] =
                vc_net_add(net, vc_net_print(net, "%s.scale", module), inputs[1], vc_graph_add_float(net->graph, 1));
        }
        if (builds(d, VC_BUILD_SHIFTS)) {
            inputs[2] = vc_net_vector(net, vc_net_print(net, "%s.bias", module), n);
        }
        x = vc_net_node(net, op, module, inputs, builds(d, VC_BUILD_SHIFTS) ? 3 : 2, attrs, 2);
    }
    if (x < net->graph->n_values) {
        net->graph->values[x].wide_scale = d->family->norms == VC_NORMS_BEHIND || builds(d, VC_BUILD_WIDE);
    }
    return x;
}

/* Norms of q and k [batch, sequence, heads * size]: over all of it, or over each head, for which it is
 * reshaped.
 * Both ways leave the shape as it was. */
static uint32_t qk_norm(struct vc_decoder *d, uint32_t x, const char *module, int64_t heads)
{
    if (d->family->qk_norm == VC_QK_NORM_ALL) {
        return norm(d, x, module, heads * d->head_dim);
    }
    x = vc_net_reshape(d->net, x, (int64_t[]){0, 0, heads, d->head_dim}, 4);
    x = norm(d, x, module, d->head_dim);
    return vc_net_reshape(d->net, x, (int64_t[]){0, 0, heads * d->head_dim}, 3);
}

/* OLMo's clip_qkv: values beyond -clip and clip become these. */
static uint32_t clipped(struct vc_decoder *d, uint32_t x)
{
    struct vc_graph *graph = d->net->graph;

    return d->clip == 0
               ? x
               : vc_graph_add(graph, "Clip", NULL,
                              (uint32_t[]){x, vc_graph_add_float(graph, -d->clip), vc_graph_add_float(graph, d->clip)},
                              3);
}

/* q, k or v (k 0, 1, 2) of the layer: product, clip, norm, rotation. first: its first row in a packed
 * tensor. rope NULL: it is not rotated.
 *     packed:  qkv_proj [(heads + 2 kv_heads) * size, hidden]     rows of q, then of k, then of v
 *     else     q_proj, k_proj, v_proj
 */
static uint32_t projection(struct vc_decoder *d, uint32_t x, const char *module, int k, int64_t first,
                           const struct vc_net_rope *rope)
{
    static const char *const letters[3] = {"q", "k", "v"};
    struct vc_net *net = d->net;
    int64_t heads = k == 0 ? d->heads : d->kv_heads;
    const char *name = vc_net_print(net, "%s.%s_proj", module, letters[k]);
    struct vc_net_part part = {
        .module = name, .in = d->hidden, .out = heads * d->head_dim, .all = heads * d->head_dim, .bias = d->qkv_bias};

    if (has(d, VC_ARCH_PACKED)) {
        part.module = vc_net_print(net, "%s.qkv_proj", module);
        part.value = name;
        part.first = first;
        part.all = (d->heads + 2 * d->kv_heads) * d->head_dim;
    }
    x = clipped(d, vc_net_linear_part(net, x, &part));
    if (k == 2) {
        return x;
    }
    if (d->family->qk_norm != VC_QK_NORM_NONE) {
        x = qk_norm(d, x, vc_net_print(net, "%s.%s_norm", module, letters[k]), heads);
    }
    if (rope == NULL) {
        return x;
    }
    x = vc_net_rope_apply(net, rope, x, vc_net_print(net, "%s.%s_rotated", module, letters[k]), heads, d->head_dim);
    if (x < net->graph->n_values) {
        net->graph->values[x].stepwise = builds(d, VC_BUILD_PARTS);
        net->graph->values[x].wide_scale = builds(d, VC_BUILD_WIDE);
    }
    return x;
}

/* The family's own word for a module, or that of most. */
static const char *named(const char *own, const char *usual)
{
    return own != NULL ? own : usual;
}

/* The window's mask contains the padding's; scores are causal in any case.
 * Grouped queries: kv_heads may be fewer than heads, and each serves heads / kv_heads of them. */
static uint32_t attention(struct vc_decoder *d, uint32_t x, int64_t layer, const char *module)
{
    struct vc_net *net = d->net;
    bool window = has_window(d, layer);
    const struct vc_net_rope *rope = window && has(d, VC_ARCH_LOCAL_ROPE) ? &d->local_rope
                                     : rotates(d, layer)                  ? &d->rope
                                                                          : NULL;
    int64_t q_size = d->heads * d->head_dim;
    struct vc_net_attention how = {.value = vc_net_print(net, "%s.attention", module),
                                   .heads = d->heads,
                                   .kv_heads = d->kv_heads,
                                   .causal = true,
                                   .scale = d->scale,
                                   .softcap = d->score_cap,
                                   .mask = window ? d->mask : d->padding,
                                   .dropout = d->score_dropout,
                                   .copied = has(d, VC_ARCH_PARTIAL)};

    vc_net_block(net, "%s", module);
    uint32_t q = projection(d, x, module, 0, 0, rope);
    uint32_t k = projection(d, x, module, 1, q_size, rope);
    uint32_t v = projection(d, x, module, 2, q_size + d->kv_heads * d->head_dim, NULL);
    x = vc_net_attention(net, q, k, v, &how);
    return vc_net_linear(net, x, vc_net_print(net, "%s.%s", module, named(d->family->modules.out, "o_proj")), q_size,
                         d->hidden, d->output_bias);
}

static uint32_t mlp_of(struct vc_decoder *d, uint32_t x, int64_t layer, const char *module)
{
    struct vc_decoder_mlp mlp = {.gate = builds(d, VC_BUILD_NO_GATE) ? NULL : "gate_proj",
                                 .up = named(d->family->modules.up, "up_proj"),
                                 .down = named(d->family->modules.down, "down_proj"),
                                 .inner = d->inner,
                                 .bias = d->mlp_bias};
    const char *own = vc_net_print(d->net, "%s.mlp", module);

    if (vc_decoder_has_experts(d, layer)) {
        return vc_decoder_experts(d, x, module);
    }
    mlp.packed = has(d, VC_ARCH_PACKED) ? "gate_up_proj" : NULL;
    vc_net_block(d->net, "%s", own);
    return vc_decoder_mlp(d, x, own, &mlp);
}

/* FACTORS: transformers multiplies by 1, too, into another tensor; llama.cpp does not. */
static uint32_t scaled(struct vc_decoder *d, const char *value, uint32_t x, double factor)
{
    bool always = builds(d, VC_BUILD_FACTORS) && d->net->gguf == NULL;

    return factor == 1 && !always ? x : vc_net_op(d->net, "Mul", value, x, vc_graph_add_float(d->net->graph, factor));
}

/* VC_NORMS_BEFORE: a norm before attention and one before the MLP. _BEHIND: both norms after (OLMo 2).
 * Otherwise four norms. In training, dropout takes the place of the norms behind. Parallel: the MLP reads what attention
 * does. */
static uint32_t decoder_layer(struct vc_decoder *d, uint32_t x, int64_t layer)
{
    struct vc_net *net = d->net;
    enum vc_arch_norms places = d->family->norms;
    const char *module = vc_net_print(net, "layers.%lld", (long long)layer);
    const char *first = vc_net_print(net, "%s.input_layernorm", module);
    const char *second = vc_net_print(net, "%s.post_attention_layernorm", module);
    const char *third = vc_net_print(net, "%s.pre_feedforward_layernorm", module);
    const char *fourth = vc_net_print(net, "%s.post_feedforward_layernorm", module);

    vc_net_block(net, "%s", module);
    uint32_t normed =
        places == VC_NORMS_BEHIND ? x : norm(d, x, first, d->hidden); /* what attention reads, then the MLP */
    uint32_t y = attention(d, normed, layer, vc_net_print(net, "%s.self_attn", module));
    if (builds(d, VC_BUILD_USE_PARALLEL) && normed < net->graph->n_values && y < net->graph->n_values) {
        net->graph->values[normed].stepwise = net->graph->values[y].stepwise = true;
    }
    vc_net_block(net, "%s", module);
    y = places == VC_NORMS_BEFORE ? vc_net_drop(net, y, d->dropout) : norm(d, y, second, d->hidden);
    x = vc_net_add(net, vc_net_print(net, "%s.after_attention", module), x, scaled(d, NULL, y, d->added_factor));
    if (!d->parallel) {
        normed = places == VC_NORMS_BEHIND ? x : norm(d, x, places == VC_NORMS_BEFORE ? second : third, d->hidden);
    }
    y = mlp_of(d, normed, layer, module);
    vc_net_block(net, "%s", module);
    y = places == VC_NORMS_BEFORE ? vc_net_drop(net, y, d->dropout) : norm(d, y, fourth, d->hidden);
    return vc_net_add(net, module, x, scaled(d, NULL, y, d->added_factor));
}

/* The mask of layers with a window, made once, and the scale of plain norms. */
static void make_constants(struct vc_decoder *d)
{
    struct vc_net *net = d->net;

    for (int64_t k = 0; k < d->layers && d->mask == VC_NO_VALUE; k++) {
        if (has_window(d, k)) {
            d->mask = vc_net_op(net, "And", NULL, vc_net_window(net, d->window), d->padding);
        }
    }
    if (has(d, VC_ARCH_PLAIN_NORM)) { /* one number, which broadcasts; onnxruntime wants as many as there are */
        d->ones = vc_graph_add_constant(net->graph, NULL, VC_DTYPE_F32, (int64_t[]){1}, 1, (double[]){1});
        if (net->exported) {
            d->ones = vc_net_op(net, "Expand", NULL, d->ones, vc_graph_add_ints(net->graph, &d->hidden, 1));
        }
    }
}

/* Gemma multiplies embeddings by sqrt(hidden), Granite by a number of config.json. */
static uint32_t embeddings(struct vc_decoder *d)
{
    struct vc_net *net = d->net;

    vc_net_block(net, "embed_tokens");
    uint32_t x = vc_net_embed(net, net->input_ids, "embed_tokens", d->vocabulary, d->hidden);
    return scaled(d, "embed_tokens.scaled", x, d->embedding_factor);
}

/* Gemma 2 bends logits: cap * tanh(logits / cap). */
static uint32_t logits(struct vc_decoder *d, uint32_t x)
{
    struct vc_net *net = d->net;

    const char *bias = builds(d, VC_BUILD_HEAD_BIAS) ? "/lm_head.bias" : NULL;

    x = vc_net_tied_head(net, x, "/lm_head", "embed_tokens", d->hidden, d->vocabulary, bias, d->tied);
    x = scaled(d, NULL, x, d->logit_factor);
    if (d->logit_cap == 0) {
        return x;
    }
    uint32_t cap = vc_graph_add_float(net->graph, d->logit_cap);
    return vc_net_op(net, "Mul", NULL, vc_net_op1(net, "Tanh", vc_net_op(net, "Div", NULL, x, cap)), cap);
}

/* Keys are checked before anything is built: a configuration that failed has sizes that mean nothing. */
static void build(struct vc_net *net)
{
    struct vc_decoder d = {.net = net,
                           .family = net->family->row,
                           .usual = vc_arch_family_class(net->family->row),
                           .mask = VC_NO_VALUE,
                           .ones = VC_NO_VALUE};

    read_config(&d);
    vc_net_text_input(net);
    read_rope(&d);
    vc_net_check_keys(net);
    if (net->failed) {
        return;
    }
    d.padding = vc_net_padding_mask(net);
    make_constants(&d);
    uint32_t x = embeddings(&d);
    for (int64_t k = 0; k < d.layers && net->graph->status == VC_OK; k++) {
        x = decoder_layer(&d, x, k);
    }
    vc_net_block(net, "%s", named(d.family->modules.norm, "norm"));
    x = norm(&d, x, named(d.family->modules.norm, "norm"), d.hidden);
    if (!vc_net_decoder_head(net, x, "/score", d.hidden)) {
        vc_net_output(net, logits(&d, x), "logits");
    }
}

/* Makes the row of a decoder from arch's row. The heads are the classes that transformers has for the
 * family. */
bool vc_net_find_decoder(const char *type, struct vc_net_family *out)
{
    static const char *const unused[] = {"*rotary_emb.inv_freq", NULL};
    const struct vc_arch_family *row = vc_arch_family(type);

    if (row == NULL || !vc_arch_has(row, VC_ARCH_GRAPH) ||
        strcmp(vc_arch_family_type(row, (char[VC_ARCH_TYPE_BYTES]){""}), type) != 0) {
        return false;
    }
    *out = (struct vc_net_family){.type = type,
                                  .row = row,
                                  .class_name = row->class_name,
                                  .base_class = row->base_class,
                                  .prefix = "model.",
                                  .probe = "embed_tokens.weight",
                                  .heads = VC_NET_BASE | VC_NET_CAUSAL |
                                           ((row->classes & VC_ARCH_OF_SEQUENCES) != 0 ? VC_NET_SEQUENCE : 0) |
                                           ((row->classes & VC_ARCH_OF_TOKENS) != 0 ? VC_NET_TOKEN : 0) |
                                           ((row->classes & VC_ARCH_OF_QUESTIONS) != 0 ? VC_NET_QUESTION : 0),
                                  .usual = VC_NET_CAUSAL,
                                  .unused = unused,
                                  .build = build};
    return true;
}
