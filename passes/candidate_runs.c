/* candidate_runs.c - see candidate_runs.h.
 *
 * Scratch of one candidate on one tile, one part behind the other, each the largest of all candidates:
 *
 *     out        what the step writes, in its own type
 *     sums       two doubles for each chunk: x^2 and e^2
 *     views      the parts that the step makes, such as scales
 *     own        the step's own scratch
 */
#include "passes/candidate_runs.h"

#include "core/chain/steps.h"
#include "core/values/exact_sum.h"

/* One candidate at work: an item with its only step, and exact sums over the tiles that it has seen. */
struct vc_candidate_run {
    struct vc_item item;
    struct vc_exact_sum x2, e2;
    uint64_t n_seen;
};

static struct vc_step *only_step(const struct vc_candidate_runs *r, size_t i)
{
    return r->runs[i].item.chain->steps[0];
}

/* Bytes of a tensor with the parts that belong to it (scales, minima). */
uint64_t vc_desc_all_bytes(const struct vc_desc *desc)
{
    uint64_t bytes = vc_dtype_bytes(desc->dtype, desc->n_elems);

    for (size_t k = 0; k < desc->n_parts; k++) {
        bytes += vc_dtype_bytes(desc->parts[k].dtype, desc->parts[k].n_elems);
    }
    return bytes;
}

/* ---- the items of the candidates ---- */

enum vc_status vc_candidate_runs_init(struct vc_ctx *ctx, struct vc_candidate_runs *r)
{
    VC_REFUSE_IF(pthread_mutex_init(&r->mutex, NULL) != 0, ctx, VC_E_NOMEM, "cannot create a mutex");
    r->has_mutex = true;
    return VC_OK;
}

void vc_candidate_runs_release(struct vc_ctx *ctx, struct vc_candidate_runs *r)
{
    vc_candidate_runs_close(ctx, r);
    if (r->has_mutex) {
        (void)pthread_mutex_destroy(&r->mutex);
        r->has_mutex = false;
    }
}

/* What the sum over the elements that were seen says of all. */
static double of_all(const struct vc_candidate_runs *r, const struct vc_candidate_run *run, double sum)
{
    return run->n_seen == 0 || run->n_seen == r->n_elems ? sum : sum * ((double)r->n_elems / (double)run->n_seen);
}

/* Results get their sums here. May be called again, and after a failure in the middle. */
void vc_candidate_runs_close(struct vc_ctx *ctx, struct vc_candidate_runs *r)
{
    for (size_t i = 0; r->runs != NULL && i < r->n; i++) {
        struct vc_candidate_run *run = &r->runs[i];

        r->results[i].sum_x2 = of_all(r, run, vc_exact_value(&run->x2));
        r->results[i].sum_e2 = of_all(r, run, vc_exact_value(&run->e2));
        if (run->item.set != NULL) {
            vc_steps_end(ctx, &run->item);
            vc_item_release(ctx, &run->item);
        }
    }
    vc_free(ctx, vc_give(&r->runs));
    vc_arena_release(ctx, &r->arena);
    r->arena = (struct vc_arena){0};
}

/* An item for each candidate, as if the values came straight from a file. Steps do not calibrate: what a
 * policy says of values is the caller's to decide. */
enum vc_status vc_candidate_runs_open(struct vc_ctx *ctx, struct vc_candidate_runs *r, const struct vc_step *step,
                                      const struct vc_item *item)
{
    enum vc_status status = VC_OK;
    uint64_t n_rows, row_len;

    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, r->runs, r->n));
    r->n_elems = step->in.n_elems;
    vc_desc_grid(&step->in, &n_rows, &row_len);
    r->stride = vc_ceil_div_u64(vc_tile_count(n_rows, row_len), VC_CANDIDATE_TILES);
    r->set = (struct vc_item_set){.model = item->set->model, .arena = &r->arena, .dialect = item->set->dialect};
    for (size_t i = 0; i < r->n; i++) {
        struct vc_candidate_run *run = &r->runs[i];

        vc_exact_clear(&run->x2);
        vc_exact_clear(&run->e2);
        vc_item_from(&r->set, item->source, &step->in, &run->item);
        VC_TRY(r->add(ctx, &run->item, r->user, r->results[i].candidate));
        only_step(r, i)->calibrate = false;
    }
out:
    return status; /* close frees what is there */
}

uint64_t vc_candidate_runs_bytes(const struct vc_candidate_runs *r, size_t i)
{
    return vc_desc_all_bytes(&only_step(r, i)->out);
}

/* Grows the scratch to what this candidate needs. */
void vc_candidate_runs_count(struct vc_candidate_runs *r, const struct vc_step *step, size_t i)
{
    const struct vc_step *candidate = only_step(r, i);
    struct vc_tile tile;

    vc_desc_first_tile(&step->in, &tile);
    r->sums_bytes = VC_POOL_ALIGNED(2 * sizeof(double) * vc_tile_chunks(&tile));
    r->out_bytes =
        vc_max_size(r->out_bytes, VC_POOL_ALIGNED((size_t)vc_dtype_bytes(candidate->out.dtype, tile.n_elems)));
    r->views_bytes = vc_max_size(r->views_bytes, VC_POOL_ALIGNED(candidate->n_made * sizeof(struct vc_part_view)));
    r->own_bytes = vc_max_size(r->own_bytes, candidate->scratch_bytes);
    r->state_bytes += candidate->state_bytes + sizeof(struct vc_candidate_run);
    r->scans = r->scans || candidate->scan;
    r->results[i].bytes = vc_candidate_runs_bytes(r, i);
}

