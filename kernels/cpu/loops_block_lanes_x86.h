/* loops_block_lanes_x86.h - part of loops.h: GGUF's blocks from weights, with AVX2. Eight parts of a block
 * (of 32 elements, or of 16) lie side by side, one in each lane of a vector, so that each lane adds in the order of the
 * definition (block_search.h, block_encode.h, block_best.h) and gives its bits. Where a part takes another branch, both
 * are computed and the lane is blended.
 *
 *     lane     0        1        2     ..     7
 *     x[0]   part 0   part 1   part 2       part 7      their first elements
 *     x[1]   ...                                        their second ones                                          */
#ifndef VC_KERNELS_LOOPS_BLOCK_LANES_X86_H
#define VC_KERNELS_LOOPS_BLOCK_LANES_X86_H

#include "kernels/block_best.h"

#define PART_MOST 32 /* elements of a part */

static inline __m256 f8_set(float x)
{
    return _mm256_set1_ps(x);
}

/* Lanes of a where the mask is set, else of b. */
static inline __m256 f8_select(__m256 mask, __m256 a, __m256 b)
{
    return _mm256_blendv_ps(b, a, mask);
}

static inline __m256 f8_above(__m256 a, __m256 b)
{
    return _mm256_cmp_ps(a, b, _CMP_GT_OQ);
}

static inline __m256 f8_magnitude(__m256 a)
{
    return _mm256_and_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
}

/* vc_clamp_i32(vc_ggml_round(x), 0, most), as floats. */
static inline __m256 f8_code(__m256 x, __m256i most)
{
    __m256i bits = _mm256_castps_si256(_mm256_add_ps(x, f8_set(12582912.0f)));
    __m256i k = _mm256_sub_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x007fffff)), _mm256_set1_epi32(0x00400000));

    return _mm256_cvtepi32_ps(_mm256_min_epi32(_mm256_max_epi32(k, _mm256_setzero_si256()), most));
}

/* vc_nearest(x, 0, most), as floats: the range is that in which adding and taking away 1.5 * 2^23 rounds. */
static inline __m256 f8_nearest(__m256 x, __m256 most)
{
    __m256 t = _mm256_min_ps(_mm256_max_ps(x, _mm256_setzero_ps()), most);

    return _mm256_sub_ps(_mm256_add_ps(t, f8_set(12582912.0f)), f8_set(12582912.0f));
}

/* vc_is_step: no zero, and finite. */
static inline __m256 f8_is_step(__m256 s)
{
    __m256 m = f8_magnitude(s);

    return _mm256_and_ps(_mm256_cmp_ps(m, f8_set(INFINITY), _CMP_LT_OQ), f8_above(m, _mm256_setzero_ps()));
}

/* Eight parts: their elements and weights. */
struct part_lanes {
    size_t n;
    __m256 x[PART_MOST], w[PART_MOST];
};

/* Columns of eight rows of n floats (16 or 32) that follow each other. */
static inline void lanes_load(const float *from, size_t n, __m256 *to)
{
    for (size_t i = 0; i < n; i += 8) {
        __m256 r[8];
        __m256 t[8];

        for (size_t k = 0; k < 8; k++) {
            r[k] = _mm256_loadu_ps(from + k * n + i);
        }
        for (size_t k = 0; k < 8; k += 2) {
            t[k] = _mm256_unpacklo_ps(r[k], r[k + 1]);
            t[k + 1] = _mm256_unpackhi_ps(r[k], r[k + 1]);
        }
        for (size_t k = 0; k < 8; k += 4) {
            r[k] = _mm256_shuffle_ps(t[k], t[k + 2], 0x44);
            r[k + 1] = _mm256_shuffle_ps(t[k], t[k + 2], 0xee);
            r[k + 2] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0x44);
            r[k + 3] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0xee);
        }
        for (size_t k = 0; k < 4; k++) {
            to[i + k] = _mm256_permute2f128_ps(r[k], r[k + 4], 0x20);
            to[i + k + 4] = _mm256_permute2f128_ps(r[k], r[k + 4], 0x31);
        }
    }
}

