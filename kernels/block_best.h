/* block_best.h - GGUF's blocks with less error than llama.cpp's quantizers leave: the same layouts, other scales and
 * codes, which every decoder reads. For C, C++ and CUDA, as arith.h; block_encode.h has the reference encoders and the
 * layouts.
 *
 * How: several starts for a scale, each followed by least squares; scales are rounded as the block stores them before
 * they are judged; the lowest sum of w (x - y)^2 wins, of equal ones the first. Each block is then compared with that
 * of the reference encoder, in f64, and the better one is kept, so no block is worse. docs/numerics.md has the
 * decibels.
 *
 * Arguments are those of block_encode.h. w, the weights of a search, are h, or 1 without. vc_<name>_search makes
 * room->block[0], vc_<name>_best returns the better one of that and room->block[1].
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

/* The integer nearest to x, in [least, most], halves to even; NaN gives least. As a float: */
VC_HD float vc_nearest_float(float x, int32_t least, int32_t most)
{
    float low = (float)least;
    float high = (float)most;

    x = x > low ? x : low; /* the order matters for NaN */
    x = x < high ? x : high;
    return (x + 12582912.0f) - 12582912.0f;
}

VC_HD int32_t vc_nearest(float x, int32_t least, int32_t most)
{
    return (int32_t)vc_nearest_float(x, least, most);
}

/* The weight of element i, 1 for all without statistics. */
VC_HD float vc_weight_or_1(const float *w, uint32_t i)
{
    return w != NULL ? w[i] : 1.0f;
}

/* ---- sums over a block ---- */

/* Adds 32 terms to each of n sums in the order of the elements: a thread a sum. */
VC_TEAM_INLINE void vc_add_terms(uint32_t n, struct vc_block_room *room)
{
    VC_EACH(k, n, 1)
    {
        float sum = room->sums[k];

        for (uint32_t i = 0; i < 32; i++) {
            sum += room->u.term[k][i];
        }
        room->sums[k] = sum;
    }
    VC_TOGETHER();
}

/* The same for the errors of both blocks, in f64. */
VC_TEAM_INLINE void vc_add_errors(struct vc_block_room *room)
{
    VC_EACH(k, 2, 1)
    {
        double sum = room->errors[k];

        for (uint32_t i = 0; i < 32; i++) {
            sum += room->u.error[k][i];
        }
        room->errors[k] = sum;
    }
    VC_TOGETHER();
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

/* The error of n elements for the step s, which may be 0. */
VC_TEAM_INLINE float vc_signed_error(const float *x, const float *w, uint32_t n, float s, struct vc_best_range r)
{
    float inverse = s != 0.0f ? 1.0f / s : 0.0f;
    float e = 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        float d = x[i] - vc_nearest_float(x[i] * inverse, r.least, r.most) * s;

        e += vc_weight_or_1(w, i) * d * d;
    }
    return e;
}

/* The scale of the least error, 0 where there is none that can be stored. Each start gives codes,
 * the codes give the scale by least squares, and that is judged with the codes that are nearest to it. A start whose
 * scale or quotient is no finite number is passed over. */
VC_TEAM float vc_best_signed(const float *x, const float *w, uint32_t n, uint32_t parts, struct vc_best_range r)
{
    float top = fabsf(vc_largest_signed(x, n));
    float best = 0.0f;
    float error = 0.0f;
    int32_t number = -1;

    for (uint32_t i = 0; i < n; i++) {
        error += vc_weight_or_1(w, i) * x[i] * x[i]; /* of the scale 0 */
    }
    VC_EACH(k, 32u + (uint32_t)r.n_even, parts)
    {
        float s = vc_best_start(r, (int32_t)k) * top / r.unit;
        float inverse = 1.0f / s;
        float a = 0.0f;
        float b = 0.0f;

        if (!vc_is_step(s) || !vc_is_step(inverse)) {
            continue;
        }
        for (uint32_t i = 0; i < n; i++) {
            /* the best s for these codes is sum x q / sum q q */
            float q = vc_nearest_float(x[i] * inverse, r.least, r.most);

            a += vc_weight_or_1(w, i) * q * x[i];
            b += vc_weight_or_1(w, i) * q * q;
        }
        s = b > 0.0f ? a / b : 0.0f;
        /* judged as the block will have it */
        s = r.stored ? vc_stored_step(s) : s;
        if (!vc_is_step(s) || !vc_is_step(1.0f / s)) {
            continue;
        }
        float e = vc_signed_error(x, w, n, s, r);
        if (e < error) {
            error = e;
            best = s;
            number = (int32_t)k;
        }
    }
    VC_LEAST(parts, error, number, best);
    return best;
}

