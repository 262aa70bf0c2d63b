/* cuda_int8.cu - int8 codes from weights, and weights from codes; the arithmetic is that of kernels/arith.h.
 *
 * int8_rows reads every element once where a group can stay in registers between its maximum and its codes:
 *
 *     rows of up to 1,024, groups of 16 to 1,024 in rows    own_kernel     half a warp takes a row or chunk
 *     other rows of up to 32,768                            block_kernel   a block takes a row
 *     everything else                                       the maximum, the scales and the codes in three kernels over a
 *                                                           unit, which is small enough to stay in the L2 cache
 *
 * Given scales are the third of these alone. The two kernels compute by cuda_exact.h; groups with Inf or NaN and those with
 * tiny scales go the plain way, `encode`, as all codes with given scales do. */
#include <string.h>

#include "kernels/cuda/cuda_absmax.h"
#include "kernels/cuda/cuda_chunks.h"
#include "kernels/cuda/cuda_kernels.h"

#define OWN_ROW       1024 /* longest group for half a warp: 16 quads per thread */
#define BLOCK_TEAMS   8    /* teams of 64 threads, one chunk each */
#define BLOCK_ROW     (BLOCK_TEAMS * VC_CHUNK_ELEMS)
#define PER_TEAM_LANE ((uint32_t)(VC_CHUNK_ELEMS / 64))

/* Code of x; adds it, compared with what it will be decoded to, to sums and tally. zero NULL: symmetric. The clamp is
 * watched as in kernel_ref.c (clamp_changes). */
static __device__ __forceinline__ int8_t encode(float x, float s, const int8_t *zero, double *sums,
                                                struct vc_cuda_tally *tally)
{
    float t = rintf(x / s);
    int z = 0;
    int8_t q;
    bool clipped;

    if (zero == NULL) {
        q = vc_int8_encode(x, s);
        clipped = t > 127.0f || t < -127.0f;
    } else {
        z = *zero;
        q = vc_int8_encode_asym(x, s, *zero);
        t = t + (float)z;
        clipped = t > 127.0f || t < -128.0f;
    }
    vc_cuda_compare(x, vc_int8_decode(q, s, z), clipped, sums, tally);
    return q;
}

/* ---- groups in registers ---- */

/* Arguments of the two kernels: device pointers, sizes of the unit. */
struct row_args {
    const float *x;
    uint32_t *bits;
    float *scale;
    int8_t *q;
    double *chunk_sums; /* NULL: no statistics */
    struct vc_cuda_totals *totals;
    uint32_t n_rows, row_len;
    uint32_t group, per_row; /* groups of a row */
    unsigned width;          /* threads that share a group: 16, or 4 and 8 for groups of 16 and 32 */
};

/* What a thread's elements of one group come to on the plain way. */
struct part {
    double sums[8];
    struct vc_cuda_tally tally;
};

/* `each` neighbours of every 64, up to `n` from the first of them. */
static __device__ VC_CUDA_RARE void encode_plainly(const float *x, uint32_t n, uint32_t each, float s, int8_t *q,
                                                   struct part *part)
{
    for (uint32_t i = 0; i < n; i += i % 64 == each - 1 ? 65 - each : 1) {
        q[i] = encode(x[i], s, NULL, part->sums + 2 * (i % 64), &part->tally);
    }
}

/* One element, by the quotient that is as good (vc_cuda_divides): a number whose low byte is the code. */
static __device__ __forceinline__ uint32_t encode_exact(float x, float s, float r, double *sums,
                                                        struct vc_cuda_tally *tally)
{
    float m = vc_cuda_quotient(x, s, r) + VC_CUDA_ROUNDER;

    vc_cuda_compare_exact(x, (m - VC_CUDA_ROUNDER) * s, sums, tally);
    return vc_f32_bits(m);
}

/* The elements of one group that a thread has, as quads of which the first `n` are there, 64 apart: maximum, scale, codes.
 * The threads of a group call it together. first: the thread's first element; left: elements from it to the end. */
template <int QUADS>
static __device__ __forceinline__ void own_group(const struct row_args &args, const vc_cuda_quad<float> *quads,
                                                 uint32_t first, uint32_t left, uint32_t group, double *sums,
                                                 struct vc_cuda_tally *tally)
{
    unsigned width = QUADS == 1 ? args.width : 16;
    uint32_t most = 0;
    float s;

