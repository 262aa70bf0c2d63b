/* cuda_train_fake_quant.cu - training on the device: fake quantization, weights that are made of their masters before
 * every step. The formulas are those of arith.h, blocks.h and grid_codes.h, as the quantize pass takes them. */
#include "kernels/blocks.h"
#include "kernels/cuda/train/cuda_train.h"
#include "kernels/grid_codes.h"

#define PART 4096 /* neighbours that a block looks at, for maxima */

/* Which scale element i takes. */
static __device__ __forceinline__ uint64_t scale_of(const struct vc_train_fake_quant *f, uint64_t i)
{
    return i / f->row_len * f->n_per_row + i % f->row_len / f->inner % f->n_per_row;
}

/* Magnitudes as bits are in the order of the floats, so an integer maximum serves; its order does not matter. */
static __device__ __forceinline__ void join(uint32_t *most, uint64_t at, uint32_t magnitude)
{
    if (magnitude != 0) {
        (void)atomicMax(&most[at], magnitude);
    }
}

/* The largest magnitudes of each scale: of both signs in pos, or, of asymmetric codes, of negative ones in neg. They
 * are integers, so their order does not matter. A thread keeps what it has found for as long as the scale is the same.
 */
static __global__ void range_kernel(struct vc_train_fake_quant f)
{
    for (uint64_t first = blockIdx.x * (uint64_t)PART; first < f.n; first += gridDim.x * (uint64_t)PART) {
        uint64_t end = VC_AT_MOST(f.n, first + PART);
        uint64_t at = 0;
        uint32_t pos = 0;
        uint32_t neg = 0;

        for (uint64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
            uint64_t scale = scale_of(&f, i);
            uint32_t magnitude = vc_f32_magnitude(f.master[i]);

            if (scale != at) {
                join(f.pos, at, pos);
                join(f.neg, at, neg);
                at = scale;
                pos = neg = 0;
            }
            if (f.asymmetric && vc_f32_bits(f.master[i]) >> 31 != 0) {
                neg = magnitude > neg ? magnitude : neg;
            } else {
                pos = magnitude > pos ? magnitude : pos;
            }
        }
        join(f.pos, at, pos);
        join(f.neg, at, neg);
    }
}

/* A thread for each scale. */
static __global__ void scale_kernel(struct vc_train_fake_quant f)
{
    VC_CUDA_EACH(i, f.n_scales)
    {
        f.scale[i] = f.asymmetric ? vc_int8_asym_scale(f.pos[i], f.neg[i]) : vc_int8_scale(f.pos[i]);
        f.zero[i] = f.asymmetric ? vc_int8_zero_point(f.neg[i], f.scale[i]) : (int8_t)0;
    }
}

/* A thread for each weight: what its code stands for. */
static __global__ void int8_kernel(struct vc_train_fake_quant f)
{
    VC_CUDA_EACH(i, f.n)
    {
        uint64_t at = scale_of(&f, i);
        float scale = f.scale[at];
        int8_t zero = f.zero[at];
        int8_t q = f.asymmetric ? vc_int8_encode_asym(f.master[i], scale, zero) : vc_int8_encode(f.master[i], scale);

        f.w[i] = vc_int8_decode(q, scale, zero);
    }
}

/* A thread takes a block of 32. */
static __global__ void q8_0_kernel(struct vc_train_fake_quant f)
{
    VC_CUDA_EACH(block, f.n / 32)
    {
        const float *x = f.master + block * 32;
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
            f.w[block * 32 + i] = vc_one_nan((float)vc_q8_0_encode(x[i], inverse) * stored);
        }
    }
}

/* A thread takes what it finds of the tensor; LARGEST. */
static __global__ void largest_kernel(struct vc_train_fake_quant f)
{
    uint32_t most = 0;

    VC_CUDA_EACH(i, f.n)
    {
        uint32_t magnitude = vc_f32_magnitude(f.master[i]);

        most = magnitude < VC_F32_INF_BITS && magnitude > most ? magnitude : most;
    }
    join(f.pos, 0, most);
}

/* A thread takes a group: its scale comes from a search over the elements in their order. */
static __global__ void groups_kernel(struct vc_train_fake_quant f, uint64_t n_per_row)
{
    struct vc_group_codes how = f.how;

    how.global = f.pos != NULL ? vc_nvfp4_global(vc_bits_f32(f.pos[0])) : 1.0f;
    VC_CUDA_EACH(i, f.n / f.row_len * n_per_row)
    {
        uint64_t in_row = i % n_per_row * f.inner;
        uint64_t first = i / n_per_row * f.row_len + in_row;

        vc_group_round(&how, f.master + first, (size_t)VC_AT_MOST(f.inner, f.row_len - in_row), f.w + first);
    }
}

/* The same for halves. */
static __global__ void cast_kernel(struct vc_train_fake_quant f)
{
    VC_CUDA_EACH(i, f.n)
    {
        f.w[i] = f.kind == VC_TRAIN_FAKE_QUANT_F16 ? vc_f16_to_f32(vc_f32_to_f16(f.master[i]))
                                                   : vc_bf16_to_f32(vc_f32_to_bf16(f.master[i]));
    }
}

/* One call for a weight. int8 takes three kernels: ranges, scales, values; the others one. */
int vc_cuda_train_fake_quant(void *session, const struct vc_train_fake_quant *fake_quant)
{
    struct vc_cuda_session *s = (struct vc_cuda_session *)session;
    int result = cudaSuccess;

    if (fake_quant->kind == VC_TRAIN_FAKE_QUANT_LARGEST) {
        VC_CUDA_ELEMENTS(s, largest_kernel, fake_quant->n, *fake_quant);
    } else if (fake_quant->kind == VC_TRAIN_FAKE_QUANT_GROUPS) {
        uint64_t n_per_row = (fake_quant->row_len + fake_quant->inner - 1) / fake_quant->inner;

        VC_CUDA_ELEMENTS(s, groups_kernel, fake_quant->n / fake_quant->row_len * n_per_row, *fake_quant, n_per_row);
    } else if (fake_quant->kind == VC_TRAIN_FAKE_QUANT_Q8_0) {
        VC_CUDA_ELEMENTS(s, q8_0_kernel, fake_quant->n / 32, *fake_quant);
    } else if (fake_quant->kind != VC_TRAIN_FAKE_QUANT_I8) {
        VC_CUDA_ELEMENTS(s, cast_kernel, fake_quant->n, *fake_quant);
    } else {
        VC_CUDA_TRY(cudaMemsetAsync(fake_quant->pos, 0, fake_quant->n_scales * sizeof *fake_quant->pos, s->stream));
        VC_CUDA_TRY(cudaMemsetAsync(fake_quant->neg, 0, fake_quant->n_scales * sizeof *fake_quant->neg, s->stream));
        VC_CUDA_LAUNCH(range_kernel, vc_cuda_grid((fake_quant->n + PART - 1) / PART), VC_CUDA_THREADS, s->stream,
                       *fake_quant);
        VC_CUDA_ELEMENTS(s, scale_kernel, fake_quant->n_scales, *fake_quant);
        VC_CUDA_ELEMENTS(s, int8_kernel, fake_quant->n, *fake_quant);
    }
    result = vc_cuda_launched();
out:
    return result;
}
