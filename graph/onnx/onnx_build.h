/* onnx_build.h - a graph from the nodes of an ONNX file or of its textual form.
 *
 *     onnx_build.c   names, order, inputs and outputs        onnx_values.c     tensors: constants and parameters
 *     onnx_older.c   what older operator sets say otherwise  onnx_fold.c       exact rewrites of what exporters emit
 *     onnx_same.c    operators in other words                onnx_microsoft.c  operators of the domain com.microsoft
 *     onnx_inline.c  functions of the file                   onnx_declared.c   what the file says about values
 *     onnx_qlinear.c operators on codes                      onnx_known.c      inputs that are computed of constants
 *     onnx_control.c If, Loop, Scan                          onnx_sequence.c   sequences, Optional
 *     onnx_node.c    a node on its way into the graph        onnx_repair.c     names of tensors by their values
 *     onnx_place.c   names of folded tensors by their place    onnx_trace.c  the same by what PyTorch says of a node
 *     onnx_origin.c  constants that were computed of tensors
 *     onnx_found.c   what has a name, and what nodes become: all others include it; it knows none of them
 *     onnx_text.c, onnx_print.c   the textual form
 *
 * Nodes are added in an order in which they can be computed, which is the file's where that order is one.
 * The way of a node:
 *
 *     take_node      inputs become values (vc_onnx_make_value), attributes are copied
 *     qlinear, microsoft      nodes of other domains are replaced by several of ONNX
 *     modernize      operator set 7 to 28 becomes VC_GRAPH_OPSET       (onnx_older.c)
 *     reword         operators that the graph does not have            (onnx_same.c)
 *     fold           becomes part of a larger operator, or a parameter (onnx_fold.c); else vc_graph_add_node
 *
 * A rewrite is taken only if the result is the same. Nodes that a rewrite replaces stay in the graph, and
 * vc_graph_finish removes those that nothing uses. */
#pragma once

#include "core/model/source.h"
#include "core/text/name_table.h"
#include "graph/build.h"

/* Operator sets that are read. */
#define VC_ONNX_OLDEST 7
#define VC_ONNX_NEWEST 28

/* A note of the file, "vcompress.parameter:NAME": the input NAME is a parameter, the value its tensor's name. */
#define VC_ONNX_PARAMETER_NOTE "vcompress.parameter:"
/* "vcompress.optional:NAME": the input NAME, of integers, need not be given; the value is what its elements are then.
 */
#define VC_ONNX_OPTIONAL_NOTE "vcompress.optional:"

/* Where the value of a name comes from. */
enum vc_onnx_maker { VC_ONNX_BY_INPUT, VC_ONNX_BY_CONSTANT, VC_ONNX_BY_TENSOR, VC_ONNX_BY_NODE };

/* A name of the program, what makes its value, and once is_made, which value of the graph it is. A node of
 * the file may become no node: y = Identity(x) gives y the value of x. */
struct vc_onnx_name {
    const char *name; /* first: VC_NAME_LIST */
    enum vc_onnx_maker maker;
    const struct vc_program *program;       /* whose: of the file, or of a graph inside a node */
    size_t number;                          /* of the input, constant or node */
    const struct vc_program_tensor *tensor; /* BY_TENSOR: what a Constant node holds */
    const char *parameter;                  /* an input that is a parameter: its tensor's name */
    const char *otherwise;                  /* an input that need not be given: the note's value; else NULL */
    uint32_t n_uses;                        /* by nodes, and as an output of the graph */
    bool is_output;
    bool must_be_known; /* an operator takes it only as a constant: scales of Resize, bounds of Clip */
    bool is_codes;      /* an operator takes it as the codes of weights: a parameter of integers */
    bool is_made;
    uint32_t value; /* if is_made: the value of the graph */
};

/* What all files of this room share while one graph is built. Names point into the program, which outlives
 * it. */
