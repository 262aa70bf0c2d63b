/* loops_groups_x86.h - scales and codes of a group (grid_codes.h) with AVX2: several trials at once, eight elements at
 * a time, whose terms go to the eight lanes of the definition, two vectors of four f64. Elements that a group lacks are
 * zeros, which add nothing. Products of two f32 are exact in f64, so fused or not they give the same sums. */
#pragma once

#include "kernels/grid_codes.h"

#define TRIALS      4  /* at once */
#define TRIALS_MOST 48 /* of a group: 16 of 3 zero points */
#define WHOLE_MOST \
    2048 /* elements of a group whose codes, of up to 6 bits less a zero point, have a sum of squares below 2^24 */

/* What the values nearest to eight numbers are found with. Whole numbers: the ends, by trial. NF4 and FP4: thresholds
 * of a binary search, a level each, and the values in ascending order. */
struct near_how {
    __m256 low[TRIALS], high[TRIALS];
    float step[4][8], value[16];
};

#define STEP_MIDDLE(a, b, code) 0.5f * ((a) + (b)),
#define STEP_VALUE(a, b, code)  (b),

/* The middles between values as a tree: level 0 halves all values, level 1 each half, and so on, so that compares
 * choose the next threshold by a permutation. */
static inline void near_prepare(enum vc_grid grid, struct near_how *how)
{
    static const float middles[2][16] = {{VC_NF4_STEPS(STEP_MIDDLE)}, {VC_FP4_STEPS(STEP_MIDDLE)}};
    static const float values[2][16] = {{-1.0f, VC_NF4_STEPS(STEP_VALUE)}, {0.0f, VC_FP4_STEPS(STEP_VALUE)}};
    size_t of = grid == VC_GRID_FP4;
    size_t n = grid == VC_GRID_NF4 ? 16 : of * 8; /* of other grids nothing */

    memcpy(how->value, values[of], sizeof how->value);
    for (size_t level = 0; n > 1; level++, n /= 2) { /* 1, 2, 4 or 8 thresholds, repeated */
        for (size_t k = 0; k < 8; k++) {
            how->step[level][k] = middles[of][n / 2 - 1 + k % ((size_t)1 << level) * n];
        }
    }
}

#undef STEP_MIDDLE
#undef STEP_VALUE

/* The values of a sorted list that are nearest to t, and their numbers: `levels` comparisons choose one of 8 or 16. */
static inline __attribute__((always_inline)) __m256 near_listed(const struct near_how *how, size_t levels, __m256 t,
                                                                __m256i *number)
{
    __m256 upper = _mm256_cmp_ps(t, _mm256_set1_ps(how->step[0][0]), _CMP_GT_OQ);
    __m256i at = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_castps_si256(upper));

    for (size_t k = 1; k < levels; k++) {
        __m256 steps = _mm256_loadu_ps(how->step[k]);
        __m256 step = k < 3 ? _mm256_permutevar_ps(steps, at) : _mm256_permutevar8x32_ps(steps, at);
        __m256 over = _mm256_cmp_ps(t, step, _CMP_GT_OQ);

        at = _mm256_sub_epi32(_mm256_add_epi32(at, at), _mm256_castps_si256(over));
    }
    *number = at;
    if (levels == 3) {
        return _mm256_permutevar8x32_ps(_mm256_loadu_ps(how->value), at);
    }
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(_mm256_loadu_ps(how->value), at),
                            _mm256_permutevar8x32_ps(_mm256_loadu_ps(how->value + 8), at), upper);
}

/* vc_float_near of eight numbers; zeros may have either sign, which changes no sum. number: as near_listed. */
static inline __attribute__((always_inline)) __m256 near_8(enum vc_grid grid, const struct near_how *how, size_t trial,
                                                           __m256 t, __m256i *number)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 magic = _mm256_set1_ps(ROUND_MAGIC);

    if (grid == VC_GRID_NF4) {
        return near_listed(how, 4, t, number);
    }
    if (grid == VC_GRID_FP4) {
        return _mm256_or_ps(near_listed(how, 3, _mm256_andnot_ps(sign, t), number), _mm256_and_ps(sign, t));
    }
    if (grid == VC_GRID_E2M1) { /* steps of 0.5 below 2, of 1 below 4, then of 2: the exponent has them */
        const __m256 most = _mm256_set1_ps(6.0f);
        __m256 a = _mm256_max_ps(_mm256_min_ps(_mm256_andnot_ps(sign, t), most), _mm256_set1_ps(1.0f));

        magic = _mm256_mul_ps(_mm256_and_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(0x7f800000))),
                              _mm256_set1_ps(0.5f * ROUND_MAGIC));
        t = _mm256_max_ps(_mm256_min_ps(t, most), _mm256_or_ps(most, sign));
    } else {
        t = _mm256_max_ps(_mm256_min_ps(t, how->high[trial]), how->low[trial]);
    }
    return _mm256_sub_ps(_mm256_add_ps(t, magic), magic);
}

