/* functions.h - exp, log, tanh, erf and what is made of them, from the operations that IEEE 754 fixes alone, so that
 * every compiler, processor and device gives the same bits. (libm and CUDA's differ in the last one.) Valid as C11, C++
 * and CUDA; no branch and no table, so loops over them vectorize.
 *
 * Errors, at most, in units in the last place (tests/kernels/test_functions.c), f32 and f64:
 *     exp 1.1      log 1      tanh 2.6      erf 2.7 and 1.5
 * NaN gives NaN; beyond the range exp gives 0 and Inf, tanh and erf -1 and 1; the logarithm of 0 is
 * -Inf, below it NaN. */
#ifndef VC_KERNELS_FUNCTIONS_H
#define VC_KERNELS_FUNCTIONS_H

#include "kernels/arith.h"

/* The power of two n times x, |n| <= 2100 (f64) or 280 (f32), in two factors, so that subnormal results are rounded
 * once, or nearly so. */
VC_HD float vc_times_power_f32(float x, int32_t n)
{
    int32_t half = n / 2;

    return x * vc_bits_f32((uint32_t)(half + 127) << 23) * vc_bits_f32((uint32_t)(n - half + 127) << 23);
}

VC_HD double vc_times_power_f64(double x, int64_t n)
{
    int64_t half = n / 2;

    return x * vc_bits_f64((uint64_t)(half + 1023) << 52) * vc_bits_f64((uint64_t)(n - half + 1023) << 52);
}

/* exp(x) - 1 for |x| <= 0.35: the series of Taylor. */
VC_HD float vc_expm1_near_0_f32(float r)
{
    float p = 1.0f / 5040;

    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    return r + r * r * p;
}

VC_HD double vc_expm1_near_0_f64(double r)
{
    double p = 1.0 / 87178291200.0;

    p = p * r + 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    return r + r * r * p;
}

/* x = n ln 2 + r with |r| <= ln 2 / 2. Adding 1.5 * 2^23 (2^52) leaves the nearest integer in the low bits of the sum.
 * ln 2 in two parts, of which the first has zeros at its end, so that n times it is exact. */
VC_HD float vc_exp_f32(float x)
{
    float c = x < -110.0f ? -110.0f : x > 100.0f ? 100.0f : x;
    float t = c * 1.44269504f + 12582912.0f;
    float n = t - 12582912.0f;
    float r = c - n * 0.693359375f + n * 2.12194440e-4f;

    return vc_times_power_f32(1.0f + vc_expm1_near_0_f32(r),
                              (int32_t)(vc_f32_bits(t) & 0x1ff) - ((vc_f32_bits(t) & 0x100) != 0 ? 512 : 0));
}

VC_HD double vc_exp_f64(double x)
{
    double c = x < -760.0 ? -760.0 : x > 720.0 ? 720.0 : x;
    double t = c * 1.4426950408889634 + 6755399441055744.0;
    double n = t - 6755399441055744.0;
    double r = c - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10;

    return vc_times_power_f64(1.0 + vc_expm1_near_0_f64(r),
                              (int64_t)(vc_f64_bits(t) & 0xfff) - ((vc_f64_bits(t) & 0x800) != 0 ? 4096 : 0));
}

/* x = 2^n m with m from sqrt(1/2) to sqrt(2); log m = 2 atanh(s), s = (m - 1) / (m + 1), as a series. */
VC_HD float vc_log_f32(float x)
{
    float big = x < 1.17549435e-38f ? x * 8388608.0f : x;
    uint32_t bits = vc_f32_bits(big);
    uint32_t from = bits - 0x3f3504f3u; /* sqrt(1/2) */
    int32_t n = (int32_t)from >> 23;
    float m = vc_bits_f32((from & 0x007fffffu) + 0x3f3504f3u);
    float e = (float)(n - (x < 1.17549435e-38f ? 23 : 0));
    float f = m - 1.0f;
    float s = f / (m + 1.0f);
    float z = s * s;
    float p = 2.0f / 11;
    float y;

    p = p * z + 2.0f / 9;
    p = p * z + 2.0f / 7;
    p = p * z + 2.0f / 5;
    p = p * z + 2.0f / 3;
    /* log m = f - s * (f - z * p), which loses nothing where f is small */
    y = e * 0.693359375f + (f - (s * (f - z * p) + e * 2.12194440e-4f));
    y = x == vc_bits_f32(0x7f800000u) ? x : y;
    y = x == 0.0f ? -vc_bits_f32(0x7f800000u) : y;
    return x >= 0.0f ? y : x - x + vc_bits_f32(0x7fc00000u);
}

