/* grid_codes.h - the arithmetic of codes with a scale per group: whole numbers (int2 to int6, ternary), and numbers of
 * a grid of floats: fp8, mxfp8, mxfp4, nvfp4, nf4 and fp4. The value of a code, the code of a value, the scale of a
 * group. Valid as C11, C++ and CUDA, built with the flags that arith.h names. Tiles and statistics are the pass's
 * (quantize/schemes/group_codes.c).
 *
 *     int2..6  whole numbers of b bits, from -2^(b-1) to 2^(b-1) - 1; ternary: -1, 0, 1
 *     E4M3     s eeee mmm  (1 + m / 8) * 2^(e - 7); e = 0: m * 2^-9; 0x7f and 0xff are NaN; the largest is 448
 *                                                                                              OCP OFP8
 *     E2M1     s ee m      0 0.5 1 1.5 2 3 4 6 and the negative ones                           OCP MX 1.0
 *     E8M0     eeeeeeee    2^(e - 127); 0xff is NaN                                            OCP MX 1.0
 *     NF4                  16 values of quantiles of the normal law, -1 .. 1                   QLoRA, bitsandbytes
 *     FP4                  16 values, 1/12 of 0 0.0625 8 12 4 6 2 3 and the negative ones      bitsandbytes
 *
 * Scales of a group of n finite elements:
 *
 *     fp8     absmax / 448
 *     mxfp8   the least power of two with absmax / scale <= 448
 *     mxfp4   2^k with the least error, of k = f - 1, f, f + 1, where f = floor(log2(absmax)) - 2
 *     nvfp4   an E4M3 number c / global with the least error, of the 14 numbers from 4 below c0 to 9 above it, where
 *             c0 = E4M3(absmax * global / 6)
 *     nf4,    for 12 numbers f from 0.70 to 1.05: the codes of f * absmax, then the scale of least squares for these,
 *     fp4     as it is stored; the one with the least error
 *     int2..6 the same for 16 numbers f from 0.50 to 1.10 and the codes of f * absmax / 2^(b-1); then, where scales may
 *             be negative, for the codes of -f * absmax / 2^(b-1)
 *     ternary the same for f = 1/16 .. 16/16, without negative scales
 *     with zero points
 *             for 3 zero points around the zero point of the range, the same with f * (max - min) / (2^b - 1)
 *
 * Error: the sum of h * (x - value(code(x / s)) * s)^2, h the weight of the element or 1. Sums are f64, lane l of 8
 * adds elements l, l + 8, ... in ascending order, from +0.0; then lanes l and l + k are added for k = 4, 2, 1. Of equal
 * errors the first one wins. */
#pragma once

#include <stddef.h>

#include "core/values/grids.h"
#include "kernels/arith.h"

#define VC_SUM_LANES 8

/* Element i of an array that may be unaligned: read by its bytes, since compilers take a float's address to be aligned. Arrays
 * on a device are aligned. */
VC_HD float vc_float_at(const float *x, size_t i)
{
#ifdef __CUDA_ARCH__
    return x[i];
#else
    float value;

    memcpy(&value, (const char *)x + i * sizeof value, sizeof value);
    return value;
#endif
}

/* ---- E4M3 ---- */

VC_HD float vc_e4m3_value(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80u) << 24;
    uint32_t magnitude = code & 0x7fu;

    if (magnitude == 0x7fu) {
        return vc_bits_f32(0x7fc00000u | sign);
    }
    if (magnitude < 8u) {
        return vc_bits_f32(vc_f32_bits((float)magnitude * 0.001953125f) | sign);
    }
    return vc_bits_f32(sign | ((magnitude << 20) + 0x3c000000u));
}

