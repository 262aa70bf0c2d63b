/* loops_lanes_signed_x86.h - part of loops_lanes_x86.h: types whose parts have one signed scale each. Q3_K and Q6_K;
 * Q4_0, Q5_0, Q8_0, Q2_0, TQ1_0 and TQ2_0 where there are no statistics.
 *
 * Blocks lie side by side: lane k of a vector is an element of block k, so a loop over 16 elements does the search of a
 * part for all of the blocks. `found` has what each lane has found, which the put functions write as bytes, block by
 * block.
 *
 *     fv x[16]    x[i] = element i of block 0, element i of block 1, ... */
#pragma once

/* ---- as llama.cpp ---- */

/* A code of vc_search_signed. finite: x is, and so at most 1.03 half; scales of parts may be infinite, or NaN. */
ALWAYS fv f_signed_code(fv x, int32_t half, bool finite)
{
    return finite ? f_nearest(x, f_set((float)-half), f_set((float)(half - 1))) : f_code(x, -half, half - 1);
}

/* vc_search_signed of 16 elements: their scale. l: their codes, without offset. */
ALWAYS fv lanes_search_signed(const fv *x, const fv *w, bool weighted, int32_t half, bool finite, fv *l)
{
    enum { n_sides = 2 };
    fv m = f_largest(x, 16);
    iv tiny = (iv)(f_magnitude(m) < f_set(VC_GGML_TINY));
    fv scale = F_ZERO;
    fv best = F_ZERO;
    fv inverse = F_ZERO;
    fv weight[16];
    fv wx[16];

    for (size_t i = 0; i < 16; i++) {
        weight[i] = weighted ? w[i] : x[i] * x[i];
        wx[i] = weight[i] * x[i];
    }
    for (int32_t k = -10; k <= 9; k += n_sides) { /* -10 stands for 0, which comes first, and is not tried again */
        fv next[n_sides];
        fv a[n_sides];
        fv b[n_sides];

        SIDES(t)
        {
            int32_t step = k + (int32_t)t;

            /* Each side is another start; n_sides of them run at once, so that the processor has independent work. */
            next[t] = f_set(-((float)half + (step == -10 ? 0.0f : 0.1f * (float)step))) / m;
            a[t] = b[t] = F_ZERO;
        }
        for (size_t i = 0; i < 16; i++) {
            SIDES(t)
            {
                fv q = f_signed_code(next[t] * x[i], half, finite);

                a[t] = a[t] + wx[i] * q;
                b[t] = b[t] + weight[i] * q * q;
            }
        }
        SIDES(t)
        {
            /* A start is better where a^2 / b is larger: compared without the division, as llama.cpp does. */
            iv won = (iv)(b[t] > F_ZERO) & (iv)(a[t] * a[t] > best * b[t]);

            if (k + (int32_t)t == -10) {
                won = ~(iv)F_ZERO;
            } else if (k + (int32_t)t == 0) {
                won = (iv)F_ZERO;
            }
            scale = f_select(won, f_only((iv)(b[t] != F_ZERO), a[t] / b[t]), scale);
            best = f_select(won, scale * a[t], best);
            inverse = f_select(won, next[t], inverse);
        }
    }
    for (size_t i = 0; i < 16; i++) {
        l[i] = f_signed_code(inverse * x[i], half, finite);
        l[i] = f_select(tiny, f_set((float)-half), l[i]); /* 0, with the offset */
    }
    return f_only(~tiny, scale);
}

/* vc_search_refined of a part: its scale. l: as above. */
ALWAYS fv lanes_search_refined(const fv *x, int32_t half, fv *l)
{
    fv m = f_largest(x, 16);
    iv tiny = (iv)(f_magnitude(m) < f_set(VC_GGML_TINY));
    fv inverse = f_set((float)-half) / m;
    fv a = F_ZERO;
    fv b = F_ZERO;
    iv changed = ~tiny;

    for (size_t i = 0; i < 16; i++) {
        fv w = x[i] * x[i];

        l[i] = f_code(inverse * x[i], -half, half - 1);
        a = a + w * x[i] * l[i];
        b = b + w * l[i] * l[i];
    }
    for (uint32_t pass = 0; pass < 5 && f_any(changed); pass++) { /* a block without a change finds none later */
        changed = (iv)F_ZERO;
        for (size_t i = 0; i < 16; i++) {
            fv w = x[i] * x[i];
            /* The sums without element i, for which the best code is looked for with the others as they are. */
            fv a_less = a - w * x[i] * l[i];
            fv b_less = b - w * l[i] * l[i];
            fv k = f_code(x[i] * b_less / a_less, -half, half - 1);
            iv won = (iv)(a_less > F_ZERO) & (iv)(k != l[i]);

            a_less = a_less + w * x[i] * k;
            b_less = b_less + w * k * k;
            won &= (iv)(b_less > F_ZERO) & (iv)(a_less * a_less * b > a * a * b_less);
            changed |= won & ~tiny;
            l[i] = f_select(won, k, l[i]);
            a = f_select(won, a_less, a);
            b = f_select(won, b_less, b);
        }
    }
    for (size_t i = 0; i < 16; i++) {
        l[i] = f_select(tiny, f_set((float)-half), l[i]);
    }
    return f_only((iv)(b != F_ZERO) & ~tiny, a / b);
}

