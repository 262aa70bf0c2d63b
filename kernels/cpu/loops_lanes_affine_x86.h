/* loops_lanes_affine_x86.h - part of loops_lanes_x86.h: types whose parts have a scale and a minimum. Q2_K, Q4_K and Q5_K;
 * Q4_1 and Q5_1 where there are no statistics.
 *
 * A search of one part, in each lane for another block:
 *
 *     begin    the scale from the least to the largest element, and its error
 *     for each try of an inverse scale
 *         add      the codes, and the sums of a straight line through (code, value)
 *         fit      the line: scale and least element
 *         take     in the lanes where the error is less than the best one before */
#pragma once

/* ---- as llama.cpp ---- */

/* The weights of vc_k_parts_find for a part of n elements. Returns their sum. */
ALWAYS fv lanes_weigh(const fv *x, const fv *h, size_t n, bool weighted, fv mean, bool root, fv *w)
{
    fv sum = F_ZERO;
    fv mean_root = root ? f_sqrt(f_squares(x, n) / f_set((float)n)) : F_ZERO;

    for (size_t i = 0; i < n; i++) {
        if (weighted) {
            w[i] = h[i] * f_sqrt(mean + x[i] * x[i]);
            sum = sum + w[i];
        } else {
            w[i] = root ? mean_root + f_magnitude(x[i]) : f_magnitude(x[i]);
        }
    }
    return sum;
}

/* w * |d| or w * d * d, d = scale * l + least - x. */
ALWAYS fv lanes_error(fv x, fv w, fv scale, fv l, fv least, bool magnitude)
{
    fv d = scale * l + least - x;

    return w * (magnitude ? f_magnitude(d) : d * d);
}

/* vc_search_affine of a part: the best so far, and what is tried now. */
struct affine_search {
    fv low, top;     /* the least element and the largest one */
    iv flat;         /* whether the search has nothing to do */
    fv sum_w, sum_x; /* of weights, and of weights times elements */
    fv best;         /* the error of ... */
    fv scale, least; /* ... these */
    fv inverse, was; /* their codes are round(inverse * (x - was)) */
    fv next;         /* the inverse that is tried */
    fv l[32];        /* its codes */
};

/* Sums of weights times codes of a try, and the scale, least element and error that follow from them. */
struct affine_try {
    fv sum_l, sum_ll, sum_xl, d, scale, least, error;
};

/* The first scale: from the least to the largest element. */
ALWAYS void lanes_affine_begin(const fv *x, const fv *w, size_t n, int32_t most, bool magnitude,
                               struct affine_search *s)
{
    s->low = s->top = x[0];
    s->sum_w = w[0];
    s->sum_x = w[0] * x[0];
    for (size_t i = 1; i < n; i++) {
        s->low = f_min(x[i], s->low);
        s->top = f_max(x[i], s->top);
        s->sum_w = s->sum_w + w[i];
        s->sum_x = s->sum_x + w[i] * x[i];
    }
    /* The least element is at most 0: blocks store the negative of it. */
    s->least = s->was = f_select((iv)(s->low > F_ZERO), F_ZERO, s->low);
    s->flat = (iv)(s->top == s->least);
    s->inverse = f_set((float)most) / (s->top - s->least);
    s->scale = 1.0f / s->inverse;
    s->best = F_ZERO;
    for (size_t i = 0; i < n; i++) {
        fv l = f_code(s->inverse * (x[i] - s->least), 0, most);

        s->best = s->best + lanes_error(x[i], w[i], s->scale, l, s->least, magnitude);
    }
}

/* Is any |inverse * (x - least)| too large to be rounded as f_nearest does it, or no number? */
ALWAYS bool lanes_affine_wild(const struct affine_search *s)
{
    fv farthest = f_max(f_magnitude(s->top - s->least), f_magnitude(s->low - s->least));

    return f_any(~(iv)(f_magnitude(s->next) * farthest < f_set(2097152.0f)));
}

