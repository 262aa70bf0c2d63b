/* attempts.c - see attempts.h. */
#include "passes/attempts.h"

#include <string.h>

#include "core/chain/steps.h"
#include "core/values/exact_sum.h"

struct vc_attempt {
    struct vc_item item;
    struct vc_exact_sum x2, e2;
};

static struct vc_step *only_step(const struct vc_attempts *a, size_t i)
{
    return a->tries[i].item.chain->steps[0];
}

static size_t align64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

uint64_t vc_desc_all_bytes(const struct vc_desc *desc)
{
    uint64_t bytes = vc_dtype_bytes(desc->dtype, desc->n_elems);
    size_t k;

    for (k = 0; k < desc->n_parts; k++) {
        bytes += vc_dtype_bytes(desc->parts[k].dtype, desc->parts[k].n_elems);
    }
    return bytes;
}

/* ---- the items of the ways ---- */

enum vc_status vc_attempts_init(struct vc_ctx *ctx, struct vc_attempts *a)
{
    if (pthread_mutex_init(&a->mutex, NULL) != 0) {
        return vc_fail(ctx, VC_E_NOMEM, "cannot create a mutex");
    }
    a->has_mutex = true;
    return VC_OK;
}

void vc_attempts_release(struct vc_ctx *ctx, struct vc_attempts *a)
{
    vc_attempts_close(ctx, a);
    if (a->has_mutex) {
        (void)pthread_mutex_destroy(&a->mutex);
        a->has_mutex = false;
    }
}

void vc_attempts_close(struct vc_ctx *ctx, struct vc_attempts *a)
{
    size_t i;

    for (i = 0; a->tries != NULL && i < a->n; i++) {
        struct vc_attempt *attempt = &a->tries[i];

        a->results[i].sum_x2 = vc_exact_value(&attempt->x2);
        a->results[i].sum_e2 = vc_exact_value(&attempt->e2);
        if (attempt->item.set != NULL) {
            vc_steps_end(ctx, &attempt->item);
            vc_item_release(ctx, &attempt->item);
        }
    }
    vc_free(ctx, a->tries);
    a->tries = NULL;
    vc_arena_release(ctx, &a->arena);
    a->arena = (struct vc_arena){0};
}

enum vc_status vc_attempts_open(struct vc_ctx *ctx, struct vc_attempts *a, const struct vc_step *step,
                                const struct vc_item *item)
{
    enum vc_status status = VC_OK;
    size_t i;

    a->tries = vc_calloc_array(ctx, VC_TAG_MISC, a->n, sizeof *a->tries);
    VC_TRY_ALLOC(a->tries);
    a->set = (struct vc_item_set){.model = item->set->model, .arena = &a->arena, .dialect = item->set->dialect};
    for (i = 0; i < a->n; i++) {
        struct vc_attempt *attempt = &a->tries[i];

        vc_exact_clear(&attempt->x2);
        vc_exact_clear(&attempt->e2);
        vc_item_from(&a->set, item->source, &step->in, &attempt->item);
        VC_TRY(a->add(ctx, &attempt->item, a->user, a->results[i].way));
        only_step(a, i)->calibrate = false;
    }
out:
    return status; /* close frees what is there */
}

uint64_t vc_attempts_bytes(const struct vc_attempts *a, size_t i)
{
    return vc_desc_all_bytes(&only_step(a, i)->out);
}

void vc_attempts_count(struct vc_attempts *a, const struct vc_step *step, size_t i)
{
    const struct vc_step *way = only_step(a, i);
    struct vc_tile tile;
    uint64_t n_rows;
    uint64_t row_len;

    vc_desc_grid(&step->in, &n_rows, &row_len);
    vc_tile_get(n_rows, row_len, 0, &tile); /* the largest */
    a->sums_bytes = align64(2 * sizeof(double) * vc_tile_chunks(&tile));
    a->out_bytes = max_size(a->out_bytes, align64((size_t)vc_dtype_bytes(way->out.dtype, tile.n_elems)));
    a->views_bytes = max_size(a->views_bytes, align64(way->n_made * sizeof(struct vc_part_view)));
    a->own_bytes = max_size(a->own_bytes, way->scratch_bytes);
    a->state_bytes += way->state_bytes + sizeof(struct vc_attempt);
    a->scans = a->scans || way->scan;
    a->results[i].bytes = vc_attempts_bytes(a, i);
}

size_t vc_attempts_scratch(const struct vc_attempts *a)
{
    return a->out_bytes + a->sums_bytes + a->views_bytes + a->own_bytes;
}

enum vc_status vc_attempts_begin(struct vc_ctx *ctx, struct vc_attempts *a, const struct vc_step *step,
                                 const struct vc_item *item)
{
    enum vc_status status = VC_OK;
    size_t i;

    if (a->tries != NULL) {
        return VC_OK;
    }
    VC_TRY(vc_attempts_open(ctx, a, step, item));
    for (i = 0; i < a->n; i++) {
        VC_TRY(vc_steps_begin(ctx, &a->tries[i].item, 1));
    }
    return VC_OK;
out:
    vc_attempts_close(ctx, a);
    return status;
}

/* ---- tiles ---- */

/* A way that has no place for a value is out; other failures are failures. */
static enum vc_status note_refusal(struct vc_ctx *ctx, struct vc_attempts *a, size_t i, enum vc_status status)
{
    if (status != VC_E_UNSUPPORTED) {
        return status;
    }
    vc_clear_error(ctx);
    (void)pthread_mutex_lock(&a->mutex);
    a->results[i].refused = true;
    (void)pthread_mutex_unlock(&a->mutex);
    return VC_OK;
}

enum vc_status vc_attempts_scan(struct vc_ctx *ctx, struct vc_attempts *a, const struct vc_tile *tile,
                                const struct vc_tile_in *in, void *scratch)
{
    enum vc_status status = VC_OK;
    size_t i;

    for (i = 0; i < a->n; i++) {
        struct vc_step *way = only_step(a, i);

        if (way->scan) {
            status = way->ops->scan(ctx, way, &a->tries[i].item, tile, in, scratch);
            VC_TRY(note_refusal(ctx, a, i, status));
        }
    }
out:
    return status;
}

enum vc_status vc_attempts_scan_end(struct vc_ctx *ctx, struct vc_attempts *a)
{
    enum vc_status status = VC_OK;
    size_t i;

    for (i = 0; i < a->n; i++) {
        struct vc_step *way = only_step(a, i);

        if (way->scan) {
            VC_TRY(way->ops->scan_end(ctx, way, &a->tries[i].item));
        }
    }
out:
    return status;
}

/* One way on one tile; the sums of its chunks join those of the tensor. */
static enum vc_status try_tile(struct vc_ctx *ctx, struct vc_attempts *a, size_t i, const struct vc_tile *tile,
                               const struct vc_tile_in *in, char *scratch)
{
    struct vc_attempt *attempt = &a->tries[i];
    struct vc_step *way = only_step(a, i);
    struct vc_tile_stats stats = {.chunk_sums = (double *)(void *)(scratch + a->out_bytes)};
    struct vc_tile_out out = {.data = scratch,
                              .parts = (struct vc_part_view *)(void *)(scratch + a->out_bytes + a->sums_bytes),
                              .stats = &stats};
    size_t n_chunks = vc_tile_chunks(tile);
    struct vc_exact_sum x2;
    struct vc_exact_sum e2;
    enum vc_status status;
    size_t k;

    memset(out.parts, 0, a->views_bytes);
    status = way->ops->apply(ctx, way, &attempt->item, tile, in,
                             scratch + a->out_bytes + a->sums_bytes + a->views_bytes, &out);
    if (status != VC_OK) {
        return note_refusal(ctx, a, i, status);
    }
    vc_exact_clear(&x2);
    vc_exact_clear(&e2);
    for (k = 0; k < n_chunks; k++) {
        vc_exact_add(&x2, stats.chunk_sums[2 * k]);
        vc_exact_add(&e2, stats.chunk_sums[2 * k + 1]);
    }
    (void)pthread_mutex_lock(&a->mutex);
    vc_exact_merge(&attempt->x2, &x2);
    vc_exact_merge(&attempt->e2, &e2);
    (void)pthread_mutex_unlock(&a->mutex);
    return VC_OK;
}

enum vc_status vc_attempts_try(struct vc_ctx *ctx, struct vc_attempts *a, const struct vc_tile *tile,
                               const struct vc_tile_in *in, void *scratch)
{
    enum vc_status status = VC_OK;
    size_t i;

    for (i = 0; i < a->n; i++) {
        bool refused;

        (void)pthread_mutex_lock(&a->mutex);
        refused = a->results[i].refused;
        (void)pthread_mutex_unlock(&a->mutex);
        if (!refused) {
            VC_TRY(try_tile(ctx, a, i, tile, in, scratch));
        }
    }
out:
    return status;
}
