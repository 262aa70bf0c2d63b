/* manifest.h - vcompress.json inside an npz: what NumPy's dtypes cannot say. Layout: docs/formats.md.
 *
 *     {"schema": "vcompress.manifest/1", "tool": "vcompress 0.1.0",
 *      "options": {"scheme": "int8", "granularity": "channel", ...},
 *      "tensors": {"fc1.weight": {"scheme": "int8", "granularity": "channel", "axis": 0, "symmetric": true,
 *                                 "source_dtype": "f32", "scale": "fc1.weight.scale"},
 *                  "fc2.weight": {"scheme": "int4", "shape": [10, 128], "granularity": "group", "group_size": 64, ...},
 *                  "head": {"dtype": "bf16", "source_dtype": "f32"}}}
 *
 * No time stamps and no paths: the same input and options give the same bytes. */
#pragma once

#include "core/run/sink.h"
#include "core/text/text.h"

#define VC_MANIFEST_NAME      "vcompress.json"
#define VC_MANIFEST_SCHEMA    "vcompress.manifest/1"
#define VC_MANIFEST_MAX_BYTES ((size_t)64 << 20)

/* Reads the text and sets quant, part_of and dtype (bf16 kept as u2) of the model's tensors. The model's names
 * are indexed. Every statement is checked against the tensors: VC_E_FORMAT names what does not fit. The text is changed
 * for a moment while it is read (json_walk.h). */
enum vc_status vc_manifest_apply(struct vc_ctx *ctx, char *json, size_t n, struct vc_model *model);

/* For files without a manifest: an i8 tensor with an f32 tensor <name>.scale that broadcasts against it is quantized
 * (group granularity only where the group size is certain). codes_named: so is an i8 tensor <name>.int8, unless there
 * is a tensor <name>. */
enum vc_status vc_manifest_infer(struct vc_ctx *ctx, struct vc_model *model, bool codes_named);

/* The text for a list of outputs; added to `text`. Nothing to say (no quantized, no bf16 tensor): adds nothing. */
enum vc_status vc_manifest_write(struct vc_ctx *ctx, const struct vc_out_list *outs, struct vc_text *text);

/* The same for a format that has bf16 of its own: quantized tensors only, without those that are `told` (by output;
 * NULL: none), which the file describes in another way. names: what each output is called in the file. */
enum vc_status vc_manifest_write_quantized(struct vc_ctx *ctx, const struct vc_out_list *outs, const bool *told,
                                           const char *const *names, struct vc_text *text);
