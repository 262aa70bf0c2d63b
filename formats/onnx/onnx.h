/* onnx.h - shared by the reader and the writer of ONNX. docs/formats.md describes the format, onnx.proto has the field
 * numbers, formats/io/protobuf_wire.h varints and tags.
 *
 *     08 08                              ModelProto.ir_version (field 1): 8
 *     3a ..                              ModelProto.graph (7), a GraphProto:
 *        0a ..                             node (1): op_type "MatMul", inputs "x", "w", output "y"
 *        2a ..                             initializer (5), a TensorProto:
 *           08 02 08 03                      dims (1): 2, 3
 *           10 01                            data_type (2): 1, FLOAT
 *           42 01 77                         name (8): "w"
 *           4a 18 ..                         raw_data (9): 24 bytes of values
 *        5a ..                             input (11);  62 ..  output (12);  6a ..  value_info (13)
 *     42 04 0a 00 10 0d                  opset_import (8): domain "", version 13
 *
 * The tensors of a model are the initializers of the main graph and of the graphs inside nodes (branches of If, bodies
 * of Loop and Scan), and the numbers of Constant nodes. Below, "initializer" means all of these. If nodes of its own lie between an initializer and the graph (onnx_patterns.c), the tensor has the name of
 * their output, the name in the rest of the graph. Everything else stays in the file and is copied to the output.
 *
 *     reading   onnx_read.c: the file -> onnx_graph.c: its graph -> onnx_nodes.c, onnx_tensor.c, onnx_external.c,
 *               onnx_symbols.c -> onnx_links.c with onnx_patterns.c: the model's tensors
 *     program   onnx_program.c, onnx_attribute.c: what the nodes compute, for graph/
 *     writing   onnx_write.c: files -> onnx_names.c: what becomes of each tensor -> onnx_edit.c: what else passes change
 *               -> onnx_layout.c with onnx_pieces.c and onnx_messages.c: pieces */
#pragma once

#include "core/base/array.h"
#include "core/model/program.h"
#include "formats/formats.h"
#include "formats/io/protobuf_wire.h"

struct vc_outfolder;

/* The row of this format in the table of formats. */
#define VC_FORMAT_ONNX "onnx" /* of the format, in reports */

extern const struct vc_format vc_format_onnx;

#define ONNX_NONE     ((size_t)-1)
#define ONNX_MAX_NAME ((size_t)65535)

#define ONNX_MICROSOFT    "com.microsoft"
#define ONNX_BLOCKS_OPSET 21 /* DequantizeLinear with block_size, and of int4 */

/* What the codes of a MatMulNBits node are called behind the name of the weight: [K, N] in the model, or [N, K]. */
#define ONNX_NBITS_CODES ".int4"
#define ONNX_NBITS_ROWS  ".int4_rows"

