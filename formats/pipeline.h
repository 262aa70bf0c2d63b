/* pipeline.h - a pipeline of several models, each in a folder of its own with a loader of its own. Called by formats.c.
 *
 *     model_index.json, scheduler/, tokenizer/                     go along
 *     unet/diffusion_pytorch_model.safetensors, unet/config.json   tensors "unet/...", loaded by diffusers
 *     text_encoder/model.safetensors, ...                          tensors "text_encoder/...", loaded by transformers
 */
#pragma once

#include "formats/formats.h"

/* pipeline.c: opens the components of model->folder as one model. */
enum vc_status vc_pipeline_open(struct vc_ctx *ctx, vc_open_fn *open_model, const struct vc_open_options *options,
                                struct vc_model *model);

/* A component with weights in codes. */
struct vc_pipeline_codes {
    const char *name;
    const struct vc_dialect *dialect;
    const struct vc_loader *loader;
};

/* pipeline.c: the layouts of all of them as one, for reports: a row that is a name and nothing else, and what loads the
 * whole. In the arena; n is not 0. */
enum vc_status vc_pipeline_layout(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_pipeline_codes *codes,
                                  size_t n, const struct vc_dialect **dialect, struct vc_loader *loader);

/* pipeline_write.c: struct vc_format.create_sink. */
enum vc_status vc_pipeline_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                       const struct vc_write_options *options, struct vc_sink **out);
