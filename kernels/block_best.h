/* block_best.h - GGUF's blocks with less error than llama.cpp's quantizers leave: the same layouts, other scales and
 * codes, which every decoder reads. For C, C++ and CUDA, as arith.h; block_encode.h has the reference encoders and the
 * layouts.
 *
 * How: several starts for a scale, each followed by least squares; scales are rounded as the block stores them before
 * they are judged; the lowest sum of w (x - y)^2 wins, of equal ones the first. Each block is then compared with that
 * of the reference encoder, in f64, and the better one is kept, so no block is worse. docs/numerics.md has the
 * decibels.
 *
 * Arguments are those of block_encode.h. w, the weights of a search, are h, or 1 without.
 *
 * One signed scale, for a part of three values and codes -1 to 2:
 *
 *     x      0.9  -0.5  0.2        starts for s: 32 and more, from small to large, of both signs
 *     q      2    -1    0          the nearest codes of a start, s 0.45
 *     s      sum x q / sum q q     = (1.8 + 0.5) / 5 = 0.46: the best scale for these codes */
#pragma once

#include "kernels/block_encode.h"

/* The nearest f16, and whether it can be a step: finite and not 0. */
VC_HD float vc_as_half(float x)
{
    return vc_f16_to_f32(vc_f32_to_f16(x));
}

/* Whether values can be divided by it: neither 0 nor Inf nor NaN. */
VC_HD bool vc_is_step(float s)
{
    uint32_t m = vc_f32_magnitude(s);

    return m != 0 && m < VC_F32_INF_BITS;
}

/* The nearest f16, but not 0 for what is not 0: the least step still has codes where the nearest has none. */
VC_HD float vc_stored_step(float s)
{
    float h = vc_as_half(s);

    return h == 0.0f && s != 0.0f ? (s < 0.0f ? -0x1p-24f : 0x1p-24f) : h;
}

/* The first step d (an f16) whose multiples are the scales of parts, the largest of which is its `most`-th multiple, or -most-th.
 * Where f16 is coarse, below 2^-14, d is rounded away from 0: with a smaller one the largest scale would have no level, and
 * with d = 0 the block no values. */
VC_HD float vc_first_step(float largest, int32_t most)
{
    float wanted = largest / (float)most;
    float d = vc_as_half(wanted);

    if (fabsf(wanted) < 0x1p-14f && fabsf(d) < fabsf(wanted)) {
        d += wanted < 0.0f ? -0x1p-24f : 0x1p-24f;
    }
    return d;
}

/* The integer nearest to x, in [least, most]; NaN gives least. */
VC_HD int32_t vc_nearest(float x, int32_t least, int32_t most)
{
    float low = (float)least;
    float high = (float)most;

    x = x > low ? x : low; /* the order matters for NaN */
    x = x < high ? x : high;
    return vc_ggml_round(x); /* halves to even */
}

/* The weight of element i, 1 for all without statistics. */
VC_HD float vc_weight_or_1(const float *w, uint32_t i)
{
    return w != NULL ? w[i] : 1.0f;
}

/* ---- one signed scale ---- */

/* Codes least .. most for values s * code, s an f16 if `stored`, else any. */
struct vc_best_range {
    int32_t least, most;
    float first, by; /* starts: f * largest magnitude / unit, f = first + k * by, k = 0 .. 15, both signs */
    float unit;
    bool stored;
    int32_t n_even; /* more starts, with which the largest magnitude has the codes +-most, +-(most - 1), ...: for parts
                       of few values, +-0.5 say, between which the others jump where codes are few */
};

/* Ranges of the types. Where a part has few codes the starts lie farther apart. */
#define VC_RANGE_q4_0                     \
    {                                     \
        -8, 7, 0.5f, 0.04f, 8.0f, true, 0 \
    }
#define VC_RANGE_q5_0                         \
    {                                         \
        -16, 15, 0.7f, 0.025f, 16.0f, true, 0 \
    }
#define VC_RANGE_q8_0                            \
    {                                            \
        -128, 127, 0.9f, 0.008f, 128.0f, true, 0 \
    }
#define VC_RANGE_q2_0                     \
    {                                     \
        -1, 2, 0.2f, 0.04f, 1.0f, true, 0 \
    }
#define VC_RANGE_q3_k                      \
    {                                      \
        -4, 3, 0.5f, 0.04f, 4.0f, false, 3 \
    }
