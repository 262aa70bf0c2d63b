/* test_arch_rope.c - numbers of scaled rotary positions, judged by what transformers' formulas give in Python. */
#include "support.h"

#include <math.h>

#include "arch/arch_rope.h"

static void near(double x, double wanted)
{
    assert_true(fabs(x - wanted) <= 1e-13 * fabs(wanted));
}

/* Llama 3.1: theta 500000, heads of 128, factor 8, bounds 1 and 4, 8192 positions. */
static void llama3_has_a_ramp(void **state)
{
    static const struct {
        uint64_t i;
        double divisor;
    } wanted[] = {{0, 1}, {20, 1}, {30, 1.5534146285049257}, {32, 2.694529687894734}, {35, 8}, {63, 8}};

    (void)state;
    for (size_t k = 0; k < sizeof wanted / sizeof wanted[0]; k++) {
        near(vc_rope_llama3_divisor(500000, 128, 8, 1, 4, 8192, wanted[k].i), wanted[k].divisor);
    }
}

static void yarn_has_a_ramp_of_whole_pairs(void **state)
{
    struct vc_rope_ramp ramp = vc_rope_yarn_ramp(10000, 64, 4096, 32, 1, true);

    (void)state;
    near(ramp.first, 10);
    near(ramp.last, 23);
    near(vc_rope_yarn_divisor(&ramp, 4, 5), 1);
    near(vc_rope_yarn_divisor(&ramp, 4, 15), 1.4054054054054053);
    near(vc_rope_yarn_divisor(&ramp, 4, 31), 4);
    ramp = vc_rope_yarn_ramp(10000, 64, 4096, 32, 1, false);
    near(ramp.first, 10.472240810318025);
    near(ramp.last, 22.513440636877274);
}

/* Pairs that would stand in front of a head or behind it are its ends; both ends in one place are no division by 0. */
static void a_ramp_stays_in_the_head(void **state)
{
    struct vc_rope_ramp ramp = vc_rope_yarn_ramp(10000, 64, 100, 32, 1, true);

    (void)state;
    near(ramp.first, 0);
    ramp = vc_rope_yarn_ramp(10000, 8, 1e9, 32, 1, true);
    near(ramp.last, 7);
    ramp = vc_rope_yarn_ramp(10000, 64, 4096, 1, 1, false);
    assert_true(ramp.last > ramp.first);
}

static void scales(void **state)
{
    (void)state;
    near(vc_rope_yarn_scale(4, 1), 1.138629436111989);
    near(vc_rope_yarn_scale(4, 0.5), 1.0693147180559945);
    near(vc_rope_yarn_scale(0.5, 1), 1);
    near(vc_rope_longrope_scale(32, 4096), 1.1902380714238083);
    near(vc_rope_longrope_scale(1, 4096), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama3_has_a_ramp),
        cmocka_unit_test(yarn_has_a_ramp_of_whole_pairs),
        cmocka_unit_test(a_ramp_stays_in_the_head),
        cmocka_unit_test(scales),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
