/* test_dims.c - dimensions as polynomials: equal ones are the same, and they agree with arithmetic on numbers. */
#include "support.h"

#include "graph/base/dims.h"

static struct vc_ctx *ctx;
static struct vc_arena arena;
static struct vc_dims dims;

static int begin(void **state)
{
    (void)state;
    ctx = test_ctx();
    arena = (struct vc_arena){0};
    assert_int_equal(vc_dims_init(&dims, ctx, &arena), VC_OK);
    return 0;
}

static int end(void **state)
{
    (void)state;
    vc_dims_release(&dims);
    vc_arena_release(ctx, &arena);
    test_ctx_done(ctx);
    return 0;
}

static struct vc_dim number(int64_t n)
{
    return vc_dim_number(n);
}

static void expect_text(struct vc_dim a, const char *text)
{
    char buffer[200];

    assert_string_equal(vc_dim_text(&dims, a, buffer, sizeof buffer), text);
}

static void equal_expressions_are_the_same(void **state)
{
    struct vc_dim b = vc_dim_symbol(&dims, "batch");
    struct vc_dim s = vc_dim_symbol(&dims, "sequence");
    struct vc_dim one = vc_dim_add(&dims, vc_dim_multiply(&dims, b, s), vc_dim_multiply(&dims, s, number(2)));
    struct vc_dim two = vc_dim_multiply(&dims, vc_dim_add(&dims, number(2), b), s);

    (void)state;
    assert_true(vc_dim_equal(one, two));
    assert_true(vc_dim_equal(b, vc_dim_symbol(&dims, "batch")));
    assert_false(vc_dim_equal(b, s));
    assert_true(vc_dim_equal(vc_dim_subtract(&dims, one, two), number(0)));
    expect_text(one, "batch*sequence + 2*sequence");
    expect_text(vc_dim_subtract(&dims, number(-3), b), "-batch - 3");
}

static void quotients(void **state)
{
    struct vc_dim h = vc_dim_symbol(&dims, "height");
    struct vc_dim b = vc_dim_symbol(&dims, "batch");
    struct vc_dim all = vc_dim_multiply(&dims, vc_dim_multiply(&dims, b, h), number(12));

    (void)state;
    assert_true(vc_dim_equal(vc_dim_divide(&dims, all, vc_dim_multiply(&dims, h, number(4))),
                             vc_dim_multiply(&dims, b, number(3))));
    expect_text(vc_dim_divide(&dims, vc_dim_add(&dims, vc_dim_multiply(&dims, h, number(2)), number(5)), number(2)),
                "height + 2");
    expect_text(vc_dim_add(&dims, vc_dim_divide(&dims, vc_dim_subtract(&dims, h, number(1)), number(2)), number(1)),
                "floor((height + 1)/2)");
    expect_text(vc_dim_divide(&dims, b, h), "floor((batch)/(height))");
    assert_true(vc_dim_equal(vc_dim_divide(&dims, number(-7), number(2)), number(-4)));
    assert_true(vc_dim_is_bad(vc_dim_divide(&dims, h, number(0))));
    /* a sum of several terms divides itself */
    assert_true(vc_dim_equal(vc_dim_divide(&dims, vc_dim_add(&dims, b, h), vc_dim_add(&dims, h, b)), number(1)));
}

static void sizes_that_are_bound(void **state)
{
    struct vc_dim h = vc_dim_symbol(&dims, "height");
    struct vc_dim out =
        vc_dim_add(&dims, vc_dim_divide(&dims, vc_dim_subtract(&dims, h, number(2)), number(2)), number(1));
    struct vc_dim twice = vc_dim_divide(&dims, out, number(2));

    (void)state;
    assert_int_equal(vc_dim_value(&dims, out), -1);
    assert_true(vc_dim_bind(&dims, "height", 29));
    assert_int_equal(vc_dim_value(&dims, out), 14);
    assert_int_equal(vc_dim_value(&dims, twice), 7);
    assert_int_equal(vc_dim_value(&dims, vc_dim_divide(&dims, twice, number(3))), 2); /* made after the binding */
    assert_true(vc_dim_bind(&dims, "height", 1));
    assert_int_equal(vc_dim_value(&dims, vc_dim_subtract(&dims, h, number(5))), -1); /* negative */
    assert_false(vc_dim_bind(&dims, "width", 3));
}