#define VC_RANGE_q6_k                          \
    {                                          \
        -32, 31, 0.8f, 0.015f, 32.0f, false, 0 \
    }

/* f of start k, from 0 to 31 + n_even. */
VC_HD float vc_best_start(struct vc_best_range r, int32_t k)
{
    if (k >= 32) {
        return r.unit / (float)(r.most - (k - 32));
    }
    return (k < 16 ? 1.0f : -1.0f) * (r.first + (float)(k % 16) * r.by);
}

/* The scale of the least error, 0 where there is none that can be stored. *error: that error. Each start gives codes,
 * the codes give the scale by least squares, and that is judged with the codes that are nearest to it. A start whose
 * scale or quotient is no finite number is passed over. */
VC_HD_LARGE float vc_best_signed(const float *x, const float *w, uint32_t n, struct vc_best_range r, float *error)
{
    float top = fabsf(vc_largest_signed(x, n));
    float best = 0.0f;

    *error = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        *error += vc_weight_or_1(w, i) * x[i] * x[i]; /* of the scale 0 */
    }
    for (int32_t k = 0; k < 32 + r.n_even; k++) {
        float s = vc_best_start(r, k) * top / r.unit;
        float inverse = 1.0f / s;
        float a = 0.0f;
        float b = 0.0f;
        float e = 0.0f;

        if (!vc_is_step(s) || !vc_is_step(inverse)) {
            continue;
        }
        for (uint32_t i = 0; i < n; i++) {
            /* the best s for these codes is sum x q / sum q q */
            float q = (float)vc_nearest(x[i] * inverse, r.least, r.most);

            a += vc_weight_or_1(w, i) * q * x[i];
            b += vc_weight_or_1(w, i) * q * q;
        }
        s = b > 0.0f ? a / b : 0.0f;
        /* judged as the block will have it */
        s = r.stored ? vc_stored_step(s) : s;
        inverse = 1.0f / s;
        if (!vc_is_step(s) || !vc_is_step(inverse)) {
            continue;
        }
        for (uint32_t i = 0; i < n; i++) {
            float d = x[i] - (float)vc_nearest(x[i] * inverse, r.least, r.most) * s;

            e += vc_weight_or_1(w, i) * d * d;
        }
        if (e < *error) {
            *error = e;
            best = s;
        }
    }
    return best;
}

/* The codes of that scale, stored with `offset` added. */
VC_HD_LARGE void vc_best_signed_codes(const float *x, uint32_t n, float s, struct vc_best_range r, int32_t offset,
                                      uint8_t *codes)
{
    float inverse = s != 0.0f ? 1.0f / s : 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        codes[i] = (uint8_t)(vc_nearest(x[i] * inverse, r.least, r.most) + offset);
    }
}

/* Codes -8 to 7, stored with 8 added. */
VC_HD void vc_q4_0_search(const float *x, const float *h, uint8_t *b)
{
    const struct vc_best_range r = VC_RANGE_q4_0;
    uint8_t codes[32];
    float error;
    float s = vc_best_signed(x, h, 32, r, &error);

    vc_best_signed_codes(x, 32, s, r, 8, codes);
    vc_put_half(b, s);
    vc_put_nibbles_32(b + 2, codes);
}

/* Codes -16 to 15; their fifth bits lie together, before the nibbles. */
VC_HD void vc_q5_0_search(const float *x, const float *h, uint8_t *b)
{
    const struct vc_best_range r = VC_RANGE_q5_0;
    uint8_t codes[32];
    float error;
    float s = vc_best_signed(x, h, 32, r, &error);

    vc_best_signed_codes(x, 32, s, r, 16, codes);
    vc_put_half(b, s);
    vc_put_fifth_bits(b + 2, codes);
    vc_put_nibbles_32(b + 6, codes);
}

/* Codes of a byte, stored as they are, with their sign. */
VC_HD void vc_q8_0_search(const float *x, const float *h, uint8_t *b)
{
    const struct vc_best_range r = VC_RANGE_q8_0;
    float error;
    float s = vc_best_signed(x, h, 32, r, &error);

    vc_put_half(b, s);
    vc_best_signed_codes(x, 32, s, r, 0, b + 2);
}

/* Codes -1 to 2, stored with 1 added. */
VC_HD void vc_q2_0_search(const float *x, const float *h, uint8_t *b)
{
    const struct vc_best_range r = VC_RANGE_q2_0;
    uint8_t codes[64];
    float error;
    float s = vc_best_signed(x, h, 64, r, &error);

    vc_best_signed_codes(x, 64, s, r, 1, codes);
    vc_q2_0_put(s, codes, b);
}

