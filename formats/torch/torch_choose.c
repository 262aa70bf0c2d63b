/* torch_choose.c - finds the dict of weights among what training scripts save around it, and says what the rest is.
 *
 *     {'epoch': 12, 'model_state_dict': {...}, 'optimizer_state_dict': {...}}
 *                    ^ chosen: a usual key with tensors below it
 *
 * Called by torch_tree.c before it lists anything. --key chooses by a path instead of by the usual names. */
#include "formats/torch/torch_choose.h"

#include <ctype.h>

#define MAX_NAME ((size_t)60000)

/* Keys that training scripts use for the model, in the order in which they are tried. */
static const char *const usual_keys[] = {"state_dict", "model_state_dict", "model",   "module",
                                         "net",        "params_ema",       "params",  "generator",
                                         "ema",        "model_ema",        "network", "weights"};

/* An honest file needs about one step per value; each value took at least one opcode. */
uint64_t vc_torch_max_steps(const struct torch *self)
{
    return (uint64_t)1000000 + 8 * (uint64_t)self->pickle.n_opcodes;
}

enum vc_status vc_torch_step(struct vc_ctx *ctx, const struct torch *self, uint64_t *steps)
{
    VC_REFUSE_IF(++*steps > vc_torch_max_steps(self), ctx, VC_E_UNSUPPORTED,
                 "its values contain each other so often that a walk over them does not end");
    return *steps % 65536 == 0 ? vc_check_cancelled(ctx) : VC_OK;
}

/* ---- names ---- */

/* Keys of dicts are mostly texts; numbers and True become texts; anything else is "#" and its position. */
enum vc_status vc_torch_path_enter(struct vc_ctx *ctx, struct vc_text *path, const struct vc_pickle_node *key,
                                   size_t position)
{
    if (path->n != 0) {
        vc_text_add_bytes(path, ".", 1);
    }
    if (key != NULL && key->kind == VC_PICKLE_STRING) {
        VC_REFUSE_IF(!vc_pickle_is_utf8(key), ctx, VC_E_FORMAT, "%s: a key that is no UTF-8",
                     path->n == 0 ? "top" : path->data);
        VC_REFUSE_IF(key->u.text.n > MAX_NAME || path->n + key->u.text.n > MAX_NAME, ctx, VC_E_UNSUPPORTED,
                     "a name of more than %zu bytes", MAX_NAME);
        vc_text_add_bytes(path, key->u.text.p, key->u.text.n);
    } else if (key != NULL && key->kind == VC_PICKLE_INT) {
        vc_text_add(path, "%" PRId64, key->u.integer);
    } else if (key != NULL && key->kind == VC_PICKLE_BOOL) {
        vc_text_add(path, "%s", key->u.integer != 0 ? "True" : "False");
    } else {
        vc_text_add(path, "%s%zu", key == NULL ? "" : "#", position);
    }
    return path->status;
}

/* Long keys are copied each time. */
uint64_t vc_torch_key_steps(const struct vc_pickle_node *key)
{
    return key != NULL && key->kind == VC_PICKLE_STRING ? key->u.text.n / 256 : 0;
}

void vc_torch_path_leave(struct vc_text *path, size_t n)
{
    path->n = n;
    if (path->data != NULL) {
        path->data[n] = '\0';
    }
}

/* ---- kinds of entries ---- */

/* The word, in small letters, is somewhere in the text, in whatever case. */
static bool contains_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    size_t i;

    for (; *text != '\0'; text++) {
        for (i = 0; i < n && tolower((unsigned char)text[i]) == word[i]; i++) {
        }
        if (i == n) {
            return true;
        }
    }
    return false;
}

/* By the key: optimizers and schedulers are not weights. */
enum vc_role vc_torch_role_of(const char *key, enum vc_role usual)
{
    if (contains_word(key, "optim") || strcmp(key, "opt") == 0 || strcmp(key, "opt_state") == 0) {
        return VC_ROLE_OPTIMIZER;
    }
    if (contains_word(key, "rng") || contains_word(key, "sched") || contains_word(key, "scaler")) {
        return VC_ROLE_OTHER;
    }
    return usual;
}

/* ---- the choice ---- */

/* A search for tensors below a value; steps are counted over all searches of a choice. */
struct search {
    struct vc_ctx *ctx;
    const struct torch *self;
    uint64_t steps;
    unsigned depth;
    size_t n_turned_back; /* containers that were not entered, though something may be in them */
};

/* *found: a tensor is somewhere below the node. Containers on the way are marked (`busy`), so that one inside itself is
 * not entered again; shared ones that hold nothing are searched once (`searched`). */
static enum vc_status has_tensor(struct search *s, struct vc_pickle_node *node, bool *found)
{
    size_t n_before = s->n_turned_back;
    struct vc_pickle_node *item;
    enum vc_status status = VC_OK;

    VC_CALL(vc_torch_step(s->ctx, s->self, &s->steps));
    *found = vc_torch_is_tensor(node);
    if (*found || !vc_torch_is_container(node) || node->searched) {
        return VC_OK;
    }
    if (node->busy || s->depth == TORCH_MAX_DEPTH) {
        s->n_turned_back++;
        return VC_OK;
    }
    node->busy = true;
    s->depth++;
    if (vc_pickle_state(node) != NULL) {
        status = has_tensor(s, vc_pickle_state(node), found);
    }
    struct vc_pickle_iter iter = vc_pickle_iterate(node);
    while (status == VC_OK && !*found && (item = vc_pickle_next(&iter)) != NULL) {
        status = has_tensor(s, item, found);
    }
    s->depth--;
    node->busy = false;
    node->searched = node->shared && !*found && s->n_turned_back == n_before;
    return status;
}

