/* loops.h - the source of the fast kernels, compiled once per instruction set: cpu_base.c, cpu_avx2.c, cpu_avx512.c and
 * cpu_neon.c define VC_SUFFIX and include it. Same bits as kernel_ref.c. No instruction set is named here: loops are
 * written so that compilers make vectors of them, and loops_x86.h replaces those where they did not.
 *
 * This file has what they share: sums by the tree, strips, the walk over a tile. Kernels are in the loops_*.h that it
 * includes at its end.
 *
 * How it works
 *   A tile is taken in strips of up to STRIP elements that stay in the first-level cache: a piece of one chunk, or
 *   several whole short rows. A kernel's `strip` function converts a strip and leaves source values and errors in
 *   small arrays; sums over them go to 64 lanes per chunk.
 *   Values and errors are f32 wherever the error x - y is exact in f32 (then its square and its sum in f64 are what the
 *   definition says, at half the work). That is so when y is x rounded to a grid: y/2 <= x <= 2y, or y = 0 (Sterbenz).
 *   Where a clamp or an infinity breaks this, the strip is done again in f64 (`wide`).
 *   The product of two f32 is exact in f64, so a fused multiply-add gives the same bits there, and only there. */
#include "core/base/checked.h"
#include "kernels/arith.h"
#include "kernels/cpu/access.h"
#include "kernels/cpu/variants.h"

/* VC_VARIANT(int8_rows) is vc_int8_rows_avx2 in cpu_avx2.c. */
#define VC_JOIN2(a, b)   a##b
#define VC_JOIN(a, b)    VC_JOIN2(a, b)
#define VC_VARIANT(name) VC_JOIN(vc_##name##_, VC_SUFFIX)

#define LANES       64          /* of the tree of sums, kernels.h */
#define STRIP       1024        /* elements of a strip: its arrays take 20 KiB */
#define SHORT_ROW   512         /* rows up to this length share a strip */
#define ROUND_MAGIC 12582912.0f /* 1.5 * 2^23: adding it rounds |t| < 2^22 to an integer, ties to even */

/* sum + a * b for a and b that were f32: the product is exact, so fused or not the result is the same. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define EXACT_PRODUCT_ADD(a, b, sum) fma((a), (b), (sum))
#else
#define EXACT_PRODUCT_ADD(a, b, sum) ((sum) + (a) * (b))
#endif

/* ---- the tree ---- */

/* lane[i % 64] += term(i) for i < n, ascending; `term(sum)` is a macro that reads i. In blocks of 16 lanes, so that
 * the sums stay in registers: 16 lanes walk over all elements that are theirs, then the next 16. What is left beyond
 * a multiple of 64 comes last, one element per lane, which is the order of the definition. */
#define LANES_ADD(n, lane, term)                                 \
    do {                                                         \
        size_t full = (n) / LANES * LANES;                       \
                                                                 \
        for (size_t l0 = 0; full != 0 && l0 < LANES; l0 += 16) { \
            double acc[16];                                      \
                                                                 \
            memcpy(acc, (lane) + l0, sizeof acc);                \
            for (size_t base = l0; base < full; base += LANES) { \
                for (size_t l = 0; l < 16; l++) {                \
                    size_t i = base + l;                         \
                                                                 \
                    acc[l] = term(acc[l]);                       \
                }                                                \
            }                                                    \
            memcpy((lane) + l0, acc, sizeof acc);                \
        }                                                        \
        for (size_t i = full; i < (n); i++) {                    \
            (lane)[i - full] = term((lane)[i - full]);           \
        }                                                        \
    } while (0)

/* lane[i % 64] += a[i] * b[i]; the product is rounded first. */
static void products_f64(double *restrict lane, const double *a, const double *b, size_t n)
{
#define TERM(sum) ((sum) + a[i] * b[i])
    LANES_ADD(n, lane, TERM);
#undef TERM
}

/* lane[i % 64] += a[i]. */
static void sum_f64(double *restrict lane, const double *restrict a, size_t n)
{
#define TERM(sum) ((sum) + a[i])
    LANES_ADD(n, lane, TERM);
#undef TERM
}

/* Sets the lanes of a chunk of n elements to +0, as far as tree_value reads them: short rows are many, and clearing
 * 64 lanes each would cost more than their sums. n lanes are used, and the next power of two of them is read, at most
 * 2 n. */
