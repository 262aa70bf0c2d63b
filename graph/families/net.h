/* net.h - what families of models are built with: reading their config.json, parameters by the names of transformers,
 * and the layers that most of them share.
 *
 * A family is a row (struct vc_net_family) in a file of its own, whose `build` reads sizes from the configuration and
 * then adds layers one after the other:
 *
 *     int64_t hidden = vc_net_size(net, "hidden_size", VC_NET_REQUIRED);
 *     ...
 *     x = vc_net_linear(net, x, "encoder.layer.0.intermediate.dense", hidden, inner, true);
 *     x = vc_net_activation(net, x, "encoder.layer.0.intermediate", "gelu");
 *
 * Names are those of the checkpoint without net->prefix ("bert."), which the functions put in front. A tensor that is
 * missing or has another shape than the configuration says is a problem of the graph, and building goes on; so is every
 * key that changes the computation and that nobody asked for. Nothing has to be checked by a family. */
#pragma once

#include <jansson.h>

#include "graph/build.h"

#define VC_NET_MAX_KEYS   128
#define VC_NET_REQUIRED   (-1)
#define VC_NET_MAX_LAYERS 10000
#define VC_NET_MAX_PARTS  200000  /* layers times experts */
#define VC_NET_NOTHING    (-1e30) /* a score of which softmax leaves 0 */

/* What comes behind the base model. A bit each. */
enum vc_net_head {
    VC_NET_BASE = 1,          /* BertModel */
    VC_NET_CAUSAL = 2,        /* LlamaForCausalLM */
    VC_NET_MASKED = 4,        /* BertForMaskedLM */
    VC_NET_SEQUENCE = 8,      /* BertForSequenceClassification */
    VC_NET_TOKEN = 16,        /* BertForTokenClassification */
    VC_NET_IMAGE = 32,        /* ViTForImageClassification */
    VC_NET_QUESTION = 64,     /* BertForQuestionAnswering */
    VC_NET_PRETRAINING = 128, /* BertForPreTraining, ElectraForPreTraining */
    VC_NET_GENERATION = 256,  /* T5ForConditionalGeneration */
    VC_NET_ENCODER = 512,     /* T5EncoderModel */
    VC_NET_LANGUAGE = 1024    /* GPT2LMHeadModel */
};

struct vc_net;
struct vc_arch_family;

/* One family: how config.json and transformers call it, and the function that builds its graph. Decoders of
 * the form of Llama have no row here: vc_net_find_decoder makes one of arch's row. */
struct vc_net_family {
    const char *type;                 /* "model_type" of config.json */
    const struct vc_arch_family *row; /* of a decoder of the form of Llama; else NULL */
    const char *class_name;           /* what its classes begin with: "Bert" */
    const char *base_class;           /* what those without a head begin with, if it is something else: "Gemma3Text" */
    const char *prefix;               /* of the base model's tensors in a model with a head: "bert." */
    const char *probe;                /* a tensor of the base model without that: by it the prefix is known */
    unsigned heads;            /* that can be built, of enum vc_net_head; the first is meant where nothing is said */
    enum vc_net_head usual;    /* where config.json names no architecture */
    const char *const *unused; /* patterns of tensors that a model may have and that are not used, up to a NULL */
    void (*build)(struct vc_net *net);
};

/* What is known while one graph is built. `build` of the family fills the graph; nothing of it outlives the
 * call. */
struct vc_net {
    struct vc_ctx *ctx;
    struct vc_graph *graph;
    const struct vc_model *model; /* NULL: config.json alone */
    bool stated, plain_inputs;    /* vc_graph_source.stated, .plain_inputs */
    struct vc_arena *arena;
    json_t *config;
    const struct vc_net_family *family;
    struct vc_net_family decoder; /* that it is, where no row of net_families.c is */
    enum vc_net_head head;
    const char *prefix;
    bool *used;                         /* by tensor of the model: a parameter reads it */
    const char *asked[VC_NET_MAX_KEYS]; /* keys that the family read: what changes results and is not here is refused */
    size_t n_asked;
    bool failed; /* the configuration is wrong: its sizes mean nothing, and nothing is built with them */
    const struct vc_arch_family *gguf; /* tensors are as llama.cpp has those of that family; NULL: as transformers */
    /* Layers that share their tensors: what stands in front of a tensor's name in the graph, and in the checkpoint.
     *     shared_as "encoder.layer.5."     shared "encoder.albert_layer_groups.0.albert_layers.0."       NULL: none do */
    const char *shared_as, *shared;
    const char *rope_factors; /* a tensor by whose elements rotary frequencies are divided; NULL: none */
    /* What the checkpoint calls a tensor; NULL: as transformers does. */
    const char *(*rename)(struct vc_net *net, const char *name);
    struct vc_dim batch, sequence;
    uint32_t input_ids;
    bool exported; /* vc_graph_source.exported */
    /* Exported, and it writes text: attention reads keys and values of earlier tokens, and hands on those of all.
     *
     *     attention_mask [batch, past + sequence], position_ids [batch, sequence]          in vc_net_text_input
     *     past_key_values.3.key, .value [batch, kv heads, past, size]                      in vc_net_attention
     *     present.3.key, .value         [batch, kv heads, past + sequence, size]           outputs, behind the logits */
    bool cached;
    struct vc_dim past;
    uint32_t attention_mask, position_ids;
    uint32_t n_presents; /* two of each layer so far */
    size_t presents_capacity;
    uint32_t *presents;
};

