/* decode.h - the step that turns any float or quantized tensor into plain floats: the one way to read values. */
#ifndef VC_PASSES_DECODE_H
#define VC_PASSES_DECODE_H

#include <vcompress/quantize.h>

#include "core/chain/pass.h"

/* Adds a step that gives f32: codes through their scales, blocks through their own, f16 and bf16 exactly, f64 rounded
 * to nearest even if `narrow`. Nothing is added for f32, nor for f64 otherwise. item->desc is plain f32 (or f64)
 * afterwards. Other types: VC_E_INTERNAL; ask vc_decode_can first. */
enum vc_status vc_decode_add(struct vc_ctx *ctx, struct vc_item *item, bool narrow);
bool vc_decode_can(const struct vc_desc *desc);

/* The same for a quantized tensor, where it matters what is beyond f32: a finite code times a finite scale that has no
 * finite f32 is decided by `overflow`. finite_scales: NaN and Inf among the scales are refused (in blocks: values that
 * are not finite); otherwise, and with vc_decode_add, they give values that are not finite. */
enum vc_status vc_decode_add_codes(struct vc_ctx *ctx, struct vc_item *item, enum vc_overflow overflow,
                                   bool finite_scales);

/* f32 to f64, exactly: for weights that were f64 before they were quantized. */
enum vc_status vc_decode_add_f64(struct vc_ctx *ctx, struct vc_item *item);

#endif