/* Codes of eight parts back into rows of n bytes. */
static inline void lanes_store_codes(const __m256 *codes, size_t n, uint8_t *to)
{
    for (size_t i = 0; i < n; i += 4) {
        __m256i four = _mm256_cvttps_epi32(codes[i]);
        uint32_t c[8];

        for (int k = 1; k < 4; k++) {
            four = _mm256_or_si256(four, _mm256_slli_epi32(_mm256_cvttps_epi32(codes[i + (size_t)k]), 8 * k));
        }
        _mm256_storeu_si256((__m256i *)c, four);
        for (size_t k = 0; k < 8; k++) {
            memcpy(to + k * n + i, c + k, 4);
        }
    }
}

/* ---- as llama.cpp ---- */

/* The weights of vc_k_parts_find without statistics, and with them where h is not NULL. Sums of weights: sum_w. */
static inline void lanes_weigh(struct part_lanes *p, const float *h, float mean, bool root, __m256 *sum_w)
{
    __m256 mean_root = _mm256_setzero_ps();

    *sum_w = _mm256_setzero_ps();
    if (h != NULL) {
        lanes_load(h, p->n, p->w);
        for (size_t i = 0; i < p->n; i++) {
            __m256 square = _mm256_mul_ps(p->x[i], p->x[i]);

            p->w[i] = _mm256_mul_ps(p->w[i], _mm256_sqrt_ps(_mm256_add_ps(f8_set(mean), square)));
            *sum_w = _mm256_add_ps(*sum_w, p->w[i]);
        }
        return;
    }
    if (root) {
        __m256 sum = _mm256_setzero_ps();

        for (size_t i = 0; i < p->n; i++) {
            sum = _mm256_add_ps(sum, _mm256_mul_ps(p->x[i], p->x[i]));
        }
        mean_root = _mm256_sqrt_ps(_mm256_div_ps(sum, f8_set((float)p->n)));
    }
    for (size_t i = 0; i < p->n; i++) {
        p->w[i] = root ? _mm256_add_ps(mean_root, f8_magnitude(p->x[i])) : f8_magnitude(p->x[i]);
    }
}

/* w * |d| or w * d * d, d = scale * l + least - x. */
static inline __m256 lanes_error(__m256 x, __m256 w, __m256 scale, __m256 l, __m256 least, bool magnitude)
{
    __m256 d = _mm256_sub_ps(_mm256_add_ps(_mm256_mul_ps(scale, l), least), x);

    return _mm256_mul_ps(w, magnitude ? f8_magnitude(d) : _mm256_mul_ps(d, d));
}

/* vc_search_affine of eight parts: the best so far, and what is tried now. */
struct affine_search {
    __m256 low, top, flat; /* the least element, the largest one, and whether a search has nothing to do */
    __m256 sum_w, sum_x;   /* of weights, and of weights times elements */
    __m256 best;           /* the error of ... */
    __m256 scale, least;   /* ... these */
    __m256 inverse, was;   /* their codes are round(inverse * (x - was)) */
    __m256 next;           /* the inverse that is tried */
    __m256 l[PART_MOST];   /* its codes */
};

/* Sums of weights times codes of a try, and the scale, least element and error that follow from them. */
struct affine_try {
    __m256 sum_l, sum_ll, sum_xl, d, scale, least, error;
};

/* The first scale: from the least to the largest element. */
static inline void lanes_affine_begin(const struct part_lanes *p, int32_t most, bool magnitude, struct affine_search *s)
{
    const __m256 zero = _mm256_setzero_ps();

    s->low = s->top = p->x[0];
    s->sum_w = p->w[0];
    s->sum_x = _mm256_mul_ps(p->w[0], p->x[0]);
    for (size_t i = 1; i < p->n; i++) {
        s->low = _mm256_min_ps(p->x[i], s->low);
        s->top = _mm256_max_ps(p->x[i], s->top);
        s->sum_w = _mm256_add_ps(s->sum_w, p->w[i]);
        s->sum_x = _mm256_add_ps(s->sum_x, _mm256_mul_ps(p->w[i], p->x[i]));
    }
    s->least = s->was = f8_select(f8_above(s->low, zero), zero, s->low);
    s->flat = _mm256_cmp_ps(s->top, s->least, _CMP_EQ_OQ);
    s->inverse = _mm256_div_ps(f8_set((float)most), _mm256_sub_ps(s->top, s->least));
    s->scale = _mm256_div_ps(f8_set(1.0f), s->inverse);
    s->best = zero;
    for (size_t i = 0; i < p->n; i++) {
        __m256 l = f8_code(_mm256_mul_ps(s->inverse, _mm256_sub_ps(p->x[i], s->least)), _mm256_set1_epi32(most));

        s->best = _mm256_add_ps(s->best, lanes_error(p->x[i], p->w[i], s->scale, l, s->least, magnitude));
    }
}

