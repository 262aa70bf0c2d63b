/* steps.h - one tile through steps that keep its shape, and the buffers that takes.
 *
 *     in (type of the first step's input) -> out[0] -> out[1] -> out[0] -> ... result
 *
 * Steps that change the shape (step->regroups) are not for this file: head.h runs them. */
#ifndef VC_CORE_STEPS_H
#define VC_CORE_STEPS_H

#include "core/chain/pass.h"

#define VC_COPY_BYTES ((size_t)1 << 20) /* pieces in which kept tensors are copied */

/* What each buffer needs for the largest tile of every item added: bytes, then numbers of records. */
struct vc_room {
    size_t in, out, scratch, sums;
    size_t n_views, n_in_views, n_figures;
};

/* Adds an item; also numbers the parts that its steps make, so it comes before the item runs. */
void vc_room_add(struct vc_room *room, struct vc_item *item);
size_t vc_room_total(const struct vc_room *room);

/* Figures of one step for one tile. */
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

enum vc_status vc_buffers_alloc(struct vc_ctx *ctx, const struct vc_room *room, struct vc_buffers *buffers);
void vc_buffers_release(struct vc_ctx *ctx, struct vc_buffers *buffers);

/* What the steps made of a tile. */
struct vc_tile_result {
    const void *data; /* of the last step; the input without steps */
};

/* Applies steps from..to-1 of the item; none of them regroups. in->parts are views of item->first.parts, or NULL where
 * all of them are tensors of the source. Figures of the steps are in buffers->figures, parts in buffers->views. */
enum vc_status vc_steps_apply(struct vc_ctx *ctx, struct vc_item *item, size_t from, size_t to,
                              const struct vc_tile *tile, const struct vc_tile_in *in, struct vc_buffers *buffers,
                              struct vc_tile_result *result);

/* After vc_steps_apply: the view of part number `part` of desc, which is the input of step `to` or the end. */
struct vc_part_view vc_steps_view(const struct vc_item *item, const struct vc_desc *desc, size_t part,
                                  const struct vc_tile_in *in, const struct vc_buffers *buffers);

/* The scratch of step k: no other step of the item uses it. */
void *vc_steps_scratch(const struct vc_item *item, size_t k, const struct vc_buffers *buffers);

/* The descriptor of step k's input; of k == n_steps: of the result. */
const struct vc_desc *vc_item_desc(const struct vc_item *item, size_t k);

/* The bytes of the first n elements of a descriptor's values. */
uint64_t vc_desc_bytes(const struct vc_item *item, const struct vc_desc *desc, uint64_t n_elems);

/* begin of the first n_steps steps (undone when one fails), end of those that have begun. */
enum vc_status vc_steps_begin(struct vc_ctx *ctx, struct vc_item *item, size_t n_steps);
void vc_steps_end(struct vc_ctx *ctx, struct vc_item *item);

#endif
