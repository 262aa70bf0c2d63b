/* block_encode.h - GGUF's blocks from weights: bit for bit what llama.cpp's reference quantizers make. For C, C++ and
 * CUDA, as arith.h; blocks.h has the layouts and the way back, block_search.h the search for scales. Q8_0 is in
 * blocks.h, since a kernel of its own makes it.
 *
 * Each function makes one block of x, 32 to 256 finite elements. h: the importance of each element's column, from
 * statistics of data (E[x^2] of the inputs), or NULL without; row_mean: the mean square of the whole row (read by Q4_0
 * to Q5_1 with h). Steps beyond f16 are stored as Inf: vc_block_is_finite tells. */
#pragma once

#include "kernels/block_search.h"

/* NaN, where products overflow, has no sign: processors differ in that of the NaN that they make. */
VC_HD void vc_put_half(uint8_t *p, float x)
{
    uint16_t h = x == x ? vc_f32_to_f16(x) : (uint16_t)0x7e00;

    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* Sum of x * x, in the order of the elements. */
VC_HD float vc_sum_squares(const float *x, uint32_t n)
{
    float sum = 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }
    return sum;
}

/* w = h * sqrt(mean + x * x): the weights of a search with statistics. */
VC_HD_LARGE void vc_weights_of(const float *x, const float *h, uint32_t n, float mean, float *w)
{
    for (uint32_t i = 0; i < n; i++) {
        w[i] = h[i] * sqrtf(mean + x[i] * x[i]);
    }
}

/* ---- 32 elements: Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4 ---- */

/* Codes of 4 bits as vc_nibble_32 reads them, and of 5 bits: the fifth ones in the four bytes before. */
VC_HD_LARGE void vc_put_nibbles_32(uint8_t *p, const uint8_t *codes)
{
    for (uint32_t i = 0; i < 16; i++) {
        p[i] = (uint8_t)((codes[i] & 15u) | (codes[i + 16] & 15u) << 4);
    }
}

VC_HD_LARGE void vc_put_fifth_bits(uint8_t *p, const uint8_t *codes)
{
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t bits = 0;

        for (uint32_t k = 0; k < 8; k++) {
            bits |= (uint32_t)(codes[8 * i + k] >> 4 & 1) << k;
        }
        p[i] = (uint8_t)bits;
    }
}

/* The integer part of x in 0 .. most. Steps that are subnormal numbers have an infinite inverse: x may be infinite or
 * NaN. */
VC_HD uint8_t vc_truncated(float x, int32_t most)
{
    x = x > 0.0f ? x : 0.0f;
    return (uint8_t)(int32_t)(x < (float)most ? x : (float)most);
}

/* Symmetric codes of `half` steps to each side: the element of the largest magnitude gets the code 0, which has no
 * opposite. */
VC_HD_LARGE float vc_symmetric_32(const float *x, const float *h, float row_mean, int32_t half, uint8_t *codes)
{
    if (h != NULL) {
        float w[32];

        vc_weights_of(x, h, 32, row_mean, w);
        return vc_search_signed(x, w, 32, half, codes);
    }
    float step = vc_largest_signed(x, 32) / (float)-half;
    float inverse = step != 0.0f ? 1.0f / step : 0.0f;
    for (uint32_t i = 0; i < 32; i++) {
        codes[i] = vc_truncated(x[i] * inverse + ((float)half + 0.5f), 2 * half - 1);
    }
    return step;
}

/* Codes 0 .. most from the least element up. */
VC_HD_LARGE float vc_affine_32(const float *x, const float *h, float row_mean, int32_t most, uint8_t *codes,
                               float *least)
{
    const struct vc_affine_tries tries = {-0.9f, 0.05f, 36, false};
    float top = x[0];
    float step;

    if (h != NULL) {
        float w[32], minimum;

        vc_weights_of(x, h, 32, row_mean, w);
        step = vc_search_affine(x, w, 32, most, tries, codes, &minimum);
        *least = -minimum;
        return step;
    }
    *least = x[0];
    for (uint32_t i = 1; i < 32; i++) {
        *least = x[i] < *least ? x[i] : *least;
        top = x[i] > top ? x[i] : top;
    }
    step = (top - *least) / (float)most;
    float inverse = step != 0.0f ? 1.0f / step : 0.0f;
    for (uint32_t i = 0; i < 32; i++) {
        codes[i] = vc_truncated((x[i] - *least) * inverse + 0.5f, most);
    }
    return step;
}