/* Numbers of fields. */
enum {
    ONNX_MODEL_IR_VERSION = 1,
    ONNX_MODEL_PRODUCER = 2,
    ONNX_MODEL_GRAPH = 7,
    ONNX_MODEL_OPSET = 8,
    ONNX_MODEL_METADATA = 14,
    ONNX_MODEL_TRAINING = 20,
    ONNX_MODEL_FUNCTION = 25,
    ONNX_FUNCTION_VALUE_INFO = 12,
    ONNX_OPSET_DOMAIN = 1,
    ONNX_OPSET_VERSION = 2,
    ONNX_GRAPH_NODE = 1,
    ONNX_GRAPH_NAME = 2,
    ONNX_GRAPH_INITIALIZER = 5,
    ONNX_GRAPH_INPUT = 11,
    ONNX_GRAPH_OUTPUT = 12,
    ONNX_GRAPH_VALUE_INFO = 13,
    ONNX_GRAPH_ANNOTATION = 14,
    ONNX_GRAPH_SPARSE = 15,
    ONNX_SPARSE_VALUES = 1,
    ONNX_SPARSE_INDICES = 2,
    ONNX_NODE_INPUT = 1,
    ONNX_NODE_OUTPUT = 2,
    ONNX_NODE_NAME = 3,
    ONNX_NODE_OP = 4,
    ONNX_NODE_ATTRIBUTE = 5,
    ONNX_NODE_DOMAIN = 7,
    ONNX_NODE_OVERLOAD = 8,
    ONNX_NODE_METADATA = 9,
    ONNX_FUNCTION_NAME = 1,
    ONNX_FUNCTION_INPUT = 4,
    ONNX_FUNCTION_OUTPUT = 5,
    ONNX_FUNCTION_ATTRIBUTE = 6,
    ONNX_FUNCTION_NODE = 7,
    ONNX_FUNCTION_OPSET = 9,
    ONNX_FUNCTION_DOMAIN = 10,
    ONNX_FUNCTION_DEFAULT = 11,
    ONNX_FUNCTION_OVERLOAD = 13,
    ONNX_ATTRIBUTE_NAME = 1,
    ONNX_ATTRIBUTE_F = 2,
    ONNX_ATTRIBUTE_I = 3,
    ONNX_ATTRIBUTE_S = 4,
    ONNX_ATTRIBUTE_T = 5,
    ONNX_ATTRIBUTE_G = 6,
    ONNX_ATTRIBUTE_FLOATS = 7,
    ONNX_ATTRIBUTE_INTS = 8,
    ONNX_ATTRIBUTE_STRINGS = 9,
    ONNX_ATTRIBUTE_TENSORS = 10,
    ONNX_ATTRIBUTE_GRAPHS = 11,
    ONNX_ATTRIBUTE_TYPE = 20,
    ONNX_ATTRIBUTE_REFERENCE = 21,
    ONNX_ATTRIBUTE_SPARSE = 22,
    ONNX_ATTRIBUTE_SPARSES = 23,
    ONNX_ATTRIBUTE_TYPE_INT = 2,
    ONNX_ATTRIBUTE_TYPE_INTS = 7,
    ONNX_TENSOR_DIMS = 1,
    ONNX_TENSOR_TYPE = 2,
    ONNX_TENSOR_SEGMENT = 3,
    ONNX_TENSOR_FLOATS = 4,
    ONNX_TENSOR_INT32S = 5,
    ONNX_TENSOR_STRINGS = 6,
    ONNX_TENSOR_INT64S = 7,
    ONNX_TENSOR_NAME = 8,
    ONNX_TENSOR_RAW = 9,
    ONNX_TENSOR_DOUBLES = 10,
    ONNX_TENSOR_UINT64S = 11,
    ONNX_TENSOR_DOC = 12,
    ONNX_TENSOR_EXTERNAL = 13,
    ONNX_TENSOR_LOCATION = 14,
    ONNX_TENSOR_METADATA = 16,
    ONNX_ENTRY_KEY = 1,
    ONNX_ENTRY_VALUE = 2,
    ONNX_INFO_NAME = 1,
    ONNX_INFO_TYPE = 2,
    ONNX_TYPE_TENSOR = 1,
    ONNX_TYPE_ELEM = 1,
    ONNX_TYPE_SHAPE = 2,
    ONNX_SHAPE_DIM = 1,
    ONNX_DIM_VALUE = 1,
    ONNX_DIM_PARAM = 2
};

/* Element types: numbers of data_type. */
enum {
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_STRING = 8,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE = 11,
    ONNX_BFLOAT16 = 16,
    ONNX_UINT4 = 21,
    ONNX_INT4 = 22,
    ONNX_N_TYPES = 27
};

/* An element type of ONNX, by its number in data_type. */
struct onnx_type {
    const char *name;     /* as onnx.proto has it; NULL: there is no such type */
    enum vc_dtype dtype;  /* VC_DTYPE_RAW: not shown as a tensor, only carried over */
    uint32_t field;       /* of TensorProto, that holds its values where raw_data does not */
    unsigned entry_bytes; /* of the values that one number of that field gives */
};

extern const struct onnx_type vc_onnx_types[ONNX_N_TYPES];

/* The number of the type for a dtype. Returns 0 if ONNX has no such type. */
uint32_t vc_onnx_type_of(enum vc_dtype dtype);
/* The dtype of a number. Returns VC_DTYPE_RAW if the library has no such dtype. */
enum vc_dtype vc_onnx_dtype(uint64_t type);

/* Where the values of a tensor are. */
enum onnx_place {
    ONNX_PLACE_SPAN,    /* one run of bytes of the model file: raw_data, or packed floats */
    ONNX_PLACE_NUMBERS, /* float_data, int32_data, ... taken apart number by number, front to back */
    ONNX_PLACE_EXTERNAL /* one run of bytes of another file */
};

/* The main graph has number 0, graphs inside nodes count on in the order in which they begin. */
#define ONNX_MAIN ((uint32_t)0)

/* The elements of a tensor in the model, where the file has them in another form. */
struct onnx_view {
    unsigned bits;        /* of a stored element; 0: they are as the file has them */
    unsigned shown;       /* of one in the model: as many, or 8 for 4 */
    unsigned flip;        /* of 4 bits: the bits that are turned over */
    bool matrix;          /* shown as [n_rows, row]; else the shape is that of the file */
    bool turned;          /* element (r, c) of the model is the stored one (c, r) */
    uint64_t n_rows, row; /* in the model */
    uint64_t stored_row;  /* elements from one stored row to the next */
};