/* Is any |inverse * (x - least)| too large to be rounded as f8_nearest does it, or no number? */
static inline bool lanes_affine_wild(const struct affine_search *s)
{
    __m256 up = f8_magnitude(_mm256_sub_ps(s->top, s->least));
    __m256 down = f8_magnitude(_mm256_sub_ps(s->low, s->least));
    __m256 farthest = _mm256_mul_ps(f8_magnitude(s->next), _mm256_max_ps(up, down));

    return _mm256_movemask_ps(_mm256_cmp_ps(farthest, f8_set(2097152.0f), _CMP_NLT_UQ)) != 0;
}

/* The scale and the least element that fit the codes of a try best. */
static inline void lanes_affine_fit(const struct affine_search *s, struct affine_try *y)
{
    const __m256 zero = _mm256_setzero_ps();
    __m256 positive;

    y->d = _mm256_sub_ps(_mm256_mul_ps(s->sum_w, y->sum_ll), _mm256_mul_ps(y->sum_l, y->sum_l));
    y->scale = _mm256_sub_ps(_mm256_mul_ps(s->sum_w, y->sum_xl), _mm256_mul_ps(s->sum_x, y->sum_l));
    y->scale = _mm256_div_ps(y->scale, y->d);
    y->least = _mm256_sub_ps(_mm256_mul_ps(y->sum_ll, s->sum_x), _mm256_mul_ps(y->sum_l, y->sum_xl));
    y->least = _mm256_div_ps(y->least, y->d);
    positive = f8_above(y->least, zero);
    y->least = f8_select(positive, zero, y->least);
    y->scale = f8_select(positive, _mm256_div_ps(y->sum_xl, y->sum_ll), y->scale);
}

/* Takes a try where it has less error than the best so far. */
static inline void lanes_affine_take(const struct affine_try *y, struct affine_search *s)
{
    __m256 won = _mm256_cmp_ps(y->error, s->best, _CMP_LT_OQ);

    won = _mm256_and_ps(won, f8_above(y->d, _mm256_setzero_ps()));
    s->best = f8_select(won, y->error, s->best);
    s->scale = f8_select(won, y->scale, s->scale);
    s->inverse = f8_select(won, s->next, s->inverse);
    s->was = f8_select(won, s->least, s->was);
    s->least = f8_select(won, y->least, s->least);
}

/* The code of an element in a try, and what it adds to the sums. */
__attribute__((always_inline)) static inline void lanes_affine_add(const struct part_lanes *p, size_t i, float most,
                                                                   bool wild, struct affine_search *s,
                                                                   struct affine_try *y)
{
    __m256 up = _mm256_mul_ps(s->next, _mm256_sub_ps(p->x[i], s->least));
    __m256 l = wild ? f8_code(up, _mm256_set1_epi32((int32_t)most)) : f8_nearest(up, f8_set(most));
    __m256 wl = _mm256_mul_ps(p->w[i], l);

    s->l[i] = l;
    y->sum_l = _mm256_add_ps(y->sum_l, wl);
    y->sum_ll = _mm256_add_ps(y->sum_ll, _mm256_mul_ps(wl, l));
    y->sum_xl = _mm256_add_ps(y->sum_xl, _mm256_mul_ps(wl, p->x[i]));
}

/* vc_search_affine for two times eight parts, side by side: each sum waits for its last addition, and each try for the
 * one before it. Codes are left in s[g].l. */