/* The codes of that scale, stored with `offset` added. */
VC_TEAM_INLINE void vc_best_signed_codes(const float *x, uint32_t n, uint32_t parts, float s, struct vc_best_range r,
                                         int32_t offset, uint8_t *codes)
{
    float inverse = s != 0.0f ? 1.0f / s : 0.0f;

    VC_EACH(i, n, parts)
    {
        codes[i] = (uint8_t)(vc_nearest(x[i] * inverse, r.least, r.most) + offset);
    }
    VC_TOGETHER();
}

#define VC_SEARCH(name) VC_TEAM void vc_##name##_search(const float *x, const float *h, struct vc_block_room *room)

/* Codes -8 to 7, stored with 8 added. */
VC_SEARCH(q4_0)
{
    const struct vc_best_range r = VC_RANGE_q4_0;
    float s = vc_best_signed(x, h, 32, 1, r);

    vc_best_signed_codes(x, 32, 1, s, r, 8, room->codes);
    vc_put_32(room->block[0], s, NULL, false, room->codes);
}

/* Codes -16 to 15; their fifth bits lie together, before the nibbles. */
VC_SEARCH(q5_0)
{
    const struct vc_best_range r = VC_RANGE_q5_0;
    float s = vc_best_signed(x, h, 32, 1, r);

    vc_best_signed_codes(x, 32, 1, s, r, 16, room->codes);
    vc_put_32(room->block[0], s, NULL, true, room->codes);
}

/* Codes of a byte, stored as they are, with their sign. */
VC_SEARCH(q8_0)
{
    const struct vc_best_range r = VC_RANGE_q8_0;
    float s = vc_best_signed(x, h, 32, 1, r);

    VC_ONE
    {
        vc_put_half(room->block[0], s);
    }
    vc_best_signed_codes(x, 32, 1, s, r, 0, room->block[0] + 2);
}

/* Codes -1 to 2, stored with 1 added. */
VC_SEARCH(q2_0)
{
    const struct vc_best_range r = VC_RANGE_q2_0;
    float s = vc_best_signed(x, h, 64, 1, r);

    vc_best_signed_codes(x, 64, 1, s, r, 1, room->codes);
    vc_q2_0_put(s, room->codes, room->block[0]);
}

/* Ternary codes: the exact optimum before s is rounded. With the magnitudes in descending order, keeping the first k
 * removes (sum w |x|)^2 / (sum w) of the error, and the scale is (sum w |x|) / (sum w). */
VC_TEAM float vc_best_ternary(const float *x, const float *h, struct vc_block_room *room)
{
    float a = 0.0f;
    float b = 0.0f;
    float best = 0.0f;
    float s = 0.0f;

    VC_EACH(i, 256, 1)
    {
        float m = fabsf(x[i]);
        uint32_t place = 0; /* how many come before: larger ones, and equal ones of lower number */

        for (uint32_t k = 0; k < 256; k++) {
            place += fabsf(x[k]) > m || (fabsf(x[k]) == m && k < i);
        }
        room->w[place] = m;
        room->u.weight[place] = vc_weight_or_1(h, i);
    }
    VC_TOGETHER();
    for (uint32_t k = 0; k < 256; k++) {
        a += room->u.weight[k] * room->w[k];
        b += room->u.weight[k];
        /* What keeping one more element removes of the error, compared without a division. */
        if (b > 0.0f && a * a > best * b) {
            best = a * a / b;
            s = a / b;
        }
    }
    s = vc_as_half(s);
    VC_EACH(i, 256, 1)
    {
        uint8_t code = (uint8_t)(1 + (x[i] + x[i] > s) - (x[i] + x[i] < -s));

        room->codes[i] = s > 0.0f ? code : 1;
    }
    VC_TOGETHER();
    return s;
}

