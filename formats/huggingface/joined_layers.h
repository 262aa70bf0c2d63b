/* joined_layers.h - linear layers that runtimes make one layer of: q, k and v of an attention, gate and up of an MLP.
 * All of one are quantized in the same way or none of them is; vLLM refuses other models (its mapping of fused
 * modules). */
#ifndef VC_FORMATS_JOINED_LAYERS_H
#define VC_FORMATS_JOINED_LAYERS_H

#include "core/base/arena.h"
#include "core/run/sink.h"

/* Bytes that a name may grow by where its last part becomes another of the set. */
#define VC_JOINED_ROOM ((size_t)16)

/* The last parts of the names of all layers that the module is joined with, itself included, up to a NULL; NULL: none.
 * *n_base: bytes before the last part of the name, which has n bytes. */
const char *const *vc_joined_layers(const char *module, size_t n, size_t *n_base);

/* A note where only some of joined layers are quantized in the output, of those that are known here; NULL: nothing to
 * note. told: by output; loader: who joins them. */
enum vc_status vc_joined_note(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_out_list *outs,
                              const bool *told, const char *loader, struct vc_arena *arena, const char **note);

#endif
