/* comfy.h - what formats ask of the dialect of ComfyUI beside its row (comfy.c). */
#pragma once

#include "core/run/sink.h"
#include "core/text/text.h"

/* The entry of the metadata of a safetensors file that says which layers are codes. */
#define VC_COMFY_METADATA "_quantization_metadata"

/* Writes the text of that entry for a file with these outputs: without the layers whose weights are no
 * codes any more, or new ones, which have a mark beside them.
 * Nothing is added where no layer is left, or the text is no such entry. */
enum vc_status vc_comfy_metadata(struct vc_ctx *ctx, const char *text, const struct vc_out_list *outs,
                                 struct vc_text *to);

/* The tensors are those of a network that makes pictures or films, which ComfyUI loads from single files. */
bool vc_comfy_is_picture(const struct vc_model *model);
