/* net_bert.c - encoders of the form of BERT: BERT, which sentence encoders as MiniLM are, RoBERTa and its relatives,
 * DistilBERT, ELECTRA, ALBERT, MPNet. Layer norms behind attention and MLP, learned positions. What differs between them is a
 * struct style.
 *
 *     layer: y = norm(x + attention(x));  y = norm(y + down(act(up(y))))
 */
#include "graph/families/net.h"

#include <math.h>

/* What number the first position of a text has: 0, or the one behind the padding's. */
enum positions { POSITIONS_FROM_0, POSITIONS_BEHIND_PADDING };

/* What a family calls its modules and keys. A module's name is relative to its layer:
 * "attention.self.query".
 * Keys with a bar are tried from left to right: "dim|hidden_size". */
struct names {
    const char *layers;
    const char *q, *k, *v, *out, *attention_norm, *up, *down, *output_norm;
    const char *size, *n_layers, *n_heads, *inner, *act; /* keys */
    const char *dropout, *score_dropout, *class_dropout; /* keys; the last: of classes of texts */
    double class_dropout_otherwise;                      /* below 0: the first of these */
    const char *act_otherwise;                           /* where config.json has no function; NULL: "gelu" */
    bool undropped;                                      /* usual probabilities of dropout are 0, not 0.1 */
    bool distil; /* no dropout behind attention nor before the head's own layer; one before answers */
};

/* The keys of BERT's configuration, and the parts of a layer that its followers call the same. */
#define LIKE_BERT                                                                                                     \
    .layers = "encoder.layer", .up = "intermediate.dense", .down = "output.dense", .output_norm = "output.LayerNorm", \
    .size = "hidden_size", .n_layers = "num_hidden_layers", .n_heads = "num_attention_heads",                         \
    .inner = "intermediate_size", .act = "hidden_act", .dropout = "hidden_dropout_prob",                              \
    .score_dropout = "attention_probs_dropout_prob", .class_dropout_otherwise = -1

static const struct names bert_names = {LIKE_BERT,
                                        .q = "attention.self.query",
                                        .k = "attention.self.key",
                                        .v = "attention.self.value",
                                        .out = "attention.output.dense",
                                        .attention_norm = "attention.output.LayerNorm",
                                        .class_dropout = "classifier_dropout"};

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
                                              .act = "activation",
                                              .dropout = "dropout",
                                              .score_dropout = "attention_dropout",
                                              .class_dropout = "seq_classif_dropout",
                                              .class_dropout_otherwise = 0.2,
                                              .distil = true};

static const struct names mpnet_names = {LIKE_BERT,
                                         .q = "attention.attn.q",
                                         .k = "attention.attn.k",
                                         .v = "attention.attn.v",
                                         .out = "attention.attn.o",
                                         .attention_norm = "attention.LayerNorm",
                                         .class_dropout = "hidden_dropout_prob"};

static const struct names albert_names = {.layers = "encoder.layer",
                                          .q = "attention.query",
                                          .k = "attention.key",
                                          .v = "attention.value",
                                          .out = "attention.dense",
                                          .attention_norm = "attention.LayerNorm",
                                          .up = "ffn",
                                          .down = "ffn_output",
                                          .output_norm = "full_layer_layer_norm",
                                          .size = "hidden_size",
                                          .n_layers = "num_hidden_layers",
                                          .n_heads = "num_attention_heads",
                                          .inner = "intermediate_size",
                                          .act = "hidden_act",
                                          .act_otherwise = "gelu_new",
                                          .undropped = true,
                                          .dropout = "hidden_dropout_prob",
                                          .score_dropout = "attention_probs_dropout_prob",
                                          .class_dropout = "classifier_dropout_prob",
                                          .class_dropout_otherwise = 0.1};

/* How a whole sequence is classified: the first token through the layer `dense` and its function, then
 * `out`.
 * A name that begins with '/' is not below the prefix of the base model: "/classifier" is "classifier" in
 * the file, and "pooler.dense" is "bert.pooler.dense". */
struct sequence_head {
    const char *dense, *function, *out;
};

/* How masked words are predicted: a layer, its function (NULL: the model's), a norm, the matrix of the
 * embeddings and a bias. */
struct masked_head {
    const char *dense, *function, *norm, *decoder, *bias;
};

