/* loops_block_signed_x86.h - part of loops_block_lanes_x86.h: types whose parts have one signed scale each. Q6_K with
 * both encoders; Q4_0, Q5_0 and Q8_0 with the least error, eight blocks in the lanes (llama.cpp's own is one division
 * there). */
#ifndef VC_KERNELS_LOOPS_BLOCK_SIGNED_X86_H
#define VC_KERNELS_LOOPS_BLOCK_SIGNED_X86_H

/* Integers of the codes least .. most, as floats (vc_nearest). */
static inline __m256 f8_nearest_in(__m256 x, __m256 least, __m256 most)
{
    __m256 t = _mm256_min_ps(_mm256_max_ps(x, least), most);

    return _mm256_sub_ps(_mm256_add_ps(t, f8_set(12582912.0f)), f8_set(12582912.0f));
}

/* vc_clamp_i32(vc_ggml_round(x), -half, half - 1), as floats. */
static inline __m256 f8_signed_code(__m256 x, int32_t half)
{
    __m256i bits = _mm256_castps_si256(_mm256_add_ps(x, f8_set(12582912.0f)));
    __m256i k = _mm256_sub_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x007fffff)), _mm256_set1_epi32(0x00400000));

    k = _mm256_min_epi32(_mm256_max_epi32(k, _mm256_set1_epi32(-half)), _mm256_set1_epi32(half - 1));
    return _mm256_cvtepi32_ps(k);
}

/* vc_largest_signed */
static inline __m256 lanes_largest(const struct part_lanes *p)
{
    __m256 most = _mm256_setzero_ps();
    __m256 found = _mm256_setzero_ps();

    for (size_t i = 0; i < p->n; i++) {
        __m256 a = f8_magnitude(p->x[i]);
        __m256 more = f8_above(a, most);

        found = f8_select(more, p->x[i], found);
        most = f8_select(more, a, most);
    }
    return found;
}

/* vc_search_signed for eight parts whose weights are p->w; codes are stored ones, as floats. */
static inline __m256 lanes_search_signed(const struct part_lanes *p, int32_t half, __m256 *codes)
{
    const __m256 zero = _mm256_setzero_ps();
    const __m256 offset = f8_set((float)half);
    __m256 m = lanes_largest(p);
    __m256 tiny = _mm256_cmp_ps(f8_magnitude(m), f8_set(VC_GGML_TINY), _CMP_LT_OQ);
    __m256 scale = zero;
    __m256 best = zero;

    for (int32_t k = -10; k <= 9; k++) {
        float f = k == -10 ? 0.0f : 0.1f * (float)k;
        __m256 inverse = _mm256_div_ps(f8_set(-((float)half + f)), m);
        __m256 a = zero;
        __m256 b = zero;
        __m256 won;
        __m256 l[PART_MOST];

        if (k == 0) {
            continue;
        }
        for (size_t i = 0; i < p->n; i++) {
            l[i] = f8_signed_code(_mm256_mul_ps(inverse, p->x[i]), half);
            a = _mm256_add_ps(a, _mm256_mul_ps(_mm256_mul_ps(p->w[i], p->x[i]), l[i]));
            b = _mm256_add_ps(b, _mm256_mul_ps(_mm256_mul_ps(p->w[i], l[i]), l[i]));
        }
        won = _mm256_and_ps(f8_above(b, zero), f8_above(_mm256_mul_ps(a, a), _mm256_mul_ps(best, b)));
        won = k == -10 ? _mm256_castsi256_ps(_mm256_set1_epi32(-1)) : won;
        if (_mm256_movemask_ps(won) != 0) {
            __m256 some = _mm256_cmp_ps(b, zero, _CMP_NEQ_UQ);

            scale = f8_select(won, _mm256_and_ps(some, _mm256_div_ps(a, b)), scale);
            best = f8_select(won, _mm256_mul_ps(scale, a), best);
            for (size_t i = 0; i < p->n; i++) {
                codes[i] = f8_select(won, _mm256_add_ps(l[i], offset), codes[i]);
            }
        }
    }
    for (size_t i = 0; i < p->n; i++) {
        codes[i] = _mm256_andnot_ps(tiny, codes[i]);
    }
    return _mm256_andnot_ps(tiny, scale);
}

