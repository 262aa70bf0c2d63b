/* structured_experts.c - units that are tensors of their own, as the experts of a layer are in most checkpoints:
 *
 *     layers.0.mlp.experts.0.up_proj.weight     unit 0                  stays, with its name
 *     layers.0.mlp.experts.1.up_proj.weight     unit 1, which goes      left out
 *     layers.0.mlp.experts.2.up_proj.weight     unit 2                  becomes experts.1
 *
 * Their numbers stand behind a part of the name that all of them have ("layers.0.mlp.experts."). Whatever else has such
 * a name belongs to the unit, too: biases that no graph mentions, scales and masks of quantized weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "prune/removal.h"

#define MOST_DIGITS 9

/* The number behind the prefix; *rest: what follows it. False: the name is another one. */
static bool take_unit(const struct vc_removal_group *group, const char *name, uint64_t *unit, const char **rest)
{
    const char *digits = name + group->n_prefix;
    size_t n;

    if (group->prefix == NULL || strncmp(name, group->prefix, group->n_prefix) != 0) {
        return false;
    }
    for (n = 0, *unit = 0; digits[n] >= '0' && digits[n] <= '9' && n < MOST_DIGITS; n++) {
        *unit = 10 * *unit + (uint64_t)(digits[n] - '0');
    }
    *rest = digits + n;
    return n != 0 && !(digits[0] == '0' && n > 1) && (**rest == '.' || **rest == '/' || **rest == '\0');
}

/* ---- where the numbers are ---- */

/* What the names of all units begin with, up to the digits. */
static void find_prefix(struct vc_removal_group *group)
{
    const struct vc_coupling *c = group->coupling;
    const char *first = NULL;
    size_t n = 0;
    size_t i;

    for (i = 0; i < c->n_members; i++) {
        const char *name = c->members[i].tensor;
        size_t k = 0;

        if (!c->members[i].whole) {
            continue;
        }
        n = first == NULL ? strlen(name) : n;
        first = first == NULL ? name : first;
        while (k < n && name[k] == first[k]) {
            k++;
        }
        n = k;
    }
    while (first != NULL && n > 0 && first[n - 1] >= '0' && first[n - 1] <= '9') {
        n--;
    }
    group->prefix = first;
    group->n_prefix = n;
}

enum vc_status vc_structured_find_numbers(struct vc_ctx *ctx, const struct vc_plan *plan,
                                          struct vc_removal_group *group, const char **reason)
{
    const struct vc_coupling *c = group->coupling;
    bool *has = vc_calloc_array(ctx, VC_TAG_SCRATCH, (size_t)c->n_units + 1, sizeof *has);
    enum vc_status status = VC_OK;
    uint64_t n = 0;
    size_t i;

    VC_TRY_ALLOC(has);
    find_prefix(group);
    for (i = 0; i < c->n_members && *reason == NULL; i++) {
        const struct vc_coupling_member *m = &c->members[i];
        const char *rest;
        uint64_t unit;

        if (m->whole && (!take_unit(group, m->tensor, &unit, &rest) || unit != m->unit)) {
            *reason = vc_arena_printf(ctx, plan->arena, "the number of unit %llu is not where others have it in %s",
                                      (unsigned long long)m->unit, m->tensor);
            VC_TRY_ALLOC(*reason);
        } else if (m->whole) {
            n += !has[unit];
            has[unit] = true;
        }
    }
    if (*reason == NULL && n != c->n_units) {
        *reason = vc_arena_printf(ctx, plan->arena, "%llu of its %llu units have tensors of their own",
                                  (unsigned long long)n, (unsigned long long)c->n_units);
        VC_TRY_ALLOC(*reason);
    }
out:
    vc_free(ctx, has);
    return status;
}

/* ---- scores ---- */

/* A tensor that is a unit, or a part of one. */
struct unit_tensor {
    const char *name;
    const char *rest; /* ".up_proj.weight" */
    uint64_t unit;
    double score;
};

static int by_rest(const void *a, const void *b)
{
    const struct unit_tensor *x = a;
    const struct unit_tensor *y = b;
    int order = strcmp(x->rest, y->rest);

    return order != 0 ? order : (x->unit > y->unit) - (x->unit < y->unit);
}

/* The sums of all rows of the tensor; false: it is not scored. */
static bool tensor_score(const struct vc_structured *s, const struct vc_removal_member *place,
                         const struct vc_plan *plan, double *score)
{
    const struct vc_step *step = vc_removal_step(s, &plan->items[place->tensor]);
    const struct vc_axis_cut *cut = step == NULL ? NULL : vc_removal_axis(step, 0);
    double total = 0;
    uint64_t i;

    if (cut == NULL || !cut->sums.ready || !vc_structured_counts(s, place->member, step->in.n_dims)) {
        return false;
    }
    for (i = 0; i < cut->len; i++) {
        total += cut->sums.sum[i];
    }
    *score = s->options.score == VC_STRUCTURED_L2 ? sqrt(total) : total;
    return true;
}

