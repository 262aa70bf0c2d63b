/* test_block_encode.c - blocks from weights: the bytes of llama.cpp's quantizers by their digests, which a build of
 * ggml made (October 2026); the lowest-error encoders by their decibels on normal weights; odd blocks. That all levels
 * and devices give the same bytes is kernelcheck's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/block_encode.h"
#include "kernels/kernels.h"
#include "passes/sha256.h"

#define MOST (128 * 1024)

struct block_type {
    const char *name;
    size_t elems, bytes;
    int (*to_f32)(const uint8_t *blocks, size_t n, float *y);
    int (*blocks)(const float *x, size_t n_rows, size_t row_len, const struct vc_block_how *how, uint8_t *blocks);
    const char *a, *a_weighted, *b, *b_weighted; /* first 12 digits of the SHA-256 */
    double least_db;                             /* of `best` on normal weights */
};

static struct vc_kernels table;
static float input_a[4 * 1024], input_b[2048], importance[1024], ones[2048], normal[MOST];

static struct block_type types[] = {
    {"q4_0", .a = "42a5cbfe7cff", .a_weighted = "c2177a073a6e", .b = "f43d6a1962a2", .b_weighted = "91cefb69bd93",
     .least_db = 21.7},
    {"q4_1", .a = "d67208a8f8ab", .a_weighted = "a0fca203abf3", .b = "a6ac59841dc2", .b_weighted = "b45d3736607b",
     .least_db = 23.0},
    {"q5_0", .a = "921e69d287a4", .a_weighted = "457d4a26f152", .b = "a5bed92ef4f3", .b_weighted = "32d41d979baf",
     .least_db = 27.8},
    {"q5_1", .a = "e63a631f01c1", .a_weighted = "f0121528acc3", .b = "c064606f64c8", .b_weighted = "08ddde0755ae",
     .least_db = 29.4},
    {"q8_0", .a = "3ef67886dd22", .a_weighted = "3ef67886dd22", .b = "58fabbf05795", .b_weighted = "58fabbf05795",
     .least_db = 45.6},
    {"q2_k", .a = "aa4ba0ffe121", .a_weighted = "f486c7433a55", .b = "b31f26304770", .b_weighted = "1383d3e01bd7",
     .least_db = 11.7},
    {"q3_k", .a = "0b4440fa6103", .a_weighted = "e714b267bef4", .b = "0c8c5b623337", .b_weighted = "1d789a822f85",
     .least_db = 16.7},
    {"q4_k", .a = "826ae059e35c", .a_weighted = "dcf0a471c65d", .b = "6d48382ee6db", .b_weighted = "13880eab3bd8",
     .least_db = 23.1},
    {"q5_k", .a = "4b678e3df90d", .a_weighted = "5cb13c4fd140", .b = "b18f94724ae9", .b_weighted = "0ddd760357ee",
     .least_db = 29.25},
    {"q6_k", .a = "121edd4ff730", .a_weighted = "0f0b772f15a9", .b = "8630a7cba19c", .b_weighted = "cd4a443fe8a3",
     .least_db = 35.15},
    {"iq4_nl", .a = "e977fc48cc03", .a_weighted = "8e7ed98598e7", .b = "c8460ac293fd", .b_weighted = "21d5ea368b2b",
     .least_db = 22.5},
    {"iq4_xs", .a = "16dc9acc6e5d", .a_weighted = "2f8b98d06b5d", .b = "2eca74ebeca0", .b_weighted = "f09967903618",
     .least_db = 22.4},
    {"mxfp4", .a = "f44f58424983", .a_weighted = "f44f58424983", .b = "dd564ea08f06", .b_weighted = "dd564ea08f06",
     .least_db = 18.95},
    {"nvfp4", .a = "4e59e2bab765", .a_weighted = "4e59e2bab765", .b = "6d7e7181992d", .b_weighted = "6d7e7181992d",
     .least_db = 20.9},
    {"q1_0", .a = "aa45f3b4cf49", .a_weighted = "aa45f3b4cf49", .b = "961466edc203", .b_weighted = "961466edc203",
     .least_db = 4.35},
    {"q2_0", .a = "b85460dd16c9", .a_weighted = "b85460dd16c9", .b = "5ef22005a90d", .b_weighted = "5ef22005a90d",
     .least_db = 9.05},
    {"tq1_0", .a = "2fdb9ab1c342", .a_weighted = "2fdb9ab1c342", .b = "8d208d0e4216", .b_weighted = "8d208d0e4216",
     .least_db = 7.15},
    {"tq2_0", .a = "2787f7246a6e", .a_weighted = "2787f7246a6e", .b = "e95311d3c992", .b_weighted = "e95311d3c992",
     .least_db = 7.15},
};
#define N_TYPES (sizeof types / sizeof types[0])

