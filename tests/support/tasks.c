/* tasks.c - see tasks.h. */
#include "tasks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vcompress/verify.h>

#include "formats/io/infile.h"
#include "formats/io/outfile.h"
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
    VC_TRY(task->add != NULL ? task->add(ctx, job) : VC_OK);
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
    if (task->opened != NULL) {
        task->opened();
    }
    VC_TRY(vc_job_create(ctx, model, &job));
    VC_TRY(add_passes(ctx, job, task));
    VC_TRY(vc_job_plan(ctx, job, &write));
    remember(vc_job_report(job));
    VC_TRY(vc_job_run(ctx, job));
    remember(vc_job_report(job));
    assert_int_equal(last_report.file_before, vc_model_facts(model)->file_bytes);
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

    if (run_task(ctx, from, to, &task) == VC_OK) {
        fail_msg("%s -> %s: is not refused, which should say \"%s\"", from, to, words);
    }
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

/* A kind of failure: lets the n-th call fail, 0: none; and how many calls there were, NULL: unknown. */
struct fault {
    const char *name;
    void (*at)(struct vc_ctx *ctx, uint64_t n);
    uint64_t (*count)(void);
    enum vc_status status;
    unsigned step;      /* every so manyth call */
    bool has_other_way; /* of some calls, which may fail, and a failure behind the last one leaves a whole output */
};

static void fail_alloc(struct vc_ctx *ctx, uint64_t n)
{
    vc_pool_fail_at(ctx->shared->pool, n, 0);
}

static void fail_read(struct vc_ctx *ctx, uint64_t n)
{
    (void)ctx;
    vc_infile_fail_at(n);
}

static void fail_write(struct vc_ctx *ctx, uint64_t n)
{
    (void)ctx;
    vc_outfile_fail_at(n);
}

static void fail_each(struct vc_ctx *ctx, const char *from, const char *to, const struct task *task,
                      const struct fault *fault, unsigned at_least)
{
    bool hit = true;
    uint64_t in_use;
    uint64_t n;

    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    must_run(ctx, from, to, *task);
    in_use = vc_pool_in_use(ctx->shared->pool); /* the kernels, which the context keeps */
    for (n = 1; hit; n += fault->step) {
        uint64_t before = fault->count != NULL ? fault->count() : 0;
        enum vc_status status;

        if (!task->over_older) {
            remove_path(to);
        }
        fault->at(ctx, n);
        status = run_task(ctx, from, to, task);
        fault->at(ctx, 0);
        hit = fault->count != NULL ? fault->count() - before >= n : status != VC_OK;
        if (vc_pool_in_use(ctx->shared->pool) != in_use || (hit && status == VC_OK && !fault->has_other_way) ||
            (status != VC_OK && (!hit || status != fault->status))) {
            fail_msg("%s -> %s, %s %u: %s, \"%s\"", from, to, fault->name, (unsigned)n, vc_status_name(status),
                     vc_ctx_message(ctx));
        }
        assert_int_equal(vc_ctx_message(ctx)[0] != '\0', status != VC_OK);
        assert_true(status != VC_OK ? !exists(to) || fault->has_other_way || task->over_older : exists(to));
        assert_true(exists(to) || !task->over_older);
        if (exists(to)) {
            vc_model_close(must_open(ctx, to));
        }
    }
    assert_true(n > at_least);
}

void fail_each_allocation(struct vc_ctx *ctx, const char *from, const char *to, struct task task, unsigned at_least)
{
    static const struct fault fault = {"allocation", fail_alloc, NULL, VC_E_NOMEM, TEST_STRIDE, false};

    fail_each(ctx, from, to, &task, &fault, at_least);
}

void fail_each_read(struct vc_ctx *ctx, const char *from, const char *to, struct task task, unsigned at_least)
{
    static const struct fault fault = {"read", fail_read, vc_infile_call_count, VC_E_IO, 1, false};

    fail_each(ctx, from, to, &task, &fault, at_least);
}

void fail_each_write(struct vc_ctx *ctx, const char *from, const char *to, struct task task, unsigned at_least)
{
    static const struct fault fault = {"write", fail_write, vc_outfile_call_count, VC_E_IO, 1, true};

    fail_each(ctx, from, to, &task, &fault, at_least);
}

