/* cuda_int8.cu - int8 codes from weights, and weights from codes; the arithmetic is that of kernels/arith.h.
 *
 * int8_rows has three ways. One scale per row: rows up to 1,024 elements get a warp, rows up to 32,768 a block, and
 * both keep the row in registers between its maximum and its codes, so it is read once. Everything else takes the
 * maximum, the scales and the codes in three kernels over a unit, which is small enough to stay in the L2 cache.
 * Given scales are the third of these alone. */
#include <string.h>

#include "kernels/cuda/cuda_absmax.h"
#include "kernels/cuda/cuda_chunks.h"
#include "kernels/cuda/cuda_kernels.h"

#define WARP_ROW      1024 /* longest row for a warp: 32 elements per thread */
#define BLOCK_TEAMS   8    /* teams of 64 threads, one chunk each */
#define BLOCK_ROW     (BLOCK_TEAMS * VC_CHUNK_ELEMS)
#define PER_THREAD    (WARP_ROW / 32)
#define PER_TEAM_LANE ((int)(VC_CHUNK_ELEMS / 64))

/* A group that is not finite gets 1; its codes mean nothing (kernels.h). */
static __device__ __forceinline__ float scale_from_bits(uint32_t bits)
{
    return bits < VC_F32_INF_BITS ? vc_int8_scale(bits) : 1.0f;
}

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

/* ---- rows in registers ---- */

/* Arguments of the two kernels for rows in registers: device pointers, sizes of the unit. */
struct row_args {
    const float *x;
    uint32_t *bits;
    float *scale;
    int8_t *q;
    double *chunk_sums; /* NULL: no statistics */
    struct vc_cuda_totals *totals;
    uint32_t n_rows, row_len;
};

/* One warp per row of up to WARP_ROW elements, one chunk. Thread t has the elements t, t + 32, ...: lanes t and t +
 * 32 of the tree in turn, which its two pairs of sums keep apart; their addition is the first level of the tree. */
