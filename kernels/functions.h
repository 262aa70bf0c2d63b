/* functions.h - exp, log, tanh, erf, sin, pow and what is made of them, from the operations that IEEE 754 fixes alone,
 * so that every compiler, processor and device gives the same bits. (libm and CUDA's differ in the last one.) Valid as
 * C11, C++ and CUDA. The first ones, up to erf, have no branch and no table, so loops over them vectorize; those behind
 * them are for graphs, schedules and reports.
 *
 * Errors, at most, in units in the last place (tests/kernels/test_functions.c, tests/judge/test_functions.py):
 *
 *     f32 and f64    exp 1.1   log 1   tanh 2.6   erf 2.7 and 1.5
 *     f64 alone      expm1 2   log1p 1.5   pow 0.8   log2 and log10 0.6   sin and cos 0.8   tan 2.1
 *
 * for all values. NaN gives NaN; beyond the range exp gives 0 and Inf, tanh and erf -1 and 1; the logarithm of 0 is -Inf, below it
 * NaN. */
#pragma once

#include "kernels/arith.h"

/* The power of two n times x, |n| <= 2100 (f64) or 280 (f32), in two factors, so that subnormal results are rounded
 * once, or nearly so. */
VC_HD float vc_times_power_f32(float x, int32_t n)
{
    int32_t half = n >> 1;

    return x * vc_bits_f32((uint32_t)(half + 127) << 23) * vc_bits_f32((uint32_t)(n - half + 127) << 23);
}

