/* shapes.h - shapes of many tensors, most of which are a few: one that was seen lately is used again. */
#pragma once

#include "core/base/arena.h"

/* Starts as zeros. */
struct vc_shapes {
    struct {
        const uint64_t *dims;
        size_t n;
    } seen[64]; /* by hash */
};

/* The n dimensions, in the arena. NULL: no memory. */
const uint64_t *vc_shapes_keep(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_shapes *shapes,
                               const uint64_t *dims, size_t n);