/* vc_signed_codes: codes for the step as it is stored; where it is 0 they stay. */
ALWAYS void lanes_signed_stored(const struct lane_blocks *b, int32_t half, struct lane_found *found)
{
    for (size_t j = 0; j < 16; j++) {
        found->step[j] = f_half(found->d) * found->level[j];
        found->least[j] = f_set(-0.0f);
        for (size_t i = 16 * j; i < 16 * (j + 1); i++) {
            fv l = f_code(b->x[i] / found->step[j], -half, half - 1) + f_set((float)half);

            codes_put(found->codes[i], f_select((iv)(found->step[j] != F_ZERO), l, f_of_codes(found->codes[i])));
        }
    }
}

/* vc_signed_levels of 16 scales. */
ALWAYS void lanes_signed_levels(const fv *scale, int32_t half, struct lane_found *found)
{
    fv m = f_largest(scale, 16);
    iv some = (iv)(m != F_ZERO);
    fv inverse = f_only(some, f_set((float)-half) / m);

    for (size_t j = 0; j < 16; j++) {
        found->level[j] = f_select(some, f_code(inverse * scale[j], -half, half - 1), f_set((float)-half));
    }
    found->d = f_only(some, 1.0f / inverse);
}

/* vc_q6_k_make */
ALWAYS void lanes_q6_k_make(const struct lane_blocks *b, bool weighted, struct lane_found *found)
{
    fv scale[16];

    for (size_t j = 0; j < 16; j++) {
        fv l[16];

        scale[j] = lanes_search_signed(b->x + 16 * j, b->w + 16 * j, weighted, 32, true, l);
        for (size_t i = 0; i < 16; i++) {
            codes_put(found->codes[16 * j + i], l[i] + f_set(32.0f));
        }
    }
    lanes_signed_levels(scale, 128, found);
    lanes_signed_stored(b, 32, found);
    iv none = (iv)(f_magnitude(f_largest(scale, 16)) < f_set(VC_GGML_TINY));
    if (f_any(none)) { /* such a block is zeros throughout */
        found->d = f_only(~none, found->d);
        for (size_t j = 0; j < 16; j++) {
            found->level[j] = f_only(~none, found->level[j]);
            found->step[j] = f_only(~none, found->step[j]);
        }
        for (size_t i = 0; i < 256; i++) {
            codes_put(found->codes[i], f_only(~none, f_of_codes(found->codes[i])));
        }
    }
}

/* vc_q3_k_make */
ALWAYS void lanes_q3_k_make(const struct lane_blocks *b, bool weighted, struct lane_found *found)
{
    fv mean = weighted ? 2.0f * f_squares(b->x, 256) / 256.0f : F_ZERO;
    fv scale[16];
    fv weight[16];
    fv l[16];

    for (size_t j = 0; j < 16; j++) {
        const fv *x = b->x + 16 * j;

        /* The weight of an element is h sqrt(2 mean(x^2) + x^2), as llama.cpp has it. */
        if (weighted) {
            fv w[16];

            weight[j] = F_ZERO;
            for (size_t i = 0; i < 16; i++) {
                w[i] = b->w[16 * j + i] * f_sqrt(mean + x[i] * x[i]);
                weight[j] = weight[j] + w[i];
            }
            scale[j] = lanes_search_signed(x, w, true, 4, true, l);
        } else {
            scale[j] = lanes_search_refined(x, 4, l);
        }
        for (size_t i = 0; i < 16; i++) {
            codes_put(found->codes[16 * j + i], l[i] + f_set(4.0f));
        }
    }
    if (weighted) {
        found->d = lanes_search_signed(scale, weight, true, 32, false, found->level);
    } else {
        lanes_signed_levels(scale, 32, found);
    }
    lanes_signed_stored(b, 4, found);
}

