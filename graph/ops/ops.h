/* ops.h - the operators: for each how types and shapes follow from its inputs, and its definition as plain loops.
 *
 * ops.inc lists them with the facts that are data. An operator X has two functions:
 *
 *     vc_infer_X   types and shapes of the outputs, checks of the inputs and attributes, multiply-adds
 *     vc_run_X     the definition, compiled twice from the same source, for float and for double (op_loops.h)
 *
 * Attributes are asked for by name; one that the node has and nobody asked for is not supported, and a problem. */
#pragma once

#include "graph/base/graph_state.h"

struct vc_run;

/* A node while its outputs are inferred. */
struct vc_infer {
    struct vc_graph *graph;
    uint32_t index; /* of the node; pointers into graph->nodes would move when values are added */
    bool failed;    /* a problem was noted */
    uint64_t asked; /* one bit per attribute of the node that somebody asked for */
};

/* VC_OP_conv, ...: the rows of ops.inc. */
enum vc_op {
#define OP(id, name, min_in, max_in, min_out, max_out, axes, reads, backward, eager) VC_OP_##id,
#include "graph/ops/ops.inc"
#undef OP
    VC_OPS
};

/* What a backward step needs of the forward one, ours (vc_op_row.backward) or that of PyTorch's eager mode
 * (vc_op_row.eager), and how the latter computes. Bits. */
#define VC_NEEDS_MAX_IN 8
#define VC_NEEDS_IN(k)  (1u << (k)) /* input k, one of the first VC_NEEDS_MAX_IN; bits 0 to 7 */
#define VC_NEEDS_ALL_IN 0xffu
enum {
    VC_NEEDS_Y = 1 << 8,         /* output 0 */
    VC_NEEDS_FACTOR_0 = 1 << 9,  /* input 0, where the gradient of input 1 is wanted */
    VC_NEEDS_FACTOR_1 = 1 << 10, /* input 1, where the gradient of input 0 is wanted */
    VC_NEEDS_INPUTS = 1 << 11, /* each float input that is no parameter, where the gradient of another one is wanted */
    VC_NEEDS_CHANNELS = 1 << 12, /* two f32 per channel: mean and variance */
    VC_NEEDS_ROWS = 1 << 13,     /* two f32 per row of the last axis */
    VC_NEEDS_PLACES = 1 << 14,   /* an i64 per element of the output: where a maximum was */

    VC_EAGER_HALF = 1 << 15,      /* autocast runs it in 16 bits; ... */
    VC_EAGER_FLOAT = 1 << 16,     /* in f32; without both in the widest type of its inputs */
    VC_EAGER_IN_PLACE = 1 << 17,  /* it may write its output over its first input */
    VC_EAGER_SAME_GRAD = 1 << 18, /* the gradient of its inputs is that of its output where shapes are the same */
    VC_EAGER_VIEW = 1 << 19,      /* its outputs share the memory of its first input in PyTorch, and are copies here */
    VC_EAGER_UNKNOWN = 1 << 20,   /* its backward step is not modelled: it is taken to keep all inputs and outputs */

    VC_OP_VIEW = 1 << 21,      /* its output is its first input with another shape, and shares its memory everywhere */
    VC_OP_ONE_BY_ONE = 1 << 22 /* it computes each element from one element: Gelu, and the rows of kernels/unary.inc */
};

#define VC_EAGER_NOT_KNOWN ((unsigned)(VC_NEEDS_INPUTS | VC_NEEDS_Y | VC_EAGER_UNKNOWN))

/* A row of ops.inc as the compiler makes it (ops.c). min_in and max_in count inputs with gaps: an omitted optional
 * input in front of a given one counts. */
struct vc_op_row {
    enum vc_op op;
    const char *name;
    unsigned min_in, max_in, min_out, max_out;
    void (*infer)(struct vc_infer *in);
    void (*run_f32)(struct vc_run *run);
    void (*run_f64)(struct vc_run *run);
    unsigned reads; /* bit k: the elements of input k are read; others are shapes and numbers that are known before */
    unsigned backward; /* VC_NEEDS_ */
    unsigned eager;    /* VC_NEEDS_, VC_EAGER_, VC_OP_ */
};

