/* test_arith.c - arith.h against values that were worked out by hand or agree across implementations, and against
 * properties that its comments promise. The kernels are compared with it in kernelcheck. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/arith.h"

static uint64_t state = 7;

/* Random bits, the same in every run. */
static uint64_t next(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state ^ state >> 29;
}

static void test_f16_golden(void **unused)
{
    static const struct {
        float x;
        uint16_t h;
    } golden[] = {{65519.996f, 0x7bff},
                  {65520.0f, 0x7c00},
                  {-65520.0f, 0xfc00},
                  {0x1p-25f, 0x0000},
                  {0x1.000002p-25f, 0x0001},
                  {3 * 0x1p-25f, 0x0002},
                  {0x1p-14f - 0x1p-25f, 0x0400},
                  {1.0f, 0x3c00},
                  {-0.0f, 0x8000},
                  {FLT_MAX, 0x7c00},
                  {0x1p-149f, 0x0000}};

    (void)unused;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        assert_int_equal(vc_f32_to_f16(golden[i].x), golden[i].h);
    }
    assert_int_equal(vc_f32_to_f16(vc_bits_f32(0x7f800001u)), 0x7e00);
    assert_int_equal(vc_f32_to_f16(vc_bits_f32(0xffffffffu)), 0xfe00);
    assert_int_equal(vc_f32_to_f16(-INFINITY), 0xfc00);
}

static void test_bf16_golden(void **unused)
{
    (void)unused;
    assert_int_equal(vc_f32_to_bf16(vc_bits_f32(0x3f808000u)), 0x3f80);
    assert_int_equal(vc_f32_to_bf16(vc_bits_f32(0x3f818000u)), 0x3f82);
    assert_int_equal(vc_f32_to_bf16(vc_bits_f32(0x7f7fffffu)), 0x7f80);
    assert_int_equal(vc_f32_to_bf16(vc_bits_f32(0x7f7f7fffu)), 0x7f7f);
    assert_int_equal(vc_f32_to_bf16(vc_bits_f32(0x7f800001u)), 0x7fc0);
    assert_int_equal(vc_f32_to_bf16(vc_bits_f32(0xff812345u)), 0xffc0);
    assert_int_equal(vc_f32_to_bf16(-0.0f), 0x8000);
    assert_int_equal(vc_f32_to_bf16(vc_bits_f32(0x00008000u)), 0x0000);
    assert_int_equal(vc_f32_to_bf16(vc_bits_f32(0x00018000u)), 0x0002);
}

/* Every code decodes to a value that encodes to the same code; NaNs to the NaN of their sign. */
static void test_codes_round_trip(void **unused)
{
    (void)unused;
    for (uint32_t h = 0; h < 65536; h++) {
        uint32_t m = h & 0x7fff;
        uint32_t f16 = m > 0x7c00 ? (h & 0x8000) | 0x7e00 : h;
        uint32_t bf16 = m > 0x7f80 ? (h & 0x8000) | 0x7fc0 : h;

        assert_int_equal(vc_f32_to_f16(vc_f16_to_f32((uint16_t)h)), f16);
        assert_int_equal(vc_f32_to_bf16(vc_bf16_to_f32((uint16_t)h)), bf16);
        assert_true(m <= 0x7c00 || vc_f32_bits(vc_f16_to_f32((uint16_t)h)) & 0x00400000u);
        assert_true(m <= 0x7f80 || vc_f32_bits(vc_bf16_to_f32((uint16_t)h)) & 0x00400000u);
    }
}