/* The nearest number, ties to even mantissas; beyond 448 it is 448. NaN: 0x7f. */
VC_HD uint8_t vc_e4m3_of(float x)
{
    uint32_t bits = vc_f32_bits(x);
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80u);
    uint32_t a = bits & VC_F32_ABS_MASK;

    if (a > VC_F32_INF_BITS) {
        return 0x7f;
    }
    if (a >= 0x43e00000u) { /* 448 */
        return (uint8_t)(sign | 0x7eu);
    }
    if (a < 0x3c800000u) { /* 2^-6: steps of 2^-9 */
        return (uint8_t)(sign | (uint32_t)((vc_bits_f32(a) * 512.0f + 12582912.0f) - 12582912.0f));
    }
    a += 0x7ffffu + (a >> 20 & 1u);
    return (uint8_t)(sign | ((a - 0x3c000000u) >> 20));
}

/* ---- E8M0 ---- */

VC_HD float vc_e8m0_value(uint8_t code)
{
    return vc_bits_f32(code == 0xffu ? 0x7fc00000u : code == 0 ? 0x00400000u : (uint32_t)code << 23);
}

/* ---- E2M1 ---- */

/* The magnitude nearest to a >= 0, ties to even mantissas. */
VC_HD float vc_e2m1_near(float a)
{
    float y = a > 0.25f ? 0.5f : 0.0f;

    y = a >= 0.75f ? 1.0f : y;
    y = a > 1.25f ? 1.5f : y;
    y = a >= 1.75f ? 2.0f : y;
    y = a > 2.5f ? 3.0f : y;
    y = a >= 3.5f ? 4.0f : y;
    return a > 5.0f ? 6.0f : y;
}

VC_HD float vc_e2m1_value(unsigned code)
{
    unsigned m = code & 7u;
    unsigned exponent = m >> 1; /* of 2 bits; then one of the fraction */
    float fraction = 0.5f * (float)(m & 1u);
    float magnitude = exponent == 0 ? fraction : (1.0f + fraction) * (float)(1u << (exponent - 1u));

    return (code & 8u) != 0 ? -magnitude : magnitude;
}

/* There is a code of -0, which is never made. */
VC_HD unsigned vc_e2m1_of(float x)
{
    float a = fabsf(x);
    unsigned m = (unsigned)(a > 0.25f) + (unsigned)(a >= 0.75f) + (unsigned)(a > 1.25f) + (unsigned)(a >= 1.75f) +
                 (unsigned)(a > 2.5f) + (unsigned)(a >= 3.5f) + (unsigned)(a > 5.0f);

    return m | (x < 0.0f && m != 0 ? 8u : 0u);
}

/* ---- NF4 and FP4 ---- */

/* Half way between two values the smaller magnitude of FP4 and the smaller value of NF4 are taken. */
#define VC_GRID16_VALUE(a, b, code) y = t > 0.5f * ((a) + (b)) ? (b) : y;
#define VC_GRID16_CODE(a, b, code)  y = t > 0.5f * ((a) + (b)) ? (code) : y;
#define VC_GRID16_OF(a, b, number)  y = code == (number) ? (b) : y;

VC_HD float vc_nf4_near(float t)
{
    float y = -1.0f;

    VC_NF4_STEPS(VC_GRID16_VALUE)
    return y;
}

VC_HD unsigned vc_nf4_of(float t)
{
    unsigned y = 0;

    VC_NF4_STEPS(VC_GRID16_CODE)
    return y;
}

VC_HD float vc_nf4_value(unsigned code)
{
    float y = -1.0f;

    VC_NF4_STEPS(VC_GRID16_OF)
    return y;
}

VC_HD float vc_fp4_near(float x)
{
    float t = fabsf(x);
    float y = 0.0f;

    VC_FP4_STEPS(VC_GRID16_VALUE)
    return x < 0.0f ? -y : y;
}

/* There is a code of -0, which is never made. */
VC_HD unsigned vc_fp4_of(float x)
{
    float t = fabsf(x);
    unsigned y = 0;

    VC_FP4_STEPS(VC_GRID16_CODE)
    return y | (x < 0.0f && y != 0 ? 8u : 0u);
}

VC_HD float vc_fp4_value(unsigned signed_code)
{
    unsigned code = signed_code & 7u;
    float y = 0.0f;

    VC_FP4_STEPS(VC_GRID16_OF)
    return (signed_code & 8u) != 0 ? -y : y;
}

/* ---- any of them ---- */

/* The value of a code of a grid of floats. */
VC_HD float vc_float_code_value(enum vc_grid grid, unsigned code)
{
    switch (grid) {
    case VC_GRID_E4M3:
        return vc_e4m3_value((uint8_t)code);
    case VC_GRID_NF4:
        return vc_nf4_value(code);
    case VC_GRID_FP4:
        return vc_fp4_value(code);
    default:
        return vc_e2m1_value(code);
    }
}

/* The values of 256 codes; of four bits there are 16. */
VC_HD void vc_float_values(enum vc_grid grid, float *values)
{
    unsigned code;

    for (code = 0; code < 256; code++) {
        values[code] = vc_float_code_value(grid, code);
    }
}

/* The code nearest to t = x / scale, of a grid of floats. */
VC_HD uint8_t vc_float_code_of(enum vc_grid grid, float t)
{
    switch (grid) {
    case VC_GRID_E4M3:
        return vc_e4m3_of(t);
    case VC_GRID_NF4:
        return (uint8_t)vc_nf4_of(t);
    case VC_GRID_FP4:
        return (uint8_t)vc_fp4_of(t);
    default:
        return (uint8_t)vc_e2m1_of(t);
    }
}

/* The whole number from low to high nearest to t, ties to even, as a float. The ends are cut off first, which gives the
 * same numbers, so that adding 1.5 * 2^23 rounds to a whole number in the lanes of any processor. */
VC_HD float vc_int_near(float low, float high, float t)
{
    t = t < high ? t : high;
    t = t > low ? t : low;
    return (t + 12582912.0f) - 12582912.0f;
}

/* The value nearest to t, of codes whose scales are searched. grid: that of c. Loops over a grid that the compiler
 * knows are twice as fast. */
VC_HD_INLINE float vc_float_near(enum vc_grid grid, const struct vc_group_codes *c, float t)
{
    float y;

    if (grid == VC_GRID_NONE) {
        return vc_int_near((float)c->low, (float)c->high, t);
    }
    if (grid == VC_GRID_NF4 || grid == VC_GRID_FP4) {
        return grid == VC_GRID_NF4 ? vc_nf4_near(t) : vc_fp4_near(t);
    }
    y = vc_e2m1_near(fabsf(t));
    return t < 0.0f ? -y : y;
}

/* The sum of eight lanes. */
VC_HD double vc_lanes_sum(double *lanes)
{
    int k;
    int l;

    for (k = VC_SUM_LANES / 2; k > 0; k /= 2) {
        for (l = 0; l < k; l++) {
            lanes[l] += lanes[l + k];
        }
    }
    return lanes[0];
}

/* The squared error of an element: the product of a value and a scale is exact in f64. */
VC_HD_INLINE double vc_float_square(enum vc_grid grid, const struct vc_group_codes *c, float x, float s)
{
    double e = (double)x - (double)vc_float_near(grid, c, x / s) * (double)s;

    return e * e;
}

/* How much element i counts: weights NULL: 1, which changes no product. */
VC_HD_INLINE double vc_column_weight(const float *weights, size_t i)
{
    return weights != NULL ? (double)vc_float_at(weights, i) : 1.0;
}

VC_HD_INLINE double vc_weighed_error(enum vc_grid grid, const struct vc_group_codes *c, const float *weights,
                                     const float *x, size_t n, float s)
{
    double errors[VC_SUM_LANES] = {0.0};
    size_t i = 0;
    size_t l;

    for (; n - i >= VC_SUM_LANES; i += VC_SUM_LANES) {
        for (l = 0; l < VC_SUM_LANES; l++) {
            errors[l] += vc_column_weight(weights, i + l) * vc_float_square(grid, c, vc_float_at(x, i + l), s);
        }
    }
    for (l = 0; l < VC_SUM_LANES; l++) { /* of known length, so that a device keeps the sums in registers */
        if (i + l < n) {
            errors[l] += vc_column_weight(weights, i + l) * vc_float_square(grid, c, vc_float_at(x, i + l), s);
        }
    }
    return vc_lanes_sum(errors);
}

