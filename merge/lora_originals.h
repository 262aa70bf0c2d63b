/* lora_originals.h - what a module of diffusers is called in original files, and which of a tensor's rows it has there. */
#pragma once

#include "core/base/ctx.h"

/* The rows of a tensor that are a module's; the order is theirs. */
enum vc_lora_part {
    VC_LORA_ALL,
    VC_LORA_QUERY, /* as many as the tensor has columns, so the next two */
    VC_LORA_KEY,
    VC_LORA_VALUE,
    VC_LORA_REST,  /* behind these three */
    VC_LORA_HALVES /* of two rows for each column the second half before the first; else all */
};

/* The next original name of a module that diffusers calls so, both with '_' for '.'. `next` begins at 0. False: there is
 * no other. */
bool vc_lora_original(const char *name, size_t *next, char *out, size_t room, enum vc_lora_part *part);
