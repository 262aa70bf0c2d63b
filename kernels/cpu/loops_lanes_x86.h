/* loops_lanes_x86.h - part of loops.h: GGUF's blocks from weights, with AVX2 or AVX-512. A whole block lies in each lane
 * of a vector, 8 or 16 of them side by side, so that each lane adds in the order of the definition (block_search.h,
 * block_encode.h, block_best.h) and gives its bits. Where a block takes another branch, both are computed and the lane
 * is chosen. Sums of one block wait for their last addition: several starts of a search run side by side.
 *
 *     lane      0         1        2     ..     FW - 1
 *     x[0]   block 0   block 1  block 2      block FW - 1   their first elements
 *     x[1]   ...                                            their second ones
 *
 * Products with the weight 1, where there are no statistics, are left out; sums of whole numbers below 2^24 are exact,
 * and fused.
 *
 * This file: vectors, and the walk over the blocks. Types are in loops_lanes_affine_x86.h (a scale and a minimum),
 * loops_lanes_signed_x86.h (a signed scale) and loops_lanes_grid_x86.h (IQ4, NVFP4, MXFP4). */
#pragma once

#include "kernels/block_best.h"

#define ALWAYS   static inline __attribute__((always_inline))
#define SIDES(t) _Pragma("GCC unroll 8") for (size_t t = 0; t < n_sides; t++) /* what runs side by side */

#ifdef __AVX512F__
#define FW      16
#define F(name) _mm512_##name
typedef __m512i mi;
#else
#define FW      8
#define F(name) _mm256_##name
typedef __m256i mi;
#endif
typedef float fv __attribute__((vector_size(4 * FW)));
typedef int32_t iv __attribute__((vector_size(4 * FW)));

#define F_ZERO           ((fv)F(setzero_ps)())
#define f_set(x)         ((fv)F(set1_ps)(x))
#define f_min(a, b)      ((fv)F(min_ps)(a, b)) /* a < b ? a : b */
#define f_max(a, b)      ((fv)F(max_ps)(a, b))
#define f_sqrt(a)        ((fv)F(sqrt_ps)(a))
#define f_of_int(a)      ((fv)F(cvtepi32_ps)((mi)(a)))
#define f_to_int(a)      ((iv)F(cvttps_epi32)(a))
#define f_minus(a, b, c) ((fv)F(fnmadd_ps)(a, b, c)) /* c - a * b with one rounding, for exact products */
#define f_plus(a, b, c)  ((fv)F(fmadd_ps)(a, b, c))

/* Lanes of a where the mask is set, else of b. */
ALWAYS fv f_select(iv mask, fv a, fv b)
{
    return (fv)((mask & (iv)a) | (~mask & (iv)b));
}

ALWAYS fv f_only(iv mask, fv a)
{
    return (fv)(mask & (iv)a);
}

ALWAYS fv f_magnitude(fv a)
{
    return (fv)((iv)a & 0x7fffffff);
}

ALWAYS bool f_any(iv mask)
{
#ifdef __AVX512F__
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#else
    return _mm256_movemask_ps((__m256)mask) != 0;
#endif
}

/* vc_as_half */
ALWAYS fv f_half(fv x)
{
#ifdef __AVX512F__ /* the form without a mask warns where gcc does not optimize */
    return (fv)_mm512_cvtph_ps(_mm512_maskz_cvtps_ph(0xffff, x, _MM_FROUND_TO_NEAREST_INT));
#else
    return (fv)_mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
#endif
}

/* vc_is_step: no zero, and finite. */
ALWAYS iv f_is_step(fv s)
{
    fv m = f_magnitude(s);

    return (iv)(m < f_set(INFINITY)) & (iv)(m > F_ZERO);
}

/* 1 / s, or 0 where s is 0. */
ALWAYS fv f_inverse_or_0(fv s)
{
    return f_only((iv)(s != F_ZERO), 1.0f / s);
}

/* vc_stored_step */
ALWAYS fv f_stored_step(fv s)
{
    fv h = f_half(s);
    iv lost = (iv)(h == F_ZERO) & (iv)(f_magnitude(s) > F_ZERO);

    return f_select(lost, (fv)(((iv)s & INT32_MIN) | (iv)f_set(0x1p-24f)), h);
}

/* vc_first_step */
ALWAYS fv f_first_step(fv largest, int32_t most)
{
    fv wanted = largest / f_set((float)most);
    fv d = f_half(wanted);
    iv away = (iv)(f_magnitude(wanted) < f_set(0x1p-14f)) & (iv)(f_magnitude(d) < f_magnitude(wanted));

    return f_select(away, d + f_select((iv)(wanted < F_ZERO), f_set(-0x1p-24f), f_set(0x1p-24f)), d);
}