/* The sum of squared errors with that scale, which is not 0. Each call has loops of its own, so that the compiler
 * leaves out weights that are not there. */
VC_HD_INLINE double vc_float_error(enum vc_grid grid, const struct vc_group_codes *c, const float *x, size_t n, float s)
{
    return c->weights == NULL ? vc_weighed_error(grid, c, NULL, x, n, s)
                              : vc_weighed_error(grid, c, c->weights, x, n, s);
}

VC_HD_INLINE void vc_float_add_fit(enum vc_grid grid, const struct vc_group_codes *c, double weight, float x, float s,
                                   double *products, double *squares)
{
    double y = (double)vc_float_near(grid, c, x / s);

    *products += weight * (y * (double)x);
    *squares += weight * (y * y);
}

VC_HD_INLINE float vc_weighed_refit(enum vc_grid grid, const struct vc_group_codes *c, const float *weights,
                                    const float *x, size_t n, float s)
{
    double products[VC_SUM_LANES] = {0.0};
    double squares[VC_SUM_LANES] = {0.0};
    size_t i = 0;
    size_t l;
    double below;

    for (; n - i >= VC_SUM_LANES; i += VC_SUM_LANES) {
        for (l = 0; l < VC_SUM_LANES; l++) {
            vc_float_add_fit(grid, c, vc_column_weight(weights, i + l), vc_float_at(x, i + l), s, &products[l],
                             &squares[l]);
        }
    }
    for (l = 0; l < VC_SUM_LANES; l++) {
        if (i + l < n) {
            vc_float_add_fit(grid, c, vc_column_weight(weights, i + l), vc_float_at(x, i + l), s, &products[l],
                             &squares[l]);
        }
    }
    below = vc_lanes_sum(squares);
    return below > 0.0 ? vc_f64_to_f32(vc_lanes_sum(products) / below) : 0.0f;
}

/* The scale of least squares for the codes that s gives; 0: all of them are 0. */
VC_HD_INLINE float vc_float_refit(enum vc_grid grid, const struct vc_group_codes *c, const float *x, size_t n, float s)
{
    return c->weights == NULL ? vc_weighed_refit(grid, c, NULL, x, n, s)
                              : vc_weighed_refit(grid, c, c->weights, x, n, s);
}

/* ---- scales ---- */

/* The largest scale of the type of which `steps`, a power of two, are a finite f32. */
VC_HD float vc_scale_largest(enum vc_dtype type, int steps)
{
    return type == VC_DTYPE_F16 ? 65504.0f
                                : vc_bits_f32(type == VC_DTYPE_BF16 ? 0x7f7f0000u : 0x7f7fffffu) / (float)steps;
}

/* The scale in the type that is stored: f32, f16 or bf16. Weights near the largest f32 get the largest scale. */
VC_HD float vc_scale_stored(float s, enum vc_dtype type, int steps)
{
    float most = vc_scale_largest(type, steps);
    float stored = type == VC_DTYPE_F16    ? vc_f16_to_f32(vc_f32_to_f16(s))
                   : type == VC_DTYPE_BF16 ? vc_bf16_to_f32(vc_f32_to_bf16(s))
                                           : s;

    stored = stored < most ? stored : most;
    return stored > -most ? stored : -most;
}

/* The scale of a group whose codes are all 0: the smallest normal number of the type. */
VC_HD float vc_scale_smallest(enum vc_dtype type)
{
    return type == VC_DTYPE_F16 ? 6.103515625e-05f : vc_bits_f32(VC_F32_MIN_NORMAL_BITS);
}

/* The exponent of 2 in a finite x > 0: floor(log2(x)). */
VC_HD int vc_floor_log2(float x)
{
    uint32_t bits = vc_f32_bits(x);
    int e = -127;

    if (bits >= VC_F32_MIN_NORMAL_BITS) {
        return (int)(bits >> 23) - 127;
    }
    while (bits < 0x00400000u) {
        bits <<= 1;
        e--;
    }
    return e;
}

