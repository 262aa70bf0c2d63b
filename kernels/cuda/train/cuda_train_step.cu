/* cuda_train_step.cu - training on the device: losses of rows of logits, norms of gradients, updates of weights. As in
 * distill/math/loops/loss_loops.h and update_loops.h, whose bits these kernels give. */
#include "kernels/cuda/train/cuda_train.h"
#include "kernels/functions.h"

#include <float.h>

/* ---- sums: a team of eight threads, each with its part ---- */

#define LANES 8
#define TEAMS (VC_CUDA_THREADS / LANES) /* of a block */

/* The sum of the parts of a team, for all of its threads. All threads of the block take part. `lanes`: VC_CUDA_THREADS
 * doubles of shared memory. */
static __device__ __forceinline__ double team_sum(double part, double *lanes)
{
    const double *l = lanes + threadIdx.x / LANES * LANES;

    __syncthreads();
    lanes[threadIdx.x] = part;
    __syncthreads();
    return ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
}

/* The largest part. */
static __device__ __forceinline__ double team_max(double part, double *lanes)
{
    const double *l = lanes + threadIdx.x / LANES * LANES;
    double most;

    __syncthreads();
    lanes[threadIdx.x] = part;
    __syncthreads();
    most = l[0];
    for (unsigned k = 1; k < LANES; k++) {
        most = l[k] > most ? l[k] : most;
    }
    return most;
}

/* ---- losses: a team takes a row ---- */

/* The softened answers of a row: x times 1 / t, what is largest of that, and the log of the sum of exp(x / t - max). */
struct soft {
    double by, max, log_sum;
};

/* Of a row that is not wanted n is 0. */
static __device__ __forceinline__ struct soft soft_of(const float *x, uint64_t n, double t, double *lanes)
{
    struct soft s = {1 / t, -vc_bits_f64(0x7ff0000000000000u), 0};
    unsigned k = threadIdx.x % LANES;
    double sum = 0;

    for (uint64_t c = k; c < n; c += LANES) {
        double v = (double)x[c] * s.by;

        s.max = v > s.max ? v : s.max; /* NaN makes the sum NaN */
    }
    s.max = team_max(s.max, lanes);
    for (uint64_t c = k; c < n; c += LANES) {
        sum += vc_exp_f64((double)x[c] * s.by - s.max);
    }
    s.log_sum = vc_log_f64(team_sum(sum, lanes));
    return s;
}

/* The logarithm of the probability of a logit. */
static __device__ __forceinline__ double log_p(const struct soft *s, float x)
{
    return (double)x * s->by - s->max - s->log_sum;
}

/* A product of two rows by one team. */
static __device__ __forceinline__ double dot(const float *x, const float *y, uint64_t n, double *lanes)
{
    double sum = 0;

    for (uint64_t c = threadIdx.x % LANES; c < n; c += LANES) {
        sum += (double)x[c] * (double)y[c];
    }
    return team_sum(sum, lanes);
}

/* What the cosine of two rows and its gradient are made of; where one of the rows is 0, both are 0. */
struct cosine {
    double zz, norms, value;
};

/* 0 where a row is all zeros. */
static __device__ __forceinline__ struct cosine cosine_of(const float *z, const float *teacher, uint64_t n,
                                                          double *lanes)
{
    struct cosine s = {0, 0, 0};
    double zt = dot(z, teacher, n, lanes);

    s.zz = dot(z, z, n, lanes);
    s.norms = sqrt(s.zz) * sqrt(dot(teacher, teacher, n, lanes));
    s.value = s.norms == 0 ? 0 : zt / s.norms;
    return s;
}

