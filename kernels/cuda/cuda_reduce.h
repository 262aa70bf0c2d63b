/* cuda_reduce.h - what threads of a block do together: sums by the tree, maxima, counts; and which scale an element
 * takes. Device code only, for the kernels of the other files.
 *
 * Sums follow the tree of kernels.h, so their bits do not depend on the launch; maxima and counts are integers, so
 * their order does not matter. */
#pragma once

#include "kernels/cuda/cuda_exact.h"
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
    float error;           /* of ways on which the largest error is an f32: joined with peak[0] as an f64 */
    float least, greatest; /* of kernels with a histogram: of finite f32, by quads; joined at the end (Op::widen) */
    unsigned *bins;        /* their shared memory */
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
    return i < index->head ? 0 : 1 + vc_cuda_divide(i - index->head, &index->step);
}

/* Which of the unit's scales element `col` of row `row` takes; flat = row * row_len + col. */
static __device__ __forceinline__ uint32_t vc_cuda_scale_of(const struct vc_cuda_index *index, uint32_t row,
                                                            uint32_t col, uint32_t flat)
{
    if (index->per_row == 0) {
        uint32_t run = vc_cuda_run_of(index, flat);

        return run - vc_cuda_divide(run, &index->n_channels) * index->n_channels.by;
    }
    return index->per_row == 1 ? row : row * index->per_row + vc_cuda_run_of(index, col);
}

/* The same for an element by its index in the unit. */
static __device__ __forceinline__ uint32_t vc_cuda_scale_of_flat(const struct vc_cuda_index *index, uint32_t flat)
{
    uint32_t row = index->per_row == 0 ? 0 : vc_cuda_divide(flat, &index->row_len);

    return vc_cuda_scale_of(index, row, flat - row * index->row_len.by, flat);
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

/* The tree of two sums over the lanes that a team of threads has, VEC neighbours each (1, 2 or 4): thread t has the lanes
 * VEC t .. VEC t + VEC - 1, at a[0], a[step], ... and b[0], b[step], .... The sum of a is valid in the lower half of the team,
 * that of b in the upper half. Threads give away half of what they have and go on with the other half; 16 threads of four
 * lanes take 10 shuffles for both sums:
 *
 *     level 32   thread t with t ^ 8: the lower eight go on with a, the others with b       4 values each
 *     level 16   with t ^ 4: the even lanes or the odd ones       level 8   with t ^ 2: one of these two
 *     levels 4, 2, 1                                                        with t ^ 1, t ^ 2, t ^ 4
 *
 * Whole warps must call it. */
template <unsigned TEAM, int VEC>
static __device__ __forceinline__ double vc_cuda_team_tree(const double *a, const double *b, int step)
{
    unsigned t = threadIdx.x % TEAM;
    int n = VEC; /* lanes that the thread goes on with: known when this is compiled */
    bool give_a = t >= TEAM / 2;
    double v[VEC];

    VC_CUDA_UNROLL
    for (int i = 0; i < VEC; i++) {
        double theirs = __shfl_xor_sync(VC_CUDA_WARP_MASK, give_a ? a[i * step] : b[i * step], TEAM / 2);

        v[i] = (give_a ? b[i * step] : a[i * step]) + theirs;
    }
    VC_CUDA_UNROLL
    for (unsigned d = TEAM / 4; d > 0; d /= 2) {
        if (n == 1) {
            v[0] = v[0] + __shfl_xor_sync(VC_CUDA_WARP_MASK, v[0], d);
        }
        VC_CUDA_UNROLL
        for (int i = 0; i < VEC / 2; i++) {
            if (i < n / 2) {
                double theirs = __shfl_xor_sync(VC_CUDA_WARP_MASK, t & d ? v[2 * i] : v[2 * i + 1], d);

                v[i] = (t & d ? v[2 * i + 1] : v[2 * i]) + theirs;
            }
        }
        n = (n + 1) / 2;
    }
    VC_CUDA_UNROLL
    for (int level = VEC / 2; level > 0; level /= 2) { /* over neighbours: those that were parted by d, or here */
        unsigned d = TEAM / (4 * (unsigned)level);

        VC_CUDA_UNROLL
        for (int i = 0; i < VEC / 2; i++) {
            if (d == 0 && i < n / 2) {
                v[i] = v[i] + v[i + n / 2];
            }
        }
        if (d != 0) {
            v[0] = v[0] + __shfl_xor_sync(VC_CUDA_WARP_MASK, v[0], d);
        }
        n = (n + 1) / 2;
    }
    return v[0];
}

/* Adds the tallies of all threads of the block to *totals in device memory: in shared memory first, so that a block
 * costs a few atomic operations on the device's. The whole block must call it, once. */
static __device__ __forceinline__ void vc_cuda_publish(const struct vc_cuda_tally *tally, struct vc_cuda_totals *totals)
{
    VC_CUDA_SHARED(unsigned, counts, VC_CUDA_N_COUNTS);
    VC_CUDA_SHARED(unsigned long long, peaks, VC_CUDA_N_PEAKS);
    unsigned long long error = vc_f64_bits((double)tally->error);

    if (threadIdx.x < VC_CUDA_N_COUNTS) {
        counts[threadIdx.x] = 0;
    }
    if (threadIdx.x < VC_CUDA_N_PEAKS) {
        peaks[threadIdx.x] = 0;
    }
    __syncthreads();
    VC_CUDA_FOR(k, VC_CUDA_N_COUNTS)
    {
        unsigned count = tally->count[k];

        for (int lanes = 16; lanes > 0; lanes /= 2) {
            count += __shfl_xor_sync(VC_CUDA_WARP_MASK, count, lanes);
        }
        if (threadIdx.x % 32 == 0) {
            atomicAdd(&counts[k], count);
        }
    }
    VC_CUDA_FOR(k, VC_CUDA_N_PEAKS)
    {
        unsigned long long peak = k == 0 && error > tally->peak[0] ? error : tally->peak[k];

        if (peak != 0) {
            atomicMax(&peaks[k], peak);
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
