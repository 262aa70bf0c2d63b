/* cuda_prune.cu - bins of magnitudes, masks, blocks (kernels.h, "Pruning"). Masks are made a byte at a time, so that no
 * two threads write to one; bins are counted by integer atomics.
 *
 * Each kernel of kernels.h has here
 *
 *     name_kernel      what a thread makes
 *     launch_name      the launch for one unit of the pipeline: rows that were copied to the device (cuda_pipeline.cu)
 *     name             the call: arrays, sizes, and for rows that do not fit a unit the same loop on the host
 *     vc_cuda_name     for each type */
#include "kernels/cpu/prune_loop.h"
#include "kernels/cuda/cuda_chunks.h"
#include "kernels/cuda/cuda_kernels.h"

/* A type of weights as a class: its key, an unsigned integer (kernels.h). */
struct of_u16 {
    typedef uint16_t type;
    VC_HD uint64_t key(uint16_t h)
    {
        return h & 0x7fffu;
    }
};

struct of_f32 {
    typedef float type;
    VC_HD uint64_t key(float x)
    {
        return vc_f32_magnitude(x);
    }
};

struct of_f64 {
    typedef double type;
    VC_HD uint64_t key(double x)
    {
        return vc_f64_bits(x) & 0x7fffffffffffffffull;
    }
};

/* What the host does where a unit has no room. */
namespace
{
VC_N_OF_M_LOOP(n_of_m_on_host, float, f32)
VC_N_OF_M_LOOP(n_of_m_on_host, double, f64)
VC_SQUARES_LOOP(squares_on_host, float, f32)
VC_SQUARES_LOOP(squares_on_host, double, f64)
VC_COLUMN_SUMS_LOOP(column_sums_on_host, float, f32)
VC_COLUMN_SUMS_LOOP(column_sums_on_host, double, f64)
} // namespace

/* Element i of a host array, which may be unaligned. */
template <class K> static typename K::type host_at(const typename K::type *x, size_t i)
{
    typename K::type v;

    memcpy(&v, (const char *)x + i * sizeof v, sizeof v);
    return v;
}

/* ---- bins ---- */

/* vc_bin_range as the device gets it. */
struct bins_of {
    uint64_t first;
    unsigned shift;
    uint32_t n_bins;
};

/* A thread for each key, or several; bins of the same number are added to one after the other. */
template <class K>
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    bins_kernel(const typename K::type *__restrict__ x, uint32_t n, struct bins_of range, uint32_t *__restrict__ bins)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
        uint64_t key = K::key(x[i]);

        if (key >= range.first && (key - range.first) >> range.shift < range.n_bins) {
            atomicAdd(&bins[(key - range.first) >> range.shift], 1u);
        }
    }
}

template <class K> static void launch_bins(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    VC_CUDA_LAUNCH(bins_kernel<K>, vc_cuda_grid(unit->n_elems / (VC_CUDA_THREADS * 4) + 1),
                   vc_cuda_block(unit->n_elems), unit->stream, (const typename K::type *)unit->device[0], unit->n_elems,
                   *(const struct bins_of *)call->user, (uint32_t *)unit->device[1]);
}

/* As many bins at once as an arena has room for beside elements: all of them on a real card. */
template <class K> static int bins(const typename K::type *x, size_t n, const struct vc_bin_range *range, uint32_t *out)
{
    const size_t most = VC_CUDA_ARENA_BYTES / 4 / sizeof *out;
    int result = 0;

    for (size_t at = 0; result == 0 && at < range->n_bins; at += most) {
        struct bins_of window = {range->first + ((uint64_t)at << range->shift), range->shift, 0};

        window.n_bins = (uint32_t)(range->n_bins - at < most ? range->n_bins - at : most);
        if (window.first < range->first) { /* beyond every key */
            break;
        }
        struct vc_cuda_call call = vc_cuda_call_of(launch_bins<K>, &window, 1, n);
        call.n_bins = window.n_bins;
        vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
        vc_cuda_add_out(&call, out + at, sizeof *out, VC_CUDA_PER_BIN, VC_CUDA_OUT_SUM);
        result = vc_cuda_run(&call);
    }
    return result;
}