/* Five codes of 0 to 2 in a byte. */
VC_SEARCH(tq1_0)
{
    vc_tq1_0_put(vc_best_ternary(x, h, room), room->codes, room->block[0]);
}

/* Four codes of two bits in a byte. */
VC_SEARCH(tq2_0)
{
    vc_tq2_0_put(vc_best_ternary(x, h, room), room->codes, room->block[0]);
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
VC_TEAM_INLINE void vc_affine_judge(const float *x, const float *w, uint32_t n, int32_t most, struct vc_affine *f)
{
    float inverse = f->scale != 0.0f ? 1.0f / f->scale : 0.0f;

    f->error = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        float d = vc_nearest_float((x[i] - f->least) * inverse, 0, most) * f->scale + f->least - x[i];

        f->error += vc_weight_or_1(w, i) * d * d;
    }
}

/* Least squares for the codes that belong to f; false: they do not determine a scale. The sums are those of a straight
 * line through (code, value). With an offset that may not be above 0 and would be, it is 0, and the line goes through
 * the origin. */
VC_TEAM_INLINE bool vc_affine_refit(const float *x, const float *w, uint32_t n, struct vc_affine_range r,
                                    struct vc_affine *f)
{
    float inverse = 1.0f / f->scale;
    float sum_w = 0.0f;
    float sum_x = 0.0f;
    float sum_l = 0.0f;
    float sum_ll = 0.0f;
    float sum_xl = 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        float l = vc_nearest_float((x[i] - f->least) * inverse, 0, r.most);
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
VC_TEAM struct vc_affine vc_best_affine(const float *x, const float *w, uint32_t n, uint32_t parts,
                                        struct vc_affine_range r)
{
    struct vc_affine best = {0.0f, x[0], 0.0f};
    float top = x[0];
    float least = x[0];
    int32_t number = -1;

    for (uint32_t i = 1; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        top = x[i] > top ? x[i] : top;
    }
    least = r.minimum && least > 0.0f ? 0.0f : least;
    best.least = r.stored ? vc_as_half(least) : least;
    vc_affine_judge(x, w, n, r.most, &best); /* all codes 0 */
    VC_EACH(k, top > least ? VC_AFFINE_STARTS : 0u, parts)
    {
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
        }
        if (good && f.error < best.error) {
            best = f;
            number = (int32_t)k;
        }
    }
    float error = best.error; /* of the hand; that of all decides on the offset, too */
    int32_t same = number;
    VC_LEAST(parts, error, same, best.least);
    VC_LEAST(parts, best.error, number, best.scale);
    return best;
}

/* The nearest codes; all 0 where there is no scale. */
VC_TEAM_INLINE void vc_affine_codes(const float *x, uint32_t n, uint32_t parts, int32_t most, struct vc_affine f,
                                    uint8_t *codes)
{
    float inverse = f.scale != 0.0f ? 1.0f / f.scale : 0.0f;

    VC_EACH(i, n, parts)
    {
        codes[i] = (uint8_t)vc_nearest((x[i] - f.least) * inverse, 0, most);
    }
    VC_TOGETHER();
}

/* A scale and an offset, both halves, and codes 0 to 15. */
VC_SEARCH(q4_1)
{
    const struct vc_affine_range r = {15, false, true};
    struct vc_affine f = vc_best_affine(x, h, 32, 1, r);

    vc_affine_codes(x, 32, 1, 15, f, room->codes);
    vc_put_32(room->block[0], f.scale, &f.least, false, room->codes);
}

/* The same with codes 0 to 31. */
VC_SEARCH(q5_1)
{
    const struct vc_affine_range r = {31, false, true};
    struct vc_affine f = vc_best_affine(x, h, 32, 1, r);

    vc_affine_codes(x, 32, 1, 31, f, room->codes);
    vc_put_32(room->block[0], f.scale, &f.least, true, room->codes);
}

