/* test_losses.c - losses against their definitions, written out naively here, and gradients against central
 * differences of the losses. */
#include "support.h"

#include <math.h>

#include "core/base/cpu.h"
#include "distill/math/step_table.h"
#include "kernels/functions.h"
#include "passes/random.h"

#define ROWS    5
#define CLASSES 7
#define N       (ROWS * CLASSES)

static double random_unit(uint64_t n)
{
    return (double)(vc_random_bits(3, 1, n) >> 11) * 0x1p-53;
}

static void fill(double *x, uint64_t from, double spread)
{
    for (size_t i = 0; i < N; i++) {
        x[i] = (2 * random_unit(from + i) - 1) * spread;
    }
}

static const int64_t labels[ROWS] = {3, VC_NO_LABEL, 0, 6, 2};
static const struct vc_label_rows own = {labels, NULL};
static const uint8_t mask[ROWS] = {1, 1, 0, 1, 1};

static double softmax(const double *x, size_t c, double t)
{
    double sum = 0;

    for (size_t k = 0; k < CLASSES; k++) {
        sum += exp(x[k] / t);
    }
    return exp(x[c] / t) / sum;
}

/* Counted rows: 4 of the teacher, 3 with a label. */
static double by_definition(const struct vc_loss_spec *spec, const double *z, const double *t)
{
    double kd = 0;
    double ce = 0;

    for (size_t r = 0; r < ROWS; r++) {
        double products[3] = {0, 0, 0};

        for (size_t c = 0; mask[r] != 0 && spec->kind == VC_TEACHER_LOSS_COSINE && c < CLASSES; c++) {
            products[0] += z[r * CLASSES + c] * t[r * CLASSES + c];
            products[1] += z[r * CLASSES + c] * z[r * CLASSES + c];
            products[2] += t[r * CLASSES + c] * t[r * CLASSES + c];
        }
        kd += mask[r] != 0 && spec->kind == VC_TEACHER_LOSS_COSINE
                  ? (1 - products[0] / sqrt(products[1] * products[2])) / 4
                  : 0;
        for (size_t c = 0; mask[r] != 0 && spec->kind != VC_TEACHER_LOSS_COSINE && c < CLASSES; c++) {
            double p = softmax(t + r * CLASSES, c, spec->temperature);
            double q = softmax(z + r * CLASSES, c, spec->temperature);
            double d = z[r * CLASSES + c] - t[r * CLASSES + c];

            kd += spec->kind == VC_TEACHER_LOSS_MSE ? d * d / CLASSES / 4
                                                    : spec->temperature * spec->temperature * p * log(p / q) / 4;
        }
        if (mask[r] != 0 && labels[r] >= 0) {
            ce -= log(softmax(z + r * CLASSES, (size_t)labels[r], 1)) / 3;
        }
    }
    return spec->alpha * kd + (1 - spec->alpha) * ce;
}

static double total(const struct vc_loss_spec *spec, const double *z, const struct vc_teacher_rows *teacher)
{
    double row[VC_LOSS_ROOM * CLASSES];
    struct vc_loss_sums sums = vc_loss_f64(spec, ROWS, CLASSES, z, teacher, &own, mask, row, NULL);

    return spec->alpha * sums.kd + (1 - spec->alpha) * sums.ce;
}

static void expect_gradient(const struct vc_loss_spec *spec, double *z, const struct vc_teacher_rows *teacher)
{
    double gradient[N];
    double row[VC_LOSS_ROOM * CLASSES];

    (void)vc_loss_f64(spec, ROWS, CLASSES, z, teacher, &own, mask, row, gradient);
    for (size_t i = 0; i < N; i++) {
        double at = z[i];
        double h = 1e-5;
        double up, down, numeric;

        z[i] = at + h;
        up = total(spec, z, teacher);
        z[i] = at - h;
        down = total(spec, z, teacher);
        z[i] = at;
        numeric = (up - down) / (2 * h);
        assert_true(fabs(numeric - gradient[i]) < 1e-8 + 1e-6 * fabs(numeric));
    }
}

