/* head.h - runs the beginning of a chain, up to its last change of shape, and gives the result tile by tile.
 *
 * Steps that keep the shape make a tile of the same tile of their input, in any order. A step that regroups (removes
 * rows, say) needs other elements of its input, which other steps may have made. So everything up to the last such step
 * is done in order, by one thread at a time, and the steps after it are applied tile by tile as usual (steps.h):
 *
 *     source -> cast -> REMOVE ROWS -> int8 -> ...      k = 2: head = {cast, remove rows}, steps 2, 3, ... by tiles
 *
 * A head has a level for each step that regroups. A level holds one tile, the one of its step's input that was asked
 * for last; level 0 reads the source, level 1 is made of what the step of level 0 makes, and so on. Callers are the
 * executor (one head per item, its workers in turns) and vc_fetch. */
#ifndef VC_CORE_HEAD_H
#define VC_CORE_HEAD_H

#include "core/chain/steps.h"
#include "core/chain/walk.h"

struct vc_head;

/* What a step that regroups gives to vc_step_read: the place of its input in the head. */
struct vc_reader {
    struct vc_head *head;
    size_t level;
};

struct vc_head_level {
    struct vc_reader reader;           /* what the step that regroups reads its input from */
    size_t first, step;                /* steps first..step-1 keep the shape; step regroups */
    uint64_t n_rows, row_len, n_tiles; /* of the input of those steps */
    struct vc_buffers buffers;
    struct vc_tile tile;        /* the one that is held, if `next` is not 0 */
    const void *data;           /* its elements, as the input of `step`; in `buffers` */
    uint64_t next;              /* number of the tile after it; 0: none is held */
    char *input;                /* levels but the first: a tile as the step of the level below makes it */
    struct vc_part_view *views; /* of the parts that `step` makes */
};

/* Gets the figures of steps from..to-1, which were applied to that tile of the source (buffers->figures). Called once
 * for every tile of the source, by the thread that asked for a tile, and for the steps of level 0 only: what is lossy
 * between two changes of shape is not measured. */
typedef void vc_head_fn(void *user, const struct vc_item *item, size_t from, size_t to, const struct vc_tile *tile,
                        const struct vc_buffers *buffers);

struct vc_head {
    struct vc_item *item;
    size_t n_steps; /* that it covers; 0: there is no head, the source's own tiles are the input */
    size_t n_levels;
    struct vc_head_level *levels;
    struct vc_walk walk;
    uint64_t next_source; /* tile of the source that the walk stands before */
    uint64_t n_seen;      /* tiles of the source that went through the steps of level 0 */
    vc_head_fn *see;      /* the caller's; NULL: nobody wants the figures */
    void *user;
};

/* How many steps a head for the input of step k covers: all up to the last one before k that regroups. */
size_t vc_head_steps(const struct vc_item *item, size_t k);

/* Bytes that an open head of the item takes at most, for the plan of memory. Calls vc_room_add. */
size_t vc_head_bytes(struct vc_item *item);

/* Opens a head for the input of step k (item->chain->n_steps: for the result). The steps have begun, and no other
 * thread works on the item (vc_room_add). Where no step before k regroups, head->n_steps is 0 and there is nothing to
 * close. After a failure the head is closed. */
enum vc_status vc_head_open(struct vc_ctx *ctx, struct vc_item *item, size_t k, struct vc_head *head);

/* Writes a tile of what the last covered step makes to dst, which has room for it; views of the parts that this step
 * made are in vc_head_views until the next call. Ascending tiles are cheap, going back reads the source again. */
enum vc_status vc_head_tile(struct vc_ctx *ctx, struct vc_head *head, const struct vc_tile *tile, void *dst);
const struct vc_part_view *vc_head_views(const struct vc_head *head);

/* After the last tile: reads what no step asked for, so that every value is seen and the checksum is verified. */
enum vc_status vc_head_finish(struct vc_ctx *ctx, struct vc_head *head);
/* Frees everything. Also for a head that is zeros or closed. */
void vc_head_close(struct vc_ctx *ctx, struct vc_head *head);

#endif