/* ---- with the least error ---- */

/* vc_signed_error for several steps. exact: products of codes and steps are. */
ALWAYS void lanes_signed_errors(const fv *x, const fv *w, size_t n, const struct vc_best_range r, bool weighted,
                                bool exact, size_t n_sides, const fv *s, const fv *inverse, fv *error)
{
    fv least = f_set((float)r.least);
    fv most = f_set((float)r.most);

    SIDES(t) error[t] = F_ZERO;
    for (size_t i = 0; i < n; i++) {
        SIDES(t)
        {
            fv q = f_nearest(x[i] * inverse[t], least, most);
            fv d = exact ? f_minus(q, s[t], x[i]) : x[i] - q * s[t];

            error[t] = error[t] + f_weigh(weighted, w, i, d) * d;
        }
    }
}

/* The best of some starts, and its error. */
struct signed_best {
    fv s, error;
};

/* Takes the scale that follows from each start s[t], where its error is less than that of best[t] was. Everything is a
 * magnitude: with the other sign a start has the same codes but for their limits, limit[t][i] for element i. */
ALWAYS void lanes_signed_starts(const fv *x, const fv *w, size_t n, const struct vc_best_range r, bool weighted,
                                size_t n_sides, const fv *const *limit, fv *s, struct signed_best *best)
{
    fv inverse[2];
    fv a[2];
    fv b[2];
    iv good[2];

    SIDES(t)
    {
        inverse[t] = 1.0f / s[t];
        good[t] = f_is_step(s[t]) & f_is_step(inverse[t]);
        a[t] = b[t] = F_ZERO;
    }
    for (size_t i = 0; i < n; i++) {
        SIDES(t)
        {
            /* No x is more than unit / first steps, 143: the limit may follow. The other sign shares all before it. */
            fv q = f_min(f_whole(x[i] * inverse[t]), limit[t][i]);
            fv wq = f_weigh(weighted, w, i, q);

            a[t] = a[t] + wq * x[i];
            b[t] = f_plus_whole(!weighted, wq, q, b[t]);
        }
    }
    SIDES(t)
    {
        s[t] = f_only((iv)(b[t] > F_ZERO), a[t] / b[t]);
        s[t] = r.stored ? f_stored_step(s[t]) : s[t];
        inverse[t] = 1.0f / s[t];
        good[t] &= f_is_step(s[t]) & f_is_step(inverse[t]);
        a[t] = F_ZERO;
    }
    for (size_t i = 0; i < n; i++) {
        SIDES(t)
        {
            fv q = f_whole(f_min(x[i] * inverse[t], limit[t][i]));
            fv d = r.stored ? f_minus(q, s[t], x[i]) : x[i] - q * s[t]; /* of an f16 the product is exact */

            a[t] = a[t] + f_weigh(weighted, w, i, d) * d;
        }
    }
    SIDES(t)
    {
        iv won = good[t] & (iv)(a[t] < best[t].error);

        best[t].error = f_select(won, a[t], best[t].error);
        best[t].s = f_select(won, s[t], best[t].s);
    }
}

/* vc_best_signed: a start and its negative side by side. Of equal errors the first start's counts, so the negative ones
 * are compared with the others behind all of them. */
ALWAYS fv lanes_best_signed(const fv *x, const fv *w, size_t n, const struct vc_best_range r, bool weighted)
{
    fv top = f_magnitude(f_largest(x, n));
    struct signed_best best[2] = {{F_ZERO, F_ZERO}, {F_ZERO, F_ZERO}};
    fv size[64];
    fv most[2][64];
    const fv *const limit[2] = {most[0], most[1]};

    for (size_t i = 0; i < n; i++) {
        iv below = (iv)(x[i] < F_ZERO);

        size[i] = f_magnitude(x[i]);
        most[0][i] = f_select(below, f_set((float)-r.least), f_set((float)r.most));
        most[1][i] = f_select(below, f_set((float)r.most), f_set((float)-r.least));
        best[0].error = best[0].error + f_weigh(weighted, w, i, x[i]) * x[i];
    }
    best[1].error = best[0].error;
    for (int32_t k = 0; k < 16; k++) {
        fv s[2];

        s[0] = s[1] = f_set(vc_best_start(r, k)) * top / f_set(r.unit);
        lanes_signed_starts(size, w, n, r, weighted, 2, limit, s, best);
    }
    iv won = (iv)(best[1].error < best[0].error);
    best[0].error = f_select(won, best[1].error, best[0].error);
    best[0].s = f_select(won, -best[1].s, best[0].s);
    for (int32_t k = 0; k < r.n_even; k++) {
        fv s[1] = {f_set(vc_best_start(r, 32 + k)) * top / f_set(r.unit)};

        lanes_signed_starts(size, w, n, r, weighted, 1, limit, s, best);
    }
    return best[0].s;
}

