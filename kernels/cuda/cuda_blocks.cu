/* cuda_blocks.cu - the kernels for GGUF's block types; the arithmetic is that of kernels/blocks.h, one thread per
 * element.
 *
 * To the pipeline a block is one entry of an array per group. Q8_0 is made in two kernels over a unit: the largest
 * magnitudes, then the codes, by the walk over chunks that also takes the statistics. */
#include "kernels/cpu/block_loop.h"
#include "kernels/cuda/cuda_absmax.h"
#include "kernels/cuda/cuda_chunks.h"
#include "kernels/cuda/cuda_kernels.h"

/* ---- Q8_0 from weights ---- */

/* Code and statistics of one element (cuda_chunks.h). Each thread forms the step of its block again: cheaper than
 * handing it on. The thread of a block's first element stores it. */
struct q8_0_op {
    enum { N_SUMS = 2, FAST = 0, BINS = 0 };
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
    struct q8_0_op op = {(const float *)unit->device[0], (const uint32_t *)unit->device[1], (uint8_t *)unit->device[2]};

    vc_cuda_launch_range(call, unit, op.x, (uint32_t *)unit->device[1], NULL);
    vc_cuda_launch_stats(op, call, unit, 3);
}

int vc_cuda_q8_0_rows(const float *x, size_t n_rows, size_t row_len, uint32_t *bits, uint8_t *blocks,
                      struct vc_tile_stats *stats)
{
    vc_cuda_stats_clear(stats);
    struct vc_cuda_call call = vc_cuda_call_of(launch_q8_0, NULL, n_rows, row_len, 32);
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, bits, sizeof *bits, VC_CUDA_PER_GROUP, VC_CUDA_OUT_MAX);
    vc_cuda_add_out(&call, blocks, VC_Q8_0_BYTES, VC_CUDA_PER_GROUP, VC_CUDA_OUT);
    vc_cuda_add_stats(&call, stats);
    return vc_cuda_run(&call);
}

/* ---- values from blocks ---- */

/* Block: one type's ELEMS, BYTES and value (DECODE below). blocks holds whole blocks. */
template <class Block> struct value_op {
    typedef uint8_t from;
    typedef float to;

    const uint8_t *blocks;
    const uint8_t *x; /* NULL: no byte belongs to one element alone */

    __device__ __forceinline__ float of(uint32_t i, uint8_t) const
    {
        return Block::value(blocks + i / Block::ELEMS * Block::BYTES, i % Block::ELEMS);
    }
};

template <class Block> static void launch_decode(const struct vc_cuda_call *, const struct vc_cuda_unit *unit)
{
    value_op<Block> op = {(const uint8_t *)unit->device[0], NULL};

    vc_cuda_launch_each(op, unit, (float *)unit->device[1]);
}

template <class Block> static int decode(const uint8_t *blocks, size_t n, float *y)
{
    struct vc_cuda_call call = vc_cuda_call_of(launch_decode<Block>, NULL, 1, n, Block::ELEMS);
    vc_cuda_add_in(&call, blocks, Block::BYTES, VC_CUDA_PER_GROUP);
    vc_cuda_add_out(&call, y, sizeof *y, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    return vc_cuda_run(&call);
}

/* ---- blocks from weights ---- */

/* One thread makes a block: the search for its scale is a chain of sums. */
template <class Block>
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    make_kernel(const float *__restrict__ x, uint32_t n_blocks, bool best, uint8_t *__restrict__ blocks)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n_blocks; i += gridDim.x * (size_t)blockDim.x) {
        Block::make(x + i * Block::ELEMS, best, blocks + i * Block::BYTES);
    }
}

/* Which encoder: call->user. */
template <class Block> static void launch_make(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    uint32_t n_blocks = unit->n_elems / Block::ELEMS;

    VC_CUDA_LAUNCH(make_kernel<Block>, vc_cuda_grid(n_blocks / VC_CUDA_THREADS + 1), vc_cuda_block(n_blocks),
                   unit->stream, (const float *)unit->device[0], n_blocks,
                   ((const struct vc_block_how *)call->user)->best, (uint8_t *)unit->device[1]);
}

/* Blocks do not depend on each other, so rows are one long row to the pipeline. */
template <class Block>
static int make(const float *x, size_t n_rows, size_t row_len, const struct vc_block_how *how, uint8_t *blocks)
{
    struct vc_cuda_call call = vc_cuda_call_of(launch_make<Block>, (void *)how, 1, n_rows * row_len, Block::ELEMS);
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, blocks, Block::BYTES, VC_CUDA_PER_GROUP, VC_CUDA_OUT);
    return vc_cuda_run(&call);
}

/* ---- the types ---- */

/* A type as a class, and its kernels. With importance the host makes the blocks, by the CPU's loop: the mean of a row is not
 * that of a unit. */
#define VC_BLOCK_TYPE(type, TYPE, elems, bytes, decoding, encoding)                                                \
    struct type##_block {                                                                                          \
        enum { ELEMS = (elems), BYTES = (bytes) };                                                                 \
        static __device__ __forceinline__ float value(const uint8_t *block, uint32_t i)                            \
        {                                                                                                          \
            return vc_##type##_value(block, i);                                                                    \
        }                                                                                                          \
        static __device__ void make(const float *x, bool best, uint8_t *block)                                     \
        {                                                                                                          \
            if (best) {                                                                                            \
                vc_##type##_best(x, NULL, 0.0f, block);                                                            \
            } else {                                                                                               \
                vc_##type##_make(x, NULL, 0.0f, block);                                                            \
            }                                                                                                      \
        }                                                                                                          \
    };                                                                                                             \
                                                                                                                   \
    int vc_cuda_##type##_to_f32(const uint8_t *blocks, size_t n, float *y)                                         \
    {                                                                                                              \
        return decode<type##_block>(blocks, n, y);                                                                 \
    }                                                                                                              \
                                                                                                                   \
    static VC_BLOCKS_LOOP(type##_on_host, type, elems, bytes)                                                      \
                                                                                                                   \
        int vc_cuda_##type##_blocks(const float *x, size_t n_rows, size_t row_len, const struct vc_block_how *how, \
                                    uint8_t *blocks)                                                               \
    {                                                                                                              \
        return how->importance != NULL ? type##_on_host(x, n_rows, row_len, how, blocks)                           \
                                       : make<type##_block>(x, n_rows, row_len, how, blocks);                      \
    }
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE
