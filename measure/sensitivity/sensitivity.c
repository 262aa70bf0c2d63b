/* sensitivity.c - vc_model_sensitivity: which tensors are measured, the run, the figures. What is tried on
 * a tile is in probe.c, what follows from the figures in sensitivity_advice.c.
 *
 *     list_candidates     10 sparsities, and every scheme and pattern of the library
 *     list_rows           a row for each weight; `reason` says why it is not measured
 *     make_items          an item with the steps of a probe for each row without a reason
 *     vc_exec_run         two walks over each tensor, by all threads; nothing is written
 *     take_figures        from the probes to the rows
 *     advise              what stands out
 *
 * An error is told relative to the tensor's norm, |w' - w| / |w|, so tensors of any scale can be compared. */
#include <math.h>

#include "core/base/option_struct.h"
#include "core/job/totals.h"
#include "core/run/executor.h"
#include "facade/all_candidates.h"
#include "kernels/kernels.h"
#include "measure/probe.h"
#include "measure/sensitivity/sensitivity_parts.h"
#include "passes/decode.h"
#include "passes/select.h"

/* Sparsities of pruning by magnitude, rising, as probes want them. */
static const unsigned percents[] = {10, 20, 30, 40, 50, 60, 70, 80, 90, 95};
#define N_PERCENTS (sizeof percents / sizeof percents[0])

/* What a measurement works with. */
struct measuring {
    struct vc_sensitivity_owned *owned;
    const struct vc_sensitivity_options *options;
    struct vc_candidate_list tried;
    struct vc_arena arena; /* of the items */
    struct vc_item_set set;
    size_t n_items;
    struct vc_item *items; /* one per row that is measured, in that order */
};

static void end(void *result)
{
    struct vc_sensitivity_owned *owned = result;

    VC_FREE_ALL(owned->ctx, owned->rows, owned->picks);
    vc_arena_release(owned->ctx, &owned->arena);
}

/* ---- the candidates ---- */

/* The sparsities come first, then the other candidates in the order of the list. A row's errors are in this
 * order. */
static enum vc_status list_candidates(struct vc_ctx *ctx, struct measuring *m)
{
    struct vc_arena *arena = &m->owned->arena;
    struct vc_sensitivity_candidate *candidates;

    VC_CALL(vc_candidates_list(ctx, arena, &m->tried));
    m->owned->result.n_candidates = N_PERCENTS + m->tried.n;
    VC_CALL_ALLOC(candidates = vc_arena_alloc(ctx, arena, m->owned->result.n_candidates * sizeof *candidates));
    for (size_t i = 0; i < N_PERCENTS; i++) {
        candidates[i] = (struct vc_sensitivity_candidate){.kind = VC_SENSITIVITY_MAGNITUDE,
                                                          .percent = percents[i],
                                                          .name = vc_arena_printf(ctx, arena, "%u%%", percents[i])};
        VC_CALL_ALLOC(candidates[i].name);
    }
    for (size_t i = 0; i < m->tried.n; i++) {
        const struct vc_candidate *candidate = &m->tried.candidates[i];

        candidates[N_PERCENTS + i] = (struct vc_sensitivity_candidate){
            .kind = candidate->makes_zeros ? VC_SENSITIVITY_PATTERN : VC_SENSITIVITY_SCHEME, .name = candidate->name};
    }
    m->owned->result.candidates = candidates;
    return VC_OK;
}

/* ---- which tensors ---- */

/* Why the tensor is not measured whatever the rules say; NULL: it can be. Static. */
static const char *impossible(const struct vc_tensor *t)
{
    const struct vc_desc desc = {.dtype = t->dtype, .quant = t->quant};

    if (t->undecoded != NULL) {
        return VC_SKIP_QUANTIZED;
    }
    if (!vc_decode_can(&desc)) {
        return t->dtype == VC_DTYPE_RAW ? "no array" : vc_dtype_name(t->dtype);
    }
    return t->n_elems == 0 ? "empty" : NULL;
}

/* Sets the row's reason where the tensor is not to be measured. A rule that includes it overrides
 * everything but what is impossible. */
static enum vc_status choose(struct vc_ctx *ctx, struct measuring *m, const struct vc_tensor *t,
                             struct vc_sensitivity_row *row)
{
    const struct vc_sensitivity_options *o = m->options;
    struct vc_arena *arena = &m->owned->arena;
    const char *glob = NULL;
    enum vc_choice choice = vc_rules_choose(o->rules, o->n_rules, t->name, &glob);
    const struct vc_tensor *own;

