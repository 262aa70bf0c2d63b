/* block_search.h - how the quantizers of ggml choose the scale of a few elements: bit for bit what llama.cpp's
 * reference quantizers compute. For C, C++ and CUDA, as arith.h; block_encode.h makes blocks of it.
 *
 * All take n elements x (16, 32, or the 8 or 16 scales of a block), their weights w (how much the squared error of an
 * element counts, >= 0), and fill codes. Every sum is f32, in the order of the elements, products from left to right:
 * w * x * l is (w * x) * l. A change of that order changes codes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "kernels/blocks.h"

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
    f->a += w * x * (float)l;
    f->b += w * (float)l * (float)l;
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

/* Symmetric codes in [-most, most - 1], stored as code + most: the scale that leaves the least error among 19 starts,
 * (most + f) / (largest element) for f = 0, -0.9, -0.8 .. 0.9. w may be NULL. Returns the scale, which may be negative;
 * 0 (and codes 0, which stand for -most) where all elements are tiny. (ggml: make_qx_quants, weighted) */
VC_HD_LARGE float vc_search_signed(const float *x, const float *w, uint32_t n, int32_t most, uint8_t *codes)
{
    float m = vc_largest_signed(x, n);
    float scale = 0.0f;
    float best = 0.0f;

    if (fabsf(m) < VC_GGML_TINY) {
        for (uint32_t i = 0; i < n; i++) {
            codes[i] = 0;
        }
        return 0.0f;
    }
    for (int32_t k = -10; k <= 9; k++) {
        bool first = k == -10;
        float f = first ? 0.0f : 0.1f * (float)k;
        float inverse = -((float)most + f) / m;
        struct vc_fit fit = {0.0f, 0.0f};

        if (k == 0) {
            continue;
        }
        for (uint32_t i = 0; i < n; i++) {
            vc_fit_add(&fit, vc_weight_at(w, x, i), x[i], vc_clamp_i32(vc_ggml_round(inverse * x[i]), -most, most - 1));
        }
        if (first || (fit.b > 0.0f && fit.a * fit.a > best * fit.b)) {
            scale = vc_fit_scale(fit);
            best = scale * fit.a;
            for (uint32_t i = 0; i < n; i++) {
                codes[i] = (uint8_t)(vc_clamp_i32(vc_ggml_round(inverse * x[i]), -most, most - 1) + most);
            }
        }
    }
    return scale;
}

/* Up to five passes over the codes (without offset, in [least, most]): each code moves to the nearest one for the scale
 * that the other codes want, where that lowers the error. positive: b has to stay above 0, codes have no lower end.
 * (the end of make_q3_quants and make_qp_quants) */
VC_HD_LARGE void vc_refine_codes(const float *x, const float *w, uint32_t n, int32_t least, int32_t most, bool positive,
                                 int32_t *l, struct vc_fit *fit)
{
    bool changed = true;

    for (uint32_t pass = 0; pass < 5 && changed; pass++) {
        changed = false;
        for (uint32_t i = 0; i < n; i++) {
            float weight = vc_weight_at(w, x, i);
            struct vc_fit f = {fit->a - weight * x[i] * (float)l[i], fit->b - weight * (float)l[i] * (float)l[i]};

            if (!(f.a > 0.0f) || (positive && !(f.b > 0.0f))) {
                continue;
            }
            int32_t k = vc_ggml_round(x[i] * f.b / f.a);
            k = positive ? (k < most ? k : most) : vc_clamp_i32(k, least, most);
            if (k == l[i]) {
                continue;
            }
            vc_fit_add(&f, weight, x[i], k);
            if ((positive || f.b > 0.0f) && f.a * f.a * fit->b > fit->a * fit->a * f.b) {
                l[i] = k;
                *fit = f;
                changed = true;
            }
        }
    }
}

/* As vc_search_signed with weights x * x, from one start and refined: what Q3_K does without statistics. n is 16.
 * (ggml: make_q3_quants) */
VC_HD_LARGE float vc_search_refined(const float *x, uint32_t n, int32_t most, uint8_t *codes)
{
    float m = vc_largest_signed(x, n);
    struct vc_fit fit = {0.0f, 0.0f};
    int32_t l[32];

    if (fabsf(m) < VC_GGML_TINY) {
        for (uint32_t i = 0; i < n; i++) {
            codes[i] = 0;
        }
        return 0.0f;
    }
    for (uint32_t i = 0; i < n; i++) {
        l[i] = vc_clamp_i32(vc_ggml_round(-(float)most / m * x[i]), -most, most - 1);
        vc_fit_add(&fit, x[i] * x[i], x[i], l[i]);
    }
    vc_refine_codes(x, NULL, n, -most, most - 1, false, l, &fit);
    for (uint32_t i = 0; i < n; i++) {
        codes[i] = (uint8_t)(l[i] + most);
    }
    return vc_fit_scale(fit);
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
    float d = scale * (float)l + least - x;

    return w * (magnitude ? fabsf(d) : d * d);
}

/* Codes in [0, most] for values scale * code - minimum: least squares for each of the tries. Returns the scale;
 * *minimum >= 0. Once a try has won, the next ones start from its minimum: the order of the tries matters. n is at
 * most 32. (ggml: make_qkx2_quants, make_qkx3_quants) */
