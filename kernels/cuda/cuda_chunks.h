/* cuda_chunks.h - one kernel for everything that walks elements and sums over chunks: casts, int8 with given scales,
 * Q8_0, diff, values. A team of 16 threads takes one chunk (up to VC_CHUNK_ELEMS elements of a row). Each thread owns four
 * neighbouring lanes of the tree, so that half a warp reads 64 neighbours at once, and every lane adds in order.
 *
 *     chunk    | 0 1 2 3 | 4 5 6 7 | ... | 60 61 62 63 | 64 65 66 67 | ...
 *     thread       0         1                15             0            a quad each; VC_CUDA_BATCH of them in flight
 *
 * What is done with an element is the operation Op, a plain struct that is handed to the kernel by value:
 *
 *     enum { N_SUMS = 2, FAST = 0, BINS = 0 };                   sums per chunk; bins of a histogram (and then widen)
 *     typedef ... value;                                         what one element is made of
 *     value load(uint32_t flat) const;                           reads it
 *     void visit(value, uint32_t row, uint32_t col, uint32_t flat, double *sums, struct vc_cuda_tally *) const;
 *                                                                writes its output, adds to the sums, counts
 *
 * (flat = row * row_len + col, all within the unit.) With FAST there is a second way for quads that are whole:
 *
 *     typedef ... quad;
 *     quad load_quad<WHOLE>(uint32_t flat, uint32_t n) const;    n elements, as vc_cuda_load
 *     uint32_t most(const quad &) const;                         the largest magnitude, and ...
 *     enum { TOO_LARGE = ... };                                  ... for which and above which a batch is visited instead
 *     void take<WHOLE>(const quad &, uint32_t flat, double *sums, struct vc_cuda_tally *) const;    sums: N_SUMS a lane */
#pragma once

#include "kernels/cuda/cuda_reduce.h"

#define VC_CUDA_BATCH 4  /* quads that a thread has in flight */
#define VC_CUDA_TEAM  16 /* threads of a chunk */

/* Four neighbours, one access of memory where they are aligned. */
template <class T> struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) vc_cuda_quad {
    T v[4];
};

/* The first n of four neighbours, 0 for the others. WHOLE: n is 0 or at least 4, and x is aligned. */
template <bool WHOLE, class T> static __device__ __forceinline__ vc_cuda_quad<T> vc_cuda_load(const T *x, uint32_t n)
{
    vc_cuda_quad<T> q = {};

    if (WHOLE && n != 0) {
        q = *(const vc_cuda_quad<T> *)x;
    }
    for (unsigned k = 0; !WHOLE && k < 4; k++) {
        q.v[k] = k < n ? x[k] : 0;
    }
    return q;
}

/* Four of them. WHOLE: x is aligned. */
template <bool WHOLE, class T> static __device__ __forceinline__ void vc_cuda_store(T *x, const vc_cuda_quad<T> &q)
{
    if (WHOLE) {
        *(vc_cuda_quad<T> *)x = q;
    }
    for (unsigned k = 0; !WHOLE && k < 4; k++) {
        x[k] = q.v[k];
    }
}

/* The largest magnitude of a quad, as bits. */
static __device__ __forceinline__ uint32_t vc_cuda_most(const vc_cuda_quad<float> &q)
{
    uint32_t most = vc_f32_magnitude(q.v[0]);

    VC_CUDA_UNROLL
    for (unsigned k = 1; k < 4; k++) {
        uint32_t m = vc_f32_magnitude(q.v[k]);

        most = m > most ? m : most;
    }
    return most;
}

/* Adds what a rare way has counted. */
static __device__ __forceinline__ void vc_cuda_join(struct vc_cuda_tally *tally, const struct vc_cuda_tally *part)
{
    VC_CUDA_FOR(k, VC_CUDA_N_COUNTS)
    {
        tally->count[k] += part->count[k];
    }
    VC_CUDA_FOR(k, VC_CUDA_N_PEAKS)
    {
        vc_cuda_raise(&tally->peak[k], part->peak[k]);
    }
}

/* What visiting elements of a thread comes to, sums on top of those that were there. */
template <class Op> struct vc_cuda_visited {
    double sums[4 * Op::N_SUMS];
    struct vc_cuda_tally tally;
};

/* A thread's part of a batch, one element after the other: `left` from the first one to the end of the chunk. */
template <class Op>
static __device__ VC_CUDA_RARE void vc_cuda_visit(Op op, uint32_t row, uint32_t col, uint32_t flat, uint32_t left,
                                                  struct vc_cuda_visited<Op> *part)
{
    for (uint32_t i = 0; i < 64 * VC_CUDA_BATCH; i += i % 64 == 3 ? 61 : 1) {
        if (i < left) {
            op.visit(op.load(flat + i), row, col + i, flat + i, part->sums + i % 64 * Op::N_SUMS, &part->tally);
        }
    }
}

