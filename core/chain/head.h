/* head.h - the beginning of a chain up to its last change of shape, as a source of tiles.
 *
 * Steps that keep the shape work tile by tile, in any order. A step that regroups (removes rows, say) needs other
 * elements for a tile than the tile's own, and may need them from what other steps make. So everything up to the last
 * such step is served in order, by one thread at a time, and what follows it goes tile by tile again:
 *
 *     source -> cast -> REMOVE ROWS -> int8 -> ...      k = 2: head = {cast, remove rows}, steps 2, 3, ... by tiles
 *
 * A head has a level for each step that regroups; a level keeps the one tile of its input that was asked for last. */
#ifndef VC_CORE_HEAD_H
#define VC_CORE_HEAD_H

#include "core/chain/steps.h"
#include "core/chain/walk.h"

struct vc_head;

struct vc_reader {
    struct vc_head *head;
    size_t level;
};

struct vc_head_level {
    struct vc_reader reader;           /* what the step that regroups reads its input from */
    size_t first, step;                /* steps first..step-1 keep the shape; step regroups */
    uint64_t n_rows, row_len, n_tiles; /* of the input of those steps */
    struct vc_buffers buffers;
    struct vc_tile tile; /* the one that is kept, if `next` is not 0 */
    const void *data;
    uint64_t next;              /* tile after it */
    char *input;                /* levels but the first: a tile of the level below */
    struct vc_part_view *views; /* of the parts that `step` makes */
};

/* Sees the figures of the steps of a level, once for every tile of a walk. */
typedef void vc_head_fn(void *user, const struct vc_item *item, size_t from, size_t to, const struct vc_tile *tile,
                        const struct vc_buffers *buffers);

struct vc_head {
    struct vc_item *item;
    size_t n_steps; /* that it covers; 0: there is no head, the source's own tiles are the input */
    size_t n_levels;
    struct vc_head_level *levels;
    struct vc_walk walk;
    uint64_t next_source; /* tile of the source that the walk stands before */
    uint64_t n_seen;      /* tiles of the source whose figures went to `see` */
    vc_head_fn *see;
    void *user;
};

/* The steps that a head for the input of step k covers. */
size_t vc_head_steps(const struct vc_item *item, size_t k);

/* Bytes that an open head of the item takes at most. */
size_t vc_head_bytes(struct vc_item *item);

/* For the input of step k (n_steps: for the result). The steps have begun. Without steps to cover nothing is done. */
enum vc_status vc_head_open(struct vc_ctx *ctx, struct vc_item *item, size_t k, struct vc_head *head);

/* Makes a tile of what the last covered step makes; dst has room for it. Its parts are in vc_head_views until the next
 * call. Ascending tiles are cheap. */
enum vc_status vc_head_tile(struct vc_ctx *ctx, struct vc_head *head, const struct vc_tile *tile, void *dst);
const struct vc_part_view *vc_head_views(const struct vc_head *head);

/* Reads the rest of the source, so that its checksum is verified. */
enum vc_status vc_head_finish(struct vc_ctx *ctx, struct vc_head *head);
void vc_head_close(struct vc_ctx *ctx, struct vc_head *head);

#endif
