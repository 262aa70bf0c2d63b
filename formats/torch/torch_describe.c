/* torch_describe.c - what an entry of a PyTorch file is, in a few words for people. */

#include "formats/torch/torch_choose.h"

/* "str 'resnet50'", cut after 40 bytes between two characters. */
static const char *describe_text(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_pickle_bytes *text)
{
    size_t n = text->n < 40 ? text->n : 40;

    while (n > 0 && n < text->n && ((unsigned char)text->p[n] & 0xc0) == 0x80) {
        n--; /* not inside a character */
    }
    if (!vc_utf8_valid(text->p, n)) {
        return vc_arena_printf(ctx, arena, "str of %zu bytes", text->n);
    }
    return vc_arena_printf(ctx, arena, "str '%.*s'%s", (int)n, text->p, n < text->n ? "..." : "");
}

/* What a call made, as far as it is known. */
static const char *describe_call(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_pickle_node *node)
{
    struct vc_pickle_node number;
    char name[256];

    if (vc_pickle_is_call(node, "collections", "OrderedDict")) {
        return vc_arena_printf(ctx, arena, "dict of %zu", (size_t)node->n_items / 2);
    }
    if (node->u.call.function->kind == VC_PICKLE_GLOBAL &&
        vc_pickle_bytes_are(&node->u.call.function->u.global.module, "torch._utils")) {
        return vc_arena_printf(ctx, arena, "tensor");
    }
    if (vc_pickle_is_call(node, "builtins", "set") || vc_pickle_is_call(node, "_codecs", "encode")) { /* protocol 2 */
        const struct vc_pickle_node *list = vc_pickle_item(node->u.call.args, 0);

        return vc_pickle_is_call(node, "_codecs", "encode")
                   ? vc_arena_printf(ctx, arena, "bytes")
                   : vc_arena_printf(ctx, arena, "set of %u", list == NULL ? 0 : list->n_items);
    }
    if (vc_torch_numpy_number(node, &number)) {
        const char *what = vc_torch_describe(ctx, arena, &number);

        return what == NULL ? NULL : vc_arena_printf(ctx, arena, "%s (NumPy)", what);
    }
    if (vc_torch_numpy_kind(node) != NULL) {
        return vc_arena_printf(ctx, arena, "%s, not read", vc_torch_numpy_kind(node));
    }
    vc_torch_class_name(node, name, sizeof name);
    if (!vc_utf8_valid(name, strlen(name))) {
        return vc_arena_printf(ctx, arena, "an object, opaque");
    }
    if (vc_torch_module_state(node) != NULL) {
        return vc_arena_printf(ctx, arena, "%s, a module", name);
    }
    return vc_arena_printf(ctx, arena, "%s, opaque", name);
}

/* "dict of 4", "float 0.001", "torch.nn.Linear, a module"; in the arena, NULL if memory is short. */
const char *vc_torch_describe(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_pickle_node *node)
{
    switch ((enum vc_pickle_kind)node->kind) {
    case VC_PICKLE_NONE:
        return vc_arena_printf(ctx, arena, "None");
    case VC_PICKLE_BOOL:
        return vc_arena_printf(ctx, arena, "bool %s", node->u.integer != 0 ? "True" : "False");
    case VC_PICKLE_INT:
        return vc_arena_printf(ctx, arena, "int %" PRId64, node->u.integer);
    case VC_PICKLE_LONG:
        return vc_arena_printf(ctx, arena, "int of %zu bytes", node->u.text.n);
    case VC_PICKLE_FLOAT:
        return vc_arena_printf(ctx, arena, "float %.6g", node->u.real);
    case VC_PICKLE_STRING:
        return describe_text(ctx, arena, &node->u.text);
    case VC_PICKLE_BYTES:
        return vc_arena_printf(ctx, arena, "%zu bytes", node->u.text.n);
    case VC_PICKLE_TUPLE:
        return vc_arena_printf(ctx, arena, "tuple of %u", node->n_items);
    case VC_PICKLE_LIST:
        return vc_arena_printf(ctx, arena, "list of %u", node->n_items);
    case VC_PICKLE_DICT:
        return vc_arena_printf(ctx, arena, "dict of %zu", (size_t)node->n_items / 2);
    case VC_PICKLE_SET:
        return vc_arena_printf(ctx, arena, "set of %u", node->n_items);
    case VC_PICKLE_GLOBAL: {
        char name[256];

        vc_torch_class_name(node, name, sizeof name);
        return vc_arena_printf(ctx, arena, "%s", vc_utf8_valid(name, strlen(name)) ? name : "a class");
    }
    case VC_PICKLE_CALL:
        return describe_call(ctx, arena, node);
    case VC_PICKLE_PERSID:
        break;
    }
    return vc_arena_printf(ctx, arena, "storage");
}
