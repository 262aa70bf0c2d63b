/* array.c - see array.h. The pointer to the array is copied with memcpy, since its type is the caller's. */
#include "core/base/array.h"

#include <string.h>

#define FIRST_CAPACITY 16

/* The old array: its items go to the new one, whose others become zeros. */
static void *replace(void *array, void *grown, size_t *capacity, size_t larger, size_t item_bytes)
{
    size_t n_bytes = *capacity * item_bytes;
    void *old;

    memcpy(&old, array, sizeof old);
    if (n_bytes != 0) {
        memcpy(grown, old, n_bytes);
    }
    memset((char *)grown + n_bytes, 0, larger * item_bytes - n_bytes);
    memcpy(array, &grown, sizeof grown);
    *capacity = larger;
    return old;
}

static size_t larger_capacity(size_t capacity, size_t need)
{
    size_t larger = capacity < FIRST_CAPACITY / 2 ? FIRST_CAPACITY : 2 * capacity;

    return larger < need ? need : larger;
}

enum vc_status vc_array_grow(struct vc_ctx *ctx, enum vc_tag tag, void *array, size_t *capacity, size_t need,
                             size_t item_bytes)
{
    size_t larger = larger_capacity(*capacity, need);
    void *grown;

    if (need <= *capacity) {
        return VC_OK;
    }
    grown = vc_alloc_array(ctx, tag, larger, item_bytes);
    if (grown == NULL) {
        return VC_E_NOMEM;
    }
    vc_free(ctx, replace(array, grown, capacity, larger, item_bytes));
    return VC_OK;
}

enum vc_status vc_arena_grow(struct vc_ctx *ctx, struct vc_arena *arena, void *array, size_t *capacity, size_t need,
                             size_t item_bytes)
{
    size_t larger = larger_capacity(*capacity, need);
    void *grown;

    if (need <= *capacity) {
        return VC_OK;
    }
    grown = larger <= SIZE_MAX / item_bytes ? vc_arena_alloc(ctx, arena, larger * item_bytes) : NULL;
    if (grown == NULL) {
        return vc_fail(ctx, VC_E_NOMEM, "cannot allocate %zu items of %zu bytes", larger, item_bytes);
    }
    (void)replace(array, grown, capacity, larger, item_bytes);
    return VC_OK;
}
