/* depth.h - whole layers left out of a model: less depth, the same width.
 *
 *     model.layers.0.mlp.w   model.layers.1.mlp.w   model.layers.2.mlp.w   num_hidden_layers 3     the input
 *     model.layers.0.mlp.w                          model.layers.1.mlp.w   num_hidden_layers 2     without layer 1
 *
 * The layers behind get the numbers of those that are gone, and what states how many there are follows: config.json
 * with its lists per layer, the metadata of GGUF. Values are copied. Definitions: docs/structured.md.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_DEPTH_H
#define VCOMPRESS_DEPTH_H

#include <vcompress/job.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vc_depth_options {
    size_t struct_size; /* set by vc_depth_defaults */
    const char *drop;   /* the layers that go, numbers from 0 on and ranges: "8,9,10", "8-10"; or ... */
    const char *keep;   /* ... those that stay. One of both */
    /* What stands in front of the numbers in the names of tensors: "decoder.block". NULL: the one list of layers that
     * the names have, all of which are alike; several, or none, are refused. */
    const char *layers;
};

VC_API void vc_depth_defaults_sized(struct vc_depth_options *options, size_t struct_size);

/* Nothing is said, which is refused. */
static inline void vc_depth_defaults(struct vc_depth_options *options)
{
    vc_depth_defaults_sized(options, sizeof *options);
}

/* A pass that belongs to the job from here on. The options are copied with their strings. What the model has no layers
 * for is refused when the job is planned: VC_E_ARGUMENT, or VC_E_UNSUPPORTED where the names do not tell, or the
 * output's format cannot say it. */
VC_API enum vc_status vc_job_add_depth(struct vc_ctx *ctx, struct vc_job *job, const struct vc_depth_options *options);

#ifdef __cplusplus
}
#endif
#endif