VC_HD_LARGE void vc_q4_0_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    uint8_t codes[32];

    vc_put_half(b, vc_symmetric_32(x, h, row_mean, 8, codes));
    vc_put_nibbles_32(b + 2, codes);
}

VC_HD_LARGE void vc_q4_1_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    uint8_t codes[32];
    float least;

    vc_put_half(b, vc_affine_32(x, h, row_mean, 15, codes, &least));
    vc_put_half(b + 2, least);
    vc_put_nibbles_32(b + 4, codes);
}

VC_HD_LARGE void vc_q5_0_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    uint8_t codes[32];

    vc_put_half(b, vc_symmetric_32(x, h, row_mean, 16, codes));
    vc_put_fifth_bits(b + 2, codes);
    vc_put_nibbles_32(b + 6, codes);
}

VC_HD_LARGE void vc_q5_1_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    uint8_t codes[32];
    float least;

    vc_put_half(b, vc_affine_32(x, h, row_mean, 31, codes, &least));
    vc_put_half(b + 2, least);
    vc_put_fifth_bits(b + 4, codes);
    vc_put_nibbles_32(b + 8, codes);
}

VC_HD_LARGE void vc_iq4_nl_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    uint8_t codes[32];
    float w[32];

    if (h != NULL) {
        vc_weights_of(x, h, 32, 2.0f * vc_sum_squares(x, 32) / 32.0f, w);
    }
    float scale = vc_search_iq4(x, h != NULL ? w : NULL);
    float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    for (uint32_t i = 0; i < 32; i++) {
        codes[i] = (uint8_t)vc_iq4_code(inverse * x[i]);
    }
    vc_put_half(b, scale);
    vc_put_nibbles_32(b + 2, codes);
}

/* floor(log2(a)) as C's log2f and floorf have it: just below a power of two log2f rounds up to the integer. a > 0. */
VC_HD int32_t vc_floor_log2f(float a)
{
    float up = a < 1.17549435e-38f ? a * 8388608.0f : a; /* no subnormal number: 2^23 times as large */
    int32_t e = (int32_t)(vc_f32_bits(up) >> 23) - 127;
    double share = (double)vc_bits_f32((vc_f32_bits(up) & 0x007fffffu) | 0x3f800000u) / 2.0; /* up / 2^(e+1), below 1 */

    e -= a < 1.17549435e-38f ? 23 : 0;
    return e + ((float)((double)(e + 1) - (1.0 - share) * 1.4426950408889634) == (float)(e + 1));
}

VC_HD_LARGE void vc_mxfp4_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    float a = fabsf(vc_largest_signed(x, 32));
    uint8_t codes[32];

    b[0] = a > 0.0f ? (uint8_t)vc_clamp_i32(vc_floor_log2f(a) - 2 + 127, 0, 254) : 0;
    for (uint32_t i = 0; i < 32; i++) {
        codes[i] = (uint8_t)vc_e2m1_code(x[i], vc_e8m0_half(b[0]));
    }
    vc_put_nibbles_32(b + 1, codes);
}

/* Q8_0 as vc_q8_0_rows makes it. */
VC_HD_LARGE void vc_q8_0_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    float step = vc_q8_0_step(vc_f32_magnitude(vc_largest_signed(x, 32)));

    vc_put_half(b, step);
    for (uint32_t i = 0; i < 32; i++) {
        b[2 + i] = (uint8_t)vc_q8_0_encode(x[i], vc_q8_0_inverse(step));
    }
}

/* ---- 64 elements: NVFP4, Q2_0; 128: Q1_0 ---- */

/* E4M3 without its sign, and ggml's rounding: halves up, 7 bits of subnormal numbers, 256 and more are 448. */
VC_HD uint8_t vc_ue4m3_of(float x)
{
    uint32_t u = vc_f32_bits(x);
    int32_t e = (int32_t)(u >> 23) - 127 + 7;
    uint32_t fraction = (u >> 20 & 7u) + (u >> 19 & 1u);

    if (!(x > 0.0f)) {
        return 0;
    }
    if (x > 448.0f || e >= 15) {
        return 0x7e;
    }
    if (e <= 0) {
        return (uint8_t)vc_clamp_i32((int32_t)(x * 512.0f + 0.5f), 0, 7);
    }
    e += fraction > 7;
    return e >= 15 ? 0x7e : (uint8_t)((uint32_t)e << 3 | (fraction & 7u));
}

