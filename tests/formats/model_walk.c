/* model_walk.c - see model_walk.h. */
#include "model_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Pieces of about this size: not a power of two, so that they end anywhere. */
#define PIECE_BYTES ((size_t)5000)

int walk_file_open(const void *data, size_t n, char *path, size_t capacity)
{
    const char *folder = getenv("TMPDIR");
    const unsigned char *p = data;
    int fd;

    snprintf(path, capacity, "%s/walk-XXXXXX", folder != NULL && folder[0] != '\0' ? folder : "/tmp");
    fd = mkstemp(path);
    if (fd < 0) {
        abort();
    }
    while (n > 0) {
        ssize_t got = write(fd, p, n);

        if (got <= 0) {
            abort();
        }
        p += got;
        n -= (size_t)got;
    }
    return fd;
}

void walk_file_close(int fd, const char *path)
{
    close(fd);
    unlink(path);
}

static size_t item_bytes(const struct vc_tensor *tensor)
{
    size_t n_bytes = vc_dtype_facts(tensor->dtype)->block_bytes;

    return tensor->n_elems == 0 || tensor->dtype != VC_DTYPE_VOID ? (n_bytes == 0 ? 1 : n_bytes)
                                                                  : (size_t)(tensor->size_bytes / tensor->n_elems);
}

/* Pieces are whole elements or blocks, as the executor's tiles are. */
static enum vc_status walk_form(struct vc_ctx *ctx, struct vc_model *model, size_t i, enum vc_form form)
{
    const struct vc_tensor *tensor = &model->tensors[i];
    uint64_t total = form == VC_FORM_RAW ? model->io[i].raw_bytes : tensor->size_bytes;
    size_t item = form == VC_FORM_RAW ? 1 : item_bytes(tensor);
    size_t piece = item > PIECE_BYTES ? item : PIECE_BYTES / item * item;
    struct vc_source_stream *stream = NULL;
    struct vc_check check = {0, 0};
    unsigned char *buffer = NULL;
    uint64_t at;
    enum vc_status status = VC_OK;

    buffer = vc_alloc(ctx, VC_TAG_IO, piece);
    VC_TRY_ALLOC(buffer);
    if (model->io[i].sequential) {
        VC_TRY(model->ops->stream_open(ctx, model, i, form, &stream));
    }
    for (at = 0; at < total; at += piece) {
        size_t n = total - at < piece ? (size_t)(total - at) : piece;

        if (stream != NULL) {
            VC_TRY(model->ops->stream_read(ctx, stream, buffer, n));
        } else {
            VC_TRY(model->ops->read(ctx, model, i, form, at, buffer, n, &check));
        }
    }
    if (stream == NULL && (check.n_bytes != 0 || check.crc != 0)) {
        status = vc_fail(ctx, VC_E_INTERNAL, "the checksum was not compared");
    }
out:
    if (stream != NULL) {
        enum vc_status closed = model->ops->stream_close(ctx, stream, status == VC_OK);

        status = status == VC_OK ? closed : status;
    }
    vc_free(ctx, buffer);
    return status;
}

enum vc_status walk_model(struct vc_ctx *ctx, struct vc_model *model)
{
    enum vc_status status = VC_OK;
    size_t i;

    for (i = 0; i < model->n_tensors; i++) {
        VC_TRY(walk_form(ctx, model, i, VC_FORM_VALUES));
        if (model->io[i].raw_bytes != 0) { /* else the format has no such form */
            VC_TRY(walk_form(ctx, model, i, VC_FORM_RAW));
        }
    }
out:
    return status;
}

enum vc_status walk_path(struct vc_ctx *ctx, const char *path, const struct vc_open_options *options)
{
    struct vc_model *model = NULL;
    enum vc_status status;

    VC_TRY(vc_model_open(ctx, path, options, &model));
    VC_TRY(walk_model(ctx, model));
out:
    vc_model_close(model);
    return status;
}

enum vc_status walk_bytes(struct vc_ctx *ctx, const void *data, size_t n, const struct vc_open_options *options)
{
    char path[512];
    int fd = walk_file_open(data, n, path, sizeof path);
    enum vc_status status = walk_path(ctx, path, options);

    walk_file_close(fd, path);
    return status;
}
