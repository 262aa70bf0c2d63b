/* ops_matmul.c - shapes and multiply-adds of matrix products. */
#include "graph/ops/ops.h"

/* NumPy's matmul: stacks of matrices broadcast; a vector on the left is a row, on the right a column, and that
 * dimension is not in the output.
 *     [batch, 12, 7, 64] x [64, 7]     ->     [batch, 12, 7, 7], macs 64 * (batch * 12 * 7 * 7)
 */
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

    if (!vc_infer_types(in, "nx")) {
        return;
    }
    VC_LEAVE_IF(a->n_dims == 0 || b->n_dims == 0, vc_infer_fail(in, "an input is a single number"));
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

/* transA and transB swap the two dimensions of A and B; C broadcasts to the product and must not make it larger. */
void vc_infer_gemm(struct vc_infer *in)
{
    const struct vc_graph_value *a = vc_infer_in(in, 0);
    const struct vc_graph_value *b = vc_infer_in(in, 1);
    const struct vc_graph_value *c = vc_infer_in(in, 2);
    bool swap_a = vc_infer_int(in, "transA", 0) != 0;
    bool swap_b = vc_infer_int(in, "transB", 0) != 0;
    struct vc_dims *dims = vc_infer_dims(in);
    struct vc_dim shape[2];
    struct vc_dim all[VC_GRAPH_MAX_DIMS];
    struct vc_graph_value product = {.name = "the product", .shape = shape, .n_dims = 2};
    unsigned n_dims;

    vc_infer_float(in, "alpha", 1);
    vc_infer_float(in, "beta", 1);
    if (!vc_infer_types(in, "f") || !vc_infer_rank(in, 0, 2, 2) || !vc_infer_rank(in, 1, 2, 2) ||
        !vc_infer_rank(in, 2, 0, 2)) {
        return;
    }
    shape[0] = a->shape[swap_a];
    shape[1] = b->shape[!swap_b];
    struct vc_dim inner = vc_infer_same(in, "the inner dimensions", a->shape[!swap_a], b->shape[swap_b]);
    if (c != NULL && !in->failed && vc_infer_broadcast(in, &product, c, all, &n_dims)) {
        vc_infer_same(in, "'c' and the product", shape[0], all[0]);
        vc_infer_same(in, "'c' and the product", shape[1], all[1]);
    }
    vc_infer_macs(in, vc_dim_multiply(dims, inner, vc_dim_product(dims, shape, 2)));
    vc_infer_out(in, 0, VC_DTYPE_F32, shape, 2);
}
