/* block_encode.h - GGUF's blocks from weights: bit for bit what llama.cpp's reference quantizers make. For C, C++ and
 * CUDA, as arith.h; blocks.h has the layouts and the way back, block_search.h the search for scales. Q8_0 is in
 * blocks.h, since a kernel of its own makes it.
 *
 * vc_<name>_make makes one block of x, 32 to 256 finite elements, in room->block[1]. h: the importance of each element's
 * column, from statistics of data (E[x^2] of the inputs), or NULL without; row_mean: the mean square of the whole row (read by
 * Q4_0 to Q5_1 with h). x and h lie part after part with VC_PITCH (VC_PART_<name>) floats each. Steps beyond f16 are stored as
 * Inf: vc_block_is_finite tells. Functions of a team (block_search.h) end with all that they stored there for all threads. */
#pragma once

#include "kernels/block_search.h"

/* NaN, where products overflow, has no sign: processors differ in that of the NaN that they make. */
VC_HD void vc_put_half(uint8_t *p, float x)
{
    uint16_t h = x == x ? vc_f32_to_f16(x) : (uint16_t)0x7e00;

    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* Elements of a part: those that share a scale, or all of the block. */
#define VC_PART_q4_0   32
#define VC_PART_q4_1   32
#define VC_PART_q5_0   32
#define VC_PART_q5_1   32
#define VC_PART_q8_0   32
#define VC_PART_q2_k   16
#define VC_PART_q3_k   16
#define VC_PART_q4_k   32
#define VC_PART_q5_k   32
#define VC_PART_q6_k   16
#define VC_PART_iq4_nl 32
#define VC_PART_iq4_xs 32
#define VC_PART_mxfp4  32
#define VC_PART_nvfp4  16
#define VC_PART_q1_0   128
#define VC_PART_q2_0   64
#define VC_PART_tq1_0  256
#define VC_PART_tq2_0  256

/* Part j of an array of parts of n floats; NULL stays NULL. */
VC_HD const float *vc_part(const float *x, uint32_t n, uint32_t j)
{
    return x != NULL ? x + VC_PITCH(n) * j : NULL;
}

/* Sum of x * x of parts of n elements, in the order of the elements. */
VC_TEAM_INLINE float vc_sum_squares(const float *x, uint32_t n, uint32_t parts)
{
    float sum = 0.0f;

    for (uint32_t j = 0; j < parts; j++) {
        for (uint32_t i = 0; i < n; i++) {
            sum += vc_part(x, n, j)[i] * vc_part(x, n, j)[i];
        }
    }
    return sum;
}

/* w = h * sqrt(mean + x * x): the weights of a search with statistics. */
VC_TEAM void vc_weights_of(const float *x, const float *h, uint32_t n, uint32_t parts, float mean, float *w)
{
    VC_EACH(i, n, parts)
    {
        w[i] = h[i] * sqrtf(mean + x[i] * x[i]);
    }
    VC_TOGETHER();
}

/* The sum of n of them. */
VC_TEAM_INLINE float vc_sum_of(const float *w, uint32_t n)
{
    float sum = 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        sum += w[i];
    }
    return sum;
}

/* What one thread of a team stores. */
#define VC_ONE if (VC_HAND(1) == 0)

/* ---- 32 elements: Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4 ---- */

/* Codes of 4 bits as vc_nibble_32 reads them, and of 5 bits: the fifth ones in the four bytes before. */
VC_TEAM_INLINE void vc_put_nibbles_32(uint8_t *p, const uint8_t *codes)
{
    VC_EACH(i, 16, 1)
    {
        p[i] = (uint8_t)((codes[i] & 15u) | (codes[i + 16] & 15u) << 4);
    }
}

