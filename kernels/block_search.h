/* block_search.h - how the quantizers of ggml choose the scale of a few elements: bit for bit what llama.cpp's
 * reference quantizers compute. For C, C++ and CUDA, as arith.h; block_encode.h makes blocks of it.
 *
 * All take n elements x (16, 32, or the 8 or 16 scales of a block), their weights w (how much the squared error of an
 * element counts, >= 0), and fill codes. Every sum is f32, in the order of the elements, products from left to right:
 * w * x * l is (w * x) * l. A change of that order changes codes.
 *
 * A team makes a block: on a processor one thread, on a device the 32 threads of a warp (cuda/cuda_team.h). Both run these
 * functions. A thread never shares a sum with others: what is shared out are trials, and elements that are made one by one.
 * Where a block has parts (1, 2, 4, 8 or 16), the threads of a team take a part each, with 32 / parts hands:
 *
 *     Q4_K, 8 parts:   thread   0 1 2 3   4 5 6 7   ...  28 29 30 31
 *                      part     0 0 0 0   1 1 1 1           7  7  7  7
 *                      hand     0 1 2 3   0 1 2 3           0  1  2  3     hand 1 tries starts 1, 5, 9, ... of its part */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "kernels/blocks.h"

#ifndef VC_TEAM
#define VC_TEAM            VC_HD_LARGE /* a function that all threads of a team call together */
#define VC_TEAM_INLINE     VC_HD       /* the same, of a few operations */
#define VC_PARTS(j, parts) for (uint32_t j = 0; j < (parts); j++) /* once for each part */
#define VC_HANDS(parts)    (0u * (parts) + 1u)                    /* threads of a part */
#define VC_HAND(parts)     (0u * (parts))                         /* which of them this one is */
/* for each i of n, shared out among the hands of a part; with 1 part among all threads */
#define VC_EACH(i, n, parts) for (uint32_t i = 0; i < (n); i++)
#define VC_OF(parts, v, k)   (v)         /* what v is in hand k; all threads must ask */
#define VC_ANY(condition)    (condition) /* whether it holds in some thread */
#define VC_TOGETHER()        ((void)0)   /* what threads stored before is there for all */
/* Of the hands' values that of the least error, of equal ones of the lowest number. */
#define VC_LEAST(parts, error, number, value) ((void)(error), (void)(number))
#define VC_PITCH(n)                           (n) /* from part to part of arrays of floats, of parts of n elements */
#define VC_PLACE(i, n)                        (i) /* where element i of such an array is */
#define VC_UNROLL                                 /* before a loop of 32 turns over an array of its own */
#endif

#define VC_ROOM_FLOATS 272 /* 16 parts of 16 floats, or 8 of 32, and one more each */
#define VC_BLOCK_BYTES 210 /* of the largest block, Q6_K */

/* What a team keeps while it makes a block. */
struct vc_block_room {
    float w[VC_ROOM_FLOATS]; /* weights of a search; magnitudes in descending order */
    union {                  /* each for a short time */
        int32_t l[VC_ROOM_FLOATS];
        float weight[VC_ROOM_FLOATS];
        float term[5][32];
        double error[2][32];
    } u;
    double errors[2];
    float sums[5];
    float scale[16], minimum[16], weight[16]; /* of the parts */
    int32_t levels[16];                       /* signed ones of the scales */
    uint8_t level[2][16];                     /* of scales, and of minima */
    uint8_t codes[256];
    uint8_t block[2][VC_BLOCK_BYTES + 2];
};

#define VC_GGML_TINY 1e-15f /* magnitudes below count as zero */

/* The nearest integer, halves to even, for |x| < 2^22: 1.5 * 2^23 + x has the integer in its low bits. Larger values
 * wrap, as in ggml; they only come from weights that are subnormal numbers, or whose products overflow. NaN gives 0: in
 * the bits of the NaN that x86 and ARM make (0x7fc00000 and a sign) that is so, in those of CUDA (0x7fffffff) it is
 * not.
 */
VC_HD int32_t vc_ggml_round(float x)
{
    int32_t k = (int32_t)(vc_f32_bits(x + 12582912.0f) & 0x007fffffu) - 0x00400000;

    return x == x ? k : 0;
}

VC_HD int32_t vc_clamp_i32(int32_t k, int32_t least, int32_t most)
{
    return k < least ? least : k > most ? most : k;
}

/* A whole number of magnitude below 2^22 as a float: on a device two additions are cheaper than a conversion. */
VC_HD float vc_small_float(int32_t k)
{
    return vc_bits_f32(0x4b400000u + (uint32_t)k) - 12582912.0f;
}

