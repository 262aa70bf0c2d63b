/* graph.h - what a model computes: operators, the values between them, and which tensors of a checkpoint they use.
 *
 * A graph comes from an ONNX file, from the config.json beside the weights, from a GGUF file of a known family, or from
 * a few lines of text. It looks the same wherever it came from:
 *
 *     node 0  MatMul  inputs 0 "x" [batch, 784], 1 "fc1.weight" [784, 128]   output 2 "fc1.product" [batch, 128]
 *     node 1  Add     inputs 2, 3 "fc1.bias" [128]                           output 4 "fc1" [batch, 128]
 *     node 2  Relu    inputs 4                                               output 5
 *
 * Nodes and values have numbers, from 0 on without gaps. Nodes stand in an order in which they can be computed.
 * Operators, their inputs and their attributes are those of ONNX, operator set VC_GRAPH_OPSET; what older sets say
 * otherwise is rewritten while the graph is built. docs/graph.md has a section on each.
 *
 * A graph belongs to the caller, who closes it. It needs no model once it is built. All strings and arrays are its own.
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

#ifdef __cplusplus
extern "C" {
#endif

#define VC_GRAPH_OPSET    23 /* the operator set of ONNX whose definitions hold */
#define VC_GRAPH_MAX_DIMS 8
#define VC_NO_VALUE       ((uint32_t)-1)
#define VC_NO_NODE        ((uint32_t)-1)
#define VC_NO_PARAM       ((uint32_t)-1)

/* A dimension: a number, or what is known only once the sizes of the inputs are: "batch", "2*sequence + 1". */
struct vc_dim {
    int64_t size;        /* the number; -1: see expression */
    uint32_t expression; /* of the graph: vc_graph_dim_text, vc_graph_dim_value; 0 for a number */
};

enum vc_value_kind {
    VC_VALUE_INPUT = 0,     /* given by whoever runs the graph */
    VC_VALUE_PARAMETER = 1, /* read from the checkpoint */
    VC_VALUE_CONSTANT = 2,  /* part of the graph itself */
    VC_VALUE_RESULT = 3     /* made by a node */
};

struct vc_graph_value {
    const char *name; /* unique in the graph */
    enum vc_value_kind kind;
    enum vc_dtype dtype; /* VC_DTYPE_F32 for all floats (the precision of a run is chosen by who runs it), _I64 for all
                            integers, _BOOL */
    unsigned n_dims;
    const struct vc_dim *shape;
    uint32_t node;     /* that makes it, or VC_NO_NODE */
    uint32_t param;    /* VC_VALUE_PARAMETER: which, else VC_NO_PARAM */
    uint32_t n_uses;   /* as inputs of nodes and outputs of the graph */
    const void *data;  /* VC_VALUE_CONSTANT: its elements, double, int64_t, or int64_t 0 and 1 for _BOOL; else NULL */
    bool optional;     /* VC_VALUE_INPUT: a run may leave it out; all its elements are `otherwise` then */
    int64_t otherwise; /* 1 for attention_mask: no token is padding */
    bool dropped;      /* what reads it reads values of which training drops some at random (Dropout) */
    bool stepwise; /* PyTorch's module computes it by operators one after the other: Gelu as "gelu_new", norms of T5 */
    bool drops_scores; /* of Attention: training drops some of its probabilities */
    bool half_softmax; /* of Attention in half precision: its probabilities are never f32 in PyTorch's module; of a
                          router's Softmax: the weights of experts do not stay f32 */
};

/* How a parameter's value is made from a tensor of the checkpoint (its integers, where the value's dtype is _I64): a
 * slice of one axis, then the last two axes swapped.
 *
 *     tensor qkv.weight [3 * 64, 64]     first 64, count 64 of axis 0: the key's [64, 64], transposed for MatMul */
