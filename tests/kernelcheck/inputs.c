/* inputs.c - the patterns, value by value. Ties are ties of every conversion that takes the type: int8 with a scale
 * of 2^-7, f16, bf16. */
#include "inputs.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/arith.h"

const char *const pattern_names[PATTERN_COUNT] = {"normal",  "zero runs", "extremes",  "subnormal", "alternating",
                                                  "outlier", "equal",     "ties",      "near ties", "grid",
                                                  "steps",   "wide",      "nonfinite", "bits"};

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double uniform(uint64_t *state)
{
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

/* Like a trained weight: standard deviation 0.02. The number of ones among 64 random bits is nearly normal with
 * deviation 4; a uniform number fills the steps between. Logarithms and cosines took two fifths of the time of the
 * whole program. */
static double normal(uint64_t *state)
{
    uint64_t bits =
        random_next(state); /* the ones are counted by pairs, then fours, then bytes, which a product adds */

    bits -= bits >> 1 & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return 0.005 * ((double)(bits * 0x0101010101010101u >> 56) - 32.5 + uniform(state));
}

/* A number exactly between two results of the conversion `kind` (mod 4). */
static double tie(uint64_t *state, uint64_t kind)
{
    uint64_t r = random_next(state);
    uint32_t u = (uint32_t)r;

    switch (kind % 4) {
    case 0: /* int8 with scale 2^-7 */
        return ((double)(r % 255) - 127 + 0.5) * 0x1p-7;
    case 1: /* between two f16, normal or subnormal */
        u = (u & 0x8fffe000u) | 0x30000000u | 0x1000u;
        return (double)vc_bits_f32(u);
    case 2:
        return ((double)(r % 2048) + 0.5) * 0x1p-24 * (r >> 63 ? -1 : 1);
    default: /* between two bf16 */
        u = (u & 0xbfff0000u) | 0x8000u;
        return (double)vc_bits_f32(u);
    }
}

/* Element i of a block whose absmax / 127 lies just below or above a power of 2: the f16 of such a step can be in the
 * next binade, and the errors of values near half a step then need more bits than others. */
static float near_half_step(size_t i, uint64_t kind, uint64_t *state)
{
    uint64_t of_block = kind + i / 32;
    uint64_t r = random_next(&of_block);
    double offset = ldexp((double)(r >> 40) / 0x1p24, -(int)(8 + r % 16));
    double step = ldexp(r >> 32 & 1 ? 1 - offset : 1 + offset, (int)(r >> 16 & 31) - 16);
    float v = (float)(step * (0.5 + ldexp(uniform(state), -(int)(8 + r % 16))));

    r = random_next(state);
    v = i % 32 == 3 ? (float)(127 * step) : vc_bits_f32(vc_f32_bits(v) + (uint32_t)r % 5 - 2);
    return r >> 63 ? v : -v;
}

/* A value of magnitude 2^-140 to 2^127. */
static double wide(uint64_t *state)
{
    double v = ldexp(1 + uniform(state), (int)(random_next(state) % 267) - 140);

    return random_next(state) & 1 ? v : -v;
}

/* Element i of an array with that pattern; kind is drawn once per array. */
static float value_f32(size_t i, enum pattern pattern, uint64_t kind, uint64_t *state)
{
    static const uint32_t extremes[] = {0x7f7fffffu, 0xff7fffffu, 0x7f7ffffeu, 0x7f000000u, 0x00800000u, 0x80800000u,
                                        0x477fefffu, 0x477ff000u, 0xc77ff000u, 0x7f7f7fffu, 0x7f7f8000u, 0x00000000u};
    static const uint32_t nonfinite[] = {0x7fc00000u, 0xffc00001u, 0x7f800001u, 0xffbfffffu,
                                         0x7f800000u, 0xff800000u, 0x7fffffffu, 0x7fa12345u};
    uint64_t r = random_next(state);
    float v;

    switch (pattern) {
    case PATTERN_ZERO_RUNS:
        return i / 37 % 2 == 0 ? (i % 3 ? 0.0f : -0.0f) : (float)normal(state);
    case PATTERN_EXTREMES:
        return vc_bits_f32(extremes[r % (sizeof extremes / sizeof extremes[0])]);
    case PATTERN_SUBNORMAL:
        return vc_bits_f32((uint32_t)(r & 0x807fffffu) >> (r >> 60 & 1 ? 0 : 12));
    case PATTERN_ALTERNATING:
        return i % 2 ? -1.25f : 1.25f;
    case PATTERN_OUTLIER:
        return i == 5 ? 1000.0f : (float)normal(state);
    case PATTERN_EQUAL:
        return 0.1f;
    case PATTERN_TIES:
        return i % 32 == 3 ? 127 * 0x1p-7f : (float)tie(state, kind);
    case PATTERN_NEAR_TIES:
        v = (float)tie(state, kind);
        return vc_bits_f32(vc_f32_bits(v) + (r & 1 ? 1u : (uint32_t)-1));
    case PATTERN_GRID:
        if (i % 32 == 3) {
            return GRID_ABSMAX;
        }
        v = ((float)(r % 127) + 0.5f) * (GRID_ABSMAX / 127.0f);
        v = vc_bits_f32(vc_f32_bits(v) + (uint32_t)(r >> 32) % 7 - 3);
        return r >> 63 ? v : -v;
    case PATTERN_STEPS:
        return near_half_step(i, kind, state);
    case PATTERN_WIDE:
        return (float)wide(state);
    case PATTERN_NONFINITE:
        return r % 97 == 0 ? vc_bits_f32(nonfinite[(r >> 32) % 8]) : (float)normal(state);
    case PATTERN_BITS:
        return vc_bits_f32((uint32_t)r);
    default:
        return (float)normal(state);
    }
}

static double value_f64(size_t i, enum pattern pattern, uint64_t kind, uint64_t *state)
{
    static const double extremes[] = {DBL_MAX,
                                      -DBL_MAX,
                                      DBL_MIN,
                                      65519.99999999999,
                                      65520,
                                      65535.999,
                                      3.3961775292304e38,
                                      0x1.ffffffp127,
                                      0x1.fffffefffffffp127,
                                      -0x1p-25,
                                      0x1.0000000000001p-25,
                                      1e-320};
    uint64_t r = random_next(state);
    double v;

    switch (pattern) {
    case PATTERN_NORMAL:
    case PATTERN_OUTLIER:
        return pattern == PATTERN_OUTLIER && i == 5 ? 1000 : normal(state);
    case PATTERN_EXTREMES:
        return extremes[r % (sizeof extremes / sizeof extremes[0])];
    case PATTERN_SUBNORMAL:
        return vc_bits_f64(r & 0x800fffffffffffffu);
    case PATTERN_NEAR_TIES:
        v = tie(state, kind);
        return nextafter(v, r & 1 ? INFINITY : -INFINITY);
    case PATTERN_WIDE:
        return wide(state);
    case PATTERN_NONFINITE:
        return r % 97 == 0 ? (r >> 32 & 1 ? vc_bits_f64(0x7ff0000000000000u | random_next(state)) : -INFINITY)
                           : normal(state);
    case PATTERN_BITS:
        return vc_bits_f64(r);
    default:
        return (double)value_f32(i, pattern, kind, state);
    }
}

void fill_f32(float *x, size_t n, enum pattern pattern, uint64_t *state)
{
    uint64_t kind = random_next(state);

    for (size_t i = 0; i < n; i++) {
        float v = value_f32(i, pattern, kind, state);

        memcpy((char *)x + i * sizeof v, &v, sizeof v);
    }
}

void fill_f64(double *x, size_t n, enum pattern pattern, uint64_t *state)
{
    uint64_t kind = random_next(state);

    for (size_t i = 0; i < n; i++) {
        double v = value_f64(i, pattern, kind, state);

        memcpy((char *)x + i * sizeof v, &v, sizeof v);
    }
}

void fill_bytes(void *p, size_t n_bytes, uint64_t *state)
{
    for (size_t i = 0; i < n_bytes; i++) {
        ((unsigned char *)p)[i] = (unsigned char)(random_next(state) >> 17);
    }
}
