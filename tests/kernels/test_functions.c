/* test_functions.c - exp, log, tanh and erf of kernels/functions.h against those of the C library in a wider type. */
#include "support.h"

#include <math.h>

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
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1009) {
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
    for (unsigned k = 0; k < 2000000; k++) {
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

static void sigmoid(void **state)
{
    (void)state;
    assert_true(vc_sigmoid_f32(0) == 0.5f && vc_sigmoid_f64(0) == 0.5);
    assert_true(vc_sigmoid_f32(-200) == 0 && vc_sigmoid_f64(-800) == 0);
    assert_true(vc_sigmoid_f32(200) == 1 && vc_sigmoid_f64(800) == 1);
    assert_true(fabs(vc_sigmoid_f64(1) - 0.73105857863000487926) < 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats),
        cmocka_unit_test(doubles),
        cmocka_unit_test(sigmoid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