/* The scale and the least element that fit the codes of a try best. */
ALWAYS void lanes_affine_fit(const struct affine_search *s, struct affine_try *y)
{
    y->d = s->sum_w * y->sum_ll - y->sum_l * y->sum_l;
    y->scale = (s->sum_w * y->sum_xl - s->sum_x * y->sum_l) / y->d;
    y->least = (y->sum_ll * s->sum_x - y->sum_l * y->sum_xl) / y->d;
    /* A line whose least element would be above 0 goes through the origin instead. */
    iv positive = (iv)(y->least > F_ZERO);
    if (f_any(positive)) { /* seldom, and a division */
        y->least = f_select(positive, F_ZERO, y->least);
        y->scale = f_select(positive, y->sum_xl / y->sum_ll, y->scale);
    }
}

/* Takes a try where it has less error than the best so far. */
ALWAYS void lanes_affine_take(const struct affine_try *y, struct affine_search *s)
{
    iv won = (iv)(y->error < s->best) & (iv)(y->d > F_ZERO);

    s->best = f_select(won, y->error, s->best);
    s->scale = f_select(won, y->scale, s->scale);
    s->inverse = f_select(won, s->next, s->inverse);
    s->was = f_select(won, s->least, s->was);
    s->least = f_select(won, y->least, s->least);
}

/* The code of an element in a try, and what it adds to the sums. */
ALWAYS void lanes_affine_add(fv x, fv w, size_t i, int32_t most, bool wild, struct affine_search *s,
                             struct affine_try *y)
{
    fv up = s->next * (x - s->least);
    fv l = wild ? f_code(up, 0, most) : f_nearest_0(up, f_set((float)most));
    fv wl = w * l;

    s->l[i] = l;
    y->sum_l = y->sum_l + wl;
    y->sum_ll = y->sum_ll + wl * l;
    y->sum_xl = y->sum_xl + wl * x;
}

/* vc_search_affine for two parts that follow each other, side by side: each sum waits for its last addition, and each
 * try for the one before it. Codes are left in s[g].l. */
ALWAYS void lanes_search_affine(const fv *x, const fv *w, size_t n, int32_t most, struct vc_affine_tries t,
                                bool magnitude, struct affine_search *s)
{
    enum { n_sides = 2 };

    SIDES(g) lanes_affine_begin(x + n * g, w + n * g, n, most, magnitude, &s[g]);
    for (int32_t k = 0; k <= t.steps; k++) {
        fv steps = f_set(t.first + t.by * (float)k + (float)most);
        struct affine_try y[n_sides];

        SIDES(g)
        {
            y[g].sum_l = y[g].sum_ll = y[g].sum_xl = y[g].error = F_ZERO;
            s[g].next = f_only(~s[g].flat, steps / (s[g].top - s[g].least));
        }
        /* The fast way to round needs values below 2^21; else the slow one, which gives the same codes. */
        if (lanes_affine_wild(&s[0]) || lanes_affine_wild(&s[1])) {
            for (size_t i = 0; i < n; i++) {
                SIDES(g) lanes_affine_add(x[n * g + i], w[n * g + i], i, most, true, &s[g], &y[g]);
            }
        } else {
            for (size_t i = 0; i < n; i++) {
                SIDES(g) lanes_affine_add(x[n * g + i], w[n * g + i], i, most, false, &s[g], &y[g]);
            }
        }
        SIDES(g) lanes_affine_fit(&s[g], &y[g]);
        for (size_t i = 0; i < n; i++) {
            SIDES(g)
            {
                y[g].error =
                    y[g].error + lanes_error(x[n * g + i], w[n * g + i], y[g].scale, s[g].l[i], y[g].least, magnitude);
            }
        }
        SIDES(g) lanes_affine_take(&y[g], &s[g]);
    }
    SIDES(g)
    {
        for (size_t i = 0; i < n; i++) {
            s[g].l[i] = f_only(~s[g].flat, f_code(s[g].inverse * (x[n * g + i] - s[g].was), 0, most));
        }
        s[g].scale = f_only(~s[g].flat, s[g].scale);
    }
}

