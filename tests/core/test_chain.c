/* test_chain.c - several passes in one job, against the same passes one after the other through files: the same bytes,
 * and in the report the error that a comparison of source and result finds. In every format that a chain can write,
 * under every tile and thread count, with gates, dry runs, refused and repeated plans, failing memory and cancelling.
 */
#include <math.h>
#include <stdlib.h>

#include <vcompress/measure.h>

#include "onnx_jobs.h"
#include "support.h"
#include "tasks.h"
#include "zip_builder.h"

#define MAX_PASSES 3

/* A pass of a chain in a word. */
enum pass {
    PASS_F16,
    PASS_BF16,
    PASS_INT8,
    PASS_ASYM,
    PASS_GROUP,
    PASS_TENSOR,
    PASS_AXIS1,
    PASS_BACK,
    PASS_BACK_F16,
    PASS_END
};

static const char *const pass_names[] = {"f16",         "bf16",        "int8", "int8 asymmetric", "int8 group:7",
                                         "int8 tensor", "int8 axis 1", "f32",  "back to f16"};

static enum vc_status add_pass(struct vc_ctx *ctx, struct vc_job *job, enum pass pass)
{
    struct vc_quantize_options q = support_quantize();
    struct vc_dequantize_options d = support_dequantize();

    q.requantize = true;
    switch (pass) {
    case PASS_F16:
        q.target = VC_TARGET_F16;
        q.overflow = VC_OVERFLOW_SATURATE;
        break;
    case PASS_BF16:
        q.target = VC_TARGET_BF16;
        break;
    case PASS_ASYM:
        q.asymmetric = true;
        break;
    case PASS_GROUP:
        q.granularity = VC_GRANULARITY_GROUP;
        q.group_size = 7;
        break;
    case PASS_TENSOR:
        q.granularity = VC_GRANULARITY_TENSOR;
        break;
    case PASS_AXIS1:
        q.axis = 1;
        break;
    case PASS_BACK_F16:
        d.target = VC_TARGET_F16;
        d.overflow = VC_OVERFLOW_SATURATE;
        break;
    default:
        break;
    }
    return pass == PASS_BACK || pass == PASS_BACK_F16 ? vc_job_add_dequantize(ctx, job, &d)
                                                      : vc_job_add_quantize(ctx, job, &q);
}

/* ---- running ---- */

struct outcome {
    enum vc_status status;
    bool measured;
    double sqnr_db, max_abs_error;
    size_t n_steps; /* of the first row */
    double last_step_db;
    char message[256];
};

static struct outcome run(struct vc_ctx *ctx, const char *from, const char *to, const enum pass *passes,
                          const struct vc_write_options *base)
{
    struct outcome outcome = {.status = VC_OK};
    struct vc_write_options write = base != NULL ? *base : support_replace(NULL, VC_DEFLATE_NONE);
    struct vc_model *model = must_open(ctx, from);
    struct vc_job *job = NULL;
    const struct vc_report *report;
    size_t i;

    write.path = to == NULL ? NULL : in_folder(to);
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    for (i = 0; passes[i] != PASS_END; i++) {
        assert_int_equal(add_pass(ctx, job, passes[i]), VC_OK);
    }
    outcome.status = vc_job_plan(ctx, job, &write);
    if (outcome.status == VC_OK && !write.dry_run) {
        outcome.status = vc_job_run(ctx, job);
    }
    (void)snprintf(outcome.message, sizeof outcome.message, "%s", vc_ctx_message(ctx));
    report = vc_job_report(job);
    if (report->n_rows != 0) {
        const struct vc_report_row *row = &report->rows[0];

        outcome.measured = report->totals.measured;
        outcome.sqnr_db = report->totals.sqnr_db;
        outcome.n_steps = row->n_steps;
        outcome.last_step_db = row->n_steps != 0 ? row->steps[row->n_steps - 1].sqnr_db : 0.0;
        for (i = 0; i < report->n_rows; i++) {
            outcome.max_abs_error = fmax(outcome.max_abs_error, report->rows[i].max_abs_error);
        }
    }
    vc_job_free(job);
    vc_model_close(model);
    return outcome;
}

