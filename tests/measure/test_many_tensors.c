/* test_many_tensors.c - a checkpoint of many small tensors: what opening, inspecting and planning take, per tensor, as
 * the pool counts it. Time is nowhere asked for. */
#include "formats_test.h"

#include <stdlib.h>

#include <vcompress/inspect.h>
#include <vcompress/quantize.h>
#include <vcompress/sensitivity.h>
#include <vcompress/verify.h>

#include "core/base/clock.h"
#include "measure/packed_stats.h"
#include "onnx_builder.h"
#include "same_figures.h"
#include "scratch.h"
#include "torch_builder.h"

#define N_TENSORS ((size_t)20000)

/* Entries of 2 x 4 numbers each, "model.layers.7.mlp.gate.weight". */
static const char *make_safetensors(void)
{
    struct bytes header = {0};
    struct bytes file = {0};
    char entry[160];

    for (size_t i = 0; i < N_TENSORS; i++) {
        int n = snprintf(
            entry, sizeof entry,
            "%c\"model.layers.%zu.mlp.gate.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[%zu,%zu]}",
            i == 0 ? '{' : ',', i, 32 * i, 32 * (i + 1));

        bytes_add(&header, entry, (size_t)n);
    }
    bytes_add(&header, "}", 1);
    bytes_u64(&file, header.n);
    bytes_add(&file, header.p, header.n);
    bytes_fill(&file, 0, 32 * N_TENSORS);
    bytes_release(&header);
    return save_own("many.safetensors", file);
}

static const char *make_gguf(void)
{
    struct bytes file = {0};
    char name[64];

    bytes_add(&file, "GGUF", 4);
    bytes_u32(&file, 3);
    bytes_u64(&file, N_TENSORS);
    bytes_u64(&file, 0);
    for (size_t i = 0; i < N_TENSORS; i++) {
        int n = snprintf(name, sizeof name, "model.layers.%zu.mlp.gate.weight", i);

        bytes_u64(&file, (uint64_t)n);
        bytes_add(&file, name, (size_t)n);
        bytes_u32(&file, 2);
        bytes_u64(&file, 4);
        bytes_u64(&file, 2);
        bytes_u32(&file, 0);
        bytes_u64(&file, 32 * i);
    }
    bytes_fill(&file, 0, (32 - file.n % 32) % 32 + 32 * N_TENSORS);
    return save_own("many.gguf", file);
}

/* A dict of tensors, each with a storage of its own. */
static const char *make_torch(void)
{
    struct bytes pickle = {NULL, 0, 0};
    size_t *sizes = malloc(N_TENSORS * sizeof *sizes);
    struct bytes file;
    char name[64];
    char key[24];

    assert_non_null(sizes);
    pk_start(&pickle);
    pk_raw(&pickle, "}(");
    for (size_t i = 0; i < N_TENSORS; i++) {
        snprintf(name, sizeof name, "model.layers.%zu.mlp.gate.weight", i);
        snprintf(key, sizeof key, "%zu", i);
        pk_string(&pickle, name);
        pk_tensor(&pickle, "FloatStorage", key, 8, 0, "2,4", "4,1");
        sizes[i] = 32;
    }
    pk_raw(&pickle, "u.");
    file = torch_archive(&pickle, "little", sizes, N_TENSORS, NULL);
    free(sizes);
    bytes_release(&pickle);
    return save_own("many.pt", file);
}

/* A product with each of the weights, one behind the other. */
static const char *make_onnx(void)
{
    struct onnx_builder g = {.ir = 0};
    char inputs[64];
    char name[48];

    for (size_t i = 0; i < N_TENSORS; i++) {
        snprintf(name, sizeof name, "model.layers.%zu.mlp.gate.weight", i);
        onnx_weights(&g, name, 2, 2);
        snprintf(inputs, sizeof inputs, "y%zu %s", i, name);
        snprintf(name, sizeof name, "y%zu", i + 1);
        onnx_op(&g, "MatMul", inputs, name);
    }
    onnx_info(&g, 11, "y0");
    onnx_info(&g, 12, name);
    return save_own("many.onnx", onnx_finish(&g));
}

static const char *make_npz(void)
{
    struct zip_builder z = {0};
    struct bytes copy = {NULL, 0, 0};
    char name[64];

    for (size_t i = 0; i < N_TENSORS; i++) {
        snprintf(name, sizeof name, "model.layers.%zu.mlp.gate.weight.npy", i);
        zip_add_bytes(&z, name, npy_matrix(2, 4), NULL);
    }
    zip_finish(&z, ZIP_END_PLAIN, 0);
    bytes_add(&copy, z.out.p, z.out.n);
    zip_release(&z);
    return save_own("many.npz", copy);
}