__attribute__((always_inline)) static inline void lanes_search_affine(const struct part_lanes *p, int32_t most,
                                                                      struct vc_affine_tries t, bool magnitude,
                                                                      struct affine_search *s)
{
    const __m256i most_i = _mm256_set1_epi32(most);
    const __m256 zero = _mm256_setzero_ps();
    size_t n = p[0].n;

    lanes_affine_begin(&p[0], most, magnitude, &s[0]);
    lanes_affine_begin(&p[1], most, magnitude, &s[1]);
    for (int32_t k = 0; k <= t.steps; k++) {
        __m256 steps = f8_set(t.first + t.by * (float)k + (float)most);
        struct affine_try y0 = {zero, zero, zero, zero, zero, zero, zero};
        struct affine_try y1 = y0;

        s[0].next = _mm256_andnot_ps(s[0].flat, _mm256_div_ps(steps, _mm256_sub_ps(s[0].top, s[0].least)));
        s[1].next = _mm256_andnot_ps(s[1].flat, _mm256_div_ps(steps, _mm256_sub_ps(s[1].top, s[1].least)));
        if (lanes_affine_wild(&s[0]) || lanes_affine_wild(&s[1])) {
            for (size_t i = 0; i < n; i++) {
                lanes_affine_add(&p[0], i, (float)most, true, &s[0], &y0);
                lanes_affine_add(&p[1], i, (float)most, true, &s[1], &y1);
            }
        } else {
            for (size_t i = 0; i < n; i++) {
                lanes_affine_add(&p[0], i, (float)most, false, &s[0], &y0);
                lanes_affine_add(&p[1], i, (float)most, false, &s[1], &y1);
            }
        }
        lanes_affine_fit(&s[0], &y0);
        lanes_affine_fit(&s[1], &y1);
        for (size_t i = 0; i < n; i++) {
            __m256 e0 = lanes_error(p[0].x[i], p[0].w[i], y0.scale, s[0].l[i], y0.least, magnitude);
            __m256 e1 = lanes_error(p[1].x[i], p[1].w[i], y1.scale, s[1].l[i], y1.least, magnitude);

            y0.error = _mm256_add_ps(y0.error, e0);
            y1.error = _mm256_add_ps(y1.error, e1);
        }
        lanes_affine_take(&y0, &s[0]);
        lanes_affine_take(&y1, &s[1]);
    }
    for (size_t g = 0; g < 2; g++) {
        for (size_t i = 0; i < n; i++) {
            __m256 l = f8_code(_mm256_mul_ps(s[g].inverse, _mm256_sub_ps(p[g].x[i], s[g].was)), most_i);

            s[g].l[i] = _mm256_andnot_ps(s[g].flat, l);
        }
        s[g].scale = _mm256_andnot_ps(s[g].flat, s[g].scale);
    }
}

/* vc_k_codes for eight parts: the final codes for the step and minimum as they are stored. */
static inline void lanes_k_codes(const struct part_lanes *p, int32_t most, __m256 step, __m256 least, __m256 *codes)
{
    const __m256i most_i = _mm256_set1_epi32(most);
    __m256 some = _mm256_cmp_ps(step, _mm256_setzero_ps(), _CMP_NEQ_UQ);

    for (size_t i = 0; i < p->n; i++) {
        __m256 l = f8_code(_mm256_div_ps(_mm256_add_ps(p->x[i], least), step), most_i);

        codes[i] = f8_select(some, l, codes[i]);
    }
}

/* Steps and minima of eight parts from part number j on, in f32: levels times d and dmin. */
static inline __m256 lanes_levels(float d, const uint8_t *levels)
{
    return _mm256_mul_ps(f8_set(d), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)levels))));
}