static void must(struct outcome outcome)
{
    if (outcome.status != VC_OK) {
        fail_msg("%s", outcome.message);
    }
}

/* ---- the input ---- */

/* Values of both signs and many sizes, none of them special; the same each time. */
static float value(size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + 12345u;

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return ((float)(x & 0xffff) - 32768.0f) * (1.0f / 16384.0f) * (1.0f + (float)(x >> 28));
}

static void add_matrix(struct zip_builder *z, const char *name, unsigned rows, unsigned cols, bool f64)
{
    size_t n = (size_t)rows * cols;
    struct bytes data = {0};
    char shape[64];
    char member[64];
    size_t i;

    for (i = 0; i < n; i++) {
        float f = value(i);
        double d = (double)f * 1.0000001;

        bytes_add(&data, f64 ? (const void *)&d : (const void *)&f, f64 ? sizeof d : sizeof f);
    }
    (void)snprintf(shape, sizeof shape, "(%u, %u)", rows, cols);
    (void)snprintf(member, sizeof member, "%s.npy", name);
    zip_add_bytes(z, member, npy_array(f64 ? "<f8" : "<f4", false, shape, data.p, data.n), NULL);
    bytes_release(&data);
}

/* Many rows, rows longer than a tile, f64, and one that every pass keeps. */
static void make_input(const char *name, bool f64)
{
    struct zip_builder z = {0};

    add_matrix(&z, "a.weight", 300, 1024, false);
    add_matrix(&z, "long.weight", 2, 294912, false);
    if (f64) {
        add_matrix(&z, "wide.weight", 64, 32, true);
    }
    zip_add_bytes(&z, "counter.npy", npy_array("<i8", false, "(2,)", "abcdefgh12345678", 16), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save(name, &z.out);
    zip_release(&z);
}

static int make_inputs(void **state)
{
    if (scratch_make(state) != 0) {
        return 1;
    }
    make_input("in.npz", true);
    make_input("in32.npz", false);
    return 0;
}

/* ---- a chain against files ---- */

static const char *label(const enum pass *passes, const char *extension)
{
    static char text[200];
    size_t n = 0;
    size_t i;

    for (i = 0; passes[i] != PASS_END; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i == 0 ? "" : " + ", pass_names[passes[i]]);
    }
    (void)snprintf(text + n, sizeof text - n, " to %s", extension);
    return text;
}

/* The figures that a comparison of two files gives. Where weights in f64 become int8, the report measures from the f32
 * that they are rounded to first (docs/numerics.md), which a comparison cannot know. */
static void expect_diff(struct vc_ctx *ctx, const char *from, const char *to, const struct outcome *outcome,
                        const char *what)
{
    struct vc_model *a = must_open(ctx, from);
    struct vc_model *b = must_open(ctx, to);
    struct vc_diff *diff = NULL;

    assert_int_equal(vc_diff_models(ctx, a, b, &diff), VC_OK);
    if (outcome->measured) {
        double worst = 0.0;
        size_t i;

        for (i = 0; i < diff->n_rows; i++) {
            worst = diff->rows[i].numeric ? fmax(worst, diff->rows[i].max_abs_error) : worst;
        }
        if (fabs(diff->sqnr_db - outcome->sqnr_db) > 1e-7 || fabs(worst - outcome->max_abs_error) > 1e-6) {
            fail_msg("%s: the report says %.12f dB, %g, the comparison %.12f dB, %g", what, outcome->sqnr_db,
                     outcome->max_abs_error, diff->sqnr_db, worst);
        }
    }
    vc_result_free(diff);
    vc_model_close(a);
    vc_model_close(b);
}

