/* job_apply.h - applies the passes of a planned job to one tensor and gives the result in memory, without a file.
 * Nothing is written and nothing is reported. The job is usually planned without an output, on a model in memory
 * (core/model/memory_model.h) whose values may change between two calls; calibration is not repeated then. */
#pragma once

#include <vcompress/job.h>

/* Writes what the passes make of tensor `index` to dst: its values or codes (VC_PART_CODES), or one of the parts that
 * they make. A tensor that no pass changes is given as it is; a second name gives what the first one does. n_bytes has
 * to be the size of the result: VC_E_ARGUMENT otherwise, and for a part that there is not. One thread per job. */
enum vc_status job_apply(struct vc_ctx *ctx, struct vc_job *job, size_t index, enum vc_part_role role, void *dst,
                         size_t n_bytes);
