/* int4.h - the arithmetic of int4 codes: the scale of a group by a search, the code of an element, two codes in a byte.
 * Valid as C11, C++ and CUDA, built with the flags that arith.h names. Tiles and statistics are the pass's
 * (quantize/schemes/int4.c).
 *
 *     for f = 0.50, 0.54 .. 1.10:   s0 = f * absmax / 8           q = clamp(rint(x / s0), -8, 7)
 *                                   s  = sum q x / sum q q        rounded to the type that is stored
 *     the s with the lowest sum of (x - q s)^2, q = clamp(rint(x / s), -8, 7)
 *
 * Sums are f64: lane l of 8 adds elements l, l + 8, ... in ascending order, from +0.0; then lanes l and l + k are added
 * for k = 4, 2, 1. docs/numerics.md has the reasons. */
#ifndef VC_KERNELS_INT4_H
#define VC_KERNELS_INT4_H

#include <stddef.h>

#include <vcompress/dtype.h>

#include "kernels/arith.h"

#define VC_INT4_FACTORS 16
#define VC_INT4_LANES   8

/* Element i of an array that may be unaligned. */
VC_HD float vc_int4_at(const float *x, size_t i)
{
    float value;

    memcpy(&value, x + i, sizeof value);
    return value;
}

/* clamp(rint(x / s), -8, 7) as a float; ties to even. x finite, s > 0. The clamp comes first, which gives the same
 * codes, so that adding 1.5 * 2^23 rounds to a whole number in the lanes of any processor. */
VC_HD float vc_int4_step(float x, float s)
{
    float t = x / s;

    t = t < 7.0f ? t : 7.0f;
    t = t > -8.0f ? t : -8.0f;
    return (t + 12582912.0f) - 12582912.0f;
}

VC_HD int8_t vc_int4_encode(float x, float s)
{
    return (int8_t)(int32_t)vc_int4_step(x, s);
}

/* The largest scale of the type: 8 steps of it are a finite f32. */
VC_HD float vc_int4_largest(enum vc_dtype type)
{
    return type == VC_DTYPE_F16 ? 65504.0f : vc_bits_f32(type == VC_DTYPE_BF16 ? 0x7dff0000u : 0x7dffffffu);
}

/* The scale in the type that is stored: f32, f16 or bf16. Weights near the largest f32 get the largest scale. */
VC_HD float vc_int4_stored(float s, enum vc_dtype type)
{
    float stored = type == VC_DTYPE_F16    ? vc_f16_to_f32(vc_f32_to_f16(s))
                   : type == VC_DTYPE_BF16 ? vc_bf16_to_f32(vc_f32_to_bf16(s))
                                           : s;

    return stored < vc_int4_largest(type) ? stored : vc_int4_largest(type);
}

/* The scale of a group whose codes are all 0: the smallest normal number of the type. */
VC_HD float vc_int4_smallest(enum vc_dtype type)
{
    return type == VC_DTYPE_F16 ? 6.103515625e-05f : vc_bits_f32(VC_F32_MIN_NORMAL_BITS);
}

VC_HD double vc_int4_sum(double *lanes)
{
    int k;
    int l;

    for (k = VC_INT4_LANES / 2; k > 0; k /= 2) {
        for (l = 0; l < k; l++) {
            lanes[l] += lanes[l + k];
        }
    }
    return lanes[0];
}

VC_HD void vc_int4_add_fit(float x, float s, double *products, double *squares)
{
    double q = (double)vc_int4_step(x, s);

    *products += q * (double)x;
    *squares += q * q;
}

/* The squared error of an element: the product of a code and a scale is exact in f64. */
VC_HD double vc_int4_square(float x, float s)
{
    double e = (double)x - (double)vc_int4_step(x, s) * (double)s;

    return e * e;
}

/* The scale of least squares for the codes that s gives; 0: all codes are 0. */
VC_HD float vc_int4_refit(const float *x, size_t n, float s)
{
    double products[VC_INT4_LANES] = {0.0};
    double squares[VC_INT4_LANES] = {0.0};
    size_t i = 0;
    size_t l;
    double below;

    for (; n - i >= VC_INT4_LANES; i += VC_INT4_LANES) {
        for (l = 0; l < VC_INT4_LANES; l++) {
            vc_int4_add_fit(vc_int4_at(x, i + l), s, &products[l], &squares[l]);
        }
    }
    for (l = 0; i + l < n; l++) {
        vc_int4_add_fit(vc_int4_at(x, i + l), s, &products[l], &squares[l]);
    }
    below = vc_int4_sum(squares);
    return below > 0.0 ? vc_f64_to_f32(vc_int4_sum(products) / below) : 0.0f;
}

/* The sum of squared errors of the codes that s gives. */
VC_HD double vc_int4_error(const float *x, size_t n, float s)
{
    double errors[VC_INT4_LANES] = {0.0};
    size_t i = 0;
    size_t l;

    for (; n - i >= VC_INT4_LANES; i += VC_INT4_LANES) {
        for (l = 0; l < VC_INT4_LANES; l++) {
            errors[l] += vc_int4_square(vc_int4_at(x, i + l), s);
        }
    }
    for (l = 0; i + l < n; l++) {
        errors[l] += vc_int4_square(vc_int4_at(x, i + l), s);
    }
    return vc_int4_sum(errors);
}

/* The scale of n finite elements in the type that is stored; of equally good ones the first. Where no candidate can be
 * used (all elements are 0, or too small for a scale of that type), vc_int4_smallest, and the codes are meant to be 0:
 * *zero tells. absmax_bits: of the largest magnitude. */
VC_HD float vc_int4_scale(const float *x, size_t n, uint32_t absmax_bits, enum vc_dtype type, int *zero)
{
    double absmax = (double)vc_bits_f32(absmax_bits);
    double best_error = 0.0;
    float best = 0.0f;
    int i;

    for (i = 0; i < VC_INT4_FACTORS; i++) {
        float start = vc_f64_to_f32((double)(50 + 4 * i) / 100.0 * absmax / 8.0);
        float s = start > 0.0f ? vc_int4_stored(vc_int4_refit(x, n, start), type) : 0.0f;
        double error;

        if (s == 0.0f) {
            continue;
        }
        error = vc_int4_error(x, n, s);
        if (best == 0.0f || error < best_error) {
            best = s;
            best_error = error;
        }
    }
    *zero = best == 0.0f;
    return *zero ? vc_int4_smallest(type) : best;
}

/* n codes, two a byte: the first in the low four bits. */
VC_HD void vc_int4_pack(const int8_t *q, size_t n, void *packed)
{
    unsigned char *to = (unsigned char *)packed;
    size_t i;

    for (i = 0; i < n; i++) {
        unsigned code = (unsigned)q[i] & 0xfu;

        to[i / 2] = (unsigned char)(i % 2 == 0 ? code : to[i / 2] | code << 4);
    }
}

VC_HD void vc_int4_unpack(const void *packed, size_t n, int8_t *q)
{
    const unsigned char *from = (const unsigned char *)packed;
    size_t i;

    for (i = 0; i < n; i++) {
        unsigned code = from[i / 2] >> (i % 2 == 0 ? 0 : 4) & 0xfu;

        q[i] = (int8_t)((int)(code ^ 8u) - 8);
    }
}

#endif
