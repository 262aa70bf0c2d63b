/* kernel_ref_prune.c - the definition of the kernels for pruning, as kernel_ref.c is for the others: bins of
 * magnitudes, masks, blocks. Plain loops, the contract is in kernels.h.
 *
 *     key      magnitude as an integer                         bins    how many keys lie in each bin of a range
 *     above    a key is kept above the threshold, and a tie    n_of_m  the N largest of each group of M
 *              behind the first n_ties
 *     apply    values whose bit is 0 become +0                 squares sums of squares of blocks */

#include "kernels/cpu/prune_loop.h"
#include "kernels/cpu/variants.h"

#define LANES 64 /* of the tree of sums, kernels.h */

/* 1: the element is kept. */
static int get_bit(const uint8_t *mask, uint64_t i)
{
    return mask[i / 8] >> i % 8 & 1;
}

/* ---- bins ---- */

int vc_magnitude_bins_u16_ref(const uint16_t *h, size_t n, uint32_t *bins)
{
    for (size_t i = 0; i < n; i++) {
        size_t bin = (size_t)key_u16(h, i);

        vc_put_u32(bins, bin, vc_get_u32(bins, bin) + 1);
    }
    return 0;
}

/* Bins are added to, not set: several tiles count into the same. */
#define BINS(type, suffix)                                                                                          \
    int vc_magnitude_bins_##suffix##_ref(const type *x, size_t n, const struct vc_bin_range *range, uint32_t *bins) \
    {                                                                                                               \
        for (size_t i = 0; i < n; i++) {                                                                            \
            uint64_t key = key_##suffix(x, i);                                                                      \
                                                                                                                    \
            if (key >= range->first && (key - range->first) >> range->shift < range->n_bins) {                      \
                size_t bin = (size_t)((key - range->first) >> range->shift);                                        \
                                                                                                                    \
                vc_put_u32(bins, bin, vc_get_u32(bins, bin) + 1);                                                   \
            }                                                                                                       \
        }                                                                                                           \
        return 0;                                                                                                   \
    }

BINS(float, f32)
BINS(double, f64)

/* ---- masks ---- */

/* Ties go from the first one on, in the order of the elements. */
#define ABOVE(type, suffix)                                                                                 \
    int vc_mask_above_##suffix##_ref(const type *x, size_t n, const struct vc_mask_cut *cut, uint8_t *mask) \
    {                                                                                                       \
        uint64_t ties = 0;                                                                                  \
                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                    \
            uint64_t key = key_##suffix(x, i);                                                              \
            int tie = key == cut->threshold;                                                                \
                                                                                                            \
            put_bit(mask, i, key > cut->threshold || (tie && ties >= cut->n_ties));                         \
            ties += (uint64_t)tie;                                                                          \
        }                                                                                                   \
        return 0;                                                                                           \
    }

ABOVE(uint16_t, u16)
ABOVE(float, f32)
ABOVE(double, f64)

VC_N_OF_M_LOOP(vc_mask_n_of_m_f32_ref, float, f32)
VC_N_OF_M_LOOP(vc_mask_n_of_m_f64_ref, double, f64)

int vc_mask_apply_u16_ref(const uint16_t *h, const uint8_t *mask, uint64_t first, size_t n, uint16_t *y)
{
    for (size_t i = 0; i < n; i++) {
        vc_put_u16(y, i, get_bit(mask, first + i) ? vc_get_u16(h, i) : 0);
    }
    return 0;
}

/* Counts element i of a chunk, of which `y` is left: x or +0. */
static void count(struct vc_tile_stats *stats, double lane[2][LANES], size_t i, double x, double y)
{
    double e = fabs(x - y);

    stats->zeros_before += x == 0;
    stats->zeros_after += y == 0;
    if (fabs(x) < INFINITY) {
        lane[0][i % LANES] += x * x;
        lane[1][i % LANES] += e * e;
        stats->max_abs_error = e > stats->max_abs_error ? e : stats->max_abs_error;
    }
}

#define APPLY(type, suffix)                                                                             \
    int vc_mask_apply_##suffix##_ref(const type *x, const uint8_t *mask, uint64_t first, size_t n_rows, \
                                     size_t row_len, type *y, struct vc_tile_stats *stats)              \
    {                                                                                                   \
        double *sums = stats == NULL ? NULL : stats->chunk_sums;                                        \
                                                                                                        \
        if (stats != NULL) {                                                                            \
            *stats = (struct vc_tile_stats){.chunk_sums = sums};                                        \
        }                                                                                               \
        for (size_t row = 0; row < n_rows; row++) {                                                     \
            for (size_t from = 0; from < row_len; from += VC_CHUNK_ELEMS) {                             \
                double lane[2][LANES] = {{0}};                                                          \
                                                                                                        \
                for (size_t i = from; i < vc_min_size(from + VC_CHUNK_ELEMS, row_len); i++) {           \
                    size_t at = row * row_len + i;                                                      \
                    type v = vc_get_##suffix(x, at);                                                    \
                    type kept = get_bit(mask, first + at) ? v : 0;                                      \
                                                                                                        \
                    if (y != NULL) {                                                                    \
                        vc_put_##suffix(y, at, kept);                                                   \
                    }                                                                                   \
                    if (stats != NULL) {                                                                \
                        count(stats, lane, i - from, (double)v, (double)kept);                          \
                    }                                                                                   \
                }                                                                                       \
                if (stats != NULL) {                                                                    \
                    *sums++ = sum_of_lanes(lane[0]);                                                    \
                    *sums++ = sum_of_lanes(lane[1]);                                                    \
                }                                                                                       \
            }                                                                                           \
        }                                                                                               \
        return 0;                                                                                       \
    }

APPLY(float, f32)
APPLY(double, f64)

/* ---- blocks ---- */

VC_SQUARES_LOOP(vc_block_squares_f32_ref, float, f32)
VC_SQUARES_LOOP(vc_block_squares_f64_ref, double, f64)

/* ---- sums of rows and columns ---- */

#define ROW_SUMS(type, suffix)                                                                                 \
    int vc_row_sums_##suffix##_ref(const type *x, size_t n_rows, size_t row_len, unsigned power, double *sums) \
    {                                                                                                          \
        size_t n = 0;                                                                                          \
                                                                                                               \
        for (size_t row = 0; row < n_rows; row++) {                                                            \
            for (size_t from = 0; from < row_len; from += VC_CHUNK_ELEMS, n++) {                               \
                double lane[LANES] = {0};                                                                      \
                                                                                                               \
                for (size_t i = from; i < vc_min_size(from + VC_CHUNK_ELEMS, row_len); i++) {                  \
                    lane[(i - from) % LANES] += term_of((double)vc_get_##suffix(x, row * row_len + i), power); \
                }                                                                                              \
                vc_put_f64(sums, n, sum_of_lanes(lane));                                                       \
            }                                                                                                  \
        }                                                                                                      \
        return 0;                                                                                              \
    }

ROW_SUMS(float, f32)
ROW_SUMS(double, f64)
VC_COLUMN_SUMS_LOOP(vc_column_sums_f32_ref, float, f32)
VC_COLUMN_SUMS_LOOP(vc_column_sums_f64_ref, double, f64)
