/* broken.c - kernels with one mistake each, as people make them (kernelcheck --self). A checker that finds all of
 * them can be believed when it finds nothing. Most call the right kernel and then spoils what the comment over it
 * says. */
#include <string.h>

#include "check.h"
#include "kernels/arith.h"
#include "kernels/blocks.h"
#include "kernels/cpu/access.h"

static const struct vc_kernels *right; /* what the mistakes are put on */

/* float maximum: loses a NaN that a later number follows */
static int absmax_loses_nan(const float *x, size_t n_rows, size_t row_len, size_t group, uint32_t *bits)
{
    int result = right->absmax_rows(x, n_rows, row_len, group, bits);

    for (size_t i = 0; group >= row_len && row_len != 0 && i < n_rows; i++) {
        float most = 0;

        for (size_t k = 0; k < row_len; k++) {
            most = fmaxf(most, fabsf(vc_get_f32(x, i * row_len + k)));
        }
        vc_put_u32(bits, i, vc_f32_bits(most));
    }
    return result;
}

/* multiplies with the reciprocal instead of dividing */
static int int8_reciprocal(const float *x, size_t n_rows, size_t row_len, size_t group, uint32_t *bits, float *scale,
                           int8_t *q, struct vc_tile_stats *stats)
{
    int result = right->int8_rows(x, n_rows, row_len, group, bits, scale, q, stats);

    for (size_t i = 0; group >= row_len && i < n_rows * row_len; i++) {
        float r = 1.0f / vc_get_f32(scale, i / row_len);

        if (vc_get_u32(bits, i / row_len) < VC_F32_INF_BITS) {
            q[i] = (int8_t)rintf(vc_get_f32(x, i) * r);
        }
    }
    return result;
}

/* rounds halves away from zero */
static int bf16_half_up(const float *x, size_t n_rows, size_t row_len, uint16_t *h, struct vc_tile_stats *stats)
{
    int result = right->cast_f32_bf16(x, n_rows, row_len, h, stats);

    for (size_t i = 0; i < n_rows * row_len; i++) {
        uint32_t u = vc_f32_bits(vc_get_f32(x, i));

        if ((u & VC_F32_ABS_MASK) < VC_F32_INF_BITS) {
            vc_put_u16(h, i, (uint16_t)((u + 0x8000u) >> 16));
        }
    }
    return result;
}

/* goes through f32: rounds twice */
static int f64_rounds_twice(const double *x, size_t n_rows, size_t row_len, uint16_t *h, struct vc_tile_stats *stats)
{
    int result = right->cast_f64_f16(x, n_rows, row_len, h, stats);

    for (size_t i = 0; i < n_rows * row_len; i++) {
        vc_put_u16(h, i, vc_f32_to_f16(vc_f64_to_f32(vc_get_f64(x, i))));
    }
    return result;
}

/* keeps the payload of NaN, as the instruction does */
static int f16_keeps_payload(const float *x, size_t n_rows, size_t row_len, uint16_t *h, struct vc_tile_stats *stats)
{
    int result = right->cast_f32_f16(x, n_rows, row_len, h, stats);

    for (size_t i = 0; i < n_rows * row_len; i++) {
        uint32_t u = vc_f32_bits(vc_get_f32(x, i));

        if ((u & VC_F32_ABS_MASK) > VC_F32_INF_BITS) {
            vc_put_u16(h, i, (uint16_t)((u >> 16 & 0x8000u) | 0x7e00u | (u >> 13 & 0x1ffu)));
        }
    }
    return result;
}

/* adds in plain order */
static int values_in_order(const float *x, size_t n_rows, size_t row_len, struct vc_value_counts *counts)
{
    int result = right->values_f32(x, n_rows, row_len, counts);

    if (n_rows == 1 && row_len > 64 && row_len <= VC_CHUNK_ELEMS && counts->nans + counts->infs == 0) {
        double sum = 0;

        for (size_t i = 0; i < row_len; i++) {
            sum += (double)vc_get_f32(x, i);
        }
        counts->chunk_sums[0] = sum;
    }
    return result;
}

/* writes one element too many */
static int decode_writes_beyond(const uint16_t *h, size_t n, float *y)
{
    int result = right->f16_to_f32(h, n, y);

    if (n % 8 == 7) {
        vc_put_f32(y, n, 0);
    }
    return result;
}

/* reads one element too many: found by the page after the array */
static int read_beyond(const uint16_t *h, size_t n, float *y)
{
    volatile uint16_t last = n % 16 == 15 ? vc_get_u16(h, n) : (uint16_t)0;

    (void)last;
    return right->bf16_to_f32(h, n, y);
}

/* changes its input: element 1 becomes 0 */
static int changes_input(const float *x, size_t n, const struct vc_axis_map *map, uint32_t *bits)
{
    float zero = 0;

    if (n == 33) {
        memcpy((char *)(uintptr_t)x + 4, &zero, sizeof zero);
    }
    return right->absmax_axis(x, n, map, bits);
}

