/* array.h - arrays that grow: a list of items, and how many it has room for.
 *
 *     VC_TRY(VC_GROW(ctx, VC_TAG_NAMES, list->names, list->capacity, list->n + 1));
 *     list->names[list->n++] = name; */
#ifndef VC_CORE_ARRAY_H
#define VC_CORE_ARRAY_H

#include "core/base/arena.h"

/* Does nothing where *capacity is at least `need`. Else the array, whose pointer `array` points to (any type; NULL at
 * first), is replaced by one of at least twice as many items: the old ones, then zeros. VC_E_NOMEM: it is as it was. */
enum vc_status vc_array_grow(struct vc_ctx *ctx, enum vc_tag tag, void *array, size_t *capacity, size_t need,
                             size_t item_bytes);
/* The same in an arena, where the old array stays until the arena goes. */
enum vc_status vc_arena_grow(struct vc_ctx *ctx, struct vc_arena *arena, void *array, size_t *capacity, size_t need,
                             size_t item_bytes);

#define VC_GROW(ctx, tag, array, capacity, need) \
    vc_array_grow((ctx), (tag), &(array), &(capacity), (need), sizeof *(array))
#define VC_ARENA_GROW(ctx, arena, array, capacity, need) \
    vc_arena_grow((ctx), (arena), &(array), &(capacity), (need), sizeof *(array))

#endif