/* Ternary codes: the exact optimum before s is rounded. With the magnitudes in descending order, keeping the first k
 * removes (sum w |x|)^2 / (sum w) of the error, and the scale is (sum w |x|) / (sum w). */
VC_HD_LARGE float vc_best_ternary(const float *x, const float *h, uint8_t *codes)
{
    float sorted[256], weight[256];
    float a = 0.0f;
    float b = 0.0f;
    float best = 0.0f;
    float s = 0.0f;

    for (uint32_t i = 0; i < 256; i++) {
        float m = fabsf(x[i]);
        uint32_t k = i;

        for (; k > 0 && sorted[k - 1] < m; k--) {
            sorted[k] = sorted[k - 1];
            weight[k] = weight[k - 1];
        }
        sorted[k] = m;
        weight[k] = vc_weight_or_1(h, i);
    }
    for (uint32_t k = 0; k < 256; k++) {
        a += weight[k] * sorted[k];
        b += weight[k];
        /* What keeping one more element removes of the error, compared without a division. */
        if (b > 0.0f && a * a > best * b) {
            best = a * a / b;
            s = a / b;
        }
    }
    s = vc_as_half(s);
    for (uint32_t i = 0; i < 256; i++) {
        codes[i] = (uint8_t)(1 + (x[i] + x[i] > s) - (x[i] + x[i] < -s));
        codes[i] = s > 0.0f ? codes[i] : 1;
    }
    return s;
}

/* Five codes of 0 to 2 in a byte. */
VC_HD void vc_tq1_0_search(const float *x, const float *h, uint8_t *b)
{
    uint8_t codes[256];

    vc_tq1_0_put(vc_best_ternary(x, h, codes), codes, b);
}

/* Four codes of two bits in a byte. */
VC_HD void vc_tq2_0_search(const float *x, const float *h, uint8_t *b)
{
    uint8_t codes[256];

    vc_tq2_0_put(vc_best_ternary(x, h, codes), codes, b);
}

/* ---- a scale and an offset ---- */

/* What a fit is about. most: codes are 0 .. most. minimum: the offset may not be above 0 (K types store its negative).
 * stored: both are f16. */
struct vc_affine_range {
    int32_t most;
    bool minimum, stored;
};

/* A scale with an offset, and what it costs. */
struct vc_affine {
    float scale, least; /* values are scale * code + least */
    float error;
};

/* Starts of the scale, and least squares for each: later rounds change little. */
#define VC_AFFINE_STARTS 12
#define VC_AFFINE_ROUNDS 3

/* Sets f->error, for codes that are the nearest ones. */
VC_HD_LARGE void vc_affine_judge(const float *x, const float *w, uint32_t n, int32_t most, struct vc_affine *f)
{
    float inverse = f->scale != 0.0f ? 1.0f / f->scale : 0.0f;

    f->error = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        float d = (float)vc_nearest((x[i] - f->least) * inverse, 0, most) * f->scale + f->least - x[i];

        f->error += vc_weight_or_1(w, i) * d * d;
    }
}

/* Least squares for the codes that belong to f; false: they do not determine a scale. The sums are those of a straight
 * line through (code, value). With an offset that may not be above 0 and would be, it is 0, and the line goes through
 * the origin. */
VC_HD_LARGE bool vc_affine_refit(const float *x, const float *w, uint32_t n, struct vc_affine_range r,
                                 struct vc_affine *f)
{
    float inverse = 1.0f / f->scale;
    float sum_w = 0.0f;
    float sum_x = 0.0f;
    float sum_l = 0.0f;
    float sum_ll = 0.0f;
    float sum_xl = 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        float l = (float)vc_nearest((x[i] - f->least) * inverse, 0, r.most);
        float weight = vc_weight_or_1(w, i);

        sum_w += weight;
        sum_x += weight * x[i];
        sum_l += weight * l;
        sum_ll += weight * l * l;
        sum_xl += weight * l * x[i];
    }
    /* 0 where all codes are one number. */
    float d = sum_w * sum_ll - sum_l * sum_l;
    if (!(d > 0.0f)) {
        return false;
    }
    f->scale = (sum_w * sum_xl - sum_x * sum_l) / d;
    f->least = (sum_ll * sum_x - sum_l * sum_xl) / d;
    /* A line through the origin. */
    if (r.minimum && f->least > 0.0f) {
        f->least = 0.0f;
        f->scale = sum_xl / sum_ll;
    }
    return f->scale > 0.0f && vc_is_step(f->scale) && vc_is_step(1.0f / f->scale);
}

