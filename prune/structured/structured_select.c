/* structured_select.c - the score of each unit of a group, from the sums that the steps of the members made, and the
 * units to remove: the lowest scores, among equal scores the later units first. Definition: docs/numerics.md.
 * */

#include "prune/structured/removal.h"

/* ---- scores ---- */

/* The group's scores in the making. */
static struct vc_unit_scores scores_of(const struct vc_structured *s, const struct vc_removal_group *group)
{
    return (struct vc_unit_scores){.coupling = group->coupling,
                                   .power = s->options.score == VC_STRUCTURED_L2 ? 2 : 1,
                                   .scores = group->scores,
                                   .n_scored = group->n_scored};
}

/* Sums over the members' elements, of squares (l2) or magnitudes, become scores: passes/scores/unit_scores.h. */
static enum vc_status make_scores(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan)
{
    struct vc_unit_scores scores;

    for (size_t i = 0; i < s->n_members; i++) {
        struct vc_removal_group *group = &s->groups[s->members[i].group];
        const struct vc_step *step = vc_removal_step(s, &plan->items[s->members[i].tensor]);
        const struct vc_axis_cut *cut = step == NULL ? NULL : vc_removal_axis(step, s->members[i].member->axis);

        if (cut != NULL && cut->sums.ready && group->scores != NULL && !s->members[i].member->whole &&
            vc_structured_counts(s, s->members[i].member, step->in.n_dims)) {
            scores = scores_of(s, group);
            VC_CALL(vc_unit_scores_add(ctx, &scores, s->members[i].member, cut->sums.sum));
            group->n_scored = scores.n_scored;
        }
    }
    for (size_t i = 0; i < s->n_groups; i++) {
        /* obs makes its scores from tables, not from sums */
        if (s->options.score == VC_STRUCTURED_OBS) {
            if (s->groups[i].scores != NULL && s->groups[i].reason == NULL) {
                VC_CALL(vc_structured_obs(ctx, s, plan, &s->groups[i]));
            }
            continue;
        }
        scores = scores_of(s, &s->groups[i]);
        if (s->groups[i].names.prefix != NULL && s->groups[i].scores != NULL) {
            VC_CALL(vc_structured_score_tensors(ctx, s, &s->groups[i], plan, &scores));
        }
        if (scores.scores != NULL) {
            vc_unit_scores_end(&scores);
        }
    }
    return VC_OK;
}

/* ---- the order ---- */

/* Sorts the units of a group by score and marks the first n_go units for removal. */
static enum vc_status choose(struct vc_ctx *ctx, struct vc_removal_group *group)
{
    uint64_t n = group->coupling->n_units;
    VC_SCOPED struct vc_ranked_unit *order = vc_alloc_array(ctx, VC_TAG_SCRATCH, (size_t)n, sizeof *order);

    VC_CALL_ALLOC(order);
    for (uint64_t u = 0; u < n; u++) {
        order[u] = (struct vc_ranked_unit){group->scores[u], 0, u};
    }
    vc_ranked_units_sort(order, (size_t)n);
    for (uint64_t u = 0; u < group->n_go; u++) {
        group->goes[order[u].unit] = true;
    }
    if (group->n_go != 0) {
        group->gone_min = order[0].score;
        group->gone_max = order[group->n_go - 1].score;
    }
    group->kept_min = order[group->n_go].score;
    group->kept_max = order[n - 1].score;
    return VC_OK;
}

/* True for a group whose units are ranked together with the units of other groups of this kind. */
static bool is_shared(const struct vc_structured *s, const struct vc_removal_group *group, enum vc_unit unit)
{
    return s->options.scope == VC_PRUNE_GLOBAL && group->reason == NULL && !group->own && group->scores != NULL &&
           group->coupling->unit == unit;
}

/* Decides how many units each of the groups ranked together loses. Every group keeps at least one unit. */
static enum vc_status divide(struct vc_ctx *ctx, struct vc_structured *s, enum vc_unit unit)
{
    VC_SCOPED struct vc_ranked_unit *order = NULL;
    uint64_t n = 0;

    for (size_t i = 0; i < s->n_groups; i++) {
        n += is_shared(s, &s->groups[i], unit) ? s->groups[i].coupling->n_units : 0;
    }
    if (n == 0) {
        return VC_OK;
    }
    VC_CALL(VC_ARRAY(ctx, VC_TAG_SCRATCH, order, (size_t)n));
    n = 0;
    for (size_t i = 0; i < s->n_groups; i++) {
        for (uint64_t u = 0; is_shared(s, &s->groups[i], unit) && u < s->groups[i].coupling->n_units; u++) {
            order[n++] = (struct vc_ranked_unit){s->groups[i].scores[u], i, u};
        }
    }
    vc_ranked_units_sort(order, (size_t)n);
    /* the lowest scores of all groups, but one unit of each stays */
    uint64_t left = vc_fraction_floor(s->share, n);
    for (uint64_t u = 0; u < n && left != 0; u++) {
        struct vc_removal_group *group = &s->groups[order[u].group];

        if (group->n_go + 1 < group->coupling->n_units) {
            group->n_go++;
            left--;
        }
    }
    for (size_t i = 0; i < s->n_groups; i++) {
        struct vc_removal_group *group = &s->groups[i];

        if (is_shared(s, group, unit)) {
            group->n_go = vc_structured_round(s, unit, group->coupling->n_units, group->n_go);
        }
    }
    return VC_OK;
}

enum vc_status vc_structured_select(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan)
{
    if (!plan->job->sizes_only) { /* all are equal then, so that the last ones go */
        VC_CALL(make_scores(ctx, s, plan));
    }
    for (size_t i = VC_UNIT_NEURONS; i <= VC_UNIT_HIDDEN; i++) {
        VC_CALL(divide(ctx, s, (enum vc_unit)i));
    }
    for (size_t i = 0; i < s->n_groups; i++) {
        if (s->groups[i].reason == NULL && s->groups[i].scores != NULL) {
            VC_CALL(choose(ctx, &s->groups[i]));
        }
    }
    return VC_OK;
}
