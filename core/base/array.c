/* array.c - see array.h. The pointer to the array is copied with memcpy, since its type is the caller's. */
#include "core/base/array.h"

#define FIRST_CAPACITY 16

/* The first *capacity items of the array go to the larger one, which takes its place. Returns the old array. */
static void *replace(void *array, void *larger, size_t *capacity, size_t room, size_t item_bytes)
{
    void *old;

    memcpy(&old, array, sizeof old);
    if (*capacity != 0) {
        memcpy(larger, old, *capacity * item_bytes);
    }
    memcpy(array, &larger, sizeof larger);
    *capacity = room;
    return old;
}

static void clear(void *array, size_t first, size_t end, size_t item_bytes)
{
    char *items;

    memcpy(&items, array, sizeof items);
    memset(items + first * item_bytes, 0, (end - first) * item_bytes);
}

static size_t larger_capacity(size_t capacity, size_t need)
{
    size_t larger = capacity < FIRST_CAPACITY / 2 ? FIRST_CAPACITY : 2 * capacity;

    return larger < need ? need : larger;
}

enum vc_status vc_array_reserve(struct vc_ctx *ctx, enum vc_tag tag, void *array, size_t *capacity, size_t room,
                                size_t item_bytes)
{
    if (room <= *capacity) {
        return VC_OK;
    }
    void *larger = vc_alloc_array(ctx, tag, room, item_bytes);
    VC_CALL_ALLOC(larger);
    vc_free(ctx, replace(array, larger, capacity, room, item_bytes));
    return VC_OK;
}

enum vc_status vc_arena_reserve(struct vc_ctx *ctx, struct vc_arena *arena, void *array, size_t *capacity, size_t room,
                                size_t item_bytes)
{
    if (room <= *capacity) {
        return VC_OK;
    }
    VC_REFUSE_IF(room > SIZE_MAX / item_bytes, ctx, VC_E_NOMEM, "%zu items of %zu bytes do not fit an address space",
                 room, item_bytes);
    void *larger = vc_arena_alloc(ctx, arena, room * item_bytes);
    VC_CALL_ALLOC(larger);
    (void)replace(array, larger, capacity, room, item_bytes);
    return VC_OK;
}

enum vc_status vc_array_grow(struct vc_ctx *ctx, enum vc_tag tag, void *array, size_t *capacity, size_t need,
                             size_t item_bytes)
{
    size_t before = *capacity;
    enum vc_status status =
        need <= before ? VC_OK : vc_array_reserve(ctx, tag, array, capacity, larger_capacity(before, need), item_bytes);

    if (*capacity != before) {
        clear(array, before, *capacity, item_bytes);
    }
    return status;
}

enum vc_status vc_arena_grow(struct vc_ctx *ctx, struct vc_arena *arena, void *array, size_t *capacity, size_t need,
                             size_t item_bytes)
{
    size_t before = *capacity;
    enum vc_status status =
        need <= before ? VC_OK
                       : vc_arena_reserve(ctx, arena, array, capacity, larger_capacity(before, need), item_bytes);

    if (*capacity != before) {
        clear(array, before, *capacity, item_bytes);
    }
    return status;
}
