/* net_bert.c - encoders of the form of BERT: BERT, which sentence encoders as MiniLM are, RoBERTa and its relatives,
 * DistilBERT. Layer norms behind attention and MLP, learned positions. The names of layers are a struct names each. */
#include "graph/families/net.h"

#include <math.h>

enum positions { POSITIONS_FROM_0, POSITIONS_BEHIND_PADDING };

/* What a family calls its modules. */
struct names {
    const char *layers;
    const char *q, *k, *v, *out, *attention_norm, *up, *down, *output_norm;
    const char *size, *n_layers, *n_heads, *inner, *act; /* keys */
    bool types;                                          /* token_type_embeddings */
    bool pooler;
};

static const struct names bert_names = {.layers = "encoder.layer",
                                        .q = "attention.self.query",
                                        .k = "attention.self.key",
                                        .v = "attention.self.value",
                                        .out = "attention.output.dense",
                                        .attention_norm = "attention.output.LayerNorm",
                                        .up = "intermediate.dense",
                                        .down = "output.dense",
                                        .output_norm = "output.LayerNorm",
                                        .size = "hidden_size",
                                        .n_layers = "num_hidden_layers",
                                        .n_heads = "num_attention_heads",
                                        .inner = "intermediate_size",
                                        .act = "hidden_act",
                                        .types = true,
                                        .pooler = true};

static const struct names distilbert_names = {.layers = "transformer.layer",
                                              .q = "attention.q_lin",
                                              .k = "attention.k_lin",
                                              .v = "attention.v_lin",
                                              .out = "attention.out_lin",
                                              .attention_norm = "sa_layer_norm",
                                              .up = "ffn.lin1",
                                              .down = "ffn.lin2",
                                              .output_norm = "output_layer_norm",
                                              .size = "dim|hidden_size",
                                              .n_layers = "n_layers|num_hidden_layers",
                                              .n_heads = "n_heads|num_attention_heads",
                                              .inner = "hidden_dim",
                                              .act = "activation"};

struct encoder {
    struct vc_net *net;
    const struct names *names;
    enum positions positions;
    int64_t hidden, layers, heads, inner, vocabulary, longest, types, padding;
    double epsilon;
    const char *act;
    bool tied;
};

static bool read_config(struct encoder *e)
{
    struct vc_net *net = e->net;
    const struct names *n = e->names;

    e->hidden = vc_net_size(net, n->size, VC_NET_REQUIRED);
    e->layers = vc_net_layers(net, n->n_layers);
    e->heads = vc_net_size(net, n->n_heads, VC_NET_REQUIRED);
    e->inner = vc_net_size(net, n->inner, VC_NET_REQUIRED);
    e->vocabulary = vc_net_size(net, "vocab_size", VC_NET_REQUIRED);
    e->longest = vc_net_size(net, "max_position_embeddings", 512);
    e->types = n->types ? vc_net_size(net, "type_vocab_size", 2) : 0;
    e->epsilon = n->types ? vc_net_real(net, "layer_norm_eps", 1e-12) : 1e-12;
    e->act = vc_net_word(net, n->act, "gelu");
    e->tied = vc_net_flag(net, "tie_word_embeddings", true);
    e->padding = e->positions == POSITIONS_BEHIND_PADDING ? vc_net_count(net, "pad_token_id", 1) : 0;
    (void)vc_net_share(net, "the hidden size by the number of heads", e->hidden, e->heads);
    vc_net_check_activation(net, n->act, e->act);
    vc_net_check_keys(net);
    return !net->failed;
}

/* Numbers of positions: 0, 1, ...; or, where the padding's own number comes first, of tokens that are no padding. */
static uint32_t position_ids(struct encoder *e)
{
    struct vc_net *net = e->net;
    uint32_t padding;
    uint32_t real;
    uint32_t count;

    if (e->positions == POSITIONS_FROM_0) {
        return vc_net_positions(net);
    }
    padding = vc_graph_add_int(net->graph, e->padding);
    real = vc_net_op1(net, "Not", vc_net_op(net, "Equal", NULL, net->input_ids, padding));
    real = vc_net_cast(net, real, VC_DTYPE_I64);
    count = vc_net_op(net, "CumSum", NULL, real, vc_graph_add_int(net->graph, 1));
    return vc_net_add(net, NULL, vc_net_op(net, "Mul", NULL, count, real), padding);
}