static void expect_chain(const char *from, const char *extension, const enum pass *passes)
{
    struct vc_ctx *ctx = test_ctx();
    struct outcome outcome;
    const char *what = label(passes, extension);
    char names[2][32];
    char out[32];
    size_t n = 0;

    (void)snprintf(names[0], sizeof names[0], "%s", from);
    for (; passes[n] != PASS_END; n++) {
        const enum pass one[2] = {passes[n], PASS_END};
        struct outcome step;

        (void)snprintf(names[1], sizeof names[1], "step%zu.%s", n, extension);
        step = run(ctx, names[0], names[1], one, NULL);
        if (step.status != VC_OK) {
            fail_msg("%s: pass %zu alone: %s", what, n, step.message);
        }
        memcpy(names[0], names[1], sizeof names[0]);
    }
    (void)snprintf(out, sizeof out, "chain.%s", extension);
    outcome = run(ctx, from, out, passes, NULL);
    if (outcome.status != VC_OK) {
        fail_msg("%s: %s", what, outcome.message);
    }
    expect_same(out, names[0]);
    expect_diff(ctx, from, out, &outcome, what);
    vc_ctx_free(ctx);
}

static void chains_equal_files(void **state)
{
    static const enum pass chains[][MAX_PASSES + 1] = {{PASS_F16, PASS_INT8, PASS_END},
                                                       {PASS_BF16, PASS_GROUP, PASS_END},
                                                       {PASS_F16, PASS_BF16, PASS_END},
                                                       {PASS_INT8, PASS_BACK, PASS_END},
                                                       {PASS_INT8, PASS_BACK_F16, PASS_END},
                                                       {PASS_INT8, PASS_ASYM, PASS_END},
                                                       {PASS_ASYM, PASS_TENSOR, PASS_END},
                                                       {PASS_AXIS1, PASS_GROUP, PASS_END},
                                                       {PASS_GROUP, PASS_BACK, PASS_END},
                                                       {PASS_TENSOR, PASS_BACK, PASS_END},
                                                       {PASS_INT8, PASS_F16, PASS_END},
                                                       {PASS_F16, PASS_INT8, PASS_BACK, PASS_END},
                                                       {PASS_INT8, PASS_BACK, PASS_F16, PASS_END},
                                                       {PASS_F16, PASS_ASYM, PASS_GROUP, PASS_END},
                                                       {PASS_BF16, PASS_F16, PASS_INT8, PASS_END},
                                                       {PASS_AXIS1, PASS_BACK_F16, PASS_TENSOR, PASS_END},
                                                       {PASS_BACK, PASS_INT8, PASS_END},
                                                       {PASS_F16, PASS_F16, PASS_END},
                                                       {PASS_INT8, PASS_BACK, PASS_INT8, PASS_END}};
    static const char *const extensions[] = {"npz", "safetensors", "pt"};
    size_t i;
    size_t k;

    (void)state;
    for (i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        for (k = 0; k < sizeof extensions / sizeof extensions[0]; k++) {
            expect_chain("in.npz", extensions[k], chains[i]);
        }
    }
}

static void chains_equal_gguf_files(void **state)
{
    static const enum pass chains[][MAX_PASSES + 1] = {{PASS_F16, PASS_INT8, PASS_END},
                                                       {PASS_INT8, PASS_BACK, PASS_END},
                                                       {PASS_BF16, PASS_INT8, PASS_BACK_F16, PASS_END},
                                                       {PASS_INT8, PASS_BACK, PASS_INT8, PASS_END}};
    size_t i;

    struct vc_ctx *ctx = test_ctx();
    const enum pass to_blocks[] = {PASS_INT8, PASS_END};
    const enum pass back[] = {PASS_BACK, PASS_END};

    (void)state;
    /* A file that once had blocks keeps the key general.quantization_version: so the source has it from the start. */
    assert_int_equal(run(ctx, "in32.npz", "blocks.gguf", to_blocks, NULL).status, VC_OK);
    assert_int_equal(run(ctx, "blocks.gguf", "in.gguf", back, NULL).status, VC_OK);
    vc_ctx_free(ctx);
    for (i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        expect_chain("in.gguf", "gguf", chains[i]);
    }
}

