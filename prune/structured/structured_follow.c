/* structured_follow.c - of a family that is not known no graph says which tensors a number of the configuration is
 * about, but names do: one number for all layers is about every tensor that is called the same but for its numbers,
 *
 *     layers.0.mlp.up_proj.weight, layers.1.mlp.up_proj.weight
 *
 * and the width of experts is about those that are shared, too, where these have no key: they are so many times as wide
 * as one of the others (DeepSeek's n_shared_experts). Where experts have no key of their own, the width of all is about
 * them, and about the feed-forward parts of layers that have none, whose weights end in the same words:
 *
 *     layers.0.mlp.up_proj.weight, layers.1.mlp.experts.0.up_proj.weight, layers.1.mlp.shared_experts.up_proj.weight
 *
 * A group that leaves some of them out would be written with a configuration that is wrong about those. */

#include "prune/structured/removal.h"

/* A changed tensor, by its name without numbers and its shape before. */
struct kind {
    uint64_t hash;
    const struct vc_item *item;
};

/* The item's name in the source. */
static const char *name_of(const struct vc_plan *plan, const struct vc_item *item)
{
    return plan->model->tensors[item - plan->items].name;
}

/* A number between dots counts as any other. FNV-1a over the name with "0" for each number, then over the shape. Equal
 * hashes are taken for equal names. */
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

/* For sorting and searching. */
static int by_hash(const void *a, const void *b)
{
    const struct kind *x = a;
    const struct kind *y = b;

    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* Its shape is another one now. */
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

/* For each tensor that stays: is there one of the same name but for numbers, and of the same shape, that does not? */
static enum vc_status check_layers(struct vc_ctx *ctx, const struct vc_plan *plan)
{
    VC_SCOPED struct kind *kinds = vc_alloc_array(ctx, VC_TAG_MISC, plan->n_items + 1, sizeof *kinds);
    size_t n = 0;

    VC_CALL_ALLOC(kinds);
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
            VC_CALL(refuse(ctx, name_of(plan, item), name_of(plan, found->item)));
        }
    }
    return VC_OK;
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

/* The last two words of a name: "up_proj.weight". */
static const char *ending_of(const char *name)
{
    const char *at = name + strlen(name);
    unsigned dots = 0;

    while (at > name && !(at[-1] == '.' && ++dots == 2)) {
        at--;
    }
    return at;
}

/* Bytes of a name up to its first number between dots: "layers.11" of a tensor of that layer; 0: it is of none. */
static size_t layer_of(const char *name)
{
    const char *at = name;

    while (at != NULL) {
        size_t n = strspn(at, "0123456789");

        if (n != 0 && at[n] == '.') {
            return (size_t)(at - name) + n;
        }
        at = strchr(at, '.');
        at = at != NULL ? at + 1 : NULL;
    }
    return 0;
}

/* Names and layers of changed tensors, sorted. */
struct changed {
    const char *name;
    size_t n_layer;
    const struct vc_item *item;
};

static int by_layer(const void *a, const void *b)
{
    const struct changed *x = a;
    const struct changed *y = b;
    int order = memcmp(x->name, y->name, x->n_layer < y->n_layer ? x->n_layer : y->n_layer);

    return order != 0 ? order : (x->n_layer > y->n_layer) - (x->n_layer < y->n_layer);
}

/* An axis is as wide as the edit says and stays so, where that of `other`, of a name with the same ending, follows. */
static bool is_like(const struct changed *item, const struct changed *other, const struct vc_edit *edit)
{
    const struct vc_desc *is = item->item->first;
    const struct vc_desc *was = other->item->first;
    const struct vc_desc *now = other->item->desc;
    bool found = false;

    for (unsigned d = 0; was->n_dims == is->n_dims && now->n_dims == is->n_dims && d < is->n_dims; d++) {
        found =
            found || (is->shape[d] == edit->before && was->shape[d] == edit->before && now->shape[d] == edit->after);
    }
    return found && strcmp(ending_of(item->name), ending_of(other->name)) == 0;
}

/* A layer of which nothing follows has a tensor that is like one that does: its feed-forward part would be left out. */
static enum vc_status check_other_layers(struct vc_ctx *ctx, const struct vc_plan *plan, const struct vc_edit *edit)
{
    VC_SCOPED struct changed *list = vc_alloc_array(ctx, VC_TAG_MISC, plan->n_items + 1, sizeof *list);
    size_t n = 0;

    VC_CALL_ALLOC(list);
    for (size_t i = 0; i < plan->n_items; i++) {
        const char *name = name_of(plan, &plan->items[i]);

        if (!plan->items[i].dropped && is_changed(&plan->items[i]) && layer_of(name) != 0) {
            list[n++] = (struct changed){name, layer_of(name), &plan->items[i]};
        }
    }
    qsort(list, n, sizeof *list, by_layer);
    for (size_t i = 0; n != 0 && i < plan->n_items; i++) {
        const struct vc_item *item = &plan->items[i];
        struct changed key = {name_of(plan, item), layer_of(name_of(plan, item)), item};

        if (item->dropped || item->tied || item->first->n_dims < 2 || key.n_layer == 0 ||
            vc_structured_names_expert(key.name) || bsearch(&key, list, n, sizeof *list, by_layer) != NULL) {
            continue;
        }
        for (size_t k = 0; k < n; k++) {
            if (is_like(&key, &list[k], edit)) {
                VC_CALL(refuse(ctx, key.name, list[k].name));
            }
        }
    }
    return VC_OK;
}

/* Whether the configuration states a width of experts by itself. */
static enum vc_status has_expert_key(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_plan *plan,
                                     bool *has)
{
    *has = vc_edit_find(plan->edits, plan->n_edits, VC_EDIT_EXPERT) != NULL;
    for (size_t i = 0; i < plan->n_items && !*has; i++) {
        const struct vc_desc *first = plan->items[i].first;
        bool expert = false;

        VC_CALL(vc_structured_is_experts(ctx, s, name_of(plan, &plan->items[i]), first, &expert));
        for (unsigned d = 0; expert && !*has && d < first->n_dims; d++) {
            VC_CALL(vc_program_says(ctx, &s->program, VC_EDIT_EXPERT, first->shape[d], has));
        }
    }
    return VC_OK;
}

/* What an edit of a width would leave as it is: experts, and those that are shared. */
static enum vc_status check_experts(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_plan *plan,
                                    const struct vc_edit *edit)
{
    for (size_t i = 0; i < plan->n_items; i++) {
        const struct vc_item *item = &plan->items[i];
        bool follows;

        VC_CALL(vc_structured_is_experts(ctx, s, name_of(plan, item), item->first, &follows));
        if (follows && !item->dropped && !item->tied && stays_wide(item, edit)) {
            VC_CALL(refuse(ctx, name_of(plan, item), "the width of experts"));
        }
    }
    return VC_OK;
}

enum vc_status vc_structured_check_follow(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_plan *plan)
{
    bool own = false;

    VC_CALL(check_layers(ctx, plan));
    VC_CALL(has_expert_key(ctx, s, plan, &own));
    for (size_t e = 0; e < plan->n_edits; e++) {
        const struct vc_edit *edit = &plan->edits[e];

        if (edit->key == VC_EDIT_EXPERT || (edit->key == VC_EDIT_INTERMEDIATE && !own)) {
            VC_CALL(check_experts(ctx, s, plan, edit));
        }
        if (edit->key == VC_EDIT_INTERMEDIATE) {
            VC_CALL(check_other_layers(ctx, plan, edit));
        }
    }
    return VC_OK;
}
