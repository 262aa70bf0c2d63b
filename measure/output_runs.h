/* output_runs.h - a graph that is computed many times with the same inputs, each time with other values of some
 * tensors: what that does to its outputs. The first run's values are kept, as many as there is memory for, and its
 * parameters where there is still room; a run begins with those that its changes do not reach. Each run is a program of
 * the engine (engine/answers/answers.h), on one thread; where the engine has none for the graph, or the memory limit no
 * room for one, all runs are those of the plain loops.
 *
 *     image -> conv1 -> relu -> conv2 -> relu -> fc -> logits       conv2 changed: conv2, relu and fc are computed */
#pragma once

#include <vcompress/sensitivity.h>

#include "core/model/source.h"
#include "engine/answers/answers.h"

/* A tensor of the model with other values, as it lies. */
struct vc_changed_tensor {
    size_t tensor;
    size_t n;
    float *values;
};

/* The first run of one batch of rows, and all that is kept of it. With several batches each has a struct of
 * its own, in a list; the parameters are those of the first. */
struct vc_output_runs {
    struct vc_graph *graph;
    const struct vc_model *model, *other; /* the measured one; one for parameters that it has not, or NULL */
    const struct vc_graph_array *arrays;
    size_t n_arrays;
    size_t *tensor_of;                  /* by parameter: of `model`; VC_NO_TENSOR: of `other` */
    bool *needed;                       /* nodes that outputs depend on */
    struct vc_run_value *known;         /* by value: kept of the first run, or without data */
    const struct vc_output_runs *first; /* of other rows, and keeps the parameters for these, too; NULL: these do */
    bool plain;        /* the loops of graph/ops/ compute, not the engine; the first run sets it where it has to */
    double *seconds;   /* by value: what its node took, at its first output */
    bool *is_kept;     /* by value: input or output, never given up for others */
    uint32_t *outputs; /* those that are floats */
    size_t n_outputs;
    double norm2;                /* of the outputs: sum of squares */
    uint64_t run_bytes;          /* what a whole run takes at most, beside what is known */
    uint64_t kept_bytes;         /* of `known` */
    uint64_t budget;             /* for `known`; less, where a run needs more than the rest */
    double last;                 /* time, in the first run */
    struct vc_output_runs *next; /* the same graph for other rows, as many; NULL: none. Runs go through all of them */
};

/* What runs of one thread keep for each other: the program of the last one, for another that reaches the same values.
 * It begins with zeros. */
struct vc_output_program {
    struct vc_answers *answers;
    bool *reached; /* by value */
};

/* The first run, of one struct: of each in turn. vc_output_runs_end also after a failure; it ends all. */
enum vc_status vc_output_runs_begin(struct vc_ctx *ctx, struct vc_output_runs *runs);
void vc_output_runs_end(struct vc_ctx *ctx, struct vc_output_runs *runs);

/* The graph computes something from the tensor. */
bool vc_output_runs_use(const struct vc_output_runs *runs, size_t tensor);
/* What the nodes behind these tensors took in the first run; < 0 without memory. */
double vc_output_runs_seconds(struct vc_ctx *ctx, const struct vc_output_runs *runs,
                              const struct vc_changed_tensor *changed, size_t n);
/* One run with changes. Several threads may call it at the same time, with a program each. */
enum vc_status vc_output_runs_run(struct vc_ctx *ctx, const struct vc_output_runs *runs,
                                  struct vc_output_program *program, const struct vc_changed_tensor *changed, size_t n,
                                  struct vc_output_change *out);
/* Frees what is in the program, which begins again. */
void vc_output_program_end(struct vc_ctx *ctx, struct vc_output_program *program);

/* The value whose entries along its last axis are the chances of n units to be chosen, before Softmax or TopK looks at
 * them, and that is made from the tensor, as a router's weights make it; VC_NO_VALUE if there is none, or no memory. */
uint32_t vc_output_runs_scores(struct vc_ctx *ctx, const struct vc_output_runs *runs, size_t tensor, uint64_t n);
/* One run in which the units that go are never chosen: their entries of that value are -infinity. Several threads may
 * call it at the same time. */
enum vc_status vc_output_runs_bar(struct vc_ctx *ctx, const struct vc_output_runs *runs, uint32_t scores,
                                  const bool *goes, uint64_t n, struct vc_output_change *out);

/* What another graph computes from the same inputs with the weights of another model, against the first run. Outputs
 * have the same names; one of another shape is out->reason. */
enum vc_status vc_output_runs_other(struct vc_ctx *ctx, const struct vc_output_runs *runs, struct vc_graph *graph,
                                    const struct vc_model *weights, struct vc_output_change *out);