static void chains_equal_onnx_files(void **state)
{
    static const enum pass chains[][MAX_PASSES + 1] = {
        {PASS_INT8, PASS_BACK, PASS_END}, {PASS_F16, PASS_BACK, PASS_END},
        {PASS_F16, PASS_INT8, PASS_END},  {PASS_INT8, PASS_F16, PASS_END},
        {PASS_INT8, PASS_ASYM, PASS_END}, {PASS_TENSOR, PASS_BACK, PASS_ASYM, PASS_END}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        struct onnx_builder g = small_graph(8, 21);

        (void)save_own("in.onnx", onnx_finish(&g));
        expect_chain("in.onnx", "onnx", chains[i]);
    }
}

/* ---- what else a plan can be ---- */

static const enum pass two[] = {PASS_F16, PASS_INT8, PASS_END};

static void the_gate_is_judged_by_the_whole_chain(void **state)
{
    static const enum pass coarse_then_fine[] = {PASS_TENSOR, PASS_F16, PASS_END};
    struct vc_ctx *ctx = test_ctx();
    struct vc_write_options write = support_replace(NULL, VC_DEFLATE_NONE);
    struct outcome free_run = run(ctx, "in.npz", "gate.npz", coarse_then_fine, NULL);
    struct outcome outcome;

    (void)state;
    assert_int_equal(free_run.status, VC_OK);
    assert_int_equal(free_run.n_steps, 2);
    assert_true(free_run.last_step_db > free_run.sqnr_db + 20.0); /* fp16 alone loses little */
    remove_path("gate.npz");
    write.min_sqnr_db = (free_run.last_step_db + free_run.sqnr_db) / 2;
    outcome = run(ctx, "in.npz", "gate.npz", coarse_then_fine, &write);
    assert_int_equal(outcome.status, VC_E_GATE);
    assert_false(exists("gate.npz"));
    write.min_sqnr_db = 1.0;
    assert_int_equal(run(ctx, "in.npz", "gate.npz", coarse_then_fine, &write).status, VC_OK);
    vc_ctx_free(ctx);
}

static void a_dry_run_says_the_sizes(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_write_options write = support_replace(NULL, VC_DEFLATE_NONE);

    (void)state;
    write.dry_run = true;
    assert_int_equal(run(ctx, "in.npz", "dry.npz", two, &write).status, VC_OK);
    assert_false(exists("dry.npz"));
    vc_ctx_free(ctx);
}

static void a_refused_plan_can_be_made_again(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = must_open(ctx, "in.npz");
    struct vc_write_options write = support_write(in_folder("again.npz"));
    struct vc_job *job = NULL;
    int i;

    (void)state;
    (void)save_text("again.npz", "something");
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(add_pass(ctx, job, PASS_F16), VC_OK);
    assert_int_equal(add_pass(ctx, job, PASS_INT8), VC_OK);
    for (i = 0; i < 3; i++) {
        assert_int_equal(vc_job_plan(ctx, job, &write), VC_E_ARGUMENT);
        expect_says(ctx, "exists already");
        assert_int_equal(vc_job_run(ctx, job), VC_E_ARGUMENT);
    }
    write.force = true;
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK); /* once more, before it is run */
    assert_int_equal(vc_job_report(job)->n_outputs, 1);
    assert_int_equal(vc_job_run(ctx, job), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_E_ARGUMENT);
    vc_job_free(job);
    vc_model_close(model);
    assert_int_equal(run(ctx, "in.npz", "chain.npz", two, NULL).status, VC_OK);
    expect_same("again.npz", "chain.npz");
    vc_ctx_free(ctx);
}

