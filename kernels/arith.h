/* arith.h - the arithmetic of one element: what a scale, a code or a converted number is. Written once, for C, C++
 * and CUDA; the kernels (kernel_ref.c, loops*.h, cuda/) and the passes call it. Loops, arrays and statistics are not
 * here.
 *
 * Only operations that IEEE 754 fixes: + - * / compare, rint, conversions between formats, bit operations. Built with
 * -ffp-contract=off (host) and --fmad=false (device), every compiler gives the same bits. No libm but rintf.
 * Formulas, bounds and reasons at length: docs/numerics.md.
 *
 *   x  a weight, f32 or f64         s  its scale (the size of one step), > 0
 *   q  its code, int8               z  its zero point: the code that stands for 0 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

/* VC_HD: a function of a few operations. VC_HD_LARGE: one that devices call instead of inlining it, since it would take
 * long to compile in each place. VC_HD_INLINE: one that is inlined, so that its loops know constant arguments. */
#if defined(__CUDACC__)
#define VC_HD        static __host__ __device__ __forceinline__
#define VC_HD_INLINE VC_HD
#define VC_HD_LARGE  static __host__ __device__ __noinline__
#else
#define VC_HD        static inline
#define VC_HD_LARGE  static inline
#define VC_HD_INLINE static inline __attribute__((always_inline))
#endif

/* Bits of an f32: sign, 8 bits of exponent, 23 of fraction. All without the sign below. */
#define VC_F32_ABS_MASK        0x7fffffffu
#define VC_F32_INF_BITS        0x7f800000u
#define VC_F32_MIN_NORMAL_BITS 0x00800000u

/* Bits of a number and back. memcpy is the way that C, C++ and CUDA all define. */
VC_HD uint32_t vc_f32_bits(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

VC_HD float vc_bits_f32(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof x);
    return x;
}

