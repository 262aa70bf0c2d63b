/* derive.h - a student that is made of its teacher: narrower, or with fewer layers, with the teacher's weights. */
#pragma once

#include <vcompress/couplings.h>
#include <vcompress/distill.h>

#include "core/base/ctx.h"

/* options->width or options->keep_layers is set. */
bool vc_derives(const struct vc_distill_options *options);

/* Adds the passes that make the student to a job of the teacher's weights; heads: they are left out, too. *couplings
 * are freed behind the job; NULL: those of the model's own graph. */
enum vc_status vc_derive_add(struct vc_ctx *ctx, const struct vc_distill_options *options, struct vc_job *job,
                             bool heads, struct vc_couplings **couplings);
