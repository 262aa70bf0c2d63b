/* structured.c - the pass behind `vcompress prune --structured`: which tensors have a place in a group that is cut, and
 * the step that cuts them. The files beside it are listed in removal.h.
 *
 *     plan_begin   vc_structured_list: groups, reasons, units that are given; refusals before any weight is read
 *     plan         each tensor with a place in a group that is cut: decoded, refitted, cut
 *     plan_end     shapes by counts, edits of the configuration; without scores the units at once
 *     decide       after the steps have summed up the weights: scores, units, final shapes, names */

#include "core/base/option_struct.h"
#include "core/job/job_passes.h"
#include "passes/decode.h"
#include "passes/select.h"
#include "prune/structured/removal.h"

/* What belongs to one plan, and not to the pass. */
static void forget_plan(struct vc_ctx *ctx, struct vc_structured *s)
{
    vc_structured_forget_role(ctx, &s->role);
    vc_result_free(s->built);
    s->built = NULL;
    s->removal = NULL;
    s->n_groups = s->n_members = s->n_refitted = 0;
}

/* A job may be planned again: what an earlier plan has found goes first. Couplings are those of one graph, so a plan of
 * several models is refused. */
static enum vc_status structured_plan_begin(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_plan *plan)
{
    struct vc_structured *s = pass->self;

    forget_plan(ctx, s);
    VC_REFUSE_IF(plan->n_targets > 1, ctx, VC_E_UNSUPPORTED,
                 "has several models, and couplings are those of one; give their folders one by one");
    VC_CALL(vc_calibration_check(ctx, s->options.calibration, plan->model, s->options.calibration_anyway, plan->arena,
                                 &s->measured));
    return vc_structured_list(ctx, s, plan);
}

/* ---- tensors ---- */

/* Why the tensor has no place in a group that is cut. The reason of the group that it is a member of, else "in no
 * group". */
static enum vc_status keep(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_item *item)
{
    const char *name = item->set->model->tensors[item->source].name;

    for (size_t i = 0; i < s->n_groups; i++) {
        const struct vc_coupling *c = s->groups[i].coupling;

        for (size_t k = 0; s->groups[i].reason != NULL && k < c->n_members; k++) {
            if (strcmp(c->members[k].tensor, name) == 0) {
                return vc_item_keep(ctx, item, "%s", s->groups[i].reason);
            }
        }
    }
    return vc_item_keep(ctx, item, "in no group");
}

/* The same sizes in the same order. */
static bool same_shape(const struct vc_desc *a, const struct vc_desc *b)
{
    return a->n_dims == b->n_dims && memcmp(a->shape, b->shape, a->n_dims * sizeof *a->shape) == 0;
}

/* The item loses rows or columns, or is scored; else it only goes as a whole, or stays. */
static bool is_touched(const struct vc_structured *s, size_t first, size_t n)
{
    size_t i = first;

    while (i < first + n && s->members[i].member->whole && s->groups[s->members[i].group].scores == NULL) {
        i++;
    }
    return i < first + n;
}

/* A tensor in no group may still change: a bias takes the mean of what its weight loses. */
static enum vc_status structured_plan(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item)
{
    struct vc_structured *s = pass->self;
    const struct vc_desc *desc = item->desc;
    bool float8 = s->options.dequantize && vc_decode_is_f8(desc);
    bool quantized = desc->quant != NULL || vc_dtype_is_quantized(desc->dtype) || float8;
    const char *why;
    size_t first;
    size_t n = vc_structured_find(s, item, &first);
    bool refitted;

