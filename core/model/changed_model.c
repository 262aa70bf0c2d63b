/* changed_model.c - see changed_model.h. */
#include "core/model/changed_model.h"

/* A tensor that the base does not have. */
struct added {
    size_t owner; /* tensor of the base */
    size_t part;  /* of its change */
};

struct changed {
    const struct vc_model *base;
    const struct vc_change *changes;
    struct added *added; /* behind the tensors of the base */
};

/* Its bytes; NULL: they are the base's. */
static const char *bytes_of(const struct changed *self, size_t tensor)
{
    size_t n = self->base->n_tensors;
    const struct added *added = tensor >= n ? &self->added[tensor - n] : NULL;

    return added != NULL                   ? self->changes[added->owner].parts[added->part].data
           : self->changes[tensor].changed ? self->changes[tensor].data
                                           : NULL;
}

static enum vc_status changed_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                   uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    const struct changed *self = model->self;

    if (bytes_of(self, tensor) == NULL) {
        return self->base->ops->read(ctx, self->base, tensor, form, offset, dst, n_bytes, check);
    }
    memcpy(dst, bytes_of(self, tensor) + offset, n_bytes);
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
    struct vc_arena arena; /* names and quants of codes */
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

/* Codes: the tensor's quant, and one more tensor for each part. */
static enum vc_status add_parts(struct vc_ctx *ctx, struct own *own, size_t tensor)
{
    struct vc_model *model = &own->model;
    const struct vc_change *c = &own->self.changes[tensor];
    struct vc_quant *quant = vc_arena_alloc(ctx, &own->arena, sizeof *quant);

    VC_CALL_ALLOC(quant);
    *quant = *c->quant;
    quant->n_parts = 0;
    for (size_t k = 0; k < c->n_parts; k++) {
        const struct vc_change_part *part = &c->parts[k];
        struct vc_tensor *t = &model->tensors[model->n_tensors];
        const char *name =
            vc_arena_printf(ctx, &own->arena, "%s.%s", model->tensors[tensor].name, vc_part_role_name(part->role));
        uint64_t n_bytes = vc_dtype_bytes(part->dtype, part->n_elems);

        VC_CALL_ALLOC(name);
        *t = (struct vc_tensor){.name = name,
                                .dtype = part->dtype,
                                .n_dims = part->n_dims,
                                .shape = part->shape,
                                .n_elems = part->n_elems,
                                .size_bytes = n_bytes,
                                .file_bytes = n_bytes,
                                .part_of = tensor,
                                .alias_of = VC_NO_TENSOR,
                                .role = model->tensors[tensor].role};
        model->io[model->n_tensors] = (struct vc_tensor_io){.sequential = false};
        own->self.added[model->n_tensors - own->self.base->n_tensors] = (struct added){tensor, k};
        quant->parts[quant->n_parts++] = (struct vc_quant_part){part->role, model->n_tensors++};
    }
    model->tensors[tensor].quant = quant;
    return VC_OK;
}

enum vc_status vc_changed_model_make(struct vc_ctx *ctx, const struct vc_model *base, const struct vc_change *changes,
                                     struct vc_model **out)
{
    size_t n = base->n_tensors;
    size_t n_added = 0;
    struct own *own = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *own);
    struct vc_model *model;
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_CALL_ALLOC(own);
    model = &own->model;
    *model = *base;
    for (size_t i = 0; i < n; i++) {
        n_added += changes[i].changed ? changes[i].n_parts : 0;
    }
    own->self = (struct changed){base, changes, vc_alloc_array(ctx, VC_TAG_NAMES, n_added + 1, sizeof(struct added))};
    own->ops = (struct vc_source_ops){.read = changed_read,
                                      .stream_open = changed_stream_open,
                                      .stream_read = base->ops->stream_read,
                                      .stream_close = base->ops->stream_close,
                                      .stream_bytes = changed_stream_bytes};
    model->format = NULL; /* whose code would take `self` for its own */
    model->ops = &own->ops;
    model->self = &own->self;
    model->tensors = vc_alloc_array(ctx, VC_TAG_NAMES, n + n_added + 1, sizeof *model->tensors);
    model->io = vc_alloc_array(ctx, VC_TAG_NAMES, n + n_added + 1, sizeof *model->io);
    if (own->self.added == NULL || model->tensors == NULL || model->io == NULL) {
        vc_changed_model_free(ctx, model);
        return VC_E_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        model->tensors[i] = base->tensors[i];
        model->io[i] = base->io[i];
        if (changes[i].changed) {
            change(&changes[i], &model->tensors[i], &model->io[i]);
        }
    }
    for (size_t i = 0; i < n && status == VC_OK; i++) {
        status = changes[i].changed && changes[i].quant != NULL ? add_parts(ctx, own, i) : VC_OK;
    }
    if (status != VC_OK) {
        vc_changed_model_free(ctx, model);
        return status;
    }
    *out = model;
    return VC_OK;
}

void vc_changed_model_free(struct vc_ctx *ctx, struct vc_model *model)
{
    struct own *own = (struct own *)model; /* its first member */

    if (model != NULL) {
        vc_arena_release(ctx, &own->arena);
        VC_FREE_ALL(ctx, own->self.added, model->tensors, model->io, model);
    }
}