/* forgets the short last group */
static int forgets_tail(const int8_t *q, size_t n_rows, size_t row_len, size_t group, const float *scale,
                        const int8_t *zero, float *y)
{
    return row_len % group == 0 ? right->int8_decode_rows(q, n_rows, row_len, group, scale, zero, y) : 0;
}

/* leaves a counter as it was instead of setting it to 0 */
static int forgets_counter(const float *x, const float *y, size_t n_rows, size_t row_len, struct vc_diff_sums *sums)
{
    uint64_t before = sums->nonfinite_pairs;
    int result = right->diff_f32(x, y, n_rows, row_len, sums);

    sums->nonfinite_pairs = sums->nonfinite_pairs == 0 ? before : sums->nonfinite_pairs;
    return result;
}

/* fused multiply-add where the product is not exact */
static int fuses(const double *x, const double *y, size_t n_rows, size_t row_len, struct vc_diff_sums *sums)
{
    int result = right->diff_f64(x, y, n_rows, row_len, sums);

    if (n_rows == 1 && row_len == 65) {
        double a = vc_get_f64(x, 0);
        double b = vc_get_f64(x, 64);
        double lane = fma(b, b, a * a);

        sums->chunk_sums[0] += lane - (a * a + b * b);
    }
    return result;
}

/* rounds halves to even, as the int8 of this program does and llama.cpp's vector code, too */
static int q8_0_half_even(const float *x, size_t n_rows, size_t row_len, uint32_t *bits, uint8_t *blocks,
                          struct vc_tile_stats *stats)
{
    int result = right->q8_0_rows(x, n_rows, row_len, bits, blocks, stats);

    for (size_t i = 0; i < n_rows * row_len; i++) {
        uint32_t b = vc_get_u32(bits, i / 32);

        if (b < VC_F32_INF_BITS) {
            float t = vc_get_f32(x, i) * vc_q8_0_inverse(vc_q8_0_step(b));

            blocks[i / 32 * VC_Q8_0_BYTES + 2 + i % 32] = (uint8_t)(int8_t)rintf(t);
        }
    }
    return result;
}

/* makes codes with the step that is stored */
static int q8_0_rounded_step(const float *x, size_t n_rows, size_t row_len, uint32_t *bits, uint8_t *blocks,
                             struct vc_tile_stats *stats)
{
    int result = right->q8_0_rows(x, n_rows, row_len, bits, blocks, stats);

    for (size_t i = 0; i < n_rows * row_len; i++) {
        uint8_t *block = blocks + i / 32 * VC_Q8_0_BYTES;
        float step = vc_block_f16(block);

        if (vc_get_u32(bits, i / 32) < VC_F32_INF_BITS && step != 0) {
            block[2 + i % 32] = (uint8_t)vc_q8_0_encode(vc_get_f32(x, i), vc_q8_0_inverse(step));
        }
    }
    return result;
}

/* takes the minimum's high bits from the scale's byte */
static int q4_k_wrong_min(const uint8_t *blocks, size_t n, float *y)
{
    int result = right->q4_k_to_f32(blocks, n, y);

    for (size_t i = 0; i < n; i++) {
        const uint8_t *b = blocks + i / 256 * VC_Q4_K_BYTES;
        uint32_t j = (uint32_t)(i % 256 / 32);
        uint32_t least = (uint32_t)b[4 + j + (j < 4 ? 4 : 0)] & 63u;
        float step = vc_block_f16(b) * (float)vc_k_scale(b + 4, j);

        vc_put_f32(y, i, vc_one_nan(step * (float)vc_nibble_256(b + 16, i % 256) - vc_block_f16(b + 2) * (float)least));
    }
    return result;
}

/* writes code 0 into a block of zeros, which stands for -8 steps of 0: the same values, other bytes */
static int q4_0_other_zeros(const float *x, size_t n_rows, size_t row_len, const struct vc_block_how *how,
                            uint8_t *blocks)
{
    int result = right->q4_0_blocks(x, n_rows, row_len, how, blocks);

    for (size_t i = 0; i < n_rows * row_len / 32; i++) {
        uint8_t *b = blocks + i * VC_Q4_0_BYTES;

        if (vc_block_f16(b) == 0.0f) {
            memset(b + 2, 0, 16);
        }
    }
    return result;
}

/* counts keys beyond the last bin in it */
static int bins_clamp(const float *x, size_t n, const struct vc_bin_range *range, uint32_t *bins)
{
    int result = right->magnitude_bins_f32(x, n, range, bins);

    for (size_t i = 0; i < n; i++) {
        uint64_t key = vc_f32_magnitude(vc_get_f32(x, i));

        if (key >= range->first && (key - range->first) >> range->shift >= range->n_bins) {
            vc_put_u32(bins, range->n_bins - 1, vc_get_u32(bins, range->n_bins - 1) + 1);
        }
    }
    return result;
}

