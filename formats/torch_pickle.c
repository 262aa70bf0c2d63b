/* torch_pickle.c - the data.pkl of an output: what torch.load() will return.
 *
 * Where the source is a PyTorch file, its own tree is written again with the new tensors in it, so that a training
 * checkpoint stays one: dicts, lists, numbers and texts as they were, scales beside the tensors they belong to. What
 * needs code to be loaded cannot be in there: objects with tensors become dicts of them, others are left out and named.
 * Other sources, and trees that have no place for scales, become one dict with all tensors. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/checked.h"
#include "formats/torch_choose.h"
#include "formats/torch_emit.h"

#define MAX_PLAIN_DEPTH 50
#define MAX_NAMED_LEFT  5
#define BATCH           1000 /* items per opcode, as Python has it */

struct writer {
    struct vc_ctx *ctx;
    const struct vc_model *model;
    const struct torch *source;
    const struct vc_out_list *outs;
    const size_t *keys; /* number of each output's storage */
    size_t *main_out;   /* by tensor of the model; VC_NO_TENSOR: it has none */
    struct torch_emit e;
    struct vc_text path;
    struct vc_text left; /* what was left out */
    size_t n_left;
    uint64_t steps;
    unsigned depth;
    bool flat; /* there is no place for a scale */
};

static enum vc_status write_value(struct writer *w, struct vc_pickle_node *node);

/* ---- tensors ---- */

static const struct torch_dtype *dtype_of(const struct writer *w, const struct vc_out_tensor *out)
{
    if (w->source != NULL && w->source->found[out->source].tensor.dtype->dtype == out->dtype && !out->companion) {
        return w->source->found[out->source].tensor.dtype;
    }
    return torch_dtype_of(out->dtype);
}

static void write_out(struct writer *w, size_t index)
{
    const struct vc_out_tensor *out = &w->outs->tensors[index];
    const struct torch_tensor *t = w->source == NULL ? NULL : &w->source->found[out->source].tensor;
    bool may = t != NULL && !out->companion && vc_dtype_is_float(out->dtype); /* only those can have gradients */

    emit_tensor(&w->e, out, dtype_of(w, out), w->keys[index], may && t->parameter, may && t->requires_grad);
}

/* Its scales and zero points follow it in the list. */
static size_t companions_of(const struct writer *w, size_t index)
{
    size_t n = 0;

    while (index + 1 + n < w->outs->n && w->outs->tensors[index + 1 + n].companion) {
        n++;
    }
    return n;
}

/* The output of the tensor at the path; VC_NO_TENSOR: there is none. */
static size_t out_here(const struct writer *w)
{
    size_t tensor = vc_model_find(w->model, w->path.n == 0 ? "tensor" : w->path.data);

    return tensor == VC_NO_TENSOR ? VC_NO_TENSOR : w->main_out[tensor];
}

/* ---- what can be written ---- */

static bool is_plain(const struct vc_pickle_node *node, unsigned depth, uint64_t *budget);

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
static bool is_known_call(const struct vc_pickle_node *node)
{
    static const char *const known[][2] = {{"torch", "Size"},         {"torch", "device"},     {"builtins", "set"},
                                           {"builtins", "bytearray"}, {"builtins", "complex"}, {"_codecs", "encode"}};
    size_t i;

    for (i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (vc_pickle_is_call(node, known[i][0], known[i][1])) {
            return node->n_items == 0 && vc_pickle_state(node) == NULL;
        }
    }
    return false;
}

static bool is_ordered_dict(const struct vc_pickle_node *node)
{
    return vc_pickle_is_call(node, "collections", "OrderedDict");
}

static bool is_atom(const struct vc_pickle_node *node)
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
        return vc_utf8_valid(node->u.text.p, node->u.text.n);
    case VC_PICKLE_GLOBAL:
        return vc_pickle_bytes_are(&node->u.global.module, "torch") &&
               torch_dtype_by_name(&node->u.global.name) != NULL;
    default:
        return false;
    }
}

