/* test_functions.c - exp, log, tanh and erf of kernels/functions.h against those of the C library in a wider type; and
 * all f64 functions against points that mpmath computed (function_points.inc). `test_functions --stream NAME` reads
 * pairs of doubles and writes what the function makes of each: tests/judge/test_functions.py compares many more with
 * mpmath. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/functions.h"

/* How far y is from x in units in the last place of a float at x; 0 where both are the same special value. */
static double units_f32(float y, double x)
{
    float as = fabsf((float)x);
    float unit = nextafterf(as, INFINITY) - as;

    if (isnan(y) || isnan(x) || isinf(y) || isinf((float)x)) {
        return (isnan(y) && isnan(x)) || y == (float)x ? 0 : 1e9;
    }
    return fabs((double)y - x) / (double)unit;
}

static double units_f64(double y, long double x)
{
    double as = fabs((double)x);
    double unit = nextafter(as, (double)INFINITY) - as;

    if (isnan(y) || isnan((double)x) || isinf(y) || isinf((double)x)) {
        return (isnan(y) && isnan((double)x)) || y == (double)x ? 0 : 1e9;
    }
    return (double)(fabsl((long double)y - x) / (long double)unit);
}

static void within(const char *what, double x, double units, double bound)
{
    if (!(units <= bound)) {
        fail_msg("%s(%.17g) is %g units in the last place off", what, x, units);
    }
}

/* Floats of all magnitudes, subnormal ones, infinities and NaN among them. */
static void floats(void **state)
{
    (void)state;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1009 * TEST_STRIDE) {
        float x = vc_bits_f32((uint32_t)bits);

        within("exp", (double)x, units_f32(vc_exp_f32(x), exp((double)x)), 1.1);
        within("log", (double)x, units_f32(vc_log_f32(x), log((double)x)), 1);
        within("tanh", (double)x, units_f32(vc_tanh_f32(x), tanh((double)x)), 2.6);
        within("erf", (double)x, units_f32(vc_erf_f32(x), erf((double)x)), 2.7);
    }
}

static void check_f64(double x)
{
    within("exp", x, units_f64(vc_exp_f64(x), expl((long double)x)), 1.1);
    within("log", x, units_f64(vc_log_f64(x), logl((long double)x)), 1);
    within("tanh", x, units_f64(vc_tanh_f64(x), tanhl((long double)x)), 2.6);
    within("erf", x, units_f64(vc_erf_f64(x), erfl((long double)x)), 1.5);
}

static void doubles(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (unsigned k = 0; k < 2000000 / TEST_STRIDE; k++) {
        double x;

        random = random * 6364136223846793005u + 1442695040888963407u;
        x = (double)(int64_t)random / 9223372036854775808.0;
        check_f64(x * 750);
        check_f64(x * 3);
        check_f64(x / 1000);
        check_f64(vc_bits_f64(random ^ random >> 31));
    }
    check_f64(0);
    check_f64(-0.0);
    check_f64((double)INFINITY);
    check_f64(-(double)INFINITY);
    check_f64((double)NAN);
}

/* ---- points of mpmath ---- */

#define OF_ONE(name)                                 \
    static double of_##name(double x, double unused) \
    {                                                \
        (void)unused;                                \
        return vc_##name##_f64(x);                   \
    }

OF_ONE(exp)
OF_ONE(log)
OF_ONE(tanh)
OF_ONE(erf)
OF_ONE(expm1)
OF_ONE(log1p)
OF_ONE(log2)
OF_ONE(log10)
OF_ONE(sin)
OF_ONE(cos)
OF_ONE(tan)
#undef OF_ONE

static double of_pow(double x, double y)
{
    return vc_pow_f64(x, y);
}

