/* loops_x86.h - part of loops.h: the places where the compilers' code was measured to be clearly slower, with AVX2,
 * FMA and F16C intrinsics. For cpu_avx2.c and cpu_avx512.c; the loops that these replace stay in loops_*.h for
 * everyone else, under the same names (or finish what is left of a strip, after encode_*_x86).
 *
 * Conversion and sums are two walks over a strip in the first-level cache, not one: widening f32 to f64 from memory
 * takes half a cycle, from the upper half of a register two (measured on Zen 3: 7.6 cycles per 8 elements against 10
 * in one walk). */
#pragma once

#include <immintrin.h>

#include "kernels/arith.h"
#include "kernels/blocks.h"
#include "kernels/cpu/access.h"

#define VC_HAVE_X86 1

/* Eight f64: one register of AVX-512, or two. wide_of: of eight f32. wide_four: the four sums of lanes l and l + 4. */
#ifdef __AVX512F__
typedef __m512d wide;
#define WIDE_ZERO    _mm512_setzero_pd()
#define wide_of      _mm512_cvtps_pd
#define wide_all     _mm512_set1_pd
#define wide_add     _mm512_add_pd
#define wide_sub     _mm512_sub_pd
#define wide_mul     _mm512_mul_pd
#define wide_fma     _mm512_fmadd_pd
#define wide_store   _mm512_storeu_pd
#define wide_four(a) _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1))
#else
/* Eight numbers of f64: one register with AVX-512, two with AVX2. The operations have the same names in both. */
typedef struct wide {
    __m256d low, high;
} wide;
#define WIDE_ZERO wide_all(0.0)
/* An operation on both halves. */
#define WIDE_OP(name, params, low, high)                                 \
    static inline __attribute__((always_inline)) wide wide_##name params \
    {                                                                    \
        return (wide){low, high};                                        \
    }
WIDE_OP(of, (__m256 v), _mm256_cvtps_pd(_mm256_castps256_ps128(v)), _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)))
WIDE_OP(all, (double x), _mm256_set1_pd(x), _mm256_set1_pd(x))
WIDE_OP(add, (wide a, wide b), _mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high))
WIDE_OP(sub, (wide a, wide b), _mm256_sub_pd(a.low, b.low), _mm256_sub_pd(a.high, b.high))
WIDE_OP(mul, (wide a, wide b), _mm256_mul_pd(a.low, b.low), _mm256_mul_pd(a.high, b.high))
WIDE_OP(fma, (wide a, wide b, wide c), _mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high))
#define wide_four(a) _mm256_add_pd((a).low, (a).high)
#undef WIDE_OP

/* `to` may be unaligned. */
static inline void wide_store(double *to, wide a)
{
    _mm256_storeu_pd(to, a.low);
    _mm256_storeu_pd(to + 4, a.high);
}
#endif

/* lane[i % 64] += v[i]^2 for i < n. 32 lanes at a time walk down, so that their 8 vectors of sums stay in registers.
 * The products are exact, so the fused add rounds as the definition does. */
static void squares_f32(double *lane, const float *v, size_t n)
{
    size_t full = n / LANES * LANES;
    size_t i = full;

    for (size_t l0 = 0; full != 0 && l0 < LANES; l0 += 32) {
        __m256d sum[8];

        for (size_t k = 0; k < 8; k++) {
            sum[k] = _mm256_loadu_pd(lane + l0 + 4 * k);
        }
        for (size_t at = l0; at < full; at += LANES) {
            for (size_t k = 0; k < 8; k++) {
                __m256d d = _mm256_cvtps_pd(_mm_loadu_ps(v + at + 4 * k));

                sum[k] = _mm256_fmadd_pd(d, d, sum[k]);
            }
        }
        for (size_t k = 0; k < 8; k++) {
            _mm256_storeu_pd(lane + l0 + 4 * k, sum[k]);
        }
    }
    for (; i + 4 <= n; i += 4) {
        __m256d d = _mm256_cvtps_pd(_mm_loadu_ps(v + i));

        _mm256_storeu_pd(lane + (i - full), _mm256_fmadd_pd(d, d, _mm256_loadu_pd(lane + (i - full))));
    }
    for (; i < n; i++) {
        double d = (double)vc_get_f32(v, i);

        lane[i - full] += d * d;
    }
}

/* Whether all of x and y is finite; *different: how many pairs are not equal, if so. */
static bool diff_looks_f32(const float *x, const float *y, size_t n, uint64_t *different)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    __m256i equal = _mm256_setzero_si256();
    uint32_t all = 0;
    uint32_t lane[8];
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256 a = _mm256_loadu_ps(x + i);
        __m256 b = _mm256_loadu_ps(y + i);

        most = _mm256_max_epu32(most, _mm256_and_si256(_mm256_castps_si256(a), magnitude));
        most = _mm256_max_epu32(most, _mm256_and_si256(_mm256_castps_si256(b), magnitude));
        equal = _mm256_sub_epi32(equal, _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)));
    }
    _mm256_storeu_si256((__m256i *)lane, most);
    for (size_t l = 0; l < 8; l++) {
        all = lane[l] > all ? lane[l] : all;
    }
    _mm256_storeu_si256((__m256i *)lane, equal);
    uint32_t same = lane[0] + lane[1] + lane[2] + lane[3] + lane[4] + lane[5] + lane[6] + lane[7];
    for (; i < n; i++) {
        uint32_t a = vc_f32_magnitude(vc_get_f32(x, i));
        uint32_t b = vc_f32_magnitude(vc_get_f32(y, i));

        all = a > all ? a : all;
        all = b > all ? b : all;
        same += vc_get_f32(x, i) == vc_get_f32(y, i);
    }
    *different = n - same;
    return all < VC_F32_INF_BITS;
}

/* The sums of four lanes of a chunk, for pairs that are finite. */
struct diff_lanes {
    __m256d xx, ee, yy, xy, most;
};

/* Four elements of both sides. Products of two f32 are exact in f64, so that fused sums have the same bits; the square
 * of an error is not. */
static inline void diff_lanes_add(struct diff_lanes *d, const float *x, const float *y)
{
    __m256d a = _mm256_cvtps_pd(_mm_loadu_ps(x));
    __m256d b = _mm256_cvtps_pd(_mm_loadu_ps(y));
    __m256d e = _mm256_andnot_pd(_mm256_set1_pd(-0.0), _mm256_sub_pd(a, b));

    d->xx = _mm256_fmadd_pd(a, a, d->xx);
    d->ee = _mm256_add_pd(d->ee, _mm256_mul_pd(e, e)); /* this product is rounded */
    d->yy = _mm256_fmadd_pd(b, b, d->yy);
    d->xy = _mm256_fmadd_pd(a, b, d->xy);
    d->most = _mm256_max_pd(d->most, e);
}

/* Sums go on from what the lanes have. */
static inline void diff_lanes_load(struct diff_lanes *d, double lane[4][LANES], size_t l0)
{
    d->xx = _mm256_loadu_pd(lane[0] + l0);
    d->ee = _mm256_loadu_pd(lane[1] + l0);
    d->yy = _mm256_loadu_pd(lane[2] + l0);
    d->xy = _mm256_loadu_pd(lane[3] + l0);
    d->most = _mm256_setzero_pd();
}

/* Puts the sums back; *most is raised to the largest error. */
static inline void diff_lanes_store(const struct diff_lanes *d, double lane[4][LANES], size_t l0, double *most)
{
    double e[4];

    _mm256_storeu_pd(lane[0] + l0, d->xx);
    _mm256_storeu_pd(lane[1] + l0, d->ee);
    _mm256_storeu_pd(lane[2] + l0, d->yy);
    _mm256_storeu_pd(lane[3] + l0, d->xy);
    _mm256_storeu_pd(e, d->most);
    for (size_t l = 0; l < 4; l++) {
        *most = e[l] > *most ? e[l] : *most;
    }
}

/* diff_strip in one walk, from the f32 themselves, eight lanes at a time, so that sums stay in registers. Does nothing,
 * and returns false, where a value is not finite or n is no multiple of 64. */
static bool diff_strip_x86(const float *x, const float *y, size_t n, double lane[4][LANES], struct vc_diff_sums *sums)
{
    uint64_t different;
    double most = 0;

    if (n % LANES != 0 || !diff_looks_f32(x, y, n, &different)) {
        return false;
    }
    for (size_t l0 = 0; l0 < LANES; l0 += 8) {
        struct diff_lanes low;
        struct diff_lanes high;

        diff_lanes_load(&low, lane, l0);
        diff_lanes_load(&high, lane, l0 + 4);
        for (size_t at = l0; at < n; at += LANES) {
            diff_lanes_add(&low, x + at, y + at);
            diff_lanes_add(&high, x + at + 4, y + at + 4);
        }
        diff_lanes_store(&low, lane, l0, &most);
        diff_lanes_store(&high, lane, l0 + 4, &most);
    }
    sums->max_abs_error = most > sums->max_abs_error ? most : sums->max_abs_error;
    sums->different += different;
    return true;
}

/* Counters (8 lanes of 32 bits, or 4 of 64) and largest |error| (8 lanes, as bits) of a strip. */
struct tally {
    __m256i most, before, after;
};

/* Sum, and maximum without sign, of the eight 32-bit lanes. Once per strip. */
static inline uint32_t sum_of_8(__m256i v)
{
    uint32_t u[8];

    _mm256_storeu_si256((__m256i *)u, v);
    return u[0] + u[1] + u[2] + u[3] + u[4] + u[5] + u[6] + u[7];
}

/* The order does not matter for integers. */
static inline uint32_t max_of_8(__m256i v)
{
    uint32_t u[8];
    uint32_t most = 0;

    _mm256_storeu_si256((__m256i *)u, v);
    for (size_t i = 0; i < 8; i++) {
        most = u[i] > most ? u[i] : most;
    }
    return most;
}

/* All ones in the lanes that are +0 or -0: subtracting it counts them. */
static inline __m256i float_zero(__m256 x)
{
    return _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_EQ_OQ));
}

/* 8 elements x with their decoded values y; stores the errors. The largest is compared as an integer, so that a NaN
 * counts as the largest. Zeros among y are counted by the caller, who knows the cheapest way. */
static inline void tally_add(struct tally *t, __m256 x, __m256 y, float *e)
{
    __m256 d = _mm256_sub_ps(x, y);

    _mm256_storeu_ps(e, d);
    t->most = _mm256_max_epu32(t->most, _mm256_and_si256(_mm256_castps_si256(d), _mm256_set1_epi32(0x7fffffff)));
    t->before = _mm256_sub_epi32(t->before, float_zero(x));
}

/* The end of encode_*_x86: its tally becomes the strip's. The loop that follows goes on from there. */
static inline void tally_end(const struct tally *t, const float *x, struct strip *strip)
{
    strip->x = x;
    strip->max_bits = max_of_8(t->most);
    strip->zeros_before = sum_of_8(t->before);
    strip->zeros_after = sum_of_8(t->after);
    strip->clipped = 0;
}

/* 32 codes from four vectors of integers that fit a byte. The two packs work within halves of 128 bits, so the result
 * is put into order afterwards. */
static inline __m256i pack_codes(const __m256i q[4])
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i w = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));

    return _mm256_permutevar8x32_epi32(w, order);
}

/* The first elements of encode_own, 32 at a time; returns how many. y is 0 exactly where the code is: those are counted
 * in bytes, which 1,024 / 32 rounds cannot overflow. */
static inline size_t encode_own_x86(const float *x, size_t n, const float *s, size_t step, int8_t *q,
                                    struct strip *strip)
{
    const __m256 s_all = _mm256_set1_ps(s[0]);
    const __m256i zero = _mm256_setzero_si256();
    struct tally t = {zero, zero, zero};
    __m256i zero_codes = zero;
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        __m256i r[4];

        for (size_t k = 0; k < 4; k++) {
            size_t at = i + 8 * k;
            __m256 v = _mm256_loadu_ps(x + at);
            __m256 d = step == 0 ? s_all : _mm256_loadu_ps(s + at);

            r[k] = _mm256_cvtps_epi32(_mm256_div_ps(v, d));
            tally_add(&t, v, _mm256_mul_ps(_mm256_cvtepi32_ps(r[k]), d), strip->e + at);
        }
        r[0] = pack_codes(r);
        _mm256_storeu_si256((__m256i *)(q + i), r[0]);
        zero_codes = _mm256_sub_epi8(zero_codes, _mm256_cmpeq_epi8(r[0], zero));
    }
    t.after = _mm256_sad_epu8(zero_codes, zero);
    tally_end(&t, x, strip);
    return i;
}