/* Starts with the range divided by most - 1.2 .. most + 1. The first candidate has all codes 0, so that values which
 * are all equal have an answer too. */
VC_HD_LARGE struct vc_affine vc_best_affine(const float *x, const float *w, uint32_t n, struct vc_affine_range r)
{
    struct vc_affine best = {0.0f, x[0], 0.0f};
    float top = x[0];
    float least = x[0];

    for (uint32_t i = 1; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        top = x[i] > top ? x[i] : top;
    }
    least = r.minimum && least > 0.0f ? 0.0f : least;
    best.least = r.stored ? vc_as_half(least) : least;
    vc_affine_judge(x, w, n, r.most, &best); /* all codes 0 */
    for (uint32_t k = 0; k < VC_AFFINE_STARTS && top > least; k++) {
        struct vc_affine f = {(top - least) / ((float)r.most - 1.2f + (float)k * (2.2f / (VC_AFFINE_STARTS - 1))),
                              least, 0.0f};
        bool good = vc_is_step(f.scale) && vc_is_step(1.0f / f.scale);

        for (uint32_t round = 0; good && round < VC_AFFINE_ROUNDS; round++) {
            good = vc_affine_refit(x, w, n, r, &f);
        }
        if (good && r.stored) {
            f.scale = vc_as_half(f.scale);
            f.least = vc_as_half(f.least);
            good = vc_is_step(f.scale) && vc_f32_magnitude(f.least) < VC_F32_INF_BITS;
        }
        if (good) {
            vc_affine_judge(x, w, n, r.most, &f);
            best = f.error < best.error ? f : best;
        }
    }
    return best;
}

/* The nearest codes; all 0 where there is no scale. */
VC_HD_LARGE void vc_affine_codes(const float *x, uint32_t n, int32_t most, struct vc_affine f, uint8_t *codes)
{
    float inverse = f.scale != 0.0f ? 1.0f / f.scale : 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        codes[i] = (uint8_t)vc_nearest((x[i] - f.least) * inverse, 0, most);
    }
}

/* A scale and an offset, both halves, and codes 0 to 15. */
VC_HD void vc_q4_1_search(const float *x, const float *h, uint8_t *b)
{
    const struct vc_affine_range r = {15, false, true};
    struct vc_affine f = vc_best_affine(x, h, 32, r);
    uint8_t codes[32];

    vc_affine_codes(x, 32, 15, f, codes);
    vc_put_half(b, f.scale);
    vc_put_half(b + 2, f.least);
    vc_put_nibbles_32(b + 4, codes);
}

/* The same with codes 0 to 31. */
VC_HD void vc_q5_1_search(const float *x, const float *h, uint8_t *b)
{
    const struct vc_affine_range r = {31, false, true};
    struct vc_affine f = vc_best_affine(x, h, 32, r);
    uint8_t codes[32];

    vc_affine_codes(x, 32, 31, f, codes);
    vc_put_half(b, f.scale);
    vc_put_half(b + 2, f.least);
    vc_put_fifth_bits(b + 4, codes);
    vc_put_nibbles_32(b + 8, codes);
}

/* ---- K types with minima ---- */

/* Levels of one part near its targets: scale - 1 .. + 1, minimum - 2 .. + 2; the pair of the least error. */
VC_HD_LARGE void vc_k_part_levels(const float *x, const float *w, uint32_t n, int32_t most, int32_t most_level, float d,
                                  float dmin, struct vc_affine target, uint8_t *scale, uint8_t *minimum)
{
    int32_t near_scale = d > 0.0f ? vc_nearest(target.scale / d, 0, most_level) : 0;
    int32_t near_minimum = dmin > 0.0f ? vc_nearest(-target.least / dmin, 0, most_level) : 0;
    struct vc_affine best = {0.0f, 0.0f, 0.0f};
    bool found = false;

    for (int32_t ds = -1; ds <= 1; ds++) {
        for (int32_t dm = -2; dm <= 2; dm++) {
            int32_t s = near_scale + ds;
            int32_t m = near_minimum + dm;
            struct vc_affine f = {d * (float)s, -(dmin * (float)m), 0.0f};

            if (s < 0 || s > most_level || m < 0 || m > most_level) {
                continue;
            }
            vc_affine_judge(x, w, n, most, &f);
            if (!found || f.error < best.error) {
                found = true;
                best = f;
                *scale = (uint8_t)s;
                *minimum = (uint8_t)m;
            }
        }
    }
}

