/* liveness.h - which values of a graph share memory, which node uses each of them last, and which of them a
 * backward pass needs.
 *
 *     x --Relu--> y --Reshape--> z --MatMul--> ...     y and z are one block of memory: y is the root of both
 *
 * Sharing and saving differ between programs: the program of engine/ follows our own training, memory/ follows
 * PyTorch's eager mode. A policy says which; graph/ops/ops.inc has the facts that both policies read. A memory
 * planner then needs only last_use: after that node the block of the root is free, unless it is saved for the
 * backward pass. */
#pragma once

#include "graph/base/graph_state.h"

struct vc_liveness_policy {
    const void *user; /* first argument of all functions */
    /* The value whose memory output k of the node has; VC_NO_VALUE: memory of its own. */
    uint32_t (*shares)(const void *user, uint32_t node, unsigned k);
    /* Whether the elements of input k, which is given, are read. */
    bool (*reads)(const void *user, uint32_t node, unsigned k);
    /* Whether the backward step of the node needs input k or, if k is n_inputs, output 0. */
    bool (*saves)(const void *user, uint32_t node, unsigned k);
};

/* By value; the caller's arrays of vc_graph_value_count elements. */
struct vc_liveness {
    uint32_t *root;     /* the value whose memory this value has; a value with its own memory is its own root */
    uint32_t *last_use; /* of a root: the last node that makes a value of this memory or reads it; 0: no node does */
    bool *saved;        /* of a root: the backward step of some node reads it */
};

/* Fills the arrays of `out`, which the caller allocated, for all values of the graph. */
void vc_liveness_find(const struct vc_graph *graph, const struct vc_liveness_policy *policy, struct vc_liveness *out);

/* Calls fn for every input that the node reads, and for output 0 where it is saved. */
void vc_liveness_each(const struct vc_graph *graph, const struct vc_liveness_policy *policy, uint32_t node,
                      void (*fn)(void *user, uint32_t node, uint32_t value, bool saved), void *user);
