/* quantize_file.c - one call from a file to a smaller file: a job with one pass, for programs that want no more of jobs. */
#include <math.h>

#include <vcompress/quantize.h>

#include "core/job/scoped.h"

/* Plans and runs the only pass; *result: what the report says. */
static enum vc_status run(struct vc_ctx *ctx, struct vc_job *job, const char *out,
                          const struct vc_quantize_options *options, struct vc_quantized *result)
{
    const struct vc_report_totals *totals;
    struct vc_write_options write;

    vc_write_defaults(&write);
    write.path = out;
    VC_CALL(vc_job_add_quantize(ctx, job, options));
    VC_CALL(vc_job_plan(ctx, job, &write));
    VC_CALL(vc_job_run(ctx, job));
    totals = &vc_job_report(job)->totals;
    *result = (struct vc_quantized){.bytes_before = totals->file_before,
                                    .bytes_after = totals->file_after,
                                    .sqnr_db = totals->measured ? totals->sqnr_db : (double)INFINITY,
                                    .n_tensors = totals->n_tensors,
                                    .n_changed = totals->n_changed};
    return VC_OK;
}

enum vc_status vc_quantize_file(struct vc_ctx *ctx, const char *in, const char *out,
                                const struct vc_quantize_options *options, struct vc_quantized *result)
{
    struct vc_quantize_options usual;
    struct vc_quantized unused;
    VC_SCOPED_MODEL struct vc_model *model = NULL;
    VC_SCOPED_JOB struct vc_job *job = NULL;

    vc_quantize_defaults(&usual);
    VC_CALL(vc_model_open(ctx, in, NULL, &model));
    VC_CALL(vc_job_create(ctx, model, &job));
    return run(ctx, job, out, options != NULL ? options : &usual, result != NULL ? result : &unused);
}
