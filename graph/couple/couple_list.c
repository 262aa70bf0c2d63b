/* couple_list.c - lists of groups: how they grow, and what programs see of them. Makers (couple_groups.c,
 * couple_read.c) add groups and members; vc_couplings_finish sorts members, decides what a printed file has to
 * state, and names the groups. */

#include "core/base/array.h"
#include "core/text/name_table.h"
#include "graph/couple/couple.h"
#include "graph/couple/couple_sizes.h"

static void end(void *result)
{
    struct vc_couplings *couplings = result;

    for (size_t k = 0; k < couplings->public.n; k++) {
        vc_free(couplings->ctx, couplings->groups[k].members);
    }
    vc_free(couplings->ctx, couplings->groups);
    vc_couple_sizes_free(couplings->ctx, couplings->sizes);
    vc_arena_release(couplings->ctx, &couplings->arena);
}

enum vc_status vc_couplings_create(struct vc_ctx *ctx, struct vc_couplings **out)
{
    VC_CALL(VC_RESULT(ctx, VC_TAG_MISC, *out, end));
    (*out)->ctx = ctx;
    return VC_OK;
}

/* ---- growing ---- */

struct vc_group *vc_couplings_add(struct vc_couplings *couplings, enum vc_unit unit, uint64_t n_units)
{
    if (VC_GROW(couplings->ctx, VC_TAG_MISC, couplings->groups, couplings->capacity, couplings->public.n + 1) !=
        VC_OK) {
        return NULL;
    }
    couplings->groups[couplings->public.n] = (struct vc_group){.unit = unit, .n_units = n_units};
    return &couplings->groups[couplings->public.n++];
}

enum vc_status vc_couplings_add_member(struct vc_couplings *couplings, struct vc_group *group,
                                       const struct vc_group_member *member)
{
    VC_CALL(VC_GROW(couplings->ctx, VC_TAG_MISC, group->members, group->capacity, group->n + 1));
    group->members[group->n++] = *member;
    return VC_OK;
}

/* ---- finishing ---- */

/* Members of one tensor stand together, so that comparing with the last name saves most copies. */
enum vc_status vc_couplings_keep_names(struct vc_couplings *couplings)
{
    const char *last = NULL;
    const char *copy = NULL;

    for (size_t k = 0; k < couplings->public.n; k++) {
        struct vc_group *group = &couplings->groups[k];

        for (size_t i = 0; i < group->n; i++) {
            const char *name = group->members[i].public.tensor;

            if (name != last) {
                last = name;
                VC_CALL_ALLOC(copy = vc_arena_copy(couplings->ctx, &couplings->arena, name, strlen(name)));
            }
            group->members[i].public.tensor = copy;
        }
    }
    return VC_OK;
}

/* The members that make units first; where none does, those that a file takes for such. */
static enum vc_status order_members(struct vc_couplings *couplings, struct vc_group *group,
                                    struct vc_coupling_member *members)
{
    VC_SCOPED struct vc_group_member *sorted = vc_alloc_array(couplings->ctx, VC_TAG_MISC, group->n, sizeof *sorted);
    size_t at = 0;
    bool some = false;

    VC_CALL_ALLOC(sorted);
    for (size_t k = 0; k < group->n; k++) {
        some = some || group->members[k].public.makes;
    }
    for (size_t k = 0; k < group->n; k++) {
        struct vc_group_member *m = &group->members[k];

        m->public.makes = some ? m->public.makes : vc_couple_usually_makes(m);
        group->states_makes = group->states_makes || m->public.makes != vc_couple_usually_makes(m);
    }
    for (int makes = 1; makes >= 0; makes--) {
        for (size_t k = 0; k < group->n; k++) {
            if (group->members[k].public.makes == (makes != 0)) {
                sorted[at] = group->members[k];
                members[at] = sorted[at].public;
                at++;
            }
        }
    }
    memcpy(group->members, sorted, group->n * sizeof *sorted);
    return VC_OK;
}

/* a becomes the least common multiple; false: it is too large. */
static bool multiple(uint64_t *a, uint64_t b)
{
    return b != 0 && vc_mul_u64(*a / vc_couple_divisor(*a, b), b, a);
}

