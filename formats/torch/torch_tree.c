/* torch_tree.c - walks over the values of a PyTorch file and lists its tensors by name.
 *
 *     {'model': {'fc': {'weight': tensor}}, 'optimizer': {'state': {0: {'exp_avg': tensor}}}}
 *         -> "fc.weight", a weight (the names below the chosen dict are without the way to it)
 *            "optimizer.state.0.exp_avg", of the optimizer; it is part "optimizer" of `inspect`
 *
 * Names are the keys on the way, joined by '.'. Dicts, lists and tuples are walked through; objects by their
 * attributes, modules by their parameters and buffers, as state_dict() would. Values may be shared, so one node can be
 * reached on more ways than there are atoms: steps are counted, and a container inside itself is refused. */

#include "core/base/array.h"
#include "core/base/findings.h"
#include "formats/torch/torch_choose.h"

#define MAX_PARTS ((size_t)1000)
#define MAX_ARGS  ((uint64_t)10000) /* values that are looked at of what an object is made from */

/* Tensors and names that a pickle may have, whatever its size, and by its bytes. */
#define FREE_TENSORS      ((uint64_t)10000)
#define BYTES_A_TENSOR    ((uint64_t)8)
#define FREE_NAMES        ((uint64_t)4 << 20)
#define NAME_BYTES_A_BYTE ((uint64_t)16)

/* Where the walk is, and what it has seen. */
struct walk {
    struct vc_ctx *ctx;
    struct torch *self;
    struct vc_text path;
    const struct vc_pickle_node *skip; /* was walked already */
    enum vc_role role;
    size_t part;
    unsigned depth;
    uint64_t steps;
    size_t found_capacity, parts_capacity;
    uint64_t name_bytes;  /* of all that was found */
    bool modules;         /* met one */
    bool buffer;          /* the value that is entered is a buffer of one */
    size_t n_turned_back; /* objects inside themselves, which were not entered again */
};

static enum vc_status walk_node(struct walk *w, struct vc_pickle_node *node);

/* A value that many dicts share is found in each of them: there may be somewhat more tensors, and longer names, than
 * the pickle has room for. A tensor takes 25 bytes of it, mostly 150; and names are there once, without what is before
 * them. */
static enum vc_status check_found(struct walk *w)
{
    uint64_t n_bytes = w->self->pickle.n_bytes;

    w->name_bytes += w->path.n;
    VC_REFUSE_IF(w->self->n_found >= FREE_TENSORS + n_bytes / BYTES_A_TENSOR ||
                     w->name_bytes > FREE_NAMES + NAME_BYTES_A_BYTE * n_bytes,
                 w->ctx, VC_E_UNSUPPORTED,
                 "its values contain each other so often that %zu bytes would name more than %zu tensors",
                 w->self->pickle.n_bytes, w->self->n_found);
    return VC_OK;
}

/* A tensor at the path, or one that cannot be read (refusal says why). */
static enum vc_status add_found(struct walk *w, const struct torch_tensor *tensor, const char *refusal)
{
    struct torch *self = w->self;
    const char *name = w->path.n == 0 ? "tensor" : w->path.data; /* torch.save(tensor) has no name for it */

    VC_CALL(check_found(w));
    VC_CALL(VC_GROW(w->ctx, VC_TAG_NAMES, self->found, w->found_capacity, self->n_found + 1));
    VC_CALL_ALLOC(name = vc_arena_copy(w->ctx, &self->keep.arena, name, strlen(name)));
    self->found[self->n_found++] =
        (struct torch_found){.name = name, .role = w->role, .part = w->part, .refusal = refusal, .tensor = *tensor};
    self->found[self->n_found - 1].buffer = w->buffer;
    return VC_OK;
}

