/* structured_experts.c - units that are tensors of their own, as the experts of a layer are in most checkpoints:
 *
 *     layers.0.mlp.experts.0.up_proj.weight     unit 0                  stays, with its name
 *     layers.0.mlp.experts.1.up_proj.weight     unit 1, which goes      left out
 *     layers.0.mlp.experts.2.up_proj.weight     unit 2                  becomes experts.1
 *
 * Their numbers stand behind a part of the name that all of them have ("layers.0.mlp.experts."). Whatever else has such
 * a name belongs to the unit, too: biases that no graph mentions, scales and masks of quantized weights. */

#include "prune/structured/removal.h"

/* Each unit needs a tensor with its number at the same place of the name. */
enum vc_status vc_structured_find_numbers(struct vc_ctx *ctx, const struct vc_plan *plan,
                                          struct vc_removal_group *group, const char **reason)
{
    const struct vc_coupling *c = group->coupling;
    VC_SCOPED bool *has = vc_calloc_array(ctx, VC_TAG_SCRATCH, (size_t)c->n_units + 1, sizeof *has);
    uint64_t n = 0;

    VC_CALL_ALLOC(has);
    group->names = vc_unit_names_of(c);
    for (size_t i = 0; i < c->n_members && *reason == NULL; i++) {
        const struct vc_coupling_member *m = &c->members[i];
        const char *rest;
        uint64_t unit;

        if (m->whole && (!vc_unit_names_take(&group->names, m->tensor, &unit, &rest) || unit != m->unit)) {
            *reason = vc_arena_printf(ctx, plan->arena, "the number of unit %llu is not where others have it in %s",
                                      (unsigned long long)m->unit, m->tensor);
            VC_CALL_ALLOC(*reason);
        } else if (m->whole) {
            n += !has[unit];
            has[unit] = true;
        }
    }
    if (*reason == NULL && n != c->n_units) {
        *reason = vc_arena_printf(ctx, plan->arena, "%llu of its %llu units have tensors of their own",
                                  (unsigned long long)n, (unsigned long long)c->n_units);
        VC_CALL_ALLOC(*reason);
    }
    return VC_OK;
}

/* ---- scores ---- */

/* The sum of the tensor; false: it is not scored. */
static bool tensor_sum(const struct vc_structured *s, const struct vc_removal_member *place, const struct vc_plan *plan,
                       double *sum)
{
    const struct vc_step *step = vc_removal_step(s, &plan->items[place->tensor]);
    const struct vc_axis_cut *cut = step == NULL ? NULL : vc_removal_axis(step, 0);
    double total = 0;

    if (cut == NULL || !cut->sums.ready || !vc_structured_counts(s, place->member, step->in.n_dims)) {
        return false;
    }
    for (uint64_t i = 0; i < cut->len; i++) {
        total += cut->sums.sum[i];
    }
    *sum = total;
    return true;
}

enum vc_status vc_structured_score_tensors(struct vc_ctx *ctx, const struct vc_structured *s,
                                           const struct vc_removal_group *group, const struct vc_plan *plan,
                                           struct vc_unit_scores *scores)
{
    VC_SCOPED struct vc_unit_part *list = vc_alloc_array(ctx, VC_TAG_SCRATCH, s->n_members + 1, sizeof *list);
    size_t n = 0;

    VC_CALL_ALLOC(list);
    for (size_t i = 0; i < s->n_members; i++) {
        const struct vc_removal_member *place = &s->members[i];
        struct vc_unit_part *t = &list[n];

        t->name = place->member->tensor;
        if (&s->groups[place->group] == group && place->member->whole && tensor_sum(s, place, plan, &t->sum) &&
            vc_unit_names_take(&group->names, t->name, &t->unit, &t->rest)) {
            n++;
        }
    }
    return vc_unit_scores_add_parts(ctx, scores, list, n);
}

/* ---- names ---- */

/* prefix, number, rest: "layers.0.mlp.experts." 1 ".up_proj.weight". */
static enum vc_status renumber_tensor(struct vc_ctx *ctx, struct vc_plan *plan, size_t tensor,
                                      const struct vc_removal_group *group, uint64_t number, const char *rest)
{
    const char *name = vc_arena_printf(ctx, plan->arena, "%.*s%llu%s", (int)group->names.n_prefix, group->names.prefix,
                                       (unsigned long long)number, rest);

    return name != NULL ? vc_plan_rename(ctx, plan, tensor, name) : VC_E_NOMEM;
}

/* number[u]: how many units before u stay, which is the new number of u. */
static enum vc_status renumber_group(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_removal_group *group)
{
    uint64_t n = group->coupling->n_units;
    VC_SCOPED uint64_t *number = vc_alloc_array(ctx, VC_TAG_SCRATCH, (size_t)n + 1, sizeof *number);
    uint64_t u;

    VC_CALL_ALLOC(number);
    for (u = 0, number[0] = 0; u < n; u++) {
        number[u + 1] = number[u] + !group->goes[u];
    }
    for (size_t i = 0; i < plan->n_items; i++) {
        const char *name = plan->model->tensors[i].name;
        const char *rest;

        if (plan->items[i].dropped || !vc_unit_names_take(&group->names, name, &u, &rest) || u >= n) {
            continue;
        }
        if (group->goes[u]) {
            VC_CALL(vc_plan_drop(ctx, plan, i, "its unit is left out"));
        } else if (number[u] != u) {
            VC_CALL(renumber_tensor(ctx, plan, i, group, number[u], rest));
        }
    }
    return VC_OK;
}

/* Groups whose units are rows of one tensor have no names to change. */
enum vc_status vc_structured_renumber(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_plan *plan)
{
    for (size_t i = 0; i < s->n_groups; i++) {
        const struct vc_removal_group *group = &s->groups[i];

        if (group->reason == NULL && group->names.prefix != NULL && group->n_go != 0) {
            VC_CALL(renumber_group(ctx, plan, group));
        }
    }
    return VC_OK;
}