/* vc_best_signed_codes, with the offset -least. */
ALWAYS void lanes_signed_codes(const fv *x, size_t n, fv s, const struct vc_best_range r, uint8_t (*codes)[FW])
{
    fv inverse = f_inverse_or_0(s);

    for (size_t i = 0; i < n; i++) {
        fv q = f_nearest(x[i] * inverse, f_set((float)r.least), f_set((float)r.most));

        codes_put(codes[i], q - f_set((float)r.least));
    }
}

/* The level of a part that has the least error, of three; what the part adds to the sums of a fit of d. */
ALWAYS fv lanes_signed_level(const fv *x, const fv *w, int32_t half, const struct vc_best_range r, bool weighted,
                             fv scale, fv d, fv *a, fv *b)
{
    enum { n_sides = 3 };
    const fv low = f_set((float)-half);
    const fv high = f_set((float)(half - 1));
    fv near_level = f_only((iv)(d != F_ZERO), f_nearest(scale / d, low, high));
    fv level[n_sides];
    fv s[n_sides];
    fv inverse[n_sides];
    fv error[n_sides];

    SIDES(t)
    {
        level[t] = f_min(f_max(near_level + f_set((float)t - 1.0f), low), high);
        s[t] = d * level[t];
        inverse[t] = f_inverse_or_0(s[t]);
    }
    lanes_signed_errors(x, w, 16, r, weighted, true, n_sides, s, inverse, error); /* 11, 7 and 5 bits */
    for (size_t t = 1; t < n_sides; t++) {
        iv won = (iv)(error[t] < error[0]);

        level[0] = f_select(won, level[t], level[0]);
        inverse[0] = f_select(won, inverse[t], inverse[0]);
        error[0] = f_select(won, error[t], error[0]);
    }
    for (size_t i = 0; i < 16; i++) {
        fv v = level[0] * f_nearest(x[i] * inverse[0], f_set((float)r.least), f_set((float)r.most));
        fv wv = f_weigh(weighted, w, i, v);

        *a = *a + wv * x[i];
        *b = *b + wv * v;
    }
    return level[0];
}

/* vc_signed_best */
ALWAYS void lanes_signed_best(const struct lane_blocks *b, int32_t half, const struct vc_best_range r, bool weighted,
                              struct lane_found *found)
{
    fv scale[16];

    for (size_t j = 0; j < 16; j++) {
        scale[j] = lanes_best_signed(b->x + 16 * j, b->w + 16 * j, 16, r, weighted);
    }
    found->d = f_first_step(f_largest(scale, 16), -half);
    for (uint32_t round = 0; round < 3; round++) {
        fv sum_a = F_ZERO;
        fv sum_b = F_ZERO;
        fv d;

        for (size_t j = 0; j < 16; j++) {
            found->level[j] =
                lanes_signed_level(b->x + 16 * j, b->w + 16 * j, half, r, weighted, scale[j], found->d, &sum_a, &sum_b);
        }
        d = f_half(sum_a / sum_b);
        found->d = f_select((iv)(sum_b > F_ZERO) & f_is_step(d), d, found->d);
    }
    for (size_t j = 0; j < 16; j++) {
        found->step[j] = found->d * found->level[j];
        found->least[j] = f_set(-0.0f);
        lanes_signed_codes(b->x + 16 * j, 16, found->step[j], r, found->codes + 16 * j);
    }
}

/* ---- the types ---- */