/* Steps of scales and minima, block by block: vc_k_levels_find. */
static void lanes_k_levels(const fv *scale, const fv *minimum, const fv *weight, struct vc_k_kind kind, bool weighted,
                           struct lane_found *found)
{
    for (size_t lane = 0; lane < FW; lane++) {
        struct vc_block_room room;

        for (size_t j = 0; j < kind.n_parts; j++) {
            room.scale[j] = scale[j][lane];
            room.minimum[j] = minimum[j][lane];
            room.weight[j] = weighted ? weight[j][lane] : 0.0f;
        }
        const struct vc_k_steps steps = vc_k_levels_find(kind.n_parts, kind.most_level, weighted, &room);
        found->d[lane] = steps.d;
        found->dmin[lane] = steps.dmin;
        for (size_t j = 0; j < kind.n_parts; j++) {
            found->level[j][lane] = (float)room.level[0][j];
            found->minimum[j][lane] = (float)room.level[1][j];
        }
    }
}

/* VC_K_MAKE */
ALWAYS void lanes_k_make(const struct lane_blocks *b, struct vc_k_kind kind, bool weighted, struct lane_found *found)
{
    const struct vc_affine_tries with_statistics = {-0.9f, 0.05f, 36, false};
    const struct vc_affine_tries tries = weighted ? with_statistics : kind.tries;
    const size_t n = 256 / kind.n_parts;
    fv mean = weighted ? f_set(kind.mean) * f_squares(b->x, 256) / 256.0f : F_ZERO;
    fv scale[16];
    fv minimum[16];
    fv weight[16];

    for (size_t j = 0; j < kind.n_parts; j += 2) {
        struct affine_search s[2];
        fv w[64];

        for (size_t g = j; g < j + 2; g++) {
            weight[g] = lanes_weigh(b->x + n * g, b->w + n * g, n, weighted, mean, kind.n_parts == 8, w + n * (g - j));
        }
        if (!weighted && kind.tries.magnitude) {
            lanes_search_affine(b->x + n * j, w, n, kind.most, tries, true, s);
        } else {
            lanes_search_affine(b->x + n * j, w, n, kind.most, tries, false, s);
        }
        for (size_t g = j; g < j + 2; g++) {
            scale[g] = s[g - j].scale;
            minimum[g] = -s[g - j].least;
            for (size_t i = 0; i < n; i++) {
                codes_put(found->codes[n * g + i], s[g - j].l[i]);
            }
        }
    }
    lanes_k_levels(scale, minimum, weight, kind, weighted, found);
    for (size_t j = 0; j < kind.n_parts; j++) {
        fv step = f_half(found->d) * found->level[j];
        fv least = f_half(found->dmin) * found->minimum[j];
        iv none = (iv)(step == F_ZERO);
        bool any = f_any(none);

        found->step[j] = step;
        found->least[j] = -least;
        for (size_t i = n * j; i < n * (j + 1); i++) { /* parts without a step keep the codes of the search */
            fv l = f_code((b->x[i] + least) / step, 0, kind.most);

            if (any) {
                l = f_select(none, f_of_codes(found->codes[i]), l);
            }
            codes_put(found->codes[i], l);
        }
    }
}

/* ---- with the least error ---- */

/* vc_affine of each lane; inverse: of the scale, 0 of 0. */
struct affine_lanes {
    fv scale, least, error, inverse;
};

/* vc_affine_judge of several fits: sets their errors. exact: products of codes and scales are. */
ALWAYS void lanes_judge(const fv *x, const fv *w, size_t n, fv most, bool weighted, bool exact, size_t n_sides,
                        struct affine_lanes *f)
{
    SIDES(t) f[t].error = F_ZERO;
    for (size_t i = 0; i < n; i++) {
        SIDES(t)
        {
            fv l = f_nearest_0((x[i] - f[t].least) * f[t].inverse, most);
            fv d = (exact ? f_plus(l, f[t].scale, f[t].least) : l * f[t].scale + f[t].least) - x[i];

            f[t].error = f[t].error + f_weigh(weighted, w, i, d) * d;
        }
    }
}