/* Nothing in it but values that can be written, and no tensors. */
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
        return (is_known_call(node) && is_plain(node->u.call.args, depth - 1, budget)) ||
               (is_ordered_dict(node) && is_plain_list(node, depth - 1, budget));
    default:
        return is_atom(node);
    }
}

static bool is_all_plain(const struct vc_pickle_node *node)
{
    uint64_t budget = 100000;

    return is_plain(node, MAX_PLAIN_DEPTH, &budget);
}

/* Tensors of an object follow each other in the model, and their names in the sorted list. Those with an output, from
 * *first to *last; the object at the top, or the one that was chosen, has all weights. */
static bool find_below(const struct writer *w, size_t *first, size_t *last)
{
    const struct vc_model *model = w->model;
    size_t n = w->path.n;
    size_t low = 0;
    size_t high = model->n_tensors;

    *first = VC_NO_TENSOR;
    *last = 0;
    while (n != 0 && low < high) { /* the first name that is not less than "path." */
        size_t middle = low + (high - low) / 2;
        const char *name = model->tensors[model->by_name[middle]].name;
        int order = strncmp(name, w->path.data, n);

        if (order < 0 || (order == 0 && (unsigned char)name[n] < '.')) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < model->n_tensors; low++) {
        size_t index = model->by_name[low];

        if (n != 0 &&
            (strncmp(model->tensors[index].name, w->path.data, n) != 0 || model->tensors[index].name[n] != '.')) {
            break;
        }
        if (w->main_out[index] != VC_NO_TENSOR && (n != 0 || model->tensors[index].role == VC_ROLE_WEIGHT)) {
            *first = index < *first ? index : *first;
            *last = index > *last ? index : *last;
        }
    }
    return *first != VC_NO_TENSOR;
}

static bool holds_tensors(const struct writer *w)
{
    size_t first;
    size_t last;

    return find_below(w, &first, &last);
}

static bool can_write(const struct writer *w, const struct vc_pickle_node *node)
{
    if (torch_is_tensor(node)) {
        return out_here(w) != VC_NO_TENSOR;
    }
    switch ((enum vc_pickle_kind)node->kind) {
    case VC_PICKLE_TUPLE:
    case VC_PICKLE_LIST:
    case VC_PICKLE_DICT:
        return true;
    case VC_PICKLE_SET:
        return is_all_plain(node);
    case VC_PICKLE_CALL:
        return vc_pickle_is_mapping(node) || is_all_plain(node) || holds_tensors(w);
    default:
        return is_atom(node);
    }
}

/* Tensors that are not there any more were dropped or went into another one: the report says so. */
static void note_left(struct writer *w, const struct vc_pickle_node *node)
{
    char name[256];

    if (torch_is_tensor(node) && vc_model_find(w->model, w->path.data) != VC_NO_TENSOR) {
        return;
    }
    if (w->n_left++ < MAX_NAMED_LEFT) {
        torch_class_name(node, name, sizeof name);
        vc_text_add(&w->left, "%s%.200s (%s)", w->n_left == 1 ? "" : ", ", w->path.data,
                    vc_utf8_valid(name, strlen(name)) ? name : "?");
    }
}

/* ---- writing ---- */

static void write_text(struct writer *w, const struct vc_pickle_bytes *text)
{
    emit_string(&w->e, text->p, text->n);
}

/* "weight" and the tensor's scales: "weight.scale". */
static void write_companions(struct writer *w, const struct vc_pickle_node *key, size_t main_out)
{
    size_t n = companions_of(w, main_out);
    size_t own = strlen(w->outs->tensors[main_out].name);
    char number[24];
    struct vc_pickle_bytes base = {number, 0};
    size_t i;

    if (n != 0 && key->kind != VC_PICKLE_STRING && key->kind != VC_PICKLE_INT) {
        w->flat = true;
        return;
    }
    if (key->kind == VC_PICKLE_STRING) {
        base = key->u.text;
    } else {
        base.n = (size_t)snprintf(number, sizeof number, "%" PRId64, key->u.integer);
    }
    for (i = 1; i <= n; i++) {
        const char *suffix = w->outs->tensors[main_out + i].name + own;
        size_t length = strlen(suffix);

        emit_byte(&w->e, 'X');
        emit_le32(&w->e, (uint32_t)(base.n + length));
        vc_text_add_bytes(w->e.to, base.p, base.n);
        vc_text_add_bytes(w->e.to, suffix, length);
        write_out(w, main_out + i);
    }
}