#define LANES_K(type, half, size, zero)                                                                            \
    static void type##_lane_put(const struct lane_found *found, size_t lane, const uint8_t *codes, uint8_t *block) \
    {                                                                                                              \
        int32_t levels[16];                                                                                        \
                                                                                                                   \
        for (size_t j = 0; j < 16; j++) {                                                                          \
            levels[j] = (int32_t)found->level[j][lane];                                                            \
        }                                                                                                          \
        vc_##type##_put(found->d[lane], levels, codes, block);                                                     \
    }                                                                                                              \
                                                                                                                   \
    LANES_EITHER(type##_lanes_make, LANES_MAKE_##type)                                                             \
    LANES_EITHER(type##_lanes_search, LANES_SEARCH_##type)                                                         \
                                                                                                                   \
    static const struct lane_type lane_##type = {                                                                  \
        256, 16, (size), -(zero), NULL, type##_lanes_make, type##_lanes_search, type##_lane_put};                  \
    LANE_KERNEL(type, true)

#define LANES_MAKE_q3_k(weighted)   lanes_q3_k_make(b, weighted, found)
#define LANES_MAKE_q6_k(weighted)   lanes_q6_k_make(b, weighted, found)
#define LANES_SEARCH_q3_k(weighted) lanes_signed_best(b, 32, (struct vc_best_range)VC_RANGE_q3_k, weighted, found)
#define LANES_SEARCH_q6_k(weighted) lanes_signed_best(b, 128, (struct vc_best_range)VC_RANGE_q6_k, weighted, found)

LANES_K(q3_k, 32, 110, 4)
LANES_K(q6_k, 128, VC_Q6_K_BYTES, 32)
#undef LANES_K

/* Types of one part. The reference's step is the largest element over -half, and its codes are cut off, not rounded
 * (vc_symmetric_32). */
ALWAYS void lanes_symmetric_make(const struct lane_blocks *b, int32_t half, struct lane_found *found)
{
    found->d = f_largest(b->x, 32) / f_set((float)-half);
    found->step[0] = f_half(found->d);
    found->least[0] = f_set(-0.0f);
    fv inverse = f_inverse_or_0(found->d);
    for (size_t i = 0; i < 32; i++) {
        fv t = b->x[i] * inverse + f_set((float)half + 0.5f);

        codes_put(found->codes[i], f_min(f_max(t, F_ZERO), f_set((float)(2 * half - 1))));
    }
}

/* Q8_0: vc_q8_0_encode, halves away from zero (NEARLY_HALF of loops_blocks.h), with the offset 128. */
ALWAYS void lanes_q8_0_make(const struct lane_blocks *b, struct lane_found *found)
{
    found->d = f_magnitude(f_largest(b->x, 32)) / f_set(127.0f);
    found->step[0] = f_half(found->d);
    found->least[0] = f_set(-0.0f);
    fv inverse = f_only((iv)found->d > 0x00200000, 1.0f / found->d);
    for (size_t i = 0; i < 32; i++) {
        fv t = b->x[i] * inverse;
        fv whole = f_of_int(f_to_int(f_min(f_magnitude(t), f_set(127.0f)) + f_set(NEARLY_HALF)));

        codes_put(found->codes[i], f_set(128.0f) + (fv)((iv)whole | ((iv)t & INT32_MIN)));
    }
}

/* vc_ternary, with the offset 1. */
ALWAYS void lanes_ternary_make(const struct lane_blocks *b, size_t n, struct lane_found *found)
{
    found->d = f_magnitude(f_largest(b->x, n));
    found->step[0] = f_half(found->d);
    found->least[0] = f_set(-0.0f);
    fv inverse = f_inverse_or_0(found->d);
    for (size_t i = 0; i < n; i++) {
        fv t = b->x[i] * inverse;
        iv code = 1 - (iv)(t >= f_set(0.5f)) + (iv)(t <= f_set(-0.5f)); /* masks are -1 */

        codes_put(found->codes[i], f_of_int(code));
    }
}

/* Sorts 256 numbers of each lane, the largest first: Batcher's odd-even merges. */
static void lanes_sort(fv *v)
{
    for (size_t run = 1; run < 256; run *= 2) {
        for (size_t apart = run; apart > 0; apart /= 2) {
            for (size_t first = apart % run; first + apart < 256; first += 2 * apart) {
                for (size_t i = first; i < first + apart && i + apart < 256; i++) {
                    if (i / (2 * run) == (i + apart) / (2 * run)) {
                        fv most = f_max(v[i], v[i + apart]);

                        v[i + apart] = f_min(v[i], v[i + apart]);
                        v[i] = most;
                    }
                }
            }
        }
    }
}

/* vc_best_ternary without weights, with which the order of equal magnitudes does not matter. */
ALWAYS void lanes_ternary_search(const struct lane_blocks *b, struct lane_found *found)
{
    fv sorted[256];
    fv a = F_ZERO;
    fv best = F_ZERO;
    fv s = F_ZERO;

    for (size_t i = 0; i < 256; i++) {
        sorted[i] = f_magnitude(b->x[i]);
    }
    lanes_sort(sorted);
    for (size_t k = 0; k < 256; k++) {
        fv n = f_set((float)(k + 1));

        a = a + sorted[k];
        iv more = (iv)(a * a > best * n);
        best = f_select(more, a * a / n, best);
        s = f_select(more, a / n, s);
    }
    s = f_half(s);
    found->d = found->step[0] = s;
    found->least[0] = f_set(-0.0f);
    for (size_t i = 0; i < 256; i++) {
        fv twice = b->x[i] + b->x[i];
        iv code = (iv)(twice < -s) - (iv)(twice > s);

        codes_put(found->codes[i], f_of_int(1 + (code & (iv)(s > F_ZERO))));
    }
}

ALWAYS void lanes_one_search(const struct lane_blocks *b, size_t n, const struct vc_best_range r,
                             struct lane_found *found)
{
    found->d = found->step[0] = lanes_best_signed(b->x, NULL, n, r, false);
    found->least[0] = f_set(-0.0f);
    lanes_signed_codes(b->x, n, found->d, r, found->codes);
}

/* put: a statement that fills `block`. */
#define LANES_ONE(type, n, least, size, make_call, search_call, put)                                               \
    static void type##_lanes_make(const struct lane_blocks *b, struct lane_found *found)                           \
    {                                                                                                              \
        make_call;                                                                                                 \
    }                                                                                                              \
                                                                                                                   \
    static void type##_lanes_search(const struct lane_blocks *b, struct lane_found *found)                         \
    {                                                                                                              \
        search_call;                                                                                               \
    }                                                                                                              \
                                                                                                                   \
    static void type##_lane_put(const struct lane_found *found, size_t lane, const uint8_t *codes, uint8_t *block) \
    {                                                                                                              \
        put;                                                                                                       \
    }                                                                                                              \
                                                                                                                   \
    static const struct lane_type lane_##type = {                                                                  \
        (n), 1, (size), (least), NULL, type##_lanes_make, type##_lanes_search, type##_lane_put};                   \
    LANE_KERNEL(type, how->importance == NULL)

#define LANES_SEARCH_ONE(type, n) lanes_one_search(b, n, (struct vc_best_range)VC_RANGE_##type, found)

static void put_q4_0(float step, const uint8_t *codes, uint8_t *block)
{
    vc_put_half(block, step);
    vc_put_nibbles_32(block + 2, codes);
}

static void put_q5_0(float step, const uint8_t *codes, uint8_t *block)
{
    vc_put_half(block, step);
    vc_put_fifth_bits(block + 2, codes);
    vc_put_nibbles_32(block + 6, codes);
}

static void put_q8_0(float step, const uint8_t *codes, uint8_t *block)
{
    vc_put_half(block, step);
    for (size_t i = 0; i < 32; i++) {
        block[2 + i] = (uint8_t)(codes[i] - 128);
    }
}

LANES_ONE(q4_0, 32, -8, VC_Q4_0_BYTES, lanes_symmetric_make(b, 8, found), LANES_SEARCH_ONE(q4_0, 32),
          put_q4_0(found->d[lane], codes, block))
LANES_ONE(q5_0, 32, -16, VC_Q5_0_BYTES, lanes_symmetric_make(b, 16, found), LANES_SEARCH_ONE(q5_0, 32),
          put_q5_0(found->d[lane], codes, block))
LANES_ONE(q8_0, 32, -128, VC_Q8_0_BYTES, lanes_q8_0_make(b, found), LANES_SEARCH_ONE(q8_0, 32),
          put_q8_0(found->d[lane], codes, block))
LANES_ONE(q2_0, 64, -1, 18, lanes_ternary_make(b, 64, found), LANES_SEARCH_ONE(q2_0, 64),
          vc_q2_0_put(found->d[lane], codes, block))
LANES_ONE(tq1_0, 256, -1, 54, lanes_ternary_make(b, 256, found), lanes_ternary_search(b, found),
          vc_tq1_0_put(found->d[lane], codes, block))
LANES_ONE(tq2_0, 256, -1, 66, lanes_ternary_make(b, 256, found), lanes_ternary_search(b, found),
          vc_tq2_0_put(found->d[lane], codes, block))
#undef LANES_ONE
#undef LANES_SEARCH_ONE
