/* memory_model.c - see memory_model.h. */
#include "core/model/memory_model.h"

struct memory {
    const void **data; /* per tensor */
    void *block;       /* NULL, or what vc_memory_model_give gave */
};

static enum vc_status memory_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                  uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    const struct memory *self = model->self;

    memcpy(dst, (const char *)self->data[tensor] + offset, n_bytes);
    return VC_OK;
}

static void memory_close(struct vc_model *model)
{
    struct memory *self = model->self;

    if (self != NULL) {
        VC_FREE_ALL(model->ctx, (void *)(uintptr_t)self->data, self->block);
    }
    VC_FREE_ALL(model->ctx, self, model->tensors, model->io);
}

static const struct vc_source_ops memory_ops = {.read = memory_read, .close = memory_close};

static enum vc_status fill(struct vc_ctx *ctx, const struct vc_memory_tensor *from, struct vc_tensor *to)
{
    uint64_t n_elems = 1;

    for (unsigned d = 0; d < from->n_dims; d++) {
        VC_REFUSE_IF(!vc_mul_u64(n_elems, from->shape[d], &n_elems), ctx, VC_E_ARGUMENT, "%s: its shape overflows",
                     from->name);
    }
    *to = (struct vc_tensor){.name = from->name,
                             .dtype = from->dtype,
                             .n_dims = from->n_dims,
                             .shape = from->shape,
                             .n_elems = n_elems,
                             .size_bytes = vc_dtype_bytes(from->dtype, n_elems),
                             .part_of = VC_NO_TENSOR,
                             .alias_of = VC_NO_TENSOR};
    to->file_bytes = to->size_bytes;
    return VC_OK;
}

enum vc_status vc_memory_model_create(struct vc_ctx *ctx, const struct vc_memory_tensor *tensors, size_t n,
                                      struct vc_model **out)
{
    struct vc_model *model = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *model);
    struct memory *self = NULL;
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(model);
    model->ctx = ctx;
    model->ops = &memory_ops;
    model->format_name = "memory";
    VC_TRY_ALLOC(model->path = vc_strdup(ctx, VC_TAG_NAMES, VC_MEMORY_PATH));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, self, 1));
    model->self = self;
    VC_TRY_ALLOC(self->data = vc_calloc_array(ctx, VC_TAG_MISC, n, sizeof(void *)));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, model->tensors, n));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, model->io, n));
    for (size_t i = 0; i < n; i++) {
        VC_TRY(fill(ctx, &tensors[i], &model->tensors[i]));
        self->data[i] = tensors[i].data;
        model->file_bytes += model->tensors[i].size_bytes;
    }
    model->n_tensors = n;
    vc_model_name_axes(model);
    VC_TRY(vc_model_index_names(ctx, model));
    *out = model;
    return VC_OK;
out:
    vc_model_close(model);
    return status;
}

void vc_memory_model_give(struct vc_model *model, void *block)
{
    ((struct memory *)model->self)->block = block;
}
