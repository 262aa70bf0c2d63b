/* loops_lanes_grid_x86.h - part of loops_lanes_x86.h: codes that stand for numbers of a table. IQ4_NL and IQ4_XS,
 * NVFP4 and MXFP4, with both encoders. */
#pragma once

/* ---- IQ4_NL, IQ4_XS ---- */

/* The values of IQ4, and a tree of the middles between them: four compares find the nearest value. */
static const struct f_table iq4_table = {{-127.0f, -104.0f, -83.0f, -65.0f, -49.0f, -35.0f, -22.0f, -10.0f, 1.0f, 13.0f,
                                          25.0f, 38.0f, 53.0f, 69.0f, 89.0f, 113.0f},
                                         {{-4.5f},
                                          {-57.0f, 45.5f},
                                          {-93.5f, -28.5f, 19.0f, 79.0f},
                                          {-115.5f, -74.0f, -42.0f, -16.0f, 7.0f, 31.5f, 61.0f, 101.0f}}};

/* vc_iq4_nearest */
ALWAYS fv f_iq4(fv x)
{
    return f_of_table(iq4_table.value, f_number(&iq4_table, x));
}

/* The codes of 32 elements (vc_iq4_code), for the inverse of their step. */
ALWAYS void lanes_iq4_codes(const fv *x, fv inverse, uint8_t (*codes)[FW])
{
    for (size_t i = 0; i < 32; i++) {
        codes_put(codes[i], f_of_int(f_number(&iq4_table, inverse * x[i])));
    }
}

/* vc_search_iq4 */
ALWAYS fv lanes_search_iq4(const fv *x, const fv *w, bool weighted)
{
    enum { n_sides = 2 };
    fv m = f_largest(x, 32);
    iv tiny = (iv)(f_magnitude(m) < f_set(VC_GGML_TINY));
    fv scale = F_ZERO;
    fv best = F_ZERO;

    for (int32_t k = -8; k <= 7; k += n_sides) {
        fv inverse[n_sides];
        fv a[n_sides];
        fv b[n_sides];

        SIDES(t)
        {
            int32_t step = k + (int32_t)t;

            inverse[t] = step == -8 ? 1.0f / (-m / f_set(-127.0f)) : f_set((float)step - 127.0f) / m;
            a[t] = b[t] = F_ZERO;
        }
        for (size_t i = 0; i < 32; i++) {
            fv weight = weighted ? w[i] : x[i] * x[i];

            SIDES(t)
            {
                fv q = f_iq4(inverse[t] * x[i]);

                a[t] = a[t] + weight * q * x[i];
                b[t] = b[t] + weight * q * q;
            }
        }
        SIDES(t)
        {
            iv won = (iv)(b[t] > F_ZERO) & (iv)(a[t] * a[t] > best * b[t]);

            won = k + (int32_t)t == -8 ? ~(iv)F_ZERO : won;
            scale = f_select(won, a[t] / b[t], scale);
            best = f_select(won, scale * a[t], best);
        }
    }
    return f_only(~tiny, scale);
}

/* The sums of a fit to the codes of several inverses. */
ALWAYS void lanes_iq4_fit(const fv *x, const fv *w, bool weighted, size_t n_sides, const fv *inverse, fv *a, fv *b)
{
    SIDES(t) a[t] = b[t] = F_ZERO;
    for (size_t i = 0; i < 32; i++) {
        SIDES(t)
        {
            fv q = f_iq4(x[i] * inverse[t]);
            fv wq = f_weigh(weighted, w, i, q);

            a[t] = a[t] + wq * x[i];
            b[t] = f_plus_whole(!weighted, wq, q, b[t]);
        }
    }
}

/* vc_iq4_error of several steps, without the fit. */
ALWAYS void lanes_iq4_errors(const fv *x, const fv *w, bool weighted, size_t n_sides, const fv *s, const fv *inverse,
                             fv *error)
{
    SIDES(t) error[t] = F_ZERO;
    for (size_t i = 0; i < 32; i++) {
        SIDES(t)
        {
            fv d = x[i] - f_iq4(x[i] * inverse[t]) * s[t];

            error[t] = error[t] + f_weigh(weighted, w, i, d) * d;
        }
    }
}