/* What a family does otherwise than BERT. */
struct style {
    const struct names *names;
    enum positions positions;
    bool fixed_padding;  /* number 1, not "pad_token_id" */
    bool types;          /* token_type_embeddings */
    bool fixed_epsilon;  /* 1e-12 */
    const char *pooler;  /* of the base model, a module; NULL: it has none */
    bool discriminates;  /* pretraining tells which words were replaced */
    const char *project; /* module: embeddings of "embedding_size" become as wide as the model; NULL: they are */
    bool shares;         /* layers of a group share their tensors, and project is there anyway */
    bool relative;       /* encoder.relative_attention_bias */
    struct sequence_head sequence;
    struct masked_head masked;
};

/* What was read from config.json, and the mask, while the graph is built. */
struct encoder {
    struct vc_net *net;
    const struct style *style;
    const struct names *names;
    int64_t hidden, layers, heads, inner, vocabulary, longest, types, padding, embedding, buckets;
    int64_t groups, within; /* of layers that share: how many, and layers in each; all of these are `layers` */
    double epsilon;
    double dropout, score_dropout, class_dropout; /* in training */
    const char *act;
    bool tied;
    uint32_t mask; /* padding, and positions between tokens where the model has them */
};

/* RoBERTa counts positions from the padding's number on; MPNet's padding is always 1, and it has no types. Every
 * key that is read counts as asked for. Of the others vc_net_check_keys wants the neutral value where they would
 * change what is computed. */
static bool read_config(struct encoder *e)
{
    struct vc_net *net = e->net;
    const struct style *s = e->style;
    const struct names *n = e->names;

    e->hidden = vc_net_size(net, n->size, VC_NET_REQUIRED);
    e->layers = vc_net_layers(net, n->n_layers);
    e->heads = vc_net_size(net, n->n_heads, VC_NET_REQUIRED);
    e->inner = vc_net_size(net, n->inner, VC_NET_REQUIRED);
    e->vocabulary = vc_net_size(net, "vocab_size", VC_NET_REQUIRED);
    e->longest = vc_net_size(net, "max_position_embeddings", 512);
    e->types = s->types ? vc_net_size(net, "type_vocab_size", 2) : 0;
    e->epsilon = s->fixed_epsilon ? 1e-12 : vc_net_real(net, "layer_norm_eps", 1e-12);
    e->dropout = vc_net_probability(net, n->dropout, n->undropped ? 0 : 0.1);
    e->score_dropout = vc_net_probability(net, n->score_dropout, n->undropped ? 0 : 0.1);
    e->class_dropout = vc_net_probability(net, n->class_dropout,
                                          n->class_dropout_otherwise < 0 ? e->dropout : n->class_dropout_otherwise);
    e->act = vc_net_word(net, n->act, n->act_otherwise != NULL ? n->act_otherwise : "gelu");
    e->tied = vc_net_flag(net, "tie_word_embeddings", true);
    e->padding = s->fixed_padding                           ? 1
                 : s->positions == POSITIONS_BEHIND_PADDING ? vc_net_count(net, "pad_token_id", 1)
                                                            : 0;
    e->embedding = s->project != NULL ? vc_net_size(net, "embedding_size", 128) : e->hidden;
    e->groups = s->shares ? vc_net_size(net, "num_hidden_groups", 1) : 1;
    e->within = s->shares ? vc_net_size(net, "inner_group_num", 1) : 1;
    if (s->shares && (e->groups > e->layers || e->within > 64)) {
        vc_net_refuse(net, "num_hidden_groups", "more than there are layers, or \"inner_group_num\" is above 64");
    }
    e->buckets = s->relative ? vc_net_size(net, "relative_attention_num_buckets", 32) : 0;
    if (s->relative && e->buckets < 32) {
        vc_net_refuse(net, "relative_attention_num_buckets", "fewer than the 32 that are used");
    }
    (void)vc_net_share(net, "the hidden size by the number of heads", e->hidden, e->heads);
    vc_net_check_activation(net, n->act, e->act);
    vc_net_check_keys(net);
    return !net->failed;
}

/* POSITIONS_FROM_0: 0, 1, ... POSITIONS_BEHIND_PADDING (RoBERTa): tokens that are no padding count from
 * padding + 1 on, padding has its own number: CumSum(real) * real + padding.
 *     padding 1, ids {0, 31414, 2, 1, 1}     real {1, 1, 1, 0, 0}     ids of positions {2, 3, 4, 1, 1}
 */
static uint32_t position_ids(struct encoder *e)
{
    struct vc_net *net = e->net;
    uint32_t padding;

    if (e->style->positions == POSITIONS_FROM_0) {
        return vc_net_positions(net);
    }
    padding = vc_graph_add_int(net->graph, e->padding);
    uint32_t real = vc_net_op1(net, "Not", vc_net_op(net, "Equal", NULL, net->input_ids, padding));
    real = vc_net_cast(net, real, VC_DTYPE_I64);
    uint32_t count = vc_net_op(net, "CumSum", NULL, real, vc_graph_add_int(net->graph, 1));
    return vc_net_add(net, NULL, vc_net_op(net, "Mul", NULL, count, real), padding);
}

