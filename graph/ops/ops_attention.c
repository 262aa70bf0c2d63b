/* ops_attention.c - shapes and multiply-adds of attention, and of rotary positions.
 *
 * ONNX's Attention takes [batch, heads, length, size], or [batch, length, heads * size] with the numbers of heads
 * as attributes. Queries may have a multiple of the heads that keys and values have (grouped-query attention).
 *
 *     q [1, 12, 7, 64]  k, v [1, 4, 7, 64]  past [1, 4, 20, 64]     present [1, 4, 27, 64], scores [1, 12, 7, 27]
 */
#include "graph/ops/ops.h"

/* Input k as [batch, heads, length, size] in shape[]. An input of four dimensions is taken as it is, and `heads` is
 * ignored. */
static bool split_heads(struct vc_infer *in, unsigned k, int64_t heads, struct vc_dim *shape)
{
    const struct vc_graph_value *x = vc_infer_in(in, k);

    if (x->n_dims == 4) {
        for (unsigned d = 0; d < 4; d++) {
            shape[d] = x->shape[d];
        }
        return true;
    }
    VC_LEAVE_WITH(heads < 1,
                  vc_infer_fail(in, "'%s' has three dimensions, and the number of heads is missing", x->name), false);
    VC_LEAVE_WITH(vc_dim_is_number(x->shape[2]) && x->shape[2].size % heads != 0,
                  vc_infer_fail(in, "'%s': %lld cannot be divided into %lld heads", x->name,
                                (long long)x->shape[2].size, (long long)heads),
                  false);
    shape[0] = x->shape[0];
    shape[1] = vc_dim_number(heads);
    shape[2] = x->shape[1];
    shape[3] = vc_dim_divide(vc_infer_dims(in), x->shape[2], vc_dim_number(heads));
    return true;
}

/* The mask broadcasts to the scores [batch, heads, queries, keys], aligned at the last dimension. */
static void check_mask(struct vc_infer *in, const struct vc_dim *q, struct vc_dim keys)
{
    const struct vc_graph_value *mask = vc_infer_in(in, 3);
    struct vc_dim scores[4] = {q[0], q[1], q[2], keys};

    if (mask == NULL) {
        return;
    }
    if (mask->dtype == VC_DTYPE_I64) {
        vc_infer_fail(in, "the mask '%s' has integers; it has to be of truth values or floats", mask->name);
        return;
    }
    for (unsigned k = 0; k < mask->n_dims && k < 4; k++) {
        struct vc_dim size = mask->shape[mask->n_dims - 1 - k];

        if (!vc_dim_is(size, 1)) {
            vc_infer_same(in, "the mask and the scores", size, scores[3 - k]);
        }
    }
}

/* Input `past`, joined along the length with the keys or values of this call; shape[] becomes the joined shape,
 * which is also output `present`. */
static void join_past(struct vc_infer *in, unsigned past, struct vc_dim *shape, unsigned present)
{
    const struct vc_graph_value *x = vc_infer_in(in, past);

    if (x != NULL) {
        for (unsigned k = 0; k < 4; k++) {
            shape[k] = k == 2 ? vc_dim_add(vc_infer_dims(in), x->shape[2], shape[2])
                              : vc_infer_same(in, "the shapes of past and present", x->shape[k], shape[k]);
        }
    }
    vc_infer_out(in, present, VC_DTYPE_F32, shape, 4);
}

