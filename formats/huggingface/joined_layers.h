/* joined_layers.h - linear layers that runtimes make one layer of: q, k and v of an attention, gate and up of an MLP.
 * All of one are quantized in the same way or none of them is; vLLM refuses other models (its mapping of fused
 * modules). */
#pragma once

#include "core/run/sink.h"

/* A note where only some of joined layers are quantized in the output, or not alike, of those that are known here;
 * NULL: nothing to note. told: by output; loader: who joins them. */
enum vc_status vc_joined_note(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_out_list *outs,
                              const bool *told, const char *loader, struct vc_arena *arena, const char **note);