/* Words + types + positions, normalized. ELECTRA's embeddings may be narrower than the model and are then
 * projected; ALBERT's always are.
 * Types of tokens are an input that may be left out: all 0 then. */
static uint32_t embeddings(struct encoder *e)
{
    struct vc_net *net = e->net;

    vc_net_block(net, "embeddings");
    uint32_t x = vc_net_embed(net, net->input_ids, "embeddings.word_embeddings", e->vocabulary, e->embedding);
    if (e->types != 0) {
        x = vc_net_add(net, NULL, x,
                       vc_net_embed(net, vc_net_text_option(net, "token_type_ids", 0),
                                    "embeddings.token_type_embeddings", e->types, e->embedding));
    }
    x = vc_net_add(net, NULL, x,
                   vc_net_embed(net, position_ids(e), "embeddings.position_embeddings", e->longest, e->embedding));
    x = vc_net_layer_norm(net, x, "embeddings.LayerNorm", e->embedding, e->epsilon);
    x = vc_net_drop(net, x, e->dropout);
    if (e->embedding != e->hidden || e->style->shares) {
        vc_net_block(net, "%s", e->style->project);
        x = vc_net_linear(net, x, e->style->project, e->embedding, e->hidden, true);
    }
    return x;
}

/* Dropouts are marks only (vc_net_drop): inference computes none.
 *     attention                        x + out(attention(q(x), k(x), v(x))), normalized
 *     layer                            x + down(act(up(x))), normalized
 *
 * Attention with its norm is one block, and the rest of the layer another. */
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
                                   .mask = e->mask,
                                   .dropout = e->score_dropout,
                                   .half_softmax = true};
    uint32_t qkv[3];

    vc_net_block(net, "%s.attention", layer);
    for (int k = 0; k < 3; k++) {
        qkv[k] = vc_net_linear(net, x, vc_net_print(net, "%s.%s", layer, projections[k]), e->hidden, e->hidden, true);
    }
    uint32_t y = vc_net_attention(net, qkv[0], qkv[1], qkv[2], &how);
    y = vc_net_linear(net, y, vc_net_print(net, "%s.%s", layer, n->out), e->hidden, e->hidden, true);
    y = vc_net_drop(net, y, n->distil ? 0 : e->dropout);
    y = vc_net_add(net, NULL, y, x);
    x = vc_net_layer_norm(net, y, vc_net_print(net, "%s.%s", layer, n->attention_norm), e->hidden, e->epsilon);
    vc_net_block(net, "%s", layer);
    y = vc_net_linear(net, x, vc_net_print(net, "%s.%s", layer, n->up), e->hidden, e->inner, true);
    y = vc_net_activation(net, y, vc_net_print(net, "%s.activation", layer), n->act, e->act);
    y = vc_net_linear(net, y, vc_net_print(net, "%s.%s", layer, n->down), e->inner, e->hidden, true);
    y = vc_net_drop(net, y, e->dropout);
    y = vc_net_add(net, NULL, y, x);
    return vc_net_layer_norm(net, y, vc_net_print(net, "%s.%s", layer, n->output_norm), e->hidden, e->epsilon);
}

/* Layer `number` of those that are computed has the tensors of one that others have, too. The layers of each group are
 * computed one after the other as often as its share of num_hidden_layers says.
 *     layers 4, groups 2, within 1     layer 0, 1: group 0; layer 2, 3: group 1 */
static void share_tensors(struct encoder *e, int64_t number)
{
    struct vc_net *net = e->net;

    net->shared_as = vc_net_print(net, "%s.%lld.", e->names->layers, (long long)number);
    net->shared =
        vc_net_print(net, "encoder.albert_layer_groups.%lld.albert_layers.%lld.",
                     (long long)(number / e->within * e->groups / e->layers), (long long)(number % e->within));
}

/* MPNet adds numbers by relative position to the scores, the same for all layers: they become part of the
 * mask. */
