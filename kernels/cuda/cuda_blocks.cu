/* cuda_blocks.cu - the kernels for GGUF's block types; the arithmetic is that of kernels/blocks.h, one thread per
 * element, and for blocks from weights that of kernels/block_best.h, one warp per block (cuda_team.h).
 *
 * To the pipeline a block is one entry of an array per group. Q8_0 is made in two kernels over a unit: the largest
 * magnitudes, then the codes, by the walk over chunks that also takes the statistics. */
#include "kernels/cuda/cuda_team.h"

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

#define TEAMS 4u /* warps of a block of threads */

/* What the warps of a block of threads keep in shared memory. */
struct team_room {
    float x[VC_ROOM_FLOATS], h[VC_ROOM_FLOATS];
    struct vc_block_room room;
};

/* What a launch needs. importance: of `period` columns, of which element 0 of the unit is in column `first`; means: of the
 * unit's rows. */
struct make_args {
    const float *x, *importance, *means;
    float mean; /* of all rows, where means is NULL */
    uint32_t n_blocks, first, period;
    bool best;
    uint8_t *blocks;
};

/* A warp makes a block. */
template <class Block, bool WEIGHTS>
static __global__ void __launch_bounds__(32 * TEAMS) make_kernel(struct make_args a)
{
    VC_CUDA_SHARED(struct team_room, rooms, TEAMS);
    struct team_room *own = rooms + threadIdx.x / 32;

    for (size_t g = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; g < a.n_blocks;
         g += gridDim.x * (blockDim.x / 32)) {
        uint32_t column = WEIGHTS ? (a.first + (uint32_t)g * Block::ELEMS) % a.period : 0;
        float mean = WEIGHTS && a.means != NULL ? a.means[g * Block::ELEMS / a.period] : a.mean;

        VC_EACH(i, Block::ELEMS, 1)
        {
            own->x[VC_PLACE(i, Block::PART)] = a.x[g * Block::ELEMS + i];
            if (WEIGHTS) {
                own->h[VC_PLACE(i, Block::PART)] = a.importance[column + i];
            }
        }
        VC_TOGETHER();
        const uint8_t *made = Block::make(own->x, WEIGHTS ? own->h : NULL, mean, a.best, &own->room);
        VC_EACH(i, Block::BYTES, 1)
        {
            a.blocks[g * Block::BYTES + i] = made[i];
        }
        VC_TOGETHER();
    }
}

/* The mean square of each row, added in the order of its elements: a warp a row. */
static __global__ void __launch_bounds__(32 * TEAMS)
    means_kernel(const float *__restrict__ x, uint32_t n_rows, uint32_t row_len, float *__restrict__ means)
{
    for (uint32_t row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; row < n_rows;
         row += gridDim.x * (blockDim.x / 32)) {
        float sum = 0.0f;

        for (uint32_t from = 0; from < row_len; from += 32) {
            float v = x[(size_t)row * row_len + from + threadIdx.x % 32];

            for (uint32_t k = 0; k < 32; k++) {
                sum += VC_OF(1, v * v, k);
            }
        }
        VC_ONE
        {
            means[row] = sum / (float)row_len;
        }
    }
}

/* What the pipeline hands to launch_make: which encoder, and a mean that is known. */
struct make_how {
    bool best;
    float mean;
};

/* Arrays: x, with importance that of the columns; blocks; where they are needed, means of rows. */
template <class Block> static void launch_make(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    const struct make_how *how = (const struct make_how *)call->user;
    unsigned out = call->n_bins != 0 ? 2 : 1;
    float *means = call->n_arrays > out + 1 ? (float *)unit->device[out + 1] : NULL;
    struct make_args a = {(const float *)unit->device[0],
                          out == 2 ? (const float *)unit->device[1] : NULL,
                          means,
                          how->mean,
                          unit->n_elems / Block::ELEMS,
                          out == 2 ? (uint32_t)(unit->first % call->n_bins) : 0,
                          (uint32_t)call->n_bins,
                          how->best,
                          (uint8_t *)unit->device[out]};
    unsigned grid = vc_cuda_grid((a.n_blocks + TEAMS - 1) / TEAMS);

    if (means != NULL) {
        VC_CUDA_LAUNCH(means_kernel, vc_cuda_grid((unit->n_rows + TEAMS - 1) / TEAMS), 32 * TEAMS, unit->stream, a.x,
                       unit->n_rows, unit->row_len, means);
    }
    if (out == 2) {
        VC_CUDA_LAUNCH((make_kernel<Block, true>), grid, 32 * TEAMS, unit->stream, a);
    } else {
        VC_CUDA_LAUNCH((make_kernel<Block, false>), grid, 32 * TEAMS, unit->stream, a);
    }
}