/* 2^e, with e from -127 to `most`: the largest code times 2^most is a finite f32. */
#define VC_MXFP8_MOST 119
#define VC_MXFP4_MOST 125

VC_HD struct vc_float_scale vc_mx_scale(int e, int most)
{
    uint8_t byte = (uint8_t)(e < -127 ? 0 : e > most ? most + 127 : e + 127);
    struct vc_float_scale scale = {vc_e8m0_value(byte), byte, 0, 0, 0};

    return scale;
}

VC_HD struct vc_float_scale vc_mxfp8_scale(float absmax)
{
    struct vc_float_scale one = vc_mx_scale(0, VC_MXFP8_MOST);
    int e;

    if (absmax == 0.0f) {
        one.zero = 1;
        return one;
    }
    e = vc_floor_log2(absmax) - 8; /* 448 = 1.75 * 2^8 */
    return vc_mx_scale((double)absmax > 448.0 * (double)vc_mx_scale(e, VC_MXFP8_MOST).value ? e + 1 : e, VC_MXFP8_MOST);
}

/* What scales of a tensor are divided by: 448 * 6 / absmax, of all tensors that share it. */
VC_HD float vc_nvfp4_global(float absmax)
{
    float global = absmax > 0.0f ? 2688.0f / absmax : 1.0f;

    return global < 3.0e38f ? global : 3.0e38f;
}

/* The power of two at or below it, whose inverse is a float, too: exponents -126 to 127 are those of vc_nvfp4_global. */
VC_HD float vc_nvfp4_power(float global)
{
    return vc_bits_f32(vc_f32_bits(global) & VC_F32_INF_BITS);
}

/* Scales of fp8 are of the type that the layout stores, and 448 of them are a finite f32. */
VC_HD struct vc_float_scale vc_fp8_scale(float absmax, enum vc_dtype type)
{
    float most = vc_bits_f32(type == VC_DTYPE_BF16 ? 0x7b120000u : 0x7b124924u);
    struct vc_float_scale scale = {vc_scale_stored(vc_f64_to_f32((double)absmax / 448.0), type, 8), 0, 0, 0, 0};

    scale.value = scale.value < most ? scale.value : most;
    if (scale.value == 0.0f) {
        scale.value = vc_scale_smallest(type);
        scale.zero = absmax == 0.0f;
    }
    return scale;
}

/* The scale of a group of E4M3 codes, which is not searched. */
VC_HD struct vc_float_scale vc_e4m3_scale(const struct vc_group_codes *c, float absmax)
{
    return c->bytes == VC_DTYPE_F8_E8M0 ? vc_mxfp8_scale(absmax) : vc_fp8_scale(absmax, c->type);
}

/* Steps of a scale that are finite: all codes of whole numbers have finite values. */
VC_HD int vc_group_steps(const struct vc_group_codes *c)
{
    return c->grid != VC_GRID_NONE ? 8 : c->zero_points ? c->high - c->low + 1 : -c->low;
}

/* The codes minus a zero point. */
VC_HD struct vc_group_codes vc_group_shifted(const struct vc_group_codes *c, int zero_point)
{
    struct vc_group_codes own = *c;

    own.low -= zero_point;
    own.high -= zero_point;
    return own;
}

/* ---- the search for a scale ---- */

/* What is tried for a group: trials 0 to n - 1; of equal errors the first one wins. Scales of mxfp4 and nvfp4 are
 * stored numbers, from `first` on. All others begin with a factor, (from + i * step) / below, of largest / divisor: the
 * codes that it gives have a scale of least squares. After n_factors trials the same come below 0, where scales have
 * both signs, or with the next zero point after `first`. */
struct vc_scale_trials {
    int n, first, n_factors, from, step, divisor;
    double below;
    float largest;
};