/* d and dmin by least squares, for codes and levels as they are; rounded to f16. Where the squares do not determine
 * them they stay. */
VC_HD_LARGE void vc_k_refit(const float *x, const float *w, uint32_t n_parts, const uint8_t *codes,
                            struct vc_k_levels *levels)
{
    float aa = 0.0f;
    float ab = 0.0f;
    float bb = 0.0f;
    float ax = 0.0f;
    float bx = 0.0f;

    for (uint32_t i = 0; i < 256; i++) {
        uint32_t j = i / (256 / n_parts);
        float a = (float)levels->scale[j] * (float)codes[i];
        float b = -(float)levels->minimum[j];
        float weight = vc_weight_or_1(w, i);

        aa += weight * a * a;
        ab += weight * a * b;
        bb += weight * b * b;
        ax += weight * a * x[i];
        bx += weight * b * x[i];
    }
    float det = aa * bb - ab * ab;
    /* Where both directions are nearly one, least squares would give anything. */
    if (det > 1e-6f * aa * bb) {
        float d = vc_as_half((ax * bb - bx * ab) / det);
        float dmin = vc_as_half((bx * aa - ax * ab) / det);

        if (d > 0.0f && dmin >= 0.0f && vc_is_step(d) && vc_f32_magnitude(dmin) < VC_F32_INF_BITS) {
            levels->d = d;
            levels->dmin = dmin;
        }
    } else if (aa > 0.0f && bb == 0.0f && vc_is_step(vc_as_half(ax / aa)) && ax > 0.0f) {
        levels->d = vc_as_half(ax / aa);
    }
}

/* The nearest codes for the values that a block with these levels has. */
VC_HD_LARGE void vc_k_nearest_codes(const float *x, uint32_t n_parts, int32_t most, const struct vc_k_levels *levels,
                                    uint8_t *codes)
{
    uint32_t n = 256 / n_parts;

    for (uint32_t j = 0; j < n_parts; j++) {
        const struct vc_affine f = {levels->d * (float)levels->scale[j], -(levels->dmin * (float)levels->minimum[j]),
                                    0.0f};

        vc_affine_codes(x + n * j, n, most, f, codes + n * j);
    }
}

/* 256 elements in parts of which each has a level for its scale and one for its minimum, whole numbers that d and dmin
 * multiply. The best fit of each part is the target; three rounds choose levels for d and dmin, then d and dmin for the
 * levels.
 *
 *     part j:    x = d * scale[j] * q - dmin * minimum[j] */
VC_HD_LARGE void vc_k_best(const float *x, const float *h, uint32_t n_parts, int32_t most, int32_t most_level,
                           struct vc_k_levels *levels, uint8_t *codes)
{
    const struct vc_affine_range r = {most, true, false};
    struct vc_affine fits[16];
    uint32_t n = 256 / n_parts;
    float top_scale = 0.0f;
    float top_minimum = 0.0f;

    for (uint32_t j = 0; j < n_parts; j++) {
        fits[j] = vc_best_affine(x + n * j, h != NULL ? h + n * j : NULL, n, r);
        top_scale = fits[j].scale > top_scale ? fits[j].scale : top_scale;
        top_minimum = -fits[j].least > top_minimum ? -fits[j].least : top_minimum;
    }
    levels->d = vc_first_step(top_scale, most_level);
    levels->dmin = vc_first_step(top_minimum, most_level);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t j = 0; j < n_parts; j++) {
            vc_k_part_levels(x + n * j, h != NULL ? h + n * j : NULL, n, most, most_level, levels->d, levels->dmin,
                             fits[j], &levels->scale[j], &levels->minimum[j]);
        }
        vc_k_nearest_codes(x, n_parts, most, levels, codes);
        vc_k_refit(x, h, n_parts, codes, levels);
    }
    vc_k_nearest_codes(x, n_parts, most, levels, codes);
}