/* Of 16 bits every key has a bin. */
int vc_cuda_magnitude_bins_u16(const uint16_t *h, size_t n, uint32_t *out)
{
    const struct vc_bin_range all = {0, 0, 32768};

    return bins<of_u16>(h, n, &all, out);
}

int vc_cuda_magnitude_bins_f32(const float *x, size_t n, const struct vc_bin_range *range, uint32_t *out)
{
    return bins<of_f32>(x, n, range, out);
}

int vc_cuda_magnitude_bins_f64(const double *x, size_t n, const struct vc_bin_range *range, uint32_t *out)
{
    return bins<of_f64>(x, n, range, out);
}

/* ---- masks: one thread per byte ---- */

/* Starts a kernel for the mask of a unit, which is array 1. */
#define LAUNCH_MASK(kernel, unit, ...)                                                                                \
    VC_CUDA_LAUNCH(kernel, vc_cuda_grid(((unit)->n_elems / 8 + 1) / VC_CUDA_THREADS + 1),                             \
                   vc_cuda_block((unit)->n_elems / 8 + 2), (unit)->stream, __VA_ARGS__, (unit)->n_elems, (unit)->bit, \
                   (uint8_t *)(unit)->device[1])

/* Byte b of the mask of n elements, of which the first has bit `bit` of byte 0; kept(i) says whether element i
 * stays. */
template <class Kept>
static __device__ __forceinline__ uint8_t mask_byte(const Kept &kept, size_t b, uint32_t n, uint32_t bit)
{
    unsigned byte = 0;

    for (unsigned k = 0; k < 8; k++) {
        size_t i = 8 * b + k - bit;

        if (8 * b + k >= bit && i < n && kept.at((uint32_t)i)) {
            byte |= 1u << k;
        }
    }
    return (uint8_t)byte;
}

template <class Kept>
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    mask_kernel(Kept kept, uint32_t n, uint32_t bit, uint8_t *__restrict__ mask)
{
    size_t n_bytes = ((size_t)bit + n + 7) / 8;

    for (size_t b = blockIdx.x * (size_t)blockDim.x + threadIdx.x; b < n_bytes; b += gridDim.x * (size_t)blockDim.x) {
        mask[b] = mask_byte(kept, b, n, bit);
    }
}

/* Without ties: those are taken out on the host, since the first n of them go. */
template <class K> struct kept_above {
    const typename K::type *x;
    uint64_t threshold;

    __device__ __forceinline__ bool at(uint32_t i) const
    {
        return K::key(x[i]) >= threshold;
    }
};

template <class K> static void launch_above(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    kept_above<K> kept = {(const typename K::type *)unit->device[0], *(const uint64_t *)call->user};

    LAUNCH_MASK(mask_kernel<kept_above<K>>, unit, kept);
}

/* Equal keys stay on the device; the first n_ties of them are few, and are taken out here in order. */
template <class K> static int above(const typename K::type *x, size_t n, const struct vc_mask_cut *cut, uint8_t *mask)
{
    uint64_t threshold = cut->threshold;
    uint64_t left = cut->n_ties;
    int result;

    if (left >= n && threshold != UINT64_MAX) {
        threshold++;
        left = 0;
    }
    struct vc_cuda_call call = vc_cuda_call_of(launch_above<K>, &threshold, 1, n);
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, mask, 1, VC_CUDA_PER_BIT, VC_CUDA_OUT);
    result = vc_cuda_run(&call);
    for (size_t i = 0; result == 0 && left != 0 && i < n; i++) {
        if (K::key(host_at<K>(x, i)) == threshold) {
            mask[i / 8] = (uint8_t)(mask[i / 8] & ~(1u << i % 8));
            left--;
        }
    }
    return result;
}

int vc_cuda_mask_above_u16(const uint16_t *h, size_t n, const struct vc_mask_cut *cut, uint8_t *mask)
{
    return above<of_u16>(h, n, cut, mask);
}