/* Cancelled before a call: that call ends, whether it opens or plans, and the next one goes on. */
static void cancelling_ends_one_call(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    struct vc_write_options write = support_replace(in_folder("chain.npz"), VC_DEFLATE_NONE);
    struct vc_job *job = NULL;

    (void)state;
    remove_path("chain.npz");
    vc_ctx_cancel(ctx);
    assert_int_equal(vc_model_open(ctx, in_folder("in.npz"), NULL, &model), VC_E_CANCELLED);
    assert_null(model);
    model = must_open(ctx, "in.npz");
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(add_pass(ctx, job, PASS_F16), VC_OK);
    vc_ctx_cancel(ctx);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_E_CANCELLED);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    vc_ctx_cancel(ctx);
    assert_int_equal(vc_job_run(ctx, job), VC_E_CANCELLED);
    assert_false(exists("chain.npz"));
    vc_job_free(job);
    vc_model_close(model);
    assert_int_equal(run(ctx, "in.npz", "chain.npz", two, NULL).status, VC_OK);
    vc_ctx_free(ctx);
}

static void threads_and_memory_change_nothing(void **state)
{
    static const enum pass three[] = {PASS_F16, PASS_GROUP, PASS_BACK, PASS_END};
    struct vc_write_options deflated = support_replace(NULL, VC_DEFLATE_ZLIB);
    unsigned threads;

    (void)state;
    for (threads = 1; threads <= 4; threads += TEST_STRIDE > 1 ? 2 : 1) {
        struct vc_ctx *ctx = test_ctx();
        char name[32];

        assert_int_equal(vc_ctx_set_threads(ctx, threads), VC_OK);
        if (threads > 2) {
            assert_int_equal(vc_ctx_set_max_memory(ctx, (uint64_t)40 << 20), VC_OK);
        }
        (void)snprintf(name, sizeof name, "t%u.npz", threads);
        must(run(ctx, "in.npz", name, three, NULL));
        expect_same("t1.npz", name);
        (void)snprintf(name, sizeof name, "d%u.npz", threads);
        must(run(ctx, "in.npz", name, three, &deflated));
        expect_same("d1.npz", name);
        /* What is compressed in the source is read in order. */
        must(run(ctx, "d1.npz", "again.npz", two, NULL));
        must(run(ctx, "t1.npz", "chain.npz", two, NULL));
        expect_same("again.npz", "chain.npz");
        assert_true(threads <= 2 || vc_pool_peak(ctx->shared->pool) <= (uint64_t)40 << 20);
        vc_ctx_free(ctx);
    }
}

static void every_allocation_may_fail(void **state)
{
    uint64_t n;

    (void)state;
    for (n = 1; n < 5000; n += TEST_STRIDE) {
        struct vc_ctx *ctx = test_ctx();
        struct vc_model *model = must_open(ctx, "in.npz");
        struct vc_write_options write = support_replace(in_folder("faults.npz"), VC_DEFLATE_NONE);
        struct vc_job *job = NULL;
        enum vc_status status;

        remove_path("faults.npz");
        assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
        assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
        assert_int_equal(add_pass(ctx, job, PASS_F16), VC_OK);
        assert_int_equal(add_pass(ctx, job, PASS_AXIS1), VC_OK);
        assert_int_equal(add_pass(ctx, job, PASS_BACK), VC_OK);
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_job_plan(ctx, job, &write);
        if (status == VC_OK) {
            status = vc_job_run(ctx, job);
        }
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        assert_int_equal(exists("faults.npz"), status == VC_OK);
        vc_job_free(job);
        vc_model_close(model);
        vc_ctx_free(ctx);
        if (status == VC_OK) {
            assert_true(n > 50);
            return;
        }
    }
    fail_msg("it never succeeded");
}

