/* aim_trial.c - the step that tries all ways on a tensor while its pass calibrates, and changes nothing.
 *
 *     w --[ survey: scans, passes tiles on ]--[ trial: calibrates ]
 *
 * passes/attempts.c runs the ways. Those that need the whole tensor first (a scale per tensor) get it from the survey,
 * which is left out where none does. */
#include "quantize/aim.h"

#include <string.h>

#include "core/base/checked.h"
#include "passes/nonfinite.h"

struct trial {
    struct vc_policy policy; /* first: vc_policy_... find it there */
    const struct vc_aim *aim;
    enum vc_dtype weights;
    uint64_t bytes_kept;
    pthread_mutex_t mutex;
    bool has_mutex;
    bool dirty;                  /* values that are not finite, and the policy is not to replace them */
    struct vc_attempts attempts; /* results in the job's arena */
};

/* A vc_attempt_fn. */
static enum vc_status add_way(struct vc_ctx *ctx, struct vc_item *item, const void *user, unsigned number)
{
    const struct trial *t = user;
    const struct vc_aim_way *way = &t->aim->ways[number];

    return way->row->add(ctx, item, &way->options, t->weights);
}

static enum vc_status trial_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct trial *t = step->state;

    return vc_attempts_begin(ctx, &t->attempts, step, item);
}

static void trial_end(struct vc_ctx *ctx, struct vc_step *step)
{
    vc_attempts_close(ctx, &((struct trial *)step->state)->attempts);
}

/* ---- the survey ---- */

static enum vc_status survey_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    (void)item;
    return vc_attempts_scan(ctx, &((struct trial *)step->state)->attempts, tile, in, scratch);
}

static enum vc_status survey_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    (void)item;
    return vc_attempts_scan_end(ctx, &((struct trial *)step->state)->attempts);
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

static enum vc_status trial_calibrate(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                      const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct trial *t = step->state;
    bool dirty = t->policy.nonfinite != VC_NONFINITE_ZERO && vc_has_nonfinite(step->in.dtype, in->data, tile->n_elems);
    bool out_of_it;

    (void)pthread_mutex_lock(&t->mutex);
    t->dirty |= dirty;
    out_of_it = t->dirty;
    (void)pthread_mutex_unlock(&t->mutex);
    if (dirty) {
        return vc_policy_calibrate(ctx, step, item, tile, in, scratch);
    }
    return out_of_it ? VC_OK : vc_attempts_try(ctx, &t->attempts, tile, in, scratch);
}

static void trial_forget(struct vc_ctx *ctx, struct vc_step *step)
{
    struct trial *t = step->state;

    vc_attempts_release(ctx, &t->attempts);
    if (t->has_mutex) {
        (void)pthread_mutex_destroy(&t->mutex);
    }
    vc_policy_forget(ctx, step);
}

static const struct vc_step_ops trial_ops = {.calibrate = trial_calibrate,
                                             .explain = vc_policy_explain,
                                             .begin = trial_begin,
                                             .end = trial_end,
                                             .forget = trial_forget};

/* ---- planning ---- */

/* The ways that may be tried on the item. */
static void choose_ways(struct trial *t, const struct vc_item *item, bool codes, bool included)
{
    const struct vc_dialect_tensor tensor = vc_scheme_tensor(item, t->weights, included);
    struct vc_attempts *a = &t->attempts;
    size_t i;

    a->n = 0;
    for (i = 0; i < t->aim->n_ways; i++) {
        const struct vc_aim_way *way = &t->aim->ways[i];
        const struct vc_dialect_request request = vc_scheme_request_for(way->row, &way->options, item);
        bool fits = way->row->codes ? codes && vc_dialect_reason(item->set->dialect, &request, &tensor) == NULL
                                    : !vc_dialect_keeps_type(item->set->dialect, &tensor);

        if (fits) {
            a->results[a->n++] = (struct vc_attempt_result){.way = (unsigned)i};
        }
    }
}

