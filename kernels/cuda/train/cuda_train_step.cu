/* cuda_train_step.cu - training on the device: losses of rows of logits, norms of gradients, updates of weights. As in
 * distill/math/loops/loss_loops.h and update_loops.h, whose bits these kernels give. */
#include "kernels/cuda/train/cuda_train.h"
#include "kernels/functions.h"

#include <float.h>

#define LANES 8 /* of a sum: as many threads add, each its part in order */

/* ---- losses: a team of threads takes a row ---- */

#define SUMS 4 /* at most, at a time */

/* Threads of a block that share a row: a power of two, at least LANES. */
struct team {
    unsigned size, me;
    double *terms, *other; /* shared memory for SUMS terms of each thread, twice */
};

/* Adds one term of each thread to each of N sums, in the order of threads: the first eight have the lanes. While they add, the
 * others can bring the next terms. All threads of the block take part. */
template <unsigned N>
static __device__ __forceinline__ void add_terms(struct team *team, const double *term, double *lanes)
{
    double *terms = team->terms;

    VC_CUDA_FOR(s, N)
    {
        terms[s * VC_CUDA_THREADS + threadIdx.x] = term[s];
    }
    __syncthreads();
    for (unsigned u = 0; team->me < LANES && u < team->size; u += LANES) {
        VC_CUDA_FOR(s, N)
        {
            lanes[s] += terms[s * VC_CUDA_THREADS + threadIdx.x + u];
        }
    }
    team->terms = team->other;
    team->other = terms;
}

/* The sums of the lanes, for all threads of the team. */
template <unsigned N> static __device__ __forceinline__ void join_lanes(const struct team *team, double *lanes)
{
    double *first = team->terms + threadIdx.x - team->me;

    __syncthreads();
    VC_CUDA_UNROLL
    for (unsigned s = 0; team->me < LANES && s < N; s++) {
        first[s * VC_CUDA_THREADS + team->me] = lanes[s];
    }
    __syncthreads();
    if (team->me < N) {
        double *l = first + team->me * VC_CUDA_THREADS;

        l[0] = ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
    }
    __syncthreads();
    VC_CUDA_FOR(s, N)
    {
        lanes[s] = first[s * VC_CUDA_THREADS];
    }
    __syncthreads();
}

/* The largest x of all threads of the team, by way of warps. */
static __device__ __forceinline__ float team_max(const struct team *team, float x)
{
    float *all = (float *)team->terms;

    for (unsigned k = team->size < 32 ? team->size / 2 : 16; k > 0; k /= 2) {
        float other = __shfl_xor_sync(VC_CUDA_WARP_MASK, x, (int)k);

        x = other > x ? other : x;
    }
    __syncthreads();
    all[threadIdx.x] = x;
    __syncthreads();
    for (unsigned u = 32; u < team->size; u += 32) {
        float other = all[threadIdx.x - team->me + (team->me + u) % team->size];

        x = other > x ? other : x;
    }
    __syncthreads();
    return x;
}

/* The softened answers of a row: x times 1 / t, what is largest of that, and the log of the sum of exp(x / t - max). */
struct soft {
    double by, max, log_sum;
};

/* The logarithm of the probability of a logit. */
static __device__ __forceinline__ double log_p(const struct soft *s, float x)
{
    return (double)x * s->by - s->max - s->log_sum;
}

/* A row, or none. All threads of the block take part. Sums: q and p, or z t and z z of a cosine; one; t t. */
static __device__ __forceinline__ void loss_of_row(const struct vc_train_loss *l, uint64_t row, bool is_row,
                                                   struct team *team)
{
    uint64_t n = l->n_classes;
    const float *z = l->logits + row * n;
    const float *teacher = l->teacher != NULL ? l->teacher + row * n : z;
    float *gradient = is_row && l->gradient != NULL ? l->gradient + row * n : NULL;
    bool counts = is_row && l->mask[row] != 0;
    bool taught = counts && l->teacher != NULL;
    int64_t label = counts ? l->labels[row] : -1;
    bool labelled = label >= 0;
    bool soft = taught && !l->mse && !l->cosine;
    double kd_by = l->alpha * l->kd_by;
    double ce_by = (1 - l->alpha) * l->ce_by;
    double t = l->temperature;
    float most[2] = {-vc_bits_f32(VC_F32_INF_BITS), -vc_bits_f32(VC_F32_INF_BITS)};
    double sums[SUMS] = {0, 0, 0, 0};
    double kd = 0;