VC_HD_LARGE void vc_nvfp4_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    for (uint32_t j = 0; j < 4; j++) {
        const float *part = x + 16 * j;

        b[j] = vc_ue4m3_of(fabsf(vc_largest_signed(part, 16)) / 6.0f);
        float half = vc_ue4m3_value(b[j]) * 0.5f;
        for (uint32_t i = 0; i < 8; i++) {
            b[4 + 8 * j + i] = (uint8_t)(vc_e2m1_code(part[i], half) | vc_e2m1_code(part[i + 8], half) << 4);
        }
    }
}

/* -1, 0 or 1 for each element, as 0, 1, 2: x over the largest magnitude, halves away from zero. Returns the step. */
VC_HD_LARGE float vc_ternary(const float *x, uint32_t n, uint8_t *codes)
{
    float step = fabsf(vc_largest_signed(x, n));
    float inverse = step != 0.0f ? 1.0f / step : 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        codes[i] = (uint8_t)(1 + (x[i] * inverse >= 0.5f) - (x[i] * inverse <= -0.5f));
    }
    return step;
}

/* Four codes in a byte, neighbours together: not as in the K types, where they lie 32 apart. */
VC_HD void vc_q2_0_put(float d, const uint8_t *c, uint8_t *b)
{
    vc_put_half(b, d);
    for (uint32_t i = 0; i < 16; i++) {
        b[2 + i] = (uint8_t)(c[4 * i] | c[4 * i + 1] << 2 | c[4 * i + 2] << 4 | c[4 * i + 3] << 6);
    }
}

VC_HD_LARGE void vc_q2_0_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    uint8_t codes[64];
    float d = vc_ternary(x, 64, codes);

    vc_q2_0_put(d, codes, b);
}

VC_HD_LARGE void vc_q1_0_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    float sum = 0.0f;

    for (uint32_t i = 0; i < 128; i++) {
        sum += fabsf(x[i]);
    }
    vc_put_half(b, sum / 128.0f);
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t bits = 0;

        for (uint32_t k = 0; k < 8; k++) {
            bits |= (uint32_t)(x[8 * i + k] >= 0.0f) << k;
        }
        b[2 + i] = (uint8_t)bits;
    }
}

/* ---- 256 elements: Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS, TQ1_0, TQ2_0 ---- */

/* 2-bit codes: for each 128 elements 32 bytes, each with the codes of elements l, l + 32, l + 64 and l + 96. */
VC_HD_LARGE void vc_put_pairs_256(uint8_t *p, const uint8_t *codes)
{
    for (uint32_t half = 0; half < 2; half++, p += 32, codes += 128) {
        for (uint32_t i = 0; i < 32; i++) {
            const uint8_t *c = codes + i;

            p[i] = (uint8_t)((c[0] & 3u) | (c[32] & 3u) << 2 | (c[64] & 3u) << 4 | (c[96] & 3u) << 6);
        }
    }
}

/* 4-bit codes as vc_nibble_256 reads them. */
VC_HD_LARGE void vc_put_nibbles_256(uint8_t *p, const uint8_t *codes)
{
    for (uint32_t part = 0; part < 4; part++, p += 32, codes += 64) {
        for (uint32_t i = 0; i < 32; i++) {
            p[i] = (uint8_t)((codes[i] & 15u) | (codes[i + 32] & 15u) << 4);
        }
    }
}

/* Six-bit scale s and minimum m number j of eight, as vc_k_scale and vc_k_min read them. j in ascending order. */
VC_HD void vc_put_k_scale(uint8_t *p, uint32_t j, uint32_t s, uint32_t m)
{
    if (j < 4) {
        p[j] = (uint8_t)s;
        p[j + 4] = (uint8_t)m;
    } else {
        p[j + 4] = (uint8_t)((s & 15u) | (m & 15u) << 4);
        p[j - 4] |= (uint8_t)(s >> 4 << 6);
        p[j] |= (uint8_t)(m >> 4 << 6);
    }
}

