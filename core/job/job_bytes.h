/* job_bytes.h - how large the file of a job would be, for callers that want to know nothing else. */
#pragma once

#include <vcompress/job.h>

/* Plans the job as vc_job_plan does, but makes no report, and takes the plan back. *file_bytes: of the first output; 0
 * where it is not known before compression, and after a failure. */
enum vc_status vc_job_plan_bytes(struct vc_ctx *ctx, struct vc_job *job, const struct vc_write_options *options,
                                 uint64_t *file_bytes);
