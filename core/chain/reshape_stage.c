/* reshape_stage.c - see reshape_stage.h. vc_step_read is how a step that regroups pulls its input, and with it the
 * levels below. */
#include "core/chain/reshape_stage.h"

size_t vc_reshape_steps(const struct vc_item *item, size_t k)
{
    while (k > 0 && !item->chain->steps[k - 1]->regroups) {
        k--;
    }
    return k;
}

static size_t tile_bytes(const struct vc_item *item, const struct vc_desc *desc)
{
    return (size_t)vc_desc_bytes(item, desc, vc_min_u64(desc->n_elems, VC_TILE_ELEMS));
}

size_t vc_reshape_bytes(struct vc_item *item)
{
    size_t n_covered = vc_reshape_steps(item, item->chain->n_steps);
    struct vc_buffer_sizes sizes = {0};
    size_t n_levels = 0;
    size_t inputs = 0;
    size_t views = 0;

    if (n_covered == 0) {
        return 0;
    }
    vc_buffer_sizes_add(&sizes, item);
    for (size_t k = 0; k < n_covered; k++) {
        n_levels += item->chain->steps[k]->regroups;
        inputs += item->chain->steps[k]->regroups ? tile_bytes(item, &item->chain->steps[k]->out) + 64 : 0;
        views += item->chain->steps[k]->n_made * sizeof(struct vc_part_view);
    }
    return n_levels * (sizeof(struct vc_reshape_level) + vc_buffer_sizes_total(&sizes)) + inputs + views + 4096;
}

/* ---- open, close ---- */

static enum vc_status open_level(struct vc_ctx *ctx, struct vc_reshape_stage *stage, size_t level, size_t first,
                                 size_t step)
{
    struct vc_reshape_level *l = &stage->levels[level];
    struct vc_item *item = stage->item;
    const struct vc_desc *in = vc_item_desc(item, first);
    struct vc_buffer_sizes sizes = {0};

    *l = (struct vc_reshape_level){.place = {stage, level}, .first = first, .step = step};
    vc_desc_grid(in, &l->n_rows, &l->row_len);
    l->n_tiles = vc_tile_count(l->n_rows, l->row_len);
    vc_buffer_sizes_add(&sizes, item);
    VC_CALL(vc_buffers_alloc(ctx, &sizes, &l->buffers));
    if (level != 0) {
        VC_CALL_ALLOC(l->input = vc_alloc(ctx, VC_TAG_TILES, tile_bytes(item, in) + 1));
    }
    VC_CALL(VC_ZEROS(ctx, VC_TAG_TILES, l->views, item->chain->steps[step]->n_made + 1));
    return VC_OK;
}

enum vc_status vc_reshape_open(struct vc_ctx *ctx, struct vc_item *item, size_t k, struct vc_reshape_stage *stage)
{
    size_t n_covered = vc_reshape_steps(item, k);
    enum vc_status status = VC_OK;
    size_t n_levels = 0;
    size_t first = 0;

    *stage = (struct vc_reshape_stage){.item = item, .n_steps = n_covered};
    if (n_covered == 0) {
        return VC_OK;
    }
    for (size_t i = 0; i < n_covered; i++) {
        n_levels += item->chain->steps[i]->regroups;
    }
    VC_TRY(VC_ZEROS(ctx, VC_TAG_TILES, stage->levels, n_levels));
    for (size_t i = 0; i < n_covered; i++) {
        if (item->chain->steps[i]->regroups) {
            VC_TRY(open_level(ctx, stage, stage->n_levels++, first, i));
            first = i + 1;
        }
    }
    VC_TRY(vc_source_reader_start(ctx, item->set->model, item->source, &stage->reader));
out:
    if (status != VC_OK) {
        vc_reshape_close(ctx, stage);
    }
    return status;
}

void vc_reshape_close(struct vc_ctx *ctx, struct vc_reshape_stage *stage)
{
    if (stage->n_steps == 0) {
        return;
    }
    vc_source_reader_stop(ctx, &stage->reader);
    for (size_t i = 0; i < stage->n_levels; i++) {
        vc_buffers_release(ctx, &stage->levels[i].buffers);
        VC_FREE_ALL(ctx, stage->levels[i].input, stage->levels[i].views);
    }
    vc_free(ctx, stage->levels);
    *stage = (struct vc_reshape_stage){0};
}

/* ---- tiles ---- */

/* The tile that holds element `flat`. */
static uint64_t tile_of(const struct vc_reshape_level *l, uint64_t flat)
{
    if (l->row_len > VC_TILE_ELEMS) {
        return flat / l->row_len * vc_ceil_div_u64(l->row_len, VC_TILE_ELEMS) + flat % l->row_len / VC_TILE_ELEMS;
    }
    return flat / l->row_len / vc_max_u64(1, VC_TILE_ELEMS / l->row_len);
}

/* Reads tile `index` of the source into the first level's buffer; the reader passes over those before it. */
static enum vc_status read_source(struct vc_ctx *ctx, struct vc_reshape_stage *stage, struct vc_reshape_level *l,
                                  uint64_t index)
{
    struct vc_item *item = stage->item;
    struct vc_tile tile;

    if (index < stage->next_source) {
        VC_CALL(vc_source_reader_start(ctx, item->set->model, item->source, &stage->reader));
        stage->next_source = 0;
    }
    while (stage->next_source <= index) {
        vc_tile_get(l->n_rows, l->row_len, stage->next_source, &tile);
        VC_CALL(vc_source_reader_read(ctx, &stage->reader, l->buffers.in,
                                      (size_t)vc_desc_bytes(item, item->first, tile.n_elems)));
        stage->next_source++;
    }
    return VC_OK;
}

/* Runs the step that regroups for one tile of its output. */
static enum vc_status regroup(struct vc_ctx *ctx, struct vc_reshape_stage *stage, size_t level,
                              const struct vc_tile *tile, void *dst)
{
    struct vc_reshape_level *l = &stage->levels[level];
    struct vc_step *step = stage->item->chain->steps[l->step];
    struct vc_tile_in in = {.input = &l->place};
    struct vc_tile_stats stats = {0};
    struct vc_tile_out out = {.data = dst, .parts = l->views, .stats = &stats};

    memset(l->views, 0, step->n_made * sizeof *l->views);
    if (step->ops->apply(ctx, step, stage->item, tile, &in, vc_steps_scratch(stage->item, l->step, &l->buffers),
                         &out) != VC_OK) {
        return vc_context(ctx, "%s", stage->item->set->model->tensors[stage->item->source].name);
    }
    return VC_OK;
}

/* Brings tile `index` of what enters the level's last step: reads it, or has the level below make it, and applies the
 * steps in between. */
static enum vc_status make_tile(struct vc_ctx *ctx, struct vc_reshape_stage *stage, size_t level, uint64_t index)
{
    struct vc_reshape_level *l = &stage->levels[level];
    struct vc_tile_in in = {.data = level == 0 ? l->buffers.in : l->input};
    struct vc_tile_result result;

    l->next = 0;
    vc_tile_get(l->n_rows, l->row_len, index, &l->tile);
    if (level == 0) {
        VC_CALL(read_source(ctx, stage, l, index));
    } else {
        VC_CALL(regroup(ctx, stage, level - 1, &l->tile, l->input));
    }
    VC_CALL(vc_steps_apply(ctx, stage->item, l->first, l->step, &l->tile, &in, &l->buffers, &result));
    if (level == 0 && index == stage->n_seen) {
        stage->n_seen++;
        if (stage->see != NULL) {
            stage->see(stage->user, stage->item, l->first, l->step, &l->tile, &l->buffers);
        }
    }
    l->data = result.data;
    l->next = index + 1;
    return VC_OK;
}

/* The same. Tiles of the source that are passed over on the way go through their steps, too: whether a value is
 * refused, and the figures, must not depend on which elements the step that regroups asks for. */
static enum vc_status load_tile(struct vc_ctx *ctx, struct vc_reshape_stage *stage, size_t level, uint64_t index)
{
    while (level == 0 && stage->n_seen < index) {
        VC_CALL(make_tile(ctx, stage, level, stage->n_seen));
    }
    return make_tile(ctx, stage, level, index);
}

enum vc_status vc_step_read(struct vc_ctx *ctx, struct vc_step_input *input, uint64_t first, size_t n, void *dst)
{
    struct vc_reshape_stage *stage = input->stage;
    struct vc_reshape_level *l = &stage->levels[input->level];
    const struct vc_desc *desc = &stage->item->chain->steps[l->step]->in;
    size_t elem_bytes = vc_dtype_size(desc->dtype);
    char *to = dst;

    VC_REFUSE_IF(elem_bytes == 0 || first > desc->n_elems || n > desc->n_elems - first, ctx, VC_E_INTERNAL,
                 "%zu elements from %llu on were asked for, there are %llu", n, (unsigned long long)first,
                 (unsigned long long)desc->n_elems);
    while (n != 0) {
        uint64_t index = tile_of(l, first);

        if (l->next != index + 1) {
            VC_CALL(load_tile(ctx, stage, input->level, index));
        }
        size_t part = (size_t)vc_min_u64(n, l->tile.first + l->tile.n_elems - first);
        memcpy(to, (const char *)l->data + (size_t)(first - l->tile.first) * elem_bytes, part * elem_bytes);
        to += part * elem_bytes;
        first += part;
        n -= part;
    }
    return VC_OK;
}

enum vc_status vc_reshape_tile(struct vc_ctx *ctx, struct vc_reshape_stage *stage, const struct vc_tile *tile,
                               void *dst)
{
    return regroup(ctx, stage, stage->n_levels - 1, tile, dst);
}

const struct vc_part_view *vc_reshape_views(const struct vc_reshape_stage *stage)
{
    return stage->levels[stage->n_levels - 1].views;
}

enum vc_status vc_reshape_finish(struct vc_ctx *ctx, struct vc_reshape_stage *stage)
{
    if (stage->n_steps == 0) {
        return VC_OK;
    }
    struct vc_reshape_level *l = &stage->levels[0];
    if (l->n_tiles != 0 && stage->next_source != l->n_tiles) {
        VC_CALL(load_tile(ctx, stage, 0, l->n_tiles - 1)); /* the tiles that no step asked for */
    }
    return vc_source_reader_finish(ctx, &stage->reader);
}