int vc_cuda_mask_above_f32(const float *x, size_t n, const struct vc_mask_cut *cut, uint8_t *mask)
{
    return above<of_f32>(x, n, cut, mask);
}

int vc_cuda_mask_above_f64(const double *x, size_t n, const struct vc_mask_cut *cut, uint8_t *mask)
{
    return above<of_f64>(x, n, cut, mask);
}

/* ---- N of M ---- */

/* Blocks of len x inner elements; groups along len. */
struct groups {
    uint32_t len, inner, keep, group;
};

/* Whether element i stays: fewer than `keep` of its group come before it. `x` is the start of a whole block. */
template <class K>
static __device__ __forceinline__ bool stays(const typename K::type *x, size_t i, const struct groups &g)
{
    size_t block = (size_t)g.len * g.inner;
    size_t base = i - i % block + i % g.inner;
    uint32_t at = (uint32_t)(i % block / g.inner);
    uint32_t from = at - at % g.group;
    uint32_t end = g.len - from < g.group ? g.len : from + g.group;
    uint64_t own = K::key(x[i]);
    uint32_t before = 0;

    for (uint32_t j = from; j < end; j++) {
        uint64_t other = K::key(x[base + (size_t)j * g.inner]);

        before += other > own || (other == own && j < at);
    }
    return before < g.keep;
}

/* N:M, by the compares of `stays`. */
template <class K> struct kept_of_group {
    const typename K::type *x;
    struct groups groups;

    __device__ __forceinline__ bool at(uint32_t i) const
    {
        return stays<K>(x, i, groups);
    }
};

template <class K> static void launch_n_of_m(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    kept_of_group<K> kept = {(const typename K::type *)unit->device[0], *(const struct groups *)call->user};

    LAUNCH_MASK(mask_kernel<kept_of_group<K>>, unit, kept);
}

/* A row of the call is what no unit may cut: a row of groups, or a whole block where its last groups are short. */
template <class K>
static int n_of_m(const typename K::type *x, size_t n_blocks, size_t len, size_t inner, unsigned keep, unsigned group,
                  uint8_t *mask)
{
    struct groups groups = {(uint32_t)len, (uint32_t)inner, keep, group};

    if (len == 0 || inner == 0 || n_blocks == 0) {
        return 0;
    }
    if (len % group == 0) {
        n_blocks *= len / group;
        groups.len = group;
    }
    struct vc_cuda_call call = vc_cuda_call_of(launch_n_of_m<K>, &groups, n_blocks, (size_t)groups.len * inner);
    call.keep_rows = true;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, mask, 1, VC_CUDA_PER_BIT, VC_CUDA_OUT);
    if (!vc_cuda_rows_fit(&call)) {
        return n_of_m_on_host(x, n_blocks, groups.len, inner, keep, group, mask);
    }
    return vc_cuda_run(&call);
}

int vc_cuda_mask_n_of_m_f32(const float *x, size_t n_blocks, size_t len, size_t inner, unsigned keep, unsigned group,
                            uint8_t *mask)
{
    return n_of_m<of_f32>(x, n_blocks, len, inner, keep, group, mask);
}

int vc_cuda_mask_n_of_m_f64(const double *x, size_t n_blocks, size_t len, size_t inner, unsigned keep, unsigned group,
                            uint8_t *mask)
{
    return n_of_m<of_f64>(x, n_blocks, len, inner, keep, group, mask);
}

/* ---- applying ---- */

static __device__ __forceinline__ bool bit_at(const uint8_t *mask, uint32_t bit, uint32_t i)
{
    return mask[(bit + i) / 8] >> (bit + i) % 8 & 1;
}

struct apply_u16_op {
    typedef uint16_t from;
    typedef uint16_t to;

    const uint16_t *x;
    const uint8_t *mask;
    uint32_t bit;

    __device__ __forceinline__ uint16_t of(uint32_t i, uint16_t v) const
    {
        return bit_at(mask, bit, i) ? v : (uint16_t)0;
    }
};