    VC_CUDA_UNROLL
    for (int j = 0; j < QUADS; j++) {
        uint32_t m = vc_cuda_most(quads[j]);

        most = m > most ? m : most;
    }
    most = vc_cuda_warp_max(most, width);
    s = vc_cuda_int8_scale(most);
    if (left != 0 && threadIdx.x % width == 0) {
        args.bits[group] = most;
        args.scale[group] = s;
    }
    if (vc_cuda_divides(most, s)) {
        float r = 1.0f / s;

        VC_CUDA_UNROLL
        for (uint32_t j = 0; j < QUADS; j++) {
            uint32_t codes[4];
            uint32_t word;

            VC_CUDA_UNROLL
            for (int k = 0; k < 4; k++) {
                codes[k] = encode_exact(quads[j].v[k], s, r, sums + 2 * k, tally);
            }
            word = vc_cuda_low_bytes(codes);
            if (64 * j < left) {
                *(uint32_t *)(args.q + first + 64 * j) = word;
            }
            tally->count[VC_CUDA_ZEROS_AFTER] -= vc_cuda_nonzero_bytes(word); /* of all that were counted below */
        }
        /* What is beyond the end was counted as zeros. */
        left = left < 64 * QUADS ? (left + 63) / 64 * 4 : 4 * QUADS;
        tally->count[VC_CUDA_ZEROS_AFTER] += left;
        tally->count[VC_CUDA_ZEROS_BEFORE] -= 4 * QUADS - left;
    } else if (left != 0) {
        struct part part = {};

        for (int k = 0; k < 8; k++) {
            part.sums[k] = sums[k];
        }
        encode_plainly(args.x + first, left < 64 * QUADS ? left : 64 * QUADS, 4, s, args.q + first, &part);
        VC_CUDA_UNROLL
        for (int k = 0; k < 8; k++) {
            sums[k] = part.sums[k];
        }
        vc_cuda_join(tally, &part.tally);
    }
}

/* Half a warp takes a chunk, group after group, each of 64 * QUADS elements at most (with `width` below 16: parts of 64
 * that are whole groups). Up to 4 quads the next group is on its way while this one is encoded. Rows are groups of their
 * length, in a chunk of their own. row_len is a multiple of 4. */
template <int QUADS>
static __global__ void __launch_bounds__(VC_CUDA_THREADS, QUADS > 8 ? 2 : 3) own_kernel(struct row_args args)
{
    uint32_t t = threadIdx.x % VC_CUDA_TEAM;
    uint32_t per_row = (args.row_len + (uint32_t)VC_CHUNK_ELEMS - 1) / (uint32_t)VC_CHUNK_ELEMS;
    uint32_t n_chunks = args.n_rows * per_row;
    uint32_t teams = blockDim.x / VC_CUDA_TEAM;
    struct vc_cuda_tally tally = {};

    for (uint32_t base = blockIdx.x * teams; base < n_chunks; base += gridDim.x * teams) {
        uint32_t chunk = base + threadIdx.x / VC_CUDA_TEAM;
        uint32_t row = per_row == 1 ? chunk : chunk / per_row;
        uint32_t col = (chunk - row * per_row) * (uint32_t)VC_CHUNK_ELEMS;
        uint32_t end = args.row_len - col < VC_CHUNK_ELEMS ? args.row_len - col : (uint32_t)VC_CHUNK_ELEMS;
        uint32_t left = chunk < n_chunks && end > 4 * t ? end - 4 * t : 0;
        uint32_t first = row * args.row_len + col + 4 * t;
        uint32_t group = row * args.per_row + (QUADS == 1 ? col / args.group + t / args.width : col / (64 * QUADS));
        uint32_t step = QUADS == 1 ? 16 / args.width : 1;
        double sums[8] = {};
        vc_cuda_quad<float> next[QUADS];
        uint32_t other = __shfl_xor_sync(VC_CUDA_WARP_MASK, end, 16);

        VC_CUDA_UNROLL
        for (uint32_t j = 0; j < QUADS; j++) {
            next[j] = vc_cuda_load<true>(args.x + first + 64 * j, left > 64 * j ? 1 : 0);
        }
        end = other > end ? other : end; /* both halves of a warp go on together: groups meet in shuffles */
        for (uint32_t done = 0; done < end; done += 64 * QUADS, first += 64 * QUADS, group += step) {
            vc_cuda_quad<float> quads[QUADS];

            VC_CUDA_UNROLL
            for (uint32_t j = 0; j < QUADS; j++) {
                uint32_t at = 64 * (QUADS + j);

                quads[j] = next[j];
                if (QUADS <= 4) {
                    next[j] = vc_cuda_load<true>(args.x + first + at, left > at ? 1 : 0);
                }
            }
            own_group<QUADS>(args, quads, first, left, group, sums, &tally);
            left = left > 64 * QUADS ? left - 64 * QUADS : 0;
            VC_CUDA_UNROLL
            for (uint32_t j = 0; QUADS > 4 && j < QUADS; j++) {
                next[j] = vc_cuda_load<true>(args.x + first + 64 * (QUADS + j), left > 64 * j ? 1 : 0);
            }
        }
        if (args.chunk_sums != NULL) {
            double sum = vc_cuda_quad_tree(sums, sums + 1, 2);

            if (threadIdx.x % 8 == 0 && chunk < n_chunks) {
                args.chunk_sums[2 * (size_t)chunk + threadIdx.x / 8 % 2] = sum;
            }
        }
    }
    if (args.chunk_sums != NULL) {
        vc_cuda_publish(&tally, args.totals);
    }
}