/* Sums that all refits of a part share: of weights, and of weights times elements. */
struct affine_sums {
    fv w, x;
};

/* vc_affine_refit of several fits; lanes of `good` that fail become 0. */
ALWAYS void lanes_refit(const fv *x, const fv *w, size_t n, struct vc_affine_range r, bool weighted, size_t n_sides,
                        const struct affine_sums *sums, struct affine_lanes *f, iv *good)
{
    fv most = f_set((float)r.most);
    fv sum_l[4];
    fv sum_ll[4];
    fv sum_xl[4];

    SIDES(t) sum_l[t] = sum_ll[t] = sum_xl[t] = F_ZERO;
    for (size_t i = 0; i < n; i++) {
        SIDES(t)
        {
            fv l = f_nearest_0((x[i] - f[t].least) * f[t].inverse, most);
            fv wl = f_weigh(weighted, w, i, l);

            sum_l[t] = sum_l[t] + wl;
            sum_ll[t] = f_plus_whole(!weighted, wl, l, sum_ll[t]);
            sum_xl[t] = sum_xl[t] + wl * x[i];
        }
    }
    SIDES(t)
    {
        fv d = sums->w * sum_ll[t] - sum_l[t] * sum_l[t];

        f[t].scale = (sums->w * sum_xl[t] - sums->x * sum_l[t]) / d;
        f[t].least = (sum_ll[t] * sums->x - sum_l[t] * sum_xl[t]) / d;
        if (r.minimum) {
            iv positive = (iv)(f[t].least > F_ZERO);
            if (f_any(positive)) { /* seldom, and a division */
                f[t].least = f_select(positive, F_ZERO, f[t].least);
                f[t].scale = f_select(positive, sum_xl[t] / sum_ll[t], f[t].scale);
            }
        }
        f[t].inverse = 1.0f / f[t].scale;
        good[t] &= (iv)(d > F_ZERO) & (iv)(f[t].scale > F_ZERO) & f_is_step(f[t].scale) & f_is_step(f[t].inverse);
    }
}

/* vc_best_affine */
ALWAYS struct affine_lanes lanes_best_affine(const fv *x, const fv *w, size_t n, struct vc_affine_range r,
                                             bool weighted)
{
    enum { n_sides = 3 };
    const fv most = f_set((float)r.most);
    struct affine_sums sums = {F_ZERO, F_ZERO};
    struct affine_lanes best;
    fv least = x[0];
    fv top = x[0];

    for (size_t i = 0; i < n; i++) {
        least = f_min(x[i], least);
        top = f_max(x[i], top);
        sums.w = sums.w + f_weigh(weighted, w, i, f_set(1.0f));
        sums.x = sums.x + f_weigh(weighted, w, i, x[i]);
    }
    if (r.minimum) {
        least = f_select((iv)(least > F_ZERO), F_ZERO, least);
    }
    best.scale = best.inverse = F_ZERO;
    best.least = r.stored ? f_half(least) : least;
    lanes_judge(x, w, n, most, weighted, r.stored, 1, &best);
    for (uint32_t k = 0; k < VC_AFFINE_STARTS; k += n_sides) {
        struct affine_lanes f[n_sides];
        iv good[n_sides];

        SIDES(t)
        {
            float share = (float)r.most - 1.2f + (float)(k + t) * (2.2f / (VC_AFFINE_STARTS - 1));

            f[t].scale = (top - least) / f_set(share);
            f[t].least = least;
            f[t].inverse = 1.0f / f[t].scale;
            good[t] = (iv)(top > least) & f_is_step(f[t].scale) & f_is_step(f[t].inverse);
        }
        for (uint32_t round = 0; round < VC_AFFINE_ROUNDS; round++) {
            lanes_refit(x, w, n, r, weighted, n_sides, &sums, f, good);
        }
        SIDES(t)
        {
            if (r.stored) {
                f[t].scale = f_half(f[t].scale);
                f[t].least = f_half(f[t].least);
                f[t].inverse = 1.0f / f[t].scale;
                good[t] &= f_is_step(f[t].scale) & (iv)(f_magnitude(f[t].least) < f_set(INFINITY));
            }
        }
        lanes_judge(x, w, n, most, weighted, r.stored, n_sides, f);
        SIDES(t)
        {
            iv won = good[t] & (iv)(f[t].error < best.error);

            best.scale = f_select(won, f[t].scale, best.scale);
            best.least = f_select(won, f[t].least, best.least);
            best.error = f_select(won, f[t].error, best.error);
        }
    }
    return best;
}