static uint32_t embeddings(struct encoder *e)
{
    struct vc_net *net = e->net;
    uint32_t x;

    vc_net_block(net, "embeddings");
    x = vc_net_embed(net, net->input_ids, "embeddings.word_embeddings", e->vocabulary, e->hidden);
    if (e->types != 0) { /* all tokens are of type 0 */
        uint32_t zero = vc_graph_add_constant(net->graph, NULL, VC_DTYPE_I64, (int64_t[]){1, 1}, 2, (int64_t[]){0});

        x = vc_net_add(net, NULL, x, vc_net_embed(net, zero, "embeddings.token_type_embeddings", e->types, e->hidden));
    }
    x = vc_net_add(net, NULL, x,
                   vc_net_embed(net, position_ids(e), "embeddings.position_embeddings", e->longest, e->hidden));
    return vc_net_layer_norm(net, x, "embeddings.LayerNorm", e->hidden, e->epsilon);
}

static uint32_t encoder_layer(struct encoder *e, uint32_t x, int64_t number)
{
    struct vc_net *net = e->net;
    const struct names *n = e->names;
    const char *layer = vc_net_print(net, "%s.%lld", n->layers, (long long)number);
    const char *const projections[3] = {n->q, n->k, n->v};
    struct vc_net_attention how = {.value = vc_net_print(net, "%s.attention", layer),
                                   .heads = e->heads,
                                   .kv_heads = e->heads,
                                   .scale = 1 / sqrt((double)(e->hidden / e->heads)),
                                   .mask = VC_NO_VALUE};
    uint32_t qkv[3];
    uint32_t y;

    vc_net_block(net, "%s.attention", layer);
    for (int k = 0; k < 3; k++) {
        qkv[k] = vc_net_linear(net, x, vc_net_print(net, "%s.%s", layer, projections[k]), e->hidden, e->hidden, true);
    }
    y = vc_net_attention(net, qkv[0], qkv[1], qkv[2], &how);
    y = vc_net_linear(net, y, vc_net_print(net, "%s.%s", layer, n->out), e->hidden, e->hidden, true);
    y = vc_net_add(net, NULL, y, x);
    x = vc_net_layer_norm(net, y, vc_net_print(net, "%s.%s", layer, n->attention_norm), e->hidden, e->epsilon);
    vc_net_block(net, "%s", layer);
    y = vc_net_linear(net, x, vc_net_print(net, "%s.%s", layer, n->up), e->hidden, e->inner, true);
    y = vc_net_activation(net, y, vc_net_print(net, "%s.activation", layer), n->act, e->act);
    y = vc_net_linear(net, y, vc_net_print(net, "%s.%s", layer, n->down), e->inner, e->hidden, true);
    y = vc_net_add(net, NULL, y, x);
    return vc_net_layer_norm(net, y, vc_net_print(net, "%s.%s", layer, n->output_norm), e->hidden, e->epsilon);
}

static uint32_t encoder(struct encoder *e)
{
    uint32_t x;

    vc_net_text_input(e->net);
    x = embeddings(e);
    for (int64_t k = 0; k < e->layers && e->net->graph->status == VC_OK; k++) {
        x = encoder_layer(e, x, k);
    }
    return x;
}

/* tanh of a linear layer on the first token. */
static uint32_t pooled(struct encoder *e, uint32_t x, const char *module)
{
    vc_net_block(e->net, "%s", *module == '/' ? module : "pooler");
    x = vc_net_pick(e->net, x, 1, 0);
    x = vc_net_linear(e->net, x, module, e->hidden, e->hidden, true);
    return vc_net_op1(e->net, "Tanh", x);
}

/* ---- heads ---- */

/* A layer, its activation and a norm before the matrix of the embeddings. */
static void masked_head(struct encoder *e, uint32_t x, const char *dense, const char *act, const char *norm,
                        const char *decoder, const char *bias)
{
    struct vc_net *net = e->net;

    vc_net_block(net, "%s", dense);
    x = vc_net_linear(net, x, dense, e->hidden, e->hidden, true);
    x = vc_net_activation(net, x, NULL, e->names->act, act);
    x = vc_net_layer_norm(net, x, norm, e->hidden, e->epsilon);
    x = vc_net_tied_head(net, x, decoder, "embeddings.word_embeddings", e->hidden, e->vocabulary, bias, e->tied);
    vc_net_output(net, x, "logits");
}