static inline void lanes_clear(double *lane, size_t n)
{
    for (size_t i = 0; i < LANES && i < 2 * n; i += 8) {
        memset(lane + i, 0, 8 * sizeof *lane);
    }
}

/* Largest of n values that are no NaN and at least 0; in lanes, which compilers vectorize without -ffast-math. */
static double max_f64(const double *v, size_t n)
{
    double most[8] = {0};
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        for (size_t l = 0; l < 8; l++) {
            most[l] = v[i + l] > most[l] ? v[i + l] : most[l];
        }
    }
    for (; i < n; i++) {
        most[0] = v[i] > most[0] ? v[i] : most[0];
    }
    for (size_t l = 1; l < 8; l++) {
        most[0] = most[l] > most[0] ? most[l] : most[0];
    }
    return most[0];
}

/* One level of the tree. */
static inline void halve(double *lane, size_t k)
{
    for (size_t l = 0; l < k; l++) {
        lane[l] += lane[l + k];
    }
}

/* The halving tree over the lanes of a chunk of n elements. Lanes from n on are +0 and need no adding (lanes_clear
 * before). */
static inline double tree_value(double *lane, size_t n)
{
    if (n > 32) {
        halve(lane, 32);
    }
    if (n > 16) {
        halve(lane, 16);
    }
    if (n > 8) {
        halve(lane, 8);
    }
    if (n > 4) {
        halve(lane, 4);
    }
    if (n > 2) {
        halve(lane, 2);
    }
    return n > 1 ? lane[0] + lane[1] : lane[0];
}

/* Maximum of magnitudes. They fit into 31 bits, and signed compares exist in every instruction set. */
static inline uint32_t larger(uint32_t a, uint32_t b)
{
    return (int32_t)a > (int32_t)b ? a : b;
}

/* ---- strips ---- */

/* What a kernel's strip function leaves behind for one strip, for strip_sums and strip_counts; read only where
 * statistics are wanted. The output itself is in the caller's array. */
struct strip {
    int wide;          /* sums and maximum come from xw, ew, max_wide; else from x, e, max_bits */
    const float *x;    /* the source */
    uint32_t max_bits; /* largest |e| */
    double max_wide;
    uint32_t zeros_before, zeros_after, clipped;
    float e[STRIP];
    double xw[STRIP], ew[STRIP]; /* 0 where x or y is not finite */
};

/* Nothing found yet; returns 0, the number of elements done. */
static inline size_t strip_start(struct strip *strip, const float *x)
{
    strip->x = x;
    strip->max_bits = strip->zeros_before = strip->zeros_after = strip->clipped = 0;
    return 0;
}

/* The sums of one chunk, lane by lane. */
struct lanes {
    double x2[LANES], e2[LANES];
};

/* One kernel at work on one tile: its arrays, and the function that does a strip. strip converts n elements from
 * `first` (flat in the tile), writes the output, and fills *strip. Fields that a kernel does not need stay 0. */
struct op {
    void (*strip)(struct op *op, size_t first, size_t n, struct strip *strip);
    const void *x;
    void *out;
    size_t row_len, group;
    const struct vc_axis_map *map; /* int8: scales by channel; NULL: by groups of rows */
    uint32_t *bits;                /* int8: own scales, made group by group; NULL: given ones */
    float *made;
    size_t n_made;
    const float *scale;
    const int8_t *zero;
    bool measure;        /* blocks: statistics are wanted */
    const uint8_t *mask; /* mask_apply: its bits ... */
    uint64_t first_bit;  /* ... from this one on */
};

#ifdef VC_USE_X86
#include "kernels/cpu/loops_x86.h"
#else
/* lane[i % 64] += v[i]^2, v in f32. */
static void squares_f32(double *restrict lane, const float *restrict v, size_t n)
{
#define TERM(sum) EXACT_PRODUCT_ADD((double)vc_get_f32(v, i), (double)vc_get_f32(v, i), sum)
    LANES_ADD(n, lane, TERM);
#undef TERM
}
#endif

