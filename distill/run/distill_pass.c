/* distill_pass.c - see distill_pass.h. plan_begin takes the student of the plan and trains it, or, in a dry plan, only
 * checks and counts; then every tensor that was trained gets a step that gives its new values (trained.h). */
#include "distill/run/distill_pass.h"

#include "core/base/clock.h"
#include "core/job/job_passes.h"
#include "core/job/job_state.h"
#include "distill/derive.h"
#include "distill/run/trainer.h"
#include "distill/student.h"
#include "distill/trained.h"
#include "distill/update/fake_quant.h"
#include "facade/all_candidates.h"

/* The pass. What a plan made is taken back when the next plan begins. */
struct distilling {
    struct vc_pass pass;
    struct vc_distill_options options; /* as they were given and checked */
    struct vc_distill_options taken;   /* of the plan: with its student */
    struct vc_write_options write;     /* of the job, with the format of the output */
    struct vc_student student;
    struct vc_weights *weights; /* trained; NULL: there is no plan */
    struct vc_distillation report;
    struct vc_recipe_entry lineage;
    struct vc_arena arena; /* sentences of the plan */
};

/* Takes back what a plan made. */
static void forget(struct vc_ctx *ctx, struct distilling *d)
{
    vc_weights_free(d->weights);
    vc_student_free(&d->student);
    vc_arena_release(ctx, &d->arena);
    d->weights = NULL;
    d->arena = (struct vc_arena){0};
    d->report = (struct vc_distillation){0};
    d->pass.gate_missed = NULL;
    d->pass.lineage = NULL;
}

#define NO_DIGEST "0000000000000000000000000000000000000000000000000000000000000000"

/* What the weights were made from, for the metadata of the output; as long before the training as behind it. */
static enum vc_status tell_lineage(struct vc_ctx *ctx, struct distilling *d, const struct vc_trainer *t)
{
    const struct vc_distill_options *o = &d->taken;
    const char *teacher = d->report.teacher_sha256 != NULL ? d->report.teacher_sha256 : NO_DIGEST;
    const char *data = d->report.data_sha256 != NULL ? d->report.data_sha256 : NO_DIGEST;

    d->lineage.key = "vcompress.distill";
    if (t->runs_teacher) {
        VC_CALL_ALLOC(teacher = vc_arena_printf(ctx, &d->arena, "\"%s\"", teacher));
    } else {
        teacher = "null";
    }
    d->lineage.value = vc_arena_printf(
        ctx, &d->arena,
        "{\"teacher\":%s,\"data\":\"%s\",\"temperature\":%.17g,\"alpha\":%.17g,\"steps\":%llu,\"seed\":%llu}", teacher,
        data, o->loss.temperature, o->loss.alpha, (unsigned long long)t->steps.n, (unsigned long long)o->training.seed);
    d->pass.lineage = &d->lineage;
    return d->lineage.value != NULL ? VC_OK : VC_E_NOMEM;
}

/* The student of a chain is a model in memory, from which a folder's name does not tell the format and the layout. */
static void take_write(struct distilling *d, const struct vc_job *job)
{
    d->write = job->options;
    if (d->write.format == NULL && d->write.path != NULL && job->report.n_outputs == 1 &&
        strcmp(job->sink->format, "safetensors") == 0) {
        d->write.format = job->sink->format;
        d->write.layout = job->sink->dialect->name;
    }
}

/* Training happens here, while the job is planned: later passes see the trained values. */
static enum vc_status distill_plan_begin(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_plan *plan)
{
    struct distilling *d = pass->self;
    struct vc_trainer t = {.ctx = ctx, .report = &d->report};
    enum vc_status status = VC_OK;

