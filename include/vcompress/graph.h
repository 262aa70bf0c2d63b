/* graph.h - the graph of a model: operators, the values between operators, and the tensors of the checkpoint they read.
 *
 * A graph is built from an ONNX file, from the config.json beside the weights, from a GGUF file of a known family, or
 * from a short text. Graphs from all sources have the same form:
 *
 *     node 0  MatMul  inputs 0 "x" [batch, 784], 1 "fc1.weight" [784, 128]   output 2 "fc1.product" [batch, 128]
 *     node 1  Add     inputs 2, 3 "fc1.bias" [128]                           output 4 "fc1" [batch, 128]
 *     node 2  Relu    inputs 4                                               output 5
 *
 * Nodes and values are numbered from 0 without gaps. Nodes are in topological order. Operators, inputs and attributes
 * follow ONNX, operator set VC_GRAPH_OPSET; nodes of older sets are rewritten to this set. docs/graph.md describes each
 * operator.
 *
 * The caller owns a graph and frees it with vc_graph_close. The model may be closed once the graph is built. The graph
 * owns all strings and arrays that its functions return.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_GRAPH_H
#define VCOMPRESS_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vcompress/context.h>
#include <vcompress/dtype.h>
#include <vcompress/model.h>

VC_BEGIN_C

#define VC_GRAPH_OPSET        23 /* the operator set of ONNX whose definitions hold */
#define VC_GRAPH_MAX_DIMS     8
#define VC_GRAPH_MAX_PROBLEMS 100 /* sentences that a graph keeps */
#define VC_NO_VALUE           ((uint32_t)-1)
#define VC_NO_NODE            ((uint32_t)-1)
#define VC_NO_PARAM           ((uint32_t)-1)

/* A dimension: a number, or an expression in the sizes of the inputs: "batch", "2*sequence + 1". */
struct vc_dim {
    int64_t size;        /* the number; -1: see expression */
    uint32_t expression; /* for vc_graph_dim_text, vc_graph_dim_value; 0 for a number */
};

enum vc_value_kind {
    VC_VALUE_INPUT = 0,     /* given to every run */
    VC_VALUE_PARAMETER = 1, /* read from the checkpoint */
    VC_VALUE_CONSTANT = 2,  /* part of the graph itself */
    VC_VALUE_RESULT = 3     /* computed by a node */
};

struct vc_graph_value {
    const char *name; /* unique in the graph */
    enum vc_value_kind kind;
    /* VC_DTYPE_F32 for all floats (each run chooses its precision), VC_DTYPE_I64 for all integers, or VC_DTYPE_BOOL. */
    enum vc_dtype dtype;
    unsigned n_dims;
    const struct vc_dim *shape;
    uint32_t node;   /* the node that computes this value, or VC_NO_NODE */
    uint32_t param;  /* VC_VALUE_PARAMETER: number of the parameter; else VC_NO_PARAM */
    uint32_t n_uses; /* number of uses as input of a node or output of the graph */
    /* VC_VALUE_CONSTANT: the elements as double or int64_t (0 and 1 for VC_DTYPE_BOOL); else NULL. */
    const void *data;
    bool optional;     /* VC_VALUE_INPUT: may be omitted in a run; all elements are then `otherwise` */
    int64_t otherwise; /* 1 for attention_mask: no token is padding */
    bool dropped;      /* training drops some elements at random (Dropout) before this value is read */
    /* PyTorch's module computes this value by several operators, one after the other: Gelu as "gelu_new", norms of T5.
     * Numbers by relative position with a mask: T5 has the numbers once for all sequences, and in each layer a copy,
     * which has the mask where there is padding. Attention: rows of heads are copied before the kernel and after it
     * (Phi-3, Whisper). LayerNormalization, MatMul: a variable until the layer returns (StableLM). RotaryEmbedding
     * of a part of each head: its input and that part are variables of the attention (Phi, StableLM). */
    bool stepwise;
    bool drops_scores; /* of Attention: training drops some of the probabilities */
    /* Half precision in PyTorch's module. Attention: the probabilities are never f32. Softmax of a router: the weights
     * of the experts do not stay f32. */
    bool half_softmax;
    /* Norms: PyTorch's module multiplies with the weight in f32, then rounds (OLMo 2); LayerNormalization does all of it
     * in f32 with operators one by one, and so does RotaryEmbedding (Cohere). */
    bool wide_scale;
    bool stated; /* an ONNX file states all dimensions of this value, as numbers or names: known before anything runs */
};

