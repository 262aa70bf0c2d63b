/* cuda_chunks.h - one kernel for everything that walks elements and sums over chunks: casts, int8 with given scales,
 * Q8_0, diff, values. A team of 64 threads takes one chunk (up to VC_CHUNK_ELEMS elements of a row), each thread the
 * elements of one lane of the tree, in order.
 *
 * What is done with an element is the operation Op, a plain struct that is handed to the kernel by value:
 *
 *     enum { N_SUMS = 2 };                                  sums per chunk
 *     typedef ... value;                                    what one element is made of
 *     value load(uint32_t flat) const;                      reads it
 *     void visit(value, uint32_t row, uint32_t col, uint32_t flat, double *sums, struct vc_cuda_tally *) const;
 *                                                           writes its output, adds to the sums, counts
 *
 * (flat = row * row_len + col, all within the unit). Loading is apart from visiting so that a thread has several
 * loads in flight. */
#pragma once

#include "core/values/tile.h"
#include "kernels/cuda/cuda_reduce.h"

#define VC_CUDA_CHUNK_THREADS 256 /* at most; four chunks */
#define VC_CUDA_BATCH         8   /* loads that a thread has in flight */

/* One thread's part of the chunk at (row, col0): elements threadIdx.x % 64, + 64, + 128, ..., in batches. */
template <class Op>
static __device__ __forceinline__ void vc_cuda_walk_chunk(const Op &op, uint32_t row, uint32_t col0, uint32_t row_len,
                                                          double *sums, struct vc_cuda_tally *tally)
{
    uint32_t end = row_len - col0 < VC_CHUNK_ELEMS ? row_len : col0 + (uint32_t)VC_CHUNK_ELEMS;
    uint32_t start = row * row_len;

    for (uint32_t first = col0 + threadIdx.x % 64; first < end; first += 64 * VC_CUDA_BATCH) {
        typename Op::value values[VC_CUDA_BATCH];

        VC_CUDA_UNROLL
        for (uint32_t b = 0; b < VC_CUDA_BATCH; b++) {
            uint32_t col = first + 64 * b;

            values[b] = col < end ? op.load(start + col) : typename Op::value();
        }
        VC_CUDA_UNROLL
        for (uint32_t b = 0; b < VC_CUDA_BATCH; b++) {
            uint32_t col = first + 64 * b;

            if (col < end) {
                op.visit(values[b], row, col, start + col, sums, tally);
            }
        }
    }
}

/* The kernel: teams take chunks by turns. chunk_sums gets N_SUMS values per chunk; NULL: neither sums nor totals are
 * wanted. The loop runs as often for every team of a block, since the tree has barriers; a team beyond the last chunk
 * adds nothing. */
template <class Op>
static __global__ void __launch_bounds__(VC_CUDA_CHUNK_THREADS)
    vc_cuda_chunks_kernel(Op op, uint32_t n_rows, uint32_t row_len, double *chunk_sums, struct vc_cuda_totals *totals)
{
    VC_CUDA_SHARED(double, half, (Op::N_SUMS)*VC_CUDA_CHUNK_THREADS / 2);
    uint32_t per_row = (row_len + (uint32_t)VC_CHUNK_ELEMS - 1) / (uint32_t)VC_CHUNK_ELEMS;
    size_t n_chunks = (size_t)n_rows * per_row;
    size_t teams = blockDim.x / 64;
    struct vc_cuda_tally tally = {};

    for (size_t base = blockIdx.x * teams; base < n_chunks; base += gridDim.x * teams) {
        size_t chunk = base + threadIdx.x / 64;
        double sums[Op::N_SUMS] = {};

        if (chunk < n_chunks) {
            uint32_t row = (uint32_t)chunk / per_row;
            uint32_t col = (uint32_t)chunk % per_row * (uint32_t)VC_CHUNK_ELEMS;

            vc_cuda_walk_chunk(op, row, col, row_len, sums, &tally);
        }
        if (chunk_sums != NULL) {
            vc_cuda_team_tree<Op::N_SUMS>(sums, half);
            if (threadIdx.x % 64 == 0 && chunk < n_chunks) {
                for (int k = 0; k < Op::N_SUMS; k++) {
                    chunk_sums[chunk * Op::N_SUMS + (size_t)k] = sums[k];
                }
            }
        }
    }
    if (chunk_sums != NULL) {
        vc_cuda_publish(&tally, totals);
    }
}