/* vc_stored_step */
static inline __m256 f8_stored_step(__m256 s)
{
    const __m256 zero = _mm256_setzero_ps();
    __m256 h = _mm256_cvtph_ps(_mm256_cvtps_ph(s, _MM_FROUND_TO_NEAREST_INT));
    __m256 lost = _mm256_and_ps(_mm256_cmp_ps(h, zero, _CMP_EQ_OQ), _mm256_cmp_ps(s, zero, _CMP_NEQ_OQ));

    return f8_select(lost, _mm256_or_ps(_mm256_and_ps(s, f8_set(-0.0f)), f8_set(0x1p-24f)), h);
}

/* 1 / s, or 0 where s is 0. */
static inline __m256 f8_inverse_or_0(__m256 s)
{
    return _mm256_and_ps(_mm256_cmp_ps(s, _mm256_setzero_ps(), _CMP_NEQ_UQ), _mm256_div_ps(f8_set(1.0f), s));
}

/* vc_signed_error for the inverse of s. */
static inline __m256 lanes_signed_error(const struct part_lanes *p, __m256 s, __m256 inverse, __m256 least, __m256 most)
{
    __m256 e = _mm256_setzero_ps();

    for (size_t i = 0; i < p->n; i++) {
        __m256 q = f8_nearest_in(_mm256_mul_ps(p->x[i], inverse), least, most);
        __m256 d = _mm256_sub_ps(p->x[i], _mm256_mul_ps(q, s));

        e = _mm256_add_ps(e, _mm256_mul_ps(_mm256_mul_ps(p->w[i], d), d));
    }
    return e;
}

/* vc_best_signed */
static inline __m256 lanes_best_signed(const struct part_lanes *p, struct vc_best_range r)
{
    const __m256 zero = _mm256_setzero_ps();
    const __m256 least = f8_set((float)r.least);
    const __m256 most = f8_set((float)r.most);
    __m256 top = f8_magnitude(lanes_largest(p));
    __m256 error = zero;
    __m256 best = zero;

    for (size_t i = 0; i < p->n; i++) {
        error = _mm256_add_ps(error, _mm256_mul_ps(_mm256_mul_ps(p->w[i], p->x[i]), p->x[i]));
    }
    for (int32_t k = 0; k < 32 + r.n_even; k++) {
        __m256 s = _mm256_div_ps(_mm256_mul_ps(f8_set(vc_best_start(r, k)), top), f8_set(r.unit));
        __m256 inverse = _mm256_div_ps(f8_set(1.0f), s);
        __m256 good = _mm256_and_ps(f8_is_step(s), f8_is_step(inverse));
        __m256 a = zero;
        __m256 b = zero;
        __m256 e;

        for (size_t i = 0; i < p->n; i++) {
            __m256 q = f8_nearest_in(_mm256_mul_ps(p->x[i], inverse), least, most);
            __m256 wq = _mm256_mul_ps(p->w[i], q);

            a = _mm256_add_ps(a, _mm256_mul_ps(wq, p->x[i]));
            b = _mm256_add_ps(b, _mm256_mul_ps(wq, q));
        }
        s = _mm256_and_ps(f8_above(b, zero), _mm256_div_ps(a, b));
        s = r.stored ? f8_stored_step(s) : s;
        inverse = _mm256_div_ps(f8_set(1.0f), s);
        good = _mm256_and_ps(good, _mm256_and_ps(f8_is_step(s), f8_is_step(inverse)));
        e = lanes_signed_error(p, s, inverse, least, most);
        good = _mm256_and_ps(good, _mm256_cmp_ps(e, error, _CMP_LT_OQ));
        error = f8_select(good, e, error);
        best = f8_select(good, s, best);
    }
    return best;
}