/* x * 2^n in two steps, so that n may be beyond what one number of f64 can hold. */
VC_HD double vc_times_power_f64(double x, int64_t n)
{
    int64_t half = n >> 1;

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

/* Taylor's series of exp(r) - 1 for |r| up to about 0.35, half of log 2: its upper half, p, and the lower one. */
VC_HD double vc_expm1_upper_f64(double r)
{
    double p = 1.0 / 87178291200.0;

    p = p * r + 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    return p * r + 1.0 / 40320.0;
}

VC_HD double vc_expm1_lower_f64(double p, double r)
{
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    return r + r * r * p;
}

VC_HD double vc_expm1_near_0_f64(double r)
{
    return vc_expm1_lower_f64(vc_expm1_upper_f64(r), r);
}

/* x = n ln 2 + r with |r| <= ln 2 / 2. Adding 1.5 * 2^23 (2^52) leaves the nearest integer in the low bits of the sum,
 * of which the lowest nine (twelve) are n with its sign.
 * ln 2 in two parts, of which the first has zeros at its end, so that n times it is exact. */
VC_HD float vc_exp_f32(float x)
{
    float c = x < -110.0f ? -110.0f : x > 100.0f ? 100.0f : x;
    float t = c * 1.44269504f + 12582912.0f;
    float n = t - 12582912.0f;
    float r = c - n * 0.693359375f + n * 2.12194440e-4f;

    return vc_times_power_f32(1.0f + vc_expm1_near_0_f32(r), (int32_t)(vc_f32_bits(t) << 23) >> 23);
}

/* exp(x) = 2^n exp(r), r = x - n log 2. Adding 1.5 * 2^52 rounds to a whole number, which the lowest bits of the sum, the
 * result, are. log 2 is split in two, so that n times its upper part is exact. */
VC_HD double vc_exp_near_begin_f64(double x, double *r)
{
    /* 1 / log 2, and 1.5 * 2^52: the sum is rounded to a whole number. */
    double t = x * 1.4426950408889634 + 6755399441055744.0;
    double n = t - 6755399441055744.0;

    *r = x - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10;
    return t;
}

VC_HD double vc_exp_begin_f64(double x, double *r)
{
    return vc_exp_near_begin_f64(x < -760.0 ? -760.0 : x > 720.0 ? 720.0 : x, r);
}

/* p: the upper half of the series; times 2^n in two steps, as vc_times_power_f64. 4096 + n, of the lowest bits of t, has no sign
 * to keep: AVX2 shifts no negative numbers of 64 bits. */
VC_HD double vc_exp_end_f64(double p, double r, double t)
{
    uint64_t n = vc_f64_bits(t) + (4096 - 0x4338000000000000u);
    uint64_t half = n >> 1;

    return (1.0 + vc_expm1_lower_f64(p, r)) * vc_bits_f64((half - 2048 + 1023) << 52) *
           vc_bits_f64((n - half - 2048 + 1023) << 52);
}

VC_HD double vc_exp_f64(double x)
{
    double r;
    double t = vc_exp_begin_f64(x, &r);

    return vc_exp_end_f64(vc_expm1_upper_f64(r), r, t);
}

/* Where |x| is at most this, exp needs neither bounds nor a second power of two, as it is a normal number; all bits are those
 * of vc_exp. */
#define VC_EXP_NEAR_F32 87.0f
#define VC_EXP_NEAR_F64 708.0

VC_HD float vc_exp_near_f32(float x)
{
    float t = x * 1.44269504f + 12582912.0f;
    float n = t - 12582912.0f;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;

    return (1.0f + vc_expm1_near_0_f32(r)) * vc_bits_f32((vc_f32_bits(t) + 127) << 23);
}

VC_HD double vc_exp_near_end_f64(double p, double r, double t)
{
    return (1.0 + vc_expm1_lower_f64(p, r)) * vc_bits_f64((vc_f64_bits(t) + 1023) << 52);
}

VC_HD double vc_exp_near_f64(double x)
{
    double r;
    double t = vc_exp_near_begin_f64(x, &r);

    return vc_exp_near_end_f64(vc_expm1_upper_f64(r), r, t);
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

    p = p * z + 2.0f / 9;
    p = p * z + 2.0f / 7;
    p = p * z + 2.0f / 5;
    p = p * z + 2.0f / 3;
    /* log m = f - s * (f - z * p), which loses nothing where f is small */
    float y = e * 0.693359375f + (f - (s * (f - z * p) + e * 2.12194440e-4f));
    y = x == vc_bits_f32(0x7f800000u) ? x : y;
    y = x == 0.0f ? -vc_bits_f32(0x7f800000u) : y;
    return x >= 0.0f ? y : x - x + vc_bits_f32(0x7fc00000u);
}

/* x = 2^n m, m from sqrt(1/2) to sqrt(2); log m by the series of atanh(s), s = (m - 1) / (m + 1). Subnormal numbers are
 * scaled first. */
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
    double y = e * 6.93147180369123816490e-01 + (f - (s * (f - z * p) - e * 1.90821492927058770002e-10));
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

/* tanh(a) = u / (u + 2) with u = exp(2 a) - 1, which keeps the digits near 0. */
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
    double y = a < 1.0 ? a + a * p : 1.0 - vc_exp_f64(q - c * c);
    return x < 0.0 ? -y : x > 0.0 ? y : x;
}

/* ---- f64 only ---- */

/* exp(x) - 1. Between: 2^n (exp(r) - 1) + (2^n - 1), as in tanh. */
VC_HD double vc_expm1_f64(double x)
{
    double t = x * 1.4426950408889634 + 6755399441055744.0;
    double n = t - 6755399441055744.0;

    if (x == 0.0) {
        return x;
    }
    if (!(x > -40.0 && x < 40.0)) {
        return x <= -40.0 ? -1.0 : vc_exp_f64(x);
    }
    double two = vc_bits_f64(((uint64_t)((int64_t)n + 1023)) << 52);
    return vc_expm1_near_0_f64(x - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10) * two + (two - 1.0);
}

/* log(1 + x): what 1 + x has lost, divided by it, is added. */
VC_HD double vc_log1p_f64(double x)
{
    double u = 1.0 + x;
    double lost = u - 1.0 < x || x < 1.0 ? x - (u - 1.0) : 1.0 - (u - x);

    if (x == 0.0 || !(x > -1.0 && x < 1e300)) {
        return x == 0.0 ? x : vc_log_f64(u);
    }
    return vc_log_f64(u) + lost / u;
}

/* Of float: those of double, rounded. */
VC_HD float vc_expm1_f32(float x)
{
    return (float)vc_expm1_f64((double)x);
}

