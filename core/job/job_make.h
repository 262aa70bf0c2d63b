/* job_make.h - a job from what core does not have itself: the table of formats and what compares both ends of a chain.
 * vc_job_create (facade/) calls it with those of the library. */
#pragma once

#include <vcompress/job.h>

struct vc_writers;
struct vc_comparer;

/* Both tables outlive the job. Ends with vc_job_free. */
enum vc_status vc_job_make(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_writers *writers,
                           const struct vc_comparer *comparer, struct vc_job **out);
