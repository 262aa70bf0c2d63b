/* torch_node.c - questions about nodes of a PyTorch file's pickle: which class, what an object holds, what it is. */

#include "formats/torch/torch_choose.h"

/* ---- objects and their attributes ---- */

/* Of a call, the class of what was called, through calls that make the function. */
const char *vc_torch_class_name(const struct vc_pickle_node *node, char *buffer, size_t n)
{
    const struct vc_pickle_node *global = node;

    while (global != NULL && global->kind == VC_PICKLE_CALL && global != global->u.call.function) {
        global = global->u.call.function;
    }
    if (global == NULL || global->kind != VC_PICKLE_GLOBAL) {
        snprintf(buffer, n, "?");
        return buffer;
    }
    snprintf(buffer, n, "%.*s.%.*s", (int)vc_min_u64(global->u.global.module.n, 100), global->u.global.module.p,
             (int)vc_min_u64(global->u.global.name.n, 100), global->u.global.name.p);
    return buffer;
}

/* The last of several equal keys counts, as in Python. */
struct vc_pickle_node *vc_torch_dict_get_bytes(const struct vc_pickle_node *dict, const struct vc_pickle_bytes *key)
{
    struct vc_pickle_iter iter = vc_pickle_iterate(dict);
    struct vc_pickle_node *found = NULL;
    struct vc_pickle_node *name;

    while ((name = vc_pickle_next(&iter)) != NULL) {
        struct vc_pickle_node *value = vc_pickle_next(&iter);

        if (name->kind == VC_PICKLE_STRING && name->u.text.n == key->n && memcmp(name->u.text.p, key->p, key->n) == 0) {
            found = value;
        }
    }
    return found;
}

struct vc_pickle_node *vc_torch_dict_get(const struct vc_pickle_node *dict, const char *key)
{
    const struct vc_pickle_bytes bytes = {key, strlen(key)};

    return vc_torch_dict_get_bytes(dict, &bytes);
}

struct vc_pickle_node *vc_torch_object_state(const struct vc_pickle_node *node)
{
    struct vc_pickle_node *state = vc_pickle_state(node);

    if (state != NULL && state->kind == VC_PICKLE_TUPLE && state->n_items == 2) {
        state = vc_pickle_item(state, 0); /* attributes, then slots */
    }
    return state != NULL && vc_pickle_is_mapping(state) ? state : NULL;
}

/* A module is known by the two dicts that every one of them has. */
struct vc_pickle_node *vc_torch_module_state(const struct vc_pickle_node *node)
{
    struct vc_pickle_node *state = vc_torch_object_state(node);

    return state != NULL && vc_torch_dict_get(state, "_parameters") != NULL &&
                   vc_torch_dict_get(state, "_modules") != NULL
               ? state
               : NULL;
}

/* ---- kinds of entries ---- */

bool vc_torch_is_tensor(const struct vc_pickle_node *node)
{
    return node->kind == VC_PICKLE_CALL && node->u.call.function->kind == VC_PICKLE_GLOBAL &&
           (vc_pickle_bytes_are(&node->u.call.function->u.global.module, "torch._utils") ||
            vc_pickle_bytes_are(&node->u.call.function->u.global.module, "torch._tensor"));
}

bool vc_torch_is_optimizer(const struct vc_pickle_node *node)
{
    return vc_pickle_is_mapping(node) && node->n_items == 4 && vc_torch_dict_get(node, "state") != NULL &&
           vc_torch_dict_get(node, "param_groups") != NULL;
}

bool vc_torch_is_container(const struct vc_pickle_node *node)
{
    return node->kind == VC_PICKLE_LIST || node->kind == VC_PICKLE_TUPLE || node->kind == VC_PICKLE_CALL ||
           node->kind == VC_PICKLE_DICT;
}

/* Two keys that are the same text. */
static bool same_key(const struct vc_pickle_node *a, const struct vc_pickle_node *b)
{
    return a->kind == VC_PICKLE_STRING && b->kind == VC_PICKLE_STRING && a->u.text.n == b->u.text.n &&
           memcmp(a->u.text.p, b->u.text.p, a->u.text.n) == 0;
}

const struct vc_pickle_node *vc_torch_set_items(const struct vc_pickle_node *set)
{
    if (set != NULL && vc_pickle_is_call(set, "builtins", "set")) { /* set([...]) of protocol 2 */
        set = vc_pickle_item(set->u.call.args, 0);
    }
    return set != NULL && (set->kind == VC_PICKLE_SET || set->kind == VC_PICKLE_LIST || set->kind == VC_PICKLE_TUPLE)
               ? set
               : NULL;
}

bool vc_torch_items_have(const struct vc_pickle_node *items, const struct vc_pickle_node *key)
{
    struct vc_pickle_iter iter = vc_pickle_iterate(items);
    const struct vc_pickle_node *item;

    while ((item = vc_pickle_next(&iter)) != NULL) {
        if (same_key(item, key)) {
            return true;
        }
    }
    return false;
}

bool vc_torch_holds_storage(const struct vc_pickle_node *node, unsigned depth, uint64_t *budget)
{
    const struct vc_pickle_node *item;

    if (node == NULL || depth == 0 || *budget == 0) {
        return false;
    }
    --*budget;
    if (node->kind == VC_PICKLE_PERSID) {
        return vc_pickle_is_string(vc_pickle_item(node->u.persid.id, 0), "storage");
    }
    if (node->kind == VC_PICKLE_CALL && (vc_torch_holds_storage(node->u.call.args, depth - 1, budget) ||
                                         vc_torch_holds_storage(vc_pickle_state(node), depth - 1, budget))) {
        return true;
    }
    struct vc_pickle_iter iter = vc_pickle_iterate(node);
    while ((item = vc_pickle_next(&iter)) != NULL) {
        if (vc_torch_holds_storage(item, depth - 1, budget)) {
            return true;
        }
    }
    return false;
}
