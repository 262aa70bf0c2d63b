/* steps.c - see steps.h. The buffers of a worker are one allocation, which vc_buffers_alloc divides. */
#include "core/chain/steps.h"

const struct vc_desc *vc_item_desc(const struct vc_item *item, size_t k)
{
    return k == 0 ? item->first : &item->chain->steps[k - 1]->out;
}

uint64_t vc_desc_bytes(const struct vc_item *item, const struct vc_desc *desc, uint64_t n_elems)
{
    return desc == item->first ? vc_tensor_bytes(&item->set->model->tensors[item->source], n_elems)
                               : vc_dtype_bytes(desc->dtype, n_elems);
}

/* ---- room ---- */

static size_t tile_elems(const struct vc_desc *desc)
{
    return (size_t)vc_min_u64(desc->n_elems, VC_TILE_ELEMS);
}

static size_t tile_chunks(const struct vc_desc *desc)
{
    struct vc_tile tile;

    vc_desc_first_tile(desc, &tile);
    return vc_tile_chunks(&tile);
}

static void add_steps(struct vc_buffer_sizes *sizes, struct vc_item *item)
{
    size_t n_views = 0;
    size_t scratch = 0;
    size_t sums = 0;

    for (size_t k = 0; k < item->chain->n_steps; k++) {
        struct vc_step *step = item->chain->steps[k];

        step->first_view = n_views;
        n_views += step->n_made;
        scratch += VC_POOL_ALIGNED(step->scratch_bytes);
        sums += step->lossy ? tile_chunks(&step->out) : 0;
        sizes->out = vc_max_size(sizes->out, (size_t)vc_dtype_bytes(step->out.dtype, tile_elems(&step->out)));
        sizes->n_in_views = vc_max_size(sizes->n_in_views, step->in.n_parts);
        if (step->regroups) { /* the stage writes its result to where the steps after it find their input */
            sizes->in = vc_max_size(sizes->in, (size_t)vc_dtype_bytes(step->out.dtype, tile_elems(&step->out)));
        }
    }
    sizes->n_in_views = vc_max_size(sizes->n_in_views, item->desc->n_parts);
    sizes->scratch = vc_max_size(sizes->scratch, scratch);
    sizes->sums = vc_max_size(sizes->sums, 2 * sizeof(double) * sums);
    sizes->n_views = vc_max_size(sizes->n_views, n_views);
    sizes->n_figures = vc_max_size(sizes->n_figures, item->chain->n_steps);
}

void vc_buffer_sizes_add(struct vc_buffer_sizes *sizes, struct vc_item *item)
{
    add_steps(sizes, item);
    sizes->in = vc_max_size(sizes->in, item->chain->n_steps == 0 || item->first->n_elems == 0 ? VC_COPY_BYTES : 0);
    if (item->first->n_elems != 0) {
        sizes->in = vc_max_size(sizes->in, (size_t)vc_desc_bytes(item, item->first, tile_elems(item->first)));
    }
}

static size_t views_bytes(size_t n)
{
    return VC_POOL_ALIGNED(n * sizeof(struct vc_part_view));
}

size_t vc_buffer_sizes_total(const struct vc_buffer_sizes *sizes)
{
    return VC_POOL_ALIGNED(sizes->in) + 2 * VC_POOL_ALIGNED(sizes->out) + VC_POOL_ALIGNED(sizes->scratch) +
           VC_POOL_ALIGNED(sizes->sums) + views_bytes(sizes->n_views) + views_bytes(sizes->n_in_views) +
           VC_POOL_ALIGNED(sizes->n_figures * sizeof(struct vc_figures));
}

static void *carve(char **p, size_t n_bytes)
{
    void *at = *p;

    *p += VC_POOL_ALIGNED(n_bytes);
    return at;
}

enum vc_status vc_buffers_alloc(struct vc_ctx *ctx, const struct vc_buffer_sizes *sizes, struct vc_buffers *buffers)
{
    char *p = vc_alloc(ctx, VC_TAG_TILES, vc_buffer_sizes_total(sizes));

    *buffers = (struct vc_buffers){.block = p};
    VC_CALL_ALLOC(p);
    buffers->in = carve(&p, sizes->in);
    buffers->out[0] = carve(&p, sizes->out);
    buffers->out[1] = carve(&p, sizes->out);
    buffers->scratch = carve(&p, sizes->scratch);
    buffers->sums = carve(&p, sizes->sums);
    buffers->views = carve(&p, sizes->n_views * sizeof(struct vc_part_view));
    buffers->in_views = carve(&p, sizes->n_in_views * sizeof(struct vc_part_view));
    buffers->figures = carve(&p, sizes->n_figures * sizeof(struct vc_figures));
    return VC_OK;
}

