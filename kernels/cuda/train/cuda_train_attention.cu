/* cuda_train_attention.cu - training on the device: attention. The scores of many heads at a time, of one row of the batch or
 * of some whole rows (kv_per_part), are made by products into scratch; what lies between the products is done row by row, with
 * the sums of engine/loops/train_attention.h.
 *
 *     scratch   s [heads of the part, queries, keys]   backward also: dp, the same, and the slope of softcap; then, of a part
 *               of several rows, where each head's matrix begins in each array: addresses for one call of cuBLAS */
#include "kernels/arith.h"
#include "kernels/cuda/train/cuda_train.h"
#include "kernels/functions.h"

/* The heads whose scores are in scratch: from head `first` on, of all rows of the batch one after the other. */
struct part {
    uint64_t first, heads;
    uint64_t kv, kv_of_row; /* heads of keys: of the part, and of each of its rows */
    uint64_t group;         /* heads of queries that share a head of keys */
};

/* Keys that the CPU walks for a row, by its tile of queries: where lanes of sums end depends on it. */
static __device__ __forceinline__ uint64_t keys_of(const struct vc_args_attention *args, uint64_t query)
{
    uint64_t end = query / args->tile * args->tile + args->tile;

    end = VC_AT_MOST(end, args->queries);
    return args->causal ? VC_AT_MOST(end, args->keys) : args->keys;
}

/* softcap(s) + mask: what the row of key `key` at `at` comes to. */
static __device__ __forceinline__ float score_of(const struct vc_args_attention *args, uint64_t head, uint64_t query,
                                                 uint64_t key, float s, float *slope, const void *mask)
{
    float cap = (float)args->softcap;
    int64_t place = (int64_t)(head / args->heads) * args->mask_step[0] +
                    (int64_t)(head % args->heads) * args->mask_step[1] + (int64_t)query * args->mask_step[2] +
                    (int64_t)key * args->mask_step[3];

    if (cap > 0) {
        float v = vc_tanh_f32(s / cap);

        s = cap * v;
        if (slope != NULL) {
            *slope = 1 - v * v;
        }
    }
    if (args->causal && key > query) {
        return -vc_bits_f32(VC_F32_INF_BITS);
    }
    if (args->mask == VC_MASK_TRUTH) {
        return ((const int64_t *)mask)[place] != 0 ? s : -vc_bits_f32(VC_F32_INF_BITS);
    }
    return args->mask == VC_MASK_ADDED ? s + ((const float *)mask)[place] : s;
}

/* Rows of scores become probabilities, 0 where nothing is seen; sums: the logarithm of the sum of each row. `again`: they
 * are made from these. Each lane first makes its scores and the largest of them, which is the same in any order. */
static __global__ void probabilities_kernel(struct vc_args_attention args, struct part part, bool again, float *scores,
                                            float *slope, const void *mask, float *sums)
{
    VC_CUDA_SHARED(float, lanes, VC_CUDA_THREADS);

    VC_CUDA_EACH_ROW(row, part.heads * args.queries)
    {
        bool is = row < part.heads * args.queries;
        uint64_t query = row % args.queries;
        uint64_t n = is ? keys_of(&args, query) : 0;
        uint64_t whole = n / VC_CUDA_LANES_OF_SUM * VC_CUDA_LANES_OF_SUM;
        float *s = scores + (is ? row * args.keys : 0);
        float *saved = sums != NULL && is ? sums + part.first * args.queries + row : NULL;
        float most = -vc_bits_f32(VC_F32_INF_BITS);
        float lane = 0;
        float sum;

        for (uint64_t j = VC_CUDA_LANE; is && j < args.keys; j += VC_CUDA_LANES_OF_SUM) {
            s[j] = score_of(&args, part.first + row / args.queries, query, j, s[j],
                            slope != NULL ? slope + row * args.keys + j : NULL, mask);
            most = j < n && s[j] > most ? s[j] : most;
        }
        __syncthreads();
        lanes[threadIdx.x] = most;
        __syncthreads();
        /* A first score that is NaN stays the largest. */
        most = !is ? 0 : again ? *saved : s[0];
        for (unsigned k = 0; !again && k < VC_CUDA_LANES_OF_SUM; k++) {
            float other = lanes[threadIdx.x - VC_CUDA_LANE + k];

            most = other > most ? other : most;
        }
        __syncthreads(); /* all have read s[0] */
        for (uint64_t j = VC_CUDA_LANE; j < n; j += VC_CUDA_LANES_OF_SUM) {
            float e = most == -vc_bits_f32(VC_F32_INF_BITS) ? 0 : vc_exp_f32(s[j] - most);

            s[j] = e;
            lane += j < whole ? e : 0;
        }
        for (uint64_t j = n + VC_CUDA_LANE; is && j < args.keys; j += VC_CUDA_LANES_OF_SUM) {
            s[j] = 0;
        }
        sum = vc_cuda_add_lanes(lane, lanes);
        for (uint64_t j = whole; j < n; j++) {
            sum += s[j];
        }
        __syncthreads();
        for (uint64_t j = VC_CUDA_LANE; !again && j < n && most != -vc_bits_f32(VC_F32_INF_BITS);
             j += VC_CUDA_LANES_OF_SUM) {
            s[j] /= sum;
        }
        if (!again && saved != NULL && VC_CUDA_LANE == 0) {
            *saved = most == -vc_bits_f32(VC_F32_INF_BITS) ? vc_bits_f32(VC_F32_INF_BITS) : most + vc_log_f32(sum);
        }
    }
}