/* What is summed up for the trials. FIT: of whole numbers, the products; their squares, which are whole numbers below
 * 2^24, come as f32. FIT_WIDE: of others, too. ERROR: the errors; ERROR_NEAR: the same
 * in f32, which is nearly as good (nearest_tells). */
enum trial_sums { FIT, FIT_WIDE, ERROR, ERROR_NEAR };

/* The scales of the trials and their inverses. exact: quotients are made from the inverses. */
struct trial_scales {
    float s[TRIALS], inverse[TRIALS];
    bool exact;
};

/* The lanes of each trial: of products and squares for a scale of least squares, or of errors. */
struct trial_lanes {
    wide a[TRIALS], b[TRIALS];
    __m256 whole[TRIALS];
#ifdef __AVX512F__
    __m512 pair[TRIALS / 2]; /* whole of two trials (PAIRS) */
#endif
};

/* The quotient x / s from the nearest number r to 1 / s, correctly rounded where 2^-96 <= |s| < 2^122 and the quotient
 * is no subnormal number (Markstein); below that it is near enough to 0 for every grid. */
static inline __attribute__((always_inline)) __m256 quotient_8(__m256 x, __m256 s, __m256 r)
{
    __m256 q = _mm256_mul_ps(x, r);

    return _mm256_fmadd_ps(_mm256_fnmadd_ps(q, s, x), r, q);
}

/* Whether quotient_8 serves for all of these, and magnitudes up to absmax. */
static inline void trial_scales_look(struct trial_scales *t, float absmax)
{
    t->exact = true;
    for (size_t k = 0; k < TRIALS; k++) {
        float magnitude = fabsf(t->s[k]);

        t->inverse[k] = 1.0f / t->s[k];
        t->exact = t->exact && magnitude >= 0x1p-96f && magnitude < 0x1p122f && absmax < magnitude * 0x1p20f;
    }
}

#ifdef __AVX512F__
/* Whole numbers without weights whose quotients are exact take two trials in each vector: a processor with two units for
 * instructions of 512 bits has no third one for shorter ones meanwhile. */
#define PAIRS(grid, weighted, exact, sums) \
    ((grid) == VC_GRID_NONE && !(weighted) && (exact) && ((sums) == FIT || (sums) == ERROR_NEAR))

static inline __attribute__((always_inline)) __m512 two_of(__m256 a, __m256 b)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
}

/* trials_add for these, in the same lanes. */
static inline __attribute__((always_inline)) void pairs_add(enum trial_sums sums, const struct near_how *how, __m256 x,
                                                            const struct trial_scales *t, struct trial_lanes *lanes)
{
    const __m512 magic = _mm512_set1_ps(ROUND_MAGIC);
    __m512 both = two_of(x, x);
    wide x8 = wide_of(x);

    for (size_t k = 0; k < TRIALS; k += 2) {
        __m512 s = two_of(_mm256_set1_ps(t->s[k]), _mm256_set1_ps(t->s[k + 1]));
        __m512 r = two_of(_mm256_set1_ps(t->inverse[k]), _mm256_set1_ps(t->inverse[k + 1]));
        __m512 q = _mm512_mul_ps(both, r);
        __m512 y = _mm512_fmadd_ps(_mm512_fnmadd_ps(q, s, both), r, q);

        y = _mm512_min_ps(y, two_of(how->high[k], how->high[k + 1]));
        y = _mm512_max_ps(y, two_of(how->low[k], how->low[k + 1]));
        y = _mm512_sub_ps(_mm512_add_ps(y, magic), magic);
        if (sums == FIT) {
            lanes->a[k] = wide_fma(wide_of(_mm512_castps512_ps256(y)), x8, lanes->a[k]);
            lanes->a[k + 1] = wide_fma(wide_of(_mm512_extractf32x8_ps(y, 1)), x8, lanes->a[k + 1]);
        } else {
            y = _mm512_fnmadd_ps(y, s, both);
        }
        lanes->pair[k / 2] = _mm512_fmadd_ps(y, y, lanes->pair[k / 2]);
    }
}
#endif

