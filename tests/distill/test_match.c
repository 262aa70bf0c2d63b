/* test_match.c - the losses of values inside networks: against their definitions, written out naively here, and
 * gradients against central differences. */
#include "support.h"

#include <math.h>

#include "distill/loss/match_row.h"
#include "passes/random.h"

#define POINTS 4
#define WIDTH  3
#define N      (POINTS * WIDTH)

static const uint8_t mask[POINTS] = {1, 0, 1, 1};

static void fill(double *x, size_t n, uint64_t from)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = 4 * ((double)(vc_random_bits(5, 2, from + i) >> 11) * 0x1p-53) - 2;
    }
}

static double square(double x)
{
    return x * x;
}

/* Sums of squares of a point of width w, divided by the root of the sum of their squares over the points that count. */
static double map(const struct vc_match_row *r, const double *x, size_t w, size_t point)
{
    double all = 0;
    double own = 0;

    for (size_t p = 0; p < POINTS; p++) {
        double f = 0;

        for (size_t i = 0; (r->mask == NULL || r->mask[p] != 0) && i < w; i++) {
            f += x[p * w + i] * x[p * w + i];
        }
        own = p == point ? f : own;
        all += f * f;
    }
    return own / sqrt(all);
}

static double by_definition(const struct vc_match_row *r)
{
    double sum = 0;

    for (size_t p = 0; p < POINTS; p++) {
        const double *s = r->student + p * r->width;
        const double *t = r->teacher + p * r->teacher_width;

        if (r->mask != NULL && r->mask[p] == 0) {
            continue;
        }
        if (r->kind == VC_MATCH_ATTENTION) {
            sum += square(map(r, r->student, r->width, p) - map(r, r->teacher, r->teacher_width, p));
        } else if (r->kind == VC_MATCH_MSE) {
            sum += (square(s[0] - t[0]) + square(s[1] - t[1]) + square(s[2] - t[2])) / 3;
        } else {
            sum += 1 - (s[0] * t[0] + s[1] * t[1] + s[2] * t[2]) / sqrt(s[0] * s[0] + s[1] * s[1] + s[2] * s[2]) /
                           sqrt(t[0] * t[0] + t[1] * t[1] + t[2] * t[2]);
        }
    }
    return sum;
}

static void expect(enum vc_match_kind kind, const uint8_t *masked, size_t teacher_width)
{
    double student[N], teacher[POINTS * 5], gradient[N], other[N], maps[2 * POINTS];
    struct vc_match_row r = {.kind = kind,
                             .n_points = POINTS,
                             .width = WIDTH,
                             .teacher_width = teacher_width,
                             .student = student,
                             .teacher = teacher,
                             .mask = masked,
                             .by = 0.25,
                             .gradient = gradient,
                             .maps = maps};

    fill(student, N, 0);
    fill(teacher, POINTS * teacher_width, 100);
    assert_true(fabs(vc_match_row(&r) - by_definition(&r)) < 1e-14);
    r.gradient = other;
    for (size_t i = 0; i < N; i++) {
        double at = student[i];
        double up, down;

        student[i] = at + 1e-5;
        up = vc_match_row(&r);
        student[i] = at - 1e-5;
        down = vc_match_row(&r);
        student[i] = at;
        assert_true(fabs(gradient[i] - 0.25 * (up - down) / 2e-5) < 1e-9);
    }
}

static void squared_error(void **state)
{
    (void)state;
    expect(VC_MATCH_MSE, NULL, WIDTH);
    expect(VC_MATCH_MSE, mask, WIDTH);
}

static void cosine(void **state)
{
    (void)state;
    expect(VC_MATCH_COSINE, NULL, WIDTH);
    expect(VC_MATCH_COSINE, mask, WIDTH);
}

static void attention(void **state)
{
    (void)state;
    expect(VC_MATCH_ATTENTION, NULL, WIDTH);
    expect(VC_MATCH_ATTENTION, mask, WIDTH);
    expect(VC_MATCH_ATTENTION, mask, 5); /* a map has no channels */
}

/* Where all is 0 there is neither a direction nor a map; nothing becomes NaN. */
static void zeros(void **state)
{
    double student[N] = {0}, teacher[N], gradient[N], maps[2 * POINTS];
    struct vc_match_row r = {.n_points = POINTS,
                             .width = WIDTH,
                             .teacher_width = WIDTH,
                             .student = student,
                             .teacher = teacher,
                             .by = 1,
                             .gradient = gradient,
                             .maps = maps};

    (void)state;
    fill(teacher, N, 7);
    r.kind = VC_MATCH_COSINE;
    assert_true(vc_match_row(&r) == POINTS);
    r.kind = VC_MATCH_ATTENTION;
    assert_true(fabs(vc_match_row(&r) - 1) < 1e-15);
    for (size_t i = 0; i < N; i++) {
        assert_true(gradient[i] == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(squared_error),
        cmocka_unit_test(cosine),
        cmocka_unit_test(attention),
        cmocka_unit_test(zeros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