/* Bytes of the pool per tensor, at most, beside what a run takes whatever the file is. */
static void expect_small(const char *path, uint64_t inspect_bytes, uint64_t plan_bytes)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    struct vc_inspection *inspection = NULL;
    struct vc_quantize_options quantize;
    struct vc_write_options write;
    struct vc_job *job = NULL;
    uint64_t peak;

    assert_int_equal(vc_model_open(ctx, path, NULL, &model), VC_OK);
    assert_int_equal(vc_model_facts(model)->n_tensors, N_TENSORS);
    assert_int_equal(vc_inspect(ctx, model, false, &inspection), VC_OK);
    assert_true(inspection->int8_bytes != 0);
    vc_result_free(inspection);
    peak = vc_pool_peak(ctx->shared->pool) / N_TENSORS;
    if (peak > inspect_bytes) {
        fail_msg("%s: inspect takes %llu bytes per tensor", path, (unsigned long long)peak);
    }

    vc_quantize_defaults(&quantize);
    vc_write_defaults(&write);
    write.dry_run = true;
    write.rows_on_request = true;
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_add_quantize(ctx, job, &quantize), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    assert_int_equal(vc_job_report(job)->n_rows, N_TENSORS);
    peak = vc_pool_peak(ctx->shared->pool) / N_TENSORS;
    if (peak > plan_bytes) {
        fail_msg("%s: a plan takes %llu bytes per tensor", path, (unsigned long long)peak);
    }
    vc_job_free(job);
    vc_model_close(model);
    vc_ctx_free(ctx); /* keeps the kernels that it chose, so its pool is not empty */
}

/* A row that is made on request says what that of a list does. */
static void expect_rows(void)
{
    static const struct vc_rule all = {.glob = "*", .include = true};
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    struct vc_quantize_options quantize;
    struct vc_write_options write;
    struct vc_report_row *rows = malloc(N_TENSORS * sizeof *rows);
    struct vc_report_row row;
    struct vc_job *job = NULL;
    const struct vc_report *report;
    struct vc_report_totals totals;

    assert_non_null(rows);
    assert_int_equal(vc_model_open(ctx, make_gguf(), NULL, &model), VC_OK);
    vc_quantize_defaults(&quantize);
    quantize.target = VC_TARGET_F16;
    quantize.rules = &all;
    quantize.n_rules = 1;
    vc_write_defaults(&write);
    write.dry_run = true;
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_add_quantize(ctx, job, &quantize), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    memcpy(rows, vc_job_report(job)->rows, N_TENSORS * sizeof *rows);
    totals = vc_job_report(job)->totals;
    assert_int_equal(totals.n_changed, N_TENSORS);
    write.rows_on_request = true;
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    report = vc_job_report(job);
    assert_null(report->rows);
    expect_same_totals(&report->totals, &totals);
    for (size_t i = 0; i < N_TENSORS; i++) {
        assert_true(vc_report_get_row(report, i, &row));
        assert_string_equal(row.name, rows[i].name);
        assert_int_equal(row.action, rows[i].action);
        assert_int_equal(row.dtype_after, VC_DTYPE_F16);
        assert_int_equal(row.bytes_before, rows[i].bytes_before);
        assert_int_equal(row.bytes_after, rows[i].bytes_after);
        assert_int_equal(row.n_steps, 1);
        assert_string_equal(row.steps[0].scheme, "f16");
    }
    assert_false(vc_report_get_row(report, N_TENSORS, &row));
    free(rows);
    vc_job_free(job);
    vc_model_close(model);
    vc_ctx_free(ctx);
}

static void test_rows(void **state)
{
    (void)state;
    expect_rows();
}

static void test_memory(void **state)
{
    (void)state;
    expect_small(make_safetensors(), 309, 309);
    expect_small(make_gguf(), 290, 290);
    expect_small(make_torch(), 1316, 1316);
    expect_small(make_onnx(), 1928, 1928); /* MatMul and Gemm are kept, too, and known by name */
    expect_small(make_npz(), 726, 726);
}

/* The public calls that go over all tensors, by number. */
static enum vc_status make_call(struct vc_ctx *ctx, const struct vc_model *model, size_t number)
{
    struct vc_inspection *inspection = NULL;
    struct vc_sensitivity_options look;
    struct vc_sensitivity *sensitivity = NULL;
    struct vc_verify_options verify;
    struct vc_verification *verification = NULL;
    struct vc_diff *diff = NULL;
    enum vc_status status = VC_E_INTERNAL;