/* Adds eight elements. w: their weights, where there are such. */
static inline __attribute__((always_inline)) void trials_add(enum vc_grid grid, bool weighted, enum trial_sums sums,
                                                             bool exact, const struct near_how *how, __m256 x, __m256 w,
                                                             const struct trial_scales *t, struct trial_lanes *lanes)
{
    wide x8 = wide_of(x);
    wide w8 = wide_of(w);

#ifdef __AVX512F__
    if (PAIRS(grid, weighted, exact, sums)) {
        pairs_add(sums, how, x, t, lanes);
        return;
    }
#endif
    for (size_t k = 0; k < TRIALS; k++) {
        __m256 s = _mm256_set1_ps(t->s[k]);
        __m256i number;
        __m256 y8 = near_8(grid, how, k, exact ? quotient_8(x, s, _mm256_set1_ps(t->inverse[k])) : _mm256_div_ps(x, s),
                           &number);
        wide y = wide_of(y8);

        if (sums == ERROR_NEAR) {
            __m256 e = _mm256_fnmadd_ps(y8, s, x);

            lanes->whole[k] = _mm256_fmadd_ps(weighted ? _mm256_mul_ps(w, e) : e, e, lanes->whole[k]);
        } else if (sums == ERROR) {
            wide e = wide_fma(y, wide_all(-(double)t->s[k]), x8); /* the product is exact */

            e = wide_mul(e, e);
            lanes->a[k] = wide_add(lanes->a[k], weighted ? wide_mul(w8, e) : e);
        } else if (weighted) {
            lanes->a[k] = wide_add(lanes->a[k], wide_mul(w8, wide_mul(y, x8)));
            lanes->b[k] = wide_add(lanes->b[k], wide_mul(w8, wide_mul(y, y)));
        } else {
            lanes->a[k] = wide_fma(y, x8, lanes->a[k]);
            if (sums == FIT) {
                lanes->whole[k] = _mm256_fmadd_ps(y8, y8, lanes->whole[k]);
            } else {
                lanes->b[k] = wide_fma(y, y, lanes->b[k]);
            }
        }
    }
}

/* vc_lanes_sum. */
static inline double trial_sum(wide lanes)
{
    __m256d four = wide_four(lanes);
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));

    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* The sums of all trials over a group. */
static inline __attribute__((always_inline)) void trials_walk(enum vc_grid grid, bool weighted, enum trial_sums sums,
                                                              bool exact, const struct near_how *how,
                                                              const float *weights, const float *x, size_t n,
                                                              const struct trial_scales *t, double *a, double *b)
{
    struct trial_lanes lanes;
    size_t i = 0;

    memset(&lanes, 0, sizeof lanes);
    for (; n - i >= 8; i += 8) {
        trials_add(grid, weighted, sums, exact, how, _mm256_loadu_ps(x + i),
                   weighted ? _mm256_loadu_ps(weights + i) : _mm256_setzero_ps(), t, &lanes);
    }
    if (i < n) {
        float rest[2][8] = {{0.0f}};

        vc_get_run_f32(x, i, n - i, rest[0]);
        if (weighted) {
            vc_get_run_f32(weights, i, n - i, rest[1]);
        }
        trials_add(grid, weighted, sums, exact, how, _mm256_loadu_ps(rest[0]), _mm256_loadu_ps(rest[1]), t, &lanes);
    }
#ifdef __AVX512F__
    for (size_t k = 0; PAIRS(grid, weighted, exact, sums) && k < TRIALS; k += 2) {
        lanes.whole[k] = _mm512_castps512_ps256(lanes.pair[k / 2]);
        lanes.whole[k + 1] = _mm512_extractf32x8_ps(lanes.pair[k / 2], 1);
    }
#endif
    for (size_t k = 0; k < TRIALS; k++) {
        a[k] = trial_sum(sums == ERROR_NEAR ? wide_of(lanes.whole[k]) : lanes.a[k]);
        b[k] = trial_sum(sums == FIT ? wide_of(lanes.whole[k]) : lanes.b[k]);
    }
}

/* The same, for quotients of either kind. */
static inline __attribute__((always_inline)) void trials_sum(enum vc_grid grid, bool weighted, enum trial_sums sums,
                                                             const struct near_how *how, const float *weights,
                                                             const float *x, size_t n, const struct trial_scales *t,
                                                             double *a, double *b)
{
    if (t->exact) {
        trials_walk(grid, weighted, sums, true, how, weights, x, n, t, a, b);
    } else {
        trials_walk(grid, weighted, sums, false, how, weights, x, n, t, a, b);
    }
}

