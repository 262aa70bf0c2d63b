/* fit.c - see fit.h.
 *
 *     visible   | used | margin |            usable              |
 *     need                      | peak | context, workspace | slack |
 *
 * "fits": need within usable. "tight": it takes some of the margin. "does not fit": more than is free at all. */
#include <vcompress/fit.h>

#include <string.h>

#include "core/base/checked.h"
#include "core/base/option_struct.h"
#include "graph/sizes.h"

/* Of weights alone the word says so. A smaller batch, context or number of layers of the row that fits takes the place of
 * "does not fit". */
const char *vc_fit_word(const struct vc_fit *fit, const struct vc_fit_row *row)
{
    if (row != NULL && fit->verdict != VC_FITS) {
        if (row->has_layers && row->largest_layers != 0) {
            return "some layers fit";
        }
        if ((row->has_batch || row->has_context) && (!row->has_batch || row->largest_batch != 0) &&
            (!row->has_context || row->largest_context != 0)) {
            return "smaller fits";
        }
    }
    return fit->weights_only && fit->verdict == VC_FITS ? "weights fit" : vc_word(VC_WORDS_VERDICT, fit->verdict);
}

/* False: a part is not known, nor taken to be `activation_bytes`. *peak is what is. */
static bool peak_of(const struct vc_memory_report *r, const struct vc_fit_options *o, bool ideal, uint64_t *peak)
{
    bool known = true;

    if (o->weights_only) {
        *peak = r->components[VC_MEMORY_PARAMETERS].bytes - r->host_weight_bytes;
        return r->components[VC_MEMORY_PARAMETERS].known != VC_KNOWN_NOT;
    }
    if (r->moments[VC_MOMENT_PEAK].known != VC_KNOWN_NOT) {
        *peak = ideal ? r->moments[VC_MOMENT_PEAK].bytes : vc_max_u64(r->eager.bytes, r->moments[VC_MOMENT_PEAK].bytes);
        return true;
    }
    *peak = o->activation_bytes;
    for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        bool device = k == VC_MEMORY_WORKSPACE || k == VC_MEMORY_CONTEXT || k == VC_MEMORY_SLACK;
        bool given = k == VC_MEMORY_ACTIVATIONS || k == VC_MEMORY_TRANSIENT || k == VC_MEMORY_INPUTS;
        bool missing = r->components[k].known == VC_KNOWN_NOT;

        if (!vc_add_u64(*peak, (missing && given) || device ? 0 : r->components[k].bytes, peak)) { /* known ones */
            *peak = UINT64_MAX; /* vc_fit_decide refuses it */
        }
        known = known && (!missing || (given && o->activation_bytes != 0));
    }
    *peak -= *peak == UINT64_MAX ? 0 : r->host_weight_bytes;
    return known;
}

/* What an allocator that rounds, divides and keeps blocks cannot use: as the estimate has it, or that share. */
static uint64_t slack_of(const struct vc_memory_report *r, double share)
{
    uint64_t moving = r->components[VC_MEMORY_ACTIVATIONS].bytes + r->components[VC_MEMORY_TRANSIENT].bytes;

    return share < 0 ? r->components[VC_MEMORY_SLACK].bytes : (uint64_t)((double)moving * share);
}

/* a - b, and 0 where b is larger. */
static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* What is unknown adds to the need, so "does not fit" is certain without it; "fits" is not. */
enum vc_status vc_fit_decide(struct vc_ctx *ctx, const struct vc_memory_report *report,
                             const struct vc_memory_options *memory, uint64_t visible_bytes,
                             const struct vc_fit_options *options, struct vc_fit *out)
{
    const struct vc_fit_options *defaults = VC_OPTIONS(fit)->defaults;
    struct vc_fit_options own;

    vc_clear_error(ctx);
    VC_CALL(vc_options_read(ctx, VC_OPTIONS(fit), options, &own));
    *out = (struct vc_fit){.visible_bytes = visible_bytes, .weights_only = own.weights_only};
    bool known = peak_of(report, &own, own.ideal || (memory != NULL && vc_memory_program_facts(memory->program)->ideal),
                         &out->peak_bytes);
    out->slack_bytes = own.weights_only ? 0 : slack_of(report, own.slack);
    if (!vc_add_u64(own.context_bytes, own.workspace_bytes, &out->context_bytes) ||
        !vc_add_u64(out->peak_bytes, out->context_bytes, &out->need_bytes) ||
        !vc_add_u64(out->need_bytes, out->slack_bytes, &out->need_bytes) || out->need_bytes > INT64_MAX) {
        return vc_fail(ctx, VC_E_ARGUMENT, "sizes overflow 64 bits");
    }
    uint64_t free_bytes = minus(visible_bytes, own.used_bytes);
    if (memory != NULL && memory->program == VC_RUN_BY_BITSANDBYTES && !own.margin_given &&
        own.margin_bytes == defaults->margin_bytes) {
        own.margin_bytes =
            vc_max_u64(own.margin_bytes, out->need_bytes / 16); /* its own state, which nobody publishes */
    }
    out->usable_bytes = minus(free_bytes, own.margin_bytes);
    out->headroom_bytes = (int64_t)out->usable_bytes - (int64_t)out->need_bytes;
    if (out->need_bytes > free_bytes) { /* also of what is known: the rest makes it no less */
        out->verdict = VC_FITS_NOT;
    } else if (!known) {
        out->verdict = VC_FITS_UNKNOWN;
    } else {
        out->verdict = out->need_bytes <= out->usable_bytes ? VC_FITS : VC_FITS_TIGHTLY;
    }
    return VC_OK;
}

