/* tee_parts.h - divides the tensors of an output between the files of a tee: parts that go apart to one, everything
 * else to the others. Where the parts are masks:
 *
 *     outs   0 a   1 a.mask   2 b   3 b.scale   4 b.mask        the tee's
 *     main   0 a              1 b   2 b.scale                   of each other file
 *     parts        0 a.mask                     1 b.mask */
#pragma once

#include "core/chain/pass.h"
#include "core/run/sink.h"

struct tee_parts;

/* The division, and the sink of the parts. `own`: the options of the tee, whose path is NULL where nothing is written;
 * the format is that of file->path. */
enum vc_status vc_tee_parts_create(struct vc_ctx *ctx, const struct vc_writers *writers, const struct vc_model *model,
                                   const struct vc_write_options *own, const struct vc_part_file *file,
                                   struct tee_parts **parts, struct vc_sink **sink);
void vc_tee_parts_free(struct vc_ctx *ctx, struct tee_parts *parts); /* accepts NULL; after its sink */

/* Once: makes both lists. Parts of second names are in neither. */
enum vc_status vc_tee_parts_divide(struct vc_ctx *ctx, struct tee_parts *parts, const struct vc_out_list *outs);
const struct vc_out_list *vc_tee_parts_list(const struct tee_parts *parts, bool apart);
/* The number of the tee's output tensor in that list; SIZE_MAX if the list does not have it. */
size_t vc_tee_parts_out(const struct tee_parts *parts, size_t out, bool apart);
