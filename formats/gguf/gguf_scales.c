/* gguf_scales.c - numbers beside blocks of NVFP4, as llama.cpp has them: each value is a block's times that number.
 *
 *     blk.0.attn_q.weight  NVFP4 [rows, columns]        blk.0.attn_q.scale  F32 [1], or one for each matrix of experts
 */

#include "formats/gguf/gguf.h"

/* The tensor with the numbers of a weight; VC_NO_TENSOR if there is none. */
static size_t find_scale(const struct vc_model *model, const struct vc_tensor *t)
{
    const char *tail = strrchr(t->name, '.');
    char name[VC_GGUF_NAME_OF_PICTURES + 1];

    if (tail == NULL || strcmp(tail, ".weight") != 0 || strlen(t->name) >= sizeof name) {
        return VC_NO_TENSOR;
    }
    (void)snprintf(name, sizeof name, "%.*s.scale", (int)(tail - t->name), t->name);
    size_t found = vc_model_find(model, name);
    const struct vc_tensor *scale = found != VC_NO_TENSOR ? &model->tensors[found] : NULL;
    return scale != NULL && scale->dtype == VC_DTYPE_F32 &&
                   (scale->n_elems == 1 || (t->n_dims == 3 && scale->n_elems == t->shape[0]))
               ? found
               : VC_NO_TENSOR;
}

enum vc_status vc_gguf_attach_scales(struct vc_ctx *ctx, struct vc_model *model)
{
    size_t n = 0;

    for (size_t i = 0; i < model->n_tensors; i++) {
        n += model->tensors[i].dtype == VC_DTYPE_NVFP4;
    }
    if (n == 0) {
        return VC_OK;
    }
    VC_CALL(vc_model_index_names(ctx, model));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->quants, n));
    for (size_t i = 0, k = 0; i < model->n_tensors; i++) {
        size_t scale = model->tensors[i].dtype == VC_DTYPE_NVFP4 ? find_scale(model, &model->tensors[i]) : VC_NO_TENSOR;

        if (scale != VC_NO_TENSOR) {
            struct vc_quant *quant = &model->quants[k++];

            *quant = (struct vc_quant){.scheme = VC_SCHEME_NVFP4, .symmetric = true, .source_dtype = VC_DTYPE_F32};
            vc_quant_set(quant, VC_PART_SCALE, scale);
            model->tensors[i].quant = quant;
            model->tensors[scale].part_of = i;
        }
    }
    return VC_OK;
}