/* How a parameter is made from a tensor of the checkpoint: a slice of one axis, then the last two axes swapped. If the
 * value's dtype is VC_DTYPE_I64, the integers of the tensor are used.
 *
 *     tensor qkv.weight [3 * 64, 64]     first 64, count 64 of axis 0: the key's [64, 64], transposed for MatMul */
struct vc_graph_param {
    const char *tensor; /* its name in the checkpoint */
    size_t index;       /* in the model of the graph; VC_NO_TENSOR without weights */
    bool from_weights;  /* index is in vc_graph_options.weights instead */
    unsigned n_dims;    /* of the tensor */
    const uint64_t *shape;
    bool sliced; /* axis, first and count are valid; else the whole tensor */
    unsigned axis;
    uint64_t first, count;
    bool transposed;
    uint32_t tied_to; /* an earlier parameter from the same tensor, or VC_NO_PARAM */
    uint32_t value;
    /* Number of other names that an ONNX file gives the tensor by Identity nodes, and the first of these names. (Some
     * exporters store tensors of equal values once.) 0 and NULL: no other names. */
    uint32_t n_also;
    const char *also;
};

enum vc_attr_kind { VC_ATTR_INT = 0, VC_ATTR_FLOAT = 1, VC_ATTR_STRING = 2, VC_ATTR_INTS = 3, VC_ATTR_FLOATS = 4 };

struct vc_graph_attr {
    const char *name; /* "axis" */
    enum vc_attr_kind kind;
    int64_t i;
    double f;
    const char *s;
    size_t n; /* of ints or floats */
    const int64_t *ints;
    const double *floats;
};

struct vc_op_row;

struct vc_graph_node {
    const char *op;              /* "Conv" */
    const struct vc_op_row *row; /* internal; NULL: the operator is unknown */
    const char *name;            /* may be "" */
    const char *block;           /* block of the node: "encoder.layer.3.attention"; may be "" */
    unsigned n_inputs, n_outputs, n_attrs;
    const uint32_t *inputs;  /* values; VC_NO_VALUE: an omitted optional input */
    const uint32_t *outputs; /* values; VC_NO_VALUE: an unused output with known integers */
    const struct vc_graph_attr *attrs;
    struct vc_dim macs; /* multiply-adds for all tokens of Conv, Gemm, MatMul, attention; else 0 */
    bool expert;        /* part of an expert (vc_graph_experts) */
    /* Of such a node: the value [batch, sequence, experts] that has the weight of each expert for each token, 0 for
     * experts that the token does not reach; the number of the expert. */
    uint32_t routes, expert_number;
};

struct vc_graph;

struct vc_graph_options {
    size_t struct_size; /* set by vc_graph_defaults */
    /* Another checkpoint of the same model, or NULL. Tensors are found by name; a tensor with another name is found by
     * equal values, also transposed. Only for ONNX files and texts; VC_E_ARGUMENT for other sources. Must stay open as
     * long as parameters are read. */
    const struct vc_model *weights;
    /* Inputs of quantized layers stay floats, whatever the file's loaders make of them: for a student, whose weights
     * will be written in another way. */
    bool plain_inputs;
};

/* No other checkpoint. options NULL means the same. */
static inline void vc_graph_defaults(struct vc_graph_options *options)
{
    vc_options_defaults("vc_graph_options", options, sizeof *options);
}

/* Builds the graph of an open model: from the nodes of an ONNX file, the config.json beside the weights, or GGUF's
 * metadata. options may be NULL. VC_E_FORMAT if the graph has problems: the sentence is the first problem, and *out
 * serves only vc_graph_problem and vc_graph_close. VC_E_UNSUPPORTED if the file does not describe a graph. *out is NULL
 * after all failures but VC_E_FORMAT. */
VC_API enum vc_status vc_graph_build(struct vc_ctx *ctx, const struct vc_model *model,
                                     const struct vc_graph_options *options, struct vc_graph **out);