/* The element with the largest magnitude, with its sign; of equal ones the first. */
VC_HD float vc_largest_signed(const float *x, uint32_t n)
{
    float most = 0.0f;
    float found = 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        float a = fabsf(x[i]);

        found = a > most ? x[i] : found;
        most = a > most ? a : most;
    }
    return found;
}

/* The sums of a symmetric fit: a = sum w x l, b = sum w l l. The best scale is a / b, and removes a a / b of the error.
 */
struct vc_fit {
    float a, b;
};

/* The sums of the best scale for codes: a / b. */
VC_HD void vc_fit_add(struct vc_fit *f, float w, float x, int32_t l)
{
    float q = vc_small_float(l);

    f->a += w * x * q;
    f->b += w * q * q;
}

/* What a search divides by. b = 0 (all codes 0) gives the scale 0. */
VC_HD float vc_fit_scale(struct vc_fit f)
{
    return f.b != 0.0f ? f.a / f.b : 0.0f;
}

/* Weights that were not given are x * x. */
VC_HD float vc_weight_at(const float *w, const float *x, uint32_t i)
{
    return w != NULL ? w[i] : x[i] * x[i];
}

/* Start k of 19 for symmetric codes: what elements are multiplied by, m the largest one. */
VC_HD float vc_signed_start(int32_t k, int32_t most, float m)
{
    return -((float)most + (k == 0 ? 0.0f : 0.1f * (float)(k - (k < 10 ? 10 : 9)))) / m;
}

/* Symmetric codes in [-most, most - 1], stored as code + most: the scale that leaves the least error among 19 starts,
 * (most + f) / (largest element) for f = 0, -0.9, -0.8 .. 0.9. w may be NULL. Returns the scale, which may be negative;
 * 0 (and codes 0, which stand for -most) where all elements are tiny. (ggml: make_qx_quants, weighted) */
VC_TEAM float vc_search_signed(const float *x, const float *w, uint32_t n, uint32_t parts, int32_t most, uint8_t *codes)
{
    float m = vc_largest_signed(x, n);
    bool tiny = fabsf(m) < VC_GGML_TINY;
    float scale = 0.0f;
    float best = 0.0f;
    int32_t start = 0;

    for (uint32_t from = 0; from < 19; from += VC_HANDS(parts)) {
        float own = vc_signed_start((int32_t)(from + VC_HAND(parts)), most, m);
        struct vc_fit fit = {0.0f, 0.0f};

        for (uint32_t i = 0; i < n; i++) {
            int32_t l = vc_clamp_i32(vc_ggml_round(own * x[i]), -most, most - 1);

            vc_fit_add(&fit, vc_weight_at(w, x, i), x[i], l);
        }
        for (uint32_t k = 0; k < VC_HANDS(parts) && from + k < 19; k++) {
            struct vc_fit other = {VC_OF(parts, fit.a, k), VC_OF(parts, fit.b, k)};

            if (from + k == 0 || (other.b > 0.0f && other.a * other.a > best * other.b)) {
                scale = vc_fit_scale(other);
                best = scale * other.a;
                start = (int32_t)(from + k);
            }
        }
    }
    float inverse = vc_signed_start(start, most, m);
    VC_EACH(i, n, parts)
    {
        codes[i] = tiny ? 0 : (uint8_t)(vc_clamp_i32(vc_ggml_round(inverse * x[i]), -most, most - 1) + most);
    }
    return tiny ? 0.0f : scale;
}

/* Up to five passes over the codes (without offset, in [least, most]): each code moves to the nearest one for the scale
 * that the other codes want, where that lowers the error. positive: b has to stay above 0, codes have no lower end. Each
 * step needs the one before: the first hand of a part does it alone. (the end of make_q3_quants and make_qp_quants) */
VC_TEAM struct vc_fit vc_refine_codes(const float *x, const float *w, uint32_t n, uint32_t parts, int32_t least,
                                      int32_t most, bool positive, int32_t *l, struct vc_fit fit)
{
    bool changed = VC_HAND(parts) == 0;

    for (uint32_t pass = 0; pass < 5 && changed; pass++) {
        changed = false;
        for (uint32_t i = 0; i < n; i++) {
            float weight = vc_weight_at(w, x, i);
            float q = vc_small_float(l[i]);
            struct vc_fit f = {fit.a - weight * x[i] * q, fit.b - weight * q * q};

            if (!(f.a > 0.0f) || (positive && !(f.b > 0.0f))) {
                continue;
            }
            int32_t k = vc_ggml_round(x[i] * f.b / f.a);
            k = positive ? (k < most ? k : most) : vc_clamp_i32(k, least, most);
            if (k == l[i]) {
                continue;
            }
            vc_fit_add(&f, weight, x[i], k);
            if ((positive || f.b > 0.0f) && f.a * f.a * fit.b > fit.a * fit.a * f.b) {
                l[i] = k;
                fit = f;
                changed = true;
            }
        }
    }
    fit.a = VC_OF(parts, fit.a, 0);
    fit.b = VC_OF(parts, fit.b, 0);
    VC_TOGETHER();
    return fit;
}