static const struct function {
    const char *name;
    double (*f)(double x, double y);
    int64_t most; /* doubles between the result and the nearest one */
} functions[] = {
    {"exp", of_exp, 1},     {"log", of_log, 1},     {"tanh", of_tanh, 3}, {"erf", of_erf, 2},
    {"expm1", of_expm1, 2}, {"log1p", of_log1p, 2}, {"sin", of_sin, 1},   {"cos", of_cos, 1},
    {"tan", of_tan, 2},     {"pow", of_pow, 1},     {"log2", of_log2, 1}, {"log10", of_log10, 1},
};

static const struct point {
    const char *name;
    uint64_t x, y, value;
} points[] = {
#include "function_points.inc"
};

static const struct function *find(const char *name)
{
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        if (strcmp(functions[k].name, name) == 0) {
            return &functions[k];
        }
    }
    return NULL;
}

/* The place of a double among all, without NaN; -0 and 0 have the same. */
static int64_t place(double x)
{
    int64_t bits = (int64_t)vc_f64_bits(fabs(x));

    return x < 0 ? -bits : bits;
}

static void golden(void **state)
{
    (void)state;
    assert_true(sizeof points / sizeof *points > 400);
    for (size_t k = 0; k < sizeof points / sizeof *points; k++) {
        const struct function *f = find(points[k].name);
        double x = vc_bits_f64(points[k].x);
        double y = vc_bits_f64(points[k].y);
        double right = vc_bits_f64(points[k].value);
        double found;

        assert_non_null(f);
        found = f->f(x, y);
        if (isnan(right)
                ? !isnan(found)
                : isnan(found) || isinf(found) != isinf(right) || llabs(place(found) - place(right)) > f->most) {
            fail_msg("%s(%.17g, %.17g) is %.17g, and %.17g is nearest", f->name, x, y, found, right);
        }
    }
}

static int stream(const char *name)
{
    const struct function *f = find(name);
    double pair[2];

    while (f != NULL && fread(pair, sizeof *pair, 2, stdin) == 2) {
        double value = f->f(pair[0], pair[1]);

        fwrite(&value, sizeof value, 1, stdout);
    }
    return f == NULL;
}

/* Within its range exp_near has the bits of exp: at both ends, around 0, between. */
static void near(void **state)
{
    const double ends[] = {-VC_EXP_NEAR_F64, VC_EXP_NEAR_F64, 0.0, -0.0};

    (void)state;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 10007 * TEST_STRIDE) {
        float x = vc_bits_f32((uint32_t)bits);

        if (fabsf(x) <= VC_EXP_NEAR_F32) {
            double d = (double)x * 8;

            assert_int_equal(vc_f32_bits(vc_exp_near_f32(x)), vc_f32_bits(vc_exp_f32(x)));
            assert_true(vc_f64_bits(vc_exp_near_f64(d)) == vc_f64_bits(vc_exp_f64(d)));
        }
    }
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        assert_true(vc_f64_bits(vc_exp_near_f64(ends[k])) == vc_f64_bits(vc_exp_f64(ends[k])));
    }
    assert_int_equal(vc_f32_bits(vc_exp_near_f32(VC_EXP_NEAR_F32)), vc_f32_bits(vc_exp_f32(VC_EXP_NEAR_F32)));
    assert_int_equal(vc_f32_bits(vc_exp_near_f32(-VC_EXP_NEAR_F32)), vc_f32_bits(vc_exp_f32(-VC_EXP_NEAR_F32)));
}

static void sigmoid(void **state)
{
    (void)state;
    assert_true(vc_sigmoid_f32(0) == 0.5f && vc_sigmoid_f64(0) == 0.5);
    assert_true(vc_sigmoid_f32(-200) == 0 && vc_sigmoid_f64(-800) == 0);
    assert_true(vc_sigmoid_f32(200) == 1 && vc_sigmoid_f64(800) == 1);
    assert_true(fabs(vc_sigmoid_f64(1) - 0.73105857863000487926) < 1e-15);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats), cmocka_unit_test(doubles), cmocka_unit_test(golden),
        cmocka_unit_test(near),   cmocka_unit_test(sigmoid),
    };

    if (argc == 3 && strcmp(argv[1], "--stream") == 0) {
        return stream(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