/* Renders the graph in ONNX's textual form. *text is NUL-terminated; free with vc_text_free. */
VC_API enum vc_status vc_graph_print_text(struct vc_ctx *ctx, const struct vc_graph *graph, char **text);

/* For estimates of memory alone: a decoder of known kind with the sizes that a configuration of transformers states
 * whose architecture is not known: that beside the weights of `model`, or (model NULL) the file `path`. Its parameters
 * are none of the model's tensors, and it computes something else. vc_memory_estimate calls its figures assumed. Fails
 * like vc_graph_open, also where the architecture is known, or is no decoder of text. */
VC_API enum vc_status vc_graph_build_sizes(struct vc_ctx *ctx, const struct vc_model *model, const char *path,
                                           struct vc_graph **out);

/* True if the file is the text of a graph, by its first characters or by its extension (.txt, .onnxtxt). A text is a
 * list of layers or ONNX's textual form; docs/graph.md describes both. */
VC_API bool vc_graph_is_text(const char *path);
/* Builds the graph of a file of its own. path: a text (vc_graph_is_text); a config.json, whatever is in front of ".json", or
 * the folder of one, if weights is NULL; else an ONNX file; NULL: the graph that the file of `weights` describes. Parameters
 * are tensors of `weights`; without weights, parameters of texts and configurations have no tensors (VC_NO_TENSOR).
 * plain_inputs: as in vc_graph_options. *beside: the ONNX file, opened unless *beside is not NULL; the caller closes it after
 * the graph. Fails like vc_model_open and vc_graph_build. VC_E_IO if the file cannot be read. */
VC_API enum vc_status vc_graph_open(struct vc_ctx *ctx, const char *path, const struct vc_model *weights,
                                    bool plain_inputs, struct vc_model **beside, struct vc_graph **out);
/* Accepts NULL. */
VC_API void vc_graph_close(struct vc_graph *graph);

/* What a graph has, for reading; the numbers of nodes, values and parameters are their indices. A graph begins with it, and
 * the functions below read it. An index behind the end gives NULL or VC_NO_VALUE, so that a loop can run until then. */
struct vc_graph_lists {
    uint32_t n_nodes, n_values, n_params, n_inputs, n_outputs;
    /* Number of experts in a layer, 0: no experts; experts that each token uses. In the graph, the nodes of every expert
     * compute all tokens; a router then selects. */
    uint32_t n_experts, experts_per_token;
    struct vc_graph_node *nodes;
    struct vc_graph_value *values;
    struct vc_graph_param *params;
    uint32_t *inputs, *outputs; /* numbers of values, in file order */
    /* Positions of a sequence that the model was made for, by its configuration (max_position_embeddings, GGUF's
     * context_length); 0: not stated. */
    uint64_t max_positions;
    /* What is computed differently from the file, a sentence; NULL: nothing. Example: nodes with training_mode = 1 are
     * computed as in inference. */
    const char *note;
    /* What is wrong with a graph that could not be built, sentences. Of more than VC_GRAPH_MAX_PROBLEMS the last one that is
     * there says how many more there are. */
    uint32_t n_problems;
    const char *const *problems;
    /* The symbol of the batch: named so ("batch", "batch_size"), or else the leading dimension of an input, as exporters
     * leave it open ("n", "s77"). NULL: there is none. */
    const char *batch;
};