/* ---- K types with minima ---- */

/* Levels of part j near its targets: scale - 1 .. + 1, minimum - 2 .. + 2; the pair of the least error. */
VC_TEAM void vc_k_part_levels(const float *x, const float *w, uint32_t n, uint32_t j, int32_t most, int32_t most_level,
                              struct vc_k_steps steps, struct vc_block_room *room)
{
    uint32_t parts = 256 / n;
    int32_t near_scale = steps.d > 0.0f ? vc_nearest(room->scale[j] / steps.d, 0, most_level) : 0;
    int32_t near_minimum = steps.dmin > 0.0f ? vc_nearest(room->minimum[j] / steps.dmin, 0, most_level) : 0;
    float least = 0.0f;
    bool found = false;
    int32_t scale = 0;
    int32_t minimum = 0;

    for (uint32_t from = 0; from < 15; from += VC_HANDS(parts)) {
        int32_t own = (int32_t)(from + VC_HAND(parts));
        struct vc_affine f = {steps.d * (float)(near_scale + own / 5 - 1),
                              -(steps.dmin * (float)(near_minimum + own % 5 - 2)), 0.0f};

        vc_affine_judge(x, w, n, most, &f);
        for (uint32_t k = 0; k < VC_HANDS(parts) && from + k < 15; k++) {
            int32_t s = near_scale + (int32_t)(from + k) / 5 - 1;
            int32_t m = near_minimum + (int32_t)(from + k) % 5 - 2;
            float error = VC_OF(parts, f.error, k);

            if (s >= 0 && s <= most_level && m >= 0 && m <= most_level && (!found || error < least)) {
                found = true;
                least = error;
                scale = s;
                minimum = m;
            }
        }
    }
    if (VC_HAND(parts) == 0) {
        room->level[0][j] = (uint8_t)scale;
        room->level[1][j] = (uint8_t)minimum;
    }
    VC_TOGETHER();
}

/* d and dmin by least squares, for codes and levels as they are; rounded to f16. Where the squares do not determine
 * them they stay. All threads make the terms of 32 elements, five add them up. */
VC_TEAM struct vc_k_steps vc_k_refit(const float *x, const float *w, uint32_t n, struct vc_k_steps steps,
                                     struct vc_block_room *room)
{
    VC_EACH(k, 5, 1)
    {
        room->sums[k] = 0.0f;
    }
    for (uint32_t from = 0; from < 256; from += 32) {
        VC_EACH(i, 32, 1)
        {
            uint32_t at = VC_PLACE(from + i, n);
            float a = (float)room->level[0][(from + i) / n] * (float)room->codes[from + i];
            float b = -(float)room->level[1][(from + i) / n];
            float weight = vc_weight_or_1(w, at);

            room->u.term[0][i] = weight * a * a;
            room->u.term[1][i] = weight * a * b;
            room->u.term[2][i] = weight * b * b;
            room->u.term[3][i] = weight * a * x[at];
            room->u.term[4][i] = weight * b * x[at];
        }
        VC_TOGETHER();
        vc_add_terms(5, room);
    }
    float aa = room->sums[0];
    float ab = room->sums[1];
    float bb = room->sums[2];
    float ax = room->sums[3];
    float bx = room->sums[4];
    float det = aa * bb - ab * ab;
    VC_TOGETHER(); /* before the sums begin again */
    /* Where both directions are nearly one, least squares would give anything. */
    if (det > 1e-6f * aa * bb) {
        float d = vc_as_half((ax * bb - bx * ab) / det);
        float dmin = vc_as_half((bx * aa - ax * ab) / det);

        if (d > 0.0f && dmin >= 0.0f && vc_is_step(d) && vc_f32_magnitude(dmin) < VC_F32_INF_BITS) {
            steps.d = d;
            steps.dmin = dmin;
        }
    } else if (aa > 0.0f && bb == 0.0f && vc_is_step(vc_as_half(ax / aa)) && ax > 0.0f) {
        steps.d = vc_as_half(ax / aa);
    }
    return steps;
}