static void launch_apply_u16(const struct vc_cuda_call *, const struct vc_cuda_unit *unit)
{
    apply_u16_op op = {(const uint16_t *)unit->device[0], (const uint8_t *)unit->device[1], unit->bit};

    vc_cuda_launch_each(op, unit, (uint16_t *)unit->device[2]);
}

int vc_cuda_mask_apply_u16(const uint16_t *h, const uint8_t *mask, uint64_t first, size_t n, uint16_t *y)
{
    struct vc_cuda_call call = vc_cuda_call_of(launch_apply_u16, NULL, 1, n);
    call.first_bit = first;
    vc_cuda_add_in(&call, h, sizeof *h, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_in(&call, mask, 1, VC_CUDA_PER_BIT);
    vc_cuda_add_out(&call, y, sizeof *y, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    return vc_cuda_run(&call);
}

/* One element (cuda_chunks.h): stored if y is not NULL, compared. */
template <class K> struct apply_op {
    enum { N_SUMS = 2, FAST = 0, BINS = 0 };
    typedef typename K::type value;

    const typename K::type *x;
    const uint8_t *mask;
    uint32_t bit;
    typename K::type *y;

    __device__ __forceinline__ value load(uint32_t flat) const
    {
        return x[flat];
    }

    __device__ __forceinline__ void visit(value v, uint32_t, uint32_t, uint32_t flat, double *sums,
                                          struct vc_cuda_tally *tally) const
    {
        value kept = bit_at(mask, bit, flat) ? v : (value)0;

        if (y != NULL) {
            y[flat] = kept;
        }
        tally->count[VC_CUDA_ZEROS_BEFORE] += v == 0;
        tally->count[VC_CUDA_ZEROS_AFTER] += kept == 0;
        if (vc_cuda_finite(v)) {
            double e = (double)v - (double)kept;

            sums[0] = sums[0] + (double)v * (double)v;
            sums[1] = sums[1] + e * e;
            vc_cuda_raise(&tally->peak[0], vc_cuda_f64_magnitude(e));
        }
    }
};

/* Arrays: x, mask, y if it is wanted, chunk sums and totals if statistics are. */
template <class K> static void launch_apply(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    bool writes = call->n_arrays > 2 && call->arrays[2].per == VC_CUDA_PER_ELEMENT;
    apply_op<K> op = {(const typename K::type *)unit->device[0], (const uint8_t *)unit->device[1], unit->bit,
                      writes ? (typename K::type *)unit->device[2] : NULL};

    vc_cuda_launch_stats(op, call, unit, writes ? 3 : 2);
}

template <class K>
static int apply(const typename K::type *x, const uint8_t *mask, uint64_t first, size_t n_rows, size_t row_len,
                 typename K::type *y, struct vc_tile_stats *stats)
{
    vc_cuda_stats_clear(stats);
    if (y == NULL && stats == NULL) {
        return 0;
    }
    struct vc_cuda_call call = vc_cuda_call_of(launch_apply<K>, NULL, n_rows, row_len);
    call.first_bit = first;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_in(&call, mask, 1, VC_CUDA_PER_BIT);
    if (y != NULL) {
        vc_cuda_add_out(&call, y, sizeof *y, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    }
    vc_cuda_add_stats(&call, stats);
    return vc_cuda_run(&call);
}

int vc_cuda_mask_apply_f32(const float *x, const uint8_t *mask, uint64_t first, size_t n_rows, size_t row_len, float *y,
                           struct vc_tile_stats *stats)
{
    return apply<of_f32>(x, mask, first, n_rows, row_len, y, stats);
}

int vc_cuda_mask_apply_f64(const double *x, const uint8_t *mask, uint64_t first, size_t n_rows, size_t row_len,
                           double *y, struct vc_tile_stats *stats)
{
    return apply<of_f64>(x, mask, first, n_rows, row_len, y, stats);
}

/* ---- blocks ---- */

/* Rows of blocks: each is block_rows rows of row_len elements. */
struct band {
    uint32_t row_len, block_rows, block_cols, across;
};

/* One thread per block, in the order of the definition. Block b of the unit. */
template <class K>
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    squares_kernel(const typename K::type *__restrict__ x, uint32_t n_blocks, struct band s,
                   double *__restrict__ scores)
{
    for (size_t b = blockIdx.x * (size_t)blockDim.x + threadIdx.x; b < n_blocks; b += gridDim.x * (size_t)blockDim.x) {
        size_t row = b / s.across * s.block_rows;
        uint32_t col = (uint32_t)(b % s.across) * s.block_cols;
        uint32_t end = s.row_len - col < s.block_cols ? s.row_len : col + s.block_cols;
        double sum = 0;

        for (size_t r = row; r < row + s.block_rows; r++) {
            for (uint32_t c = col; c < end; c++) {
                double v = (double)x[r * s.row_len + c];

                sum = sum + v * v;
            }
        }
        scores[b] = sum;
    }
}

template <class K> static void launch_squares(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    VC_CUDA_LAUNCH(squares_kernel<K>, vc_cuda_grid(unit->n_groups / VC_CUDA_THREADS + 1), vc_cuda_block(unit->n_groups),
                   unit->stream, (const typename K::type *)unit->device[0], (uint32_t)unit->n_groups,
                   *(const struct band *)call->user, (double *)unit->device[1]);
}

/* Bands of the same height. A band is a row of the call, and a block a group of it: both have as many blocks. */
template <class K>
static int bands(const typename K::type *x, size_t n_bands, size_t row_len, size_t block_rows, size_t block_cols,
                 double *scores)
{
    struct band s = {(uint32_t)row_len, (uint32_t)block_rows, (uint32_t)block_cols, 0};

    if (n_bands == 0 || block_rows == 0 || row_len == 0) {
        return 0;
    }
    s.across = (uint32_t)((row_len - 1) / block_cols + 1);
    struct vc_cuda_call call =
        vc_cuda_call_of(launch_squares<K>, &s, n_bands, block_rows * row_len, block_rows * block_cols);
    call.keep_rows = true;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, scores, sizeof *scores, VC_CUDA_PER_GROUP, VC_CUDA_OUT);
    if (!vc_cuda_rows_fit(&call)) {
        return squares_on_host(x, n_bands * block_rows, row_len, block_rows, block_cols, scores);
    }
    return vc_cuda_run(&call);
}

/* Whole rows of blocks, then the short one at the end, as a band of its own. */
template <class K>
static int squares(const typename K::type *x, size_t n_rows, size_t row_len, size_t block_rows, size_t block_cols,
                   double *scores)
{
    size_t whole = n_rows / block_rows;
    size_t across = row_len == 0 ? 0 : (row_len - 1) / block_cols + 1;
    int result = bands<K>(x, whole, row_len, block_rows, block_cols, scores);

    return result != 0 ? result
                       : bands<K>(x + whole * block_rows * row_len, 1, row_len, n_rows % block_rows, block_cols,
                                  scores + whole * across);
}

int vc_cuda_block_squares_f32(const float *x, size_t n_rows, size_t row_len, size_t block_rows, size_t block_cols,
                              double *scores)
{
    return squares<of_f32>(x, n_rows, row_len, block_rows, block_cols, scores);
}

int vc_cuda_block_squares_f64(const double *x, size_t n_rows, size_t row_len, size_t block_rows, size_t block_cols,
                              double *scores)
{
    return squares<of_f64>(x, n_rows, row_len, block_rows, block_cols, scores);
}

/* ---- sums of rows and columns ---- */

/* What is added up: magnitudes, or squares. */
template <class T> static __device__ __forceinline__ double device_term(T x, bool squared)
{
    double v = (double)x;

    return squared ? v * v : fabs(v);
}

/* The operation of a chunk, for the sums that all figures of tiles have (cuda_chunks.h). */
template <class T, bool SQUARED> struct row_sums_op {
    enum { N_SUMS = 1, FAST = 0, BINS = 0 };
    typedef T value;

    const T *x;

    __device__ __forceinline__ T load(uint32_t flat) const
    {
        return x[flat];
    }

    __device__ __forceinline__ void visit(T v, uint32_t, uint32_t, uint32_t, double *sums, struct vc_cuda_tally *) const
    {
        sums[0] = sums[0] + device_term(v, SQUARED);
    }
};

template <class T, bool SQUARED>
static void launch_row_sums(const struct vc_cuda_call *, const struct vc_cuda_unit *unit)
{
    row_sums_op<T, SQUARED> op = {(const T *)unit->device[0]};

    vc_cuda_launch_chunks(op, unit, (double *)unit->device[1], (struct vc_cuda_totals *)unit->device[2]);
}

/* vc_cuda_call.totals: nothing is counted. */
static void no_totals(void *, const void *)
{
}

template <class T> static int row_sums(const T *x, size_t n_rows, size_t row_len, unsigned power, double *sums)
{
    struct vc_cuda_call call =
        vc_cuda_call_of(power == 1 ? launch_row_sums<T, false> : launch_row_sums<T, true>, NULL, n_rows, row_len);
    call.totals = no_totals;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, sums, sizeof *sums, VC_CUDA_PER_CHUNK, VC_CUDA_OUT);
    vc_cuda_add_out(&call, NULL, sizeof(struct vc_cuda_totals), VC_CUDA_PER_UNIT, VC_CUDA_OUT);
    return vc_cuda_run(&call);
}

int vc_cuda_row_sums_f32(const float *x, size_t n_rows, size_t row_len, unsigned power, double *sums)
{
    return row_sums(x, n_rows, row_len, power, sums);
}

int vc_cuda_row_sums_f64(const double *x, size_t n_rows, size_t row_len, unsigned power, double *sums)
{
    return row_sums(x, n_rows, row_len, power, sums);
}

/* Of column_sums. */
struct columns {
    size_t n_rows;
    uint32_t row_len;
    bool squared;
};

/* One thread per column: neighbouring threads read neighbouring elements. */
template <class T>
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    column_sums_kernel(const T *__restrict__ x, struct columns s, double *__restrict__ sums)
{
    for (size_t c = blockIdx.x * (size_t)blockDim.x + threadIdx.x; c < s.row_len; c += gridDim.x * (size_t)blockDim.x) {
        double sum = 0;

        for (size_t r = 0; r < s.n_rows; r++) {
            sum = sum + device_term(x[r * s.row_len + c], s.squared);
        }
        sums[c] = sum;
    }
}

template <class T> static void launch_column_sums(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    const struct columns *s = (const struct columns *)call->user;

    VC_CUDA_LAUNCH(column_sums_kernel<T>, vc_cuda_grid(s->row_len / VC_CUDA_THREADS + 1), vc_cuda_block(s->row_len),
                   unit->stream, (const T *)unit->device[0], *s, (double *)unit->device[1]);
}

/* All rows are one row of the call, so that it is not cut, since a thread adds up a whole column; a column counts as
 * one of its groups. */
template <class K>
static int column_sums(const typename K::type *x, size_t n_rows, size_t row_len, unsigned power, double *sums)
{
    struct columns s = {n_rows, (uint32_t)row_len, power != 1};

    if (n_rows == 0 || row_len == 0) {
        return 0;
    }
    struct vc_cuda_call call = vc_cuda_call_of(launch_column_sums<typename K::type>, &s, 1, n_rows * row_len, n_rows);
    call.keep_rows = true;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, sums, sizeof *sums, VC_CUDA_PER_GROUP, VC_CUDA_OUT);
    if (!vc_cuda_rows_fit(&call)) {
        return column_sums_on_host(x, n_rows, row_len, power, sums);
    }
    return vc_cuda_run(&call);
}

int vc_cuda_column_sums_f32(const float *x, size_t n_rows, size_t row_len, unsigned power, double *sums)
{
    return column_sums<of_f32>(x, n_rows, row_len, power, sums);
}

int vc_cuda_column_sums_f64(const double *x, size_t n_rows, size_t row_len, unsigned power, double *sums)
{
    return column_sums<of_f64>(x, n_rows, row_len, power, sums);
}
