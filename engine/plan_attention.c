/* plan_attention.c - Attention and RotaryEmbedding.
 *
 *     block    TILE queries of one head: scores [tile, keys] in scratch, Softmax, times v
 *     saved    the logarithm of each row's sum (extra), from which the backward loop computes the probabilities again
 *
 * The matrix of scores [queries, keys] is never whole in memory on the processor; a device computes
 * kv_per_part heads at a time.
 *
 *     heads        q 8, k and v 2: each head of keys serves four of queries; the backward pass has a block for each of the two,
 *                  which adds up the gradients of its four in their order
 *     mask         added to the scores, or truth values; steps of 0 where it broadcasts
 *     causal       query i sees keys 0 to i
 */

#include "core/base/checked.h"
#include "engine/plan_ops.h"

#define TILE          96         /* queries whose scores are computed at a time: as many rows as a product packs */
#define DEVICE_SCORES (1u << 25) /* of a part of the heads, on a device ... */
#define DEVICE_ROWS   (1u << 22) /* ... of several rows of the batch, which fill a device with that many */
#define DEVICE_HEADS  (1u << 14) /* the same: heads of keys */

/* ---- where heads lie ---- */

/* Sizes of one operand, and the steps between batches, heads and rows in memory. */
struct split {
    uint64_t batch, heads, length, size;
    struct vc_heads is;
};

/* Queries, keys or values as heads, wherever they lie: [batch, heads, length, size], or [batch, length,
 * heads * size]. */
static struct split split_heads(const struct vc_plan_value *x, int64_t heads)
{
    struct split s = {.batch = (uint64_t)x->shape[0]};

    if (x->n_dims == 4) {
        s.heads = (uint64_t)x->shape[1];
        s.length = (uint64_t)x->shape[2];
        s.size = (uint64_t)x->shape[3];
        s.is.row = x->shape[3];
        s.is.head = x->shape[2] * s.is.row;
        s.is.batch = x->shape[1] * s.is.head;
    } else {
        s.heads = (uint64_t)heads;
        s.length = (uint64_t)x->shape[1];
        s.size = (uint64_t)(x->shape[2] / heads);
        s.is.row = x->shape[2];
        s.is.head = (int64_t)s.size;
        s.is.batch = x->shape[1] * s.is.row;
    }
    return s;
}

/* ---- Attention ---- */

/* Keys and values of earlier calls, as in generating text, are no part of training. */
static bool check_attention(struct vc_engine *e, uint32_t node)
{
    if (vc_plan_in(e, node, 4) != NULL || vc_plan_in(e, node, 5) != NULL) {
        vc_plan_fail(e, node, "it has keys and values of before, which are not supported");
        return false;
    }
    return vc_plan_one_output(e, node);
}

/* Steps of the mask over [batch, heads, queries, keys]; 0 where it broadcasts. */
static void mask_args(const struct vc_engine *e, uint32_t node, struct vc_args_attention *args)
{
    const struct vc_plan_value *mask = vc_plan_in(e, node, 3);

    if (mask != NULL) {
        args->mask = mask->real ? VC_MASK_ADDED : VC_MASK_TRUTH;
        vc_plan_steps(mask, 4, args->mask_step);
    }
}

/* Tiles of equal size, up to TILE. scratch: room for packing the largest product, and 1 to 3 arrays of
 * scores: probabilities, their gradients, and with a softcap the scores before it. */