/* An initializer, as the file has it. */
struct onnx_tensor {
    bool constant; /* in a Constant node */
    enum onnx_place place;
    uint32_t graph;         /* where it is */
    const char *path;       /* of that graph, "If_3/then_branch", the arena's; NULL: the main one */
    struct vc_span field;   /* of the graph, with its tag */
    struct vc_span message; /* TensorProto */
    const char *name;       /* the arena's */
    size_t symbol;
    const uint64_t *dims;
    unsigned n_dims;
    uint32_t type;
    uint64_t n_elems, n_bytes;
    struct vc_span values; /* SPAN, EXTERNAL */
    size_t external;       /* number of the file */
    size_t index;          /* of the model's tensor; ONNX_NONE: only carried over */
    struct onnx_view view;
};

/* The axis of a tensor's output channels by each consumer, as a set of axes: 0, 1, last, last but one. For the axis
 * that consumers sum over, one bit more: no axis of these. */
enum { ONNX_AXIS_0 = 1, ONNX_AXIS_1 = 2, ONNX_AXIS_LAST = 4, ONNX_AXIS_LAST_BUT_ONE = 8, ONNX_AXIS_OTHER = 16 };

/* What is done with a value, as a set: the strictest decides what a tensor is (onnx_uses.c). */
enum {
    ONNX_READ_PRODUCT = 1, /* factor of a sum of products */
    ONNX_READ_FACTOR = 2,  /* the same, of matrices: an outer product where the sum has one term */
    ONNX_READ_ROWS = 4,    /* indices choose rows */
    ONNX_READ_NORM = 8,
    ONNX_READ_BIAS = 16,
    ONNX_READ_STATE = 32, /* initial state */
    ONNX_READ_PEEPS = 64, /* peephole weights */
    ONNX_READ_CODES = 128,
    ONNX_READ_SCALE = 256, /* of codes, and their zero points */
    ONNX_READ_INDEX = 512,
    ONNX_READ_TABLE = 1024, /* anything else */
    ONNX_READ_TURNS = 2048  /* beside TABLE: multiplied with a value that is computed of the inputs */
};

/* What a value is for a normalization that is written out: x / sqrt(mean of squares + epsilon). */
enum onnx_norm { ONNX_NORM_NONE, ONNX_NORM_MEAN, ONNX_NORM_ROOT, ONNX_NORM_DONE };

/* The name of a value in one graph. The graph that makes the value owns the symbol. A subgraph (the body of an If or a
 * Loop) that only reads the value has a symbol of its own, whose `outer` is the symbol of the enclosing graph; `outer`
 * is known once the enclosing graph has been read. */
struct onnx_symbol {
    const char *name;
    const char *reader; /* the operator behind ONNX_READ_TABLE; NULL: none, it is an output of the graph */
    size_t next;        /* the next symbol of the same graph, or ONNX_NONE */
    size_t outer;       /* the symbol of the enclosing graph; ONNX_NONE: this symbol owns the value */
    size_t tensor;      /* initializer of the graph, or ONNX_NONE */
    size_t cast;        /* a Cast among `nodes` that reads the value, or ONNX_NONE */
    size_t maker;       /* the node among `nodes` that makes the value, or ONNX_NONE */
    /* The last product among `nodes` whose second input is the value, or the value turned; or ONNX_NONE. */
    size_t factor_of;
    uint32_t graph;
    uint32_t n_uses;    /* as an input of nodes, or what a subgraph gives back */
    uint32_t n_made;    /* as an output of nodes */
    unsigned reads;     /* ONNX_READ_... */
    unsigned axes;      /* ONNX_AXIS_... */
    unsigned inputs;    /* the same of the axes that they sum over */
    size_t turns;       /* a Gather of rows by the value, whose rows are only multiplied (onnx_uses.c), or ONNX_NONE */
    bool defined;       /* it is an input, an initializer or an output of a node of the graph */
    bool pinned;        /* an output of a graph, or what annotations refer to */
    bool graph_input;   /* of its graph */
    bool constant;      /* an initializer, or computed of such alone */
    bool product;       /* what a sum of products gives */
    unsigned char norm; /* enum onnx_norm: one of these bytes for each value of a file */
};

