/* manifest_infer.c - quantized tensors in files without a manifest, by NumPy-readable naming: w, w.scale, w.zero_point,
 * or w.int8, w.scale, w.zero_point.
 *
 * Only what can mean one thing is taken for it; everything else stays the plain integers it is. */

#include "core/values/tile.h"
#include "formats/dialects/dialects.h"
#include "formats/dialects/manifest/manifest_internal.h"

/* The tensor <n characters of name><suffix> of that type, if it is no part of another one; else VC_NO_TENSOR. buffer
 * has room for the longest name and the longest suffix, and keeps the name that was looked for. */
static size_t find_suffixed(const struct vc_model *model, const char *name, size_t n, const char *suffix,
                            enum vc_dtype dtype, char *buffer)
{
    memcpy(buffer, name, n);
    memcpy(buffer + n, suffix, strlen(suffix) + 1);
    size_t index = vc_model_find(model, buffer);
    return index != VC_NO_TENSOR && model->tensors[index].dtype == dtype &&
                   model->tensors[index].part_of == VC_NO_TENSOR && model->tensors[index].quant == NULL
               ? index
               : VC_NO_TENSOR;
}

/* Fills in the only granularity that the shape of the scale allows; false: it allows none, or more than one. [64, 100]
 * with a scale [64, 4]: groups of 25 to 33 elements give 4, so it is no certain size; with [64, 50] only 2 does. The
 * larger size is tried last: if group_size + 1 gives as many groups, the size is not certain. */
static bool infer_granularity(const struct vc_tensor *t, const struct vc_tensor *scale, struct vc_quant *quant)
{
    uint64_t n_rows, row_len, n_groups;

    if (scale->n_elems == 1) {
        quant->granularity = VC_GRANULARITY_TENSOR;
        return vc_manifest_scale_fits(t, scale, quant);
    }
    quant->granularity = VC_GRANULARITY_CHANNEL;
    for (quant->axis = 0; quant->axis < t->n_dims; quant->axis++) {
        if (vc_manifest_scale_fits(t, scale, quant)) {
            return true;
        }
    }
    quant->axis = 0;
    quant->granularity = VC_GRANULARITY_GROUP;
    vc_rows_of(t->shape, t->n_dims, &n_rows, &row_len);
    n_groups = scale->n_dims == 2 ? scale->shape[1] : 0;
    if (n_groups < 2 || n_groups > row_len) {
        return false;
    }
    quant->group_size = vc_ceil_div_u64(row_len, n_groups);
    return vc_manifest_scale_fits(t, scale, quant) && vc_ceil_div_u64(row_len, quant->group_size + 1) != n_groups;
}

/* An i8 tensor: attaches w.scale and w.zero_point where they can only be that. n: length of w in its name. */
static enum vc_status infer_one(struct vc_ctx *ctx, struct vc_model *model, size_t tensor, size_t n, char *buffer)
{
    const struct vc_tensor *t = &model->tensors[tensor];
    struct vc_quant quant = {.scheme = VC_SCHEME_INT8, .symmetric = true, .source_dtype = VC_DTYPE_F32};
    size_t scale = find_suffixed(model, t->name, n, ".scale", VC_DTYPE_F32, buffer);

    if (scale == VC_NO_TENSOR || !infer_granularity(t, &model->tensors[scale], &quant)) {
        return VC_OK;
    }
    vc_quant_set(&quant, VC_PART_SCALE, scale);
    size_t zero = find_suffixed(model, t->name, n, ".zero_point", VC_DTYPE_I8, buffer);
    if (zero == VC_NO_TENSOR) {
        /* One that is there but cannot be meant: better plain than wrong. */
        return vc_model_find(model, buffer) == VC_NO_TENSOR ? vc_manifest_attach(ctx, model, tensor, &quant) : VC_OK;
    }
    quant.symmetric = false;
    vc_quant_set(&quant, VC_PART_ZERO_POINT, zero);
    return vc_manifest_same_shape(&model->tensors[scale], &model->tensors[zero])
               ? vc_manifest_attach(ctx, model, tensor, &quant)
               : VC_OK;
}

/* Length of the weight's name in that of its codes, "w.int8"; 0: they are none, or there is another tensor "w". */
static size_t weight_bytes(const struct vc_model *model, const struct vc_tensor *t, char *buffer)
{
    size_t n = vc_plain_weight_bytes(t->name, VC_SCHEME_INT8);

    if (n == SIZE_MAX) {
        return 0;
    }
    memcpy(buffer, t->name, n);
    buffer[n] = '\0';
    return vc_model_find(model, buffer) == VC_NO_TENSOR ? n : 0;
}

static bool is_free_codes(const struct vc_tensor *t)
{
    return t->dtype == VC_DTYPE_I8 && t->part_of == VC_NO_TENSOR && t->quant == NULL;
}

enum vc_status vc_manifest_infer(struct vc_ctx *ctx, struct vc_model *model, bool codes_named)
{
    VC_SCOPED char *buffer = NULL;

    VC_CALL_ALLOC(buffer = vc_model_name_room(ctx, model, sizeof ".zero_point"));
    for (size_t i = 0; i < model->n_tensors; i++) {
        const struct vc_tensor *t = &model->tensors[i];

        size_t n = codes_named ? weight_bytes(model, t, buffer) : 0;

        if (is_free_codes(t)) {
            VC_CALL(infer_one(ctx, model, i, strlen(t->name), buffer));
        }
        if (is_free_codes(t) && n != 0) {
            VC_CALL(infer_one(ctx, model, i, n, buffer));
        }
    }
    return VC_OK;
}
