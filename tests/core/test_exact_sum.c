/* test_exact_sum.c - sums of doubles without rounding: the same result in any order and any division, rounded once
 * at the end, to nearest even. Judges: integers, sums whose value is known from how they were made, and the same terms
 * added in other orders. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/values/exact_sum.h"

static uint64_t state;

static uint64_t next(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state ^ state >> 31;
}

static double sum_of(const double *x, size_t n)
{
    struct vc_exact_sum sum;

    vc_exact_clear(&sum);
    for (size_t i = 0; i < n; i++) {
        vc_exact_add(&sum, x[i]);
    }
    return vc_exact_value(&sum);
}

#define SUM(...) sum_of((const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

static void assert_same(double a, double b)
{
    assert_memory_equal(&a, &b, sizeof a);
}

static void test_single_values(void **unused)
{
    static const double values[] = {0.0,      1.0,     -1.0,   0.1,     DBL_MAX,
                                    -DBL_MAX, DBL_MIN, 5e-324, -5e-324, 0x1.fffffffffffffp-1022};

    (void)unused;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_same(SUM(values[i]), values[i]);
    }
    for (int i = 0; i < 100000; i++) {
        double x = ldexp((double)(next() >> 11), (int)(next() % 2040) - 1074 - 20);

        x = isfinite(x) ? x : 1.0;
        assert_same(SUM(x), x);
        assert_same(SUM(-x), -x);
    }
}

static void test_cancellation(void **unused)
{
    (void)unused;
    assert_same(SUM(1e300, 1.0, -1e300), 1.0);
    assert_same(SUM(DBL_MAX, 5e-324, -DBL_MAX), 5e-324);
    assert_same(SUM(DBL_MAX, DBL_MAX, -DBL_MAX), DBL_MAX);
    assert_same(SUM(0.1, -0.1), 0.0);
    assert_same(SUM(-1e-300, 1e-300, -5e-324), -5e-324);
}

static void test_rounds_once_to_even(void **unused)
{
    (void)unused;
    assert_same(SUM(1.0, 0x1p-53), 1.0);
    assert_same(SUM(1.0, 0x1p-53, 0x1p-1000), 1.0 + 0x1p-52);
    assert_same(SUM(1.0 + 0x1p-52, 0x1p-53), 1.0 + 0x1p-51);
    assert_same(SUM(1.0 + 0x1p-52, 0x1p-53, -0x1p-1000), 1.0 + 0x1p-52);
    assert_same(SUM(-1.0, -0x1p-53), -1.0);
    assert_same(SUM(-1.0, -0x1p-53, -0x1p-1074), -1.0 - 0x1p-52);
    assert_same(SUM(DBL_MAX, DBL_MAX), INFINITY);
    assert_same(SUM(-DBL_MAX, -DBL_MAX), -INFINITY);
    assert_same(SUM(0x1p-1074, 0x1p-1074), 0x1p-1073);
    assert_same(SUM(1.0, -0x1p-54), 1.0); /* half a step below 1: to even */
    assert_same(SUM(1.0, -0x1p-54, -0x1p-200), 1.0 - 0x1p-53);
}

/* Against integers: a sum of small multiples of one unit is known exactly. */
static void test_integers(void **unused)
{
    struct vc_exact_sum sum;
    int64_t expected = 0;

    (void)unused;
    vc_exact_clear(&sum);
    for (int i = 0; i < 1000000; i++) {
        int64_t v = (int64_t)(next() % 2000001) - 1000000;

        vc_exact_add(&sum, (double)v * 0x1p-40);
        expected += v;
    }
    assert_same(vc_exact_value(&sum), (double)expected * 0x1p-40);
}

static void test_what_is_not_finite(void **unused)
{
    struct vc_exact_sum a;
    struct vc_exact_sum b;

    (void)unused;
    vc_exact_clear(&a);
    vc_exact_clear(&b);
    vc_exact_add(&a, 1.0);
    vc_exact_add(&b, (double)INFINITY);
    vc_exact_merge(&a, &b);
    assert_true(isinf(vc_exact_value(&a)) && vc_exact_value(&a) > 0);
    vc_exact_add(&a, -(double)INFINITY);
    assert_true(isnan(vc_exact_value(&a)));
}

static void test_any_order_and_any_split(void **unused)
{
    enum { COUNT = 2000, PARTS = 7 };
    static double x[COUNT];
    double expected;

    (void)unused;
    for (size_t i = 0; i < COUNT; i++) {
        x[i] = ldexp((double)(int64_t)next(), (int)(next() % 600) - 400);
    }
    expected = sum_of(x, COUNT);
    for (int round = 0; round < 20; round++) {
        struct vc_exact_sum parts[PARTS];

        for (size_t i = COUNT - 1; i > 0; i--) {
            size_t k = (size_t)(next() % (i + 1));
            double t = x[i];

            x[i] = x[k];
            x[k] = t;
        }
        for (size_t p = 0; p < PARTS; p++) {
            vc_exact_clear(&parts[p]);
        }
        for (size_t i = 0; i < COUNT; i++) {
            vc_exact_add(&parts[next() % PARTS], x[i]);
        }
        for (size_t p = 1; p < PARTS; p++) {
            vc_exact_merge(&parts[0], &parts[p]);
        }
        assert_same(vc_exact_value(&parts[0]), expected);
        assert_same(sum_of(x, COUNT), expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_values),           cmocka_unit_test(test_cancellation),
        cmocka_unit_test(test_rounds_once_to_even),     cmocka_unit_test(test_integers),
        cmocka_unit_test(test_any_order_and_any_split), cmocka_unit_test(test_what_is_not_finite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