/* vc_best_iq4 */
ALWAYS fv lanes_best_iq4(const fv *x, const fv *w, bool weighted, bool stored)
{
    enum { n_sides = 2 };
    fv top = f_magnitude(f_largest(x, 32));
    fv least = F_ZERO;
    fv best = F_ZERO;

    for (size_t i = 0; i < 32; i++) {
        least = least + f_weigh(weighted, w, i, x[i]) * x[i];
    }
    for (int32_t k = 0; k < 32; k += n_sides) {
        fv s[n_sides];
        fv inverse[n_sides];
        fv a[n_sides];
        fv b[n_sides];
        fv e[n_sides];
        iv good[n_sides];

        SIDES(t)
        {
            int32_t start = k + (int32_t)t;

            s[t] = f_set((start < 16 ? 1.0f : -1.0f) * (0.7f + (float)(start % 16) * 0.03f)) * top / f_set(120.0f);
            inverse[t] = 1.0f / s[t];
            good[t] = f_is_step(s[t]) & f_is_step(inverse[t]);
        }
        lanes_iq4_fit(x, w, weighted, n_sides, inverse, a, b);
        SIDES(t)
        {
            s[t] = f_only((iv)(b[t] != F_ZERO), a[t] / b[t]);
            s[t] = stored ? f_stored_step(s[t]) : s[t];
            inverse[t] = 1.0f / s[t];
            good[t] &= f_is_step(s[t]) & f_is_step(inverse[t]);
        }
        lanes_iq4_errors(x, w, weighted, n_sides, s, inverse, e);
        SIDES(t)
        {
            iv won = good[t] & (iv)(e[t] < least);

            least = f_select(won, e[t], least);
            best = f_select(won, s[t], best);
        }
    }
    return best;
}

/* What a block of one part, or a part, stores: a step and its codes. */
ALWAYS void lanes_iq4_part(const struct lane_blocks *b, size_t j, fv inverse, fv step, struct lane_found *found)
{
    lanes_iq4_codes(b->x + 32 * j, inverse, found->codes + 32 * j);
    found->step[j] = step;
    found->least[j] = f_set(-0.0f);
}

ALWAYS void lanes_iq4_nl_make(const struct lane_blocks *b, bool weighted, struct lane_found *found)
{
    fv mean = weighted ? 2.0f * f_squares(b->x, 32) / 32.0f : F_ZERO;
    fv w[32];

    for (size_t i = 0; weighted && i < 32; i++) {
        w[i] = b->w[i] * f_sqrt(mean + b->x[i] * b->x[i]);
    }
    found->d = lanes_search_iq4(b->x, w, weighted);
    lanes_iq4_part(b, 0, f_inverse_or_0(found->d), f_half(found->d), found);
}

ALWAYS void lanes_iq4_nl_search(const struct lane_blocks *b, bool weighted, struct lane_found *found)
{
    found->d = lanes_best_iq4(b->x, b->w, weighted, true);
    lanes_iq4_part(b, 0, f_inverse_or_0(found->d), found->d, found);
}

ALWAYS void lanes_iq4_xs_make(const struct lane_blocks *b, bool weighted, struct lane_found *found)
{
    fv mean = weighted ? 2.0f * f_squares(b->x, 256) / 256.0f : F_ZERO;
    fv scale[8];

    for (size_t j = 0; j < 8; j++) {
        fv w[32];

        for (size_t i = 0; weighted && i < 32; i++) {
            w[i] = b->w[32 * j + i] * f_sqrt(mean + b->x[32 * j + i] * b->x[32 * j + i]);
        }
        scale[j] = lanes_search_iq4(b->x + 32 * j, w, weighted);
    }
    found->d = -f_largest(scale, 8) / f_set(32.0f);
    fv inverse = f_inverse_or_0(found->d);
    for (size_t j = 0; j < 8; j++) {
        found->level[j] = f_code(inverse * scale[j], -32, 31);
        lanes_iq4_part(b, j, f_inverse_or_0(found->d * found->level[j]), f_half(found->d) * found->level[j], found);
    }
}

/* The level of a part that has the least error, of three; what the part adds to the sums of a fit of d. */
ALWAYS fv lanes_iq4_level(const fv *x, const fv *w, bool weighted, fv scale, fv d, fv *sum_a, fv *sum_b)
{
    enum { n_sides = 3 };
    const fv low = f_set(-32.0f);
    const fv high = f_set(31.0f);
    fv near_level = f_only((iv)(d != F_ZERO), f_nearest(scale / d, low, high));
    fv level[n_sides];
    fv s[n_sides];
    fv inverse[n_sides];
    fv error[n_sides];
    fv a;
    fv b;

    SIDES(t)
    {
        level[t] = f_min(f_max(near_level + f_set((float)t - 1.0f), low), high);
        s[t] = d * level[t];
        inverse[t] = f_inverse_or_0(s[t]);
    }
    lanes_iq4_errors(x, w, weighted, n_sides, s, inverse, error);
    for (size_t t = 1; t < n_sides; t++) {
        iv won = (iv)(error[t] < error[0]);

        level[0] = f_select(won, level[t], level[0]);
        inverse[0] = f_select(won, inverse[t], inverse[0]);
        error[0] = f_select(won, error[t], error[0]);
    }
    lanes_iq4_fit(x, w, weighted, 1, inverse, &a, &b);
    *sum_a = *sum_a + level[0] * a;
    *sum_b = *sum_b + level[0] * level[0] * b;
    return level[0];
}

