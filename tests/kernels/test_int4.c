/* test_int4.c - kernels/grid_codes.h, int4: codes and packing, every candidate of the search against loops that are
 * written as the definition is, groups that have no scale, and how much is left of normal weights. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/grid_codes.h"

static const struct vc_group_codes int4 = {.low = -8, .high = 7, .type = VC_DTYPE_F32};

/* The scale of n elements; *zero: it has no candidate. */
static float scale_of(const float *x, size_t n, enum vc_dtype type, int *zero)
{
    struct vc_group_codes how = int4;
    struct vc_float_scale scale;
    uint32_t most = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        most = vc_f32_magnitude(x[i]) > most ? vc_f32_magnitude(x[i]) : most;
    }
    how.type = type;
    scale = vc_group_scale(&how, x, n, most);
    *zero = scale.zero;
    return scale.value;
}

/* ---- codes ---- */

static void test_codes(void **state)
{
    static const struct {
        float x;
        int q;
    } cases[] = {{0.0f, 0},  {-0.0f, 0},   {0.5f, 0},  {1.5f, 2},   {2.5f, 2},    {-0.5f, 0},  {-1.5f, -2},
                 {6.5f, 6},  {7.4f, 7},    {7.5f, 7},  {100.0f, 7}, {-7.5f, -8},  {-8.4f, -8}, {-9.0f, -8},
                 {3e38f, 7}, {-3e38f, -8}, {0.49f, 0}, {0.51f, 1},  {-6.49f, -6}, {-6.51f, -7}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true((int)vc_float_near(VC_GRID_NONE, &int4, cases[i].x) == cases[i].q);
        assert_true((int)vc_float_near(VC_GRID_NONE, &int4, cases[i].x * 0.25f / 0.25f) == cases[i].q);
    }
}

static void test_packing(void **state)
{
    static const int8_t codes[7] = {-8, 7, 0, -1, 1, -7, 3};
    static const unsigned char want[4] = {0x78, 0xf0, 0x91, 0x03};
    unsigned char got[4];
    int8_t back[7];

    (void)state;
    vc_codes_pack((const uint8_t *)codes, 7, 4, 0, got);
    assert_memory_equal(got, want, sizeof got);
    vc_codes_unpack(got, 7, 4, 0, 1, back);
    assert_memory_equal(back, codes, sizeof codes);
}

/* ---- the search, as its definition says ---- */

static double code_of(float x, float s)
{
    double q = (double)rintf(x / s);

    return q > 7 ? 7 : q < -8 ? -8 : q;
}