/* At the top, what belongs to a part that is not wanted. */
static bool is_dropped(const struct writer *w)
{
    size_t i;

    for (i = 0; w->depth == 1 && i < w->source->n_parts; i++) {
        const struct vc_part *part = &w->source->parts[i];

        if (!part->chosen && w->outs->drop[part->role] && strcmp(part->name, w->path.data) == 0) {
            return true;
        }
    }
    return false;
}

/* The value at the path, with the key before it, or nothing. */
static enum vc_status write_entry(struct writer *w, struct vc_pickle_node *key, struct vc_pickle_node *value)
{
    size_t main_out;
    enum vc_status status = VC_OK;

    if (is_dropped(w)) {
        return VC_OK;
    }
    if (value == w->source->chosen) {
        torch_path_leave(&w->path, 0);
    }
    if (!can_write(w, value) || !is_all_plain(key)) {
        note_left(w, value);
        return VC_OK;
    }
    VC_TRY(write_value(w, key));
    main_out = torch_is_tensor(value) ? out_here(w) : VC_NO_TENSOR;
    if (main_out == VC_NO_TENSOR) {
        VC_TRY(write_value(w, value));
    } else {
        write_out(w, main_out);
        write_companions(w, key, main_out);
    }
out:
    return status;
}

static enum vc_status write_mapping(struct writer *w, const struct vc_pickle_node *node)
{
    struct vc_pickle_iter iter = vc_pickle_iterate(node);
    struct vc_pickle_node *key;
    size_t n = w->path.n;
    size_t i = 0;
    enum vc_status status = VC_OK;

    if (is_ordered_dict(node)) {
        emit_new_ordered_dict(&w->e);
    } else {
        emit_byte(&w->e, '}');
    }
    emit_byte(&w->e, '(');
    while ((key = vc_pickle_next(&iter)) != NULL) {
        struct vc_pickle_node *value = vc_pickle_next(&iter);
        struct vc_text saved = {0};

        VC_TRY(torch_path_enter(w->ctx, &w->path, key, i++));
        if (value == w->source->chosen) { /* its names start anew: the path is put back by hand */
            vc_text_init(&saved, w->ctx);
            vc_text_add_bytes(&saved, w->path.data, n);
        }
        status = write_entry(w, key, value);
        if (value == w->source->chosen) {
            torch_path_leave(&w->path, 0);
            vc_text_add_bytes(&w->path, saved.n == 0 ? "" : saved.data, saved.n);
            vc_text_release(&saved);
        }
        VC_TRY(status);
        torch_path_leave(&w->path, n);
        if (i % BATCH == 0) {
            emit_byte(&w->e, 'u');
            emit_byte(&w->e, '(');
        }
    }
    emit_byte(&w->e, 'u');
    if (is_ordered_dict(node) && vc_pickle_state(node) != NULL && is_all_plain(vc_pickle_state(node))) {
        VC_TRY(write_value(w, vc_pickle_state(node))); /* _metadata: versions of the modules */
        emit_byte(&w->e, 'b');
    }
out:
    return status;
}

/* Items keep their places: None stands for what cannot be written. */
static enum vc_status write_items(struct writer *w, const struct vc_pickle_node *node)
{
    struct vc_pickle_iter iter = vc_pickle_iterate(node);
    struct vc_pickle_node *item;
    size_t n = w->path.n;
    size_t i = 0;
    enum vc_status status = VC_OK;