/* x rounded to a whole number, halves to even; |x| is below 2^22. AVX-512 may give -0 for 0. */
ALWAYS fv f_whole(fv x)
{
#ifdef __AVX512F__
    return (fv)_mm512_roundscale_ps(x, 0);
#else
    return x + f_set(ROUND_MAGIC) - f_set(ROUND_MAGIC);
#endif
}

/* vc_nearest, as floats: the range is that of f_whole. */
ALWAYS fv f_nearest(fv x, fv least, fv most)
{
    return f_whole(f_min(f_max(x, least), most));
}

/* f_nearest from 0 on. Negative numbers are below 0 as integers, too, and more units compare those. So is the NaN that an
 * operation makes, but not its negative. */
ALWAYS fv f_nearest_0(fv x, fv most)
{
    return f_whole(f_min((fv)F(max_epi32)((mi)x, (mi)F_ZERO), most));
}

/* vc_clamp_i32(vc_ggml_round(x), least, most), as floats. */
ALWAYS fv f_code(fv x, int32_t least, int32_t most)
{
    iv k = ((iv)(x + f_set(ROUND_MAGIC)) & 0x007fffff) - 0x00400000;

    return f_of_int(F(min_epi32)(F(max_epi32)((mi)k, F(set1_epi32)(least)), F(set1_epi32)(most)));
}

/* vc_largest_signed of n values. */
ALWAYS fv f_largest(const fv *x, size_t n)
{
    fv most = F_ZERO;
    fv found = F_ZERO;

    for (size_t i = 0; i < n; i++) {
        fv a = f_magnitude(x[i]);

        found = f_select((iv)(a > most), x[i], found);
        most = f_max(a, most);
    }
    return found;
}

/* vc_sum_squares */
ALWAYS fv f_squares(const fv *x, size_t n)
{
    fv sum = F_ZERO;

    for (size_t i = 0; i < n; i++) {
        sum = sum + x[i] * x[i];
    }
    return sum;
}

/* a, times the weight where there are weights. */
ALWAYS fv f_weigh(bool weighted, const fv *w, size_t i, fv a)
{
    return weighted ? w[i] * a : a;
}

/* sum + a * b, both whole numbers and all sums below 2^24. */
ALWAYS fv f_plus_whole(bool whole, fv a, fv b, fv sum)
{
    return whole ? f_plus(a, b, sum) : sum + a * b;
}

/* ---- a table of 16 values ---- */

/* 16 ascending values; by level the middles between two of them with which a binary search goes on. */
struct f_table {
    float value[16], middle[4][8];
};

ALWAYS fv f_of_table(const float *value, iv number)
{
#ifdef __AVX512F__
    return (fv)_mm512_permutexvar_ps((__m512i)number, _mm512_loadu_ps(value));
#else
    return f_select(number > 7, (fv)_mm256_permutevar8x32_ps(_mm256_loadu_ps(value + 8), (__m256i)number),
                    (fv)_mm256_permutevar8x32_ps(_mm256_loadu_ps(value), (__m256i)number));
#endif
}

/* How many middles x is not below; NaN is below none. */
ALWAYS iv f_number(const struct f_table *table, fv x)
{
    iv number = (iv)(x < f_set(table->middle[0][0])) + 1;

    _Pragma("GCC unroll 4") for (size_t k = 1; k < 4; k++)
    {
#ifdef __AVX512F__
        fv middle =
            (fv)_mm512_permutexvar_ps((__m512i)number, _mm512_castps256_ps512(_mm256_loadu_ps(table->middle[k])));
#else
        fv middle = (fv)_mm256_permutevar8x32_ps(_mm256_loadu_ps(table->middle[k]), (__m256i)number);
#endif

        number = number + number + (iv)(x < middle) + 1;
    }
    return number;
}

/* ---- blocks in lanes ---- */

/* FW blocks. w: their weights, where there are statistics. */
struct lane_blocks {
    bool weighted;
    fv x[256], w[256];
};

/* What an encoder found for them. */
struct lane_found {
    fv d, dmin;                /* as the block stores them, before they are rounded to f16 */
    fv level[16], minimum[16]; /* whole numbers, by part */
    fv step[16], least[16];    /* values are step * (what the code stands for) + least */
    uint8_t codes[256][FW];
};

