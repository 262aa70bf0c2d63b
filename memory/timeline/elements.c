/* elements.c - how many elements a value of a graph has, and how many rows. */
#include "core/base/checked.h"
#include "memory/timeline/timeline.h"

/* Elements of a value, at most VC_TOO_MANY; false: a dimension is not known. */
bool vc_count_elems(const struct vc_graph *graph, const struct vc_graph_value *value, uint64_t *n)
{
    *n = 1;
    for (unsigned k = 0; k < value->n_dims; k++) {
        int64_t size = vc_graph_dim_value(graph, value->shape[k]);

        if (size < 0) {
            return false;
        }
        if (!vc_mul_u64(*n, (uint64_t)size, n) || *n > VC_TOO_MANY) {
            *n = VC_TOO_MANY;
        }
    }
    return true;
}

/* The last axis is not counted: rows. */
uint64_t vc_count_rows(const struct vc_graph *graph, const struct vc_graph_value *value)
{
    uint64_t n = 0;
    int64_t last = value->n_dims == 0 ? 1 : vc_graph_dim_value(graph, value->shape[value->n_dims - 1]);

    return vc_count_elems(graph, value, &n) && last > 0 ? n / (uint64_t)last : 0;
}
