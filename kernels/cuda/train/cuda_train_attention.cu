/* cuda_train_attention.cu - training on the device: attention. The scores of some heads of keys at a time (kv_per_part)
 * are made by products into scratch; what lies between the products is done row by row, with the sums of
 * engine/loops/train_attention.h.
 *
 *     scratch   s [heads of the part, queries, keys]   backward also: dp, the same, and the slope of softcap */
#include "kernels/arith.h"
#include "kernels/cuda/train/cuda_train.h"
#include "kernels/functions.h"

/* The heads whose scores are in scratch. */
struct part {
    uint64_t batch, head, heads; /* from head `head` on */
};

/* Keys that the CPU walks for a row, by its tile of queries: where lanes of sums end depends on it. */
static __device__ __forceinline__ uint64_t keys_of(const struct vc_args_attention *args, uint64_t query)
{
    uint64_t end = query / args->tile * args->tile + args->tile;

    end = VC_AT_MOST(end, args->queries);
    return args->causal ? VC_AT_MOST(end, args->keys) : args->keys;
}

/* softcap(s) + mask, for every score of the part. */
static __global__ void scores_kernel(struct vc_args_attention args, struct part part, float *scores, float *slope,
                                     const void *mask)
{
    float cap = (float)args.softcap;

    VC_CUDA_EACH(at, part.heads * args.queries * args.keys)
    {
        uint64_t key = at % args.keys;
        uint64_t query = at / args.keys % args.queries;
        uint64_t head = part.head + at / args.keys / args.queries;
        int64_t place = (int64_t)part.batch * args.mask_step[0] + (int64_t)head * args.mask_step[1] +
                        (int64_t)query * args.mask_step[2] + (int64_t)key * args.mask_step[3];
        float s = scores[at];

        if (cap > 0) {
            float v = vc_tanh_f32(s / cap);

            s = cap * v;
            if (slope != NULL) {
                slope[at] = 1 - v * v;
            }
        }
        if (args.causal && key > query) {
            s = -vc_bits_f32(VC_F32_INF_BITS);
        } else if (args.mask == VC_MASK_TRUTH) {
            s = ((const int64_t *)mask)[place] != 0 ? s : -vc_bits_f32(VC_F32_INF_BITS);
        } else if (args.mask == VC_MASK_ADDED) {
            s += ((const float *)mask)[place];
        }
        scores[at] = s;
    }
}

/* Rows of scores become probabilities, 0 where nothing is seen; sums: the logarithm of the sum of each row. `sums`
 * given: they are made again from it. */
static __global__ void probabilities_kernel(struct vc_args_attention args, struct part part, bool again, float *scores,
                                            float *sums)
{
    VC_CUDA_SHARED(float, lanes, VC_CUDA_THREADS);

    VC_CUDA_EACH_ROW(row, part.heads * args.queries)
    {
        bool is = row < part.heads * args.queries;
        uint64_t n = is ? keys_of(&args, row % args.queries) : 0;
        uint64_t whole = n / VC_CUDA_LANES_OF_SUM * VC_CUDA_LANES_OF_SUM;
        float *s = scores + (is ? row * args.keys : 0);
        float *saved = sums != NULL && is ? sums + (part.batch * args.heads + part.head) * args.queries + row : NULL;
        float most = is ? s[0] : 0;
        float lane = 0;
        float sum;

        if (again) {
            most = is ? *saved : 0;
        } else {
            for (uint64_t j = 1; j < n; j++) {
                most = s[j] > most ? s[j] : most;
            }
        }
        __syncthreads(); /* all have read the row */
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
        uint64_t head = part.head + row / args.queries;
        int64_t place = (int64_t)part.batch * args.y.batch + (int64_t)head * args.y.head +
                        (int64_t)(row % args.queries) * args.y.row;
        uint64_t n = is ? keys_of(&args, row % args.queries) : 0;
        float sum = vc_cuda_norm_dot(y + (is ? place : 0), 0, dy + (is ? place : 0), 0, is ? args.v_size : 0, lanes);

        for (uint64_t j = VC_CUDA_LANE; is && j < args.keys; j += VC_CUDA_LANES_OF_SUM) {
            uint64_t at = row * args.keys + j;
            float d = j < n ? p[at] * (dp[at] - sum) : 0;

            if (dmask != NULL) {
                dmask[((part.batch * args.heads + part.head) * args.queries) * args.keys + at] = d;
            }
            d *= (float)args.scale;
            dp[at] = slope != NULL ? d * slope[at] : d;
        }
    }
}

