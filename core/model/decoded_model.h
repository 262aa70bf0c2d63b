/* decoded_model.h - a model of which some tensors are shown with other values: what a file between `dequantize` or
 * `merge` and the next command would hold.
 *
 *     base (a folder)                     this model
 *     q_proj.weight  f8_e4m3 [out, in]    q_proj.weight  f32 [out, in], decoded as it is read
 *     q_proj.weight_scale                 not there
 *     norm.weight    bf16                 norm.weight    bf16, read from the base
 *     adapters: q_proj.weight  bf16       q_proj.weight  bf16, the sum of it and what the adapters add
 *
 * Values are made by range with functions that the caller gives, since core knows no decoder. */
#pragma once

#include "core/model/source.h"

struct vc_range_decoder; /* one such tensor, with its scales or factors in memory */

struct vc_range_decoding {
    void *self;      /* of the functions; may be NULL */
    bool keeps_type; /* values have the tensor's type; else they are f32 */
    /* Whether the tensor is shown with other values. */
    bool (*takes)(const struct vc_range_decoding *how, const struct vc_model *model, size_t tensor);
    /* VC_E_UNSUPPORTED: scales that are not finite. */
    enum vc_status (*open)(struct vc_ctx *ctx, const struct vc_range_decoding *how, const struct vc_model *model,
                           size_t tensor, struct vc_range_decoder **out);
    /* n values from number `first` on, to any address. Several threads may read one decoder. */
    enum vc_status (*read)(struct vc_ctx *ctx, const struct vc_range_decoder *decoder, uint64_t first, uint64_t n,
                           void *dst);
    void (*close)(struct vc_ctx *ctx, struct vc_range_decoder *decoder);      /* accepts NULL */
    void (*release)(struct vc_ctx *ctx, const struct vc_range_decoding *how); /* with the model; may be NULL */
};

/* Makes *model the decoded one of what it is, which belongs to it from now on, also after a failure; vc_model_close
 * closes both. Nothing is done for a model without such tensors,
 * and how->release is not called then. VC_E_UNSUPPORTED: codes that cannot be decoded. */
enum vc_status vc_decoded_model_make(struct vc_ctx *ctx, const struct vc_range_decoding *how, struct vc_model **model);