static uint32_t encoder(struct encoder *e)
{
    struct vc_net *net = e->net;

    vc_net_text_input(net);
    e->mask = vc_net_padding_mask(net);
    uint32_t x = embeddings(e);
    if (e->style->relative) {
        const struct vc_net_relative how = {.table = "encoder.relative_attention_bias",
                                            .buckets = 32,
                                            .rows = e->buckets,
                                            .longest = 128,
                                            .heads = e->heads};

        vc_net_block(net, "encoder.relative_attention_bias");
        e->mask = vc_net_masked_bias(net, e->mask, vc_net_relative_bias(net, &how, net->input_ids, true));
    }
    for (int64_t k = 0; k < e->layers * e->within && net->graph->status == VC_OK; k++) {
        if (e->style->shares) {
            share_tensors(e, k);
        }
        x = encoder_layer(e, x, k);
    }
    net->shared_as = NULL;
    return x;
}

/* The first token through a layer and a function: BERT's pooler, and heads of other families ("/..."),
 * which drop before it.
 * [batch, sequence, hidden] to [batch, hidden]. */
static uint32_t pooled(struct encoder *e, uint32_t x, const char *module, const char *function)
{
    vc_net_block(e->net, "%s", *module == '/' ? module : "pooler");
    x = vc_net_pick(e->net, x, 1, 0);
    x = vc_net_drop(e->net, x, *module == '/' && !e->names->distil ? e->class_dropout : 0);
    x = vc_net_linear(e->net, x, module, e->hidden, e->hidden, true);
    return vc_net_activation(e->net, x, NULL, e->names->act, function);
}

/* ---- heads ---- */

/* Words are predicted by the embeddings' matrix, unless the checkpoint has a decoder of its own.
 * [batch, sequence, hidden] to [batch, sequence, vocabulary]. */
static void masked(struct encoder *e, uint32_t x)
{
    const struct masked_head *h = &e->style->masked;
    struct vc_net *net = e->net;

    vc_net_block(net, "%s", h->dense);
    x = vc_net_linear(net, x, h->dense, e->hidden, e->embedding, true);
    x = vc_net_activation(net, x, NULL, e->names->act, h->function != NULL ? h->function : e->act);
    x = vc_net_layer_norm(net, x, h->norm, e->embedding, e->epsilon);
    x = vc_net_tied_head(net, x, h->decoder, "embeddings.word_embeddings", e->embedding, e->vocabulary, h->bias,
                         e->tied);
    vc_net_output(net, x, "logits");
}

/* Of ELECTRA: whether each word is the original one. */
static void discriminator(struct encoder *e, uint32_t x)
{
    struct vc_net *net = e->net;

    vc_net_block(net, "/discriminator_predictions");
    x = vc_net_linear(net, x, "/discriminator_predictions.dense", e->hidden, e->hidden, true);
    x = vc_net_activation(net, x, NULL, e->names->act, e->act);
    x = vc_net_linear(net, x, "/discriminator_predictions.dense_prediction", e->hidden, 1, true);
    vc_net_output(net, vc_net_pick(net, x, -1, 0), "logits");
}

/* Sentence encoders are often saved without a pooler: then there is no second output. */
static void base_outputs(struct encoder *e, uint32_t x)
{
    const char *module = e->style->pooler;
    bool pooler = module != NULL && vc_net_has(e->net, vc_net_print(e->net, "%s.weight", module));
    uint32_t y = pooler ? pooled(e, x, module, "tanh") : VC_NO_VALUE;

    vc_net_output(e->net, x, "last_hidden_state");
    if (pooler) {
        vc_net_output(e->net, y, "pooler_output");
    }
}

/* Reads the configuration, builds the encoder, then the head that "architectures" names. A DistilBERT drops its
 * own share before the classes of tokens and before answers; the others drop class_dropout before classes and
 * nothing before answers. */
static void build(struct vc_net *net, const struct style *style)
{
    struct encoder e = {.net = net, .style = style, .names = style->names};
    const struct sequence_head *sequence = &style->sequence;

    if (!read_config(&e)) {
        return;
    }
    uint32_t x = encoder(&e);
    switch (net->head) {
    case VC_NET_MASKED:
        masked(&e, x);
        break;
    case VC_NET_PRETRAINING:
        if (style->discriminates) {
            discriminator(&e, x);
        } else { /* the other of BERT's heads is no field of what it is used for */
            masked(&e, x);
        }
        break;
    case VC_NET_SEQUENCE:
        x = vc_net_drop(net, pooled(&e, x, sequence->dense, sequence->function), e.class_dropout);
        vc_net_token_head(net, x, sequence->out, e.hidden);
        break;
    case VC_NET_TOKEN:
        vc_net_token_head(net, vc_net_drop(net, x, e.names->distil ? e.dropout : e.class_dropout), "/classifier",
                          e.hidden);
        break;
    case VC_NET_QUESTION:
        x = vc_net_drop(net, x, e.names->distil ? vc_net_probability(net, "qa_dropout", 0.1) : 0);
        vc_net_question_head(net, x, e.hidden);
        break;
    default:
        base_outputs(&e, x);
    }
}

