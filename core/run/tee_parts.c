/* tee_parts.c - see tee_parts.h. The sink of the parts is made for a model in memory that has the names of the source,
 * so that nothing else of the source (its metadata, its folder) goes there. */
#include "core/run/tee_parts.h"

#include "core/model/memory_model.h"
#include "core/run/out_division.h"

struct tee_parts {
    struct vc_arena arena;
    struct vc_model *model; /* of the parts' sink */
    struct vc_out_division division;
};

enum { MAIN, PARTS, LISTS };

const struct vc_out_list *vc_tee_parts_list(const struct tee_parts *parts, bool apart)
{
    return &parts->division.lists[apart ? PARTS : MAIN];
}

size_t vc_tee_parts_out(const struct tee_parts *parts, size_t out, bool apart)
{
    return parts->division.list_of[out] == (apart ? PARTS : MAIN) ? parts->division.place[out] : SIZE_MAX;
}

enum vc_status vc_tee_parts_divide(struct vc_ctx *ctx, struct tee_parts *parts, const struct vc_out_list *outs)
{
    size_t *list_of = vc_arena_alloc(ctx, &parts->arena, (outs->n + 1) * sizeof *list_of);

    VC_CALL_ALLOC(list_of);
    for (size_t i = 0; i < outs->n; i++) {
        const struct vc_out_tensor t = vc_out_at(outs, i);

        list_of[i] = !t.apart ? MAIN : t.alias ? SIZE_MAX : PARTS; /* of second names no bytes come */
    }
    VC_CALL(vc_out_divide(ctx, &parts->arena, outs, LISTS, list_of, &parts->division));
    struct vc_out_list *list = &parts->division.lists[PARTS];
    *list = (struct vc_out_list){.n = list->n, .tensors = list->tensors, .drop = outs->drop};
    for (size_t i = 0; i < list->n; i++) {
        parts->division.tensors[PARTS][i].role = VC_PART_CODES;
    }
    return VC_OK;
}

/* A tensor without a size for each of the source's, so that their numbers are the same. */
static enum vc_status make_model(struct vc_ctx *ctx, struct tee_parts *parts, const struct vc_model *source,
                                 enum vc_dtype dtype)
{
    size_t n = source->n_tensors;
    struct vc_memory_tensor *tensors = vc_arena_alloc(ctx, &parts->arena, (n + 1) * sizeof *tensors);

    VC_CALL_ALLOC(tensors);
    for (size_t i = 0; i < n; i++) {
        tensors[i] = (struct vc_memory_tensor){.name = source->tensors[i].name, .dtype = dtype};
    }
    return vc_memory_model_create(ctx, tensors, n, &parts->model);
}

enum vc_status vc_tee_parts_create(struct vc_ctx *ctx, const struct vc_writers *writers, const struct vc_model *model,
                                   const struct vc_write_options *own, const struct vc_part_file *file,
                                   struct tee_parts **parts, struct vc_sink **sink)
{
    struct vc_write_options options = *own;

    VC_CALL(VC_ZEROS(ctx, VC_TAG_IO, *parts, 1));
    VC_CALL(make_model(ctx, *parts, model, file->dtype));
    options.deflate = VC_DEFLATE_NONE;
    options.layout = NULL;
    options.max_shard_bytes = 0;
    options.format = writers->format_of_name(file->path);
    VC_CALL(writers->create(ctx, (*parts)->model, &options, sink));
    VC_REFUSE_IF(!(*sink)->ops->can_hold(*sink, file->dtype), ctx, VC_E_UNSUPPORTED,
                 "%s: %s cannot hold %ss, which are bytes", file->path, (*sink)->format, vc_part_role_name(file->role));
    return VC_OK;
}

void vc_tee_parts_free(struct vc_ctx *ctx, struct tee_parts *parts)
{
    if (parts == NULL) {
        return;
    }
    vc_model_close(parts->model);
    vc_arena_release(ctx, &parts->arena);
    vc_free(ctx, parts);
}