ALWAYS void lanes_iq4_xs_search(const struct lane_blocks *b, bool weighted, struct lane_found *found)
{
    fv scale[8];

    for (size_t j = 0; j < 8; j++) {
        scale[j] = lanes_best_iq4(b->x + 32 * j, b->w + 32 * j, weighted, false);
    }
    found->d = f_first_step(f_largest(scale, 8), -32);
    for (uint32_t round = 0; round < 3; round++) {
        fv sum_a = F_ZERO;
        fv sum_b = F_ZERO;
        fv d;

        for (size_t j = 0; j < 8; j++) {
            found->level[j] =
                lanes_iq4_level(b->x + 32 * j, b->w + 32 * j, weighted, scale[j], found->d, &sum_a, &sum_b);
        }
        d = f_half(sum_a / sum_b);
        found->d = f_select((iv)(sum_b > F_ZERO) & f_is_step(d), d, found->d);
    }
    for (size_t j = 0; j < 8; j++) {
        fv step = found->d * found->level[j];

        lanes_iq4_part(b, j, f_inverse_or_0(step), step, found);
    }
}

/* As vc_iq4_nl_search writes it. */
static void iq4_nl_lane_put(const struct lane_found *found, size_t lane, const uint8_t *codes, uint8_t *block)
{
    vc_put_half(block, found->d[lane]);
    vc_put_nibbles_32(block + 2, codes);
}

static void iq4_xs_lane_put(const struct lane_found *found, size_t lane, const uint8_t *codes, uint8_t *block)
{
    int32_t levels[8];

    for (size_t j = 0; j < 8; j++) {
        levels[j] = (int32_t)found->level[j][lane];
        vc_put_nibbles_32(block + 8 + 16 * j, codes + 32 * j);
    }
    vc_iq4_xs_put_scales(found->d[lane], levels, block);
}

/* ---- NVFP4, MXFP4 ---- */

/* The numbers of E2M1, doubled, by their codes: blocks have half of the scale. */
static const float e2m1_twice[16] = {0.0f,  1.0f,  2.0f,  3.0f,  4.0f,  6.0f,  8.0f,  12.0f,
                                     -0.0f, -1.0f, -2.0f, -3.0f, -4.0f, -6.0f, -8.0f, -12.0f};

/* vc_ue4m3_value of codes below 0x7f, halved. */
ALWAYS fv f_ue4m3_half(iv code)
{
    iv normal = ((code >> 3) + 120) << 23 | (code & 7) << 20;

    return f_select(code > 7, (fv)normal, f_of_int(code) * f_set(1.0f / 512.0f)) * f_set(0.5f);
}

/* |y - a| for a magnitude y of E2M1. product: 12 halves are a number, so the product is exact and may be fused. */
ALWAYS fv f_e2m1_difference(size_t k, fv half, fv a, bool product)
{
    fv twice = f_set(e2m1_twice[k]);

    return f_magnitude(product ? f_minus(twice, half, a) : twice * half - a);
}

/* |x - y| of vc_e2m1_code's y: the least difference to a magnitude. */
ALWAYS fv f_e2m1_error(fv x, fv half, bool product)
{
    fv a = f_magnitude(x);
    fv least = a;

    _Pragma("GCC unroll 8") for (size_t k = 1; k < 8; k++)
    {
        least = f_min(f_e2m1_difference(k, half, a, product), least);
    }
    return least;
}

/* vc_e2m1_code: of equal differences the lower code; a negative one where x is below 0. */
ALWAYS fv f_e2m1_code(fv x, fv half)
{
    fv a = f_magnitude(x);
    fv least = a;
    fv code = F_ZERO;

    _Pragma("GCC unroll 8") for (size_t k = 1; k < 8; k++)
    {
        fv error = f_e2m1_difference(k, half, a, false);

        code = f_select((iv)(error < least), f_set((float)k), code);
        least = f_min(error, least);
    }
    return code + f_only((iv)(x < F_ZERO) & (iv)(code > F_ZERO), f_set(8.0f));
}

