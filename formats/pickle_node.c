/* pickle_node.c - small questions about nodes of a pickle: items, names. */
#include <string.h>

#include "formats/pickle_machine.h"

struct vc_pickle_iter vc_pickle_iterate(const struct vc_pickle_node *node)
{
    return (struct vc_pickle_iter){.run = node->first, .at = 0};
}

struct vc_pickle_node *vc_pickle_next(struct vc_pickle_iter *iter)
{
    if (iter->run != NULL && iter->at == iter->run->n) {
        iter->run = iter->run->next;
        iter->at = 0;
    }
    return iter->run == NULL ? NULL : iter->run->nodes[iter->at++];
}

struct vc_pickle_node *vc_pickle_item(const struct vc_pickle_node *node, size_t k)
{
    struct vc_pickle_iter iter = vc_pickle_iterate(node);
    struct vc_pickle_node *item = NULL;
    size_t i;

    for (i = 0; k < node->n_items && i <= k; i++) {
        item = vc_pickle_next(&iter);
    }
    return item;
}

bool vc_pickle_bytes_are(const struct vc_pickle_bytes *bytes, const char *text)
{
    return bytes->n == strlen(text) && memcmp(bytes->p, text, bytes->n) == 0;
}

bool vc_pickle_is_string(const struct vc_pickle_node *node, const char *text)
{
    return node != NULL && node->kind == VC_PICKLE_STRING && vc_pickle_bytes_are(&node->u.text, text);
}

static bool is_module(const struct vc_pickle_bytes *module, const char *name)
{
    return vc_pickle_bytes_are(module, name) ||
           (strcmp(name, "builtins") == 0 && vc_pickle_bytes_are(module, "__builtin__"));
}

bool vc_pickle_is_global(const struct vc_pickle_node *node, const char *module, const char *name)
{
    return node != NULL && node->kind == VC_PICKLE_GLOBAL && vc_pickle_bytes_are(&node->u.global.name, name) &&
           is_module(&node->u.global.module, module);
}

bool vc_pickle_is_call(const struct vc_pickle_node *node, const char *module, const char *name)
{
    return node != NULL && node->kind == VC_PICKLE_CALL && vc_pickle_is_global(node->u.call.function, module, name);
}

bool vc_pickle_is_mapping(const struct vc_pickle_node *node)
{
    if (node->kind == VC_PICKLE_DICT) {
        return true;
    }
    if (node->kind != VC_PICKLE_CALL || node->mixed) {
        return false;
    }
    return node->n_items != 0 ? node->pairs
                              : vc_pickle_is_call(node, "collections", "OrderedDict") ||
                                    vc_pickle_is_call(node, "collections", "defaultdict");
}