static struct vc_args_attention *attention_args(struct vc_engine *e, uint32_t node, bool backward)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    struct split q = split_heads(vc_plan_in(e, node, 0), vc_node_int(n, "q_num_heads", 1));
    struct split k = split_heads(vc_plan_in(e, node, 1), vc_node_int(n, "kv_num_heads", 1));
    struct split v = split_heads(vc_plan_in(e, node, 2), vc_node_int(n, "kv_num_heads", 1));
    struct split y = split_heads(vc_plan_out(e, node, 0), (int64_t)q.heads);
    struct vc_args_attention *args = vc_plan_args(e, sizeof *args);

    if (args == NULL) {
        return NULL;
    }
    uint64_t tile = vc_plan_blocks(q.length, vc_plan_blocks(q.length, TILE)); /* of equal size */
    *args = (struct vc_args_attention){.batch = q.batch,
                                       .heads = q.heads,
                                       .kv_heads = k.heads,
                                       .queries = q.length,
                                       .keys = k.length,
                                       .size = q.size,
                                       .v_size = v.size,
                                       .q = q.is,
                                       .k = k.is,
                                       .v = v.is,
                                       .y = y.is,
                                       .causal = vc_node_int(n, "is_causal", 0) != 0,
                                       .scale = vc_node_float(n, "scale", 1 / sqrt((double)q.size)),
                                       .softcap = vc_node_float(n, "softcap", 0),
                                       .tile = tile};
    mask_args(e, node, args);
    args->scores = vc_max_u64(vc_product_scratch(tile, k.length, q.size), vc_product_scratch(tile, v.size, k.length));
    if (backward) {
        args->scores = vc_max_u64(args->scores, vc_product_scratch(k.length, v.size, tile));
        args->scores = vc_max_u64(args->scores, vc_product_scratch(k.length, q.size, tile));
        args->scores = vc_max_u64(args->scores, vc_product_scratch(tile, k.length, v.size));
        args->scores = vc_max_u64(args->scores, vc_product_scratch(tile, q.size, k.length));
    }
    args->scratch = args->scores + tile * k.length * (!backward ? 1 : args->softcap > 0 ? 3 : 2);
    if (e->options.device != NULL) {
        uint64_t group = q.heads / k.heads;
        uint64_t scores = group * q.length * k.length;
        uint64_t rows = VC_AT_MOST(VC_AT_MOST(DEVICE_ROWS / scores, DEVICE_HEADS) / k.heads, q.batch);
        uint64_t n_arrays = !backward ? 1 : args->softcap > 0 ? 3 : 2;

        args->kv_per_part = rows > 1 ? rows * k.heads : vc_max_u64(VC_AT_MOST(DEVICE_SCORES / scores, k.heads), 1);
        args->scratch = vc_max_u64(args->scratch,
                                   args->kv_per_part * scores * n_arrays + 1 +
                                       VC_ATTENTION_SIDES * args->kv_per_part * group * sizeof(void *) / sizeof(float));
    }
    return args;
}

/* Blocks are tiles of all heads of all batches: none writes where another does. */
void vc_train_forward_attention(struct vc_engine *e, uint32_t node)
{
    struct vc_plan_value *y = vc_plan_out(e, node, 0);
    struct vc_ref refs[7] = {{0}};

    if (!check_attention(e, node)) {
        return;
    }
    struct vc_args_attention *args = attention_args(e, node, false);
    if (args == NULL) {
        return;
    }
    for (unsigned k = 0; k < 4; k++) {
        refs[k] = vc_plan_data(e, node, k);
    }
    refs[4] = vc_plan_make(e, node, 0, false);
    if (y->trained) {
        y->extra = vc_plan_reals(e, args->batch * args->heads * args->queries);
        refs[5] = y->extra;
    }
    refs[6] = vc_plan_scratch(e, args->scratch);
    vc_plan_emit(e, node, VC_LOOP_attention,
                 (size_t)(args->batch * args->heads * vc_plan_blocks(args->queries, args->tile)), args, false, refs, 7);
}

/* The gradient of an added mask: gradients of scores, summed over what it broadcasts along (T5's bias over
 * the batch). */
static void mask_gradient(struct vc_engine *e, uint32_t node, const struct vc_args_attention *args, struct vc_ref from)
{
    const struct vc_plan_value *mask = vc_plan_in(e, node, 3);
    struct vc_strided s = {.kind = VC_SUM_A, .scale = 1, .n_dims = 4};
    int64_t step = 1;
    bool add;

    s.shape[0] = (int64_t)args->batch;
    s.shape[1] = (int64_t)args->heads;
    s.shape[2] = (int64_t)args->queries;
    s.shape[3] = (int64_t)args->keys;
    vc_plan_steps(mask, 4, s.step[0]);
    for (unsigned k = 4; k-- > 0;) {
        s.step[1][k] = step;
        step *= s.shape[k];
        s.reduced[k] = s.shape[k] != 1 && s.step[0][k] == 0;
    }
    s.refs[0] = vc_plan_grad_to(e, node, 3, false, &add);
    s.refs[1] = from;
    vc_plan_strided(e, node, &s, add);
}

