/* loops_sums.h - part of loops.h: sums and counts over one array (values_*, for statistics and verify) or two
 * (diff_*). They write no output, so there is no strip function: a piece of up to STRIP elements is widened to f64
 * and counted in place.
 *
 *     diff_*      x, y    -> x x, e e, y y, x y by chunk; the largest |e|; how many differ
 *     values_*    x       -> x, x x by chunk; minimum, maximum, zeros, NaN, Inf; a histogram of exponents */
#pragma once

/* A piece of both sides, already in f64: counters into *sums, products into the four sums of its chunk. Pairs with a
 * NaN or an Inf are set to 0 on both sides, which adds nothing; x and y are scratch. |e| serves for e * e as well. */
static void diff_strip(double *restrict x, double *restrict y, size_t n, double lane[4][LANES],
                       struct vc_diff_sums *sums)
{
    double e[STRIP];
    uint64_t different = 0;
    uint64_t nonfinite = 0;

    /* Conditions without branches, so that the loop is made of vectors. NaN on both sides count as equal. */
    for (size_t i = 0; i < n; i++) {
        int equal = (x[i] == y[i]) | ((x[i] != x[i]) & (y[i] != y[i]));
        int ok = (fabs(x[i]) < INFINITY) & (fabs(y[i]) < INFINITY);

        different += (uint64_t)!equal;
        nonfinite += (uint64_t)(!equal & !ok);
        x[i] = ok ? x[i] : 0.0;
        y[i] = ok ? y[i] : 0.0;
        e[i] = fabs(x[i] - y[i]);
    }
    double most = max_f64(e, n);
    products_f64(lane[0], x, x, n);
    products_f64(lane[1], e, e, n);
    products_f64(lane[2], y, y, n);
    products_f64(lane[3], x, y, n);
    sums->max_abs_error = most > sums->max_abs_error ? most : sums->max_abs_error;
    sums->different += different;
    sums->nonfinite_pairs += nonfinite;
}

/* Joins the minimum and maximum of n finite values to *min and *max, in lanes as in max_f64. -0 and +0 compare equal;
 * the kernel makes either +0 at its end. */
static void extremes_f64(const double *x, size_t n, double *min, double *max)
{
    double least[8], most[8];
    size_t i = 0;

    for (size_t l = 0; l < 8; l++) {
        least[l] = *min;
        most[l] = *max;
    }
    for (; i + 8 <= n; i += 8) {
        for (size_t l = 0; l < 8; l++) {
            least[l] = x[i + l] < least[l] ? x[i + l] : least[l];
            most[l] = x[i + l] > most[l] ? x[i + l] : most[l];
        }
    }
    for (; i < n; i++) {
        least[0] = x[i] < least[0] ? x[i] : least[0];
        most[0] = x[i] > most[0] ? x[i] : most[0];
    }
    for (size_t l = 0; l < 8; l++) {
        *min = least[l] < *min ? least[l] : *min;
        *max = most[l] > *max ? most[l] : *max;
    }
}

/* Packs the finite values to the front and counts the others; returns how many are left. */
static size_t keep_finite(double *x, size_t n, struct vc_value_counts *counts)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        counts->nans += x[i] != x[i];
        counts->infs += fabs(x[i]) == INFINITY;
        x[kept] = x[i];
        kept += fabs(x[i]) < INFINITY;
    }
    return kept;
}

/* Counts the exponent of each (float)x; all are finite. Four tables, added up at the end, so that runs of one
 * exponent do not wait for the same counter. */
static void histogram_add(const double *restrict x, size_t n, uint64_t table[4][256])
{
    uint32_t bin[STRIP];

    for (size_t i = 0; i < n; i++) {
        bin[i] = vc_f32_magnitude((float)x[i]) >> 23;
    }
    for (size_t i = 0; i < n; i++) {
        table[i % 4][bin[i]]++;
    }
}

/* A piece of values_*, in f64; x is scratch. Usually all values are finite. Otherwise the finite ones are packed in a
 * copy for extremes and histogram, and for the sums the others count as 0 in their place, since the tree depends on
 * positions. */
static void values_strip(double *restrict x, size_t n, double lane[2][LANES], uint64_t table[4][256],
                         struct vc_value_counts *counts)
{
    double copy[STRIP];
    const double *finite = x;
    size_t n_finite = n;
    uint64_t bad = 0;
    uint64_t zeros = 0;

    for (size_t i = 0; i < n; i++) {
        bad += (uint64_t) !(fabs(x[i]) < INFINITY);
        zeros += x[i] == 0;
    }
    counts->zeros += zeros;
    if (bad != 0) {
        memcpy(copy, x, n * sizeof *copy);
        n_finite = keep_finite(copy, n, counts);
        finite = copy;
        for (size_t i = 0; i < n; i++) {
            x[i] = fabs(x[i]) < INFINITY ? x[i] : 0.0;
        }
    }
    extremes_f64(finite, n_finite, &counts->min, &counts->max);
    histogram_add(finite, n_finite, table);
    sum_f64(lane[0], x, n);
    products_f64(lane[1], x, x, n);
}

/* Subnormals of the source's own type: magnitudes 1 to just below the smallest normal. */
static uint64_t subnormals_f32(const float *x, size_t n)
{
    uint32_t count = 0;

    for (size_t i = 0; i < n; i++) {
        count += vc_f32_magnitude(vc_get_f32(x, i)) - 1 < VC_F32_MIN_NORMAL_BITS - 1;
    }
    return count;
}