/* An entry at the top of the file, for `inspect`: what it is, what it is for, whether it is the model. */
static enum vc_status add_part(struct walk *w, const char *name, const struct vc_pickle_node *node, enum vc_role role,
                               bool chosen)
{
    struct torch *self = w->self;

    if (self->n_parts == MAX_PARTS) {
        return VC_OK; /* the last one stands for the rest */
    }
    VC_CALL(VC_GROW(w->ctx, VC_TAG_NAMES, self->parts, w->parts_capacity, self->n_parts + 1));
    const char *what = vc_torch_describe(w->ctx, &self->keep.arena, node);
    VC_CALL_ALLOC(what);
    VC_CALL_ALLOC(name = vc_arena_printf(w->ctx, &self->keep.arena, "%s", name));
    self->parts[self->n_parts++] = (struct vc_part){.name = name, .what = what, .role = role, .chosen = chosen};
    return VC_OK;
}

static size_t last_part(const struct walk *w)
{
    return w->self->n_parts - 1;
}

/* The value below a key; the path has the key while it is walked. */
static enum vc_status walk_at(struct walk *w, const struct vc_pickle_node *key, size_t position,
                              struct vc_pickle_node *value)
{
    size_t n = w->path.n;
    enum vc_status status;

    w->steps += vc_torch_key_steps(key);
    VC_TRY(vc_torch_path_enter(w->ctx, &w->path, key, position));
    VC_TRY(walk_node(w, value));
out:
    vc_torch_path_leave(&w->path, n);
    return status;
}

/* ---- containers ---- */

/* Every value of a dict, below its key; every item of a list or tuple, by its position. */
static enum vc_status walk_items(struct walk *w, const struct vc_pickle_node *node, bool has_keys)
{
    struct vc_pickle_iter iter = vc_pickle_iterate(node);
    struct vc_pickle_node *item;
    size_t i = 0;

    while ((item = vc_pickle_next(&iter)) != NULL) {
        if (has_keys) {
            VC_CALL(walk_at(w, item, i++, vc_pickle_next(&iter)));
        } else {
            VC_CALL(walk_at(w, NULL, i++, item));
        }
    }
    return VC_OK;
}

/* Buffers that state_dict() leaves out. There are few, so the list of them is looked through for every buffer. */
static bool is_hidden(struct walk *w, const struct vc_pickle_node *hidden, const struct vc_pickle_node *key)
{
    w->steps += hidden == NULL ? 0 : hidden->n_items;
    return hidden != NULL && vc_torch_items_have(hidden, key);
}

/* What state_dict() would list of a module: its parameters and buffers, then those of the modules in it. */
static enum vc_status walk_module(struct walk *w, const struct vc_pickle_node *state)
{
    static const char *const lists[] = {"_parameters", "_buffers", "_modules"};
    const struct vc_pickle_node *hidden = vc_torch_set_items(vc_torch_dict_get(state, "_non_persistent_buffers_set"));

    w->modules = true;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const struct vc_pickle_node *list = vc_torch_dict_get(state, lists[i]);
        struct vc_pickle_node *key;
        size_t k = 0;

        if (list == NULL || !vc_pickle_is_mapping(list)) {
            continue;
        }
        struct vc_pickle_iter iter = vc_pickle_iterate(list);
        while ((key = vc_pickle_next(&iter)) != NULL) {
            struct vc_pickle_node *value = vc_pickle_next(&iter);

            if (i != 1 || !is_hidden(w, hidden, key)) {
                w->buffer = i == 1;
                VC_CALL(walk_at(w, key, k, value));
                w->buffer = false;
            }
            k++;
        }
    }
    return VC_OK;
}

/* An object that nothing is known about: its attributes and items are looked at; what it was made from is not, so
 * tensors in there cannot be read. */
static enum vc_status walk_object(struct walk *w, const struct vc_pickle_node *node)
{
    struct vc_pickle_node *state = vc_torch_object_state(node);
    uint64_t budget = MAX_ARGS;

    w->self->n_arrays += vc_torch_is_numpy_array(node);
    w->self->arrays_among_weights |= w->role == VC_ROLE_WEIGHT && vc_torch_is_numpy_array(node);
    if (vc_torch_holds_storage(node->u.call.args, 8, &budget)) {
        char name[256];
        const char *why = vc_arena_printf(w->ctx, &w->self->keep.arena, "is made by %s, which is not known",
                                          vc_torch_class_name(node, name, sizeof name));

        VC_CALL_ALLOC(why);
        VC_CALL(add_found(w, &(struct torch_tensor){0}, why));
    }
    w->steps += MAX_ARGS - budget;
    if (state != NULL) {
        VC_CALL(walk_items(w, state, true));
    }
    if (node->n_items != 0 && !node->mixed) {
        VC_CALL(walk_items(w, node, false));
    }
    return VC_OK;
}