struct vc_onnx_build {
    struct vc_ctx *ctx;
    const struct vc_graph_source *source;
    const struct vc_program *program;
    struct vc_graph *graph;
    int64_t opset;
    size_t n_names;
    struct vc_onnx_name *names;
    struct vc_name_table table;
    const struct vc_program_tensor **of_param; /* by parameter of the graph: its elements where they are few, or NULL */
    size_t of_param_capacity;
    struct vc_onnx_match *matches; /* by tensor of source->model (onnx_repair.c); NULL: no other checkpoint */
    /* Graphs inside nodes: of each a build of its own, whose names may be those of the graphs around it. */
    struct vc_onnx_build *around; /* NULL: the graph of the file */
    const char *attr;             /* of the node around it: "then_branch" */
    bool is_loop; /* a body of a Loop or a Scan, or inside one: a node of it is several nodes of the graph */
    struct vc_onnx_build **inner;   /* by node: the graphs inside it, a list; NULL while they are not collected */
    struct vc_onnx_build *next;     /* in that list */
    struct vc_onnx_name **captured; /* what this graph, and those inside it, use of the graphs around it */
    size_t n_captured, captured_capacity;
    enum vc_status (*add_nodes)(struct vc_onnx_build *b); /* of onnx_build.c, for onnx_control.c */
    uint64_t origin_work;                                 /* onnx_origin.c: elements that were looked at */
};

/* The tensor of the other checkpoint (vc_graph_options.weights) that a constant of the program stands for. */
struct vc_onnx_match {
    bool there;   /* a constant of the graph, or of one inside a node */
    bool unnamed; /* it may be a weight, and no tensor of the checkpoint has its name */
    bool open;    /* with a name of the exporter's, which tells nothing */
    bool known;   /* it was computed of tensors that have not changed */
    size_t index; /* VC_NO_TENSOR: none */
    bool transposed;
    uint64_t first, count; /* count != 0: these rows of the tensor */
    bool gates;            /* input W, R or B of a recurrent layer: of several tensors (onnx_place.c) */
    bool repeated;         /* the vector again and again: W 0 + bias of an RNN's first step */
    /* The first node of the file's graph that reads it, as this input; NULL: none. */
    const struct vc_program_node *reader;
    unsigned input;
};

/* A node on its way into the graph: `from` is the node of the file, the other members are what rewrites
 * made of it. Rewrites change op, inputs and attrs in place, or add other nodes and set the outputs of
 * `from`. */
struct vc_onnx_node {
    const struct vc_program_node *from;
    const char *op;
    unsigned n_inputs, n_attrs;
    uint32_t *inputs; /* with room for VC_ONNX_SPARE more */
    struct vc_graph_attr *attrs;
};

#define VC_ONNX_SPARE 4

/* ---- onnx_build.c ---- */

vc_graph_builder vc_onnx_build_graph;

/* onnx_inline.c: *own is b->program with the nodes of the file's functions in the place of their calls. */
enum vc_status vc_onnx_inline(struct vc_onnx_build *b, struct vc_program *own);

/* onnx_control.c: the node is an If, a Loop or a Scan, whose outputs are set, or a problem is noted; false: it has no graph inside. */
bool vc_onnx_take_control(struct vc_onnx_build *b, const struct vc_onnx_node *node);
/* When all nodes are there: facts.elsewhere of a parameter holds for every one of the same tensor. */
void vc_onnx_spread_elsewhere(struct vc_graph *graph);

/* onnx_block.c: nodes that are added from now on belong to the block of this one. */
void vc_onnx_set_block(struct vc_onnx_build *b, const struct vc_program_node *node);

/* ---- onnx_found.c ---- */