/* ds in the place of dp: p (dp - sum of dy y) scale, and the slope of softcap; without these two, in dmask, too. */
static __global__ void gradients_kernel(struct vc_args_attention args, struct part part, const float *y,
                                        const float *dy, const float *p, const float *slope, float *dp, float *dmask)
{
    VC_CUDA_SHARED(float, lanes, VC_CUDA_THREADS);

    VC_CUDA_EACH_ROW(row, part.heads * args.queries)
    {
        bool is = row < part.heads * args.queries;
        uint64_t head = part.first + row / args.queries;
        int64_t place = (int64_t)(head / args.heads) * args.y.batch + (int64_t)(head % args.heads) * args.y.head +
                        (int64_t)(row % args.queries) * args.y.row;
        uint64_t n = is ? keys_of(&args, row % args.queries) : 0;
        float sum = vc_cuda_norm_dot(y + (is ? place : 0), 0, dy + (is ? place : 0), 0, is ? args.v_size : 0, lanes);

        for (uint64_t j = VC_CUDA_LANE; is && j < args.keys; j += VC_CUDA_LANES_OF_SUM) {
            uint64_t at = row * args.keys + j;
            float d = j < n ? p[at] * (dp[at] - sum) : 0;

            if (dmask != NULL) {
                dmask[part.first * args.queries * args.keys + at] = d;
            }
            d *= (float)args.scale;
            dp[at] = slope != NULL ? d * slope[at] : d;
        }
    }
}

/* Where the matrices of an array lie, of the heads of the part: the first one, and the steps between rows of the batch, heads,
 * and the rows and columns of a matrix. */
struct side {
    const float *x;
    int64_t batch, head, row, column;
    bool shared;            /* heads of keys, which several heads of queries share */
    const float *const *at; /* device memory: the addresses of all of them; NULL: they are not needed */
};

/* Of a part, its sides; and the memory for their addresses, NULL where equal steps say all. */
#define SIDES VC_ATTENTION_SIDES
struct sides {
    struct side of[SIDES];
    unsigned n;
    const float **at;
};

/* Addresses of one array lie one after the other: of the first heads of all groups, of the second ones, and so on. */
static __global__ void addresses_kernel(struct sides sides, struct part part)
{
    VC_CUDA_EACH(i, sides.n * part.heads)
    {
        const struct side *side = &sides.of[i / part.heads];
        uint64_t group = i % part.heads / part.kv;
        uint64_t kv = i % part.kv;
        uint64_t head = side->shared ? kv % part.kv_of_row : kv % part.kv_of_row * part.group + group;

        sides.at[i] = side->x + (int64_t)(kv / part.kv_of_row) * side->batch + (int64_t)head * side->head;
    }
}

/* One more side of a part, by which its matrices are found from now on. */
static struct side *add_side(struct sides *sides, const struct part *part, struct side side)
{
    side.at = sides->at != NULL ? sides->at + sides->n * part->heads : NULL;
    sides->of[sides->n] = side;
    return &sides->of[sides->n++];
}

/* An array of the call. `shared`: heads of queries in a group read one head of keys or values. */
static struct side *side_of(struct sides *sides, const struct vc_args_attention *args, const struct part *part,
                            const void *base, const struct vc_heads *is, bool shared)
{
    uint64_t head = part->first % args->heads / (shared ? part->group : 1);
    struct side side = {(const float *)base + (int64_t)(part->first / args->heads) * is->batch +
                            (int64_t)head * is->head,
                        is->batch,
                        is->head,
                        is->row,
                        1,
                        shared,
                        NULL};

    return add_side(sides, part, side);
}