/* Where a thread is: its chunk, its first element of a batch, and how many there are from that one to the end of the chunk. */
struct vc_cuda_spot {
    uint32_t chunk, row, col, flat, left;
};

/* The first batch of a chunk, with nothing in it behind the last chunk. */
static __device__ __forceinline__ struct vc_cuda_spot vc_cuda_chunk_spot(uint32_t chunk, uint32_t n_rows,
                                                                         uint32_t row_len)
{
    uint32_t per_row = (row_len + (uint32_t)VC_CHUNK_ELEMS - 1) / (uint32_t)VC_CHUNK_ELEMS;
    uint32_t row = per_row == 1 ? chunk : chunk / per_row;
    uint32_t first = (chunk - row * per_row) * (uint32_t)VC_CHUNK_ELEMS;
    uint32_t col = first + threadIdx.x % VC_CUDA_TEAM * 4;
    uint32_t end = row_len - first < VC_CHUNK_ELEMS ? row_len : first + (uint32_t)VC_CHUNK_ELEMS;
    struct vc_cuda_spot at = {chunk, row, col, row * row_len + col, row < n_rows && col < end ? end - col : 0};

    return at;
}

/* The quads of a batch that a thread has, where there is a way by quads. */
template <class Op, bool FAST = Op::FAST != 0> struct vc_cuda_held {
};

template <class Op> struct vc_cuda_held<Op, true> {
    typename Op::quad quads[VC_CUDA_BATCH];

    template <bool WHOLE> __device__ __forceinline__ void load(const Op &op, const struct vc_cuda_spot &at, uint32_t b)
    {
        quads[b] = op.template load_quad<WHOLE>(at.flat + 64 * b, at.left > 64 * b ? at.left - 64 * b : 0);
    }
};

/* One batch of a thread, and the quads of the next one. */
template <class Op, bool WHOLE, int AHEAD>
static __device__ __forceinline__ void vc_cuda_batch(const Op &op, const struct vc_cuda_spot &at,
                                                     const struct vc_cuda_spot &after, vc_cuda_held<Op> *held,
                                                     double *sums, struct vc_cuda_tally *tally)
{
    if constexpr (Op::FAST) {
        uint32_t most = WHOLE || at.left >= 64 * (VC_CUDA_BATCH - 1) + 4 ? 0 : (uint32_t)Op::TOO_LARGE;

        VC_CUDA_FOR(b, VC_CUDA_BATCH)
        {
            uint32_t m = op.most(held->quads[b]);

            most = m > most ? m : most;
        }
        if (most < (uint32_t)Op::TOO_LARGE) {
            VC_CUDA_FOR(b, VC_CUDA_BATCH)
            {
                if (!WHOLE || 64 * b < at.left) {
                    op.template take<WHOLE>(held->quads[b], at.flat + 64 * b, sums, tally);
                }
                if (AHEAD == 1) {
                    held->template load<WHOLE>(op, after, b);
                }
            }
        } else {
            struct vc_cuda_visited<Op> part = {
            };

            part.tally.bins = tally->bins;
            for (unsigned k = 0; k < 4 * Op::N_SUMS; k++) {
                part.sums[k] = sums[k];
            }
            vc_cuda_visit(op, at.row, at.col, at.flat, at.left, &part);
            VC_CUDA_FOR(k, 4 * Op::N_SUMS)
            {
                sums[k] = part.sums[k];
            }
            vc_cuda_join(tally, &part.tally);
            VC_CUDA_UNROLL
            for (uint32_t b = 0; AHEAD == 1 && b < VC_CUDA_BATCH; b++) {
                held->template load<WHOLE>(op, after, b);
            }
        }
        VC_CUDA_UNROLL
        for (uint32_t b = 0; AHEAD == 0 && b < VC_CUDA_BATCH; b++) {
            held->template load<WHOLE>(op, after, b);
        }
    } else {
        typename Op::value values[VC_CUDA_BATCH * 4];

        VC_CUDA_FOR(i, VC_CUDA_BATCH * 4)
        {
            uint32_t to = i / 4 * 64 + i % 4;

            values[i] = to < at.left ? op.load(at.flat + to) : typename Op::value();
        }
        VC_CUDA_FOR(i, VC_CUDA_BATCH * 4)
        {
            uint32_t to = i / 4 * 64 + i % 4;

            if (to < at.left) {
                op.visit(values[i], at.row, at.col + to, at.flat + to, sums + i % 4 * Op::N_SUMS, tally);
            }
        }
    }
}

#define VC_CUDA_BIN_COLUMNS 32 /* a histogram in shared memory has a column for each lane of a warp: no two meet */