/* All names of the file, each once per graph. What a graph inside a node has is also there as one of ONNX_ANY. */
#define ONNX_ANY ((uint32_t)-1)

struct onnx_symbols {
    struct onnx_symbol *list;
    size_t n, capacity;
    struct vc_hash_table by_name;
};

enum onnx_op {
    ONNX_OP_DEQUANTIZE,
    ONNX_OP_CAST,
    ONNX_OP_SUB,
    ONNX_OP_MUL,
    ONNX_OP_TURN,   /* Transpose of a matrix */
    ONNX_OP_MATMUL, /* from here on: products */
    ONNX_OP_GEMM,
    ONNX_OP_NBITS /* MatMulNBits of com.microsoft */
};

#define ONNX_NODE_INPUTS 6

/* A node that may lie between an initializer and its name, or multiply by codes. Other nodes are not kept. */
struct onnx_node {
    struct vc_span field;
    uint32_t graph;
    enum onnx_op op;
    bool odd;                    /* has attributes that mean something unknown here */
    bool taken;                  /* belongs to a tensor */
    size_t in[ONNX_NODE_INPUTS]; /* symbols, or ONNX_NONE */
    size_t out;
    int64_t axis, block_size, to; /* `to`: of Cast; output_dtype of DequantizeLinear, 0 if it says none */
    int64_t k, n, bits;           /* of MatMulNBits */
    size_t weights;               /* of MatMulNBits: the model's tensor that its codes are, or ONNX_NONE */
    size_t next;                  /* the product before it with the same second input, or ONNX_NONE */
    size_t turn;                  /* the Transpose between the matrix and this product of it, or ONNX_NONE */
};

/* A graph inside a node. */
struct onnx_graph {
    uint64_t at; /* of its message: found by it */
    uint32_t number;
    bool has_tensors; /* or graphs with tensors */
};

#define ONNX_LINK_NODES 5

/* For a tensor of the model: the nodes between initializer and graph, and the name in the graph. */
struct onnx_link {
    size_t tensor; /* of `tensors` */
    size_t name;   /* symbol */
    size_t n_nodes;
    size_t node[ONNX_LINK_NODES]; /* those on the way; the last one makes the name */
    uint32_t type;                /* what the graph gets under that name */
};

/* `self` of a model that was read from an ONNX file. */
struct onnx {
    struct vc_infile *file;
    struct vc_infile **externals;
    char **locations; /* of the externals */
    size_t n_externals, externals_capacity, locations_capacity;

    uint64_t ir_version;
    uint64_t opset;             /* of the default domain; 1 if the file names none */
    struct vc_span graph_field; /* of the file, with its tag */
    struct vc_span graph;
    bool has_training;  /* training_info, which refers to initializers by name */
    bool has_microsoft; /* an operator set of that domain */
    bool has_functions;
    uint64_t n_microsoft;      /* nodes of that domain, in all graphs; functions count as one more */
    uint64_t n_inner_external; /* of tensors inside nodes and sparse ones: with values in another file */
    bool has_sparse;           /* tensors: runtimes make them dense, in a size that is not looked at here */
    uint64_t n_inner,
        inner_bytes;       /* of large tensors inside nodes and inner graphs, and sparse ones: only carried over */
    struct vc_arena arena; /* names, shapes */
    struct onnx_tensor *tensors;
    size_t n_tensors, tensors_capacity;
    struct onnx_node *nodes;
    size_t n_nodes, nodes_capacity;
    struct onnx_symbols symbols;
    struct onnx_link *links;
    struct onnx_graph *graphs; /* sorted by their places once all are read */
    size_t n_graphs, graphs_capacity;
    struct onnx_made *made; /* no file: the graph is in memory, and the values come from a model; else NULL */
};

/* Of a decoder with a cache: what programs that run it want to know beside the file. n_layers 0: it has no cache. */
struct onnx_cache {
    uint64_t n_layers, n_heads, n_kv_heads, head_size, vocabulary;
};

/* A file that is not there: external 0 is its data, in which each weight has a place. */
struct onnx_made {
    struct onnx_cache cache;
    /* The writer of a folder with the file and what lies beside it (formats/onnx_in_folder.c). */
    enum vc_status (*create_folder)(struct vc_ctx *ctx, const struct vc_model *model,
                                    const struct vc_write_options *options, struct vc_sink **out);
    /* n bytes of the data from `at` on, within one weight. */
    enum vc_status (*read)(struct vc_ctx *ctx, const struct onnx_made *made, uint64_t at, unsigned char *dst, size_t n);
    struct vc_model *source; /* its own */
    size_t n;
    const struct vc_program_weight *weights; /* the arena's */
    uint64_t *at;                            /* by weight: where its bytes begin */
};