/* Where rounding twice goes wrong: the f64 is just beside a tie, and f32 cannot see that. */
static void test_f64_rounds_once(void **unused)
{
    (void)unused;
    assert_int_equal(vc_f64_to_f16(1 + 0x1p-11), 0x3c00); /* the tie itself goes to even */
    assert_int_equal(vc_f64_to_f16(1 + 0x1p-11 + 0x1p-50), 0x3c01);
    assert_int_equal(vc_f32_to_f16((float)(1 + 0x1p-11 + 0x1p-50)), 0x3c00);
    assert_int_equal(vc_f64_to_f16(1 + 3 * 0x1p-11 - 0x1p-50), 0x3c01);
    assert_int_equal(vc_f64_to_f16(0x1p-25), 0x0000);
    assert_int_equal(vc_f64_to_f16(0x1.0000000000001p-25), 0x0001);
    assert_int_equal(vc_f64_to_f16(-65519.99999999999), 0xfbff);
    assert_int_equal(vc_f64_to_f16(65520.0), 0x7c00);
    assert_int_equal(vc_f64_to_f16(DBL_MAX), 0x7c00);
    assert_int_equal(vc_f64_to_f16(-5e-324), 0x8000);
    assert_int_equal(vc_f64_to_bf16(1 + 0x1p-8 + 0x1p-52), 0x3f81);
    assert_int_equal(vc_f64_to_bf16(1 + 0x1p-8), 0x3f80);
    assert_int_equal(vc_f64_to_bf16(-DBL_MAX), 0xff80);
    assert_int_equal(vc_f64_to_bf16(5e-324), 0x0000);
    assert_int_equal(vc_f64_to_f16(vc_bits_f64(0xfff0000000000001u)), 0xfe00);
    assert_int_equal(vc_f32_bits(vc_f64_to_f32(vc_bits_f64(0xfff4000000000001u))), 0xffe00000u);
    assert_int_equal(vc_f32_bits(vc_f64_to_f32(INFINITY)), VC_F32_INF_BITS);
    assert_int_equal(vc_f32_bits(vc_f64_to_f32(DBL_MAX)), VC_F32_INF_BITS);
}

static void test_int8_ties_to_even(void **unused)
{
    (void)unused;
    for (int k = -127; k < 127; k++) {
        int even = k % 2 == 0 ? k : k + 1;

        assert_int_equal(vc_int8_encode(((float)k + 0.5f) * 0.25f, 0.25f), even);
        assert_int_equal(vc_int8_encode((float)k, 1.0f), k);
    }
    assert_int_equal(vc_int8_encode(127.49f, 1.0f), 127);
    assert_int_equal(vc_int8_encode(1e30f, 1.0f), 127);
    assert_int_equal(vc_int8_encode(-INFINITY, 1.0f), -127);
    assert_int_equal(vc_int8_encode_asym(0.5f, 1.0f, 1), 1); /* rint(0.5) + 1, not rint(1.5) */
    assert_int_equal(vc_int8_encode_asym(1.5f, 1.0f, 1), 3);
    assert_int_equal(vc_int8_encode_asym(-1000.0f, 1.0f, 5), -128);
    assert_int_equal(vc_int8_encode_asym(1000.0f, 1.0f, -5), 127);
}

/* With its own scale no code is clipped, and the error is at most half a step and the roundings. */
static void test_int8_bound(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2000000; i++) {
        uint32_t absmax = (uint32_t)(next() % (VC_F32_INF_BITS - 1)) + 1;
        float a = vc_bits_f32(absmax);
        float s = vc_int8_scale(absmax);
        float x = a * (float)((double)(next() >> 11) * 0x1p-53);
        int q;

        if (vc_int8_scale_is_tiny(absmax)) {
            assert_true(vc_f32_bits(s) == vc_f32_bits(1.0f) && vc_int8_encode(a, s) == 0);
            continue;
        }
        assert_int_equal(vc_int8_encode(a, s), 127);
        assert_int_equal(vc_int8_encode(-a, s), -127);
        q = vc_int8_encode(x, s);
        assert_true(fabs((double)x / (double)s - q) <= 0.5 + 128 * 0x1p-24);
    }
}

static void test_tiny_scales(void **unused)
{
    (void)unused;
    assert_true(vc_f32_bits(vc_int8_scale(0)) == vc_f32_bits(1.0f));
    assert_true(vc_int8_scale_is_tiny(vc_f32_bits(FLT_MIN)));
    assert_true(vc_int8_scale_is_tiny(vc_f32_bits(126.0f * FLT_MIN)));
    assert_false(vc_int8_scale_is_tiny(vc_f32_bits(127.0f * FLT_MIN)));
    assert_true(vc_f32_bits(vc_int8_scale(vc_f32_bits(127.0f * FLT_MIN))) == vc_f32_bits(FLT_MIN));
}

/* Up to FLT_MAX no value decodes to Inf; the scale is the quotient for every absmax but FLT_MAX. */
static void test_int8_far_end(void **unused)
{
    (void)unused;
    for (uint32_t absmax = VC_F32_INF_BITS - 1; absmax > VC_F32_INF_BITS - 100000; absmax--) {
        float a = vc_bits_f32(absmax);
        float s = vc_int8_scale(absmax);

        assert_int_equal(vc_int8_encode(a, s), 127);
        assert_true(isfinite(vc_int8_decode(127, s, 0)) && isfinite(vc_int8_decode(-127, s, 0)));
        assert_true(vc_f32_bits(s) == vc_f32_bits(a / 127.0f) - (absmax == VC_F32_INF_BITS - 1));
        assert_true(fabs((double)a - 127.0 * (double)s) <= 0.0001 * (double)s);
    }
}