    for (uint64_t first = team->me; first < n; first += 8 * team->size) {
        VC_CUDA_FOR(k, 8)
        {
            uint64_t c = VC_AT_MOST(first + k * team->size, n - 1); /* the last one may come again */
            float a = z[c];
            float b = teacher[c];

            most[0] = a > most[0] ? a : most[0]; /* NaN makes the sum NaN */
            most[1] = b > most[1] ? b : most[1];
        }
    }
    most[0] = team_max(team, most[0]);
    most[1] = team_max(team, most[1]);
    struct soft q = {1 / t, (double)most[0] * (1 / t), 0};
    struct soft p = {1 / t, (double)most[1] * (1 / t), 0};
    struct soft one = {1, (double)most[0], 0};
    for (uint64_t first = 0; first < n; first += team->size) {
        uint64_t c = first + team->me;
        double term[SUMS] = {0, 0, 0, 0};

        if (c < n && soft) {
            term[0] = vc_exp_f64((double)z[c] * q.by - q.max);
            term[1] = vc_exp_f64((double)teacher[c] * p.by - p.max);
        } else if (c < n && taught && l->cosine) {
            term[0] = (double)z[c] * (double)teacher[c];
            term[1] = (double)z[c] * (double)z[c];
            term[3] = (double)teacher[c] * (double)teacher[c];
        }
        if (c < n && labelled) {
            term[2] = vc_exp_f64((double)z[c] - one.max);
        }
        add_terms<SUMS>(team, term, sums);
    }
    join_lanes<SUMS>(team, sums);
    if (soft) {
        q.log_sum = vc_log_f64(sums[0]);
        p.log_sum = vc_log_f64(sums[1]);
    }
    one.log_sum = vc_log_f64(sums[2]);
    double per_q = 1 / sums[0];
    double per_p = 1 / sums[1];
    double per_one = ce_by / sums[2];
    double norms = sqrt(sums[1]) * sqrt(sums[3]);
    double cosine = norms == 0 ? 0 : sums[0] / norms; /* 0 where a row is all zeros */

    for (uint64_t first = 0; first < n; first += team->size) {
        uint64_t c = first + team->me;
        double term = 0;
        double g = 0;

        if (c < n && taught && l->mse) {
            double d = (double)z[c] - (double)teacher[c];

            term = d * d;
            g += kd_by * 2 * d / (double)n;
        } else if (c < n && taught && l->cosine) {
            g -= norms == 0 ? 0 : kd_by * ((double)teacher[c] / norms - (double)z[c] * (cosine / sums[1]));
        } else if (c < n && taught) {
            double of_p = vc_exp_f64((double)teacher[c] * p.by - p.max) * per_p;

            term = of_p == 0 ? 0 : of_p * (log_p(&p, teacher[c]) - log_p(&q, z[c]));
            g += kd_by * t * (vc_exp_f64((double)z[c] * q.by - q.max) * per_q - of_p);
        }
        if (c < n && labelled) {
            g += per_one * vc_exp_f64((double)z[c] - one.max);
            g = c == (uint64_t)label ? g - ce_by : g;
        }
        if (c < n && gradient != NULL) {
            gradient[c] = (float)(g * l->scale);
        }
        add_terms<1>(team, &term, &kd);
    }
    join_lanes<1>(team, &kd);
    kd = l->mse ? kd / (double)n : l->cosine ? 1 - cosine : t * t * kd;
    if (is_row && team->me == 0) {
        l->sums[2 * row] = taught ? l->kd_by * kd : 0;
        l->sums[2 * row + 1] = labelled ? l->ce_by * -log_p(&one, z[label]) : 0;
    }
}