/* vc_k_search of 16 parts: two blocks of 8, or one. */
static void lanes_k_search(const float *x, const float *h, struct vc_k_kind kind, struct vc_k_levels *levels,
                           uint8_t *codes)
{
    const struct vc_affine_tries with_statistics = {-0.9f, 0.05f, 36, false};
    const struct vc_affine_tries tries = h != NULL ? with_statistics : kind.tries;
    struct vc_k_parts parts[2];
    struct part_lanes p[2];
    struct affine_search s[2];
    size_t n = 256 / kind.n_parts;

    for (size_t g = 0; g < 2; g++) {
        struct vc_k_parts *to = &parts[8 * g / kind.n_parts];
        const float *block = x + 8 * g / kind.n_parts * 256;
        float mean = h != NULL ? kind.mean * vc_sum_squares(block, 256) / 256.0f : 0.0f;
        __m256 sum_w;

        p[g].n = n;
        lanes_load(x + 8 * n * g, n, p[g].x);
        lanes_weigh(&p[g], h != NULL ? h + 8 * n * g : NULL, mean, kind.n_parts == 8, &sum_w);
        _mm256_storeu_ps(to->weight + 8 * g % kind.n_parts, sum_w);
    }
    if (tries.magnitude) {
        lanes_search_affine(p, kind.most, tries, true, s);
    } else {
        lanes_search_affine(p, kind.most, tries, false, s);
    }
    for (size_t g = 0; g < 2; g++) {
        struct vc_k_parts *to = &parts[8 * g / kind.n_parts];

        _mm256_storeu_ps(to->scale + 8 * g % kind.n_parts, s[g].scale);
        _mm256_storeu_ps(to->minimum + 8 * g % kind.n_parts, _mm256_sub_ps(f8_set(-0.0f), s[g].least));
    }
    for (size_t b = 0; b < 16 / kind.n_parts; b++) {
        vc_k_levels_find(&parts[b], kind.n_parts, kind.most_level, h != NULL, &levels[b]);
    }
    for (size_t g = 0; g < 2; g++) {
        const struct vc_k_levels *of = &levels[8 * g / kind.n_parts];
        size_t j = 8 * g % kind.n_parts;

        lanes_k_codes(&p[g], kind.most, lanes_levels(vc_as_half(of->d), of->scale + j),
                      lanes_levels(vc_as_half(of->dmin), of->minimum + j), s[g].l);
        lanes_store_codes(s[g].l, n, codes + 8 * n * g);
    }
}

/* ---- with the least error ---- */

struct affine_lanes {
    __m256 scale, least, error;
};

/* vc_affine_judge: sets f->error. A scale of 0 has the inverse 0. */
static inline void lanes_judge(const struct part_lanes *p, __m256 most, struct affine_lanes *f)
{
    __m256 some = _mm256_cmp_ps(f->scale, _mm256_setzero_ps(), _CMP_NEQ_UQ);
    __m256 inverse = _mm256_and_ps(some, _mm256_div_ps(f8_set(1.0f), f->scale));

    f->error = _mm256_setzero_ps();
    for (size_t i = 0; i < p->n; i++) {
        __m256 l = f8_nearest(_mm256_mul_ps(_mm256_sub_ps(p->x[i], f->least), inverse), most);
        __m256 d = _mm256_sub_ps(_mm256_add_ps(_mm256_mul_ps(l, f->scale), f->least), p->x[i]);

        f->error = _mm256_add_ps(f->error, _mm256_mul_ps(_mm256_mul_ps(p->w[i], d), d));
    }
}

/* vc_affine_refit with a minimum; lanes of `good` that fail become 0. */
static inline void lanes_refit(const struct part_lanes *p, __m256 most, struct affine_lanes *f, __m256 *good)
{
    const __m256 zero = _mm256_setzero_ps();
    __m256 inverse = _mm256_div_ps(f8_set(1.0f), f->scale);
    __m256 sum_w = zero;
    __m256 sum_x = zero;
    __m256 sum_l = zero;
    __m256 sum_ll = zero;
    __m256 sum_xl = zero;
    __m256 positive;
    __m256 d;

    for (size_t i = 0; i < p->n; i++) {
        __m256 l = f8_nearest(_mm256_mul_ps(_mm256_sub_ps(p->x[i], f->least), inverse), most);
        __m256 wl = _mm256_mul_ps(p->w[i], l);

        sum_w = _mm256_add_ps(sum_w, p->w[i]);
        sum_x = _mm256_add_ps(sum_x, _mm256_mul_ps(p->w[i], p->x[i]));
        sum_l = _mm256_add_ps(sum_l, wl);
        sum_ll = _mm256_add_ps(sum_ll, _mm256_mul_ps(wl, l));
        sum_xl = _mm256_add_ps(sum_xl, _mm256_mul_ps(wl, p->x[i]));
    }
    d = _mm256_sub_ps(_mm256_mul_ps(sum_w, sum_ll), _mm256_mul_ps(sum_l, sum_l));
    f->scale = _mm256_div_ps(_mm256_sub_ps(_mm256_mul_ps(sum_w, sum_xl), _mm256_mul_ps(sum_x, sum_l)), d);
    f->least = _mm256_div_ps(_mm256_sub_ps(_mm256_mul_ps(sum_ll, sum_x), _mm256_mul_ps(sum_l, sum_xl)), d);
    positive = f8_above(f->least, zero);
    f->least = f8_select(positive, zero, f->least);
    f->scale = f8_select(positive, _mm256_div_ps(sum_xl, sum_ll), f->scale);
    *good = _mm256_and_ps(*good, _mm256_and_ps(f8_above(d, zero), f8_above(f->scale, zero)));
    *good =
        _mm256_and_ps(*good, _mm256_and_ps(f8_is_step(f->scale), f8_is_step(_mm256_div_ps(f8_set(1.0f), f->scale))));
}