/* As vc_search_signed with weights x * x, from one start and refined: what Q3_K does without statistics. n is 16.
 * (ggml: make_q3_quants) */
VC_TEAM float vc_search_refined(const float *x, uint32_t n, uint32_t parts, int32_t most, int32_t *l, uint8_t *codes)
{
    float m = vc_largest_signed(x, n);
    bool tiny = fabsf(m) < VC_GGML_TINY;
    struct vc_fit fit = {0.0f, 0.0f};

    for (uint32_t i = 0; i < n; i++) {
        vc_fit_add(&fit, x[i] * x[i], x[i], vc_clamp_i32(vc_ggml_round(-(float)most / m * x[i]), -most, most - 1));
    }
    VC_EACH(i, n, parts)
    {
        l[i] = vc_clamp_i32(vc_ggml_round(-(float)most / m * x[i]), -most, most - 1);
    }
    VC_TOGETHER();
    fit = vc_refine_codes(x, NULL, n, parts, -most, most - 1, false, l, fit);
    VC_EACH(i, n, parts)
    {
        codes[i] = tiny ? 0 : (uint8_t)(l[i] + most);
    }
    return tiny ? 0.0f : vc_fit_scale(fit);
}

/* What vc_search_affine tries: codes with the inverse step (first + by * k + most) / range, k = 0 .. steps. */
struct vc_affine_tries {
    float first, by;
    int32_t steps;
    bool magnitude; /* the error is |difference|, not its square */
};

/* Error of x against scale * l + least, counted w times. */
VC_HD float vc_affine_error(float x, float w, float scale, int32_t l, float least, bool magnitude)
{
    float d = scale * vc_small_float(l) + least - x;

    return w * (magnitude ? fabsf(d) : d * d);
}

/* Code of x for scale 1 / inverse and offset least. */
VC_HD int32_t vc_affine_code(float x, float inverse, float least, int32_t most)
{
    return vc_clamp_i32(vc_ggml_round(inverse * (x - least)), 0, most);
}

/* A scale and an offset that were tried. */
struct vc_affine_tried {
    float scale, least, error;
};

/* The inverse step of try k. */
VC_HD float vc_affine_start(struct vc_affine_tries t, int32_t k, int32_t most, float range)
{
    return (t.first + t.by * (float)k + (float)most) / range;
}

/* The least squares for the codes of an inverse step; error Inf: they do not determine a scale. sum_w, sum_x: of the
 * weights and of the weighed elements. */
VC_TEAM_INLINE struct vc_affine_tried vc_affine_try(const float *x, const float *w, uint32_t n, int32_t most,
                                                    float inverse, float least, float sum_w, float sum_x,
                                                    bool magnitude)
{
    struct vc_affine_tried tried = {0.0f, 0.0f, 0.0f};
    float sum_l = 0.0f;
    float sum_ll = 0.0f;
    float sum_xl = 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        float l = vc_small_float(vc_affine_code(x[i], inverse, least, most));

        sum_l += w[i] * l;
        sum_ll += w[i] * l * l;
        sum_xl += w[i] * l * x[i];
    }
    float d = sum_w * sum_ll - sum_l * sum_l;
    if (!(d > 0.0f)) {
        tried.error = vc_bits_f32(VC_F32_INF_BITS);
        return tried;
    }
    tried.scale = (sum_w * sum_xl - sum_x * sum_l) / d;
    tried.least = (sum_ll * sum_x - sum_l * sum_xl) / d;
    if (tried.least > 0.0f) {
        tried.least = 0.0f;
        tried.scale = sum_xl / sum_ll;
    }
    for (uint32_t i = 0; i < n; i++) {
        tried.error += vc_affine_error(x[i], w[i], tried.scale, vc_affine_code(x[i], inverse, least, most), tried.least,
                                       magnitude);
    }
    return tried;
}

/* Codes in [0, most] for values scale * code - minimum: least squares for each of the tries. Returns the scale;
 * *minimum >= 0. Once a try has won, the next ones start from its minimum, so the order of the tries matters: the hands
 * take the next few with the minimum of now, the first of them that wins counts, and those behind it are tried anew. n is
 * at most 32. (ggml: make_qkx2_quants, make_qkx3_quants) */
