/* source_reader.c - see source_reader.h. */
#include "core/chain/source_reader.h"

enum vc_status vc_source_reader_start(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                      struct vc_source_reader *reader)
{
    vc_source_reader_stop(ctx, reader);
    *reader = (struct vc_source_reader){.model = model, .tensor = tensor};
    if (model->io[tensor].sequential && model->tensors[tensor].size_bytes != 0) {
        return model->ops->stream_open(ctx, model, tensor, VC_FORM_VALUES, &reader->stream);
    }
    return VC_OK;
}

enum vc_status vc_source_reader_read(struct vc_ctx *ctx, struct vc_source_reader *reader, void *dst, size_t n_bytes)
{
    const struct vc_model *model = reader->model;
    enum vc_status status = reader->stream != NULL ? model->ops->stream_read(ctx, reader->stream, dst, n_bytes)
                                                   : model->ops->read(ctx, model, reader->tensor, VC_FORM_VALUES,
                                                                      reader->offset, dst, n_bytes, &reader->check);

    reader->offset += n_bytes;
    return status;
}

enum vc_status vc_source_reader_finish(struct vc_ctx *ctx, struct vc_source_reader *reader)
{
    struct vc_source_stream *stream = reader->stream;

    reader->stream = NULL;
    return stream == NULL ? VC_OK : reader->model->ops->stream_close(ctx, stream, true);
}

void vc_source_reader_stop(struct vc_ctx *ctx, struct vc_source_reader *reader)
{
    if (reader->stream != NULL) {
        (void)reader->model->ops->stream_close(ctx, reader->stream, false);
        reader->stream = NULL;
    }
}
