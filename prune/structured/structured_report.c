/* structured_report.c - what the report says about each group: its members, what goes of it, and by which scores. */
#include "graph/couple/couple.h"
#include "prune/structured/removal.h"

/* "fc1.weight:0", or "experts.0.w@0" for a tensor that is unit 0. */
static enum vc_status list_names(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_coupling *c,
                                 struct vc_report_group *out)
{
    const char **names = vc_arena_alloc(ctx, plan->arena, (c->n_members + 1) * sizeof *names);

    VC_CALL_ALLOC(names);
    for (size_t i = 0; i < c->n_members; i++) {
        const struct vc_coupling_member *m = &c->members[i];

        names[i] = m->whole ? vc_arena_printf(ctx, plan->arena, "%s@%llu", m->tensor, (unsigned long long)m->unit)
                            : vc_arena_printf(ctx, plan->arena, "%s:%u", m->tensor, m->axis);
        VC_CALL_ALLOC(names[i]);
    }
    out->members = names;
    out->n_members = c->n_members;
    return VC_OK;
}

/* Numbers of the units that go, rising. */
static enum vc_status list_removed(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_removal_group *group,
                                   struct vc_report_group *out)
{
    uint64_t *removed = vc_arena_alloc(ctx, plan->arena, ((size_t)group->n_go + 1) * sizeof *removed);

    VC_CALL_ALLOC(removed);
    for (uint64_t u = 0; group->reason == NULL && u < group->coupling->n_units; u++) {
        if (group->goes[u]) {
            removed[out->n_removed++] = u;
        }
    }
    out->removed = removed;
    return VC_OK;
}

/* Multiply-adds before and after; nothing where no sizes of inputs are known. */
static enum vc_status count_work(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_plan *plan,
                                 struct vc_report_removal *removal)
{
    VC_SCOPED uint64_t *kept = NULL;
    const char *at;

    VC_CALL(vc_structured_kept(ctx, s, &kept));
    VC_CALL(vc_couplings_work(ctx, s->stating, kept, &removal->macs_before, &removal->macs_after, &at));
    if (at != NULL) {
        VC_CALL_ALLOC(removal->macs_at = vc_arena_printf(ctx, plan->arena, "%s", at));
    }
    return VC_OK;
}

/* A group of kernel sides (axes from 2 on), which is fixed and would only fill the report. */
static bool is_side(const struct vc_structured *s, const struct vc_coupling *c)
{
    for (size_t i = 0; c->fixed != NULL && s->options.n_remove == 0 && i < c->n_members; i++) {
        if (c->members[i].whole || c->members[i].axis < 2) {
            return false;
        }
    }
    return c->fixed != NULL && s->options.n_remove == 0;
}

/* Texts are copied: couplings may be freed before the report. */
enum vc_status vc_structured_report(struct vc_ctx *ctx, struct vc_structured *s, struct vc_plan *plan)
{
    static const char *const kinds[] = {"neurons", "heads", "experts", "hidden"};
    struct vc_report_removal *removal = vc_arena_alloc(ctx, plan->arena, sizeof *removal);
    struct vc_report_group *groups = vc_arena_alloc(ctx, plan->arena, (s->n_groups + 1) * sizeof *groups);
    size_t n = 0;

    VC_CALL_ALLOC(removal);
    VC_CALL_ALLOC(groups);
    for (size_t i = 0; i < s->n_groups; i++) {
        const struct vc_removal_group *group = &s->groups[i];
        const struct vc_coupling *c = group->coupling;

        if (is_side(s, c)) {
            continue;
        }
        groups[n] = (struct vc_report_group){.name = vc_arena_printf(ctx, plan->arena, "%s", c->name),
                                             .kind = kinds[c->unit],
                                             .n_before = c->n_units,
                                             .n_after = c->n_units - group->n_go,
                                             .reason = "",
                                             .scored = group->reason == NULL && group->scores != NULL,
                                             .removed_min = group->gone_min,
                                             .removed_max = group->gone_max,
                                             .kept_min = group->kept_min,
                                             .kept_max = group->kept_max};
        VC_CALL_ALLOC(groups[n].name);
        /* why all of it stays */
        if (group->reason != NULL) {
            VC_CALL_ALLOC(groups[n].reason = vc_arena_printf(ctx, plan->arena, "%s", group->reason));
        }
        VC_CALL(list_names(ctx, plan, c, &groups[n]));
        VC_CALL(list_removed(ctx, plan, group, &groups[n]));
        n++;
    }
    *removal = (struct vc_report_removal){.n_groups = n, .groups = groups};
    VC_CALL(count_work(ctx, s, plan, removal));
    s->removal = removal;
    return VC_OK;
}
