/* test_grid_codes.c - kernels/grid_codes.h: every code of every grid is that of its value, ties, ends, NaN; and scales
 * of groups with hard values. The search itself is compared with NumPy in tests/judge/test_float_codes.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/grid_codes.h"

/* Each value has its code, and what lies a little beside it, too. -0 has one in E4M3 only. */
static void test_round_trips(void **state)
{
    static const struct {
        enum vc_grid grid;
        unsigned n;
    } grids[] = {{VC_GRID_E4M3, 256}, {VC_GRID_E2M1, 16}, {VC_GRID_NF4, 16}, {VC_GRID_FP4, 16}};
    float values[256];
    size_t g;
    unsigned code;

    (void)state;
    for (g = 0; g < sizeof grids / sizeof grids[0]; g++) {
        vc_float_values(grids[g].grid, values);
        for (code = 0; code < grids[g].n; code++) {
            float v = values[code];
            unsigned want = grids[g].grid != VC_GRID_E4M3 && v == 0.0f && signbit(v) ? 0 : code;

            if (isnan(v)) {
                assert_true(grids[g].grid == VC_GRID_E4M3 && (code & 127u) == 127u);
                assert_int_equal(vc_float_code_of(VC_GRID_E4M3, v), 127);
                continue;
            }
            assert_int_equal(vc_float_code_of(grids[g].grid, v), want);
            assert_int_equal(vc_float_code_of(grids[g].grid, v * 1.001f), want);
            if (grids[g].grid != VC_GRID_E4M3) {
                assert_true(vc_float_near(grids[g].grid, NULL, v * 0.999f) == v);
            }
        }
    }
}

static void test_ties(void **state)
{
    static const struct {
        float x;
        uint8_t e4m3, e2m1;
    } cases[] = {{0.25f, 0x28, 0},       {0.75f, 0x34, 2},      {1.25f, 0x3a, 2},  {1.75f, 0x3e, 4},
                 {2.5f, 0x42, 4},        {3.5f, 0x46, 6},       {5.0f, 0x4a, 6},   {1.0625f, 0x38, 2},
                 {1.1875f, 0x3a, 2},     {464.0f, 0x7e, 7},     {1e30f, 0x7e, 7},  {0.0009765625f, 0, 0},
                 {0.00146484375f, 1, 0}, {0.0029296875f, 2, 0}, {-5.0f, 0xca, 14}, {-0.2f, 0xa5, 0}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(vc_float_code_of(VC_GRID_E4M3, cases[i].x), cases[i].e4m3);
        assert_int_equal(vc_float_code_of(VC_GRID_E2M1, cases[i].x), cases[i].e2m1);
    }
}

/* 2^e for every byte; the exponents of hard numbers. */
static void test_exponents(void **state)
{
    unsigned byte;

    (void)state;
    for (byte = 0; byte < 255; byte++) {
        assert_true(vc_e8m0_value((uint8_t)byte) == ldexpf(1.0f, (int)byte - 127));
    }
    assert_true(isnan(vc_e8m0_value(255)));
    for (int e = -149; e <= 127; e++) {
        assert_int_equal(vc_floor_log2(ldexpf(1.0f, e)), e);
        assert_int_equal(vc_floor_log2(nextafterf(ldexpf(1.0f, e), INFINITY)), e == -149 ? -148 : e);
    }
}

/* Scales of zeros, of the largest and the smallest numbers: positive, and every code times them is finite. */
static void test_hard_scales(void **state)
{
    static const float hard[] = {0.0f, 1e-45f, 1.2e-38f, 1e-20f, 0.02f, 1.0f, 1e20f, 3.4028235e38f};
    size_t i;
    size_t k;

    (void)state;
    for (i = 0; i < sizeof hard / sizeof hard[0]; i++) {
        float x[32] = {hard[i], -hard[i], hard[i] / 3.0f};
        const struct {
            struct vc_group_codes how;
            float most;
        } cases[] = {{{VC_GRID_E4M3, .type = VC_DTYPE_F32}, 448.0f},
                     {{VC_GRID_E4M3, .type = VC_DTYPE_BF16}, 448.0f},
                     {{VC_GRID_E4M3, .type = VC_DTYPE_F16}, 448.0f},
                     {{VC_GRID_E4M3, .bytes = VC_DTYPE_F8_E8M0}, 448.0f},
                     {{VC_GRID_E2M1, .bytes = VC_DTYPE_F8_E8M0}, 6.0f},
                     {{VC_GRID_E2M1, .bytes = VC_DTYPE_F8_E4M3, .global = vc_nvfp4_global(hard[i])}, 6.0f},
                     {{VC_GRID_NF4, .type = VC_DTYPE_F32}, 1.0f},
                     {{VC_GRID_FP4, .type = VC_DTYPE_F32}, 1.0f}};

        for (k = 0; k < sizeof cases / sizeof cases[0]; k++) {
            struct vc_float_scale scale = vc_group_scale(&cases[k].how, x, 16, vc_f32_bits(hard[i]));

            assert_true(scale.value > 0.0f);
            assert_true(isfinite(scale.value * cases[k].most));
        }
    }
}

static void test_nibbles(void **state)
{
    static const uint8_t codes[6] = {1, 15, 0, 8, 7, 2};
    uint8_t packed[3];
    uint8_t back[6];

    (void)state;
    vc_codes_pack(codes, 6, 4, 0, packed);
    assert_memory_equal(packed, "\xf1\x80\x27", 3);
    vc_codes_unpack(packed, 6, 4, 0, 0, back);
    assert_memory_equal(back, codes, 6);
    vc_codes_pack(codes, 6, 4, 1, packed);
    assert_memory_equal(packed, "\x1f\x08\x72", 3);
    vc_codes_unpack(packed, 6, 4, 1, 0, back);
    assert_memory_equal(back, codes, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trips), cmocka_unit_test(test_ties),
                                       cmocka_unit_test(test_exponents), cmocka_unit_test(test_hard_scales),
                                       cmocka_unit_test(test_nibbles)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