    /* In no group: it may still be a bias whose weight loses columns. */
    if (n == 0) {
        VC_CALL(vc_removal_refit_add(ctx, s, item, &refitted, &why));
        return refitted ? VC_OK : keep(ctx, s, item);
    }
    /* what a tensor with a place in a group must be */
    VC_REFUSE_IF(!same_shape(desc, item->first), ctx, VC_E_UNSUPPORTED,
                 "an earlier pass has changed its shape, and the couplings are those of the source; remove "
                 "everything at once, or write a file in between");
    if (quantized && !is_touched(s, first, n)) {
        return vc_item_keep(ctx, item, "copied bit for bit");
    }
    VC_REFUSE_IF(quantized && !s->options.dequantize, ctx, VC_E_UNSUPPORTED,
                 "is quantized (%s), and its codes share scales (%s makes floats of them first, %s keeps its "
                 "group)",
                 desc->quant != NULL ? "int8" : vc_dtype_name(desc->dtype), vc_option(ctx, "dequantize"),
                 vc_option(ctx, "include=false"));
    if (quantized && (vc_decode_can(desc) || float8)) {
        VC_CALL(vc_decode_add(ctx, item, false));
    }
    VC_REFUSE_IF(vc_dtype_size(item->desc->dtype) == 0, ctx, VC_E_UNSUPPORTED,
                 "is %s, whose elements cannot be taken apart", vc_dtype_name(item->desc->dtype));
    /* the refit comes before the cut, on all columns */
    VC_CALL(vc_removal_refit_add(ctx, s, item, &refitted, &why));
    VC_CALL(vc_removal_add(ctx, s, item));
    if (vc_removal_step(s, item) != NULL) {
        vc_removal_step(s, item)->why = why;
    }
    return VC_OK;
}

/* What has a place in a group, but is not planned: a part of a quantized weight, or no weight at all. Refused: the item
 * has to be cut, and no step could be planned for it. */
static enum vc_status check_planned(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_plan *plan)
{
    for (size_t i = 0; i < s->n_members; i++) {
        const struct vc_item *item = &plan->items[s->members[i].tensor];

        VC_REFUSE_IF(vc_removal_step(s, item) == NULL && !s->members[i].member->whole, ctx, VC_E_UNSUPPORTED,
                     "%s: belongs to the group %s, and is %s", plan->model->tensors[item->source].name,
                     s->groups[s->members[i].group].coupling->name, item->dropped ? "left out" : "no weight by itself");
    }
    for (size_t i = 0; i < plan->n_items; i++) {
        VC_REFUSE_IF(plan->model->tensors[i].role == VC_ROLE_OPTIMIZER && !plan->items[i].dropped, ctx,
                     VC_E_UNSUPPORTED,
                     "%s: is state of the optimizer, which would not fit the weights any more; leave it out (%s)",
                     plan->model->tensors[i].name, vc_option(ctx, "vc_job_drop"));
    }
    return VC_OK;
}

/* What least squares change, now that it is known what goes: an item that is not cut and does not change stays. */
static enum vc_status settle_refit(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_plan *plan,
                                   struct vc_item *item)
{
    bool refits = false;

    if (s->options.reconstruct) {
        VC_CALL(vc_removal_refit_settle(ctx, s, plan, item, &refits));
    }
    if (!refits && vc_removal_step(s, item) == NULL && item->chain->n_steps > item->chain->pass_first) {
        size_t first;

        vc_item_undo(ctx, item);
        if (vc_structured_find(s, item, &first) == 0) {
            VC_CALL(keep(ctx, s, item));
        }
    }
    return VC_OK;
}

/* The shapes of all steps: by counts alone (final false), which is enough for sizes, or for good, with the units. */
static enum vc_status settle(struct vc_ctx *ctx, struct vc_structured *s, struct vc_plan *plan, bool final)
{
    const char *why;

    for (size_t i = 0; i < plan->n_items; i++) {
        struct vc_step *step = vc_removal_step(s, &plan->items[i]);

        if (step == NULL) {
            if (final) {
                VC_CALL(settle_refit(ctx, s, plan, &plan->items[i]));
            }
            continue;
        }
        /* Units are known: no step has to look at weights any more. */
        step->calibrate = step->calibrate && !final;
        if (vc_removal_settle(ctx, s, &plan->items[i], final) != VC_OK) {
            return vc_context(ctx, "%s", plan->model->tensors[i].name);
        }
        /* the common order took nothing from this group */
        if (final && step->out.n_elems == step->in.n_elems) {
            bool refitted;

            vc_item_undo(ctx, &plan->items[i]);
            VC_CALL(vc_item_keep(ctx, &plan->items[i], "nothing of its group goes"));
            VC_CALL(
                vc_removal_refit_add(ctx, s, &plan->items[i], &refitted, &why)); /* a bias of one that loses columns */
        }
        if (final) {
            VC_CALL(settle_refit(ctx, s, plan, &plan->items[i]));
        }
    }
    return VC_OK;
}