/* Maximum over the block, in every thread. The whole block must call it. */
static __device__ __forceinline__ uint32_t block_max(uint32_t v)
{
    VC_CUDA_SHARED(uint32_t, of_warp, BLOCK_TEAMS * 2);

    v = vc_cuda_warp_max(v, 32);
    if (threadIdx.x % 32 == 0) {
        of_warp[threadIdx.x / 32] = v;
    }
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : 0;
    __syncthreads(); /* of_warp may be used again */
    return vc_cuda_warp_max(v, 32);
}

/* The tree over each team of 64 threads, of which each has one lane of two sums; valid in the first thread of each team.
 * The first level crosses warps, so it goes through shared memory. The whole block must call it. */
static __device__ __forceinline__ void block_trees(double *sums)
{
    VC_CUDA_SHARED(double, half, 2 * BLOCK_TEAMS * 32);
    unsigned lane = threadIdx.x % 64;
    unsigned at = threadIdx.x / 64 * 32 + lane % 32;

    for (unsigned k = 0; lane >= 32 && k < 2; k++) {
        half[k * BLOCK_TEAMS * 32 + at] = sums[k];
    }
    __syncthreads();
    for (unsigned k = 0; k < 2; k++) {
        sums[k] = vc_cuda_warp_tree(lane < 32 ? sums[k] + half[k * BLOCK_TEAMS * 32 + at] : 0);
    }
    __syncthreads(); /* `half` may be used again */
}

/* One block per row of up to BLOCK_ROW elements; each team of 64 threads has one chunk, each thread one lane of its
 * tree. */