/* The nearest codes for the values that a block with these levels has. */
VC_TEAM void vc_k_nearest_codes(const float *x, uint32_t n, int32_t most, struct vc_k_steps steps,
                                struct vc_block_room *room)
{
    VC_PARTS(j, 256 / n)
    {
        const struct vc_affine f = {steps.d * (float)room->level[0][j], -(steps.dmin * (float)room->level[1][j]), 0.0f};

        vc_affine_codes(vc_part(x, n, j), n, 256 / n, most, f, room->codes + n * j);
    }
}

/* 256 elements in parts of which each has a level for its scale and one for its minimum, whole numbers that d and dmin
 * multiply. The best fit of each part is the target; three rounds choose levels for d and dmin, then d and dmin for the
 * levels.
 *
 *     part j:    x = d * scale[j] * q - dmin * minimum[j] */
VC_TEAM struct vc_k_steps vc_k_best(const float *x, const float *h, uint32_t n_parts, int32_t most, int32_t most_level,
                                    struct vc_block_room *room)
{
    const struct vc_affine_range r = {most, true, false};
    struct vc_k_steps steps;
    uint32_t n = 256 / n_parts;

    VC_PARTS(j, n_parts)
    {
        struct vc_affine fit = vc_best_affine(vc_part(x, n, j), vc_part(h, n, j), n, n_parts, r);

        if (VC_HAND(n_parts) == 0) {
            room->scale[j] = fit.scale;
            room->minimum[j] = -fit.least;
        }
    }
    VC_TOGETHER();
    steps.d = vc_first_step(vc_most_of(room->scale, n_parts), most_level);
    steps.dmin = vc_first_step(vc_most_of(room->minimum, n_parts), most_level);
    for (uint32_t round = 0; round < 3; round++) {
        VC_PARTS(j, n_parts)
        {
            vc_k_part_levels(vc_part(x, n, j), vc_part(h, n, j), n, j, most, most_level, steps, room);
        }
        vc_k_nearest_codes(x, n, most, steps, room);
        steps = vc_k_refit(x, h, n, steps, room);
    }
    vc_k_nearest_codes(x, n, most, steps, room);
    return steps;
}

/* 16 parts, codes 0 to 3, levels 0 to 15. */
VC_SEARCH(q2_k)
{
    vc_q2_k_put(vc_k_best(x, h, 16, 3, 15, room), room->level, room->codes, room->block[0]);
}

/* 8 parts, codes 0 to 15, levels 0 to 63. */
VC_SEARCH(q4_k)
{
    vc_q4_k_put(vc_k_best(x, h, 8, 15, 63, room), room->level, room->codes, room->block[0]);
}

/* 8 parts, codes 0 to 31, levels 0 to 63. */
VC_SEARCH(q5_k)
{
    vc_q5_k_put(vc_k_best(x, h, 8, 31, 63, room), room->level, room->codes, room->block[0]);
}

/* ---- K types with signed scales ---- */

/* Levels -half .. half - 1 of 16 parts, and the step d (an f16) that they multiply. Rounds as in vc_k_best: each level
 * is chosen among three near its target, then d is fitted to all of them. */
