/* tile_reader.c - see tile_reader.h. Tiles come from a reader over the source or, after a change of shape, from a
 * stage. */
#include "core/chain/tile_reader.h"

/* Goes to the first tile of step k's input; k == n_steps: of the result. */
static enum vc_status rewind_reader(struct vc_ctx *ctx, struct vc_tile_reader *reader, size_t k)
{
    struct vc_item *item = reader->item;

    vc_reshape_close(ctx, &reader->stage);
    vc_source_reader_stop(ctx, &reader->reader);
    vc_desc_grid(vc_item_desc(item, k), &reader->n_rows, &reader->row_len);
    reader->n_tiles = vc_tile_count(reader->n_rows, reader->row_len);
    reader->next = 0;
    VC_CALL(vc_reshape_open(ctx, item, k, &reader->stage));
    if (reader->stage.n_steps == 0) {
        VC_CALL(vc_source_reader_start(ctx, item->set->model, item->source, &reader->reader));
    }
    return VC_OK;
}

/* Makes the next tile of step k's input: reads it, then applies the steps before k. */
static enum vc_status next_tile(struct vc_ctx *ctx, struct vc_tile_reader *reader, size_t k, struct vc_tile *tile,
                                struct vc_tile_result *result)
{
    struct vc_item *item = reader->item;
    struct vc_buffers *buffers = reader->buffers;
    struct vc_tile_in in = {.data = buffers->in};
    size_t n_covered = reader->stage.n_steps;

    VC_CALL(vc_check_cancelled(ctx));
    vc_tile_get(reader->n_rows, reader->row_len, reader->next++, tile);
    if (n_covered != 0) {
        struct vc_step *last = item->chain->steps[n_covered - 1];

        VC_CALL(vc_reshape_tile(ctx, &reader->stage, tile, buffers->in));
        if (last->n_made != 0) {
            memcpy(buffers->views + last->first_view, vc_reshape_views(&reader->stage),
                   last->n_made * sizeof *buffers->views);
        }
    } else {
        size_t n_bytes = (size_t)vc_desc_bytes(item, item->first, tile->n_elems);

        VC_CALL(vc_source_reader_read(ctx, &reader->reader, buffers->in, n_bytes));
        if (reader->see != NULL) {
            reader->see(reader->user, buffers->in, n_bytes);
        }
    }
    return vc_steps_apply(ctx, item, n_covered, k, tile, &in, buffers, result);
}

static enum vc_status finish(struct vc_ctx *ctx, struct vc_tile_reader *reader)
{
    VC_CALL(vc_reshape_finish(ctx, &reader->stage));
    return vc_source_reader_finish(ctx, &reader->reader);
}

/* Shows step k all tiles of its input, before its first apply. */
static enum vc_status scan_all(struct vc_ctx *ctx, struct vc_tile_reader *reader, size_t k)
{
    struct vc_item *item = reader->item;
    struct vc_buffers *buffers = reader->buffers;
    struct vc_step *step = item->chain->steps[k];

    VC_CALL(rewind_reader(ctx, reader, k));
    while (reader->next < reader->n_tiles) {
        struct vc_tile_in in = {.parts = buffers->in_views};
        struct vc_tile_result result;
        struct vc_tile tile;
        const struct vc_tile_in source = {0};

        VC_CALL(next_tile(ctx, reader, k, &tile, &result));
        in.data = result.data;
        for (size_t i = 0; i < step->in.n_parts; i++) {
            buffers->in_views[i] = vc_steps_view(item, &step->in, i, &source, buffers);
        }
        VC_CALL(step->ops->scan(ctx, step, item, &tile, &in, vc_steps_scratch(item, k, buffers)));
    }
    VC_CALL(finish(ctx, reader));
    return step->ops->scan_end(ctx, step, item);
}

enum vc_status vc_tile_reader_open(struct vc_ctx *ctx, struct vc_item *item, struct vc_buffers *buffers,
                                   struct vc_tile_reader *reader)
{
    *reader = (struct vc_tile_reader){.item = item, .buffers = buffers};
    VC_CALL(vc_steps_begin(ctx, item, item->chain->n_steps));
    reader->begun = true;
    for (size_t k = 0; k < item->chain->n_steps; k++) {
        if (item->chain->steps[k]->scan) {
            VC_CALL(scan_all(ctx, reader, k));
        }
    }
    return rewind_reader(ctx, reader, item->chain->n_steps);
}