/* The scores of the part: rows of queries, columns of keys. */
static struct side *scores_side(struct sides *sides, const struct vc_args_attention *args, const struct part *part,
                                const float *x)
{
    int64_t n = (int64_t)(args->queries * args->keys);
    struct side side = {x, n * (int64_t)args->heads, n, (int64_t)args->keys, 1, false, NULL};

    return add_side(sides, part, side);
}

/* The matrix transposed: its steps change places. */
static struct side turned(const struct side *side)
{
    struct side to = *side;

    to.row = side->column;
    to.column = side->row;
    return to;
}

/* c = a b for every head of the part, or, where c is of heads of keys, the sum over those that share one. */
static int multiply(struct vc_cuda_session *s, const struct part *part, uint64_t m, uint64_t n, uint64_t k,
                    struct side a, struct side b, const struct side *c, float alpha, bool add)
{
    struct vc_cuda_product p = {};
    int result = cudaSuccess;

    p.m = m;
    p.n = n;
    p.k = k;
    p.a_row = a.row;
    p.a_column = a.column;
    p.b_row = b.row;
    p.b_column = b.column;
    p.c_row = c->row;
    p.alpha = alpha;
    p.n_batch = part->kv;
    p.n_inner = part->kv_of_row;
    p.a_step = a.shared ? a.head : a.head * (int64_t)part->group;
    p.b_step = b.shared ? b.head : b.head * (int64_t)part->group;
    p.c_step = c->shared ? c->head : c->head * (int64_t)part->group;
    p.a_outer = a.batch;
    p.b_outer = b.batch;
    p.c_outer = c->batch;
    for (uint64_t g = 0; g < part->group && result == cudaSuccess; g++) {
        uint64_t first = g * part->kv;

        p.a = a.x + (a.shared ? 0 : (int64_t)g * a.head);
        p.b = b.x + (b.shared ? 0 : (int64_t)g * b.head);
        p.c = (float *)(uintptr_t)c->x + (c->shared ? 0 : (int64_t)g * c->head);
        p.a_at = a.at != NULL ? a.at + first : NULL;
        p.b_at = b.at != NULL ? b.at + first : NULL;
        p.c_at = c->at != NULL ? (float *const *)(uintptr_t)(c->at + first) : NULL;
        p.add = add || (c->shared && g > 0);
        result = vc_cuda_multiply(s, &p);
    }
    return result;
}

/* Parts of the call: heads of one row of the batch, or whole rows. */
static struct part part_at(const struct vc_args_attention *args, uint64_t kv)
{
    uint64_t group = args->heads / args->kv_heads;
    uint64_t rows = args->kv_per_part / args->kv_heads;
    uint64_t n = rows == 0 ? VC_AT_MOST(args->kv_per_part, args->kv_heads - kv % args->kv_heads)
                           : VC_AT_MOST(rows * args->kv_heads, args->batch * args->kv_heads - kv);
    struct part part = {kv * group, n * group, n, VC_AT_MOST(n, args->kv_heads), group};

    return part;
}

/* No sides yet. Addresses lie behind n arrays of scores. */
static struct sides sides_at(const struct vc_cuda_session *s, const struct vc_args_attention *args,
                             const struct part *part, float *scores, uint64_t n)
{
    uint64_t reals = n * args->kv_per_part * part->group * args->queries * args->keys;
    struct sides sides = {};

    if (s->cublas != NULL && part->kv > args->kv_heads) {
        sides.at = (const float **)(void *)(scores + (reals + 1) / 2 * 2);
    }
    return sides;
}

/* The addresses of all sides, where they are needed. */
static int make_addresses(struct vc_cuda_session *s, const struct sides *sides, const struct part *part)
{
    if (sides->at != NULL) {
        VC_CUDA_ELEMENTS(s, addresses_kernel, sides->n * part->heads, *sides, *part);
    }
    return vc_cuda_launched();
}

/* The scores of a part by a product, and their probabilities. */
static int make_probabilities(struct vc_cuda_session *s, const struct vc_train_work *w, const struct part *part,
                              const struct side *q, const struct side *k, const struct side *scores, bool again,
                              float *slope, float *sums)
{
    const struct vc_args_attention *args = (const struct vc_args_attention *)w->call->args;
    int result;

    VC_CUDA_TRY(
        multiply(s, part, args->queries, args->keys, args->size, *q, turned(k), scores, (float)args->scale, false));
    VC_CUDA_ROWS(s, probabilities_kernel, part->heads * args->queries, *args, *part, again,
                 (float *)(uintptr_t)scores->x, slope, (const void *)w->call->p[3], sums);
    result = vc_cuda_launched();
out:
    return result;
}

