/* weight_digest.c - see vc_calibration_digest in calibration.h: the bytes of a tensor as they are stored, or 16 pieces of
 * them at equal distances, so that a model of 100 GB is known again without reading all of it.
 *
 *     4 MiB:  |16 KiB|.....|16 KiB|..... ... |16 KiB|      training moves practically every weight: no piece stays */

#include "passes/statistics/calibration.h"

#define PIECE_BYTES 16384
#define N_PIECES    16

/* Where piece number k begins, of n. Tensors of few bytes are covered by pieces that touch. */
static uint64_t begin_of(uint64_t size, unsigned k, unsigned n)
{
    return size <= (uint64_t)N_PIECES * PIECE_BYTES ? (uint64_t)k * PIECE_BYTES
                                                    : (size - PIECE_BYTES) / (n - 1) * k / 64 * 64;
}

/* Reads on to `offset`, then n bytes into the piece; a stream goes forward only. */
static enum vc_status stream_piece(struct vc_ctx *ctx, const struct vc_model *model, struct vc_source_stream *stream,
                                   uint64_t *at, uint64_t offset, void *piece, size_t n)
{
    while (*at < offset) {
        size_t skipped = (size_t)vc_min_u64(PIECE_BYTES, offset - *at);

        VC_CALL(model->ops->stream_read(ctx, stream, piece, skipped));
        *at += skipped;
    }
    VC_CALL(model->ops->stream_read(ctx, stream, piece, n));
    *at += n;
    return VC_OK;
}

/* Up to N_PIECES pieces that are spread evenly over the tensor's bytes, instead of all of them. */
static enum vc_status add_pieces(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                 struct vc_source_stream *stream, struct vc_sha256 *sha)
{
    uint64_t size = model->tensors[tensor].size_bytes;
    unsigned n = (unsigned)vc_min_u64(N_PIECES, size / PIECE_BYTES + (size % PIECE_BYTES != 0));
    unsigned char piece[PIECE_BYTES];
    uint64_t at = 0;

    for (unsigned k = 0; k < n; k++) {
        uint64_t offset = begin_of(size, k, n);
        size_t n_bytes = (size_t)vc_min_u64(PIECE_BYTES, size - offset);

        if (stream != NULL) {
            VC_CALL(stream_piece(ctx, model, stream, &at, offset, piece, n_bytes));
        } else {
            VC_CALL(model->ops->read(ctx, model, tensor, VC_FORM_VALUES, offset, piece, n_bytes, NULL));
        }
        vc_sha256_add(sha, piece, n_bytes);
    }
    return VC_OK;
}

enum vc_status vc_calibration_digest(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                     int64_t out[VC_WEIGHT_DIGEST_ELEMS])
{
    struct vc_source_stream *stream = NULL;
    char hex[VC_SHA256_HEX_BYTES];
    struct vc_sha256 sha;
    enum vc_status status = VC_OK;

    vc_sha256_begin(&sha);
    if (model->io[tensor].sequential) {
        VC_TRY(model->ops->stream_open(ctx, model, tensor, VC_FORM_VALUES, &stream));
    }
    VC_TRY(add_pieces(ctx, model, tensor, stream, &sha));
    vc_sha256_end(&sha, hex);
    vc_calibration_numbers_of(hex, out);
    out[4] = (int64_t)model->tensors[tensor].dtype;
out:
    if (stream != NULL) {
        enum vc_status closed = model->ops->stream_close(ctx, stream, false);

        status = status == VC_OK ? closed : status;
    }
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", model->tensors[tensor].name);
}

void vc_calibration_numbers_of(const char hex[VC_SHA256_HEX_BYTES], int64_t out[4])
{
    for (size_t i = 0; i < 4; i++) {
        char part[17] = {0};

        memcpy(part, hex + 16 * i, 16);
        out[i] = (int64_t)strtoull(part, NULL, 16);
    }
}