static void test_mixed(void **unused)
{
    static const double temperatures[] = {1, 2, 4, 20};
    static const double alphas[] = {0, 0.3, 1};
    double z[N], t[N];

    (void)unused;
    fill(z, 0, 4);
    fill(t, 1000, 4);
    for (size_t k = 0; k < 36; k++) {
        const struct vc_loss_spec spec = {.alpha = alphas[k % 3],
                                          .temperature = temperatures[k / 3 % 4],
                                          .kind = (enum vc_teacher_loss)(k / 12),
                                          .kd_rows = 4,
                                          .ce_rows = 3};
        const struct vc_teacher_rows teacher = {.logits = t};
        double wanted = by_definition(&spec, z, t);

        assert_true(fabs(total(&spec, z, &teacher) - wanted) < 1e-13 * (1 + wanted));
        expect_gradient(&spec, z, &teacher);
    }
}

/* A scale multiplies the gradient, and nothing else. */
static void test_scale(void **unused)
{
    struct vc_loss_spec spec = {.alpha = 0.3, .temperature = 2, .kd_rows = 4, .ce_rows = 3};
    double z[N], t[N], row[VC_LOSS_ROOM * CLASSES], plain[N], scaled[N];
    const struct vc_teacher_rows teacher = {.logits = t};
    struct vc_loss_sums sums, same;

    (void)unused;
    fill(z, 0, 4);
    fill(t, 1000, 4);
    sums = vc_loss_f64(&spec, N / CLASSES, CLASSES, z, &teacher, NULL, NULL, row, plain);
    spec.scale = 1024;
    same = vc_loss_f64(&spec, N / CLASSES, CLASSES, z, &teacher, NULL, NULL, row, scaled);
    assert_true(same.kd == sums.kd && same.ce == sums.ce && sums.kd != 0);
    for (size_t i = 0; i < N; i++) {
        assert_true(scaled[i] == 1024 * plain[i]);
    }
}

/* A row of zeros has no direction: its term is 1, and nothing pulls at it. */
static void test_cosine_of_nothing(void **unused)
{
    const struct vc_loss_spec spec = {
        .alpha = 1, .temperature = 1, .kind = VC_TEACHER_LOSS_COSINE, .kd_rows = 2, .ce_rows = 0};
    const double z[2 * CLASSES] = {0};
    double t[2 * CLASSES] = {0}, row[VC_LOSS_ROOM * CLASSES], gradient[2 * CLASSES];
    const struct vc_teacher_rows teacher = {.logits = t};

    (void)unused;
    t[0] = 3;
    assert_true(vc_loss_f64(&spec, 2, CLASSES, z, &teacher, NULL, NULL, row, gradient).kd == 1);
    for (size_t i = 0; i < (size_t)2 * CLASSES; i++) {
        assert_true(gradient[i] == 0);
    }
    t[0] = NAN; /* which a row of zeros does not hide */
    assert_true(isnan(vc_loss_f64(&spec, 2, CLASSES, z, &teacher, NULL, NULL, row, gradient).kd));
}

/* A micro-batch has its share of the step's rows: two halves give what the whole gives. */
static void test_parts(void **unused)
{
    const struct vc_loss_spec spec = {.alpha = 0.5, .temperature = 3, .kd_rows = 4, .ce_rows = 3};
    double z[N], t[N], whole[N], parts[N], row[VC_LOSS_ROOM * CLASSES];
    struct vc_teacher_rows teacher = {.logits = t};
    struct vc_loss_sums a, b, all;

    (void)unused;
    fill(z, 0, 4);
    fill(t, 1000, 4);
    all = vc_loss_f64(&spec, ROWS, CLASSES, z, &teacher, &own, mask, row, whole);
    a = vc_loss_f64(&spec, 2, CLASSES, z, &teacher, &own, mask, row, parts);
    teacher.logits = t + (size_t)2 * CLASSES;
    b = vc_loss_f64(&spec, 3, CLASSES, z + (size_t)2 * CLASSES, &teacher, &(struct vc_label_rows){labels + 2, NULL},
                    mask + 2, row, parts + (size_t)2 * CLASSES);
    assert_true(fabs(a.kd + b.kd - all.kd) < 1e-15 && fabs(a.ce + b.ce - all.ce) < 1e-15);
    assert_memory_equal(parts, whole, sizeof whole);
}