VC_HD_LARGE float vc_search_affine(const float *x, const float *w, uint32_t n, int32_t most, struct vc_affine_tries t,
                                   uint8_t *codes, float *minimum)
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
    if (top == least) {
        for (uint32_t i = 0; i < n; i++) {
            codes[i] = 0;
        }
        *minimum = -least;
        return 0.0f;
    }
    float inverse = (float)most / (top - least);
    float scale = 1.0f / inverse;
    for (uint32_t i = 0; i < n; i++) {
        codes[i] = (uint8_t)vc_clamp_i32(vc_ggml_round(inverse * (x[i] - least)), 0, most);
        best += vc_affine_error(x[i], w[i], scale, codes[i], least, t.magnitude);
    }
    for (int32_t k = 0; k <= t.steps; k++) {
        float sum_l = 0.0f;
        float sum_ll = 0.0f;
        float sum_xl = 0.0f;
        float error = 0.0f;
        uint8_t l[32];

        inverse = (t.first + t.by * (float)k + (float)most) / (top - least);
        for (uint32_t i = 0; i < n; i++) {
            l[i] = (uint8_t)vc_clamp_i32(vc_ggml_round(inverse * (x[i] - least)), 0, most);
            sum_l += w[i] * (float)l[i];
            sum_ll += w[i] * (float)l[i] * (float)l[i];
            sum_xl += w[i] * (float)l[i] * x[i];
        }
        float d = sum_w * sum_ll - sum_l * sum_l;
        if (!(d > 0.0f)) {
            continue;
        }
        float this_scale = (sum_w * sum_xl - sum_x * sum_l) / d;
        float this_least = (sum_ll * sum_x - sum_l * sum_xl) / d;
        if (this_least > 0.0f) {
            this_least = 0.0f;
            this_scale = sum_xl / sum_ll;
        }
        for (uint32_t i = 0; i < n; i++) {
            error += vc_affine_error(x[i], w[i], this_scale, l[i], this_least, t.magnitude);
        }
        if (error < best) {
            best = error;
            scale = this_scale;
            least = this_least;
            for (uint32_t i = 0; i < n; i++) {
                codes[i] = l[i];
            }
        }
    }
    *minimum = -least;
    return scale;
}

/* Codes in [0, most] for values >= 0, the scales of a block's parts: the best of nine starts, refined. n is at most 16.
 * (ggml: make_qp_quants) */
VC_HD_LARGE float vc_search_positive(const float *x, const float *w, uint32_t n, int32_t most, uint8_t *codes)
{
    float top = 0.0f;
    float best = 0.0f;
    float inverse = 0.0f;
    struct vc_fit fit = {0.0f, 0.0f};
    int32_t l[16];

    for (uint32_t i = 0; i < n; i++) {
        top = x[i] > top ? x[i] : top;
    }
    if (top < VC_GGML_TINY) {
        for (uint32_t i = 0; i < n; i++) {
            codes[i] = 0;
        }
        return 0.0f;
    }
    for (int32_t k = -5; k <= 4; k++) {
        bool first = k == -5;
        float this_inverse = first ? (float)most / top : (0.1f * (float)k + (float)most) / top;
        float scale = 1.0f / this_inverse;
        float error = 0.0f;

        if (k == 0) {
            continue;
        }
        for (uint32_t i = 0; i < n; i++) {
            int32_t code = vc_ggml_round(this_inverse * x[i]);
            float d = x[i] - scale * (float)(first || code < most ? code : most);

            error += w[i] * d * d;
        }
        if (first || error < best) {
            best = error;
            inverse = this_inverse;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        int32_t code = vc_ggml_round(inverse * x[i]);

        l[i] = code < most ? code : most;
        vc_fit_add(&fit, w[i], x[i], l[i]);
    }
    vc_refine_codes(x, w, n, 0, most, true, l, &fit);
    for (uint32_t i = 0; i < n; i++) {
        codes[i] = (uint8_t)l[i];
    }
    return vc_fit_scale(fit);
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
VC_HD_LARGE uint32_t vc_e2m1_code(float x, float half_step)
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

/* The signed scale for codes of the IQ4 values: the best of 15 starts, by weighted squares. 0 where all are
 * tiny. 32 elements. (ggml: quantize_row_iq4_nl_impl) */
VC_HD_LARGE float vc_search_iq4(const float *x, const float *w)
{
    float m = vc_largest_signed(x, 32);
    float scale = 0.0f;
    float best = 0.0f;

    if (fabsf(m) < VC_GGML_TINY) {
        return 0.0f;
    }
    for (int32_t k = -8; k <= 7; k++) {
        bool first = k == -8;
        float inverse = first ? 1.0f / (-m / vc_iq4_value(0)) : ((float)k + vc_iq4_value(0)) / m;
        struct vc_fit fit = {0.0f, 0.0f};
        float q[32];

        for (uint32_t i = 0; i < 32; i++) {
            q[i] = vc_iq4_nearest(inverse * x[i]);
        }
        for (uint32_t i = 0; i < 32; i++) {
            float weight = vc_weight_at(w, x, i);

            fit.a += weight * q[i] * x[i];
            fit.b += weight * q[i] * q[i];
        }
        if (first || (fit.b > 0.0f && fit.a * fit.a > best * fit.b)) {
            scale = fit.a / fit.b;
            best = scale * fit.a;
        }
    }
    return scale;
}
