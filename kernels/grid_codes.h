/* grid_codes.h - the arithmetic of codes that are numbers of a grid of floats: fp8, mxfp8, mxfp4, nvfp4, nf4 and fp4.
 * The value of a code, the code of a value, the scale of a group. Valid as C11, C++ and CUDA, built with the flags that
 * arith.h names. Tiles and statistics are the pass's (quantize/schemes/float_codes.c).
 *
 *     E4M3   s eeee mmm   (1 + m / 8) * 2^(e - 7); e = 0: m * 2^-9; 0x7f and 0xff are NaN; the largest is 448   OCP
 * OFP8 E2M1   s ee m       0 0.5 1 1.5 2 3 4 6 and the negative ones                                            OCP
 * MX 1.0 E8M0   eeeeeeee     2^(e - 127); 0xff is NaN                                                             OCP
 * MX 1.0 NF4    16 values of quantiles of the normal law, -1 .. 1                                       QLoRA,
 * bitsandbytes FP4    16 values, 1/12 of 0 0.0625 8 12 4 6 2 3 and the negative ones bitsandbytes
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
 *
 * Error: the sum of (x - value(code(x / s)) * s)^2. Sums are f64, lane l of 8 adds elements l, l + 8, ... in ascending
 * order, from +0.0; then lanes l and l + k are added for k = 4, 2, 1. Of equal errors the first one wins. */
#ifndef VC_KERNELS_GRID_CODES_H
#define VC_KERNELS_GRID_CODES_H

#include <stddef.h>

#include <vcompress/dtype.h>

#include "core/values/grids.h"
#include "kernels/arith.h"
#include "kernels/int4.h"

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
    float magnitude = m < 4u ? 0.5f * (float)m : m == 4u ? 2.0f : m == 5u ? 3.0f : m == 6u ? 4.0f : 6.0f;

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

/* The value of a code. */
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

/* The values of all codes; of four bits there are 16. */
VC_HD void vc_float_values(enum vc_grid grid, float *values)
{
    unsigned n = grid == VC_GRID_E4M3 ? 256u : 16u;
    unsigned code;

    for (code = 0; code < n; code++) {
        values[code] = vc_float_code_value(grid, code);
    }
}

/* The code nearest to t = x / scale. */
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

/* The value of that code, of grids that scales are searched on. */
VC_HD float vc_float_near(enum vc_grid grid, float t)
{
    float y;

    if (grid == VC_GRID_NF4 || grid == VC_GRID_FP4) {
        return grid == VC_GRID_NF4 ? vc_nf4_near(t) : vc_fp4_near(t);
    }
    y = vc_e2m1_near(fabsf(t));
    return t < 0.0f ? -y : y;
}

VC_HD double vc_float_square(enum vc_grid grid, float x, float s)
{
    double e = (double)x - (double)vc_float_near(grid, x / s) * (double)s;

    return e * e;
}

/* The sum of squared errors with that scale; s > 0. */
VC_HD double vc_float_error(enum vc_grid grid, const float *x, size_t n, float s)
{
    double errors[VC_INT4_LANES] = {0.0};
    size_t i = 0;
    size_t l;

    for (; n - i >= VC_INT4_LANES; i += VC_INT4_LANES) {
        for (l = 0; l < VC_INT4_LANES; l++) {
            errors[l] += vc_float_square(grid, vc_int4_at(x, i + l), s);
        }
    }
    for (l = 0; i + l < n; l++) {
        errors[l] += vc_float_square(grid, vc_int4_at(x, i + l), s);
    }
    return vc_int4_sum(errors);
}

VC_HD void vc_float_add_fit(enum vc_grid grid, float x, float s, double *products, double *squares)
{
    double y = (double)vc_float_near(grid, x / s);

    *products += y * (double)x;
    *squares += y * y;
}