/* A later pass that leaves a tensor alone does not undo what an earlier one made of it. */
static void keeping_is_not_undoing(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = must_open(ctx, "in.npz");
    struct vc_write_options write = support_replace(in_folder("keep.npz"), VC_DEFLATE_NONE);
    struct vc_rule rule = {.glob = "*", .include = false};
    struct vc_quantize_options keep = support_quantize();
    struct vc_job *job = NULL;

    (void)state;
    keep.nonfinite = VC_NONFINITE_KEEP;
    keep.rules = &rule;
    keep.n_rules = 1;
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(add_pass(ctx, job, PASS_F16), VC_OK);
    assert_int_equal(vc_job_add_quantize(ctx, job, &keep), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    assert_int_equal(vc_job_report(job)->rows[0].action, VC_ACTION_CAST);
    assert_int_equal(vc_job_report(job)->rows[0].n_steps, 1);
    assert_int_equal(vc_job_run(ctx, job), VC_OK);
    vc_job_free(job);
    vc_model_close(model);
    model = must_open(ctx, "keep.npz");
    assert_int_equal(vc_model_tensor(model, 0)->dtype, VC_DTYPE_F16);
    vc_model_close(model);
    vc_ctx_free(ctx);
}

/* The second pass looks at what the first one made: values that overflowed f16 are kept as f16, the others become int8.
 */
static void the_second_pass_looks_at_what_the_first_made(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_quantize_options first = support_quantize();
    struct vc_quantize_options second = support_quantize();
    struct vc_write_options write = support_replace(in_folder("looked.npz"), VC_DEFLATE_NONE);
    struct zip_builder z = {0};
    float big[2][40];
    struct vc_model *model;
    struct vc_job *job = NULL;
    size_t i;

    (void)state;
    for (i = 0; i < 40; i++) {
        big[0][i] = value(i);
        big[1][i] = value(i) * 1.0e30f;
    }
    zip_add_bytes(&z, "small.npy", npy_array("<f4", false, "(1, 40)", big[0], sizeof big[0]), NULL);
    zip_add_bytes(&z, "big.npy", npy_array("<f4", false, "(1, 40)", big[1], sizeof big[1]), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save("big.npz", &z.out);
    zip_release(&z);
    first.target = VC_TARGET_F16;
    first.overflow = VC_OVERFLOW_INF;
    second.nonfinite = VC_NONFINITE_KEEP;
    model = must_open(ctx, "big.npz");
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_add_quantize(ctx, job, &first), VC_OK);
    assert_int_equal(vc_job_add_quantize(ctx, job, &second), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    assert_int_equal(vc_job_report(job)->rows[0].dtype_after, VC_DTYPE_I8);
    assert_int_equal(vc_job_report(job)->rows[1].dtype_after, VC_DTYPE_F16);
    assert_int_equal(vc_job_run(ctx, job), VC_OK);
    vc_job_free(job);
    vc_model_close(model);
    vc_ctx_free(ctx);
}

/* One piece of scales that is longer than any tile, to several outputs at once. */
static void many_scales_to_two_outputs(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_write_options write = support_replace(in_folder("scales.npz"), VC_DEFLATE_ZLIB);
    struct vc_model *model;
    struct vc_job *job = NULL;
    struct zip_builder z = {0};
    const char *emit[1];
    char path[512];

    (void)state;
    add_matrix(&z, "w", 4, 400000, false);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save("wide.npz", &z.out);
    zip_release(&z);
    (void)snprintf(path, sizeof path, "%s", in_folder("second.npz"));
    emit[0] = path;
    write.emit = emit;
    write.n_emit = 1;
    model = must_open(ctx, "wide.npz");
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(add_pass(ctx, job, PASS_AXIS1), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    assert_int_equal(vc_job_run(ctx, job), VC_OK);
    vc_job_free(job);
    vc_model_close(model);
    expect_same("scales.npz", "second.npz");
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_equal_files),
        cmocka_unit_test(chains_equal_gguf_files),
        cmocka_unit_test(chains_equal_onnx_files),
        cmocka_unit_test(the_gate_is_judged_by_the_whole_chain),
        cmocka_unit_test(a_dry_run_says_the_sizes),
        cmocka_unit_test(a_refused_plan_can_be_made_again),
        cmocka_unit_test(cancelling_ends_one_call),
        cmocka_unit_test(threads_and_memory_change_nothing),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(keeping_is_not_undoing),
        cmocka_unit_test(the_second_pass_looks_at_what_the_first_made),
        cmocka_unit_test(many_scales_to_two_outputs),
    };

    return cmocka_run_group_tests(tests, make_inputs, scratch_clear);
}
