/* merge.h - low-rank adapters become part of the weights: W + weight * scale * B A. Definitions: docs/merge.md.
 *
 * The job owns the pass from vc_job_add_merge on. The output has the tensors, shapes and types of the input, so every
 * loader of the model loads it, and further passes of the job work on the merged weights.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_MERGE_H
#define VCOMPRESS_MERGE_H

#include <vcompress/job.h>

VC_BEGIN_C

/* One adapter: a folder of PEFT (adapter_config.json beside its tensors), or a single file of kohya's trainers or of
 * diffusers (lora_down, lora_up, alpha), opened by vc_model_open. It must outlive the job. */
struct vc_lora {
    const struct vc_model *adapter;
    double weight; /* its share, usually 1; every sum is multiplied by it */
};

struct vc_merge_options {
    size_t struct_size;          /* set by vc_merge_defaults */
    const struct vc_lora *loras; /* merged in this order */
    size_t n_loras;              /* at least 1 */
    bool partial; /* modules that the model does not have are left out, and a note counts them; else they are refused */
};

/* No adapters: the caller sets them. */
static inline void vc_merge_defaults(struct vc_merge_options *options)
{
    vc_options_defaults("vc_merge_options", options, sizeof *options);
}

/* Planning (vc_job_plan) reads headers only. It refuses with VC_E_UNSUPPORTED an adapter with a module that the model
 * does not have, or of another shape, and kinds of adapters that are no such sum. */
VC_API enum vc_status vc_job_add_merge(struct vc_ctx *ctx, struct vc_job *job, const struct vc_merge_options *options);

VC_END_C
#endif