/* vc_k_part_levels */
ALWAYS void lanes_part_levels(const fv *x, const fv *w, size_t n, int32_t most, int32_t most_level, bool weighted, fv d,
                              fv dmin, const struct affine_lanes *target, fv *scale, fv *minimum)
{
    enum { n_sides = 5 };
    const fv high = f_set((float)most_level);
    fv near_scale = f_only((iv)(d > F_ZERO), f_nearest_0(target->scale / d, high));
    fv near_minimum = f_only((iv)(dmin > F_ZERO), f_nearest_0(-target->least / dmin, high));
    fv best = F_ZERO;
    iv found = (iv)F_ZERO;

    *scale = *minimum = F_ZERO;
    for (int32_t ds = -1; ds <= 1; ds++) {
        fv s = near_scale + f_set((float)ds);
        struct affine_lanes f[n_sides];
        fv m[n_sides];

        SIDES(t)
        {
            m[t] = near_minimum + f_set((float)t - 2.0f);
            f[t].scale = d * s;
            f[t].inverse = f_inverse_or_0(f[t].scale);
            f[t].least = dmin * -m[t];
        }
        lanes_judge(x, w, n, f_set((float)most), weighted, true, n_sides, f); /* 11, 6 and 5 bits */
        SIDES(t)
        {
            iv inside = (iv)(s >= F_ZERO) & (iv)(s <= high) & (iv)(m[t] >= F_ZERO) & (iv)(m[t] <= high);
            iv won = inside & (~found | (iv)(f[t].error < best)); /* the first one that is inside, too */

            found |= inside;
            best = f_select(won, f[t].error, best);
            *scale = f_select(won, s, *scale);
            *minimum = f_select(won, m[t], *minimum);
        }
    }
}

/* vc_k_refit: d and dmin by least squares, for the nearest codes, which are made on the way. */
ALWAYS void lanes_k_refit(const struct lane_blocks *b, size_t n_parts, int32_t most, bool weighted,
                          struct lane_found *found)
{
    const size_t n = 256 / n_parts;
    fv aa = F_ZERO;
    fv ab = F_ZERO;
    fv bb = F_ZERO;
    fv ax = F_ZERO;
    fv bx = F_ZERO;
    fv d;
    fv dmin;

    for (size_t j = 0; j < n_parts; j++) {
        fv step = found->d * found->level[j];
        fv least = found->dmin * -found->minimum[j];
        fv inverse = f_inverse_or_0(step);
        fv below = -found->minimum[j];

        for (size_t i = n * j; i < n * (j + 1); i++) {
            fv l = f_nearest_0((b->x[i] - least) * inverse, f_set((float)most));
            fv a = found->level[j] * l;
            fv wa = f_weigh(weighted, b->w, i, a);
            fv wb = f_weigh(weighted, b->w, i, below);

            aa = aa + wa * a;
            ab = ab + wa * below;
            bb = bb + wb * below;
            ax = ax + wa * b->x[i];
            bx = bx + wb * b->x[i];
        }
    }
    fv det = aa * bb - ab * ab;
    iv good = (iv)(det > f_set(1e-6f) * aa * bb);
    iv alone = ~good & (iv)(aa > F_ZERO) & (iv)(bb == F_ZERO) & (iv)(ax > F_ZERO) & f_is_step(f_half(ax / aa));
    d = f_half((ax * bb - bx * ab) / det);
    dmin = f_half((bx * aa - ax * ab) / det);
    good &= (iv)(d > F_ZERO) & (iv)(dmin >= F_ZERO) & f_is_step(d) & (iv)(f_magnitude(dmin) < f_set(INFINITY));
    found->d = f_select(good, d, f_select(alone, f_half(ax / aa), found->d));
    found->dmin = f_select(good, dmin, found->dmin);
}