/* Teams without a row take part with row 0 and write nothing, since all threads of a block meet at the sums. */
static __global__ void __launch_bounds__(VC_CUDA_THREADS) loss_kernel(struct vc_train_loss l, unsigned size)
{
    VC_CUDA_SHARED(double, terms, 2 * SUMS * VC_CUDA_THREADS);
    struct team team = {size, threadIdx.x % size, terms, terms + SUMS * VC_CUDA_THREADS};
    unsigned rows = VC_CUDA_THREADS / size;

    for (uint64_t base = blockIdx.x * (uint64_t)rows; base < l.n_rows; base += (uint64_t)gridDim.x * rows) {
        uint64_t row = base + threadIdx.x / size;

        loss_of_row(&l, row < l.n_rows ? row : 0, row < l.n_rows, &team);
    }
}

/* Exponentials, some 45 operations of f64 each and six for each element, are what takes the time: a thread has few of them. */
int vc_cuda_train_loss(void *session, const struct vc_train_loss *loss)
{
    struct vc_cuda_session *s = (struct vc_cuda_session *)session;
    unsigned size = LANES;

    while (size < VC_CUDA_THREADS / 2 && size < loss->n_classes) {
        size *= 2;
    }
    VC_CUDA_LAUNCH(loss_kernel, vc_cuda_grid((loss->n_rows * size + VC_CUDA_THREADS - 1) / VC_CUDA_THREADS),
                   VC_CUDA_THREADS, s->stream, *loss, size);
    return vc_cuda_launched();
}

/* ---- norms: a block takes a block of weights ---- */

#define BROUGHT 8                           /* gradients that a thread asks for together */
#define SQUARES (BROUGHT * VC_CUDA_THREADS) /* that a block brings at a time */
#define AT_ONCE 32                          /* of each of these: a divisor of SQUARES / LANES */

/* The sum of squares of the gradients of each block: all threads but the first 32 bring them, eight add each eighth in order; while
 * these add one tile, the others bring the next one. Gradients of weights that a mask keeps at 0 become 0 here. Behind the sums:
 * whether there was a fault. */
static __global__ void __launch_bounds__(VC_CUDA_ADDERS + VC_CUDA_THREADS)
    measure_kernel(const struct vc_train_block *blocks, uint64_t n, const unsigned long long *fault, double *squares)
{
    VC_CUDA_SHARED(double, tiles, 2 * SQUARES);
    VC_CUDA_SHARED(double, lanes, LANES);
    unsigned t = threadIdx.x;

    for (uint64_t block = blockIdx.x; block < n; block += gridDim.x) {
        struct vc_train_block b = blocks[block];
        double sum = 0;
        double *tile = tiles;

        for (uint64_t first = 0; first < b.n; first += SQUARES) {
            uint64_t here = VC_AT_MOST(b.n - first, SQUARES);

            if (t >= VC_CUDA_ADDERS) {
                bool kept[BROUGHT];
                float x[BROUGHT];

                VC_CUDA_FOR(k, BROUGHT)
                {
                    unsigned u = k * VC_CUDA_THREADS + t - VC_CUDA_ADDERS;

                    kept[k] = u < here && (b.keep == NULL || b.keep[first + u] != 0);
                    x[k] = u < here ? b.g[first + u] : 0;
                }
                VC_CUDA_FOR(k, BROUGHT)
                {
                    unsigned u = k * VC_CUDA_THREADS + t - VC_CUDA_ADDERS;

                    if (u < here && !kept[k]) {
                        b.g[first + u] = 0;
                    }
                    tile[u] = kept[k] ? (double)x[k] * (double)x[k] : 0;
                }
            }
            __syncthreads();
            for (unsigned u = t; t < LANES && u < here; u += AT_ONCE * LANES) {
                VC_CUDA_FOR(k, AT_ONCE)
                {
                    sum += tile[u + k * LANES];
                }
            }
            tile = tile == tiles ? tiles + SQUARES : tiles;
        }
        __syncthreads();
        if (t < LANES) {
            lanes[t] = sum;
        }
        __syncthreads();
        if (t == 0) {
            squares[block] =
                ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
        }
    }
    if (blockIdx.x == 0 && t == 0) {
        squares[n] = *fault != 0;
    }
}

int vc_cuda_train_measure(void *session, const struct vc_train_block *blocks, uint64_t n, double *squares)
{
    struct vc_cuda_session *s = (struct vc_cuda_session *)session;

    VC_CUDA_CHAIN("measure", 1 + 32768 / SQUARES); /* blocks of the optimizer have that many weights */
    VC_CUDA_LAUNCH(measure_kernel, vc_cuda_grid(n), VC_CUDA_ADDERS + VC_CUDA_THREADS, s->stream, blocks, n, s->fault,
                   squares);
    return vc_cuda_launched();
}

/* ---- updates ---- */

/* What is the same for all weights, in floats as the CPU rounds it. */
struct update {
    int kind;
    bool nesterov, scales;
    float by, lr, momentum, b1, b2, not_b1, not_b2, step, root, eps;
    double lr_f64;
    const struct vc_dynamic_maps *maps;
};

/* A weight with its gradient and its states, which are 0 where there are none. */
struct weight {
    float w, g, m, v;
    bool keep;
};

/* All but the states. */
static __device__ __forceinline__ struct weight weight_at(const struct vc_train_block *b, uint64_t i)
{
    struct weight x = {b->w[i], b->g[i], 0, 0, b->keep == NULL || b->keep[i] != 0};

    return x;
}

/* What it becomes. */
static __device__ __forceinline__ void move_one(const struct update *u, const struct vc_train_block *b,
                                                struct weight *x)
{
    float g = x->keep ? u->scales ? x->g * u->by : x->g : 0;
    float w = x->keep ? x->w : 0;
    float m = x->m;
    float v = x->v;

    if (u->kind == VC_TRAIN_SGD) {
        float d = g + (float)b->decay * w;

        if (b->m != NULL) { /* those of SGD are plain */
            m = u->momentum * m + d;
            d = u->nesterov ? d + u->momentum * m : m;
        }
        w -= u->lr * d;
    } else {
        float decay = u->kind == VC_TRAIN_ADAM ? (float)b->decay : 0;
        float shrink = u->kind == VC_TRAIN_ADAMW ? (float)(1 - u->lr_f64 * b->decay) : 1;
        float d = g + decay * w;

        m = u->b1 * m + u->not_b1 * d;
        v = u->b2 * v + u->not_b2 * d * d;
        w = shrink * w - u->step * m / (sqrtf(v) / u->root + u->eps);
    }
    x->g = g;
    x->w = x->keep ? w : 0;
    x->m = x->keep ? m : 0;
    x->v = x->keep ? v : 0;
}

/* Writes all but the states; gradients only where they have changed. */
static __device__ __forceinline__ void put_weight(const struct update *u, const struct vc_train_block *b, uint64_t i,
                                                  const struct weight *x)
{
    b->w[i] = x->w;
    if (u->scales || b->keep != NULL) {
        b->g[i] = x->g;
    }
}

#define MOVED 4 /* weights that a thread moves together: all are asked for before the first is waited for */

/* MOVED weights of each thread of the block, from `first` on. */
static __device__ __forceinline__ void update_plain(const struct update *u, const struct vc_train_block *b,
                                                    uint64_t first)
{
    struct weight x[MOVED] = {};

    VC_CUDA_FOR(k, MOVED)
    {
        uint64_t i = first + k * VC_CUDA_THREADS + threadIdx.x;

        if (i < b->n) {
            x[k] = weight_at(b, i);
            x[k].m = b->m != NULL ? b->m[i] : 0;
            x[k].v = b->v != NULL ? b->v[i] : 0;
        }
    }
    VC_CUDA_FOR(k, MOVED)
    {
        uint64_t i = first + k * VC_CUDA_THREADS + threadIdx.x;

        move_one(u, b, &x[k]);
        if (i < b->n) {
            put_weight(u, b, i, &x[k]);
        }
        if (i < b->n && b->m != NULL) {
            b->m[i] = x[k].m;
        }
        if (i < b->n && b->v != NULL) {
            b->v[i] = x[k].v;
        }
    }
}

/* The largest magnitude of all threads of the block, at most FLT_MAX; NaN counts as 0. `all`: VC_CUDA_THREADS floats of
 * shared memory. */
