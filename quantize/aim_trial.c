/* aim_trial.c - the step that tries all ways on a tensor while its pass looks, and changes nothing.
 *
 *     w --[ survey: scans, passes tiles on ]--[ trial: looks ]
 *
 * Each way is an item of its own, as the tensor would be planned with it; the steps of these items are run on every
 * tile, and the sums of squares that they report are added exactly, so the order of the tiles does not matter. Ways
 * that need the whole tensor first (a scale per tensor) get it from the survey, which is left out where none does.
 * The items live from begin to end of the look at their tensor, so memory goes with the number of threads. */
#include "quantize/aim.h"

#include <string.h>

#include "core/base/checked.h"
#include "core/base/exact_sum.h"
#include "core/chain/steps.h"
#include "passes/nonfinite.h"

struct attempt {
    struct vc_item item;
    struct vc_exact_sum x2, e2;
};

struct trial {
    struct vc_policy policy; /* first: vc_policy_... find it there */
    const struct vc_aim *aim;
    enum vc_dtype weights;
    uint64_t bytes_kept;
    size_t out_bytes, sums_bytes, views_bytes; /* of the scratch; a way's own follows */
    pthread_mutex_t mutex;
    bool has_mutex;
    bool dirty;               /* values that are not finite, and the policy is not to replace them */
    struct vc_arena arena;    /* from begin to end */
    struct attempt *attempts; /* from begin to end; one per result */
    size_t n;
    struct vc_aim_result *results; /* in the job's arena */
};

static struct vc_step *only_step(const struct attempt *attempt)
{
    return attempt->item.steps[0];
}

/* ---- the items of the ways ---- */

static void close_attempts(struct vc_ctx *ctx, struct trial *t)
{
    size_t i;

    for (i = 0; t->attempts != NULL && i < t->n; i++) {
        struct attempt *attempt = &t->attempts[i];

        t->results[i].sum_x2 = vc_exact_value(&attempt->x2);
        t->results[i].sum_e2 = vc_exact_value(&attempt->e2);
        if (attempt->item.arena != NULL) {
            vc_steps_end(ctx, &attempt->item);
            vc_item_release(ctx, &attempt->item);
        }
    }
    vc_free(ctx, t->attempts);
    t->attempts = NULL;
    vc_arena_release(ctx, &t->arena);
    t->arena = (struct vc_arena){0};
}

/* Plans every way on an item that begins as the trial's input does. */
static enum vc_status open_attempts(struct vc_ctx *ctx, struct trial *t, const struct vc_step *step,
                                    const struct vc_item *item)
{
    enum vc_status status = VC_OK;
    size_t i;

    t->attempts = vc_calloc_array(ctx, VC_TAG_MISC, t->n, sizeof *t->attempts);
    VC_TRY_ALLOC(t->attempts);
    for (i = 0; i < t->n; i++) {
        const struct vc_aim_way *way = &t->aim->ways[t->results[i].way];
        struct attempt *attempt = &t->attempts[i];

        vc_exact_clear(&attempt->x2);
        vc_exact_clear(&attempt->e2);
        attempt->item = vc_item_make(item->model, item->source, &t->arena);
        attempt->item.dialect = item->dialect;
        attempt->item.first = step->in;
        attempt->item.desc = step->in;
        VC_TRY(way->row->add(ctx, &attempt->item, &way->options, t->weights));
        only_step(attempt)->look = false;
    }
out:
    return status; /* close frees what is there */
}

static enum vc_status trial_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct trial *t = step->state;
    enum vc_status status = VC_OK;
    size_t i;

    if (t->attempts != NULL) {
        return VC_OK; /* the survey did */
    }
    VC_TRY(open_attempts(ctx, t, step, item));
    for (i = 0; i < t->n; i++) {
        VC_TRY(vc_steps_begin(ctx, &t->attempts[i].item, 1));
    }
    return VC_OK;
out:
    close_attempts(ctx, t);
    return status;
}

static void trial_end(struct vc_ctx *ctx, struct vc_step *step)
{
    close_attempts(ctx, step->state);
}

/* A way that has no place for a value is out; other failures are failures. */
static enum vc_status note_refusal(struct vc_ctx *ctx, struct trial *t, size_t i, enum vc_status status)
{
    if (status != VC_E_UNSUPPORTED) {
        return status;
    }
    vc_clear_error(ctx);
    (void)pthread_mutex_lock(&t->mutex);
    t->results[i].refused = true;
    (void)pthread_mutex_unlock(&t->mutex);
    return VC_OK;
}

/* ---- the survey ---- */

static enum vc_status survey_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct trial *t = step->state;
    enum vc_status status = VC_OK;
    size_t i;

    (void)item;
    for (i = 0; i < t->n; i++) {
        struct vc_step *way = only_step(&t->attempts[i]);

        if (way->scan) {
            status = way->ops->scan(ctx, way, &t->attempts[i].item, tile, in, scratch);
            VC_TRY(note_refusal(ctx, t, i, status));
        }
    }
out:
    return status;
}

