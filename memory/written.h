/* written.h - the weights of an output before it is written, from the report of the job that makes it: the same list of
 * tensors as a reader of the file has, so that an estimate of them is that of the file. Called by the recipes of a plan
 * and by the verdicts of a report. */
#pragma once

#include <vcompress/fit.h>
#include <vcompress/report.h>

#include "core/base/arena.h"

/* Starts as zeros. */
struct vc_planned_weights {
    struct vc_tensor *tensors; /* those of the model, by the same numbers, then the parts of codes; what is not written
                                  has VC_ROLE_OTHER */
    size_t n;
    struct vc_quant *quants; /* of codes, by the type that they were made from */
    struct vc_arena arena;   /* shapes */
};

/* model: what the job reads. Ended by vc_written_release, also after a failure; the model outlives it, the job need
 * not. */
enum vc_status vc_written_make(struct vc_ctx *ctx, const struct vc_report *report, const struct vc_model *model,
                               struct vc_planned_weights *out);
void vc_written_release(struct vc_ctx *ctx, struct vc_planned_weights *written);

/* The largest tensor that has codes, as floats of that type (VC_DTYPE_NONE: what it was made from), rounded up. */
uint64_t vc_written_largest(const struct vc_planned_weights *written, enum vc_dtype type, enum vc_allocator allocator);

/* vc_memory_estimate of the model with these as its weights; NULL: with its own. */
enum vc_status vc_memory_estimate_written(struct vc_ctx *ctx, const struct vc_graph *graph,
                                          const struct vc_model *model, const struct vc_memory_options *options,
                                          const struct vc_planned_weights *written, struct vc_memory_report *out);

/* The type of two bytes that all float weights have; VC_DTYPE_NONE: they have not. Of a model, and of a job's output.
 */
enum vc_dtype vc_written_half(const struct vc_model *model);
enum vc_dtype vc_written_half_after(const struct vc_report *report);
/* That of most elements of the output that are floats, which values have then; VC_DTYPE_NONE if there are none, or the output
 * is a graph (ONNX), whose values stay as they are. */
enum vc_dtype vc_written_type(const struct vc_report *report, const struct vc_model *model);