/* Zeros for rows of heads, wherever they lie. */
static __global__ void clear_kernel(struct vc_heads is, uint64_t batch, uint64_t heads, uint64_t rows, uint64_t size,
                                    float *x)
{
    VC_CUDA_EACH(i, batch * heads * rows * size)
    {
        x[(int64_t)(i / size / rows / heads) * is.batch + (int64_t)(i / size / rows % heads) * is.head +
          (int64_t)(i / size % rows) * is.row + (int64_t)(i % size)] = 0;
    }
}

/* Zeros what products add to, head by head, since heads may lie in a joined array. */
static int clear(struct vc_cuda_session *s, const struct vc_args_attention *args, const struct vc_heads *is,
                 uint64_t heads, uint64_t rows, uint64_t size, void *x)
{
    if (x != NULL) {
        VC_CUDA_ELEMENTS(s, clear_kernel, args->batch * heads * rows * size, *is, args->batch, heads, rows, size,
                         (float *)x);
    }
    return vc_cuda_launched();
}

/* Where head `head` begins. */
static const float *at(const void *base, const struct vc_heads *is, uint64_t batch, uint64_t head)
{
    return (const float *)base + (int64_t)batch * is->batch + (int64_t)head * is->head;
}

/* One operand of the products of a part: how its matrices lie, and what is from head to head. */
struct side {
    const float *x; /* of the first head of the part */
    int64_t row, column, step;
    bool shared; /* heads of keys, which several heads of queries share */
};

/* A matrix of one head. `shared`: heads of queries in a group read one head of keys or values. */
static struct side side_of(const void *base, const struct vc_heads *is, const struct part *part, uint64_t group,
                           bool shared)
{
    struct side side = {at(base, is, part->batch, shared ? part->head / group : part->head), is->row, 1, is->head,
                        shared};

    return side;
}

/* The scores of the part: rows of queries, columns of keys. */
static struct side scores_side(const struct vc_args_attention *args, const float *x)
{
    struct side side = {x, (int64_t)args->keys, 1, (int64_t)(args->queries * args->keys), false};

    return side;
}

/* The matrix transposed: its steps change places. */
static struct side turned(struct side side)
{
    int64_t row = side.row;

    side.row = side.column;
    side.column = row;
    return side;
}

/* c = a b for every head of the part, or, where c is of heads of keys, the sum over those that share one. */
static int multiply(struct vc_cuda_session *s, const struct part *part, uint64_t group, uint64_t m, uint64_t n,
                    uint64_t k, struct side a, struct side b, struct side c, float alpha, bool add)
{
    struct vc_cuda_product p = {};
    uint64_t heads = part->heads / group; /* of keys */
    int result = cudaSuccess;

    p.m = m;
    p.n = n;
    p.k = k;
    p.a_row = a.row;
    p.a_column = a.column;
    p.b_row = b.row;
    p.b_column = b.column;
    p.c_row = c.row;
    p.alpha = alpha;
    p.n_batch = heads;
    p.a_step = a.shared ? a.step : a.step * (int64_t)group;
    p.b_step = b.shared ? b.step : b.step * (int64_t)group;
    p.c_step = c.shared ? c.step : c.step * (int64_t)group;
    for (uint64_t g = 0; g < group && result == cudaSuccess; g++) {
        p.a = a.x + (a.shared ? 0 : (int64_t)g * a.step);
        p.b = b.x + (b.shared ? 0 : (int64_t)g * b.step);
        p.c = (float *)(uintptr_t)c.x + (c.shared ? 0 : (int64_t)g * c.step);
        p.add = add || (c.shared && g > 0);
        result = vc_cuda_multiply(s, &p);
    }
    return result;
}

/* The scores of a part, with softcap and mask. */
static int make_scores(struct vc_cuda_session *s, const struct vc_train_work *w, const struct part *part, float *scores,
                       float *slope)
{
    const struct vc_args_attention *args = (const struct vc_args_attention *)w->call->args;
    uint64_t group = args->heads / args->kv_heads;
    int result;

    VC_CUDA_TRY(multiply(s, part, group, args->queries, args->keys, args->size,
                         side_of(w->call->p[0], &args->q, part, group, false),
                         turned(side_of(w->call->p[1], &args->k, part, group, true)), scores_side(args, scores),
                         (float)args->scale, false));
    VC_CUDA_ELEMENTS(s, scores_kernel, part->heads * args->queries * args->keys, *args, *part, scores, slope,
                     (const void *)w->call->p[3]);
    result = vc_cuda_launched();
out:
    return result;
}

/* The part from head of keys `kv` of a batch on. */
static struct part part_at(const struct vc_args_attention *args, uint64_t batch, uint64_t kv)
{
    uint64_t group = args->heads / args->kv_heads;
    struct part part = {batch, kv * group, VC_AT_MOST(args->kv_per_part, args->kv_heads - kv) * group};