/* The codes of a part of n elements. */
ALWAYS void lanes_e2m1_codes(const fv *x, size_t n, fv half, uint8_t (*codes)[FW])
{
    for (size_t i = 0; i < n; i++) {
        codes_put(codes[i], f_e2m1_code(x[i], half));
    }
}

/* Codes and steps for the scales found->level. */
ALWAYS void lanes_nvfp4_codes(const struct lane_blocks *b, struct lane_found *found)
{
    for (size_t j = 0; j < 4; j++) {
        fv half = f_ue4m3_half(f_to_int(found->level[j]));

        found->step[j] = half;
        found->least[j] = f_set(-0.0f);
        lanes_e2m1_codes(b->x + 16 * j, 16, half, found->codes + 16 * j);
    }
}

/* vc_nvfp4_make */
static void nvfp4_lanes_make(const struct lane_blocks *b, struct lane_found *found)
{
    for (size_t j = 0; j < 4; j++) {
        fv sixth = f_magnitude(f_largest(b->x + 16 * j, 16)) / f_set(6.0f);

        for (size_t lane = 0; lane < FW; lane++) {
            found->level[j][lane] = (float)vc_ue4m3_of(sixth[lane]);
        }
    }
    lanes_nvfp4_codes(b, found);
}

/* The scale of part j, for the reference's: from four below it to nine above it. */
ALWAYS fv lanes_nvfp4_scale(const fv *x, const fv *w, bool weighted, fv near_code)
{
    enum { n_sides = 2 };
    fv first = f_min(f_max(near_code - f_set(4.0f), f_set(1.0f)), f_set(126.0f));
    fv last = f_min(near_code + f_set(9.0f), f_set(126.0f));
    iv some = (iv)(f_magnitude(f_largest(x, 16)) > F_ZERO);
    fv best = near_code;
    fv least = F_ZERO;

    for (uint32_t k = 0; k < 14; k += n_sides) {
        fv code[n_sides];
        fv half[n_sides];
        fv error[n_sides];

        SIDES(t)
        {
            code[t] = first + f_set((float)(k + t));
            half[t] = f_ue4m3_half(f_to_int(code[t]));
            error[t] = F_ZERO;
        }
        for (size_t i = 0; i < 16; i++) {
            SIDES(t)
            {
                fv d = f_e2m1_error(x[i], half[t], true);

                error[t] = error[t] + f_weigh(weighted, w, i, d) * d;
            }
        }
        SIDES(t)
        {
            iv won = k + t == 0 ? some : some & (iv)(code[t] <= last) & (iv)(error[t] < least);

            best = f_select(won, code[t], best);
            least = f_select(won, error[t], least);
        }
    }
    return best;
}

ALWAYS void lanes_nvfp4_search(const struct lane_blocks *b, bool weighted, struct lane_found *found)
{
    for (size_t j = 0; j < 4; j++) {
        fv sixth = f_magnitude(f_largest(b->x + 16 * j, 16)) / f_set(6.0f);
        fv near_code;

        for (size_t lane = 0; lane < FW; lane++) {
            near_code[lane] = (float)vc_ue4m3_of(sixth[lane]);
        }
        found->level[j] = lanes_nvfp4_scale(b->x + 16 * j, b->w + 16 * j, weighted, near_code);
    }
    lanes_nvfp4_codes(b, found);
}

/* Four scales, then the codes of each part: element i with element i + 8. */
static void nvfp4_lane_put(const struct lane_found *found, size_t lane, const uint8_t *codes, uint8_t *block)
{
    for (size_t j = 0; j < 4; j++) {
        block[j] = (uint8_t)found->level[j][lane];
        for (size_t i = 0; i < 8; i++) {
            block[4 + 8 * j + i] = (uint8_t)(codes[16 * j + i] | codes[16 * j + 8 + i] << 4);
        }
    }
}

/* vc_e8m0_half */
ALWAYS fv f_e8m0_half(fv exponent)
{
    iv e = f_to_int(exponent);
    iv least = (e & 1) * 0x00200000 + 0x00200000; /* of 0 and 1 */

    return f_select(e > 1, (fv)((e - 1) << 23), (fv)least);
}

ALWAYS void lanes_mxfp4_codes(const struct lane_blocks *b, fv exponent, struct lane_found *found)
{
    found->level[0] = exponent;
    found->step[0] = f_e8m0_half(exponent);
    found->least[0] = f_set(-0.0f);
    lanes_e2m1_codes(b->x, 32, found->step[0], found->codes);
}

