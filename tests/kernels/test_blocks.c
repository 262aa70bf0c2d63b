/* test_blocks.c - blocks.h against blocks that are put together here from codes and scales, the other way round, and
 * the rules of making Q8_0. The kernels are compared with blocks.h in kernelcheck. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/blocks.h"
#include "kernels/kernels.h"

static uint64_t state = 11;

/* A random number below n, the same in every run. */
static uint32_t next(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static void put_f16(uint8_t *p, float x)
{
    uint16_t h = vc_f32_to_f16(x);

    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* ---- making ---- */

static void test_rounding(void **unused)
{
    static const struct {
        float x;
        int code;
    } golden[] = {{0.0f, 0},     {-0.0f, 0},        {0.49999997f, 0}, {0.5f, 1},        {-0.5f, -1},
                  {1.5f, 2},     {2.5f, 3},         {-2.5f, -3},      {2.4999998f, 2},  {126.49999f, 126},
                  {126.5f, 127}, {127.49999f, 127}, {1e30f, 127},     {-INFINITY, -127}};

    (void)unused;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        assert_int_equal(vc_q8_0_encode(golden[i].x, 1.0f), golden[i].code);
    }
}

static void test_steps(void **unused)
{
    float limit = vc_bits_f32(0x00200000u); /* 2^-128, whose inverse is infinite */

    (void)unused;
    assert_true(vc_q8_0_step(vc_f32_bits(127.0f)) == 1.0f);
    assert_true(vc_q8_0_inverse(0.0f) == 0.0f);
    assert_true(vc_q8_0_inverse(limit) == 0.0f);
    assert_true(vc_q8_0_inverse(vc_bits_f32(0x00200001u)) > 1e38f);
    assert_true(isfinite(vc_q8_0_inverse(vc_bits_f32(0x00200001u))));
    assert_int_equal(vc_f32_to_f16(vc_q8_0_step(VC_Q8_0_TOO_LARGE_BITS)), 0x7c00);
    assert_int_equal(vc_f32_to_f16(vc_q8_0_step(VC_Q8_0_TOO_LARGE_BITS - 1)), 0x7bff);
    for (int i = 0; i < 2000000; i++) { /* the largest value gets the largest code, for every magnitude */
        uint32_t bits = 0x10000000u + next(0x6f7fffffu);
        float x = vc_bits_f32(bits);
        float inverse = vc_q8_0_inverse(vc_q8_0_step(bits));

        assert_int_equal(vc_q8_0_encode(x, inverse), 127);
        assert_int_equal(vc_q8_0_encode(-x, inverse), -127);
    }
}

/* ---- values ---- */

static void expect(float got, float want)
{
    assert_int_equal(vc_f32_bits(got), vc_f32_bits(want));
}

/* Types with blocks of 32: known codes are put into bytes, and every value has to come back. */
static void test_32(void **unused)
{
    const float d = 0.0625f;
    const float m = -1.5f;

    (void)unused;
    for (int round = 0; round < 200; round++) {
        uint8_t b[5][34] = {{0}};
        int q[32];

        for (int t = 0; t < 5; t++) {
            put_f16(b[t], d);
            put_f16(b[t] + 2, t % 2 == 1 ? m : 0);
        }
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t shift = i < 16 ? 0 : 4;

            q[i] = (int)next(32);
            b[0][2 + i % 16] = (uint8_t)(b[0][2 + i % 16] | (q[i] & 15) << shift);
            b[1][4 + i % 16] = (uint8_t)(b[1][4 + i % 16] | (q[i] & 15) << shift);
            b[2][2 + i / 8] = (uint8_t)(b[2][2 + i / 8] | q[i] >> 4 << i % 8);
            b[2][6 + i % 16] = (uint8_t)(b[2][6 + i % 16] | (q[i] & 15) << shift);
            b[3][4 + i / 8] = (uint8_t)(b[3][4 + i / 8] | q[i] >> 4 << i % 8);
            b[3][8 + i % 16] = (uint8_t)(b[3][8 + i % 16] | (q[i] & 15) << shift);
            b[4][2 + i] = (uint8_t)(q[i] * 8 - 128);
        }
        for (uint32_t i = 0; i < 32; i++) {
            expect(vc_q4_0_value(b[0], i), (float)((q[i] & 15) - 8) * d);
            expect(vc_q4_1_value(b[1], i), (float)(q[i] & 15) * d + m);
            expect(vc_q5_0_value(b[2], i), (float)(q[i] - 16) * d);
            expect(vc_q5_1_value(b[3], i), (float)q[i] * d + m);
            expect(vc_q8_0_value(b[4], i), (float)(q[i] * 8 - 128) * d);
        }
    }
}