/* An input or output of a node. */
struct onnx_use {
    size_t symbol; /* ONNX_NONE: left out */
    bool output;
};

/* An input or output of a node, for onnx_uses.c. */
struct onnx_read {
    size_t symbol; /* ONNX_NONE: left out */
    uint16_t axes, inputs;
    char letter; /* of inputs: onnx_operators.c */
};

/* How the axes of an output are those of the input: in an unknown way; as they are; with the last two swapped. */
enum onnx_turn { ONNX_TURN_OTHER, ONNX_TURN_NONE, ONNX_TURN_LAST_TWO };

/* A node of any graph or function: its inputs, then its outputs. */
struct onnx_reading {
    const char *op; /* "": too long to be shown */
    size_t first, n_in, n_out;
    uint64_t callee; /* the function that it may call; 0: the operator is ONNX's or onnxruntime's */
    bool has_graph;
    enum onnx_turn turn;
};

/* A value, and the name that it has inside a node or a function, or gets outside of these. */
struct onnx_binding {
    size_t from, to;
};

/* A graph inside a node, or a function: its inputs, then its outputs, in `bound`. */
struct onnx_body {
    uint64_t hash; /* of the function's name; 0: a graph */
    size_t first, n_in, n_out;
    size_t next; /* the graph before it in the same node, or ONNX_NONE */
};

/* An operator that nodes of the file have. */
struct onnx_operator {
    const char *name;    /* the arena's */
    const char *letters; /* vc_onnx_operator_letters; of another domain than the two: "." */
    bool known, microsoft;
};

/* What all nodes read, while a file is opened. */
struct onnx_uses {
    struct onnx_operator *operators;
    size_t n_operators, operators_capacity;
    struct onnx_read *reads;
    size_t n_reads, reads_capacity;
    struct onnx_reading *nodes;
    size_t n_nodes, nodes_capacity;
    struct onnx_binding *bindings;
    size_t n_bindings, bindings_capacity;
    struct onnx_body *bodies;
    size_t n_bodies, bodies_capacity;
    size_t *bound; /* symbols */
    size_t n_bound, bound_capacity;
};

/* A graph during reading; the enclosing graphs are read at the same time. */
struct onnx_scope {
    struct onnx_scope *around; /* NULL: the main graph */
    uint32_t number;
    unsigned depth;
    size_t first_symbol;
    const char *path; /* made when the first tensor needs it */
    /* What the path is made of: the name of the node and of its attribute (spans of the file), the first output of the
     * node (a symbol, or ONNX_NONE). */
    struct vc_span node, attribute;
    size_t output;
};

/* State while a file is opened, passed to all parts of the reader. */
struct onnx_reader {
    struct vc_ctx *ctx;
    struct onnx *self;
    struct vc_wire wire;
    const char *path;
    int folder; /* of the model; -1 until it is needed */
    char *name; /* room for ONNX_MAX_NAME + 1 */
    struct onnx_scope *scope;
    uint32_t n_scopes;
    struct onnx_use *uses; /* inputs and outputs of the nodes being read, one within the other: a stack */
    size_t n_uses, uses_capacity;
    struct onnx_uses all; /* of all nodes that were read */
    bool in_function;     /* nodes of a function: their constants stay where they are */
};

/* ---- onnx_tensor.c ---- */

/* Takes a TensorProto apart. Everything but field, symbol and index is filled. */
enum vc_status vc_onnx_tensor_parse(struct onnx_reader *r, struct vc_span message, struct onnx_tensor *tensor);

/* Numbers of float_data and its kind, one after the other, as elements. */
struct onnx_numbers {
    struct vc_wire wire;
    const struct onnx_tensor *tensor;
    struct vc_span rest;  /* of the message */
    struct vc_span chunk; /* of packed numbers */
    uint64_t n_bytes;     /* given so far */
};

enum vc_status vc_onnx_numbers_open(struct vc_ctx *ctx, const struct vc_infile *file, const struct onnx_tensor *tensor,
                                    struct onnx_numbers *numbers);
/* dst may be NULL: checks only. n is a multiple of the type's entry_bytes. */
enum vc_status vc_onnx_numbers_read(struct onnx_numbers *numbers, void *dst, uint64_t n);
/* VC_E_FORMAT where more numbers follow. */
enum vc_status vc_onnx_numbers_end(struct onnx_numbers *numbers);
void vc_onnx_numbers_close(struct onnx_numbers *numbers);