VC_TEAM float vc_search_affine(const float *x, const float *w, uint32_t n, uint32_t parts, int32_t most,
                               struct vc_affine_tries t, uint8_t *codes, float *minimum)
{
    float least = x[0];
    float top = x[0];
    float sum_w = w[0];
    float sum_x = w[0] * x[0];
    float best = 0.0f;

    for (uint32_t i = 1; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        top = x[i] > top ? x[i] : top;
        sum_w += w[i];
        sum_x += w[i] * x[i];
    }
    least = least > 0.0f ? 0.0f : least;
    bool flat = top == least;
    float inverse = (float)most / (top - least);
    float scale = 1.0f / inverse;
    float base = least; /* what the codes of the best try count from */
    for (uint32_t i = 0; i < n; i++) {
        best += vc_affine_error(x[i], w[i], scale, vc_affine_code(x[i], inverse, least, most), least, t.magnitude);
    }
    for (int32_t k = flat ? t.steps + 1 : 0; VC_ANY(k <= t.steps);) {
        int32_t own = k + (int32_t)VC_HAND(parts);
        struct vc_affine_tried tried =
            vc_affine_try(x, w, n, most, vc_affine_start(t, own, most, top - least), least, sum_w, sum_x, t.magnitude);
        uint32_t winner = VC_HANDS(parts);

        tried.error = own <= t.steps ? tried.error : vc_bits_f32(VC_F32_INF_BITS);
        for (uint32_t hand = 0; hand < VC_HANDS(parts); hand++) {
            float error = VC_OF(parts, tried.error, hand);

            k += winner == VC_HANDS(parts) ? 1 : 0;
            if (winner == VC_HANDS(parts) && error < best) {
                winner = hand;
                best = error;
            }
        }
        float its_scale = VC_OF(parts, tried.scale, winner % VC_HANDS(parts));
        float its_least = VC_OF(parts, tried.least, winner % VC_HANDS(parts));
        if (winner != VC_HANDS(parts)) {
            inverse = vc_affine_start(t, k - 1, most, top - least);
            base = least;
            scale = its_scale;
            least = its_least;
        }
    }
    VC_EACH(i, n, parts)
    {
        codes[i] = flat ? 0 : (uint8_t)vc_affine_code(x[i], inverse, base, most);
    }
    *minimum = -least;
    return flat ? 0.0f : scale;
}

/* Start k of nine, top the largest element. */
VC_HD float vc_positive_start(int32_t k, int32_t most, float top)
{
    return k == 0 ? (float)most / top : (0.1f * (float)(k - (k < 5 ? 5 : 4)) + (float)most) / top;
}

/* Codes in [0, most] for values >= 0, the scales of a block's parts: the best of nine starts, refined. n is at most 16.
 * (ggml: make_qp_quants) */
