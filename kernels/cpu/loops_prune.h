/* loops_prune.h - part of loops.h: bins of magnitudes, masks, blocks (kernels.h, "Pruning"). Masks are made as a byte
 * per element, which compilers vectorize, and then packed eight to a byte.
 *
 * Keys are magnitudes as integers, which are in the order of the floats. The loops run over spans of SPAN elements,
 * whose flags lie in an array on the stack. */
#pragma once

#include "kernels/cpu/prune_loop.h"

#define SPAN 64 /* elements that are looked at together: a multiple of 8 */

/* ---- bins ---- */

/* One more in the bin. */
static inline void bin_add(uint32_t *bins, size_t bin)
{
    vc_put_u32(bins, bin, vc_get_u32(bins, bin) + 1);
}

/* All keys of 16 bits have a bin of their own: one look is enough. */
int VC_VARIANT(magnitude_bins_u16)(const uint16_t *h, size_t n, uint32_t *bins)
{
    for (size_t i = 0; i < n; i++) {
        bin_add(bins, key_u16(h, i));
    }
    return 0;
}

/* Number of keys from range->first that have a bin; 0 for all that there are. */
static inline uint64_t range_keys(const struct vc_bin_range *range)
{
    uint64_t n = (uint64_t)range->n_bins << range->shift;

    return n >> range->shift != range->n_bins ? 0 : n;
}

/* Later looks want few of the keys: a span without any is passed over after one compare for each. The range may be as
 * wide as the type, so three ways: every key has a bin; keys of a range whose width is a number of the type, span by
 * span, and a span with such keys part by part; any other range, element by element. */