struct vc_graph_param {
    const char *tensor; /* its name in the checkpoint */
    size_t index;       /* in the model that the graph was built from; VC_NO_TENSOR where there are no weights */
    bool from_weights;  /* ... in vc_graph_options.weights instead */
    unsigned n_dims;    /* of the tensor */
    const uint64_t *shape;
    bool sliced; /* axis, first and count hold; else all of the tensor */
    unsigned axis;
    uint64_t first, count;
    bool transposed;
    uint32_t tied_to; /* an earlier parameter of the same tensor, or VC_NO_PARAM */
    uint32_t value;
    /* Other names that an ONNX file gives the tensor by Identity nodes, and the first of them: some exporters keep
     * tensors of equal values once. 0 and NULL: there are none. */
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
    const struct vc_op_row *row; /* the library's; NULL: the operator is not known */
    const char *name;            /* may be "" */
    const char *block;           /* where it belongs: "encoder.layer.3.attention"; may be "" */
    unsigned n_inputs, n_outputs, n_attrs;
    const uint32_t *inputs;  /* values; VC_NO_VALUE: an optional one that is not given */
    const uint32_t *outputs; /* values; VC_NO_VALUE: one that nobody uses and whose integers are known */
    const struct vc_graph_attr *attrs;
    struct vc_dim macs; /* multiply-adds of Conv, Gemm, MatMul, attention, of all tokens; 0 for others */
    bool expert;        /* it is part of one of the experts (vc_graph_experts) */
};

struct vc_graph;

struct vc_graph_options {
    size_t struct_size; /* set by vc_graph_defaults */
    /* Another checkpoint of the same model, read by name: where the graph's file calls a tensor otherwise, it is known
     * by its values, also transposed. Only for ONNX files and texts; others have their names from their family, and it
     * is refused (VC_E_ARGUMENT). NULL: none. It has to stay open as long as parameters are read. */
    const struct vc_model *weights;
};

VC_API void vc_graph_defaults_sized(struct vc_graph_options *options, size_t struct_size);

/* No other checkpoint: what options NULL means, too. */
static inline void vc_graph_defaults(struct vc_graph_options *options)
{
    vc_graph_defaults_sized(options, sizeof *options);
}

/* The graph of a model that was opened: of the nodes of an ONNX file, of the config.json beside the weights, of GGUF's
 * metadata. VC_E_FORMAT: there are problems, the first of which is the sentence; all of them are in *out
 * (vc_graph_problem), which has nothing else that may be used and is closed like any other. VC_E_UNSUPPORTED: the file
 * says nothing about what its model computes. *out is NULL after other failures. options may be NULL. */
VC_API enum vc_status vc_graph_build(struct vc_ctx *ctx, const struct vc_model *model,
                                     const struct vc_graph_options *options, struct vc_graph **out);

/* The same from a config.json alone, or the one in a folder, without weights: every parameter's index is VC_NO_TENSOR.
 * What vc_graph_build says about problems holds here, too. VC_E_IO: it cannot be read. */
VC_API enum vc_status vc_graph_build_config(struct vc_ctx *ctx, const char *path, struct vc_graph **out);

/* The graph of a text of n bytes in ONNX's textual form, as onnx.parser reads it and vc_graph_print_text writes it.
 * Inputs that it calls parameters (docs/graph.md) are those of options->weights. Failures as of vc_graph_build, and
 * VC_E_FORMAT with the line for what is no such text; then *out is NULL. */
VC_API enum vc_status vc_graph_parse_text(struct vc_ctx *ctx, const char *text, size_t n,
                                          const struct vc_graph_options *options, struct vc_graph **out);

/* The graph in that form. *text is NUL-terminated and freed with vc_text_free. */
VC_API enum vc_status vc_graph_print_text(struct vc_ctx *ctx, const struct vc_graph *graph, char **text);

/* The file is the text of a graph by its first characters, or by its name, which ends in .txt or .onnxtxt: a list of
 * layers, or ONNX's textual syntax. docs/graph.md has both. */
VC_API bool vc_graph_is_text(const char *path);
/* The graph that a text says; its parameters are the tensors of options->weights, or of no checkpoint. Fails as
 * vc_graph_build does. */
VC_API enum vc_status vc_graph_read_text(struct vc_ctx *ctx, const char *path, const struct vc_graph_options *options,
                                         struct vc_graph **out);

/* Accepts NULL. */
VC_API void vc_graph_close(struct vc_graph *graph);