struct vc_name_list vc_onnx_name_list(const struct vc_onnx_build *b);
/* In this graph or one around it. NULL: nothing has that name. */
struct vc_onnx_name *vc_onnx_find_name(const struct vc_onnx_build *b, const char *name);
/* The builds of the graphs inside a node of b: a list of two at most. */
struct vc_onnx_build *vc_onnx_inner_of(const struct vc_onnx_build *b, const struct vc_program_node *node);
/* "Add 'n1'", for sentences. */
const char *vc_onnx_node_text(const struct vc_program_node *node, char *text, size_t n);
/* From now on output k of the node `from` is that value. */
void vc_onnx_set_output(struct vc_onnx_build *b, const struct vc_program_node *node, size_t k, uint32_t value);
/* The name that output k has in the file, for the node that replaces `from`. NULL if it has none or the
 * graph has used it. */
const char *vc_onnx_output_name(const struct vc_onnx_build *b, const struct vc_program_node *node, size_t k);

/* Tensors that can be matched: float values with at least one element; parts of quantized weights belong to their weight. */
bool vc_onnx_is_weight(const struct vc_tensor *t);
/* The name of a variance that batch normalization has counted: PyTorch's, Keras', Flax'. */
bool vc_onnx_is_variance(const char *name);
/* Sizes other than 1: how many. */
unsigned vc_onnx_long_axes(const struct vc_tensor *t, uint64_t *sizes);
/* The constant `own` has the elements of the other tensor in their order, or with two axes swapped: their shapes differ
 * by axes of 1 alone. Returns the rows; with `part` they are some of the other's. 0: it does not fit. */
uint64_t vc_onnx_fits(const struct vc_tensor *t, const struct vc_tensor *other, bool transposed, bool part);
/* onnx_declared.c: contradictions between what the file says about values and what they are become problems. */
void vc_onnx_check_declared(struct vc_onnx_build *b);

/* ---- onnx_node.c ---- */

struct vc_graph_attr *vc_onnx_attr(const struct vc_onnx_node *node, const char *name);
void vc_onnx_drop_attr(struct vc_onnx_node *node, const char *name);
int64_t vc_onnx_int(const struct vc_onnx_node *node, const char *name, int64_t otherwise);
double vc_onnx_float(const struct vc_onnx_node *node, const char *name, double otherwise);
/* The number of input k's value; VC_NO_VALUE: it is not there. */
uint32_t vc_onnx_number(const struct vc_onnx_node *node, unsigned k);
/* The value of input k; NULL: it is not there, or nothing is known about it. */
const struct vc_graph_value *vc_onnx_input(const struct vc_onnx_build *b, const struct vc_onnx_node *node, unsigned k);
/* Input k becomes that value; inputs before k that do not exist yet are omitted ones. Rewrites may add up
 * to VC_ONNX_SPARE. */
void vc_onnx_set_input(struct vc_onnx_node *node, unsigned k, uint32_t value);
bool vc_onnx_has_input(const struct vc_onnx_node *node, unsigned k);
/* A list of integers in an attribute becomes input k. */
void vc_onnx_ints_to_input(struct vc_onnx_build *b, struct vc_onnx_node *node, const char *name, unsigned k);
/* Somebody uses output k. */
bool vc_onnx_output_is_used(const struct vc_onnx_build *b, const struct vc_program_node *node, size_t k);
/* Notes a problem with the node, "Resize 'up': its scales are missing"; its outputs become unknown
 * (take_node). Returns false, which ends the rewrite. */
bool vc_onnx_refuse(struct vc_onnx_build *b, const struct vc_onnx_node *node, const char *why);
/* A node with one output, which is returned. */
uint32_t vc_onnx_add_one(struct vc_onnx_build *b, const char *op, const char *name, const uint32_t *inputs, unsigned n,
                         const struct vc_graph_attr *attrs, unsigned n_attrs);