    (void)vc_model_of(m->owned->result.model, row->tensor, &own);
    const char *skip = vc_keep_reason(own);
    row->reason = impossible(t);
    if (row->reason != NULL || choice == VC_CHOICE_INCLUDE) {
        return VC_OK;
    }
    if (choice == VC_CHOICE_EXCLUDE) {
        row->reason = vc_arena_printf(ctx, arena, "excluded by '%s'", glob);
    } else if (t->n_dims < 2) {
        row->reason = vc_arena_printf(ctx, arena, "%u-D", t->n_dims);
    } else if (skip != NULL) {
        row->reason = skip;
        return VC_OK;
    } else if (t->n_elems < o->min_elems) {
        row->reason = vc_arena_printf(ctx, arena, "fewer than %llu elements", (unsigned long long)o->min_elems);
    } else {
        return VC_OK;
    }
    return row->reason == NULL ? VC_E_NOMEM : VC_OK;
}

/* Weights that hold values of their own: no scales, no parts, and tied weights once. */
static bool is_row(const struct vc_tensor *t)
{
    return t->role == VC_ROLE_WEIGHT && !vc_is_of_codes(t) && t->part_of == VC_NO_TENSOR && t->alias_of == VC_NO_TENSOR;
}

/* One row for each weight, in the order of the file. Rules that match no tensor are told in the note. */
static enum vc_status list_rows(struct vc_ctx *ctx, struct measuring *m)
{
    struct vc_sensitivity_owned *owned = m->owned;
    const struct vc_model *model = owned->result.model;

    VC_CALL(VC_ZEROS(ctx, VC_TAG_REPORT, owned->rows, model->n_tensors));
    owned->result.rows = owned->rows;
    for (size_t i = 0; i < model->n_tensors; i++) {
        const struct vc_tensor *t = &model->tensors[i];
        struct vc_sensitivity_row *row = &owned->rows[owned->result.n_rows];

        VC_CALL(vc_check_cancelled(ctx));
        if (!is_row(t)) {
            continue;
        }
        *row =
            (struct vc_sensitivity_row){.tensor = i,
                                        .name = t->name,
                                        .dtype = t->dtype,
                                        .n_elems = t->n_elems,
                                        .prune_keeps = t->n_dims < 2 ? "fewer than two axes" : vc_prune_skip(model, i)};
        owned->result.n_rows++;
        VC_CALL(choose(ctx, m, t, row));
        m->n_items += row->reason == NULL;
    }
    return vc_rules_unmatched(ctx, &owned->arena, m->options->rules, m->options->n_rules, model, &owned->result.note);
}

/* ---- the run ---- */

/* Items in the order of the rows that have no reason. n_items counts up so that a failure releases those
 * that were made. */
static enum vc_status make_items(struct vc_ctx *ctx, struct measuring *m)
{
    const struct vc_sensitivity *result = &m->owned->result;
    size_t n = 0;

    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, m->items, m->n_items));
    m->n_items = 0;
    m->set = (struct vc_item_set){.model = result->model, .arena = &m->arena};
    for (size_t i = 0; i < result->n_rows; i++) {
        VC_CALL(vc_check_cancelled(ctx));
        if (result->rows[i].reason == NULL) {
            m->n_items = ++n;
            VC_CALL(vc_item_make(ctx, &m->set, result->rows[i].tensor, &m->items[n - 1]));
            VC_CALL(vc_probe_add(ctx, &m->items[n - 1], &m->tried, percents, N_PERCENTS));
        }
    }
    return VC_OK;
}

/* From sums of squares: of the values and of the errors. An error of 0 is 0 also for a tensor of zeros. */
static struct vc_sensitivity_error figures(double x2, double e2, uint64_t bytes)
{
    return (struct vc_sensitivity_error){
        .relative = e2 == 0.0 ? 0.0 : sqrt(e2 / x2), .sqnr_db = vc_sqnr_db(x2, e2), .bytes = bytes};
}

/* Figures of one row: the sparsities from the curve, the others from the candidates' runs. Candidates that
 * were not tried have a reason, those that were refused too. */
static enum vc_status fill_row(struct vc_ctx *ctx, struct measuring *m, const struct vc_item *item,
                               struct vc_sensitivity_row *row)
{
    const struct vc_probe *p = vc_probe_of(item);
    const struct vc_desc *floats = &item->chain->steps[item->chain->n_steps - 1]->in;
    uint64_t bytes = vc_dtype_bytes(floats->dtype, floats->n_elems);
    struct vc_sensitivity_error *errors =
        vc_arena_alloc(ctx, &m->owned->arena, m->owned->result.n_candidates * sizeof *errors);

