/* loops_int8.h - part of loops.h: int8 codes from weights, with own scales (int8_rows) or given ones, and values from
 * codes.
 *
 * A strip takes three steps: lay out the scale (and zero point) of every element, encode with errors in f32, and
 * where a clamp or an infinity makes these inexact, take the errors again in f64. */
#pragma once

/* int8_rows: magnitude and scale of group number g, whose n elements start at x. Strips come in order, so groups do,
 * too, and op->n_made tells which are done; a group may reach beyond the strip that meets it first. */
static void make_group(struct op *op, size_t g, const float *x, size_t n)
{
    uint32_t b = absmax_run(x, n);

    vc_put_u32(op->bits, g, b);
    vc_put_f32(op->made, g, b < VC_F32_INF_BITS ? vc_int8_scale(b) : 1.0f);
    op->n_made++;
}

/* n times v. */
static inline void fill(float *restrict to, size_t n, float v)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = v;
    }
}

/* Scale of every element of a strip in s (and zero point in z), by groups of rows; s and z have room for STRIP. Makes
 * the scales that are not there yet (int8_rows). Returns how far from element to element: 0 where one scale serves
 * the whole strip, which is then s[0] alone, else 1. */
static size_t scales_of_groups(struct op *op, size_t first, size_t n, float *s, float *z)
{
    size_t per_row = op->row_len / op->group + (op->row_len % op->group != 0);
    size_t col = first % op->row_len;
    size_t g = first / op->row_len * per_row + col / op->group;
    size_t in_group = col % op->group; /* not 0 only in the first one */
    size_t n_segments = 0;

    for (size_t i = 0; i < n; g++, n_segments++, in_group = 0) {
        size_t left = vc_min_size(op->group - in_group, op->row_len - col);
        size_t m = vc_min_size(left, n - i);

        if (op->bits != NULL && g == op->n_made) {
            make_group(op, g, (const float *)op->x + first + i, left);
        }
        s[i] = vc_get_f32(op->scale, g);
        z[i] = op->zero == NULL ? 0.0f : (float)op->zero[g];
        if (m < n) {
            fill(s + i, m, s[i]);
            fill(z + i, op->zero == NULL ? 0 : m, z[i]);
        }
        i += m;
        col = col + m == op->row_len ? 0 : col + m;
    }
    return n_segments > 1;
}

/* The same by channels of op->map, whose scales are all given. */
static size_t scales_of_channels(const struct op *op, size_t first, size_t n, float *s, float *z)
{
    struct axis_at at = axis_start(op->map, first);
    size_t n_segments = 0;

    if (op->map->inner == 1) { /* neighbours are neighbouring channels */
        for (size_t i = 0, m; i < n; i += m, at.channel = 0) {
            m = vc_min_size(op->map->n_channels - at.channel, n - i);
            vc_get_run_f32(op->scale, at.channel, m, s + i);
            for (size_t k = 0; op->zero != NULL && k < m; k++) {
                z[i + k] = (float)op->zero[at.channel + k];
            }
        }
        return 1;
    }
    for (size_t i = 0; i < n; n_segments++) {
        size_t m = vc_min_size(at.left, n - i);

        s[i] = vc_get_f32(op->scale, at.channel);
        z[i] = op->zero == NULL ? 0.0f : (float)op->zero[at.channel];
        if (m > 1 && m < n) {
            fill(s + i, m, s[i]);
            fill(z + i, op->zero == NULL ? 0 : m, z[i]);
        }
        i += m;
        axis_step(op->map, &at, m);
    }
    return n_segments > 1;
}

static inline float clamp(float v, float lo, float hi)
{
    v = v < hi ? v : hi;
    return v > lo ? v : lo;
}

/* The first elements of a strip with intrinsics; the rest is left to the loops. Returns how many. */
#ifdef VC_HAVE_X86
#define encode_own_first   encode_own_x86
#define encode_given_first encode_given_x86
#else
#define encode_own_first(x, n, s, step, q, strip)                  strip_start(strip, x)
#define encode_given_first(x, n, s, z, step, z_step, lo, q, strip) strip_start(strip, x)
#endif

/* Codes, errors and counters of a strip with own scales: |x / s| < 127.5 (docs/numerics.md), so nothing clips, and
 * adding ROUND_MAGIC rounds as rintf does. y = r * s is x rounded to a grid, so e is exact (head of loops.h). step: 0
 * or 1, how far from scale to scale; a constant at each call, so that the compiler makes two loops of this. */
