/* arith.h - the arithmetic of one element: the definition of every conversion, once for C, C++ and CUDA.
 *
 * Only operations that IEEE 754 fixes: + - * / compare, rint, conversions between formats, bit operations. Built with
 * -ffp-contract=off (host) and --fmad=false (device), every compiler gives the same bits. No libm but rintf.
 * Formulas and reasons: docs/numerics.md. */
#ifndef VC_KERNELS_ARITH_H
#define VC_KERNELS_ARITH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define VC_HD static __host__ __device__ __forceinline__
#elif defined(__cplusplus)
#define VC_HD static inline
#else
#define VC_HD static inline
#endif

#define VC_F32_ABS_MASK        0x7fffffffu
#define VC_F32_INF_BITS        0x7f800000u
#define VC_F32_MIN_NORMAL_BITS 0x00800000u

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

/* Magnitude as an integer: its order is the order of |x|; >= VC_F32_INF_BITS means Inf or NaN. */
VC_HD uint32_t vc_f32_magnitude(float x)
{
    return vc_f32_bits(x) & VC_F32_ABS_MASK;
}

/* Whether k steps of s are too far for f32. */
VC_HD int vc_int8_steps_overflow(float k, float s)
{
    return vc_f32_magnitude(k * s) >= VC_F32_INF_BITS;
}

/* The scale to store for an absolute maximum (given as bits, finite): absmax / 127 in f32, or 1 where that is zero or
 * subnormal (docs/numerics.md "Zero and tiny scales"; all codes are then 0). The one quotient that 127 steps of which
 * overflow, that of FLT_MAX, gives way to the float before it. */
VC_HD float vc_int8_scale(uint32_t absmax_bits)
{
    float s = vc_bits_f32(absmax_bits) / 127.0f;

    if (vc_int8_steps_overflow(127.0f, s)) {
        s = vc_bits_f32(vc_f32_bits(s) - 1);
    }
    return vc_f32_bits(s) < VC_F32_MIN_NORMAL_BITS ? 1.0f : s;
}

/* Whether the rule for tiny scales applies: every code of the group is then 0. */
VC_HD int vc_int8_scale_is_tiny(uint32_t absmax_bits)
{
    return vc_f32_bits(vc_bits_f32(absmax_bits) / 127.0f) < VC_F32_MIN_NORMAL_BITS;
}

/* Symmetric int8: clamp(rint(x / s), -127, 127), ties to even; x finite or +-Inf, s > 0. NaN gives 127 (min and max
 * by comparison), so callers refuse or replace NaN before. With the tiny-scale rule (s = 1, |x| < 2^-118) it gives 0.
 */
VC_HD int8_t vc_int8_encode(float x, float s)
{
    float t = rintf(x / s);

    t = t < 127.0f ? t : 127.0f;
    t = t > -127.0f ? t : -127.0f;
    return (int8_t)(int32_t)t;
}

/* Asymmetric int8: clamp(rint(x / s) + z, -128, 127), the order of ONNX QuantizeLinear. */
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

/* From the largest positive and the largest negative magnitude (bits; 0 where there is none), so zero is always in
 * range: s = (max - min) / 255. The difference may overflow for values beyond half of FLT_MAX: then halves are used,
 * (max / 255 - min / 255), which is finite. The larger end lies within half a step of its code k; where k steps
 * overflow, the step grows until that end is a quarter of a step beyond the code before. */
VC_HD float vc_int8_asym_scale(uint32_t pos_bits, uint32_t neg_bits)
{
    float pos = vc_bits_f32(pos_bits);
    float neg = vc_bits_f32(neg_bits);
    float range = pos + neg;
    float s = vc_f32_bits(range) >= VC_F32_INF_BITS ? pos / 255.0f + neg / 255.0f : range / 255.0f;
    float most = pos > neg ? pos : neg;
    float k;

    if (vc_f32_bits(s) < VC_F32_MIN_NORMAL_BITS) {
        return 1.0f;
    }
    k = rintf(most / s);
    return vc_int8_steps_overflow(k, s) ? most / (k - 0.75f) : s;
}

