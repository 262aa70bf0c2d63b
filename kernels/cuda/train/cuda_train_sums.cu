/* cuda_train_sums.cu - training on the device: sums over arrays with strides, and normalization. The order of every sum
 * is that of engine/loops/train_strided.h, train_norm.h and train_row_norm.h. */
#include "kernels/cuda/train/cuda_train.h"

/* ---- strided_sum ---- */

/* The values of vc_sum_kind. */
static __device__ __forceinline__ float sum_term(enum vc_sum_kind kind, float a, float b, float c)
{
    switch (kind) {
#define KIND(id, term) \
    case VC_SUM_##id:  \
        return term;
        VC_SUM_TERMS(KIND)
#undef KIND
    default:
        return a;
    }
}

/* The arrays of a sum. */
struct operands {
    float *out;
    const float *a, *b, *c; /* NULL where there is none */
};

#define RESULTS 4 /* of one term, that a thread makes together */

/* A thread for every RESULTS results of one term. */
template <class Q>
static __global__ void __launch_bounds__(VC_CUDA_THREADS, 3)
    strided_results_kernel(struct vc_args_strided args, struct vc_cuda_sizes kept, bool add, struct operands of)
{
    uint64_t all = (uint64_t)gridDim.x * blockDim.x * RESULTS;

    for (uint64_t base = (uint64_t)blockIdx.x * blockDim.x * RESULTS; base < args.n; base += all) {
        uint64_t first = base + threadIdx.x;
        int64_t place[4][RESULTS];
        float was[RESULTS], a[RESULTS], b[RESULTS], c[RESULTS];

        VC_CUDA_FOR(k, 4 * RESULTS)
        {
            place[k / RESULTS][k % RESULTS] = args.base[k / RESULTS];
        }
        if (args.kind == VC_SUM_A) {
            vc_cuda_places<Q, RESULTS, 2>(&kept, args.kept_step, first, blockDim.x, place);
        } else {
            vc_cuda_places<Q, RESULTS, 4>(&kept, args.kept_step, first, blockDim.x, place);
        }
        VC_CUDA_FOR(k, RESULTS)
        {
            bool is = first + k * blockDim.x < args.n;

            was[k] = is && add ? of.out[place[0][k]] : 0;
            a[k] = is ? of.a[place[1][k]] : 0;
            b[k] = is && args.kind != VC_SUM_A ? of.b[place[2][k]] : 1;
            c[k] = is && args.kind >= VC_SUM_QUOTIENT_D2 ? of.c[place[3][k]] : 1;
        }
        VC_CUDA_FOR(k, RESULTS)
        {
            float v = (float)args.scale * sum_term(args.kind, a[k], b[k], c[k]);

            if (first + k * blockDim.x < args.n) {
                of.out[place[0][k]] = add ? was[k] + v : v;
            }
        }
    }
}

/* How sums of several terms are made. A lane adds its terms in order; it is a result, or one of the 16 of a result:
 *
 *     result by result    lane l: result l; step q: term q
 *     in 16 lanes         lane l: lane l % 16 of result l / 16; step q: element q % steps * 16 + l % 16 of row q / steps
 *
 * Neighbouring lanes read neighbouring elements in both. */
struct sum_plan {
    bool in_lanes;
    uint64_t n_steps, row;
    struct vc_cuda_sizes steps; /* of the reduced dimensions; of the last one in_lanes a sixteenth, rounded up */
    int64_t step[3][VC_TRAIN_DIMS], lane_step[3]; /* of a, b, c; from lane to lane */
};

#define HELD      16                     /* terms that a thread asks for together, for others to add */
#define ALONE     8                      /* the same, to add them itself */
#define SUM_STEPS (HELD * VC_CUDA_TEAMS) /* of 16 lanes, that are brought together */

/* The terms of steps first, first + by, ... of a lane, whose result has `at`; 0, which changes no sum, behind the end. All are
 * asked for before the first is waited for. Q holds numbers of steps. */
