/* pickle_build.c - containers, globals and calls of a pickle: what opcodes make of the values on the stack, and what
 * they add to those below. */
#include "formats/torch/pickle_machine.h"

/* ---- containers ---- */

/* TUPLE: what lies above the last mark. */
enum vc_status vc_pickle_tuple(struct pickle_machine *m)
{
    size_t n = 0;

    VC_CALL(vc_pickle_pop_mark(m, &n));
    return vc_pickle_push_tuple(m, n);
}

/* Of the n topmost values each `step`th from the first on is about to become a key, or an item of a set. */
static enum vc_status check_hashable(struct pickle_machine *m, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i += step) {
        if (vc_pickle_is_unhashable(m->stack[m->depth - n + i])) {
            return vc_pickle_damaged(m, "a key, or an item of a set, that Python cannot hash");
        }
    }
    return VC_OK;
}

/* FROZENSET. It never takes items later, which `frozen` says. */
enum vc_status vc_pickle_frozen_set(struct pickle_machine *m)
{
    struct vc_pickle_node *node = NULL;
    size_t n = 0;

    VC_CALL(vc_pickle_pop_mark(m, &n));
    VC_CALL(vc_pickle_make(m, VC_PICKLE_SET, &node));
    VC_CALL(check_hashable(m, n, 1));
    VC_CALL(vc_pickle_add_items(m, node, n));
    VC_CALL(vc_pickle_push(m, node));
    node->frozen = true;
    node->unhashable = false;
    return VC_OK;
}

/* ---- what is done to the object below n values ---- */

/* APPEND, SETITEM and, with marks, APPENDS, SETITEMS, ADDITEMS: the n topmost values become items of the value below
 * them. A call takes items of any kind, because it may be a subclass of list or dict; both kinds at once make it
 * `mixed`. */
enum vc_status vc_pickle_extend(struct pickle_machine *m, size_t n, bool pairs, bool set)
{
    VC_CALL(vc_pickle_need(m, n + 1));
    struct vc_pickle_node *node = m->stack[m->depth - n - 1];
    bool fits = node->kind == VC_PICKLE_CALL || node->kind == (set     ? VC_PICKLE_SET
                                                               : pairs ? VC_PICKLE_DICT
                                                                       : VC_PICKLE_LIST);
    if (!fits || node->frozen) {
        return vc_pickle_damaged(m, "items are added to a value that takes none of this kind");
    }
    if (pairs && n % 2 != 0) {
        return vc_pickle_damaged(m, "a dict is given an odd number of keys and values");
    }
    if ((pairs || set) && node->unhashable) { /* of a call: it is one of Python's own dicts or sets */
        VC_CALL(check_hashable(m, n, pairs ? 2 : 1));
    }
    if (n != 0 && node->kind == VC_PICKLE_CALL) {
        node->mixed |= node->n_items != 0 && node->pairs != pairs;
        node->pairs = pairs;
    }
    return vc_pickle_add_items(m, node, n);
}

enum vc_status vc_pickle_extend_marked(struct pickle_machine *m, bool pairs, bool set)
{
    size_t n = 0;

    VC_CALL(vc_pickle_pop_mark(m, &n));
    return vc_pickle_extend(m, n, pairs, set);
}

/* Python 2 makes an OrderedDict from a list of pairs: the items that Python 3 adds afterwards. */
static enum vc_status adopt_pairs(struct pickle_machine *m, struct vc_pickle_node *node)
{
    const struct vc_pickle_node *list = vc_pickle_item(node->u.call.args, 0);
    const struct vc_pickle_node *pair;

    if (!vc_pickle_is_global(node->u.call.function, "collections", "OrderedDict") || list == NULL ||
        list->kind != VC_PICKLE_LIST) {
        return VC_OK;
    }
    if (list->n_items > m->n - m->n_adopted) { /* each pair was made by some opcode, so no honest pickle gets here */
        return vc_pickle_damaged(m, "more pairs are made items of OrderedDicts than there are bytes");
    }
    m->n_adopted += list->n_items;
    struct vc_pickle_iter iter = vc_pickle_iterate(list);
    while ((pair = vc_pickle_next(&iter)) != NULL) {
        if ((pair->kind != VC_PICKLE_LIST && pair->kind != VC_PICKLE_TUPLE) || pair->n_items != 2) {
            return vc_pickle_damaged(m, "an OrderedDict made from something that is no pair");
        }
        VC_CALL(vc_pickle_push(m, vc_pickle_item(pair, 0)));
        VC_CALL(vc_pickle_push(m, vc_pickle_item(pair, 1)));
    }
    VC_CALL(check_hashable(m, 2 * (size_t)list->n_items, 2));
    node->pairs = true;
    return vc_pickle_add_items(m, node, 2 * (size_t)list->n_items);
}

/* Protocol 2 makes a set from a list. */
static enum vc_status check_set(struct pickle_machine *m, const struct vc_pickle_node *node)
{
    const struct vc_pickle_node *list = vc_pickle_item(node->u.call.args, 0);
    const struct vc_pickle_node *item;