/* The state after one step of the generator that the digests belong to. */
static uint32_t step(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state;
}

/* Input A: sums of four uniform numbers, a row twice as large as the row before. Input B: zeros, equal values, one
 * value alone, tiny values, values of one sign, a part of zeros. */
static void make_inputs(void)
{
    uint32_t state = 12345;

    for (size_t i = 0; i < 4 * 1024; i++) {
        int32_t sum = 0;

        for (int k = 0; k < 4; k++) {
            sum += (int32_t)(step(&state) >> 16);
        }
        input_a[i] = ldexpf((float)(sum - 131072), (int)(i / 1024) - 24);
    }
    state = 777;
    for (size_t i = 0; i < 1024; i++) {
        importance[i] = 1.0f + (float)(step(&state) >> 24) / 64.0f;
    }
    for (size_t i = 0; i < 256; i++) {
        input_b[i] = 0.0f;
        input_b[256 + i] = 0.5f;
        input_b[512 + i] = -0.5f;
        input_b[768 + i] = i == 0 ? 1.0f : 0.0f;
        input_b[1024 + i] = 1e-20f;
        input_b[1280 + i] = fabsf(input_a[i]);
        input_b[1536 + i] = -fabsf(input_a[1024 + i]);
        input_b[1792 + i] = i < 32 ? 0.0f : input_a[2048 + i];
    }
    for (size_t i = 0; i < 2048; i++) {
        ones[i] = 1.0f;
    }
    state = 5;
    for (size_t i = 0; i < MOST; i++) { /* Box and Muller; rows of 1024 with deviations of 0.01 to 0.04 */
        double u = ((double)(step(&state) >> 8) + 1.0) / 16777217.0;
        double v = (double)(step(&state) >> 8) / 16777216.0;

        normal[i] =
            (float)(0.01 * exp2((double)(i / 1024 % 5) / 2.0) * sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
    }
}

static int set_up(void **unused)
{
    size_t t = 0;

    (void)unused;
    vc_kernels_fill(&table, -1);
#define VC_BLOCK_TYPE(type, TYPE, n_elems, n_bytes, decoding, encoding) \
    types[t].elems = (n_elems);                                         \
    types[t].bytes = (n_bytes);                                         \
    types[t].to_f32 = table.type##_to_f32;                              \
    types[t++].blocks = table.type##_blocks;
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE
    make_inputs();
    return t == N_TYPES ? 0 : -1;
}

static void expect_digest(const struct block_type *t, const float *x, size_t n_rows, size_t row_len, const float *h,
                          const char *want)
{
    static uint8_t blocks[8192];
    const struct vc_block_how how = {.importance = h};
    struct vc_sha256 sha;
    char hex[VC_SHA256_HEX_BYTES];

    assert_int_equal(t->blocks(x, n_rows, row_len, &how, blocks), 0);
    vc_sha256_begin(&sha);
    vc_sha256_add(&sha, blocks, n_rows * row_len / t->elems * t->bytes);
    vc_sha256_end(&sha, hex);
    hex[12] = '\0';
    if (strcmp(hex, want) != 0) {
        fail_msg("%s: %s, not %s", t->name, hex, want);
    }
}

static void test_digests(void **unused)
{
    (void)unused;
    if (!vc_sha256_built_in()) {
        skip();
    }
    for (size_t i = 0; i < N_TYPES; i++) {
        expect_digest(&types[i], input_a, 4, 1024, NULL, types[i].a);
        expect_digest(&types[i], input_a, 4, 1024, importance, types[i].a_weighted);
        expect_digest(&types[i], input_b, 1, 2048, NULL, types[i].b);
        expect_digest(&types[i], input_b, 1, 2048, ones, types[i].b_weighted);
    }
}

/* Error of each row, weighted, and of all; squares of all. */
static double squares(const struct block_type *t, const float *x, size_t n, bool best, const float *h, double *error)
{
    static uint8_t blocks[MOST / 32 * 34];
    static float y[MOST];
    const struct vc_block_how how = {.best = best, .importance = h};
    double sum = 0.0;

    assert_true(n <= MOST);
    assert_int_equal(t->blocks(x, n / 1024, 1024, &how, blocks), 0);
    assert_int_equal(t->to_f32(blocks, n, y), 0);
    *error = 0.0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)x[i] - (double)y[i];

        sum += (double)x[i] * (double)x[i];
        *error += (h != NULL ? (double)h[i % 1024] : 1.0) * d * d;
    }
    return sum;
}

