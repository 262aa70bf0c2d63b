/* mask_part.h - the mask of a pruned tensor as a part that its step makes, tile by tile: a bit per weight. Tiles may
 * end inside of a byte; such a byte goes out with the tile that brings its last bit. */
#pragma once

#include "core/chain/pass.h"

/* A byte that tiles share. */
struct vc_shared_byte {
    uint64_t place;
    uint8_t bits, seen;
};

struct vc_mask_part {
    bool made; /* the step makes the part */
    pthread_mutex_t mutex;
    size_t n_open, room;
    struct vc_shared_byte *open; /* those that still lack bits */
};

/* Adds the part to a step on n_tiles tiles. */
enum vc_status vc_mask_part_add(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step,
                                struct vc_mask_part *part, uint64_t n_tiles);
void vc_mask_part_release(struct vc_ctx *ctx, struct vc_mask_part *part); /* accepts zeros */

/* Scratch that one tile takes. */
#define VC_MASK_PART_SCRATCH (VC_TILE_ELEMS / 8 + 64)

/* Gives the bytes that are complete with this tile, whose first bit is bit `from` of `mask`. Thread-safe. */
enum vc_status vc_mask_part_give(struct vc_ctx *ctx, struct vc_mask_part *part, uint64_t n_elems,
                                 const struct vc_tile *tile, const uint8_t *mask, uint64_t from, uint8_t *scratch,
                                 struct vc_part_view *view);
