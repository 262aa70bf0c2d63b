/* ops_pool.c - shapes of pools.
 *
 * Pools keep batch and channels; the other dimensions become numbers of windows (window.h). Attributes that change
 * values but no shapes are asked for all the same: an attribute that nobody asks for is a problem. */
#include "graph/ops/window.h"

/* ceil_mode adds a last window that begins inside and ends beyond the input (vc_window_count). */
static void infer_pool(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    bool ceil = vc_infer_int(in, "ceil_mode", 0) != 0;
    struct vc_dim shape[2 + VC_WINDOW_DIMS];
    struct vc_window_attrs w;

    if (!vc_infer_types(in, "f") || !vc_infer_rank(in, 0, 3, 2 + VC_WINDOW_DIMS) ||
        !vc_infer_window(in, x->n_dims - 2, NULL, &w)) {
        return;
    }
    shape[0] = x->shape[0];
    shape[1] = x->shape[1];
    for (unsigned k = 0; k < w.n; k++) {
        shape[2 + k] = vc_window_count(vc_infer_dims(in), &w, k, x->shape[2 + k], ceil);
    }
    vc_infer_out(in, 0, VC_DTYPE_F32, shape, x->n_dims);
}

void vc_infer_max_pool(struct vc_infer *in)
{
    vc_infer_int(in, "storage_order", 0); /* of the second output, which is not supported */
    infer_pool(in);
}

void vc_infer_average_pool(struct vc_infer *in)
{
    vc_infer_int(in, "count_include_pad", 0);
    infer_pool(in);
}

/* Over all spatial dimensions, which stay with size 1. */
static void infer_global(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];

    if (!vc_infer_types(in, "f") || !vc_infer_rank(in, 0, 2, VC_GRAPH_MAX_DIMS)) {
        return;
    }
    for (unsigned k = 0; k < x->n_dims; k++) {
        shape[k] = k < 2 ? x->shape[k] : vc_dim_number(1);
    }
    vc_infer_out(in, 0, VC_DTYPE_F32, shape, x->n_dims);
}

void vc_infer_global_average_pool(struct vc_infer *in)
{
    infer_global(in);
}

void vc_infer_global_max_pool(struct vc_infer *in)
{
    infer_global(in);
}