/* Short forms of it: one or two inputs, a list of integers as the second, a Cast to a type by ONNX's number. */
uint32_t vc_onnx_one_in(struct vc_onnx_build *b, const char *op, uint32_t x);
uint32_t vc_onnx_two_in(struct vc_onnx_build *b, const char *op, uint32_t x, uint32_t y);
uint32_t vc_onnx_with_ints(struct vc_onnx_build *b, const char *op, uint32_t x, const int64_t *ints, size_t n);
uint32_t vc_onnx_cast(struct vc_onnx_build *b, uint32_t x, int64_t type);
/* Output 0 of the node is op(inputs), with the file's name. Returns false: nothing is left to add. */
bool vc_onnx_ends_in(struct vc_onnx_build *b, const struct vc_onnx_node *node, const char *op, const uint32_t *inputs,
                     unsigned n, const struct vc_graph_attr *attrs, unsigned n_attrs);
bool vc_onnx_ends_in_cast(struct vc_onnx_build *b, const struct vc_onnx_node *node, uint32_t x, int64_t type);

/* Types of elements by ONNX's numbers. */
enum {
    VC_ONNX_FLOAT = 1,
    VC_ONNX_UINT8 = 2,
    VC_ONNX_INT32 = 6,
    VC_ONNX_INT64 = 7,
    VC_ONNX_BOOL = 9,
    VC_ONNX_FLOAT16 = 10,
    VC_ONNX_DOUBLE = 11,
    VC_ONNX_BFLOAT16 = 16
};

/* A rewrite of one node. True: it goes on, changed in place or as it is; false: its outputs are set, or a problem is
 * noted. */
typedef bool vc_onnx_taker(struct vc_onnx_build *b, struct vc_onnx_node *node);

/* Operators, with blanks between them, that one function rewrites. */
struct vc_onnx_rewrite {
    const char *ops;
    vc_onnx_taker *take;
};

/* NULL: none of n rows has the operator. */
vc_onnx_taker *vc_onnx_find_taker(const struct vc_onnx_rewrite *rows, size_t n, const char *op);

/* ---- onnx_values.c ---- */

/* What the graph calls elements of that type: VC_DTYPE_F32, _I64 or _BOOL; VC_DTYPE_RAW: it has none such. */
enum vc_dtype vc_onnx_kind(enum vc_dtype dtype);
const char *vc_onnx_kind_text(enum vc_dtype kind);

/* Its values are floats: f32, float8, or codes with scales. */
static inline bool vc_onnx_is_real(const struct vc_tensor *t)
{
    return t->quant != NULL || vc_dtype_is_float(t->dtype) || vc_is_float8(t->dtype);
}

/* The value of a name that is an input's, a constant's or a tensor's, made at its first use. */
uint32_t vc_onnx_make_value(struct vc_onnx_build *b, struct vc_onnx_name *name);
/* A constant of the graph with the tensor's elements. */
uint32_t vc_onnx_add_tensor(struct vc_onnx_build *b, const char *name, const struct vc_program_tensor *tensor);
/* ONNX's number for the type of the node's input k, as far as the file says it; 0: it does not. */
int64_t vc_onnx_type_of_input(const struct vc_onnx_build *b, const struct vc_program_node *node, size_t k);
/* The elements of a parameter of the file where they are few; NULL if it is not one, or another checkpoint's. */
const struct vc_program_tensor *vc_onnx_tensor_of(const struct vc_onnx_build *b, uint32_t value);
double vc_onnx_real_at(const struct vc_program_tensor *tensor, size_t k);
/* Integer or truth value i of a value, where constants, or sizes that are numbers, say it. */
bool vc_onnx_integer_at(const struct vc_onnx_build *b, uint32_t value, size_t i, int64_t *integer);
/* The single number that the value is known to be. */
bool vc_onnx_scalar(const struct vc_onnx_build *b, uint32_t value, double *number);

/* ---- onnx_older.c ---- */

/* Rewrites the node for VC_GRAPH_OPSET. False: nothing is left to add, its outputs are set or a problem is noted. */
bool vc_onnx_modernize(struct vc_onnx_build *b, struct vc_onnx_node *node);