/* Gradients that are the first to come are cleared by the loop, which adds to them tile by tile. */
void vc_train_backward_attention(struct vc_engine *e, uint32_t node)
{
    struct vc_args_attention *args = attention_args(e, node, true);
    struct vc_ref refs[12] = {{0}};
    bool add[3] = {true, true, true};

    if (args == NULL) {
        return;
    }
    for (unsigned k = 0; k < 4; k++) {
        refs[k] = vc_plan_data(e, node, k);
    }
    refs[4] = vc_plan_out(e, node, 0)->data;
    refs[5] = vc_plan_grad(e, node, 0);
    refs[6] = vc_plan_out(e, node, 0)->extra;
    for (unsigned k = 0; k < 3; k++) {
        if (vc_plan_trained(e, node, k)) {
            refs[7 + k] = vc_plan_grad_to(e, node, k, false, &add[k]);
        }
    }
    args->clear_q = !add[0];
    args->clear_k = !add[1];
    args->clear_v = !add[2];
    refs[10] = vc_plan_scratch(e, args->scratch);
    if (vc_plan_trained(e, node, 3)) { /* positions that are added to scores (T5): the only scores that are kept */
        refs[11] = vc_plan_reals(e, args->batch * args->heads * args->queries * args->keys);
    }
    vc_plan_emit(e, node, VC_LOOP_attention_backward, (size_t)(args->batch * args->kv_heads), args, false, refs, 12);
    if (vc_plan_trained(e, node, 3)) {
        mask_gradient(e, node, args, refs[11]);
    }
}

/* ---- RotaryEmbedding ---- */

/* Both ways: backward turns by the angle in the other direction. */
static void rotate(struct vc_engine *e, uint32_t node, bool back)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    const struct vc_plan_value *table = vc_plan_in(e, node, 1);
    struct split x = split_heads(vc_plan_in(e, node, 0), vc_node_int(n, "num_heads", 1));
    struct vc_args_rotary *args = vc_plan_args(e, sizeof *args);
    struct vc_ref refs[5];
    bool add = false;

    if (args == NULL) {
        return;
    }
    if (vc_plan_trained(e, node, 1) || vc_plan_trained(e, node, 2)) {
        vc_plan_fail(e, node, "its tables would have to be trained, which is not supported");
        return;
    }
    *args = (struct vc_args_rotary){.batch = x.batch,
                                    .heads = x.heads,
                                    .length = x.length,
                                    .size = x.size,
                                    .half = (uint64_t)table->shape[table->n_dims - 1],
                                    .x = x.is,
                                    .interleaved = vc_node_int(n, "interleaved", 0) != 0,
                                    .back = back,
                                    .node = node,
                                    .fault = &e->fault};
    args->rows = table->n / args->half;
    refs[0] = back ? vc_plan_grad(e, node, 0) : vc_plan_data(e, node, 0);
    for (unsigned k = 1; k < 4; k++) {
        refs[k] = vc_plan_data(e, node, k);
    }
    refs[4] = back ? vc_plan_grad_to(e, node, 0, true, &add) : vc_plan_make(e, node, 0, true);
    vc_plan_emit(e, node, VC_LOOP_rotary, (size_t)(x.batch * x.length), args, add, refs, 5);
}

void vc_train_forward_rotary_embedding(struct vc_engine *e, uint32_t node)
{
    rotate(e, node, false);
}

void vc_train_backward_rotary_embedding(struct vc_engine *e, uint32_t node)
{
    if (vc_plan_trained(e, node, 0)) {
        rotate(e, node, true);
    }
}