/* ---- onnx_external.c ---- */

/* location, offset and length of a tensor whose values are in another file; location NULL before it was seen. */
struct onnx_external {
    char *location; /* the pool's */
    bool has_offset, has_length;
    uint64_t offset, length;
};

/* One external_data entry. */
enum vc_status vc_onnx_external_entry(struct onnx_reader *r, struct vc_span message, struct onnx_external *external);
/* Opens the file, which must lie in the model's folder or below, and checks the place: fills values and external. */
enum vc_status vc_onnx_external_find(struct onnx_reader *r, const struct onnx_external *external,
                                     struct onnx_tensor *tensor);

/* ---- onnx_graph.c, onnx_nodes.c, onnx_symbols.c ---- */

/* Reads nodes, initializers and names of the main graph and of those below it. */
enum vc_status vc_onnx_graph_scan(struct onnx_reader *r);
/* The number of the graph whose message that is. */
uint32_t vc_onnx_graph_number(const struct onnx *self, struct vc_span message);
/* Graphs inside nodes can have initializers that are no inputs. */
bool vc_onnx_has_inner_tensors(const struct onnx *self);
/* Makes a tensor of a Constant node's value, named like its output. */
enum vc_status vc_onnx_constant_scan(struct onnx_reader *r, const struct vc_field *node, const struct vc_field *value,
                                     size_t symbol);
/* A graph inside a node: node, attribute and output of `scope` are set. */
enum vc_status vc_onnx_subgraph_scan(struct onnx_reader *r, struct vc_span message, struct onnx_scope *scope);
/* One node of the graph that is being read. */
enum vc_status vc_onnx_node_scan(struct onnx_reader *r, const struct vc_field *field);
/* A TensorProto or SparseTensorProto that is only carried over; `named`: its name is one of the graph's values. */
enum vc_status vc_onnx_inner_tensor(struct onnx_reader *r, const struct vc_field *field, bool named);
enum vc_status vc_onnx_inner_sparse(struct onnx_reader *r, const struct vc_field *field, bool named);

/* Of the name or the domain of a function; those of both together, by ^, are its hash. */
uint64_t vc_onnx_function_hash(const char *text, bool domain);
/* A FunctionProto: its nodes say what becomes of the inputs of nodes that call it. */
enum vc_status vc_onnx_function_scan(struct onnx_reader *r, const struct vc_field *field);

/* ---- onnx_operators.c, onnx_uses.c ---- */

/* What the operator does with its inputs, a letter for each. */
const char *vc_onnx_operator_letters(const char *name, bool microsoft);
/* ONNX_READ_... that a letter stands for. */
unsigned vc_onnx_letter_reads(char letter);
/* Inputs and outputs of the graphs inside a node, a list of bodies, are those of the node. */
enum vc_status vc_onnx_bind_graphs(struct onnx_reader *r, const struct onnx_reading *node, size_t graphs);
/* What all nodes do with the values that they read goes to the symbols of these values. */
enum vc_status vc_onnx_settle_uses(struct onnx_reader *r);
/* Sets use and kept_as of a tensor by its symbol; its axes are known. */
enum vc_status vc_onnx_take_use(struct onnx_reader *r, const struct onnx_symbol *symbol, struct vc_tensor *t);
void vc_onnx_uses_release(struct onnx_reader *r);

/* The symbol of the graph being read with the name that the field holds; ONNX_NONE for an empty one. */
enum vc_status vc_onnx_symbol_read(struct onnx_reader *r, const struct vc_field *field, const char *what,
                                   size_t *symbol);
size_t vc_onnx_symbol_find(const struct onnx_symbols *symbols, uint32_t graph, const char *name);
/* The value of that name in the main graph, or the one in a graph inside a node; ONNX_NONE if there is none, or several of
 * them have one. */
size_t vc_onnx_symbol_named(const struct onnx_symbols *symbols, const char *name);
/* The value that a node of the graph calls by that name, wherever it is made; ONNX_NONE if there is none. */
size_t vc_onnx_symbol_in(const struct onnx_symbols *symbols, uint32_t graph, const char *name);
/* A new symbol of the main graph for a name that no graph has; the name is the arena's. */
enum vc_status vc_onnx_symbol_add(struct onnx_reader *r, const char *name, size_t *symbol);
/* Called at the end of a graph: names that the graph uses but does not define belong to the enclosing graph and are
 * counted there. */
