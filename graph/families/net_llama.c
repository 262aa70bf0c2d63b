/* net_llama.c - decoders of the form of Llama: RMS norms before attention and MLP, rotary positions, grouped queries, a
 * gated MLP. What differs between families is a struct traits. */
#include "graph/families/net.h"

#include <math.h>
#include <string.h>

/* What a family does otherwise. */
struct traits {
    bool attention_bias_key;                 /* "attention_bias": of all four projections */
    bool qkv_bias;                           /* of q, k and v always */
    bool mlp_bias_key;                       /* "mlp_bias" */
    bool head_norm;                          /* RMS norms of q and k per head */
    bool packed;                             /* qkv_proj and gate_up_proj */
    bool window;                             /* "sliding_window" for all layers */
    bool some_windows;                       /* "use_sliding_window", "max_window_layers", "layer_types" */
    bool experts;                            /* block_sparse_moe in place of mlp */
    double theta, epsilon;                   /* defaults of keys that are absent */
    int64_t kv_heads, head_dim, window_size; /* the same; 0: as many as heads, hidden / heads, none */
};

struct decoder {
    struct vc_net *net;
    const struct traits *traits;
    int64_t hidden, layers, heads, kv_heads, head_dim, inner, vocabulary, window, first_window, experts, chosen;
    double epsilon;
    bool attention_bias, output_bias, mlp_bias, tied;
    const char *act;
    const json_t *layer_types;
    struct vc_net_rope rope;
    uint32_t mask; /* of layers with a window; made for the first one */
};

/* ---- configuration ---- */

/* The default of a key that is not there; null says something else. */
static int64_t if_absent(const struct decoder *d, const char *key, int64_t value, int64_t otherwise)
{
    return value != 0 && json_object_get(d->net->config, key) == NULL ? value : otherwise;
}

static void read_windows(struct decoder *d)
{
    struct vc_net *net = d->net;

    d->first_window = d->layers;
    if (d->traits->window) {
        d->window = vc_net_size(net, "sliding_window", if_absent(d, "sliding_window", d->traits->window_size, 0));
        d->first_window = d->window != 0 ? 0 : d->layers;
    } else if (d->traits->some_windows) {
        bool used = vc_net_flag(net, "use_sliding_window", false);

        d->window = vc_net_size(net, "sliding_window", 4096);
        d->first_window = vc_net_count(net, "max_window_layers", 28);
        d->first_window = used ? d->first_window : d->layers;
        d->layer_types = vc_net_get(net, "layer_types");
    }
    if (d->layer_types != NULL &&
        (!json_is_array(d->layer_types) || json_array_size(d->layer_types) != (size_t)d->layers)) {
        vc_net_refuse(net, "layer_types", "not a list with a word for each layer");
    }
    for (size_t k = 0; !net->failed && k < json_array_size(d->layer_types); k++) {
        const char *word = json_string_value(json_array_get(d->layer_types, k));

        if (word == NULL || (strcmp(word, "full_attention") != 0 && strcmp(word, "sliding_attention") != 0)) {
            vc_net_refuse(net, "layer_types", "of which only full_attention and sliding_attention are supported");
        }
    }
}