/* 16 parts, codes 0 to 3, levels 0 to 15. */
VC_HD void vc_q2_k_search(const float *x, const float *h, uint8_t *b)
{
    struct vc_k_levels levels;
    uint8_t codes[256];

    vc_k_best(x, h, 16, 3, 15, &levels, codes);
    vc_q2_k_put(&levels, codes, b);
}

/* 8 parts, codes 0 to 15, levels 0 to 63. */
VC_HD void vc_q4_k_search(const float *x, const float *h, uint8_t *b)
{
    struct vc_k_levels levels;
    uint8_t codes[256];

    vc_k_best(x, h, 8, 15, 63, &levels, codes);
    vc_q4_k_put(&levels, codes, b);
}

/* 8 parts, codes 0 to 31, levels 0 to 63. */
VC_HD void vc_q5_k_search(const float *x, const float *h, uint8_t *b)
{
    struct vc_k_levels levels;
    uint8_t codes[256];

    vc_k_best(x, h, 8, 31, 63, &levels, codes);
    vc_q5_k_put(&levels, codes, b);
}

/* ---- K types with signed scales ---- */

/* The error of a part for the step s. */
VC_HD_LARGE float vc_signed_error(const float *x, const float *w, uint32_t n, float s, struct vc_best_range r)
{
    float inverse = s != 0.0f ? 1.0f / s : 0.0f;
    float e = 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        float d = x[i] - (float)vc_nearest(x[i] * inverse, r.least, r.most) * s;

        e += vc_weight_or_1(w, i) * d * d;
    }
    return e;
}

/* Levels -half .. half - 1 of 16 parts, and the step d (an f16) that they multiply. Rounds as in vc_k_best: each level
 * is chosen among three near its target, then d is fitted to all of them. */
VC_HD_LARGE float vc_signed_best(const float *x, const float *h, int32_t half, struct vc_best_range r, int32_t *levels,
                                 uint8_t *codes)
{
    float scale[16], error;

    for (uint32_t j = 0; j < 16; j++) {
        scale[j] = vc_best_signed(x + 16 * j, h != NULL ? h + 16 * j : NULL, 16, r, &error);
    }
    float d = vc_first_step(vc_largest_signed(scale, 16), -half);
    for (uint32_t round = 0; round < 3; round++) {
        float a = 0.0f;
        float b = 0.0f;

        for (uint32_t j = 0; j < 16; j++) {
            const float *w = h != NULL ? h + 16 * j : NULL;
            int32_t near_level = d != 0.0f ? vc_nearest(scale[j] / d, -half, half - 1) : 0;
            float least = 0.0f;

            for (int32_t k = -1; k <= 1; k++) {
                int32_t level = vc_clamp_i32(near_level + k, -half, half - 1);
                float e = vc_signed_error(x + 16 * j, w, 16, d * (float)level, r);

                levels[j] = k == -1 || e < least ? level : levels[j];
                least = k == -1 || e < least ? e : least;
            }
            vc_best_signed_codes(x + 16 * j, 16, d * (float)levels[j], r, -r.least, codes + 16 * j);
            for (uint32_t i = 16 * j; i < 16 * (j + 1); i++) {
                float v = (float)levels[j] * (float)((int32_t)codes[i] + r.least);

                a += vc_weight_or_1(h, i) * v * x[i];
                b += vc_weight_or_1(h, i) * v * v;
            }
        }
        if (b > 0.0f && vc_is_step(vc_as_half(a / b))) {
            d = vc_as_half(a / b);
        }
    }
    for (uint32_t j = 0; j < 16; j++) {
        vc_best_signed_codes(x + 16 * j, 16, d * (float)levels[j], r, -r.least, codes + 16 * j);
    }
    return d;
}

/* Codes -4 to 3, levels -32 to 31. */
VC_HD void vc_q3_k_search(const float *x, const float *h, uint8_t *b)
{
    const struct vc_best_range r = VC_RANGE_q3_k;
    int32_t levels[16];
    uint8_t codes[256];
    float d = vc_signed_best(x, h, 32, r, levels, codes);

    vc_q3_k_put(d, levels, codes, b);
}

/* Codes -32 to 31, levels -128 to 127. */
VC_HD void vc_q6_k_search(const float *x, const float *h, uint8_t *b)
{
    const struct vc_best_range r = VC_RANGE_q6_k;
    int32_t levels[16];
    uint8_t codes[256];
    float d = vc_signed_best(x, h, 128, r, levels, codes);

    vc_q6_k_put(d, levels, codes, b);
}

/* ---- codebooks ---- */

