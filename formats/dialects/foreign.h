/* foreign.h - codes of other programs that no dialect reads: one table of their layouts (foreign.c), which every
 * command asks by vc_tensor.undecoded and by the model's notes.
 *
 *     model.layers.0.mlp.up_proj.codes      "is codes of AQLM, which are not decoded here"
 *     model.layers.0.mlp.up_proj.codebooks  "is a part of codes of AQLM, which are not decoded here" */
#pragma once

#include "formats/dialects/dialects.h"

struct json_t;

/* What hqq and quanto keep beside the codes of a module. */
#define VC_HQQ_PARTS                                                                                                  \
    "scale zero zero_scale scale_q zero_q meta nbits group_size axis shape packing unpack_view_dtype view_as_float "  \
    "quant_scale quant_zero compute_dtype offload_meta encoded_state_dict stores_quant_config channel_wise optimize " \
    "round_zero"
#define VC_QUANTO_PARTS "input_scale output_scale"

/* What a quantization_config says: the row whose method it names; NULL: none has that method, or a dialect reads it. */
const struct vc_foreign *vc_foreign_of_config(const struct json_t *config);

/* To be called once dialects and the manifest have had their say: tensors that nothing has been said about and that
 * are codes, or parts of codes, get `undecoded`; a note of the model names each layout. With findings, tensors that
 * look like parts of codes and belong to no layout are errors (is_shard: warnings, since the rest may lie in another
 * file). said: the row of the configuration beside the model; NULL: none. quantized: it speaks of codes. */
enum vc_status vc_foreign_mark(struct vc_ctx *ctx, struct vc_model *model, const struct vc_foreign *said,
                               bool quantized, bool is_shard);