/* vc_best_signed_codes, with the offset -least; n bytes for each lane, one lane after another. */
static inline void lanes_signed_codes(const struct part_lanes *p, __m256 s, struct vc_best_range r, uint8_t *codes)
{
    __m256 inverse = f8_inverse_or_0(s);
    __m256 l[PART_MOST];

    for (size_t i = 0; i < p->n; i++) {
        l[i] = f8_nearest_in(_mm256_mul_ps(p->x[i], inverse), f8_set((float)r.least), f8_set((float)r.most));
        l[i] = _mm256_sub_ps(l[i], f8_set((float)r.least));
    }
    lanes_store_codes(l, p->n, codes);
}

/* Eight of the levels, times d. */
static inline __m256 lanes_signed_steps(float d, const int32_t *levels)
{
    return _mm256_mul_ps(f8_set(d), _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)levels)));
}

/* d by least squares for levels and codes, as vc_signed_best has it; d itself where they do not tell. */
static float signed_refit(const float *x, const float *h, const int32_t *levels, const uint8_t *codes, int32_t least,
                          float d)
{
    float a = 0.0f;
    float b = 0.0f;

    for (uint32_t i = 0; i < 256; i++) {
        float v = (float)levels[i / 16] * (float)((int32_t)codes[i] + least);

        a += vc_weight_or_1(h, i) * v * x[i];
        b += vc_weight_or_1(h, i) * v * v;
    }
    return b > 0.0f && vc_is_step(vc_as_half(a / b)) ? vc_as_half(a / b) : d;
}

/* vc_signed_best for the 16 parts p[0] and p[1]. */
static float lanes_signed_best(const struct part_lanes *p, const float *x, const float *h, int32_t half,
                               struct vc_best_range r, int32_t *levels, uint8_t *codes)
{
    const __m256 low = f8_set((float)-half);
    const __m256 high = f8_set((float)(half - 1));
    __m256 scale[2];
    float scales[16];
    float d;

    for (size_t g = 0; g < 2; g++) {
        scale[g] = lanes_best_signed(&p[g], r);
        _mm256_storeu_ps(scales + 8 * g, scale[g]);
    }
    d = vc_first_step(vc_largest_signed(scales, 16), -half);
    for (uint32_t round = 0; round < 3; round++) {
        for (size_t g = 0; g < 2; g++) {
            __m256 near_level =
                d != 0.0f ? f8_nearest_in(_mm256_div_ps(scale[g], f8_set(d)), low, high) : _mm256_setzero_ps();
            __m256 best = _mm256_setzero_ps();
            __m256 least = _mm256_setzero_ps();

            for (int32_t k = -1; k <= 1; k++) {
                __m256 level = _mm256_min_ps(_mm256_max_ps(_mm256_add_ps(near_level, f8_set((float)k)), low), high);
                __m256 s = _mm256_mul_ps(f8_set(d), level);
                __m256 e =
                    lanes_signed_error(&p[g], s, f8_inverse_or_0(s), f8_set((float)r.least), f8_set((float)r.most));
                __m256 won = k == -1 ? _mm256_castsi256_ps(_mm256_set1_epi32(-1)) : _mm256_cmp_ps(e, least, _CMP_LT_OQ);

                best = f8_select(won, level, best);
                least = f8_select(won, e, least);
            }
            _mm256_storeu_si256((__m256i *)(levels + 8 * g), _mm256_cvttps_epi32(best));
            lanes_signed_codes(&p[g], lanes_signed_steps(d, levels + 8 * g), r, codes + 128 * g);
        }
        d = signed_refit(x, h, levels, codes, r.least, d);
    }
    for (size_t g = 0; g < 2; g++) {
        lanes_signed_codes(&p[g], lanes_signed_steps(d, levels + 8 * g), r, codes + 128 * g);
    }
    return d;
}

/* Loads the 16 parts of a block, with the weights h, or 1. */
static void lanes_load_parts(const float *x, const float *h, struct part_lanes *p)
{
    for (size_t g = 0; g < 2; g++) {
        p[g].n = 16;
        lanes_load(x + 128 * g, 16, p[g].x);
        if (h != NULL) {
            lanes_load(h + 128 * g, 16, p[g].w);
        }
        for (size_t i = 0; h == NULL && i < 16; i++) {
            p[g].w[i] = f8_set(1.0f);
        }
    }
}

