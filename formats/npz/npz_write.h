/* npz_write.h - the writing side of npz: a sink (core/run/sink.h) that makes a zip of npy arrays.
 *
 *     local header | name | extra (padding) | npy header | values     per tensor; the npy header begins at a multiple of 64
 *     ... | vcompress.json | directory | end record                   the manifest, where anything is quantized
 *
 * Stored output takes tiles in any order from any thread; deflated output is an ordered sink. The records: zip_write.h.
 */
#pragma once

#include "core/run/sink.h"

/* The writer of the npz row (npz_read.c). options->path NULL or dry_run: sizes only, no file is looked at or made.
 * Otherwise everything that can be wrong with the output's name is refused here. */
enum vc_status vc_npz_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                  const struct vc_write_options *options, struct vc_sink **out);

/* What loads int8 weights in an npz. */
extern const struct vc_loader vc_npz_loader;
