/* source_reader.h - reads the values of one tensor of the source from the first byte to the last, whether it is
 * compressed or not, as often as the caller wants: vc_source_reader_start begins again. vc_tile_reader and
 * vc_reshape_stage read through it; the executor, in which several threads read one tensor, does not. One thread at a
 * time. */
#pragma once

#include "core/model/source.h"

struct vc_source_reader {
    const struct vc_model *model;
    size_t tensor;
    struct vc_source_stream *stream; /* of a compressed tensor */
    struct vc_check check;
    uint64_t offset; /* bytes read so far */
};

/* Goes to the first byte, also in the middle of a reader. *reader is zeros before the first call. */
enum vc_status vc_source_reader_start(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                      struct vc_source_reader *reader);
/* The next n_bytes. Of a tensor that is not compressed, the read of the last byte verifies the checksum. */
enum vc_status vc_source_reader_read(struct vc_ctx *ctx, struct vc_source_reader *reader, void *dst, size_t n_bytes);
/* After the last byte: of a compressed tensor, verifies that the stream ends there, and its checksum. */
enum vc_status vc_source_reader_finish(struct vc_ctx *ctx, struct vc_source_reader *reader);
/* Closes what is open, without verifying. May be called at any time, and again. */
void vc_source_reader_stop(struct vc_ctx *ctx, struct vc_source_reader *reader);