static inline void encode_own(const float *restrict x, size_t n, const float *restrict s, size_t step,
                              int8_t *restrict q, struct strip *restrict strip)
{
    size_t i = encode_own_first(x, n, s, step, q, strip);
    uint32_t most = strip->max_bits;
    uint32_t before = strip->zeros_before;
    uint32_t after = strip->zeros_after;

    for (; i < n; i++) {
        float v = vc_get_f32(x, i);
        float t = v / s[i * step] + ROUND_MAGIC;
        float r = t - ROUND_MAGIC;
        float e = v - r * s[i * step];

        q[i] = (int8_t)(uint8_t)vc_f32_bits(t); /* the integer is in the low bits */
        strip->e[i] = e;
        most = larger(most, vc_f32_magnitude(e));
        before += v == 0.0f;
        after += r == 0.0f;
    }
    strip->max_bits = most;
    strip->zeros_before = before;
    strip->zeros_after = after;
    strip->wide = most >= VC_F32_INF_BITS; /* of Inf and NaN */
}

/* The same with given scales, and zero points where z_step or z[0] is not 0: codes may clip at lo (-127 or -128) and
 * 127. A clipped code is far from x, so its error may be inexact: the strip is wide then. */
static inline void encode_given(const float *restrict x, size_t n, const float *restrict s, const float *restrict z,
                                size_t step, size_t z_step, float lo, int8_t *restrict q, struct strip *restrict strip)
{
    size_t i = encode_given_first(x, n, s, z, step, z_step, lo, q, strip);
    uint32_t most = strip->max_bits;
    uint32_t before = strip->zeros_before;
    uint32_t after = strip->zeros_after;
    uint32_t clipped = strip->clipped;

    for (; i < n; i++) {
        float v = vc_get_f32(x, i);
        float t = clamp(v / s[i * step], -512.0f, 512.0f); /* keeps the sums exact; beyond the range either way */
        float c = t + ROUND_MAGIC - ROUND_MAGIC + z[i * z_step];
        float k = clamp(c, lo, 127.0f);
        float y = (k - z[i * z_step]) * s[i * step];
        float e = v - y;

        q[i] = (int8_t)(uint8_t)vc_f32_bits(k + ROUND_MAGIC);
        strip->e[i] = e;
        most = larger(most, vc_f32_magnitude(e));
        before += v == 0.0f;
        after += y == 0.0f;
        clipped += c != k;
    }
    strip->max_bits = most;
    strip->zeros_before = before;
    strip->zeros_after = after;
    strip->clipped = clipped;
    strip->wide = most >= VC_F32_INF_BITS || clipped != 0;
}

/* Errors of a strip again, in f64, from the codes that are in q. */
static void int8_errors_wide(const float *x, size_t n, const float *s, const float *z, size_t step, size_t z_step,
                             const int8_t *q, struct strip *strip)
{
    for (size_t i = 0; i < n; i++) {
        float v = vc_get_f32(x, i);
        float y = vc_int8_decode(q[i], s[i * step], (int32_t)z[i * z_step]);
        int ok = vc_f32_magnitude(v) < VC_F32_INF_BITS && vc_f32_magnitude(y) < VC_F32_INF_BITS;

        strip->xw[i] = ok ? (double)v : 0.0;
        strip->ew[i] = ok ? fabs((double)v - (double)y) : 0.0;
    }
    strip->max_wide = max_f64(strip->ew, n);
}

/* The strip function of int8_rows, int8_rows_given and int8_axis_given. The calls differ in constants only: the
 * compiler makes a loop of its own for each. */
static void strip_int8(struct op *op, size_t first, size_t n, struct strip *strip)
{
    const float *x = (const float *)op->x + first;
    int8_t *q = (int8_t *)op->out + first;
    float s[STRIP], z[STRIP];

    s[0] = 1.0f;
    z[0] = 0.0f;
    size_t step = op->map != NULL ? scales_of_channels(op, first, n, s, z) : scales_of_groups(op, first, n, s, z);
    size_t z_step = op->zero == NULL ? 0 : step;
    if (op->bits != NULL) {
        if (step == 0) {
            encode_own(x, n, s, 0, q, strip);
        } else {
            encode_own(x, n, s, 1, q, strip);
        }
    } else if (step == 0) {
        encode_given(x, n, s, z, 0, 0, op->zero == NULL ? -127.0f : -128.0f, q, strip);
    } else {
        encode_given(x, n, s, z, 1, z_step, op->zero == NULL ? -127.0f : -128.0f, q, strip);
    }
    if (strip->wide) {
        int8_errors_wide(x, n, s, z, step, z_step, q, strip);
    }
}

