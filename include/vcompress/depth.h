/* depth.h - depth pruning: removes whole layers of a model; the width stays.
 *
 *     model.layers.0.mlp.w   model.layers.1.mlp.w   model.layers.2.mlp.w   num_hidden_layers 3     the input
 *     model.layers.0.mlp.w                          model.layers.1.mlp.w   num_hidden_layers 2     without layer 1
 *
 * Later layers get new numbers without gaps. The number of layers is changed in config.json (also in its lists per
 * layer) and in GGUF's metadata. Values are copied. Definitions: docs/structured.md.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_DEPTH_H
#define VCOMPRESS_DEPTH_H

#include <vcompress/job.h>

VC_BEGIN_C

struct vc_depth_options {
    size_t struct_size; /* set by vc_depth_defaults */
    const char *drop;   /* layers to remove, numbers from 0 on and ranges: "8,9,10", "8-10" */
    const char *keep;   /* layers to keep. Exactly one of drop and keep must be set */
    /* Prefix of the layer numbers in the names of tensors: "decoder.block". NULL: the only list of equal layers in the
     * model; a model with several such lists or without a list is refused. */
    const char *layers;
    const char *why; /* why these layers: a note of the report (vc_layers_least); NULL: none */
};

/* All fields NULL, which vc_job_add_depth refuses: set `drop` or `keep`. */
static inline void vc_depth_defaults(struct vc_depth_options *options)
{
    vc_options_defaults("vc_depth_options", options, sizeof *options);
}

/* Adds the pass; the job owns the pass. The options are copied with their strings. vc_job_plan returns VC_E_ARGUMENT if
 * the model lacks a named layer, and VC_E_UNSUPPORTED if the names show no list of layers or the output's format cannot
 * store the change. */
VC_API enum vc_status vc_job_add_depth(struct vc_ctx *ctx, struct vc_job *job, const struct vc_depth_options *options);

VC_END_C
#endif
