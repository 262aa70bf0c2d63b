/* model_index.h - model_index.json of a diffusers pipeline: what it is made of.
 *
 *     {"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"],
 *      "scheduler": ["diffusers", "DDIMScheduler"], "safety_checker": [null, null], "requires_safety_checker": false}
 *
 * is a pipeline of two parts, which lie in the folders unet and scheduler beside the file. */
#pragma once

#include "formats/huggingface/infolder.h"

#define VC_MODEL_INDEX_NAME      "model_index.json"
#define VC_MODEL_INDEX_MAX_BYTES ((uint64_t)1 << 20)
#define VC_MODEL_INDEX_MAX_PARTS 64

/* Lists the parts in the arena, sorted by name. VC_E_FORMAT: the text is no JSON object, or a part has a name that is
 * none of a folder beside it. VC_E_UNSUPPORTED: there are more than VC_MODEL_INDEX_MAX_PARTS. */
enum vc_status vc_model_index_parse(struct vc_ctx *ctx, struct vc_arena *arena, const char *text, size_t n,
                                    struct vc_pipeline_part **parts, size_t *n_parts);
