/* test_lamp.c - one threshold by layer-adaptive scores, found by counting, against scores of all weights that are
 * sorted. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cpu.h"
#include "kernels/arith.h"
#include "prune/lamp.h"

#define MOST_TENSORS 5
#define MOST_WEIGHTS 400
#define MOST_LOOKS   64

struct tensor {
    struct vc_keys keys;
    struct vc_lamp lamp;
    size_t n;
    uint64_t key[MOST_WEIGHTS]; /* ascending: equal ones are in the order of their index */
    double score[MOST_WEIGHTS]; /* of each */
    uint64_t position, n_looks; /* how many go, as sorting says */
    float f32[MOST_WEIGHTS];
    double f64[MOST_WEIGHTS];
};

static uint64_t seed = 1;

static uint64_t draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 20;
}

static double value_of(const struct tensor *t, uint64_t key)
{
    uint32_t bits = (uint32_t)key;
    double wide;
    float f;

    if (t->lamp.type == VC_KEY_U16) {
        return (double)(t->lamp.dtype == VC_DTYPE_F16 ? vc_f16_to_f32((uint16_t)key) : vc_bf16_to_f32((uint16_t)key));
    }
    memcpy(&f, &bits, sizeof f);
    memcpy(&wide, &key, sizeof wide);
    return t->lamp.type == VC_KEY_F32 ? (double)f : wide;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* How the weights of a tensor lie: anywhere, close to each other, few different ones, nothing but small ones, zeros. */
static uint64_t draw_key(enum vc_key_type type, unsigned kind)
{
    static const unsigned bits[] = {[VC_KEY_U16] = 15, [VC_KEY_F32] = 31, [VC_KEY_F64] = 63};
    static const uint64_t one[] = {[VC_KEY_U16] = 0x3c00, [VC_KEY_F32] = 0x3f800000, [VC_KEY_F64] = 0x3ff0000000000000};
    static const uint64_t most[] = {
        [VC_KEY_U16] = 0x7bff, [VC_KEY_F32] = 0x7f7fffff, [VC_KEY_F64] = 0x4eefffffffffffff};
    uint64_t any = draw() << 20 ^ draw();

    switch (kind) {
    case 0:
        return any % (most[type] + 1);
    case 1:
        return one[type] + any % ((uint64_t)1 << (bits[type] - 8));
    case 2:
        return one[type] + (any % 3 << (bits[type] - 6));
    case 3:
        return any % 70000 % (most[type] + 1);
    default:
        return any % 2 * one[type];
    }
}

static void make(struct tensor *t, enum vc_key_type type, enum vc_dtype dtype)
{
    static const unsigned bits[] = {[VC_KEY_U16] = 15, [VC_KEY_F32] = 31, [VC_KEY_F64] = 63};
    unsigned kind = (unsigned)(draw() % 5);
    struct vc_exact_sum sum;

    t->n = 1 + draw() % MOST_WEIGHTS;
    t->lamp = (struct vc_lamp){.type = type, .dtype = dtype};
    vc_keys_init(&t->keys, bits[type], t->n, t->n - draw() % (1 + t->n / 4));
    for (size_t i = 0; i < t->n; i++) {
        t->key[i] = draw_key(type, kind);
    }
    qsort(t->key, t->n, sizeof t->key[0], ascending);
    vc_exact_clear(&sum);
    for (size_t i = t->n; i-- > 0;) {
        double x = value_of(t, t->key[i]);

        double square = x < 0x1p-240 ? 0.0 : x * x;

        vc_exact_add(&sum, square);
        t->score[i] = square == 0.0 ? 0.0 : square / vc_exact_value(&sum);
        t->f32[i] = (float)x;
        t->f64[i] = x;
    }
}

/* The first k in the order score, tensor, place. */
static void sort_out(struct tensor *tensors, size_t n, uint64_t k)
{
    for (size_t t = 0; t < n; t++) {
        tensors[t].position = 0;
    }
    while (k > 0) {
        struct tensor *least = NULL;

        for (size_t t = 0; t < n; t++) {
            struct tensor *x = &tensors[t];

            if (x->position < x->keys.limit &&
                (least == NULL || x->score[x->position] < least->score[least->position])) {
                least = x;
            }
        }
        assert_non_null(least);
        least->position++;
        k--;
    }
}

static void look(struct vc_ctx *ctx, struct tensor *t)
{
    uint32_t *counts = calloc(t->keys.range.n_bins, sizeof *counts);

    assert_non_null(counts);
    vc_lamp_begin(&t->lamp);
    assert_int_equal(vc_keys_begin(ctx, &t->keys), VC_OK);
    for (size_t i = 0; i < t->n; i++) {
        uint64_t d = t->key[i] - t->keys.range.first;

        if (t->key[i] >= t->keys.range.first && d >> t->keys.range.shift < t->keys.range.n_bins) {
            counts[d >> t->keys.range.shift]++;
        }
    }
    vc_keys_add(&t->keys, counts);
    vc_lamp_add(&t->lamp, &t->keys.mutex, t->lamp.type == VC_KEY_F32 ? (const void *)t->f32 : t->f64, t->n);
    assert_int_equal(vc_keys_end(ctx, &t->keys), VC_OK);
    free(counts);
    t->n_looks++;
}

static void expect_position(const struct tensor *t)
{
    uint64_t below = 0;

    assert_true(t->keys.done);
    while (below < t->n && t->key[below] < t->keys.cut.threshold) {
        below++;
    }
    assert_int_equal(below + t->keys.cut.n_ties, t->position);
}

static void one_case(struct vc_ctx *ctx, enum vc_key_type type, enum vc_dtype dtype)
{
    static struct tensor tensors[MOST_TENSORS];
    struct vc_lamp_keys list[MOST_TENSORS];
    size_t n = 1 + draw() % MOST_TENSORS;
    uint64_t most = 0;
    uint64_t k;
    bool any = true;

    for (size_t t = 0; t < n; t++) {
        memset(&tensors[t], 0, sizeof tensors[t]);
        make(&tensors[t], type, dtype);
        list[t] = (struct vc_lamp_keys){.name = "t", .keys = &tensors[t].keys, .lamp = &tensors[t].lamp};
        most += tensors[t].keys.limit;
    }
    k = draw() % 8 == 0 ? most : draw() % (most + 1);
    sort_out(tensors, n, k);
    for (size_t round = 0; any; round++) {
        assert_true(round < MOST_LOOKS);
        any = false;
        for (size_t t = 0; t < n; t++) {
            if (!tensors[t].keys.done && !tensors[t].lamp.waits) {
                look(ctx, &tensors[t]);
                any = true;
            }
        }
        assert_int_equal(any ? vc_lamp_narrow(ctx, list, n, &k) : VC_OK, VC_OK);
    }
    for (size_t t = 0; t < n; t++) {
        expect_position(&tensors[t]);
        assert_true(tensors[t].n_looks <= (type == VC_KEY_U16 ? 1 : type == VC_KEY_F32 ? 4 : 8));
        vc_keys_release(ctx, &tensors[t].keys);
    }
}

static void same_as_sorting(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (unsigned i = 0; i < 400 / TEST_STRIDE; i++) {
        one_case(ctx, VC_KEY_U16, i % 2 == 0 ? VC_DTYPE_F16 : VC_DTYPE_BF16);
        one_case(ctx, VC_KEY_F32, VC_DTYPE_F32);
        one_case(ctx, VC_KEY_F64, VC_DTYPE_F64);
    }
    test_ctx_done(ctx);
}

/* Squares beyond f64 are refused, not compared as infinities. */
static void too_large(void **state)
{
    static struct tensor tensor;
    struct vc_lamp_keys one = {.name = "large", .keys = &tensor.keys, .lamp = &tensor.lamp};
    const double x = 0x1p240;
    struct vc_ctx *ctx = test_ctx();
    uint64_t k = 1;

    (void)state;
    make(&tensor, VC_KEY_F64, VC_DTYPE_F64);
    memcpy(&tensor.key[tensor.n - 1], &x, sizeof x);
    look(ctx, &tensor);
    assert_int_equal(vc_lamp_narrow(ctx, &one, 1, &k), VC_E_UNSUPPORTED);
    assert_non_null(strstr(ctx->message, "large: has weights of 2^240"));
    vc_keys_release(ctx, &tensor.keys);
    test_ctx_done(ctx);
}

/* The exact sum of squares from a key on, whatever the spread of the exponents: against one addition for each square. */
static void sums_are_exact(void **state)
{
    static char bytes[(3 * 4096 + 13) * sizeof(float) + 1];
    const unsigned highest[] = {254, 127, 24, 3, 0};            /* exponent of the largest weights: 0 of subnormals */
    const unsigned near[] = {0, 1, 5, 19, 20, 21, 24, 60, 254}; /* binades from there to `end` */
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

    (void)state;
    for (unsigned i = 0; i < 90; i++) {
        unsigned top = highest[i / 9 % 5];
        uint32_t last = top > near[i % 9] ? top - near[i % 9] : 0;
        struct vc_lamp lamp = {.type = VC_KEY_F32, .dtype = VC_DTYPE_F32};
        unsigned spread = near[draw() % 9] + 1;
        size_t n = 1 + (size_t)(draw() % (3 * 4096 + 13));
        struct vc_exact_sum expected; /* negative */

        lamp.level = i % 2 == 0 ? vc_cpu_best() : i % 4 == 1 && vc_cpu_has(VC_CPU_AVX2) ? VC_CPU_AVX2 : VC_CPU_BASE;
        lamp.end = i % 7 == 0 ? 0x80000000u : last << 23 | 1;
        vc_exact_clear(&expected);
        vc_lamp_begin(&lamp);
        for (size_t j = 0; j < n; j++) {
            unsigned below = (unsigned)(draw() % spread);
            uint32_t key = (top > below ? top - below : 0) << 23 | (uint32_t)(draw() & 0x7fffffu);
            uint32_t bits = key | (uint32_t)(draw() & 1) << 31;
            float x;

            memcpy(&x, &key, sizeof x);
            memcpy(bytes + 1 + j * sizeof bits, &bits, sizeof bits); /* at an odd address */
            if (key >= lamp.end) {
                vc_exact_add(&expected, -((double)x * (double)x));
            }
        }
        vc_lamp_add(&lamp, &mutex, bytes + 1, n);
        vc_exact_merge(&lamp.above, &expected); /* not the rounded values: what is lost is far below their last bit */
        assert_true(vc_exact_value(&lamp.above) == 0.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_sorting), cmocka_unit_test(too_large),
                                       cmocka_unit_test(sums_are_exact)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