enum vc_status vc_onnx_symbols_close(struct onnx_reader *r);
/* The symbol that owns the value, in this graph or an enclosing graph. */
size_t vc_onnx_symbol_meant(const struct onnx_symbols *symbols, size_t symbol);
/* A string of up to ONNX_MAX_NAME bytes without NUL, in r->name. */
enum vc_status vc_onnx_string_read(struct onnx_reader *r, const struct vc_field *field, const char *what);

/* ---- onnx_patterns.c ---- */

/* Codes that become weights: their parts, and the nodes that do it. */
struct onnx_quantized {
    struct onnx_tensor *codes, *scale, *zero; /* zero: NULL where they are symmetric */
    bool rows;                                /* MatMulNBits: the weight is [N, K] */
    struct vc_quant quant;                    /* but for its parts */
    struct onnx_link link;                    /* but for tensor */
};

/* The pattern that the node and a Cast after the node end. Returns false if the pattern is unknown. */
bool vc_onnx_find_quantized(const struct onnx *self, size_t node, struct onnx_quantized *q);
/* The tensor that a Cast makes wider and nothing else uses, or NULL. */
struct onnx_tensor *vc_onnx_find_cast(const struct onnx *self, size_t node);

/* ---- onnx_nbits.c ---- */

/* The codes of a MatMulNBits node, which all nodes that use them use in the same way. */
bool vc_onnx_find_nbits(const struct onnx *self, size_t node, struct onnx_quantized *q);
/* The weight gets its name and the nodes their weight: q->link.name, onnx_node.weights. */
enum vc_status vc_onnx_join_nbits(struct onnx_reader *r, size_t node, struct onnx_quantized *q);
/* Inputs, outputs and blocks of inputs of such a node. rows: the weight is [N, K]. */
struct onnx_product {
    uint64_t k, n, blocks, block;
    bool rows;
};
/* How the codes or a part, whose elements have so many bits in the model, lie in the file. */
struct onnx_view vc_onnx_nbits_view(enum vc_part_role role, const struct onnx_product *product, unsigned bits);
/* A size of blocks that the operator takes. */
bool vc_onnx_nbits_block(uint64_t block);
/* The products by that tensor of the model, which MatMulNBits is or can become, one after the other: the one behind
 * `node`, the first one where that is ONNX_NONE. Returns ONNX_NONE behind the last. */
size_t vc_onnx_next_product(const struct onnx *self, size_t tensor, size_t node);
/* The node that turns the tensor for all its products (w -> Transpose -> MatMul), or ONNX_NONE. */
size_t vc_onnx_turn_of(const struct onnx *self, size_t tensor);
/* vc_source_ops.code_places */
struct vc_code_places vc_onnx_code_places(const struct vc_model *model, size_t tensor);

/* ---- onnx_view.c ---- */

uint64_t vc_onnx_view_stored_bytes(const struct onnx_view *v);
uint64_t vc_onnx_view_shown_bytes(const struct onnx_view *v);
/* All elements from one form to the other. Nibbles that no element is stay as they are. */
void vc_onnx_view_convert(const struct onnx_view *v, bool to_file, unsigned char *stored, unsigned char *shown,
                          uint64_t first, uint64_t n_elems);

/* ---- onnx_links.c ---- */

/* The model's tensors, quantizations and channel axes, from what was scanned. */
enum vc_status vc_onnx_make_tensors(struct onnx_reader *r, struct vc_model *model);

/* ---- onnx_program.c, onnx_attribute.c ---- */

/* vc_source_ops.program: reads the main graph once more, with everything that its nodes say. */
enum vc_status vc_onnx_program(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                               struct vc_program *out);

/* While a program is read. */
struct onnx_program_reader {
    struct vc_ctx *ctx;
    const struct onnx *self;
    struct vc_wire wire;
    struct vc_arena *arena;
    const struct vc_model *model; /* whose tensors constants are */
    /* Reads the graph of that message, inside a node or the main one: nodes, inputs, outputs, declared values, constants.
     * NULL: graphs inside nodes are named only. */
    enum vc_status (*graph)(struct onnx_program_reader *r, struct vc_span message, struct vc_program *out);
};

/* An AttributeProto: a vc_onnx_taker of its field; to: a struct vc_program_attr. */
enum vc_status vc_onnx_attribute_read(struct onnx_program_reader *r, const struct vc_field *field, void *to);

/* ---- onnx_fields.c ---- */

/* One field of a message; `to` is what the message becomes. */
typedef enum vc_status vc_onnx_taker(struct onnx_program_reader *r, const struct vc_field *field, void *to);

/* Calls take for each field of the message. */
enum vc_status vc_onnx_each(struct onnx_program_reader *r, struct vc_span message, vc_onnx_taker *take, void *to);

