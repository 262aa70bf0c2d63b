/* search_points.c - see search_points.h. */
#include "search/search_points.h"

#include "core/base/array.h"

static int by_bytes(const void *a, const void *b)
{
    const struct vc_search_point *x = a;
    const struct vc_search_point *y = b;

    return VC_FIRST_ORDER(VC_ORDER(x->bytes, y->bytes), VC_ORDER(x->error, y->error), VC_ORDER(x->number, y->number));
}

size_t vc_search_front(struct vc_search_point *points, size_t n)
{
    size_t n_left = 0;

    if (n != 0) {
        qsort(points, n, sizeof *points, by_bytes);
    }
    for (size_t i = 0; i < n; i++) {
        if (n_left == 0 || points[i].error < points[n_left - 1].error) {
            points[n_left++] = points[i];
        }
    }
    return n_left;
}