template <class Q, unsigned N>
static __device__ __forceinline__ void bring_terms(const struct vc_args_strided *args, const struct sum_plan *plan,
                                                   const struct operands *of, const int64_t (*at)[1], unsigned lane,
                                                   uint64_t first, unsigned by, float *v)
{
    int64_t place[3][N];
    float b[N], c[N];
    unsigned is = 0;

    VC_CUDA_FOR(k, N)
    {
        is |= (unsigned)((Q)(first + k * by) < plan->n_steps) << k;
        VC_CUDA_FOR(o, 3)
        {
            place[o][k] = at[o + 1][0] + lane % VC_CUDA_LANES_OF_SUM * plan->lane_step[o];
        }
    }
    if (plan->in_lanes) {
        unsigned last = plan->steps.n - 1;

        VC_CUDA_FOR(k, N)
        {
            Q q = (Q)(first + k * by);
            Q row =
                sizeof(Q) == 4 ? (Q)vc_cuda_divide((uint32_t)q, &plan->steps.by[last]) : q / (Q)plan->steps.size[last];
            Q i = q - row * (Q)plan->steps.size[last];

            is &= ~((unsigned)(i * VC_CUDA_LANES_OF_SUM + lane % VC_CUDA_LANES_OF_SUM >= plan->row) << k);
        }
    }
    if (args->kind == VC_SUM_A) {
        vc_cuda_places<Q, N, 1>(&plan->steps, plan->step, first, by, place);
    } else {
        vc_cuda_places<Q, N, 3>(&plan->steps, plan->step, first, by, place);
    }
    VC_CUDA_FOR(k, N)
    {
        v[k] = (is >> k & 1) != 0 ? of->a[place[0][k]] : 0;
    }
    if (args->kind == VC_SUM_A) {
        return;
    }
    VC_CUDA_FOR(k, N)
    {
        b[k] = (is >> k & 1) != 0 ? of->b[place[1][k]] : 1;
        c[k] = (is >> k & 1) != 0 && args->kind >= VC_SUM_QUOTIENT_D2 ? of->c[place[2][k]] : 1;
    }
    VC_CUDA_FOR(k, N)
    {
        v[k] = (is >> k & 1) != 0 ? sum_term(args->kind, v[k], b[k], c[k]) : 0;
    }
}

/* staged: 16 lanes a block, for which all threads but the first 32 bring terms into shared memory; while 16 threads add one tile,
 * the others bring the next one: there are two. Else each thread of a block is a lane. */
template <bool staged, class Q>
static __global__ void __launch_bounds__(VC_CUDA_ADDERS + VC_CUDA_THREADS)
    strided_sums_kernel(struct vc_args_strided args, struct sum_plan plan, struct vc_cuda_sizes kept, bool add,
                        struct operands of)
{
    VC_CUDA_SHARED(float, tiles, staged ? 2 * SUM_STEPS *VC_CUDA_LANES_OF_SUM : 1);
    VC_CUDA_SHARED(float, lanes, VC_CUDA_ADDERS + VC_CUDA_THREADS);
    unsigned t = threadIdx.x;
    unsigned n_here = staged ? VC_CUDA_LANES_OF_SUM : VC_CUDA_THREADS;
    unsigned lane = t % n_here;
    unsigned per_result = plan.in_lanes ? VC_CUDA_LANES_OF_SUM : 1;

    for (uint64_t base = blockIdx.x * (uint64_t)n_here; base < args.n * per_result;
         base += (uint64_t)gridDim.x * n_here) {
        uint64_t result = (base + lane) / per_result;
        bool is = result < args.n;
        int64_t at[4][1] = {{args.base[0]}, {args.base[1]}, {args.base[2]}, {args.base[3]}};
        float *tile = tiles;
        float sum = 0;

        vc_cuda_places<uint64_t, 1, 4>(&kept, args.kept_step, is ? result : 0, 0, at);
        for (uint64_t first = 0; first < plan.n_steps; first += staged ? SUM_STEPS : ALONE) {
            float v[HELD];

            if (!staged) {
                bring_terms<Q, ALONE>(&args, &plan, &of, at, lane, first, 1, v);
                VC_CUDA_FOR(k, ALONE)
                {
                    sum += v[k];
                }
                continue;
            }
            if (t >= VC_CUDA_ADDERS) {
                bring_terms<Q, HELD>(&args, &plan, &of, at, lane, first + (t - VC_CUDA_ADDERS) / n_here, VC_CUDA_TEAMS,
                                     v);
                VC_CUDA_FOR(k, HELD)
                {
                    tile[k * VC_CUDA_THREADS + t - VC_CUDA_ADDERS] = v[k];
                }
            }
            __syncthreads();
            if (t < n_here) {
                VC_CUDA_FOR(q, SUM_STEPS)
                {
                    sum += tile[q * VC_CUDA_LANES_OF_SUM + t];
                }
            }
            tile = tile == tiles ? tiles + SUM_STEPS * VC_CUDA_LANES_OF_SUM : tiles;
        }
        __syncthreads();
        sum = plan.in_lanes ? vc_cuda_add_lanes(sum, lanes) : sum;
        if (is && t < n_here && t % per_result == 0) {
            float v = (float)args.scale * sum;

            of.out[at[0][0]] = add ? of.out[at[0][0]] + v : v;
        }
    }
}