/* The error of 32 elements for the step s of the IQ4 values, and the sums of a fit to their codes. */
VC_HD_LARGE float vc_iq4_error(const float *x, const float *w, float s, struct vc_fit *fit)
{
    float inverse = s != 0.0f ? 1.0f / s : 0.0f;
    float e = 0.0f;
    float q[32];

    for (uint32_t i = 0; i < 32; i++) {
        q[i] = vc_iq4_nearest(x[i] * inverse);
    }
    fit->a = fit->b = 0.0f;
    for (uint32_t i = 0; i < 32; i++) {
        float d = x[i] - q[i] * s;

        fit->a += vc_weight_or_1(w, i) * q[i] * x[i];
        fit->b += vc_weight_or_1(w, i) * q[i] * q[i];
        e += vc_weight_or_1(w, i) * d * d;
    }
    return e;
}

/* The scale of the least error, by 32 starts and least squares; an f16 if `stored`. */
VC_HD_LARGE float vc_best_iq4(const float *x, const float *w, bool stored)
{
    float top = fabsf(vc_largest_signed(x, 32));
    struct vc_fit fit;
    float least = vc_iq4_error(x, w, 0.0f, &fit);
    float best = 0.0f;

    for (int32_t k = 0; k < 32; k++) {
        float s = (k < 16 ? 1.0f : -1.0f) * (0.7f + (float)(k % 16) * 0.03f) * top / 120.0f;

        if (!vc_is_step(s) || !vc_is_step(1.0f / s)) {
            continue;
        }
        (void)vc_iq4_error(x, w, s, &fit);
        s = vc_fit_scale(fit);
        s = stored ? vc_stored_step(s) : s;
        if (!vc_is_step(s) || !vc_is_step(1.0f / s)) {
            continue;
        }
        float e = vc_iq4_error(x, w, s, &fit);
        best = e < least ? s : best;
        least = e < least ? e : least;
    }
    return best;
}

/* Numbers of the nearest values of the table; for s 0 those nearest to 0. */
VC_HD_LARGE void vc_iq4_codes(const float *x, float s, uint8_t *codes)
{
    float inverse = s != 0.0f ? 1.0f / s : 0.0f;

    for (uint32_t i = 0; i < 32; i++) {
        codes[i] = (uint8_t)vc_iq4_code(x[i] * inverse);
    }
}

/* One scale for 32 elements. */
VC_HD void vc_iq4_nl_search(const float *x, const float *h, uint8_t *b)
{
    uint8_t codes[32];
    float s = vc_best_iq4(x, h, true);

    vc_iq4_codes(x, s, codes);
    vc_put_half(b, s);
    vc_put_nibbles_32(b + 2, codes);
}

/* 8 parts of 32 elements, each with a level -32 to 31 that d multiplies. As vc_signed_best, with the values of the
 * table. */
VC_HD void vc_iq4_xs_search(const float *x, const float *h, uint8_t *b)
{
    float scale[8];
    int32_t levels[8];

    for (uint32_t j = 0; j < 8; j++) {
        scale[j] = vc_best_iq4(x + 32 * j, h != NULL ? h + 32 * j : NULL, false);
    }
    float d = vc_first_step(vc_largest_signed(scale, 8), -32);
    for (uint32_t round = 0; round < 3; round++) {
        struct vc_fit all = {0.0f, 0.0f};

        for (uint32_t j = 0; j < 8; j++) {
            const float *w = h != NULL ? h + 32 * j : NULL;
            int32_t near_level = d != 0.0f ? vc_nearest(scale[j] / d, -32, 31) : 0;
            struct vc_fit best = {0.0f, 0.0f};
            float least = 0.0f;

            for (int32_t k = -1; k <= 1; k++) {
                int32_t level = vc_clamp_i32(near_level + k, -32, 31);
                struct vc_fit fit;
                float e = vc_iq4_error(x + 32 * j, w, d * (float)level, &fit);

                if (k == -1 || e < least) {
                    levels[j] = level;
                    least = e;
                    best = fit;
                }
            }
            all.a += (float)levels[j] * best.a;
            all.b += (float)levels[j] * (float)levels[j] * best.b;
        }
        if (all.b > 0.0f && vc_is_step(vc_as_half(all.a / all.b))) {
            d = vc_as_half(all.a / all.b);
        }
    }
    for (uint32_t j = 0; j < 8; j++) {
        uint8_t codes[32];

        vc_iq4_codes(x + 32 * j, d * (float)levels[j], codes);
        vc_put_nibbles_32(b + 8 + 16 * j, codes);
    }
    vc_iq4_xs_put_scales(d, levels, b);
}