/* ---- onnx_known.c ---- */

/* The value, or the constant that it is, where it is computed of constants and has at most VC_MAX_ELEMS elements. */
uint32_t vc_onnx_known(struct vc_onnx_build *b, uint32_t value);

/* ---- onnx_same.c ---- */

/* The same for operators that the graph has in other words: Swish is a product. */
bool vc_onnx_reword(struct vc_onnx_build *b, struct vc_onnx_node *node);
/* onnx_grid.c: AffineGrid is products of places, GridSample of what Gather finds. */
vc_onnx_taker vc_onnx_take_affine, vc_onnx_take_grid;
/* The outputs of DynamicQuantizeLinear: codes of x, scale, zero point; names may be NULL. */
void vc_onnx_dynamic_codes(struct vc_onnx_build *b, uint32_t x, const char *const names[3], uint32_t out[3]);
/* Input k, 0 or 1, of the product of codes less its zero point, input 2 + k, where it has one. */
uint32_t vc_onnx_centred(struct vc_onnx_build *b, const struct vc_onnx_node *node, unsigned k);

/* onnx_microsoft.c: an operator of the domain com.microsoft, whose outputs are set, or a problem is noted; true: it is one of ONNX now. */
bool vc_onnx_take_microsoft(struct vc_onnx_build *b, struct vc_onnx_node *node);

/* onnx_sequence.c: the node makes, changes or reads a sequence, or what may be left out: its outputs are set, or a problem is noted. */
bool vc_onnx_take_sequence(struct vc_onnx_build *b, struct vc_onnx_node *node);

/* ---- onnx_qlinear.c ---- */

/* The node is an operator on codes (QLinearConv, QGemm, ...), in words of floats now, or a problem is noted. */
bool vc_onnx_take_qlinear(struct vc_onnx_build *b, struct vc_onnx_node *node);
/* MaxPool and Resize (nearest) of codes, computed as floats; for onnx_same.c. */
bool vc_onnx_through_floats(struct vc_onnx_build *b, struct vc_onnx_node *node);

/* ---- onnx_fold.c ---- */

/* The value that the node's only output is, where the nodes before it and this one are together one larger
 * operator, or a parameter. VC_NO_VALUE: the node stays as it is. */
uint32_t vc_onnx_fold(struct vc_onnx_build *b, const struct vc_onnx_node *node, const char *output);

/* A Split of a parameter into parts whose sizes are known: its outputs are parameters of the same tensor. */
bool vc_onnx_fold_split(struct vc_onnx_build *b, const struct vc_onnx_node *node);

/* ---- onnx_place.c ---- */

/* A name that an exporter gave to what it computed of weights: onnx::Mul_23, or 23. */
bool vc_onnx_is_made_up(const char *name);
/* What a weight is computed of when the network runs: weight_norm's weight_v, or parametrizations.weight.original1. It is like
 * the weight, and never the weight. */
bool vc_onnx_is_raw(const struct vc_tensor *t);
/* How alike the elements of a constant c are to those of the tensor w, or the rows of it, that it may be. */
struct vc_onnx_likeness {
    bool same, uniform; /* bit by bit: NaN equals NaN, and 0 differs from -0; all of c are one number */
    double cc, cw, ww;  /* sums of products */
    double apart, one;  /* squares of c - w, and of c - (1 + w) */
};

/* Of the constant `own`; with: a tensor that it fits. */
enum vc_status vc_onnx_compare(struct vc_onnx_build *b, size_t own, const struct vc_onnx_match *with,
                               struct vc_onnx_likeness *like);
/* Sets to->index and what else says how the constant `own` was made, by to->reader's module; VC_NO_TENSOR: nothing
 * there can be meant. claimed, by tensor of the checkpoint: how many rows are constants already, UINT64_MAX: all;
 * NULL: nothing is claimed. */
