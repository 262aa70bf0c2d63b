/* walk.c - see walk.h. */
#include "core/chain/walk.h"

enum vc_status vc_walk_start(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, struct vc_walk *walk)
{
    vc_walk_stop(ctx, walk);
    *walk = (struct vc_walk){.model = model, .tensor = tensor};
    if (model->io[tensor].sequential && model->tensors[tensor].size_bytes != 0) {
        return model->ops->stream_open(ctx, model, tensor, VC_FORM_VALUES, &walk->stream);
    }
    return VC_OK;
}

enum vc_status vc_walk_read(struct vc_ctx *ctx, struct vc_walk *walk, void *dst, size_t n_bytes)
{
    const struct vc_model *model = walk->model;
    enum vc_status status;

    status = walk->stream != NULL
                 ? model->ops->stream_read(ctx, walk->stream, dst, n_bytes)
                 : model->ops->read(ctx, model, walk->tensor, VC_FORM_VALUES, walk->offset, dst, n_bytes, &walk->check);
    walk->offset += n_bytes;
    return status;
}

enum vc_status vc_walk_finish(struct vc_ctx *ctx, struct vc_walk *walk)
{
    struct vc_source_stream *stream = walk->stream;

    walk->stream = NULL;
    return stream == NULL ? VC_OK : walk->model->ops->stream_close(ctx, stream, true);
}

void vc_walk_stop(struct vc_ctx *ctx, struct vc_walk *walk)
{
    if (walk->stream != NULL) {
        (void)walk->model->ops->stream_close(ctx, walk->stream, false);
        walk->stream = NULL;
    }
}
