/* structured_select.c - how important each unit of a group is, from the sums that the steps of its members have made,
 * and which units go: those with the lowest scores, of equal ones the later ones first. Definition: docs/numerics.md.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "prune/removal.h"

bool vc_structured_counts(const struct vc_structured *s, const struct vc_coupling_member *member, unsigned n_dims)
{
    const char *point = strrchr(member->tensor, '.');
    const char *last = point != NULL ? point + 1 : member->tensor;

    if (s->options.score != VC_STRUCTURED_NORM) {
        return member->makes;
    }
    return n_dims == 1 && (strcmp(last, "weight") == 0 || strcmp(last, "gamma") == 0 || strcmp(last, "scale") == 0);
}

/* ---- scores ---- */

/* The sums over a unit's places, in the order of repeats. */
static double unit_score(const struct vc_structured *s, const struct vc_coupling *c,
                         const struct vc_coupling_member *member, const double *sum, uint64_t u)
{
    double total = 0;
    uint64_t r;
    uint64_t j;

    for (r = 0; r < member->repeat; r++) {
        for (j = 0; j < member->block; j++) {
            total += sum[vc_removal_place(c, member, r, u, j)];
        }
    }
    return s->options.score == VC_STRUCTURED_L2 ? sqrt(total) : total;
}

/* Adds the member's scores, divided by their mean, to the group's. A member of zeros tells nothing apart. */
static enum vc_status add_member(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_removal_group *group,
                                 const struct vc_removal_member *place, const double *sum)
{
    const struct vc_coupling *c = group->coupling;
    double mean = 0;
    uint64_t u;

    for (u = 0; u < c->n_units; u++) {
        mean += unit_score(s, c, place->member, sum, u);
    }
    mean /= (double)c->n_units;
    if (!isfinite(mean)) {
        return vc_fail(
            ctx, VC_E_UNSUPPORTED,
            "%s: has NaN or infinite values, or values whose sum is infinite, so its rows and columns cannot "
            "be compared (%s keeps its group)",
            place->member->tensor, vc_option(ctx, "include=false"));
    }
    for (u = 0; mean > 0 && u < c->n_units; u++) {
        group->scores[u] += unit_score(s, c, place->member, sum, u) / mean;
    }
    group->n_scored++;
    return VC_OK;
}

static enum vc_status make_scores(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan)
{
    enum vc_status status = VC_OK;
    size_t i;
    uint64_t u;

    for (i = 0; i < s->n_members; i++) {
        struct vc_removal_group *group = &s->groups[s->members[i].group];
        const struct vc_step *step = vc_removal_step(s, &plan->items[s->members[i].tensor]);
        const struct vc_axis_cut *cut = step == NULL ? NULL : vc_removal_axis(step, s->members[i].member->axis);

        if (cut != NULL && cut->sums.ready && group->scores != NULL && !s->members[i].member->whole &&
            vc_structured_counts(s, s->members[i].member, step->in.n_dims)) {
            VC_TRY(add_member(ctx, s, group, &s->members[i], cut->sums.sum));
        }
    }
    for (i = 0; i < s->n_groups; i++) {
        VC_TRY(s->groups[i].prefix != NULL && s->groups[i].scores != NULL
                   ? vc_structured_score_tensors(ctx, s, &s->groups[i], plan)
                   : VC_OK);
        for (u = 0; s->groups[i].n_scored > 1 && u < s->groups[i].coupling->n_units; u++) {
            s->groups[i].scores[u] /= (double)s->groups[i].n_scored;
        }
    }
out:
    return status;
}

/* ---- the order ---- */

struct vc_ranked {
    double score;
    size_t group;
    uint64_t unit;
};