/* vc_best_affine with a minimum, scales not rounded. */
static inline struct affine_lanes lanes_best_affine(const struct part_lanes *p, int32_t most_code)
{
    const __m256 most = f8_set((float)most_code);
    const __m256 zero = _mm256_setzero_ps();
    struct affine_lanes best;
    __m256 least = p->x[0];
    __m256 top = p->x[0];

    for (size_t i = 1; i < p->n; i++) {
        least = _mm256_min_ps(p->x[i], least);
        top = _mm256_max_ps(p->x[i], top);
    }
    least = f8_select(f8_above(least, zero), zero, least);
    best.scale = zero;
    best.least = least;
    lanes_judge(p, most, &best);
    for (uint32_t k = 0; k < VC_AFFINE_STARTS; k++) {
        float share = (float)most_code - 1.2f + (float)k * (2.2f / (VC_AFFINE_STARTS - 1));
        struct affine_lanes f = {_mm256_div_ps(_mm256_sub_ps(top, least), f8_set(share)), least, zero};
        __m256 good = _mm256_and_ps(f8_above(top, least), f8_is_step(f.scale));
        __m256 won;

        good = _mm256_and_ps(good, f8_is_step(_mm256_div_ps(f8_set(1.0f), f.scale)));
        for (uint32_t round = 0; round < VC_AFFINE_ROUNDS; round++) {
            lanes_refit(p, most, &f, &good);
        }
        lanes_judge(p, most, &f);
        won = _mm256_and_ps(good, _mm256_cmp_ps(f.error, best.error, _CMP_LT_OQ));
        best.scale = f8_select(won, f.scale, best.scale);
        best.least = f8_select(won, f.least, best.least);
        best.error = f8_select(won, f.error, best.error);
    }
    return best;
}

