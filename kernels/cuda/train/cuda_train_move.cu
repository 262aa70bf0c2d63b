/* cuda_train_move.cu - training on the device: elements that go elsewhere, rows by numbers, rotary positions. As in
 * engine/loops/train_strided.h, train_gather.h and train_attention.h. No atomics but for faults: where several
 * elements add to one, one thread adds them in the CPU's order. */
#include "kernels/cuda/train/cuda_train.h"

/* ---- elements by maps ---- */

/* A map for each dimension says which index of the input an output index reads; -1: none, and the value is
 * `otherwise`. */
static __global__ void mapped_kernel(struct vc_args_mapped args, const float *x, float *y)
{
    VC_CUDA_EACH(i, args.n_out)
    {
        uint64_t rest = i;
        int64_t place = 0;
        int64_t step = 1;
        bool inside = true;

        for (unsigned k = args.n_dims; k-- > 0;) {
            int64_t from = args.map[k][rest % (uint64_t)args.out[k]];

            rest /= (uint64_t)args.out[k];
            inside = inside && from >= 0;
            place += from * step;
            step *= args.in[k];
        }
        y[i] = inside ? x[place] : (float)args.otherwise;
    }
}

int vc_cuda_train_mapped(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_mapped *args = (const struct vc_args_mapped *)w->device_args;

    VC_CUDA_ELEMENTS(s, mapped_kernel, args->n_out, *args, (const float *)w->call->p[0], (float *)w->call->p[1]);
    return vc_cuda_launched();
}

/* The sum over all places of y that show the element of x at at[0], at[1], ...: for each place of dimension k the sum
 * over those of the dimensions behind it. */
static __device__ __forceinline__ float mapped_sum(const struct vc_args_mapped *args, const float *dy,
                                                   const int64_t *at)
{
    int64_t next[VC_TRAIN_DIMS], end[VC_TRAIN_DIMS], place[VC_TRAIN_DIMS + 1];
    float sums[VC_TRAIN_DIMS + 1];
    unsigned n = args->n_dims;
    unsigned k = 0;

    if (n == 0) {
        return dy[0];
    }
    place[0] = 0;
    sums[0] = 0;
    next[0] = args->back[0][at[0]];
    end[0] = args->back[0][at[0] + 1];
    for (;;) {
        if (next[k] == end[k]) { /* all of this dimension */
            if (k == 0) {
                return sums[0];
            }
            k--;
            sums[k] += sums[k + 1];
            continue;
        }
        place[k + 1] = place[k] * args->out[k] + args->back_list[k][next[k]++];
        if (k + 1 == n) {
            sums[k] += dy[place[n]];
            continue;
        }
        k++;
        sums[k] = 0;
        next[k] = args->back[k][at[k]];
        end[k] = args->back[k][at[k] + 1];
    }
}

/* A thread takes an element of the input, and adds up all outputs that have read it. */
static __global__ void mapped_backward_kernel(struct vc_args_mapped args, bool add, const float *dy, float *dx)
{
    VC_CUDA_EACH(i, args.n_in)
    {
        int64_t at[VC_TRAIN_DIMS];
        uint64_t rest = i;
        float sum;

        for (unsigned k = args.n_dims; k-- > 0;) {
            at[k] = (int64_t)(rest % (uint64_t)args.in[k]);
            rest /= (uint64_t)args.in[k];
        }
        sum = mapped_sum(&args, dy, at);
        dx[i] = add ? dx[i] + sum : sum;
    }
}

int vc_cuda_train_mapped_backward(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_mapped *args = (const struct vc_args_mapped *)w->device_args;

    VC_CUDA_ELEMENTS(s, mapped_backward_kernel, args->n_in, *args, w->call->add, (const float *)w->call->p[0],
                     (float *)w->call->p[1]);
    return vc_cuda_launched();
}

/* A thread takes a result, and adds up the elements that a row of the matrix mixes. */
static __global__ void blend_kernel(struct vc_args_blend args, bool add, const float *x, float *y)
{
    VC_CUDA_EACH(i, args.n)
    {
        uint64_t row = i / (uint64_t)args.inner;
        int64_t at = (int64_t)(row % (uint64_t)args.out);
        const float *from = x + row / (uint64_t)args.out * (uint64_t)(args.in * args.inner) + i % (uint64_t)args.inner;
        float sum = add ? y[i] : 0;

        for (int64_t k = args.first[at]; k < args.first[at + 1]; k++) {
            sum += (float)args.weight[k] * from[args.from[k] * args.inner];
        }
        y[i] = sum;
    }
}

int vc_cuda_train_blend(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_blend *args = (const struct vc_args_blend *)w->device_args;

    VC_CUDA_ELEMENTS(s, blend_kernel, args->n, *args, w->call->add, (const float *)w->call->p[0],
                     (float *)w->call->p[1]);
    return vc_cuda_launched();
}

/* ---- rows by numbers ---- */

/* The row that an index means; `size`: none. */
static __device__ __forceinline__ uint64_t row_of(int64_t index, uint64_t size)
{
    int64_t row = index < 0 ? index + (int64_t)size : index;

    return row < 0 || row >= (int64_t)size ? size : (uint64_t)row;
}

/* The first place of the first node has the smallest number, whose complement is the largest. */
static __device__ __forceinline__ void note_fault(unsigned long long *fault, uint32_t node, uint64_t at)
{
    atomicMax(fault, ~((unsigned long long)node << 40 | at));
}

/* Rows by their numbers. A number out of range is noted as a fault, and gives 0. */
static __global__ void gather_kernel(struct vc_args_gather args, unsigned long long *fault, const float *x,
                                     const int64_t *indices, float *y)
{
    VC_CUDA_EACH(i, args.outer * args.n * args.inner)
    {
        uint64_t k = i % args.inner;
        uint64_t at = i / args.inner % args.n;
        uint64_t outer = i / args.inner / args.n;
        uint64_t row = row_of(indices[at], args.size);

        if (row == args.size) {
            note_fault(fault, args.node, at);
            y[i] = 0;
        } else {
            y[i] = x[(outer * args.size + row) * args.inner + k];
        }
    }
}

int vc_cuda_train_gather(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_gather *args = (const struct vc_args_gather *)w->call->args;

    VC_CUDA_ELEMENTS(s, gather_kernel, args->outer * args->n * args->inner, *args, s->fault,
                     (const float *)w->call->p[0], (const int64_t *)w->call->p[1], (float *)w->call->p[2]);
    return vc_cuda_launched();
}

#define GATHER_WARPS 8 /* times 32 indices, that a warp compares together */

/* The sum of those of 32 elements, `step` apart, that have a bit in `means`, on top of `sum`, in their order. */
static __device__ __forceinline__ float add_means(float sum, const float *dy, uint64_t step, unsigned means)
{
    unsigned n = (unsigned)__popc(means);
    float v[32];

    VC_CUDA_FOR(k, 32)
    {
        v[k] = k < n ? dy[(unsigned)__popc((means & -means) - 1) * step] : 0;
        means &= means - 1;
    }
    VC_CUDA_FOR(k, 32)
    {
        sum = k < n ? sum + v[k] : sum;
    }
    return sum;
}

/* A warp takes an index and 32 columns, and adds to its row if it is the first that means this row: then also all later ones. Lane
 * l has a column, and compares each 32nd index. */
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    gather_backward_kernel(struct vc_args_gather args, const float *dy, const int64_t *indices, float *dx)
{
    uint64_t parts = (args.inner + 31) / 32;
    uint64_t lane = threadIdx.x % 32;
    uint64_t all = (uint64_t)gridDim.x * (VC_CUDA_THREADS / 32);

    for (uint64_t work = blockIdx.x * (uint64_t)(VC_CUDA_THREADS / 32) + threadIdx.x / 32;
         work < args.outer * args.n * parts; work += all) {
        uint64_t column = work % parts * 32 + lane;
        uint64_t first = work / parts % args.n;
        uint64_t outer = work / parts / args.n;
        uint64_t row = row_of(indices[first], args.size);
        const float *from = dy + outer * args.n * args.inner + column;
        float *to = dx + (outer * args.size + row) * args.inner + column;
        bool is = row < args.size && column < args.inner;
        float sum = 0;
        bool later = row == args.size;

        for (uint64_t base = 0; base < args.n && !later; base += 32 * GATHER_WARPS) {
            unsigned means[GATHER_WARPS];

            VC_CUDA_FOR(c, GATHER_WARPS)
            {
                uint64_t i = base + c * 32 + lane;
                uint64_t other = i < args.n ? row_of(indices[i], args.size) : args.size;

                later = later || (other == row && i < first);
                means[c] = other == row ? 1 : 0;
            }
            later = __ballot_sync(VC_CUDA_WARP_MASK, later) != 0;
            if (is && !later && base <= first && first - base < 32 * GATHER_WARPS) {
                sum = *to; /* from here on no other warp has this row */
            }
            VC_CUDA_FOR(c, GATHER_WARPS)
            {
                means[c] = __ballot_sync(VC_CUDA_WARP_MASK, means[c] != 0);
            }
            VC_CUDA_FOR(c, GATHER_WARPS)
            {
                if (means[c] != 0 && is && !later) {
                    sum = add_means(sum, from + (base + c * 32) * args.inner, args.inner, means[c]);
                }
            }
        }
        if (is && !later) {
            *to = sum;
        }
    }
}

int vc_cuda_train_gather_backward(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_gather *args = (const struct vc_args_gather *)w->call->args;
    int result = cudaSuccess;

    if (!w->call->add) {
        VC_CUDA_TRY(
            cudaMemsetAsync(w->call->p[2], 0, args->outer * args->size * args->inner * sizeof(float), s->stream));
    }
    VC_CUDA_CHAIN("gather_backward", 2 + args->n / (32 * GATHER_WARPS) + args->n / 32);
    VC_CUDA_LAUNCH(gather_backward_kernel,
                   vc_cuda_grid((args->outer * args->n * ((args->inner + 31) / 32) + VC_CUDA_THREADS / 32 - 1) /
                                (VC_CUDA_THREADS / 32)),
                   VC_CUDA_THREADS, s->stream, *args, (const float *)w->call->p[0], (const int64_t *)w->call->p[1],
                   (float *)w->call->p[2]);
    result = vc_cuda_launched();
out:
    return result;
}

/* ---- rotary positions ---- */

static __global__ void rotary_kernel(struct vc_args_rotary args, bool add, unsigned long long *fault, const float *from,
                                     const float *cosines, const float *sines, const int64_t *positions, float *to)
{
    uint64_t per_head = args.size - args.half; /* pairs, and what is behind them */

    VC_CUDA_EACH(i, args.batch * args.length * args.heads * per_head)
    {
        uint64_t k = i % per_head;
        uint64_t head = i / per_head % args.heads;
        uint64_t place = i / per_head / args.heads;
        uint64_t row = positions != NULL ? row_of(positions[place], args.rows) : place;
        int64_t at = (int64_t)(place / args.length) * args.x.batch + (int64_t)head * args.x.head +
                     (int64_t)(place % args.length) * args.x.row;
        const float *x = from + at;
        float *y = to + at;

        if (row == args.rows) {
            note_fault(fault, args.node, place);
            row = 0;
        }
        if (k >= args.half) {
            uint64_t e = k + args.half;

            y[e] = add ? y[e] + x[e] : x[e];
        } else {
            uint64_t e = args.interleaved ? 2 * k : k;
            uint64_t f = args.interleaved ? 2 * k + 1 : k + args.half;
            float a = x[e];
            float b = x[f];
            float c = cosines[row * args.half + k];
            float sine = args.back ? -sines[row * args.half + k] : sines[row * args.half + k];
            float to_a = a * c - b * sine;
            float to_b = a * sine + b * c;

            y[e] = add ? y[e] + to_a : to_a;
            y[f] = add ? y[f] + to_b : to_b;
        }
    }
}

int vc_cuda_train_rotary(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_rotary *args = (const struct vc_args_rotary *)w->call->args;

    VC_CUDA_ELEMENTS(s, rotary_kernel, args->batch * args->length * args->heads * (args->size - args->half), *args,
                     w->call->add, s->fault, (const float *)w->call->p[0], (const float *)w->call->p[1],
                     (const float *)w->call->p[2], (const int64_t *)w->call->p[3], (float *)w->call->p[4]);
    return vc_cuda_launched();
}