/* A configuration of a known decoder with the sizes of that one, and in *others what it has beside it; NULL: it is no
 * decoder of text. The caller's. */
json_t *vc_net_stand_in(const json_t *config, struct vc_net_others *others);

/* Whether a graph can be built of such a model_type. */
bool vc_net_knows(const char *type);
/* Builds with the configuration in net->config; for net_families.c and GGUF. */
enum vc_status vc_net_build(struct vc_net *net);

/* ---- configuration (net_config.c) ---- */

/* Keys may have several spellings, "n_embd|hidden_size": the first that is there counts. null is as if it were not
 * there. A value of the wrong kind, or out of bounds, is a problem and sets net->failed. */
const json_t *vc_net_get(struct vc_net *net, const char *keys);
/* A number from 1 to 2^31 - 1. */
int64_t vc_net_size(struct vc_net *net, const char *keys, int64_t otherwise);
int64_t vc_net_layers(struct vc_net *net, const char *keys);
/* 0 and more. */
int64_t vc_net_count(struct vc_net *net, const char *keys, int64_t otherwise);
double vc_net_real(struct vc_net *net, const char *keys, double otherwise);
bool vc_net_flag(struct vc_net *net, const char *key, bool otherwise);
/* A probability of dropout. What is no number is `otherwise`: nothing that is computed in inference depends on it. */
double vc_net_probability(struct vc_net *net, const char *keys, double otherwise);
const char *vc_net_word(struct vc_net *net, const char *key, const char *otherwise);
/* "hidden_act is 'x', ...": notes it and sets net->failed. */
void vc_net_refuse(struct vc_net *net, const char *key, const char *why);
/* Of the classifier: the length of "id2label", or "num_labels", or 2. */
int64_t vc_net_labels(struct vc_net *net);
/* The keys that change what some model computes and that nobody asked for; their values have to be the neutral ones. */
void vc_net_check_keys(struct vc_net *net);
/* whole / parts, which has to be a whole number. */
int64_t vc_net_share(struct vc_net *net, const char *what, int64_t whole, int64_t parts);

/* ---- parameters and layers (net.c) ---- */

/* In the arena; "" when there is no memory, which the graph remembers. */
const char *vc_net_print(struct vc_net *net, const char *format, ...) VC_PRINTF(2, 3);
/* Nodes that are added from now on belong to that module of the base model; a family that speaks of heads says it with
 * the prefix of these. */
void vc_net_block(struct vc_net *net, const char *format, ...) VC_PRINTF(2, 3);
/* The tensor of that name; VC_NO_TENSOR: the checkpoint, which has to be there, has none. */
size_t vc_net_find(struct vc_net *net, const char *name);
/* The checkpoint has a tensor of that name; true where there are no weights. */
bool vc_net_has(struct vc_net *net, const char *name);

/* A tensor of the checkpoint, or a slice of it, by its name without the prefix; names that begin with "/" are whole
 * names: those of heads. */
struct vc_net_tensor {
    const char *name;  /* "encoder.layer.0.output.dense.weight" */
    const char *value; /* of the graph; NULL: the tensor's */
    unsigned n_dims;
    uint64_t shape[4]; /* that it has to have */
    bool sliced, transposed;
    unsigned axis;
    uint64_t first, count;
};
uint32_t vc_net_param(struct vc_net *net, const struct vc_net_tensor *tensor);
/* One with all elements. */
uint32_t vc_net_vector(struct vc_net *net, const char *name, int64_t n);
uint32_t vc_net_matrix(struct vc_net *net, const char *name, int64_t rows, int64_t columns);

