/* fence.h - memory that tells when someone steps outside: poison before and after, an unmapped page at the end.
 *
 *     low                                                       high
 *     | ... | 64 bytes poison | data, n_bytes | poison, <= 64 | unmapped page */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define FENCE_BYTES  ((size_t)64)
#define FENCE_POISON 0xAA

enum placement {
    PLACE_END,     /* the last byte is the last one mapped */
    PLACE_SHIFTED, /* one byte off every alignment */
    PLACE_ALIGNED,
    PLACE_COUNT
};

/* Made once, placed anew for every trial. */
struct fence {
    unsigned char *low, *high; /* mapped */
    unsigned char *data;
    size_t n_bytes;
};

/* Room for max_bytes; false when the system refuses. */
bool fence_create(struct fence *fence, size_t max_bytes);
void fence_destroy(struct fence *fence);

/* Chooses where n_bytes lie, and poisons them and their surroundings; fence->data points to them. align_8: shifted by
 * 8 bytes instead of 1, for arrays of doubles. */
void fence_place(struct fence *fence, size_t n_bytes, enum placement placement, bool align_8);

/* Whether the surroundings are still poisoned. */
bool fence_intact(const struct fence *fence);
