/* one_tensor.c - see one_tensor.h.
 *
 * For formats of one array per file (npy, idx, token lists): everything but their headers. */
#include "formats/io/one_tensor.h"

#include "formats/io/byte_order.h"

/* self_bytes: of the format's own struct, which begins with struct vc_one_tensor. Takes the file over in any case. */
enum vc_status vc_one_tensor_begin(struct vc_ctx *ctx, struct vc_infile *file, size_t self_bytes,
                                   const struct vc_source_ops *ops, struct vc_model *model)
{
    struct vc_one_tensor *self = vc_calloc_array(ctx, VC_TAG_NAMES, 1, self_bytes);

    if (self == NULL) {
        vc_infile_close(ctx, file);
        return VC_E_NOMEM;
    }
    self->file = file;
    model->self = self;
    model->ops = ops;
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->tensors, 1));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->io, 1));
    return VC_OK;
}

/* Both forms are the bytes of the file, in this machine's order. */
enum vc_status vc_one_tensor_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                  uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    const struct vc_one_tensor *self = model->self;
    const struct vc_tensor *t = &model->tensors[tensor];

    VC_REFUSE_IF(offset > t->size_bytes || n_bytes > t->size_bytes - offset, ctx, VC_E_INTERNAL,
                 "%s: a read beyond the tensor", t->name);
    if (vc_infile_read(ctx, self->file, self->first_byte + offset, dst, n_bytes) != VC_OK) {
        return vc_context(ctx, "%s", t->name);
    }
    vc_bytes_swap(dst, n_bytes, self->swap);
    return VC_OK;
}

void vc_one_tensor_ahead(const struct vc_model *model, size_t tensor, uint64_t offset, uint64_t n_bytes)
{
    const struct vc_one_tensor *self = model->self;

    vc_infile_ahead(self->file, self->first_byte + offset, n_bytes);
}

void vc_one_tensor_close(struct vc_model *model)
{
    struct vc_one_tensor *self = model->self;

    vc_infile_close(model->ctx, self->file);
    VC_FREE_ALL(model->ctx, self, model->tensors, model->io);
}