/* The means stay on the device: nothing is done with them when they come back. */
static void no_totals(void *, const void *)
{
}

/* Blocks do not depend on each other, so rows are one long row to the pipeline, but where a row's mean is read: types of 32
 * elements with importance. */
template <class Block>
static int make(const float *x, size_t n_rows, size_t row_len, const struct vc_block_how *how, uint8_t *blocks)
{
    bool means = how->importance != NULL && Block::ELEMS == 32;
    struct make_how own = {how->best, 0.0f};
    struct vc_cuda_call call =
        vc_cuda_call_of(launch_make<Block>, &own, means ? n_rows : 1, means ? row_len : n_rows * row_len, Block::ELEMS);
    int result = 0;

    if (n_rows == 0 || row_len == 0) {
        return 0;
    }
    call.keep_rows = means;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    if (how->importance != NULL) {
        call.n_bins = row_len;
        vc_cuda_add_in(&call, how->importance, sizeof *x, VC_CUDA_PER_BIN);
    }
    vc_cuda_add_out(&call, blocks, Block::BYTES, VC_CUDA_PER_GROUP, VC_CUDA_OUT);
    if (means) {
        vc_cuda_add_out(&call, NULL, (VC_CUDA_UNIT_ELEMS / row_len + 1) * sizeof(float), VC_CUDA_PER_UNIT, VC_CUDA_OUT);
        call.totals = no_totals;
    }
    if (how->importance == NULL || row_len <= VC_CUDA_UNIT_ELEMS) {
        return vc_cuda_run(&call);
    }
    /* Rows beyond a unit: piece by piece, with the mean of the row from the host. */
    for (size_t at = 0; result == 0 && at < n_rows * row_len;) {
        size_t col = at % row_len;
        size_t n = row_len - col < VC_CUDA_UNIT_ELEMS ? row_len - col : VC_CUDA_UNIT_ELEMS;

        own.mean = means && col == 0 ? row_mean(x, at, row_len) : own.mean;
        call = vc_cuda_call_of(launch_make<Block>, &own, 1, n, Block::ELEMS);
        call.n_bins = n;
        vc_cuda_add_in(&call, x + at, sizeof *x, VC_CUDA_PER_ELEMENT);
        vc_cuda_add_in(&call, how->importance + col, sizeof *x, VC_CUDA_PER_BIN);
        vc_cuda_add_out(&call, blocks + at / Block::ELEMS * Block::BYTES, Block::BYTES, VC_CUDA_PER_GROUP, VC_CUDA_OUT);
        result = vc_cuda_run(&call);
        at += n;
    }
    return result;
}

/* ---- the types ---- */

/* A type as a class, and its kernels. */
#define VC_BLOCK_TYPE(type, TYPE, elems, bytes, decoding, encoding)                                                  \
    struct type##_block {                                                                                            \
        enum { ELEMS = (elems), BYTES = (bytes), PART = VC_PART_##type };                                            \
        static __device__ __forceinline__ float value(const uint8_t *block, uint32_t i)                              \
        {                                                                                                            \
            return vc_##type##_value(block, i);                                                                      \
        }                                                                                                            \
        static __device__ __forceinline__ const uint8_t *make(const float *x, const float *h, float mean, bool best, \
                                                              struct vc_block_room *room)                            \
        {                                                                                                            \
            return best ? vc_##type##_best(x, h, mean, room) : vc_##type##_make(x, h, mean, room);                   \
        }                                                                                                            \
    };                                                                                                               \
                                                                                                                     \
    int vc_cuda_##type##_to_f32(const uint8_t *blocks, size_t n, float *y)                                           \
    {                                                                                                                \
        return decode<type##_block>(blocks, n, y);                                                                   \
    }                                                                                                                \
                                                                                                                     \
    int vc_cuda_##type##_blocks(const float *x, size_t n_rows, size_t row_len, const struct vc_block_how *how,       \
                                uint8_t *blocks)                                                                     \
    {                                                                                                                \
        return make<type##_block>(x, n_rows, row_len, how, blocks);                                                  \
    }
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE
