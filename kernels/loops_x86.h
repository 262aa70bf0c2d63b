/* loops_x86.h - part of loops.h: the places where the compilers' code was measured to be clearly slower, with AVX2, FMA
 * and F16C intrinsics. For cpu_avx2.c and cpu_avx512.c; the loops they replace stay in loops.h for everyone else.
 *
 * Conversion and sums are two walks over a strip in the first-level cache, not one: widening f32 to f64 from memory
 * takes half a cycle, from the upper half of a register two (measured on Zen 3: 7.6 cycles per 8 elements against 10
 * in one walk). */
#ifndef VC_KERNELS_LOOPS_X86_H
#define VC_KERNELS_LOOPS_X86_H

#include <immintrin.h>

#include "kernels/access.h"
#include "kernels/arith.h"

#define VC_HAVE_X86 1

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

/* Counters and largest error of a strip. */
struct tally {
    __m256i most, before, after;
};

static inline uint32_t sum_of_8(__m256i v)
{
    uint32_t u[8];

    _mm256_storeu_si256((__m256i *)u, v);
    return u[0] + u[1] + u[2] + u[3] + u[4] + u[5] + u[6] + u[7];
}

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

/* 8 elements x with their decoded values y; stores the errors. The largest is compared as an integer, so that a NaN
 * counts as the largest. */
static inline void tally_add(struct tally *t, __m256 x, __m256 y, float *e)
{
    const __m256 zero = _mm256_setzero_ps();
    __m256 d = _mm256_sub_ps(x, y);

    _mm256_storeu_ps(e, d);
    t->most = _mm256_max_epu32(t->most, _mm256_and_si256(_mm256_castps_si256(d), _mm256_set1_epi32(0x7fffffff)));
    t->before = _mm256_sub_epi32(t->before, _mm256_castps_si256(_mm256_cmp_ps(x, zero, _CMP_EQ_OQ)));
    t->after = _mm256_sub_epi32(t->after, _mm256_castps_si256(_mm256_cmp_ps(y, zero, _CMP_EQ_OQ)));
}

static inline void tally_end(const struct tally *t, const float *x, struct strip *strip)
{
    strip->x = x;
    strip->max_bits = max_of_8(t->most);
    strip->zeros_before = sum_of_8(t->before);
    strip->zeros_after = sum_of_8(t->after);
    strip->clipped = 0;
}

/* 16 codes from integers that fit a byte. */
static inline void store_codes(int8_t *q, __m256i q0, __m256i q1)
{
    __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(q0, q1), 0xd8);

    _mm_storeu_si128((__m128i *)q, _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}

/* The first elements of encode_own, 16 at a time; returns how many. */
static inline size_t encode_own_x86(const float *x, size_t n, const float *s, size_t step, int8_t *q,
                                    struct strip *strip)
{
    const __m256 s_all = _mm256_set1_ps(s[0]);
    struct tally t = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m256 s0 = step == 0 ? s_all : _mm256_loadu_ps(s + i);
        __m256 s1 = step == 0 ? s_all : _mm256_loadu_ps(s + i + 8);
        __m256 x0 = _mm256_loadu_ps(x + i);
        __m256 x1 = _mm256_loadu_ps(x + i + 8);
        __m256i q0 = _mm256_cvtps_epi32(_mm256_div_ps(x0, s0));
        __m256i q1 = _mm256_cvtps_epi32(_mm256_div_ps(x1, s1));

        store_codes(q + i, q0, q1);
        tally_add(&t, x0, _mm256_mul_ps(_mm256_cvtepi32_ps(q0), s0), strip->e + i);
        tally_add(&t, x1, _mm256_mul_ps(_mm256_cvtepi32_ps(q1), s1), strip->e + i + 8);
    }
    tally_end(&t, x, strip);
    return i;
}

/* As encode_own_x86, for the casts. NaNs are not handled: the strip is done again where one occurs. */
static inline size_t encode_f16_x86(const float *x, size_t n, uint16_t *h, struct strip *strip)
{
    struct tally t = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i);
        __m128i r = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);

        _mm_storeu_si128((__m128i *)(h + i), r);
        tally_add(&t, v, _mm256_cvtph_ps(r), strip->e + i);
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
        tally_add(&t, x0, _mm256_castsi256_ps(_mm256_and_si256(r0, upper)), strip->e + i);
        tally_add(&t, x1, _mm256_castsi256_ps(_mm256_and_si256(r1, upper)), strip->e + i + 8);
    }
    tally_end(&t, x, strip);
    return i;
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

#endif
