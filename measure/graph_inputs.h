/* graph_inputs.h - the inputs of a graph from the arrays of a file: what vc_graph_run_files and the
 * measurements with data begin with.
 *
 *     options, file --vc_graph_inputs_read--> arrays --vc_graph_inputs_rows--> arrays of one batch
 *                                                         --vc_graph_input_value--> value of a run
 */
#pragma once

#include "core/base/arena.h"
#include "graph/forward.h"

/* Where inputs come from and what is done to them, as the options of the callers have it. */
struct vc_graph_inputs_from {
    const char *path;          /* NULL: the graph has no inputs */
    const char *const *arrays; /* "x=test_images", as vc_graph_file_options has them */
    size_t n_arrays;
    uint64_t n_rows; /* of inputs whose first size is open: only the first so many; 0: all */
    double scale;    /* what inputs of floats become: passes/normalize.h */
    const char *mean, *deviation;
    uint64_t length, token_bits; /* not 0: the file has tokens alone, or is a text; so many in a row */
    const char *tokenizer;       /* of a text: what has it beside it; NULL: none */
    bool some;                   /* not all outputs are asked for: inputs that these do not need may be missing */
    bool measured;               /* no rows, and numbers that are not finite, are refused */
    uint64_t batch; /* the first dimension of every input is rows, whatever size the graph has for it; 0: it is not */
};

/* The arrays that were read, whole. They stay until vc_graph_inputs_release, and batches point into them. */
struct vc_graph_inputs {
    struct vc_model *data;
    struct vc_arena arena;         /* of shapes */
    struct vc_graph_array *arrays; /* elements are the pool's */
    size_t n;
    uint64_t n_rows; /* that were read of inputs whose first size is open, with a batch of all; 0 if there are none */
};

/* Reads the arrays that are there; an input without an array is left out. vc_graph_inputs_release also after a failure.
 */
enum vc_status vc_graph_inputs_read(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_graph_inputs_from *from,
                                    struct vc_graph_inputs *to);
/* The rows from `first` on, n of them, of all arrays, which were read with a batch: into `rows`, as many as there are
 * arrays; shapes in the arena of the inputs, elements where they are. */
enum vc_status vc_graph_inputs_rows(struct vc_ctx *ctx, struct vc_graph_inputs *inputs, uint64_t first, uint64_t n,
                                    struct vc_graph_array *rows);
/* Input number k of the graph as a value of a run, from one of n arrays; without data where it may be left out and is.
 * VC_E_ARGUMENT: it is missing, or of another type. */
enum vc_status vc_graph_input_value(struct vc_ctx *ctx, const struct vc_graph *graph,
                                    const struct vc_graph_array *arrays, size_t n, uint32_t k, bool f64,
                                    struct vc_run_value *value);
void vc_graph_inputs_release(struct vc_ctx *ctx, struct vc_graph_inputs *inputs);