    forget(ctx, d);
    VC_REFUSE_IF(plan->n_targets > 1, ctx, VC_E_UNSUPPORTED, "has several models, and what is trained is one");
    pass->names_files = false;
    VC_TRY(vc_student_make(ctx, plan, &d->options, &d->student));
    pass->names_files = true; /* data, teacher, student: sentences say which one they are about */
    d->taken = d->options;
    d->taken.student = d->student.network;
    d->taken.dry_run = plan->dry_plan;
    t.options = d->taken;
    take_write(d, plan->job);
    t.student.write = &d->write;
    t.progress.began = vc_seconds();
    status = vc_trainer_work(&t, &d->arena);
    d->taken.loss.kind = t.options.loss.kind; /* AUTO no more */
    VC_TRY(status);
    d->report.answers = t.student.net.answers;
    d->report.net_task = t.student.net.task;
    d->report.n_outputs = t.student.net.n_classes;
    for (size_t k = 0; k < t.student.net.n_heads; k++) {
        const struct vc_net *head = &t.student.net.heads[k];

        d->report.tasks =
            vc_arena_printf(ctx, &d->arena, "%s%s%s: %s", k != 0 ? d->report.tasks : "", k != 0 ? ", " : "",
                            vc_net_output(head)->name, vc_word(VC_WORDS_NET_TASK, head->task));
        VC_TRY_ALLOC(d->report.tasks);
    }
    d->report.options = &d->taken;
    d->report.seconds = vc_seconds() - t.progress.began;
    VC_TRY(tell_lineage(ctx, d, &t));
    pass->gate_missed = d->report.missed;
    if (t.student.net.weights != NULL) {
        vc_weights_leave(t.student.net.weights);
    }
    d->weights = vc_give(&t.student.net.weights);
out:
    vc_trainer_close(&t);
    return status;
}

/* The step of one tensor. */
static enum vc_status distill_plan(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item)
{
    const struct distilling *d = pass->self;

    return vc_trained_plan(ctx, item, d->weights, !d->taken.trained.frozen_norm, d->taken.dry_run);
}

/* Global scales of codes are those of the trained weights. */
static enum vc_status distill_decide(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan, size_t round)
{
    return vc_candidates_decide(ctx, plan);
}

/* The report lists what each pass of the job trained. */
static enum vc_status distill_report(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_plan *plan,
                                     bool measured, struct vc_report *report)
{
    const struct distilling *d = pass->self;
    const struct vc_distillation **list;

    if (measured) { /* it is in the list since the job was planned */
        return VC_OK;
    }
    VC_CALL_ALLOC(list = vc_arena_alloc(ctx, plan->arena, (report->n_distillations + 1) * sizeof *list));
    if (report->n_distillations != 0) {
        memcpy(list, report->distillations, report->n_distillations * sizeof *list);
    }
    list[report->n_distillations++] = &d->report;
    report->distillations = list;
    return VC_OK;
}

/* Frees the pass with its last plan. */
static void distill_free(struct vc_ctx *ctx, struct vc_pass *pass)
{
    struct distilling *d = pass->self;

    forget(ctx, d);
    vc_free(ctx, d);
}

static const struct vc_pass_ops distill_ops = {.name = "distill",
                                               .dry_plan_first = true,
                                               .plan_begin = distill_plan_begin,
                                               .plan = distill_plan,
                                               .decide = distill_decide,
                                               .report = distill_report,
                                               .free = distill_free};

/* As a pass of a job, whose earlier passes make the student. */
enum vc_status vc_job_add_distill(struct vc_ctx *ctx, struct vc_job *job, const struct vc_distill_options *options)
{
    struct vc_distill_options own;

    vc_clear_error(ctx);
    VC_CALL(vc_distill_check(ctx, options, &own));
    VC_REFUSE_IF(vc_derives(&own), ctx, VC_E_ARGUMENT, "%s: in a job the passes before it make the student: prune",
                 vc_option(ctx, own.derive.width != NULL ? "derive.width" : "derive.keep_layers"));
    return vc_distill_add(ctx, job, options);
}

/* Options are checked once more, since they become the pass's own. What codes the output will have is asked
 * before other passes are added. */
enum vc_status vc_distill_add(struct vc_ctx *ctx, struct vc_job *job, const struct vc_distill_options *options)
{
    struct distilling *d = NULL;
    enum vc_status status = VC_OK;

    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, d, 1));
    VC_TRY(vc_distill_check(ctx, options, &d->options));
    d->pass.ops = &distill_ops;
    d->pass.self = d;
    d->pass.command = "distill";
    VC_TRY(vc_fake_quant_writes(ctx, job->model, &d->options, &d->pass.codes));
    return vc_job_add_pass(ctx, job, &d->pass);
out:
    vc_free(ctx, d);
    return status;
}
