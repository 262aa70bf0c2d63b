/* arena.c - see arena.h. Chunks of 16 KiB, or one of its own for something larger. */
#include "core/base/arena.h"

#define CHUNK_BYTES ((size_t)16 << 10)

struct vc_arena_chunk {
    struct vc_arena_chunk *next;
    uint64_t align;
    char data[];
};

void vc_arena_release(struct vc_ctx *ctx, struct vc_arena *arena)
{
    while (arena->chunks != NULL) {
        struct vc_arena_chunk *chunk = arena->chunks;

        arena->chunks = chunk->next;
        vc_free(ctx, chunk);
    }
    arena->used = 0;
    arena->capacity = 0;
}

void vc_arena_end(struct vc_arena *arena)
{
    for (struct vc_arena_chunk *next, *chunk = arena->chunks; chunk != NULL; chunk = next) {
        next = chunk->next;
        vc_free_at(&chunk);
    }
}

/* The next bytes of the chunk, or of a new one. */
static void *take(struct vc_ctx *ctx, struct vc_arena *arena, size_t size)
{
    struct vc_arena_chunk *chunk;

    if (arena->chunks == NULL || arena->used > arena->capacity || size > arena->capacity - arena->used) {
        size_t capacity = size > CHUNK_BYTES || vc_pool_fails(ctx->shared->pool) ? size : CHUNK_BYTES;

        chunk = vc_alloc(ctx, VC_TAG_NAMES, sizeof *chunk + capacity);
        if (chunk == NULL) {
            return NULL;
        }
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->used = 0;
        arena->capacity = capacity;
    }
    void *p = arena->chunks->data + arena->used;
    arena->used += size;
    return p;
}

void *vc_arena_alloc(struct vc_ctx *ctx, struct vc_arena *arena, size_t size)
{
    arena->used = (arena->used + 7) & ~(size_t)7;
    return take(ctx, arena, size);
}

/* Strings need no alignment. */
char *vc_arena_copy(struct vc_ctx *ctx, struct vc_arena *arena, const char *s, size_t n)
{
    char *copy = take(ctx, arena, n + 1);

    if (copy != NULL) {
        memcpy(copy, s, n);
        copy[n] = '\0';
    }
    return copy;
}

char *vc_arena_vprintf(struct vc_ctx *ctx, struct vc_arena *arena, const char *format, va_list args)
{
    va_list again;

    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *s = take(ctx, arena, (size_t)(n < 0 ? 0 : n) + 1);
    if (s != NULL) {
        (void)vsnprintf(s, (size_t)(n < 0 ? 0 : n) + 1, format, args);
    }
    return s;
}

char *vc_arena_printf(struct vc_ctx *ctx, struct vc_arena *arena, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    char *s = vc_arena_vprintf(ctx, arena, format, args);
    va_end(args);
    return s;
}
