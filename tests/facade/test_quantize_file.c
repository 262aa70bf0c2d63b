/* test_quantize_file.c - one call from a file to a smaller file. Judge: the same job, step by step. */
#include "support.h"

#include "tasks.h"

static const char from[] = DIGITS;

/* The bytes of the job, and the figures of its report. */
static void test_as_a_job(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct task task = task_int8();
    struct vc_quantized q;

    (void)unused;
    vc_quantize_defaults(&task.quantize);
    must_run(ctx, from, "want.npz", task);
    assert_int_equal(vc_quantize_file(ctx, from, in_folder("out.npz"), NULL, &q), VC_OK);
    expect_same("out.npz", "want.npz");
    assert_int_equal(q.bytes_before, last_report.file_before);
    assert_int_equal(q.bytes_after, last_report.file_after);
    assert_true(q.bytes_after < q.bytes_before / 3);
    assert_true(q.sqnr_db > 30 && q.sqnr_db < 60);
    assert_true(q.n_changed > 0 && q.n_changed <= q.n_tensors);
    empty_folder();
    vc_ctx_free(ctx);
}

/* Options are those of the pass; without a result only the file is made. */
static void test_options(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_quantize_options options;
    struct vc_model *model;

    (void)unused;
    vc_quantize_defaults(&options);
    options.target = VC_TARGET_F16;
    assert_int_equal(vc_quantize_file(ctx, from, in_folder("half.npz"), &options, NULL), VC_OK);
    model = must_open(ctx, "half.npz");
    assert_int_equal(vc_model_tensor(model, vc_model_find(model, "fc1.weight"))->dtype, VC_DTYPE_F16);
    vc_model_close(model);
    empty_folder();
    vc_ctx_free(ctx);
}

/* A sentence, and no file: no input, an output that is there, wrong options. */
static void test_refusals(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_quantize_options options;
    struct vc_quantized q;

    (void)unused;
    assert_int_equal(vc_quantize_file(ctx, in_folder("none.npz"), in_folder("out.npz"), NULL, &q), VC_E_IO);
    assert_non_null(strstr(vc_ctx_message(ctx), "none.npz"));
    vc_quantize_defaults(&options);
    options.aim_sqnr_db = -1;
    assert_int_equal(vc_quantize_file(ctx, from, in_folder("out.npz"), &options, &q), VC_E_ARGUMENT);
    assert_false(exists("out.npz"));
    assert_int_equal(vc_quantize_file(ctx, from, in_folder("out.npz"), NULL, &q), VC_OK);
    assert_int_equal(vc_quantize_file(ctx, from, in_folder("out.npz"), NULL, &q), VC_E_ARGUMENT);
    assert_non_null(strstr(vc_ctx_message(ctx), "out.npz"));
    empty_folder();
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_a_job), cmocka_unit_test(test_options),
                                       cmocka_unit_test(test_refusals)};

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