/* The fields of one number of a message become a list of items of a record. */
struct onnx_list {
    uint32_t number;
    size_t item_bytes;
    size_t *n_to;         /* of the record: gets n; NULL: no record has the list */
    void *to;             /* ... and its pointer, any type, which gets items */
    size_t n;             /* fields that there are */
    unsigned char *items; /* zeros, in the arena */
    size_t n_taken;
};

#define ONNX_LIST(field, n, list)                                                    \
    {                                                                                \
        .number = (field), .item_bytes = sizeof *(list), .n_to = &(n), .to = &(list) \
    }

/* Counts the fields of each list, makes room and fills the record; behind the last is a list with item_bytes 0. */
enum vc_status vc_onnx_lists(struct onnx_program_reader *r, struct vc_span message, struct onnx_list *lists);

static inline void *vc_onnx_next(struct onnx_list *list)
{
    return list->items + list->n_taken++ * list->item_bytes;
}

/* Fields of a message that are texts: members of a record, const char *. */
struct onnx_text {
    uint32_t number;
    size_t offset;    /* of the member */
    const char *what; /* in sentences; NULL ends an array of these */
};

/* Fills the member that the field is; for any other field it does nothing. */
enum vc_status vc_onnx_texts_take(struct onnx_program_reader *r, const struct vc_field *field,
                                  const struct onnx_text *texts, void *record);
/* The text of a field, without NUL. */
enum vc_status vc_onnx_text_read(struct onnx_program_reader *r, const struct vc_field *field, const char *what,
                                 const char **text);
/* Its bytes, whatever they are, and a NUL. */
enum vc_status vc_onnx_bytes_read(struct onnx_program_reader *r, const struct vc_field *field, const char *what,
                                  const char **bytes);
/* ONNX's own domain is "", which files may call ai.onnx. */
const char *vc_onnx_domain(const char *domain);
/* Room for n items in the arena, zeros. */
void *vc_onnx_items(struct onnx_program_reader *r, size_t n, size_t item_bytes);

/* ---- onnx_program.c, onnx_program_node.c, onnx_function.c ---- */

/* A field that is a ValueInfoProto, a NodeProto, an OperatorSetIdProto, a FunctionProto. */
enum vc_status vc_onnx_program_value(struct onnx_program_reader *r, const struct vc_field *f,
                                     struct vc_program_value *value);
enum vc_status vc_onnx_program_node(struct onnx_program_reader *r, const struct vc_field *f,
                                    struct vc_program_node *node);
enum vc_status vc_onnx_program_opset(struct onnx_program_reader *r, const struct vc_field *f,
                                     struct vc_program_opset *opset);
enum vc_status vc_onnx_program_function(struct onnx_program_reader *r, const struct vc_field *f,
                                        struct vc_program_function *function);

/* ---- onnx_made.c ---- */

/* Makes the model of an ONNX file with that program and the weights of it, whose values come from `source`: fills model
 * (all but ctx, path, and what vc_format_open sets), takes over source, copies of the program what it needs. */
enum vc_status vc_onnx_made_open(struct vc_ctx *ctx, const struct vc_program *program, struct vc_model *source,
                                 struct vc_model *model);
/* The made file of a model of this format; NULL: it is a real one. */
static inline struct onnx_made *vc_onnx_made_of(const struct vc_model *model)
{
    return ((const struct onnx *)model->self)->made;
}
/* onnx_read.c: the model owns `self` from now on, whatever of it is filled. */
void vc_onnx_own(struct onnx *self, struct vc_model *model);
/* Reads the file, which it takes over. */
enum vc_status vc_onnx_read_model(struct vc_ctx *ctx, struct onnx *self, struct vc_infile *file,
                                  struct vc_model *model);

/* ---- onnx_write.c ---- */

/* The writer of the onnx row (onnx_read.c). Only ONNX becomes ONNX: no other format has a graph. */
enum vc_status vc_onnx_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                   const struct vc_write_options *options, struct vc_sink **out);

/* The same as a file `name` of a folder, which is begun, committed and freed by whoever made that; folder NULL: sizes
 * only. */
enum vc_status vc_onnx_sink_create_in(struct vc_ctx *ctx, const struct vc_model *model,
                                      const struct vc_write_options *options, struct vc_outfolder *folder,
                                      const char *name, struct vc_sink **out);

/* Tests: a model file of more bytes moves its weights to external data. 0: what protocol buffers can read, 2^31 - 1. */
void vc_onnx_set_embed_limit(uint64_t bytes);
