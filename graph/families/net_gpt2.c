/* net_gpt2.c - GPT-2: layer norms before attention and MLP, learned positions, matrices that lie as [in, out]
 * (Conv1D), of which c_attn is q, k and v beside each other.
 *
 *     x = wte[ids] + wpe[positions];  x += attn(ln_1(x));  x += mlp(ln_2(x));  ln_f
 */
#include "graph/families/net.h"

#include <math.h>

struct gpt2 {
    struct vc_net *net;
    int64_t hidden, layers, heads, inner, vocabulary, longest;
    double epsilon;
    double embedding_dropout, dropout, score_dropout; /* in training */
    bool scaled, scaled_by_layer, tied;
    const char *act;
    uint32_t padding; /* true where a position is padding, not a token: [batch, 1, 1, sequence] */
};

/* GPT-2 has its own names of keys; newer files may have the common ones. */
static bool read_config(struct gpt2 *g)
{
    struct vc_net *net = g->net;

    g->hidden = vc_net_size(net, "n_embd|hidden_size", VC_NET_REQUIRED);
    g->layers = vc_net_layers(net, "n_layer|num_hidden_layers");
    g->heads = vc_net_size(net, "n_head|num_attention_heads", VC_NET_REQUIRED);
    g->vocabulary = vc_net_size(net, "vocab_size", VC_NET_REQUIRED);
    g->longest = vc_net_size(net, "n_positions|max_position_embeddings", 1024);
    g->inner = vc_net_size(net, "n_inner", 4 * g->hidden);
    g->epsilon = vc_net_real(net, "layer_norm_epsilon", 1e-5);
    g->embedding_dropout = vc_net_probability(net, "embd_pdrop", 0.1);
    g->dropout = vc_net_probability(net, "resid_pdrop", 0.1);
    g->score_dropout = vc_net_probability(net, "attn_pdrop", 0.1);
    g->scaled = vc_net_flag(net, "scale_attn_weights", true);
    g->scaled_by_layer = vc_net_flag(net, "scale_attn_by_inverse_layer_idx", false);
    g->tied = vc_net_flag(net, "tie_word_embeddings", true);
    g->act = vc_net_word(net, "activation_function", "gelu_new");
    (void)vc_net_share(net, "n_embd by n_head", g->hidden, g->heads);
    vc_net_check_activation(net, "activation_function", g->act);
    vc_net_check_keys(net);
    return !net->failed;
}

/* A layer whose matrix is [in, out]. */
static uint32_t conv1d(struct gpt2 *g, uint32_t x, const char *module, int64_t in, int64_t out)
{
    return vc_net_linear_part(
        g->net, x,
        &(struct vc_net_part){.module = module, .in = in, .out = out, .all = out, .bias = true, .conv1d = true});
}

/* Columns k * hidden on of c_attn are q (0), k (1) and v (2). */
static uint32_t attention(struct gpt2 *g, uint32_t x, int64_t layer, const char *module)
{
    static const char *const letters[3] = {"q", "k", "v"};
    struct vc_net *net = g->net;
    struct vc_net_attention how = {.value = vc_net_print(net, "%s.attention", module),
                                   .heads = g->heads,
                                   .kv_heads = g->heads,
                                   .causal = true,
                                   .scale = g->scaled ? 1 / sqrt((double)(g->hidden / g->heads)) : 1,
                                   .mask = g->padding,
                                   .dropout = g->score_dropout,
                                   .half_softmax = true};
    uint32_t qkv[3];

    how.scale /= g->scaled_by_layer ? (double)(layer + 1) : 1;
    for (int k = 0; k < 3; k++) {
        qkv[k] =
            vc_net_linear_part(net, x,
                               &(struct vc_net_part){.module = vc_net_print(net, "%s.c_attn", module),
                                                     .value = vc_net_print(net, "%s.c_attn.%s", module, letters[k]),
                                                     .in = g->hidden,
                                                     .out = g->hidden,
                                                     .first = k * g->hidden,
                                                     .all = 3 * g->hidden,
                                                     .bias = true,
                                                     .conv1d = true});
    }
    x = vc_net_attention(net, qkv[0], qkv[1], qkv[2], &how);
    return conv1d(g, x, vc_net_print(net, "%s.c_proj", module), g->hidden, g->hidden);
}

/* Dropouts are marks, see vc_net_drop. */
static uint32_t block(struct gpt2 *g, uint32_t x, int64_t layer)
{
    struct vc_net *net = g->net;
    const char *module = vc_net_print(net, "h.%lld", (long long)layer);

    vc_net_block(net, "%s", module);
    uint32_t y = vc_net_layer_norm(net, x, vc_net_print(net, "%s.ln_1", module), g->hidden, g->epsilon);
    vc_net_block(net, "%s.attn", module);
    y = vc_net_drop(net, attention(g, y, layer, vc_net_print(net, "%s.attn", module)), g->dropout);
    vc_net_block(net, "%s", module);
    x = vc_net_add(net, vc_net_print(net, "%s.after_attention", module), y, x);
    y = vc_net_layer_norm(net, x, vc_net_print(net, "%s.ln_2", module), g->hidden, g->epsilon);
    vc_net_block(net, "%s.mlp", module);
    y = conv1d(g, y, vc_net_print(net, "%s.mlp.c_fc", module), g->hidden, g->inner);
    y = vc_net_activation(net, y, vc_net_print(net, "%s.mlp.act", module), "activation_function", g->act);
    y = vc_net_drop(net, conv1d(g, y, vc_net_print(net, "%s.mlp.c_proj", module), g->inner, g->hidden), g->dropout);
    vc_net_block(net, "%s", module);
    return vc_net_add(net, module, x, y);
}

/* Old checkpoints hold causal masks as tensors ("attn.bias"), which the graph does not need: is_causal. */
static void build_gpt2(struct vc_net *net)
{
    struct gpt2 g = {.net = net};

    if (!read_config(&g)) {
        return;
    }
    vc_net_text_input(net);
    g.padding = vc_net_padding_mask(net);
    vc_net_block(net, "wte");
    uint32_t x = vc_net_embed(net, net->input_ids, "wte", g.vocabulary, g.hidden);
    vc_net_block(net, "wpe");
    uint32_t positions = vc_net_embed(net, vc_net_positions(net), "wpe", g.longest, g.hidden);
    vc_graph_set_block(net->graph, "%.*s", (int)strcspn(net->prefix, "."),
                       net->prefix); /* the model itself adds them */
    x = vc_net_add(net, NULL, x, positions);
    x = vc_net_drop(net, x, g.embedding_dropout);
    for (int64_t k = 0; k < g.layers && net->graph->status == VC_OK; k++) {
        x = block(&g, x, k);
    }
    vc_net_block(net, "ln_f");
    x = vc_net_layer_norm(net, x, "ln_f", g.hidden, g.epsilon);
    if (!vc_net_decoder_head(net, x, "/classifier", g.hidden)) {
        x = vc_net_tied_head(net, x, "/lm_head", "wte", g.hidden, g.vocabulary, NULL, g.tied);
        vc_net_output(net, x, "logits");
    }
}

/* Masks that old files have. */
static const char *const unused[] = {"*h.*.attn.bias", "*h.*.attn.masked_bias", NULL};

const struct vc_net_family vc_net_gpt2 = {.type = "gpt2",
                                          .class_name = "GPT2",
                                          .prefix = "transformer.",
                                          .probe = "wte.weight",
                                          .heads = VC_NET_BASE | VC_NET_LANGUAGE | VC_NET_SEQUENCE | VC_NET_TOKEN |
                                                   VC_NET_QUESTION,
                                          .usual = VC_NET_LANGUAGE,
                                          .unused = unused,
                                          .build = build_gpt2};