/* Codes of n parts of 256 / n elements each: scale, minimum >= 0 and codes of each part. How K types with minima begin.
 */
struct vc_k_parts {
    float scale[16], minimum[16], weight[16]; /* weight: the sum of the part's weights, with statistics */
    uint8_t codes[256];
};

/* Steps of the parts' scales and minima in integers of 0 .. most: what a K block stores. */
struct vc_k_levels {
    float d, dmin;
    uint8_t scale[16], minimum[16];
};

/* 0 where nothing is above it. */
VC_HD float vc_most_of(const float *x, uint32_t n)
{
    float most = 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        most = x[i] > most ? x[i] : most;
    }
    return most;
}

/* Without statistics: the largest one is `most`. */
VC_HD float vc_k_level_simple(const float *x, uint32_t n, int32_t most, uint8_t *levels)
{
    float top = vc_most_of(x, n);
    float inverse = top > 0.0f ? (float)most / top : 0.0f;

    for (uint32_t j = 0; j < n; j++) {
        int32_t k = vc_ggml_round(inverse * x[j]);

        levels[j] = (uint8_t)(k < most ? k : most);
    }
    return top > 0.0f ? top / (float)most : 0.0f;
}

/* The scales of the parts, and their minima, are whole numbers that d and dmin multiply. */
VC_HD void vc_k_levels_find(const struct vc_k_parts *p, uint32_t n, int32_t most, bool statistics,
                            struct vc_k_levels *levels)
{
    if (statistics) {
        levels->d = vc_search_positive(p->scale, p->weight, n, most, levels->scale);
        levels->dmin = vc_search_positive(p->minimum, p->weight, n, most, levels->minimum);
    } else {
        levels->d = vc_k_level_simple(p->scale, n, most, levels->scale);
        levels->dmin = vc_k_level_simple(p->minimum, n, most, levels->minimum);
    }
}

/* The final codes, for the steps as they are stored. Parts whose stored scale is 0 keep the codes of the search. */
VC_HD_LARGE void vc_k_codes(const float *x, uint32_t n_parts, int32_t most, const struct vc_k_levels *levels,
                            uint8_t *codes)
{
    float d = vc_f16_to_f32(vc_f32_to_f16(levels->d));
    float dmin = vc_f16_to_f32(vc_f32_to_f16(levels->dmin));
    uint32_t n = 256 / n_parts;

    for (uint32_t j = 0; j < n_parts; j++) {
        float step = d * (float)levels->scale[j];
        float least = dmin * (float)levels->minimum[j];

        for (uint32_t i = n * j; step != 0.0f && i < n * (j + 1); i++) {
            codes[i] = (uint8_t)vc_clamp_i32(vc_ggml_round((x[i] + least) / step), 0, most);
        }
    }
}

/* What differs between the K types with minima. */
struct vc_k_kind {
    uint32_t n_parts;
    int32_t most, most_level;     /* codes 0 .. most, scales and minima 0 .. most_level */
    struct vc_affine_tries tries; /* without statistics */
    float mean;                   /* with statistics: times the mean square of the block */
};

#define VC_K_KIND_q2_k                           \
    {                                            \
        16, 3, 15, {-0.5f, 0.1f, 15, true}, 1.0f \
    }
#define VC_K_KIND_q4_k                            \
    {                                             \
        8, 15, 63, {-1.0f, 0.1f, 20, false}, 2.0f \
    }
#define VC_K_KIND_q5_k                            \
    {                                             \
        8, 31, 63, {-0.5f, 0.1f, 15, false}, 2.0f \
    }

VC_HD_LARGE void vc_k_parts_find(const float *x, const float *h, struct vc_k_kind kind, struct vc_k_parts *p)
{
    const struct vc_affine_tries with_statistics = {-0.9f, 0.05f, 36, false};
    float mean = h != NULL ? kind.mean * vc_sum_squares(x, 256) / 256.0f : 0.0f;
    uint32_t n = 256 / kind.n_parts;

    for (uint32_t j = 0; j < kind.n_parts; j++) {
        const float *part = x + n * j;
        float w[32] = {0.0f}; /* gcc 14 does not see that n is not 0 */

        if (h != NULL) {
            vc_weights_of(part, h + n * j, n, mean, w);
            p->weight[j] = 0.0f;
            for (uint32_t i = 0; i < n; i++) {
                p->weight[j] += w[i];
            }
        } else {
            float root = kind.n_parts == 8 ? sqrtf(vc_sum_squares(part, n) / (float)n) : 0.0f;

            for (uint32_t i = 0; i < n; i++) {
                w[i] = kind.n_parts == 8 ? root + fabsf(part[i]) : fabsf(part[i]);
            }
        }
        p->scale[j] = vc_search_affine(part, w, n, kind.most, h != NULL ? with_statistics : kind.tries,
                                       p->codes + n * j, &p->minimum[j]);
    }
}

