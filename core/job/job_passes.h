/* job_passes.h - what a pass asks of the job that it belongs to. */
#pragma once

#include "core/chain/pass.h"

/* Hands the pass to the job, which frees it (also when this fails). */
enum vc_status vc_job_add_pass(struct vc_ctx *ctx, struct vc_job *job, struct vc_pass *pass);

/* What the output would take with the steps that are planned now, for vc_pass.decide. Lays it out, which takes its
 * time. VC_E_ARGUMENT where that is not known before the run (deflated, several outputs, none). */
enum vc_status vc_plan_file_bytes(struct vc_ctx *ctx, struct vc_plan *plan, uint64_t *bytes);

/* For vc_pass_ops.report: the item that row number `row` is of. */
const struct vc_item *vc_plan_row_item(const struct vc_plan *plan, size_t row);
