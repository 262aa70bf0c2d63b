/* arch_vision.h - the vision towers of models, as llama.cpp has them in a file of their own ("mmproj"): a
 * row each, of the form of a family.
 *
 *     {"model_type": "gemma3", "vision_config": {...}}                        row "gemma3": clip.projector_type "gemma3"
 *     vision_tower.vision_model.encoder.layers.3.mlp.fc1.weight               v.blk.3.ffn_up.weight, of the shape FH
 *     multi_modal_projector.mm_input_projection_weight                        mm.input_projection.weight
 *
 * Rules have names without "model.", "visual.", "vision_tower." and "vision_model." in front. The facts are those of
 * llama.cpp's converter and of its clip.cpp. */
#pragma once

#include <string.h>

#include "arch/arch_family.h"

struct vc_arch_vision {
    struct vc_arch_family family; /* types: of the whole model; gguf "clip"; layer: words "v/ln1" */
    const char *tower;            /* model_types of its "vision_config", "a|b"; NULL: any */
    const char *projector;        /* clip.projector_type */
    struct vc_arch defaults;      /* of the class of "vision_config" */
    const char *merge_key;        /* ".vision.projector.scale_factor": patches of a side that become one; NULL: none */
    uint64_t merge;               /* what llama.cpp takes where the key is not there; 0: it is always there */
};

#define VC_ARCH_CLIP "clip" /* general.architecture of such a file */

static inline bool vc_arch_is_vision(const struct vc_arch_family *family)
{
    return strcmp(family->gguf, VC_ARCH_CLIP) == 0;
}

/* The row of a model of that type, with a "vision_config" of that one; NULL if there is none. Both may be NULL. */
const struct vc_arch_vision *vc_arch_vision(const char *model_type, const char *tower);
/* Row number `index`; NULL behind the last. */
const struct vc_arch_vision *vc_arch_vision_at(size_t index);