/* A type of blocks. make: as llama.cpp; search: with the least error; put: the bytes of the block in a lane. A code
 * stands for itself plus `offset`, or for a number of `values`. */
struct lane_type {
    size_t elems, n_parts, bytes;
    int32_t offset;
    const float *values;
    void (*make)(const struct lane_blocks *b, struct lane_found *found);
    void (*search)(const struct lane_blocks *b, struct lane_found *found);
    void (*put)(const struct lane_found *found, size_t lane, const uint8_t *codes, uint8_t *block);
};

/* Columns of eight rows, from column i on. */
static inline void columns_8(const float *const *row, size_t i, __m256 *to)
{
    __m256 r[8];
    __m256 t[8];

    for (size_t k = 0; k < 8; k++) {
        r[k] = _mm256_loadu_ps(row[k] + i);
    }
    for (size_t k = 0; k < 8; k += 2) {
        t[k] = _mm256_unpacklo_ps(r[k], r[k + 1]);
        t[k + 1] = _mm256_unpackhi_ps(r[k], r[k + 1]);
    }
    for (size_t k = 0; k < 8; k += 4) {
        r[k] = _mm256_shuffle_ps(t[k], t[k + 2], 0x44);
        r[k + 1] = _mm256_shuffle_ps(t[k], t[k + 2], 0xee);
        r[k + 2] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0x44);
        r[k + 3] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0xee);
    }
    for (size_t k = 0; k < 4; k++) {
        to[k] = _mm256_permute2f128_ps(r[k], r[k + 4], 0x20);
        to[k + 4] = _mm256_permute2f128_ps(r[k], r[k + 4], 0x31);
    }
}

/* FW rows of n elements, which may be unaligned, side by side. */
static void lanes_load(const float *const *row, size_t n, fv *to)
{
    for (size_t i = 0; i < n; i += 8) {
        __m256 low[8];
#ifdef __AVX512F__
        __m256 high[8];

        columns_8(row + 8, i, high);
        columns_8(row, i, low);
        for (size_t k = 0; k < 8; k++) {
            to[i + k] = (fv)_mm512_insertf32x8(_mm512_castps256_ps512(low[k]), high[k], 1);
        }
#else
        columns_8(row, i, low);
        memcpy(to + i, low, sizeof low);
#endif
    }
}

/* FW codes of 0 to 255 as bytes, and back. */
ALWAYS void codes_put(uint8_t *to, fv codes)
{
#ifdef __AVX512F__
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8((__m512i)f_to_int(codes)));
#else
    __m256i c = (__m256i)f_to_int(codes);
    __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(c), _mm256_extracti128_si256(c, 1));

    _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(words, words));
#endif
}

ALWAYS iv codes_get(const uint8_t *from)
{
#ifdef __AVX512F__
    return (iv)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
#else
    return (iv)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
#endif
}

ALWAYS fv f_of_codes(const uint8_t *from)
{
    return f_of_int(codes_get(from));
}

/* Lanes 8 k to 8 k + 7 as f64. */
ALWAYS wide f_wide(fv v, size_t k)
{
#ifdef __AVX512F__
    return wide_of(k == 0 ? _mm512_castps512_ps256((__m512)v) : _mm512_extractf32x8_ps((__m512)v, 1));
#else
    return wide_of((__m256)v);
#endif
}

/* The weighted error of each block, added as block_best.h does it. */
ALWAYS void lanes_errors(const struct lane_blocks *b, const struct lane_type *type, bool weighted,
                         const struct lane_found *found, double *error)
{
    fv offset = f_set((float)type->offset);
    wide sum[FW / 8];
    size_t part = 0;

    for (size_t k = 0; k < FW / 8; k++) {
        sum[k] = WIDE_ZERO;
    }
    for (size_t i = 0; i < type->elems; part++) {
        for (size_t end = i + type->elems / type->n_parts; i < end; i++) {
            fv value = type->values != NULL ? f_of_table(type->values, codes_get(found->codes[i]))
                                            : f_of_codes(found->codes[i]) + offset;
            fv y = found->step[part] * value + found->least[part];

            _Pragma("GCC unroll 2") for (size_t k = 0; k < FW / 8; k++)
            {
                wide e = wide_sub(f_wide(b->x[i], k), f_wide(y, k));

                sum[k] = wide_add(sum[k], wide_mul(weighted ? wide_mul(f_wide(b->w[i], k), e) : e, e));
            }
        }
    }
    for (size_t k = 0; k < FW / 8; k++) {
        wide_store(error + 8 * k, sum[k]);
    }
}