    if (list == NULL || list->kind != VC_PICKLE_LIST ||
        !vc_pickle_is_global(node->u.call.function, "builtins", "set")) {
        return VC_OK;
    }
    if (list->n_items > m->n - m->n_adopted) {
        return vc_pickle_damaged(m, "more items are put into sets than there are bytes");
    }
    m->n_adopted += list->n_items;
    struct vc_pickle_iter iter = vc_pickle_iterate(list);
    while ((item = vc_pickle_next(&iter)) != NULL) {
        if (vc_pickle_is_unhashable(item)) {
            return vc_pickle_damaged(m, "an item of a set that Python cannot hash");
        }
    }
    return VC_OK;
}

/* Function and arguments on top of the stack become a call. n_args 2: named arguments are there, too. */
enum vc_status vc_pickle_call(struct pickle_machine *m, size_t n_args)
{
    struct vc_pickle_node *node = NULL;

    if (n_args == 2) { /* arguments and named ones: a pair of its own */
        VC_CALL(vc_pickle_push_tuple(m, 2));
    }
    VC_CALL(vc_pickle_need(m, 2));
    struct vc_pickle_node **top = m->stack + m->depth - 2;
    if (top[1]->kind != VC_PICKLE_TUPLE) {
        return vc_pickle_damaged(m, "a call whose arguments are no tuple");
    }
    VC_CALL(vc_pickle_make(m, VC_PICKLE_CALL, &node));
    node->u.call.function = top[0];
    node->u.call.args = top[1];
    node->unhashable = top[0]->kind == VC_PICKLE_GLOBAL && top[0]->unhashable;
    top[0] = node;
    m->depth--;
    if (node->unhashable) {
        VC_CALL(adopt_pairs(m, node));
    }
    return node->unhashable ? check_set(m, node) : VC_OK;
}

/* BUILD: the value on top is the state of the object below it (__setstate__, or its __dict__). */
enum vc_status vc_pickle_build(struct pickle_machine *m)
{
    VC_CALL(vc_pickle_need(m, 2));
    struct vc_pickle_node *node = m->stack[m->depth - 2];
    if (node->kind != VC_PICKLE_CALL) {
        return vc_pickle_damaged(m, "a state is given to a value that is no object");
    }
    VC_CALL(vc_pickle_set_state(m, node, m->stack[m->depth - 1]));
    m->depth--;
    return VC_OK;
}

/* BINPERSID: the value on top is a name for something outside of the pickle. PyTorch names storages so. They are
 * chained, so that all storages can be listed without a walk. */
enum vc_status vc_pickle_persistent(struct pickle_machine *m)
{
    struct vc_pickle_node *node = NULL;

    VC_CALL(vc_pickle_need(m, 1));
    VC_CALL(vc_pickle_make(m, VC_PICKLE_PERSID, &node));
    node->u.persid.id = m->stack[m->depth - 1];
    node->u.persid.before = m->out->persids;
    m->out->persids = node;
    m->out->n_persids++;
    m->stack[m->depth - 1] = node;
    return VC_OK;
}

/* The global makes one of the objects of Python's own that are no keys. */
static bool makes_unhashable(const struct vc_pickle_node *global)
{
    static const char *const known[][2] = {{"collections", "OrderedDict"}, {"collections", "defaultdict"},
                                           {"collections", "Counter"},     {"builtins", "dict"},
                                           {"builtins", "list"},           {"builtins", "set"},
                                           {"builtins", "bytearray"}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (vc_pickle_is_global(global, known[i][0], known[i][1])) {
            return true;
        }
    }
    return false;
}

/* GLOBAL: two lines, module and name. */
enum vc_status vc_pickle_push_global(struct pickle_machine *m)
{
    struct vc_pickle_bytes module = {NULL, 0};
    struct vc_pickle_bytes name = {NULL, 0};
    struct vc_pickle_node *node = NULL;

    VC_CALL(vc_pickle_take_line(m, &module));
    VC_CALL(vc_pickle_take_line(m, &name));
    VC_CALL(vc_pickle_push_new(m, VC_PICKLE_GLOBAL, &node));
    node->u.global.module = module;
    node->u.global.name = name;
    node->unhashable = makes_unhashable(node);
    return VC_OK;
}

/* STACK_GLOBAL: module and name are the two strings on top of the stack. */
enum vc_status vc_pickle_stack_global(struct pickle_machine *m)
{
    struct vc_pickle_node *node = NULL;

    VC_CALL(vc_pickle_need(m, 2));
    struct vc_pickle_node **top = m->stack + m->depth - 2;
    if (top[0]->kind != VC_PICKLE_STRING || top[1]->kind != VC_PICKLE_STRING) {
        return vc_pickle_damaged(m, "the name of a global is no string");
    }
    if (top[0]->u.text.n > VC_PICKLE_MAX_GLOBAL || top[1]->u.text.n > VC_PICKLE_MAX_GLOBAL) {
        return vc_pickle_damaged(m, "the name of a global is too long");
    }
    VC_CALL(vc_pickle_make(m, VC_PICKLE_GLOBAL, &node));
    node->u.global.module = top[0]->u.text;
    node->u.global.name = top[1]->u.text;
    node->unhashable = makes_unhashable(node);
    top[0] = node;
    m->depth--;
    return VC_OK;
}