    while ((item = vc_pickle_next(&iter)) != NULL) {
        VC_TRY(torch_path_enter(w->ctx, &w->path, NULL, i++));
        if (item == w->source->chosen) {
            torch_path_leave(&w->path, 0);
        }
        if (can_write(w, item)) {
            w->flat |= torch_is_tensor(item) && companions_of(w, out_here(w)) != 0;
            VC_TRY(write_value(w, item));
        } else {
            note_left(w, item);
            emit_byte(&w->e, 'N');
        }
        torch_path_leave(&w->path, n);
        if (node->kind == VC_PICKLE_LIST && i % BATCH == 0) {
            emit_byte(&w->e, 'e');
            emit_byte(&w->e, '(');
        }
    }
out:
    return status;
}

/* An object as the dict of what it holds, scales included. */
static void write_object(struct writer *w)
{
    size_t skip = w->path.n == 0 ? 0 : w->path.n + 1;
    size_t first;
    size_t last;
    size_t i;

    emit_new_ordered_dict(&w->e);
    emit_byte(&w->e, '(');
    if (find_below(w, &first, &last)) {
        size_t end = w->main_out[last] + 1 + companions_of(w, w->main_out[last]);

        for (i = w->main_out[first]; i < end; i++) {
            const struct vc_out_tensor *out = &w->outs->tensors[i];

            emit_string(&w->e, out->name + skip, strlen(out->name + skip));
            write_out(w, i);
        }
    }
    emit_byte(&w->e, 'u');
}

static enum vc_status write_call(struct writer *w, struct vc_pickle_node *node)
{
    const struct vc_pickle_node *function = node->u.call.function;
    enum vc_status status = VC_OK;

    if (torch_is_tensor(node)) {
        w->flat |= companions_of(w, out_here(w)) != 0;
        write_out(w, out_here(w));
    } else if (is_known_call(node) && is_all_plain(node)) {
        vc_text_add(w->e.to, "c%.*s\n%.*s\n", (int)function->u.global.module.n, function->u.global.module.p,
                    (int)function->u.global.name.n, function->u.global.name.p);
        VC_TRY(write_value(w, node->u.call.args));
        emit_byte(&w->e, 'R');
    } else if (vc_pickle_is_mapping(node)) {
        VC_TRY(write_mapping(w, node));
    } else {
        write_object(w);
    }
out:
    return status;
}

static enum vc_status write_container(struct writer *w, struct vc_pickle_node *node)
{
    enum vc_status status = VC_OK;

    switch ((enum vc_pickle_kind)node->kind) {
    case VC_PICKLE_TUPLE:
        emit_byte(&w->e, '(');
        VC_TRY(write_items(w, node));
        emit_byte(&w->e, 't');
        break;
    case VC_PICKLE_LIST:
        emit_byte(&w->e, ']');
        emit_byte(&w->e, '(');
        VC_TRY(write_items(w, node));
        emit_byte(&w->e, 'e');
        break;
    case VC_PICKLE_SET: /* set([...]) */
        emit_global(&w->e, "__builtin__", "set");
        emit_byte(&w->e, ']');
        emit_byte(&w->e, '(');
        VC_TRY(write_items(w, node));
        emit_byte(&w->e, 'e');
        emit_byte(&w->e, 0x85); /* TUPLE1 */
        emit_byte(&w->e, 'R');
        break;
    case VC_PICKLE_DICT:
        VC_TRY(write_mapping(w, node));
        break;
    default:
        VC_TRY(write_call(w, node));
        break;
    }
out:
    return status;
}

static enum vc_status write_value(struct writer *w, struct vc_pickle_node *node)
{
    enum vc_status status;

    VC_TRY(torch_step(w->ctx, w->source, &w->steps));
    VC_TRY(w->e.to->status);
    switch ((enum vc_pickle_kind)node->kind) {
    case VC_PICKLE_NONE:
        emit_byte(&w->e, 'N');
        break;
    case VC_PICKLE_BOOL:
        emit_byte(&w->e, node->u.integer != 0 ? 0x88 : 0x89);
        break;
    case VC_PICKLE_INT:
        emit_int(&w->e, node->u.integer);
        break;
    case VC_PICKLE_LONG:
        emit_long(&w->e, &node->u.text);
        break;
    case VC_PICKLE_FLOAT:
        emit_float(&w->e, node->u.real);
        break;
    case VC_PICKLE_STRING:
        write_text(w, &node->u.text);
        break;
    case VC_PICKLE_BYTES:
        emit_bytes(&w->e, &node->u.text);
        break;
    case VC_PICKLE_GLOBAL:
        vc_text_add(w->e.to, "ctorch\n%.*s\n", (int)node->u.global.name.n, node->u.global.name.p);
        break;
    default: /* the walk that opened the file has bounded the depth, and found no container inside itself */
        w->depth++;
        status = write_container(w, node);
        w->depth--;
        break;
    }
out:
    return status;
}

