/* test_fraction.c - shares as decimals, and counts made of them. */
#include "support.h"

#include "core/values/fraction.h"

static void shares_are_read_exactly(void **state)
{
    static const struct {
        const char *text;
        uint64_t n, d;
    } good[] = {{"0", 0, 1},      {"1", 1, 1},        {"0.5", 5, 10},     {".5", 5, 10},
                {"1.0", 1, 1},    {"50%", 50, 100},   {"0.0", 0, 1},      {"0.123456789", 123456789, 1000000000},
                {"0.500", 5, 10}, {"100%", 100, 100}, {"00.25", 25, 100}, {"0.5%", 5, 1000}};
    struct vc_fraction f;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(vc_fraction_parse(good[i].text, &f));
        assert_int_equal(f.n * good[i].d, good[i].n * f.d);
    }
}

static void what_is_no_share_is_refused(void **state)
{
    static const char *const bad[] = {
        "",    ".",    "%",    "-0.5", "+0.5",  "1.1", "1e-1",         "0,5",
        "nan", "0.5 ", "101%", "0x1",  "0.1.2", "2",   "0.1234567891", "99999999999999999999999"};
    struct vc_fraction f;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(vc_fraction_parse(bad[i], &f));
    }
}

/* 0.29 * 100 is 28.999... in floating point. */
static void counts_have_no_rounding_error(void **state)
{
    const struct vc_fraction f = {29, 100};
    const struct vc_fraction fine = {999999999, 1000000000};

    (void)state;
    assert_int_equal(vc_fraction_floor(f, 100), 29);
    assert_int_equal(vc_fraction_ceil(f, 100), 29);
    assert_int_equal(vc_fraction_floor(f, 101), 29);
    assert_int_equal(vc_fraction_ceil(f, 101), 30);
    assert_true(vc_fraction_floor(fine, UINT64_MAX) == UINT64_C(18446744055262807541));
    assert_true(vc_fraction_ceil((struct vc_fraction){1, 1}, UINT64_MAX) == UINT64_MAX);
    assert_int_equal(vc_fraction_floor((struct vc_fraction){0, 1}, 7), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shares_are_read_exactly),
                                       cmocka_unit_test(what_is_no_share_is_refused),
                                       cmocka_unit_test(counts_have_no_rounding_error)};

    return cmocka_run_group_tests_name("fraction", tests, NULL, NULL);
}
