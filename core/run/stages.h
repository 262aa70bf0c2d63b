/* stages.h - one tile through the stages of its item, and the buffers that takes. */
#ifndef VC_CORE_STAGES_H
#define VC_CORE_STAGES_H

#include "core/job/pass.h"

#define VC_COPY_BYTES ((size_t)1 << 20) /* pieces in which kept tensors are copied */

/* Bytes of each buffer for the largest tile of every item added. */
struct vc_room {
    size_t in, out, scratch, sums;
};

void vc_room_add(struct vc_room *room, const struct vc_item *item);
size_t vc_room_total(const struct vc_room *room);

struct vc_buffers {
    char *block; /* the one allocation behind the others */
    char *in;
    char *out[2];
    char *scratch;
    double *sums;
};

enum vc_status vc_buffers_alloc(struct vc_ctx *ctx, const struct vc_room *room, struct vc_buffers *buffers);
void vc_buffers_release(struct vc_ctx *ctx, struct vc_buffers *buffers);

/* What the stages made of a tile. */
struct vc_tile_result {
    const void *data; /* of the last stage; the source values without stages */
    struct vc_tile_out out;
    struct vc_tile_stats stats;
};

/* Applies the first n_stages stages of the item to `in`. */
enum vc_status vc_stages_apply(struct vc_ctx *ctx, struct vc_item *item, size_t n_stages, const struct vc_tile *tile,
                               const void *in, struct vc_buffers *buffers, struct vc_tile_result *result);

/* begin of the first n_stages stages (undone when one fails), end of those that have begun. */
enum vc_status vc_stages_begin(struct vc_ctx *ctx, struct vc_item *item, size_t n_stages);
void vc_stages_end(struct vc_ctx *ctx, struct vc_item *item);

#endif
