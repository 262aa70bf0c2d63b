/* adapter.h - what a file of low-rank adapters says of them beside its tensors: PEFT's adapter_config.json.
 *
 *     {"peft_type": "LORA", "r": 16, "lora_alpha": 32, "use_rslora": false, "alpha_pattern": {"down_proj": 64}}
 *
 * merge/ asks (vc_model.adapter_beside). diffusers has the same in the metadata of its single files, each key behind the
 * model of the pipeline that it is of ("unet.lora_alpha"); files of other trainers say it in their tensors. */
#pragma once

#include "core/base/arena.h"

/* Modules whose name is, or ends behind a dot in, what this regular expression of Python matches, have another alpha. */
struct vc_adapter_pattern {
    const char *pattern;
    double alpha;
    bool root; /* as below */
};

/* trainable_token_indices: rows of the embedding of that name (NULL: of the only one), in the order of the adapter's. */
struct vc_adapter_rows {
    const char *module;
    size_t n;
    const uint64_t *rows;
};

struct vc_adapter {
    bool there;      /* there is such a file; else all of this is zeros */
    double alpha;    /* the sum of a module is multiplied by alpha / rank ... */
    bool root;       /* ... or by alpha / sqrt(rank) (rsLoRA) */
    bool transposed; /* fan_in_fan_out: weights are [in, out]; of square ones nothing else says so */
    size_t n_patterns;
    const struct vc_adapter_pattern *patterns; /* the first that matches holds */
    size_t n_parameters, n_tokens;
    const char **parameters; /* target_parameters: "mlp.experts.down_proj", ends of names of what is no module */
    struct vc_adapter_rows *tokens;
    const char *base;    /* the model that it was made for, as the file calls it; NULL: not said */
    const char *refusal; /* why the weights cannot be merged, as a sentence goes on; NULL: they can */
};