#define FEW_STEPS 64 /* up to here each thread of a block is a lane */

/* Threads beside each other should read elements beside each other: where results lie so, a lane makes each; else 16 lanes go
 * along the terms. */
int vc_cuda_train_strided_sum(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_strided *args = (const struct vc_args_strided *)w->call->args;
    struct operands of = {(float *)w->call->p[0], (const float *)w->call->p[1], (const float *)w->call->p[2],
                          (const float *)w->call->p[3]};
    struct vc_cuda_sizes kept = vc_cuda_sizes_of(args->n_kept, args->kept);
    struct sum_plan plan = {};
    int64_t steps[VC_TRAIN_DIMS];
    unsigned n_here, grid;

    if (args->n_reduced == 0 && args->n < 1u << 31) {
        VC_CUDA_ELEMENTS(s, strided_results_kernel<uint32_t>, (args->n + RESULTS - 1) / RESULTS, *args, kept,
                         w->call->add, of);
        return vc_cuda_launched();
    }
    if (args->n_reduced == 0) {
        VC_CUDA_ELEMENTS(s, strided_results_kernel<uint64_t>, (args->n + RESULTS - 1) / RESULTS, *args, kept,
                         w->call->add, of);
        return vc_cuda_launched();
    }
    plan.in_lanes = args->kept_step[1][args->n_kept - 1] != 1;
    plan.n_steps = 1;
    for (unsigned k = 0; k < args->n_reduced; k++) {
        bool divides = plan.in_lanes && k + 1 == args->n_reduced;

        steps[k] = divides ? (args->reduced[k] + VC_CUDA_LANES_OF_SUM - 1) / VC_CUDA_LANES_OF_SUM : args->reduced[k];
        plan.n_steps *= (uint64_t)steps[k];
        plan.row = (uint64_t)args->reduced[k];
        for (unsigned v = 0; v < 3; v++) {
            plan.lane_step[v] = divides ? args->reduced_step[v + 1][k] : 0;
            plan.step[v][k] = args->reduced_step[v + 1][k] * (divides ? VC_CUDA_LANES_OF_SUM : 1);
        }
    }
    plan.steps = vc_cuda_sizes_of(args->n_reduced, steps);
    n_here = plan.n_steps > FEW_STEPS ? VC_CUDA_LANES_OF_SUM : VC_CUDA_THREADS;
    grid = vc_cuda_grid((args->n * (plan.in_lanes ? VC_CUDA_LANES_OF_SUM : 1) + n_here - 1) / n_here);
    VC_CUDA_CHAIN("strided_sums", plan.n_steps / (plan.n_steps > FEW_STEPS ? SUM_STEPS : ALONE) + 1);
    if (plan.n_steps <= FEW_STEPS) {
        VC_CUDA_LAUNCH((strided_sums_kernel<false, uint32_t>), grid, VC_CUDA_THREADS, s->stream, *args, plan, kept,
                       w->call->add, of);
    } else if (plan.n_steps < 1u << 31) {
        VC_CUDA_LAUNCH((strided_sums_kernel<true, uint32_t>), grid, VC_CUDA_ADDERS + VC_CUDA_THREADS, s->stream, *args,
                       plan, kept, w->call->add, of);
    } else {
        VC_CUDA_LAUNCH((strided_sums_kernel<true, uint64_t>), grid, VC_CUDA_ADDERS + VC_CUDA_THREADS, s->stream, *args,
                       plan, kept, w->call->add, of);
    }
    return vc_cuda_launched();
}