/* The exponent of the reference encoder. */
ALWAYS fv lanes_mxfp4_near(const struct lane_blocks *b)
{
    fv top = f_magnitude(f_largest(b->x, 32));
    fv exponent;

    for (size_t lane = 0; lane < FW; lane++) {
        float a = top[lane];

        exponent[lane] = a > 0.0f ? (float)vc_clamp_i32(vc_floor_log2f(a) - 2 + 127, 0, 254) : 0.0f;
    }
    return exponent;
}

/* The reference's exponent is the only candidate. */
static void mxfp4_lanes_make(const struct lane_blocks *b, struct lane_found *found)
{
    lanes_mxfp4_codes(b, lanes_mxfp4_near(b), found);
}

ALWAYS void lanes_mxfp4_search(const struct lane_blocks *b, bool weighted, struct lane_found *found)
{
    enum { n_sides = 3 };
    fv near_exponent = lanes_mxfp4_near(b);
    fv exponent[n_sides];
    fv half[n_sides];
    fv error[n_sides];

    SIDES(t)
    {
        exponent[t] = f_min(f_max(near_exponent + f_set((float)t - 1.0f), F_ZERO), f_set(254.0f));
        half[t] = f_e8m0_half(exponent[t]);
        error[t] = F_ZERO;
    }
    for (size_t i = 0; i < 32; i++) {
        SIDES(t)
        {
            fv d = f_e2m1_error(b->x[i], half[t], false);

            error[t] = error[t] + f_weigh(weighted, b->w, i, d) * d;
        }
    }
    for (size_t t = 1; t < n_sides; t++) {
        iv won = (iv)(error[t] < error[0]);

        exponent[0] = f_select(won, exponent[t], exponent[0]);
        error[0] = f_select(won, error[t], error[0]);
    }
    lanes_mxfp4_codes(b, exponent[0], found);
}

static void mxfp4_lane_put(const struct lane_found *found, size_t lane, const uint8_t *codes, uint8_t *block)
{
    block[0] = (uint8_t)found->level[0][lane];
    vc_put_nibbles_32(block + 1, codes);
}

/* ---- the types ---- */

#define LANES_MAKE_iq4_nl(weighted)   lanes_iq4_nl_make(b, weighted, found)
#define LANES_MAKE_iq4_xs(weighted)   lanes_iq4_xs_make(b, weighted, found)
#define LANES_SEARCH_iq4_nl(weighted) lanes_iq4_nl_search(b, weighted, found)
#define LANES_SEARCH_iq4_xs(weighted) lanes_iq4_xs_search(b, weighted, found)
#define LANES_SEARCH_nvfp4(weighted)  lanes_nvfp4_search(b, weighted, found)
#define LANES_SEARCH_mxfp4(weighted)  lanes_mxfp4_search(b, weighted, found)

LANES_EITHER(iq4_nl_lanes_make, LANES_MAKE_iq4_nl)
LANES_EITHER(iq4_nl_lanes_search, LANES_SEARCH_iq4_nl)
LANES_EITHER(iq4_xs_lanes_make, LANES_MAKE_iq4_xs)
LANES_EITHER(iq4_xs_lanes_search, LANES_SEARCH_iq4_xs)
LANES_EITHER(nvfp4_lanes_search, LANES_SEARCH_nvfp4)
LANES_EITHER(mxfp4_lanes_search, LANES_SEARCH_mxfp4)

/* Elements, parts, bytes; then the table and the functions. */
static const struct lane_type lane_iq4_nl = {
    32, 1, 18, 0, iq4_table.value, iq4_nl_lanes_make, iq4_nl_lanes_search, iq4_nl_lane_put};
static const struct lane_type lane_iq4_xs = {
    256, 8, 136, 0, iq4_table.value, iq4_xs_lanes_make, iq4_xs_lanes_search, iq4_xs_lane_put};
static const struct lane_type lane_nvfp4 = {
    64, 4, 36, 0, e2m1_twice, nvfp4_lanes_make, nvfp4_lanes_search, nvfp4_lane_put};

LANE_KERNEL(iq4_nl, true)
LANE_KERNEL(iq4_xs, true)
static const struct lane_type lane_mxfp4 = {
    32, 1, 17, 0, e2m1_twice, mxfp4_lanes_make, mxfp4_lanes_search, mxfp4_lane_put};

LANE_KERNEL(nvfp4, true)
LANE_KERNEL(mxfp4, true)
