/* test_histograms.c - histograms of single tensors: values, errors, the distinct values of a row; what cannot be looked
 * at is left out; every allocation failing in turn. */
#include <math.h>

#include "support.h"
#include "tasks.h"

#define ROWS 8
#define COLS 1024

static struct vc_ctx *ctx;
static float values[ROWS][COLS];

/* Row 3 has the largest values, so the coarsest grid. */
static void make_source(const char *name)
{
    static const char head[] = "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (8, 1024), }";
    struct bytes b = {NULL, 0, 0};
    uint32_t seed = 1;

    for (size_t r = 0; r < ROWS; r++) {
        for (size_t c = 0; c < COLS; c++) {
            seed = seed * 1664525u + 1013904223u;
            values[r][c] = ((float)(seed >> 8) / 8388608.0F - 1.0F) * (r == 3 ? 4.0F : 1.0F);
        }
    }
    values[0][0] = values[0][1] = 0.0F;
    values[3][5] = 4.0F;
    bytes_add(&b, head, sizeof head - 1);
    bytes_fill(&b, ' ', 127 - b.n);
    bytes_add(&b, "\n", 1);
    bytes_add(&b, values, sizeof values);
    (void)save_own(name, b);
}

static int set_up(void **state)
{
    if (scratch_make(state) != 0) {
        return -1;
    }
    ctx = test_ctx();
    make_source("a.npy");
    must_run(ctx, "a.npy", "b.npz", task_int8());
    return 0;
}

static int tear_down(void **state)
{
    vc_ctx_free(ctx);
    return scratch_clear(state);
}

static uint64_t sum_of(const uint64_t *counts, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += counts[i];
    }
    return sum;
}

static void check_levels(const struct vc_value_histogram *h)
{
    const double step = 4.0 / 127; /* of row 3 */

    assert_true(h->n_levels > 200 && h->n_levels <= 255);
    assert_int_equal(h->level_row, 3);
    assert_int_equal(h->n_level_elems, COLS);
    assert_int_equal(sum_of(h->level_counts, h->n_levels), COLS);
    for (size_t i = 0; i < h->n_levels; i++) {
        double code = h->levels[i] / step;

        assert_true(fabs(code - round(code)) < 1e-3);
        assert_true(i == 0 || h->levels[i] > h->levels[i - 1]);
    }
}

static void test_quantized(void **unused)
{
    struct vc_model *a = must_open(ctx, "a.npy");
    struct vc_model *b = must_open(ctx, "b.npz");
    const char *name = vc_model_tensor(a, 0)->name;
    const char *const names[] = {"not there", name};
    struct vc_value_histograms *histograms = NULL;
    const struct vc_value_histogram *h;

    (void)unused;
    assert_int_equal(vc_value_histograms_of_models(ctx, a, b, names, 2, &histograms), VC_OK);
    assert_int_equal(histograms->n, 1);
    h = &histograms->histograms[0];
    assert_string_equal(h->name, name);
    assert_int_equal(h->n_elems, ROWS * COLS);
    assert_int_equal(h->n_seen, ROWS * COLS);
    assert_true(h->reach == 4.0 && h->compared);
    assert_int_equal(sum_of(h->bins, VC_VALUE_HISTOGRAM_BINS), ROWS * COLS);
    assert_int_equal(sum_of(h->error_bins, VC_VALUE_HISTOGRAM_ERROR_BINS), ROWS * COLS);
    assert_true(h->bins[0] < h->bins[VC_VALUE_HISTOGRAM_BINS / 2]); /* only row 3 reaches that far */
    assert_int_equal(h->n_zeros, 2);
    assert_true(h->n_zeros_after >= 2);
    assert_true(h->error_reach > 0.25 * 4.0 / 127 && h->error_reach <= 0.5001 * 4.0 / 127);
    check_levels(h);
    vc_result_free(histograms);
    vc_model_close(a);
    vc_model_close(b);
}

