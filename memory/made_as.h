/* made_as.h - the weights that quantize makes of a model in a scheme, before they are made: a job that is planned on the
 * model's headers and thrown away. So what `--dtype` says of a model is what the file takes, whatever the writer keeps.
 *
 *     --dtype q4_k_m flux.safetensors    the ends of the network bf16, small tensors f32, the rest blocks
 *     --dtype q4_k_m llama/              tensors of the GGUF file that the folder becomes, with the graph of that file
 *     --dtype int4-g128 w.npz            int4 codes and scales, the rest f16 */
#pragma once

#include "memory/written.h"

/* Belongs to the model that was asked about, until that is closed. */
struct vc_made_as {
    const struct vc_model *model; /* that the pass reads: the model, or the folder as a GGUF model */
    struct vc_graph *graph; /* what that computes, with the sizes of the last question; NULL: what the model does */
    struct vc_planned_weights weights;
    enum vc_dtype type; /* vc_memory_options.weights; if that is NONE, the type of values */
    enum vc_dtype activations;
    const struct vc_layout *layout; /* of the output; NULL: floats, or a format that has no layouts */
};

/* *out: NULL where quantize makes no such weights of the model. scheme: a name of --dtype. layout: of vc_write_options;
 * static. Threads may ask at the same time about one model, but for folders as GGUF. */
enum vc_status vc_make_as(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_graph *graph,
                          const char *scheme, const char *layout, const struct vc_made_as **out);