static __global__ void __launch_bounds__(VC_CUDA_THREADS) row_warp_kernel(struct row_args args)
{
    size_t warps = blockDim.x / 32;
    uint32_t lane = threadIdx.x % 32;
    struct vc_cuda_tally tally = {};

    for (size_t base = blockIdx.x * warps; base < args.n_rows; base += gridDim.x * warps) {
        size_t row = base + threadIdx.x / 32;
        uint32_t len = row < args.n_rows ? args.row_len : 0;
        size_t start = row * args.row_len;
        double even[2] = {};
        double odd[2] = {};
        float values[PER_THREAD];
        uint32_t most = 0;
        float s;

        VC_CUDA_UNROLL
        for (int j = 0; j < PER_THREAD; j++) {
            uint32_t i = lane + 32 * (uint32_t)j;

            values[j] = i < len ? args.x[start + i] : 0;
            most = vc_f32_magnitude(values[j]) > most ? vc_f32_magnitude(values[j]) : most;
        }
        most = vc_cuda_warp_max(most, 32);
        s = scale_from_bits(most);
        if (lane == 0 && len != 0) {
            args.bits[row] = most;
            args.scale[row] = s;
        }
        VC_CUDA_UNROLL
        for (int j = 0; j < PER_THREAD; j++) {
            uint32_t i = lane + 32 * (uint32_t)j;

            if (i < len) {
                args.q[start + i] = encode(values[j], s, NULL, j % 2 == 0 ? even : odd, &tally);
            }
        }
        if (args.chunk_sums != NULL) {
            for (int k = 0; k < 2; k++) {
                double sum = vc_cuda_warp_tree(even[k] + odd[k]);

                if (lane == 0 && len != 0) {
                    args.chunk_sums[2 * row + (size_t)k] = sum;
                }
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
    uint32_t most = 0;

    v = vc_cuda_warp_max(v, 32);
    if (threadIdx.x % 32 == 0) {
        of_warp[threadIdx.x / 32] = v;
    }
    __syncthreads();
    for (unsigned w = 0; w < blockDim.x / 32; w++) {
        most = of_warp[w] > most ? of_warp[w] : most;
    }
    __syncthreads(); /* of_warp may be used again */
    return most;
}

/* One block per row of up to BLOCK_ROW elements; each team of 64 threads has one chunk, each thread one lane of its
 * tree. */
static __global__ void __launch_bounds__(BLOCK_TEAMS * 64) row_block_kernel(struct row_args args)
{
    VC_CUDA_SHARED(double, half, 2 * BLOCK_TEAMS * 32);
    uint32_t first = threadIdx.x / 64 * (uint32_t)VC_CHUNK_ELEMS + threadIdx.x % 64;
    size_t per_row = (args.row_len + VC_CHUNK_ELEMS - 1) / VC_CHUNK_ELEMS;
    struct vc_cuda_tally tally = {};

    for (size_t row = blockIdx.x; row < args.n_rows; row += gridDim.x) {
        size_t start = row * args.row_len;
        double sums[2] = {};
        float values[PER_TEAM_LANE];
        uint32_t most = 0;
        float s;

        VC_CUDA_UNROLL
        for (int j = 0; j < PER_TEAM_LANE; j++) {
            uint32_t i = first + 64 * (uint32_t)j;

            values[j] = i < args.row_len ? args.x[start + i] : 0;
            most = vc_f32_magnitude(values[j]) > most ? vc_f32_magnitude(values[j]) : most;
        }
        most = block_max(most);
        s = scale_from_bits(most);
        if (threadIdx.x == 0) {
            args.bits[row] = most;
            args.scale[row] = s;
        }
        VC_CUDA_UNROLL
        for (int j = 0; j < PER_TEAM_LANE; j++) {
            uint32_t i = first + 64 * (uint32_t)j;

            if (i < args.row_len) {
                args.q[start + i] = encode(values[j], s, NULL, sums, &tally);
            }
        }
        if (args.chunk_sums != NULL) {
            vc_cuda_team_tree<2>(sums, half);
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
    enum { N_SUMS = 2 };
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
        scale[i] = scale_from_bits(bits[i]);
    }
}

/* ---- int8_rows ---- */

/* Arrays: x, bits, scale, q and, with statistics, chunk sums and totals. */
static void launch_rows(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    bool stats = call->n_arrays > 4;
    struct row_args args = {(const float *)unit->device[0],
                            (uint32_t *)unit->device[1],
                            (float *)unit->device[2],
                            (int8_t *)unit->device[3],
                            stats ? (double *)unit->device[4] : NULL,
                            stats ? (struct vc_cuda_totals *)unit->device[5] : NULL,
                            unit->n_rows,
                            unit->row_len};

    if (call->group == call->row_len && call->row_len <= WARP_ROW) {
        unsigned warps = unit->n_rows < VC_CUDA_THREADS / 32 ? unit->n_rows : VC_CUDA_THREADS / 32;

        VC_CUDA_LAUNCH(row_warp_kernel, vc_cuda_grid((unit->n_rows + warps - 1) / warps), warps * 32, unit->stream,
                       args);
    } else if (call->group == call->row_len && call->row_len <= BLOCK_ROW) {
        unsigned teams = (unsigned)((call->row_len + VC_CHUNK_ELEMS - 1) / VC_CHUNK_ELEMS);

        VC_CUDA_LAUNCH(row_block_kernel, vc_cuda_grid(unit->n_rows), teams * 64, unit->stream, args);
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
    struct vc_cuda_call call = {};

    vc_cuda_stats_clear(stats);
    if (n_rows == 0 || row_len == 0) {
        return 0;
    }
    call.n_rows = n_rows;
    call.row_len = row_len;
    call.group = group < row_len ? group : row_len;
    call.keep_rows = true;
    call.launch = launch_rows;
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
    void *out;
    double *chunk_sums;
    struct vc_cuda_totals *totals;
};

/* Finds them in a unit: zero points are there if the third array is an input, statistics if two more follow the
 * output. */
static struct given_arrays arrays_of(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    bool zero = call->arrays[2].flow == VC_CUDA_IN;
    unsigned out = zero ? 3 : 2;
    bool stats = call->n_arrays > out + 1;
    struct given_arrays arrays = {unit->device[0],
                                  (const float *)unit->device[1],
                                  zero ? (const int8_t *)unit->device[2] : NULL,
                                  unit->device[out],
                                  stats ? (double *)unit->device[out + 1] : NULL,
                                  stats ? (struct vc_cuda_totals *)unit->device[out + 2] : NULL};

    return arrays;
}

/* With the figures of the tile, by the walk over chunks. */
static void launch_encode(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    struct given_arrays arrays = arrays_of(call, unit);
    struct encode_op op = {(const float *)arrays.in, arrays.scale, arrays.zero, (int8_t *)arrays.out, unit->index};

    vc_cuda_launch_chunks(op, unit, arrays.chunk_sums, arrays.totals);
}

/* Values from codes, one thread per element; zero NULL: symmetric. */
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    decode_kernel(const int8_t *__restrict__ q, uint32_t n_elems, uint32_t row_len, struct vc_cuda_index index,
                  const float *__restrict__ scale, const int8_t *__restrict__ zero, float *__restrict__ y)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n_elems; i += gridDim.x * (size_t)blockDim.x) {
        uint32_t flat = (uint32_t)i;
        uint32_t k = vc_cuda_scale_of(&index, flat / row_len, flat % row_len, flat);

        y[i] = vc_int8_decode(q[i], scale[k], zero == NULL ? 0 : zero[k]);
    }
}

static void launch_decode(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    struct given_arrays arrays = arrays_of(call, unit);

    VC_CUDA_LAUNCH(decode_kernel, vc_cuda_grid(unit->n_elems / (VC_CUDA_THREADS * 4) + 1), vc_cuda_block(unit->n_elems),
                   unit->stream, (const int8_t *)arrays.in, unit->n_elems, unit->row_len, unit->index, arrays.scale,
                   arrays.zero, (float *)arrays.out);
}

/* What encoding and decoding share. group 0: along the axis of `map`. */
static void prepare(struct vc_cuda_call *call, const void *in, size_t in_bytes, size_t n_rows, size_t row_len,
                    size_t group, const struct vc_axis_map *map, const float *scale, const int8_t *zero)
{
    enum vc_cuda_per per = map != NULL ? VC_CUDA_PER_CHANNEL : VC_CUDA_PER_GROUP;

    memset(call, 0, sizeof *call);
    call->n_rows = n_rows;
    call->row_len = row_len;
    call->group = group < row_len ? group : row_len;
    call->map = map;
    vc_cuda_add_in(call, in, in_bytes, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_in(call, scale, sizeof *scale, per);
    if (zero != NULL) {
        vc_cuda_add_in(call, zero, sizeof *zero, per);
    }
}

/* Codes by scales that are known: of groups, or map, of an axis. */
static int encode_given(const float *x, size_t n_rows, size_t row_len, size_t group, const struct vc_axis_map *map,
                        const float *scale, const int8_t *zero, int8_t *q, struct vc_tile_stats *stats)
{
    struct vc_cuda_call call;

    vc_cuda_stats_clear(stats);
    prepare(&call, x, sizeof *x, n_rows, row_len, group, map, scale, zero);
    vc_cuda_add_out(&call, q, sizeof *q, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    vc_cuda_add_stats(&call, stats);
    call.launch = launch_encode;
    return vc_cuda_run(&call);
}

/* The way back; no figures. */
static int decode_given(const int8_t *q, size_t n_rows, size_t row_len, size_t group, const struct vc_axis_map *map,
                        const float *scale, const int8_t *zero, float *y)
{
    struct vc_cuda_call call;

    prepare(&call, q, sizeof *q, n_rows, row_len, group, map, scale, zero);
    vc_cuda_add_out(&call, y, sizeof *y, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    call.launch = launch_decode;
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
