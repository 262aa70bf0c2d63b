/* row_array.c - see row_array.h. */
#include "distill/data/row_array.h"

/* An array that takes more than a quarter of the memory stays in the file, and rows are read when they are
 * needed; others, and those that can only be read front to back, are held. */
enum vc_status vc_row_array_open(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                 struct vc_row_array *array)
{
    const struct vc_tensor *t = &model->tensors[tensor];

    *array = (struct vc_row_array){.model = model, .tensor = tensor, .n_elems = (size_t)(t->n_elems / t->shape[0])};
    array->n_bytes = array->n_elems * vc_dtype_size(t->dtype);
    if (!model->io[tensor].sequential && t->size_bytes > vc_ctx_max_memory(ctx) / 4) {
        VC_CALL_ALLOC(array->row = vc_alloc(ctx, VC_TAG_TILES, array->n_bytes + 1));
        return VC_OK;
    }
    VC_REFUSE_IF(t->size_bytes > SIZE_MAX / 2, ctx, VC_E_NOMEM, "%s: %s does not fit into memory", model->path,
                 t->name);
    VC_CALL_ALLOC(array->held = vc_alloc(ctx, VC_TAG_TILES, (size_t)t->size_bytes + 1));
    return vc_model_read(ctx, model, tensor, 0, t->n_elems, array->held, (size_t)t->size_bytes);
}

void vc_row_array_close(struct vc_ctx *ctx, struct vc_row_array *array)
{
    VC_FREE_ALL(ctx, array->held, array->row);
    *array = (struct vc_row_array){.model = NULL};
}

/* *out is valid until the next row of this array is read. */
enum vc_status vc_row_array_read(struct vc_ctx *ctx, const struct vc_row_array *array, uint64_t number,
                                 const void **out)
{
    if (array->held != NULL) {
        *out = (const char *)array->held + number * array->n_bytes;
        return VC_OK;
    }
    *out = array->row;
    return vc_model_read(ctx, array->model, array->tensor, number * array->n_elems, array->n_elems, array->row,
                         array->n_bytes);
}

void vc_row_array_ahead(const struct vc_row_array *array, uint64_t number)
{
    if (array->model != NULL && array->held == NULL) {
        vc_model_ahead(array->model, array->tensor, number * array->n_elems, array->n_elems);
    }
}