/* Codes and levels of a K block with minima. */
VC_HD_LARGE void vc_k_search(const float *x, const float *h, struct vc_k_kind kind, struct vc_k_parts *p,
                             struct vc_k_levels *levels)
{
    vc_k_parts_find(x, h, kind, p);
    vc_k_levels_find(p, kind.n_parts, kind.most_level, h != NULL, levels);
    vc_k_codes(x, kind.n_parts, kind.most, levels, p->codes);
}

/* 16 bytes of levels, 64 of codes, d, dmin. */
VC_HD void vc_q2_k_put(const struct vc_k_levels *levels, const uint8_t *codes, uint8_t *b)
{
    for (uint32_t j = 0; j < 16; j++) {
        b[j] = (uint8_t)(levels->scale[j] | levels->minimum[j] << 4);
    }
    vc_put_pairs_256(b + 16, codes);
    vc_put_half(b + 80, levels->d);
    vc_put_half(b + 82, levels->dmin);
}

/* d, dmin, 12 bytes of levels of six bits, 128 of codes. */
VC_HD void vc_q4_k_put(const struct vc_k_levels *levels, const uint8_t *codes, uint8_t *b)
{
    vc_put_half(b, levels->d);
    vc_put_half(b + 2, levels->dmin);
    for (uint32_t j = 0; j < 8; j++) {
        vc_put_k_scale(b + 4, j, levels->scale[j], levels->minimum[j]);
    }
    vc_put_nibbles_256(b + 16, codes);
}

/* As Q4_K, with the fifth bits of element i in byte i % 32, bit i / 32, before the codes. */
VC_HD void vc_q5_k_put(const struct vc_k_levels *levels, const uint8_t *codes, uint8_t *b)
{
    vc_q4_k_put(levels, codes, b);
    vc_put_nibbles_256(b + 48, codes);
    for (uint32_t i = 0; i < 32; i++) {
        b[16 + i] = 0;
    }
    for (uint32_t k = 0; k < 8; k++) {
        for (uint32_t i = 0; i < 32; i++) {
            b[16 + i] |= (uint8_t)((codes[32 * k + i] >> 4 & 1) << k);
        }
    }
}

/* The reference's way, of which only the kind and the layout differ. */
#define VC_K_MAKE(name)                                                                           \
    VC_HD_LARGE void vc_##name##_make(const float *x, const float *h, float row_mean, uint8_t *b) \
    {                                                                                             \
        const struct vc_k_kind kind = VC_K_KIND_##name;                                           \
        struct vc_k_parts p;                                                                      \
        struct vc_k_levels levels;                                                                \
                                                                                                  \
        vc_k_search(x, h, kind, &p, &levels);                                                     \
        vc_##name##_put(&levels, p.codes, b);                                                     \
    }

VC_K_MAKE(q2_k)
VC_K_MAKE(q4_k)
VC_K_MAKE(q5_k)
#undef VC_K_MAKE

/* ---- K types with signed scales ---- */

/* Steps of signed scales in integers of -half .. half - 1, stored with + half: the largest magnitude gets -half, and so
 * do all where every scale is 0. */
VC_HD float vc_signed_levels(const float *scale, uint32_t n, int32_t half, int32_t *levels)
{
    float m = vc_largest_signed(scale, n);
    float inverse = m != 0.0f ? (float)-half / m : 0.0f;

    for (uint32_t j = 0; j < n; j++) {
        levels[j] = m != 0.0f ? vc_clamp_i32(vc_ggml_round(inverse * scale[j]), -half, half - 1) : -half;
    }
    return m != 0.0f ? 1.0f / inverse : 0.0f;
}

