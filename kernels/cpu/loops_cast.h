/* loops_cast.h - part of loops.h: conversions between float types, with statistics (cast_*) and without (f16_to_f32,
 * ...).
 *
 * With statistics a strip takes three walks: convert into the output, convert back into strip->e, and turn strip->e
 * into errors. From f64 the sums are those of f64 values, so these strips are always wide. */
#pragma once

/* <from>_to_<to>_run: n elements, by the function of arith.h of that name. */
#ifndef VC_HAVE_X86
/* Rounded to odd, so that the next rounding to 16 bits is that of the f64 value. */
static inline void f64_to_f32_odd_run(const double *restrict x, size_t n, float *restrict y)
{
    for (size_t i = 0; i < n; i++) {
        vc_put_f32(y, i, vc_f64_to_f32_odd(vc_get_f64(x, i)));
    }
}

/* Runs of conversions, which compilers or loops_x86.h make vectors of. */
static inline void f32_to_f16_run(const float *restrict x, size_t n, uint16_t *restrict h)
{
    for (size_t i = 0; i < n; i++) {
        vc_put_u16(h, i, vc_f32_to_f16(vc_get_f32(x, i)));
    }
}

static inline void f16_to_f32_run(const uint16_t *restrict h, size_t n, float *restrict y)
{
    for (size_t i = 0; i < n; i++) {
        vc_put_f32(y, i, vc_f16_to_f32(vc_get_u16(h, i)));
    }
}
#endif

static inline void f32_to_bf16_run(const float *restrict x, size_t n, uint16_t *restrict h)
{
    for (size_t i = 0; i < n; i++) {
        vc_put_u16(h, i, vc_f32_to_bf16(vc_get_f32(x, i)));
    }
}

static inline void bf16_to_f32_run(const uint16_t *restrict h, size_t n, float *restrict y)
{
    for (size_t i = 0; i < n; i++) {
        vc_put_f32(y, i, vc_bf16_to_f32(vc_get_u16(h, i)));
    }
}

/* Errors and counters of a strip of f32, from element i on (encode_*_x86 did those before): strip->e holds the
 * decoded values and gets x - y, which is exact for finite values, since y is x rounded. A NaN or an Inf makes an
 * error that is no number, and so the strip wide. */
static void cast_errors(const float *restrict x, size_t i, size_t n, struct strip *restrict strip)
{
    uint32_t most = strip->max_bits;
    uint32_t before = strip->zeros_before;
    uint32_t after = strip->zeros_after;

    for (; i < n; i++) {
        float v = vc_get_f32(x, i);
        float y = strip->e[i];
        float e = v - y;

        before += v == 0.0f;
        after += y == 0.0f;
        most = larger(most, vc_f32_magnitude(e));
        strip->e[i] = e;
    }
    strip->max_bits = most;
    strip->zeros_before = before;
    strip->zeros_after = after;
    strip->wide = most >= VC_F32_INF_BITS; /* where x or y is not finite, e is not either */
}

/* Values, errors and counters of a strip in f64: for f64 sources, and for strips with values that are not finite. y:
 * what the results stand for. Elements where x or y is not finite count 0 in sums and maximum; finite x with infinite
 * y is `clipped`. */
static void errors_wide(const double *restrict x, const float *restrict y, size_t n, struct strip *restrict strip)
{
    uint64_t before = 0;
    uint64_t after = 0;
    uint64_t clipped = 0;

    for (size_t i = 0; i < n; i++) {
        double v = vc_get_f64(x, i);
        double w = (double)y[i];
        int x_ok = fabs(v) < INFINITY; /* false for NaN */
        int ok = x_ok & (fabs(w) < INFINITY);

        strip->xw[i] = ok ? v : 0.0;
        strip->ew[i] = ok ? fabs(v - w) : 0.0;
        before += v == 0;
        after += w == 0;
        clipped += (uint64_t)(x_ok & !ok);
    }
    strip->wide = 1;
    strip->max_wide = max_f64(strip->ew, n);
    strip->zeros_before = (uint32_t)before;
    strip->zeros_after = (uint32_t)after;
    strip->clipped = (uint32_t)clipped;
}

