/* tee_masks.c - see tee_masks.h. The sink of the masks is made for a model in memory that has the names of the source,
 * so that nothing else of the source (its metadata, its folder) goes there. */
#include "core/run/tee_masks.h"

#include <string.h>

#include "core/base/checked.h"
#include "core/model/memory_model.h"

struct tee_masks {
    struct vc_arena arena;
    struct vc_model *model; /* of the masks' sink */
    size_t *place;          /* of each output tensor in the list where it is */
    const struct vc_out_tensor *all;
    struct vc_out_list main, masks;
};

static bool is_apart(const struct vc_out_tensor *out)
{
    return out->apart;
}

const struct vc_out_list *vc_tee_masks_list(const struct tee_masks *masks, bool of_masks)
{
    return of_masks ? &masks->masks : &masks->main;
}

size_t vc_tee_masks_out(const struct tee_masks *masks, size_t out, bool of_masks)
{
    return is_apart(&masks->all[out]) == of_masks ? masks->place[out] : SIZE_MAX;
}

/* The tensor's way from codes to values, with the numbers of the main list. */
static const struct vc_quant *moved_quant(struct vc_ctx *ctx, struct tee_masks *masks, const struct vc_quant *quant)
{
    struct vc_quant *copy = vc_arena_alloc(ctx, &masks->arena, sizeof *copy);
    size_t k;

    if (copy != NULL) {
        *copy = *quant;
        for (k = 0; k < copy->n_parts; k++) {
            copy->parts[k].tensor = masks->place[copy->parts[k].tensor];
        }
    }
    return copy;
}

enum vc_status vc_tee_masks_divide(struct vc_ctx *ctx, struct tee_masks *masks, const struct vc_out_list *outs)
{
    size_t room = (outs->n + 1) * sizeof(struct vc_out_tensor);
    struct vc_out_tensor *main_outs = vc_arena_alloc(ctx, &masks->arena, room);
    struct vc_out_tensor *mask_outs = vc_arena_alloc(ctx, &masks->arena, room);
    enum vc_status status = VC_OK;
    size_t n_main = 0;
    size_t n_masks = 0;
    size_t i;

    masks->place = vc_arena_alloc(ctx, &masks->arena, (outs->n + 1) * sizeof *masks->place);
    if (main_outs == NULL || mask_outs == NULL || masks->place == NULL) {
        return VC_E_NOMEM;
    }
    masks->all = outs->tensors;
    for (i = 0; i < outs->n; i++) {
        const struct vc_out_tensor *t = &outs->tensors[i];

        if (!is_apart(t)) {
            masks->place[i] = n_main;
            main_outs[n_main++] = *t;
        } else if (t->alias) { /* no bytes come for it */
            masks->place[i] = SIZE_MAX;
        } else {
            masks->place[i] = n_masks;
            mask_outs[n_masks] = *t;
            mask_outs[n_masks++].role = VC_PART_CODES;
        }
    }
    for (i = 0; i < n_main; i++) {
        main_outs[i].alias_of = main_outs[i].alias ? masks->place[main_outs[i].alias_of] : 0;
        if (main_outs[i].quant != NULL) {
            main_outs[i].quant = moved_quant(ctx, masks, main_outs[i].quant);
            VC_TRY_ALLOC(main_outs[i].quant);
        }
    }
    masks->main = *outs;
    masks->main.n = n_main;
    masks->main.tensors = main_outs;
    masks->masks = (struct vc_out_list){.n = n_masks, .tensors = mask_outs, .drop = outs->drop};
out:
    return status;
}

/* A tensor for each of the source's, so that their numbers are the same. */
static enum vc_status make_model(struct vc_ctx *ctx, struct tee_masks *masks, const struct vc_model *source)
{
    size_t n = source->n_tensors;
    struct vc_memory_tensor *tensors = vc_arena_alloc(ctx, &masks->arena, (n + 1) * sizeof *tensors);
    uint64_t *shapes = vc_arena_alloc(ctx, &masks->arena, (n + 1) * sizeof *shapes);
    enum vc_status status = VC_OK;
    size_t i;

    if (tensors == NULL || shapes == NULL) {
        return VC_E_NOMEM;
    }
    for (i = 0; i < n; i++) {
        shapes[i] = vc_ceil_div_u64(source->tensors[i].n_elems, 8);
        tensors[i] = (struct vc_memory_tensor){
            .name = source->tensors[i].name, .dtype = VC_DTYPE_U8, .n_dims = 1, .shape = &shapes[i]};
    }
    VC_TRY(vc_memory_model_create(ctx, tensors, n, &masks->model));
    masks->model->input = source->input; /* a file of masks must not replace these */
    masks->model->n_inputs = source->n_inputs;
    masks->model->inputs = source->inputs;
out:
    return status;
}

enum vc_status vc_tee_masks_create(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_write_options *own,
                                   const char *name, struct tee_masks **masks, struct vc_sink **sink)
{
    struct vc_write_options options = *own;
    enum vc_status status = VC_OK;

    *masks = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof **masks);
    VC_TRY_ALLOC(*masks);
    VC_TRY(make_model(ctx, *masks, model));
    options.deflate = VC_DEFLATE_NONE;
    options.layout = NULL;
    options.max_shard_bytes = 0;
    options.format = vc_format_of_name(name);
    VC_TRY(vc_sink_create(ctx, (*masks)->model, &options, sink));
    if (!(*sink)->ops->can_hold(*sink, VC_DTYPE_U8)) {
        status = vc_fail(ctx, VC_E_UNSUPPORTED, "%s: %s cannot hold masks, which are bytes", name, (*sink)->format);
    }
out:
    return status;
}

void vc_tee_masks_free(struct vc_ctx *ctx, struct tee_masks *masks)
{
    if (masks == NULL) {
        return;
    }
    vc_model_close(masks->model);
    vc_arena_release(ctx, &masks->arena);
    vc_free(ctx, masks);
}