/* Adds the histogram of the block to the one on the device. The whole block must call it. */
static __device__ __forceinline__ void vc_cuda_publish_bins(const unsigned *bins, unsigned n,
                                                            unsigned long long *histogram)
{
    __syncthreads();
    for (unsigned k = threadIdx.x; k < n; k += blockDim.x) {
        unsigned long long sum = 0;

        for (unsigned c = 0; c < VC_CUDA_BIN_COLUMNS; c++) {
            sum += bins[k * VC_CUDA_BIN_COLUMNS + (c + k) % VC_CUDA_BIN_COLUMNS];
        }
        if (sum != 0) {
            atomicAdd(&histogram[k], sum);
        }
    }
}

/* The kernel: teams take chunks by turns. chunk_sums gets N_SUMS values per chunk; NULL: neither sums nor totals are
 * wanted. The loop runs as often for every team of a block, since the tree takes whole warps; a team beyond the last chunk
 * adds nothing. BLOCKS a multiprocessor: what the registers are to suffice for. */
template <class Op, bool WHOLE, int AHEAD, int BLOCKS>
static __global__ void __launch_bounds__(VC_CUDA_THREADS, BLOCKS)
    vc_cuda_chunks_kernel(Op op, uint32_t n_rows, uint32_t row_len, double *chunk_sums, struct vc_cuda_totals *totals,
                          unsigned long long *histogram)
{
    VC_CUDA_SHARED(unsigned, bins, Op::BINS != 0 ? Op::BINS * VC_CUDA_BIN_COLUMNS : 1);
    uint32_t n_chunks = n_rows * ((row_len + (uint32_t)VC_CHUNK_ELEMS - 1) / (uint32_t)VC_CHUNK_ELEMS);
    uint32_t teams = blockDim.x / VC_CUDA_TEAM;
    struct vc_cuda_spot at = vc_cuda_chunk_spot(blockIdx.x * teams + threadIdx.x / VC_CUDA_TEAM, n_rows, row_len);
    struct vc_cuda_tally tally = {};
    vc_cuda_held<Op> held;

    if constexpr (Op::BINS != 0) {
        for (unsigned k = threadIdx.x; k < Op::BINS * VC_CUDA_BIN_COLUMNS; k += blockDim.x) {
            bins[k] = 0;
        }
        tally.bins = bins;
        tally.least = HUGE_VALF;
        tally.greatest = -HUGE_VALF;
        __syncthreads();
    }
    if constexpr (Op::FAST) {
        VC_CUDA_FOR(b, VC_CUDA_BATCH)
        {
            held.template load<WHOLE>(op, at, b);
        }
    }
    for (uint32_t base = blockIdx.x * teams; base < n_chunks; base += gridDim.x * teams) {
        uint32_t chunk = at.chunk;
        double sums[4 * Op::N_SUMS] = {};

        while (at.chunk == chunk) {
            struct vc_cuda_spot after = at;

            if (at.left > 64 * VC_CUDA_BATCH) {
                after.col += 64 * VC_CUDA_BATCH;
                after.flat += 64 * VC_CUDA_BATCH;
                after.left -= 64 * VC_CUDA_BATCH;
            } else {
                after = vc_cuda_chunk_spot(chunk + gridDim.x * teams, n_rows, row_len);
            }
            vc_cuda_batch<Op, WHOLE, AHEAD>(op, at, after, &held, sums, &tally);
            at = after;
        }
        for (int k = 0; chunk_sums != NULL && k < Op::N_SUMS; k += 2) {
            double sum = vc_cuda_team_tree<VC_CUDA_TEAM, 4>(sums + k, sums + (k + 1) % Op::N_SUMS, Op::N_SUMS);
            uint32_t number = (uint32_t)k + threadIdx.x / 8 % 2;

            if (threadIdx.x % 8 == 0 && chunk < n_chunks && number < Op::N_SUMS) {
                chunk_sums[(size_t)chunk * Op::N_SUMS + number] = sum;
            }
        }
    }
    if constexpr (Op::BINS != 0) {
        if (tally.least <= tally.greatest) {
            op.widen(tally.least, tally.greatest, &tally);
        }
    }
    if (chunk_sums != NULL) {
        vc_cuda_publish(&tally, totals);
    }
    if constexpr (Op::BINS != 0) {
        vc_cuda_publish_bins(bins, Op::BINS, histogram);
    }
}

/* How the kernels of an operation are made (see vc_cuda_chunks_kernel). */
template <class Op> struct vc_cuda_tuned {
    enum { AHEAD = 1, BLOCKS = Op::BINS != 0 && Op::FAST ? 4 : Op::FAST && Op::N_SUMS <= 2 ? 3 : 2 };
};

