/* ops.h - the operators: for each how types and shapes follow from its inputs, and its definition as plain loops.
 *
 * ops.inc lists them. An operator X has two functions:
 *     vc_infer_X   types and shapes of the outputs, checks of the inputs and attributes, multiply-adds
 *     vc_run_X     the definition, compiled twice from the same source, for float and for double (op_loops.h)
 * Attributes are asked for by name; one that the node has and nobody asked for is not supported, and a problem. */
#ifndef VC_GRAPH_OPS_H
#define VC_GRAPH_OPS_H

#include "graph/base/graph_state.h"

struct vc_run;

/* A node while its outputs are inferred. */
struct vc_infer {
    struct vc_graph *graph;
    uint32_t index; /* of the node; pointers into graph->nodes would move when values are added */
    bool failed;    /* a problem was noted */
    uint64_t asked; /* one bit per attribute of the node that somebody asked for */
};

struct vc_op_row {
    const char *name;
    unsigned min_in, max_in, min_out, max_out;
    void (*infer)(struct vc_infer *in);
    void (*run_f32)(struct vc_run *run);
    void (*run_f64)(struct vc_run *run);
};

/* NULL: not one of the operators. */
const struct vc_op_row *vc_op_find(const char *name);
/* It computes each element from one element: a row of kernels/unary.inc. */
bool vc_op_is_unary(const char *name);
/* The most similar name. */
const char *vc_op_nearest(const char *name);
/* Number k, NULL behind the last. */
const struct vc_op_row *vc_op_at(size_t k);

/* Called by vc_graph_add_node, for a node whose inputs are all known. */
void vc_infer_node(struct vc_graph *graph, uint32_t node);

/* ---- for the vc_infer_X ---- */

/* Notes "Conv 'conv1': ..." and marks the outputs as unknown. */
void vc_infer_fail(struct vc_infer *in, const char *format, ...) VC_PRINTF(2, 3);

unsigned vc_infer_n_in(const struct vc_infer *in);
/* Input number k; NULL if it is not given. Valid until a value is added. */
const struct vc_graph_value *vc_infer_in(const struct vc_infer *in, unsigned k);
/* The integers that input k, a list or a number, is known to be, *n of them; NULL: not known, or not given. */
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
bool vc_infer_has(struct vc_infer *in, const char *name);

/* Axis -1 is the last; fails if there is no such axis, and then returns 0. */
unsigned vc_infer_axis(struct vc_infer *in, int64_t axis, unsigned n_dims);

/* The shape that both broadcast to, as NumPy does it. A symbol against a number is taken to be the number. */
bool vc_infer_broadcast(struct vc_infer *in, const struct vc_graph_value *a, const struct vc_graph_value *b,
                        struct vc_dim *shape, unsigned *n_dims);
/* Fails unless both are equal, or could be; returns the more exact one. */
struct vc_dim vc_infer_same(struct vc_infer *in, const char *what, struct vc_dim a, struct vc_dim b);

void vc_infer_out(struct vc_infer *in, unsigned k, enum vc_dtype dtype, const struct vc_dim *shape, unsigned n_dims);
/* Says what the integers of output k are: as many as its shape says, at most VC_MAX_ELEMS. */
void vc_infer_out_elems(struct vc_infer *in, unsigned k, const struct vc_dim *elems, size_t n);
void vc_infer_macs(struct vc_infer *in, struct vc_dim macs);

/* Output 0 as input 0: type and shape. */
void vc_infer_out_like(struct vc_infer *in);

/* How many numbers start, start + step, ... there are before limit; -1: no end, or nothing to count. */
double vc_range_count(double start, double limit, double step);

static inline bool vc_dim_is(struct vc_dim a, int64_t n)
{
    return vc_dim_is_number(a) && a.size == n;
}

static inline struct vc_dims *vc_infer_dims(struct vc_infer *in)
{
    return &in->graph->dims;
}

#define VC_OP_MANY 100000 /* inputs or outputs: any number */

#define OP(id, name, min_in, max_in, min_out, max_out) \
    void vc_infer_##id(struct vc_infer *in);           \
    void vc_run_##id##_f32(struct vc_run *run);        \
    void vc_run_##id##_f64(struct vc_run *run);
#include "graph/ops/ops.inc"
#undef OP

#endif
