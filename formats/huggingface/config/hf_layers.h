/* hf_layers.h - what config.json says of single layers, where some of them are left out.
 *
 *     layers 1 and 3 of 4 go      "layer_types": ["a", "b", "a", "b"]      ["a", "a"]
 *                                 "mlp_only_layers": [2]                   [1]
 *                                 "first_k_dense_replace": 2               1
 *                                 "decoder_sparse_step": 2                 refused: what was layer 2 is layer 1 now
 *
 * Called by hf_edit.c for the objects whose number of layers changes. */
#pragma once

#include <jansson.h>

#include "core/model/edit.h"
#include "core/text/text.h"

/* Adds the new value of that member of `object` to `out`, or nothing where it stays. type: the "model_type" of the
 * object, NULL where it is not known. text: the value's, n bytes. is_size: it is a size of the model, of which there may be one per layer. VC_E_UNSUPPORTED: it says something about
 * layers that cannot be said of those which are left. */
enum vc_status vc_hf_layers_member(struct vc_ctx *ctx, const struct vc_edit *edit, const json_t *object,
                                   const char *type, const char *name, const json_t *value, bool is_size,
                                   const char *text, size_t n, struct vc_text *out);

/* What the class of transformers says of layers where the object says nothing (arch/arch.h): a list that it would make
 * for the layers as they were becomes a member of the object, whose text is `now`. */
enum vc_status vc_hf_layers_unsaid(struct vc_ctx *ctx, const struct vc_edit *edit, const json_t *object,
                                   const char *type, struct vc_text *now);

/* What the part for pictures says of the layers for text, which are edited: VC_E_UNSUPPORTED where a layer goes that it
 * feeds. vision: its object, or NULL. */
enum vc_status vc_hf_layers_fed(struct vc_ctx *ctx, const struct vc_edit *edit, const json_t *vision);

/* Of a member beside vision_config, whose layers are edited: adds its new value, or nothing where it is about something
 * else. */
enum vc_status vc_hf_layers_feature(struct vc_ctx *ctx, const struct vc_edit *edit, const char *name,
                                    const json_t *value, struct vc_text *out);

/* Whether a text, such as a name of a module or a pattern for names, has a number behind the name of the list:
 * "model.layers.3.mlp" for "model.layers". */
bool vc_hf_layers_are_named(const char *list, const char *text);
