/* planned_model.h - the planned model: what the passes of a plan leave of the source, in memory, and what it computes,
 * before anything is written: for a pass that trains it, and for measuring what its outputs lose.
 *
 *     source -- prune --> item->desc and steps -- vc_planned_weights --> the source, with what changed in memory
 *                                                 vc_planned_graph   --> the source's graph, with the new shapes */
#pragma once

#include <vcompress/graph.h>

#include "core/chain/pass.h"

/* Starts as zeros but for ctx. */
struct vc_planned_model {
    struct vc_ctx *ctx;
    const struct vc_model *weights; /* `own`, or the model of the plan where no pass has changed anything */
    struct vc_graph *graph;         /* NULL before vc_planned_graph */
    struct vc_change *changes;      /* one for each tensor of the plan's model; NULL: nothing changed */
    char *values;         /* codes and scales of all changed tensors, one after the other; NULL after _shapes */
    struct vc_model *own; /* a model whose changed tensors read from `values`; NULL: nothing changed */
    struct vc_arena arena;
};

/* Takes the values of the plan as they are now; codes with their scales, where a pass has quantized. Ended by
 * vc_planned_free, also after a failure; the plan outlives it. */
enum vc_status vc_planned_weights(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_planned_model *planned);
/* The same without values: names, types and shapes, of what changed nothing can be read. */
enum vc_status vc_planned_shapes(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_planned_model *planned);
/* After one of these: what the source says that it computes, with what the passes change of that. VC_E_UNSUPPORTED,
 * graph NULL: it says nothing. */
enum vc_status vc_planned_graph(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_planned_model *planned);
void vc_planned_free(struct vc_planned_model *planned);