/* The lowest score first; of equal ones the later unit, of the later group. */
static int by_score(const void *a, const void *b)
{
    const struct vc_ranked *x = a;
    const struct vc_ranked *y = b;

    if (x->score != y->score) {
        return x->score < y->score ? -1 : 1;
    }
    if (x->group != y->group) {
        return x->group > y->group ? -1 : 1;
    }
    return x->unit > y->unit ? -1 : x->unit < y->unit;
}

/* The group's own order; the first n_go units of it go. */
static enum vc_status choose(struct vc_ctx *ctx, struct vc_removal_group *group)
{
    uint64_t n = group->coupling->n_units;
    struct vc_ranked *order = vc_alloc_array(ctx, VC_TAG_SCRATCH, (size_t)n, sizeof *order);
    enum vc_status status = VC_OK;
    uint64_t u;

    VC_TRY_ALLOC(order);
    for (u = 0; u < n; u++) {
        order[u] = (struct vc_ranked){group->scores[u], 0, u};
    }
    qsort(order, (size_t)n, sizeof *order, by_score);
    for (u = 0; u < group->n_go; u++) {
        group->goes[order[u].unit] = true;
    }
    if (group->n_go != 0) {
        group->gone_min = order[0].score;
        group->gone_max = order[group->n_go - 1].score;
    }
    group->kept_min = order[group->n_go].score;
    group->kept_max = order[n - 1].score;
out:
    vc_free(ctx, order);
    return status;
}

/* A group whose units stand in a common order with those of other groups of that kind. */
static bool is_shared(const struct vc_structured *s, const struct vc_removal_group *group, enum vc_unit unit)
{
    return s->options.scope == VC_PRUNE_GLOBAL && group->reason == NULL && !group->own && group->scores != NULL &&
           group->coupling->unit == unit;
}

/* How many units go of each group that shares its order with others; of each at least one stays. */
static enum vc_status divide(struct vc_ctx *ctx, struct vc_structured *s, enum vc_unit unit)
{
    struct vc_ranked *order = NULL;
    enum vc_status status = VC_OK;
    uint64_t n = 0;
    uint64_t left;
    size_t i;
    uint64_t u;

    for (i = 0; i < s->n_groups; i++) {
        n += is_shared(s, &s->groups[i], unit) ? s->groups[i].coupling->n_units : 0;
    }
    if (n == 0) {
        return VC_OK;
    }
    order = vc_alloc_array(ctx, VC_TAG_SCRATCH, (size_t)n, sizeof *order);
    VC_TRY_ALLOC(order);
    n = 0;
    for (i = 0; i < s->n_groups; i++) {
        for (u = 0; is_shared(s, &s->groups[i], unit) && u < s->groups[i].coupling->n_units; u++) {
            order[n++] = (struct vc_ranked){s->groups[i].scores[u], i, u};
        }
    }
    qsort(order, (size_t)n, sizeof *order, by_score);
    left = vc_fraction_floor(s->share, n);
    for (u = 0; u < n && left != 0; u++) {
        struct vc_removal_group *group = &s->groups[order[u].group];

        if (group->n_go + 1 < group->coupling->n_units) {
            group->n_go++;
            left--;
        }
    }
    for (i = 0; i < s->n_groups; i++) {
        struct vc_removal_group *group = &s->groups[i];

        if (is_shared(s, group, unit)) {
            group->n_go = vc_structured_round(s, unit, group->coupling->n_units, group->n_go);
        }
    }
out:
    vc_free(ctx, order);
    return status;
}

enum vc_status vc_structured_select(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan)
{
    enum vc_status status;
    size_t i;

    VC_TRY(make_scores(ctx, s, plan));
    for (i = VC_UNIT_NEURONS; i <= VC_UNIT_HIDDEN; i++) {
        VC_TRY(divide(ctx, s, (enum vc_unit)i));
    }
    for (i = 0; i < s->n_groups; i++) {
        if (s->groups[i].reason == NULL && s->groups[i].scores != NULL) {
            VC_TRY(choose(ctx, &s->groups[i]));
        }
    }
out:
    return status;
}