/* Element i is added to lane i % 8; then the lanes are. */
static double lanes_sum(const double *v, size_t n)
{
    double lane[8] = {0};
    size_t i;

    for (i = 0; i < n; i++) {
        lane[i % 8] += v[i];
    }
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

#define MOST 512

static float searched(const float *x, size_t n, enum vc_dtype type)
{
    double absmax = 0.0;
    double best = INFINITY;
    float found = 0.0f;
    double a[MOST], b[MOST];
    size_t i;
    int f;

    for (i = 0; i < n; i++) {
        absmax = fmax(absmax, fabs((double)x[i]));
    }
    for (f = 0; f < 16; f++) {
        float s = (float)((50 + 4 * f) / 100.0 * absmax / 8.0);

        for (i = 0; i < n; i++) {
            double q = code_of(x[i], s);

            a[i] = q * (double)x[i];
            b[i] = q * q;
        }
        s = (float)(lanes_sum(a, n) / lanes_sum(b, n));
        s = type == VC_DTYPE_F16    ? vc_f16_to_f32(vc_f32_to_f16(s))
            : type == VC_DTYPE_BF16 ? vc_bf16_to_f32(vc_f32_to_bf16(s))
                                    : s;
        for (i = 0; i < n; i++) {
            double e = (double)x[i] - code_of(x[i], s) * (double)s;

            a[i] = e * e;
        }
        if (lanes_sum(a, n) < best) {
            best = lanes_sum(a, n);
            found = s;
        }
    }
    return found;
}

/* Normal numbers by the sum of twelve. */
static float normal(uint32_t *seed)
{
    double sum = -6.0;
    int i;

    for (i = 0; i < 12; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        sum += (*seed >> 8) / 16777216.0;
    }
    return (float)(sum * 0.02);
}

static void test_search(void **state)
{
    static const enum vc_dtype types[] = {VC_DTYPE_F32, VC_DTYPE_F16, VC_DTYPE_BF16};
    static const size_t sizes[] = {1, 2, 7, 8, 9, 32, 100, 128, MOST};
    uint32_t seed = 1;
    float x[MOST];
    size_t i, k, t, round;

    (void)state;
    for (round = 0; round < 20; round++) {
        for (k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            for (i = 0; i < sizes[k]; i++) {
                x[i] = normal(&seed);
            }
            for (t = 0; t < 3; t++) {
                int zero = 1;
                float s = scale_of(x, sizes[k], types[t], &zero);

                assert_int_equal(zero, 0);
                assert_int_equal(vc_f32_bits(s), vc_f32_bits(searched(x, sizes[k], types[t])));
            }
        }
    }
}

/* Codes times a scale come back as they were. */
static void test_exact(void **state)
{
    float x[16];
    size_t i;
    int zero;
    float s;

    (void)state;
    for (i = 0; i < 16; i++) {
        x[i] = 0.375f * (float)((int)i - 8);
    }
    s = scale_of(x, 16, VC_DTYPE_BF16, &zero);
    assert_true(s == 0.375f);
    assert_true(vc_float_error(VC_GRID_NONE, &int4, x, 16, s) == 0.0);
}

/* All codes times a scale of either sign, and minus a zero point, come back as they were, of widths that have few
 * codes. Codes of every width side by side. */
static void test_widths(void **state)
{
    static const float scales[] = {0.375f, -0.375f};
    unsigned bits;

    (void)state;
    for (bits = 2; bits <= 6; bits++) {
        int half = 1 << (bits - 1);
        size_t n = (size_t)2 * (size_t)half;
        unsigned char packed[64];
        int8_t codes[64], back[64];
        float x[64], y[64];
        size_t i, k;

        for (i = 0; i < n; i++) {
            codes[i] = (int8_t)((int)i - half);
        }
        for (k = 0; bits <= 4 && k < 4; k++) {
            struct vc_group_codes how = {.low = -half, .high = half - 1, .type = VC_DTYPE_BF16};
            float s = scales[k % 2];
            int z = k < 2 ? 0 : 1 - half;

            how.both_signs = k == 1;
            how.zero_points = k >= 2;
            for (i = 0; i < n; i++) {
                x[i] = s * (float)((k < 2 ? (int)i - half : (int)i - half - z));
            }
            if (k < 3) { /* the fourth: codes with zero points have no scales below 0, and another zero point serves */
                struct vc_float_scale scale =
                    vc_group_scale(&how, x, n, vc_f32_bits(0.375f * (float)(k < 2 ? half : 2 * half - 2)));

                assert_true(scale.value == s);
                assert_int_equal(scale.zero_point, z);
            }
            vc_group_round(&how, x, n, y);
            for (i = 0; i < n; i++) {
                assert_true(y[i] == x[i]);
            }
        }
        vc_codes_pack((const uint8_t *)codes, n, bits, 0, packed);
        vc_codes_unpack(packed, n, bits, 0, 1, back);
        assert_memory_equal(back, codes, n);
    }
}

static void test_no_scale(void **state)
{
    static const struct {
        float x;
        enum vc_dtype type;
        float want;
    } cases[] = {{0.0f, VC_DTYPE_F32, 1.17549435e-38f},
                 {0.0f, VC_DTYPE_BF16, 1.17549435e-38f},
                 {-0.0f, VC_DTYPE_F16, 6.103515625e-05f},
                 {1e-9f, VC_DTYPE_F16, 6.103515625e-05f},
                 {1e-45f, VC_DTYPE_F32, 1.17549435e-38f}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float x[3] = {cases[i].x, -cases[i].x, 0.0f};
        int zero = 0;

        assert_true(scale_of(x, 3, cases[i].type, &zero) == cases[i].want);
        assert_int_equal(zero, 1);
    }
}

/* Weights up to the largest f32: every code of the scale has a finite value. */
static void test_largest(void **state)
{
    float x[2] = {3.4028235e38f, -3.4028235e38f};
    int zero = 1;
    float s = scale_of(x, 2, VC_DTYPE_F32, &zero);

    (void)state;
    assert_int_equal(zero, 0);
    assert_true(s == 0x1.fffffep124f);
    assert_true(isfinite(-8.0f * s));
    assert_true(vc_float_error(VC_GRID_NONE, &int4, x, 2, s) < 0.1 * (double)x[0] * (double)x[0]);
}

static void test_normal_weights(void **state)
{
    enum { GROUPS = 2000, GROUP = 128 };
    uint32_t seed = 7;
    double xx = 0.0;
    double ee = 0.0;
    float x[GROUP];
    size_t g, i;

    (void)state;
    for (g = 0; g < GROUPS; g++) {
        int zero;
        float s;

        for (i = 0; i < GROUP; i++) {
            x[i] = normal(&seed);
            xx += (double)x[i] * (double)x[i];
        }
        s = scale_of(x, GROUP, VC_DTYPE_BF16, &zero);
        ee += vc_float_error(VC_GRID_NONE, &int4, x, GROUP, s);
    }
    assert_true(10.0 * log10(xx / ee) >= 19.8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_codes),   cmocka_unit_test(test_packing),
                                       cmocka_unit_test(test_search),  cmocka_unit_test(test_exact),
                                       cmocka_unit_test(test_widths),  cmocka_unit_test(test_no_scale),
                                       cmocka_unit_test(test_largest), cmocka_unit_test(test_normal_weights)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
