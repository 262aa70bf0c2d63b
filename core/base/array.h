/* array.h - arrays that grow: a list of items, and how many it has room for; and where in a sorted one an item belongs.
 *
 *     VC_TRY(VC_GROW(ctx, VC_TAG_NAMES, list->names, list->capacity, list->n + 1));
 *     list->names[list->n++] = name; */
#pragma once

#include "core/base/arena.h"

/* Makes room for `need` items; does nothing if *capacity is at least `need`. Else the array, whose pointer `array`
 * points to (any type; NULL at first), is replaced by an array of at least twice as many items: the old items, then
 * zeros. Returns VC_E_NOMEM if memory is short; the array then stays as it was. */
enum vc_status vc_array_grow(struct vc_ctx *ctx, enum vc_tag tag, void *array, size_t *capacity, size_t need,
                             size_t item_bytes);
/* The same in an arena, where the old array stays until the arena goes. */
enum vc_status vc_arena_grow(struct vc_ctx *ctx, struct vc_arena *arena, void *array, size_t *capacity, size_t need,
                             size_t item_bytes);

/* The same with room for exactly `room` items, of which the new ones are not set: for long arrays, whose length is
 * nearly known, and for the short arrays of a million tensors. */
enum vc_status vc_array_reserve(struct vc_ctx *ctx, enum vc_tag tag, void *array, size_t *capacity, size_t room,
                                size_t item_bytes);
enum vc_status vc_arena_reserve(struct vc_ctx *ctx, struct vc_arena *arena, void *array, size_t *capacity, size_t room,
                                size_t item_bytes);

#define VC_GROW(ctx, tag, array, capacity, need) \
    vc_array_grow((ctx), (tag), &(array), &(capacity), (need), sizeof *(array))
#define VC_ARENA_GROW(ctx, arena, array, capacity, need) \
    vc_arena_grow((ctx), (arena), &(array), &(capacity), (need), sizeof *(array))
#define VC_RESERVE(ctx, tag, array, capacity, room) \
    vc_array_reserve((ctx), (tag), &(array), &(capacity), (room), sizeof *(array))
#define VC_ARENA_RESERVE(ctx, arena, array, capacity, room) \
    vc_arena_reserve((ctx), (arena), &(array), &(capacity), (room), sizeof *(array))

/* Sets the size_t `low` to the first index below n whose item does not come before the one that is sought, or to n:
 *
 *     VC_BISECT(low, list->n, k, list->items[k].at < at);
 *
 * `before`, an expression with the index `k`, is true up to some index and false from there on. */
#define VC_BISECT(low, n, k, before)                  \
    do {                                              \
        size_t vc_high = (n);                         \
        (low) = 0;                                    \
        while ((low) < vc_high) {                     \
            size_t k = (low) + (vc_high - (low)) / 2; \
            if (before) {                             \
                (low) = k + 1;                        \
            } else {                                  \
                vc_high = k;                          \
            }                                         \
        }                                             \
    } while (0)

/* For an order of qsort: negative where a comes before b, 0 where neither does. */
#define VC_ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* The first of some orders that is not 0: the weightiest comes first.
 *
 *     return VC_FIRST_ORDER(VC_ORDER(x->bytes, y->bytes), VC_ORDER(x->number, y->number)); */
#define VC_FIRST_ORDER(...) vc_first_order((const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static inline int vc_first_order(const int *orders, size_t n)
{
    size_t k = 0;

    while (k + 1 < n && orders[k] == 0) {
        k++;
    }
    return orders[k];
}

/* An order for qsort: the smaller double first. */
static inline int vc_order_f64(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;

    return *x < *y ? -1 : *x > *y;
}