/* The nearest codes for steps and minima as they are. */
ALWAYS void lanes_nearest_codes(const struct lane_blocks *b, size_t n_elems, size_t n_parts, int32_t most,
                                struct lane_found *found)
{
    const size_t n = n_elems / n_parts;

    for (size_t j = 0; j < n_parts; j++) {
        fv inverse = f_inverse_or_0(found->step[j]);

        for (size_t i = n * j; i < n * (j + 1); i++) {
            codes_put(found->codes[i], f_nearest_0((b->x[i] - found->least[j]) * inverse, f_set((float)most)));
        }
    }
}

/* vc_k_best */
ALWAYS void lanes_k_best(const struct lane_blocks *b, struct vc_k_kind kind, bool weighted, struct lane_found *found)
{
    const struct vc_affine_range r = {kind.most, true, false};
    const size_t n = 256 / kind.n_parts;
    struct affine_lanes fits[16];
    fv top_scale = F_ZERO;
    fv top_minimum = F_ZERO;

    for (size_t j = 0; j < kind.n_parts; j++) {
        fits[j] = lanes_best_affine(b->x + n * j, b->w + n * j, n, r, weighted);
        top_scale = f_max(fits[j].scale, top_scale);
        top_minimum = f_max(-fits[j].least, top_minimum);
    }
    found->d = f_first_step(top_scale, kind.most_level);
    found->dmin = f_first_step(top_minimum, kind.most_level);
    for (uint32_t round = 0; round < 3; round++) {
        for (size_t j = 0; j < kind.n_parts; j++) {
            lanes_part_levels(b->x + n * j, b->w + n * j, n, kind.most, kind.most_level, weighted, found->d,
                              found->dmin, &fits[j], &found->level[j], &found->minimum[j]);
        }
        lanes_k_refit(b, kind.n_parts, kind.most, weighted, found);
    }
    for (size_t j = 0; j < kind.n_parts; j++) {
        found->step[j] = found->d * found->level[j];
        found->least[j] = found->dmin * -found->minimum[j];
    }
    lanes_nearest_codes(b, 256, kind.n_parts, kind.most, found);
}

/* ---- the types ---- */

/* For a K type: how a block is written, the two searches, and the kernel. Searches are made twice, with weights and
 * without, so that neither has a branch in its loops. */
