/* fold_norms.h - a BatchNormalization behind a product of a stored graph goes into the weights, where nothing else reads
 * what the product makes:
 *
 *     y = BatchNormalization(Conv(x, w, b), g, beta, mean, var)      s = g / sqrt(var + epsilon)
 *     y = Conv(x, w * s, beta + (b - mean) * s)                      by output channel; under the name of beta
 *
 * Conv, ConvTranspose, and Gemm with beta 1. In f64, rounded once. What is shared with other nodes stays unfolded. */
#pragma once

#include "core/chain/pass.h"
#include "quantize/activations/act_graph.h"

/* One that was folded. Lists are in the arena. */
struct vc_folded_norm {
    const char *value; /* that it read */
    size_t unread[4];  /* tensors that nothing reads any more */
    size_t n_unread;
    struct vc_folded_norm *next; /* the one before it */
};

/* Whether the pass works on the weights of a product. */
typedef enum vc_status vc_fold_takes(struct vc_ctx *ctx, void *self, struct vc_item *item, bool *takes);

/* In plan_begin: adds the steps of weights and biases, and changes the nodes of the graph accordingly. *out NULL: there
 * is nothing to fold. */
enum vc_status vc_fold_norms(struct vc_ctx *ctx, const struct vc_plan *plan, struct act_graph *graph,
                             struct vc_arena *arena, vc_fold_takes *takes, void *self, struct vc_folded_norm **out);
/* In plan_end: the same in the file's graph. *note: how many; NULL: none. */
enum vc_status vc_fold_norms_finish(struct vc_ctx *ctx, const struct vc_folded_norm *folded, struct vc_plan *plan,
                                    struct vc_arena *arena, const char **note);