#define HEADS (VC_NET_BASE | VC_NET_MASKED | VC_NET_SEQUENCE | VC_NET_TOKEN | VC_NET_QUESTION)
/* Buffers; copies of tied tensors; heads for training, and the pooler where the head does not use it. */
static const char *const unused[] = {"*embeddings.position_ids",
                                     "cls.predictions.decoder.*",
                                     "cls.predictions.*",
                                     "cls.seq_relationship.*",
                                     "lm_head.*",
                                     "vocab_*",
                                     "generator_*",
                                     "discriminator_predictions.*",
                                     "*pooler.*",
                                     "predictions.*",
                                     "sop_classifier.*",
                                     NULL};

/* A family: its row and what it does. */
#define FAMILY(id, type_name, class, prefix_text, more_heads, ...)                          \
    static void build_##id(struct vc_net *net)                                              \
    {                                                                                       \
        static const struct style style = {__VA_ARGS__};                                    \
                                                                                            \
        build(net, &style);                                                                 \
    }                                                                                       \
    const struct vc_net_family vc_net_##id = {.type = type_name,                            \
                                              .class_name = class,                          \
                                              .prefix = prefix_text,                        \
                                              .probe = "embeddings.word_embeddings.weight", \
                                              .heads = HEADS | (more_heads),                \
                                              .usual = VC_NET_BASE,                         \
                                              .unused = unused,                             \
                                              .build = build_##id}

FAMILY(bert, "bert", "Bert", "bert.", VC_NET_PRETRAINING, .names = &bert_names, .types = true, .pooler = "pooler.dense",
       .sequence = {"pooler.dense", "tanh", "/classifier"},
       .masked = {.dense = "/cls.predictions.transform.dense",
                  .norm = "/cls.predictions.transform.LayerNorm",
                  .decoder = "/cls.predictions.decoder",
                  .bias = "/cls.predictions.bias"});

#define LM_HEAD                                                                                                      \
    {                                                                                                                \
        .dense = "/lm_head.dense", .function = "gelu", .norm = "/lm_head.layer_norm", .decoder = "/lm_head.decoder", \
        .bias = "/lm_head.bias"                                                                                      \
    }
#define ROBERTA                                                                                           \
    .names = &bert_names, .positions = POSITIONS_BEHIND_PADDING, .types = true, .pooler = "pooler.dense", \
    .sequence = {"/classifier.dense", "tanh", "/classifier.out_proj"}, .masked = LM_HEAD

FAMILY(roberta, "roberta", "Roberta", "roberta.", 0, ROBERTA);
FAMILY(xlm_roberta, "xlm-roberta", "XLMRoberta", "roberta.", 0, ROBERTA);
FAMILY(camembert, "camembert", "Camembert", "roberta.", 0, ROBERTA);

FAMILY(distilbert, "distilbert", "DistilBert", "distilbert.", 0, .names = &distilbert_names, .fixed_epsilon = true,
       .sequence = {"/pre_classifier", "relu", "/classifier"},
       .masked = {.dense = "/vocab_transform",
                  .norm = "/vocab_layer_norm",
                  .decoder = "/vocab_projector",
                  .bias = "/vocab_projector.bias"});

FAMILY(electra, "electra", "Electra", "electra.", VC_NET_PRETRAINING, .names = &bert_names, .types = true,
       .discriminates = true, .project = "embeddings_project",
       .sequence = {"/classifier.dense", "gelu", "/classifier.out_proj"},
       .masked = {.dense = "/generator_predictions.dense",
                  .function = "gelu",
                  .norm = "/generator_predictions.LayerNorm",
                  .decoder = "/generator_lm_head",
                  .bias = "/generator_lm_head.bias"});

FAMILY(albert, "albert", "Albert", "albert.", 0, .names = &albert_names, .types = true, .pooler = "pooler",
       .project = "encoder.embedding_hidden_mapping_in", .shares = true, .sequence = {"pooler", "tanh", "/classifier"},
       .masked = {.dense = "/predictions.dense",
                  .norm = "/predictions.LayerNorm",
                  .decoder = "/predictions.decoder",
                  .bias = "/predictions.bias"});

FAMILY(mpnet, "mpnet", "MPNet", "mpnet.", 0, .names = &mpnet_names, .positions = POSITIONS_BEHIND_PADDING,
       .fixed_padding = true, .pooler = "pooler.dense", .relative = true,
       .sequence = {"/classifier.dense", "tanh", "/classifier.out_proj"}, .masked = LM_HEAD);