enum vc_status vc_onnx_find_place(struct vc_onnx_build *b, size_t own, uint64_t *claimed, struct vc_onnx_match *to);
/* The same without a place: the only tensor with values that are akin, of those that nothing claimed, or of all. samples: room
 * for all calls, vc_onnx_sample_count + 1 numbers for each tensor of the checkpoint, zeros at first. */
enum vc_status vc_onnx_find_akin(struct vc_onnx_build *b, size_t own, uint64_t *claimed, float *samples,
                                 struct vc_onnx_match *to);
#define VC_ONNX_SAMPLES 1024 /* of a tensor: those of two that are not akin tell it without a look at the others */
size_t vc_onnx_sample_count(const struct vc_tensor *t); /* VC_ONNX_SAMPLES, or all elements of a smaller one */
/* A tensor that the constant was made of in some other way, of those that have elements which no constant is, or where none can
 * be meant of all; NULL: there is none. used: as of vc_onnx_find_origin. varies: PyTorch says that it was computed, and it is
 * not one number alone. */
const struct vc_tensor *vc_onnx_made_of(const struct vc_onnx_build *b, size_t own, bool varies, const uint64_t *used);
/* The constant t whose match says `gates`. */
uint32_t vc_onnx_add_gates(struct vc_onnx_build *b, const char *name, const struct vc_tensor *t,
                           const struct vc_onnx_match *match);

/* ---- onnx_trace.c ---- */

/* The same by the trace of to->reader, which says all: nothing else is looked for then. */
void vc_onnx_find_traced(struct vc_onnx_build *b, size_t own, uint64_t *claimed, struct vc_onnx_match *to);
/* The module of a recurrent layer, "encoder.", and which of its layers the node is; false: the trace does not say. */
bool vc_onnx_traced_layer(const struct vc_onnx_build *b, const struct vc_program_node *reader, char *module,
                          size_t room, unsigned *layer);
/* A tensor of the checkpoint, from *at on, that a node says to read and of which no constant is or was computed; VC_NO_TENSOR:
 * there is none. */
size_t vc_onnx_find_lost(const struct vc_onnx_build *b, const uint64_t *used, size_t from);

/* ---- onnx_origin.c ---- */

/* No constant was computed of the tensor. */
#define VC_ONNX_UNRELATED (UINT64_MAX - 1)
/* The constant has the values that come out where it is computed of tensors of the model. used, by tensor: how many of its
 * elements constants are, UINT64_MAX: all; those that it was computed of are used then. */
enum vc_status vc_onnx_find_origin(struct vc_onnx_build *b, size_t own, const struct vc_model *model, uint64_t *used,
                                   bool *found);

/* The other tensor's name begins as the name does up to its last dot: it is of the same module, or of one inside. */
bool vc_onnx_are_beside(const char *name, const char *other);

/* ---- onnx_repair.c ---- */

/* Fills b->matches from source->weights. */
enum vc_status vc_onnx_match_weights(struct vc_onnx_build *b);
/* An Identity gives the parameter x another name. What it is: a parameter of its own, where source->weights has a
 * tensor of that name; else x, which notes the name. */
uint32_t vc_onnx_other_name(struct vc_onnx_build *b, uint32_t x, const char *name);
/* When all nodes are there: a parameter that is called by one name alone, whichever it is, has no others. */
void vc_onnx_count_names(struct vc_onnx_build *b);

/* ---- onnx_export.c ---- */

/* vc_graph_program (graph/build.h) */
enum vc_status vc_onnx_export(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model, bool rows,
                              struct vc_arena *arena, struct vc_program *out);

/* ---- onnx_text.c ---- */

/* The program that the text says; problems are sentences with lines, the first of which is the failure. */
enum vc_status vc_onnx_parse(struct vc_ctx *ctx, struct vc_arena *arena, const char *text, size_t n,
                             struct vc_program *out);