    VC_CALL_ALLOC(errors);
    for (size_t i = 0; i < N_PERCENTS; i++) {
        errors[i] = figures(p->sum_x2, p->sum_e2[i], bytes);
    }
    for (size_t i = 0; i < m->tried.n; i++) {
        const struct vc_candidate *candidate = &m->tried.candidates[i];

        errors[N_PERCENTS + i] = (struct vc_sensitivity_error){.reason = candidate->reason(candidate, item)};
    }
    for (size_t i = 0; i < p->runs.n; i++) {
        const struct vc_candidate_result *r = &p->runs.results[i];

        errors[N_PERCENTS + r->candidate] = r->refused
                                                ? (struct vc_sensitivity_error){.reason = "a value is too large for it"}
                                                : figures(r->sum_x2, r->sum_e2, r->bytes);
    }
    row->n_zeros = p->zeros;
    row->rms = sqrt(p->sum_x2 / (double)row->n_elems);
    row->errors = errors;
    m->owned->result.n_measured++;
    return VC_OK;
}

/* Walks over rows and items in step. A tensor with values that are not finite has lost its probe; its
 * reason is copied, as the items' reasons go with their arena. */
static enum vc_status take_figures(struct vc_ctx *ctx, struct measuring *m)
{
    struct vc_sensitivity_owned *owned = m->owned;
    bool sampled = false;
    size_t n = 0;

    for (size_t i = 0; i < owned->result.n_rows; i++) {
        struct vc_sensitivity_row *row = &owned->rows[i];
        struct vc_item *item = &m->items[n];

        VC_CALL(vc_check_cancelled(ctx));
        if (row->reason != NULL) {
            continue;
        }
        n++;
        VC_CALL(vc_probe_settle(ctx, item));
        sampled = sampled || (vc_probe_of(item) != NULL && vc_candidate_runs_sampled(&vc_probe_of(item)->runs));
        if (vc_probe_of(item) != NULL) {
            VC_CALL(fill_row(ctx, m, item, row));
        } else {
            row->nonfinite = true;
            VC_CALL_ALLOC(row->reason = vc_arena_printf(ctx, &owned->arena, "%s", item->reason));
        }
    }
    if (sampled) {
        owned->result.note = vc_arena_printf(
            ctx, &owned->arena, "%s%s%s%d parts of each large tensor",
            owned->result.note != NULL ? owned->result.note : "", owned->result.note != NULL ? "; " : "",
            "errors of schemes whose scales are searched are those of about ", VC_CANDIDATE_TILES);
        VC_CALL_ALLOC(owned->result.note);
    }
    return VC_OK;
}

/* All of it, in the order of the list at the top of this file. */
static enum vc_status measure(struct vc_ctx *ctx, struct measuring *m)
{
    struct vc_exec exec = {.calibrate = true, .what = "measuring"};
    enum vc_status status;

    VC_TRY(list_candidates(ctx, m));
    VC_TRY(list_rows(ctx, m));
    VC_TRY(make_items(ctx, m));
    exec.items = m->items;
    exec.n_items = m->n_items;
    VC_TRY(vc_exec_run(ctx, &exec));
    VC_TRY(take_figures(ctx, m));
    VC_TRY(vc_sensitivity_advise(ctx, m->owned));
out:
    for (size_t i = 0; m->items != NULL && i < m->n_items; i++) {
        vc_item_release(ctx, &m->items[i]);
    }
    vc_free(ctx, m->items);
    vc_arena_release(ctx, &m->arena);
    return status;
}

/* ---- the call ---- */

/* The model must not change while it is measured, and must hold weights: a file of statistics about them
 * holds none. */
enum vc_status vc_model_sensitivity(struct vc_ctx *ctx, const struct vc_model *model,
                                    const struct vc_sensitivity_options *options, struct vc_sensitivity **out)
{
    struct vc_sensitivity_options own;
    struct measuring m = {.options = &own};
    enum vc_status status;

    *out = NULL;
    vc_call_begin(ctx);
    VC_TRY(vc_options_read(ctx, VC_OPTIONS(sensitivity), options, &own));
    if (vc_kernels_get(ctx) == NULL) {
        return vc_call_end(ctx, ctx->status);
    }
    VC_TRY(VC_RESULT(ctx, VC_TAG_REPORT, m.owned, end));
    m.owned->ctx = ctx;
    m.owned->result.model = model;
    status = vc_model_need_weights(ctx, model);
    status = status == VC_OK ? measure(ctx, &m) : status;
    if (status != VC_OK) {
        (void)vc_context(ctx, "%s", model->path);
    }
    VC_TRY(vc_model_unchanged(ctx, model, status));
    *out = &m.owned->result;
    return vc_call_end(ctx, VC_OK);
out:
    vc_result_free(m.owned);
    return vc_call_end(ctx, status);
}
