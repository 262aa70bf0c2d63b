/* couple_experts.c - experts of a layer, which are known by the names of their tensors. What the graph says about them
 * is that the rows of their router are chosen among (Softmax, TopK); these rows are the units of a group, with
 *
 *     model.layers.0.mlp.experts.3.up_proj.weight     a tensor of unit 3
 *     model.layers.0.mlp.experts.gate_up_proj         axis 0 of it
 *     model.layers.0.mlp.gate.weight                  the router; also mlp.router.weight
 *     blk.0.ffn_up_exps.weight, ffn_gate_inp.weight   what GGUF calls both */

#include "core/base/array.h"
#include "graph/couple/couple_graph.h"

enum part { ROUTER, ONE_EXPERT, ALL_EXPERTS };

/* A tensor of a layer with experts. The layer is known by what its names begin with. */
struct expert_tensor {
    const char *name;
    size_t prefix; /* characters of the layer's name */
    enum part part;
    uint64_t unit; /* of ONE_EXPERT */
    uint32_t tensor;
};

static bool is_number(const char *s, size_t n, uint64_t *number)
{
    *number = 0;
    for (size_t k = 0; k < n; k++) {
        if (s[k] < '0' || s[k] > '9' || !vc_mul_u64(*number, 10, number) ||
            !vc_add_u64(*number, (uint64_t)(s[k] - '0'), number)) {
            return false;
        }
    }
    return n != 0;
}

/* The word of the name before the last one: "gate" of "mlp.gate.weight", *n characters. NULL if the name has no
 * point. */
static const char *module_of(const char *name, size_t *n)
{
    const char *end = strrchr(name, '.');
    const char *at = end;

    while (at != NULL && at != name && at[-1] != '.') {
        at--;
    }
    *n = end == NULL ? 0 : (size_t)(end - at);
    return at;
}

static bool is_word(const char *s, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(s, word, n) == 0;
}

/* What a tensor is by its name: one expert, all experts in one tensor, or a router. False: none of them. The prefix
 * is the layer: "model.layers.0.mlp". */
static bool take_name(const char *name, struct expert_tensor *t)
{
    static const char word[] = "experts.";
    const char *at = strncmp(name, word, sizeof word - 1) == 0 ? name : strstr(name, ".experts.");
    size_t n;
    const char *module = module_of(name, &n);

    *t = (struct expert_tensor){.name = name};
    if (at != NULL) {
        const char *behind = at + sizeof word - (at == name ? 1 : 0);

        t->prefix = (size_t)(at - name);
        t->part = is_number(behind, strcspn(behind, "."), &t->unit) ? ONE_EXPERT : ALL_EXPERTS;
        return true;
    }
    t->part = n > 5 && memcmp(module + n - 5, "_exps", 5) == 0 ? ALL_EXPERTS : ROUTER;
    t->prefix = module == NULL || module == name ? 0 : (size_t)(module - 1 - name);
    return t->part == ALL_EXPERTS || is_word(module, n, "gate") || is_word(module, n, "router") ||
           is_word(module, n, "ffn_gate_inp");
}

/* Only the prefixes are compared, then their lengths: tensors of a layer stand together once they are sorted. */
static int compare_layers(const struct expert_tensor *a, const struct expert_tensor *b)
{
    size_t n = a->prefix < b->prefix ? a->prefix : b->prefix;

    return VC_FIRST_ORDER(strncmp(a->name, b->name, n), VC_ORDER(a->prefix, b->prefix));
}

static int compare(const void *x, const void *y)
{
    const struct expert_tensor *a = x;
    const struct expert_tensor *b = y;

    return VC_FIRST_ORDER(compare_layers(a, b), VC_ORDER(a->part, b->part), VC_ORDER(a->tensor, b->tensor));
}

/* The group of the router's rows. NULL if there is none or if it has members that are no router: removing experts
 * would then touch other tensors, too. */