/* A container, by its kind. */
static enum vc_status walk_inside(struct walk *w, struct vc_pickle_node *node)
{
    struct vc_pickle_node *state = vc_torch_object_state(node);
    struct vc_pickle_node *module = vc_torch_module_state(node);

    w->steps += state == NULL ? 0 : state->n_items; /* many objects may have one large state */
    if (module != NULL) {
        return walk_module(w, module);
    }
    if (vc_pickle_is_mapping(node)) {
        return walk_items(w, node, true);
    }
    return node->kind == VC_PICKLE_CALL ? walk_object(w, node) : walk_items(w, node, false);
}

/* A container is entered. One that is in many places and turned out to hold no tensor is not entered again. */
static enum vc_status walk_container(struct walk *w, struct vc_pickle_node *node)
{
    size_t n_found = w->self->n_found;
    size_t n_turned_back = w->n_turned_back;

    if (node->walked) {
        return VC_OK;
    }
    if (node->busy) {
        /* Objects may well refer to each other. */
        w->n_turned_back++;
        return node->kind == VC_PICKLE_CALL && !vc_pickle_is_mapping(node)
                   ? VC_OK
                   : vc_fail(w->ctx, VC_E_UNSUPPORTED, "%s: contains itself", w->path.n == 0 ? "top" : w->path.data);
    }
    VC_REFUSE_IF(w->depth == TORCH_MAX_DEPTH, w->ctx, VC_E_UNSUPPORTED, "%.200s...: more than %d levels", w->path.data,
                 TORCH_MAX_DEPTH);
    node->busy = true;
    w->depth++;
    enum vc_status status = walk_inside(w, node);
    w->depth--;
    node->busy = false;
    node->walked = node->shared && w->self->n_found == n_found && w->n_turned_back == n_turned_back;
    return status;
}

/* Any value: a tensor is listed, a container entered, anything else is left alone. With findings, a tensor whose
 * description is damaged becomes one of them. */
static enum vc_status walk_node(struct walk *w, struct vc_pickle_node *node)
{
    struct torch_tensor tensor;
    enum torch_kind kind = TORCH_NOTHING;
    const char *refusal = NULL;

    if (node == w->skip) {
        return VC_OK;
    }
    VC_CALL(vc_torch_step(w->ctx, w->self, &w->steps));
    enum vc_status status = vc_torch_tensor_parse(w->ctx, &w->self->keep, node, &tensor, &kind, &refusal);
    if (status != VC_OK && status != VC_E_NOMEM) {
        const char *name = w->path.n == 0 ? "tensor" : w->path.data;

        return vc_collect(w->ctx, vc_context(w->ctx, "%s", name), "tensor", name);
    }
    VC_CALL(status);
    if (kind != TORCH_NOTHING) {
        return add_found(w, &tensor, refusal);
    }
    if (node->kind != VC_PICKLE_CALL && (node->kind < VC_PICKLE_TUPLE || node->kind > VC_PICKLE_DICT)) {
        return VC_OK;
    }
    return walk_container(w, node);
}

/* ---- the parts ---- */

/* One part for each key at the top. *at: the one that the model is in. */
static enum vc_status add_parts(struct walk *w, const struct vc_pickle_node *root, const struct vc_pickle_node *home,
                                size_t *at)
{
    bool pairs = vc_pickle_is_mapping(root);
    struct vc_pickle_iter iter = vc_pickle_iterate(root);
    const struct vc_pickle_node *key;
    bool found = false;
    size_t i = 0;

    while ((key = vc_pickle_next(&iter)) != NULL) {
        const struct vc_pickle_node *value = pairs ? vc_pickle_next(&iter) : key;
        bool chosen = value == home && !found; /* one dict may well be there under two keys */

        VC_CALL(vc_torch_path_enter(w->ctx, &w->path, pairs ? key : NULL, i++));
        VC_CALL(add_part(w, w->path.data, value,
                         chosen ? VC_ROLE_WEIGHT : vc_torch_role_of(w->path.data, VC_ROLE_OTHER), chosen));
        *at = chosen ? last_part(w) : *at;
        found |= chosen;
        vc_torch_path_leave(&w->path, 0);
    }
    return VC_OK;
}