/* The k largest logits and one class for all others: never below 0, with gradients; k = all is the whole divergence. */
static void test_top(void **unused)
{
    double z[N], t[N], values[N], rest[ROWS];
    int32_t classes[N];

    (void)unused;
    fill(z, 0, 3);
    fill(t, 1000, 3);
    for (size_t k = 1; k <= CLASSES; k += 2) {
        const struct vc_loss_spec spec = {.alpha = 1, .temperature = 2, .kd_rows = 4, .ce_rows = 3};
        const struct vc_teacher_rows whole = {.logits = t};
        const struct vc_teacher_rows top = {.logits = values, .classes = classes, .rest = rest, .k = k};

        for (size_t r = 0; r < ROWS; r++) { /* any k classes serve here */
            double sum = 0;

            for (size_t c = 0; c < CLASSES; c++) {
                sum += exp(t[r * CLASSES + c] / 2);
            }
            rest[r] = log(sum);
            for (size_t i = 0; i < k; i++) {
                classes[r * k + i] = (int32_t)((3 * i + r) % CLASSES);
                values[r * k + i] = t[r * CLASSES + (3 * i + r) % CLASSES];
            }
        }
        expect_gradient(&spec, z, &top);
        assert_true(total(&spec, z, &top) > 0);
        assert_true(k != CLASSES || fabs(total(&spec, z, &top) - total(&spec, z, &whole)) < 1e-13);
        assert_true(total(&spec, z, &top) <= total(&spec, z, &whole) + 1e-13);
    }
}

/* Logits so far apart that probabilities are 0, where p (log p - log q) written down naively is no number. */
static void test_far(void **unused)
{
    const struct vc_loss_spec spec = {.alpha = 0.5, .temperature = 1, .kd_rows = 1, .ce_rows = 1};
    double z[3] = {0, 2000, -3000};
    double t[3] = {5000, -5000, 0};
    float zf[3] = {0, 2000, -3000};
    float tf[3] = {5000, -5000, 0};
    const int64_t label = 2;
    struct vc_teacher_rows teacher = {.logits = t};
    double row[VC_LOSS_ROOM * 3], gradient[3];
    float gradient_f[3];
    struct vc_loss_sums s =
        vc_loss_f64(&spec, 1, 3, z, &teacher, &(struct vc_label_rows){&label, NULL}, NULL, row, gradient);

    (void)unused;
    assert_true(s.kd == 2000 && s.ce == 5000);
    assert_true(gradient[0] == -0.5 && gradient[1] == 1 && gradient[2] == -0.5);
    teacher.logits = tf;
    s = vc_loss_f32(&spec, 1, 3, zf, &teacher, &(struct vc_label_rows){&label, NULL}, NULL, row, gradient_f);
    assert_true(s.kd == 2000 && s.ce == 5000 && gradient_f[1] == 1);
}

/* Floats: the doubles' gradient, rounded once. */
static void test_f32(void **unused)
{
    const struct vc_loss_spec spec = {.alpha = 0.7, .temperature = 4, .kd_rows = 4, .ce_rows = 3};
    double z[N], t[N], gradient[N], row[VC_LOSS_ROOM * CLASSES];
    float zf[N], tf[N], gradient_f[N];
    struct vc_teacher_rows teacher = {.logits = t};
    struct vc_loss_sums a, b;

    (void)unused;
    fill(z, 0, 4);
    fill(t, 1000, 4);
    for (size_t i = 0; i < N; i++) {
        volatile float a_float = (float)z[i]; /* gcc 12 -O3 leaves out the rounding of a loop that goes both ways */
        volatile float b_float = (float)t[i];

        zf[i] = a_float;
        tf[i] = b_float;
        z[i] = (double)a_float;
        t[i] = (double)b_float;
    }
    a = vc_loss_f64(&spec, ROWS, CLASSES, z, &teacher, &own, mask, row, gradient);
    teacher.logits = tf;
    b = vc_loss_f32(&spec, ROWS, CLASSES, zf, &teacher, &own, mask, row, gradient_f);
    assert_true(a.kd == b.kd && a.ce == b.ce);
    for (size_t i = 0; i < N; i++) {
        assert_true(gradient_f[i] == (float)gradient[i]);
    }
}

static void test_answers(void **unused)
{
    const double a[4] = {1, 3, 3, 2};
    const float b[3] = {1, NAN, 3};

    (void)unused;
    assert_int_equal(vc_answer_f64(a, 4), 1);
    assert_int_equal(vc_answer_f32(b, 3), 3);
}

/* ---- levels of the processor ---- */

#define WIDE 603 /* classes: more than are computed at a time, and no multiple of any vector */