static __device__ __forceinline__ float largest(float x, float *all)
{
    float magnitude = fabsf(x);

    __syncthreads();
    all[threadIdx.x] = magnitude > 0 ? magnitude : 0;
    for (unsigned half = VC_CUDA_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            float other = all[threadIdx.x + half];

            all[threadIdx.x] = other > all[threadIdx.x] ? other : all[threadIdx.x];
        }
    }
    __syncthreads();
    return all[0] < FLT_MAX ? all[0] : FLT_MAX;
}

/* All threads of the block take the weights that share factors. */
static __device__ __forceinline__ void update_coded(const struct update *u, const struct vc_train_block *b,
                                                    uint64_t part, float *all)
{
    static_assert(VC_CODED_BLOCK == VC_CUDA_THREADS, "a thread for each code of a block");
    const struct vc_dynamic_map *of_m = &u->maps->with_sign;
    const struct vc_dynamic_map *of_v = &u->maps->without;
    uint64_t i = part * VC_CODED_BLOCK + threadIdx.x;
    bool is = i < b->n;
    struct weight x = {};
    float m_factor, v_factor;

    if (is) {
        x = weight_at(b, i);
        x.m = of_m->value[b->m_codes[i]] * b->m_factors[part];
        x.v = of_v->value[b->v_codes[i]] * b->v_factors[part];
        move_one(u, b, &x);
        put_weight(u, b, i, &x);
    }
    m_factor = largest(x.m, all); /* has barriers: every thread has read the old factors */
    v_factor = largest(x.v, all);
    if (is) {
        b->m_codes[i] = vc_dynamic_code(of_m, m_factor > 0 ? x.m / m_factor : 0);
        b->v_codes[i] = vc_dynamic_code(of_v, v_factor > 0 ? x.v / v_factor : 0);
    }
    if (threadIdx.x == 0) {
        b->m_factors[part] = m_factor;
        b->v_factors[part] = v_factor;
    }
}

#define SHARES 32 /* of a block of weights: as many blocks of threads take it */

/* A block of threads takes a share of a block of weights: with states of codes parts whose codes share a factor, else MOVED weights
 * a thread at a time. */
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    update_kernel(const struct vc_train_block *blocks, uint64_t n, struct update u)
{
    VC_CUDA_SHARED(float, all, VC_CUDA_THREADS);

    for (uint64_t work = blockIdx.x; work < n * SHARES; work += gridDim.x) {
        struct vc_train_block b = blocks[work / SHARES];
        uint64_t each = b.m_factors != NULL ? VC_CODED_BLOCK : MOVED * VC_CUDA_THREADS;

        for (uint64_t part = work % SHARES; part * each < b.n; part += SHARES) {
            if (b.m_factors != NULL) {
                update_coded(&u, &b, part, all);
            } else {
                update_plain(&u, &b, part * each);
            }
        }
    }
}

/* beta to the power of t, by squares, as on the CPU. */
static double power_of(double beta, uint64_t t)
{
    double power = 1;

    for (; t != 0; t >>= 1, beta *= beta) {
        power = (t & 1) != 0 ? power * beta : power;
    }
    return power;
}

/* Numbers of the optimizer are rounded to f32 here as the CPU's loop has them. */
int vc_cuda_train_update(void *session, const struct vc_train_block *blocks, uint64_t n,
                         const struct vc_train_update *update)
{
    struct vc_cuda_session *s = (struct vc_cuda_session *)session;
    struct update u = {};

    u.kind = update->kind;
    u.nesterov = update->nesterov;
    u.scales = update->by != 1;
    u.by = (float)update->by;
    u.lr = (float)update->lr;
    u.lr_f64 = update->lr;
    u.momentum = (float)update->momentum;
    u.b1 = (float)update->beta1;
    u.b2 = (float)update->beta2;
    u.not_b1 = (float)(1 - update->beta1);
    u.not_b2 = (float)(1 - update->beta2);
    u.step = (float)(update->lr / (1 - power_of(update->beta1, update->t)));
    u.root = (float)sqrt(1 - power_of(update->beta2, update->t));
    u.eps = (float)update->eps;
    u.maps = update->maps;
    VC_CUDA_LAUNCH(update_kernel, vc_cuda_grid(n * SHARES), VC_CUDA_THREADS, s->stream, blocks, n, u);
    return vc_cuda_launched();
}