VC_HD float vc_log1p_f32(float x)
{
    return (float)vc_log1p_f64((double)x);
}

/* A number as the sum of two doubles; the second is at most half a unit in the last place of the first. */
struct vc_two_f64 {
    double hi, lo;
};

/* The sum of two doubles, exactly; and where |a| >= |b|. */
VC_HD struct vc_two_f64 vc_two_sum(double a, double b)
{
    struct vc_two_f64 s;

    s.hi = a + b;
    double part = s.hi - a;
    s.lo = (a - (s.hi - part)) + (b - part);
    return s;
}

/* The sum and what rounding took from it, for |a| at least |b|. */
VC_HD struct vc_two_f64 vc_two_sum_ordered(double a, double b)
{
    struct vc_two_f64 s;

    s.hi = a + b;
    s.lo = b - (s.hi - a);
    return s;
}

/* The product of two doubles, exactly (Dekker), for magnitudes up to 2^995 whose product is 0 or above 2^-960. */
VC_HD struct vc_two_f64 vc_two_product(double a, double b)
{
    double cut_a = a * 134217729.0; /* 2^27 + 1 */
    double cut_b = b * 134217729.0;
    double a1 = cut_a - (cut_a - a);
    double b1 = cut_b - (cut_b - b);
    double a2 = a - a1;
    double b2 = b - b1;
    struct vc_two_f64 p;

    p.hi = a * b;
    p.lo = ((a1 * b1 - p.hi) + a1 * b2 + a2 * b1) + a2 * b2;
    return p;
}