/* Some step still sums up weights. */
static bool calibrates(const struct vc_structured *s, const struct vc_plan *plan)
{
    for (size_t i = 0; i < plan->n_items; i++) {
        const struct vc_step *step = vc_removal_step(s, &plan->items[i]);

        if (step != NULL && step->calibrate) {
            return true;
        }
    }
    return false;
}

/* Which units go, and everything that follows from it. Called with the scores at hand, or where none are needed. */
static enum vc_status finish(struct vc_ctx *ctx, struct vc_structured *s, struct vc_plan *plan)
{
    VC_CALL(vc_structured_select(ctx, s, plan));
    VC_CALL(vc_structured_check_any(ctx, s));
    VC_CALL(settle(ctx, s, plan, true));
    VC_CALL(vc_structured_renumber(ctx, s, plan));
    VC_CALL(vc_structured_edit_graph(ctx, s, plan));
    return vc_structured_report(ctx, s, plan);
}

/* Edits first, so that what a configuration cannot say is refused before weights are read. */
static enum vc_status structured_plan_end(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan)
{
    struct vc_structured *s = pass->self;

    /* What cannot be done is said before weights are read: places without steps, sizes that a configuration has no key
     * for. */
    VC_CALL(check_planned(ctx, s, plan));
    VC_REFUSE_IF(s->options.reconstruct && s->n_refitted == 0, ctx, VC_E_UNSUPPORTED,
                 "%s: has second moments of no weight [out, in] that loses columns: calibrate with %s gathers them",
                 s->options.calibration->path, vc_option(ctx, "second_moments"));
    VC_CALL(settle(ctx, s, plan, false));
    VC_CALL(vc_structured_edit(ctx, s, plan));
    VC_CALL(vc_rules_unmatched(ctx, &s->arena, s->options.rules, s->options.n_rules, plan->model, &pass->note));
    VC_CALL(vc_note_add(ctx, plan->arena, s->measured, &pass->note));
    VC_CALL(vc_structured_note_experts(ctx, s, plan));
    if (plan->job->sizes_only || !calibrates(s, plan)) {
        VC_CALL(finish(ctx, s, plan));
    }
    return VC_OK;
}

/* One round is enough: sums do not depend on each other. */
static enum vc_status structured_decide(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan, size_t round)
{
    return finish(ctx, pass->self, plan);
}

static void structured_free(struct vc_ctx *ctx, struct vc_pass *pass)
{
    struct vc_structured *s = pass->self;

    forget_plan(ctx, s);
    vc_arena_release(ctx, &s->arena);
    vc_free(ctx, s);
}

/* The report's section on removal points into the pass, which lives as long as the job. */
static enum vc_status structured_report(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_plan *plan,
                                        bool measured, struct vc_report *report)
{
    const struct vc_structured *s = pass->self;

    report->removal = s->removal;
    return VC_OK;
}

static const struct vc_pass_ops structured_ops = {.name = "prune",
                                                  .plan_begin = structured_plan_begin,
                                                  .plan = structured_plan,
                                                  .plan_end = structured_plan_end,
                                                  .decide = structured_decide,
                                                  .report = structured_report,
                                                  .free = structured_free};

/* The order of the checks is that of the sentences: options as they stand, then what they say together (check), then
 * copies. */
enum vc_status vc_job_add_structured(struct vc_ctx *ctx, struct vc_job *job,
                                     const struct vc_structured_options *options)
{
    struct vc_structured_options own;
    struct vc_structured *s = NULL;
    enum vc_status status = VC_OK;

    vc_clear_error(ctx);
    VC_TRY(vc_options_read(ctx, VC_OPTIONS(structured), options, &own));
    VC_CALL_FOUND(ctx, vc_kernels_get(ctx));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, s, 1));
    s->pass.ops = &structured_ops;
    s->pass.self = s;
    s->options = own;
    VC_TRY(vc_structured_check(ctx, s));
    VC_TRY(vc_structured_copy(ctx, s));
    VC_TRY(vc_structured_describe(ctx, s));
    return vc_job_add_pass(ctx, job, &s->pass);
out:
    if (s != NULL) {
        structured_free(ctx, &s->pass);
    }
    return status;
}