VC_TEAM float vc_signed_best(const float *x, const float *h, int32_t half, struct vc_best_range r,
                             struct vc_block_room *room)
{
    VC_PARTS(j, 16)
    {
        float scale = vc_best_signed(vc_part(x, 16, j), vc_part(h, 16, j), 16, 16, r);

        if (VC_HAND(16) == 0) {
            room->scale[j] = scale;
        }
    }
    VC_TOGETHER();
    float d = vc_first_step(vc_largest_signed(room->scale, 16), -half);
    for (uint32_t round = 0; round < 3; round++) {
        VC_EACH(k, 2, 1)
        {
            room->sums[k] = 0.0f;
        }
        VC_PARTS(j, 16)
        {
            int32_t near_level = d != 0.0f ? vc_nearest(room->scale[j] / d, -half, half - 1) : 0;
            int32_t chosen = 0;
            float least = 0.0f;

            for (uint32_t from = 0; from < 3; from += VC_HANDS(16)) {
                int32_t own = vc_clamp_i32(near_level - 1 + (int32_t)(from + VC_HAND(16)), -half, half - 1);
                float e = vc_signed_error(vc_part(x, 16, j), vc_part(h, 16, j), 16, d * (float)own, r);

                for (uint32_t k = 0; k < VC_HANDS(16) && from + k < 3; k++) {
                    int32_t level = vc_clamp_i32(near_level - 1 + (int32_t)(from + k), -half, half - 1);
                    float error = VC_OF(16, e, k);

                    chosen = from + k == 0 || error < least ? level : chosen;
                    least = from + k == 0 || error < least ? error : least;
                }
            }
            if (VC_HAND(16) == 0) {
                room->levels[j] = chosen;
            }
            vc_best_signed_codes(vc_part(x, 16, j), 16, 16, d * (float)chosen, r, -r.least, room->codes + 16 * j);
        }
        for (uint32_t from = 0; from < 256; from += 32) {
            VC_EACH(i, 32, 1)
            {
                uint32_t at = VC_PLACE(from + i, 16);
                float v = (float)room->levels[(from + i) / 16] * (float)((int32_t)room->codes[from + i] + r.least);

                room->u.term[0][i] = vc_weight_or_1(h, at) * v * x[at];
                room->u.term[1][i] = vc_weight_or_1(h, at) * v * v;
            }
            VC_TOGETHER();
            vc_add_terms(2, room);
        }
        float a = room->sums[0];
        float b = room->sums[1];
        VC_TOGETHER(); /* before the sums begin again */
        if (b > 0.0f && vc_is_step(vc_as_half(a / b))) {
            d = vc_as_half(a / b);
        }
    }
    VC_PARTS(j, 16)
    {
        vc_best_signed_codes(vc_part(x, 16, j), 16, 16, d * (float)room->levels[j], r, -r.least, room->codes + 16 * j);
    }
    return d;
}

/* Codes -4 to 3, levels -32 to 31. */
VC_SEARCH(q3_k)
{
    const struct vc_best_range r = VC_RANGE_q3_k;

    vc_q3_k_put(vc_signed_best(x, h, 32, r, room), room->levels, room->codes, room->block[0]);
}

/* Codes -32 to 31, levels -128 to 127. */
VC_SEARCH(q6_k)
{
    const struct vc_best_range r = VC_RANGE_q6_k;

    vc_q6_k_put(vc_signed_best(x, h, 128, r, room), room->levels, room->codes, room->block[0]);
}

/* ---- codebooks ---- */

/* The error of 32 elements for the step s of the IQ4 values, and the sums of a fit to their codes. */
VC_TEAM_INLINE float vc_iq4_error(const float *x, const float *w, float s, struct vc_fit *fit)
{
    float inverse = s != 0.0f ? 1.0f / s : 0.0f;
    float e = 0.0f;
    float q[32];

    VC_UNROLL
    for (uint32_t i = 0; i < 32; i++) {
        q[i] = vc_iq4_nearest(x[i] * inverse);
    }
    fit->a = fit->b = 0.0f;
    VC_UNROLL
    for (uint32_t i = 0; i < 32; i++) {
        float d = x[i] - q[i] * s;

        fit->a += vc_weight_or_1(w, i) * q[i] * x[i];
        fit->b += vc_weight_or_1(w, i) * q[i] * q[i];
        e += vc_weight_or_1(w, i) * d * d;
    }
    return e;
}

/* The scale of the least error, by 32 starts and least squares; an f16 if `stored`. */
VC_TEAM float vc_best_iq4(const float *x, const float *w, uint32_t parts, bool stored)
{
    float top = fabsf(vc_largest_signed(x, 32));
    struct vc_fit fit;
    float error = vc_iq4_error(x, w, 0.0f, &fit);
    float best = 0.0f;
    int32_t number = -1;

    VC_EACH(k, 32, parts)
    {
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
        if (e < error) {
            error = e;
            best = s;
            number = (int32_t)k;
        }
    }
    VC_LEAST(parts, error, number, best);
    return best;
}

