/* stages.c - see stages.h. */
#include "core/run/stages.h"

#include <string.h>

#include "core/base/checked.h"

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t align64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

void vc_room_add(struct vc_room *room, const struct vc_item *item)
{
    const struct vc_tensor *tensor = &item->model->tensors[item->source];
    size_t n = (size_t)vc_min_u64(tensor->n_elems, VC_TILE_ELEMS);
    uint64_t n_rows;
    uint64_t row_len;
    struct vc_tile tile;
    size_t i;

    if (n == 0) {
        room->in = max_size(room->in, VC_COPY_BYTES);
        return;
    }
    room->in = max_size(room->in, (size_t)vc_tensor_bytes(tensor, n));
    room->in = max_size(room->in, item->n_stages == 0 ? VC_COPY_BYTES : 0);
    vc_tile_rows_of(tensor, &n_rows, &row_len);
    vc_tile_get(n_rows, row_len, 0, &tile);
    for (i = 0; i < item->n_stages; i++) {
        room->out = max_size(room->out, (size_t)vc_dtype_bytes(item->stages[i]->out.dtype, n));
        room->scratch = max_size(room->scratch, item->stages[i]->scratch_bytes);
        room->sums = max_size(room->sums, 2 * sizeof(double) * vc_tile_chunks(&tile));
    }
}

size_t vc_room_total(const struct vc_room *room)
{
    return align64(room->in) + 2 * align64(room->out) + align64(room->scratch) + align64(room->sums);
}

enum vc_status vc_buffers_alloc(struct vc_ctx *ctx, const struct vc_room *room, struct vc_buffers *buffers)
{
    char *p = vc_alloc(ctx, VC_TAG_TILES, vc_room_total(room));

    *buffers = (struct vc_buffers){.block = p};
    if (p == NULL) {
        return VC_E_NOMEM;
    }
    buffers->in = p;
    p += align64(room->in);
    buffers->out[0] = p;
    p += align64(room->out);
    buffers->out[1] = p;
    p += align64(room->out);
    buffers->scratch = p;
    p += align64(room->scratch);
    buffers->sums = (double *)(void *)p;
    return VC_OK;
}

void vc_buffers_release(struct vc_ctx *ctx, struct vc_buffers *buffers)
{
    vc_free(ctx, buffers->block);
    *buffers = (struct vc_buffers){0};
}

enum vc_status vc_stages_apply(struct vc_ctx *ctx, struct vc_item *item, size_t n_stages, const struct vc_tile *tile,
                               const void *in, struct vc_buffers *buffers, struct vc_tile_result *result)
{
    bool measured = false;
    struct vc_tile_stats stats = {0};
    uint64_t nonfinite = 0;
    size_t i;

    result->data = in;
    memset(&result->out, 0, sizeof result->out);
    for (i = 0; i < n_stages; i++) {
        struct vc_stage *stage = item->stages[i];

        result->out = (struct vc_tile_out){.data = buffers->out[i % 2], .stats = &result->stats};
        result->stats = (struct vc_tile_stats){.chunk_sums = buffers->sums};
        if (stage->pass->ops->apply(ctx, stage, item, tile, result->data, buffers->scratch, &result->out) != VC_OK) {
            return vc_context(ctx, "%s", item->model->tensors[item->source].name);
        }
        result->data = result->out.data;
        nonfinite += result->out.nonfinite;
        if (result->out.measured) {
            measured = true;
            stats = result->stats;
        }
    }
    result->out.measured = measured;
    result->out.nonfinite = nonfinite;
    result->stats = stats;
    result->out.stats = &result->stats;
    return VC_OK;
}

enum vc_status vc_stages_begin(struct vc_ctx *ctx, struct vc_item *item, size_t n_stages)
{
    size_t i;

    for (i = 0; i < n_stages; i++) {
        struct vc_stage *stage = item->stages[i];

        if (stage->pass->ops->begin != NULL && stage->pass->ops->begin(ctx, stage, item) != VC_OK) {
            item->stages[i]->begun = true;
            vc_stages_end(ctx, item);
            return vc_context(ctx, "%s", item->model->tensors[item->source].name);
        }
        stage->begun = true;
    }
    return VC_OK;
}

void vc_stages_end(struct vc_ctx *ctx, struct vc_item *item)
{
    size_t i;

    for (i = 0; i < item->n_stages; i++) {
        struct vc_stage *stage = item->stages[i];

        if (stage->begun && stage->pass->ops->end != NULL) {
            stage->pass->ops->end(ctx, stage);
        }
        stage->begun = false;
    }
}