/* Starts it for a unit; chunk_sums and totals are device memory. */
template <class Op>
static void vc_cuda_launch_chunks(const Op &op, const struct vc_cuda_unit *unit, double *chunk_sums,
                                  struct vc_cuda_totals *totals)
{
    size_t teams = unit->n_chunks < VC_CUDA_CHUNK_THREADS / 64 ? unit->n_chunks : VC_CUDA_CHUNK_THREADS / 64;

    VC_CUDA_LAUNCH(vc_cuda_chunks_kernel<Op>, vc_cuda_grid((unit->n_chunks + teams - 1) / teams),
                   (unsigned)(teams * 64), unit->stream, op, unit->n_rows, unit->row_len, chunk_sums, totals);
}

/* ---- statistics of conversions (struct vc_tile_stats) ---- */

enum { VC_CUDA_ZEROS_BEFORE, VC_CUDA_ZEROS_AFTER, VC_CUDA_CLIPPED };

/* Source x and decoded output y of one element, as in stats_add of kernel_ref.c: zeros are counted always, sums and
 * the largest error (as bits) only where both are finite. */
static __device__ __forceinline__ void vc_cuda_compare(double x, double y, bool clipped, double *sums,
                                                       struct vc_cuda_tally *tally)
{
    tally->count[VC_CUDA_ZEROS_BEFORE] += x == 0;
    tally->count[VC_CUDA_ZEROS_AFTER] += y == 0;
    tally->count[VC_CUDA_CLIPPED] += clipped;
    if (vc_cuda_finite(x) && vc_cuda_finite(y)) {
        double e = x - y;

        sums[0] = sums[0] + x * x;
        sums[1] = sums[1] + e * e;
        vc_cuda_raise(&tally->peak[0], vc_cuda_f64_magnitude(e));
    }
}

/* Counters start at 0; units add to them. stats may be NULL. */
static inline void vc_cuda_stats_clear(struct vc_tile_stats *stats)
{
    if (stats != NULL) {
        stats->max_abs_error = 0;
        stats->zeros_before = stats->zeros_after = stats->clipped = 0;
    }
}

/* vc_cuda_call.totals with a struct vc_tile_stats: adds the counts of one unit. */
static inline void vc_cuda_stats_totals(void *user, const void *unit_totals)
{
    struct vc_tile_stats *stats = (struct vc_tile_stats *)user;
    const struct vc_cuda_totals *totals = (const struct vc_cuda_totals *)unit_totals;

    stats->zeros_before += totals->count[VC_CUDA_ZEROS_BEFORE];
    stats->zeros_after += totals->count[VC_CUDA_ZEROS_AFTER];
    stats->clipped += totals->count[VC_CUDA_CLIPPED];
    if (vc_bits_f64(totals->peak[0]) > stats->max_abs_error) {
        stats->max_abs_error = vc_bits_f64(totals->peak[0]);
    }
}

/* Appends chunk sums and totals as the last two arrays, where statistics are wanted. */
static inline void vc_cuda_add_stats(struct vc_cuda_call *call, struct vc_tile_stats *stats)
{
    if (stats != NULL) {
        vc_cuda_add_out(call, stats->chunk_sums, 2 * sizeof(double), VC_CUDA_PER_CHUNK, VC_CUDA_OUT);
        vc_cuda_add_out(call, NULL, sizeof(struct vc_cuda_totals), VC_CUDA_PER_UNIT, VC_CUDA_OUT);
        call->totals = vc_cuda_stats_totals;
        call->user = stats;
    }
}