/* A row, or none. All threads of the block take part. */
static __device__ __forceinline__ void loss_of_row(const struct vc_train_loss *l, uint64_t row, bool is_row,
                                                   double *lanes)
{
    uint64_t n = l->n_classes;
    const float *z = l->logits + row * n;
    const float *teacher = l->teacher != NULL ? l->teacher + row * n : z;
    float *gradient = is_row && l->gradient != NULL ? l->gradient + row * n : NULL;
    bool counts = is_row && l->mask[row] != 0;
    bool taught = counts && l->teacher != NULL;
    bool labelled = counts && l->labels[row] >= 0;
    bool soft = !l->mse && !l->cosine;
    double kd_by = l->alpha * l->kd_by;
    double ce_by = (1 - l->alpha) * l->ce_by;
    double t = l->temperature;
    double kd = 0;
    struct soft q = soft_of(z, taught && soft ? n : 0, t, lanes);
    struct soft p = soft_of(teacher, taught && soft ? n : 0, t, lanes);
    struct soft one = soft_of(z, labelled ? n : 0, 1, lanes);
    struct cosine cosine = cosine_of(z, teacher, taught && l->cosine ? n : 0, lanes);

    for (uint64_t c = threadIdx.x % LANES; is_row && c < n; c += LANES) {
        double g = 0;

        if (taught && l->mse) {
            double d = (double)z[c] - (double)teacher[c];

            kd += d * d;
            g += kd_by * 2 * d / (double)n;
        } else if (taught && l->cosine) {
            g -= cosine.norms == 0
                     ? 0
                     : kd_by * ((double)teacher[c] / cosine.norms - (double)z[c] * (cosine.value / cosine.zz));
        } else if (taught) {
            double of_p = log_p(&p, teacher[c]);
            double of_q = log_p(&q, z[c]);
            double e = vc_exp_f64(of_p);

            kd += e == 0 ? 0 : e * (of_p - of_q);
            g += kd_by * t * (vc_exp_f64(of_q) - e);
        }
        if (labelled) {
            g += ce_by * vc_exp_f64(log_p(&one, z[c]));
            g = c == (uint64_t)l->labels[row] ? g - ce_by : g;
        }
        if (gradient != NULL) {
            gradient[c] = (float)(g * l->scale);
        }
    }
    kd = team_sum(kd, lanes);
    kd = l->mse ? kd / (double)n : l->cosine ? 1 - cosine.value : t * t * kd;
    if (is_row && threadIdx.x % LANES == 0) {
        l->sums[2 * row] = taught ? l->kd_by * kd : 0;
        l->sums[2 * row + 1] = labelled ? l->ce_by * -log_p(&one, z[l->labels[row]]) : 0;
    }
}

/* A team takes a row. Teams without one take part with row 0 and write nothing, since all threads of a block meet at
 * the sums. */
static __global__ void loss_kernel(struct vc_train_loss l)
{
    VC_CUDA_SHARED(double, lanes, VC_CUDA_THREADS);

    for (uint64_t base = blockIdx.x * (uint64_t)TEAMS; base < l.n_rows; base += (uint64_t)gridDim.x * TEAMS) {
        uint64_t row = base + threadIdx.x / LANES;

        loss_of_row(&l, row < l.n_rows ? row : 0, row < l.n_rows, lanes);
    }
}

int vc_cuda_train_loss(void *session, const struct vc_train_loss *loss)
{
    struct vc_cuda_session *s = (struct vc_cuda_session *)session;

    VC_CUDA_LAUNCH(loss_kernel, vc_cuda_grid((loss->n_rows + TEAMS - 1) / TEAMS), VC_CUDA_THREADS, s->stream, *loss);
    return vc_cuda_launched();
}

/* ---- norms: a block takes a block of weights ---- */

#define SQUARES (8 * VC_CUDA_THREADS) /* that a block brings at a time */

