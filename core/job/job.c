/* job.c - a job: passes planned over the headers of a model, the output laid out, then run by the executor. */

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/cpu.h"
#include "core/base/option_struct.h"
#include "core/chain/compare.h"
#include "core/job/job_bytes.h"
#include "core/job/job_passes.h"
#include "core/job/job_state.h"
#include "core/model/memory_model.h"
#include "core/model/renamed_model.h"

enum vc_status vc_job_make(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_writers *writers,
                           const struct vc_comparer *comparer, const struct vc_chooser *chooser, struct vc_job **out)
{
    struct vc_job *job;

    vc_clear_error(ctx);
    job = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *job);
    *out = job;
    VC_CALL_ALLOC(job);
    job->ctx = ctx;
    job->model = model;
    job->writers = writers;
    job->comparer = comparer;
    job->chooser = chooser;
    return VC_OK;
}

/* Takes back all that planning made; passes stay. */
static void reset(struct vc_ctx *ctx, struct vc_job *job)
{
    if (job->sink != NULL) {
        job->sink->ops->free(ctx, job->sink);
    }
    for (size_t i = 0; i < job->plan.n_items; i++) {
        struct vc_compare *compare = job->plan.items[i].chain != NULL ? job->plan.items[i].chain->compare : NULL;

        if (compare != NULL) {
            compare->ops->free(ctx, compare);
        }
        vc_item_release(ctx, &job->plan.items[i]);
    }
    vc_free(ctx, job->plan.items);
    vc_renamed_model_free(ctx, job->renamed);
    vc_free(ctx, job->results);
    vc_job_free_outs(ctx, job);
    VC_FREE_ALL(ctx, job->rows, job->row_item);
    vc_arena_release(ctx, &job->arena);
    job->arena = (struct vc_arena){0};
    job->options = (struct vc_write_options){0};
    job->plan = (struct vc_plan){0};
    job->renamed = NULL;
    job->results = NULL;
    job->sink = NULL;
    job->outputs = NULL;
    job->parts_file = (struct vc_part_file){.path = NULL};
    job->rows = NULL;
    job->row_item = NULL;
    job->gates = NULL;
    job->notes = NULL;
    job->report = (struct vc_report){0};
}

void vc_job_free(struct vc_job *job)
{
    struct vc_ctx *ctx;

    if (job == NULL) {
        return;
    }
    ctx = job->ctx;
    reset(ctx, job);
    for (size_t i = 0; i < job->n_passes; i++) {
        job->passes[i]->ops->free(ctx, job->passes[i]);
    }
    VC_FREE_ALL(ctx, job->passes, job);
}

enum vc_status vc_job_add_pass(struct vc_ctx *ctx, struct vc_job *job, struct vc_pass *pass)
{
    if (job->report.n_outputs != 0) {
        pass->ops->free(ctx, pass);
        return vc_fail(ctx, VC_E_ARGUMENT, "the job is planned already: passes are added before");
    }
    if (VC_GROW(ctx, VC_TAG_MISC, job->passes, job->pass_capacity, job->n_passes + 1) != VC_OK) {
        pass->ops->free(ctx, pass);
        return VC_E_NOMEM;
    }
    job->passes[job->n_passes++] = pass;
    return VC_OK;
}

enum vc_status vc_job_drop(struct vc_ctx *ctx, struct vc_job *job, enum vc_role role)
{
    vc_clear_error(ctx);
    VC_REFUSE_IF(role != VC_ROLE_OPTIMIZER && role != VC_ROLE_OTHER, ctx, VC_E_ARGUMENT, "weights cannot be dropped");
    job->drop[role] = true;
    return VC_OK;
}

const struct vc_report *vc_job_report(const struct vc_job *job)
{
    return &job->report;
}

/* ---- planning ---- */

/* Refuses a source with tensors that cannot be read, unless their role is dropped: the output would lack them. */
static enum vc_status check_refused(struct vc_ctx *ctx, const struct vc_job *job)
{
    for (size_t i = 0; i < job->model->n_refused; i++) {
        const struct vc_refused *refused = &job->model->refused[i];

        VC_REFUSE_IF(!job->drop[refused->role], ctx, VC_E_UNSUPPORTED, "%s: %s", refused->name, refused->why);
    }
    return VC_OK;
}

/* Room for the figures of every step. */
static enum vc_status make_results(struct vc_ctx *ctx, struct vc_job *job)
{
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, job->results, job->plan.n_items));
    for (size_t i = 0; i < job->plan.n_items; i++) {
        size_t n_bytes = job->plan.items[i].chain->n_steps * sizeof(struct vc_error);

        if (n_bytes != 0) {
            VC_CALL_ALLOC(job->results[i].steps = vc_arena_alloc(ctx, &job->arena, n_bytes));
            memset(job->results[i].steps, 0, n_bytes);
        }
    }
    return VC_OK;
}