/* zp = clamp(rint(-128 - min / s), -128, 127) with min = -neg. Tiny scales (s = 1) give -128 + 0: code of 0 is zp. */
VC_HD int8_t vc_int8_zero_point(uint32_t neg_bits, float s)
{
    float z = rintf(-128.0f + vc_bits_f32(neg_bits) / s);

    z = z < 127.0f ? z : 127.0f;
    z = z > -128.0f ? z : -128.0f;
    return (int8_t)(int32_t)z;
}

/* value = (float)(q - z) * s, one rounding. z = 0 when symmetric. */
VC_HD float vc_int8_decode(int8_t q, float s, int32_t z)
{
    return (float)((int32_t)q - z) * s;
}

/* f32 -> f16, round to nearest even, gradual underflow; |x| >= 65520 -> Inf; NaN -> sign | 0x7e00. */
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

/* f32 -> bf16, round to nearest even; beyond 0x7f7f7fff -> Inf; NaN -> sign | 0x7fc0. */
VC_HD uint16_t vc_f32_to_bf16(float x)
{
    uint32_t u = vc_f32_bits(x);

    if ((u & VC_F32_ABS_MASK) > VC_F32_INF_BITS) {
        return (uint16_t)((u >> 16 & 0x8000u) | 0x7fc0u);
    }
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* f64 -> f32, round to nearest even; NaN keeps sign and upper payload and becomes quiet (processors agree, GPUs do not:
 * so it is spelled out). */
VC_HD float vc_f64_to_f32(double x)
{
    uint64_t u = vc_f64_bits(x);
    uint32_t nan = (uint32_t)(u >> 32 & 0x80000000u) | 0x7fc00000u | (uint32_t)(u >> 29 & 0x3fffffu);
    float r = (float)x;

    return x != x ? vc_bits_f32(nan) : r;
}

/* f64 -> f32 that keeps what a later rounding to fewer bits needs: round to odd (the last bit is set when anything was
 * cut off). vc_f32_to_f16 and vc_f32_to_bf16 of it equal the single rounding of the f64, because f32 has at least two
 * bits more than either. Overflow becomes the largest finite value with its odd last bit, or Inf for Inf. */
VC_HD float vc_f64_to_f32_odd(double x)
{
    float r = vc_f64_to_f32(x);
    double back = (double)r;
    uint32_t u = vc_f32_bits(r);
    uint32_t away = (x < 0 ? back < x : back > x) ? 1u : 0u; /* r is larger in magnitude: one step back */

    return back == x || x != x ? r : vc_bits_f32((u - away) | 1u); /* Inf - 1 is the largest finite value */
}

VC_HD uint16_t vc_f64_to_f16(double x)
{
    return vc_f32_to_f16(vc_f64_to_f32_odd(x));
}

VC_HD uint16_t vc_f64_to_bf16(double x)
{
    return vc_f32_to_bf16(vc_f64_to_f32_odd(x));
}

/* f16 -> f32, exact; NaN keeps sign and payload and becomes quiet. */
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

/* bf16 -> f32, exact; NaN becomes quiet. */
VC_HD float vc_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;

    if ((u & VC_F32_ABS_MASK) > VC_F32_INF_BITS) {
        u |= 0x00400000u;
    }
    return vc_bits_f32(u);
}

/* The scale of vc_int8_scale as f16: to nearest even; below 2^-14, where that is coarse, upwards, so that no code is
 * clipped and no scale is 0. At most 515.5: 127 steps of more are infinite as f16. */
VC_HD uint16_t vc_int8_scale_f16(uint32_t absmax_bits)
{
    float s = vc_int8_scale(absmax_bits);
    uint16_t h = vc_f32_to_f16(s);

    if (h < 0x0400u && vc_f16_to_f32(h) < s) {
        h = (uint16_t)(h + 1u);
    }
    return h < 0x6007u ? h : (uint16_t)0x6007u;
}

/* The same as bf16, to nearest even: it has the range of f32, and 127 * (1 + 2^-8) still rounds to 127. At most 2^121,
 * for the same reason. */
VC_HD uint16_t vc_int8_scale_bf16(uint32_t absmax_bits)
{
    uint16_t h = vc_f32_to_bf16(vc_int8_scale(absmax_bits));

    return h < 0x7c00u ? h : (uint16_t)0x7c00u;
}

/* What a stored absolute maximum stands for: a 127th of it, as in vc_int8_scale. Its rule for tiny scales is left out:
 * ours go with codes of 0, and those of other programs mean what they say. */
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

#endif