/* ---- recomputation ---- */

#define MOST_BUDGETS 12

/* What a device lacks is known only for a given peak:
 *
 *     budget = peak - what the device lacks;  estimate again;  decide again
 *
 * until there is room, or a smaller budget changes nothing. */
enum vc_status vc_fit_budget(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                             struct vc_memory_options *memory, const struct vc_fit_options *options,
                             struct vc_memory_report *report, struct vc_fit *fit)
{
    if (report->moments[VC_MOMENT_PEAK].known != VC_KNOWN_NOT) {
        memory->budget_bytes = report->moments[VC_MOMENT_PEAK].bytes;
    }
    for (int round = 0; round < MOST_BUDGETS && fit->headroom_bytes < 0; round++) {
        uint64_t peak = report->moments[VC_MOMENT_PEAK].bytes;
        uint64_t lacks = (uint64_t)-fit->headroom_bytes;

        if (peak > memory->budget_bytes || lacks >= peak) { /* it did not follow the last budget, or nothing is left */
            break;
        }
        memory->budget_bytes = peak - lacks;
        VC_CALL(vc_memory_estimate(ctx, graph, model, memory, report));
        VC_CALL(vc_fit_decide(ctx, report, memory, fit->visible_bytes, options, fit));
    }
    return VC_OK;
}

/* ---- the largest that fits ---- */

/* The search for the largest size that fits: of a symbol of the graph, such as the batch, or (symbol NULL) of the
 * context. */
struct search {
    struct vc_ctx *ctx;
    struct vc_graph *graph;
    const struct vc_model *model;
    struct vc_memory_options memory;
    struct vc_fit_options options;
    uint64_t visible_bytes;
    const char *symbol;
};

/* A size for which the graph has no shapes counts as one that does not fit. */
static enum vc_status try_size(struct search *s, uint64_t size, bool *fits)
{
    struct vc_memory_report report;
    struct vc_fit fit;
    enum vc_status status = VC_OK;

    if (s->symbol == NULL) {
        s->memory.context_tokens = size;
    } else {
        VC_CALL(vc_graph_bind(s->ctx, s->graph, s->symbol, (int64_t)size));
    }
    if (s->options.usual_positions) { /* which depend on the size */
        VC_CALL(vc_memory_bind_positions(s->ctx, s->graph, &s->memory, 0));
    }
    *fits = false;
    status = vc_memory_estimate(s->ctx, s->graph, s->model, &s->memory, &report);
    if (status == VC_E_ARGUMENT ||
        (status == VC_E_FORMAT && size > 1)) { /* sizes overflow: too large, or for a slice */
        vc_clear_error(s->ctx);
        return VC_OK;
    }
    VC_CALL(status);
    VC_CALL(vc_fit_decide(s->ctx, &report, &s->memory, s->visible_bytes, &s->options, &fit));
    if (s->memory.recompute == VC_RECOMPUTE_AUTO && s->memory.budget_bytes == INT64_MAX) { /* the room on the device */
        struct vc_memory_options own = s->memory;

        VC_CALL(vc_fit_budget(s->ctx, s->graph, s->model, &own, &s->options, &report, &fit));
    }
    *fits = fit.verdict == VC_FITS;
    return VC_OK;
}

/* Doubles until it does not fit, then halves the step between. What is needed only grows with the size. */
enum vc_status vc_fit_largest(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                              const struct vc_memory_options *memory, uint64_t visible_bytes,
                              const struct vc_fit_options *options, const char *symbol, uint64_t most,
                              uint64_t *largest)
{
    struct search s = {ctx, graph, model, *memory, {0}, visible_bytes, symbol};
    int64_t before = symbol != NULL ? vc_graph_size(graph, symbol) : -1;
    int64_t positions = vc_graph_size(graph, "sequence");
    uint64_t low = 0;
    uint64_t high = 1;
    bool fits = true;
    enum vc_status status = VC_OK;

    VC_CALL(vc_options_read(ctx, VC_OPTIONS(fit), options, &s.options));
    most = vc_min_u64(most, INT32_MAX);
    while (fits && low < most) {
        VC_TRY(try_size(&s, high, &fits));
        low = fits ? high : low;
        high = fits ? vc_min_u64(high * 2, most) : high;
    }
    while (!fits && high - low > 1) {
        bool middle_fits;

        VC_TRY(try_size(&s, low + (high - low) / 2, &middle_fits));
        if (middle_fits) {
            low += (high - low) / 2;
        } else {
            high = low + (high - low) / 2;
        }
    }
    *largest = low;
out:
    if (before > 0) {
        (void)vc_graph_bind(ctx, graph, symbol, before);
    }
    if (positions > 0 && s.options.usual_positions) {
        (void)vc_graph_bind(ctx, graph, "sequence", positions);
    }
    return status;
}