static __global__ void __launch_bounds__(BLOCK_TEAMS * 64, 1) block_kernel(struct row_args args)
{
    uint32_t first = threadIdx.x / 64 * (uint32_t)VC_CHUNK_ELEMS + threadIdx.x % 64;
    uint32_t left = first < args.row_len ? args.row_len - first : 0;
    uint32_t mine = left < VC_CHUNK_ELEMS ? (left + 63) / 64 : PER_TEAM_LANE; /* elements of this thread */
    uint32_t per_row = (args.row_len + (uint32_t)VC_CHUNK_ELEMS - 1) / (uint32_t)VC_CHUNK_ELEMS;
    struct vc_cuda_tally tally = {};

    for (uint32_t row = blockIdx.x; row < args.n_rows; row += gridDim.x) {
        const float *x = args.x + row * args.row_len + first;
        int8_t *q = args.q + row * args.row_len + first;
        double sums[2] = {};
        float values[PER_TEAM_LANE];
        uint32_t most = 0;
        float s;

        VC_CUDA_UNROLL
        for (uint32_t j = 0; j < PER_TEAM_LANE; j++) {
            values[j] = 64 * j < left ? x[64 * j] : 0;
        }
        VC_CUDA_UNROLL
        for (uint32_t j = 0; j < PER_TEAM_LANE; j++) {
            uint32_t m = vc_f32_magnitude(values[j]);

            most = m > most ? m : most;
        }
        most = block_max(most);
        s = vc_cuda_int8_scale(most);
        if (threadIdx.x == 0) {
            args.bits[row] = most;
            args.scale[row] = s;
        }
        if (vc_cuda_divides(most, s)) {
            float r = 1.0f / s;

            VC_CUDA_UNROLL
            for (uint32_t j = 0; j < PER_TEAM_LANE; j++) {
                uint32_t code = encode_exact(values[j], s, r, sums, &tally);

                if (64 * j < left) {
                    q[64 * j] = (int8_t)code;
                }
                tally.count[VC_CUDA_ZEROS_AFTER] += (code & 0xff) == 0;
            }
            tally.count[VC_CUDA_ZEROS_BEFORE] -= PER_TEAM_LANE - mine; /* beyond the end */
            tally.count[VC_CUDA_ZEROS_AFTER] -= PER_TEAM_LANE - mine;
        } else if (left != 0) {
            struct part part = {};

            encode_plainly(x, left < VC_CHUNK_ELEMS ? left : (uint32_t)VC_CHUNK_ELEMS - threadIdx.x % 64, 1, s, q,
                           &part);
            sums[0] = part.sums[0];
            sums[1] = part.sums[1];
            vc_cuda_join(&tally, &part.tally);
        }
        if (args.chunk_sums != NULL) {
            block_trees(sums);
            if (threadIdx.x % 64 == 0 && threadIdx.x / 64 < per_row) {
                args.chunk_sums[2 * (row * per_row + threadIdx.x / 64)] = sums[0];
                args.chunk_sums[2 * (row * per_row + threadIdx.x / 64) + 1] = sums[1];
            }
        }
    }
    if (args.chunk_sums != NULL) {
        vc_cuda_publish(&tally, args.totals);
    }
}

/* ---- codes for scales that are there ---- */

/* One element with a given scale (cuda_chunks.h). */
struct encode_op {
    enum { N_SUMS = 2, FAST = 0, BINS = 0 };
    typedef float value;

    const float *x;
    const float *scale;
    const int8_t *zero; /* NULL: symmetric */
    int8_t *q;
    struct vc_cuda_index index;

    __device__ __forceinline__ float load(uint32_t flat) const
    {
        return x[flat];
    }

    __device__ __forceinline__ void visit(float v, uint32_t row, uint32_t col, uint32_t flat, double *sums,
                                          struct vc_cuda_tally *tally) const
    {
        uint32_t k = vc_cuda_scale_of(&index, row, col, flat);

        q[flat] = encode(v, scale[k], zero == NULL ? NULL : &zero[k], sums, tally);
    }
};

/* Scales from magnitudes, between the maximum and the codes. */
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    scales_kernel(const uint32_t *__restrict__ bits, uint32_t n, float *__restrict__ scale)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
        scale[i] = vc_cuda_int8_scale(bits[i]);
    }
}

/* ---- int8_rows ---- */

typedef void own_kernel_fn(struct row_args args);

/* The kernel that keeps groups of this length in registers: of whole rows up to its length, else of exactly its length, or
 * of a quarter and half of 64. NULL: there is none. */
static own_kernel_fn *own_kernel_for(size_t group, bool rows)
{
    static const struct {
        size_t most;
        own_kernel_fn *kernel;
    } kernels[] = {{64, own_kernel<1>},
                   {128, own_kernel<2>},
                   {256, own_kernel<4>},
                   {512, own_kernel<8>},
                   {OWN_ROW, own_kernel<16>}};

    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        bool exact = group == kernels[k].most || (k == 0 && (group == 16 || group == 32));

        if (rows ? group <= kernels[k].most : exact) {
            return kernels[k].kernel;
        }
    }
    return NULL;
}