static void test_asymmetric_far_end(void **unused)
{
    float most = FLT_MAX;

    (void)unused;
    for (int i = 0; i < 300000; i++) {
        float other = most * (float)((double)(next() >> 11) * 0x1p-53) * (float)(i % 3 != 0);
        float p = i % 2 == 0 ? most : other;
        float n = i % 2 == 0 ? other : most;
        float s = vc_int8_asym_scale(vc_f32_bits(p), vc_f32_bits(n));
        int8_t z = vc_int8_zero_point(vc_f32_bits(n), s);
        float x[3] = {p, -n, (i & 4 ? p : -n) * (float)((double)(next() >> 11) * 0x1p-53)};

        for (int k = 0; k < 3; k++) {
            double y = (double)vc_int8_decode(vc_int8_encode_asym(x[k], s, z), s, z);

            assert_true(isfinite(y) && fabs((double)x[k] - y) <= 0.50003 * (double)s);
        }
        most = i % 1000 == 999 ? FLT_MAX : most * 0.99999f;
    }
}

/* 0.50003 steps, at the ends and between, clipped or not. */
static void test_asymmetric_bound(void **unused)
{
    (void)unused;
    for (int i = 0; i < 300000; i++) {
        float p = (float)((double)(next() >> 11) * 0x1p-53);
        float n = (float)((double)(next() >> 11) * 0x1p-53) * (float)(i % 7);
        float s = vc_int8_asym_scale(vc_f32_bits(p), vc_f32_bits(n));
        int8_t z = vc_int8_zero_point(vc_f32_bits(n), s);
        float x[3] = {p, -n, -n + (p + n) * (float)((double)(next() >> 11) * 0x1p-53)};

        for (int k = 0; k < 3; k++) {
            double e = fabs((double)x[k] - (double)vc_int8_decode(vc_int8_encode_asym(x[k], s, z), s, z));

            assert_true(x[k] > p || x[k] < -n || e <= 0.50003 * (double)s);
        }
    }
}

/* Zero is exact, both ends are reached, the range of FLT_MAX does not overflow. */
static void test_asymmetric(void **unused)
{
    (void)unused;
    for (int i = 0; i < 500000; i++) {
        uint32_t pos = (uint32_t)(next() % VC_F32_INF_BITS);
        uint32_t neg = i % 5 == 0 ? 0 : (uint32_t)(next() % VC_F32_INF_BITS);
        float s = vc_int8_asym_scale(pos, neg);
        int8_t z = vc_int8_zero_point(neg, s);

        assert_true(vc_f32_magnitude(s) < VC_F32_INF_BITS && vc_f32_bits(s) >= VC_F32_MIN_NORMAL_BITS);
        assert_int_equal(vc_int8_encode_asym(0.0f, s, z), z);
        assert_true(vc_f32_bits(vc_int8_decode(z, s, z)) == 0);
        assert_true(vc_int8_encode_asym(vc_bits_f32(pos), s, z) >= z);
    }
    assert_true(isfinite(vc_int8_asym_scale(vc_f32_bits(FLT_MAX), vc_f32_bits(FLT_MAX))));
    assert_int_equal(vc_int8_zero_point(0, vc_int8_asym_scale(vc_f32_bits(1.0f), 0)), -128);
    assert_int_equal(vc_int8_zero_point(vc_f32_bits(1.0f), vc_int8_asym_scale(0, vc_f32_bits(1.0f))), 127);
}

/* Scales of 16 bits: nothing is clipped, no scale is 0, and the error stays at half a step. */
static void check_narrow(uint32_t absmax, float s)
{
    float a = vc_bits_f32(absmax);
    float x = a * (float)((double)(next() >> 11) * 0x1p-53);

    assert_true(s > 0 && vc_f32_bits(s) < VC_F32_INF_BITS);
    if (vc_int8_scale_is_tiny(absmax)) {
        assert_true(vc_f32_bits(s) == vc_f32_bits(1.0f) && vc_int8_encode(a, s) == 0);
        return;
    }
    assert_true(fabs((double)a / (double)s) <= 127.5); /* equal for the largest bf16 only */
    assert_true(fabs((double)x / (double)s - vc_int8_encode(x, s)) <= 0.5 + 128 * 0x1p-24);
}