/* One vector of encode_given: the codes as integers. *changed counts those that the clamp changed. */
static inline __m256i given_8(__m256 x, __m256 s, __m256 z, __m256 lo, struct tally *t, __m256i *changed, float *e)
{
    const __m256 bound = _mm256_set1_ps(512.0f); /* beyond every range, within that of the conversion */
    __m256 v = _mm256_max_ps(_mm256_min_ps(_mm256_div_ps(x, s), bound), _mm256_sub_ps(_mm256_setzero_ps(), bound));
    __m256 c = _mm256_add_ps(_mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), z);
    __m256 k = _mm256_max_ps(_mm256_min_ps(c, _mm256_set1_ps(127.0f)), lo);

    *changed = _mm256_sub_epi32(*changed, _mm256_castps_si256(_mm256_cmp_ps(c, k, _CMP_NEQ_UQ)));
    __m256 y = _mm256_mul_ps(_mm256_sub_ps(k, z), s);
    tally_add(t, x, y, e);
    t->after = _mm256_sub_epi32(t->after, float_zero(y));
    return _mm256_cvtps_epi32(k);
}

/* The first elements of encode_given, 32 at a time; returns how many. */
static inline size_t encode_given_x86(const float *x, size_t n, const float *s, const float *z, size_t step,
                                      size_t z_step, float lo, int8_t *q, struct strip *strip)
{
    const __m256 s_all = _mm256_set1_ps(s[0]);
    const __m256 z_all = _mm256_set1_ps(z[0]);
    const __m256 least = _mm256_set1_ps(lo);
    struct tally t = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    __m256i changed = _mm256_setzero_si256();
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        __m256i r[4];

        for (size_t k = 0; k < 4; k++) {
            size_t at = i + 8 * k;
            __m256 d = step == 0 ? s_all : _mm256_loadu_ps(s + at);
            __m256 zp = z_step == 0 ? z_all : _mm256_loadu_ps(z + at);

            r[k] = given_8(_mm256_loadu_ps(x + at), d, zp, least, &t, &changed, strip->e + at);
        }
        _mm256_storeu_si256((__m256i *)(q + i), pack_codes(r));
    }
    tally_end(&t, x, strip);
    strip->clipped = sum_of_8(changed);
    return i;
}

/* As encode_own_x86, for the casts. NaNs are not handled: the strip is done again where one occurs. */
static inline size_t encode_f16_x86(const float *x, size_t n, uint16_t *h, struct strip *strip)
{
    const __m256i zero = _mm256_setzero_si256();
    struct tally t = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i);
        __m128i r = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);

        _mm_storeu_si128((__m128i *)(h + i), r);
        __m256 y = _mm256_cvtph_ps(r);
        /* on integers: clang 14 turns a float compare of converted halves into scalar code */
        tally_add(&t, v, y, strip->e + i);
        t.after = _mm256_sub_epi32(t.after, _mm256_cmpeq_epi32(_mm256_slli_epi32(_mm256_castps_si256(y), 1), zero));
    }
    tally_end(&t, x, strip);
    return i;
}

/* u + 0x7fff + (bit 16 of u): the upper half is the bf16. */
static inline __m256i bf16_round(__m256 x)
{
    __m256i u = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));

    return _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
}

/* The same for bf16, 16 at a time. The packs work within halves of 128 bits; 0xd8 puts their quarters into order. */
static inline size_t encode_bf16_x86(const float *x, size_t n, uint16_t *h, struct strip *strip)
{
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000u);
    struct tally t = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m256 x0 = _mm256_loadu_ps(x + i);
        __m256 x1 = _mm256_loadu_ps(x + i + 8);
        __m256i r0 = bf16_round(x0);
        __m256i r1 = bf16_round(x1);
        __m256i w = _mm256_packus_epi32(_mm256_srli_epi32(r0, 16), _mm256_srli_epi32(r1, 16));

        _mm256_storeu_si256((__m256i *)(h + i), _mm256_permute4x64_epi64(w, 0xd8));
        r0 = _mm256_and_si256(r0, upper);
        r1 = _mm256_and_si256(r1, upper);
        tally_add(&t, x0, _mm256_castsi256_ps(r0), strip->e + i);
        tally_add(&t, x1, _mm256_castsi256_ps(r1), strip->e + i + 8);
        t.after = _mm256_sub_epi32(t.after, float_zero(_mm256_castsi256_ps(r0)));
        t.after = _mm256_sub_epi32(t.after, float_zero(_mm256_castsi256_ps(r1)));
    }
    tally_end(&t, x, strip);
    return i;
}

