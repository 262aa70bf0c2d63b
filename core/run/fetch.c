/* fetch.c - see fetch.h. */
#include "core/run/fetch.h"

static const struct vc_tensor *tensor_of(const struct vc_item *item)
{
    return &item->model->tensors[item->source];
}

enum vc_status vc_fetch_read(struct vc_ctx *ctx, const struct vc_item *item, struct vc_source_stream *stream,
                             struct vc_check *check, const struct vc_tile *tile, void *dst)
{
    const struct vc_tensor *tensor = tensor_of(item);
    const struct vc_model *model = item->model;

    if (stream != NULL) {
        return model->ops->stream_read(ctx, stream, dst, (size_t)vc_tensor_bytes(tensor, tile->n_elems));
    }
    return model->ops->read(ctx, model, item->source, VC_FORM_VALUES, vc_tensor_bytes(tensor, tile->first), dst,
                            (size_t)vc_tensor_bytes(tensor, tile->n_elems), check);
}

/* Starts over at tile 0. */
static enum vc_status rewind_fetch(struct vc_ctx *ctx, struct vc_fetch *fetch)
{
    const struct vc_model *model = fetch->item->model;

    fetch->next = 0;
    if (model->io[fetch->item->source].sequential && fetch->n_tiles != 0) {
        return model->ops->stream_open(ctx, model, fetch->item->source, VC_FORM_VALUES, &fetch->stream);
    }
    return VC_OK;
}

static enum vc_status finish_stream(struct vc_ctx *ctx, struct vc_fetch *fetch)
{
    struct vc_source_stream *stream = fetch->stream;

    fetch->stream = NULL;
    return stream == NULL ? VC_OK : fetch->item->model->ops->stream_close(ctx, stream, true);
}

static enum vc_status scan_all(struct vc_ctx *ctx, struct vc_fetch *fetch, size_t k)
{
    struct vc_item *item = fetch->item;
    struct vc_stage *stage = item->stages[k];
    enum vc_status status = VC_OK;

    for (; fetch->next < fetch->n_tiles; fetch->next++) {
        struct vc_tile_result result;
        struct vc_tile tile;

        VC_TRY(vc_check_cancelled(ctx));
        vc_tile_get(fetch->n_rows, fetch->row_len, fetch->next, &tile);
        VC_TRY(vc_fetch_read(ctx, item, fetch->stream, &fetch->check, &tile, fetch->buffers->in));
        VC_TRY(vc_stages_apply(ctx, item, k, &tile, fetch->buffers->in, fetch->buffers, &result));
        VC_TRY(stage->pass->ops->scan(ctx, stage, item, &tile, result.data, fetch->buffers->scratch));
    }
    VC_TRY(finish_stream(ctx, fetch));
    VC_TRY(stage->pass->ops->scan_end(ctx, stage, item));
out:
    return status;
}

enum vc_status vc_fetch_open(struct vc_ctx *ctx, struct vc_item *item, struct vc_buffers *buffers,
                             struct vc_fetch *fetch)
{
    enum vc_status status = VC_OK;
    size_t k;

    *fetch = (struct vc_fetch){.item = item, .buffers = buffers};
    vc_tile_rows_of(tensor_of(item), &fetch->n_rows, &fetch->row_len);
    fetch->n_tiles = vc_tile_count(fetch->n_rows, fetch->row_len);
    VC_TRY(vc_stages_begin(ctx, item, item->n_stages));
    fetch->begun = true;
    for (k = 0; k < item->n_stages; k++) {
        if (item->stages[k]->scan) {
            VC_TRY(rewind_fetch(ctx, fetch));
            VC_TRY(scan_all(ctx, fetch, k));
        }
    }
    VC_TRY(rewind_fetch(ctx, fetch));
out:
    return status;
}

enum vc_status vc_fetch_next(struct vc_ctx *ctx, struct vc_fetch *fetch, struct vc_tile *tile,
                             struct vc_tile_result *result, bool *more)
{
    struct vc_item *item = fetch->item;
    enum vc_status status = VC_OK;

    *more = fetch->next < fetch->n_tiles;
    if (!*more) {
        return finish_stream(ctx, fetch);
    }
    VC_TRY(vc_check_cancelled(ctx));
    vc_tile_get(fetch->n_rows, fetch->row_len, fetch->next++, tile);
    VC_TRY(vc_fetch_read(ctx, item, fetch->stream, &fetch->check, tile, fetch->buffers->in));
    if (fetch->see != NULL) {
        fetch->see(fetch->user, fetch->buffers->in, (size_t)vc_tensor_bytes(tensor_of(item), tile->n_elems));
    }
    VC_TRY(vc_stages_apply(ctx, item, item->n_stages, tile, fetch->buffers->in, fetch->buffers, result));
out:
    return status;
}

void vc_fetch_close(struct vc_ctx *ctx, struct vc_fetch *fetch)
{
    if (fetch->stream != NULL) {
        (void)fetch->item->model->ops->stream_close(ctx, fetch->stream, false);
        fetch->stream = NULL;
    }
    if (fetch->begun) {
        vc_stages_end(ctx, fetch->item);
        fetch->begun = false;
    }
}
