/* lift.h - a selection along an axis moves above the operators that compute each place of the axis by itself.
 *
 *     h [16, 64, 256] -- LayerNormalization -- MatMul -- Gelu -- Gather 0 of axis 1 -> [16, 256]      64 places computed, 1 is read
 *     h -- Slice 0:1 -- LayerNormalization [16, 1, 256] -- MatMul -- Gelu -- Reshape -> [16, 256]      1 place is computed
 *
 * That is how classifiers of sequences end: the last layer's output is read at the first or at the last token. Of the last
 * attention keys and values stay whole, and queries, scores and all behind them have the places that are read.
 *
 * Selections are Gather of one known number and Slice by known numbers with steps of 1. Every place that stays is computed
 * from the same numbers in the same order as before, so that its value has the same bits. Sums over places, which gradients
 * of weights are, have no terms of places that are not there; in the whole graph these terms are zeros. What a program
 * has to have whole (`fixed`) stays whole, and so does all that an operator mixes: convolutions along the axis, a
 * normalization or a sum over it, recurrent layers. */
#pragma once

#include "graph/base/graph_state.h"

struct vc_lifted {
    /* The values of the first graph by the same numbers, some with fewer places, and further ones behind them; its parameters, inputs
     * and outputs; all shapes are numbers. */
    struct vc_graph graph;
    uint32_t *origin; /* by node: its number in the first graph; VC_NO_NODE: it was added */
};

/* Of a graph whose sizes are bound, and which outlives *out. fixed: by value, what keeps its shape, beside what is no result
 * of a node. drops: Dropout draws numbers by place, and nothing moves above it. *out NULL: nothing can be left out. */
enum vc_status vc_graph_lift(struct vc_ctx *ctx, const struct vc_graph *graph, const bool *fixed, bool drops,
                             struct vc_lifted **out);
void vc_graph_lift_free(struct vc_ctx *ctx, struct vc_lifted *lifted); /* accepts NULL */