static void read_config(struct decoder *d)
{
    struct vc_net *net = d->net;
    const struct traits *t = d->traits;

    d->hidden = vc_net_size(net, "hidden_size", VC_NET_REQUIRED);
    d->layers = vc_net_layers(net, "num_hidden_layers");
    d->heads = vc_net_size(net, "num_attention_heads", VC_NET_REQUIRED);
    d->inner = vc_net_size(net, "intermediate_size", VC_NET_REQUIRED);
    d->vocabulary = vc_net_size(net, "vocab_size", VC_NET_REQUIRED);
    d->kv_heads = vc_net_size(net, "num_key_value_heads", if_absent(d, "num_key_value_heads", t->kv_heads, d->heads));
    d->head_dim = vc_net_size(net, "head_dim", if_absent(d, "head_dim", t->head_dim, 0));
    d->epsilon = vc_net_real(net, "rms_norm_eps", t->epsilon);
    d->act = vc_net_word(net, "hidden_act", "silu");
    d->tied = vc_net_flag(net, "tie_word_embeddings", false);
    d->output_bias = t->attention_bias_key && vc_net_flag(net, "attention_bias", false);
    d->attention_bias = d->output_bias || t->qkv_bias;
    d->mlp_bias = t->mlp_bias_key && vc_net_flag(net, "mlp_bias", false);
    if (t->experts) {
        d->experts = vc_net_size(net, "num_local_experts|num_experts", 8);
        d->chosen = vc_net_size(net, "num_experts_per_tok", 2);
        if (d->experts * d->layers > VC_NET_MAX_PARTS || d->chosen > d->experts) {
            vc_net_refuse(net, d->chosen > d->experts ? "num_experts_per_tok" : "num_local_experts",
                          d->chosen > d->experts ? "more than there are experts" : "which are too many for a model");
        }
    }
    if (d->head_dim == 0) {
        d->head_dim = vc_net_share(net, "hidden_size by num_attention_heads", d->hidden, d->heads);
    }
    (void)vc_net_share(net, "num_attention_heads by num_key_value_heads", d->heads, d->kv_heads);
    vc_net_check_activation(net, "hidden_act", d->act);
    read_windows(d);
}

static bool has_window(const struct decoder *d, int64_t layer)
{
    return d->layer_types != NULL
               ? strcmp(json_string_value(json_array_get(d->layer_types, (size_t)layer)), "sliding_attention") == 0
               : layer >= d->first_window;
}

/* ---- layers ---- */

/* RMS norm of each head of [batch, sequence, heads * size]. */
static uint32_t head_norm(struct decoder *d, uint32_t x, const char *module, int64_t heads)
{
    x = vc_net_reshape(d->net, x, (int64_t[]){0, 0, heads, d->head_dim}, 4);
    x = vc_net_rms_norm(d->net, x, module, d->head_dim, d->epsilon);
    return vc_net_reshape(d->net, x, (int64_t[]){0, 0, heads * d->head_dim}, 3);
}

static uint32_t attention(struct decoder *d, uint32_t x, int64_t layer, const char *module)
{
    struct vc_net *net = d->net;
    struct vc_net_attention how = {.value = vc_net_print(net, "%s.attention", module),
                                   .heads = d->heads,
                                   .kv_heads = d->kv_heads,
                                   .causal = true,
                                   .scale = 1 / sqrt((double)d->head_dim),
                                   .mask = has_window(d, layer) ? d->mask : VC_NO_VALUE};
    static const char *const letters[3] = {"q", "k", "v"};
    int64_t sizes[3] = {d->heads * d->head_dim, d->kv_heads * d->head_dim, d->kv_heads * d->head_dim};
    int64_t first = 0;
    uint32_t qkv[3];

    vc_net_block(net, "%s", module);
    for (int k = 0; k < 3; k++) {
        struct vc_net_part part = {.in = d->hidden, .out = sizes[k], .all = sizes[k], .bias = d->attention_bias};
        const char *name = vc_net_print(net, "%s.%s_proj", module, letters[k]);

        part.module = name;
        if (d->traits->packed) {
            part.module = vc_net_print(net, "%s.qkv_proj", module);
            part.value = name;
            part.first = first;
            part.all = sizes[0] + sizes[1] + sizes[2];
            first += sizes[k];
        }
        qkv[k] = vc_net_linear_part(net, x, &part);
        if (k < 2 && d->traits->head_norm) {
            qkv[k] = head_norm(d, qkv[k], vc_net_print(net, "%s.%s_norm", module, letters[k]),
                               k == 0 ? d->heads : d->kv_heads);
        }
        if (k < 2) {
            qkv[k] = vc_net_rope_apply(net, &d->rope, qkv[k], vc_net_print(net, "%s.%s_rotated", module, letters[k]),
                                       k == 0 ? d->heads : d->kv_heads, d->head_dim);
        }
    }
    x = vc_net_attention(net, qkv[0], qkv[1], qkv[2], &how);
    return vc_net_linear(net, x, vc_net_print(net, "%s.o_proj", module), sizes[0], d->hidden, d->output_bias);
}