/* The sum of squares of the gradients of each block: all threads bring them, eight add each eighth in order; while these add one
 * tile, all can bring the next one. Gradients of weights that a mask keeps at 0 become 0 here. Behind the sums: whether there was
 * a fault. */
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    measure_kernel(const struct vc_train_block *blocks, uint64_t n, const unsigned long long *fault, double *squares)
{
    VC_CUDA_SHARED(double, tiles, 2 * SQUARES);
    VC_CUDA_SHARED(double, lanes, VC_CUDA_THREADS);

    for (uint64_t block = blockIdx.x; block < n; block += gridDim.x) {
        struct vc_train_block b = blocks[block];
        double sum = 0;
        unsigned side = 0;

        for (uint64_t first = 0; first < b.n; first += SQUARES, side ^= 1) {
            double *tile = tiles + side * SQUARES;

            VC_CUDA_UNROLL
            for (unsigned u = threadIdx.x; u < SQUARES; u += VC_CUDA_THREADS) {
                bool is = first + u < b.n;
                bool kept = is && (b.keep == NULL || b.keep[first + u] != 0);
                float x = kept ? b.g[first + u] : 0;

                if (is && !kept) {
                    b.g[first + u] = 0;
                }
                tile[u] = (double)x * (double)x;
            }
            __syncthreads();
            for (unsigned u = threadIdx.x; threadIdx.x < LANES && u < SQUARES && first + u < b.n; u += LANES) {
                sum += tile[u];
            }
        }
        sum = team_sum(sum, lanes);
        if (threadIdx.x == 0) {
            squares[block] = sum;
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        squares[n] = *fault != 0;
    }
}

int vc_cuda_train_measure(void *session, const struct vc_train_block *blocks, uint64_t n, double *squares)
{
    struct vc_cuda_session *s = (struct vc_cuda_session *)session;

    VC_CUDA_CHAIN("measure", 1 + 32768 / SQUARES); /* blocks of the optimizer have that many weights */
    VC_CUDA_LAUNCH(measure_kernel, vc_cuda_grid(n), VC_CUDA_THREADS, s->stream, blocks, n, s->fault, squares);
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

/* One weight; its states, which are 0 where there are none, become those behind the step. */
static __device__ __forceinline__ void move_one(const struct update *u, const struct vc_train_block *b, uint64_t i,
                                                float *state_m, float *state_v)
{
    bool keep = b->keep == NULL || b->keep[i] != 0;
    float g = u->scales ? b->g[i] * u->by : b->g[i];
    float w = keep ? b->w[i] : 0;
    float m = *state_m;
    float v = *state_v;

    g = keep ? g : 0;
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
        w = shrink * w - u->step * m / ((float)sqrt((double)v) / u->root + u->eps);
    }
    b->g[i] = g;
    b->w[i] = keep ? w : 0;
    *state_m = keep ? m : 0;
    *state_v = keep ? v : 0;
}

/* Reads and writes the state of one weight; move_one has the formulas. */
static __device__ __forceinline__ void update_one(const struct update *u, const struct vc_train_block *b, uint64_t i)
{
    float m = b->m != NULL ? b->m[i] : 0;
    float v = b->v != NULL ? b->v[i] : 0;

    move_one(u, b, i, &m, &v);
    if (b->m != NULL) {
        b->m[i] = m;
    }
    if (b->v != NULL) {
        b->v[i] = v;
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
    float m = 0;
    float v = 0;
    float m_factor, v_factor;

    if (is) {
        m = of_m->value[b->m_codes[i]] * b->m_factors[part];
        v = of_v->value[b->v_codes[i]] * b->v_factors[part];
        move_one(u, b, i, &m, &v);
    }
    m_factor = largest(m, all); /* has barriers: every thread has read the old factors */
    v_factor = largest(v, all);
    if (is) {
        b->m_codes[i] = vc_dynamic_code(of_m, m_factor > 0 ? m / m_factor : 0);
        b->v_codes[i] = vc_dynamic_code(of_v, v_factor > 0 ? v / v_factor : 0);
    }
    if (threadIdx.x == 0) {
        b->m_factors[part] = m_factor;
        b->v_factors[part] = v_factor;
    }
}

/* A block of threads takes a block of weights. With a state of codes it goes part by part, since the codes of a part
 * share a factor; else element by element. */
static __global__ void update_kernel(const struct vc_train_block *blocks, uint64_t n, struct update u)
{
    VC_CUDA_SHARED(float, all, VC_CUDA_THREADS);

    for (uint64_t block = blockIdx.x; block < n; block += gridDim.x) {
        const struct vc_train_block *b = &blocks[block];

        for (uint64_t part = 0; b->m_factors != NULL && part * VC_CODED_BLOCK < b->n; part++) {
            update_coded(&u, b, part, all);
        }
        for (uint64_t i = threadIdx.x; b->m_factors == NULL && i < b->n; i += blockDim.x) {
            update_one(&u, b, i);
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
    VC_CUDA_LAUNCH(update_kernel, vc_cuda_grid(n), VC_CUDA_THREADS, s->stream, blocks, n, u);
    return vc_cuda_launched();
}