/* vc_f64_to_f32_odd, four at a time: convert, convert back, compare. Lanes where anything was cut off get their last
 * bit set, one step nearer to zero where the conversion went away from it. The instruction treats NaN as the
 * definition does (vc_f64_to_f32). */
static inline void f64_to_f32_odd_run(const double *x, size_t n, float *y)
{
    const __m256d sign = _mm256_set1_pd(-0.0);
    size_t i = 0;

    for (; i + 4 <= n; i += 4) {
        __m256d v = _mm256_loadu_pd(x + i);
        __m128 r = _mm256_cvtpd_ps(v);
        __m256d back = _mm256_cvtps_pd(r);
        __m256 cut = _mm256_castpd_ps(_mm256_cmp_pd(back, v, _CMP_NEQ_OQ)); /* both halves of 64 bits alike */
        __m256 away =
            _mm256_castpd_ps(_mm256_cmp_pd(_mm256_andnot_pd(sign, back), _mm256_andnot_pd(sign, v), _CMP_GT_OQ));
        __m128 cut4 = _mm_shuffle_ps(_mm256_castps256_ps128(cut), _mm256_extractf128_ps(cut, 1), 0x88);
        __m128 away4 = _mm_shuffle_ps(_mm256_castps256_ps128(away), _mm256_extractf128_ps(away, 1), 0x88);
        __m128i u = _mm_add_epi32(_mm_castps_si128(r), _mm_castps_si128(away4)); /* the mask is -1 */

        u = _mm_or_si128(u, _mm_set1_epi32(1));
        _mm_storeu_ps(y + i, _mm_blendv_ps(r, _mm_castsi128_ps(u), cut4));
    }
    for (; i < n; i++) {
        vc_put_f32(y, i, vc_f64_to_f32_odd(vc_get_f64(x, i)));
    }
}

/* F16C keeps NaN payloads; the definition has one NaN per sign, so NaNs are replaced before. */
static inline void f32_to_f16_run(const float *x, size_t n, uint16_t *h)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i);
        __m256 sign = _mm256_and_ps(v, _mm256_set1_ps(-0.0f));
        __m256 nan = _mm256_or_ps(sign, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)));

        v = _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
        _mm_storeu_si128((__m128i *)(h + i), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    }
    for (; i < n; i++) {
        vc_put_u16(h, i, vc_f32_to_f16(vc_get_f32(x, i)));
    }
}

/* The step (or minimum) at p, which is finite. */
static inline float finite_step(const uint8_t *p)
{
    return _cvtsh_ss((uint16_t)(p[0] | p[1] << 8));
}

/* n values, a multiple of 8: (code - offset) * step + least. By eight bytes: codes come from stores of 8 and 16, for
 * which the wider loads that compilers like would have to wait. */
static inline void values(const int8_t *q, size_t n, int32_t offset, float step, float least, float *y)
{
    for (size_t i = 0; i < n; i += 8) {
        __m256i k = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(q + i)));
        __m256 v = _mm256_cvtepi32_ps(_mm256_sub_epi32(k, _mm256_set1_epi32(offset)));

        v = _mm256_add_ps(_mm256_mul_ps(v, _mm256_set1_ps(step)), _mm256_set1_ps(least));
        _mm256_storeu_ps(y + i, v);
    }
}

/* vc_f16_to_f32: the instruction does the same, quiet NaN with payload included. */
static inline void f16_to_f32_run(const uint16_t *h, size_t n, float *y)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(h + i))));
    }
    for (; i < n; i++) {
        vc_put_f32(y, i, vc_f16_to_f32(vc_get_u16(h, i)));
    }
}