size_t vc_candidate_runs_scratch(const struct vc_candidate_runs *r)
{
    return r->out_bytes + r->sums_bytes + r->views_bytes + r->own_bytes;
}

/* Does nothing when the runs are open already, as with two steps that share them. */
enum vc_status vc_candidate_runs_begin(struct vc_ctx *ctx, struct vc_candidate_runs *r, const struct vc_step *step,
                                       const struct vc_item *item)
{
    enum vc_status status = VC_OK;

    if (r->runs != NULL) {
        return VC_OK;
    }
    VC_TRY(vc_candidate_runs_open(ctx, r, step, item));
    for (size_t i = 0; i < r->n; i++) {
        VC_TRY(vc_steps_begin(ctx, &r->runs[i].item, 1));
    }
    return VC_OK;
out:
    vc_candidate_runs_close(ctx, r);
    return status;
}

/* ---- tiles ---- */

/* A candidate that has no place for a value is out; other failures are failures. */
static enum vc_status note_refusal(struct vc_ctx *ctx, struct vc_candidate_runs *r, size_t i, enum vc_status status)
{
    if (status != VC_E_UNSUPPORTED) {
        return status;
    }
    vc_clear_error(ctx);
    (void)pthread_mutex_lock(&r->mutex);
    r->results[i].refused = true;
    (void)pthread_mutex_unlock(&r->mutex);
    return VC_OK;
}

/* A tile for every candidate that must see the whole tensor first. */
enum vc_status vc_candidate_runs_scan(struct vc_ctx *ctx, struct vc_candidate_runs *r, const struct vc_tile *tile,
                                      const struct vc_tile_in *in, void *scratch)
{
    enum vc_status status = VC_OK;

    for (size_t i = 0; i < r->n; i++) {
        struct vc_step *candidate = only_step(r, i);

        if (candidate->scan) {
            status = candidate->ops->scan(ctx, candidate, &r->runs[i].item, tile, in, scratch);
            VC_CALL(note_refusal(ctx, r, i, status));
        }
    }
    return VC_OK;
}

/* Ends the scan of each candidate that asked for one; afterwards all of them can be applied to tiles. */
enum vc_status vc_candidate_runs_scan_end(struct vc_ctx *ctx, struct vc_candidate_runs *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct vc_step *candidate = only_step(r, i);

        if (candidate->scan) {
            VC_CALL(candidate->ops->scan_end(ctx, candidate, &r->runs[i].item));
        }
    }
    return VC_OK;
}

/* One candidate on one tile; the sums of its chunks join those of the tensor. */
static enum vc_status try_tile(struct vc_ctx *ctx, struct vc_candidate_runs *r, size_t i, const struct vc_tile *tile,
                               const struct vc_tile_in *in, char *scratch)
{
    struct vc_candidate_run *run = &r->runs[i];
    struct vc_step *candidate = only_step(r, i);
    struct vc_tile_stats stats = {.chunk_sums = (double *)(void *)(scratch + r->out_bytes)};
    struct vc_tile_out out = {.data = scratch,
                              .parts = (struct vc_part_view *)(void *)(scratch + r->out_bytes + r->sums_bytes),
                              .stats = &stats};
    size_t n_chunks = vc_tile_chunks(tile);
    struct vc_exact_sum x2;
    struct vc_exact_sum e2;

    memset(out.parts, 0, r->views_bytes);
    enum vc_status status = candidate->ops->apply(ctx, candidate, &run->item, tile, in,
                                                  scratch + r->out_bytes + r->sums_bytes + r->views_bytes, &out);
    if (status != VC_OK) {
        return note_refusal(ctx, r, i, status);
    }
    vc_exact_clear(&x2);
    vc_exact_clear(&e2);
    for (size_t k = 0; k < n_chunks; k++) {
        vc_exact_add(&x2, stats.chunk_sums[2 * k]);
        vc_exact_add(&e2, stats.chunk_sums[2 * k + 1]);
    }
    (void)pthread_mutex_lock(&r->mutex);
    vc_exact_merge(&run->x2, &x2);
    vc_exact_merge(&run->e2, &e2);
    run->n_seen += tile->n_elems;
    (void)pthread_mutex_unlock(&r->mutex);
    return VC_OK;
}

/* A tile for every candidate that is not out; slow ones get every stride-th tile alone. */
enum vc_status vc_candidate_runs_apply(struct vc_ctx *ctx, struct vc_candidate_runs *r, const struct vc_tile *tile,
                                       const struct vc_tile_in *in, void *scratch)
{
    for (size_t i = 0; i < r->n; i++) {
        bool refused;

        (void)pthread_mutex_lock(&r->mutex);
        refused = r->results[i].refused;
        (void)pthread_mutex_unlock(&r->mutex);
        if (!refused && (!r->results[i].sampled || tile->index % r->stride == 0)) {
            VC_CALL(try_tile(ctx, r, i, tile, in, scratch));
        }
    }
    return VC_OK;
}

/* Whether an error was estimated from some tiles only. */
bool vc_candidate_runs_sampled(const struct vc_candidate_runs *r)
{
    size_t i = 0;

    while (i < r->n && !r->results[i].sampled) {
        i++;
    }
    return i < r->n && r->stride > 1;
}