    return part;
}

/* Each part in three steps: scores, probabilities of each row, their product with the values. */
int vc_cuda_train_attention(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_attention *args = (const struct vc_args_attention *)w->call->args;
    uint64_t group = args->heads / args->kv_heads;
    float *scores = (float *)w->call->p[6];
    int result = cudaSuccess;

    for (uint64_t batch = 0; batch < args->batch; batch++) {
        for (uint64_t kv = 0; kv < args->kv_heads; kv += args->kv_per_part) {
            struct part part = part_at(args, batch, kv);

            VC_CUDA_TRY(make_scores(s, w, &part, scores, NULL));
            VC_CUDA_ROWS(s, probabilities_kernel, part.heads * args->queries, *args, part, false, scores,
                         (float *)w->call->p[5]);
            VC_CUDA_TRY(vc_cuda_launched());
            VC_CUDA_TRY(multiply(s, &part, group, args->queries, args->v_size, args->keys, scores_side(args, scores),
                                 side_of(w->call->p[2], &args->v, &part, group, true),
                                 side_of(w->call->p[4], &args->y, &part, group, false), 1, false));
        }
    }
out:
    return result;
}

/* What a part adds to the gradients of queries, keys and values. */
static int part_backward(struct vc_cuda_session *s, const struct vc_train_work *w, const struct part *part)
{
    const struct vc_args_attention *args = (const struct vc_args_attention *)w->call->args;
    void *const *p = w->call->p;
    uint64_t group = args->heads / args->kv_heads;
    uint64_t n = args->kv_per_part * group * args->queries * args->keys;
    float *scores = (float *)p[10];
    float *dp = scores + n;
    float *slope = args->softcap > 0 ? dp + n : NULL;
    struct side dy = side_of(p[5], &args->y, part, group, false);
    int result;

    VC_CUDA_TRY(make_scores(s, w, part, scores, slope));
    VC_CUDA_ROWS(s, probabilities_kernel, part->heads * args->queries, *args, *part, true, scores, (float *)p[6]);
    VC_CUDA_TRY(vc_cuda_launched());
    if (p[9] != NULL) {
        VC_CUDA_TRY(multiply(s, part, group, args->keys, args->v_size, args->queries, turned(scores_side(args, scores)),
                             dy, side_of(p[9], &args->v, part, group, true), 1, true));
    }
    if (p[7] == NULL && p[8] == NULL && p[11] == NULL) {
        return cudaSuccess;
    }
    VC_CUDA_TRY(multiply(s, part, group, args->queries, args->keys, args->v_size, dy,
                         turned(side_of(p[2], &args->v, part, group, true)), scores_side(args, dp), 1, false));
    VC_CUDA_ROWS(s, gradients_kernel, part->heads * args->queries, *args, *part, (const float *)p[4],
                 (const float *)p[5], (const float *)scores, (const float *)slope, dp, (float *)p[11]);
    VC_CUDA_TRY(vc_cuda_launched());
    if (p[7] != NULL) {
        VC_CUDA_TRY(multiply(s, part, group, args->queries, args->size, args->keys, scores_side(args, dp),
                             side_of(p[1], &args->k, part, group, true), side_of(p[7], &args->q, part, group, false), 1,
                             true));
    }
    if (p[8] != NULL) {
        VC_CUDA_TRY(multiply(s, part, group, args->keys, args->size, args->queries, turned(scores_side(args, dp)),
                             side_of(p[0], &args->q, part, group, false), side_of(p[8], &args->k, part, group, true), 1,
                             true));
    }
out:
    return result;
}

/* Gradients that several parts add to are cleared first, where the call asks for it. */
int vc_cuda_train_attention_backward(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_attention *args = (const struct vc_args_attention *)w->call->args;
    int result;

    VC_CUDA_TRY(clear(s, args, &args->q, args->heads, args->queries, args->size, args->clear_q ? w->call->p[7] : NULL));
    VC_CUDA_TRY(clear(s, args, &args->k, args->kv_heads, args->keys, args->size, args->clear_k ? w->call->p[8] : NULL));
    VC_CUDA_TRY(
        clear(s, args, &args->v, args->kv_heads, args->keys, args->v_size, args->clear_v ? w->call->p[9] : NULL));
    for (uint64_t batch = 0; batch < args->batch; batch++) {
        for (uint64_t kv = 0; kv < args->kv_heads; kv += args->kv_per_part) {
            struct part part = part_at(args, batch, kv);

            VC_CUDA_TRY(part_backward(s, w, &part));
        }
    }
out:
    return result;
}
