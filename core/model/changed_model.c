/* changed_model.c - see changed_model.h. */
#include "core/model/changed_model.h"

#include <string.h>

struct changed {
    const struct vc_model *base;
    const struct vc_change *changes;
};

static enum vc_status changed_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                   uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    const struct changed *self = model->self;

    if (!self->changes[tensor].changed) {
        return self->base->ops->read(ctx, self->base, tensor, form, offset, dst, n_bytes, check);
    }
    memcpy(dst, (const char *)self->changes[tensor].data + offset, n_bytes);
    return VC_OK;
}

/* Only tensors of the base are sequential. */
static enum vc_status changed_stream_open(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                          enum vc_form form, struct vc_source_stream **out)
{
    const struct vc_model *base = ((const struct changed *)model->self)->base;

    return base->ops->stream_open(ctx, base, tensor, form, out);
}

static size_t changed_stream_bytes(const struct vc_model *model, size_t tensor)
{
    const struct vc_model *base = ((const struct changed *)model->self)->base;

    return base->ops->stream_bytes != NULL && model->io[tensor].sequential ? base->ops->stream_bytes(base, tensor) : 0;
}

struct own {
    struct vc_model model; /* first */
    struct vc_source_ops ops;
    struct changed self;
};

static void change(const struct vc_change *change, struct vc_tensor *tensor, struct vc_tensor_io *io)
{
    tensor->dtype = change->dtype;
    tensor->n_dims = change->n_dims;
    tensor->shape = change->shape;
    tensor->n_elems = change->n_elems;
    tensor->size_bytes = vc_dtype_bytes(change->dtype, change->n_elems);
    tensor->file_bytes = tensor->size_bytes;
    tensor->compressed = false;
    tensor->quant = NULL;
    io->sequential = false;
    io->raw_bytes = 0;
}

enum vc_status vc_changed_model_make(struct vc_ctx *ctx, const struct vc_model *base, const struct vc_change *changes,
                                     struct vc_model **out)
{
    size_t n = base->n_tensors;
    struct own *own = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *own);
    struct vc_model *model;
    enum vc_status status = VC_OK;
    size_t i;

    *out = NULL;
    VC_TRY_ALLOC(own);
    model = &own->model;
    *model = *base;
    own->self = (struct changed){base, changes};
    own->ops = (struct vc_source_ops){.read = changed_read,
                                      .stream_open = changed_stream_open,
                                      .stream_read = base->ops->stream_read,
                                      .stream_close = base->ops->stream_close,
                                      .stream_bytes = changed_stream_bytes};
    model->format = NULL; /* whose code would take `self` for its own */
    model->ops = &own->ops;
    model->self = &own->self;
    model->tensors = vc_alloc_array(ctx, VC_TAG_NAMES, n + 1, sizeof *model->tensors);
    model->io = model->tensors != NULL ? vc_alloc_array(ctx, VC_TAG_NAMES, n + 1, sizeof *model->io) : NULL;
    if (model->io == NULL) {
        vc_changed_model_free(ctx, model);
        return VC_E_NOMEM;
    }
    for (i = 0; i < n; i++) {
        model->tensors[i] = base->tensors[i];
        model->io[i] = base->io[i];
        if (changes[i].changed) {
            change(&changes[i], &model->tensors[i], &model->io[i]);
        }
    }
    *out = model;
out:
    return status;
}

void vc_changed_model_free(struct vc_ctx *ctx, struct vc_model *model)
{
    if (model != NULL) {
        vc_free(ctx, model->tensors);
        vc_free(ctx, model->io);
        vc_free(ctx, model);
    }
}