/* Zero points around that of the range, whose half is the largest number. */
VC_HD void vc_trial_zero_points(struct vc_scale_trials *t, const struct vc_group_codes *c, const float *x, size_t n)
{
    float most = 0.0f;
    float least = 0.0f;
    int middle;
    int last;
    size_t i;

    for (i = 0; i < n; i++) {
        float value = vc_float_at(x, i);

        most = value > most ? value : most;
        least = value < least ? value : least;
    }
    t->largest = vc_f64_to_f32(0.5 * (double)most - 0.5 * (double)least); /* finite */
    middle = t->largest > 0.0f ? (int)((float)(c->high - c->low) * (-0.5f * least / t->largest) + 0.5f) + c->low : 0;
    t->first = middle > c->low ? middle - 1 : c->low;
    last = middle < c->high ? middle + 1 : c->high;
    t->n *= last - t->first + 1;
    t->below = 50.0;
    t->divisor = c->high - c->low;
}

/* For n finite elements, of codes whose scale is searched. */
VC_HD struct vc_scale_trials vc_scale_trials_of(const struct vc_group_codes *c, const float *x, size_t n, float absmax)
{
    const struct vc_scale_trials floats = {12, 0, 12, 770, 35, 1, 1100.0, absmax};
    const struct vc_scale_trials ternary = {16, 0, 16, 1, 1, 1, 16.0, absmax};
    const struct vc_scale_trials ints = {16, 0, 16, 50, 4, -c->low, 100.0, absmax};
    struct vc_scale_trials t = c->grid != VC_GRID_NONE ? floats : c->low == -1 ? ternary : ints;

    if (c->grid == VC_GRID_E2M1 && c->bytes == VC_DTYPE_F8_E8M0) {
        t.first = absmax > 0.0f ? vc_floor_log2(absmax) - 3 : 0;
        t.n = absmax > 0.0f ? 3 : 0;
    } else if (c->grid == VC_GRID_E2M1) {
        int c0 = vc_e4m3_of(absmax * c->global / 6.0f);

        t.first = c0 > 5 ? c0 - 4 : 1;
        t.n = absmax > 0.0f ? (c0 < 117 ? c0 + 9 : 126) - t.first + 1 : 0;
    } else if (c->grid == VC_GRID_NONE && c->zero_points) {
        vc_trial_zero_points(&t, c, x, n);
    } else if (c->grid == VC_GRID_NONE && c->both_signs) {
        t.n *= 2;
    }
    return t;
}

/* The scale of trial i, or that of the codes that it begins with; value 0: nothing is tried. */
VC_HD struct vc_float_scale vc_trial_begin(const struct vc_group_codes *c, const struct vc_scale_trials *t, int i)
{
    struct vc_float_scale scale = {0.0f, 0, 0, 0, 0};

    if (c->grid == VC_GRID_E2M1 && c->bytes == VC_DTYPE_F8_E8M0) {
        return vc_mx_scale(t->first + i, VC_MXFP4_MOST);
    }
    if (c->grid == VC_GRID_E2M1) {
        scale.byte = (uint8_t)(t->first + i);
        scale.value = vc_e4m3_value(scale.byte) / c->global;
        if (!(scale.value > 0.0f) || scale.value > vc_bits_f32(0x7e2aaaaau)) { /* 6 of these are beyond f32 */
            scale.value = 0.0f;
        }
        return scale;
    }
    scale.value = vc_f64_to_f32((double)(t->from + t->step * (i % t->n_factors)) / t->below * (double)t->largest /
                                (double)t->divisor);
    if (c->zero_points) {
        scale.zero_point = (int8_t)(t->first + i / t->n_factors);
    } else if (i >= t->n_factors) {
        scale.value = -scale.value;
    }
    return scale;
}

