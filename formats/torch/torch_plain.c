/* torch_plain.c - what of a pickle torch.load(weights_only=True) takes as it is: values, containers of them, and calls
 * of a few functions that its restricted loader makes, too. */
#include "formats/torch/torch_choose.h"

#define MAX_DEPTH 50

static bool is_plain(const struct vc_pickle_node *node, unsigned depth, uint64_t *budget);

/* Every item is plain. */
static bool is_plain_list(const struct vc_pickle_node *node, unsigned depth, uint64_t *budget)
{
    struct vc_pickle_iter iter = vc_pickle_iterate(node);
    const struct vc_pickle_node *item;

    while ((item = vc_pickle_next(&iter)) != NULL) {
        if (!is_plain(item, depth, budget)) {
            return false;
        }
    }
    return true;
}

/* Calls that the restricted loader makes, too. */
bool vc_torch_is_known_call(const struct vc_pickle_node *node)
{
    static const char *const known[][2] = {{"torch", "Size"},         {"torch", "device"},     {"builtins", "set"},
                                           {"builtins", "bytearray"}, {"builtins", "complex"}, {"_codecs", "encode"}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (vc_pickle_is_call(node, known[i][0], known[i][1])) {
            return node->n_items == 0 && vc_pickle_state(node) == NULL;
        }
    }
    return false;
}

bool vc_torch_is_ordered_dict(const struct vc_pickle_node *node)
{
    return vc_pickle_is_call(node, "collections", "OrderedDict");
}

/* A value that nothing is in. The only globals among them are element types, torch.float32. */
bool vc_torch_is_atom(const struct vc_pickle_node *node)
{
    switch ((enum vc_pickle_kind)node->kind) {
    case VC_PICKLE_NONE:
    case VC_PICKLE_BOOL:
    case VC_PICKLE_INT:
    case VC_PICKLE_FLOAT:
    case VC_PICKLE_BYTES:
        return true;
    case VC_PICKLE_LONG:
        return node->u.text.n < 256;
    case VC_PICKLE_STRING:
        return vc_pickle_is_utf8(node);
    case VC_PICKLE_GLOBAL:
        return vc_pickle_bytes_are(&node->u.global.module, "torch") &&
               vc_torch_dtype_by_name(&node->u.global.name) != NULL;
    default:
        return false;
    }
}

/* Nothing in it but values that can be written, and no tensors; down to `depth` levels and with `budget` steps, of
 * which each value takes one. */
static bool is_plain(const struct vc_pickle_node *node, unsigned depth, uint64_t *budget)
{
    if (depth == 0 || *budget == 0) {
        return false;
    }
    --*budget;
    switch ((enum vc_pickle_kind)node->kind) {
    case VC_PICKLE_TUPLE:
    case VC_PICKLE_LIST:
    case VC_PICKLE_DICT:
    case VC_PICKLE_SET:
        return is_plain_list(node, depth - 1, budget);
    case VC_PICKLE_CALL:
        return (vc_torch_is_known_call(node) && is_plain(node->u.call.args, depth - 1, budget)) ||
               (vc_torch_is_ordered_dict(node) && is_plain_list(node, depth - 1, budget));
    default:
        return vc_torch_is_atom(node);
    }
}

/* Counts its steps on *steps. */
bool vc_torch_is_plain(const struct torch *self, const struct vc_pickle_node *node, uint64_t *steps)
{
    uint64_t most = vc_torch_max_steps(self);
    uint64_t before = *steps < most ? most - *steps : 0;
    uint64_t budget = before;
    bool plain = is_plain(node, MAX_DEPTH, &budget);

    *steps += before - budget;
    return plain;
}