/* Codes of eight numbers t, and the values that they stand for. */
static inline __attribute__((always_inline)) __m256i codes_8(enum vc_grid grid, const struct near_how *how,
                                                             int zero_point, __m256 t, __m256 *value)
{
    const __m256i fp4_order = _mm256_setr_epi32(0, 1, 6, 7, 4, 5, 2, 3);
    __m256i code = _mm256_setzero_si256();
    __m256 y = near_8(grid, how, 0, t, &code);
    __m256 sign;

    *value = y;
    if (grid == VC_GRID_NF4) {
        return code;
    }
    if (grid == VC_GRID_NONE) {
        return _mm256_add_epi32(_mm256_cvtps_epi32(y), _mm256_set1_epi32(zero_point));
    }
    y = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), y);
    if (grid == VC_GRID_FP4) {
        code = _mm256_permutevar8x32_epi32(fp4_order, code);
    } else { /* exponent and first bit of the fraction, from 1.0 on; 1 for 0.5 */
        code = _mm256_sub_epi32(_mm256_srli_epi32(_mm256_castps_si256(y), 22), _mm256_set1_epi32(252));
        code = _mm256_max_epi32(code, _mm256_min_epi32(_mm256_cvtps_epi32(_mm256_add_ps(y, y)), _mm256_set1_epi32(1)));
    }
    sign = _mm256_and_ps(_mm256_and_ps(t, _mm256_set1_ps(-0.0f)), _mm256_cmp_ps(y, _mm256_setzero_ps(), _CMP_NEQ_UQ));
    *value = _mm256_or_ps(y, sign);
    return _mm256_or_si256(code, _mm256_srli_epi32(_mm256_castps_si256(sign), 28));
}

/* vc_group_encode. */
static inline __attribute__((always_inline)) void encode_x86(enum vc_grid grid, const struct vc_group_codes *c,
                                                             const struct vc_float_scale *scale, const float *x,
                                                             size_t n, uint8_t *q, float *y)
{
    const __m256 s = _mm256_set1_ps(scale->value);
    struct near_how how;
    size_t i = 0;

    near_prepare(grid, &how);
    how.low[0] = _mm256_set1_ps((float)(c->low - scale->zero_point));
    how.high[0] = _mm256_set1_ps((float)(c->high - scale->zero_point));
    for (; q != NULL && !scale->zero && n - i >= 8; i += 8) {
        __m256 value;
        __m256i code = codes_8(grid, &how, scale->zero_point, _mm256_div_ps(_mm256_loadu_ps(x + i), s), &value);
        __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));

        _mm_storel_epi64((__m128i *)(void *)(q + i), _mm_packs_epi16(words, words));
        _mm256_storeu_ps(y + i, _mm256_mul_ps(value, s));
    }
    vc_group_encode(c, scale, x + i, n - i, q == NULL ? NULL : q + i, q == NULL ? NULL : y + i);
}

/* The next TRIALS scales. */
static inline void trials_begin(const struct vc_group_codes *c, const struct vc_float_scale *scale, float absmax,
                                struct near_how *how, struct trial_scales *s)
{
    for (size_t k = 0; k < TRIALS; k++) {
        how->low[k] = _mm256_set1_ps((float)(c->low - scale[k].zero_point));
        how->high[k] = _mm256_set1_ps((float)(c->high - scale[k].zero_point));
        s->s[k] = scale[k].value;
    }
    trial_scales_look(s, absmax);
}

/* Whether the errors of n trials, summed up in f32, tell which is the least, and which. Terms are positive: of up to
 * WHOLE_MOST elements each sum is right to less than 2^-15 of it, where no term that counts leaves f32's range. With
 * magnitudes below 2^20 products are below 2^35, and what smaller numbers than f32 has lose is below 2^-104. So none
 * that is 2^-12 above the least one can be the least; scales that are the same have the same error. */
static inline bool nearest_tells(const struct vc_float_scale *scale, const double *error, size_t n, size_t *which)
{
    double least = INFINITY;
    bool found = false;

    for (size_t i = 0; i < n; i++) {
        least = scale[i].value != 0.0f && error[i] < least ? error[i] : least;
    }
    if (!(least >= 0x1p-80 && least < 0x1p100)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (scale[i].value == 0.0f || error[i] > least * (1.0 + 0x1p-12)) {
            continue;
        }
        if (found && (scale[i].value != scale[*which].value || scale[i].zero_point != scale[*which].zero_point)) {
            return false;
        }
        *which = found ? *which : i;
        found = true;
    }
    return true;
}