static void test_best(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < N_TYPES; i++) {
        double reference;
        double best;
        double all = squares(&types[i], normal, 64 * 1024, true, NULL, &best);

        (void)squares(&types[i], normal, 64 * 1024, false, NULL, &reference);
        if (!(best <= reference) || 10.0 * log10(all / best) < types[i].least_db) {
            fail_msg("%s: %.2f dB, the reference %.2f, expected %.2f", types[i].name, 10.0 * log10(all / best),
                     10.0 * log10(all / reference), types[i].least_db);
        }
        (void)squares(&types[i], input_a, 4096, true, importance, &best);
        (void)squares(&types[i], input_a, 4096, false, importance, &reference);
        assert_true(best <= reference);
    }
}

/* Weights whose steps lie where f16 is coarse: `best` uses its least step, instead of none. A step of 0 would leave
 * zeros, or, of types with minima, something worse. */
static void test_small(void **unused)
{
    static float x[16 * 1024];

    (void)unused;
    for (size_t i = 0; i < N_TYPES; i++) {
        double lost =
            strcmp(types[i].name, "q8_0") == 0 ? 10.0 : 2.0; /* its steps are the finest: 2^-24 has a few bits */
        double error;
        double all;

        for (size_t row = 0; row < sizeof x / sizeof x[0]; row += 1024) {
            double sum = 0.0;

            for (size_t j = row; j < row + 1024; j++) {
                sum += (double)normal[j] * (double)normal[j];
            }
            for (size_t j = row; j < row + 1024; j++) {
                x[j] = normal[j] * (float)(2e-5 / sqrt(sum / 1024.0));
            }
        }
        all = squares(&types[i], x, sizeof x / sizeof x[0], true, NULL, &error);
        if (strcmp(types[i].name, "nvfp4") != 0 && !(10.0 * log10(all / error) > types[i].least_db - lost)) { /* E4M3 */
            fail_msg("%s of weights of 2e-5: %.2f dB", types[i].name, 10.0 * log10(all / error));
        }
    }
}

/* Two values, +0.5 and -0.5: every type with codes for both, or a minimum, holds them but for the rounding of a step. */
static void test_two_values(void **unused)
{
    static float x[1024];

    (void)unused;
    for (size_t j = 0; j < 1024; j++) {
        x[j] = normal[j] < 0.0f ? -0.5f : 0.5f;
    }
    for (size_t i = 0; i < N_TYPES; i++) {
        double error;
        double all = squares(&types[i], x, 1024, true, NULL, &error);

        if (strncmp(types[i].name, "iq4", 3) != 0 && !(error <= all * 1e-5)) { /* its codes have no such pair */
            fail_msg("%s of +-0.5: %.2f dB", types[i].name, 10.0 * log10(all / error));
        }
    }
}

/* What an encoder must not stumble over: zeros stay zeros, a constant stays near, values near both ends of f32 give
 * finite blocks or steps beyond f16, which decode to NaN or Inf. */
static void test_odd(void **unused)
{
    static const float constants[] = {0.0f, -0.0f, 1.0f, -3.0f, 1e-30f, 1e-42f, 2000.0f};
    static float x[256];
    static float y[256];
    static uint8_t blocks[512];

    (void)unused;
    for (size_t i = 0; i < N_TYPES; i++) {
        for (size_t k = 0; k < 2 * sizeof constants / sizeof constants[0]; k++) {
            const struct vc_block_how how = {.best = k % 2 == 1};
            float c = constants[k / 2];

            for (size_t e = 0; e < 256; e++) {
                x[e] = c;
            }
            types[i].blocks(x, 1, 256, &how, blocks);
            types[i].to_f32(blocks, 256, y);
            for (size_t e = 0; e < 256; e++) {
                if (!(fabsf(y[e] - c) <= 0.35f * fabsf(c) + 1e-6f)) {
                    fail_msg("%s: %g became %g", types[i].name, (double)c, (double)y[e]);
                }
            }
        }
    }
}

/* Products that overflow make NaN, whose bits differ: 0xffc00000 on x86, 0x7fc00000 on ARM, 0x7fffffff on CUDA devices.
 * Codes and steps are the same. */
static void test_nan(void **unused)
{
    static const uint32_t made[] = {0xffc00000u, 0x7fc00000u, 0x7fffffffu};

    (void)unused;
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        uint8_t step[2];

        assert_int_equal(vc_ggml_round(vc_bits_f32(made[i])), 0);
        vc_put_half(step, vc_bits_f32(made[i]));
        assert_int_equal(step[0] | step[1] << 8, 0x7e00);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digests),    cmocka_unit_test(test_best), cmocka_unit_test(test_small),
        cmocka_unit_test(test_two_values), cmocka_unit_test(test_odd),  cmocka_unit_test(test_nan),
    };

    return cmocka_run_group_tests_name("block_encode", tests, set_up, NULL);
}