/* Starts it for a unit; chunk_sums, totals and histogram (NULL without) are device memory. */
template <class Op, class Tuned = vc_cuda_tuned<Op>>
static void vc_cuda_launch_chunks(const Op &op, const struct vc_cuda_unit *unit, double *chunk_sums,
                                  struct vc_cuda_totals *totals, unsigned long long *histogram = NULL)
{
    void (*kernel)(Op, uint32_t, uint32_t, double *, struct vc_cuda_totals *, unsigned long long *) =
        vc_cuda_chunks_kernel<Op, false, Tuned::AHEAD, Tuned::BLOCKS>;
    unsigned block = vc_cuda_team_block(unit->n_chunks, VC_CUDA_TEAM);
    size_t teams = block / VC_CUDA_TEAM;

    if constexpr (Op::FAST) {
        kernel = unit->row_len % 4 == 0 ? vc_cuda_chunks_kernel<Op, true, Tuned::AHEAD, Tuned::BLOCKS> : kernel;
    }
    VC_CUDA_LAUNCH(kernel, vc_cuda_grid_of((const void *)kernel, block, (unit->n_chunks + teams - 1) / teams), block,
                   unit->stream, op, unit->n_rows, unit->row_len, chunk_sums, totals, histogram);
}

/* The same where chunk sums and totals are arrays `at` and at + 1 of the call, if statistics are wanted (vc_cuda_add_stats). */
template <class Op>
static void vc_cuda_launch_stats(const Op &op, const struct vc_cuda_call *call, const struct vc_cuda_unit *unit,
                                 unsigned at)
{
    bool stats = call->n_arrays > at;

    vc_cuda_launch_chunks(op, unit, stats ? (double *)unit->device[at] : NULL,
                          stats ? (struct vc_cuda_totals *)unit->device[at + 1] : NULL);
}

/* ---- without sums ---- */

#define VC_CUDA_EACH_QUADS 4 /* quads that a thread makes in turn */

/* y[i] = op.of(i, x[i]), a quad at a time, QUADS in flight. Op: `from` and `to`, and the array x; NULL, and then of gets 0. */
template <class Op, uint32_t QUADS>
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    vc_cuda_each_kernel(Op op, uint32_t n, typename Op::to *__restrict__ y)
{
    uint32_t stride = gridDim.x * blockDim.x * 4;

    for (uint32_t first = (blockIdx.x * blockDim.x + threadIdx.x) * 4; first < n; first += QUADS * stride) {
        vc_cuda_quad<typename Op::from> in[QUADS];

        VC_CUDA_FOR(k, QUADS)
        {
            uint32_t i = first + k * stride;

            in[k] = vc_cuda_load<true>(op.x + i, op.x != NULL && i < n && n - i >= 4);
        }
        VC_CUDA_FOR(k, QUADS)
        {
            uint32_t i = first + k * stride;
            vc_cuda_quad<typename Op::to> out;

            if (i < n && n - i >= 4) {
                VC_CUDA_FOR(e, 4)
                {
                    out.v[e] = op.of(i + e, in[k].v[e]);
                }
                vc_cuda_store<true>(y + i, out);
            }
        }
    }
    /* The elements behind the last quad. */
    for (uint32_t i = n / 4 * 4 + threadIdx.x; blockIdx.x == 0 && i < n; i += blockDim.x) {
        y[i] = op.of(i, op.x != NULL ? op.x[i] : 0);
    }
}

/* Starts it for a unit, whose arrays begin at multiples of 256 bytes. */
template <class Op, uint32_t QUADS = VC_CUDA_EACH_QUADS>
static void vc_cuda_launch_each(const Op &op, const struct vc_cuda_unit *unit, typename Op::to *y)
{
    void (*kernel)(Op, uint32_t, typename Op::to *) = vc_cuda_each_kernel<Op, QUADS>;
    unsigned block = vc_cuda_team_block(unit->n_elems / (4 * QUADS) + 1, 1);

    /* A block for each of its turns: 93 % of a copy on an H200, 89 with as many as the card holds at once. */
    VC_CUDA_LAUNCH(kernel, unit->n_elems / (block * 4 * QUADS) + 1, block, unit->stream, op, unit->n_elems, y);
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

/* The same for an f32 and what it became where both are finite and their difference is exact (cuda_exact.h). */
static __device__ __forceinline__ void vc_cuda_compare_exact(float x, float y, double *sums,
                                                             struct vc_cuda_tally *tally)
{
    float e = x - y;

    tally->count[VC_CUDA_ZEROS_BEFORE] += x == 0.0f;
    tally->error = fmaxf(tally->error, fabsf(e));
    vc_cuda_add_product(&sums[0], x, x);
    vc_cuda_add_product(&sums[1], e, e);
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