static void classifier(struct encoder *e, uint32_t x, const char *module)
{
    vc_net_block(e->net, "%s", module);
    vc_net_output(e->net, vc_net_linear(e->net, x, module, e->hidden, vc_net_labels(e->net), true), "logits");
}

static void base_outputs(struct encoder *e, uint32_t x)
{
    bool pooler = e->names->pooler && vc_net_has(e->net, "pooler.dense.weight");
    uint32_t y = pooler ? pooled(e, x, "pooler.dense") : VC_NO_VALUE;

    vc_net_output(e->net, x, "last_hidden_state");
    if (pooler) {
        vc_net_output(e->net, y, "pooler_output");
    }
}

static void build_bert(struct vc_net *net)
{
    struct encoder e = {.net = net, .names = &bert_names};
    uint32_t x;

    if (!read_config(&e)) {
        return;
    }
    x = encoder(&e);
    if (net->head == VC_NET_MASKED) {
        masked_head(&e, x, "/cls.predictions.transform.dense", e.act, "/cls.predictions.transform.LayerNorm",
                    "/cls.predictions.decoder", "/cls.predictions.bias");
    } else if (net->head == VC_NET_SEQUENCE) {
        classifier(&e, pooled(&e, x, "pooler.dense"), "/classifier");
    } else if (net->head == VC_NET_TOKEN) {
        classifier(&e, x, "/classifier");
    } else {
        base_outputs(&e, x);
    }
}

static void build_roberta(struct vc_net *net)
{
    struct encoder e = {.net = net, .names = &bert_names, .positions = POSITIONS_BEHIND_PADDING};
    uint32_t x;

    if (!read_config(&e)) {
        return;
    }
    x = encoder(&e);
    if (net->head == VC_NET_MASKED) {
        masked_head(&e, x, "/lm_head.dense", "gelu", "/lm_head.layer_norm", "/lm_head.decoder", "/lm_head.bias");
    } else if (net->head == VC_NET_SEQUENCE) {
        classifier(&e, pooled(&e, x, "/classifier.dense"), "/classifier.out_proj");
    } else if (net->head == VC_NET_TOKEN) {
        classifier(&e, x, "/classifier");
    } else {
        base_outputs(&e, x);
    }
}

static void build_distilbert(struct vc_net *net)
{
    struct encoder e = {.net = net, .names = &distilbert_names};
    uint32_t x;

    if (!read_config(&e)) {
        return;
    }
    x = encoder(&e);
    if (net->head == VC_NET_MASKED) {
        masked_head(&e, x, "/vocab_transform", e.act, "/vocab_layer_norm", "/vocab_projector", "/vocab_projector.bias");
    } else if (net->head == VC_NET_SEQUENCE) {
        vc_net_block(net, "/pre_classifier");
        x = vc_net_linear(net, vc_net_pick(net, x, 1, 0), "/pre_classifier", e.hidden, e.hidden, true);
        classifier(&e, vc_net_op1(net, "Relu", x), "/classifier");
    } else if (net->head == VC_NET_TOKEN) {
        classifier(&e, x, "/classifier");
    } else {
        base_outputs(&e, x);
    }
}

#define HEADS (VC_NET_BASE | VC_NET_MASKED | VC_NET_SEQUENCE | VC_NET_TOKEN)
/* Buffers; copies of tied tensors; heads for training, and the pooler where the head does not use it. */
static const char *const unused[] = {"*embeddings.position_ids",
                                     "cls.predictions.decoder.*",
                                     "cls.predictions.*",
                                     "cls.seq_relationship.*",
                                     "lm_head.*",
                                     "vocab_*",
                                     "*pooler.dense.*",
                                     NULL};

#define ROW(id, type_name, class, prefix_text, builder)                                     \
    const struct vc_net_family vc_net_##id = {.type = type_name,                            \
                                              .class_name = class,                          \
                                              .prefix = prefix_text,                        \
                                              .probe = "embeddings.word_embeddings.weight", \
                                              .heads = HEADS,                               \
                                              .usual = VC_NET_BASE,                         \
                                              .unused = unused,                             \
                                              .build = builder}

ROW(bert, "bert", "Bert", "bert.", build_bert);
ROW(roberta, "roberta", "Roberta", "roberta.", build_roberta);
ROW(xlm_roberta, "xlm-roberta", "XLMRoberta", "roberta.", build_roberta);
ROW(camembert, "camembert", "Camembert", "roberta.", build_roberta);
ROW(distilbert, "distilbert", "DistilBert", "distilbert.", build_distilbert);
