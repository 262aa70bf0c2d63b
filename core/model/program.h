/* program.h - what a file says about what its model computes, before anybody has made sense of it. Formats fill it,
 * graph/ reads it; neither knows the other.
 *
 * One of three kinds:
 *   VC_PROGRAM_NODES   operators and the values between them: ONNX
 *   VC_PROGRAM_CONFIG  the text of a config.json, as transformers writes it
 *   VC_PROGRAM_KEYS    keys with values: GGUF's metadata
 * All strings and arrays are in the arena that the caller gives. */
#pragma once

#include "core/model/edit.h"
#include "core/model/source.h"

#define VC_PROGRAM_MAX_INLINE ((uint64_t)1 << 24) /* bytes of a tensor that is part of the program */
#define VC_PROGRAM_MAX_NODES  ((size_t)1 << 20)

enum vc_program_kind { VC_PROGRAM_NONE, VC_PROGRAM_NODES, VC_PROGRAM_CONFIG, VC_PROGRAM_KEYS };

/* A tensor that is no weight of the model, or a small one: its elements as the file's type, little-endian. data is NULL
 * for elements of a type that vcompress does not know (VC_DTYPE_RAW), in another file, or beyond VC_PROGRAM_MAX_INLINE. */
struct vc_program_tensor {
    enum vc_dtype dtype;
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n_bytes;
    const void *data;
};

enum vc_program_attr_kind {
    VC_PROGRAM_INT,
    VC_PROGRAM_FLOAT,
    VC_PROGRAM_STRING,
    VC_PROGRAM_INTS,
    VC_PROGRAM_FLOATS,
    VC_PROGRAM_STRINGS,
    VC_PROGRAM_TENSOR,
    VC_PROGRAM_GRAPH, /* a graph inside: `graph`, or, where a text or a list of graphs has it, nothing */
    VC_PROGRAM_OTHER
};

struct vc_program;

struct vc_program_attr {
    const char *name;
    const char *reference; /* in a function: it is the attribute of that name of whoever calls; else NULL */
    enum vc_program_attr_kind kind;
    int64_t i;
    double f;
    size_t n;
    const char *s; /* n bytes and a NUL */
    const int64_t *ints;
    const double *floats;
    const char *const *strings;
    const struct vc_program_tensor *tensor;
    /* Nodes, inputs, outputs, declared values and constants of an inner graph; names that it does not make are those of
     * the graphs around it. NULL: not taken apart. */
    const struct vc_program *graph;
};

struct vc_program_node {
    const char *op, *domain, *name, *overload; /* overload: of a function, mostly ""; may be NULL */
    size_t n_inputs, n_outputs, n_attrs;
    const char *const *inputs; /* names; "": left out */
    const char *const *outputs;
    const struct vc_program_attr *attrs;
    bool of_function; /* graph/: a copy of a node of a function, in the place of a call */
    /* What it computes in the words of PyTorch's exporter: "%y : ... = call_function[target=torch.ops.aten.linear.default](args =
     * (%x, %p_fc_weight, %p_fc_bias), kwargs = {})"; NULL: the file does not say. */
    const char *trace;
};

/* A dimension of a declared value: a number, a name, or neither. */
struct vc_program_dim {
    int64_t size;     /* -1: see name */
    const char *name; /* NULL: unknown */
};

struct vc_program_value {
    const char *name;
    enum vc_dtype dtype;
    bool has_shape;
    unsigned n_dims;
    const struct vc_program_dim *shape;
};

/* A tensor of the program under its name: one of the model's, one that is only here, or a small one of the model's,
 * which is both. */
struct vc_program_constant {
    const char *name;
    size_t index;                           /* of the model's tensor, or VC_NO_TENSOR */
    const struct vc_program_tensor *tensor; /* or NULL */
};

struct vc_program_opset {
    const char *domain; /* "": that of ONNX itself */
    int64_t version;
};

/* An operator that the file defines by other nodes. Its names are its own. */
struct vc_program_function {
    const char *name, *domain, *overload;
    size_t n_inputs, n_outputs, n_attrs, n_defaults, n_nodes, n_opsets;
    const char *const *inputs;
    const char *const *outputs;
    const char *const *attrs;               /* that whoever calls may give */
    const struct vc_program_attr *defaults; /* the same, with what they are else */
    const struct vc_program_node *nodes;
    const struct vc_program_opset *opsets;
};

/* Elements of a tensor of a model that are to be an initializer: rows of `columns` elements each, in n_blocks of `rows`.
 *
 *     element (b, r, c) of the tensor lies at first + b * block_step + r * row_step + c; the initializer has them in the
 *     order of b, r, c, or, turned, of b, c, r: the q of a packed [3 * 64, 64], turned, is first 0, rows 64, columns 64 */
struct vc_program_weight {
    const char *name; /* of the initializer */
    size_t tensor;
    enum vc_dtype dtype;
    unsigned n_dims;
    const uint64_t *shape; /* of the initializer */
    bool turned;
    uint64_t first, n_blocks, block_step, rows, row_step, columns;
};

/* What a file says beside the graph: metadata_props. */
struct vc_program_note {
    const char *key, *value;
};

struct vc_program_key {
    const char *key;
    bool is_text, is_number, is_integer;
    const char *text;
    double number;   /* of a number, also of an integer */
    int64_t integer; /* of an integer, or of a truth value */
    size_t n;        /* of an array: its length; its integers, where it has such and they are not many */
    const int64_t *integers;
};

/* What a format does with the sizes that its configurations state: it knows the names of the keys. */
struct vc_program_sizes {
    /* vc_program_says; with a tensor's name vc_program_states */
    enum vc_status (*says)(struct vc_ctx *ctx, const struct vc_program *program, enum vc_edit_key key, uint64_t number,
                           const char *tensor, bool *says);
    /* vc_program_shared_experts; NULL: no key states it */
    enum vc_status (*shared_experts)(struct vc_ctx *ctx, const struct vc_program *program, uint64_t *n);
    /* vc_program_edit */
    enum vc_status (*edit)(struct vc_ctx *ctx, const struct vc_edit *edits, size_t n, struct vc_arena *arena,
                           struct vc_program *program);
};

struct vc_program {
    enum vc_program_kind kind;
    /* VC_PROGRAM_NODES */
    size_t n_opsets, n_nodes, n_inputs, n_outputs, n_declared, n_constants, n_functions, n_notes;
    const struct vc_program_opset *opsets;
    const struct vc_program_node *nodes;
    const struct vc_program_value *inputs, *outputs;
    const struct vc_program_value *declared; /* what the file says about other values: value_info */
    const struct vc_program_constant *constants;
    const struct vc_program_note *notes;
    const struct vc_program_function *functions;
    size_t n_weights; /* of a program for a file that is to be made: its large initializers */
    const struct vc_program_weight *weights;
    /* VC_PROGRAM_CONFIG; also for a single file with a config.json beside it */
    const char *config; /* config_bytes and a NUL */
    size_t config_bytes;
    const char *config_path;
    /* VC_PROGRAM_KEYS */
    size_t n_keys;
    const struct vc_program_key *keys;
    const struct vc_program_sizes *sizes; /* of a VC_PROGRAM_CONFIG or VC_PROGRAM_KEYS; else NULL */
};

/* Of a VC_PROGRAM_KEYS: the key "<architecture>.<name>", "llama" and "block_count"; NULL: the file does not have it. */
const struct vc_program_key *vc_program_key(const struct vc_program *program, const char *architecture,
                                            const char *name);
/* "general.architecture", what stands in front of the keys of the model; "": the file does not say. */
const char *vc_program_architecture(const struct vc_program *program);
/* The whole number of a key, or that of the layer where the file has one for each layer; `otherwise`: the file has
 * neither. */
int64_t vc_program_number(const struct vc_program *program, const char *architecture, const char *name, uint64_t layer,
                          int64_t otherwise);

/* Whether a key of that meaning states that number: of a VC_PROGRAM_CONFIG or VC_PROGRAM_KEYS; false for any other. */
enum vc_status vc_program_says(struct vc_ctx *ctx, const struct vc_program *program, enum vc_edit_key key,
                               uint64_t number, bool *says);

/* The program as its format would write it once the edits are made, in the arena: of a VC_PROGRAM_CONFIG or
 * VC_PROGRAM_KEYS; any other stays as it is. Fails as the writer would. */
enum vc_status vc_program_edit(struct vc_ctx *ctx, const struct vc_edit *edits, size_t n, struct vc_arena *arena,
                               struct vc_program *program);

/* The same for the graph of a VC_PROGRAM_NODES: the edits are made, and what is declared for values whose shapes they
 * do not tell is left out, as the writer of such a file does where shapes change. VC_E_INTERNAL for an edit that fits
 * no node. */
enum vc_status vc_program_edit_graph(struct vc_ctx *ctx, const struct vc_graph_edit *edits, size_t n,
                                     struct vc_arena *arena, struct vc_program *program);

/* Its constants that are tensors of `model` are as that has them: shape and, where the program has the elements, the
 * elements. For a model that is not the one whose file the program is from, but what passes make of it. */
enum vc_status vc_program_take_shapes(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                                      struct vc_program *program);

/* Asks the model's format; where that says nothing, the config.json beside the model is the program. VC_OK with
 * VC_PROGRAM_NONE where the file says nothing. */
enum vc_status vc_model_program(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                                struct vc_program *out);