#define BINS(type, key_type, suffix)                                                                                   \
    static inline void bins_span_##suffix(const type *x, size_t n, const struct vc_bin_range *range, uint32_t *bins)   \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            key_type d = (key_type)(key_##suffix(x, i) - (key_type)range->first);                                      \
                                                                                                                       \
            if (key_##suffix(x, i) >= range->first && d >> range->shift < range->n_bins) {                             \
                bin_add(bins, (size_t)(d >> range->shift));                                                            \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static inline int span_has_##suffix(const type *x, size_t n, key_type first, key_type n_keys)                      \
    {                                                                                                                  \
        key_type any = 0;                                                                                              \
                                                                                                                       \
        for (size_t i = 0; i < n; i++) {                                                                               \
            any |= (key_type)(key_##suffix(x, i) - first) < n_keys;                                                    \
        }                                                                                                              \
        return any != 0;                                                                                               \
    }                                                                                                                  \
                                                                                                                       \
    int VC_VARIANT(magnitude_bins_##suffix)(const type *x, size_t n, const struct vc_bin_range *range, uint32_t *bins) \
    {                                                                                                                  \
        uint64_t n_keys = range_keys(range);                                                                           \
        int all = range->first == 0 && (n_keys == 0 || n_keys > ((key_type)-1 >> 1));                                  \
        size_t i = 0;                                                                                                  \
                                                                                                                       \
        if (range->first > ((key_type)-1 >> 1)) {                                                                      \
            return 0;                                                                                                  \
        }                                                                                                              \
        if (all) {                                                                                                     \
            for (; i < n; i++) {                                                                                       \
                bin_add(bins, (size_t)(key_##suffix(x, i) >> range->shift));                                           \
            }                                                                                                          \
            return 0;                                                                                                  \
        }                                                                                                              \
        if (n_keys != 0 && n_keys <= ((key_type)-1 >> 1)) {                                                            \
            for (; i + SPAN <= n; i += SPAN) {                                                                         \
                if (!span_has_##suffix(x + i, SPAN, (key_type)range->first, (key_type)n_keys)) {                       \
                    continue;                                                                                          \
                }                                                                                                      \
                for (size_t j = i; j < i + SPAN; j += SPAN / 4) {                                                      \
                    if (span_has_##suffix(x + j, SPAN / 4, (key_type)range->first, (key_type)n_keys)) {                \
                        bins_span_##suffix(x + j, SPAN / 4, range, bins);                                              \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        bins_span_##suffix(x + i, n - i, range, bins);                                                                 \
        return 0;                                                                                                      \
    }

BINS(float, uint32_t, f32)
BINS(double, uint64_t, f64)
#undef BINS

/* ---- masks ---- */

/* Packs flags (0 or 1) into bits; n is a multiple of 8, or the end of the mask. The product moves byte k of the word to
 * bit 56 + k, and no two bits of it meet. */
static inline void pack_flags(const uint8_t *flags, size_t n, uint8_t *mask)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        uint64_t word;

        memcpy(&word, flags + i, sizeof(word));
        mask[i / 8] = (uint8_t)(word * 0x0102040810204080u >> 56);
    }
    if (i < n) {
        unsigned bits = 0;

        for (size_t k = 0; i + k < n; k++) {
            bits |= (unsigned)flags[i + k] << k;
        }
        mask[i / 8] = (uint8_t)bits;
    }
}

/* Flags of a span; ties are kept at first, and the first *left of them are taken out. A threshold beyond every key
 * leaves nothing, and one with as many ties as there are elements is the next threshold without ties: the second loop
 * runs only while ties are left to take out. */
#define ABOVE(type, key_type, suffix)                                                                                  \
    static inline void above_span_##suffix(const type *x, size_t n, key_type threshold, uint64_t *left, uint8_t *mask) \
    {                                                                                                                  \
        uint8_t flags[SPAN];                                                                                           \
                                                                                                                       \
        for (size_t i = 0; i < n; i++) {                                                                               \
            flags[i] = key_##suffix(x, i) >= threshold;                                                                \
        }                                                                                                              \
        for (size_t i = 0; *left != 0 && i < n; i++) {                                                                 \
            int tie = key_##suffix(x, i) == threshold;                                                                 \
                                                                                                                       \
            flags[i] = (uint8_t)(flags[i] & !tie);                                                                     \
            *left -= (uint64_t)tie;                                                                                    \
        }                                                                                                              \
        pack_flags(flags, n, mask);                                                                                    \
    }                                                                                                                  \
                                                                                                                       \
    int VC_VARIANT(mask_above_##suffix)(const type *x, size_t n, const struct vc_mask_cut *cut, uint8_t *mask)         \
    {                                                                                                                  \
        uint64_t threshold = cut->threshold;                                                                           \
        uint64_t left = cut->n_ties;                                                                                   \
        size_t i = 0;                                                                                                  \
                                                                                                                       \
        if (threshold > (key_type)-1) { /* beyond every key */                                                         \
            memset(mask, 0, (n + 7) / 8);                                                                              \
            return 0;                                                                                                  \
        }                                                                                                              \
        if (left >= n && threshold < (key_type)-1) { /* every tie goes */                                              \
            threshold++;                                                                                               \
            left = 0;                                                                                                  \
        }                                                                                                              \
        for (; i + SPAN <= n; i += SPAN) {                                                                             \
            above_span_##suffix(x + i, SPAN, (key_type)threshold, &left, mask + i / 8);                                \
        }                                                                                                              \
        above_span_##suffix(x + i, n - i, (key_type)threshold, &left, mask + i / 8);                                   \
        return 0;                                                                                                      \
    }

ABOVE(uint16_t, uint16_t, u16)
ABOVE(float, uint32_t, f32)
ABOVE(double, uint64_t, f64)
#undef ABOVE

/* The mask is 0 there before. */
static inline void set_bit(uint8_t *mask, size_t i)
{
    mask[i / 8] |= (uint8_t)(1u << i % 8);
}

/* Sets the bits `first`, first + 1, ... of flags that are 1. */
static inline void set_flags(uint8_t *mask, size_t first, const uint8_t *flags, size_t n)
{
    if (first % 8 == 0 && n % 8 == 0) {
        pack_flags(flags, n, mask + first / 8);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (flags[i]) {
            set_bit(mask, first + i);
        }
    }
}

/* N:M. An element is kept if fewer than `keep` others of its group come before it: those of larger keys, and of equal
 * keys those of lower index.
 *
 * packed: groups of 2, 4 or 8 whose elements follow each other (inner 1), several in a vector. Lane i meets lane i ^ r of
 * its group, r = 1, 2, ...; one with a lower index wins if it is equal, which is a compare with one less.
 * near: such groups of any other size. Their elements are sorted into columns, so that the compares of a pair of places
 * run over all groups; each pair is compared once.
 * far: elements of a group lie `inner` apart, and those at the same place of the groups follow each other. */
#define NEAR_MAX 32 /* elements of a group of `near` */

typedef int32_t keys_f32 __attribute__((vector_size(64)));
typedef int64_t keys_f64 __attribute__((vector_size(64)));
typedef uint8_t bytes_f32 __attribute__((vector_size(16)));
typedef uint8_t bytes_f64 __attribute__((vector_size(8)));

#define ACROSS_f64(k, r) \
    __builtin_shufflevector(k, k, 0 ^ (r), 1 ^ (r), 2 ^ (r), 3 ^ (r), 4 ^ (r), 5 ^ (r), 6 ^ (r), 7 ^ (r))
#define ACROSS_f32(k, r)                                                                                           \
    __builtin_shufflevector(k, k, 0 ^ (r), 1 ^ (r), 2 ^ (r), 3 ^ (r), 4 ^ (r), 5 ^ (r), 6 ^ (r), 7 ^ (r), 8 ^ (r), \
                            9 ^ (r), 10 ^ (r), 11 ^ (r), 12 ^ (r), 13 ^ (r), 14 ^ (r), 15 ^ (r))

/* 1 in the lanes whose partner i ^ r is the lower one. */
#define LOWER8(r)                                                                                            \
    (0 ^ (r)) < 0, (1 ^ (r)) < 1, (2 ^ (r)) < 2, (3 ^ (r)) < 3, (4 ^ (r)) < 4, (5 ^ (r)) < 5, (6 ^ (r)) < 6, \
        (7 ^ (r)) < 7
#define LOWER_f64(r) ((keys_f64){LOWER8(r)})
#define LOWER_f32(r) ((keys_f32){LOWER8(r), LOWER8(r)})

#define N_OF_M(type, key_type, suffix)                                                                                 \
    static inline __attribute__((always_inline)) void packed_span_##suffix(const type *x, unsigned group,              \
                                                                           unsigned keep, uint8_t *flags)              \
    {                                                                                                                  \
        for (size_t i = 0; i < SPAN; i += sizeof(keys_##suffix) / sizeof(type)) {                                      \
            keys_##suffix k;                                                                                           \
            keys_##suffix before;                                                                                      \
            bytes_##suffix kept;                                                                                       \
                                                                                                                       \
            memcpy(&k, (const char *)x + i * sizeof(type), sizeof k); /* x may be unaligned */                         \
            k &= (keys_##suffix){0} + ((key_type)-1 >> 1);                                                             \
            before = ACROSS_##suffix(k, 1) > k - LOWER_##suffix(1);                                                    \
            if (group > 2) {                                                                                           \
                before += ACROSS_##suffix(k, 2) > k - LOWER_##suffix(2);                                               \
                before += ACROSS_##suffix(k, 3) > k - LOWER_##suffix(3);                                               \
            }                                                                                                          \
            if (group > 4) {                                                                                           \
                before += ACROSS_##suffix(k, 4) > k - LOWER_##suffix(4);                                               \
                before += ACROSS_##suffix(k, 5) > k - LOWER_##suffix(5);                                               \
                before += ACROSS_##suffix(k, 6) > k - LOWER_##suffix(6);                                               \
                before += ACROSS_##suffix(k, 7) > k - LOWER_##suffix(7);                                               \
            }                                                                                                          \
            kept = __builtin_convertvector(before > -(int)keep, bytes_##suffix) & 1;                                   \
            memcpy(flags + i, &kept, sizeof kept);                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    static inline __attribute__((always_inline)) void near_span_##suffix(                                              \
        const type *x, size_t n_groups, unsigned group, unsigned keep, uint8_t *flags)                                 \
    {                                                                                                                  \
        key_type keys[NEAR_MAX][SPAN];                                                                                 \
        key_type before[NEAR_MAX][SPAN];                                                                               \
        for (unsigned j = 0; j < group; j++) {                                                                         \
            for (size_t p = 0; p < n_groups; p++) {                                                                    \
                keys[j][p] = key_##suffix(x, p * group + j);                                                           \
                before[j][p] = 0;                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        for (unsigned j = 1; j < group; j++) {                                                                         \
            for (unsigned o = 0; o < j; o++) {                                                                         \
                for (size_t p = 0; p < n_groups; p++) {                                                                \
                    key_type larger_later = keys[j][p] > keys[o][p];                                                   \
                    before[o][p] += larger_later;                                                                      \
                    before[j][p] += 1 - larger_later;                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        for (unsigned j = 0; j < group; j++) {                                                                         \
            for (size_t p = 0; p < n_groups; p++) {                                                                    \
                flags[p * group + j] = before[j][p] < keep;                                                            \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* Whole spans of groups of 2, 4 or 8: returns their groups. */                                                    \
    static size_t n_of_m_packed_##suffix(const type *x, size_t first, size_t n_groups, unsigned group, unsigned keep,  \
                                         uint8_t *mask)                                                                \
    {                                                                                                                  \
        size_t n = group == 2 || group == 4 || group == 8 ? n_groups * group / SPAN * SPAN : 0;                        \
        uint8_t flags[SPAN];                                                                                           \
                                                                                                                       \
        for (size_t i = 0; i < n; i += SPAN) {                                                                         \
            if (group == 2) {                                                                                          \
                packed_span_##suffix(x + first + i, 2, keep, flags);                                                   \
            } else if (group == 4) {                                                                                   \
                packed_span_##suffix(x + first + i, 4, keep, flags);                                                   \
            } else {                                                                                                   \
                packed_span_##suffix(x + first + i, 8, keep, flags);                                                   \
            }                                                                                                          \
            set_flags(mask, first + i, flags, SPAN);                                                                   \
        }                                                                                                              \
        return n / group;                                                                                              \
    }                                                                                                                  \
    static void n_of_m_near_##suffix(const type *x, size_t first, size_t n_groups, unsigned group, unsigned keep,      \
                                     uint8_t *mask)                                                                    \
    {                                                                                                                  \
        uint8_t flags[NEAR_MAX * SPAN];                                                                                \
        for (size_t g = 0; g < n_groups; g += SPAN) {                                                                  \
            size_t n = vc_min_size(SPAN, n_groups - g);                                                                \
            const type *at = x + first + g * group;                                                                    \
            near_span_##suffix(at, n, group, keep, flags);                                                             \
            set_flags(mask, first + g * group, flags, n * group);                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    static inline void n_of_m_far_##suffix(const type *x, size_t first, size_t n_places, size_t inner, unsigned group, \
                                           unsigned keep, uint8_t *mask)                                               \
    {                                                                                                                  \
        for (unsigned j = 0; j < group; j++) {                                                                         \
            uint16_t before[SPAN] = {0};                                                                               \
            for (unsigned o = 0; o < group; o++) {                                                                     \
                key_type later = o < j;                                                                                \
                for (size_t p = 0; o != j && p < n_places; p++) {                                                      \
                    key_type own = key_##suffix(x, first + p + j * inner);                                             \
                    key_type other = key_##suffix(x, first + p + o * inner);                                           \
                    before[p] = (uint16_t)(before[p] + (other + later > own));                                         \
                }                                                                                                      \
            }                                                                                                          \
            for (size_t p = 0; p < n_places; p++) {                                                                    \
                if (before[p] < keep) {                                                                                \
                    set_bit(mask, first + p + j * inner);                                                              \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    int VC_VARIANT(mask_n_of_m_##suffix)(const type *x, size_t n_blocks, size_t len, size_t inner, unsigned keep,      \
                                         unsigned group, uint8_t *mask)                                                \
    {                                                                                                                  \
        memset(mask, 0, (n_blocks * len * inner + 7) / 8);                                                             \
        for (size_t block = 0; block < n_blocks; block++) {                                                            \
            size_t base = block * len * inner;                                                                         \
            size_t n_near = inner == 1 && group <= NEAR_MAX ? len / group : 0;                                         \
            size_t done = n_of_m_packed_##suffix(x, base, n_near, group, keep, mask);                                  \
                                                                                                                       \
            n_of_m_near_##suffix(x, base + done * group, n_near - done, group, keep, mask);                            \
            for (size_t at = n_near * group; at < len; at += vc_min_size(group, len - at)) {                           \
                for (size_t p = 0; p < inner; p += vc_min_size(SPAN, inner - p)) {                                     \
                    n_of_m_far_##suffix(x, base + at * inner + p, vc_min_size(SPAN, inner - p), inner,                 \
                                        (unsigned)vc_min_size(group, len - at), keep, mask);                           \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        return 0;                                                                                                      \
    }

N_OF_M(float, uint32_t, f32)
N_OF_M(double, uint64_t, f64)
#undef N_OF_M

/* ---- applying ---- */

/* flags[i] = bit first + i of the mask. */
static inline void unpack_flags(const uint8_t *mask, uint64_t first, size_t n, uint8_t *flags)
{
    size_t i = 0;

    for (; i < n && (first + i) % 8 != 0; i++) {
        flags[i] = mask[(first + i) / 8] >> (first + i) % 8 & 1;
    }
    for (; i + 8 <= n; i += 8) { /* bit k into byte k; adding 0x7f carries it to the byte's top */
        uint64_t word = mask[(first + i) / 8] * (uint64_t)0x0101010101010101u & 0x8040201008040201u;

        word = (word + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
        memcpy(flags + i, &word, sizeof(word));
    }
    for (; i < n; i++) {
        flags[i] = mask[(first + i) / 8] >> (first + i) % 8 & 1;
    }
}

/* y = x where the bit is set, else +0. Masks of flags in place of branches: -1 has all bits. */
int VC_VARIANT(mask_apply_u16)(const uint16_t *h, const uint8_t *mask, uint64_t first, size_t n, uint16_t *y)
{
    uint8_t flags[STRIP];

    for (size_t from = 0; from < n; from += STRIP) {
        size_t m = vc_min_size(STRIP, n - from);

        unpack_flags(mask, first + from, m, flags);
        for (size_t i = 0; i < m; i++) {
            vc_put_u16(y, from + i, (uint16_t)(vc_get_u16(h, from + i) & -(uint16_t)flags[i]));
        }
    }
    return 0;
}

/* Values and errors of a strip in f64, where x is no f32 or not finite: of those that are not, 0. */
static void mask_errors_wide(const double *v, const uint8_t *flags, size_t n, struct strip *strip)
{
    uint32_t before = 0;
    uint32_t after = 0;

    for (size_t i = 0; i < n; i++) {
        int ok = fabs(v[i]) < INFINITY;

        strip->xw[i] = ok ? v[i] : 0.0;
        strip->ew[i] = ok && !flags[i] ? fabs(v[i]) : 0.0;
        before += v[i] == 0;
        after += v[i] == 0 || !flags[i];
    }
    strip->wide = 1;
    strip->max_wide = max_f64(strip->ew, n);
    strip->zeros_before = before;
    strip->zeros_after = after;
}

/* Strip functions of mask_apply_*: y = x or +0, the error is what went. */
static void strip_mask_f32(struct op *op, size_t first, size_t n, struct strip *strip)
{
    const float *x = (const float *)op->x + first;
    float *y = op->out == NULL ? NULL : (float *)op->out + first;
    uint8_t flags[STRIP];
    uint32_t most = 0;
    uint32_t all = 0;
    uint32_t before = 0;
    uint32_t after = 0;

    (void)strip_start(strip, x);
    unpack_flags(op->mask, op->first_bit + first, n, flags);
    for (size_t i = 0; y != NULL && i < n; i++) {
        vc_put_f32(y, i, vc_bits_f32(vc_f32_bits(vc_get_f32(x, i)) & -(uint32_t)flags[i]));
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = vc_f32_bits(vc_get_f32(x, i));
        uint32_t gone = bits & ((uint32_t)flags[i] - 1);

        strip->e[i] = vc_bits_f32(gone);
        most = larger(most, gone & VC_F32_ABS_MASK);
        all = larger(all, bits & VC_F32_ABS_MASK);
        before += (bits & VC_F32_ABS_MASK) == 0;
        after += (bits & VC_F32_ABS_MASK & -(uint32_t)flags[i]) == 0;
    }
    strip->max_bits = most;
    strip->zeros_before = before;
    strip->zeros_after = after;
    strip->wide = all >= VC_F32_INF_BITS;
    if (strip->wide) {
        double v[STRIP];

        for (size_t i = 0; i < n; i++) {
            v[i] = (double)vc_get_f32(x, i);
        }
        mask_errors_wide(v, flags, n, strip);
    }
}

/* f64 has no faster way for finite values: all errors are made wide. */
static void strip_mask_f64(struct op *op, size_t first, size_t n, struct strip *strip)
{
    const double *x = (const double *)op->x + first;
    double *y = op->out == NULL ? NULL : (double *)op->out + first;
    uint8_t flags[STRIP];
    double v[STRIP];

    (void)strip_start(strip, NULL);
    unpack_flags(op->mask, op->first_bit + first, n, flags);
    for (size_t i = 0; i < n; i++) {
        v[i] = vc_get_f64(x, i);
    }
    for (size_t i = 0; y != NULL && i < n; i++) {
        vc_put_f64(y, i, vc_bits_f64(vc_f64_bits(v[i]) & -(uint64_t)flags[i]));
    }
    mask_errors_wide(v, flags, n, strip);
}

/* Chunks, sums and zeros of the tile are run_tile's. */
#define APPLY(type, suffix)                                                                                        \
    int VC_VARIANT(mask_apply_##suffix)(const type *x, const uint8_t *mask, uint64_t first, size_t n_rows,         \
                                        size_t row_len, type *y, struct vc_tile_stats *stats)                      \
    {                                                                                                              \
        struct op op = {                                                                                           \
            .strip = strip_mask_##suffix, .x = x, .out = y, .row_len = row_len, .mask = mask, .first_bit = first}; \
                                                                                                                   \
        run_tile(&op, n_rows, row_len, stats);                                                                     \
        return 0;                                                                                                  \
    }

APPLY(float, f32)
APPLY(double, f64)
#undef APPLY

/* ---- blocks ---- */

/* A row at a time over all blocks beside each other, so that rows are read as they lie. */
#define SQUARES(type, suffix)                                                                               \
    int VC_VARIANT(block_squares_##suffix)(const type *x, size_t n_rows, size_t row_len, size_t block_rows, \
                                           size_t block_cols, double *scores)                               \
    {                                                                                                       \
        size_t across = row_len == 0 ? 0 : (row_len - 1) / block_cols + 1;                                  \
                                                                                                            \
        for (size_t row = 0; row < n_rows; row++) {                                                         \
            double *out = scores + row / block_rows * across;                                               \
                                                                                                            \
            for (size_t b = 0; b < across; b++) {                                                           \
                double sum = row % block_rows == 0 ? 0.0 : vc_get_f64(out, b);                              \
                                                                                                            \
                for (size_t c = b * block_cols;                                                             \
                     c < b * block_cols + vc_min_size(block_cols, row_len - b * block_cols); c++) {         \
                    double v = (double)vc_get_##suffix(x, row * row_len + c);                               \
                                                                                                            \
                    sum += v * v;                                                                           \
                }                                                                                           \
                vc_put_f64(out, b, sum);                                                                    \
            }                                                                                               \
        }                                                                                                   \
        return 0;                                                                                           \
    }

SQUARES(float, f32)
SQUARES(double, f64)
#undef SQUARES

/* ---- sums of rows and columns ---- */

/* lane[i % 64] += |v[i]|, and += v[i]^2 for f64; squares_f32 is in loops.h. */
static void magnitudes_f32(double *restrict lane, const float *v, size_t n)
{
#define TERM(sum) ((sum) + (double)fabsf(vc_get_f32(v, i)))
    LANES_ADD(n, lane, TERM);
#undef TERM
}

static void magnitudes_f64(double *restrict lane, const double *v, size_t n)
{
#define TERM(sum) ((sum) + fabs(vc_get_f64(v, i)))
    LANES_ADD(n, lane, TERM);
#undef TERM
}

static void squares_f64(double *restrict lane, const double *v, size_t n)
{
#define TERM(sum) ((sum) + vc_get_f64(v, i) * vc_get_f64(v, i))
    LANES_ADD(n, lane, TERM);
#undef TERM
}

/* Columns at a time, so that their sums stay in the first-level cache while the rows are walked over. */
#define SUM_COLUMNS 512

/* Sums of rows go by chunks, with the lanes and the tree of all sums of tiles. Sums of columns go row by row,
 * SUM_COLUMNS at a time, which stay in cache: each is a sum in the order of the rows. */
#define SUMS(type, suffix)                                                                                           \
    int VC_VARIANT(row_sums_##suffix)(const type *x, size_t n_rows, size_t row_len, unsigned power, double *sums)    \
    {                                                                                                                \
        double lane[LANES];                                                                                          \
        size_t at = 0;                                                                                               \
                                                                                                                     \
        for (size_t row = 0; row < n_rows; row++) {                                                                  \
            for (size_t from = 0; from < row_len; from += VC_CHUNK_ELEMS, at++) {                                    \
                size_t n = vc_min_size(VC_CHUNK_ELEMS, row_len - from);                                              \
                                                                                                                     \
                lanes_clear(lane, n);                                                                                \
                if (power == 1) {                                                                                    \
                    magnitudes_##suffix(lane, x + row * row_len + from, n);                                          \
                } else {                                                                                             \
                    squares_##suffix(lane, x + row * row_len + from, n);                                             \
                }                                                                                                    \
                vc_put_f64(sums, at, tree_value(lane, n));                                                           \
            }                                                                                                        \
        }                                                                                                            \
        return 0;                                                                                                    \
    }                                                                                                                \
                                                                                                                     \
    int VC_VARIANT(column_sums_##suffix)(const type *x, size_t n_rows, size_t row_len, unsigned power, double *sums) \
    {                                                                                                                \
        double sum[SUM_COLUMNS];                                                                                     \
                                                                                                                     \
        for (size_t from = 0; n_rows != 0 && from < row_len; from += SUM_COLUMNS) {                                  \
            size_t n = vc_min_size(SUM_COLUMNS, row_len - from);                                                     \
                                                                                                                     \
            memset(sum, 0, n * sizeof *sum);                                                                         \
            for (size_t row = 0; row < n_rows; row++) {                                                              \
                const type *v = x + row * row_len + from;                                                            \
                                                                                                                     \
                if (power == 1) {                                                                                    \
                    for (size_t i = 0; i < n; i++) {                                                                 \
                        sum[i] += fabs((double)vc_get_##suffix(v, i));                                               \
                    }                                                                                                \
                } else {                                                                                             \
                    for (size_t i = 0; i < n; i++) {                                                                 \
                        double d = (double)vc_get_##suffix(v, i);                                                    \
                                                                                                                     \
                        sum[i] += d * d;                                                                             \
                    }                                                                                                \
                }                                                                                                    \
            }                                                                                                        \
            memcpy((char *)sums + from * sizeof *sum, sum, n * sizeof *sum);                                         \
        }                                                                                                            \
        return 0;                                                                                                    \
    }

SUMS(float, f32)
SUMS(double, f64)
#undef SUMS
