/* written.h - what the weights of an output take once they are loaded, from the report of the job that makes it. Called
 * by the recipes of a plan and by the verdicts of a report. */
#ifndef VC_MEMORY_WRITTEN_H
#define VC_MEMORY_WRITTEN_H

#include <vcompress/fit.h>
#include <vcompress/report.h>

struct vc_written {
    enum vc_dtype type; /* that floats are loaded as; VC_DTYPE_NONE: as they are stored */
    enum vc_runtime runtime;
    uint64_t align;
    uint64_t bytes;
    uint64_t largest; /* tensor that has codes, as floats */
};

/* Adds all weights of the output. type, runtime and align have to be set. */
void vc_written_add(struct vc_written *loaded, const struct vc_report *report);

/* vc_memory_estimate of the model with these as its weights; `options` have VC_RUNTIME_NATIVE. */
enum vc_status vc_memory_estimate_written(struct vc_ctx *ctx, const struct vc_graph *graph,
                                          const struct vc_model *model, const struct vc_memory_options *options,
                                          const struct vc_written *written, struct vc_memory_report *out);

/* The type of two bytes that all float weights have; VC_DTYPE_NONE: they have not. Of a model, and of a job's output.
 */
enum vc_dtype vc_written_half(const struct vc_model *model);
enum vc_dtype vc_written_half_after(const struct vc_report *report);
/* That of most elements of the output that are floats; VC_DTYPE_NONE: there are none. */
enum vc_dtype vc_written_type(const struct vc_report *report);

/* What the allocator rounds blocks up to. */
uint64_t vc_written_align(enum vc_allocator allocator);

#endif