/* n codes of each lane, one after another: 16 rows are interleaved with each other four times. */
static void lanes_codes(uint8_t (*codes)[FW], size_t n, uint8_t (*to)[256])
{
    for (size_t i = 0; i < n; i += 16) {
        __m128i v[2][16];

        for (size_t k = 0; k < 16; k++) {
            v[0][k] = FW == 16 ? _mm_loadu_si128((const __m128i *)(const void *)codes[i + k])
                               : _mm_loadl_epi64((const __m128i *)(const void *)codes[i + k]);
        }
        _Pragma("GCC unroll 4") for (size_t pass = 0; pass < 4; pass++)
        {
            for (size_t k = 0; k < 8; k++) {
                v[1 - pass % 2][2 * k] = _mm_unpacklo_epi8(v[pass % 2][k], v[pass % 2][k + 8]);
                v[1 - pass % 2][2 * k + 1] = _mm_unpackhi_epi8(v[pass % 2][k], v[pass % 2][k + 8]);
            }
        }
        for (size_t k = 0; k < FW; k++) {
            _mm_storeu_si128((__m128i *)(void *)(to[k] + i), v[0][k]);
        }
    }
}

/* The n first blocks of the lanes. The reference encoder's are taken where they have less error. */
static void lanes_run(const struct lane_blocks *b, const struct lane_type *type, bool best, size_t n, uint8_t *blocks)
{
    struct lane_found found[2];
    uint8_t codes[2][FW][256];
    double error[2][FW] = {{0.0}};

    type->make(b, &found[0]);
    if (best) {
        type->search(b, &found[1]);
    }
    for (size_t k = 0; best && k < 2; k++) {
        if (b->weighted) {
            lanes_errors(b, type, true, &found[k], error[k]);
        } else {
            lanes_errors(b, type, false, &found[k], error[k]);
        }
    }
    for (size_t k = 0; k < 1 + (size_t)best; k++) {
        lanes_codes(found[k].codes, type->elems, codes[k]);
    }
    for (size_t lane = 0; lane < n; lane++, blocks += type->bytes) {
        size_t k = best && !(error[0][lane] < error[1][lane]);

        type->put(&found[k], lane, codes[k][lane], blocks);
    }
}

/* All blocks of some rows. Where fewer than FW are left the last one is repeated. */
static int lanes_blocks(const struct lane_type *type, const float *x, size_t n_rows, size_t row_len,
                        const struct vc_block_how *how, uint8_t *blocks)
{
    size_t n_blocks = n_rows * row_len / type->elems;
    struct lane_blocks b;

    b.weighted = how->importance != NULL;
    for (size_t first = 0; first < n_blocks; first += FW) {
        size_t n = vc_min_size(FW, n_blocks - first);
        const float *row[FW];
        const float *weights[FW];

        for (size_t k = 0; k < FW; k++) {
            size_t at = (first + vc_min_size(k, n - 1)) * type->elems;

            row[k] = (const float *)(const void *)((const char *)x + at * sizeof *x);
            weights[k] = b.weighted ? how->importance + at % row_len : NULL;
        }
        lanes_load(row, type->elems, b.x);
        if (b.weighted) {
            lanes_load(weights, type->elems, b.w);
        }
        lanes_run(&b, type, how->best, n, blocks + first * type->bytes);
    }
    return 0;
}

/* The kernel of a type. Where the lanes do not serve, the reference loop does. */
#define LANE_KERNEL(type, serves)                                                                                \
    int VC_VARIANT(type##_blocks)(const float *x, size_t n_rows, size_t row_len, const struct vc_block_how *how, \
                                  uint8_t *blocks)                                                               \
    {                                                                                                            \
        return (serves) ? lanes_blocks(&lane_##type, x, n_rows, row_len, how, blocks)                            \
                        : vc_##type##_blocks_ref(x, n_rows, row_len, how, blocks);                               \
    }

/* f(b, found) with `weighted` as a constant. */
#define LANES_EITHER(name, of)                                              \
    static void name(const struct lane_blocks *b, struct lane_found *found) \
    {                                                                       \
        if (b->weighted) {                                                  \
            of(true);                                                       \
        } else {                                                            \
            of(false);                                                      \
        }                                                                   \
    }

#include "kernels/cpu/loops_lanes_affine_x86.h"
#include "kernels/cpu/loops_lanes_grid_x86.h"
#include "kernels/cpu/loops_lanes_signed_x86.h"

#undef F
#undef FW
