/* net_whisper.c - Whisper: an encoder of sound with two convolutions, a decoder of text that looks at it; layer norms
 * before attention and MLP, learned positions, no bias of k.
 *
 *     input_features [batch, 80, 3000] -conv1, conv2 (stride 2)-> [batch, 1500, hidden] -encoder-> memory
 *     decoder_input_ids -embedding + positions-> decoder layers: self attention, attention to memory, MLP -> logits
 */
#include "graph/families/net.h"

#include <math.h>

struct whisper {
    struct vc_net *net;
    int64_t hidden, bins, sounds, texts, vocabulary;
    double dropout, score_dropout, act_dropout; /* in training */
    bool tied;
    const char *act;
};

/* One of the two stacks while its layers are built. */
struct stack {
    struct whisper *w;
    const char *name; /* "encoder" */
    int64_t layers, heads, inner;
    uint32_t memory; /* what the encoder made; VC_NO_VALUE in the encoder */
    uint32_t mask;   /* of its own tokens, or VC_NO_VALUE */
};

/* Encoder and decoder have layers, heads and widths of their own, but one hidden size. */
static bool read_config(struct whisper *w, struct stack *encoder, struct stack *decoder)
{
    struct vc_net *net = w->net;

    w->hidden = vc_net_size(net, "d_model", VC_NET_REQUIRED);
    w->bins = vc_net_size(net, "num_mel_bins", 80);
    w->sounds = vc_net_size(net, "max_source_positions", 1500);
    w->texts = vc_net_size(net, "max_target_positions", 448);
    w->vocabulary = vc_net_size(net, "vocab_size", VC_NET_REQUIRED);
    w->dropout = vc_net_probability(net, "dropout", 0);
    w->score_dropout = vc_net_probability(net, "attention_dropout", 0);
    w->act_dropout = vc_net_probability(net, "activation_dropout", 0);
    w->tied = vc_net_flag(net, "tie_word_embeddings", true);
    w->act = vc_net_word(net, "activation_function", "gelu");
    encoder->layers = vc_net_layers(net, "encoder_layers");
    encoder->heads = vc_net_size(net, "encoder_attention_heads", VC_NET_REQUIRED);
    encoder->inner = vc_net_size(net, "encoder_ffn_dim", VC_NET_REQUIRED);
    decoder->layers = vc_net_layers(net, "decoder_layers");
    decoder->heads = vc_net_size(net, "decoder_attention_heads", VC_NET_REQUIRED);
    decoder->inner = vc_net_size(net, "decoder_ffn_dim", VC_NET_REQUIRED);
    (void)vc_net_flag(net, "is_encoder_decoder", true);
    (void)vc_net_share(net, "d_model by encoder_attention_heads", w->hidden, encoder->heads);
    (void)vc_net_share(net, "d_model by decoder_attention_heads", w->hidden, decoder->heads);
    vc_net_check_activation(net, "activation_function", w->act);
    vc_net_check_keys(net);
    return !net->failed;
}

static uint32_t norm(const struct stack *s, uint32_t x, const char *module)
{
    return vc_net_layer_norm(s->w->net, x, module, s->w->hidden, 1e-5);
}

/* q of x, k and v of `from`. The encoder's sound has no padding: no mask there. */
static uint32_t attention(const struct stack *s, uint32_t x, uint32_t from, const char *module)
{
    struct vc_net *net = s->w->net;
    int64_t n = s->w->hidden;
    struct vc_net_attention how = {.value = vc_net_print(net, "%s.attention", module),
                                   .heads = s->heads,
                                   .kv_heads = s->heads,
                                   .causal = x == from && s->memory != VC_NO_VALUE,
                                   .scale = 1 / sqrt((double)(n / s->heads)),
                                   .mask = x == from ? s->mask : VC_NO_VALUE,
                                   .dropout = s->w->score_dropout,
                                   .half_softmax = true,
                                   .copied = true};

    vc_net_block(net, "%s", module);
    uint32_t q = vc_net_linear(net, x, vc_net_print(net, "%s.q_proj", module), n, n, true);
    uint32_t k = vc_net_linear(net, from, vc_net_print(net, "%s.k_proj", module), n, n, false);
    uint32_t v = vc_net_linear(net, from, vc_net_print(net, "%s.v_proj", module), n, n, true);
    x = vc_net_attention(net, q, k, v, &how);
    return vc_net_linear(net, x, vc_net_print(net, "%s.out_proj", module), n, n, true);
}

/* Three parts, each x += part(norm(x)): self attention, attention to the encoder (decoder only), MLP. */
static uint32_t layer(const struct stack *s, uint32_t x, int64_t number)
{
    struct vc_net *net = s->w->net;
    const char *own = vc_net_print(net, "%s.layers.%lld", s->name, (long long)number);

    vc_net_block(net, "%s", own);
    uint32_t y = norm(s, x, vc_net_print(net, "%s.self_attn_layer_norm", own));
    y = vc_net_drop(net, attention(s, y, y, vc_net_print(net, "%s.self_attn", own)), s->w->dropout);
    vc_net_block(net, "%s", own);
    x = vc_net_add(net, NULL, x, y);
    if (s->memory != VC_NO_VALUE) {
        y = norm(s, x, vc_net_print(net, "%s.encoder_attn_layer_norm", own));
        y = vc_net_drop(net, attention(s, y, s->memory, vc_net_print(net, "%s.encoder_attn", own)), s->w->dropout);
        vc_net_block(net, "%s", own);
        x = vc_net_add(net, NULL, x, y);
    }
    y = norm(s, x, vc_net_print(net, "%s.final_layer_norm", own));
    y = vc_net_linear(net, y, vc_net_print(net, "%s.fc1", own), s->w->hidden, s->inner, true);
    y = vc_net_activation(net, y, vc_net_print(net, "%s.activation", own), "activation_function", s->w->act);
    y = vc_net_drop(net, y, s->w->act_dropout);
    y = vc_net_linear(net, y, vc_net_print(net, "%s.fc2", own), s->inner, s->w->hidden, true);
    y = vc_net_drop(net, y, s->w->dropout);
    return vc_net_add(net, own, x, y);
}

