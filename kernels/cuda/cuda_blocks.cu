/* cuda_blocks.cu - the kernels for GGUF's block types; the arithmetic is that of kernels/blocks.h, one thread per
 * element.
 *
 * To the pipeline a block is one entry of an array per group. Q8_0 is made in two kernels over a unit: the largest
 * magnitudes, then the codes, by the walk over chunks that also takes the statistics. */
#include "kernels/blocks.h"
#include "kernels/cuda/cuda_absmax.h"
#include "kernels/cuda/cuda_chunks.h"
#include "kernels/cuda/cuda_kernels.h"

/* ---- Q8_0 from weights ---- */

/* Code and statistics of one element (cuda_chunks.h). Each thread forms the step of its block again: cheaper than
 * handing it on. The thread of a block's first element stores it. */
struct q8_0_op {
    enum { N_SUMS = 2 };
    typedef float value;

    const float *x;
    const uint32_t *bits;
    uint8_t *blocks;

    __device__ __forceinline__ float load(uint32_t flat) const
    {
        return x[flat];
    }

    __device__ __forceinline__ void visit(float v, uint32_t, uint32_t, uint32_t flat, double *sums,
                                          struct vc_cuda_tally *tally) const
    {
        float step = vc_q8_0_step(bits[flat / 32]);
        uint16_t stored = vc_f32_to_f16(step);
        uint8_t *block = blocks + (size_t)(flat / 32) * VC_Q8_0_BYTES;
        int8_t q = vc_q8_0_encode(v, vc_q8_0_inverse(step));

        if (flat % 32 == 0) {
            block[0] = (uint8_t)stored;
            block[1] = (uint8_t)(stored >> 8);
        }
        block[2 + flat % 32] = (uint8_t)q;
        vc_cuda_compare(v, vc_one_nan((float)q * vc_f16_to_f32(stored)), false, sums, tally);
    }
};

/* Arrays: x, bits, blocks and, with statistics, chunk sums and totals. */
static void launch_q8_0(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    bool stats = call->n_arrays > 3;
    struct q8_0_op op = {(const float *)unit->device[0], (const uint32_t *)unit->device[1], (uint8_t *)unit->device[2]};

    vc_cuda_launch_range(call, unit, op.x, (uint32_t *)unit->device[1], NULL);
    vc_cuda_launch_chunks(op, unit, stats ? (double *)unit->device[3] : NULL,
                          stats ? (struct vc_cuda_totals *)unit->device[4] : NULL);
}

int vc_cuda_q8_0_rows(const float *x, size_t n_rows, size_t row_len, uint32_t *bits, uint8_t *blocks,
                      struct vc_tile_stats *stats)
{
    struct vc_cuda_call call = {};

    vc_cuda_stats_clear(stats);
    call.n_rows = n_rows;
    call.row_len = row_len;
    call.group = 32;
    call.launch = launch_q8_0;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, bits, sizeof *bits, VC_CUDA_PER_GROUP, VC_CUDA_OUT_MAX);
    vc_cuda_add_out(&call, blocks, VC_Q8_0_BYTES, VC_CUDA_PER_GROUP, VC_CUDA_OUT);
    vc_cuda_add_stats(&call, stats);
    return vc_cuda_run(&call);
}

/* ---- values from blocks ---- */

/* Block: one type's ELEMS, BYTES and value (DECODE below). blocks holds whole blocks. */
template <class Block>
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    blocks_kernel(const uint8_t *__restrict__ blocks, uint32_t n, float *__restrict__ y)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
        y[i] = Block::value(blocks + i / Block::ELEMS * Block::BYTES, (uint32_t)(i % Block::ELEMS));
    }
}

template <class Block> static void launch_decode(const struct vc_cuda_call *, const struct vc_cuda_unit *unit)
{
    VC_CUDA_LAUNCH(blocks_kernel<Block>, vc_cuda_grid(unit->n_elems / (VC_CUDA_THREADS * 4) + 1),
                   vc_cuda_block(unit->n_elems), unit->stream, (const uint8_t *)unit->device[0], unit->n_elems,
                   (float *)unit->device[1]);
}

template <class Block> static int decode(const uint8_t *blocks, size_t n, float *y)
{
    struct vc_cuda_call call = {};

    call.n_rows = 1;
    call.row_len = n;
    call.group = Block::ELEMS;
    call.launch = launch_decode<Block>;
    vc_cuda_add_in(&call, blocks, Block::BYTES, VC_CUDA_PER_GROUP);
    vc_cuda_add_out(&call, y, sizeof *y, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    return vc_cuda_run(&call);
}

/* The type as a class, and its kernel. */
#define DECODE(type, elems, bytes)                                                      \
    struct type##_block {                                                               \
        enum { ELEMS = (elems), BYTES = (bytes) };                                      \
        static __device__ __forceinline__ float value(const uint8_t *block, uint32_t i) \
        {                                                                               \
            return vc_##type##_value(block, i);                                         \
        }                                                                               \
    };                                                                                  \
                                                                                        \
    int vc_cuda_##type##_to_f32(const uint8_t *blocks, size_t n, float *y)              \
    {                                                                                   \
        return decode<type##_block>(blocks, n, y);                                      \
    }

DECODE(q4_0, 32, VC_Q4_0_BYTES)
DECODE(q4_1, 32, VC_Q4_1_BYTES)
DECODE(q5_0, 32, VC_Q5_0_BYTES)
DECODE(q5_1, 32, VC_Q5_1_BYTES)
DECODE(q8_0, 32, VC_Q8_0_BYTES)
DECODE(q4_k, 256, VC_Q4_K_BYTES)
DECODE(q5_k, 256, VC_Q5_K_BYTES)
DECODE(q6_k, 256, VC_Q6_K_BYTES)
