/* distill.c - vc_distill: a job of one pass that does the work (distill_pass.c), with heads that a configuration cannot
 * state left as they are. */
#include "distill/derive.h"
#include "distill/run/distill_pass.h"

/* What the caller gets, with the job that trained and wrote. */
struct result {
    struct vc_distillation report; /* first */
    struct vc_job *job;
    struct vc_couplings *couplings; /* of a student that is made of its teacher; the job needs them */
    char heads_kept[VC_MESSAGE_BYTES];
};

/* The caller's options of the output, which may be shorter or longer than those of the library, as a dry run. */
static void make_dry(const struct vc_write_options *given, struct vc_write_options *own)
{
    vc_write_defaults(own);
    if (given != NULL) {
        memcpy(own, given, given->struct_size < sizeof *own ? given->struct_size : sizeof *own);
        own->struct_size = sizeof *own;
    }
    own->dry_run = true;
}

/* Frees the job and what it needs, to make another one. */
static void drop_job(struct result *result)
{
    vc_job_free(result->job);
    vc_result_free(result->couplings);
    result->job = NULL;
    result->couplings = NULL;
}

/* The passes of the job: the student may be made of the teacher first. */
static enum vc_status make_job(struct vc_ctx *ctx, const struct vc_distill_options *o, struct result *result)
{
    bool derives = vc_derives(o);

    VC_CALL(vc_job_create(ctx, derives ? o->teacher.weights : o->student.weights, &result->job));
    if (derives) {
        VC_CALL(vc_derive_add(ctx, o, result->job, result->heads_kept[0] == '\0', &result->couplings));
    }
    return vc_distill_add(ctx, result->job, o);
}

/* Configurations of many families cannot say that there are fewer heads of the same size (BERT's have no head_dim). A
 * plan without training tells; where one without heads holds, heads stay. */
static enum vc_status try_heads(struct vc_ctx *ctx, const struct vc_distill_options *o, bool writes,
                                struct result *result)
{
    struct vc_write_options dry;

    if (o->derive.width == NULL) {
        return VC_OK;
    }
    make_dry(writes ? o->write : NULL, &dry);
    enum vc_status status = vc_job_plan(ctx, result->job, &dry);
    if (status != VC_E_UNSUPPORTED) {
        return status == VC_E_GATE ? VC_OK : status;
    }
    (void)snprintf(result->heads_kept, sizeof result->heads_kept, "%s", vc_ctx_message(ctx));
    drop_job(result);
    VC_TRY(make_job(ctx, o, result));
    status = vc_job_plan(ctx, result->job, &dry);
    status = status == VC_E_UNSUPPORTED ? vc_fail(ctx, status, "%s", result->heads_kept) : status;
out:
    return status == VC_E_GATE ? VC_OK : status;
}

/* Plans the job, which trains, and runs it, which writes. */
static enum vc_status run_job(struct vc_ctx *ctx, const struct vc_distill_options *o, struct result *result)
{
    bool writes =
        o->write != NULL && (o->write->path != NULL || o->write->n_emit != 0) && vc_ranks_rank(o->parallel.ranks) == 0;
    const struct vc_report *report;
    struct vc_write_options own;
    enum vc_status status;

    vc_write_defaults(&own);
    if (o->dry_run) {
        make_dry(writes ? o->write : NULL, &own);
    }
    VC_TRY(make_job(ctx, o, result));
    VC_TRY(try_heads(ctx, o, writes, result));
    VC_TRY(vc_job_plan(ctx, result->job, writes && !o->dry_run ? o->write : &own));
    if (writes && !o->dry_run && !o->write->dry_run) {
        VC_TRY(vc_job_run(ctx, result->job));
    }
out:
    report = result->job != NULL ? vc_job_report(result->job) : NULL;
    if (report != NULL && report->n_distillations != 0 && (status == VC_OK || status == VC_E_GATE)) {
        result->report = *report->distillations[0];
        result->report.written = report->written ? report : NULL;
        result->report.heads_kept = result->heads_kept[0] != '\0' ? result->heads_kept : NULL;
    }
    return status;
}

/* The job, too, whose texts the report points to. */
static void end(void *result)
{
    drop_job(result);
}

/* A gate that is missed leaves a report: what was measured is of interest then. */
enum vc_status vc_distill(struct vc_ctx *ctx, const struct vc_distill_options *options, struct vc_distillation **out)
{
    struct vc_distill_options own;
    struct result *result = NULL;
    enum vc_status status = VC_OK;

    *out = NULL;
    vc_call_begin(ctx);
    VC_TRY(vc_distill_check(ctx, options, &own));
    if (own.student.weights == NULL && (!vc_derives(&own) || own.teacher.weights == NULL)) {
        status =
            vc_fail(ctx, VC_E_ARGUMENT,
                    vc_derives(&own) ? "there is no network to make a student of: a teacher" : "there is no student");
        goto out;
    }
    VC_TRY(VC_RESULT(ctx, VC_TAG_REPORT, result, end));
    VC_TRY(run_job(ctx, &own, result));
out:
    if (result != NULL && (status == VC_OK || status == VC_E_GATE)) {
        *out = &result->report;
    } else {
        vc_result_free(result);
    }
    return vc_call_end(ctx, status);
}