/* The scale of least squares for the codes that s gives; 0: all of them are 0. */
VC_HD float vc_float_refit(enum vc_grid grid, const float *x, size_t n, float s)
{
    double products[VC_INT4_LANES] = {0.0};
    double squares[VC_INT4_LANES] = {0.0};
    size_t i = 0;
    size_t l;
    double below;

    for (; n - i >= VC_INT4_LANES; i += VC_INT4_LANES) {
        for (l = 0; l < VC_INT4_LANES; l++) {
            vc_float_add_fit(grid, vc_int4_at(x, i + l), s, &products[l], &squares[l]);
        }
    }
    for (l = 0; i + l < n; l++) {
        vc_float_add_fit(grid, vc_int4_at(x, i + l), s, &products[l], &squares[l]);
    }
    below = vc_int4_sum(squares);
    return below > 0.0 ? vc_f64_to_f32(vc_int4_sum(products) / below) : 0.0f;
}

/* ---- scales ---- */

/* A scale as it is stored, and what it multiplies codes with. */
struct vc_float_scale {
    float value;
    uint8_t byte; /* of mxfp8, mxfp4 and nvfp4 */
    uint8_t zero; /* all codes are meant to be 0: no scale of the type is small enough */
};

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
    struct vc_float_scale scale = {vc_e8m0_value(byte), byte, 0};

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

VC_HD struct vc_float_scale vc_mxfp4_scale(const float *x, size_t n, float absmax)
{
    struct vc_float_scale best = vc_mx_scale(0, VC_MXFP4_MOST);
    double best_error = 0.0;
    int k;

    for (k = -3; k <= -1 && absmax > 0.0f; k++) {
        struct vc_float_scale scale = vc_mx_scale(vc_floor_log2(absmax) + k, VC_MXFP4_MOST);
        double error = vc_float_error(VC_GRID_E2M1, x, n, scale.value);

        if (k == -3 || error < best_error) {
            best = scale;
            best_error = error;
        }
    }
    return best;
}

/* What scales of a tensor are divided by: 448 * 6 / absmax, of all tensors that share it. */
VC_HD float vc_nvfp4_global(float absmax)
{
    float global = absmax > 0.0f ? 2688.0f / absmax : 1.0f;

    return global < 3.0e38f ? global : 3.0e38f;
}

VC_HD struct vc_float_scale vc_nvfp4_scale(const float *x, size_t n, float absmax, float global)
{
    int c0 = vc_e4m3_of(absmax * global / 6.0f);
    struct vc_float_scale best = {8.0f, 8, 1}; /* the smallest normal scale */
    double best_error = 0.0;
    int c;

    best.value = vc_e4m3_value(best.byte) / global;
    for (c = c0 > 5 ? c0 - 4 : 1; c <= c0 + 9 && c <= 126 && absmax > 0.0f; c++) {
        float s = vc_e4m3_value((uint8_t)c) / global;
        double error;

        if (!(s > 0.0f) || s > vc_bits_f32(0x7e2aaaaau)) { /* 6 s is beyond f32 */
            continue;
        }
        error = vc_float_error(VC_GRID_E2M1, x, n, s);
        if (best.zero || error < best_error) {
            best.value = s;
            best.byte = (uint8_t)c;
            best.zero = 0;
            best_error = error;
        }
    }
    return best;
}

/* Scales of fp8 are of the type that the layout stores, and 448 of them are a finite f32. */
VC_HD struct vc_float_scale vc_fp8_scale(float absmax, enum vc_dtype type)
{
    float most = vc_bits_f32(type == VC_DTYPE_BF16 ? 0x7b120000u : 0x7b124924u);
    struct vc_float_scale scale = {vc_int4_stored(vc_f64_to_f32((double)absmax / 448.0), type), 0, 0};

    scale.value = scale.value < most ? scale.value : most;
    if (scale.value == 0.0f) {
        scale.value = vc_int4_smallest(type);
        scale.zero = absmax == 0.0f;
    }
    return scale;
}

#define VC_GRID16_FACTORS 12

VC_HD struct vc_float_scale vc_grid16_scale(enum vc_grid grid, const float *x, size_t n, float absmax,
                                            enum vc_dtype type)
{
    struct vc_float_scale best = {vc_int4_smallest(type), 0, 1};
    double best_error = 0.0;
    int i;