/* down(act(gate(x)) * up(x)), with the three matrices called `names`. */
static uint32_t gated(struct decoder *d, uint32_t x, const char *module, const char *const names[3])
{
    struct vc_net *net = d->net;
    const char *gate_name = vc_net_print(net, "%s.%s", module, names[0]);
    const char *up_name = vc_net_print(net, "%s.%s", module, names[1]);
    struct vc_net_part part = {
        .module = gate_name, .in = d->hidden, .out = d->inner, .all = d->inner, .bias = d->mlp_bias};
    uint32_t gate;
    uint32_t up;

    if (d->traits->packed) {
        part.module = vc_net_print(net, "%s.gate_up_proj", module);
        part.all = 2 * d->inner;
    }
    part.value = gate_name;
    gate = vc_net_linear_part(net, x, &part);
    part.module = d->traits->packed ? part.module : up_name;
    part.value = up_name;
    part.first = d->traits->packed ? d->inner : 0;
    up = vc_net_linear_part(net, x, &part);
    gate = vc_net_activation(net, gate, vc_net_print(net, "%s.act", module), "hidden_act", d->act);
    x = vc_net_op(net, "Mul", NULL, gate, up);
    return vc_net_linear(net, x, vc_net_print(net, "%s.%s", module, names[2]), d->inner, d->hidden, d->mlp_bias);
}

/* The weight of each expert for each token: of the largest `chosen` probabilities, with sum 1; 0 for the others.
 * [batch, sequence, experts] */
static uint32_t expert_weights(struct decoder *d, uint32_t x, const char *module)
{
    struct vc_net *net = d->net;
    struct vc_graph_attr last = vc_attr_int("axis", -1);
    const char *names[2] = {NULL, NULL};
    uint32_t p = vc_net_linear(net, x, vc_net_print(net, "%s.gate", module), d->hidden, d->experts, false);
    uint32_t inputs[3];
    uint32_t top;
    uint32_t places;

    p = vc_graph_add(net->graph, "Softmax", NULL, &p, 1);
    inputs[0] = p;
    inputs[1] = vc_graph_add_ints(net->graph, &d->chosen, 1);
    top = vc_graph_add_node(net->graph, &(struct vc_node_spec){.op = "TopK",
                                                               .n_inputs = 2,
                                                               .inputs = inputs,
                                                               .n_outputs = 2,
                                                               .output_names = names,
                                                               .n_attrs = 1,
                                                               .attrs = &last});
    places = vc_graph_output_of(net->graph, top, 1);
    inputs[0] = top;
    inputs[1] = vc_graph_add_ints(net->graph, (int64_t[]){-1}, 1);
    top = vc_net_op(net, "Div", NULL, top, vc_graph_add(net->graph, "ReduceSum", NULL, inputs, 2));
    inputs[0] = vc_net_op(net, "Mul", NULL, p, vc_graph_add_float(net->graph, 0));
    inputs[1] = places;
    inputs[2] = top;
    return vc_net_node(net, "ScatterElements", NULL, inputs, 3, &last, 1);
}

/* All experts compute all tokens; those that were not chosen count nothing. */
static uint32_t sparse_mlp(struct decoder *d, uint32_t x, const char *module)
{
    static const char *const names[3] = {"w1", "w3", "w2"};
    struct vc_net *net = d->net;
    uint32_t weights = expert_weights(d, x, module);
    uint32_t sum = VC_NO_VALUE;

    for (int64_t e = 0; e < d->experts; e++) {
        const char *expert = vc_net_print(net, "%s.experts.%lld", module, (long long)e);
        uint32_t weight;
        uint32_t y;

        vc_net_block(net, "%s", expert);
        y = gated(d, x, expert, names);
        weight = vc_net_reshape(net, vc_net_pick(net, weights, -1, e), (int64_t[]){0, 0, 1}, 3);
        y = vc_net_op(net, "Mul", NULL, y, weight);
        sum = sum == VC_NO_VALUE ? y : vc_net_add(net, NULL, sum, y);
    }
    return sum;
}