/* Codes -half .. half - 1, stored with + half, for the step d (as stored) times the levels of 16 parts. */
VC_HD_LARGE void vc_signed_codes(const float *x, float d, const int32_t *levels, int32_t half, uint8_t *codes)
{
    float stored = vc_f16_to_f32(vc_f32_to_f16(d));

    for (uint32_t i = 0; i < 256; i++) {
        float step = stored * (float)levels[i / 16];

        if (step != 0.0f) {
            codes[i] = (uint8_t)(vc_clamp_i32(vc_ggml_round(x[i] / step), -half, half - 1) + half);
        }
    }
}

/* hmask[32] codes[64] scales[12] d[2]; levels 0 .. 63 stand for -32 .. 31. Four low bits of scale j are in byte j % 8,
 * two high ones in byte 8 + j % 4 at bits 2 (j / 4). */
VC_HD_LARGE void vc_q3_k_put(float d, const int32_t *levels, const uint8_t *codes, uint8_t *b)
{
    uint8_t *scales = b + 96;

    for (uint32_t i = 0; i < 32; i++) {
        uint32_t bits = 0;

        for (uint32_t k = 0; k < 8; k++) {
            bits |= (uint32_t)(codes[32 * k + i] >> 2 & 1) << k;
        }
        b[i] = (uint8_t)bits;
    }
    vc_put_pairs_256(b + 32, codes);
    for (uint32_t j = 0; j < 12; j++) {
        scales[j] = 0;
    }
    for (uint32_t j = 0; j < 16; j++) {
        uint32_t level = (uint32_t)(levels[j] + 32);

        scales[j % 8] |= (uint8_t)((level & 15u) << (j < 8 ? 0 : 4));
        scales[8 + j % 4] |= (uint8_t)(level >> 4 << 2 * (j / 4));
    }
    vc_put_half(b + 108, d);
}

VC_HD_LARGE void vc_q3_k_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    float mean = h != NULL ? 2.0f * vc_sum_squares(x, 256) / 256.0f : 0.0f;
    float scale[16], weight[16], w[16];
    int32_t levels[16];
    uint8_t codes[256], stored[16];
    float d;

    for (uint32_t j = 0; j < 16; j++) {
        if (h == NULL) {
            scale[j] = vc_search_refined(x + 16 * j, 16, 4, codes + 16 * j);
            continue;
        }
        vc_weights_of(x + 16 * j, h + 16 * j, 16, mean, w);
        weight[j] = 0.0f;
        for (uint32_t i = 0; i < 16; i++) {
            weight[j] += w[i];
        }
        scale[j] = vc_search_signed(x + 16 * j, w, 16, 4, codes + 16 * j);
    }
    if (h == NULL) {
        d = vc_signed_levels(scale, 16, 32, levels);
    } else {
        d = vc_search_signed(scale, weight, 16, 32, stored);
        for (uint32_t j = 0; j < 16; j++) {
            levels[j] = (int32_t)stored[j] - 32;
        }
    }
    vc_signed_codes(x, d, levels, 4, codes);
    vc_q3_k_put(d, levels, codes, b);
}

/* low[128] high[64] scales[16] d[2]: see vc_q6_k_value. */
VC_HD_LARGE void vc_q6_k_put(float d, const int32_t *levels, const uint8_t *codes, uint8_t *b)
{
    for (uint32_t half = 0; half < 2; half++, codes += 128) {
        for (uint32_t i = 0; i < 64; i++) {
            b[64 * half + i] = (uint8_t)((codes[i] & 15u) | (codes[i + 64] & 15u) << 4);
        }
        for (uint32_t i = 0; i < 32; i++) {
            const uint8_t *c = codes + i;

            b[128 + 32 * half + i] = (uint8_t)((uint32_t)c[0] >> 4 | (uint32_t)c[32] >> 4 << 2 |
                                               (uint32_t)c[64] >> 4 << 4 | (uint32_t)c[96] >> 4 << 6);
        }
    }
    for (uint32_t j = 0; j < 16; j++) {
        b[192 + j] = (uint8_t)levels[j];
    }
    vc_put_half(b + 208, d);
}