VC_TEAM_INLINE void vc_put_fifth_bits(uint8_t *p, const uint8_t *codes)
{
    VC_EACH(i, 4, 1)
    {
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
VC_TEAM float vc_symmetric_32(const float *x, const float *h, float row_mean, int32_t half, struct vc_block_room *room)
{
    float step;

    if (h != NULL) {
        vc_weights_of(x, h, 32, 1, row_mean, room->w);
        step = vc_search_signed(x, room->w, 32, 1, half, room->codes);
    } else {
        step = vc_largest_signed(x, 32) / (float)-half;
        float inverse = step != 0.0f ? 1.0f / step : 0.0f;
        VC_EACH(i, 32, 1)
        {
            room->codes[i] = vc_truncated(x[i] * inverse + ((float)half + 0.5f), 2 * half - 1);
        }
    }
    VC_TOGETHER();
    return step;
}

/* Codes 0 .. most from the least element up. */
VC_TEAM float vc_affine_32(const float *x, const float *h, float row_mean, int32_t most, struct vc_block_room *room,
                           float *least)
{
    const struct vc_affine_tries tries = {-0.9f, 0.05f, 36, false};
    float step;

    if (h != NULL) {
        float minimum;

        vc_weights_of(x, h, 32, 1, row_mean, room->w);
        step = vc_search_affine(x, room->w, 32, 1, most, tries, room->codes, &minimum);
        *least = -minimum;
    } else {
        float low = x[0];
        float top = x[0];

        for (uint32_t i = 1; i < 32; i++) {
            low = x[i] < low ? x[i] : low;
            top = x[i] > top ? x[i] : top;
        }
        step = (top - low) / (float)most;
        float inverse = step != 0.0f ? 1.0f / step : 0.0f;
        VC_EACH(i, 32, 1)
        {
            room->codes[i] = vc_truncated((x[i] - low) * inverse + 0.5f, most);
        }
        *least = low;
    }
    VC_TOGETHER();
    return step;
}

/* A step, perhaps an offset, perhaps fifth bits, nibbles: the layout of the types that begin a block with halves. */
VC_TEAM void vc_put_32(uint8_t *b, float step, const float *least, bool fifth, const uint8_t *codes)
{
    VC_ONE
    {
        vc_put_half(b, step);
        if (least != NULL) {
            vc_put_half(b + 2, *least);
        }
    }
    b += least != NULL ? 4 : 2;
    if (fifth) {
        vc_put_fifth_bits(b, codes);
    }
    vc_put_nibbles_32(b + (fifth ? 4 : 0), codes);
    VC_TOGETHER();
}

#define VC_MAKE(name) \
    VC_TEAM const uint8_t *vc_##name##_make(const float *x, const float *h, float row_mean, struct vc_block_room *room)

VC_MAKE(q4_0)
{
    vc_put_32(room->block[1], vc_symmetric_32(x, h, row_mean, 8, room), NULL, false, room->codes);
    return room->block[1];
}

VC_MAKE(q4_1)
{
    float least;
    float step = vc_affine_32(x, h, row_mean, 15, room, &least);

    vc_put_32(room->block[1], step, &least, false, room->codes);
    return room->block[1];
}

VC_MAKE(q5_0)
{
    vc_put_32(room->block[1], vc_symmetric_32(x, h, row_mean, 16, room), NULL, true, room->codes);
    return room->block[1];
}

VC_MAKE(q5_1)
{
    float least;
    float step = vc_affine_32(x, h, row_mean, 31, room, &least);

    vc_put_32(room->block[1], step, &least, true, room->codes);
    return room->block[1];
}

VC_MAKE(iq4_nl)
{
    if (h != NULL) {
        vc_weights_of(x, h, 32, 1, 2.0f * vc_sum_squares(x, 32, 1) / 32.0f, room->w);
    }
    float scale = vc_search_iq4(x, h != NULL ? room->w : NULL, 1);
    float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    VC_EACH(i, 32, 1)
    {
        room->codes[i] = (uint8_t)vc_iq4_code(inverse * x[i]);
    }
    VC_TOGETHER();
    vc_put_32(room->block[1], scale, NULL, false, room->codes);
    return room->block[1];
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

/* A block of MXFP4 with exponent e. */
VC_TEAM void vc_mxfp4_put(const float *x, uint8_t e, struct vc_block_room *room, uint8_t *b)
{
    VC_EACH(i, 32, 1)
    {
        room->codes[i] = (uint8_t)vc_e2m1_code(x[i], vc_e8m0_half(e));
    }
    VC_TOGETHER();
    VC_ONE
    {
        b[0] = e;
    }
    vc_put_nibbles_32(b + 1, room->codes);
    VC_TOGETHER();
}

VC_MAKE(mxfp4)
{
    float a = fabsf(vc_largest_signed(x, 32));
    uint8_t e = a > 0.0f ? (uint8_t)vc_clamp_i32(vc_floor_log2f(a) - 2 + 127, 0, 254) : 0;

    vc_mxfp4_put(x, e, room, room->block[1]);
    return room->block[1];
}

/* Q8_0 as vc_q8_0_rows makes it. */
VC_MAKE(q8_0)
{
    float step = vc_q8_0_step(vc_f32_magnitude(vc_largest_signed(x, 32)));
    uint8_t *b = room->block[1];

    VC_ONE
    {
        vc_put_half(b, step);
    }
    VC_EACH(i, 32, 1)
    {
        b[2 + i] = (uint8_t)vc_q8_0_encode(x[i], vc_q8_0_inverse(step));
    }
    VC_TOGETHER();
    return b;
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

/* Part j of a block: its scale, and 16 codes for half of that. */
VC_TEAM_INLINE void vc_nvfp4_put_part(const float *x, uint32_t j, uint8_t scale, uint8_t *b)
{
    float half = vc_ue4m3_value(scale) * 0.5f;

    if (VC_HAND(4) == 0) {
        b[j] = scale;
    }
    VC_EACH(i, 8, 4)
    {
        b[4 + 8 * j + i] = (uint8_t)(vc_e2m1_code(x[i], half) | vc_e2m1_code(x[i + 8], half) << 4);
    }
}

VC_MAKE(nvfp4)
{
    VC_PARTS(j, 4)
    {
        const float *part = vc_part(x, 16, j);

        vc_nvfp4_put_part(part, j, vc_ue4m3_of(fabsf(vc_largest_signed(part, 16)) / 6.0f), room->block[1]);
    }
    VC_TOGETHER();
    return room->block[1];
}

/* -1, 0 or 1 for each element, as 0, 1, 2: x over the largest magnitude, halves away from zero. Returns the step. */
VC_TEAM float vc_ternary(const float *x, uint32_t n, uint8_t *codes)
{
    float step = fabsf(vc_largest_signed(x, n));
    float inverse = step != 0.0f ? 1.0f / step : 0.0f;

    VC_EACH(i, n, 1)
    {
        codes[i] = (uint8_t)(1 + (x[i] * inverse >= 0.5f) - (x[i] * inverse <= -0.5f));
    }
    VC_TOGETHER();
    return step;
}

/* Four codes in a byte, neighbours together: not as in the K types, where they lie 32 apart. */
VC_TEAM_INLINE void vc_q2_0_put(float d, const uint8_t *c, uint8_t *b)
{
    VC_ONE
    {
        vc_put_half(b, d);
    }
    VC_EACH(i, 16, 1)
    {
        b[2 + i] = (uint8_t)(c[4 * i] | c[4 * i + 1] << 2 | c[4 * i + 2] << 4 | c[4 * i + 3] << 6);
    }
    VC_TOGETHER();
}

VC_MAKE(q2_0)
{
    vc_q2_0_put(vc_ternary(x, 64, room->codes), room->codes, room->block[1]);
    return room->block[1];
}

VC_MAKE(q1_0)
{
    float sum = 0.0f;
    uint8_t *b = room->block[1];

    for (uint32_t i = 0; i < 128; i++) {
        sum += fabsf(x[i]);
    }
    VC_ONE
    {
        vc_put_half(b, sum / 128.0f);
    }
    VC_EACH(i, 16, 1)
    {
        uint32_t bits = 0;

        for (uint32_t k = 0; k < 8; k++) {
            bits |= (uint32_t)(x[8 * i + k] >= 0.0f) << k;
        }
        b[2 + i] = (uint8_t)bits;
    }
    VC_TOGETHER();
    return b;
}

/* ---- 256 elements: Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS, TQ1_0, TQ2_0 ---- */

/* 2-bit codes: for each 128 elements 32 bytes, each with the codes of elements l, l + 32, l + 64 and l + 96. */
VC_TEAM_INLINE void vc_put_pairs_256(uint8_t *p, const uint8_t *codes)
{
    for (uint32_t half = 0; half < 2; half++, p += 32, codes += 128) {
        VC_EACH(i, 32, 1)
        {
            const uint8_t *c = codes + i;

            p[i] = (uint8_t)((c[0] & 3u) | (c[32] & 3u) << 2 | (c[64] & 3u) << 4 | (c[96] & 3u) << 6);
        }
    }
}

/* 4-bit codes as vc_nibble_256 reads them. */
VC_TEAM_INLINE void vc_put_nibbles_256(uint8_t *p, const uint8_t *codes)
{
    for (uint32_t part = 0; part < 4; part++, p += 32, codes += 64) {
        VC_EACH(i, 32, 1)
        {
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

/* What the whole numbers of a K block's scales and minima are multiplied by. */
struct vc_k_steps {
    float d, dmin;
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
VC_TEAM float vc_k_level_simple(const float *x, uint32_t n, int32_t most, uint8_t *levels)
{
    float top = vc_most_of(x, n);
    float inverse = top > 0.0f ? (float)most / top : 0.0f;
    uint32_t parts = n < 16 ? n : 16; /* there are no more, which gcc 14 wants to be told */

    VC_EACH(j, parts, 1)
    {
        int32_t k = vc_ggml_round(inverse * x[j]);

        levels[j] = (uint8_t)(k < most ? k : most);
    }
    return top > 0.0f ? top / (float)most : 0.0f;
}

/* The scales of the parts, and their minima, become whole numbers of 0 .. most: room->level. */
VC_TEAM struct vc_k_steps vc_k_levels_find(uint32_t n, int32_t most, bool statistics, struct vc_block_room *room)
{
    struct vc_k_steps steps = {0.0f, 0.0f};

    if (statistics) {
        VC_PARTS(j, 2)
        {
            float found = vc_search_positive(j == 0 ? room->scale : room->minimum, room->weight, n, 2, most,
                                             room->u.l + 32 * j, room->level[j]);

            if (VC_HAND(2) == 0) {
                room->sums[j] = found;
            }
        }
        VC_TOGETHER();
        steps.d = room->sums[0];
        steps.dmin = room->sums[1];
    } else {
        steps.d = vc_k_level_simple(room->scale, n, most, room->level[0]);
        steps.dmin = vc_k_level_simple(room->minimum, n, most, room->level[1]);
    }
    VC_TOGETHER();
    return steps;
}

/* The final codes, for the steps as they are stored. Parts whose stored scale is 0 keep the codes of the search. */
VC_TEAM void vc_k_codes(const float *x, uint32_t n_parts, int32_t most, struct vc_k_steps steps,
                        struct vc_block_room *room)
{
    float d = vc_f16_to_f32(vc_f32_to_f16(steps.d));
    float dmin = vc_f16_to_f32(vc_f32_to_f16(steps.dmin));
    uint32_t n = 256 / n_parts;

    VC_PARTS(j, n_parts)
    {
        const float *part = vc_part(x, n, j);
        float step = d * (float)room->level[0][j];
        float least = dmin * (float)room->level[1][j];

        if (step != 0.0f) {
            VC_EACH(i, n, n_parts)
            {
                room->codes[n * j + i] = (uint8_t)vc_clamp_i32(vc_ggml_round((part[i] + least) / step), 0, most);
            }
        }
    }
    VC_TOGETHER();
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

VC_TEAM void vc_k_parts_find(const float *x, const float *h, struct vc_k_kind kind, struct vc_block_room *room)
{
    const struct vc_affine_tries with_statistics = {-0.9f, 0.05f, 36, false};
    uint32_t n = 256 / kind.n_parts;
    float mean = h != NULL ? kind.mean * vc_sum_squares(x, n, kind.n_parts) / 256.0f : 0.0f;

    VC_PARTS(j, kind.n_parts)
    {
        const float *part = vc_part(x, n, j);
        float *w = room->w + VC_PITCH(n) * j;
        float minimum;

        if (h != NULL) {
            vc_weights_of(part, vc_part(h, n, j), n, kind.n_parts, mean, w);
        } else {
            float root = kind.n_parts == 8 ? sqrtf(vc_sum_squares(part, n, 1) / (float)n) : 0.0f;

            VC_EACH(i, n, kind.n_parts)
            {
                w[i] = kind.n_parts == 8 ? root + fabsf(part[i]) : fabsf(part[i]);
            }
            VC_TOGETHER();
        }
        float scale = vc_search_affine(part, w, n, kind.n_parts, kind.most, h != NULL ? with_statistics : kind.tries,
                                       room->codes + n * j, &minimum);
        if (VC_HAND(kind.n_parts) == 0) {
            room->scale[j] = scale;
            room->minimum[j] = minimum;
            room->weight[j] = h != NULL ? vc_sum_of(w, n) : 0.0f;
        }
    }
    VC_TOGETHER();
}

/* 16 bytes of levels, 64 of codes, d, dmin. */
VC_TEAM_INLINE void vc_q2_k_put(struct vc_k_steps steps, uint8_t (*level)[16], const uint8_t *codes, uint8_t *b)
{
    VC_EACH(j, 16, 1)
    {
        b[j] = (uint8_t)(level[0][j] | level[1][j] << 4);
    }
    vc_put_pairs_256(b + 16, codes);
    VC_ONE
    {
        vc_put_half(b + 80, steps.d);
        vc_put_half(b + 82, steps.dmin);
    }
    VC_TOGETHER();
}

/* d, dmin, 12 bytes of levels of six bits, which Q4_K and Q5_K begin with. */
VC_TEAM_INLINE void vc_k_put_levels(struct vc_k_steps steps, uint8_t (*level)[16], uint8_t *b)
{
    VC_ONE
    {
        vc_put_half(b, steps.d);
        vc_put_half(b + 2, steps.dmin);
        for (uint32_t j = 0; j < 8; j++) {
            vc_put_k_scale(b + 4, j, level[0][j], level[1][j]);
        }
    }
}

/* Then 128 bytes of codes. */
VC_TEAM_INLINE void vc_q4_k_put(struct vc_k_steps steps, uint8_t (*level)[16], const uint8_t *codes, uint8_t *b)
{
    vc_k_put_levels(steps, level, b);
    vc_put_nibbles_256(b + 16, codes);
    VC_TOGETHER();
}

/* As Q4_K, with the fifth bits of element i in byte i % 32, bit i / 32, before the codes. */
VC_TEAM_INLINE void vc_q5_k_put(struct vc_k_steps steps, uint8_t (*level)[16], const uint8_t *codes, uint8_t *b)
{
    vc_k_put_levels(steps, level, b);
    vc_put_nibbles_256(b + 48, codes);
    VC_EACH(i, 32, 1)
    {
        uint32_t bits = 0;

        for (uint32_t k = 0; k < 8; k++) {
            bits |= (uint32_t)(codes[32 * k + i] >> 4 & 1) << k;
        }
        b[16 + i] = (uint8_t)bits;
    }
    VC_TOGETHER();
}

/* The reference's way, of which only the kind and the layout differ. */
#define VC_K_MAKE(name)                                                                             \
    VC_MAKE(name)                                                                                   \
    {                                                                                               \
        const struct vc_k_kind kind = VC_K_KIND_##name;                                             \
                                                                                                    \
        vc_k_parts_find(x, h, kind, room);                                                          \
        struct vc_k_steps steps = vc_k_levels_find(kind.n_parts, kind.most_level, h != NULL, room); \
        vc_k_codes(x, kind.n_parts, kind.most, steps, room);                                        \
        vc_##name##_put(steps, room->level, room->codes, room->block[1]);                           \
        return room->block[1];                                                                      \
    }

VC_K_MAKE(q2_k)
VC_K_MAKE(q4_k)
VC_K_MAKE(q5_k)
#undef VC_K_MAKE

/* ---- K types with signed scales ---- */

/* Steps of signed scales in integers of -half .. half - 1, stored with + half: the largest magnitude gets -half, and so
 * do all where every scale is 0. */
VC_TEAM float vc_signed_levels(const float *scale, uint32_t n, int32_t half, int32_t *levels)
{
    float m = vc_largest_signed(scale, n);
    float inverse = m != 0.0f ? (float)-half / m : 0.0f;

    VC_EACH(j, n, 1)
    {
        levels[j] = m != 0.0f ? vc_clamp_i32(vc_ggml_round(inverse * scale[j]), -half, half - 1) : -half;
    }
    VC_TOGETHER();
    return m != 0.0f ? 1.0f / inverse : 0.0f;
}

/* Codes -half .. half - 1, stored with + half, for the step d (as stored) times the levels of 16 parts. */
VC_TEAM void vc_signed_codes(const float *x, float d, int32_t half, struct vc_block_room *room)
{
    float stored = vc_f16_to_f32(vc_f32_to_f16(d));

    VC_EACH(i, 256, 1)
    {
        float step = stored * (float)room->levels[i / 16];

        if (step != 0.0f) {
            int32_t code = vc_clamp_i32(vc_ggml_round(x[VC_PLACE(i, 16)] / step), -half, half - 1);

            room->codes[i] = (uint8_t)(code + half);
        }
    }
    VC_TOGETHER();
}

/* hmask[32] codes[64] scales[12] d[2]; levels 0 .. 63 stand for -32 .. 31. Four low bits of scale j are in byte j % 8,
 * two high ones in byte 8 + j % 4 at bits 2 (j / 4). */
VC_TEAM void vc_q3_k_put(float d, const int32_t *levels, const uint8_t *codes, uint8_t *b)
{
    VC_EACH(i, 32, 1)
    {
        uint32_t bits = 0;

        for (uint32_t k = 0; k < 8; k++) {
            bits |= (uint32_t)(codes[32 * k + i] >> 2 & 1) << k;
        }
        b[i] = (uint8_t)bits;
    }
    vc_put_pairs_256(b + 32, codes);
    VC_EACH(i, 12, 1)
    {
        uint32_t bits = 0;

        if (i < 8) {
            bits = ((uint32_t)(levels[i] + 32) & 15u) | ((uint32_t)(levels[i + 8] + 32) & 15u) << 4;
        }
        for (uint32_t k = 0; i >= 8 && k < 4; k++) {
            bits |= (uint32_t)(levels[i - 8 + 4 * k] + 32) >> 4 << 2 * k;
        }
        b[96 + i] = (uint8_t)bits;
    }
    VC_ONE
    {
        vc_put_half(b + 108, d);
    }
    VC_TOGETHER();
}

VC_MAKE(q3_k)
{
    float mean = h != NULL ? 2.0f * vc_sum_squares(x, 16, 16) / 256.0f : 0.0f;
    float d;

    VC_PARTS(j, 16)
    {
        const float *part = vc_part(x, 16, j);
        float *w = room->w + VC_PITCH(16) * j;
        float scale;

        if (h == NULL) {
            scale = vc_search_refined(part, 16, 16, 4, room->u.l + VC_PITCH(16) * j, room->codes + 16 * j);
        } else {
            vc_weights_of(part, vc_part(h, 16, j), 16, 16, mean, w);
            scale = vc_search_signed(part, w, 16, 16, 4, room->codes + 16 * j);
        }
        if (VC_HAND(16) == 0) {
            room->scale[j] = scale;
            room->weight[j] = h != NULL ? vc_sum_of(w, 16) : 0.0f;
        }
    }
    VC_TOGETHER();
    if (h == NULL) {
        d = vc_signed_levels(room->scale, 16, 32, room->levels);
    } else {
        d = vc_search_signed(room->scale, room->weight, 16, 1, 32, room->level[0]);
        VC_TOGETHER();
        VC_EACH(j, 16, 1)
        {
            room->levels[j] = (int32_t)room->level[0][j] - 32;
        }
        VC_TOGETHER();
    }
    vc_signed_codes(x, d, 4, room);
    vc_q3_k_put(d, room->levels, room->codes, room->block[1]);
    return room->block[1];
}

/* low[128] high[64] scales[16] d[2]: see vc_q6_k_value. */
VC_TEAM void vc_q6_k_put(float d, const int32_t *levels, const uint8_t *codes, uint8_t *b)
{
    for (uint32_t half = 0; half < 2; half++, codes += 128) {
        VC_EACH(i, 64, 1)
        {
            b[64 * half + i] = (uint8_t)((codes[i] & 15u) | (codes[i + 64] & 15u) << 4);
        }
        VC_EACH(i, 32, 1)
        {
            const uint8_t *c = codes + i;

            b[128 + 32 * half + i] = (uint8_t)((uint32_t)c[0] >> 4 | (uint32_t)c[32] >> 4 << 2 |
                                               (uint32_t)c[64] >> 4 << 4 | (uint32_t)c[96] >> 4 << 6);
        }
    }
    VC_EACH(j, 16, 1)
    {
        b[192 + j] = (uint8_t)levels[j];
    }
    VC_ONE
    {
        vc_put_half(b + 208, d);
    }
    VC_TOGETHER();
}

VC_MAKE(q6_k)
{
    VC_PARTS(j, 16)
    {
        float scale = vc_search_signed(vc_part(x, 16, j), vc_part(h, 16, j), 16, 16, 32, room->codes + 16 * j);

        if (VC_HAND(16) == 0) {
            room->scale[j] = scale;
        }
    }
    VC_TOGETHER();
    if (fabsf(vc_largest_signed(room->scale, 16)) < VC_GGML_TINY) {
        VC_EACH(i, VC_Q6_K_BYTES, 1)
        {
            room->block[1][i] = 0;
        }
        VC_TOGETHER();
        return room->block[1];
    }
    float d = vc_signed_levels(room->scale, 16, 128, room->levels);
    vc_signed_codes(x, d, 32, room);
    vc_q6_k_put(d, room->levels, room->codes, room->block[1]);
    return room->block[1];
}

/* d[2] scales_h[2] scales_l[4]: of 8 parts of 32, levels 0 .. 63 for -32 .. 31. The codes follow. One thread. */
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

VC_TEAM_INLINE void vc_iq4_xs_put(float d, const struct vc_block_room *room, uint8_t *b)
{
    VC_ONE
    {
        vc_iq4_xs_put_scales(d, room->levels, b);
    }
    for (uint32_t j = 0; j < 8; j++) {
        vc_put_nibbles_32(b + 8 + 16 * j, room->codes + 32 * j);
    }
    VC_TOGETHER();
}

/* The codes are made with the step before it was rounded to f16. */
VC_MAKE(iq4_xs)
{
    float mean = h != NULL ? 2.0f * vc_sum_squares(x, 32, 8) / 256.0f : 0.0f;
    uint8_t *b = room->block[1];

    VC_PARTS(j, 8)
    {
        float *w = room->w + VC_PITCH(32) * j;

        if (h != NULL) {
            vc_weights_of(vc_part(x, 32, j), vc_part(h, 32, j), 32, 8, mean, w);
        }
        float scale = vc_search_iq4(vc_part(x, 32, j), h != NULL ? w : NULL, 8);
        if (VC_HAND(8) == 0) {
            room->scale[j] = scale;
        }
    }
    VC_TOGETHER();
    float m = vc_largest_signed(room->scale, 8);
    float d = -m / 32.0f;
    float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    VC_PARTS(j, 8)
    {
        int32_t level = vc_clamp_i32(vc_ggml_round(inverse * room->scale[j]), -32, 31);
        float step = d * (float)level;

        if (VC_HAND(8) == 0) {
            room->levels[j] = level;
        }
        step = step != 0.0f ? 1.0f / step : 0.0f;
        VC_EACH(i, 32, 8)
        {
            room->codes[32 * j + i] = (uint8_t)vc_iq4_code(step * vc_part(x, 32, j)[i]);
        }
    }
    VC_TOGETHER();
    vc_iq4_xs_put(d, room, b);
    return b;
}

/* Five base-3 digits in a byte, the first element's first: ceil(256 * number / 243). */
VC_HD uint8_t vc_trits(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e)
{
    uint32_t number = (((a * 3 + b) * 3 + c) * 3 + d) * 3 + e;

    return (uint8_t)((number * 256 + 242) / 243);
}

/* codes[48] rest[4] d[2]: 160 elements as five runs of 32, 80 as five of 16, 16 as four of 4. */
VC_TEAM_INLINE void vc_tq1_0_put(float d, const uint8_t *c, uint8_t *b)
{
    VC_EACH(i, 32, 1)
    {
        b[i] = vc_trits(c[i], c[32 + i], c[64 + i], c[96 + i], c[128 + i]);
    }
    VC_EACH(i, 16, 1)
    {
        b[32 + i] = vc_trits(c[160 + i], c[176 + i], c[192 + i], c[208 + i], c[224 + i]);
    }
    VC_EACH(i, 4, 1)
    {
        b[48 + i] = vc_trits(c[240 + i], c[244 + i], c[248 + i], c[252 + i], 0);
    }
    VC_ONE
    {
        vc_put_half(b + 52, d);
    }
    VC_TOGETHER();
}

/* Unlike in other types the step comes last. */
VC_TEAM_INLINE void vc_tq2_0_put(float d, const uint8_t *c, uint8_t *b)
{
    vc_put_pairs_256(b, c);
    VC_ONE
    {
        vc_put_half(b + 64, d);
    }
    VC_TOGETHER();
}

VC_MAKE(tq1_0)
{
    vc_tq1_0_put(vc_ternary(x, 256, room->codes), room->codes, room->block[1]);
    return room->block[1];
}

VC_MAKE(tq2_0)
{
    vc_tq2_0_put(vc_ternary(x, 256, room->codes), room->codes, room->block[1]);
    return room->block[1];
}