/* The scale of trial i and its error; returns 0 if there is none. */
VC_HD_INLINE int vc_trial_run(enum vc_grid grid, const struct vc_group_codes *c, const struct vc_scale_trials *t, int i,
                              const float *x, size_t n, struct vc_float_scale *scale, double *error)
{
    struct vc_group_codes own;

    *scale = vc_trial_begin(c, t, i);
    own = vc_group_shifted(c, scale->zero_point);
    if (scale->value != 0.0f && grid != VC_GRID_E2M1) {
        scale->value = vc_scale_stored(vc_float_refit(grid, &own, x, n, scale->value), c->type, vc_group_steps(c));
    }
    *error = scale->value != 0.0f ? vc_float_error(grid, &own, x, n, scale->value) : 0.0;
    return scale->value != 0.0f;
}

/* The scale where no trial gave one. */
VC_HD struct vc_float_scale vc_scale_of_nothing(const struct vc_group_codes *c)
{
    const struct vc_float_scale smallest = {vc_scale_smallest(c->type), 0, 1, 0, 0};
    const struct vc_float_scale normal = {vc_e4m3_value(8) / c->global, 8, 1, 0, 0}; /* the least one */

    return c->bytes == VC_DTYPE_F8_E8M0   ? vc_mx_scale(0, VC_MXFP4_MOST)
           : c->bytes == VC_DTYPE_F8_E4M3 ? normal
                                          : smallest;
}

VC_HD_INLINE struct vc_float_scale vc_searched_scale(enum vc_grid grid, const struct vc_group_codes *c, const float *x,
                                                     size_t n, float absmax)
{
    const struct vc_scale_trials t = vc_scale_trials_of(c, x, n, absmax);
    struct vc_float_scale best = vc_scale_of_nothing(c);
    double best_error = 0.0;
    int found = 0;
    int i;

    for (i = 0; i < t.n; i++) {
        struct vc_float_scale scale;
        double error;

        if (vc_trial_run(grid, c, &t, i, x, n, &scale, &error) && (!found || error < best_error)) {
            best = scale;
            best_error = error;
            found = 1;
        }
    }
    return best;
}

/* ---- any scheme with a scale per group ---- */

/* The scale of a group of n finite elements. */
VC_HD struct vc_float_scale vc_group_search(const struct vc_group_codes *c, const float *x, size_t n,
                                            uint32_t absmax_bits)
{
    float absmax = vc_bits_f32(absmax_bits);

    switch (c->grid) {
    case VC_GRID_E4M3:
        return vc_e4m3_scale(c, absmax);
    case VC_GRID_E2M1:
        return vc_searched_scale(VC_GRID_E2M1, c, x, n, absmax);
    case VC_GRID_NF4:
        return vc_searched_scale(VC_GRID_NF4, c, x, n, absmax);
    case VC_GRID_FP4:
        return vc_searched_scale(VC_GRID_FP4, c, x, n, absmax);
    default:
        return vc_searched_scale(VC_GRID_NONE, c, x, n, absmax);
    }
}

/* The same. The search is large: other rooms call the one of group_scale.c. */
#if defined(__cplusplus)
#define vc_group_scale vc_group_search
#else
struct vc_float_scale vc_group_scale(const struct vc_group_codes *c, const float *x, size_t n, uint32_t absmax_bits);

/* Double quantization: the scale of NF4 or FP4 becomes book[byte] * outer, of the entry that is nearest and its two
 * neighbours the one with the least error. book: 256 values that ascend from 0 to 1; byte 0 stands for no scale. */
void vc_coded_scale(const struct vc_group_codes *c, const float *book, float outer, const float *x, size_t n,
                    struct vc_float_scale *scale);
#endif

/* What the code of x stands for. */
VC_HD float vc_group_value(const struct vc_group_codes *c, const struct vc_float_scale *scale, float x)
{
    const struct vc_group_codes own = vc_group_shifted(c, scale->zero_point);
    float t = scale->zero ? 0.0f : x / scale->value;

    return (c->grid == VC_GRID_NONE ? vc_float_near(c->grid, &own, t)
                                    : vc_float_code_value(c->grid, vc_float_code_of(c->grid, t))) *
           scale->value;
}