VC_HD_LARGE void vc_q6_k_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    float scale[16];
    int32_t levels[16];
    uint8_t codes[256];

    for (uint32_t j = 0; j < 16; j++) {
        scale[j] = vc_search_signed(x + 16 * j, h != NULL ? h + 16 * j : NULL, 16, 32, codes + 16 * j);
    }
    if (fabsf(vc_largest_signed(scale, 16)) < VC_GGML_TINY) {
        for (uint32_t i = 0; i < VC_Q6_K_BYTES; i++) {
            b[i] = 0;
        }
        return;
    }
    float d = vc_signed_levels(scale, 16, 128, levels);
    vc_signed_codes(x, d, levels, 32, codes);
    vc_q6_k_put(d, levels, codes, b);
}

/* d[2] scales_h[2] scales_l[4]: of 8 parts of 32, levels 0 .. 63 for -32 .. 31. The codes follow. */
VC_HD void vc_iq4_xs_put_scales(float d, const int32_t *levels, uint8_t *b)
{
    vc_put_half(b, d);
    for (uint32_t i = 2; i < 8; i++) {
        b[i] = 0;
    }
    for (uint32_t j = 0; j < 8; j++) {
        uint32_t stored = (uint32_t)(levels[j] + 32);

        b[4 + j / 2] |= (uint8_t)((stored & 15u) << (j % 2 == 0 ? 0 : 4));
        b[2 + j / 4] |= (uint8_t)(stored >> 4 << 2 * (j % 4));
    }
}

/* The codes are made with the step before it was rounded to f16. */
VC_HD_LARGE void vc_iq4_xs_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    float mean = h != NULL ? 2.0f * vc_sum_squares(x, 256) / 256.0f : 0.0f;
    float scale[8];
    int32_t levels[8];

    for (uint32_t j = 0; j < 8; j++) {
        float w[32];

        if (h != NULL) {
            vc_weights_of(x + 32 * j, h + 32 * j, 32, mean, w);
        }
        scale[j] = vc_search_iq4(x + 32 * j, h != NULL ? w : NULL);
    }
    float m = vc_largest_signed(scale, 8);
    float d = -m / 32.0f;
    float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    for (uint32_t j = 0; j < 8; j++) {
        uint8_t codes[32];

        levels[j] = vc_clamp_i32(vc_ggml_round(inverse * scale[j]), -32, 31);
        float step = d * (float)levels[j];
        step = step != 0.0f ? 1.0f / step : 0.0f;
        for (uint32_t i = 0; i < 32; i++) {
            codes[i] = (uint8_t)vc_iq4_code(step * x[32 * j + i]);
        }
        vc_put_nibbles_32(b + 8 + 16 * j, codes);
    }
    vc_iq4_xs_put_scales(d, levels, b);
}

/* Five base-3 digits in a byte, the first element's first: ceil(256 * number / 243). */
VC_HD uint8_t vc_trits(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e)
{
    uint32_t number = (((a * 3 + b) * 3 + c) * 3 + d) * 3 + e;

    return (uint8_t)((number * 256 + 242) / 243);
}

/* codes[48] rest[4] d[2]: 160 elements as five runs of 32, 80 as five of 16, 16 as four of 4. */
VC_HD void vc_tq1_0_put(float d, const uint8_t *c, uint8_t *b)
{
    for (uint32_t i = 0; i < 32; i++) {
        b[i] = vc_trits(c[i], c[32 + i], c[64 + i], c[96 + i], c[128 + i]);
    }
    for (uint32_t i = 0; i < 16; i++) {
        b[32 + i] = vc_trits(c[160 + i], c[176 + i], c[192 + i], c[208 + i], c[224 + i]);
    }
    for (uint32_t i = 0; i < 4; i++) {
        b[48 + i] = vc_trits(c[240 + i], c[244 + i], c[248 + i], c[252 + i], 0);
    }
    vc_put_half(b + 52, d);
}

/* Unlike in other types the step comes last. */
VC_HD void vc_tq2_0_put(float d, const uint8_t *c, uint8_t *b)
{
    vc_put_pairs_256(b, c);
    vc_put_half(b + 64, d);
}

VC_HD_LARGE void vc_tq1_0_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    uint8_t codes[256];

    vc_tq1_0_put(vc_ternary(x, 256, codes), codes, b);
}

VC_HD_LARGE void vc_tq2_0_make(const float *x, const float *h, float row_mean, uint8_t *b)
{
    uint8_t codes[256];

    vc_tq2_0_put(vc_ternary(x, 256, codes), codes, b);
}