static enum vc_status survey_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct trial *t = step->state;
    enum vc_status status = VC_OK;
    size_t i;

    (void)item;
    for (i = 0; i < t->n; i++) {
        struct vc_step *way = only_step(&t->attempts[i]);

        if (way->scan) {
            VC_TRY(way->ops->scan_end(ctx, way, &t->attempts[i].item));
        }
    }
out:
    return status;
}

static enum vc_status survey_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                   const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                   struct vc_tile_out *out)
{
    (void)ctx;
    (void)item;
    (void)scratch;
    memcpy(out->data, in->data, (size_t)vc_dtype_bytes(step->in.dtype, tile->n_elems));
    return VC_OK;
}

static const struct vc_step_ops survey_ops = {
    .begin = trial_begin, .scan = survey_scan, .scan_end = survey_scan_end, .apply = survey_apply, .end = trial_end};

/* ---- the trial ---- */

/* One way on one tile; the sums of its chunks join those of the tensor. */
static enum vc_status try_tile(struct vc_ctx *ctx, struct trial *t, size_t i, const struct vc_tile *tile,
                               const struct vc_tile_in *in, char *scratch)
{
    struct attempt *attempt = &t->attempts[i];
    struct vc_step *way = only_step(attempt);
    struct vc_tile_stats stats = {.chunk_sums = (double *)(void *)(scratch + t->out_bytes)};
    struct vc_tile_out out = {.data = scratch,
                              .parts = (struct vc_part_view *)(void *)(scratch + t->out_bytes + t->sums_bytes),
                              .stats = &stats};
    size_t n_chunks = vc_tile_chunks(tile);
    struct vc_exact_sum x2;
    struct vc_exact_sum e2;
    enum vc_status status;
    size_t k;

    memset(out.parts, 0, t->views_bytes);
    status = way->ops->apply(ctx, way, &attempt->item, tile, in,
                             scratch + t->out_bytes + t->sums_bytes + t->views_bytes, &out);
    if (status != VC_OK) {
        return note_refusal(ctx, t, i, status);
    }
    vc_exact_clear(&x2);
    vc_exact_clear(&e2);
    for (k = 0; k < n_chunks; k++) {
        vc_exact_add(&x2, stats.chunk_sums[2 * k]);
        vc_exact_add(&e2, stats.chunk_sums[2 * k + 1]);
    }
    (void)pthread_mutex_lock(&t->mutex);
    vc_exact_merge(&attempt->x2, &x2);
    vc_exact_merge(&attempt->e2, &e2);
    (void)pthread_mutex_unlock(&t->mutex);
    return VC_OK;
}

static enum vc_status trial_look(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                 const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct trial *t = step->state;
    enum vc_status status = VC_OK;
    size_t i;

    if (t->policy.nonfinite != VC_NONFINITE_ZERO && vc_has_nonfinite(step->in.dtype, in->data, tile->n_elems)) {
        (void)pthread_mutex_lock(&t->mutex);
        t->dirty = true;
        (void)pthread_mutex_unlock(&t->mutex);
        return vc_policy_look(ctx, step, item, tile, in, scratch);
    }
    for (i = 0; i < t->n; i++) {
        bool out_of_it;

        (void)pthread_mutex_lock(&t->mutex);
        out_of_it = t->dirty || t->results[i].refused;
        (void)pthread_mutex_unlock(&t->mutex);
        if (!out_of_it) {
            VC_TRY(try_tile(ctx, t, i, tile, in, scratch));
        }
    }
out:
    return status;
}

static void trial_forget(struct vc_ctx *ctx, struct vc_step *step)
{
    struct trial *t = step->state;

    close_attempts(ctx, t);
    if (t->has_mutex) {
        (void)pthread_mutex_destroy(&t->mutex);
    }
    vc_policy_forget(ctx, step);
}

static const struct vc_step_ops trial_ops = {
    .look = trial_look, .explain = vc_policy_explain, .begin = trial_begin, .end = trial_end, .forget = trial_forget};

/* ---- planning ---- */

static uint64_t bytes_of(const struct vc_desc *desc)
{
    uint64_t bytes = vc_dtype_bytes(desc->dtype, desc->n_elems);
    size_t k;

    for (k = 0; k < desc->n_parts; k++) {
        bytes += vc_dtype_bytes(desc->parts[k].dtype, desc->parts[k].n_elems);
    }
    return bytes;
}

static size_t align64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The ways that may be tried on the item. */
static void choose_ways(struct trial *t, const struct vc_item *item, bool codes, bool included)
{
    const struct vc_dialect_tensor tensor = vc_scheme_tensor(item, t->weights, included);
    size_t i;

    t->n = 0;
    for (i = 0; i < t->aim->n_ways; i++) {
        const struct vc_aim_way *way = &t->aim->ways[i];
        const struct vc_dialect_request request = vc_scheme_request(way->row, &way->options, item->model);
        bool fits = way->row->codes ? codes && vc_dialect_reason(item->dialect, &request, &tensor) == NULL
                                    : !vc_dialect_keeps_type(item->dialect, &tensor);

        if (fits) {
            t->results[t->n++] = (struct vc_aim_result){.way = (unsigned)i};
        }
    }
}

/* Sizes of the results, of the scratch and of the state; ways that make the tensor no smaller are left out. *scans: one
 * of the others needs the survey. */
static enum vc_status measure_ways(struct vc_ctx *ctx, struct trial *t, struct vc_step *step,
                                   const struct vc_item *item, bool *scans)
{
    struct vc_tile tile;
    uint64_t n_rows;
    uint64_t row_len;
    size_t scratch = 0;
    size_t n_views = 0;
    size_t n = 0;
    enum vc_status status;
    size_t i;

    *scans = false;
    vc_desc_grid(&step->in, &n_rows, &row_len);
    vc_tile_get(n_rows, row_len, 0, &tile); /* the largest */
    t->sums_bytes = align64(2 * sizeof(double) * vc_tile_chunks(&tile));
    VC_TRY(open_attempts(ctx, t, step, item));
    for (i = 0; i < t->n; i++) {
        const struct vc_step *way = only_step(&t->attempts[i]);
        struct vc_aim_result result = t->results[i];

        result.bytes = bytes_of(&way->out);
        if (result.bytes >= t->bytes_kept) {
            continue;
        }
        scratch = max_size(scratch, way->scratch_bytes);
        n_views = max_size(n_views, way->n_made);
        t->out_bytes = max_size(t->out_bytes, align64((size_t)vc_dtype_bytes(way->out.dtype, tile.n_elems)));
        step->state_bytes += way->state_bytes + sizeof(struct attempt);
        *scans = *scans || way->scan;
        t->results[n++] = result;
    }
    t->views_bytes = align64(n_views * sizeof(struct vc_part_view));
    step->scratch_bytes = t->out_bytes + t->sums_bytes + t->views_bytes + scratch;
out:
    close_attempts(ctx, t);
    t->n = n;
    return status;
}

/* Takes the trial's step back, puts the survey in its place, and the trial behind that. */
static enum vc_status add_survey(struct vc_ctx *ctx, struct vc_item *item)
{
    struct vc_step *trial = item->steps[item->n_steps - 1];
    struct vc_step *survey = vc_item_add_step(ctx, item, &survey_ops);

    if (survey == NULL) {
        return VC_E_NOMEM;
    }
    survey->state = trial->state;
    survey->scheme = "survey";
    survey->scan = true;
    survey->scratch_bytes = trial->scratch_bytes;
    item->steps[item->n_steps - 2] = survey;
    item->steps[item->n_steps - 1] = trial;
    vc_item_replan(item);
    return VC_OK;
}

static uint64_t bytes_before(const struct vc_item *item)
{
    return bytes_of(item->n_steps == item->pass_first ? &item->desc : &item->steps[item->pass_first]->in);
}

enum vc_status vc_trial_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_aim *aim, bool codes,
                            bool included)
{
    struct trial *t = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *t);
    struct vc_step *step;
    bool scans = false;
    enum vc_status status = VC_OK;

    if (t == NULL) {
        return VC_E_NOMEM;
    }
    t->results = vc_arena_alloc(ctx, item->arena, aim->n_ways * sizeof *t->results);
    if (t->results == NULL) {
        vc_free(ctx, t);
        return VC_E_NOMEM;
    }
    t->aim = aim;
    t->weights = item->n_steps == item->pass_first ? vc_desc_weight_dtype(&item->desc)
                                                   : vc_desc_weight_dtype(&item->steps[item->pass_first]->in);
    t->bytes_kept = bytes_before(item);
    t->policy = (struct vc_policy){.nonfinite = aim->ways[0].options.nonfinite,
                                   .room = VC_DTYPE_F32,
                                   .codes = true,
                                   .advice = VC_ADVICE_NONFINITE};
    if (vc_policy_add_step(ctx, item, &trial_ops, &t->policy, &step) != VC_OK) {
        return ctx->status;
    }
    if (pthread_mutex_init(&t->mutex, NULL) != 0) {
        return vc_fail(ctx, VC_E_NOMEM, "cannot create a mutex");
    }
    t->has_mutex = true;
    step->scheme = "trial";
    step->look = true;
    choose_ways(t, item, codes, included);
    VC_TRY(measure_ways(ctx, t, step, item, &scans));
    if (t->n == 0) {
        vc_item_undo(ctx, item);
        return item->reason[0] != '\0' ? VC_OK : vc_item_keep(ctx, item, "no way makes it smaller");
    }
    VC_TRY(scans ? add_survey(ctx, item) : VC_OK);
out:
    return status;
}

struct vc_step *vc_trial_of(const struct vc_item *item)
{
    struct vc_step *last = item->n_steps > item->pass_first ? item->steps[item->n_steps - 1] : NULL;

    return last != NULL && last->ops == &trial_ops ? last : NULL;
}

const struct vc_aim_result *vc_trial_results(const struct vc_step *trial, size_t *n, uint64_t *bytes_kept)
{
    const struct trial *t = trial->state;

    *n = t->n;
    *bytes_kept = t->bytes_kept;
    return t->results;
}