/* Scales are made on the way, that of a group before its codes. */
int VC_VARIANT(int8_rows)(const float *x, size_t n_rows, size_t row_len, size_t group, uint32_t *bits, float *scale,
                          int8_t *q, struct vc_tile_stats *stats)
{
    struct op op = {.strip = strip_int8,
                    .x = x,
                    .out = q,
                    .row_len = row_len,
                    .group = group,
                    .bits = bits,
                    .made = scale,
                    .scale = scale};

    run_tile(&op, n_rows, row_len, stats);
    return 0;
}

int VC_VARIANT(int8_rows_given)(const float *x, size_t n_rows, size_t row_len, size_t group, const float *scale,
                                const int8_t *zero, int8_t *q, struct vc_tile_stats *stats)
{
    struct op op = {
        .strip = strip_int8, .x = x, .out = q, .row_len = row_len, .group = group, .scale = scale, .zero = zero};

    run_tile(&op, n_rows, row_len, stats);
    return 0;
}

/* As int8_rows_given, with scales along an axis. */
int VC_VARIANT(int8_axis_given)(const float *x, size_t n_rows, size_t row_len, const struct vc_axis_map *map,
                                const float *scale, const int8_t *zero, int8_t *q, struct vc_tile_stats *stats)
{
    struct op op = {
        .strip = strip_int8, .x = x, .out = q, .row_len = row_len, .map = map, .scale = scale, .zero = zero};

    run_tile(&op, n_rows, row_len, stats);
    return 0;
}

/* n codes with one scale and zero point. */
static inline void decode_run(const int8_t *restrict q, size_t n, float s, int32_t z, float *restrict y)
{
    for (size_t i = 0; i < n; i++) {
        vc_put_f32(y, i, vc_int8_decode(q[i], s, z));
    }
}

/* A run of elements has one scale. */
int VC_VARIANT(int8_decode_rows)(const int8_t *q, size_t n_rows, size_t row_len, size_t group, const float *scale,
                                 const int8_t *zero, float *y)
{
    size_t g = 0;

    for (size_t row = 0; row < n_rows; row++) {
        for (size_t first = 0; first < row_len; g++) {
            size_t n = vc_min_size(group, row_len - first);

            decode_run(q + row * row_len + first, n, vc_get_f32(scale, g), zero == NULL ? 0 : zero[g],
                       y + row * row_len + first);
            first += n;
        }
    }
    return 0;
}

/* inner == 1: neighbouring elements are neighbouring channels, each with its own scale. s and z begin at the channel
 * of q[0]. */
static void decode_spread(const int8_t *restrict q, size_t n, const float *restrict s, const int8_t *restrict z,
                          float *restrict y)
{
    for (size_t i = 0; z == NULL && i < n; i++) {
        vc_put_f32(y, i, vc_int8_decode(q[i], vc_get_f32(s, i), 0));
    }
    for (size_t i = 0; z != NULL && i < n; i++) {
        vc_put_f32(y, i, vc_int8_decode(q[i], vc_get_f32(s, i), z[i]));
    }
}

/* With inner 1 neighbours have scales beside each other, which is a loop of its own. */
int VC_VARIANT(int8_decode_axis)(const int8_t *q, size_t n, const struct vc_axis_map *map, const float *scale,
                                 const int8_t *zero, float *y)
{
    struct axis_at at = axis_start(map, 0);

    for (size_t i = 0; i < n;) {
        size_t run = vc_min_size(map->inner == 1 ? map->n_channels - at.channel : at.left, n - i);

        if (map->inner == 1) {
            decode_spread(q + i, run, scale + at.channel, zero == NULL ? NULL : zero + at.channel, y + i);
            at.channel = 0;
        } else {
            decode_run(q + i, run, vc_get_f32(scale, at.channel), zero == NULL ? 0 : zero[at.channel], y + i);
            axis_step(map, &at, run);
        }
        i += run;
    }
    return 0;
}