VC_API uint32_t vc_graph_node_count(const struct vc_graph *graph);
VC_API const struct vc_graph_node *vc_graph_node(const struct vc_graph *graph, uint32_t index);
VC_API uint32_t vc_graph_value_count(const struct vc_graph *graph);
VC_API const struct vc_graph_value *vc_graph_value(const struct vc_graph *graph, uint32_t index);
VC_API uint32_t vc_graph_param_count(const struct vc_graph *graph);
VC_API const struct vc_graph_param *vc_graph_param(const struct vc_graph *graph, uint32_t index);
/* The values that are given and those that are asked for, in their order. */
VC_API uint32_t vc_graph_input_count(const struct vc_graph *graph);
VC_API uint32_t vc_graph_input(const struct vc_graph *graph, uint32_t index);
VC_API uint32_t vc_graph_output_count(const struct vc_graph *graph);
VC_API uint32_t vc_graph_output(const struct vc_graph *graph, uint32_t index);
/* The value with that name, or VC_NO_VALUE. */
VC_API uint32_t vc_graph_find(const struct vc_graph *graph, const char *name);

/* How many experts a layer has, and how many of them each token uses; 0: there are none. The nodes of an expert compute
 * all tokens, of which a router takes its share. */
VC_API uint32_t vc_graph_experts(const struct vc_graph *graph, uint32_t *per_token);

/* Sizes that inputs may have: "batch", "sequence". Symbol number `index`, NULL behind the last. */
VC_API const char *vc_graph_symbol(const struct vc_graph *graph, uint32_t index);
/* The size that it was given, or -1. */
VC_API int64_t vc_graph_symbol_size(const struct vc_graph *graph, uint32_t index);
/* Gives a symbol its size, for vc_graph_dim_value. VC_E_ARGUMENT for an unknown symbol or a size below 1. */
VC_API enum vc_status vc_graph_bind(struct vc_ctx *ctx, struct vc_graph *graph, const char *symbol, int64_t size);
/* Gives symbols that have no size yet the usual one: batch and batch_size 1, sequence, sequence_length and
 * decoder_sequence 128, height and width 224. */
VC_API enum vc_status vc_graph_bind_usual(struct vc_ctx *ctx, struct vc_graph *graph);
/* The number that a dimension is with the sizes that are bound; -1 where one is not, or where it is beyond 2^63 - 1. */
VC_API int64_t vc_graph_dim_value(const struct vc_graph *graph, struct vc_dim dim);
/* "batch", "2*sequence + 1", "12"; cut off at n bytes. Returns buffer. */
VC_API const char *vc_graph_dim_text(const struct vc_graph *graph, struct vc_dim dim, char *buffer, size_t n);

/* What is wrong with a graph that could not be built, a sentence each, all that was found. NULL behind the last. */
VC_API const char *vc_graph_problem(const struct vc_graph *graph, uint32_t index);

/* What computes otherwise than the file says, a sentence each: nodes with training_mode = 1, which are computed as in
 * inference. NULL behind the last. */
VC_API const char *vc_graph_note(const struct vc_graph *graph, uint32_t index);

/* Tensors of the checkpoint that nothing is computed from, as its family is known to have them: buffers, heads for
 * training. Names in the file's order; NULL behind the last. Any other tensor that is not used is a problem. */
VC_API const char *vc_graph_unused(const struct vc_graph *graph, uint32_t index);

/* ---- running ---- */

/* An array that goes into a graph or comes out of it: elements in C order, little-endian. */
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
    size_t n_values; /* how many are asked for; 0: the outputs of the graph */
    const char *const *values;
    /* Gets each value that is asked for, once, as soon as it is computed: f32 or f64 as the precision is, i64, or bool.
     * The array is valid during the call. What it returns, if not VC_OK, ends the run and is returned by it. */
    enum vc_status (*take)(void *user, const struct vc_graph_array *array);
    void *user;
    const struct vc_model *weights; /* vc_graph_options.weights, where parameters are in it; NULL: none */
};

VC_API void vc_graph_run_defaults_sized(struct vc_graph_run_options *options, size_t struct_size);

/* f32, the outputs; `take` has to be set. */
static inline void vc_graph_run_defaults(struct vc_graph_run_options *options)
{
    vc_graph_run_defaults_sized(options, sizeof *options);
}

/* Computes the graph: in f32 by the engine, on the context's threads, with the same bits for any number of them on one
 * machine; in f64, and in f32 where the engine cannot, by plain loops over the definitions of the operators, on one
 * thread, every sum in the precision of the run (docs/graph.md). Parameters are read from the model as the values that
 * they stand for (codes through their scales); those that are not needed for what is asked for are not read. model
 * NULL: for a graph without parameters. Sizes come from the inputs, of which every one that is needed must be there,
 * but for optional ones; others are not looked at. VC_E_ARGUMENT: inputs or names of values do not fit the graph. */
