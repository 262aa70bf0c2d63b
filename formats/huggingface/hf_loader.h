/* hf_loader.h - which program loads the model that lies in a folder, by the small files beside its weights, and in
 * which layout it takes int8. That is what the layout "auto" promises.
 *
 *     adapter_config.json                     peft             none
 *     config.json   _class_name               diffusers        none
 *                   pretrained_cfg            timm             none
 *                   quantization_config       what that says   none
 *                   model_type gpt2, ...      transformers     bitsandbytes, whose rows take matrices of [in, out]
 *                   model_type                transformers     compressed-tensors, in a folder with its config.json;
 *                                                              another where that cannot be loaded (families.c)
 *     modules.json beside it                  sentence-transformers, which calls forward() of the network itself:
 *                                                              bitsandbytes, as for gpt2; compressed-tensors decodes
 *                                                              in a hook that is not called then
 *                   none of these, no file    not known        plain, whose codes nobody takes for weights */
#pragma once

#include "formats/dialects/dialects.h"

struct vc_hf_loader {
    const struct vc_dialect *dialect; /* of int8 weights in the output */
    const char *refusal;              /* why int8 weights would not be loaded; NULL: they are, or nobody promises it */
    const char *others;               /* why codes that `dialect` has no place for would not be loaded; or NULL */
    const char *note;                 /* what the report has to say of int8 weights; NULL: nothing */
};

/* `path` is the folder of the source, or a file in it. to_folder: the output is a folder, which the small files go
 * along into. decoded: the quantization_config there is not that of the output. Reads these files; one that is missing
 * or no JSON says nothing. A folder that becomes a folder has a note where it has no config.json, or one that is no
 * JSON: somebody may have forgotten or cut it, and the layout would be another one. */
enum vc_status vc_hf_loader_find(struct vc_ctx *ctx, const char *path, bool to_folder, bool decoded,
                                 struct vc_hf_loader *out);

/* The same for a config.json that is not on disk yet. `out` has the plain dialect. */
enum vc_status vc_hf_loader_look(struct vc_ctx *ctx, const char *config, size_t n, bool to_folder, bool decoded,
                                 struct vc_hf_loader *out);