/* Which facts a file has to state because no reader could compute them from the members: repeats, units. */
static enum vc_status find_statements(struct vc_couplings *couplings, struct vc_group *group)
{
    uint64_t shares = 1;
    uint64_t all;
    bool fits = true;
    bool whole = true; /* all members are tensors of their own */
    bool some_axis = false;

    group->repeats = 1;
    for (size_t k = 0; k < group->n && fits; k++) {
        const struct vc_coupling_member *m = &group->members[k].public;

        fits = m->whole || multiple(&group->repeats, m->repeat);
        whole = whole && m->whole;
        some_axis = some_axis || vc_couple_is_all(group, &group->members[k]);
    }
    for (size_t k = 0; k < group->n && fits; k++) {
        const struct vc_coupling_member *m = &group->members[k].public;

        fits = m->whole || multiple(&shares, group->repeats / m->repeat);
    }
    VC_REFUSE_IF(!fits || !vc_mul_u64(group->n_units, group->repeats, &all), couplings->ctx, VC_E_UNSUPPORTED,
                 "the units of %s repeat too often", group->members[0].public.tensor);
    group->states_repeat = !some_axis && !whole && group->repeats != 1;
    group->states_units = (!some_axis && !whole) || shares != group->repeats;
    return VC_OK;
}

/* The group's name for programs: "fc1.weight:0"; where an earlier group has that, all that a file says about the
 * first member; where that is taken, too, with a number. */
static enum vc_status name_group(struct vc_couplings *couplings, struct vc_name_table *names, size_t k)
{
    struct vc_ctx *ctx = couplings->ctx;
    const struct vc_group *group = &couplings->groups[k];
    const struct vc_group_member *m = &group->members[0];
    struct vc_name_list list = VC_NAME_LIST(couplings->public.groups, sizeof *couplings->public.groups);
    struct vc_coupling *out = &couplings->public.groups[k];
    VC_SCOPED_TEXT struct vc_text text = {.ctx = ctx};

    out->name = m->public.whole ? m->public.tensor
                                : vc_arena_printf(ctx, &couplings->arena, "%s:%u", m->public.tensor, m->public.axis);
    VC_CALL_ALLOC(out->name);
    if (vc_name_table_add(names, list, k) == SIZE_MAX) {
        return VC_OK;
    }
    vc_couple_add_member(&text, group, m);
    VC_CALL(text.status);
    VC_CALL_ALLOC(out->name = vc_arena_copy(ctx, &couplings->arena, text.data, text.n));
    for (size_t n = 2; vc_name_table_add(names, list, k) != SIZE_MAX; n++) {
        VC_CALL_ALLOC(out->name = vc_arena_printf(ctx, &couplings->arena, "%s (%zu)", text.data, n));
    }
    return VC_OK;
}

/* Groups without members go; a group's members are freed or moved, never both. */
enum vc_status vc_couplings_finish(struct vc_couplings *couplings)
{
    struct vc_ctx *ctx = couplings->ctx;
    VC_SCOPED_NAMES struct vc_name_table names = {0};
    size_t n = 0;

    for (size_t k = 0; k < couplings->public.n; k++) {
        struct vc_group group = couplings->groups[k];

        couplings->groups[k].members = NULL;
        if (group.n == 0) {
            vc_free(ctx, group.members);
        } else {
            couplings->groups[n++] = group;
        }
    }
    couplings->public.n = n;
    VC_CALL_ALLOC(couplings->public.groups =
                      vc_arena_alloc(ctx, &couplings->arena, (n + 1) * sizeof *couplings->public.groups));
    VC_CALL(vc_name_table_make(ctx, n, &names));
    for (size_t k = 0; k < n; k++) {
        struct vc_group *group = &couplings->groups[k];
        struct vc_coupling_member *members;

        VC_CALL_ALLOC(members = vc_arena_alloc(ctx, &couplings->arena, group->n * sizeof *members));
        VC_CALL(order_members(couplings, group, members));
        VC_CALL(find_statements(couplings, group));
        couplings->public.groups[k] = (struct vc_coupling){.unit = group->unit,
                                                           .n_units = group->n_units,
                                                           .n_members = group->n,
                                                           .members = members,
                                                           .fixed = group->fixed};
        VC_CALL(name_group(couplings, &names, k));
    }
    return VC_OK;
}

/* ---- for programs ---- */