/* ---- an input that changes, or is damaged ---- */

enum way { OTHER_BYTE, CUT, NEXT_BYTE, OTHER_CASE, N_WAYS }; /* OTHER_CASE: { for [, 1 for a control character, ... */

static struct {
    const char *path;
    struct bytes was;
    size_t at;
    enum way way;
} change;

/* As it was, and older than any change. */
static void change_back(void)
{
    static const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    int fd = open(change.path, O_WRONLY | O_TRUNC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, change.was.p, change.was.n), change.was.n);
    assert_int_equal(futimens(fd, old), 0);
    assert_int_equal(close(fd), 0);
}

static void change_now(void)
{
    unsigned char was = change.was.p[change.at];
    unsigned char other = (unsigned char)(change.way == OTHER_BYTE  ? ~was
                                          : change.way == NEXT_BYTE ? was + 1
                                                                    : was ^ 0x20);
    int fd = open(change.path, O_WRONLY);

    assert_true(fd >= 0);
    if (change.way == CUT) {
        assert_int_equal(ftruncate(fd, (off_t)change.at), 0);
    } else {
        assert_int_equal(pwrite(fd, &other, 1, (off_t)change.at), 1);
    }
    assert_int_equal(close(fd), 0);
}

static void change_failed(struct vc_ctx *ctx, const char *from, const char *to, enum vc_status status)
{
    static const char *const ways[N_WAYS] = {"another byte", "cut", "the next byte", "another case"};

    fail_msg("%s -> %s, %s, %s at %zu: %s, \"%s\", %s", from, to, change.path, ways[change.way], change.at,
             vc_status_name(status), vc_ctx_message(ctx), exists(to) ? "an output" : "no output");
}

/* verify of the damaged input comes to an end with findings, or none, and gives its memory back. */
static void verify_damaged(struct vc_ctx *ctx, const char *from)
{
    uint64_t in_use = vc_pool_in_use(ctx->shared->pool);
    struct vc_verification *found = NULL;
    enum vc_status status = vc_verify(ctx, in_folder(from), NULL, &found);

    if (status == VC_E_INTERNAL || (status == VC_OK) != (vc_ctx_message(ctx)[0] == '\0')) {
        change_failed(ctx, from, "verify", status);
    }
    vc_result_free(found);
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), in_use);
}

/* Runs the task with each change, made before the model is opened or by the task. */
static void change_each(struct vc_ctx *ctx, const char *from, const char *file, const char *to, const struct task *task,
                        size_t step, unsigned n_ways, bool before)
{
    struct task whole = *task;
    char path[1000];
    uint64_t in_use;

    whole.opened = NULL;
    (void)snprintf(path, sizeof path, "%s", in_folder(file));
    change.path = path;
    change.was = load(file);
    change_back();
    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    must_run(ctx, from, to, whole);
    in_use = vc_pool_in_use(ctx->shared->pool);
    for (change.at = 0; change.at < change.was.n; change.at += step) {
        for (change.way = 0; change.way < n_ways; change.way++) {
            enum vc_status status;

            if (!TEST_TURN(change.at / step * n_ways + change.way, n_ways)) {
                continue;
            }
            remove_path(to);
            if (before) {
                change_now();
                verify_damaged(ctx, from);
            }
            status = run_task(ctx, from, to, task);
            if (status == VC_E_INTERNAL || (status == VC_OK) != exists(to) || (status == VC_OK && !before) ||
                (status == VC_OK) != (vc_ctx_message(ctx)[0] == '\0') || vc_pool_in_use(ctx->shared->pool) != in_use) {
                change_failed(ctx, from, to, status);
            }
            if (status == VC_OK) {
                vc_model_close(must_open(ctx, to));
            }
            change_back();
        }
    }
    remove_path(to);
    bytes_release(&change.was);
}

void change_each_byte(struct vc_ctx *ctx, const char *from, const char *file, const char *to, struct task task,
                      size_t step)
{
    task.opened = change_now;
    change_each(ctx, from, file, to, &task, step, NEXT_BYTE, false);
}

void damage_each_byte(struct vc_ctx *ctx, const char *from, const char *file, const char *to, struct task task,
                      size_t step)
{
    change_each(ctx, from, file, to, &task, step, N_WAYS, true);
}
