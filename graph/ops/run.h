/* run.h - values in memory, and what a vc_run_X gets of the node that it computes.
 *
 * Floats are REAL, float or double by the run's precision; integers are int64_t, and truth values int64_t 0 and 1.
 * Shapes were checked when the graph was built, except where they depend on the sizes of the inputs: vc_run_fail
 * says so. Integers that choose elements (Gather) come from data and are checked in the loop. */
#pragma once

#include "graph/base/graph_state.h"

/* A value with its elements, in C order. */
struct vc_run_value {
    unsigned n_dims;
    int64_t shape[VC_GRAPH_MAX_DIMS];
    size_t n;     /* elements: the product of the shape */
    bool is_real; /* elements are REAL; else int64_t */
    void *data;   /* memory of the pool; NULL: the value is not computed yet, or was freed */
};

/* One node to compute. vc_run_X reads in[k]->data, gets room by vc_run_out, and fills it. On failure it sets
 * `status` and returns; outputs that have data are freed by the caller. */
struct vc_run {
    struct vc_ctx *ctx;
    const struct vc_graph *graph;
    const struct vc_graph_node *node;
    unsigned n_in;
    const struct vc_run_value **in; /* NULL: not given */
    struct vc_run_value *out;       /* shapes are set where the graph knows them; data is not there yet */
    /* places[k]: the caller's memory for output k, which has out[k].n elements. NULL, the array or one place: memory of
     * the pool. The engine gives places when a plain loop is a step of its program. */
    void *const *places;
    size_t real_bytes;     /* sizeof(REAL) */
    enum vc_status status; /* the first failure */
};

/* Output k with room for its elements: shape and type are set. NULL: failed. */
void *vc_run_out(struct vc_run *run, unsigned k, bool is_real, const int64_t *shape, unsigned n_dims);
/* VC_E_FORMAT: "MatMul 'y': ..." */
void vc_run_fail(struct vc_run *run, const char *format, ...) VC_PRINTF(2, 3);

/* An attribute of the node; NULL: the node does not have it. */
const int64_t *vc_run_ints(const struct vc_run *run, const char *name, size_t *n);

/* Axis -1 is the last. */
static inline unsigned vc_run_axis(int64_t axis, unsigned n_dims)
{
    return (unsigned)(axis < 0 ? axis + (int64_t)n_dims : axis);
}

/* The product of the dimensions from `first` to before `end`: of a shape whose elements are there, so it cannot
 * overflow unless one of the others is 0; then it is 0, too. */
size_t vc_run_count(const struct vc_run_value *x, unsigned first, unsigned end);
/* Input k has this many elements; else fails: "the scale has 3 elements; 4 are needed". An input that is not given is
 * right. */
bool vc_run_expect(struct vc_run *run, unsigned k, const char *what, size_t n);
/* The axes that input k lists, marked. None where it is not given. Returns how many. */
size_t vc_run_axes(const struct vc_run *run, unsigned k, unsigned n_dims, bool *marked);

/* How the elements of an output are found in an input: element at[...] is number base + sum of at[k] * step[k].
 * Transpose, Slice (base, negative steps), Expand (step 0) are views. Twice the dimensions of a value, since tiles
 * and blocks split each dimension in two. */
struct vc_run_view {
    unsigned n_dims;
    int64_t shape[2 * VC_GRAPH_MAX_DIMS];
    int64_t step[2 * VC_GRAPH_MAX_DIMS];
    int64_t base;
};

/* The input itself. */
struct vc_run_view vc_run_view_of(const struct vc_run_value *x);

/* Walks the elements of a shape in C order while up to three inputs that broadcast to it keep their places:
 *     shape [2, 3], input [1, 3]: step {0, 1}     places 0 1 2 0 1 2
 */
struct vc_run_walk {
    unsigned n_dims;
    int64_t shape[VC_GRAPH_MAX_DIMS], at[VC_GRAPH_MAX_DIMS];
    size_t step[3][VC_GRAPH_MAX_DIMS]; /* of up to three inputs */
    size_t place[3];
};

/* The shape that up to three values broadcast to; false, with the failure set, where they do not. */
bool vc_run_walk_begin(struct vc_run *run, struct vc_run_walk *walk, const struct vc_run_value *const *values,
                       unsigned n_values);

static inline void vc_run_walk_next(struct vc_run_walk *walk)
{
    for (unsigned k = walk->n_dims; k-- > 0;) {
        walk->at[k]++;
        for (unsigned v = 0; v < 3; v++) {
            walk->place[v] += walk->step[v][k];
        }
        if (walk->at[k] < walk->shape[k]) {
            return;
        }
        for (unsigned v = 0; v < 3; v++) {
            walk->place[v] -= walk->step[v][k] * (size_t)walk->shape[k];
        }
        walk->at[k] = 0;
    }
}