/* The codes of n elements with that scale, and what they stand for; arrays may be unaligned. q NULL: none. */
VC_HD void vc_group_encode(const struct vc_group_codes *c, const struct vc_float_scale *scale, const float *x, size_t n,
                           uint8_t *q, float *y)
{
    const enum vc_grid grid = c->grid;
    const struct vc_group_codes own = vc_group_shifted(c, scale->zero_point);
    const struct vc_float_scale s = *scale; /* which no store into q can change */
    const size_t n_codes = q != NULL ? n : 0;
    size_t i;

    for (i = 0; i < n_codes; i++) {
        float t = s.zero ? 0.0f : vc_float_at(x, i) / s.value;
        float value = grid == VC_GRID_NONE ? vc_float_near(VC_GRID_NONE, &own, t) : 0.0f;
        unsigned code = grid == VC_GRID_NONE ? (unsigned)((int)value + s.zero_point) : vc_float_code_of(grid, t);

        value = (grid == VC_GRID_NONE ? value : vc_float_code_value(grid, code)) * s.value;
        q[i] = (uint8_t)code;
        memcpy((char *)y + i * sizeof value, &value, sizeof value);
    }
}

/* What a code of a grid of floats stands for. A NaN keeps its bits on every device: that of the code, then that of the
 * scale, then that of 0 * Inf on x86. */
VC_HD float vc_grid_decode(float value, float scale)
{
    float y = value * scale;

    if (y == y) {
        return y;
    }
    return value != value ? value : vc_bits_f32(scale != scale ? vc_f32_bits(scale) | 0x00400000u : 0xffc00000u);
}

/* n elements as codes and back: y, which may be x; neither need be aligned. NaN where an element of the group is NaN or
 * infinite. */
VC_HD void vc_group_round(const struct vc_group_codes *c, const float *x, size_t n, void *y)
{
    struct vc_float_scale scale = {0.0f, 0, 0, 0, 0};
    uint32_t absmax = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        uint32_t bits = vc_f32_magnitude(vc_float_at(x, i));

        absmax = bits > absmax ? bits : absmax;
    }
    if (absmax < VC_F32_INF_BITS) {
        scale = vc_group_scale(c, x, n, absmax);
    }
    for (i = 0; i < n; i++) {
        float value =
            absmax < VC_F32_INF_BITS ? vc_group_value(c, &scale, vc_float_at(x, i)) : vc_bits_f32(0x7fc00000u);

        memcpy((char *)y + i * sizeof value, &value, sizeof value);
    }
}

/* ---- bytes ---- */

/* n codes of `bits` bits side by side from the lowest bit on, across bytes; the rest of the last byte is 0. high_first:
 * of two codes of four bits the first has the high half; n is even. */
VC_HD void vc_codes_pack(const uint8_t *codes, size_t n, unsigned bits, int high_first, void *packed)
{
    uint8_t *to = (uint8_t *)packed;
    unsigned mask = (1u << bits) - 1u;
    unsigned waiting = 0; /* bits that fill no byte yet */
    unsigned n_waiting = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        waiting |= (codes[high_first ? i ^ 1u : i] & mask) << n_waiting;
        for (n_waiting += bits; n_waiting >= 8; n_waiting -= 8) {
            *to++ = (uint8_t)waiting;
            waiting >>= 8;
        }
    }
    if (n_waiting != 0) {
        *to = (uint8_t)waiting;
    }
}

/* has_sign: codes are two's complement, and become bytes that are. */
VC_HD void vc_codes_unpack(const void *packed, size_t n, unsigned bits, int high_first, int has_sign, void *codes)
{
    const uint8_t *from = (const uint8_t *)packed;
    uint8_t *to = (uint8_t *)codes;
    unsigned mask = (1u << bits) - 1u;
    unsigned half = has_sign ? 1u << (bits - 1u) : 0u;
    unsigned waiting = 0;
    unsigned n_waiting = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        if (n_waiting < bits) {
            waiting |= (unsigned)*from++ << n_waiting;
            n_waiting += 8;
        }
        to[high_first ? i ^ 1u : i] = (uint8_t)(((waiting & mask) ^ half) - half);
        waiting >>= bits;
        n_waiting -= bits;
    }
}
