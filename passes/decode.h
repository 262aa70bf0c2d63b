/* decode.h - adds the step that turns float or quantized tensors into plain f32 or f64. Every pass and every
 * measurement that works on values begins with it; none of them reads codes or scales itself.
 *
 * The functions are called while an item is planned; they return VC_E_NOMEM or what is said below, and the item then
 * has no new step or one that vc_item_undo takes back. */
#pragma once

#include <vcompress/quantize.h>

#include "core/chain/pass.h"

/* Adds a step that gives f32: codes through their scales, blocks through their own, f16, bf16 and floats of 8 bits exactly, f64 rounded
 * to nearest even if `narrow`. Nothing is added for f32, nor for f64 otherwise. item->desc is plain f32 (or f64)
 * afterwards. Other types: VC_E_INTERNAL; ask vc_decode_can (or vc_decode_is_f8) first. */
enum vc_status vc_decode_add(struct vc_ctx *ctx, struct vc_item *item, bool narrow);
/* Bytes of scratch of that step, for scales that are tensors of the source. */
size_t vc_decode_scratch(enum vc_dtype codes, uint64_t n_elems);
/* The descriptor's elements are floats, or codes or blocks that stand for floats. */
bool vc_decode_can(const struct vc_desc *desc);

/* The same for a quantized tensor, with a policy. A code times a finite scale may be beyond the largest f32; `overflow`
 * decides what becomes of it: refused, Inf, or the largest f32. finite_scales: NaN and Inf among the scales are refused
 * (in blocks: values that are not finite). vc_decode_add has no policy: such values become Inf or NaN. */
enum vc_status vc_decode_add_codes(struct vc_ctx *ctx, struct vc_item *item, enum vc_overflow overflow,
                                   bool finite_scales);

/* vc_tensor_read_f32, within a call. */
enum vc_status vc_decode_tensor(struct vc_ctx *ctx, const struct vc_model *model, size_t index, float *dst,
                                size_t n_elems);

/* The same for floats of 8 bits that stand for themselves, without scales: exactly, to f32. vc_decode_is_f8 says whether
 * the descriptor has such; vc_decode_can does not know them, since they may be codes or scales of somebody's. */
bool vc_decode_is_f8(const struct vc_desc *desc);
enum vc_status vc_decode_add_f8(struct vc_ctx *ctx, struct vc_item *item);

/* n elements of a float type, 8 bits included, as f32: exactly, but f64 rounded to nearest even. */
enum vc_status vc_decode_floats(struct vc_ctx *ctx, enum vc_dtype dtype, const void *data, size_t n, float *values);

/* f32 to f64, exactly: for weights that were f64 before they were quantized. */
enum vc_status vc_decode_add_f64(struct vc_ctx *ctx, struct vc_item *item);
