/* pickle_node.c - nodes of a pickle: making them as small as their kind allows, their items, and small questions.
 *
 * A pickle of a large model has millions of values. A node takes only the bytes that its kind needs (node_bytes), equal
 * numbers and short tuples of numbers are shared (recent, tuples), and all of them lie in one arena, whose size is
 * bounded by the pickle's (room). Nodes are never changed once others may share them, but for lists, dicts, sets and
 * calls, which are not shared. */

#include "core/text/text.h"
#include "formats/torch/pickle_machine.h"

/* ---- making ---- */

#define UP_TO(member) (offsetof(struct vc_pickle_node, u) + sizeof((struct vc_pickle_node *)0)->u.member)

/* How much of a node its kind needs. u is the last member, a union. */
static size_t node_bytes(enum vc_pickle_kind kind)
{
    switch (kind) {
    case VC_PICKLE_NONE:
    case VC_PICKLE_BOOL:
    case VC_PICKLE_INT:
        return UP_TO(integer);
    case VC_PICKLE_FLOAT:
        return UP_TO(real);
    case VC_PICKLE_LONG:
    case VC_PICKLE_STRING:
    case VC_PICKLE_BYTES:
        return UP_TO(text);
    case VC_PICKLE_TUPLE:
        return UP_TO(tuple);
    case VC_PICKLE_LIST:
    case VC_PICKLE_DICT:
    case VC_PICKLE_SET:
        return UP_TO(items);
    case VC_PICKLE_GLOBAL:
        return UP_TO(global);
    case VC_PICKLE_CALL:
        return UP_TO(call);
    case VC_PICKLE_PERSID:
        break;
    }
    return UP_TO(persid);
}

/* Room in the tree, which may become no larger than vc_pickle_max_tree. NULL with the error set. */
static void *room(struct pickle_machine *m, size_t n)
{
    m->tree_bytes += n;
    if (VC_UNLIKELY(m->tree_bytes > vc_pickle_max_tree(m->n))) {
        (void)vc_fail(m->ctx, VC_E_UNSUPPORTED,
                      "pickle, byte %zu: its values take more than %zu bytes of memory, far more than %zu bytes of a "
                      "checkpoint's",
                      m->op_at, vc_pickle_max_tree(m->n), m->n);
        return NULL;
    }
    return vc_arena_alloc(m->ctx, &m->out->arena, n);
}

/* A node of zeros with n_more bytes behind it. */
static enum vc_status make(struct pickle_machine *m, enum vc_pickle_kind kind, size_t n_more,
                           struct vc_pickle_node **out)
{
    size_t n = node_bytes(kind) + n_more;
    struct vc_pickle_node *node = room(m, n);

    VC_CALL_FOUND(m->ctx, node);
    memset(node, 0, n);
    node->kind = (unsigned char)kind;
    node->unhashable = kind == VC_PICKLE_LIST || kind == VC_PICKLE_DICT || kind == VC_PICKLE_SET;
    *out = node;
    return VC_OK;
}

enum vc_status vc_pickle_make(struct pickle_machine *m, enum vc_pickle_kind kind, struct vc_pickle_node **out)
{
    return make(m, kind, 0, out);
}

/* A new node on the stack. */
enum vc_status vc_pickle_push_new(struct pickle_machine *m, enum vc_pickle_kind kind, struct vc_pickle_node **out)
{
    VC_CALL(make(m, kind, 0, out));
    return vc_pickle_push(m, *out);
}

/* None is one node for all. */
enum vc_status vc_pickle_push_none(struct pickle_machine *m)
{
    return m->none != NULL ? vc_pickle_push(m, m->none) : vc_pickle_push_new(m, VC_PICKLE_NONE, &m->none);
}

/* Sizes and strides repeat a few numbers over and over: one that was met lately is used again. VC_PICKLE_BOOL is stored
 * the same way. A table of PICKLE_RECENT places, chosen by a hash; what was there is forgotten, not freed. */