    for (i = 0; i < VC_GRID16_FACTORS; i++) {
        float start = vc_f64_to_f32((double)(770 + 35 * i) / 1100.0 * (double)absmax);
        float s = start > 0.0f ? vc_int4_stored(vc_float_refit(grid, x, n, start), type) : 0.0f;
        double error;

        if (!(s > 0.0f)) {
            continue;
        }
        error = vc_float_error(grid, x, n, s);
        if (best.zero || error < best_error) {
            best.value = s;
            best.zero = 0;
            best_error = error;
        }
    }
    return best;
}

/* ---- any scheme with a scale per group ---- */

/* The scale of a group of n finite elements. grid NONE: codes of int4. bytes: the type of scales that are bytes,
 * F8_E8M0 or F8_E4M3; NONE: scales are floats of the type `type`. global: what E4M3 scales of E2M1 are divided by. */
VC_HD struct vc_float_scale vc_group_scale(enum vc_grid grid, enum vc_dtype bytes, enum vc_dtype type, float global,
                                           const float *x, size_t n, uint32_t absmax_bits)
{
    struct vc_float_scale scale = {0.0f, 0, 0};
    float absmax = vc_bits_f32(absmax_bits);
    int zero;

    switch (grid) {
    case VC_GRID_E4M3:
        return bytes == VC_DTYPE_F8_E8M0 ? vc_mxfp8_scale(absmax) : vc_fp8_scale(absmax, type);
    case VC_GRID_E2M1:
        return bytes == VC_DTYPE_F8_E8M0 ? vc_mxfp4_scale(x, n, absmax) : vc_nvfp4_scale(x, n, absmax, global);
    case VC_GRID_NF4:
    case VC_GRID_FP4:
        return vc_grid16_scale(grid, x, n, absmax, type);
    default:
        scale.value = vc_int4_scale(x, n, absmax_bits, type, &zero);
        scale.zero = (uint8_t)(zero != 0);
        return scale;
    }
}

/* What the code of x stands for. */
VC_HD float vc_group_value(enum vc_grid grid, const struct vc_float_scale *scale, float x)
{
    float t = scale->zero ? 0.0f : x;

    return grid == VC_GRID_NONE ? vc_int8_decode(vc_int4_encode(t, scale->value), scale->value, 0)
                                : vc_float_code_value(grid, vc_float_code_of(grid, t / scale->value)) * scale->value;
}

/* n elements as codes and back: y, which may be x; neither need be aligned. NaN where an element of the group is NaN or
 * infinite. */
VC_HD void vc_group_round(enum vc_grid grid, enum vc_dtype bytes, enum vc_dtype type, float global, const float *x,
                          size_t n, void *y)
{
    struct vc_float_scale scale = {0.0f, 0, 0};
    uint32_t absmax = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        uint32_t bits = vc_f32_magnitude(vc_int4_at(x, i));

        absmax = bits > absmax ? bits : absmax;
    }
    if (absmax < VC_F32_INF_BITS) {
        scale = vc_group_scale(grid, bytes, type, global, x, n, absmax);
    }
    for (i = 0; i < n; i++) {
        float value =
            absmax < VC_F32_INF_BITS ? vc_group_value(grid, &scale, vc_int4_at(x, i)) : vc_bits_f32(0x7fc00000u);

        memcpy((char *)y + i * sizeof value, &value, sizeof value);
    }
}

/* ---- bytes ---- */

/* n codes of four bits, two a byte; high_first: the first in the high half. */
VC_HD void vc_nibbles_pack(const uint8_t *codes, size_t n, int high_first, void *packed)
{
    uint8_t *to = (uint8_t *)packed;
    size_t i;

    for (i = 0; i < n; i++) {
        unsigned shift = (i % 2 == 0) == (high_first == 0) ? 0u : 4u;

        to[i / 2] = (uint8_t)((i % 2 == 0 ? 0u : to[i / 2]) | (unsigned)codes[i] << shift);
    }
}

VC_HD void vc_nibbles_unpack(const void *packed, size_t n, int high_first, uint8_t *codes)
{
    const uint8_t *from = (const uint8_t *)packed;
    size_t i;

    for (i = 0; i < n; i++) {
        codes[i] = from[i / 2] >> ((i % 2 == 0) == (high_first == 0) ? 0 : 4) & 0xfu;
    }
}

#endif
