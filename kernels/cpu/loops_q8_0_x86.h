/* loops_q8_0_x86.h - part of loops.h: Q8_0 from weights with AVX2, FMA and F16C. loops_blocks.h has the plain way,
 * the proof about inexact errors (q8_0_is_rare), and the strip function that calls q8_0_blocks_x86.
 *
 * Eight blocks at a time: their maxima first, then the eight steps in one vector (one division instead of eight),
 * then block by block the codes and errors. Everything works on magnitudes; the codes get their signs last. */
#pragma once

#define Q8_0_BATCH 8 /* blocks */

/* What the blocks of a batch are made with, by number of the block in the batch. */
struct q8_0_steps {
    float inverse[Q8_0_BATCH];
    float stored[Q8_0_BATCH]; /* the step as f16, widened */
    uint16_t half[Q8_0_BATCH];
    bool rare; /* some error may be inexact */
};

/* Magnitudes of 8 elements, and their maxima over the 32 of a block (8 lanes, still to be joined). */
static inline __m256i magnitude_8(const float *x)
{
    return _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x)), _mm256_set1_epi32(0x7fffffff));
}

static inline __m256i absmax_block(const float *x)
{
    return _mm256_max_epi32(_mm256_max_epi32(magnitude_8(x), magnitude_8(x + 8)),
                            _mm256_max_epi32(magnitude_8(x + 16), magnitude_8(x + 24)));
}

/* Element j: the largest magnitude of block j. Blocks that are not there repeat the last one. */
static inline __m256i absmax_batch(const float *x, size_t n_blocks)
{
    __m256i m[Q8_0_BATCH];

    for (size_t j = 0; j < Q8_0_BATCH; j++) {
        m[j] = absmax_block(x + 32 * (j < n_blocks ? j : n_blocks - 1));
    }
    for (size_t j = 0; j < Q8_0_BATCH; j += 2) { /* two blocks in a vector: each half has 0 1 0 1 */
        m[j] = _mm256_max_epi32(_mm256_unpacklo_epi32(m[j], m[j + 1]), _mm256_unpackhi_epi32(m[j], m[j + 1]));
    }
    for (size_t j = 0; j < Q8_0_BATCH; j += 4) { /* four: 0 1 2 3 */
        m[j] = _mm256_max_epi32(_mm256_unpacklo_epi64(m[j], m[j + 2]), _mm256_unpackhi_epi64(m[j], m[j + 2]));
    }
    return _mm256_max_epi32(_mm256_permute2x128_si256(m[0], m[4], 0x20), _mm256_permute2x128_si256(m[0], m[4], 0x31));
}

/* q8_0_is_rare of the eight steps of a batch (bits): all ones where it holds. */
static inline __m256i q8_0_rare(__m256i u)
{
    __m256i fraction = _mm256_and_si256(u, _mm256_set1_epi32(0x007fffff));

    return _mm256_or_si256(_mm256_cmpgt_epi32(fraction, _mm256_set1_epi32(0x007fc000)),
                           _mm256_cmpgt_epi32(_mm256_set1_epi32(0x38800000), u));
}

/* Fills *to, and bits with the magnitudes of n_blocks blocks: vc_q8_0_step, its f16 and vc_q8_0_inverse, eight at
 * once. */
static inline void q8_0_steps_make(const float *x, size_t n_blocks, uint32_t *bits, struct q8_0_steps *to)
{
    __m256i most = absmax_batch(x, n_blocks);
    __m256 step = _mm256_div_ps(_mm256_castsi256_ps(most), _mm256_set1_ps(127.0f));
    __m256i u = _mm256_castps_si256(step);
    __m256 invertible = _mm256_castsi256_ps(_mm256_cmpgt_epi32(u, _mm256_set1_epi32(0x00200000)));
    __m128i half = _mm256_cvtps_ph(step, _MM_FROUND_TO_NEAREST_INT);
    uint32_t found[Q8_0_BATCH];

    _mm256_storeu_si256((__m256i *)found, most);
    vc_put_run_u32(bits, 0, n_blocks, found);
    _mm256_storeu_ps(to->inverse, _mm256_and_ps(invertible, _mm256_div_ps(_mm256_set1_ps(1.0f), step)));
    _mm256_storeu_ps(to->stored, _mm256_cvtph_ps(half));
    _mm_storeu_si128((__m128i *)to->half, half);
    u = q8_0_rare(u);
    to->rare = !_mm256_testz_si256(u, u);
}

/* What a strip adds up: largest error, zeros before and after, bits of errors that were lost. Zeros are counted in
 * bytes, which 1,024 / 32 rounds cannot overflow. */
struct q8_0_tally {
    __m256i most, before, after, lost;
};

/* Errors of 8 magnitudes a against their codes q (magnitudes too). The product is exact (8 bits times 11), so the
 * fused step rounds once, as the subtraction alone does. rare: also what that rounding lost, as in q8_0_lost; a
 * constant at each call. */
static inline void q8_0_errors_8(__m256 a, __m256i q, __m256 stored, bool rare, float *e, struct q8_0_tally *t)
{
    __m256 k = _mm256_cvtepi32_ps(q);
    __m256 d = _mm256_fnmadd_ps(k, stored, a);

    _mm256_storeu_ps(e, d);
    t->most = _mm256_max_epu32(t->most, _mm256_and_si256(_mm256_castps_si256(d), _mm256_set1_epi32(0x7fffffff)));
    if (rare) {
        __m256 y = _mm256_mul_ps(k, stored);
        __m256 b = _mm256_sub_ps(a, d);
        __m256 rest = _mm256_add_ps(_mm256_sub_ps(a, _mm256_add_ps(d, b)), _mm256_sub_ps(b, y));

        t->lost = _mm256_or_si256(t->lost, _mm256_slli_epi32(_mm256_castps_si256(rest), 1));
    }
}

/* The 34 bytes of block number j of a batch, and where e is not NULL the errors of its elements. Zeros are found in
 * packed vectors: saturation in the packs turns no magnitude into 0. A zero after is a code of 0, or any code with a
 * stored step of 0. */
static inline void q8_0_block_x86(const float *x, const struct q8_0_steps *steps, size_t j, uint8_t *block, float *e,
                                  bool rare, struct q8_0_tally *t)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256 inverse = _mm256_set1_ps(steps->inverse[j]);
    __m256 stored = _mm256_set1_ps(steps->stored[j]);
    __m256i a[4];
    __m256i q[4];

    for (size_t k = 0; k < 4; k++) {
        a[k] = magnitude_8(x + 8 * k);
        __m256 v = _mm256_castsi256_ps(a[k]);
        q[k] = _mm256_cvttps_epi32(_mm256_add_ps(_mm256_mul_ps(v, inverse), _mm256_set1_ps(NEARLY_HALF)));
        if (e != NULL) {
            q8_0_errors_8(v, q[k], stored, rare, e + 8 * k, t);
        }
        q[k] = _mm256_sign_epi32(q[k], _mm256_castps_si256(_mm256_loadu_ps(x + 8 * k)));
    }
    q[0] = pack_codes(q);
    memcpy(block, &steps->half[j], sizeof steps->half[j]);
    _mm256_storeu_si256((__m256i *)(block + 2), q[0]);
    if (e != NULL) {
        a[0] = _mm256_packs_epi16(_mm256_packs_epi32(a[0], a[1]), _mm256_packs_epi32(a[2], a[3]));
        t->before = _mm256_sub_epi8(t->before, _mm256_cmpeq_epi8(a[0], zero));
        q[0] = rare && steps->stored[j] == 0.0f ? zero : q[0];
        t->after = _mm256_sub_epi8(t->after, _mm256_cmpeq_epi8(q[0], zero));
    }
}

/* The blocks of n elements, a strip; returns what is not 0 where an error is not exact in f32. Called by strip_q8_0.
 * The three calls differ in constants only: the compiler makes three loops without tests inside. */
static inline uint32_t q8_0_blocks_x86(const float *x, size_t n, uint32_t *bits, uint8_t *blocks, bool measure,
                                       struct strip *strip)
{
    const __m256i zero = _mm256_setzero_si256();
    struct q8_0_tally t = {zero, zero, zero, zero};
    struct tally sums = {zero, zero, zero};

    for (size_t at = 0; at < n / 32; at += Q8_0_BATCH) {
        size_t n_blocks = vc_min_size(Q8_0_BATCH, n / 32 - at);
        struct q8_0_steps steps;

        q8_0_steps_make(x + 32 * at, n_blocks, bits + at, &steps);
        for (size_t j = 0; j < n_blocks; j++) {
            const float *from = x + 32 * (at + j);
            uint8_t *block = blocks + (at + j) * VC_Q8_0_BYTES;
            float *e = strip->e + 32 * (at + j);

            if (!measure) {
                q8_0_block_x86(from, &steps, j, block, NULL, false, &t);
            } else if (!steps.rare) {
                q8_0_block_x86(from, &steps, j, block, e, false, &t);
            } else {
                q8_0_block_x86(from, &steps, j, block, e, true, &t);
            }
        }
    }
    sums.most = t.most;
    sums.before = _mm256_sad_epu8(t.before, zero);
    sums.after = _mm256_sad_epu8(t.after, zero);
    tally_end(&sums, x, strip);
    return !_mm256_testz_si256(t.lost, t.lost);
}