enum vc_status vc_pickle_push_integer(struct pickle_machine *m, enum vc_pickle_kind kind, int64_t value)
{
    uint64_t hash = (2 * (uint64_t)value + (kind == VC_PICKLE_BOOL)) * 0x9e3779b97f4a7c15u;
    struct vc_pickle_node **recent = &m->recent[(hash >> 32) % PICKLE_RECENT];

    if (*recent != NULL && (*recent)->kind == kind && (*recent)->u.integer == value) {
        return vc_pickle_push(m, *recent);
    }
    VC_CALL(vc_pickle_push_new(m, kind, recent));
    (*recent)->u.integer = value;
    return VC_OK;
}

#define FEW_NUMBERS 4

/* The place in m->tuples of a tuple of the n topmost values, few numbers: tensors of one shape have equal sizes and
 * strides, and their numbers are the same nodes. NULL: they are something else. 0x9e37... is 2^64 divided by the golden
 * ratio, a usual multiplier for hashes. */
static struct vc_pickle_node **recent_tuple(struct pickle_machine *m, size_t n)
{
    uint64_t hash = n;

    if (n == 0 || n > FEW_NUMBERS) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        const struct vc_pickle_node *item = m->stack[m->depth - n + i];

        if (item->kind != VC_PICKLE_INT) {
            return NULL;
        }
        hash = (hash ^ (uint64_t)item->u.integer) * 0x9e3779b97f4a7c15u;
    }
    return &m->tuples[(hash >> 32) % PICKLE_RECENT];
}

/* A tuple of the n topmost values, which leave the stack. The items lie behind the node, in the same allocation. */
static enum vc_status make_tuple(struct pickle_machine *m, size_t n, struct vc_pickle_node **out)
{
    struct vc_pickle_node **recent = recent_tuple(m, n);
    size_t n_bytes = n * sizeof(struct vc_pickle_node *);
    struct vc_pickle_node *node = recent != NULL ? *recent : NULL;

    m->depth -= n;
    if (node == NULL || node->n_items != n || memcmp(node->u.tuple, m->stack + m->depth, n_bytes) != 0) {
        VC_CALL(make(m, VC_PICKLE_TUPLE, n_bytes, &node));
        node->u.tuple = (struct vc_pickle_node **)(void *)((char *)node + UP_TO(tuple));
        node->n_items = (uint32_t)n;
        for (size_t i = 0; i < n; i++) {
            node->u.tuple[i] = m->stack[m->depth + i];
            node->unhashable |= vc_pickle_is_unhashable(node->u.tuple[i]);
        }
    }
    if (recent != NULL) {
        *recent = node;
    }
    *out = node;
    return VC_OK;
}

/* The empty tuple is one node for all. */
enum vc_status vc_pickle_push_tuple(struct pickle_machine *m, size_t n)
{
    struct vc_pickle_node *node = m->empty_tuple;

    VC_CALL(vc_pickle_need(m, n));
    if (n != 0 || node == NULL) {
        VC_CALL(make_tuple(m, n, &node));
    }
    if (n == 0) {
        m->empty_tuple = node;
    }
    return vc_pickle_push(m, node);
}

/* The place for state and items of a call, made when the first of them comes; most calls never get any. */
static enum vc_status need_object(struct pickle_machine *m, struct vc_pickle_node *call)
{
    struct vc_pickle_object *object;

    if (call->u.call.object == NULL) {
        object = room(m, sizeof *object);
        VC_CALL_FOUND(m->ctx, object);
        memset(object, 0, sizeof *object);
        call->u.call.object = object;
    }
    return VC_OK;
}

enum vc_status vc_pickle_set_state(struct pickle_machine *m, struct vc_pickle_node *call, struct vc_pickle_node *state)
{
    VC_CALL(need_object(m, call));
    call->u.call.object->state = state;
    return VC_OK;
}

/* The n topmost values leave the stack and become a run of items. SETITEMS and APPENDS come in batches of 1000: each
 * batch is a run, and no item is copied twice. */