/* The error of n elements whose half step is given. */
VC_HD_LARGE float vc_e2m1_error(const float *x, const float *w, uint32_t n, float half)
{
    float e = 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        float d = x[i] - vc_e2m1_twice(vc_e2m1_code(x[i], half)) * half;

        e += vc_weight_or_1(w, i) * d * d;
    }
    return e;
}

/* MXFP4: the reference's exponent, one below and one above. */
VC_HD void vc_mxfp4_search(const float *x, const float *h, uint8_t *b)
{
    float top = fabsf(vc_largest_signed(x, 32));
    int32_t e0 = top > 0.0f ? vc_clamp_i32(vc_floor_log2f(top) - 2 + 127, 0, 254) : 0;
    float least = 0.0f;
    uint8_t codes[32];

    for (int32_t k = -1; k <= 1; k++) {
        int32_t e = vc_clamp_i32(e0 + k, 0, 254);
        float error = vc_e2m1_error(x, h, 32, vc_e8m0_half((uint8_t)e));

        b[0] = k == -1 || error < least ? (uint8_t)e : b[0];
        least = k == -1 || error < least ? error : least;
    }
    for (uint32_t i = 0; i < 32; i++) {
        codes[i] = (uint8_t)vc_e2m1_code(x[i], vc_e8m0_half(b[0]));
    }
    vc_put_nibbles_32(b + 1, codes);
}

/* NVFP4: the reference's scale, four below to nine above it. */
VC_HD void vc_nvfp4_search(const float *x, const float *h, uint8_t *b)
{
    for (uint32_t j = 0; j < 4; j++) {
        const float *part = x + 16 * j;
        float largest = fabsf(vc_largest_signed(part, 16));
        int32_t near_code = vc_ue4m3_of(largest / 6.0f); /* 0 also of small values that code 1 is near to */
        float least = 0.0f;

        b[j] = (uint8_t)near_code;
        for (int32_t code = vc_clamp_i32(near_code - 4, 1, 126); largest > 0.0f && code <= near_code + 9 && code <= 126;
             code++) {
            float e = vc_e2m1_error(part, h != NULL ? h + 16 * j : NULL, 16, vc_ue4m3_value((uint8_t)code) * 0.5f);
            bool first = code == vc_clamp_i32(near_code - 4, 1, 126);

            b[j] = first || e < least ? (uint8_t)code : b[j];
            least = first || e < least ? e : least;
        }
        float half = vc_ue4m3_value(b[j]) * 0.5f;
        for (uint32_t i = 0; i < 8; i++) {
            b[4 + 8 * j + i] = (uint8_t)(vc_e2m1_code(part[i], half) | vc_e2m1_code(part[i + 8], half) << 4);
        }
    }
}

/* The mean magnitude is the optimum of one bit already. */
VC_HD void vc_q1_0_search(const float *x, const float *h, uint8_t *b)
{
    vc_q1_0_make(x, h, 0.0f, b);
}

/* ---- the better of both ---- */

/* Makes the block at b by the search, or by the reference encoder where that has less error. */
#define VC_BLOCK_TYPE(name, NAME, elems, bytes, decoding, encoding)                         \
    VC_HD void vc_##name##_best(const float *x, const float *h, float row_mean, uint8_t *b) \
    {                                                                                       \
        uint8_t other[bytes];                                                               \
        double error = 0.0;                                                                 \
        double error_other = 0.0;                                                           \
                                                                                            \
        vc_##name##_search(x, h, b);                                                        \
        vc_##name##_make(x, h, row_mean, other);                                            \
        for (uint32_t i = 0; i < (elems); i++) {                                            \
            double d = (double)x[i] - (double)vc_##name##_value(b, i);                      \
            double d_other = (double)x[i] - (double)vc_##name##_value(other, i);            \
                                                                                            \
            error += (double)vc_weight_or_1(h, i) * d * d;                                  \
            error_other += (double)vc_weight_or_1(h, i) * d_other * d_other;                \
        }                                                                                   \
        if (error_other < error) {                                                          \
            for (uint32_t i = 0; i < (bytes); i++) {                                        \
                b[i] = other[i];                                                            \
            }                                                                               \
        }                                                                                   \
    }
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE
