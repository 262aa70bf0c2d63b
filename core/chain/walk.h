/* walk.h - reads the values of one tensor of the source from the first byte to the last, whether it is compressed or
 * not, as often as the caller wants: vc_walk_start begins again. vc_fetch and vc_head read through it; the executor, in
 * which several threads read one tensor, does not. One thread at a time. */
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

/* Goes to the first byte, also in the middle of a walk. *walk is zeros before the first call. */
enum vc_status vc_walk_start(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, struct vc_walk *walk);
/* The next n_bytes. Of a tensor that is not compressed, the read of the last byte verifies the checksum. */
enum vc_status vc_walk_read(struct vc_ctx *ctx, struct vc_walk *walk, void *dst, size_t n_bytes);
/* After the last byte: of a compressed tensor, verifies that the stream ends there, and its checksum. */
enum vc_status vc_walk_finish(struct vc_ctx *ctx, struct vc_walk *walk);
/* Closes what is open, without verifying. May be called at any time, and again. */
void vc_walk_stop(struct vc_ctx *ctx, struct vc_walk *walk);

#endif
