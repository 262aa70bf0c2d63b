/* structured_find.c - groups of units: the group of an axis of a tensor, how many units stay, which groups count. */
#include "core/base/array.h"
#include "prune/structured/removal.h"

/* A tied tensor has the places of the first one of its name. */
size_t vc_structured_find(const struct vc_structured *s, const struct vc_item *item, size_t *first)
{
    size_t alias = item->set->model->tensors[item->source].alias_of;
    size_t tensor = alias != VC_NO_TENSOR ? alias : item->source;
    size_t low;
    size_t n = 0;

    VC_BISECT(low, s->n_members, k, s->members[k].tensor < tensor);
    *first = low;
    while (low + n < s->n_members && s->members[low + n].tensor == tensor) {
        n++;
    }
    return n;
}

/* Rounds what stays up, so that fewer units go; 0 where that is all of them. Heads and experts are not rounded. */
uint64_t vc_structured_round(const struct vc_structured *s, enum vc_unit unit, uint64_t n, uint64_t n_go)
{
    uint64_t by = unit == VC_UNIT_NEURONS || unit == VC_UNIT_HIDDEN ? s->options.round_to : 0;
    uint64_t kept = n - (n_go < n ? n_go : n - 1); /* at least one unit stays */

    if (by > 1 && kept % by != 0) {
        kept += by - kept % by;
    }
    return kept < n ? n - kept : 0;
}

/* l2 and l1: what makes the units. norm: the scales of normalizations. obs: what reads them. */
bool vc_structured_counts(const struct vc_structured *s, const struct vc_coupling_member *member, unsigned n_dims)
{
    const char *point = strrchr(member->tensor, '.');
    const char *last = point != NULL ? point + 1 : member->tensor;

    if (s->options.score == VC_STRUCTURED_OBS) {
        return !member->makes && !member->whole && member->axis == 1; /* read by structured_obs.c */
    }
    if (s->options.score != VC_STRUCTURED_NORM) {
        return member->makes;
    }
    return n_dims == 1 && (strcmp(last, "weight") == 0 || strcmp(last, "gamma") == 0 || strcmp(last, "scale") == 0);
}
