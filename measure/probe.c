/* probe.c - see probe.h.
 *
 * The executor walks over each tensor twice. What the two steps do in which call:
 *
 *     survey.begin        the curve begins, the candidates' steps are opened
 *     survey.scan         1st walk: magnitudes are counted; candidates that need the whole tensor see it
 *     survey.scan_end     the curve's thresholds are cut
 *     probe.calibrate     2nd walk: squares are summed by threshold; every candidate is applied to the tile
 *     probe.end           results of the curve move to the item's arena; all else is freed
 */
#include "measure/probe.h"

#include "passes/decode.h"

/* A vc_candidate_add_fn. */
static enum vc_status add_candidate(struct vc_ctx *ctx, struct vc_item *item, const void *user, unsigned number)
{
    const struct vc_probe *p = user;
    const struct vc_candidate *candidate = &p->candidates->candidates[number];

    return candidate->add(ctx, item, candidate, p->weights);
}

/* The curve lives from begin to end, so that only tensors that are at work hold its tables. */
static enum vc_status begin_curve(struct vc_ctx *ctx, struct vc_probe *p, const struct vc_desc *desc)
{
    struct vc_curve *c = vc_calloc_array(ctx, VC_TAG_SCRATCH, 1, sizeof *c);

    VC_CALL_ALLOC(c);
    p->curve = c;
    c->dtype = desc->dtype;
    c->n = desc->n_elems;
    c->n_points = p->n_percents;
    for (size_t i = 0; i < p->n_percents; i++) {
        c->k[i] = vc_curve_count_of(desc->n_elems, p->percents[i]);
    }
    return vc_curve_begin(ctx, c);
}

/* Called for both steps; the first one begins the curve. */
static enum vc_status probe_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_probe *p = step->state;

    if (p->curve == NULL) {
        VC_CALL(begin_curve(ctx, p, &step->in));
    }
    return vc_candidate_runs_begin(ctx, &p->runs, step, item);
}

/* Keeps what the curve found and frees it. Safe to call again. */
static void end_curve(struct vc_ctx *ctx, struct vc_probe *p)
{
    if (p->curve != NULL) {
        vc_curve_end(ctx, p->curve);
        p->zeros = p->curve->zeros;
        p->sum_x2 = p->curve->sum_x2;
        memcpy(p->sum_e2, p->curve->sum_e2, p->n_percents * sizeof *p->sum_e2);
    }
    vc_free(ctx, vc_give(&p->curve));
}

/* A tensor is done: only figures stay. */
static void probe_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct vc_probe *p = step->state;

    end_curve(ctx, p);
    vc_candidate_runs_close(ctx, &p->runs);
}

/* ---- the survey ---- */

/* One tile of the first walk. */
static enum vc_status survey_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct vc_probe *p = step->state;

    VC_CALL(vc_curve_count(ctx, p->curve, in->data, tile->n_elems, scratch));
    return vc_candidate_runs_scan(ctx, &p->runs, tile, in, scratch);
}

/* Between the walks: the curve knows its counts now. */
static enum vc_status survey_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_probe *p = step->state;

    VC_CALL(vc_curve_cut(ctx, p->curve));
    return vc_candidate_runs_scan_end(ctx, &p->runs);
}

/* The state is the probe's, which ends it. */
static const struct vc_step_ops survey_ops = {
    .begin = probe_begin, .scan = survey_scan, .scan_end = survey_scan_end, .apply = vc_step_copy};

/* ---- the probe ---- */

/* One tile of the second walk. Values that are not finite would spoil every sum; a tile that has one is
 * only counted by the policy, and vc_probe_settle takes the figures away. */
static enum vc_status probe_calibrate(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                      const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct vc_probe *p = step->state;

    if (vc_has_nonfinite(step->in.dtype, in->data, tile->n_elems)) {
        return vc_policy_calibrate(ctx, step, item, tile, in, scratch);
    }
    vc_curve_sum(p->curve, in->data, tile->n_elems, scratch);
    return vc_candidate_runs_apply(ctx, &p->runs, tile, in, scratch);
}

/* The item loses its steps: everything goes. */
static void probe_forget(struct vc_ctx *ctx, struct vc_step *step)
{
    struct vc_probe *p = step->state;

    end_curve(ctx, p);
    vc_candidate_runs_release(ctx, &p->runs);
    vc_policy_forget(ctx, step);
}

