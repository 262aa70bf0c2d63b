/* distill_pass.h - distillation as a pass of a job: between planning the passes before it and those behind it, it
 * trains what the first ones leave. */
#pragma once

#include <vcompress/distill.h>

#include "core/base/ctx.h"

/* Reads and checks the options, and fills what was not given. */
enum vc_status vc_distill_check(struct vc_ctx *ctx, const struct vc_distill_options *given,
                                struct vc_distill_options *out);
/* vc_job_add_distill, also of a student that is made of its teacher by passes which the job has already. */
enum vc_status vc_distill_add(struct vc_ctx *ctx, struct vc_job *job, const struct vc_distill_options *options);