/* vc_searched_scale, and the codes unless q is NULL. */
static inline __attribute__((always_inline)) struct vc_float_scale make_x86(enum vc_grid grid, bool weighted,
                                                                            const struct vc_group_codes *c,
                                                                            const float *x, size_t n, float absmax,
                                                                            uint8_t *q, float *y)
{
    const struct vc_scale_trials t = vc_scale_trials_of(c, x, n, absmax);
    const size_t n_trials = (size_t)t.n;
    struct vc_float_scale best = vc_scale_of_nothing(c);
    struct vc_float_scale scale[TRIALS_MOST];
    double error[TRIALS_MOST], rest[TRIALS];
    struct trial_scales s;
    struct near_how how;
    bool near_first = n <= WHOLE_MOST && absmax < 0x1p20f;
    size_t which = 0;

    near_prepare(grid, &how);
    for (size_t i = 0; i < n_trials; i += TRIALS) {
        double a[TRIALS], b[TRIALS];

        for (size_t k = 0; k < TRIALS; k++) {
            scale[i + k] = vc_trial_begin(c, &t, (int)(i + k < n_trials ? i + k : i));
        }
        if (grid != VC_GRID_E2M1) {
            trials_begin(c, scale + i, absmax, &how, &s);
            if (grid == VC_GRID_NONE && !weighted && n <= WHOLE_MOST) {
                trials_sum(grid, weighted, FIT, &how, c->weights, x, n, &s, a, b);
            } else {
                trials_sum(grid, weighted, FIT_WIDE, &how, c->weights, x, n, &s, a, b);
            }
        }
        for (size_t k = 0; grid != VC_GRID_E2M1 && k < TRIALS; k++) {
            bool some = s.s[k] != 0.0f && b[k] > 0.0;
            float fit = some ? vc_f64_to_f32(a[k] / b[k]) : 0.0f;

            scale[i + k].value = some ? vc_scale_stored(fit, c->type, vc_group_steps(c)) : 0.0f;
        }
        if (near_first) {
            trials_begin(c, scale + i, absmax, &how, &s);
            trials_sum(grid, weighted, ERROR_NEAR, &how, c->weights, x, n, &s, error + i, rest);
        }
    }
    if (near_first && nearest_tells(scale, error, n_trials, &which)) {
        best = scale[which];
        encode_x86(grid, c, &best, x, n, q, y);
        return best;
    }
    for (size_t i = 0, found = 0; i < n_trials; i++) {
        if (i % TRIALS == 0) {
            trials_begin(c, scale + i, absmax, &how, &s);
            trials_sum(grid, weighted, ERROR, &how, c->weights, x, n, &s, error + i, rest);
        }
        if (scale[i].value != 0.0f && (found == 0 || error[i] < error[which])) {
            best = scale[i];
            which = i;
            found = 1;
        }
    }
    encode_x86(grid, c, &best, x, n, q, y);
    return best;
}

/* The grid, and whether there are weights, are constants of each call: the compiler makes loops without branches. */
#define MAKE(GRID)                                                                      \
    (c->weights != NULL ? make_x86(GRID, true, c, x, n, vc_bits_f32(absmax_bits), q, y) \
                        : make_x86(GRID, false, c, x, n, vc_bits_f32(absmax_bits), q, y))

/* As vc_group_plain. */
static struct vc_float_scale group_x86(const struct vc_group_codes *c, const float *x, size_t n, uint32_t absmax_bits,
                                       uint8_t *q, float *y)
{
    struct vc_float_scale scale;

    switch (c->grid) {
    case VC_GRID_E4M3:
        scale = vc_e4m3_scale(c, vc_bits_f32(absmax_bits));
        vc_group_encode(c, &scale, x, n, q, y);
        return scale;
    case VC_GRID_E2M1:
        return MAKE(VC_GRID_E2M1);
    case VC_GRID_NF4:
        return MAKE(VC_GRID_NF4);
    case VC_GRID_FP4:
        return MAKE(VC_GRID_FP4);
    default:
        return MAKE(VC_GRID_NONE);
    }
}

#undef MAKE
#undef PAIRS
#undef TRIALS
#undef TRIALS_MOST
#undef WHOLE_MOST