/* The row of an operator by ONNX's name. NULL if there is no such operator. */
const struct vc_op_row *vc_op_find(const char *name);
/* The most similar name, for sentences: "the operator 'Gelo' is not supported; the most similar one is Gelu". */
const char *vc_op_nearest(const char *name);

/* Infers types and shapes of the node's outputs. Called by vc_graph_add_node for a node whose inputs are all known,
 * and by sizes.c once more with numbers for symbols. A problem goes to the graph, and the outputs are then unknown. */
void vc_infer_node(struct vc_graph *graph, uint32_t node);

/* ---- for the vc_infer_X ----
 *
 * A vc_infer_X looks like this (Transpose, shortened):
 *
 *     if (!vc_infer_types(in, "a")) return;                  input 0 of any type
 *     perm = vc_infer_ints(in, "perm", &n);                  every attribute that the operator has is asked for
 *     ... vc_infer_fail(in, "perm has %zu numbers", n)       a problem: the outputs become unknown
 *     vc_infer_out(in, 0, x->dtype, shape, n_dims);          at the end, once all is checked */

/* Notes "Conv 'conv1': ..." and marks the outputs as unknown. */
void vc_infer_fail(struct vc_infer *in, const char *format, ...) VC_PRINTF(2, 3);

unsigned vc_infer_n_in(const struct vc_infer *in);
/* Input number k; NULL if it is not given. Valid until a value is added. */
const struct vc_graph_value *vc_infer_in(const struct vc_infer *in, unsigned k);
/* The whole numbers that input k, a list or a number, is known to be, *n of them; NULL: not known, or not given. */
const struct vc_dim *vc_infer_elems(const struct vc_infer *in, unsigned k, size_t *n);
/* The same for an input of any number of dimensions, in C order: pads are lists of pairs on their way. */
const struct vc_dim *vc_infer_all_elems(const struct vc_infer *in, unsigned k, size_t *n);
/* The integers of a list, where all of them are numbers. Fails, with NULL, where they are not known: "axes must be
 * constants". */
bool vc_infer_numbers(struct vc_infer *in, unsigned k, const char *what, int64_t *numbers, size_t capacity, size_t *n);
/* The floats of a constant, `*n` of them. Fails where the input is no constant or has more than `capacity`. */
bool vc_infer_floats(struct vc_infer *in, unsigned k, const char *what, double *floats, size_t capacity, size_t *n);
unsigned vc_infer_n_out(const struct vc_infer *in);

/* Fails unless the inputs have these types, a letter each: f floats, i integers, b truth values, n floats or integers,
 * a any, x that of input 0. The last letter holds for all further inputs; inputs that are not given fit. Every
 * vc_infer_X calls it first: vc_run_X relies on it when it reads elements. */
bool vc_infer_types(struct vc_infer *in, const char *types);
/* Fails unless input k has from `least` to `most` dimensions. */
bool vc_infer_rank(struct vc_infer *in, unsigned k, unsigned least, unsigned most);
/* Fails unless input k, if it is given, has one element: [] or [1]. */
bool vc_infer_single(struct vc_infer *in, unsigned k, const char *what);
/* Marks the axes that input k lists; none of them may come twice. *n: how many. */
bool vc_infer_axes(struct vc_infer *in, unsigned k, unsigned n_dims, bool *marked, size_t *n);

/* Attributes; `otherwise` where the node has none of that name. A wrong kind is a problem. */
int64_t vc_infer_int(struct vc_infer *in, const char *name, int64_t otherwise);
double vc_infer_float(struct vc_infer *in, const char *name, double otherwise);
const char *vc_infer_string(struct vc_infer *in, const char *name, const char *otherwise);
/* NULL, *n 0: none. */
const int64_t *vc_infer_ints(struct vc_infer *in, const char *name, size_t *n);
/* An attribute of floats, which the node may have. */
void vc_infer_float_list(struct vc_infer *in, const char *name);
bool vc_infer_has(struct vc_infer *in, const char *name);