/* Multiply-adds: each score costs q[3] for the product with a key and v[3] for the value. */
void vc_infer_attention(struct vc_infer *in)
{
    struct vc_dims *dims = vc_infer_dims(in);
    struct vc_graph_value queries = *vc_infer_in(in, 0);
    int64_t q_heads = vc_infer_int(in, "q_num_heads", 0);
    int64_t kv_heads = vc_infer_int(in, "kv_num_heads", 0);
    struct vc_dim q[4];
    struct vc_dim k[4];
    struct vc_dim v[4];
    struct vc_dim shape[4];

    vc_infer_int(in, "is_causal", 0);
    vc_infer_float(in, "scale", 0);
    vc_infer_float(in, "softcap", 0);
    vc_infer_int(in, "softmax_precision", 0);
    vc_infer_int(in, "qk_matmul_output_mode", 0); /* of the fourth output, which is not supported */
    if (!vc_infer_types(in, "fffaf") || !vc_infer_rank(in, 0, 3, 4) ||
        !vc_infer_rank(in, 1, queries.n_dims, queries.n_dims) ||
        !vc_infer_rank(in, 2, queries.n_dims, queries.n_dims) || !vc_infer_rank(in, 3, 1, 4) ||
        !vc_infer_rank(in, 4, 4, 4) || !vc_infer_rank(in, 5, 4, 4)) {
        return;
    }
    VC_LEAVE_IF((vc_infer_in(in, 4) != NULL) != (vc_infer_in(in, 5) != NULL),
                vc_infer_fail(in, "the keys and the values of before are given together or not at all"));
    if (!split_heads(in, 0, q_heads, q) || !split_heads(in, 1, kv_heads, k) || !split_heads(in, 2, kv_heads, v)) {
        return;
    }
    vc_infer_same(in, "the batches of queries and keys", q[0], k[0]);
    vc_infer_same(in, "the batches of keys and values", k[0], v[0]);
    vc_infer_same(in, "the heads of keys and values", k[1], v[1]);
    vc_infer_same(in, "the sizes of queries and keys", q[3], k[3]);
    vc_infer_same(in, "the lengths of keys and values", k[2], v[2]);
    if (vc_dim_is_number(q[1]) && vc_dim_is_number(k[1]) && (k[1].size < 1 || q[1].size % k[1].size != 0)) {
        vc_infer_fail(in, "%lld heads of queries cannot share %lld heads of keys", (long long)q[1].size,
                      (long long)k[1].size);
    }
    join_past(in, 4, k, 1);
    join_past(in, 5, v, 2);
    check_mask(in, q, k[2]);
    if (in->failed) {
        return;
    }
    struct vc_dim scores = vc_dim_multiply(dims, vc_dim_product(dims, q, 3), k[2]);
    vc_infer_macs(in, vc_dim_multiply(dims, scores, vc_dim_add(dims, q[3], v[3])));
    shape[0] = q[0];
    shape[1] = queries.n_dims == 4 ? q[1] : q[2];
    shape[2] = queries.n_dims == 4 ? q[2] : vc_dim_multiply(dims, q[1], v[3]);
    shape[3] = v[3];
    vc_infer_out(in, 0, VC_DTYPE_F32, shape, queries.n_dims);
}

/* Tables of cosines and sines are [positions, half] with the numbers of positions as input 3, or [batch, length,
 * half] without. half is a half of the elements that rotate: rotary_embedding_dim, 0 for all of a head. */
void vc_infer_rotary_embedding(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const struct vc_graph_value *at = vc_infer_in(in, 3);
    int64_t heads = vc_infer_int(in, "num_heads", 0);
    int64_t part = vc_infer_int(in, "rotary_embedding_dim", 0);
    unsigned rank = at != NULL ? 2 : 3;
    struct vc_dim of[4];
    struct vc_dim half;

    vc_infer_int(in, "interleaved", 0);
    if (!vc_infer_types(in, "fffi") || !vc_infer_rank(in, 0, 3, 4) || !vc_infer_rank(in, 1, rank, rank) ||
        !vc_infer_rank(in, 2, rank, rank) || !vc_infer_rank(in, 3, 2, 2) || !split_heads(in, 0, heads, of)) {
        return;
    }
    VC_LEAVE_IF(
        part < 0 || (vc_dim_is_number(of[3]) && (part == 0 ? of[3].size : part) % 2 != 0) ||
            (vc_dim_is_number(of[3]) && part > of[3].size),
        vc_infer_fail(in, "%lld of %lld elements cannot be rotated in pairs", (long long)part, (long long)of[3].size));
    half = part != 0 ? vc_dim_number(part / 2) : vc_dim_divide(vc_infer_dims(in), of[3], vc_dim_number(2));
    for (unsigned k = 1; k < 3; k++) {
        const struct vc_graph_value *table = vc_infer_in(in, k);

        vc_infer_same(in, "half of what is rotated and the tables", half, table->shape[rank - 1]);
        if (at == NULL) {
            vc_infer_same(in, "the batches of the input and the tables", of[0], table->shape[0]);
            vc_infer_same(in, "the lengths of the input and the tables", of[2], table->shape[1]);
        }
    }
    if (at != NULL) {
        vc_infer_same(in, "the batches of the input and the positions", of[0], at->shape[0]);
        vc_infer_same(in, "the lengths of the input and the positions", of[2], at->shape[1]);
    }
    vc_infer_out(in, 0, x->dtype, x->shape, x->n_dims);
}
