/* cuda_exact.h - cheaper instructions that give the bits of the definitions in kernels/arith.h, each with the condition
 * under which it does. The only fused multiply-adds of the plug-in are here; a test looks for others in what nvcc makes.
 *
 *   x / s            q = x r, then q + r (x - q s), with r = 1 / s rounded: the IEEE quotient (Markstein), unless the
 *                    remainder underflows. 2^-96 <= s <= 2^121 keeps that to quotients below 2^-5, whose code is 0.
 *   rint, int        adding 1.5 * 2^23: the low byte of the sum is the code, subtracting gives the rounded number
 *   e = x - y        is an f32 without rounding where y stands for the nearest code or 16-bit float of x: y is 0, or
 *                    y / 2 <= x <= 2 y (Sterbenz)
 *   x x, x y         of f32 have 48 bits, so as f64 they are exact, and adding them at once rounds as adding them after */
#pragma once

#include "kernels/arith.h"
#include "kernels/cuda/cuda_common.h"

#define VC_CUDA_ROUNDER 12582912.0f /* 1.5 * 2^23 */

/* x / s for |x / s| < 2^21 with r = 1.0f / s; see above for s. */
static __device__ __forceinline__ float vc_cuda_quotient(float x, float s, float r)
{
    float q = x * r;

    return fmaf(fmaf(-q, s, x), r, q);
}

/* Whether elements of a group with this largest magnitude and scale may be divided so. */
static __device__ __forceinline__ bool vc_cuda_divides(uint32_t most, float s)
{
    return most < VC_F32_INF_BITS && s >= 0x1p-96f;
}

/* vc_int8_scale, and 1 where the magnitude is not finite: the codes mean nothing then (kernels.h). In 2^-80 .. 2^120 no
 * special case of the scale applies. */
static __device__ __forceinline__ float vc_cuda_int8_scale(uint32_t most)
{
    if (most - 0x17800000u < 0x7b800000u - 0x17800000u) {
        return vc_cuda_quotient(vc_bits_f32(most), 127.0f, 1.0f / 127.0f);
    }
    return most < VC_F32_INF_BITS ? vc_int8_scale(most) : 1.0f;
}

/* vc_f16_to_f32: the exponent is moved by a product with 2^112, which makes subnormals normal, too. */
static __device__ __forceinline__ float vc_cuda_f16_value(uint16_t h)
{
    uint32_t m = h & 0x7fffu;
    uint32_t u = vc_f32_bits(vc_bits_f32(m << 13) * 0x1p112f) | (uint32_t)(h & 0x8000u) << 16;

    u = m >= 0x7c00u ? u | VC_F32_INF_BITS : u;
    return vc_bits_f32(m > 0x7c00u ? u | 0x00400000u : u); /* quiet */
}

/* sum + x * y of two f32 that were widened. */
static __device__ __forceinline__ void vc_cuda_add_product(double *sum, double x, double y)
{
    *sum = fma(x, y, *sum);
}

/* How many of the four bytes of w are not 0. */
static __device__ __forceinline__ uint32_t vc_cuda_nonzero_bytes(uint32_t w)
{
    return (uint32_t)__popc((((w & 0x7f7f7f7fu) + 0x7f7f7f7fu) | w) & 0x80808080u);
}

/* The low bytes of four numbers, the first one lowest. */
static __device__ __forceinline__ uint32_t vc_cuda_low_bytes(const uint32_t *v)
{
    return __byte_perm(__byte_perm(v[0], v[1], 0x0040), __byte_perm(v[2], v[3], 0x0040), 0x5410);
}
