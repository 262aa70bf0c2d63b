/* steps.h - runs one tile through the steps of an item that keep its shape, and plans the buffers that this takes. The
 * executor and vc_tile_reader call it for every tile, each with buffers of its own, so several threads may run tiles of
 * one item at the same time. The results of the steps alternate between two buffers:
 *
 *     in (type of the first step's input) -> out[0] -> out[1] -> out[0] -> ... result
 *
 * It reads no file and writes none. Steps that change the shape (step->regroups) are run by reshape_stage.h. */
#pragma once

#include "core/chain/pass.h"

#define VC_COPY_BYTES ((size_t)1 << 20) /* pieces in which kept tensors are copied */

/* How large each buffer of a worker has to be for the largest tile of all items that were added: `in`, `out` (of which
 * there are two), `scratch` and `sums` in bytes, the others in records. Starts as zeros. */
struct vc_buffer_sizes {
    size_t in, out, scratch, sums;
    size_t n_views, n_in_views, n_figures;
};

/* Adds what the item needs. Also sets first_view of its steps, so every item has to be added before it runs, and not
 * while another thread runs it. */
void vc_buffer_sizes_add(struct vc_buffer_sizes *sizes, struct vc_item *item);
/* The bytes that vc_buffers_alloc takes for these sizes. */
size_t vc_buffer_sizes_total(const struct vc_buffer_sizes *sizes);

/* Figures of one step for one tile. `stats` counts only where the step is lossy (`measured`). */
struct vc_figures {
    bool measured;
    struct vc_tile_stats stats;
    uint64_t nonfinite;
};

struct vc_buffers {
    char *block; /* the one allocation behind the others */
    char *in;
    char *out[2];
    char *scratch;
    double *sums;
    struct vc_part_view *views;    /* of the parts that steps make, by step->first_view */
    struct vc_part_view *in_views; /* of the parts of one step's input */
    struct vc_figures *figures;    /* by step */
};

/* One set of buffers, for one thread at a time. release also takes a set that was never allocated, if it is zeros. */
enum vc_status vc_buffers_alloc(struct vc_ctx *ctx, const struct vc_buffer_sizes *sizes, struct vc_buffers *buffers);
void vc_buffers_release(struct vc_ctx *ctx, struct vc_buffers *buffers);

/* What the steps made of a tile. */
struct vc_tile_result {
    const void *data; /* what the last step made, in buffers->out; in->data where no step was applied */
};

/* Applies steps from..to-1 of the item, none of which regroups, to the tile at in->data, which has the type of the
 * first step's input. in->parts are views of item->first->parts, or NULL where all of these are tensors of the source.
 * The result, the figures of the steps (buffers->figures) and the parts that they made (buffers->views) are valid until
 * the buffers are used again. Failures of a step get the tensor's name in front. */
enum vc_status vc_steps_apply(struct vc_ctx *ctx, struct vc_item *item, size_t from, size_t to,
                              const struct vc_tile *tile, const struct vc_tile_in *in, struct vc_buffers *buffers,
                              struct vc_tile_result *result);

/* After vc_steps_apply: the view of part number `part` of desc, where desc is what the last applied step made. Its data
 * is NULL where the part is a tensor of the source (vc_part_load reads that). */
struct vc_part_view vc_steps_view(const struct vc_item *item, const struct vc_desc *desc, size_t part,
                                  const struct vc_tile_in *in, const struct vc_buffers *buffers);

/* The scratch of step k. No other step of the item uses it, so a part may lie there until the tile is done. */
void *vc_steps_scratch(const struct vc_item *item, size_t k, const struct vc_buffers *buffers);

/* The descriptor of step k's input; of k == n_steps: of the result. */
const struct vc_desc *vc_item_desc(const struct vc_item *item, size_t k);

/* The bytes of the first n_elems elements of desc, one of the item's. Tensors of the source may have types of which
 * only the reader knows the size, so item->first is asked another way. */
uint64_t vc_desc_bytes(const struct vc_item *item, const struct vc_desc *desc, uint64_t n_elems);

/* Calls begin of the first n_steps steps; when one fails, end of all that have begun, and the failure is returned with
 * the tensor's name. vc_steps_end calls end of those that have begun, and may be called again. One thread. */
enum vc_status vc_steps_begin(struct vc_ctx *ctx, struct vc_item *item, size_t n_steps);
void vc_steps_end(struct vc_ctx *ctx, struct vc_item *item);