/* Part of a layer whose output features `first` to `first` + `out` - 1 are some of `all`.
 *     the key of a fused projection: {.module = "attn.c_attn", .value = "attn.c_attn.k", .in = 768, .out = 768, .first = 768,
 *                                     .all = 2304, .bias = true, .conv1d = true}
 */
struct vc_net_part {
    const char *module; /* of the tensors: "self_attn.qkv_proj" */
    const char *value;  /* of the result; NULL: the module */
    int64_t in, out, first, all;
    bool bias;
    bool conv1d; /* the matrix is [in, out] */
};
uint32_t vc_net_linear_part(struct vc_net *net, uint32_t x, const struct vc_net_part *part);
uint32_t vc_net_linear(struct vc_net *net, uint32_t x, const char *module, int64_t in, int64_t out, bool bias);
/* What a layer with `in` input features reads in place of x (net_inputs.c): its loader may round that. value: of the
 * graph, for the layer. */
uint32_t vc_net_layer_input(struct vc_net *net, uint32_t x, const char *module, const char *value, int64_t in);
extern const char vc_net_inputs_note[];
/* The matrix of the input embeddings as the last layer; the checkpoint may have a tensor `head` of its own, which
 * counts then. bias: a whole name, or NULL. */
uint32_t vc_net_tied_head(struct vc_net *net, uint32_t x, const char *head, const char *embedding, int64_t hidden,
                          int64_t vocabulary, const char *bias, bool tied);
uint32_t vc_net_layer_norm(struct vc_net *net, uint32_t x, const char *module, int64_t n, double epsilon);
uint32_t vc_net_rms_norm(struct vc_net *net, uint32_t x, const char *module, int64_t n, double epsilon);
/* Embedding lookup. */
uint32_t vc_net_embed(struct vc_net *net, uint32_t ids, const char *module, int64_t rows, int64_t columns);
/* `function` as ACT2FN of transformers names it; key: of the configuration, for the sentence. */
uint32_t vc_net_activation(struct vc_net *net, uint32_t x, const char *value, const char *key, const char *function);
/* That of a name that nobody knows is refused, before layers are built. */
void vc_net_check_activation(struct vc_net *net, const char *key, const char *function);
/* A node with one output. value: its name without the prefix, or NULL. */
uint32_t vc_net_node(struct vc_net *net, const char *op, const char *value, const uint32_t *inputs, unsigned n_inputs,
                     const struct vc_graph_attr *attrs, unsigned n_attrs);
uint32_t vc_net_add(struct vc_net *net, const char *value, uint32_t a, uint32_t b);
uint32_t vc_net_op(struct vc_net *net, const char *op, const char *value, uint32_t a, uint32_t b);
uint32_t vc_net_op1(struct vc_net *net, const char *op, uint32_t a);
uint32_t vc_net_cast(struct vc_net *net, uint32_t x, enum vc_dtype dtype);
uint32_t vc_net_reshape(struct vc_net *net, uint32_t x, const int64_t *shape, size_t n);
/* Element `at` of an axis, which goes. */
uint32_t vc_net_pick(struct vc_net *net, uint32_t x, int64_t axis, int64_t at);
/* Declares input_ids [batch, sequence]; with a cache also attention_mask and position_ids. */
void vc_net_text_input(struct vc_net *net);
/* Another input of that shape, which need not be given: its elements are `otherwise` then. Exported, it has to be. */
uint32_t vc_net_text_option(struct vc_net *net, const char *name, int64_t otherwise);
/* Declares attention_mask, 1 where it is not given. True where a token is no padding: [batch, 1, 1, sequence], exported
 * [batch, 1, sequence, sequence]. With a cache: true where a token may be seen, by position, too:
 * [batch, 1, sequence, past + sequence] */
uint32_t vc_net_padding_mask(struct vc_net *net);
/* Declares decoder_input_ids [batch, decoder_sequence], and what goes with it, as for input_ids. */
uint32_t vc_net_decoder_input(struct vc_net *net);
uint32_t vc_net_decoder_option(struct vc_net *net, const char *name, int64_t otherwise);
uint32_t vc_net_decoder_padding_mask(struct vc_net *net);
/* 0 ... sequence - 1, [sequence]; with a cache the input position_ids [batch, sequence]. */
uint32_t vc_net_positions(struct vc_net *net);
/* The length of all of the text, as a float []. */
uint32_t vc_net_text_length(struct vc_net *net);
uint32_t vc_net_positions_of(struct vc_net *net, uint32_t ids);
void vc_net_output(struct vc_net *net, uint32_t value, const char *name);
/* What reads the value from now on reads what dropout with probability p leaves of it, in training. The value. */
uint32_t vc_net_drop(struct vc_net *net, uint32_t value, double p);

/* ---- heads of several families (net_heads.c), with their outputs ---- */

/* "qa_outputs": start_logits and end_logits. */
void vc_net_question_head(struct vc_net *net, uint32_t x, int64_t hidden);
/* A layer of that whole name: logits of each token, or of what each text has become. */
void vc_net_token_head(struct vc_net *net, uint32_t x, const char *module, int64_t hidden);
/* The head of a decoder that does not predict words: one of these, of tokens with that layer, or the values themselves. Returns
 * false where it is one of words. */
bool vc_net_decoder_head(struct vc_net *net, uint32_t x, const char *module, int64_t hidden);

/* ---- attention (net_attention.c) and rotary positions (net_rope.c) ---- */

struct vc_net_attention {
    const char *value;
    int64_t heads, kv_heads;
    bool causal;
    double scale, softcap; /* softcap 0: none */
    uint32_t mask;         /* VC_NO_VALUE: none */
    double dropout;        /* of probabilities, in training */
    bool half_softmax;     /* transformers' module gives the softmax no type: it has that of the scores */
    bool copied;           /* transformers' module makes queries row by row for each head, so that the result is, too */
};
/* q, k, v: [batch, sequence, heads * size] */
uint32_t vc_net_attention(struct vc_net *net, uint32_t q, uint32_t k, uint32_t v, const struct vc_net_attention *how);
/* True where key j may be seen by query i of a window of `window` tokens: i - j < window. [sequence, sequence]; with a
 * cache [sequence, past + sequence] */
uint32_t vc_net_window(struct vc_net *net, int64_t window);

/* Relative positions as T5 has them: a table with a number for each head and each bucket of distances. */
struct vc_net_relative {
    const char *table; /* module: [rows, heads] */
    int64_t buckets;   /* that are used */
    int64_t rows;
    int64_t longest; /* distance; what is further away is in the last bucket */
    int64_t heads;
};
/* What is added to scores: [1, heads, sequence, sequence], of the sequence of `ids` [batch, sequence]. both: keys
 * behind the query have buckets, too. */
uint32_t vc_net_relative_bias(struct vc_net *net, const struct vc_net_relative *how, uint32_t ids, bool both);
/* The bias, and a number that leaves nothing where `mask` [batch, 1, 1, sequence] is false. */
uint32_t vc_net_masked_bias(struct vc_net *net, uint32_t mask, uint32_t bias);

/* Cosines and sines of a kind of rotary positions, made once and used by all layers. */
struct vc_net_rope {
    int64_t dim;     /* elements of a head that are turned */
    bool neighbours; /* 2i and 2i + 1 together, not i and i + dim / 2; the caller says it before the rest is made */
    uint32_t cosines, sines, ids;
};
/* Reads "rope_parameters", or "rope_theta" and "rope_scaling". */
void vc_net_rope_make(struct vc_net *net, int64_t head_dim, double theta, struct vc_net_rope *rope);
/* Of the layers of one kind: reads that member of "rope_parameters", or theta_key, and "rope_scaling" if the kind is
 * not "sliding_attention". */
void vc_net_rope_make_part(struct vc_net *net, const char *part, const char *theta_key, int64_t head_dim, double theta,
                           struct vc_net_rope *rope);
/* x: [batch, sequence, heads * head_dim] */
uint32_t vc_net_rope_apply(struct vc_net *net, const struct vc_net_rope *rope, uint32_t x, const char *value,
                           int64_t heads, int64_t head_dim);

extern const struct vc_net_family vc_net_bert, vc_net_roberta, vc_net_xlm_roberta, vc_net_camembert, vc_net_distilbert,
    vc_net_electra, vc_net_albert, vc_net_mpnet, vc_net_t5, vc_net_mt5, vc_net_whisper, vc_net_vit, vc_net_gpt2,
    vc_net_resnet;

/* The same of a decoder of the form of Llama, of which arch/arch_family.h has a row (net_decoder.c); false: it has none. */
bool vc_net_find_decoder(const char *type, struct vc_net_family *out);
