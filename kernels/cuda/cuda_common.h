/* cuda_common.h - the few words of CUDA that the plug-in is written in, and its sizes. Included by every file of
 * kernels/cuda/.
 *
 * The sources are C++17 used as C, at the level of CUDA 11.8, in a small subset: grid-stride loops, __syncthreads,
 * full-mask shuffles and ballots, static shared memory, integer atomics, 16-byte structs, streams and events. No float atomics,
 * cooperative groups, inline PTX, fast math. So they also run unmodified where there is no GPU, under a cuda_runtime.h that
 * stands in for the real one (tests/cuda_emu) and defines the macros below in its own way. Every size can be set from
 * outside: tests make them small. */
#pragma once

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

/* Starts a kernel with `grid` blocks of `block` threads in a stream; it runs when the stream gets there. Whether it
 * could be started, cudaGetLastError tells. */
#ifndef VC_CUDA_LAUNCH
#define VC_CUDA_LAUNCH(kernel, grid, block, stream, ...) kernel<<<(grid), (block), 0, (stream)>>>(__VA_ARGS__)
#endif

/* An array of n elements in the block's shared memory; undefined at the start of a block. */
#ifndef VC_CUDA_SHARED
#define VC_CUDA_SHARED(type, name, n) __shared__ type name[n]
#endif

/* Before a loop of fixed length whose arrays must stay in registers. */
#ifndef VC_CUDA_UNROLL
#define VC_CUDA_UNROLL _Pragma("unroll")
#endif

/* for k = 0 to before n, a constant, of arrays that must stay in registers */
#define VC_CUDA_FOR(k, n) VC_CUDA_UNROLL for (unsigned k = 0; k < (n); k++)

/* Of a function that threads call in rare cases: it takes values and pointers to arrays of its own, never addresses of what
 * the fast way computes with, which would then live in memory instead of registers. */
#ifndef VC_CUDA_RARE
#define VC_CUDA_RARE __noinline__
#endif

/* The beginning of backend.runtime; "CUDA runtime 13.0" with the version. */
#ifndef VC_CUDA_RUNTIME_NAME
#define VC_CUDA_RUNTIME_NAME "CUDA runtime"
#endif

/* Makes a call of the runtime; where it fails, goes to `out` with the code in `result`, which the function declares. */
#define VC_CUDA_TRY(call)            \
    do {                             \
        result = (int)(call);        \
        if (result != cudaSuccess) { \
            goto out;                \
        }                            \
    } while (0)

/* Bytes of an arena: the device memory of a lane, and as much pinned memory. Room for all arrays of one unit of work;
 * a unit that would need more is made smaller (cuda_pipeline.cu). */
#ifndef VC_CUDA_ARENA_BYTES
#define VC_CUDA_ARENA_BYTES (((size_t)2 << 20) + ((size_t)128 << 10))
#endif

/* Elements of a unit: large enough that 10 us of launching do not show beside the transfer, small enough that a tile
 * (core/values/tile.h) makes two of them, whose transfers and kernels then overlap. A multiple of VC_CHUNK_ELEMS. */
#ifndef VC_CUDA_UNIT_ELEMS
#define VC_CUDA_UNIT_ELEMS ((size_t)1 << 17)
#endif

/* Division of numbers below 2^31 by one that is the same for a whole launch: a product and a shift, made by the host. */
struct vc_cuda_divisor {
    uint32_t by, factor, shift; /* by: at most 2^31 */
};

static inline struct vc_cuda_divisor vc_cuda_divisor_of(uint64_t by)
{
    struct vc_cuda_divisor d = {by < 1u << 31 ? (uint32_t)by : 1u << 31, 0, 0};

    while ((uint32_t)1 << d.shift < d.by) {
        d.shift++;
    }
    d.factor = d.by == 0 ? 0 : (uint32_t)(((((uint64_t)1 << d.shift) - d.by) << 32) / d.by + 1);
    return d;
}

static __device__ __forceinline__ uint32_t vc_cuda_divide(uint32_t n, const struct vc_cuda_divisor *d)
{
    return ((uint32_t)((uint64_t)n * d->factor >> 32) + n) >> d->shift;
}

#define VC_CUDA_WARP_MASK 0xffffffffu
#define VC_CUDA_THREADS   256u /* of a block, in most kernels */

/* Blocks of a launch, at most; more work makes them loop. Kernels that stream take as many as the card holds at once
 * (vc_cuda_grid_of). */
#ifndef VC_CUDA_MAX_GRID
#define VC_CUDA_MAX_GRID 1024u
#endif

/* Of kernels that stream: how many times the blocks that the card holds at once are started at most. */
#ifndef VC_CUDA_WAVES
#define VC_CUDA_WAVES 1u
#endif

/* Threads of a block that has at most `needed` things to do: whole warps, up to VC_CUDA_THREADS. */
static inline unsigned vc_cuda_block(size_t needed)
{
    return needed < VC_CUDA_THREADS ? (unsigned)(needed + 31) / 32 * 32 : VC_CUDA_THREADS;
}

/* Blocks for `needed` of them with grid-stride loops; at least 1. */
static inline unsigned vc_cuda_grid(size_t needed)
{
    if (needed == 0) {
        return 1;
    }
    return needed < VC_CUDA_MAX_GRID ? (unsigned)needed : VC_CUDA_MAX_GRID;
}