static inline const struct vc_graph_lists *vc_graph_lists(const struct vc_graph *graph)
{
    return (const struct vc_graph_lists *)(const void *)graph;
}
static inline uint32_t vc_graph_node_count(const struct vc_graph *graph)
{
    return vc_graph_lists(graph)->n_nodes;
}
static inline const struct vc_graph_node *vc_graph_node(const struct vc_graph *graph, uint32_t index)
{
    return index < vc_graph_lists(graph)->n_nodes ? &vc_graph_lists(graph)->nodes[index] : NULL;
}
static inline uint32_t vc_graph_value_count(const struct vc_graph *graph)
{
    return vc_graph_lists(graph)->n_values;
}
static inline const struct vc_graph_value *vc_graph_value(const struct vc_graph *graph, uint32_t index)
{
    return index < vc_graph_lists(graph)->n_values ? &vc_graph_lists(graph)->values[index] : NULL;
}
static inline uint32_t vc_graph_param_count(const struct vc_graph *graph)
{
    return vc_graph_lists(graph)->n_params;
}
static inline const struct vc_graph_param *vc_graph_param(const struct vc_graph *graph, uint32_t index)
{
    return index < vc_graph_lists(graph)->n_params ? &vc_graph_lists(graph)->params[index] : NULL;
}
static inline uint32_t vc_graph_input_count(const struct vc_graph *graph)
{
    return vc_graph_lists(graph)->n_inputs;
}
static inline uint32_t vc_graph_input(const struct vc_graph *graph, uint32_t index)
{
    return index < vc_graph_lists(graph)->n_inputs ? vc_graph_lists(graph)->inputs[index] : VC_NO_VALUE;
}
static inline uint32_t vc_graph_output_count(const struct vc_graph *graph)
{
    return vc_graph_lists(graph)->n_outputs;
}
static inline uint32_t vc_graph_output(const struct vc_graph *graph, uint32_t index)
{
    return index < vc_graph_lists(graph)->n_outputs ? vc_graph_lists(graph)->outputs[index] : VC_NO_VALUE;
}
static inline const char *vc_graph_problem(const struct vc_graph *graph, uint32_t index)
{
    return index < vc_graph_lists(graph)->n_problems && index < VC_GRAPH_MAX_PROBLEMS
               ? vc_graph_lists(graph)->problems[index]
               : NULL;
}
static inline uint32_t vc_graph_experts(const struct vc_graph *graph, uint32_t *per_token)
{
    *per_token = vc_graph_lists(graph)->experts_per_token;
    return vc_graph_lists(graph)->n_experts;
}

/* Symbol number `index`, an open size of the inputs: "batch", "sequence". Returns NULL after the last symbol. *size: what is
 * bound to it, -1 if it has no size; `size` may be NULL. */
VC_API const char *vc_graph_symbol(const struct vc_graph *graph, uint32_t index, int64_t *size);

/* Binds a size to a symbol, for vc_graph_dim_value. VC_E_ARGUMENT if the symbol is unknown or the size is below 1. */
VC_API enum vc_status vc_graph_bind(struct vc_ctx *ctx, struct vc_graph *graph, const char *symbol, int64_t size);
/* Binds usual sizes to symbols without a size: batch and batch_size 1; sequence, sequence_length and decoder_sequence
 * 128; height and width 224; every other leading dimension of an input 1. */
VC_API enum vc_status vc_graph_bind_usual(struct vc_ctx *ctx, struct vc_graph *graph);
/* The value of a dimension with the bound sizes. Returns -1 if a size is not bound or the value exceeds 2^63 - 1. */
VC_API int64_t vc_graph_dim_value(const struct vc_graph *graph, struct vc_dim dim);
/* Writes a dimension as text, at most n bytes: "batch", "2*sequence + 1", "12". Returns buffer. */
VC_API const char *vc_graph_dim_text(const struct vc_graph *graph, struct vc_dim dim, char *buffer, size_t n);

/* ---- running ---- */

/* An input or output array of a run: elements in C order, little-endian. */
struct vc_graph_array {
    const char *name; /* of the value */
    enum vc_dtype dtype;
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n_elems;
    const void *data;
};

/* Numbers are stable. */
enum vc_graph_precision { VC_GRAPH_F32 = 0, VC_GRAPH_F64 = 1 };

struct vc_graph_run_options {
    size_t struct_size; /* set by vc_graph_run_defaults */
    enum vc_graph_precision precision;
    size_t n_values; /* number of values to compute; 0: the outputs of the graph */
    const char *const *values;
    /* Called once for each asked value, as soon as the value is computed: f32 or f64 (the precision), i64, or bool. The
     * array is valid during the call. A status other than VC_OK ends the run, which returns this status. */
    enum vc_status (*take)(void *user, const struct vc_graph_array *array);
    void *user;
    const struct vc_model *weights; /* vc_graph_options.weights if the graph was built with weights, else NULL */
};

/* f32, the outputs of the graph. `take` must be set. */
static inline void vc_graph_run_defaults(struct vc_graph_run_options *options)
{
    vc_options_defaults("vc_graph_run_options", options, sizeof *options);
}