VC_HD uint64_t vc_f64_bits(double x)
{
    uint64_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

VC_HD double vc_bits_f64(uint64_t u)
{
    double x;

    memcpy(&x, &u, sizeof x);
    return x;
}

/* |x| as an integer. Integers of this kind have the order of the magnitudes, so a maximum over them needs no rule for
 * NaN: Inf is VC_F32_INF_BITS and every NaN is larger. */
VC_HD uint32_t vc_f32_magnitude(float x)
{
    return vc_f32_bits(x) & VC_F32_ABS_MASK;
}

/* Whether k * s has no finite f32. Scales for which the outermost code would decode to an infinity are avoided. */
VC_HD int vc_int8_steps_overflow(float k, float s)
{
    return vc_f32_magnitude(k * s) >= VC_F32_INF_BITS;
}

/* The scale of symmetric int8, from the largest magnitude A of its elements (given as bits, finite): s = A / 127, one
 * f32 division. s differs from A / 127 by at most one part in 2^24, so |x / s| < 127.00002 and no code is clipped.
 * A / 127 zero or subnormal (A < 127 * 2^-126): 1, and all codes of the group are 0 (docs/numerics.md "Zero and tiny
 * scales").
 * A = FLT_MAX, and no other A, gives a quotient that 127 steps of overflow: the float before it is taken.
 * A NaN or Inf: not allowed; the caller stores 1 then, or refuses. */
VC_HD float vc_int8_scale(uint32_t absmax_bits)
{
    float s = vc_bits_f32(absmax_bits) / 127.0f;

    if (vc_int8_steps_overflow(127.0f, s)) {
        s = vc_bits_f32(vc_f32_bits(s) - 1);
    }
    return vc_f32_bits(s) < VC_F32_MIN_NORMAL_BITS ? 1.0f : s;
}

/* Whether A / 127 is zero or subnormal: vc_int8_scale is then 1, and every code of the group 0. For callers that must
 * tell this 1 from a real one. */
VC_HD int vc_int8_scale_is_tiny(uint32_t absmax_bits)
{
    return vc_f32_bits(vc_bits_f32(absmax_bits) / 127.0f) < VC_F32_MIN_NORMAL_BITS;
}

/* Symmetric int8: q = clamp(rint(x / s), -127, 127), ties to even. x finite or +-Inf, s > 0.
 * With the scale of vc_int8_scale nothing is clipped and |x - q * s| < 0.500016 s. 0 gives 0; Inf gives +-127. NaN
 * gives 127, since each comparison with it is false: callers refuse or replace NaN before. Tiny scales (s = 1, |x| <
 * 2^-118) give 0. */
VC_HD int8_t vc_int8_encode(float x, float s)
{
    float t = rintf(x / s);

    t = t < 127.0f ? t : 127.0f;
    t = t > -127.0f ? t : -127.0f;
    return (int8_t)(int32_t)t;
}

/* Asymmetric int8: q = clamp(rint(x / s) + z, -128, 127), ties to even; z is added after rounding, the order of ONNX
 * QuantizeLinear (rint(x / s + z) differs at ties where z is odd). With s and z of the functions below |x - (q - z) *
 * s| <= 0.50003 s (found, docs/numerics.md). 0 gives z exactly. Inf and NaN as for symmetric codes. */
VC_HD int8_t vc_int8_encode_asym(float x, float s, int8_t z)
{
    float t = rintf(x / s);

    t = t < 255.0f ? t : 255.0f; /* |x / s| <= 255 for the scale of vc_int8_asym_scale; keeps the sum exact */
    t = t > -255.0f ? t : -255.0f;
    t = t + (float)z;
    t = t < 127.0f ? t : 127.0f;
    t = t > -128.0f ? t : -128.0f;
    return (int8_t)(int32_t)t;
}

/* The scale of asymmetric int8, from the largest magnitudes of both signs (bits, finite; 0 where there is no such
 * element): s = (pos + neg) / 255. Zero is always in the range, so that it has a code.
 * Where pos + neg overflows: pos / 255 + neg / 255, which is finite. Where s is zero or subnormal: 1, and every value
 * decodes to 0.
 * Where k * s overflows, k = rint(most / s) being the larger end's distance from zero in steps: most / (k - 0.75), so
 * that this end lies a quarter of a step beyond k - 1 steps. Only for ends within half a step of FLT_MAX; s grows by
 * 0.6 % at most. */
VC_HD float vc_int8_asym_scale(uint32_t pos_bits, uint32_t neg_bits)
{
    float pos = vc_bits_f32(pos_bits);
    float neg = vc_bits_f32(neg_bits);
    float range = pos + neg;
    float s = vc_f32_bits(range) >= VC_F32_INF_BITS ? pos / 255.0f + neg / 255.0f : range / 255.0f;
    float most = pos > neg ? pos : neg;

    if (vc_f32_bits(s) < VC_F32_MIN_NORMAL_BITS) {
        return 1.0f;
    }
    float k = rintf(most / s);
    return vc_int8_steps_overflow(k, s) ? most / (k - 0.75f) : s;
}

/* The zero point that goes with that scale: z = clamp(rint(-128 + neg / s), -128, 127), so the smallest value (-neg)
 * gets a code at -128 or next to it. With a tiny scale (s = 1) neg / s vanishes: z = -128, the code of every value. */
VC_HD int8_t vc_int8_zero_point(uint32_t neg_bits, float s)
{
    float z = rintf(-128.0f + vc_bits_f32(neg_bits) / s);

    z = z < 127.0f ? z : 127.0f;
    z = z > -128.0f ? z : -128.0f;
    return (int8_t)(int32_t)z;
}

/* What a code stands for: (float)(q - z) * s, one rounding; q - z has at most 9 bits and is exact. z = 0 when
 * symmetric. The code of zero gives +0. s from a file may be anything; one so large that the product overflows gives
 * an infinity. */
VC_HD float vc_int8_decode(int8_t q, float s, int32_t z)
{
    return (float)((int32_t)q - z) * s;
}

/* f32 -> f16, one rounding to nearest even, gradual underflow below 2^-14. Relative error at most 2^-11; of subnormal
 * results at most 2^-25 absolute. |x| >= 65520 -> Inf. -0 stays -0. NaN -> sign | 0x7e00: one NaN per sign, payloads
 * are dropped. */
VC_HD uint16_t vc_f32_to_f16(float x)
{
    uint32_t u = vc_f32_bits(x);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000u);
    uint32_t m = u & VC_F32_ABS_MASK;
    uint32_t r;

    if (m > VC_F32_INF_BITS) {
        return (uint16_t)(sign | 0x7e00u);
    }
    if (m >= 0x47800000u) { /* 65536 and more, Inf */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (m < 0x38800000u) { /* below 2^-14: adding 0.5 puts the f16 subnormal into the low bits, rounded to even */
        r = vc_f32_bits(vc_bits_f32(m) + 0.5f) - 0x3f000000u;
    } else {
        r = (m + 0xfffu + (m >> 13 & 1u) - 0x38000000u) >> 13; /* may carry into 0x7c00 = Inf */
    }
    return (uint16_t)(sign | r);
}

/* f32 -> bf16, one rounding to nearest even: half of the last kept bit is added to the bits, and the upper 16 are the
 * result. Relative error at most 2^-8. Beyond 0x7f7f7fff -> Inf. NaN -> sign | 0x7fc0, tested first, since the
 * addition could carry. */
VC_HD uint16_t vc_f32_to_bf16(float x)
{
    uint32_t u = vc_f32_bits(x);

    if ((u & VC_F32_ABS_MASK) > VC_F32_INF_BITS) {
        return (uint16_t)((u >> 16 & 0x8000u) | 0x7fc0u);
    }
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* f64 -> f32, one rounding to nearest even. NaN keeps its sign and the upper 22 bits of its payload, and becomes
 * quiet: that is what processors do. GPUs do not, so it is spelled out. */
VC_HD float vc_f64_to_f32(double x)
{
    uint64_t u = vc_f64_bits(x);
    uint32_t nan = (uint32_t)(u >> 32 & 0x80000000u) | 0x7fc00000u | (uint32_t)(u >> 29 & 0x3fffffu);
    float r = (float)x;

    return x != x ? vc_bits_f32(nan) : r;
}

/* f64 -> f32, rounded to odd: towards zero, and the last bit is set when anything was cut off. The first half of f64
 * -> f16 and f64 -> bf16, which must round once: 1 + 2^-11 + 2^-50 rounded to nearest f32 first would become a tie of
 * f16, and the f16 1. Two bits more than the target are enough for this, and f32 has 13 and 16 more. Overflow becomes
 * the largest finite f32, which is odd; Inf stays Inf, NaN as in vc_f64_to_f32. */
VC_HD float vc_f64_to_f32_odd(double x)
{
    float r = vc_f64_to_f32(x);
    double back = (double)r;
    uint32_t u = vc_f32_bits(r);
    uint32_t away = (x < 0 ? back < x : back > x) ? 1u : 0u; /* r is larger in magnitude: one step back */

    return back == x || x != x ? r : vc_bits_f32((u - away) | 1u); /* Inf - 1 is the largest finite value */
}

/* f64 -> f16 and bf16, one rounding to nearest even each; bounds, Inf and NaN as from f32. */
VC_HD uint16_t vc_f64_to_f16(double x)
{
    return vc_f32_to_f16(vc_f64_to_f32_odd(x));
}

VC_HD uint16_t vc_f64_to_bf16(double x)
{
    return vc_f32_to_bf16(vc_f64_to_f32_odd(x));
}

/* f16 -> f32, exact, by cases of the magnitude: NaN keeps sign and payload and becomes quiet; Inf; subnormal, m *
 * 2^-24; and normal, where the exponent's bias changes from 15 to 127 (0x38000000 is their difference in f32's
 * place). */
VC_HD float vc_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t m = h & 0x7fffu;

    if (m > 0x7c00u) {
        return vc_bits_f32(sign | 0x7fc00000u | (m & 0x3ffu) << 13);
    }
    if (m == 0x7c00u) {
        return vc_bits_f32(sign | VC_F32_INF_BITS);
    }
    if (m < 0x0400u) { /* m * 2^-24, exact in f32 */
        return vc_bits_f32(vc_f32_bits((float)m * 5.9604644775390625e-8f) | sign);
    }
    return vc_bits_f32(sign | ((m << 13) + 0x38000000u));
}

/* bf16 -> f32, exact: the upper half of the f32. NaN keeps sign and payload and becomes quiet. */
VC_HD float vc_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;

    if ((u & VC_F32_ABS_MASK) > VC_F32_INF_BITS) {
        u |= 0x00400000u;
    }
    return vc_bits_f32(u);
}

