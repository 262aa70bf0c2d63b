/* reshape_stage.h - runs the beginning of a chain, up to its last change of shape, and gives the result tile by tile.
 *
 * Steps that keep the shape make a tile of the same tile of their input, in any order. A step that regroups (removes
 * rows, say) needs other elements of its input, which other steps may have made. So everything up to the last such step
 * is done in order, by one thread at a time, and the steps after it are applied tile by tile as usual (steps.h):
 *
 *     source -> cast -> REMOVE ROWS -> int8 -> ...      k = 2: stage = {cast, remove rows}, steps 2, 3, ... by tiles
 *
 * A stage has a level for each step that regroups. A level holds one tile, the one of its step's input that was asked
 * for last; level 0 reads the source, level 1 is made of what the step of level 0 makes, and so on. Callers are the
 * executor (one stage per item, its workers in turns) and vc_tile_reader. */
#pragma once

#include "core/chain/source_reader.h"
#include "core/chain/steps.h"

struct vc_reshape_stage;

/* What a step that regroups gives to vc_step_read: the place of its input in the stage. */
struct vc_step_input {
    struct vc_reshape_stage *stage;
    size_t level;
};

struct vc_reshape_level {
    struct vc_step_input place;        /* what the step that regroups reads its input from */
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
typedef void vc_reshape_fn(void *user, const struct vc_item *item, size_t from, size_t to, const struct vc_tile *tile,
                           const struct vc_buffers *buffers);

struct vc_reshape_stage {
    struct vc_item *item;
    size_t n_steps; /* that it covers; 0: there is no stage, the source's own tiles are the input */
    size_t n_levels;
    struct vc_reshape_level *levels;
    struct vc_source_reader reader;
    uint64_t next_source; /* tile of the source that the reader stands before */
    uint64_t n_seen;      /* tiles of the source that went through the steps of level 0 */
    vc_reshape_fn *see;   /* the caller's; NULL: nobody wants the figures */
    void *user;
};

/* How many steps a stage for the input of step k covers: all up to the last one before k that regroups. */
size_t vc_reshape_steps(const struct vc_item *item, size_t k);

/* Bytes that an open stage of the item takes at most, for the plan of memory. Calls vc_buffer_sizes_add. */
size_t vc_reshape_bytes(struct vc_item *item);

/* Opens a stage for the input of step k (item->chain->n_steps: for the result). The steps have begun, and no other
 * thread works on the item (vc_buffer_sizes_add). Where no step before k regroups, stage->n_steps is 0 and there is
 * nothing to close. After a failure the stage is closed. */
enum vc_status vc_reshape_open(struct vc_ctx *ctx, struct vc_item *item, size_t k, struct vc_reshape_stage *stage);

/* Writes a tile of what the last covered step makes to dst, which has room for it; views of the parts that this step
 * made are in vc_reshape_views until the next call. Ascending tiles are cheap, going back reads the source again. */
enum vc_status vc_reshape_tile(struct vc_ctx *ctx, struct vc_reshape_stage *stage, const struct vc_tile *tile,
                               void *dst);
const struct vc_part_view *vc_reshape_views(const struct vc_reshape_stage *stage);

/* After the last tile: reads what no step asked for, so that every value is seen and the checksum is verified. */
enum vc_status vc_reshape_finish(struct vc_ctx *ctx, struct vc_reshape_stage *stage);
/* Frees everything. Also for a stage that is zeros or closed. */
void vc_reshape_close(struct vc_ctx *ctx, struct vc_reshape_stage *stage);