/* Up to about 2^-103 of the result. */
VC_HD struct vc_two_f64 vc_two_multiply(struct vc_two_f64 a, struct vc_two_f64 b)
{
    struct vc_two_f64 p = vc_two_product(a.hi, b.hi);

    return vc_two_sum_ordered(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

VC_HD struct vc_two_f64 vc_two_add(struct vc_two_f64 a, struct vc_two_f64 b)
{
    struct vc_two_f64 s = vc_two_sum(a.hi, b.hi);

    return vc_two_sum_ordered(s.hi, s.lo + (a.lo + b.lo));
}

/* The logarithm of x, which is above 0 and finite, up to 2^-68 of it. As vc_log_f64: 2 atanh(s), the first three terms
 * of the series in two doubles, since what the others lose is 2^-18 times smaller. */
VC_HD struct vc_two_f64 vc_log_two(double x)
{
    int is_small = x < 2.2250738585072014e-308;
    uint64_t from = vc_f64_bits(is_small ? x * 4503599627370496.0 : x) - 0x3fe6a09e667f3bcdu;
    double n = (double)(((int64_t)from >> 52) - (is_small ? 52 : 0));
    double m = vc_bits_f64((from & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
    const struct vc_two_f64 third = {0.33333333333333331, 1.8503717077085941e-17};
    const struct vc_two_f64 fifth = {0.2, -1.1102230246251566e-17};
    struct vc_two_f64 d = vc_two_sum(m, 1.0);
    struct vc_two_f64 s, z, p, y;
    double tail = 1.0 / 27;

    s.hi = (m - 1.0) / d.hi;
    p = vc_two_product(s.hi, d.hi);
    s.lo = (((m - 1.0) - p.hi) - p.lo - s.hi * d.lo) / d.hi;
    z = vc_two_multiply(s, s);
    tail = tail * z.hi + 1.0 / 25;
    tail = tail * z.hi + 1.0 / 23;
    tail = tail * z.hi + 1.0 / 21;
    tail = tail * z.hi + 1.0 / 19;
    tail = tail * z.hi + 1.0 / 17;
    tail = tail * z.hi + 1.0 / 15;
    tail = tail * z.hi + 1.0 / 13;
    tail = tail * z.hi + 1.0 / 11;
    tail = tail * z.hi + 1.0 / 9;
    tail = tail * z.hi + 1.0 / 7;
    p.hi = tail;
    p.lo = 0.0;
    p = vc_two_add(fifth, vc_two_multiply(z, p));
    p = vc_two_add(third, vc_two_multiply(z, p));
    p = vc_two_multiply(s, vc_two_multiply(z, p));
    y = vc_two_sum(s.hi, p.hi);
    y.lo += s.lo + p.lo;
    d = vc_two_sum(n * 6.93147180369123816490e-01, 2.0 * y.hi);
    return vc_two_sum_ordered(d.hi, d.lo + (2.0 * y.lo + n * 1.90821492927058770002e-10));
}

/* exp(x.hi + x.lo), as vc_exp_f64, with 1 + r + r^2 / 2 in two doubles: within 0.53 units in the last place, so that
 * what has an exact value gets it. */
VC_HD double vc_exp_two(struct vc_two_f64 x)
{
    double c = x.hi < -760.0 ? -760.0 : x.hi > 720.0 ? 720.0 : x.hi;
    double n = (c * 1.4426950408889634 + 6755399441055744.0) - 6755399441055744.0;
    struct vc_two_f64 r =
        vc_two_sum(c - n * 6.93147180369123816490e-01, (c == x.hi ? x.lo : 0.0) - n * 1.90821492927058770002e-10);
    struct vc_two_f64 square = vc_two_product(0.5 * r.hi, r.hi);
    struct vc_two_f64 y = vc_two_sum_ordered(1.0, r.hi);
    double p = 1.0 / 87178291200.0;

    p = p * r.hi + 1.0 / 6227020800.0;
    p = p * r.hi + 1.0 / 479001600.0;
    p = p * r.hi + 1.0 / 39916800.0;
    p = p * r.hi + 1.0 / 3628800.0;
    p = p * r.hi + 1.0 / 362880.0;
    p = p * r.hi + 1.0 / 40320.0;
    p = p * r.hi + 1.0 / 5040.0;
    p = p * r.hi + 1.0 / 720.0;
    p = p * r.hi + 1.0 / 120.0;
    p = p * r.hi + 1.0 / 24.0;
    p = p * r.hi + 1.0 / 6.0;
    r.lo += square.lo + r.hi * r.lo + p * r.hi * r.hi * r.hi + y.lo;
    y = vc_two_sum_ordered(y.hi, square.hi);
    return vc_times_power_f64(y.hi + (y.lo + r.lo), (int64_t)n);
}

/* 0: no whole number; 1: an odd one; 2: an even one */
VC_HD int vc_whole_kind(double x)
{
    double a = x < 0.0 ? -x : x;

    if (!(a < 9007199254740992.0)) { /* NaN, too, which is no int64_t */
        return 2;
    }
    return (double)(int64_t)a != a ? 0 : ((int64_t)a & 1) != 0 ? 1 : 2;
}

/* x^y as C's annex F has it: y = 0 and x = 1 give 1, whatever the other is, NaN too; below 0 there are powers of whole
 * numbers only. */
VC_HD double vc_pow_f64(double x, double y)
{
    const double inf = vc_bits_f64(0x7ff0000000000000u);
    double a = x < 0.0 ? -x : x;
    double c = y < -1e25 ? -1e25 : y > 1e25 ? 1e25 : y; /* enough for 0 and Inf, and the product stays finite */
    int kind = vc_whole_kind(y);
    int minus = (vc_f64_bits(x) >> 63) != 0 && kind == 1;
    struct vc_two_f64 l, p;
    double value;

    if (y == 0.0 || x == 1.0) {
        return 1.0;
    }
    if (x != x || y != y) {
        return x + y;
    }
    if (a == 1.0 && (y == inf || y == -inf)) {
        return 1.0;
    }
    if (a == 0.0 || a == inf) {
        value = (a == 0.0) == (y > 0.0) ? 0.0 : inf;
        return minus ? -value : value;
    }
    if (x < 0.0 && kind == 0) {
        return vc_bits_f64(0x7ff8000000000000u);
    }
    l = vc_log_two(a);
    p = vc_two_product(c, l.hi);
    value = vc_exp_two(vc_two_sum_ordered(p.hi, p.lo + c * l.lo));
    return minus ? -value : value;
}

/* The logarithm of x times 1 / log(base), as x has it: whole powers of the base give whole numbers. */
VC_HD double vc_log_of_base(double x, struct vc_two_f64 by)
{
    if (!(x > 0.0 && x < vc_bits_f64(0x7ff0000000000000u))) {
        return vc_log_f64(x);
    }
    return vc_two_multiply(vc_log_two(x), by).hi;
}

/* The factors are 1 / log 2 and 1 / log 10, in two numbers each. */
VC_HD double vc_log2_f64(double x)
{
    const struct vc_two_f64 by = {1.4426950408889634, 2.0355273740931033e-17};

    return vc_log_of_base(x, by);
}

VC_HD double vc_log10_f64(double x)
{
    const struct vc_two_f64 by = {0.4342944819032518, 1.098319650216765e-17};

    return vc_log_of_base(x, by);
}

/* ---- angles ---- */

/* x mod pi/2 for |x| >= 2^20, by Payne and Hanek: x = m 2^e with a whole number m; of the bits of 2 / pi those that lie
 * above 4 / 2^e only add whole turns, and of the others 192 are enough (a double comes no nearer to a multiple of pi/2
 * than 2^-62). Returns the fraction of the quarter turn, -1/2 to 1/2. */
VC_HD struct vc_two_f64 vc_turn_of_large(double x, unsigned *quarter)
{
    /* 64 zeros, and 2 / pi from its first bit behind the point */
    const uint32_t bits[] = {0x00000000, 0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599,
                             0x3c439041, 0xfe5163ab, 0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c,
                             0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639,
                             0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f,
                             0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b, 0x3d0739f7,
                             0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab, 0xf0cfbc20};
    uint64_t word = vc_f64_bits(x) & 0x000fffffffffffffu;
    uint32_t m[2], product[6] = {0, 0, 0, 0, 0, 0};                         /* the first is the lowest */
    int32_t from = (int32_t)(vc_f64_bits(x) >> 52 & 0x7ff) - 1075 - 1 + 63; /* of the bits, the first that counts */
    struct vc_two_f64 f = {0.0, 0.0};
    double scale = 1.0 / 4611686018427387904.0; /* of a word: 2^-62 for the second, since two bits are the quarter */
    int is_minus;

    m[0] = (uint32_t)word;
    m[1] = (uint32_t)(word >> 32) | 0x00100000u;
    for (int k = 0; k < 6; k++) {
        int32_t at = from + 32 * (5 - k);
        uint64_t two = (uint64_t)bits[at / 32] << 32 | bits[at / 32 + 1];
        uint64_t limb = two >> (32 - at % 32) & 0xffffffffu;
        uint64_t carry = 0;

        for (int i = 0; i < 2 && k + i < 6; i++) {
            carry += limb * m[i] + product[k + i];
            product[k + i] = (uint32_t)carry;
            carry >>= 32;
        }
        for (int i = k + 2; i < 6; i++) {
            carry += product[i];
            product[i] = (uint32_t)carry;
            carry >>= 32;
        }
    }
    is_minus = (product[5] >> 29 & 1) != 0; /* half a quarter or more: from the other side */
    *quarter = (product[5] >> 30) + (is_minus ? 1 : 0);
    if (is_minus) {
        for (int k = 0; k < 6; k++) {
            product[k] = ~product[k]; /* 2^-190 less than the negative number */
        }
    }
    product[5] &= 0x3fffffffu;
    scale *= 4294967296.0;
    for (int k = 5; k >= 0; k--, scale /= 4294967296.0) {
        struct vc_two_f64 s = vc_two_sum(f.hi, (double)product[k] * scale);

        f.hi = s.hi;
        f.lo += s.lo;
    }
    f = vc_two_sum_ordered(f.hi, f.lo);
    f.hi = is_minus ? -f.hi : f.hi;
    f.lo = is_minus ? -f.lo : f.lo;
    return f;
}

/* x = quarter * pi/2 + r, |r| <= pi/4 or hardly more; x finite. Below 2^20 pi/2 is taken in three parts of 33 bits, so
 * that their products with the quarter are exact, and a rest. */
VC_HD struct vc_two_f64 vc_angle(double x, unsigned *quarter)
{
    const struct vc_two_f64 half_pi = {1.5707963267948966, 6.123233995736766e-17};
    double a = x < 0.0 ? -x : x;
    struct vc_two_f64 r, s;

    if (a < 1048576.0) {
        double t = x * 0.63661977236758134 + 6755399441055744.0;
        double n = t - 6755399441055744.0;

        r = vc_two_sum(x - n * 1.5707963267341256, -(n * 6.077100506303966e-11));
        s = vc_two_sum(r.hi, -(n * 2.0222662487111665e-21));
        *quarter = (unsigned)(vc_f64_bits(t) & 3);
        return vc_two_sum(s.hi, (s.lo + r.lo) - n * 8.4784276603689e-32);
    }
    r = vc_two_multiply(vc_turn_of_large(a, quarter), half_pi);
    if (x < 0.0) {
        *quarter = (0 - *quarter) & 3;
        r.hi = -r.hi;
        r.lo = -r.lo;
    }
    *quarter &= 3;
    return r;
}

/* sin and cos of r.hi + r.lo up to pi/4: the series of Taylor, with what r.lo changes. */
VC_HD double vc_sin_near_0(struct vc_two_f64 r)
{
    double z = r.hi * r.hi;
    double p = 1.0 / 355687428096000.0;

    p = p * z - 1.0 / 1307674368000.0;
    p = p * z + 1.0 / 6227020800.0;
    p = p * z - 1.0 / 39916800.0;
    p = p * z + 1.0 / 362880.0;
    p = p * z - 1.0 / 5040.0;
    p = p * z + 1.0 / 120.0;
    p = p * z - 1.0 / 6.0;
    return r.hi + (r.hi * z * p + r.lo * (1.0 - 0.5 * z));
}

/* Taylor's series; 1 - z / 2 is split from the rest, so that what it rounds is added back. */
VC_HD double vc_cos_near_0(struct vc_two_f64 r)
{
    double z = r.hi * r.hi;
    double w = 1.0 - 0.5 * z;
    double p = -1.0 / 6402373705728000.0;

    p = p * z + 1.0 / 20922789888000.0;
    p = p * z - 1.0 / 87178291200.0;
    p = p * z + 1.0 / 479001600.0;
    p = p * z - 1.0 / 3628800.0;
    p = p * z + 1.0 / 40320.0;
    p = p * z - 1.0 / 720.0;
    p = p * z + 1.0 / 24.0;
    return w + (((1.0 - w) - 0.5 * z) + (z * z * p - r.hi * r.lo));
}

/* sin x and cos x; NaN for both where x is infinite or NaN. */
VC_HD void vc_sin_cos_f64(double x, double *sine, double *cosine)
{
    double a = x < 0.0 ? -x : x;
    unsigned quarter;
    double s, c;

    if (!(a < vc_bits_f64(0x7ff0000000000000u)) || a < 1e-9) {
        *sine = a < 1e-9 ? x : x - x;
        *cosine = a < 1e-9 ? 1.0 : x - x;
        return;
    }
    struct vc_two_f64 r = vc_angle(x, &quarter);
    s = vc_sin_near_0(r);
    c = vc_cos_near_0(r);
    *sine = (quarter & 1) != 0 ? c : s;
    *cosine = (quarter & 1) != 0 ? s : c;
    *sine = quarter >= 2 ? -*sine : *sine;
    *cosine = quarter == 1 || quarter == 2 ? -*cosine : *cosine;
}

VC_HD double vc_sin_f64(double x)
{
    double s, c;

    vc_sin_cos_f64(x, &s, &c);
    return s;
}

VC_HD double vc_cos_f64(double x)
{
    double s, c;

    vc_sin_cos_f64(x, &s, &c);
    return c;
}

VC_HD double vc_tan_f64(double x)
{
    double s, c;

    vc_sin_cos_f64(x, &s, &c);
    return s / c;
}