VC_HD double vc_log_f64(double x)
{
    double big = x < 2.2250738585072014e-308 ? x * 4503599627370496.0 : x;
    uint64_t from = vc_f64_bits(big) - 0x3fe6a09e667f3bcdu; /* sqrt(1/2) */
    int64_t n = (int64_t)from >> 52;
    double m = vc_bits_f64((from & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
    double e = (double)(n - (x < 2.2250738585072014e-308 ? 52 : 0));
    double f = m - 1.0;
    double s = f / (m + 1.0);
    double z = s * s;
    double p = 2.0 / 23;
    double y;

    p = p * z + 2.0 / 21;
    p = p * z + 2.0 / 19;
    p = p * z + 2.0 / 17;
    p = p * z + 2.0 / 15;
    p = p * z + 2.0 / 13;
    p = p * z + 2.0 / 11;
    p = p * z + 2.0 / 9;
    p = p * z + 2.0 / 7;
    p = p * z + 2.0 / 5;
    p = p * z + 2.0 / 3;
    y = e * 6.93147180369123816490e-01 + (f - (s * (f - z * p) - e * 1.90821492927058770002e-10));
    y = x == vc_bits_f64(0x7ff0000000000000u) ? x : y;
    y = x == 0.0 ? -vc_bits_f64(0x7ff0000000000000u) : y;
    return x >= 0.0 ? y : x - x + vc_bits_f64(0x7ff8000000000000u);
}

/* 1 / (1 + exp(-x)) */
VC_HD float vc_sigmoid_f32(float x)
{
    return 1.0f / (1.0f + vc_exp_f32(-x));
}

VC_HD double vc_sigmoid_f64(double x)
{
    return 1.0 / (1.0 + vc_exp_f64(-x));
}

/* u / (u + 2) with u = exp(2|x|) - 1 = 2^n (exp(r) - 1) + (2^n - 1). */
VC_HD float vc_tanh_f32(float x)
{
    float a = 2.0f * vc_bits_f32(vc_f32_magnitude(x));
    float c = a > 40.0f ? 40.0f : a;
    float t = c * 1.44269504f + 12582912.0f;
    float n = t - 12582912.0f;
    float two = vc_bits_f32(((vc_f32_bits(t) & 0x7fu) + 127) << 23);
    float u = vc_expm1_near_0_f32(c - n * 0.693359375f + n * 2.12194440e-4f) * two + (two - 1.0f);
    float y = u / (u + 2.0f);

    return x < 0.0f ? -y : x > 0.0f ? y : x;
}

VC_HD double vc_tanh_f64(double x)
{
    double a = 2.0 * (x < 0.0 ? -x : x);
    double c = a > 80.0 ? 80.0 : a;
    double t = c * 1.4426950408889634 + 6755399441055744.0;
    double n = t - 6755399441055744.0;
    double two = vc_bits_f64(((vc_f64_bits(t) & 0xff) + 1023) << 52);
    double u =
        vc_expm1_near_0_f64(c - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10) * two + (two - 1.0);
    double y = u / (u + 2.0);

    return x < 0.0 ? -y : x > 0.0 ? y : x;
}

/* 1 - 2^q with q = |x| g(|x|), the binary logarithm of erfc |x|, and g a minimax fit up to 3.95, where the result
 * rounds to 1. 2^q = 2^n 2^r, n a whole number from -26 to 0; 2^r - 1 is a minimax fit, too, so nothing is lost near 0.
 */
VC_HD float vc_erf_f32(float x)
{
    float a = vc_bits_f32(vc_f32_magnitude(x));
    float c = a > 3.95f ? 3.95f : a;
    float q = 1.33539006e-05f;
    float p = 0.000154035079f;
    float t, r, two;

    q = q * c - 0.000169720035f;
    q = q * c + 0.000912989257f;
    q = q * c - 0.0024050097f;
    q = q * c + 0.000231399448f;
    q = q * c + 0.0276320335f;
    q = q * c - 0.148277074f;
    q = q * c - 0.918447614f;
    q = q * c - 1.62790704f;
    q = q * c;
    t = q + 12582912.0f;
    r = q - (t - 12582912.0f);
    two = vc_bits_f32(((vc_f32_bits(t) + 127) & 0x7fu) << 23);
    p = p * r + 0.00133907353f;
    p = p * r + 0.00961823761f;
    p = p * r + 0.0555035733f;
    p = p * r + 0.240226492f;
    p = p * r + 0.693147182f;
    a = 1.0f - two - p * r * two;
    return vc_bits_f32(vc_f32_bits(a) | (vc_f32_bits(x) & 0x80000000u));
}

/* Below 1: x + x p(x^2). From there on 1 - exp(q(x - 1) - x^2), with q for the logarithm of erfc(x) exp(x^2); from 6 on
 * that rounds to 1. Both polynomials are minimax fits, q weighted by erfc(x), which is what its error is worth. */
VC_HD double vc_erf_f64(double x)
{
    double a = x < 0.0 ? -x : x;
    double c = a > 6.0 ? 6.0 : a;
    double z = a > 1.0 ? 1.0 : a * a;
    double t = c - 1.0;
    double p = 5.9571761477489113e-11;
    double q = 1.0390900552161888e-12;
    double y;

    p = p * z - 1.1372848856791674e-09;
    p = p * z + 1.4659775274047436e-08;
    p = p * z - 1.6350312701054695e-07;
    p = p * z + 1.6461000484121368e-06;
    p = p * z - 1.4925595266831182e-05;
    p = p * z + 0.0001205533111164271;
    p = p * z - 0.000854832698083379;
    p = p * z + 0.0052239776248180145;
    p = p * z - 0.026866170645076792;
    p = p * z + 0.11283791670954879;
    p = p * z - 0.37612638903183748;
    p = p * z + 0.12837916709551259;
    q = q * t - 2.8814682671690755e-11;
    q = q * t + 3.682324166514045e-10;
    q = q * t - 2.8639048464819565e-09;
    q = q * t + 1.4910742989170665e-08;
    q = q * t - 5.2035411233136552e-08;
    q = q * t + 9.7541367110847834e-08;
    q = q * t + 1.4288587257388323e-07;
    q = q * t - 2.0597852884434469e-06;
    q = q * t + 9.6089124863121793e-06;
    q = q * t - 2.7159120331168087e-05;
    q = q * t + 2.6277879026689687e-05;
    q = q * t + 0.00023732248008938788;
    q = q * t - 0.0019779025675840008;
    q = q * t + 0.010033825374357628;
    q = q * t - 0.04156109804180376;
    q = q * t + 0.15689274364132297;
    q = q * t - 0.63896751423478826;
    q = q * t - 0.84960550993324824;
    y = a < 1.0 ? a + a * p : 1.0 - vc_exp_f64(q - c * c);
    return x < 0.0 ? -y : x > 0.0 ? y : x;
}

#endif