/* Computes the graph.
 *
 * f32: the engine, on the context's threads; on one machine any number of threads gives the same bits. f64, and f32
 * where the engine lacks an operator: plain loops over the definitions of the operators, on one thread, every sum in
 * the precision of the run (docs/graph.md).
 *
 * Only parameters that the asked values need are read; codes are decoded. model NULL: for a graph without parameters.
 * Sizes come from the inputs. All needed inputs must be given, except optional inputs; other inputs are ignored.
 * VC_E_ARGUMENT if inputs or names of values do not fit the graph. */
VC_API enum vc_status vc_graph_run(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                   const struct vc_graph_array *inputs, size_t n_inputs,
                                   const struct vc_graph_run_options *options);

struct vc_graph_file_options {
    size_t struct_size; /* set by vc_graph_file_defaults */
    const char *data;   /* file with an array for each input: npz, safetensors, ...; NULL: no inputs */
    /* Pairs such as "x=test_images": input x is the array test_images of the file. Inputs without a pair take the array
     * of the same name; a single array is the single input under any name. Dimensions of 1 need not be there. Integers are converted to floats where the
     * input is float. */
    const char *const *arrays;
    size_t n_arrays;
    enum vc_graph_precision precision;
    const char *const *values; /* names of values to compute; n_values 0: the outputs of the graph */
    size_t n_values;
    const char *outputs; /* file to write, in the format of its extension */
    bool force;          /* replace an existing file */
    /* Called for each value after the file is written; n_elems is not set. May be NULL. */
    void (*tell)(void *user, const struct vc_graph_array *array);
    void *user;
    const struct vc_model *weights; /* as in vc_graph_run_options */
    /* Rows per run: inputs and values are split along their first dimension and computed in runs of this many rows. A
     * graph exported with batch size 1 needs 1. 0: all rows at once. */
    uint64_t batch;
    /* As in vc_data_options: inputs of floats become (value * scale - mean) / deviation; a file of tokens alone has rows of
     * `length` of them. */
    double scale;
    const char *mean, *deviation;
    uint64_t length, token_bits;
};

/* No data, f32, the outputs of the graph. `outputs` must be set. */
static inline void vc_graph_file_defaults(struct vc_graph_file_options *options)
{
    vc_options_defaults("vc_graph_file_options", options, sizeof *options);
}

/* Runs vc_graph_run from a file into a file. All values are in memory before the file is written; the file appears
 * whole or not at all. */
VC_API enum vc_status vc_graph_run_files(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                         const struct vc_graph_file_options *options);

/* ---- blocks ---- */

#define VC_NO_BLOCK ((uint32_t)-1)

/* A block of the graph, by the names of nodes: block "encoder.layer.3" is in "encoder.layer", which is in "encoder".
 * Figures count all nodes of the block and of the blocks inside. A parameter counts where it is first used; tied
 * parameters count once. */
struct vc_graph_block {
    const char *name;                   /* the last part: "3"; "" for the whole graph, which is block 0 */
    const char *path;                   /* "encoder.layer.3" */
    unsigned depth;                     /* 0: the whole graph */
    uint32_t parent, first_child, next; /* VC_NO_BLOCK: no such block */
    /* First block with the same parent that does the same computation with its own parameters; itself if no earlier
     * block does. */
    uint32_t like;
    uint32_t n_like; /* number of such blocks, with the first; 0 except in the first */
    uint32_t n_nodes;
    uint32_t n_own;     /* nodes directly in this block */
    uint64_t n_params;  /* elements, without means and variances of BatchNormalization */
    uint64_t n_active;  /* elements that one token uses: only the selected share of experts */
    uint64_t bytes;     /* bytes of the parameters in the file; 0 without a model */
    struct vc_dim macs; /* multiply-adds, of experts the selected share */
    uint32_t output;    /* last value computed here and used outside, or VC_NO_VALUE */
};

struct vc_graph_blocks {
    uint32_t n;
    const struct vc_graph_block *blocks;
    const uint32_t *of_node; /* the innermost block of each node */
};

/* Makes the list of blocks. model: the model of the graph; weights: vc_graph_options.weights. Both give the bytes of
 * parameters; NULL: 0 bytes for parameters from there. Free *out with vc_result_free, before vc_graph_close. */
VC_API enum vc_status vc_graph_blocks_make(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                           const struct vc_model *weights, struct vc_graph_blocks **out);

VC_END_C
#endif