/* Adds n elements of the strip, from `at`, to the sums of their chunk. */
static void strip_sums(const struct strip *strip, size_t at, size_t n, struct lanes *lanes)
{
    if (strip->wide) {
        products_f64(lanes->x2, strip->xw + at, strip->xw + at, n);
        products_f64(lanes->e2, strip->ew + at, strip->ew + at, n);
    } else {
        squares_f32(lanes->x2, strip->x + at, n);
        squares_f32(lanes->e2, strip->e + at, n);
    }
}

/* Adds the counters of a strip to those of the tile. */
static void strip_counts(const struct strip *strip, struct vc_tile_stats *stats)
{
    double most = strip->wide ? strip->max_wide : (double)vc_bits_f32(strip->max_bits);

    stats->max_abs_error = most > stats->max_abs_error ? most : stats->max_abs_error;
    stats->zeros_before += strip->zeros_before;
    stats->zeros_after += strip->zeros_after;
    stats->clipped += strip->clipped;
}

/* One chunk of a long row: n elements from `first`, strip by strip; its two sums go to out[0] and out[1]. A strip is
 * a multiple of 64 elements, so element i of a strip is in lane i % 64 of the chunk as well. */
static void run_chunk(struct op *op, size_t first, size_t n, struct vc_tile_stats *stats, double *out)
{
    struct lanes lanes;
    struct strip strip;

    lanes_clear(lanes.x2, n);
    lanes_clear(lanes.e2, n);
    for (size_t i = 0; i < n; i += STRIP) {
        size_t m = vc_min_size(STRIP, n - i);

        op->strip(op, first + i, m, &strip);
        if (stats != NULL) {
            strip_sums(&strip, 0, m, &lanes);
            strip_counts(&strip, stats);
        }
    }
    if (stats != NULL) {
        out[0] = tree_value(lanes.x2, n);
        out[1] = tree_value(lanes.e2, n);
    }
}

/* Several whole short rows in one strip; each row is one chunk. */
static void run_short_rows(struct op *op, size_t row, size_t n_rows, size_t row_len, struct vc_tile_stats *stats)
{
    struct lanes lanes;
    struct strip strip;

    op->strip(op, row * row_len, n_rows * row_len, &strip);
    if (stats == NULL) {
        return;
    }
    strip_counts(&strip, stats);
    for (size_t r = 0; r < n_rows; r++) {
        lanes_clear(lanes.x2, row_len);
        lanes_clear(lanes.e2, row_len);
        strip_sums(&strip, r * row_len, row_len, &lanes);
        stats->chunk_sums[2 * (row + r)] = tree_value(lanes.x2, row_len);
        stats->chunk_sums[2 * (row + r) + 1] = tree_value(lanes.e2, row_len);
    }
}

/* Runs a kernel over a tile, and fills *stats if it is not NULL. Called by every kernel that converts with
 * statistics. Rows of up to SHORT_ROW elements share strips: with rows of 9 (a convolution's) a strip per row would
 * be mostly overhead. */
static void run_tile(struct op *op, size_t n_rows, size_t row_len, struct vc_tile_stats *stats)
{
    size_t chunk = 0;

    if (stats != NULL) {
        stats->max_abs_error = 0;
        stats->zeros_before = stats->zeros_after = stats->clipped = 0;
    }
    if (row_len == 0) {
        return;
    }
    if (row_len <= SHORT_ROW) {
        size_t batch = STRIP / row_len;

        for (size_t row = 0; row < n_rows; row += batch) {
            run_short_rows(op, row, vc_min_size(batch, n_rows - row), row_len, stats);
        }
        return;
    }
    for (size_t row = 0; row < n_rows; row++) {
        for (size_t i = 0; i < row_len; i += VC_CHUNK_ELEMS, chunk++) {
            run_chunk(op, row * row_len + i, vc_min_size(VC_CHUNK_ELEMS, row_len - i), stats,
                      stats == NULL ? NULL : stats->chunk_sums + 2 * chunk);
        }
    }
}

#include "kernels/cpu/loops_absmax.h"
#include "kernels/cpu/loops_blocks.h"
#include "kernels/cpu/loops_cast.h"
#include "kernels/cpu/loops_groups.h"
#include "kernels/cpu/loops_int8.h"
#include "kernels/cpu/loops_prune.h"
#include "kernels/cpu/loops_sums.h"