static uint32_t decoder_layer(struct decoder *d, uint32_t x, int64_t layer)
{
    static const char *const names[3] = {"gate_proj", "up_proj", "down_proj"};
    struct vc_net *net = d->net;
    const char *module = vc_net_print(net, "layers.%lld", (long long)layer);
    const char *mlp = vc_net_print(net, "%s.%s", module, d->traits->experts ? "block_sparse_moe" : "mlp");
    uint32_t y;

    vc_net_block(net, "%s", module);
    y = vc_net_rms_norm(net, x, vc_net_print(net, "%s.input_layernorm", module), d->hidden, d->epsilon);
    y = attention(d, y, layer, vc_net_print(net, "%s.self_attn", module));
    vc_net_block(net, "%s", module);
    x = vc_net_add(net, vc_net_print(net, "%s.after_attention", module), x, y);
    y = vc_net_rms_norm(net, x, vc_net_print(net, "%s.post_attention_layernorm", module), d->hidden, d->epsilon);
    vc_net_block(net, "%s", mlp);
    y = d->traits->experts ? sparse_mlp(d, y, mlp) : gated(d, y, mlp, names);
    vc_net_block(net, "%s", module);
    return vc_net_add(net, module, x, y);
}

static void build_decoder(struct vc_net *net, const struct traits *traits)
{
    struct decoder d = {.net = net, .traits = traits, .mask = VC_NO_VALUE};
    uint32_t x;

    read_config(&d);
    vc_net_text_input(net);
    vc_net_rope_make(net, d.head_dim, traits->theta, &d.rope);
    vc_net_check_keys(net);
    if (net->failed) {
        return;
    }
    for (int64_t k = 0; k < d.layers && d.mask == VC_NO_VALUE; k++) {
        d.mask = has_window(&d, k) ? vc_net_window(net, d.window) : VC_NO_VALUE;
    }
    vc_net_block(net, "embed_tokens");
    x = vc_net_embed(net, net->input_ids, "embed_tokens", d.vocabulary, d.hidden);
    for (int64_t k = 0; k < d.layers && net->graph->status == VC_OK; k++) {
        x = decoder_layer(&d, x, k);
    }
    vc_net_block(net, "norm");
    x = vc_net_rms_norm(net, x, "norm", d.hidden, d.epsilon);
    if (net->head == VC_NET_BASE) {
        vc_net_output(net, x, "last_hidden_state");
        return;
    }
    vc_net_output(net, vc_net_tied_head(net, x, "/lm_head", "embed_tokens", d.hidden, d.vocabulary, NULL, d.tied),
                  "logits");
}

#define HEADS (VC_NET_BASE | VC_NET_CAUSAL)
static const char *const unused[] = {"*rotary_emb.inv_freq", NULL};

/* A family: its row and what it does. */
#define FAMILY(id, type_name, class, ...)                             \
    static void build_##id(struct vc_net *net)                        \
    {                                                                 \
        static const struct traits traits = {__VA_ARGS__};            \
                                                                      \
        build_decoder(net, &traits);                                  \
    }                                                                 \
    const struct vc_net_family vc_net_##id = {.type = type_name,      \
                                              .class_name = class,    \
                                              .prefix = "model.",     \
                                              .probe = "norm.weight", \
                                              .heads = HEADS,         \
                                              .usual = VC_NET_CAUSAL, \
                                              .unused = unused,       \
                                              .build = build_##id}

FAMILY(llama, "llama", "Llama", .attention_bias_key = true, .mlp_bias_key = true, .theta = 10000, .epsilon = 1e-6);
FAMILY(mistral, "mistral", "Mistral", .window = true, .theta = 10000, .epsilon = 1e-6, .kv_heads = 8,
       .window_size = 4096);
FAMILY(qwen2, "qwen2", "Qwen2", .qkv_bias = true, .some_windows = true, .theta = 10000, .epsilon = 1e-6,
       .kv_heads = 32);
FAMILY(qwen3, "qwen3", "Qwen3", .attention_bias_key = true, .head_norm = true, .some_windows = true, .theta = 10000,
       .epsilon = 1e-6, .kv_heads = 32, .head_dim = 128);
FAMILY(phi3, "phi3", "Phi3", .packed = true, .window = true, .theta = 10000, .epsilon = 1e-5);
FAMILY(mixtral, "mixtral", "Mixtral", .experts = true, .window = true, .theta = 1e6, .epsilon = 1e-5, .kv_heads = 8);