static struct vc_exec job_exec(struct vc_job *job)
{
    return (struct vc_exec){.items = job->plan.items,
                            .n_items = job->plan.n_items,
                            .results = job->results,
                            .sink = job->sink,
                            .first_out = job->first_out,
                            .outs = &job->outs,
                            .what = job->n_passes != 0 ? job->passes[0]->ops->name : "convert"};
}

/* What the report says of the device: which it is or, of a dry run, would be, and what was expected. */
static void report_device(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_device_choice *choice = &job->choice;
    const struct vc_shared *shared = ctx->shared;

    if (choice->why[0] != '\0') {
        (void)snprintf(job->device, sizeof job->device, "cpu (%s)", vc_cpu_level_name(shared->cpu_level));
    } else {
        (void)snprintf(job->device, sizeof job->device, "%s",
                       shared->device_name[0] != '\0' ? shared->device_name : "cpu");
    }
    job->report.device = job->device;
    job->report.expected_cpu_seconds = choice->cpu_seconds;
    job->report.expected_card_seconds = choice->card_seconds;
    job->report.device_reason = choice->why;
}

/* size_only: no report but the sizes of the outputs. */
static enum vc_status plan(struct vc_ctx *ctx, struct vc_job *job, bool size_only)
{
    unsigned n_workers = 1;
    uint64_t file_bytes = 0;

    VC_CALL(check_refused(ctx, job));
    VC_CALL(vc_job_plan_items(ctx, job));
    job->writers->release(ctx, &job->reserved);
    VC_CALL(vc_job_check_held(ctx, job));
    VC_CALL(vc_job_list_outs(ctx, job));
    vc_job_choose_recipe(job);
    VC_CALL(job->sink->ops->layout(ctx, job->sink, &job->outs, &file_bytes));
    vc_job_output_sizes(job, file_bytes);
    if (size_only) {
        return VC_OK;
    }
    VC_CALL(vc_job_list_beside(ctx, job));
    VC_CALL(vc_job_list_gates(ctx, job));
    VC_CALL(vc_job_report_plan(ctx, job));
    struct vc_exec exec = job_exec(job);
    VC_CALL(vc_exec_workers(ctx, &exec, &n_workers));
    job->report.threads = n_workers;
    job->chooser->choose(ctx, &job->plan, job->report.totals.file_before + job->report.totals.file_after, n_workers,
                         job->options.dry_run, &job->choice);
    report_device(ctx, job);
    VC_CALL(vc_job_check_passes(ctx, job));
    VC_CALL(vc_job_check_size(ctx, job));
    return vc_job_check_sparsity(ctx, job);
}

/* The failure is about a file of a pass, not about the source. */
static bool names_file(const struct vc_job *job)
{
    for (size_t i = 0; i < job->plan.n_sets; i++) {
        const struct vc_pass *pass = job->plan.sets[i].pass;

        if (pass != NULL && pass->names_files) {
            return true;
        }
    }
    return false;
}

/* Begins a sentence with the source; of tensors in memory, which have no file, with the output, once. */
static void name_source(struct vc_ctx *ctx, const struct vc_job *job)
{
    bool in_memory = strcmp(job->model->path, VC_MEMORY_PATH) == 0 && job->options.path != NULL;
    const char *path = in_memory ? job->options.path : job->model->path;
    size_t n = strlen(path);

    if (!in_memory || strncmp(ctx->message, path, n) != 0 || ctx->message[n] != ':') {
        (void)vc_context(ctx, "%s", path);
    }
}

/* Everything anew. */
static enum vc_status plan_once(struct vc_ctx *ctx, struct vc_job *job, const struct vc_write_options *options,
                                bool size_only)
{
    reset(ctx, job);
    job->options = *options;
    /* Refuses a bad name of an output; those sentences are not about the input. */
    enum vc_status status = vc_job_create_sink(ctx, job);
    if (status == VC_OK) {
        status = plan(ctx, job, size_only);
        if (status != VC_OK && status != VC_E_GATE && !names_file(job)) {
            name_source(ctx, job);
        }
        status = vc_model_unchanged(ctx, job->model, status); /* passes may have looked at values */
    }
    if (status != VC_OK && status != VC_E_GATE) { /* a missed gate has a report */
        reset(ctx, job);
    }
    return status;
}

/* An output that goes to the program has a name that is no file's. */
static enum vc_status take_writer(struct vc_ctx *ctx, struct vc_write_options *options)
{
    VC_REFUSE_IF(options->writer->write == NULL || options->path != NULL || options->n_emit != 0 ||
                     options->max_shard_bytes != 0 || options->n_shards != 0,
                 ctx, VC_E_ARGUMENT, "a writer needs a function and gets the only output, without a path, undivided");
    options->path = VC_WRITER_PATH;
    return VC_OK;
}