static void test_narrow_scales(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2000000; i++) {
        uint32_t brain = vc_f32_bits(vc_bf16_to_f32((uint16_t)(next() % 0x7f80))); /* magnitudes that the type has */
        uint32_t half = vc_f32_bits(vc_f16_to_f32((uint16_t)(next() % 0x7c00)));
        float s_brain = vc_bf16_to_f32(vc_int8_scale_bf16(brain));
        float s_half = vc_f16_to_f32(vc_int8_scale_f16(half));

        check_narrow(brain, s_brain);
        check_narrow(half, s_half);
        assert_true(vc_f32_to_bf16(127 * s_brain) < 0x7f80 && vc_f32_to_f16(127 * s_half) < 0x7c00);
    }
    assert_int_equal(vc_int8_scale_f16(0), 0x3c00); /* 1 */
    assert_int_equal(vc_int8_scale_bf16(0), 0x3f80);
    assert_int_equal(vc_int8_scale_f16(vc_f32_bits(127.0f)), 0x3c00);
    assert_int_equal(vc_int8_scale_f16(vc_f32_bits(127.0f * (1 + 0x1p-11f))), 0x3c00);     /* the tie, to even */
    assert_int_equal(vc_int8_scale_f16(vc_f32_bits(127.0f * (1 + 3 * 0x1p-11f))), 0x3c02); /* ... upwards */
    assert_int_equal(vc_int8_scale_f16(vc_f32_bits(127.0f * 0x1p-24f)), 1);                /* subnormal, exact */
    assert_int_equal(vc_int8_scale_f16(vc_f32_bits(127.0f * 0x1.1p-24f)), 2);              /* never down there */
    assert_int_equal(vc_int8_scale_f16(vc_f32_bits(0x1p-24f)), 1);
    assert_int_equal(vc_int8_scale_f16(vc_f32_bits(65504.0f)), 0x6007); /* 515.78 -> 515.5, not 516 */
    assert_int_equal(vc_int8_scale_f16(vc_f32_bits(FLT_MAX)), 0x6007);
    assert_int_equal(vc_int8_scale_bf16(vc_f32_bits(127.0f * (1 + 0x1p-8f))), 0x3f80);
    assert_int_equal(vc_int8_scale_bf16(vc_f32_bits(127.0f * (1 + 3 * 0x1p-8f))), 0x3f82);
    assert_int_equal(vc_int8_scale_bf16(0x7f7f0000u), 0x7c00); /* the largest bf16 */
}

/* A stored maximum gives back the scale that the codes were made with. */
static void test_scale_of_absmax(void **unused)
{
    (void)unused;
    for (int i = 0; i < 1000000; i++) {
        uint32_t absmax = i == 0 ? vc_f32_bits(FLT_MAX) : (uint32_t)(next() % (VC_F32_INF_BITS - 1)) + 1;
        float s = vc_int8_scale_of_absmax(vc_bits_f32(absmax));

        if (!vc_int8_scale_is_tiny(absmax)) {
            assert_int_equal(vc_f32_bits(s), vc_f32_bits(vc_int8_scale(absmax)));
        }
        assert_false(vc_int8_steps_overflow(127.0f, s));
    }
    assert_int_equal(vc_f32_bits(vc_int8_scale_of_absmax(INFINITY)), VC_F32_INF_BITS);
    assert_int_equal(vc_f32_bits(vc_int8_scale_of_absmax(-127.0f)), vc_f32_bits(-1.0f));
    assert_int_equal(vc_f32_bits(vc_int8_scale_of_absmax(0.0f)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_golden),         cmocka_unit_test(test_bf16_golden),
        cmocka_unit_test(test_codes_round_trip),   cmocka_unit_test(test_f64_rounds_once),
        cmocka_unit_test(test_int8_ties_to_even),  cmocka_unit_test(test_int8_bound),
        cmocka_unit_test(test_tiny_scales),        cmocka_unit_test(test_asymmetric),
        cmocka_unit_test(test_asymmetric_bound),   cmocka_unit_test(test_int8_far_end),
        cmocka_unit_test(test_asymmetric_far_end), cmocka_unit_test(test_narrow_scales),
        cmocka_unit_test(test_scale_of_absmax),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