/* Sums of parts of the batch, in the order of the parts, of which a convolution has as many as images. */
static __global__ void add_chunks_kernel(struct vc_args_chunks args, bool add, const float *chunks, float *sum)
{
    VC_CUDA_EACH(i, args.n)
    {
        float v = add ? sum[i] + chunks[i] : chunks[i];

        for (uint64_t c = 1; c < args.n_chunks; c += HELD) {
            float more[HELD];

            VC_CUDA_FOR(k, HELD)
            {
                more[k] = c + k < args.n_chunks ? chunks[(c + k) * args.n + i] : 0;
            }
            VC_CUDA_FOR(k, HELD)
            {
                v = c + k < args.n_chunks ? v + more[k] : v;
            }
        }
        sum[i] = v;
    }
}

int vc_cuda_train_add_chunks(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_chunks *args = (const struct vc_args_chunks *)w->call->args;

    VC_CUDA_CHAIN("add_chunks", args->n_chunks / HELD + 1);
    VC_CUDA_ELEMENTS(s, add_chunks_kernel, args->n, *args, w->call->add, (const float *)w->call->p[0],
                     (float *)w->call->p[1]);
    return vc_cuda_launched();
}

/* ---- BatchNormalization: a block takes a channel, its teams the images by turns ---- */

/* Sums over the images of a channel, in the order of images: each team makes that of one image, then every thread adds
 * those of the turn. y NULL: the sum of x; else of (x - mean) * (y - shift), times `by`. */
static __device__ __forceinline__ float norm_images(const struct vc_args_norm *args, const float *x, float mean,
                                                    const float *y, float shift, float by, float *lanes, float *images)
{
    uint64_t step = args->channels * args->inner;
    float sum = 0;

    for (uint64_t first = 0; first < args->batch; first += VC_CUDA_TEAMS) {
        uint64_t image = first + threadIdx.x / VC_CUDA_LANES_OF_SUM;
        uint64_t n = image < args->batch ? args->inner : 0;
        float one = vc_cuda_norm_dot(x + image * step, mean, y != NULL ? y + image * step : NULL, shift, n, lanes) * by;

        __syncthreads();
        if (VC_CUDA_LANE == 0) {
            images[threadIdx.x / VC_CUDA_LANES_OF_SUM] = one;
        }
        __syncthreads();
        for (uint64_t i = 0; i < VC_CUDA_TEAMS && first + i < args->batch; i++) {
            sum += images[i];
        }
    }
    return sum;
}

/* Where the elements of a channel are: number i of batch * inner. */
static __device__ __forceinline__ uint64_t norm_place(const struct vc_args_norm *args, uint64_t channel, uint64_t i)
{
    return (i / args->inner * args->channels + channel) * args->inner + i % args->inner;
}

/* Arrays of both kernels; NULL where one is not asked for. */
struct norm_arrays {
    const float *x, *dy, *scale, *bias, *from; /* from: what the forward pass saved */
    float *y, *running[2], *saved, *dx, *dscale, *dbias;
};

/* With statistics of the batch the first thread of a block updates the running ones; the variance among these is
 * divided by n - 1. */