/* What trains while it is planned does so once the plan of all passes is known to hold. */
static enum vc_status plan_job(struct vc_ctx *ctx, struct vc_job *job, const struct vc_write_options *options,
                               bool size_only)
{
    struct vc_write_options own;
    bool dry_first = false;
    double start = vc_seconds();
    enum vc_status status = vc_options_read(ctx, VC_OPTIONS(write), options, &own);

    if (status != VC_OK) {
        return status;
    }
    VC_REFUSE_IF(job->report.written, ctx, VC_E_ARGUMENT, "the job was run already");
    VC_REFUSE_IF(!vc_cpu_denormals_ok(), ctx, VC_E_INTERNAL,
                 "a library in this process has switched on flush-to-zero arithmetic");
    if (job->n_passes != 0 && vc_model_need_weights(ctx, job->model) != VC_OK) {
        return vc_context(ctx, "%s", job->model->path);
    }
    if (own.writer != NULL) {
        VC_CALL(take_writer(ctx, &own));
    }
    own.force = own.force || own.force_foreign != 0;
    own.codes = NULL;
    own.decoded = false;
    for (size_t i = 0; i < job->n_passes; i++) {
        own.codes = job->passes[i]->codes != NULL ? job->passes[i]->codes : own.codes;
        own.decoded = own.decoded || (job->passes[i]->decodes && i + 1 < job->n_passes);
        dry_first = dry_first || job->passes[i]->ops->dry_plan_first;
    }
    job->dry_plan = true;
    if (dry_first || size_only || own.dry_run) {
        status = plan_once(ctx, job, &own, size_only);
        if (status != VC_OK || size_only || own.dry_run) {
            return status;
        }
    }
    if (dry_first) {
        status = job->writers->reserve(ctx, job->model, &own, job->report.totals.file_after, &job->reserved);
        if (status != VC_OK) {
            reset(ctx, job);
            return status;
        }
    }
    job->dry_plan = false;
    status = plan_once(ctx, job, &own, size_only);
    job->writers->release(ctx, &job->reserved);
    job->report.seconds = dry_first ? vc_seconds() - start : 0;
    return status;
}

enum vc_status vc_job_plan(struct vc_ctx *ctx, struct vc_job *job, const struct vc_write_options *options)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, plan_job(ctx, job, options, false));
}

enum vc_status vc_job_plan_bytes(struct vc_ctx *ctx, struct vc_job *job, const struct vc_write_options *options,
                                 uint64_t *file_bytes)
{
    vc_call_begin(ctx);
    enum vc_status status = plan_job(ctx, job, options, true);
    *file_bytes = status == VC_OK ? job->report.totals.file_after : 0;
    reset(ctx, job);
    return vc_call_end(ctx, status);
}

/* ---- running ---- */

static enum vc_status run(struct vc_ctx *ctx, struct vc_job *job)
{
    enum vc_status status = VC_OK;
    uint64_t file_bytes = 0;

    VC_CALL(make_results(ctx, job));
    struct vc_exec exec = job_exec(job);
    VC_CALL(job->sink->ops->begin(ctx, job->sink));
    status = vc_exec_run(ctx, &exec);
    job->report.threads = exec.threads_used != 0 ? exec.threads_used : job->report.threads;
    if (status != VC_OK) {
        return exec.failed_item != VC_NO_TENSOR ? vc_job_explain(ctx, job, exec.failed_item, status) : status;
    }
    VC_CALL(vc_job_report_results(ctx, job));
    VC_CALL(vc_job_check_quality(ctx, job));
    VC_CALL(vc_job_check_sparsity(ctx, job));
    VC_CALL(job->sink->ops->finish(ctx, job->sink, &file_bytes));
    vc_job_output_sizes(job, file_bytes);
    VC_CALL(vc_job_check_size(ctx, job));
    VC_CALL(vc_check_cancelled(ctx));
    VC_CALL(vc_model_unchanged(ctx, job->model, VC_OK));
    VC_CALL(job->sink->ops->commit(ctx, job->sink));
    vc_job_written(job);
    vc_job_report_written(ctx, job);
    return VC_OK;
}

static enum vc_status run_job(struct vc_ctx *ctx, struct vc_job *job)
{
    double start = vc_seconds();

    VC_REFUSE_IF(job->sink == NULL || job->options.dry_run || job->report.gate_missed[0] != '\0', ctx, VC_E_ARGUMENT,
                 "the job is not planned, a dry run, missed a gate, or was run already");
    enum vc_status status = run(ctx, job);
    job->sink->ops->free(ctx, job->sink); /* removes what was not committed */
    job->sink = NULL;
    job->report.seconds += vc_seconds() - start;
    job->chooser->end(ctx, &job->choice);
    report_device(ctx, job);
    job->report.peak_pool_bytes = vc_pool_peak(ctx->shared->pool);
    job->report.peak_rss_bytes = vc_peak_rss_bytes();
    if (status != VC_OK && status != VC_E_GATE) {
        name_source(ctx, job);
    }
    return status != VC_OK ? vc_model_unchanged(ctx, job->model, status) : VC_OK;
}

enum vc_status vc_job_run(struct vc_ctx *ctx, struct vc_job *job)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, run_job(ctx, job));
}