/* Six bits each: the first four scales and minima whole, of the others four bits, and two above the first four. */
static void pack_scales(uint8_t *p, const int *scale, const int *least)
{
    for (int j = 0; j < 4; j++) {
        p[j] = (uint8_t)(scale[j] | (scale[j + 4] >> 4) << 6);
        p[j + 4] = (uint8_t)(least[j] | (least[j + 4] >> 4) << 6);
        p[j + 8] = (uint8_t)((scale[j + 4] & 15) | (least[j + 4] & 15) << 4);
    }
}

/* The same for Q4_K and Q5_K, with their packed scales and minima. */
static void test_k(void **unused)
{
    (void)unused;
    for (int round = 0; round < 200; round++) {
        uint8_t b4[VC_Q4_K_BYTES] = {0};
        uint8_t b5[VC_Q5_K_BYTES] = {0};
        int scale[8];
        int least[8];
        int q[256];

        for (int j = 0; j < 8; j++) {
            scale[j] = (int)next(64);
            least[j] = (int)next(64);
        }
        put_f16(b4, 0.5f);
        put_f16(b4 + 2, 0.25f);
        pack_scales(b4 + 4, scale, least);
        memcpy(b5, b4, 16);
        for (int i = 0; i < 256; i++) {
            int at = i / 64 * 32 + i % 32;
            int shift = i % 64 < 32 ? 0 : 4;

            q[i] = (int)next(32);
            b4[16 + at] = (uint8_t)(b4[16 + at] | (q[i] & 15) << shift);
            b5[48 + at] = (uint8_t)(b5[48 + at] | (q[i] & 15) << shift);
            b5[16 + i % 32] = (uint8_t)(b5[16 + i % 32] | q[i] >> 4 << i / 32);
        }
        for (int i = 0; i < 256; i++) {
            float step = 0.5f * (float)scale[i / 32];
            float minus = 0.25f * (float)least[i / 32];

            expect(vc_q4_k_value(b4, (uint32_t)i), step * (float)(q[i] & 15) - minus);
            expect(vc_q5_k_value(b5, (uint32_t)i), step * (float)q[i] - minus);
        }
    }
}

static void test_q6_k(void **unused)
{
    (void)unused;
    for (int round = 0; round < 200; round++) {
        uint8_t b[VC_Q6_K_BYTES] = {0};
        int q[256];

        put_f16(b + 208, -0.125f);
        for (int j = 0; j < 16; j++) {
            b[192 + j] = (uint8_t)next(256);
        }
        for (int i = 0; i < 256; i++) {
            int half = i / 128;
            int part = i % 128 / 32; /* 0, 1: low bits of the two runs of 32 bytes; 2, 3: their high bits */
            int low = half * 64 + (part % 2) * 32 + i % 32;
            int high = 128 + half * 32 + i % 32;

            q[i] = (int)next(64);
            b[low] = (uint8_t)(b[low] | (q[i] & 15) << (part / 2 * 4));
            b[high] = (uint8_t)(b[high] | (q[i] >> 4) << (part * 2));
        }
        for (int i = 0; i < 256; i++) {
            expect(vc_q6_k_value(b, (uint32_t)i), -0.125f * (float)(int8_t)b[192 + i / 16] * (float)(q[i] - 32));
        }
    }
}

/* One NaN, whatever the processor makes of 0 * Inf; infinities stay. */
static void test_not_finite(void **unused)
{
    uint8_t b[VC_Q8_0_BYTES] = {0};

    (void)unused;
    put_f16(b, INFINITY);
    b[3] = 1;
    b[4] = 0xff;
    expect(vc_q8_0_value(b, 0), vc_bits_f32(0x7fc00000u));
    expect(vc_q8_0_value(b, 1), INFINITY);
    expect(vc_q8_0_value(b, 2), -INFINITY);
    b[1] = 0xff; /* a NaN with sign and payload */
    expect(vc_q8_0_value(b, 1), vc_bits_f32(0x7fc00000u));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rounding), cmocka_unit_test(test_steps),
                                       cmocka_unit_test(test_32),       cmocka_unit_test(test_k),
                                       cmocka_unit_test(test_q6_k),     cmocka_unit_test(test_not_finite)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