VC_API enum vc_status vc_graph_run(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                   const struct vc_graph_array *inputs, size_t n_inputs,
                                   const struct vc_graph_run_options *options);

struct vc_graph_file_options {
    size_t struct_size; /* set by vc_graph_file_defaults */
    const char *data;   /* a file with an array for each input: npz, safetensors, ...; NULL: the graph has no inputs */
    /* "x=test_images": the input x is that array of the file. Others have the input's name; a single array is the
     * single input whatever it is called. Integers in place of floats become floats. */
    const char *const *arrays;
    size_t n_arrays;
    enum vc_graph_precision precision;
    const char *const *values; /* that are wanted; none: the outputs of the graph */
    size_t n_values;
    const char *outputs; /* the file that is written, of the format that its name says */
    bool force;          /* replace it if it is there */
    /* Gets each value once the file is written; n_elems is not set. May be NULL. */
    void (*tell)(void *user, const struct vc_graph_array *array);
    void *user;
    const struct vc_model *weights; /* that the graph was built with (vc_graph_options), or NULL */
    uint64_t batch; /* the first dimension of all inputs and values is rows, so many of which are computed at a time, as
                       a graph that was exported with a batch of one needs it; 0: all at once */
};

VC_API void vc_graph_file_defaults_sized(struct vc_graph_file_options *options, size_t struct_size);

/* No data, f32, the outputs of the graph; `outputs` has to be set. */
static inline void vc_graph_file_defaults(struct vc_graph_file_options *options)
{
    vc_graph_file_defaults_sized(options, sizeof *options);
}

/* vc_graph_run from a file into a file. The values are held in memory until all are there; the file appears whole or
 * not at all. */
VC_API enum vc_status vc_graph_run_files(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                         const struct vc_graph_file_options *options);

/* ---- blocks ---- */

#define VC_NO_BLOCK ((uint32_t)-1)

/* A part of the graph as its names have it: "encoder.layer.3" is in "encoder.layer", and that in "encoder". Figures are
 * of all nodes inside, those of the blocks in it included. A parameter counts where it is used first; tied ones count
 * once. */
struct vc_graph_block {
    const char *name;                   /* the last part: "3"; "" for the whole graph, which is block 0 */
    const char *path;                   /* "encoder.layer.3" */
    unsigned depth;                     /* 0: the whole graph */
    uint32_t parent, first_child, next; /* VC_NO_BLOCK: none */
    uint32_t like; /* the first block beside this one that computes the same with sizes of its own: itself, where there
                      is none before it */
    uint32_t n_like; /* how many there are, the first included; 0 for the others */
    uint32_t n_nodes;
    uint32_t n_own;     /* nodes that are in no block in it */
    uint64_t n_params;  /* elements, but for means and variances of BatchNormalization */
    uint64_t n_active;  /* that a token uses: of experts the share of those that it is given to */
    uint64_t bytes;     /* of them in the file; 0 without a model */
    struct vc_dim macs; /* the same for multiply-adds */
    uint32_t output;    /* the last value made here that is used elsewhere, or VC_NO_VALUE */
};

struct vc_graph_blocks {
    uint32_t n;
    const struct vc_graph_block *blocks;
    const uint32_t *of_node; /* the innermost block of each node */
};

/* The bytes of parameters are those of their tensors: in `model`, which the graph was built from, and in `weights`, the
 * checkpoint of vc_graph_options.weights; NULL: 0 bytes for what is in it. Freed with vc_graph_blocks_free, before the
 * graph is closed. */
VC_API enum vc_status vc_graph_blocks_make(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                           const struct vc_model *weights, struct vc_graph_blocks **out);
VC_API void vc_graph_blocks_free(struct vc_graph_blocks *blocks); /* accepts NULL */

/* The graph as one JSON document, schema vcompress.graph/1 (installed as graph-1.schema.json), and as a drawing, one
 * SVG document that needs nothing beside it. Sizes are those that are bound. *text is freed with vc_text_free. */
VC_API enum vc_status vc_graph_json(struct vc_ctx *ctx, const struct vc_graph *graph,
                                    const struct vc_graph_blocks *blocks, const struct vc_model *model, char **text);
VC_API enum vc_status vc_graph_svg(struct vc_ctx *ctx, const struct vc_graph *graph,
                                   const struct vc_graph_blocks *blocks, const char *title, char **text);

#ifdef __cplusplus
}
#endif
#endif
