/* walk.h - the values of one tensor of the source from the first byte to the last, whether it is compressed or not, and
 * over again. Checksums are verified at the end. One thread at a time. */
#ifndef VC_CORE_WALK_H
#define VC_CORE_WALK_H

#include "core/model/source.h"

struct vc_walk {
    const struct vc_model *model;
    size_t tensor;
    struct vc_source_stream *stream; /* of a compressed tensor */
    struct vc_check check;
    uint64_t offset; /* bytes read so far */
};

/* Stands before the first byte; also where the walk is under way. */
enum vc_status vc_walk_start(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, struct vc_walk *walk);
enum vc_status vc_walk_read(struct vc_ctx *ctx, struct vc_walk *walk, void *dst, size_t n_bytes);
/* After the last byte: verifies that it was the last one, and the checksum. */
enum vc_status vc_walk_finish(struct vc_ctx *ctx, struct vc_walk *walk);
/* Gives up, wherever the walk is. */
void vc_walk_stop(struct vc_ctx *ctx, struct vc_walk *walk);

#endif
