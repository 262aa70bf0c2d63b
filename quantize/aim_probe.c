/* aim_probe.c - the step that tries all candidates on a tensor while its pass calibrates, and changes nothing.
 *
 *     w --[ survey: scans, passes tiles on ]--[ probe: calibrates ]
 *
 * passes/candidate_runs.c runs the candidates. Candidates that need the whole tensor first (a scale per tensor) see it
 * in the survey; the survey is left out if no candidate needs it. */
#include "quantize/aim.h"

#include "passes/nonfinite.h"

/* The state of both steps of one tensor, survey and probe. */
struct probe {
    struct vc_policy policy; /* first: vc_policy_... find it there */
    const struct vc_aim *aim;
    enum vc_dtype weights;
    uint64_t bytes_kept;
    pthread_mutex_t mutex;
    bool has_mutex;
    bool dirty;                    /* values that are not finite, and the policy is not to replace them */
    struct vc_candidate_runs runs; /* results in the job's arena */
};

/* A vc_candidate_add_fn. */
static enum vc_status add_candidate(struct vc_ctx *ctx, struct vc_item *item, const void *user, unsigned number)
{
    const struct probe *p = user;
    const struct vc_aim_candidate *candidate = &p->aim->candidates[number];

    return vc_aim_candidate_add(ctx, item, candidate, p->weights);
}

/* Called for the survey and for the probe; the runs begin with the first of them. */
static enum vc_status probe_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct probe *p = step->state;

    return vc_candidate_runs_begin(ctx, &p->runs, step, item);
}

static void probe_end(struct vc_ctx *ctx, struct vc_step *step)
{
    vc_candidate_runs_close(ctx, &((struct probe *)step->state)->runs);
}

/* ---- the survey ---- */

/* Candidates that need no look beforehand do nothing here. */
static enum vc_status survey_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    return vc_candidate_runs_scan(ctx, &((struct probe *)step->state)->runs, tile, in, scratch);
}

static enum vc_status survey_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    return vc_candidate_runs_scan_end(ctx, &((struct probe *)step->state)->runs);
}

static const struct vc_step_ops survey_ops = {
    .begin = probe_begin, .scan = survey_scan, .scan_end = survey_scan_end, .apply = vc_step_copy, .end = probe_end};

/* ---- the probe ---- */

/* With a value that is not finite, and a policy other than "zero", the tensor gets no candidate: it is refused, or
 * stays. From then on tiles are not tried, only counted for the sentence. */
static enum vc_status probe_calibrate(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                      const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct probe *p = step->state;
    bool dirty = p->policy.nonfinite != VC_NONFINITE_ZERO && vc_has_nonfinite(step->in.dtype, in->data, tile->n_elems);

    (void)pthread_mutex_lock(&p->mutex);
    p->dirty |= dirty;
    bool out_of_it = p->dirty;
    (void)pthread_mutex_unlock(&p->mutex);
    if (dirty) {
        return vc_policy_calibrate(ctx, step, item, tile, in, scratch);
    }
    return out_of_it ? VC_OK : vc_candidate_runs_apply(ctx, &p->runs, tile, in, scratch);
}

static void probe_forget(struct vc_ctx *ctx, struct vc_step *step)
{
    struct probe *p = step->state;

    vc_candidate_runs_release(ctx, &p->runs);
    if (p->has_mutex) {
        (void)pthread_mutex_destroy(&p->mutex);
    }
    vc_policy_forget(ctx, step);
}

static const struct vc_step_ops probe_ops = {.calibrate = probe_calibrate,
                                             .explain = vc_policy_explain,
                                             .begin = probe_begin,
                                             .end = probe_end,
                                             .forget = probe_forget};

/* ---- planning ---- */

/* Whether rows are whole blocks, of a matrix that loaders take as blocks. */
static bool takes_blocks(const struct vc_item *item, const struct vc_dialect_tensor *tensor, enum vc_dtype type)
{
    return tensor->n_dims >= 2 && tensor->shape[tensor->n_dims - 1] % vc_dtype_facts(type)->block_elems == 0 &&
           !vc_dialect_keeps_type(item->set->dialect, tensor);
}

/* The candidates that may be tried on the item. Blocks, codes and casts have three questions: whole blocks in a row; a
 * place in the layout and a shape that the scheme takes; a type that the loader does not insist on. */
static void choose_candidates(struct probe *p, const struct vc_item *item, bool codes, bool included)
{
    const struct vc_dialect_tensor tensor = vc_scheme_tensor(item, p->weights, included);
    struct vc_candidate_runs *r = &p->runs;

    r->n = 0;
    for (size_t i = 0; i < p->aim->n_candidates; i++) {
        const struct vc_aim_candidate *candidate = &p->aim->candidates[i];
        const struct vc_dialect_request request = vc_scheme_request_for(candidate->row, &candidate->options, item);
        bool fits = candidate->blocks != VC_DTYPE_NONE ? codes && takes_blocks(item, &tensor, candidate->blocks)
                    : candidate->row->codes
                        ? codes && vc_dialect_reason(item->set->dialect, &request, &tensor) == NULL &&
                              (candidate->row->reason == NULL ||
                               candidate->row->reason(&candidate->options, item->desc) == NULL)
                        : !vc_dialect_keeps_type(item->set->dialect, &tensor) && !vc_scheme_of_one_kind(item);

        if (fits) {
            r->results[r->n++] =
                (struct vc_candidate_result){.candidate = (unsigned)i, .sampled = candidate->row->statistics};
        }
    }
}

