/* pack.h - buffers with lifetimes in one arena: what values of a network take. */
#pragma once

#include <vcompress/context.h>

/* A buffer that lives from step `first` to step `last`, both included. */
struct vc_buffer {
    uint64_t size_bytes;
    uint64_t first, last;
    uint64_t offset; /* set by vc_buffers_pack: bytes from the start of the arena */
};

struct vc_buffer_plan {
    uint64_t arena_bytes; /* size of the arena with these offsets */
    uint64_t live_bytes;  /* largest sum of buffers that live at one step, a lower bound of arena_bytes */
    uint64_t peak_step;   /* first step with this sum */
};

/* Gives every buffer an offset, a multiple of `align` (a power of two), so that buffers of the same step do not
 * overlap. Sizes are rounded up to `align`. Deterministic: largest buffers first, each into the smallest gap with
 * enough room. VC_E_ARGUMENT if sizes overflow or last < first. */
enum vc_status vc_buffers_pack(struct vc_ctx *ctx, struct vc_buffer *buffers, size_t n, uint64_t align,
                               struct vc_buffer_plan *out);