static void test_alone(void **unused)
{
    struct vc_model *a = must_open(ctx, "a.npy");
    const char *const names[VC_VALUE_HISTOGRAM_MOST + 1] = {vc_model_tensor(a, 0)->name};
    struct vc_value_histograms *histograms = NULL;

    (void)unused;
    assert_int_equal(vc_value_histograms_of_models(ctx, a, NULL, names, 1, &histograms), VC_OK);
    assert_int_equal(histograms->n, 1);
    assert_false(histograms->histograms[0].compared);
    assert_int_equal(histograms->histograms[0].n_levels, 0);
    vc_result_free(histograms);
    assert_int_equal(vc_value_histograms_of_models(ctx, a, a, names, 1, &histograms), VC_OK);
    assert_true(histograms->histograms[0].compared && histograms->histograms[0].error_reach == 0.0);
    assert_int_equal(histograms->histograms[0].n_levels, 0); /* floats are on no grid */
    vc_result_free(histograms);
    assert_int_equal(vc_value_histograms_of_models(ctx, a, NULL, names, VC_VALUE_HISTOGRAM_MOST + 1, &histograms),
                     VC_E_ARGUMENT);
    expect_says(ctx, "9 tensors to look at");
    vc_result_free(NULL);
    vc_model_close(a);
}

/* A job: its worst tensor, and the file that it wrote. */
static void test_report(void **unused)
{
    struct vc_model *a = must_open(ctx, "a.npy");
    struct vc_quantize_options quantize;
    struct vc_write_options write;
    struct vc_value_histograms *histograms = NULL;
    struct vc_job *job = NULL;

    (void)unused;
    vc_quantize_defaults(&quantize);
    quantize.min_elems = 0;
    vc_write_defaults(&write);
    write.path = in_folder("c.npz");
    assert_int_equal(vc_job_create(ctx, a, &job), VC_OK);
    assert_int_equal(vc_job_add_quantize(ctx, job, &quantize), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    assert_int_equal(vc_value_histograms_of_report(ctx, vc_job_report(job), a, &histograms), VC_OK);
    assert_int_equal(histograms->n, 0); /* nothing is measured yet */
    vc_result_free(histograms);
    assert_int_equal(vc_job_run(ctx, job), VC_OK);
    assert_int_equal(vc_value_histograms_of_report(ctx, vc_job_report(job), a, &histograms), VC_OK);
    assert_int_equal(histograms->n, 1);
    assert_string_equal(histograms->histograms[0].scheme, "int8/channel");
    assert_true(histograms->histograms[0].sqnr_db > 30 && histograms->histograms[0].sqnr_db < 60);
    check_levels(&histograms->histograms[0]);
    vc_result_free(histograms);
    remove_path("c.npz");
    assert_int_equal(vc_value_histograms_of_report(ctx, vc_job_report(job), a, &histograms), VC_OK);
    assert_true(histograms->n == 1 && !histograms->histograms[0].compared); /* what was written is gone */
    vc_result_free(histograms);
    vc_job_free(job);
    vc_model_close(a);
}

static void test_no_memory(void **unused)
{
    struct vc_model *a = must_open(ctx, "a.npy");
    struct vc_model *b = must_open(ctx, "b.npz");
    const char *const names[] = {vc_model_tensor(a, 0)->name};
    uint64_t in_use = vc_pool_in_use(ctx->shared->pool);
    enum vc_status status = VC_E_NOMEM;
    uint64_t n = 0;

    (void)unused;
    while (status != VC_OK) {
        struct vc_value_histograms *histograms = NULL;

        vc_pool_fail_at(ctx->shared->pool, ++n, 0);
        status = vc_value_histograms_of_models(ctx, a, b, names, 1, &histograms);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK ? histograms != NULL : status == VC_E_NOMEM && histograms == NULL);
        vc_result_free(histograms);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), in_use);
    }
    assert_true(n > 8);
    vc_model_close(a);
    vc_model_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantized),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_report),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
