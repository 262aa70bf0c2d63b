/* job_apply.h - the passes of a job on one tensor, from memory to memory: for programs that need what a weight becomes
 * while they use it (fake quantization, masks). The job is planned with no output; its model may lie in memory
 * (core/model/memory_model.h), and what is there may change between two calls. */
#ifndef VC_CORE_JOB_APPLY_H
#define VC_CORE_JOB_APPLY_H

#include <vcompress/job.h>

/* What the passes make of tensor `index`: its values or codes (VC_PART_CODES), or one of its parts. Of a tensor that no
 * pass changes, the values as they are. dst has room for exactly that many bytes; VC_E_ARGUMENT otherwise, and for a
 * part that there is not. */
enum vc_status vc_job_apply(struct vc_ctx *ctx, struct vc_job *job, size_t index, enum vc_part_role role, void *dst,
                            size_t n_bytes);

#endif