static uint32_t run_stack(const struct stack *s, uint32_t x)
{
    struct vc_net *net = s->w->net;

    for (int64_t k = 0; k < s->layers && net->graph->status == VC_OK; k++) {
        x = layer(s, x, k);
    }
    vc_net_block(net, "%s.layer_norm", s->name);
    return norm(s, x, vc_net_print(net, "%s.layer_norm", s->name));
}

/* A convolution along time of three steps, and its function. */
static uint32_t convolution(struct whisper *w, uint32_t x, const char *module, int64_t in, int64_t stride)
{
    struct vc_net *net = w->net;
    struct vc_graph_attr attrs[2] = {vc_attr_ints("pads", (int64_t[]){1, 1}, 2), vc_attr_ints("strides", &stride, 1)};
    uint32_t inputs[3];

    vc_net_block(net, "%s", module);
    inputs[0] = x;
    inputs[1] = vc_net_param(net, &(struct vc_net_tensor){.name = vc_net_print(net, "%s.weight", module),
                                                          .n_dims = 3,
                                                          .shape = {(uint64_t)w->hidden, (uint64_t)in, 3}});
    inputs[2] = vc_net_vector(net, vc_net_print(net, "%s.bias", module), w->hidden);
    x = vc_net_node(net, "Conv", module, inputs, 3, attrs, 2);
    return vc_net_activation(net, x, vc_net_print(net, "%s.activation", module), "activation_function", "gelu");
}

/* input_features [batch, bins, 2 sounds] to [batch, sounds, hidden] */
static uint32_t sound(struct whisper *w)
{
    struct vc_net *net = w->net;
    struct vc_dim shape[3] = {vc_dim_symbol(&net->graph->dims, "batch"), vc_dim_number(w->bins),
                              vc_dim_number(2 * w->sounds)};
    struct vc_graph_attr perm = vc_attr_ints("perm", (int64_t[]){0, 2, 1}, 3);
    uint32_t x = vc_graph_add_input(net->graph, "input_features", VC_DTYPE_F32, shape, 3);

    x = convolution(w, x, "encoder.conv1", w->bins, 1);
    x = convolution(w, x, "encoder.conv2", w->hidden, 2);
    vc_net_block(net, "encoder.embed_positions");
    x = vc_net_node(net, "Transpose", NULL, &x, 1, &perm, 1);
    x = vc_net_add(net, "encoder.embeddings", x,
                   vc_net_matrix(net, "encoder.embed_positions.weight", w->sounds, w->hidden));
    return vc_net_drop(net, x, w->dropout);
}

static uint32_t text(struct whisper *w, uint32_t ids)
{
    struct vc_net *net = w->net;

    vc_net_block(net, "decoder.embed_tokens");
    uint32_t x = vc_net_embed(net, ids, "decoder.embed_tokens", w->vocabulary, w->hidden);
    vc_net_block(net, "decoder.embed_positions");
    x = vc_net_add(net, "decoder.embeddings", x,
                   vc_net_embed(net, vc_net_positions_of(net, ids), "decoder.embed_positions", w->texts, w->hidden));
    return vc_net_drop(net, x, w->dropout);
}

static void build_whisper(struct vc_net *net)
{
    struct whisper w = {.net = net};
    struct stack encoder = {.w = &w, .name = "encoder", .memory = VC_NO_VALUE, .mask = VC_NO_VALUE};
    struct stack decoder = {.w = &w, .name = "decoder"};

    if (!read_config(&w, &encoder, &decoder)) {
        return;
    }
    decoder.memory = run_stack(&encoder, sound(&w));
    uint32_t ids = vc_net_decoder_input(net);
    decoder.mask = vc_net_decoder_padding_mask(net);
    uint32_t x = run_stack(&decoder, text(&w, ids));
    if (net->head == VC_NET_BASE) {
        vc_net_output(net, x, "last_hidden_state");
    } else {
        x = vc_net_tied_head(net, x, "/proj_out", "decoder.embed_tokens", w.hidden, w.vocabulary, NULL, w.tied);
        vc_net_output(net, x, "logits");
    }
    vc_net_output(net, decoder.memory, "encoder_last_hidden_state");
}

static const char *const unused[] = {"proj_out.weight", NULL}; /* of the base model */

const struct vc_net_family vc_net_whisper = {.type = "whisper",
                                             .class_name = "Whisper",
                                             .prefix = "model.",
                                             .probe = "decoder.embed_tokens.weight",
                                             .heads = VC_NET_BASE | VC_NET_GENERATION,
                                             .usual = VC_NET_GENERATION,
                                             .unused = unused,
                                             .build = build_whisper};