/* vc_k_part_levels for eight parts: levels as floats. */
static inline void lanes_part_levels(const struct part_lanes *p, int32_t most, int32_t most_level, float d, float dmin,
                                     const struct affine_lanes *target, uint8_t *scale, uint8_t *minimum)
{
    const __m256 zero = _mm256_setzero_ps();
    const __m256 high = f8_set((float)most_level);
    __m256 near_scale = d > 0.0f ? f8_nearest(_mm256_div_ps(target->scale, f8_set(d)), high) : zero;
    __m256 near_minimum =
        dmin > 0.0f ? f8_nearest(_mm256_div_ps(_mm256_sub_ps(f8_set(-0.0f), target->least), f8_set(dmin)), high) : zero;
    __m256 best = zero;
    __m256 best_scale = zero;
    __m256 best_minimum = zero;
    __m256 found = zero;
    int32_t out[8];

    for (int32_t ds = -1; ds <= 1; ds++) {
        for (int32_t dm = -2; dm <= 2; dm++) {
            __m256 s = _mm256_add_ps(near_scale, f8_set((float)ds));
            __m256 m = _mm256_add_ps(near_minimum, f8_set((float)dm));
            struct affine_lanes f = {_mm256_mul_ps(f8_set(d), s),
                                     _mm256_sub_ps(f8_set(-0.0f), _mm256_mul_ps(f8_set(dmin), m)), zero};
            __m256 inside = _mm256_and_ps(_mm256_cmp_ps(s, zero, _CMP_GE_OQ), _mm256_cmp_ps(s, high, _CMP_LE_OQ));
            __m256 won;

            inside = _mm256_and_ps(
                inside, _mm256_and_ps(_mm256_cmp_ps(m, zero, _CMP_GE_OQ), _mm256_cmp_ps(m, high, _CMP_LE_OQ)));
            lanes_judge(p, f8_set((float)most), &f);
            won = _mm256_andnot_ps(found, inside); /* the first one that is inside */
            won = _mm256_or_ps(won, _mm256_and_ps(inside, _mm256_cmp_ps(f.error, best, _CMP_LT_OQ)));
            found = _mm256_or_ps(found, inside);
            best = f8_select(won, f.error, best);
            best_scale = f8_select(won, s, best_scale);
            best_minimum = f8_select(won, m, best_minimum);
        }
    }
    _mm256_storeu_si256((__m256i *)out, _mm256_cvttps_epi32(best_scale));
    for (size_t k = 0; k < 8; k++) {
        scale[k] = (uint8_t)out[k];
    }
    _mm256_storeu_si256((__m256i *)out, _mm256_cvttps_epi32(best_minimum));
    for (size_t k = 0; k < 8; k++) {
        minimum[k] = (uint8_t)out[k];
    }
}

/* The nearest codes of eight parts, as bytes. */
static inline void lanes_nearest_codes(const struct part_lanes *p, int32_t most, __m256 scale, __m256 minimum,
                                       uint8_t *codes)
{
    __m256 some = _mm256_cmp_ps(scale, _mm256_setzero_ps(), _CMP_NEQ_UQ);
    __m256 inverse = _mm256_and_ps(some, _mm256_div_ps(f8_set(1.0f), scale));
    __m256 least = _mm256_sub_ps(f8_set(-0.0f), minimum);
    __m256 l[PART_MOST];

    for (size_t i = 0; i < p->n; i++) {
        l[i] = f8_nearest(_mm256_mul_ps(_mm256_sub_ps(p->x[i], least), inverse), f8_set((float)most));
    }
    lanes_store_codes(l, p->n, codes);
}

/* vc_k_best of a block. */
static void lanes_k_best(const float *x, const float *h, uint32_t n_parts, int32_t most, int32_t most_level,
                         struct vc_k_levels *levels, uint8_t *codes)
{
    struct part_lanes p[2];
    struct affine_lanes fits[2];
    size_t n = 256 / n_parts;
    float tops[2][16] = {{0.0f}};
    float top_scale = 0.0f;
    float top_minimum = 0.0f;

    for (size_t g = 0; g < n_parts / 8; g++) {
        p[g].n = n;
        lanes_load(x + 8 * n * g, n, p[g].x);
        if (h != NULL) {
            lanes_load(h + 8 * n * g, n, p[g].w);
        }
        for (size_t i = 0; h == NULL && i < n; i++) {
            p[g].w[i] = f8_set(1.0f);
        }
        fits[g] = lanes_best_affine(&p[g], most);
        _mm256_storeu_ps(tops[0] + 8 * g, fits[g].scale);
        _mm256_storeu_ps(tops[1] + 8 * g, fits[g].least);
    }
    for (size_t j = 0; j < n_parts; j++) {
        top_scale = tops[0][j] > top_scale ? tops[0][j] : top_scale;
        top_minimum = -tops[1][j] > top_minimum ? -tops[1][j] : top_minimum;
    }
    levels->d = vc_first_step(top_scale, most_level);
    levels->dmin = vc_first_step(top_minimum, most_level);
    for (uint32_t round = 0; round < 4; round++) { /* three, then the codes once more */
        for (size_t g = 0; g < n_parts / 8; g++) {
            if (round < 3) {
                lanes_part_levels(&p[g], most, most_level, levels->d, levels->dmin, &fits[g], levels->scale + 8 * g,
                                  levels->minimum + 8 * g);
            }
            lanes_nearest_codes(&p[g], most, lanes_levels(levels->d, levels->scale + 8 * g),
                                lanes_levels(levels->dmin, levels->minimum + 8 * g), codes + 8 * n * g);
        }
        if (round < 3) {
            vc_k_refit(x, h, n_parts, codes, levels);
        }
    }
}

