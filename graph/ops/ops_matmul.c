/* ops_matmul.c - shapes and multiply-adds of matrix products. */
#include "graph/ops/ops.h"

void vc_infer_matmul(struct vc_infer *in)
{
    const struct vc_graph_value *a = vc_infer_in(in, 0);
    const struct vc_graph_value *b = vc_infer_in(in, 1);
    struct vc_graph_value left = *a;
    struct vc_graph_value right = *b;
    struct vc_dims *dims = vc_infer_dims(in);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS + 2];
    struct vc_dim inner;
    unsigned n_dims;

    if (a->n_dims == 0 || b->n_dims == 0) {
        vc_infer_fail(in, "an input is a single number");
        return;
    }
    left.n_dims = a->n_dims > 1 ? a->n_dims - 2 : 0;
    right.n_dims = b->n_dims > 1 ? b->n_dims - 2 : 0;
    inner =
        vc_infer_same(in, "the inner dimensions", a->shape[a->n_dims - 1], b->shape[b->n_dims > 1 ? b->n_dims - 2 : 0]);
    if (in->failed || !vc_infer_broadcast(in, &left, &right, shape, &n_dims)) {
        return;
    }
    if (a->n_dims > 1) {
        shape[n_dims++] = a->shape[a->n_dims - 2];
    }
    if (b->n_dims > 1) {
        shape[n_dims++] = b->shape[b->n_dims - 1];
    }
    vc_infer_macs(in, vc_dim_multiply(dims, inner, vc_dim_product(dims, shape, n_dims)));
    vc_infer_out(in, 0, a->dtype, shape, n_dims);
}