static struct vc_group *group_of_router(struct vc_couple *c, const struct vc_couple_tensors *tensors,
                                        const struct vc_couplings *couplings, const struct expert_tensor *list,
                                        size_t n)
{
    if (list->part != ROUTER || c->graph->params[tensors->param[list->tensor]].n_dims == 0) {
        return NULL;
    }
    uint32_t rows = vc_axes_resolve(&c->axes, tensors->axis[tensors->first[list->tensor]]);
    uint32_t number = couplings->sizes->group_of[rows];
    struct vc_group *group = number == 0 ? NULL : &couplings->groups[number - 1];
    for (size_t k = 0; group != NULL && k < group->n; k++) {
        bool found = false;

        for (size_t i = 0; i < n && list[i].part == ROUTER; i++) {
            found = found || strcmp(list[i].name, group->members[k].public.tensor) == 0;
        }
        if (!found || group->members[k].public.repeat != 1) {
            return NULL;
        }
    }
    return group;
}

/* True if there are as many experts as units, each with the same number of tensors: then removing unit k removes
 * expert k. */
static bool are_units(const struct vc_couple *c, const struct vc_couple_tensors *tensors,
                      const struct expert_tensor *list, size_t n, uint64_t n_units, uint32_t *count)
{
    size_t n_single = 0;

    memset(count, 0, n_units * sizeof *count);
    for (size_t k = 0; k < n; k++) {
        const struct vc_graph_param *param = &c->graph->params[tensors->param[list[k].tensor]];

        if (list[k].part == ALL_EXPERTS && (param->n_dims == 0 || param->shape[0] != n_units)) {
            return false;
        }
        if (list[k].part == ONE_EXPERT) {
            if (list[k].unit >= n_units) {
                return false;
            }
            count[list[k].unit]++;
            n_single++;
        }
    }
    for (uint64_t k = 0; k < n_units; k++) {
        if (count[k] * n_units != n_single) {
            return false;
        }
    }
    return true;
}

/* Turns the group of a router's rows into a group of experts: the rows lose their reason (TopK chooses among them),
 * and the tensors of each expert become members. */
static enum vc_status take_layer(struct vc_couple *c, const struct vc_couple_tensors *tensors,
                                 struct vc_couplings *couplings, const struct expert_tensor *list, size_t n)
{
    struct vc_group *group = group_of_router(c, tensors, couplings, list, n);
    VC_SCOPED uint32_t *count = NULL;

    if (group == NULL || list[n - 1].part == ROUTER || group->n_units > SIZE_MAX / sizeof *count) {
        return VC_OK;
    }
    VC_CALL(VC_ARRAY(c->ctx, VC_TAG_MISC, count, (size_t)group->n_units));
    if (!are_units(c, tensors, list, n, group->n_units, count)) {
        return VC_OK;
    }
    group->unit = VC_UNIT_EXPERTS;
    group->fixed = NULL;
    for (size_t k = 0; k < group->n; k++) {
        group->members[k].public.makes = false; /* scores are those of the experts */
    }
    for (size_t k = 0; k < n; k++) {
        const struct vc_graph_param *param = &c->graph->params[tensors->param[list[k].tensor]];
        struct vc_group_member member = {.public = {.tensor = param->tensor,
                                                    .index = param->index,
                                                    .makes = true,
                                                    .whole = list[k].part == ONE_EXPERT,
                                                    .unit = list[k].unit},
                                         .n_dims = param->n_dims};

        if (list[k].part == ALL_EXPERTS) {
            member.size = param->shape[0];
            member.public.block = member.public.repeat = 1;
        }
        if (list[k].part != ROUTER) {
            VC_CALL(vc_couplings_add_member(couplings, group, &member));
        }
    }
    return VC_OK;
}

/* Sorts the tensors of all layers with experts by layer and part (router, single experts, all in one), then
 * takes each layer. */
enum vc_status vc_couple_find_experts(struct vc_couple *c, const struct vc_couple_tensors *tensors,
                                      struct vc_couplings *couplings)
{
    VC_SCOPED struct expert_tensor *list = vc_alloc_array(c->ctx, VC_TAG_MISC, tensors->n + (size_t)1, sizeof *list);
    size_t n = 0;

    VC_CALL_ALLOC(list);
    for (uint32_t k = 0; k < tensors->n; k++) {
        if (take_name(c->graph->params[tensors->param[k]].tensor, &list[n])) {
            list[n++].tensor = k;
        }
    }
    qsort(list, n, sizeof *list, compare);
    for (size_t k = 0; k < n;) {
        size_t end = k + 1;

        while (end < n && compare_layers(&list[k], &list[end]) == 0) {
            end++;
        }
        VC_CALL(take_layer(c, tensors, couplings, list + k, end - k));
        k = end;
    }
    return VC_OK;
}
