/* cuda_reduce.h - what threads of a block do together: sums by the tree, maxima, counts; and which scale an element
 * takes. Device code only, for the kernels of the other files.
 *
 * Sums follow the tree of kernels.h, so their bits do not depend on the launch; maxima and counts are integers, so
 * their order does not matter. */
#pragma once

#include "kernels/arith.h"
#include "kernels/cuda/cuda_pipeline.h"

#define VC_CUDA_F64_INF_BITS 0x7ff0000000000000ull
#define VC_CUDA_F64_ABS_MASK 0x7fffffffffffffffull

#define VC_CUDA_N_COUNTS 4
#define VC_CUDA_N_PEAKS  2

/* What a thread counts (tally), and what a unit reports (totals, in 64 bits): counts are added, peaks are joined by
 * maximum. All start at 0. The kernels give the numbers their names. A thread sees less than 2^32 elements, so 32
 * bits do for it. */
struct vc_cuda_tally {
    uint32_t count[VC_CUDA_N_COUNTS];
    unsigned long long peak[VC_CUDA_N_PEAKS];
};

struct vc_cuda_totals {
    unsigned long long count[VC_CUDA_N_COUNTS];
    unsigned long long peak[VC_CUDA_N_PEAKS];
};

/* |x| of an f64 as an integer, in the order of the magnitudes; as vc_f32_magnitude. */
static __device__ __forceinline__ unsigned long long vc_cuda_f64_magnitude(double x)
{
    return vc_f64_bits(x) & VC_CUDA_F64_ABS_MASK;
}

static __device__ __forceinline__ bool vc_cuda_finite(double x)
{
    return vc_cuda_f64_magnitude(x) < VC_CUDA_F64_INF_BITS;
}

/* Joins v to a maximum. */
static __device__ __forceinline__ void vc_cuda_raise(unsigned long long *peak, unsigned long long v)
{
    *peak = v > *peak ? v : *peak;
}

/* Number of the run (struct vc_cuda_index) that element i lies in. */
static __device__ __forceinline__ uint32_t vc_cuda_run_of(const struct vc_cuda_index *index, uint32_t i)
{
    return i < index->head ? 0 : 1 + (i - index->head) / index->step;
}

/* Which of the unit's scales element `col` of row `row` takes; flat = row * row_len + col. */
static __device__ __forceinline__ uint32_t vc_cuda_scale_of(const struct vc_cuda_index *index, uint32_t row,
                                                            uint32_t col, uint32_t flat)
{
    if (index->per_row == 0) {
        return vc_cuda_run_of(index, flat) % index->n_channels;
    }
    return index->per_row == 1 ? row : row * index->per_row + vc_cuda_run_of(index, col);
}

/* Maximum over `width` neighbouring lanes (a power of two), in all of them. Whole warps must call it. */
static __device__ __forceinline__ uint32_t vc_cuda_warp_max(uint32_t v, unsigned width)
{
    for (unsigned k = width / 2; k > 0; k /= 2) {
        uint32_t other = __shfl_xor_sync(VC_CUDA_WARP_MASK, v, (int)k);

        v = other > v ? other : v;
    }
    return v;
}

/* The last five levels of the tree, over the lanes of a warp: lane l adds lane l + k, k = 16, 8, 4, 2, 1. The sum is
 * valid in lane 0. Whole warps must call it. */
static __device__ __forceinline__ double vc_cuda_warp_tree(double v)
{
    for (unsigned k = 16; k > 0; k /= 2) {
        v = v + __shfl_down_sync(VC_CUDA_WARP_MASK, v, k);
    }
    return v;
}

/* The tree over each team of 64 threads of the block, N sums at once; valid in the first thread of each team. The
 * first level crosses warps, so it goes through shared memory: `half`, N * blockDim.x / 2 values. The whole block
 * must call it. */
template <int N> static __device__ __forceinline__ void vc_cuda_team_tree(double *sums, double *half)
{
    unsigned lane = threadIdx.x % 64;
    unsigned at = threadIdx.x / 64 * 32 + lane % 32;
    unsigned stride = blockDim.x / 2;

    if (lane >= 32) {
        for (int k = 0; k < N; k++) {
            half[(unsigned)k * stride + at] = sums[k];
        }
    }
    __syncthreads();
    if (lane < 32) {
        for (int k = 0; k < N; k++) {
            sums[k] = sums[k] + half[(unsigned)k * stride + at];
        }
    }
    for (int k = 0; k < N; k++) {
        sums[k] = vc_cuda_warp_tree(sums[k]);
    }
    __syncthreads(); /* `half` may be used again */
}

/* Adds the tallies of all threads of the block to *totals in device memory: in shared memory first, so that a block
 * costs a few atomic operations on the device's. The whole block must call it, once. */
static __device__ __forceinline__ void vc_cuda_publish(const struct vc_cuda_tally *tally, struct vc_cuda_totals *totals)
{
    VC_CUDA_SHARED(unsigned, counts, VC_CUDA_N_COUNTS);
    VC_CUDA_SHARED(unsigned long long, peaks, VC_CUDA_N_PEAKS);

    if (threadIdx.x < VC_CUDA_N_COUNTS) {
        counts[threadIdx.x] = 0;
    }
    if (threadIdx.x < VC_CUDA_N_PEAKS) {
        peaks[threadIdx.x] = 0;
    }
    __syncthreads();
    for (unsigned k = 0; k < VC_CUDA_N_COUNTS; k++) {
        if (tally->count[k] != 0) {
            atomicAdd(&counts[k], tally->count[k]);
        }
    }
    for (unsigned k = 0; k < VC_CUDA_N_PEAKS; k++) {
        if (tally->peak[k] != 0) {
            atomicMax(&peaks[k], tally->peak[k]);
        }
    }
    __syncthreads();
    if (threadIdx.x < VC_CUDA_N_COUNTS && counts[threadIdx.x] != 0) {
        atomicAdd(&totals->count[threadIdx.x], (unsigned long long)counts[threadIdx.x]);
    }
    if (threadIdx.x < VC_CUDA_N_PEAKS && peaks[threadIdx.x] != 0) {
        atomicMax(&totals->peak[threadIdx.x], peaks[threadIdx.x]);
    }
}