/* ---- blocks ---- */

/* The weighted error of a block, as block_best.h adds it. */
static double k_error(const float *x, const float *h, uint32_t n_parts, const struct vc_k_levels *levels,
                      const uint8_t *codes)
{
    float d = vc_as_half(levels->d);
    float dmin = vc_as_half(levels->dmin);
    double sum = 0.0;

    for (size_t i = 0; i < 256; i++) {
        size_t j = i / (256 / n_parts);
        float y = d * (float)levels->scale[j] * (float)codes[i] - dmin * (float)levels->minimum[j];
        double e = (double)x[i] - (double)y;

        sum += (h != NULL ? (double)h[i] : 1.0) * e * e;
    }
    return sum;
}

/* 16 parts of one kind, a block or two: levels and codes of the reference encoder, or of the search where that has no
 * more error. */
static void lanes_k_blocks(const float *x, const float *h, struct vc_k_kind kind, bool best, struct vc_k_levels *levels,
                           uint8_t *codes)
{
    lanes_k_search(x, h, kind, levels, codes);
    for (size_t b = 0; best && b < 16 / kind.n_parts; b++, x += 256, codes += 256, levels++) {
        const float *h_b = h != NULL ? h + 256 * b : NULL;
        struct vc_k_levels other;
        uint8_t other_codes[256];

        lanes_k_best(x, h_b, kind.n_parts, kind.most, kind.most_level, &other, other_codes);
        if (!(k_error(x, h_b, kind.n_parts, levels, codes) < k_error(x, h_b, kind.n_parts, &other, other_codes))) {
            *levels = other;
            memcpy(codes, other_codes, sizeof other_codes);
        }
    }
}

/* The kernel of a type. Blocks are copied, for x and the importance may be unaligned; the last one is computed twice
 * where it has no second one beside it. */
#define K_BLOCKS(type, bytes)                                                                                       \
    int VC_VARIANT(type##_blocks)(const float *x, size_t n_rows, size_t row_len, const struct vc_block_how *how,    \
                                  uint8_t *blocks)                                                                  \
    {                                                                                                               \
        const struct vc_k_kind kind = VC_K_KIND_##type;                                                             \
        const size_t at_once = 16 / kind.n_parts;                                                                   \
        const size_t n_blocks = n_rows * row_len / 256;                                                             \
                                                                                                                    \
        for (size_t i = 0; i < n_blocks; i += at_once) {                                                            \
            struct vc_k_levels levels[2];                                                                           \
            uint8_t codes[512];                                                                                     \
            float values[512];                                                                                      \
            float h[512];                                                                                           \
                                                                                                                    \
            for (size_t b = 0; b < at_once; b++) {                                                                  \
                size_t at = (i + b < n_blocks ? i + b : i) * 256;                                                   \
                                                                                                                    \
                memcpy(values + 256 * b, (const char *)x + at * sizeof *x, 256 * sizeof *x);                        \
                if (how->importance != NULL) {                                                                      \
                    memcpy(h + 256 * b, (const char *)how->importance + at % row_len * sizeof *h, 256 * sizeof *h); \
                }                                                                                                   \
            }                                                                                                       \
            lanes_k_blocks(values, how->importance != NULL ? h : NULL, kind, how->best, levels, codes);             \
            for (size_t b = 0; b < at_once && i + b < n_blocks; b++) {                                              \
                vc_##type##_put(&levels[b], codes + 256 * b, blocks + (i + b) * (bytes));                           \
            }                                                                                                       \
        }                                                                                                           \
        return 0;                                                                                                   \
    }

K_BLOCKS(q2_k, VC_Q2_K_BYTES)
K_BLOCKS(q4_k, VC_Q4_K_BYTES)
K_BLOCKS(q5_k, VC_Q5_K_BYTES)
#undef K_BLOCKS

#include "kernels/cpu/loops_block_signed_x86.h"
#undef PART_MOST

#endif