/* lets all ties go */
static int above_without_ties(const float *x, size_t n, const struct vc_mask_cut *cut, uint8_t *mask)
{
    const struct vc_mask_cut all = {.threshold = cut->threshold, .n_ties = n};

    return right->mask_above_f32(x, n, &all, mask);
}

/* keeps the higher index of equal weights: the groups backwards */
static int n_of_m_last(const float *x, size_t n_blocks, size_t len, size_t inner, unsigned keep, unsigned group,
                       uint8_t *mask)
{
    int result = right->mask_n_of_m_f32(x, n_blocks, len, inner, keep, group, mask);

    for (size_t i = 0; inner == 1 && i + 1 < len && n_blocks == 1 && group == 2; i += 2) {
        if (vc_f32_magnitude(vc_get_f32(x, i)) == vc_f32_magnitude(vc_get_f32(x, i + 1))) {
            mask[i / 8] ^= (uint8_t)(3u << i % 8);
        }
    }
    return result;
}

/* leaves -0 where a negative weight was */
static int apply_keeps_sign(const float *x, const uint8_t *mask, uint64_t first, size_t n_rows, size_t row_len,
                            float *y, struct vc_tile_stats *stats)
{
    int result = right->mask_apply_f32(x, mask, first, n_rows, row_len, y, stats);

    for (size_t i = 0; i < n_rows * row_len; i++) {
        vc_put_f32(y, i, copysignf(vc_get_f32(y, i), vc_get_f32(x, i)));
    }
    return result;
}

/* adds the last row first */
static int columns_backwards(const float *x, size_t n_rows, size_t row_len, unsigned power, double *sums)
{
    for (size_t c = 0; n_rows != 0 && c < row_len; c++) {
        double sum = 0;

        for (size_t r = n_rows; r-- > 0;) {
            double v = (double)vc_get_f32(x, r * row_len + c);

            sum += power == 1 ? fabs(v) : v * v;
        }
        vc_put_f64(sums, c, sum);
    }
    return 0;
}

/* tries whole numbers on one side of zero only, where scales have both signs */
static int groups_one_sign(const float *x, size_t n_rows, size_t row_len, size_t group,
                           const struct vc_group_codes *how, const uint32_t *bits, struct vc_float_scale *scale,
                           uint8_t *q, float *y)
{
    struct vc_group_codes own = *how;

    own.both_signs = false;
    return right->group_codes_rows(x, n_rows, row_len, group, &own, bits, scale, q, y);
}

/* weighs each group by the columns of the first */
static int groups_first_weights(const float *x, size_t n_rows, size_t row_len, size_t group,
                                const struct vc_group_codes *how, const uint32_t *bits, struct vc_float_scale *scale,
                                uint8_t *q, float *y)
{
    size_t n = group == 0 || row_len % group != 0 ? row_len : group;

    return n == 0 ? 0 : right->group_codes_rows(x, n_rows * (row_len / n), n, group, how, bits, scale, q, y);
}

int kernelcheck_self(const struct vc_kernels *reference, uint64_t seed, FILE *out)
{
    struct kernelcheck_options options = {.seed = seed, .below = reference, .out = NULL};
    int missed = 0;

    right = reference;
#define BROKEN(field, wrong)                                                    \
    do {                                                                        \
        struct vc_kernels table = *reference;                                   \
        int found;                                                              \
                                                                                \
        table.field = wrong;                                                    \
        found = kernelcheck_table(reference, &table, "broken", &options, NULL); \
        missed += found != 1;                                                   \
        fprintf(out, "%-22s %s\n", #wrong, found == 1 ? "found" : "NOT FOUND"); \
    } while (0)
    BROKEN(absmax_rows, absmax_loses_nan);
    BROKEN(int8_rows, int8_reciprocal);
    BROKEN(cast_f32_bf16, bf16_half_up);
    BROKEN(cast_f64_f16, f64_rounds_twice);
    BROKEN(cast_f32_f16, f16_keeps_payload);
    BROKEN(values_f32, values_in_order);
    BROKEN(f16_to_f32, decode_writes_beyond);
    BROKEN(bf16_to_f32, read_beyond);
    BROKEN(absmax_axis, changes_input);
    BROKEN(int8_decode_rows, forgets_tail);
    BROKEN(diff_f32, forgets_counter);
    BROKEN(diff_f64, fuses);
    BROKEN(q8_0_rows, q8_0_half_even);
    BROKEN(q8_0_rows, q8_0_rounded_step);
    BROKEN(q4_k_to_f32, q4_k_wrong_min);
    BROKEN(q4_0_blocks, q4_0_other_zeros);
    BROKEN(magnitude_bins_f32, bins_clamp);
    BROKEN(mask_above_f32, above_without_ties);
    BROKEN(mask_n_of_m_f32, n_of_m_last);
    BROKEN(mask_apply_f32, apply_keeps_sign);
    BROKEN(column_sums_f32, columns_backwards);
    BROKEN(group_codes_rows, groups_one_sign);
    BROKEN(group_codes_rows, groups_first_weights);
    BROKEN(range_rows, NULL);
#undef BROKEN
    return missed;
}
