/* tee_sink.h - one sink for several outputs: every call goes to each of them, so that weights are read and worked on
 * once, whatever the number of files that come from it. */
#pragma once

#include "core/chain/pass.h"
#include "core/run/sink.h"

/* A sink for the n outputs (two or more) whose paths and formats `outputs` has, and which has to outlive it: sizes and
 * `written` are filled as they become known. Each output's own sink is made from the options with that path. It is
 * ordered if any is, and takes raw bytes only where all do; its dialect is NULL where theirs differ. `apart` is not
 * NULL: the last output gets the parts that go apart (struct vc_out_tensor), and nothing else; the others get
 * everything else. */
enum vc_status vc_tee_create(struct vc_ctx *ctx, const struct vc_writers *writers, const struct vc_model *model,
                             const struct vc_write_options *options, struct vc_report_output *outputs, size_t n,
                             const struct vc_part_file *apart, struct vc_sink **out);

/* The sink that cannot hold such elements: the given one, or one of those behind it. NULL: they can be held. */
const struct vc_sink *vc_sink_refusing(const struct vc_sink *sink, enum vc_dtype dtype);

/* The sink of output number `index`: one of those behind it, or the given one. */
const struct vc_sink *vc_sink_of_output(const struct vc_sink *sink, size_t index);
