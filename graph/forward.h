/* forward.h - the reference forward pass over a whole graph, by the plain loops of graph/ops/loops.
 *
 * Called by measure/graph_run.c (f64), by engine/answers and measure/ where no program can be made for a graph
 * (plain loops in f32), by engine/plan_known.c for values that are known before a run, and by tests, which judge
 * the engine by it. Sums have a fixed order and the precision of the run. Not fast: the programs of engine/ are. */
#pragma once

#include "graph/ops/run.h"

/* The type REAL of all floats in a run. Integers are int64_t in both. */
enum vc_precision { VC_PRECISION_F32, VC_PRECISION_F64 };

/* What a run needs from outside. Each function returns VC_OK or sets a failure, which ends the run. `user` is their
 * argument. */
struct vc_run_calls {
    void *user;
    /* The elements of a parameter as the graph uses it (sliced and transposed), as REAL. */
    enum vc_status (*param)(struct vc_ctx *ctx, void *user, const struct vc_graph_param *param, void *elements);
    /* Input number k: shape and elements; the shape is checked by the caller. data is from vc_alloc. */
    enum vc_status (*input)(struct vc_ctx *ctx, void *user, uint32_t k, struct vc_run_value *value);
    /* A value that was asked for, as soon as it is there. */
    enum vc_status (*take)(struct vc_ctx *ctx, void *user, uint32_t value, const struct vc_run_value *elements);
};

/* Computes the wanted values (numbers of values) and what they need, nothing else. Each value is freed after its
 * last use, so peak memory is that of the widest point of the graph. Symbols get the sizes that the inputs have. A
 * wanted value is given to `take` once, in the order in which values are computed. */
enum vc_status vc_graph_forward(struct vc_ctx *ctx, struct vc_graph *graph, enum vc_precision precision,
                                const struct vc_run_calls *calls, const uint32_t *wanted, size_t n_wanted);

/* What such a run begins with: symbols get the sizes that the inputs have, all nodes that are needed are checked with
 * them, and the inputs that are needed are in values[v], one for each value of the graph. These begin without data; the
 * caller frees it, also after a failure. vc_graph_forward_from then computes what vc_graph_forward would. */
enum vc_status vc_graph_read_inputs(struct vc_ctx *ctx, struct vc_graph *graph, enum vc_precision precision,
                                    const struct vc_run_calls *calls, const uint32_t *wanted, size_t n_wanted,
                                    struct vc_run_value *values);

/* The same after such a run with the same inputs, from what is left of it: feeds[v], one for each value of the graph,
 * is known where it has data, and only what is wanted and not known is computed from it. All inputs have to be known
 * that are needed. Changes nothing in the graph, so runs on several threads may go on at the same time. feeds NULL:
 * vc_graph_forward. */
enum vc_status vc_graph_forward_from(struct vc_ctx *ctx, struct vc_graph *graph, enum vc_precision precision,
                                     const struct vc_run_calls *calls, const struct vc_run_value *feeds,
                                     const uint32_t *wanted, size_t n_wanted);