enum vc_status vc_pickle_add_items(struct pickle_machine *m, struct vc_pickle_node *node, size_t n)
{
    struct vc_pickle_runs *runs = &node->u.items;
    struct vc_pickle_run *run;

    if (n == 0) {
        return VC_OK;
    }
    if (node->kind == VC_PICKLE_CALL) {
        VC_CALL(need_object(m, node));
        runs = &node->u.call.object->items;
    }
    run = room(m, sizeof *run + n * sizeof *run->nodes);
    VC_CALL_FOUND(m->ctx, run);
    run->next = NULL;
    run->n = n;
    m->depth -= n;
    memcpy(run->nodes, m->stack + m->depth, n * sizeof *run->nodes);
    *(runs->last == NULL ? &runs->first : &runs->last->next) = run;
    runs->last = run;
    node->n_items += (uint32_t)n;
    return VC_OK;
}

/* ---- items ---- */

/* Where the items of a list, dict, set or call begin; NULL: it has none. */
static const struct vc_pickle_run *first_run(const struct vc_pickle_node *node)
{
    switch ((enum vc_pickle_kind)node->kind) {
    case VC_PICKLE_LIST:
    case VC_PICKLE_DICT:
    case VC_PICKLE_SET:
        return node->u.items.first;
    case VC_PICKLE_CALL:
        return node->u.call.object == NULL ? NULL : node->u.call.object->items.first;
    default:
        return NULL;
    }
}

struct vc_pickle_iter vc_pickle_iterate(const struct vc_pickle_node *node)
{
    if (node->kind == VC_PICKLE_TUPLE) {
        return (struct vc_pickle_iter){.at = node->u.tuple, .n_left = node->n_items};
    }
    return (struct vc_pickle_iter){.next = first_run(node)};
}

/* Goes to the next run where one is used up; runs are never empty. */
struct vc_pickle_node *vc_pickle_next(struct vc_pickle_iter *iter)
{
    if (iter->n_left == 0) {
        if (iter->next == NULL) {
            return NULL;
        }
        iter->at = iter->next->nodes;
        iter->n_left = iter->next->n;
        iter->next = iter->next->next;
    }
    iter->n_left--;
    return *iter->at++;
}

/* For arguments, which are few: runs are walked from the first on. */
struct vc_pickle_node *vc_pickle_item(const struct vc_pickle_node *node, size_t k)
{
    const struct vc_pickle_run *run;

    if (k >= node->n_items) {
        return NULL;
    }
    if (node->kind == VC_PICKLE_TUPLE) {
        return node->u.tuple[k];
    }
    for (run = first_run(node); k >= run->n; run = run->next) {
        k -= run->n;
    }
    return run->nodes[k];
}

struct vc_pickle_node *vc_pickle_state(const struct vc_pickle_node *node)
{
    return node->kind == VC_PICKLE_CALL && node->u.call.object != NULL ? node->u.call.object->state : NULL;
}

/* ---- questions ---- */

bool vc_pickle_bytes_are(const struct vc_pickle_bytes *bytes, const char *text)
{
    return bytes->n == strlen(text) && memcmp(bytes->p, text, bytes->n) == 0;
}

/* Shared strings, which many nodes may be, remember the answer. */
bool vc_pickle_is_utf8(const struct vc_pickle_node *string)
{
    return string->shared ? string->utf8 : vc_utf8_valid(string->u.text.p, string->u.text.n);
}

bool vc_pickle_is_unhashable(const struct vc_pickle_node *node)
{
    return node->unhashable && node->kind != VC_PICKLE_GLOBAL;
}

bool vc_pickle_is_string(const struct vc_pickle_node *node, const char *text)
{
    return node != NULL && node->kind == VC_PICKLE_STRING && vc_pickle_bytes_are(&node->u.text, text);
}

/* Python 2 called the module "builtins" "__builtin__". */
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

/* Without items, only the class can tell. pairs: items came by SETITEM(S); mixed: by both kinds of opcodes. */
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