static const struct vc_step_ops probe_ops = {.calibrate = probe_calibrate,
                                             .explain = vc_policy_explain,
                                             .begin = probe_begin,
                                             .end = probe_end,
                                             .forget = probe_forget};

/* ---- planning ---- */

/* Lists the candidates that can be tried on this tensor, and opens each once to learn what memory it needs.
 * Those that cannot have a reason, which vc_model_sensitivity asks for again. */
static enum vc_status plan_candidates(struct vc_ctx *ctx, struct vc_probe *p, struct vc_step *step,
                                      struct vc_item *item)
{
    struct vc_candidate_runs *r = &p->runs;
    enum vc_status status;

    r->add = add_candidate;
    r->user = p;
    VC_CALL_ALLOC(r->results = vc_arena_alloc(ctx, item->set->arena, p->candidates->n * sizeof *r->results));
    for (size_t i = 0; i < p->candidates->n; i++) {
        if (p->candidates->candidates[i].reason(&p->candidates->candidates[i], item) == NULL) {
            r->results[r->n++] =
                (struct vc_candidate_result){.candidate = (unsigned)i, .sampled = p->candidates->candidates[i].slow};
        }
    }
    VC_TRY(vc_candidate_runs_init(ctx, r));
    VC_TRY(vc_candidate_runs_open(ctx, r, step, item));
    for (size_t i = 0; i < r->n; i++) {
        vc_candidate_runs_count(r, step, i);
    }
out:
    vc_candidate_runs_close(ctx, r);
    return status;
}

/* Adds the decoder, if codes have to be decoded, then the survey and the probe. Memory is told here, before
 * the run: the scratch of the two steps is the larger of what the curve and the candidates need. */
enum vc_status vc_probe_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_candidate_list *candidates,
                            const unsigned *percents, size_t n_percents)
{
    enum vc_dtype weights = vc_desc_weight_dtype(item->desc);
    bool quantized = item->desc->quant != NULL || vc_dtype_is_quantized(item->desc->dtype);
    struct vc_probe *p;
    struct vc_step *step;

    if (quantized) {
        VC_CALL(vc_decode_add(ctx, item, false));
    }
    struct vc_step *survey = vc_item_add_step(ctx, item, &survey_ops);
    VC_CALL_ALLOC(p = survey == NULL ? NULL : vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *p));
    p->sum_e2 = vc_arena_alloc(ctx, item->set->arena, n_percents * sizeof *p->sum_e2);
    if (p->sum_e2 == NULL) {
        vc_free(ctx, p);
        return VC_E_NOMEM;
    }
    p->percents = percents;
    p->n_percents = n_percents;
    p->candidates = candidates;
    p->weights = weights;
    p->policy = (struct vc_policy){.nonfinite = VC_NONFINITE_KEEP, .room = VC_DTYPE_F64, .advice = ""};
    VC_CALL(vc_policy_add_step(ctx, item, &probe_ops, &p->policy, &step)); /* calibrates under this policy */
    VC_CALL(plan_candidates(ctx, p, step, item));
    size_t tile = vc_curve_scratch_bytes(step->in.dtype, (size_t)vc_min_u64(step->in.n_elems, VC_TILE_ELEMS));
    step->scheme = "probe";
    step->scratch_bytes = vc_candidate_runs_scratch(&p->runs) > tile ? vc_candidate_runs_scratch(&p->runs) : tile;
    step->state_bytes =
        sizeof *p->curve + vc_curve_state_bytes(step->in.dtype, step->in.n_elems, n_percents) + p->runs.state_bytes;
    survey->state = p;
    survey->scheme = "survey";
    survey->scan = true;
    survey->scratch_bytes = step->scratch_bytes;
    return VC_OK;
}

const struct vc_probe *vc_probe_of(const struct vc_item *item)
{
    const struct vc_step *last = item->chain->n_steps != 0 ? item->chain->steps[item->chain->n_steps - 1] : NULL;

    return last != NULL && last->ops == &probe_ops ? last->state : NULL;
}

enum vc_status vc_probe_settle(struct vc_ctx *ctx, struct vc_item *item)
{
    return vc_policy_decide(ctx, item->chain->steps[item->chain->n_steps - 1], item);
}
