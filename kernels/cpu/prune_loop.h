/* prune_loop.h - keys of pruning, and plain loops that the CUDA plug-in needs, too, for what does not fit a unit of its work: N of M,
 * squares of blocks, sums of columns. kernel_ref_prune.c defines the kernels by them. Arrays may be unaligned. Valid as C11 and C++. */
#pragma once

#include "core/base/checked.h"
#include "kernels/arith.h"
#include "kernels/cpu/access.h"

/* The keys: bits without the sign, which f16 and bf16 have in the same place. */
static inline uint16_t key_u16(const uint16_t *h, size_t i)
{
    return vc_get_u16(h, i) & 0x7fffu;
}

/* Keys of the types of 32 and 64 bits: the bits without the sign. */
static inline uint32_t key_f32(const float *x, size_t i)
{
    return vc_f32_magnitude(vc_get_f32(x, i));
}

static inline uint64_t key_f64(const double *x, size_t i)
{
    return vc_f64_bits(vc_get_f64(x, i)) & 0x7fffffffffffffffu;
}

/* The first bit of a byte writes the whole byte, so that the mask need not be 0 before. */
static inline void put_bit(uint8_t *mask, size_t i, int kept)
{
    uint8_t bit = (uint8_t)(1u << i % 8);

    mask[i / 8] = i % 8 == 0 ? (uint8_t)kept : kept ? mask[i / 8] | bit : mask[i / 8] & (uint8_t)~bit;
}

/* An element of a group is kept if fewer than `keep` others come before it: by key, then by index. */
#define VC_N_OF_M_LOOP(function, type, suffix)                                                            \
    int function(const type *x, size_t n_blocks, size_t len, size_t inner, unsigned keep, unsigned group, \
                 uint8_t *mask)                                                                           \
    {                                                                                                     \
        size_t block = len * inner;                                                                       \
                                                                                                          \
        for (size_t i = 0; i < n_blocks * block; i++) {                                                   \
            size_t place = i % inner;                                                                     \
            size_t at = i % block / inner;                                                                \
            size_t from = at - at % group;                                                                \
            size_t base = i - i % block + place;                                                          \
            unsigned before = 0;                                                                          \
                                                                                                          \
            for (size_t j = from; j < vc_min_size(from + group, len); j++) {                              \
                uint64_t other = key_##suffix(x, base + j * inner);                                       \
                uint64_t own = key_##suffix(x, i);                                                        \
                                                                                                          \
                before += other > own || (other == own && j < at);                                        \
            }                                                                                             \
            put_bit(mask, i, before < keep);                                                              \
        }                                                                                                 \
        return 0;                                                                                         \
    }

/* Row after row of each block. */
#define VC_SQUARES_LOOP(function, type, suffix)                                                                      \
    int function(const type *x, size_t n_rows, size_t row_len, size_t block_rows, size_t block_cols, double *scores) \
    {                                                                                                                \
        size_t n = 0;                                                                                                \
                                                                                                                     \
        for (size_t row = 0; row < n_rows; row += vc_min_size(block_rows, n_rows - row)) {                           \
            for (size_t col = 0; col < row_len; col += vc_min_size(block_cols, row_len - col), n++) {                \
                double sum = 0;                                                                                      \
                                                                                                                     \
                for (size_t r = row; r < row + vc_min_size(block_rows, n_rows - row); r++) {                         \
                    for (size_t c = col; c < col + vc_min_size(block_cols, row_len - col); c++) {                    \
                        double v = (double)vc_get_##suffix(x, r * row_len + c);                                      \
                                                                                                                     \
                        sum += v * v;                                                                                \
                    }                                                                                                \
                }                                                                                                    \
                vc_put_f64(scores, n, sum);                                                                          \
            }                                                                                                        \
        }                                                                                                            \
        return 0;                                                                                                    \
    }

static inline double term_of(double x, unsigned power)
{
    return power == 1 ? fabs(x) : x * x;
}

/* Row after row of each column. */
#define VC_COLUMN_SUMS_LOOP(function, type, suffix)                                          \
    int function(const type *x, size_t n_rows, size_t row_len, unsigned power, double *sums) \
    {                                                                                        \
        for (size_t col = 0; n_rows != 0 && col < row_len; col++) {                          \
            double sum = 0;                                                                  \
                                                                                             \
            for (size_t row = 0; row < n_rows; row++) {                                      \
                sum += term_of((double)vc_get_##suffix(x, row * row_len + col), power);      \
            }                                                                                \
            vc_put_f64(sums, col, sum);                                                      \
        }                                                                                    \
        return 0;                                                                            \
    }