/* The model lies below one of the keys at the top. It comes first, so that of two names of one tensor the weight's
 * counts. */
static enum vc_status walk_parts(struct walk *w, const struct vc_pickle_node *root, const struct vc_pickle_node *home)
{
    bool pairs = vc_pickle_is_mapping(root);
    struct vc_pickle_iter iter = vc_pickle_iterate(root);
    struct vc_pickle_node *key;
    size_t home_part = 0;

    VC_CALL(add_parts(w, root, home, &home_part));
    w->role = VC_ROLE_WEIGHT;
    w->part = home_part;
    VC_CALL(walk_node(w, w->self->chosen));
    w->skip = w->self->chosen;
    for (size_t i = 0; (key = vc_pickle_next(&iter)) != NULL; i++) {
        struct vc_pickle_node *value = pairs ? vc_pickle_next(&iter) : key;

        w->part = i < last_part(w) ? i : last_part(w);
        w->role = w->part == home_part ? VC_ROLE_OTHER : w->self->parts[w->part].role;
        VC_CALL(walk_at(w, pairs ? key : NULL, i, value));
    }
    return VC_OK;
}

/* The file is the model: a state_dict() at the top. Entries whose key says that they are none of it become parts of
 * their own. */
static enum vc_status walk_whole(struct walk *w, struct vc_pickle_node *root)
{
    enum vc_role usual = vc_torch_is_optimizer(root) ? VC_ROLE_OPTIMIZER : VC_ROLE_WEIGHT;
    struct vc_pickle_iter iter = vc_pickle_iterate(root);
    struct vc_pickle_node *key;
    size_t i = 0;
    enum vc_status status;

    w->role = usual;
    VC_TRY(add_part(w, "", root, usual, true));
    if (!vc_pickle_is_mapping(root)) {
        return walk_node(w, root);
    }
    while ((key = vc_pickle_next(&iter)) != NULL) {
        struct vc_pickle_node *value = vc_pickle_next(&iter);
        size_t n_before = w->self->n_found;

        VC_TRY(vc_torch_path_enter(w->ctx, &w->path, key, i++));
        enum vc_role role = usual != VC_ROLE_WEIGHT ? usual : vc_torch_role_of(w->path.data, VC_ROLE_WEIGHT);
        if (role != usual && vc_torch_is_container(value)) {
            VC_TRY(add_part(w, w->path.data, value, role, false));
            w->part = last_part(w);
            w->role = role;
        }
        VC_TRY(walk_node(w, value));
        if (w->part == 0 && w->self->n_found == n_before) { /* a number, a text: listed as what it is */
            VC_TRY(add_part(w, w->path.data, value, VC_ROLE_OTHER, false));
        }
        vc_torch_path_leave(&w->path, 0);
        w->part = 0;
        w->role = usual;
    }
out:
    vc_torch_path_leave(&w->path, 0);
    return status;
}

/* Chooses, then walks over everything. */
enum vc_status vc_torch_tree_make(struct vc_ctx *ctx, struct torch *self, const char *key)
{
    struct walk w = {.ctx = ctx, .self = self};
    struct vc_pickle_node *home = NULL;
    enum vc_status status;

    vc_text_init(&w.path, ctx);
    vc_text_add_bytes(&w.path, "", 0); /* there from now on, even if empty */
    VC_TRY(w.path.status);
    VC_TRY(vc_torch_choose(ctx, self, key, &home));
    if (self->chosen == self->pickle.root) {
        VC_TRY(walk_whole(&w, self->pickle.root));
    } else {
        VC_TRY(walk_parts(&w, self->pickle.root, home));
    }
    if (w.modules) {
        vc_text_add(&self->note, "%sof pickled modules, parameters and buffers are read",
                    self->note.n == 0 ? "" : "; ");
        VC_TRY(self->note.status);
    }
out:
    vc_text_release(&w.path);
    return status;
}