/* What the ways need; those that make the tensor no smaller are left out. */
static enum vc_status measure_ways(struct vc_ctx *ctx, struct trial *t, struct vc_step *step,
                                   const struct vc_item *item)
{
    struct vc_attempts *a = &t->attempts;
    bool smaller[VC_AIM_WAYS] = {false};
    size_t n = 0;
    enum vc_status status;
    size_t i;

    VC_TRY(vc_attempts_open(ctx, a, step, item));
    for (i = 0; i < a->n; i++) {
        smaller[i] = vc_attempts_bytes(a, i) < t->bytes_kept;
        if (smaller[i]) {
            vc_attempts_count(a, step, i);
        }
    }
    step->state_bytes += a->state_bytes;
    step->scratch_bytes = vc_attempts_scratch(a);
out:
    vc_attempts_close(ctx, a);
    for (i = 0; status == VC_OK && i < a->n; i++) {
        if (smaller[i]) {
            a->results[n++] = a->results[i];
        }
    }
    a->n = n;
    return status;
}

/* Takes the trial's step back, puts the survey in its place, and the trial behind that. */
static enum vc_status add_survey(struct vc_ctx *ctx, struct vc_item *item)
{
    struct vc_step *trial = item->chain->steps[item->chain->n_steps - 1];
    struct vc_step *survey = vc_item_add_step(ctx, item, &survey_ops);

    if (survey == NULL) {
        return VC_E_NOMEM;
    }
    survey->state = trial->state;
    survey->scheme = "survey";
    survey->scan = true;
    survey->scratch_bytes = trial->scratch_bytes;
    item->chain->steps[item->chain->n_steps - 2] = survey;
    item->chain->steps[item->chain->n_steps - 1] = trial;
    vc_item_replan(item);
    return VC_OK;
}

static uint64_t bytes_before(const struct vc_item *item)
{
    return vc_desc_all_bytes(item->chain->n_steps == item->chain->pass_first
                                 ? item->desc
                                 : &item->chain->steps[item->chain->pass_first]->in);
}

enum vc_status vc_trial_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_aim *aim, bool codes,
                            bool included)
{
    struct trial *t = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *t);
    struct vc_step *step;
    enum vc_status status = VC_OK;

    if (t == NULL) {
        return VC_E_NOMEM;
    }
    t->attempts.results = vc_arena_alloc(ctx, item->set->arena, aim->n_ways * sizeof *t->attempts.results);
    if (t->attempts.results == NULL) {
        vc_free(ctx, t);
        return VC_E_NOMEM;
    }
    t->aim = aim;
    t->attempts.add = add_way;
    t->attempts.user = t;
    t->weights = item->chain->n_steps == item->chain->pass_first
                     ? vc_desc_weight_dtype(item->desc)
                     : vc_desc_weight_dtype(&item->chain->steps[item->chain->pass_first]->in);
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
    VC_TRY(vc_attempts_init(ctx, &t->attempts));
    step->scheme = "trial";
    step->calibrate = true;
    choose_ways(t, item, codes, included);
    VC_TRY(measure_ways(ctx, t, step, item));
    if (t->attempts.n == 0) {
        vc_item_undo(ctx, item);
        return item->reason[0] != '\0' ? VC_OK : vc_item_keep_as(ctx, item, "no way makes it smaller");
    }
    VC_TRY(t->attempts.scans ? add_survey(ctx, item) : VC_OK);
out:
    return status;
}

struct vc_step *vc_trial_of(const struct vc_item *item)
{
    struct vc_step *last =
        item->chain->n_steps > item->chain->pass_first ? item->chain->steps[item->chain->n_steps - 1] : NULL;

    return last != NULL && last->ops == &trial_ops ? last : NULL;
}

const struct vc_attempt_result *vc_trial_results(const struct vc_step *trial, size_t *n, uint64_t *bytes_kept)
{
    const struct trial *t = trial->state;

    *n = t->attempts.n;
    *bytes_kept = t->bytes_kept;
    return t->attempts.results;
}