/* Numbers of the nearest values of the table; for s 0 those nearest to 0. */
VC_TEAM_INLINE void vc_iq4_codes(const float *x, uint32_t parts, float s, uint8_t *codes)
{
    float inverse = s != 0.0f ? 1.0f / s : 0.0f;

    VC_EACH(i, 32, parts)
    {
        codes[i] = (uint8_t)vc_iq4_code(x[i] * inverse);
    }
    VC_TOGETHER();
}

/* One scale for 32 elements. */
VC_SEARCH(iq4_nl)
{
    float s = vc_best_iq4(x, h, 1, true);

    vc_iq4_codes(x, 1, s, room->codes);
    vc_put_32(room->block[0], s, NULL, false, room->codes);
}

/* 8 parts of 32 elements, each with a level -32 to 31 that d multiplies. As vc_signed_best, with the values of the
 * table. */
VC_SEARCH(iq4_xs)
{
    VC_PARTS(j, 8)
    {
        float scale = vc_best_iq4(vc_part(x, 32, j), vc_part(h, 32, j), 8, false);

        if (VC_HAND(8) == 0) {
            room->scale[j] = scale;
        }
    }
    VC_TOGETHER();
    float d = vc_first_step(vc_largest_signed(room->scale, 8), -32);
    for (uint32_t round = 0; round < 3; round++) {
        struct vc_fit all = {0.0f, 0.0f};

        VC_PARTS(j, 8)
        {
            int32_t near_level = d != 0.0f ? vc_nearest(room->scale[j] / d, -32, 31) : 0;
            struct vc_fit best = {0.0f, 0.0f};
            int32_t chosen = 0;
            uint32_t winner = 0;
            float least = 0.0f;

            for (uint32_t from = 0; from < 3; from += VC_HANDS(8)) {
                int32_t own = vc_clamp_i32(near_level - 1 + (int32_t)(from + VC_HAND(8)), -32, 31);
                struct vc_fit fit;
                float e = vc_iq4_error(vc_part(x, 32, j), vc_part(h, 32, j), d * (float)own, &fit);

                for (uint32_t k = 0; k < VC_HANDS(8) && from + k < 3; k++) {
                    float error = VC_OF(8, e, k);

                    if (from + k == 0 || error < least) {
                        chosen = vc_clamp_i32(near_level - 1 + (int32_t)(from + k), -32, 31);
                        least = error;
                        winner = from + k;
                    }
                }
                struct vc_fit other = {VC_OF(8, fit.a, winner % VC_HANDS(8)), VC_OF(8, fit.b, winner % VC_HANDS(8))};
                best = winner >= from ? other : best;
            }
            if (VC_HAND(8) == 0) {
                room->levels[j] = chosen;
                room->minimum[j] = best.a;
                room->weight[j] = best.b;
            }
        }
        VC_TOGETHER();
        for (uint32_t j = 0; j < 8; j++) {
            all.a += (float)room->levels[j] * room->minimum[j];
            all.b += (float)room->levels[j] * (float)room->levels[j] * room->weight[j];
        }
        VC_TOGETHER(); /* before the next round stores */
        if (all.b > 0.0f && vc_is_step(vc_as_half(all.a / all.b))) {
            d = vc_as_half(all.a / all.b);
        }
    }
    VC_PARTS(j, 8)
    {
        vc_iq4_codes(vc_part(x, 32, j), 8, d * (float)room->levels[j], room->codes + 32 * j);
    }
    vc_iq4_xs_put(d, room, room->block[0]);
}

/* The error of n elements whose half step is given. */
VC_TEAM_INLINE float vc_e2m1_error(const float *x, const float *w, uint32_t n, float half)
{
    float e = 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        float d = x[i] - vc_e2m1_twice(vc_e2m1_code(x[i], half)) * half;

        e += vc_weight_or_1(w, i) * d * d;
    }
    return e;
}