/* What the candidates need; those that make the tensor no smaller are left out. They are planned once here, to see
 * bytes and scratch, and once more when the probe begins. */
static enum vc_status measure_candidates(struct vc_ctx *ctx, struct probe *p, struct vc_step *step,
                                         const struct vc_item *item)
{
    struct vc_candidate_runs *r = &p->runs;
    bool smaller[VC_AIM_CANDIDATES] = {false};
    size_t n = 0;
    enum vc_status status;

    VC_TRY(vc_candidate_runs_open(ctx, r, step, item));
    for (size_t i = 0; i < r->n; i++) {
        smaller[i] = vc_candidate_runs_bytes(r, i) < p->bytes_kept;
        if (smaller[i]) {
            vc_candidate_runs_count(r, step, i);
        }
    }
    step->state_bytes += r->state_bytes;
    step->scratch_bytes = vc_candidate_runs_scratch(r);
out:
    vc_candidate_runs_close(ctx, r);
    for (size_t i = 0; status == VC_OK && i < r->n; i++) {
        if (smaller[i]) {
            r->results[n++] = r->results[i];
        }
    }
    r->n = n;
    return status;
}

/* Takes the probe's step back, puts the survey in its place, and the probe behind that. */
static enum vc_status add_survey(struct vc_ctx *ctx, struct vc_item *item)
{
    struct vc_step *probe = item->chain->steps[item->chain->n_steps - 1];
    struct vc_step *survey = vc_item_add_step(ctx, item, &survey_ops);

    VC_CALL_ALLOC(survey);
    survey->state = probe->state;
    survey->scheme = "survey";
    survey->scan = true;
    survey->scratch_bytes = probe->scratch_bytes;
    item->chain->steps[item->chain->n_steps - 2] = survey;
    item->chain->steps[item->chain->n_steps - 1] = probe;
    vc_item_replan(item);
    return VC_OK;
}

/* Bytes of the tensor before this pass, with its parts: the size that a candidate has to be below. */
static uint64_t bytes_before(const struct vc_item *item)
{
    return vc_desc_all_bytes(item->chain->n_steps == item->chain->pass_first
                                 ? item->desc
                                 : &item->chain->steps[item->chain->pass_first]->in);
}

/* The tensor may have been decoded by a step of this pass: its type and size are those before it. */
enum vc_status vc_aim_probe_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_aim *aim, bool codes,
                                bool included)
{
    struct probe *p = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *p);
    struct vc_step *step;

    VC_CALL_ALLOC(p);
    p->runs.results = vc_arena_alloc(ctx, item->set->arena, aim->n_candidates * sizeof *p->runs.results);
    if (p->runs.results == NULL) {
        vc_free(ctx, p);
        return VC_E_NOMEM;
    }
    p->aim = aim;
    p->runs.add = add_candidate;
    p->runs.user = p;
    p->weights = item->chain->n_steps == item->chain->pass_first
                     ? vc_desc_weight_dtype(item->desc)
                     : vc_desc_weight_dtype(&item->chain->steps[item->chain->pass_first]->in);
    p->bytes_kept = bytes_before(item);
    p->policy = (struct vc_policy){.nonfinite = aim->candidates[0].options.nonfinite,
                                   .room = VC_DTYPE_F32,
                                   .codes = true,
                                   .advice = VC_ADVICE_NONFINITE};
    VC_CALL(vc_policy_add_step(ctx, item, &probe_ops, &p->policy, &step));
    VC_REFUSE_IF(pthread_mutex_init(&p->mutex, NULL) != 0, ctx, VC_E_NOMEM, "cannot create a mutex");
    p->has_mutex = true;
    VC_CALL(vc_candidate_runs_init(ctx, &p->runs));
    step->scheme = "probe";
    step->calibrate = true;
    choose_candidates(p, item, codes, included);
    VC_CALL(measure_candidates(ctx, p, step, item));
    if (p->runs.n == 0) {
        vc_item_undo(ctx, item);
        return item->reason[0] != '\0' ? VC_OK : vc_item_keep_as(ctx, item, "no way makes it smaller");
    }
    return p->runs.scans ? add_survey(ctx, item) : VC_OK;
}

struct vc_step *vc_aim_probe_of(const struct vc_item *item)
{
    struct vc_step *last =
        item->chain->n_steps > item->chain->pass_first ? item->chain->steps[item->chain->n_steps - 1] : NULL;

    return last != NULL && last->ops == &probe_ops ? last : NULL;
}

const struct vc_candidate_result *vc_aim_probe_results(const struct vc_step *probe, size_t *n, uint64_t *bytes_kept,
                                                       bool *sampled)
{
    const struct probe *p = probe->state;

    *n = p->runs.n;
    *bytes_kept = p->bytes_kept;
    *sampled = *sampled || vc_candidate_runs_sampled(&p->runs);
    return p->runs.results;
}