/* Sums as they are defined: eight parts, of which element c belongs to number c modulo 8. */
static double sum_of(const double *part)
{
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

/* Sum of exp(x / t - max), element by element. */
static double soft_of(const double *x, double t, double *max)
{
    double parts[8] = {0};

    *max = -INFINITY;
    for (size_t c = 0; c < WIDE; c++) {
        *max = x[c] / t > *max ? x[c] / t : *max;
    }
    for (size_t c = 0; c < WIDE; c++) {
        parts[c % 8] += vc_exp_f64(x[c] / t - *max);
    }
    return sum_of(parts);
}

/* The losses of one row with t = 4 and alpha = 0.5, one class after the other. */
static struct vc_loss_sums one_by_one(const double *z, const double *teacher, size_t label, double *gradient)
{
    double z_max, t_max, max;
    struct vc_loss_sums s = {0, 0};
    double parts[8] = {0};

    double z_sum = soft_of(z, 4, &z_max);
    double t_sum = soft_of(teacher, 4, &t_max);
    double sum = soft_of(z, 1, &max);
    for (size_t c = 0; c < WIDE; c++) {
        double log_p = teacher[c] / 4 - t_max - vc_log_f64(t_sum);
        double log_q = z[c] / 4 - z_max - vc_log_f64(z_sum);
        double of_p = vc_exp_f64(teacher[c] / 4 - t_max) * (1 / t_sum);

        parts[c % 8] += of_p == 0 ? 0 : of_p * (log_p - log_q);
        gradient[c] = 0.5 * 4 * (vc_exp_f64(z[c] / 4 - z_max) * (1 / z_sum) - of_p);
    }
    for (size_t c = 0; c < WIDE; c++) {
        gradient[c] += 0.5 / sum * vc_exp_f64(z[c] - max);
    }
    gradient[label] -= 0.5;
    s.kd = 16 * sum_of(parts);
    s.ce = -(z[label] - max - vc_log_f64(sum));
    return s;
}

static void check_level(const struct vc_step_table *f64, const struct vc_step_table *f32)
{
    const struct vc_loss_spec spec = {.alpha = 0.5, .temperature = 4, .kd_rows = 1, .ce_rows = 1};
    const int64_t label = 77;
    static double z[WIDE], t[WIDE], wanted[WIDE], gradient[WIDE], row[VC_LOSS_ROOM * WIDE];
    static float zf[WIDE], tf[WIDE], gradient_f[WIDE];
    struct vc_teacher_rows teacher = {.logits = t};
    struct vc_loss_sums s, by_hand;

    for (size_t c = 0; c < WIDE; c++) {
        volatile float a = (float)(40 * random_unit(c) - 20);
        volatile float b = c == 9 ? -4000 : (float)(40 * random_unit(WIDE + c) - 20);

        zf[c] = a;
        tf[c] = b;
        z[c] = (double)a;
        t[c] = (double)b;
    }
    by_hand = one_by_one(z, t, (size_t)label, wanted);
    s = f64->loss(&spec, 1, WIDE, z, &teacher, &(struct vc_label_rows){&label, NULL}, NULL, row, gradient);
    assert_true(s.kd == by_hand.kd && s.ce == by_hand.ce);
    assert_memory_equal(gradient, wanted, sizeof wanted);
    teacher.logits = tf;
    s = f32->loss(&spec, 1, WIDE, zf, &teacher, &(struct vc_label_rows){&label, NULL}, NULL, row, gradient_f);
    assert_true(s.kd == by_hand.kd && s.ce == by_hand.ce);
    for (size_t c = 0; c < WIDE; c++) {
        assert_true(gradient_f[c] == (float)wanted[c]);
    }
    zf[600] = NAN;
    assert_true(isnan(
        f32->loss(&spec, 1, WIDE, zf, &teacher, &(struct vc_label_rows){&label, NULL}, NULL, row, gradient_f).kd));
}

static void test_levels(void **unused)
{
    (void)unused;
    check_level(vc_step_table_f64(), vc_step_table_f32());
    if (vc_cpu_has(VC_CPU_AVX2) && vc_step_table_f32_avx2() != NULL) {
        check_level(vc_step_table_f64(), vc_step_table_f32_avx2());
    }
    if (vc_cpu_has(VC_CPU_AVX512) && vc_step_table_f32_avx512() != NULL) {
        check_level(vc_step_table_f64(), vc_step_table_f32_avx512());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed),  cmocka_unit_test(test_cosine_of_nothing),
        cmocka_unit_test(test_scale),  cmocka_unit_test(test_parts),
        cmocka_unit_test(test_top),    cmocka_unit_test(test_far),
        cmocka_unit_test(test_f32),    cmocka_unit_test(test_answers),
        cmocka_unit_test(test_levels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
