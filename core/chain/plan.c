/* plan.c - what a pass asks of the plan of a whole job, or adds to it: the tensors that it may work on, those that go
 * or get other names, and edits of the model's configuration and of its graph. See pass.h; the items are made in
 * core/job/job_plan.c, and core/job/job_names.c does what follows from new names. */

#include "core/base/array.h"
#include "core/chain/pass.h"

struct vc_item *vc_plan_item(const struct vc_plan *plan, size_t index)
{
    const struct vc_tensor *t = &plan->model->tensors[index];
    struct vc_item *item = &plan->items[index];
    bool left_alone = t->part_of != VC_NO_TENSOR || item->dropped || item->tied || t->role != VC_ROLE_WEIGHT;

    return left_alone || vc_is_of_codes(t) ? NULL : item;
}

/* ---- tensors that go, or get other names ---- */

static enum vc_status need_names(struct vc_ctx *ctx, struct vc_plan *plan)
{
    if (plan->names != NULL) {
        return VC_OK;
    }
    VC_CALL_ALLOC(plan->gone = vc_arena_alloc(ctx, plan->arena, plan->n_items * sizeof *plan->gone));
    VC_CALL_ALLOC(plan->names = vc_arena_alloc(ctx, plan->arena, plan->n_items * sizeof *plan->names));
    memset(plan->gone, 0, plan->n_items * sizeof *plan->gone);
    memset(plan->names, 0, plan->n_items * sizeof *plan->names);
    return VC_OK;
}

enum vc_status vc_plan_drop(struct vc_ctx *ctx, struct vc_plan *plan, size_t index, const char *why)
{
    if (need_names(ctx, plan) != VC_OK) {
        return VC_E_NOMEM;
    }
    plan->gone[index] = true;
    plan->items[index].reason = why;
    plan->renames = true;
    return VC_OK;
}

enum vc_status vc_plan_rename(struct vc_ctx *ctx, struct vc_plan *plan, size_t index, const char *name)
{
    if (need_names(ctx, plan) != VC_OK) {
        return VC_E_NOMEM;
    }
    plan->names[index] = vc_arena_printf(ctx, plan->arena, "%s", name);
    plan->renames = true;
    return plan->names[index] != NULL ? VC_OK : VC_E_NOMEM;
}

/* ---- edits ---- */

/* The number is in the list, which rises. */
static bool holds(const uint64_t *sorted, size_t n, uint64_t number)
{
    size_t i = 0;

    while (i < n && sorted[i] < number) {
        i++;
    }
    return i < n && sorted[i] == number;
}

/* The layers that are gone after both edits, in the source's numbers. Those of the second edit count what the first one
 * left: of 6 layers the first edit drops 1 and 3, which leaves 0 2 4 5; then "0 and 2" means 0 and 4 of the source.
 * Fails where a list names a layer twice, does not rise, or names one that there is not. */
static enum vc_status join_dropped(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_edit *first,
                                   const struct vc_edit *second, uint64_t **out)
{
    uint64_t *joined = vc_arena_alloc(ctx, plan->arena, (first->n_dropped + second->n_dropped + 1) * sizeof *joined);
    uint64_t left = 0; /* number among the layers that the first edit left */
    size_t n = 0;

    *out = joined;
    VC_CALL_ALLOC(joined);
    for (uint64_t layer = 0; n < first->n_dropped + second->n_dropped && layer < first->before; layer++) {
        if (holds(first->dropped, first->n_dropped, layer)) {
            joined[n++] = layer;
        } else if (holds(second->dropped, second->n_dropped, left++)) {
            joined[n++] = layer;
        }
    }
    return n == first->n_dropped + second->n_dropped
               ? VC_OK
               : vc_fail(ctx, VC_E_INTERNAL, "layers that the model does not have are dropped");
}

/* The first edit of its key: the list of layers is checked and copied to the arena. */
static enum vc_status copy_edit(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_edit *edit,
                                struct vc_edit *to)
{
    const struct vc_edit nothing = {.before = edit->before};
    uint64_t *dropped;

    *to = *edit;
    VC_CALL(join_dropped(ctx, plan, &nothing, edit, &dropped));
    to->dropped = dropped;
    return VC_OK;
}

enum vc_status vc_plan_edit(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_edit *edit)
{
    uint64_t *dropped;
    size_t i = 0;

    while (i < plan->n_edits && plan->edits[i].key != edit->key) {
        i++;
    }
    if (i < plan->n_edits) {
        VC_REFUSE_IF(plan->edits[i].list != NULL && edit->list != NULL && strcmp(plan->edits[i].list, edit->list) != 0,
                     ctx, VC_E_UNSUPPORTED, "layers of %s are left out; those of %s take a run of their own",
                     plan->edits[i].list, edit->list);
        VC_REFUSE_IF(plan->edits[i].after != edit->before, ctx, VC_E_INTERNAL, "the %s is %llu by now, not %llu",
                     vc_edit_name(edit->key), (unsigned long long)plan->edits[i].after,
                     (unsigned long long)edit->before);
        VC_CALL(join_dropped(ctx, plan, &plan->edits[i], edit, &dropped));
        plan->edits[i].after = edit->after;
        plan->edits[i].dropped = dropped;
        plan->edits[i].n_dropped += edit->n_dropped;
        return VC_OK;
    }
    if (VC_ARENA_GROW(ctx, plan->arena, plan->edits, plan->edits_capacity, plan->n_edits + 1) != VC_OK ||
        copy_edit(ctx, plan, edit, &plan->edits[plan->n_edits]) != VC_OK) {
        return ctx->status;
    }
    plan->n_edits++;
    return VC_OK;
}

/* A copy with strings and numbers of its own. */
static enum vc_status copy_graph_edit(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_graph_edit *edit,
                                      struct vc_graph_edit *to)
{
    int64_t *numbers = vc_arena_alloc(ctx, plan->arena, (edit->n + 1) * sizeof *numbers);

    *to = *edit;
    VC_CALL_ALLOC(numbers);
    if (edit->n != 0) {
        memcpy(numbers, edit->numbers, edit->n * sizeof *numbers);
    }
    to->numbers = numbers;
    VC_CALL_ALLOC(to->value = vc_arena_printf(ctx, plan->arena, "%s", edit->value));
    if (edit->kind == VC_GRAPH_EDIT_ATTRIBUTE) {
        VC_CALL_ALLOC(to->attribute = vc_arena_printf(ctx, plan->arena, "%s", edit->attribute));
    }
    return VC_OK;
}

enum vc_status vc_plan_edit_graph(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_graph_edit *edits, size_t n)
{
    VC_CALL(VC_ARENA_GROW(ctx, plan->arena, plan->graph_edits, plan->graph_edits_capacity, plan->n_graph_edits + n));
    for (size_t i = 0; i < n; i++) {
        VC_CALL(copy_graph_edit(ctx, plan, &edits[i], &plan->graph_edits[plan->n_graph_edits]));
        plan->n_graph_edits++;
    }
    return VC_OK;
}
