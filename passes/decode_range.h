/* decode_range.h - values of codes by range, for models whose codes are shown as floats (core/model/decoded_model.h):
 * the same bits as `dequantize` makes of them; and of other steps. */
#pragma once

#include "core/chain/pass.h"
#include "core/model/decoded_model.h"

extern const struct vc_range_decoding vc_decode_ranges;

/* For values of other steps, of which none changes the shape, makes parts, or reads or writes more than 4 bytes a value: adds them to the item of a tensor. */
typedef enum vc_status vc_range_add_fn(struct vc_ctx *ctx, struct vc_item *item, const void *user);

/* vc_range_decoding.open, read and close, with these steps. */
enum vc_status vc_range_open(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, vc_range_add_fn *add,
                             const void *user, struct vc_range_decoder **out);
enum vc_status vc_range_read(struct vc_ctx *ctx, const struct vc_range_decoder *decoder, uint64_t first, uint64_t n,
                             void *dst);
void vc_range_close(struct vc_ctx *ctx, struct vc_range_decoder *decoder);
