/* arena.h - many small things that live as long as a job and are freed at once: names, shapes, reasons. */
#pragma once

#include "core/base/ctx.h"

struct vc_arena {
    struct vc_arena_chunk *chunks;
    size_t used, capacity; /* of the first chunk */
};

void vc_arena_release(struct vc_ctx *ctx, struct vc_arena *arena);

/* vc_arena_release where the scope of an arena ends: VC_SCOPED_ARENA struct vc_arena arena = {NULL, 0, 0}; */
#define VC_SCOPED_ARENA VC_CLEANUP(vc_arena_end)
void vc_arena_end(struct vc_arena *arena);

void *vc_arena_alloc(struct vc_ctx *ctx, struct vc_arena *arena, size_t size);            /* aligned to 8 */
char *vc_arena_copy(struct vc_ctx *ctx, struct vc_arena *arena, const char *s, size_t n); /* n bytes and a '\0' */
char *vc_arena_printf(struct vc_ctx *ctx, struct vc_arena *arena, const char *format, ...) VC_PRINTF(3, 4);
char *vc_arena_vprintf(struct vc_ctx *ctx, struct vc_arena *arena, const char *format, va_list args) VC_PRINTF(3, 0);