    switch (number) {
    case 0:
        status = vc_inspect(ctx, model, false, &inspection);
        assert_true((inspection != NULL) == (status == VC_OK));
        assert_true(status != VC_OK || (inspection->int8_bytes != 0 && inspection->fp16_bytes != 0));
        vc_result_free(inspection);
        break;
    case 1:
        vc_sensitivity_defaults(&look);
        status = vc_model_sensitivity(ctx, model, &look, &sensitivity);
        vc_result_free(sensitivity);
        break;
    case 2:
        status = vc_diff_models(ctx, model, model, &diff);
        vc_result_free(diff);
        break;
    case 3:
        vc_verify_defaults(&verify);
        verify.data = true;
        status = vc_verify(ctx, vc_model_facts(model)->path, &verify, &verification);
        vc_result_free(verification);
        break;
    case 4:
        status = vc_inspect(ctx, model, true, &inspection);
        vc_result_free(inspection);
        break;
    default:
        break;
    }
    return status;
}

#define N_CALLS 5

/* A call that goes over all tensors ends at the next of them, without values being read; the call after it works. */
static void expect_cancelled(const char *path)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    struct vc_write_options write;
    struct vc_job *job = NULL;
    float values[8];

    vc_ctx_cancel(ctx);
    assert_int_equal(vc_model_open(ctx, path, NULL, &model), VC_E_CANCELLED);
    assert_null(model);
    assert_int_equal(vc_model_open(ctx, path, NULL, &model), VC_OK);
    for (size_t i = 0; i < N_CALLS; i++) {
        vc_ctx_cancel(ctx);
        assert_int_equal(make_call(ctx, model, i), VC_E_CANCELLED);
        assert_int_equal(vc_tensor_read_f32(ctx, model, 0, values, 8), VC_OK);
    }
    for (size_t i = 0; i < N_CALLS; i++) {
        assert_int_equal(make_call(ctx, model, i), VC_OK);
    }
    vc_write_defaults(&write);
    write.dry_run = true;
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    vc_ctx_cancel(ctx);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_E_CANCELLED);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    ctx->shared->deadline = vc_seconds(); /* has passed: until it is taken away, every call ends so */
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_E_CANCELLED);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_E_CANCELLED);
    ctx->shared->deadline = vc_seconds() + 1e6;
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    vc_job_free(job);
    vc_model_close(model);
    vc_ctx_free(ctx);
}

static void test_cancelled(void **state)
{
    (void)state;
    expect_cancelled(make_safetensors());
    expect_cancelled(make_gguf());
}

/* What is kept packed comes back bit by bit, and where there is no memory nothing is left. */
static void test_packed(void **state)
{
    static const struct vc_value_stats stats[4] = {
        {.valid = true, .n_elems = 127, .zeros = 127, .min = -0.0, .mean = -0.0, .histogram = {[0] = 127}},
        {.valid = true,
         .n_elems = UINT64_MAX,
         .nans = 128,
         .infs = 16384,
         .histogram = {[1] = UINT64_MAX, [VC_HISTOGRAM_BINS - 1] = UINT64_MAX >> 1}},
        {.valid = true,
         .n_elems = 300,
         .subnormals = 5,
         .min = -1e300,
         .max = 2,
         .absmax = 1e300,
         .mean = -7,
         .rms = 1e299,
         .histogram = {[100] = 200, [102] = 100}},
        {.valid = false}};
    struct vc_ctx *ctx = test_ctx();
    struct vc_pool *pool = ctx->shared->pool;
    uint64_t in_use = vc_pool_in_use(pool);
    struct vc_packed_stats *packed = NULL;
    struct vc_value_stats got;
    uint64_t n;

    (void)state;
    for (n = 1; packed == NULL; n++) {
        vc_pool_fail_at(pool, n, 0);
        assert_true(vc_packed_stats_create(ctx, 4, &packed) == (packed != NULL ? VC_OK : VC_E_NOMEM));
        vc_pool_fail_at(pool, 0, 0);
        assert_true(packed != NULL || vc_pool_in_use(pool) == in_use);
    }
    assert_true(n > 2);
    vc_pool_fail_at(pool, 1, 0);
    assert_int_equal(vc_packed_stats_set(ctx, packed, 0, &stats[0]), VC_E_NOMEM);
    vc_pool_fail_at(pool, 0, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(vc_packed_stats_set(ctx, packed, i, &stats[i]), VC_OK);
    }
    for (size_t i = 0; i < 4; i++) {
        memset(&got, 0xff, sizeof got);
        vc_packed_stats_get(packed, i, &got);
        expect_same_stats(&got, &stats[i]);
    }
    vc_packed_stats_free(ctx, packed);
    vc_packed_stats_free(ctx, NULL);
    assert_int_equal(vc_pool_in_use(pool), in_use);
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_packed),
                                       cmocka_unit_test_setup_teardown(test_memory, scratch_make, scratch_clear),
                                       cmocka_unit_test_setup_teardown(test_rows, scratch_make, scratch_clear),
                                       cmocka_unit_test_setup_teardown(test_cancelled, scratch_make, scratch_clear)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