/* MXFP4: the reference's exponent, one below and one above. */
VC_SEARCH(mxfp4)
{
    float top = fabsf(vc_largest_signed(x, 32));
    int32_t near_e = top > 0.0f ? vc_clamp_i32(vc_floor_log2f(top) - 2 + 127, 0, 254) : 0;
    uint8_t chosen = 0;
    float least = 0.0f;

    for (uint32_t from = 0; from < 3; from += VC_HANDS(1)) {
        int32_t own = vc_clamp_i32(near_e - 1 + (int32_t)(from + VC_HAND(1)), 0, 254);
        float e = vc_e2m1_error(x, h, 32, vc_e8m0_half((uint8_t)own));

        for (uint32_t k = 0; k < VC_HANDS(1) && from + k < 3; k++) {
            int32_t exponent = vc_clamp_i32(near_e - 1 + (int32_t)(from + k), 0, 254);
            float error = VC_OF(1, e, k);

            chosen = from + k == 0 || error < least ? (uint8_t)exponent : chosen;
            least = from + k == 0 || error < least ? error : least;
        }
    }
    vc_mxfp4_put(x, chosen, room, room->block[0]);
}

/* NVFP4: the reference's scale, four below to nine above it. */
VC_SEARCH(nvfp4)
{
    VC_PARTS(j, 4)
    {
        const float *part = vc_part(x, 16, j);
        float largest = fabsf(vc_largest_signed(part, 16));
        int32_t near_code = vc_ue4m3_of(largest / 6.0f); /* 0 also of small values that code 1 is near to */
        int32_t first = vc_clamp_i32(near_code - 4, 1, 126);
        int32_t chosen = near_code;
        float least = 0.0f;

        for (uint32_t from = 0; from < 14; from += VC_HANDS(4)) {
            int32_t own = first + (int32_t)(from + VC_HAND(4));
            float e = vc_e2m1_error(part, vc_part(h, 16, j), 16, vc_ue4m3_value((uint8_t)own) * 0.5f);

            for (uint32_t k = 0; k < VC_HANDS(4) && from + k < 14; k++) {
                int32_t code = first + (int32_t)(from + k);
                float error = VC_OF(4, e, k);

                if (largest > 0.0f && code <= near_code + 9 && code <= 126 && (code == first || error < least)) {
                    chosen = code;
                    least = error;
                }
            }
        }
        vc_nvfp4_put_part(part, j, (uint8_t)chosen, room->block[0]);
    }
    VC_TOGETHER();
}

/* The mean magnitude is the optimum of one bit already: there is no other way. */
VC_SEARCH(q1_0)
{
    const uint8_t *made = vc_q1_0_make(x, h, 0.0f, room);

    VC_EACH(i, 18, 1)
    {
        room->block[0][i] = made[i];
    }
    VC_TOGETHER();
}

/* ---- the better of both ---- */

/* Makes the block by the search and by the reference encoder; returns the one with less error. */
#define VC_BLOCK_TYPE(name, NAME, elems, bytes, decoding, encoding)                                 \
    VC_TEAM const uint8_t *vc_##name##_best(const float *x, const float *h, float row_mean,         \
                                            struct vc_block_room *room)                             \
    {                                                                                               \
        vc_##name##_search(x, h, room);                                                             \
        (void)vc_##name##_make(x, h, row_mean, room);                                               \
        VC_EACH(k, 2, 1)                                                                            \
        {                                                                                           \
            room->errors[k] = 0.0;                                                                  \
        }                                                                                           \
        for (uint32_t from = 0; from < (elems); from += 32) {                                       \
            VC_EACH(i, 32, 1)                                                                       \
            {                                                                                       \
                uint32_t at = VC_PLACE(from + i, VC_PART_##name);                                   \
                                                                                                    \
                for (uint32_t k = 0; k < 2; k++) {                                                  \
                    double d = (double)x[at] - (double)vc_##name##_value(room->block[k], from + i); \
                                                                                                    \
                    room->u.error[k][i] = (double)vc_weight_or_1(h, at) * d * d;                    \
                }                                                                                   \
            }                                                                                       \
            VC_TOGETHER();                                                                          \
            vc_add_errors(room);                                                                    \
        }                                                                                           \
        return room->block[room->errors[1] < room->errors[0] ? 1 : 0];                              \
    }
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE
