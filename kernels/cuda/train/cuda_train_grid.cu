/* cuda_train_grid.cu - training on the device: weights on the grid of a quantization, made of their masters before
 * every step. The formulas are those of arith.h and blocks.h, as the quantize pass takes them. */
#include "kernels/blocks.h"
#include "kernels/cuda/train/cuda_train.h"

#define PART 4096 /* neighbours that a block looks at, for maxima */

/* Which scale element i takes. */
static __device__ __forceinline__ uint64_t scale_of(const struct vc_train_grid *g, uint64_t i)
{
    return i / g->row_len * g->n_per_row + i % g->row_len / g->inner % g->n_per_row;
}

static __device__ __forceinline__ void join(uint32_t *most, uint64_t at, uint32_t magnitude)
{
    if (magnitude != 0) {
        (void)atomicMax(&most[at], magnitude);
    }
}

/* The largest magnitudes of each scale: of both signs in pos, or, of asymmetric codes, of negative ones in neg. They
 * are integers, so their order does not matter. A thread keeps what it has found for as long as the scale is the same.
 */
static __global__ void range_kernel(struct vc_train_grid g)
{
    for (uint64_t first = blockIdx.x * (uint64_t)PART; first < g.n; first += gridDim.x * (uint64_t)PART) {
        uint64_t end = VC_AT_MOST(g.n, first + PART);
        uint64_t at = 0;
        uint32_t pos = 0;
        uint32_t neg = 0;

        for (uint64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
            uint64_t scale = scale_of(&g, i);
            uint32_t magnitude = vc_f32_magnitude(g.master[i]);

            if (scale != at) {
                join(g.pos, at, pos);
                join(g.neg, at, neg);
                at = scale;
                pos = neg = 0;
            }
            if (g.asymmetric && vc_f32_bits(g.master[i]) >> 31 != 0) {
                neg = magnitude > neg ? magnitude : neg;
            } else {
                pos = magnitude > pos ? magnitude : pos;
            }
        }
        join(g.pos, at, pos);
        join(g.neg, at, neg);
    }
}

static __global__ void scale_kernel(struct vc_train_grid g)
{
    VC_CUDA_EACH(i, g.n_scales)
    {
        g.scale[i] = g.asymmetric ? vc_int8_asym_scale(g.pos[i], g.neg[i]) : vc_int8_scale(g.pos[i]);
        g.zero[i] = g.asymmetric ? vc_int8_zero_point(g.neg[i], g.scale[i]) : (int8_t)0;
    }
}

static __global__ void int8_kernel(struct vc_train_grid g)
{
    VC_CUDA_EACH(i, g.n)
    {
        uint64_t at = scale_of(&g, i);
        float scale = g.scale[at];
        int8_t zero = g.zero[at];
        int8_t q = g.asymmetric ? vc_int8_encode_asym(g.master[i], scale, zero) : vc_int8_encode(g.master[i], scale);

        g.w[i] = vc_int8_decode(q, scale, zero);
    }
}

/* A thread takes a block of 32. */
static __global__ void q8_0_kernel(struct vc_train_grid g)
{
    VC_CUDA_EACH(block, g.n / 32)
    {
        const float *x = g.master + block * 32;
        uint32_t most = 0;
        float step, stored, inverse;

        for (unsigned i = 0; i < 32; i++) {
            uint32_t magnitude = vc_f32_magnitude(x[i]);

            most = magnitude > most ? magnitude : most;
        }
        step = vc_q8_0_step(most);
        stored = vc_f16_to_f32(vc_f32_to_f16(step));
        inverse = vc_q8_0_inverse(step);
        for (unsigned i = 0; i < 32; i++) {
            g.w[block * 32 + i] = vc_one_nan((float)vc_q8_0_encode(x[i], inverse) * stored);
        }
    }
}

static __global__ void cast_kernel(struct vc_train_grid g)
{
    VC_CUDA_EACH(i, g.n)
    {
        g.w[i] = g.kind == VC_TRAIN_GRID_F16 ? vc_f16_to_f32(vc_f32_to_f16(g.master[i]))
                                             : vc_bf16_to_f32(vc_f32_to_bf16(g.master[i]));
    }
}

int vc_cuda_train_grid_apply(void *session, const struct vc_train_grid *grid)
{
    struct vc_cuda_session *s = (struct vc_cuda_session *)session;
    int result = cudaSuccess;

    if (grid->kind == VC_TRAIN_GRID_Q8_0) {
        VC_CUDA_ELEMENTS(s, q8_0_kernel, grid->n / 32, *grid);
    } else if (grid->kind != VC_TRAIN_GRID_I8) {
        VC_CUDA_ELEMENTS(s, cast_kernel, grid->n, *grid);
    } else {
        VC_CUDA_TRY(cudaMemsetAsync(grid->pos, 0, grid->n_scales * sizeof *grid->pos, s->stream));
        VC_CUDA_TRY(cudaMemsetAsync(grid->neg, 0, grid->n_scales * sizeof *grid->neg, s->stream));
        VC_CUDA_LAUNCH(range_kernel, vc_cuda_train_grid((grid->n + PART - 1) / PART), VC_CUDA_THREADS, s->stream,
                       *grid);
        VC_CUDA_ELEMENTS(s, scale_kernel, grid->n_scales, *grid);
        VC_CUDA_ELEMENTS(s, int8_kernel, grid->n, *grid);
    }
    result = vc_cuda_launched();
out:
    return result;
}