/* Axis -1 is the last; fails if there is no such axis, and then returns 0. */
unsigned vc_infer_axis(struct vc_infer *in, int64_t axis, unsigned n_dims);

/* The shape that both broadcast to, as NumPy does it. A symbol against a number is taken to be the number. */
bool vc_infer_broadcast(struct vc_infer *in, const struct vc_graph_value *a, const struct vc_graph_value *b,
                        struct vc_dim *shape, unsigned *n_dims);
/* Fails unless both are equal, or could be; returns the more exact one. */
struct vc_dim vc_infer_same(struct vc_infer *in, const char *what, struct vc_dim a, struct vc_dim b);

/* Sets type and shape of output k. Refuses a bad or negative dimension, and values of 2^60 elements or more, so
 * that byte counts fit into 64 bits. Ignored if the output is not used, or after a failure. */
void vc_infer_out(struct vc_infer *in, unsigned k, enum vc_dtype dtype, const struct vc_dim *shape, unsigned n_dims);
/* Says what the whole numbers of output k are: as many as its shape says, at most VC_MAX_ELEMS. */
void vc_infer_out_elems(struct vc_infer *in, unsigned k, const struct vc_dim *elems, size_t n);
/* Multiply-adds of the node for all inputs: 2 * 3 * 4 for [2, 3] x [3, 4]. */
void vc_infer_macs(struct vc_infer *in, struct vc_dim macs);

/* For Floor and Ceil of sizes computed in floats: input 0 is made by a Div of known whole numbers, the dividends
 * not negative. elems gets the quotients, rounded down or up, *n of them. False: it is not such a quotient. */
bool vc_infer_quotient(struct vc_infer *in, bool up, struct vc_dim *elems, size_t *n);

/* Output 0 as input 0: type and shape. */
void vc_infer_out_like(struct vc_infer *in);

/* Number of elements of start, start + step, ... before limit, ONNX's Range: ceil((limit - start) / step), 0 if negative.
 * -1: not finite, or too many to count. */
double vc_range_count(double start, double limit, double step);

static inline struct vc_dims *vc_infer_dims(struct vc_infer *in)
{
    return &in->graph->dims;
}

/* The ends of the integers of that type, "output_dtype" of QuantizeLinear. */
static inline int64_t vc_code_least(int64_t type)
{
    if (type == 3) {
        return INT8_MIN;
    }
    if (type == 5) {
        return INT16_MIN;
    }
    if (type == 22) {
        return -8;
    }
    return 0;
}

static inline int64_t vc_code_most(int64_t type)
{
    if (vc_code_least(type) != 0) {
        return -1 - vc_code_least(type);
    }
    if (type == 4) {
        return UINT16_MAX;
    }
    if (type == 21) {
        return 15;
    }
    return UINT8_MAX;
}

#define VC_OP_MANY 100000 /* inputs or outputs: any number */

static inline bool vc_node_is(const struct vc_graph_node *node, enum vc_op op)
{
    return node->row != NULL && node->row->op == op;
}

/* vc_op_row.eager, of an operator that is not known, too. */
static inline unsigned vc_op_eager(const struct vc_graph_node *node)
{
    return node->row != NULL ? node->row->eager : VC_EAGER_NOT_KNOWN;
}

/* The output of the node is its first input with another shape. */
static inline bool vc_node_is_view(const struct vc_graph_node *node)
{
    return node->row != NULL && (node->row->eager & VC_OP_VIEW) != 0;
}

#define OP(id, name, min_in, max_in, min_out, max_out, axes, reads, backward, eager) \
    void vc_infer_##id(struct vc_infer *in);                                         \
    void vc_run_##id##_f32(struct vc_run *run);                                      \
    void vc_run_##id##_f64(struct vc_run *run);
#include "graph/ops/ops.inc"
#undef OP