/* Arrays: x, bits, scale, q and, with statistics, chunk sums and totals. */
static void launch_rows(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    bool stats = call->n_arrays > 4;
    bool rows = call->group == call->row_len;
    struct row_args args = {(const float *)unit->device[0],
                            (uint32_t *)unit->device[1],
                            (float *)unit->device[2],
                            (int8_t *)unit->device[3],
                            stats ? (double *)unit->device[4] : NULL,
                            stats ? (struct vc_cuda_totals *)unit->device[5] : NULL,
                            unit->n_rows,
                            unit->row_len,
                            (uint32_t)call->group,
                            unit->index.per_row,
                            rows || call->group > 32 ? 16u : (unsigned)call->group / 4};
    own_kernel_fn *own = args.row_len % 4 == 0 ? own_kernel_for(call->group, rows) : NULL;

    if (own != NULL) {
        unsigned block = vc_cuda_team_block(unit->n_chunks, VC_CUDA_TEAM);
        size_t teams = block / VC_CUDA_TEAM;

        VC_CUDA_LAUNCH(own, vc_cuda_grid_of((const void *)own, block, (unit->n_chunks + teams - 1) / teams), block,
                       unit->stream, args);
    } else if (rows && call->row_len <= BLOCK_ROW) {
        unsigned block = (unsigned)((call->row_len + VC_CHUNK_ELEMS - 1) / VC_CHUNK_ELEMS) * 64;

        VC_CUDA_LAUNCH(block_kernel, vc_cuda_grid_of((const void *)block_kernel, block, unit->n_rows), block,
                       unit->stream, args);
    } else {
        struct encode_op op = {args.x, args.scale, NULL, args.q, unit->index};

        vc_cuda_launch_range(call, unit, args.x, args.bits, NULL);
        VC_CUDA_LAUNCH(scales_kernel, vc_cuda_grid(unit->n_groups / VC_CUDA_THREADS + 1), vc_cuda_block(unit->n_groups),
                       unit->stream, args.bits, (uint32_t)unit->n_groups, args.scale);
        vc_cuda_launch_chunks(op, unit, args.chunk_sums, args.totals);
    }
}

/* int8_rows for rows that do not fit into an arena: the maximum first, then the codes, each in pieces of rows. The
 * scales are made on the host in between. */
static int long_rows(const float *x, size_t n_rows, size_t row_len, size_t group, uint32_t *bits, float *scale,
                     int8_t *q, struct vc_tile_stats *stats)
{
    size_t n_groups = n_rows * (row_len / group + (row_len % group != 0));
    int result = vc_cuda_absmax_rows(x, n_rows, row_len, group, bits);

    if (result != 0) {
        return result;
    }
    for (size_t g = 0; g < n_groups; g++) {
        uint32_t b;
        float s;

        memcpy(&b, (const char *)bits + g * sizeof b, sizeof b); /* the caller's arrays may be unaligned */
        s = b < VC_F32_INF_BITS ? vc_int8_scale(b) : 1.0f;
        memcpy((char *)scale + g * sizeof s, &s, sizeof s);
    }
    return vc_cuda_int8_rows_given(x, n_rows, row_len, group, scale, NULL, q, stats);
}

/* Rows have to lie in one unit, since their largest magnitude is that of all elements; longer ones go through
 * long_rows. */
int vc_cuda_int8_rows(const float *x, size_t n_rows, size_t row_len, size_t group, uint32_t *bits, float *scale,
                      int8_t *q, struct vc_tile_stats *stats)
{
    vc_cuda_stats_clear(stats);
    if (n_rows == 0 || row_len == 0) {
        return 0;
    }
    struct vc_cuda_call call = vc_cuda_call_of(launch_rows, NULL, n_rows, row_len, group);
    call.keep_rows = true;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, bits, sizeof *bits, VC_CUDA_PER_GROUP, VC_CUDA_OUT_MAX);
    vc_cuda_add_out(&call, scale, sizeof *scale, VC_CUDA_PER_GROUP, VC_CUDA_OUT);
    vc_cuda_add_out(&call, q, sizeof *q, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    vc_cuda_add_stats(&call, stats);
    if (!vc_cuda_rows_fit(&call)) {
        return long_rows(x, n_rows, row_len, call.group, bits, scale, q, stats);
    }
    return vc_cuda_run(&call);
}

/* ---- given scales ---- */

/* The arrays of calls with given scales: input, scale, zero points if any, output, statistics if any. */
struct given_arrays {
    const void *in;
    const float *scale;
    const int8_t *zero;
    unsigned n_in;
};

/* Finds them in a unit: zero points are there if the third array is an input. */
static struct given_arrays arrays_of(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    bool zero = call->arrays[2].flow == VC_CUDA_IN;
    struct given_arrays arrays = {unit->device[0], (const float *)unit->device[1],
                                  zero ? (const int8_t *)unit->device[2] : NULL, zero ? 3u : 2u};

    return arrays;
}