static __global__ void batch_norm_kernel(struct vc_args_norm args, bool by_batch, float share, struct norm_arrays p)
{
    VC_CUDA_SHARED(float, lanes, VC_CUDA_THREADS);
    VC_CUDA_SHARED(float, images, VC_CUDA_TEAMS);
    float n = (float)(args.batch * args.inner);

    for (uint64_t channel = blockIdx.x; channel < args.channels; channel += gridDim.x) {
        const float *x = p.x + channel * args.inner;
        float mean = p.running[0][channel];
        float variance = p.running[1][channel];
        float scale = p.scale[channel];
        float bias = p.bias[channel];
        float inverse;

        /* Mean, then the sum of squares about it: two passes. */
        if (by_batch) {
            float was[2] = {mean, variance};
            float sum;

            mean = norm_images(&args, x, 0, NULL, 0, 1, lanes, images) / n;
            sum = norm_images(&args, x, mean, x, mean, 1, lanes, images);
            variance = sum / n;
            if (!args.fixed && threadIdx.x == 0) {
                p.running[0][channel] = was[0] * (1 - share) + mean * share;
                p.running[1][channel] = was[1] * (1 - share) + (n > 1 ? sum / (n - 1) : variance) * share;
            }
        }
        inverse = 1 / (float)sqrt((double)(variance + (float)args.epsilon));
        if (p.saved != NULL && threadIdx.x == 0) {
            p.saved[2 * channel] = mean;
            p.saved[2 * channel + 1] = inverse;
        }
        for (uint64_t i = threadIdx.x; i < args.batch * args.inner; i += blockDim.x) {
            uint64_t at = norm_place(&args, channel, i);

            p.y[at] = (p.x[at] - mean) * inverse * scale + bias;
        }
        __syncthreads(); /* y may be x, and running statistics are read by all */
    }
}

/* Training takes the statistics of the batch, unless the layer is frozen. */
static bool norm_by_batch(const struct vc_train_work *w)
{
    return w->pass->training && !((const struct vc_args_norm *)w->call->args)->frozen;
}

/* `share`: of the batch's statistics in the running ones. */
int vc_cuda_train_batch_norm(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_norm *args = (const struct vc_args_norm *)w->call->args;
    float share = (float)(w->pass->norm_share >= 0 ? w->pass->norm_share : 1 - args->momentum);
    struct norm_arrays p = {};

    p.x = (const float *)w->call->p[0];
    p.y = (float *)w->call->p[1];
    p.scale = (const float *)w->call->p[2];
    p.bias = (const float *)w->call->p[3];
    p.running[0] = (float *)w->call->p[4];
    p.running[1] = (float *)w->call->p[5];
    p.saved = (float *)w->call->p[6];
    VC_CUDA_LAUNCH(batch_norm_kernel, vc_cuda_grid(args->channels), VC_CUDA_THREADS, s->stream, *args, norm_by_batch(w),
                   share, p);
    return vc_cuda_launched();
}

/* Statistics of the batch depend on each x, so their part is taken off the gradient:
 *
 *     dx = scale / deviation * (dy - mean(dy) - (x - mean) * slope) */
static __global__ void batch_norm_backward_kernel(struct vc_args_norm args, bool by_batch, bool add,
                                                  struct norm_arrays p)
{
    VC_CUDA_SHARED(float, lanes, VC_CUDA_THREADS);
    VC_CUDA_SHARED(float, images, VC_CUDA_TEAMS);
    float n = (float)(args.batch * args.inner);

    for (uint64_t channel = blockIdx.x; channel < args.channels; channel += gridDim.x) {
        const float *x = p.x + channel * args.inner;
        const float *dy = p.dy + channel * args.inner;
        float mean = p.from[2 * channel];
        float inverse = p.from[2 * channel + 1];
        float scale = p.scale[channel];
        float dbias = norm_images(&args, dy, 0, NULL, 0, 1, lanes, images);
        float dscale = norm_images(&args, x, mean, dy, 0, inverse, lanes, images);
        float shift = by_batch ? dbias / n : 0;
        float slope = by_batch ? dscale / n * inverse : 0;

        if (threadIdx.x == 0 && p.dscale != NULL) {
            p.dscale[channel] += dscale;
        }
        if (threadIdx.x == 0 && p.dbias != NULL) {
            p.dbias[channel] += dbias;
        }
        for (uint64_t i = threadIdx.x; p.dx != NULL && i < args.batch * args.inner; i += blockDim.x) {
            uint64_t at = norm_place(&args, channel, i);
            float d = scale * inverse * (p.dy[at] - shift - (p.x[at] - mean) * slope);

            p.dx[at] = add ? p.dx[at] + d : d;
        }
        __syncthreads();
    }
}