static uint64_t subnormals_f64(const double *x, size_t n)
{
    uint64_t count = 0;

    for (size_t i = 0; i < n; i++) {
        count += (vc_f64_bits(vc_get_f64(x, i)) & 0x7fffffffffffffffu) - 1 < 0x0010000000000000u - 1;
    }
    return count;
}

/* Whether a piece was done from its own type, where that is faster. */
#ifndef VC_HAVE_X86
static inline bool diff_strip_x86(const float *x, const float *y, size_t n, double lane[4][LANES],
                                  struct vc_diff_sums *sums)
{
    return (void)x, (void)y, (void)n, (void)lane, (void)sums, false;
}
#endif
#define DIFF_DONE_f32                      diff_strip_x86
#define DIFF_DONE_f64(x, y, n, lane, sums) false

/* A piece as f64, exact. From here on one set of loops serves both types. */
static inline void load_f32(const float *restrict from, size_t n, double *restrict to)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = (double)vc_get_f32(from, i);
    }
}

static inline void load_f64(const double *restrict from, size_t n, double *restrict to)
{
    vc_get_run_f64(from, 0, n, to);
}

/* diff_* and values_* of one type: chunks in row order, each in pieces of STRIP. */
#define SUMS(type, suffix)                                                                                        \
    int VC_VARIANT(diff_##suffix)(const type *x, const type *y, size_t n_rows, size_t row_len,                    \
                                  struct vc_diff_sums *sums)                                                      \
    {                                                                                                             \
        size_t per_row = row_len / VC_CHUNK_ELEMS + (row_len % VC_CHUNK_ELEMS != 0);                              \
        double a[STRIP];                                                                                          \
        double b[STRIP];                                                                                          \
                                                                                                                  \
        sums->max_abs_error = 0;                                                                                  \
        sums->different = sums->nonfinite_pairs = 0;                                                              \
        for (size_t c = 0; c < n_rows * per_row; c++) {                                                           \
            size_t at = c % per_row * VC_CHUNK_ELEMS;                                                             \
            size_t n = vc_min_size(VC_CHUNK_ELEMS, row_len - at);                                                 \
            size_t first = c / per_row * row_len + at;                                                            \
            double lane[4][LANES];                                                                                \
                                                                                                                  \
            for (size_t k = 0; k < 4; k++) {                                                                      \
                lanes_clear(lane[k], n);                                                                          \
            }                                                                                                     \
            for (size_t i = 0; i < n; i += STRIP) {                                                               \
                size_t m = vc_min_size(STRIP, n - i);                                                             \
                                                                                                                  \
                if (!DIFF_DONE_##suffix(x + first + i, y + first + i, m, lane, sums)) {                           \
                    load_##suffix(x + first + i, m, a);                                                           \
                    load_##suffix(y + first + i, m, b);                                                           \
                    diff_strip(a, b, m, lane, sums);                                                              \
                }                                                                                                 \
            }                                                                                                     \
            for (size_t k = 0; k < 4; k++) {                                                                      \
                sums->chunk_sums[4 * c + k] = tree_value(lane[k], n);                                             \
            }                                                                                                     \
        }                                                                                                         \
        return 0;                                                                                                 \
    }                                                                                                             \
                                                                                                                  \
    int VC_VARIANT(values_##suffix)(const type *x, size_t n_rows, size_t row_len, struct vc_value_counts *counts) \
    {                                                                                                             \
        size_t per_row = row_len / VC_CHUNK_ELEMS + (row_len % VC_CHUNK_ELEMS != 0);                              \
        uint64_t table[4][256] = {{0}};                                                                           \
        double *chunk_sums = counts->chunk_sums;                                                                  \
        double a[STRIP];                                                                                          \
                                                                                                                  \
        *counts = (struct vc_value_counts){.chunk_sums = chunk_sums, .min = INFINITY, .max = -INFINITY};          \
        for (size_t c = 0; c < n_rows * per_row; c++) {                                                           \
            size_t at = c % per_row * VC_CHUNK_ELEMS;                                                             \
            size_t n = vc_min_size(VC_CHUNK_ELEMS, row_len - at);                                                 \
            size_t first = c / per_row * row_len + at;                                                            \
            double lane[2][LANES];                                                                                \
                                                                                                                  \
            lanes_clear(lane[0], n);                                                                              \
            lanes_clear(lane[1], n);                                                                              \
            counts->subnormals += subnormals_##suffix(x + first, n);                                              \
            for (size_t i = 0; i < n; i += STRIP) {                                                               \
                load_##suffix(x + first + i, vc_min_size(STRIP, n - i), a);                                       \
                values_strip(a, vc_min_size(STRIP, n - i), lane, table, counts);                                  \
            }                                                                                                     \
            chunk_sums[2 * c] = tree_value(lane[0], n);                                                           \
            chunk_sums[2 * c + 1] = tree_value(lane[1], n);                                                       \
        }                                                                                                         \
        for (size_t b = 0; b < 256; b++) {                                                                        \
            counts->histogram[b] = table[0][b] + table[1][b] + table[2][b] + table[3][b];                         \
        }                                                                                                         \
        counts->min += 0.0; /* -0 becomes +0 */                                                                   \
        counts->max += 0.0;                                                                                       \
        return 0;                                                                                                 \
    }

SUMS(float, f32)
SUMS(double, f64)