/* errors_wide for an f32 source; back: what an h stands for. */
static void cast_errors_wide(const float *x, const uint16_t *h, size_t n, float (*back)(uint16_t), struct strip *strip)
{
    double v[STRIP];
    float y[STRIP];

    for (size_t i = 0; i < n; i++) {
        v[i] = (double)vc_get_f32(x, i);
        y[i] = back(vc_get_u16(h, i));
    }
    errors_wide(v, y, n, strip);
}

/* The first elements of a strip with intrinsics, errors included; the rest is left to the loops. Returns how many. */
#ifdef VC_HAVE_X86
#define encode_f16_first  encode_f16_x86
#define encode_bf16_first encode_bf16_x86
#else
#define encode_f16_first(x, n, h, strip)  strip_start(strip, x)
#define encode_bf16_first(x, n, h, strip) strip_start(strip, x)
#endif

/* strip_<from>_<to>: the strip functions of the casts to types of 16 bits. */
#define STRIPS(half)                                                                         \
    static void strip_f32_##half(struct op *op, size_t first, size_t n, struct strip *strip) \
    {                                                                                        \
        const float *x = (const float *)op->x + first;                                       \
        uint16_t *h = (uint16_t *)op->out + first;                                           \
        size_t i = encode_##half##_first(x, n, h, strip);                                    \
                                                                                             \
        f32_to_##half##_run(x + i, n - i, h + i);                                            \
        half##_to_f32_run(h + i, n - i, strip->e + i);                                       \
        cast_errors(x, i, n, strip);                                                         \
        if (strip->wide) {                                                                   \
            f32_to_##half##_run(x, i, h); /* the first part knows no NaN */                  \
            cast_errors_wide(x, h, n, vc_##half##_to_f32, strip);                            \
        }                                                                                    \
    }                                                                                        \
                                                                                             \
    static void strip_f64_##half(struct op *op, size_t first, size_t n, struct strip *strip) \
    {                                                                                        \
        const double *x = (const double *)op->x + first;                                     \
        uint16_t *h = (uint16_t *)op->out + first;                                           \
                                                                                             \
        f64_to_f32_odd_run(x, n, strip->e);                                                  \
        f32_to_##half##_run(strip->e, n, h);                                                 \
        half##_to_f32_run(h, n, strip->e);                                                   \
        errors_wide(x, strip->e, n, strip);                                                  \
    }

STRIPS(f16)
STRIPS(bf16)

static inline void f64_to_f32_run(const double *restrict x, size_t n, float *restrict y)
{
    for (size_t i = 0; i < n; i++) {
        vc_put_f32(y, i, vc_f64_to_f32(vc_get_f64(x, i)));
    }
}

/* The result is in strip->e first, where the errors are made of it. */
static void strip_f64_f32(struct op *op, size_t first, size_t n, struct strip *strip)
{
    const double *x = (const double *)op->x + first;

    f64_to_f32_run(x, n, strip->e);
    vc_put_run_f32(op->out, first, n, strip->e);
    errors_wide(x, strip->e, n, strip);
}

/* The kernel of a cast. */
#define CAST(name, strip_fn, from, to)                                                                     \
    int VC_VARIANT(name)(const from *x, size_t n_rows, size_t row_len, to *h, struct vc_tile_stats *stats) \
    {                                                                                                      \
        struct op op = {.strip = strip_fn, .x = x, .out = h, .row_len = row_len};                          \
                                                                                                           \
        run_tile(&op, n_rows, row_len, stats);                                                             \
        return 0;                                                                                          \
    }

CAST(cast_f32_f16, strip_f32_f16, float, uint16_t)
CAST(cast_f32_bf16, strip_f32_bf16, float, uint16_t)
CAST(cast_f64_f16, strip_f64_f16, double, uint16_t)
CAST(cast_f64_bf16, strip_f64_bf16, double, uint16_t)
CAST(cast_f64_f32, strip_f64_f32, double, float)

/* Without statistics a conversion is one run. */
int VC_VARIANT(f16_to_f32)(const uint16_t *h, size_t n, float *y)
{
    f16_to_f32_run(h, n, y);
    return 0;
}

int VC_VARIANT(bf16_to_f32)(const uint16_t *h, size_t n, float *y)
{
    bf16_to_f32_run(h, n, y);
    return 0;
}

int VC_VARIANT(f64_to_f32)(const double *x, size_t n, float *y)
{
    f64_to_f32_run(x, n, y);
    return 0;
}
