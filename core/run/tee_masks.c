/* tee_masks.c - see tee_masks.h. The sink of the masks is made for a model in memory that has the names of the source,
 * so that nothing else of the source (its metadata, its folder) goes there. */
#include "core/run/tee_masks.h"

#include <string.h>

#include "core/base/checked.h"
#include "core/model/memory_model.h"
#include "core/run/out_division.h"

struct tee_masks {
    struct vc_arena arena;
    struct vc_model *model; /* of the masks' sink */
    struct vc_out_division division;
};

enum { MAIN, MASKS, LISTS };

const struct vc_out_list *vc_tee_masks_list(const struct tee_masks *masks, bool of_masks)
{
    return &masks->division.lists[of_masks ? MASKS : MAIN];
}

size_t vc_tee_masks_out(const struct tee_masks *masks, size_t out, bool of_masks)
{
    return masks->division.list_of[out] == (of_masks ? MASKS : MAIN) ? masks->division.place[out] : SIZE_MAX;
}

enum vc_status vc_tee_masks_divide(struct vc_ctx *ctx, struct tee_masks *masks, const struct vc_out_list *outs)
{
    size_t *list_of = vc_arena_alloc(ctx, &masks->arena, (outs->n + 1) * sizeof *list_of);
    struct vc_out_list *list;
    enum vc_status status = VC_OK;
    size_t i;

    VC_TRY_ALLOC(list_of);
    for (i = 0; i < outs->n; i++) {
        const struct vc_out_tensor t = vc_out_at(outs, i);

        list_of[i] = !t.apart ? MAIN : t.alias ? SIZE_MAX : MASKS; /* of second names no bytes come */
    }
    VC_TRY(vc_out_divide(ctx, &masks->arena, outs, LISTS, list_of, &masks->division));
    list = &masks->division.lists[MASKS];
    *list = (struct vc_out_list){.n = list->n, .tensors = list->tensors, .drop = outs->drop};
    for (i = 0; i < list->n; i++) {
        masks->division.tensors[MASKS][i].role = VC_PART_CODES;
    }
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
out:
    return status;
}

enum vc_status vc_tee_masks_create(struct vc_ctx *ctx, const struct vc_writers *writers, const struct vc_model *model,
                                   const struct vc_write_options *own, const char *name, struct tee_masks **masks,
                                   struct vc_sink **sink)
{
    struct vc_write_options options = *own;
    enum vc_status status = VC_OK;

    *masks = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof **masks);
    VC_TRY_ALLOC(*masks);
    VC_TRY(make_model(ctx, *masks, model));
    options.deflate = VC_DEFLATE_NONE;
    options.layout = NULL;
    options.max_shard_bytes = 0;
    options.format = writers->format_of_name(name);
    VC_TRY(writers->create(ctx, (*masks)->model, &options, sink));
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