/* With the figures of the tile, by the walk over chunks. */
static void launch_encode(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    struct given_arrays arrays = arrays_of(call, unit);
    struct encode_op op = {(const float *)arrays.in, arrays.scale, arrays.zero, (int8_t *)unit->device[arrays.n_in],
                           unit->index};

    vc_cuda_launch_stats(op, call, unit, arrays.n_in + 1);
}

/* Values from codes; zero NULL: symmetric. */
struct int8_decode_op {
    typedef int8_t from;
    typedef float to;

    const int8_t *x;
    struct vc_cuda_index index;
    const float *scale;
    const int8_t *zero;

    __device__ __forceinline__ float of(uint32_t i, int8_t q) const
    {
        uint32_t k = vc_cuda_scale_of_flat(&index, i);

        return vc_int8_decode(q, scale[k], zero == NULL ? 0 : zero[k]);
    }
};

static void launch_decode(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    struct given_arrays arrays = arrays_of(call, unit);
    struct int8_decode_op op = {(const int8_t *)arrays.in, unit->index, arrays.scale, arrays.zero};

    vc_cuda_launch_each(op, unit, (float *)unit->device[arrays.n_in]);
}

/* What encoding and decoding share. group 0: along the axis of `map`. */
static struct vc_cuda_call given_call(void (*launch)(const struct vc_cuda_call *, const struct vc_cuda_unit *),
                                      const void *in, size_t in_bytes, size_t n_rows, size_t row_len, size_t group,
                                      const struct vc_axis_map *map, const float *scale, const int8_t *zero)
{
    enum vc_cuda_per per = map != NULL ? VC_CUDA_PER_CHANNEL : VC_CUDA_PER_GROUP;
    struct vc_cuda_call call = vc_cuda_call_of(launch, NULL, n_rows, row_len, group);

    call.map = map;
    vc_cuda_add_in(&call, in, in_bytes, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_in(&call, scale, sizeof *scale, per);
    if (zero != NULL) {
        vc_cuda_add_in(&call, zero, sizeof *zero, per);
    }
    return call;
}

/* Codes by scales that are known: of groups, or map, of an axis. */
static int encode_given(const float *x, size_t n_rows, size_t row_len, size_t group, const struct vc_axis_map *map,
                        const float *scale, const int8_t *zero, int8_t *q, struct vc_tile_stats *stats)
{
    struct vc_cuda_call call = given_call(launch_encode, x, sizeof *x, n_rows, row_len, group, map, scale, zero);

    vc_cuda_stats_clear(stats);
    vc_cuda_add_out(&call, q, sizeof *q, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    vc_cuda_add_stats(&call, stats);
    return vc_cuda_run(&call);
}

/* The way back; no figures. */
static int decode_given(const int8_t *q, size_t n_rows, size_t row_len, size_t group, const struct vc_axis_map *map,
                        const float *scale, const int8_t *zero, float *y)
{
    struct vc_cuda_call call = given_call(launch_decode, q, sizeof *q, n_rows, row_len, group, map, scale, zero);

    vc_cuda_add_out(&call, y, sizeof *y, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    return vc_cuda_run(&call);
}

int vc_cuda_int8_rows_given(const float *x, size_t n_rows, size_t row_len, size_t group, const float *scale,
                            const int8_t *zero, int8_t *q, struct vc_tile_stats *stats)
{
    return encode_given(x, n_rows, row_len, group, NULL, scale, zero, q, stats);
}

int vc_cuda_int8_axis_given(const float *x, size_t n_rows, size_t row_len, const struct vc_axis_map *map,
                            const float *scale, const int8_t *zero, int8_t *q, struct vc_tile_stats *stats)
{
    return encode_given(x, n_rows, row_len, 0, map, scale, zero, q, stats);
}

int vc_cuda_int8_decode_rows(const int8_t *q, size_t n_rows, size_t row_len, size_t group, const float *scale,
                             const int8_t *zero, float *y)
{
    return decode_given(q, n_rows, row_len, group, NULL, scale, zero, y);
}

int vc_cuda_int8_decode_axis(const int8_t *q, size_t n, const struct vc_axis_map *map, const float *scale,
                             const int8_t *zero, float *y)
{
    return decode_given(q, 1, n, 0, map, scale, zero, y);
}
