/* ops_einsum.c - shapes and multiply-adds of Einsum.
 *
 * A label has one size in all inputs, where 1 broadcasts. Multiply-adds: n - 1 multiplications for each combination
 * of all labels. */
#include "graph/ops/einsum.h"

/* The size that a label has in one more input; 1 broadcasts. */
static void meet(struct vc_infer *in, struct vc_dim *size, struct vc_dim other)
{
    if (vc_dim_is(*size, 1)) {
        *size = other;
    } else if (!vc_dim_is(other, 1)) {
        *size = vc_infer_same(in, "sizes of the same letter", *size, other);
    }
}

/* Stages: number of dimensions of each input, the equation, sizes of labels, the output in the order of its
 * labels. */
void vc_infer_einsum(struct vc_infer *in)
{
    struct vc_dims *dims = vc_infer_dims(in);
    const char *equation = vc_infer_string(in, "equation", "");
    unsigned n = vc_infer_n_in(in);
    unsigned n_dims[VC_EINSUM_INPUTS] = {0};
    struct vc_dim size[VC_EINSUM_LABELS];
    struct vc_dim shape[VC_EINSUM_LABELS];
    struct vc_einsum e;

    for (unsigned k = 0; k < n && k < VC_EINSUM_INPUTS; k++) {
        VC_LEAVE_IF(vc_infer_in(in, k) == NULL, vc_infer_fail(in, "input %u is missing", k));
        n_dims[k] = vc_infer_in(in, k)->n_dims;
    }
    VC_LEAVE_IF(!vc_infer_has(in, "equation"), vc_infer_fail(in, "the attribute equation is missing"));
    const char *wrong = vc_einsum_parse(equation, n, n_dims, &e);
    VC_LEAVE_IF(wrong != NULL || !vc_infer_types(in, "f"),
                vc_infer_fail(in, "the equation '%.60s' %s", equation, wrong != NULL ? wrong : ""));
    for (unsigned k = 0; k < VC_EINSUM_LABELS; k++) {
        size[k] = vc_dim_number(1);
    }
    for (unsigned k = 0; k < n; k++) {
        for (unsigned d = 0; d < n_dims[k]; d++) {
            meet(in, &size[e.labels[k][d]], vc_infer_in(in, k)->shape[d]);
        }
    }
    for (unsigned k = 0; k < e.n_labels; k++) {
        shape[k] = size[e.order[k]];
    }
    if (n > 1) {
        vc_infer_macs(in,
                      vc_dim_multiply(dims, vc_dim_number((int64_t)n - 1), vc_dim_product(dims, shape, e.n_labels)));
    }
    vc_infer_out(in, 0, VC_DTYPE_F32, shape, e.n_out);
}