#define LANES_K(type, parts, size)                                                                                 \
    static void type##_lane_put(const struct lane_found *found, size_t lane, const uint8_t *codes, uint8_t *block) \
    {                                                                                                              \
        const struct vc_k_steps steps = {found->d[lane], found->dmin[lane]};                                       \
        uint8_t level[2][16] = {{0}};                                                                              \
                                                                                                                   \
        for (size_t j = 0; j < (parts); j++) {                                                                     \
            level[0][j] = (uint8_t)found->level[j][lane];                                                          \
            level[1][j] = (uint8_t)found->minimum[j][lane];                                                        \
        }                                                                                                          \
        vc_##type##_put(steps, level, codes, block);                                                               \
    }                                                                                                              \
                                                                                                                   \
    LANES_EITHER(type##_lanes_make, LANES_MAKE_##type)                                                             \
    LANES_EITHER(type##_lanes_search, LANES_SEARCH_##type)                                                         \
                                                                                                                   \
    static const struct lane_type lane_##type = {                                                                  \
        256, (parts), (size), 0, NULL, type##_lanes_make, type##_lanes_search, type##_lane_put};                   \
    LANE_KERNEL(type, true)

#define LANES_MAKE_q2_k(weighted)   lanes_k_make(b, (struct vc_k_kind)VC_K_KIND_q2_k, weighted, found)
#define LANES_MAKE_q4_k(weighted)   lanes_k_make(b, (struct vc_k_kind)VC_K_KIND_q4_k, weighted, found)
#define LANES_MAKE_q5_k(weighted)   lanes_k_make(b, (struct vc_k_kind)VC_K_KIND_q5_k, weighted, found)
#define LANES_SEARCH_q2_k(weighted) lanes_k_best(b, (struct vc_k_kind)VC_K_KIND_q2_k, weighted, found)
#define LANES_SEARCH_q4_k(weighted) lanes_k_best(b, (struct vc_k_kind)VC_K_KIND_q4_k, weighted, found)
#define LANES_SEARCH_q5_k(weighted) lanes_k_best(b, (struct vc_k_kind)VC_K_KIND_q5_k, weighted, found)

LANES_K(q2_k, 16, VC_Q2_K_BYTES)
LANES_K(q4_k, 8, VC_Q4_K_BYTES)
LANES_K(q5_k, 8, VC_Q5_K_BYTES)
#undef LANES_K

/* Q4_1 and Q5_1: one part, no minimum of 0. The reference's codes are cut off, not rounded (vc_affine_32). */
ALWAYS void lanes_affine_32_make(const struct lane_blocks *b, int32_t most, struct lane_found *found)
{
    fv least = b->x[0];
    fv top = b->x[0];

    for (size_t i = 1; i < 32; i++) {
        least = f_min(b->x[i], least);
        top = f_max(b->x[i], top);
    }
    found->d = (top - least) / f_set((float)most);
    found->dmin = least;
    found->step[0] = f_half(found->d);
    found->least[0] = f_half(least);
    fv inverse = f_inverse_or_0(found->d);
    for (size_t i = 0; i < 32; i++) {
        fv t = (b->x[i] - least) * inverse + f_set(0.5f);

        codes_put(found->codes[i], f_min(f_max(t, F_ZERO), f_set((float)most)));
    }
}

ALWAYS void lanes_affine_32_search(const struct lane_blocks *b, int32_t most, struct lane_found *found)
{
    const struct vc_affine_range r = {most, false, true};
    struct affine_lanes f = lanes_best_affine(b->x, NULL, 32, r, false);

    found->d = found->step[0] = f.scale;
    found->dmin = found->least[0] = f.least;
    lanes_nearest_codes(b, 32, 1, most, found);
}

#define LANES_AFFINE_32(type, most, size)                                                                          \
    static void type##_lanes_make(const struct lane_blocks *b, struct lane_found *found)                           \
    {                                                                                                              \
        lanes_affine_32_make(b, (most), found);                                                                    \
    }                                                                                                              \
                                                                                                                   \
    static void type##_lanes_search(const struct lane_blocks *b, struct lane_found *found)                         \
    {                                                                                                              \
        lanes_affine_32_search(b, (most), found);                                                                  \
    }                                                                                                              \
                                                                                                                   \
    static void type##_lane_put(const struct lane_found *found, size_t lane, const uint8_t *codes, uint8_t *block) \
    {                                                                                                              \
        vc_put_half(block, found->d[lane]);                                                                        \
        vc_put_half(block + 2, found->dmin[lane]);                                                                 \
        if ((most) == 31) {                                                                                        \
            vc_put_fifth_bits(block + 4, codes);                                                                   \
        }                                                                                                          \
        vc_put_nibbles_32(block + (size)-16, codes);                                                               \
    }                                                                                                              \
                                                                                                                   \
    static const struct lane_type lane_##type = {                                                                  \
        32, 1, (size), 0, NULL, type##_lanes_make, type##_lanes_search, type##_lane_put};                          \
    LANE_KERNEL(type, how->importance == NULL)

LANES_AFFINE_32(q4_1, 15, 20)
LANES_AFFINE_32(q5_1, 31, 24)
#undef LANES_AFFINE_32