VC_TEAM float vc_search_positive(const float *x, const float *w, uint32_t n, uint32_t parts, int32_t most, int32_t *l,
                                 uint8_t *codes)
{
    float top = 0.0f;
    float best = 0.0f;
    float inverse = 0.0f;
    struct vc_fit fit = {0.0f, 0.0f};

    for (uint32_t i = 0; i < n; i++) {
        top = x[i] > top ? x[i] : top;
    }
    bool tiny = top < VC_GGML_TINY;
    for (uint32_t from = 0; from < 9; from += VC_HANDS(parts)) {
        int32_t start = (int32_t)(from + VC_HAND(parts));
        bool first = start == 0;
        float own = vc_positive_start(start, most, top);
        float scale = 1.0f / own;
        float error = 0.0f;

        for (uint32_t i = 0; i < n; i++) {
            int32_t code = vc_ggml_round(own * x[i]);
            float d = x[i] - scale * (float)(first || code < most ? code : most);

            error += w[i] * d * d;
        }
        for (uint32_t k = 0; k < VC_HANDS(parts) && from + k < 9; k++) {
            float e = VC_OF(parts, error, k);

            if (from + k == 0 || e < best) {
                best = e;
                inverse = vc_positive_start((int32_t)(from + k), most, top);
            }
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        int32_t code = vc_ggml_round(inverse * x[i]);

        vc_fit_add(&fit, w[i], x[i], code < most ? code : most);
    }
    VC_EACH(i, n, parts)
    {
        int32_t code = vc_ggml_round(inverse * x[i]);

        l[i] = code < most ? code : most;
    }
    VC_TOGETHER();
    fit = vc_refine_codes(x, w, n, parts, 0, most, true, l, fit);
    VC_EACH(i, n, parts)
    {
        codes[i] = tiny ? 0 : (uint8_t)l[i];
    }
    return tiny ? 0.0f : vc_fit_scale(fit);
}

/* ---- codebooks ---- */

/* The code of the value of vc_iq4_value that is nearest to x: how many of the 15 middles between two of them x is not
 * below. Halves go to the larger one, NaN gets 15, as in ggml's binary search: near a middle its differences are exact.
 */
VC_HD uint32_t vc_iq4_code(float x)
{
    const float middles[15] = {-115.5f, -93.5f, -74.0f, -57.0f, -42.0f, -28.5f, -16.0f, -4.5f,
                               7.0f,    19.0f,  31.5f,  45.5f,  61.0f,  79.0f,  101.0f};
    uint32_t code = 0;

    for (uint32_t k = 0; k < 15; k++) {
        code += x < middles[k] ? 0u : 1u;
    }
    return code;
}

/* The value itself: sums of steps are exact, and compilers make vectors of loops around them. */
VC_HD float vc_iq4_nearest(float x)
{
    float v = -127.0f;

    v += x < -115.5f ? 0.0f : 23.0f;
    v += x < -93.5f ? 0.0f : 21.0f;
    v += x < -74.0f ? 0.0f : 18.0f;
    v += x < -57.0f ? 0.0f : 16.0f;
    v += x < -42.0f ? 0.0f : 14.0f;
    v += x < -28.5f ? 0.0f : 13.0f;
    v += x < -16.0f ? 0.0f : 12.0f;
    v += x < -4.5f ? 0.0f : 11.0f;
    v += x < 7.0f ? 0.0f : 12.0f;
    v += x < 19.0f ? 0.0f : 12.0f;
    v += x < 31.5f ? 0.0f : 13.0f;
    v += x < 45.5f ? 0.0f : 15.0f;
    v += x < 61.0f ? 0.0f : 16.0f;
    v += x < 79.0f ? 0.0f : 20.0f;
    v += x < 101.0f ? 0.0f : 24.0f;
    return v;
}

/* The code whose value times the step is nearest to x; of two equally near ones the lower code. half_step: half of the
 * step. */
VC_HD uint32_t vc_e2m1_code(float x, float half_step)
{
    uint32_t best = 0;
    float least = fabsf(vc_e2m1_twice(0) * half_step - x);

    for (uint32_t code = 1; code < 16; code++) {
        float error = fabsf(vc_e2m1_twice(code) * half_step - x);

        best = error < least ? code : best;
        least = error < least ? error : least;
    }
    return best;
}

/* The sums of a fit of 32 elements to the nearest IQ4 values. */
VC_TEAM_INLINE struct vc_fit vc_iq4_fit(const float *x, const float *w, float inverse)
{
    struct vc_fit fit = {0.0f, 0.0f};
    float q[32];

    VC_UNROLL
    for (uint32_t i = 0; i < 32; i++) {
        q[i] = vc_iq4_nearest(inverse * x[i]);
    }
    VC_UNROLL
    for (uint32_t i = 0; i < 32; i++) {
        float weight = vc_weight_at(w, x, i);

        fit.a += weight * q[i] * x[i];
        fit.b += weight * q[i] * q[i];
    }
    return fit;
}

/* The signed scale for codes of the IQ4 values: the best of 16 starts, by weighted squares. 0 where all are
 * tiny. 32 elements. (ggml: quantize_row_iq4_nl_impl) */
VC_TEAM float vc_search_iq4(const float *x, const float *w, uint32_t parts)
{
    float m = vc_largest_signed(x, 32);
    float scale = 0.0f;
    float best = 0.0f;

    for (uint32_t from = 0; from < 16; from += VC_HANDS(parts)) {
        int32_t start = (int32_t)(from + VC_HAND(parts));
        struct vc_fit fit =
            vc_iq4_fit(x, w, start == 0 ? 1.0f / (-m / vc_iq4_value(0)) : ((float)(start - 8) + vc_iq4_value(0)) / m);

        for (uint32_t k = 0; k < VC_HANDS(parts) && from + k < 16; k++) {
            struct vc_fit other = {VC_OF(parts, fit.a, k), VC_OF(parts, fit.b, k)};

            if (from + k == 0 || (other.b > 0.0f && other.a * other.a > best * other.b)) {
                scale = other.a / other.b;
                best = scale * other.a;
            }
        }
    }
    return fabsf(m) < VC_GGML_TINY ? 0.0f : scale;
}
