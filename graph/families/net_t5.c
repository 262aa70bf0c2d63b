/* net_t5.c - T5 and mT5: an encoder and a decoder, RMS norms before attention and MLP, numbers by relative position
 * that are added to scores, no biases, scores that are not scaled. */
#include "graph/families/net.h"

#include <math.h>

#define LONGEST_DISTANCE 100000

struct t5 {
    struct vc_net *net;
    int64_t hidden, head_dim, heads, inner, layers, decoder_layers, vocabulary, buckets, longest;
    double epsilon;
    double dropout; /* in training */
    bool gated, scaled, tied, relative;
    const char *act;
};

/* One of the two stacks while its layers are built. */
struct stack {
    struct t5 *t;
    const char *name; /* "encoder" */
    uint32_t ids;
    uint32_t mask;    /* of its own tokens: bias by position */
    uint32_t memory;  /* what the encoder made; VC_NO_VALUE in the encoder */
    uint32_t padding; /* of the encoder's tokens */
    uint32_t own_padding;
};

/* "relu", "gated-gelu", "gated-silu": gated MLPs have two matrices wi_0 and wi_1; gated-gelu is the tanh
 * form. */
static void read_function(struct t5 *t, const char *otherwise)
{
    struct vc_net *net = t->net;
    const char *word = vc_net_word(net, "feed_forward_proj", otherwise);

    t->gated = strncmp(word, "gated-", 6) == 0;
    t->act = strcmp(word, "gated-gelu") == 0 ? "gelu_new" : t->gated ? word + 6 : word;
    vc_net_check_activation(net, "feed_forward_proj", t->act);
}

/* T5 without "num_decoder_layers" has as many as encoder layers. scale_decoder_outputs: logits of tied
 * heads are scaled. */
static bool read_config(struct t5 *t, const char *function, bool scales)
{
    struct vc_net *net = t->net;

    t->hidden = vc_net_size(net, "d_model", VC_NET_REQUIRED);
    t->head_dim = vc_net_size(net, "d_kv", VC_NET_REQUIRED);
    t->heads = vc_net_size(net, "num_heads", VC_NET_REQUIRED);
    t->inner = vc_net_size(net, "d_ff", VC_NET_REQUIRED);
    t->layers = vc_net_layers(net, "num_layers");
    t->decoder_layers =
        vc_net_get(net, "num_decoder_layers") != NULL ? vc_net_layers(net, "num_decoder_layers") : t->layers;
    t->vocabulary = vc_net_size(net, "vocab_size", VC_NET_REQUIRED);
    t->buckets = vc_net_size(net, "relative_attention_num_buckets", 32);
    t->longest = vc_net_size(net, "relative_attention_max_distance", 128);
    t->epsilon = vc_net_real(net, "layer_norm_epsilon", 1e-6);
    t->dropout = vc_net_probability(net, "dropout_rate", 0.1);
    t->tied = vc_net_flag(net, "tie_word_embeddings", true);
    t->relative = !net->graph->stands_in || vc_net_flag(net, "has_relative_attention_bias", true);
    t->scaled = scales && vc_net_flag(net, "scale_decoder_outputs", t->tied);
    (void)vc_net_flag(net, "is_encoder_decoder", true);
    read_function(t, function);
    if (t->buckets < 4 || t->buckets > LONGEST_DISTANCE) {
        vc_net_refuse(net, "relative_attention_num_buckets", "not a number from 4 to 100000");
    } else if (t->longest < t->buckets || t->longest > LONGEST_DISTANCE) {
        vc_net_refuse(net, "relative_attention_max_distance", "not a number from that of buckets to 100000");
    }
    vc_net_check_keys(net);
    return !net->failed;
}

/* ---- layers ---- */

/* Marks a value that PyTorch computes in several steps (T5's norm is no fused kernel): for estimates of
 * memory. */
static uint32_t stepwise(struct vc_net *net, uint32_t x)
{
    if (x < net->graph->n_values) {
        net->graph->values[x].stepwise = true;
    }
    return x;
}

static uint32_t norm(const struct t5 *t, uint32_t x, const char *module)
{
    return stepwise(t->net, vc_net_rms_norm(t->net, x, module, t->hidden, t->epsilon));
}

/* q of x, k and v of `from`: x itself, or the encoder's output. T5 does not scale scores (its
 * initialization does). */
static uint32_t attention(const struct stack *s, uint32_t x, uint32_t from, const char *module)
{
    const struct t5 *t = s->t;
    struct vc_net *net = t->net;
    bool own = x == from;
    int64_t size = t->heads * t->head_dim;
    struct vc_net_attention how = {.value = vc_net_print(net, "%s.attention", module),
                                   .heads = t->heads,
                                   .kv_heads = t->heads,
                                   .causal = own && s->memory != VC_NO_VALUE,
                                   .scale = 1,
                                   .mask = own ? s->mask : s->padding,
                                   .dropout = t->dropout,
                                   .half_softmax = true};

    vc_net_block(net, "%s", module);
    uint32_t q = vc_net_linear(net, x, vc_net_print(net, "%s.q", module), t->hidden, size, false);
    uint32_t k = vc_net_linear(net, from, vc_net_print(net, "%s.k", module), t->hidden, size, false);
    uint32_t v = vc_net_linear(net, from, vc_net_print(net, "%s.v", module), t->hidden, size, false);
    x = vc_net_attention(net, q, k, v, &how);
    return vc_net_linear(net, x, vc_net_print(net, "%s.o", module), size, t->hidden, false);
}

/* The gate's activation is a node before the second product, in the order in which transformers computes
 * them. */
static uint32_t mlp(const struct stack *s, uint32_t x, const char *module)
{
    const struct t5 *t = s->t;
    struct vc_net *net = t->net;
    const char *act = vc_net_print(net, "%s.act", module);
    uint32_t up;

    vc_net_block(net, "%s", module);
    if (t->gated) {
        uint32_t gate = vc_net_linear(net, x, vc_net_print(net, "%s.wi_0", module), t->hidden, t->inner, false);

        gate = vc_net_activation(net, gate, act, "feed_forward_proj", t->act); /* before the other product */
        up = vc_net_linear(net, x, vc_net_print(net, "%s.wi_1", module), t->hidden, t->inner, false);
        x = vc_net_op(net, "Mul", NULL, gate, up);
    } else {
        up = vc_net_linear(net, x, vc_net_print(net, "%s.wi", module), t->hidden, t->inner, false);
        x = vc_net_activation(net, up, act, "feed_forward_proj", t->act);
    }
    x = vc_net_drop(net, x, t->dropout);
    return vc_net_linear(net, x, vc_net_print(net, "%s.wo", module), t->inner, t->hidden, false);
}

/* The numbers of "layer.N" are given to what there is: an encoder's MLP is layer.1, a decoder's layer.2. */
static uint32_t block(const struct stack *s, uint32_t x, int64_t number)
{
    struct vc_net *net = s->t->net;
    const char *own = vc_net_print(net, "%s.block.%lld", s->name, (long long)number);
    int n = 0;
    uint32_t y;

    for (int kind = 0; kind < 3; kind++) { /* attention, attention to the encoder, MLP */
        const char *layer = vc_net_print(net, "%s.layer.%d", own, n);

        if (kind == 1 && s->memory == VC_NO_VALUE) {
            continue;
        }
        vc_net_block(net, "%s", layer);
        y = norm(s->t, x, vc_net_print(net, "%s.layer_norm", layer));
        y = kind == 0   ? attention(s, y, y, vc_net_print(net, "%s.SelfAttention", layer))
            : kind == 1 ? attention(s, y, s->memory, vc_net_print(net, "%s.EncDecAttention", layer))
                        : mlp(s, y, vc_net_print(net, "%s.DenseReluDense", layer));
        y = vc_net_drop(net, y, s->t->dropout);
        vc_net_block(net, "%s", layer);
        x = vc_net_add(net, layer, x, y);
        n++;
    }
    return x;
}

/* Both stacks read "shared.weight"; the bias by position is the table of the first layer, used by all
 * layers; what stands in for a model may have none. */
static uint32_t run_stack(struct stack *s, int64_t layers)
{
    struct t5 *t = s->t;
    struct vc_net *net = t->net;
    struct vc_net_relative how = {.buckets = t->buckets, .rows = t->buckets, .longest = t->longest, .heads = t->heads};

    vc_net_block(net, "%s.embed_tokens", s->name);
    uint32_t x = vc_net_op(
        net, "Gather", vc_net_print(net, "%s.embed_tokens", s->name),
        vc_net_param(net, &(struct vc_net_tensor){.name = "shared.weight",
                                                  .value = vc_net_print(net, "%s.embed_tokens.weight", s->name),
                                                  .n_dims = 2,
                                                  .shape = {(uint64_t)t->vocabulary, (uint64_t)t->hidden}}),
        s->ids);
    x = vc_net_drop(net, x, t->dropout);
    s->mask = s->own_padding;
    if (layers != 0 && t->relative) {
        how.table = vc_net_print(net, "%s.block.0.layer.0.SelfAttention.relative_attention_bias", s->name);
        vc_net_block(net, "%s", how.table);
        s->mask = vc_net_relative_bias(net, &how, s->ids, s->memory == VC_NO_VALUE);
        s->mask = stepwise(net, vc_net_masked_bias(net, s->own_padding, s->mask));
    }
    for (int64_t k = 0; k < layers && net->graph->status == VC_OK; k++) {
        x = block(s, x, k);
    }
    vc_net_block(net, "%s.final_layer_norm", s->name);
    x = norm(t, x, vc_net_print(net, "%s.final_layer_norm", s->name));
    return vc_net_drop(net, x, t->dropout);
}

/* Outputs are those of transformers: logits or last_hidden_state, then the encoder's last_hidden_state. */
static void build_any(struct vc_net *net, const char *function, bool scales)
{
    struct t5 t = {.net = net};
    struct stack encoder = {.t = &t, .name = "encoder", .memory = VC_NO_VALUE};
    struct stack decoder = {.t = &t, .name = "decoder"};

    if (!read_config(&t, function, scales)) {
        return;
    }
    vc_net_text_input(net);
    encoder.ids = net->input_ids;
    encoder.padding = encoder.own_padding = vc_net_padding_mask(net);
    if (net->head == VC_NET_ENCODER) {
        vc_net_output(net, run_stack(&encoder, t.layers), "last_hidden_state");
        return;
    }
    decoder.ids = vc_net_decoder_input(net);
    decoder.own_padding = vc_net_decoder_padding_mask(net);
    decoder.padding = encoder.padding;
    decoder.memory = run_stack(&encoder, t.layers);
    uint32_t x = run_stack(&decoder, t.decoder_layers);
    if (net->head == VC_NET_BASE) {
        vc_net_output(net, x, "last_hidden_state");
    } else {
        if (t.scaled) {
            vc_net_block(net, "/lm_head");
            x = vc_net_op(net, "Mul", NULL, x, vc_graph_add_float(net->graph, 1 / sqrt((double)t.hidden)));
        }
        x = vc_net_tied_head(net, x, "/lm_head", "shared", t.hidden, t.vocabulary, NULL, t.tied);
        vc_net_output(net, x, "logits");
    }
    vc_net_output(net, decoder.memory, "encoder_last_hidden_state");
}

static void build_t5(struct vc_net *net)
{
    build_any(net, "relu", true);
}

static void build_mt5(struct vc_net *net)
{
    build_any(net, "gated-gelu", false);
}

/* Copies of tied tensors; the decoder's where only the encoder is used. */
static const char *const unused[] = {"encoder.embed_tokens.weight", "decoder.*", "lm_head.weight", NULL};

#define ROW(id, type_name, class, builder)                                                               \
    const struct vc_net_family vc_net_##id = {.type = type_name,                                         \
                                              .class_name = class,                                       \
                                              .prefix = "",                                              \
                                              .probe = "shared.weight",                                  \
                                              .heads = VC_NET_BASE | VC_NET_GENERATION | VC_NET_ENCODER, \
                                              .usual = VC_NET_GENERATION,                                \
                                              .unused = unused,                                          \
                                              .build = builder}

ROW(t5, "t5", "T5", build_t5);
ROW(mt5, "mt5", "MT5", build_mt5);
