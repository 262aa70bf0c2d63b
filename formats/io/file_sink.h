/* file_sink.h - what sinks of one output file share. `self` of such a sink begins with its `struct vc_outfile *`: NULL
 * where only sizes are wanted (options->path NULL, or dry_run). */
#pragma once

#include "core/run/sink.h"
#include "formats/io/outfile.h"

/* *out: a copy of `like` with a self of self_bytes zeros, but for the output file that the options name, which is looked
 * at and not made yet. NULL after a failure. */
enum vc_status vc_file_sink_new(struct vc_ctx *ctx, const struct vc_model *model,
                                const struct vc_write_options *options, const struct vc_sink *like, size_t self_bytes,
                                struct vc_sink **out);

/* Entries of vc_sink_ops. free: the file, self and the sink; what self points to is freed before. */
enum vc_status vc_file_sink_begin(struct vc_ctx *ctx, struct vc_sink *sink);
enum vc_status vc_file_sink_commit(struct vc_ctx *ctx, struct vc_sink *sink);
void vc_file_sink_free(struct vc_ctx *ctx, struct vc_sink *sink);