/* Tensors that are the same part of all units: like one member with an entry for each. */
static enum vc_status add_part(struct vc_ctx *ctx, struct vc_removal_group *group, const struct unit_tensor *list,
                               size_t n)
{
    double mean = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        mean += list[i].score;
    }
    mean /= (double)n;
    if (!isfinite(mean)) {
        return vc_fail(ctx, VC_E_UNSUPPORTED,
                       "%s and the tensors beside it: have NaN or infinities, or numbers whose sum is none, so they "
                       "cannot be compared (%s keeps their group)",
                       list[0].name, vc_option(ctx, "include=false"));
    }
    if (n != group->coupling->n_units) {
        return vc_fail(
            ctx, VC_E_UNSUPPORTED,
            "%s: %zu of the %llu units of %s have such a tensor, so they cannot be compared; name those that "
            "go (%s)",
            list[0].name, n, (unsigned long long)group->coupling->n_units, group->coupling->name,
            vc_option(ctx, "remove"));
    }
    for (i = 0; mean > 0 && i < n; i++) {
        group->scores[list[i].unit] += list[i].score / mean;
    }
    group->n_scored++;
    return VC_OK;
}

enum vc_status vc_structured_score_tensors(struct vc_ctx *ctx, const struct vc_structured *s,
                                           struct vc_removal_group *group, const struct vc_plan *plan)
{
    struct unit_tensor *list = vc_alloc_array(ctx, VC_TAG_SCRATCH, s->n_members + 1, sizeof *list);
    enum vc_status status = VC_OK;
    size_t n = 0;
    size_t i;
    size_t end;

    VC_TRY_ALLOC(list);
    for (i = 0; i < s->n_members; i++) {
        const struct vc_removal_member *place = &s->members[i];
        struct unit_tensor *t = &list[n];

        t->name = place->member->tensor;
        if (&s->groups[place->group] == group && place->member->whole && tensor_score(s, place, plan, &t->score) &&
            take_unit(group, t->name, &t->unit, &t->rest)) {
            n++;
        }
    }
    qsort(list, n, sizeof *list, by_rest);
    for (i = 0; i < n; i = end) {
        for (end = i; end < n && strcmp(list[i].rest, list[end].rest) == 0;) {
            end++;
        }
        VC_TRY(add_part(ctx, group, list + i, end - i));
    }
out:
    vc_free(ctx, list);
    return status;
}

/* ---- names ---- */

static enum vc_status renumber_tensor(struct vc_ctx *ctx, struct vc_plan *plan, size_t tensor,
                                      const struct vc_removal_group *group, uint64_t number, const char *rest)
{
    const char *name = vc_arena_printf(ctx, plan->arena, "%.*s%llu%s", (int)group->n_prefix, group->prefix,
                                       (unsigned long long)number, rest);

    return name != NULL ? vc_plan_rename(ctx, plan, tensor, name) : VC_E_NOMEM;
}

static enum vc_status renumber_group(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_removal_group *group)
{
    uint64_t n = group->coupling->n_units;
    uint64_t *number = vc_alloc_array(ctx, VC_TAG_SCRATCH, (size_t)n + 1, sizeof *number);
    enum vc_status status = VC_OK;
    uint64_t u;
    size_t i;

    VC_TRY_ALLOC(number);
    for (u = 0, number[0] = 0; u < n; u++) {
        number[u + 1] = number[u] + !group->goes[u];
    }
    for (i = 0; i < plan->n_items; i++) {
        const char *name = plan->model->tensors[i].name;
        const char *rest;

        if (plan->items[i].dropped || !take_unit(group, name, &u, &rest) || u >= n) {
            continue;
        }
        if (group->goes[u]) {
            VC_TRY(vc_plan_drop(ctx, plan, i, "its unit is left out"));
        } else if (number[u] != u) {
            VC_TRY(renumber_tensor(ctx, plan, i, group, number[u], rest));
        }
    }
out:
    vc_free(ctx, number);
    return status;
}

enum vc_status vc_structured_renumber(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_plan *plan)
{
    enum vc_status status = VC_OK;
    size_t i;

    for (i = 0; i < s->n_groups; i++) {
        const struct vc_removal_group *group = &s->groups[i];

        if (group->reason == NULL && group->prefix != NULL && group->n_go != 0) {
            VC_TRY(renumber_group(ctx, plan, group));
        }
    }
out:
    return status;
}
