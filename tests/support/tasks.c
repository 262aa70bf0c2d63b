/* tasks.c - see tasks.h. */
#include "tasks.h"

#include "support.h"

static struct task task_of(enum task_work work)
{
    struct task task = {.work = work,
                        .open = support_open(),
                        .write = support_replace(NULL, VC_DEFLATE_NONE),
                        .quantize = support_quantize(),
                        .dequantize = support_dequantize()};

    return task;
}

struct task task_copy(void)
{
    return task_of(TASK_COPY);
}

struct task task_int8(void)
{
    return task_of(TASK_QUANTIZE);
}

struct task task_fp16(void)
{
    struct task task = task_of(TASK_QUANTIZE);

    task.quantize.target = VC_TARGET_F16;
    return task;
}

struct task task_back(void)
{
    return task_of(TASK_DEQUANTIZE);
}

struct last_report last_report;

static void remember(const struct vc_report *report)
{
    (void)snprintf(last_report.note, sizeof last_report.note, "%s", report->note);
    last_report.file_before = report->totals.file_before;
    last_report.file_after = report->totals.file_after;
}

static enum vc_status add_passes(struct vc_ctx *ctx, struct vc_job *job, const struct task *task)
{
    enum vc_status status = VC_OK;

    if (task->work == TASK_QUANTIZE) {
        VC_TRY(vc_job_add_quantize(ctx, job, &task->quantize));
    } else if (task->work == TASK_DEQUANTIZE) {
        VC_TRY(vc_job_add_dequantize(ctx, job, &task->dequantize));
    }
    VC_TRY(task->drop_optimizer ? vc_job_drop(ctx, job, VC_ROLE_OPTIMIZER) : VC_OK);
    VC_TRY(task->drop_other ? vc_job_drop(ctx, job, VC_ROLE_OTHER) : VC_OK);
out:
    return status;
}

enum vc_status run_task(struct vc_ctx *ctx, const char *from, const char *to, const struct task *task)
{
    struct vc_write_options write = task->write;
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    enum vc_status status;

    write.path = in_folder(to);
    VC_TRY(vc_model_open(ctx, in_folder(from), &task->open, &model));
    VC_TRY(vc_job_create(ctx, model, &job));
    VC_TRY(add_passes(ctx, job, task));
    VC_TRY(vc_job_plan(ctx, job, &write));
    remember(vc_job_report(job));
    VC_TRY(vc_job_run(ctx, job));
    remember(vc_job_report(job));
    assert_int_equal(last_report.file_before, vc_model_file_bytes(model));
out:
    vc_job_free(job);
    vc_model_close(model);
    return status;
}

void must_run(struct vc_ctx *ctx, const char *from, const char *to, struct task task)
{
    if (run_task(ctx, from, to, &task) != VC_OK) {
        fail_msg("%s -> %s: %s", from, to, vc_ctx_message(ctx));
    }
}

void must_refuse(struct vc_ctx *ctx, const char *from, const char *to, struct task task, const char *words)
{
    bool there = exists(to);

    assert_int_not_equal(run_task(ctx, from, to, &task), VC_OK);
    expect_says(ctx, words);
    assert_int_equal(exists(to), there);
}

struct vc_model *must_open(struct vc_ctx *ctx, const char *name)
{
    struct vc_model *model = NULL;

    if (vc_model_open(ctx, in_folder(name), NULL, &model) != VC_OK) {
        fail_msg("%s: %s", name, vc_ctx_message(ctx));
    }
    return model;
}

void fail_each_allocation(struct vc_ctx *ctx, const char *from, const char *to, struct task task, unsigned at_least)
{
    enum vc_status status = VC_E_NOMEM;
    uint64_t in_use;
    uint64_t n;

    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    must_run(ctx, from, to, task);
    in_use = vc_pool_in_use(ctx->shared->pool); /* the kernels, which the context keeps */
    for (n = 1; status != VC_OK; n++) {
        remove_path(to);
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = run_task(ctx, from, to, &task);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), in_use);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        assert_true(status == VC_OK || vc_ctx_message(ctx)[0] != '\0');
        assert_int_equal(exists(to), status == VC_OK);
    }
    assert_true(n > at_least);
}