/* All outputs by name in one dict. */
static void write_flat(struct writer *w)
{
    size_t i;

    emit_new_ordered_dict(&w->e);
    emit_byte(&w->e, '(');
    for (i = 0; i < w->outs->n; i++) {
        emit_string(&w->e, w->outs->tensors[i].name, strlen(w->outs->tensors[i].name));
        write_out(w, i);
        if (i % BATCH == BATCH - 1) {
            emit_byte(&w->e, 'u');
            emit_byte(&w->e, '(');
        }
    }
    emit_byte(&w->e, 'u');
}

/* ---- the whole ---- */

static void begin(struct writer *w, struct vc_text *pickle)
{
    pickle->n = 0;
    w->e = (struct torch_emit){.to = pickle};
    emit_byte(&w->e, 0x80);
    emit_byte(&w->e, 2);
}

static void number_storages(const struct vc_out_list *outs, size_t *keys)
{
    size_t n = 0;
    size_t i;

    for (i = 0; i < outs->n; i++) {
        keys[i] = outs->tensors[i].alias ? keys[outs->tensors[i].alias_of] : n++;
    }
}

static enum vc_status find_outs(struct writer *w)
{
    size_t i;
    enum vc_status status = VC_OK;

    w->main_out = vc_alloc_array(w->ctx, VC_TAG_NAMES, w->model->n_tensors, sizeof *w->main_out);
    VC_TRY_ALLOC(w->main_out);
    for (i = 0; i < w->model->n_tensors; i++) {
        w->main_out[i] = VC_NO_TENSOR;
    }
    for (i = 0; i < w->outs->n; i++) {
        if (!w->outs->tensors[i].companion) {
            w->main_out[w->outs->tensors[i].source] = i;
        }
    }
out:
    return status;
}

static enum vc_status write_tree(struct writer *w, struct vc_pickle_node *root)
{
    enum vc_status status;

    VC_TRY(find_outs(w));
    VC_TRY(can_write(w, root) ? write_value(w, root) : VC_OK);
    w->flat |= !can_write(w, root);
    VC_TRY(w->path.status);
    VC_TRY(w->left.status);
out:
    return status;
}

enum vc_status torch_pickle_make(struct vc_ctx *ctx, const struct vc_model *model, const struct torch *source,
                                 const struct vc_out_list *outs, struct vc_text *pickle, size_t *keys,
                                 struct vc_text *note)
{
    struct writer w = {.ctx = ctx, .model = model, .source = source, .outs = outs, .keys = keys};
    enum vc_status status = VC_OK;

    vc_text_init(&w.path, ctx);
    vc_text_init(&w.left, ctx);
    vc_text_add_bytes(&w.path, "", 0); /* there from now on, even if empty */
    number_storages(outs, keys);
    begin(&w, pickle);
    if (source != NULL) {
        VC_TRY(write_tree(&w, source->pickle.root));
    }
    if (source != NULL && w.flat) {
        vc_text_add(note, "the output is one dict of tensors: the input's own has no place for their scales");
    } else if (w.n_left != 0) {
        vc_text_add(note, "left out, because they cannot be loaded without running code: %s%s", w.left.data,
                    w.n_left > MAX_NAMED_LEFT ? ", ..." : "");
    }
    if (source == NULL || w.flat) {
        begin(&w, pickle);
        write_flat(&w);
    }
    emit_byte(&w.e, '.');
    VC_TRY(pickle->status);
    VC_TRY(note->status);
out:
    vc_free(ctx, w.main_out);
    vc_text_release(&w.path);
    vc_text_release(&w.left);
    return status;
}