/* Values of a dict, and how many of them are tensors. */
static void count_tensors(const struct vc_pickle_node *dict, size_t *n_tensors, size_t *n_values)
{
    struct vc_pickle_iter iter = vc_pickle_iterate(dict);

    *n_tensors = 0;
    *n_values = 0;
    while (vc_pickle_next(&iter) != NULL) {
        *n_tensors += vc_torch_is_tensor(vc_pickle_next(&iter));
        ++*n_values;
    }
}

/* The value of the first usual key that has tensors; its name goes to *key. */
static enum vc_status find_usual(struct search *s, const struct vc_pickle_node *dict, struct vc_pickle_node **value,
                                 const char **key)
{
    *value = NULL;
    for (size_t i = 0; i < sizeof usual_keys / sizeof usual_keys[0]; i++) {
        struct vc_pickle_node *inner = vc_torch_dict_get(dict, usual_keys[i]);
        bool found = false;

        if (inner == NULL || !vc_torch_is_container(inner) || vc_torch_is_tensor(inner)) {
            continue;
        }
        VC_CALL(has_tensor(s, inner, &found));
        if (found) {
            *value = inner;
            *key = usual_keys[i];
            return VC_OK;
        }
    }
    return VC_OK;
}

/* Goes down up to three levels, as long as a dict has no tensors of its own: {'model': {'state_dict': ...}}. */
static enum vc_status choose_usual(struct vc_ctx *ctx, struct torch *self, struct vc_pickle_node **home)
{
    struct search s = {.ctx = ctx, .self = self};
    struct vc_pickle_node *value = NULL;
    const char *key = "";

    for (unsigned level = 0; level < 3 && vc_pickle_is_mapping(self->chosen); level++) {
        size_t n_tensors = 0;
        size_t n_values = 0;

        count_tensors(self->chosen, &n_tensors, &n_values);
        if (n_tensors == n_values || (level > 0 && n_tensors > 0)) {
            break;
        }
        VC_CALL(find_usual(&s, self->chosen, &value, &key));
        if (value == NULL) {
            break;
        }
        *home = level == 0 ? value : *home;
        self->chosen = value;
        self->key = vc_arena_printf(ctx, &self->keep.arena, "%s%s%s", self->key, level == 0 ? "" : ".", key);
        VC_CALL_ALLOC(self->key);
    }
    return VC_OK;
}

/* The longest beginning of `path` that is a key; *n becomes its length. */
static struct vc_pickle_node *descend(const struct vc_pickle_node *node, const char *path, size_t *n)
{
    struct vc_pickle_node *value = NULL;

    for (*n = strlen(path); *n > 0 && value == NULL;) {
        if (vc_pickle_is_mapping(node)) {
            const struct vc_pickle_bytes key = {path, *n};

            value = vc_torch_dict_get_bytes(node, &key);
        } else if ((node->kind == VC_PICKLE_LIST || node->kind == VC_PICKLE_TUPLE) && isdigit((unsigned char)path[0]) &&
                   *n < 10 && strspn(path, "0123456789") >= *n) {
            value = vc_pickle_item(node, (size_t)strtoul(path, NULL, 10));
        }
        if (value == NULL) {
            do {
                --*n;
            } while (*n > 0 && path[*n] != '.');
        }
    }
    return value;
}

/* Refuses a --key, and lists the keys that are there. */
static enum vc_status no_such_key(struct vc_ctx *ctx, const struct vc_pickle_node *node, const char *key)
{
    struct vc_pickle_iter iter = vc_pickle_iterate(node);
    const struct vc_pickle_node *name;
    char list[400] = "";
    size_t n = 0;

    while (vc_pickle_is_mapping(node) && n + 60 < sizeof list && (name = vc_pickle_next(&iter)) != NULL) {
        (void)vc_pickle_next(&iter);
        if (name->kind == VC_PICKLE_STRING && name->u.text.n < 40 && vc_utf8_valid(name->u.text.p, name->u.text.n)) {
            n += (size_t)snprintf(list + n, sizeof list - n, "%s'%.*s'", n == 0 ? "; it has " : ", ",
                                  (int)name->u.text.n, name->u.text.p);
        }
    }
    return vc_fail(ctx, VC_E_ARGUMENT, "has no key '%s'%s", key, list);
}

/* Goes down a path such as "model.state_dict" or "0.net"; keys may have dots in them. */
static enum vc_status choose_by_key(struct vc_ctx *ctx, struct torch *self, const char *key,
                                    struct vc_pickle_node **home)
{
    struct search s = {.ctx = ctx, .self = self};
    const char *rest = key;
    bool found = false;

    while (*rest != '\0') {
        size_t n = 0;
        struct vc_pickle_node *value = descend(self->chosen, rest, &n);

        VC_RETURN_IF(value == NULL, no_such_key(ctx, self->chosen, rest));
        *home = self->chosen == self->pickle.root ? value : *home;
        self->chosen = value;
        rest += n + (rest[n] == '.');
    }
    VC_CALL(has_tensor(&s, self->chosen, &found));
    VC_REFUSE_IF(!found, ctx, VC_E_ARGUMENT, "key '%s' holds no tensors", key);
    self->key_given = true;
    VC_CALL_ALLOC(self->key = vc_arena_printf(ctx, &self->keep.arena, "%s", key));
    return VC_OK;
}

enum vc_status vc_torch_choose(struct vc_ctx *ctx, struct torch *self, const char *key, struct vc_pickle_node **home)
{
    self->chosen = self->pickle.root;
    self->key = "";
    *home = self->pickle.root;
    return key != NULL ? choose_by_key(ctx, self, key, home) : choose_usual(ctx, self, home);
}