/* Every expression that random steps make has the value that the same steps on numbers have. */
static void agrees_with_numbers(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct vc_dim e[12];
        int64_t v[12];

        e[0] = vc_dim_symbol(&dims, "x");
        e[1] = vc_dim_symbol(&dims, "y");
        v[0] = 1 + round % 7;
        v[1] = 3 + round % 5;
        assert_true(vc_dim_bind(&dims, "x", v[0]));
        assert_true(vc_dim_bind(&dims, "y", v[1]));
        for (int k = 2; k < 12; k++) {
            int i;
            int j;
            int64_t n;

            seed = seed * 6364136223846793005u + 1442695040888963407u;
            i = (int)(seed >> 33) % k;
            j = (int)(seed >> 43) % k;
            n = (int64_t)(seed >> 53) % 9 + 1;
            switch (seed >> 60 & 3) {
            case 0:
                e[k] = vc_dim_add(&dims, e[i], e[j]);
                v[k] = v[i] + v[j];
                break;
            case 1:
                e[k] = vc_dim_subtract(&dims, e[i], vc_dim_number(n));
                v[k] = v[i] - n;
                break;
            case 2:
                e[k] = vc_dim_multiply(&dims, e[i], vc_dim_number(n));
                v[k] = v[i] * n;
                break;
            default:
                e[k] = vc_dim_divide(&dims, e[i], vc_dim_number(n));
                v[k] = v[i] / n - (v[i] % n != 0 && v[i] < 0);
            }
            assert_int_equal(vc_dim_value(&dims, e[k]), v[k] >= 0 ? v[k] : -1);
        }
    }
}

static void what_overflows_is_bad(void **state)
{
    struct vc_dim x = vc_dim_symbol(&dims, "x");
    struct vc_dim large = number(INT64_MAX);
    struct vc_dim power = x;
    struct vc_dim deep = x;

    (void)state;
    assert_true(vc_dim_is_bad(vc_dim_multiply(&dims, large, number(2))));
    assert_true(vc_dim_is_bad(vc_dim_add(&dims, large, number(1))));
    assert_true(vc_dim_is_bad(vc_dim_add(&dims, vc_dim_bad(), x)));
    assert_false(vc_dim_equal(vc_dim_bad(), vc_dim_bad()));
    expect_text(vc_dim_bad(), "?");
    for (int k = 0; k < VC_DIM_FACTORS; k++) {
        power = vc_dim_multiply(&dims, power, x);
    }
    assert_true(vc_dim_is_bad(power)); /* too many factors */
    for (int k = 0; k < 2 * VC_DIM_DEPTH; k++) {
        deep = vc_dim_divide(&dims, vc_dim_add(&dims, vc_dim_multiply(&dims, deep, number(3)), number(1)), number(2));
    }
    assert_true(vc_dim_is_bad(deep));
    assert_true(vc_dim_bind(&dims, "x", INT64_MAX));
    assert_int_equal(vc_dim_value(&dims, vc_dim_multiply(&dims, x, number(3))), -1);
}

/* Text is cut off, however much an expression repeats. */
static void text_is_bounded(void **state)
{
    struct vc_dim a = vc_dim_symbol(&dims, "x");
    char buffer[64];

    (void)state;
    for (int k = 0; k < 60; k++) { /* each has the one before it twice inside */
        a = vc_dim_divide(&dims, vc_dim_add(&dims, vc_dim_multiply(&dims, a, a), a), number(7));
        if (vc_dim_is_bad(a)) {
            break;
        }
        assert_true(strlen(vc_dim_text(&dims, a, buffer, sizeof buffer)) < sizeof buffer);
    }
}

/* What can never be the same, and what may be; what both sides of a quotient have goes. */
static void differences(void **state)
{
    struct vc_dim x = vc_dim_symbol(&dims, "x");
    struct vc_dim y = vc_dim_symbol(&dims, "y");
    struct vc_dim five = vc_dim_multiply(&dims, x, number(5));
    struct vc_dim forty = vc_dim_multiply(&dims, x, number(40));
    struct vc_dim half = vc_dim_divide(&dims, x, number(2));

    (void)state;
    assert_true(vc_dim_differ(&dims, number(3), number(4)));
    assert_false(vc_dim_differ(&dims, number(3), number(3)));
    assert_true(vc_dim_differ(&dims, five, forty));
    assert_true(vc_dim_differ(&dims, number(4), five));
    assert_false(vc_dim_differ(&dims, number(5), five));
    assert_false(vc_dim_differ(&dims, five, five));
    assert_false(vc_dim_differ(&dims, x, y));
    assert_false(vc_dim_differ(&dims, vc_dim_bad(), number(1)));
    assert_true(vc_dim_differ(&dims, vc_dim_add(&dims, x, number(1)), x));
    assert_true(vc_dim_equal(vc_dim_divide(&dims, five, forty), number(0)));
    assert_true(
        vc_dim_equal(vc_dim_divide(&dims, vc_dim_multiply(&dims, forty, y), vc_dim_multiply(&dims, x, number(3))),
                     vc_dim_divide(&dims, vc_dim_multiply(&dims, y, number(40)), number(3))));
    /* floor(x/2) is 0 where x is 1: it does not go. */
    assert_false(vc_dim_is_number(
        vc_dim_divide(&dims, vc_dim_multiply(&dims, half, number(5)), vc_dim_multiply(&dims, half, number(40)))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_expressions_are_the_same, begin, end),
        cmocka_unit_test_setup_teardown(quotients, begin, end),
        cmocka_unit_test_setup_teardown(sizes_that_are_bound, begin, end),
        cmocka_unit_test_setup_teardown(agrees_with_numbers, begin, end),
        cmocka_unit_test_setup_teardown(what_overflows_is_bad, begin, end),
        cmocka_unit_test_setup_teardown(text_is_bounded, begin, end),
        cmocka_unit_test_setup_teardown(differences, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