void vc_buffers_release(struct vc_ctx *ctx, struct vc_buffers *buffers)
{
    vc_free(ctx, buffers->block);
    *buffers = (struct vc_buffers){0};
}

/* ---- one tile ---- */

static bool is_own(const struct vc_item *item, const struct vc_step *maker)
{
    size_t k = 0;

    while (k < item->chain->n_steps && item->chain->steps[k] != maker) {
        k++;
    }
    return k < item->chain->n_steps;
}

struct vc_part_view vc_steps_view(const struct vc_item *item, const struct vc_desc *desc, size_t part,
                                  const struct vc_tile_in *in, const struct vc_buffers *buffers)
{
    const struct vc_part_desc *p = &desc->parts[part];

    if (p->maker != NULL && is_own(item, p->maker)) {
        return buffers->views[p->maker->first_view + p->index];
    }
    for (size_t i = 0; in->parts != NULL && i < item->first->n_parts; i++) { /* came with the item's input */
        if (item->first->parts[i].maker == p->maker && item->first->parts[i].index == p->index) {
            return in->parts[i];
        }
    }
    return (struct vc_part_view){0};
}

static const struct vc_part_view *views_for(const struct vc_item *item, const struct vc_step *step,
                                            const struct vc_tile_in *in, struct vc_buffers *buffers)
{
    for (size_t i = 0; i < step->in.n_parts; i++) {
        buffers->in_views[i] = vc_steps_view(item, &step->in, i, in, buffers);
    }
    return buffers->in_views;
}

void *vc_steps_scratch(const struct vc_item *item, size_t k, const struct vc_buffers *buffers)
{
    size_t at = 0;

    while (k-- > 0) {
        at += VC_POOL_ALIGNED(item->chain->steps[k]->scratch_bytes);
    }
    return buffers->scratch + at;
}

/* The sums of step k; every lossy step has its own until the tile is done. */
static double *sums_of(const struct vc_item *item, size_t from, size_t k, size_t n_chunks,
                       const struct vc_buffers *buffers)
{
    double *at = buffers->sums;

    for (; from < k; from++) {
        at += item->chain->steps[from]->lossy ? 2 * n_chunks : 0;
    }
    return at;
}

enum vc_status vc_steps_apply(struct vc_ctx *ctx, struct vc_item *item, size_t from, size_t to,
                              const struct vc_tile *tile, const struct vc_tile_in *in, struct vc_buffers *buffers,
                              struct vc_tile_result *result)
{
    size_t n_chunks = vc_tile_chunks(tile);

    result->data = in->data;
    for (size_t k = from; k < to; k++) {
        struct vc_step *step = item->chain->steps[k];
        struct vc_figures *figures = &buffers->figures[k];
        struct vc_tile_in step_in = {.data = result->data, .parts = views_for(item, step, in, buffers)};
        struct vc_tile_out out = {.data = buffers->out[k % 2], .parts = buffers->views + step->first_view};

        *figures = (struct vc_figures){.measured = step->lossy,
                                       .stats = {.chunk_sums = sums_of(item, from, k, n_chunks, buffers)}};
        out.stats = &figures->stats;
        if (step->n_made != 0) {
            memset(out.parts, 0, step->n_made * sizeof *out.parts);
        }
        if (step->ops->apply(ctx, step, item, tile, &step_in, vc_steps_scratch(item, k, buffers), &out) != VC_OK) {
            return vc_context(ctx, "%s", item->set->model->tensors[item->source].name);
        }
        result->data = out.data;
        figures->nonfinite = out.nonfinite;
    }
    return VC_OK;
}

/* ---- begin, end ---- */

enum vc_status vc_steps_begin(struct vc_ctx *ctx, struct vc_item *item, size_t n_steps)
{
    for (size_t i = 0; i < n_steps; i++) {
        struct vc_step *step = item->chain->steps[i];

        step->begun = true; /* end also follows a begin that failed */
        if (step->ops->begin != NULL && step->ops->begin(ctx, step, item) != VC_OK) {
            vc_steps_end(ctx, item);
            return vc_context(ctx, "%s", item->set->model->tensors[item->source].name);
        }
    }
    return VC_OK;
}

void vc_steps_end(struct vc_ctx *ctx, struct vc_item *item)
{
    for (size_t i = 0; i < item->chain->n_steps; i++) {
        struct vc_step *step = item->chain->steps[i];

        if (step->begun && step->ops->end != NULL) {
            step->ops->end(ctx, step);
        }
        step->begun = false;
    }
}