/* Each part in three steps: scores, probabilities of each row, their product with the values. */
int vc_cuda_train_attention(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_attention *args = (const struct vc_args_attention *)w->call->args;
    void *const *p = w->call->p;
    float *scores = (float *)p[6];
    int result = cudaSuccess;

    for (uint64_t kv = 0; kv < args->batch * args->kv_heads;) {
        struct part part = part_at(args, kv);
        struct sides sides = sides_at(s, args, &part, scores, 1);
        struct side *q = side_of(&sides, args, &part, p[0], &args->q, false);
        struct side *k = side_of(&sides, args, &part, p[1], &args->k, true);
        struct side *v = side_of(&sides, args, &part, p[2], &args->v, true);
        struct side *y = side_of(&sides, args, &part, p[4], &args->y, false);
        struct side *of = scores_side(&sides, args, &part, scores);

        VC_CUDA_TRY(make_addresses(s, &sides, &part));
        VC_CUDA_TRY(make_probabilities(s, w, &part, q, k, of, false, NULL, (float *)p[5]));
        VC_CUDA_TRY(multiply(s, &part, args->queries, args->v_size, args->keys, *of, *v, y, 1, false));
        kv += part.kv;
    }
out:
    return result;
}

/* The gradients of queries, keys and values of a part, in this order: all three may be one array, of which the first one writes
 * what the others add to. Each head is of one part. */
static int part_backward(struct vc_cuda_session *s, const struct vc_train_work *w, const struct part *part)
{
    const struct vc_args_attention *args = (const struct vc_args_attention *)w->call->args;
    void *const *p = w->call->p;
    uint64_t n = args->kv_per_part * part->group * args->queries * args->keys;
    float *scores = (float *)p[10];
    float *slope = args->softcap > 0 ? scores + 2 * n : NULL;
    struct sides sides = sides_at(s, args, part, scores, slope != NULL ? 3 : 2);
    struct side *q = side_of(&sides, args, part, p[0], &args->q, false);
    struct side *k = side_of(&sides, args, part, p[1], &args->k, true);
    struct side *v = side_of(&sides, args, part, p[2], &args->v, true);
    struct side *dy = side_of(&sides, args, part, p[5], &args->y, false);
    struct side *dq = p[7] != NULL ? side_of(&sides, args, part, p[7], &args->q, false) : NULL;
    struct side *dk = p[8] != NULL ? side_of(&sides, args, part, p[8], &args->k, true) : NULL;
    struct side *dv = p[9] != NULL ? side_of(&sides, args, part, p[9], &args->v, true) : NULL;
    struct side *of = scores_side(&sides, args, part, scores);
    struct side *dp = scores_side(&sides, args, part, scores + n);
    int result;

    VC_CUDA_TRY(make_addresses(s, &sides, part));
    VC_CUDA_TRY(make_probabilities(s, w, part, q, k, of, true, slope, (float *)p[6]));
    if (dq != NULL || dk != NULL || p[11] != NULL) {
        VC_CUDA_TRY(multiply(s, part, args->queries, args->keys, args->v_size, *dy, turned(v), dp, 1, false));
        VC_CUDA_ROWS(s, gradients_kernel, part->heads * args->queries, *args, *part, (const float *)p[4],
                     (const float *)p[5], (const float *)scores, (const float *)slope, scores + n, (float *)p[11]);
        VC_CUDA_TRY(vc_cuda_launched());
    }
    if (dq != NULL) {
        VC_CUDA_TRY(multiply(s, part, args->queries, args->size, args->keys, *dp, *k, dq, 1, !args->clear_q));
    }
    if (dk != NULL) {
        VC_CUDA_TRY(multiply(s, part, args->keys, args->size, args->queries, turned(dp), *q, dk, 1, !args->clear_k));
    }
    if (dv != NULL) {
        VC_CUDA_TRY(multiply(s, part, args->keys, args->v_size, args->queries, turned(of), *dy, dv, 1, !args->clear_v));
    }
out:
    return result;
}

int vc_cuda_train_attention_backward(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_attention *args = (const struct vc_args_attention *)w->call->args;
    int result = cudaSuccess;

    for (uint64_t kv = 0; kv < args->batch * args->kv_heads;) {
        struct part part = part_at(args, kv);

        VC_CUDA_TRY(part_backward(s, w, &part));
        kv += part.kv;
    }
out:
    return result;
}
