/* merged_model.c - see merged_model.h: the terms of the pass, and its steps for the tensors that are read. */
#include "merge/merged_model.h"

#include "merge/lora.h"
#include "passes/decode_range.h"

/* vc_range_decoding.takes: tensors with terms. */
static bool has_terms(const struct vc_range_decoding *how, const struct vc_model *model, size_t tensor)
{
    return vc_merge_terms(how->self, model, tensor) != NULL;
}

static enum vc_status add_steps(struct vc_ctx *ctx, struct vc_item *item, const void *terms)
{
    return vc_lora_add_steps(ctx, item, terms);
}

static enum vc_status open_range(struct vc_ctx *ctx, const struct vc_range_decoding *how, const struct vc_model *model,
                                 size_t tensor, struct vc_range_decoder **out)
{
    return vc_range_open(ctx, model, tensor, add_steps, vc_merge_terms(how->self, model, tensor), out);
}

static void release(struct vc_ctx *ctx, const struct vc_range_decoding *how)
{
    vc_merge_free(ctx, how->self);
    vc_free(ctx, (void *)(uintptr_t)how);
}

/* Every tensor as the pass would see it, so that what it refuses is refused before anything is written. */
static enum vc_status check(struct vc_ctx *ctx, const struct merge *m, const struct vc_model *model)
{
    for (size_t i = 0; i < model->n_tensors; i++) {
        const struct vc_tensor *t = &model->tensors[i];
        const struct vc_desc desc = {.dtype = t->dtype, .quant = t->quant};

        if ((t->quant != NULL || vc_merge_terms(m, model, i) != NULL) && vc_merge_takes(ctx, &desc) != VC_OK) {
            return vc_context(ctx, "%s", t->name);
        }
    }
    return VC_OK;
}

enum vc_status vc_merged_model_make(struct vc_ctx *ctx, const struct vc_merge_options *options, struct vc_model **model)
{
    struct vc_range_decoding *how = vc_alloc(ctx, VC_TAG_MISC, sizeof *how);
    struct merge *m = NULL;
    enum vc_status status = VC_OK;

    VC_CALL_ALLOC(how);
    VC_TRY(vc_merge_create(ctx, options, &m));
    VC_TRY(vc_merge_find(ctx, m, *model));
    VC_TRY(check(ctx, m, *model));
    *how = (struct vc_range_decoding){.self = m,
                                      .keeps_type = true,
                                      .takes = has_terms,
                                      .open = open_range,
                                      .read = vc_range_read,
                                      .close = vc_range_close,
                                      .release = release};
    return vc_decoded_model_make(ctx, how, model);
out:
    vc_merge_free(ctx, m);
    vc_free(ctx, how);
    return status;
}
