/* structured_follow.c - of a family that is not known no graph says which tensors a number of the configuration is
 * about, but names do: one number for all layers is about every tensor that is called the same but for its numbers,
 *
 *     layers.0.mlp.up_proj.weight, layers.1.mlp.up_proj.weight
 *
 * and the width of experts is about those that are shared, too, where these have no key: they are so many times as wide
 * as one of the others (DeepSeek's n_shared_experts). A group that leaves some of them out would be written with a
 * configuration that is wrong about those. */
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "prune/removal.h"

/* A changed tensor, by its name without numbers and its shape before. */
struct kind {
    uint64_t hash;
    const struct vc_item *item;
};

static const char *name_of(const struct vc_plan *plan, const struct vc_item *item)
{
    return plan->model->tensors[item - plan->items].name;
}

/* A number between dots counts as any other. */
static uint64_t hash_of(const struct vc_plan *plan, const struct vc_item *item)
{
    uint64_t hash = 14695981039346656037u;
    const char *name = name_of(plan, item);
    const char *at = name;

    while (*at != '\0') {
        size_t n = at == name || at[-1] == '.' ? strspn(at, "0123456789") : 0;

        n = at[n] == '.' || at[n] == '\0' ? n : 0;
        hash = (hash ^ (n != 0 ? '0' : (unsigned char)*at)) * 1099511628211u;
        at += n != 0 ? n : 1;
    }
    for (unsigned d = 0; d < item->first->n_dims; d++) {
        hash = (hash ^ item->first->shape[d]) * 1099511628211u;
    }
    return hash;
}

static int by_hash(const void *a, const void *b)
{
    const struct kind *x = a;
    const struct kind *y = b;

    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static bool is_changed(const struct vc_item *item)
{
    return item->first->n_dims != item->desc->n_dims ||
           memcmp(item->first->shape, item->desc->shape, item->first->n_dims * sizeof *item->first->shape) != 0;
}

static enum vc_status refuse(struct vc_ctx *ctx, const char *name, const char *other)
{
    return vc_fail(
        ctx, VC_E_UNSUPPORTED,
        "%s: would keep its shape, and the configuration states one number for it and for %s, of which units "
        "would go; add it to the couplings, or %s plain writes such shapes all the same, and leaves the "
        "configuration as it is",
        name, other, vc_option(ctx, "layout"));
}

static enum vc_status check_layers(struct vc_ctx *ctx, const struct vc_plan *plan)
{
    struct kind *kinds = vc_alloc_array(ctx, VC_TAG_MISC, plan->n_items + 1, sizeof *kinds);
    enum vc_status status = VC_OK;
    size_t n = 0;

    VC_TRY_ALLOC(kinds);
    for (size_t i = 0; i < plan->n_items; i++) {
        if (!plan->items[i].dropped && is_changed(&plan->items[i])) {
            kinds[n++] = (struct kind){hash_of(plan, &plan->items[i]), &plan->items[i]};
        }
    }
    qsort(kinds, n, sizeof *kinds, by_hash);
    for (size_t i = 0; n != 0 && i < plan->n_items; i++) {
        const struct vc_item *item = &plan->items[i];
        struct kind key = {hash_of(plan, item), item};
        const struct kind *found = bsearch(&key, kinds, n, sizeof *kinds, by_hash);

        if (found != NULL && !item->dropped && !item->tied && !is_changed(item)) {
            VC_TRY(refuse(ctx, name_of(plan, item), name_of(plan, found->item)));
        }
    }
out:
    vc_free(ctx, kinds);
    return status;
}

/* The tensor has an axis as wide as some experts, and none that follows. */
static bool stays_wide(const struct vc_item *item, const struct vc_edit *edit)
{
    bool wide = false;

    for (unsigned d = 0; d < item->first->n_dims && d < item->desc->n_dims; d++) {
        uint64_t before = item->first->shape[d];

        if (before % edit->before == 0 && item->desc->shape[d] == before / edit->before * edit->after) {
            return false;
        }
        wide = wide || before % edit->before == 0;
    }
    return wide && item->first->n_dims >= 2;
}

enum vc_status vc_structured_check_follow(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_plan *plan)
{
    enum vc_status status;

    VC_TRY(check_layers(ctx, plan));
    for (size_t e = 0; e < plan->n_edits; e++) {
        for (size_t i = 0; plan->edits[e].key == VC_EDIT_EXPERT && i < plan->n_items; i++) {
            const struct vc_item *item = &plan->items[i];
            bool follows;

            VC_TRY(vc_structured_is_experts(ctx, s, name_of(plan, item), item->first, &follows));
            if (follows && !item->dropped && !item->tied && stays_wide(item, &plan->edits[e])) {
                VC_TRY(refuse(ctx, name_of(plan, item), "the width of experts"));
            }
        }
    }
out:
    return status;
}
