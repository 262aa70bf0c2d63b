/* masked_pairs.c - see masked_pairs.h. */
#include "core/model/masked_pairs.h"

#define ORIG      "_orig"
#define END_BYTES (sizeof ORIG - 1) /* of "_mask", too */

/* Bytes of the name before "_orig"; 0: it does not end so. */
static size_t stem_of(const char *name)
{
    size_t n = strlen(name);

    return n > END_BYTES && strcmp(name + n - END_BYTES, ORIG) == 0 ? n - END_BYTES : 0;
}

static bool is_plain_float(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F64 || dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16;
}

/* Both are weights that belong to nothing else, of one shape. */
static bool fit(const struct vc_tensor *orig, const struct vc_tensor *mask)
{
    return orig->role == VC_ROLE_WEIGHT && mask->role == VC_ROLE_WEIGHT && orig->part_of == VC_NO_TENSOR &&
           mask->part_of == VC_NO_TENSOR && orig->quant == NULL && mask->quant == NULL && is_plain_float(orig->dtype) &&
           (is_plain_float(mask->dtype) || mask->dtype == VC_DTYPE_BOOL || mask->dtype == VC_DTYPE_U8) &&
           orig->n_dims == mask->n_dims &&
           (orig->n_dims == 0 || memcmp(orig->shape, mask->shape, orig->n_dims * sizeof *orig->shape) == 0);
}

/* Tensors with a second name, or that are one, keep theirs. */
static bool is_shared(const struct vc_model *model, size_t tensor)
{
    size_t i = 0;

    while (i < model->n_tensors && model->tensors[i].alias_of != tensor) {
        i++;
    }
    return i < model->n_tensors || model->tensors[tensor].alias_of != VC_NO_TENSOR;
}

/* The mask of tensor `index`, and its name when they are joined; VC_NO_TENSOR: they are no pair. */
static enum vc_status find_mask(struct vc_ctx *ctx, struct vc_model *model, size_t index, size_t *mask, char **name)
{
    const struct vc_tensor *t = &model->tensors[index];
    size_t n = stem_of(t->name);

    *mask = VC_NO_TENSOR;
    if (n == 0) {
        return VC_OK;
    }
    VC_CALL_ALLOC(*name = vc_arena_printf(ctx, &model->arena, "%.*s_mask", (int)n, t->name));
    *mask = vc_model_find(model, *name);
    (*name)[n] = '\0';
    if (*mask != VC_NO_TENSOR && (!fit(t, &model->tensors[*mask]) || is_shared(model, index) ||
                                  is_shared(model, *mask) || vc_model_find(model, *name) != VC_NO_TENSOR)) {
        *mask = VC_NO_TENSOR;
    }
    return VC_OK;
}

static enum vc_status join(struct vc_ctx *ctx, struct vc_model *model)
{
    size_t n = model->n_tensors;
    size_t *masks = vc_arena_alloc(ctx, &model->arena, (n + 1) * sizeof *masks);
    VC_SCOPED char **names = vc_calloc_array(ctx, VC_TAG_NAMES, n + 1, sizeof *names);
    bool any = false;

    VC_CALL_ALLOC(masks);
    VC_CALL_ALLOC(names);
    for (size_t i = 0; i < n; i++) {
        VC_CALL(find_mask(ctx, model, i, &masks[i], &names[i]));
        any = any || masks[i] != VC_NO_TENSOR;
    }
    for (size_t i = 0; any && i < n; i++) {
        if (masks[i] != VC_NO_TENSOR) {
            model->tensors[i].name = names[i];
            model->tensors[masks[i]].part_of = i;
        }
    }
    if (any) {
        model->pair_masks = masks;
        VC_CALL(vc_model_index_names(ctx, model));
        vc_model_name_axes(model);
    }
    return VC_OK;
}

enum vc_status vc_pairs_join(struct vc_ctx *ctx, struct vc_model **model)
{
    enum vc_status status = join(ctx, *model);

    if (status != VC_OK) {
        vc_model_close(*model);
        *model = NULL;
    }
    return status;
}

bool vc_pairs_may_rename(const char *name)
{
    return stem_of(name) != 0;
}

size_t vc_pairs_mask(const struct vc_model *model, size_t tensor)
{
    return model->pair_masks != NULL ? model->pair_masks[tensor] : VC_NO_TENSOR;
}

size_t vc_pairs_find(const struct vc_model *model, const char *name)
{
    size_t n = model->pair_masks != NULL ? stem_of(name) : 0;
    size_t tensor = n != 0 ? vc_model_find_bytes(model, name, n) : VC_NO_TENSOR;

    return tensor != VC_NO_TENSOR && vc_pairs_mask(model, tensor) != VC_NO_TENSOR ? tensor : VC_NO_TENSOR;
}