int vc_cuda_train_batch_norm_backward(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_norm *args = (const struct vc_args_norm *)w->call->args;
    struct norm_arrays p = {};

    p.x = (const float *)w->call->p[0];
    p.dy = (const float *)w->call->p[1];
    p.dx = (float *)w->call->p[2];
    p.scale = (const float *)w->call->p[3];
    p.from = (const float *)w->call->p[4];
    p.dscale = (float *)w->call->p[5];
    p.dbias = (float *)w->call->p[6];
    VC_CUDA_LAUNCH(batch_norm_backward_kernel, vc_cuda_grid(args->channels), VC_CUDA_THREADS, s->stream, *args,
                   norm_by_batch(w), w->call->add, p);
    return vc_cuda_launched();
}

/* ---- LayerNormalization, RMSNormalization: a team takes a row ---- */

/* `centred` is LayerNormalization; else RMSNormalization, where the mean counts as 0. Mean and inverse are saved for
 * the step back, the inverse alone where there is no mean. */
static __global__ void row_norm_kernel(struct vc_args_row_norm args, const float *from, float *to, const float *scale,
                                       const float *bias, float *saved)
{
    VC_CUDA_SHARED(float, lanes, VC_CUDA_THREADS);

    VC_CUDA_EACH_ROW(row, args.rows)
    {
        uint64_t n = row < args.rows ? args.n : 0;
        const float *x = from + (n != 0 ? row * args.n : 0);
        float *y = to + (n != 0 ? row * args.n : 0);
        float mean = args.centred ? vc_cuda_norm_dot(x, 0, NULL, 0, n, lanes) / (float)args.n : 0;
        float variance = vc_cuda_norm_dot(x, mean, x, mean, n, lanes) / (float)args.n;
        float inverse = 1 / (float)sqrt((double)(variance + (float)args.epsilon));

        if (saved != NULL && n != 0 && VC_CUDA_LANE == 0) {
            if (args.centred) {
                saved[2 * row] = mean;
                saved[2 * row + 1] = inverse;
            } else {
                saved[row] = inverse;
            }
        }
        __syncthreads(); /* y may be x */
        VC_CUDA_TOGETHER(base, n)
        {
            float v[VC_CUDA_PER_LANE];

            VC_CUDA_FOR(k, VC_CUDA_PER_LANE)
            {
                uint64_t i = VC_CUDA_AT(base, k);

                v[k] = i < n ? (x[i] - mean) * inverse * scale[i] : 0;
                v[k] = i < n && bias != NULL ? v[k] + bias[i] : v[k];
            }
            VC_CUDA_FOR(k, VC_CUDA_PER_LANE)
            {
                if (VC_CUDA_AT(base, k) < n) {
                    y[VC_CUDA_AT(base, k)] = v[k];
                }
            }
        }
    }
}

int vc_cuda_train_row_norm(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_row_norm *args = (const struct vc_args_row_norm *)w->call->args;

    VC_CUDA_ROWS(s, row_norm_kernel, args->rows, *args, (const float *)w->call->p[0], (float *)w->call->p[1],
                 (const float *)w->call->p[2], (const float *)w->call->p[3], (float *)w->call->p[4]);
    return vc_cuda_launched();
}

/* What rows add to the gradients of scale and bias: a thread for each column of a part of the rows. */
static __global__ void row_norm_parameters_kernel(struct vc_args_row_norm args, uint64_t parts, const float *x,
                                                  const float *dy, const float *saved, float *dscale, float *dbias)
{
    VC_CUDA_EACH(i, parts * args.n)
    {
        uint64_t first = i / args.n * args.rows_per_block;
        uint64_t end = VC_AT_MOST(first + args.rows_per_block, args.rows);
        uint64_t column = i % args.n;
        float sums[2] = {0, 0};

        for (uint64_t base = first; base < end; base += HELD) {
            float term[2][HELD];

            VC_CUDA_FOR(k, HELD)
            {
                uint64_t row = base + k;
                bool is = row < end;
                float mean = is && args.centred ? saved[2 * row] : 0;
                float inverse = is ? saved[args.centred ? 2 * row + 1 : row] : 0;

                term[1][k] = is ? dy[row * args.n + column] : 0;
                term[0][k] = is ? term[1][k] * (x[row * args.n + column] - mean) * inverse : 0;
            }
            VC_CUDA_FOR(k, HELD)
            {
                sums[0] += term[0][k];
                sums[1] += term[1][k];
            }
        }
        if (dscale != NULL) {
            dscale[i] = sums[0];
        }
        if (dbias != NULL) {
            dbias[i] = sums[1];
        }
    }
}

/* A team for each row. Sums of what flows back, and of it times x, are added up in lanes as the other sums are. */
static __global__ void row_norm_backward_kernel(struct vc_args_row_norm args, bool add, const float *from,
                                                const float *grad, float *to, const float *scale, const float *saved)
{
    VC_CUDA_SHARED(float, lanes, VC_CUDA_THREADS);

    VC_CUDA_EACH_ROW(row, args.rows)
    {
        uint64_t n = row < args.rows ? args.n : 0;
        uint64_t at = n != 0 ? row * args.n : 0;
        uint64_t whole = n / VC_CUDA_LANES_OF_SUM * VC_CUDA_LANES_OF_SUM;
        const float *x = from + at;
        const float *dy = grad + at;
        float *dx = to + at;
        float mean = n != 0 && args.centred ? saved[2 * row] : 0;
        float inverse = n != 0 ? saved[args.centred ? 2 * row + 1 : row] : 0;
        float lane[2] = {0, 0};
        float sums[2];

        VC_CUDA_TOGETHER(base, whole)
        {
            float g[VC_CUDA_PER_LANE], u[VC_CUDA_PER_LANE];

            VC_CUDA_FOR(k, VC_CUDA_PER_LANE)
            {
                uint64_t i = VC_CUDA_AT(base, k);

                g[k] = i < whole ? dy[i] * scale[i] : 0;
                u[k] = i < whole ? g[k] * (x[i] - mean) : 0;
            }
            VC_CUDA_FOR(k, VC_CUDA_PER_LANE)
            {
                lane[0] += u[k];
                lane[1] += g[k];
            }
        }
        sums[0] = vc_cuda_add_lanes(lane[0], lanes);
        sums[1] = vc_cuda_add_lanes(lane[1], lanes);
        for (uint64_t i = whole; i < n; i++) {
            sums[0] += dy[i] * scale[i] * (x[i] - mean);
            sums[1] += dy[i] * scale[i];
        }
        sums[0] *= inverse;
        sums[0] = sums[0] / (float)args.n * inverse;
        sums[1] = args.centred ? sums[1] / (float)args.n : 0;
        __syncthreads(); /* dx may be dy */
        VC_CUDA_TOGETHER(base, n)
        {
            float d[VC_CUDA_PER_LANE];

            VC_CUDA_FOR(k, VC_CUDA_PER_LANE)
            {
                uint64_t i = VC_CUDA_AT(base, k);

                d[k] = i < n ? inverse * (dy[i] * scale[i] - sums[1] - (x[i] - mean) * sums[0]) : 0;
                d[k] = i < n && add ? dx[i] + d[k] : d[k];
            }
            VC_CUDA_FOR(k, VC_CUDA_PER_LANE)
            {
                if (VC_CUDA_AT(base, k) < n) {
                    dx[VC_CUDA_AT(base, k)] = d[k];
                }
            }
        }
    }
}

int vc_cuda_train_row_norm_backward(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_row_norm *args = (const struct vc_args_row_norm *)w->call->args;
    const float *x = (const float *)w->call->p[0];
    const float *dy = (const float *)w->call->p[1];
    const float *saved = (const float *)w->call->p[4];
    uint64_t parts = (args->rows + args->rows_per_block - 1) / args->rows_per_block;

    if (w->call->p[5] != NULL || w->call->p[6] != NULL) {
        VC_CUDA_ELEMENTS(s, row_norm_parameters_kernel, parts * args->n, *args, parts, x, dy, saved,
                         (float *)w->call->p[5], (float *)w->call->p[6]);
    }
    if (w->call->p[2] != NULL) {
        VC_CUDA_ROWS(s, row_norm_backward_kernel, args->rows, *args, w->call->add, x, dy, (float *)w->call->p[2],
                     (const float *)w->call->p[3], saved);
    }
    return vc_cuda_launched();
}