/* The weighted error of step d (rounded to f16) times levels times codes. */
static double signed_error(const float *x, const float *h, float d, const int32_t *levels, const uint8_t *codes,
                           int32_t least)
{
    double sum = 0.0;

    d = vc_as_half(d);
    for (size_t i = 0; i < 256; i++) {
        double e = (double)x[i] - (double)(d * (float)levels[i / 16] * (float)((int32_t)codes[i] + least));

        sum += (h != NULL ? (double)h[i] : 1.0) * e * e;
    }
    return sum;
}

/* vc_q6_k_make up to what is stored; false: the block is zeros. */
static bool lanes_q6_k_search(struct part_lanes *p, const float *x, const float *h, float *d, int32_t *levels,
                              uint8_t *codes)
{
    float scale[16];

    lanes_load_parts(x, h, p);
    for (size_t g = 0; g < 2; g++) {
        __m256 found[PART_MOST];

        for (size_t i = 0; h == NULL && i < 16; i++) {
            p[g].w[i] = _mm256_mul_ps(p[g].x[i], p[g].x[i]);
        }
        _mm256_storeu_ps(scale + 8 * g, lanes_search_signed(&p[g], 32, found));
        lanes_store_codes(found, 16, codes + 128 * g);
    }
    if (fabsf(vc_largest_signed(scale, 16)) < VC_GGML_TINY) {
        return false;
    }
    *d = vc_signed_levels(scale, 16, 128, levels);
    vc_signed_codes(x, *d, levels, 32, codes);
    return true;
}

static void lanes_q6_k_block(const float *x, const float *h, bool best, uint8_t *b)
{
    const struct vc_best_range r = VC_RANGE_q6_k;
    struct part_lanes p[2];
    int32_t levels[2][16];
    uint8_t codes[2][256];
    float d[2];
    bool some = lanes_q6_k_search(p, x, h, &d[0], levels[0], codes[0]);
    size_t which = 0;

    if (best) {
        double error = 0.0;

        lanes_load_parts(x, h, p);
        d[1] = lanes_signed_best(p, x, h, 128, r, levels[1], codes[1]);
        for (size_t i = 0; !some && i < 256; i++) {
            error += (h != NULL ? (double)h[i] : 1.0) * (double)x[i] * (double)x[i];
        }
        error = some ? signed_error(x, h, d[0], levels[0], codes[0], -32) : error;
        which = error < signed_error(x, h, d[1], levels[1], codes[1], -32) ? 0u : 1u;
    }
    if (which == 0 && !some) {
        memset(b, 0, VC_Q6_K_BYTES);
    } else {
        vc_q6_k_put(d[which], levels[which], codes[which], b);
    }
}

int VC_VARIANT(q6_k_blocks)(const float *x, size_t n_rows, size_t row_len, const struct vc_block_how *how,
                            uint8_t *blocks)
{
    for (size_t i = 0; i < n_rows * row_len; i += 256, blocks += VC_Q6_K_BYTES) {
        float values[256];
        float h[256];

        memcpy(values, (const char *)x + i * sizeof *x, sizeof values);
        if (how->importance != NULL) {
            memcpy(h, (const char *)how->importance + i % row_len * sizeof *h, sizeof h);
        }
        lanes_q6_k_block(values, how->importance != NULL ? h : NULL, how->best, blocks);
    }
    return 0;
}

/* Eight blocks of 32 with one signed scale each. codes: stored ones, of 8 blocks; s: their scales. */
static void lanes_best_blocks(const float *x, struct vc_best_range r, float *s, uint8_t *codes)
{
    struct part_lanes p;
    __m256 scale;

    p.n = 32;
    lanes_load(x, 32, p.x);
    for (size_t i = 0; i < 32; i++) {
        p.w[i] = f8_set(1.0f);
    }
    scale = lanes_best_signed(&p, r);
    _mm256_storeu_ps(s, scale);
    lanes_signed_codes(&p, scale, r, codes);
}

/* The error of 32 codes (without offset: + least) times an f16 scale. */
static double error_32(const float *x, float s, const uint8_t *codes, int32_t least)
{
    double sum = 0.0;

    s = vc_as_half(s);
    for (size_t i = 0; i < 32; i++) {
        double e = (double)x[i] - (double)((float)((int32_t)codes[i] + least) * s);

        sum += e * e;
    }
    return sum;
}

static void q4_0_put(float s, const uint8_t *codes, uint8_t *b)
{
    vc_put_half(b, s);
    vc_put_nibbles_32(b + 2, codes);
}

static void q5_0_put(float s, const uint8_t *codes, uint8_t *b)
{
    vc_put_half(b, s);
    vc_put_fifth_bits(b + 2, codes);
    vc_put_nibbles_32(b + 6, codes);
}

/* Stored codes here have the offset 128, in the block none. */
static void q8_0_put(float s, const uint8_t *codes, uint8_t *b)
{
    vc_put_half(b, s);
    for (size_t i = 0; i < 32; i++) {
        b[2 + i] = (uint8_t)(codes[i] - 128);
    }
}

static float q4_0_reference(const float *x, uint8_t *codes)
{
    return vc_symmetric_32(x, NULL, 0.0f, 8, codes);
}

static float q5_0_reference(const float *x, uint8_t *codes)
{
    return vc_symmetric_32(x, NULL, 0.0f, 16, codes);
}

static float q8_0_reference(const float *x, uint8_t *codes)
{
    float step = vc_q8_0_step(vc_f32_magnitude(vc_largest_signed(x, 32)));

    for (size_t i = 0; i < 32; i++) {
        codes[i] = (uint8_t)(vc_q8_0_encode(x[i], vc_q8_0_inverse(step)) + 128);
    }
    return step;
}

/* The kernel of a type with one signed scale: eight blocks at a time, the last few as the definition has it. */
#define SIGNED_BLOCKS(type, bytes)                                                                               \
    int VC_VARIANT(type##_blocks)(const float *x, size_t n_rows, size_t row_len, const struct vc_block_how *how, \
                                  uint8_t *blocks)                                                               \
    {                                                                                                            \
        const struct vc_best_range r = VC_RANGE_##type;                                                          \
        size_t n = how->best && how->importance == NULL ? n_rows * row_len / 256 * 256 : 0;                      \
                                                                                                                 \
        for (size_t i = 0; i < n; i += 256) {                                                                    \
            float values[256];                                                                                   \
            float s[8];                                                                                          \
            uint8_t codes[256];                                                                                  \
                                                                                                                 \
            memcpy(values, (const char *)x + i * sizeof *x, sizeof values);                                      \
            lanes_best_blocks(values, r, s, codes);                                                              \
            for (size_t k = 0; k < 8; k++, blocks += (bytes)) {                                                  \
                uint8_t other[32];                                                                               \
                float s_other = type##_reference(values + 32 * k, other);                                        \
                bool worse = error_32(values + 32 * k, s_other, other, r.least) <                                \
                             error_32(values + 32 * k, s[k], codes + 32 * k, r.least);                           \
                                                                                                                 \
                type##_put(worse ? s_other : s[k], worse ? other : codes + 32 * k, blocks);                      \
            }                                                                                                    \
        }                                                                                                        \
        if (n == 0) {                                                                                            \
            return vc_##type##_blocks_ref(x, n_rows, row_len, how, blocks);                                      \
        }                                                                                                        \
        return vc_##type##_blocks_ref((const float *)(const void *)((const char *)x + n * sizeof *x), 1,         \
                                      n_rows * row_len - n, how, blocks);                                        \
    }

SIGNED_BLOCKS(q4_0, VC_Q4_0_BYTES)
SIGNED_BLOCKS(q5_0, VC_Q5_0_BYTES)
SIGNED_BLOCKS(q8_0, VC_Q8_0_BYTES)
#undef SIGNED_BLOCKS

#endif