enum vc_status vc_tile_reader_next(struct vc_ctx *ctx, struct vc_tile_reader *reader, struct vc_tile *tile,
                                   struct vc_tile_result *result, bool *more)
{
    *more = reader->next < reader->n_tiles;
    return *more ? next_tile(ctx, reader, reader->item->chain->n_steps, tile, result) : finish(ctx, reader);
}

bool vc_tile_reader_more(struct vc_ctx *ctx, struct vc_tile_reader *reader, struct vc_tile *tile,
                         struct vc_tile_result *result, enum vc_status *status)
{
    bool more = false;

    *status = vc_tile_reader_next(ctx, reader, tile, result, &more);
    return more && *status == VC_OK;
}

/* After vc_tile_reader_next: the view of part number `part` of the result, as far as that tile made it. */
static struct vc_part_view part_view(const struct vc_tile_reader *reader, size_t part)
{
    const struct vc_tile_in source = {0};

    return vc_steps_view(reader->item, reader->item->desc, part, &source, reader->buffers);
}

void vc_tile_reader_close(struct vc_ctx *ctx, struct vc_tile_reader *reader)
{
    vc_reshape_close(ctx, &reader->stage);
    vc_source_reader_stop(ctx, &reader->reader);
    if (reader->begun) {
        vc_steps_end(ctx, reader->item);
        reader->begun = false;
    }
}

/* All tiles of the result, or all pieces of one of its parts, into dst. */
static enum vc_status collect(struct vc_ctx *ctx, struct vc_tile_reader *reader, size_t part, char *dst)
{
    const struct vc_desc *desc = reader->item->desc;

    for (;;) {
        struct vc_tile_result result;
        struct vc_tile tile;
        bool more = false;

        VC_CALL(vc_tile_reader_next(ctx, reader, &tile, &result, &more));
        if (!more) {
            break;
        }
        if (part == SIZE_MAX) {
            memcpy(dst + vc_dtype_bytes(desc->dtype, tile.first), result.data,
                   (size_t)vc_dtype_bytes(desc->dtype, tile.n_elems));
            continue;
        }
        struct vc_part_view view = part_view(reader, part);
        if (view.write && view.n != 0) {
            memcpy(dst + vc_dtype_bytes(desc->parts[part].dtype, view.first), view.data,
                   (size_t)vc_dtype_bytes(desc->parts[part].dtype, view.n));
        }
    }
    return VC_OK;
}

enum vc_status vc_tile_reader_all(struct vc_ctx *ctx, struct vc_item *item, enum vc_part_role role, void *dst,
                                  size_t n_bytes)
{
    size_t part = role == VC_PART_CODES ? SIZE_MAX : vc_desc_find_part(item->desc, role);
    struct vc_buffer_sizes sizes = {0};
    struct vc_buffers buffers = {0};
    struct vc_tile_reader reader = {0};
    enum vc_status status = VC_OK;

    VC_REFUSE_IF(role != VC_PART_CODES && (part == SIZE_MAX || item->desc->parts[part].maker == NULL), ctx,
                 VC_E_ARGUMENT, "the passes make no such part of it");
    uint64_t needed = part == SIZE_MAX ? vc_dtype_bytes(item->desc->dtype, item->desc->n_elems)
                                       : vc_dtype_bytes(item->desc->parts[part].dtype, item->desc->parts[part].n_elems);
    VC_REFUSE_IF(needed != n_bytes, ctx, VC_E_ARGUMENT, "it takes %llu bytes, not %zu", (unsigned long long)needed,
                 n_bytes);
    vc_buffer_sizes_add(&sizes, item);
    VC_TRY(vc_buffers_alloc(ctx, &sizes, &buffers));
    VC_TRY(vc_tile_reader_open(ctx, item, &buffers, &reader));
    VC_TRY(collect(ctx, &reader, part, dst));
out:
    vc_tile_reader_close(ctx, &reader);
    vc_buffers_release(ctx, &buffers);
    return status;
}