/* The scale of vc_int8_scale as f16, for loaders whose scales have the type of the weights: to nearest even. Below
 * 2^-14, where f16 is coarse, upwards, so that no code is clipped and no scale is 0. At most 515.5 (0x6007): 127
 * steps of more are infinite as f16, and loaders decode in that type. */
VC_HD uint16_t vc_int8_scale_f16(uint32_t absmax_bits)
{
    float s = vc_int8_scale(absmax_bits);
    uint16_t h = vc_f32_to_f16(s);

    if (h < 0x0400u && vc_f16_to_f32(h) < s) {
        h = (uint16_t)(h + 1u);
    }
    return h < 0x6007u ? h : (uint16_t)0x6007u;
}

/* The same as bf16, to nearest even: it has the range of f32, and where rounding makes s smaller, by 2^-8 at most,
 * 127 * (1 + 2^-8) = 127.496 still rounds to 127. At most 2^121 (0x7c00), for the same reason as 515.5 above. */
VC_HD uint16_t vc_int8_scale_bf16(uint32_t absmax_bits)
{
    uint16_t h = vc_f32_to_bf16(vc_int8_scale(absmax_bits));

    return h < 0x7c00u ? h : (uint16_t)0x7c00u;
}

/* The scale for decoding where a file stores absolute maxima (bitsandbytes): A / 127, with the step back for FLT_MAX,
 * as in vc_int8_scale. The rule for tiny scales is left out: codes of ours are 0 there, and those of other programs
 * mean what they say. A comes from a file, so it may be negative, zero, Inf or NaN; the quotient is then that of
 * IEEE. */
VC_HD float vc_int8_scale_of_absmax(float absmax)
{
    float s = absmax / 127.0f;

    return vc_f32_magnitude(absmax) < VC_F32_INF_BITS && vc_int8_steps_overflow(127.0f, s)
               ? vc_bits_f32(vc_f32_bits(s) - 1)
               : s;
}

/* Largest finite values of the targets, for --overflow=sat and --nonfinite=zero. */
#define VC_F16_MAX_BITS  0x7bffu
#define VC_BF16_MAX_BITS 0x7f7fu
