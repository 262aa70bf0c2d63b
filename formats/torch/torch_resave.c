/* torch_resave.c - the tree of a PyTorch file written again with the new tensors in it, so that a training checkpoint
 * stays one.
 *
 *     {'epoch': 12, 'model': {'w': f32}, 'args': Namespace(...)}     the source
 *     {'epoch': 12, 'model': {'w.int8': int8, 'w.scale': f32}}       the output; left out: args (argparse.Namespace)
 *
 * Dicts, lists, numbers and texts are written as they were, scales beside the tensors they belong to. What needs code
 * to be loaded cannot be in there: objects with tensors become dicts of them, others are left out and named in the
 * report. Called by torch_pickle.c. */

#include "core/base/array.h"
#include "formats/torch/torch_choose.h"
#include "formats/torch/torch_pickle.h"

/* Bytes that an output's pickle may have: in all, per byte of the input's, per output tensor. */
#define FREE_OUTPUT  ((uint64_t)16 << 20)
#define MAX_GROWTH   ((uint64_t)32)
#define BYTES_AN_OUT ((uint64_t)1024)

static enum vc_status write_value(struct torch_writer *w, struct vc_pickle_node *node);

/* Below the dict that was chosen, names of tensors are without the way to it. Returns what the caller puts back into
 * names_at afterwards. */
static size_t names_from(struct torch_writer *w, const struct vc_pickle_node *value)
{
    size_t before = w->names_at;

    if (value == w->source->chosen) {
        w->names_at = w->path.n + (w->path.n != 0); /* and without the '.' */
    }
    return before;
}

/* ---- what can be written ---- */

/* Some tensor below the path is in the output. */
static bool holds_tensors(struct torch_writer *w)
{
    size_t first, last;

    return vc_torch_find_below(w, &first, &last);
}

/* A restricted loader takes the value as it is. */
static bool is_plain(struct torch_writer *w, const struct vc_pickle_node *node)
{
    return vc_torch_is_plain(w->source, node, &w->steps);
}

/* The value at the path can be in the output, as it is or changed. */
static bool can_write(struct torch_writer *w, const struct vc_pickle_node *node)
{
    struct vc_pickle_node number;

    if (vc_torch_is_tensor(node)) {
        return vc_torch_out_here(w) != VC_NO_TENSOR;
    }
    switch ((enum vc_pickle_kind)node->kind) {
    case VC_PICKLE_TUPLE:
    case VC_PICKLE_LIST:
    case VC_PICKLE_DICT:
        return true;
    case VC_PICKLE_SET:
        return is_plain(w, node);
    case VC_PICKLE_CALL:
        return vc_pickle_is_mapping(node) || is_plain(w, node) || vc_torch_numpy_number(node, &number) ||
               holds_tensors(w);
    default:
        return vc_torch_is_atom(node);
    }
}

/* The value is left out, and the report names it. Tensors that the model has are none of these: they were dropped on
 * purpose, or became a part of another one. */
static void note_left(struct torch_writer *w, const struct vc_pickle_node *node)
{
    const char *kind = vc_torch_numpy_kind(node);
    char name[256];

    if (vc_torch_is_tensor(node) && vc_torch_tensor_here(w) != VC_NO_TENSOR) {
        return;
    }
    if (w->n_left++ < TORCH_MAX_LEFT) {
        vc_torch_class_name(node, name, sizeof name);
        if (kind == NULL) {
            kind = vc_utf8_valid(name, strlen(name)) ? name : "?";
        }
        vc_text_add(&w->left, "%s%.200s (%s)", w->n_left == 1 ? "" : ", ", w->path.data, kind);
    }
}

/* ---- writing ---- */

/* What the source calls the tensor of an output. */
static const char *name_before(const struct torch_writer *w, size_t main_out)
{
    return w->model->tensors[vc_out_at(w->outs, main_out).source].name;
}

/* The first n bytes of a tensor's name are the way to its dict, which stays. Where a pass has changed them, no key can
 * say so: what has the other name is a container. */
static bool keeps_way(const struct torch_writer *w, size_t main_out, size_t n)
{
    const char *after = vc_out_at(w->outs, main_out).name;

    return strlen(after) >= n && strncmp(after, name_before(w, main_out), n) == 0;
}

/* For a tensor that gets another name, where the name does not come from the key of its dict. */
static enum vc_status refuse_way(const struct torch_writer *w, size_t main_out)
{
    return vc_fail(w->ctx, VC_E_UNSUPPORTED,
                   "%s: becomes %s, but in a file with containers inside each other what has the number is no key of a "
                   "tensor; write another format, such as .safetensors",
                   name_before(w, main_out), vc_out_at(w->outs, main_out).name);
}

/* What a key is without the ".int8" that codes have behind the name of their weight. A number is written to `digits`,
 * of KEY_DIGITS. False: it is neither text nor number. */
#define KEY_DIGITS 24

/* *weight points into the key, the name or `digits`. */
static bool weight_of_key(const struct torch_writer *w, const struct vc_pickle_node *key, size_t main_out, char *digits,
                          struct vc_pickle_bytes *weight)
{
    const char *name = name_before(w, main_out);

    if (vc_torch_here(w)[0] == '\0') { /* the key is empty: the tensor has the name that it has without a key */
        *weight = (struct vc_pickle_bytes){name, strlen(name)};
        return true;
    }
    if (key->kind == VC_PICKLE_STRING) {
        *weight = key->u.text;
        weight->n -= strlen(vc_torch_here(w)) - strlen(name);
        return true;
    }
    *weight = (struct vc_pickle_bytes){digits, 0};
    weight->n = (size_t)snprintf(digits, KEY_DIGITS, "%" PRId64, key->u.integer);
    return key->kind == VC_PICKLE_INT;
}

/* A key of text: that of a weight and what follows it. */
static void write_key(struct torch_writer *w, const struct vc_pickle_bytes *weight, const char *tail)
{
    size_t n = strlen(tail);

    vc_torch_emit_byte(&w->e, 'X');
    vc_torch_emit_le32(&w->e, (uint32_t)(weight->n + n));
    vc_text_add_bytes(w->e.to, weight->p, weight->n);
    vc_text_add_bytes(w->e.to, tail, n);
}

/* A tensor that is codes now, or was, with its key: "weight.int8", and behind it the scales, "weight.scale". A key that
 * is neither text nor number gives no name to them: the output becomes flat. */
static enum vc_status write_weight(struct torch_writer *w, const struct vc_pickle_node *key, size_t main_out)
{
    const char *name = vc_out_at(w->outs, main_out).name;
    size_t own = strlen(name);
    size_t n = vc_torch_parts_of(w, main_out);
    struct vc_pickle_bytes weight;
    char digits[KEY_DIGITS];
    size_t way;

    if (!weight_of_key(w, key, main_out, digits, &weight)) {
        w->flat = true;
        return VC_OK;
    }
    if (strcmp(name, name_before(w, main_out)) != 0) { /* a pass gave it that name */
        way = strlen(name_before(w, main_out)) - weight.n;
        VC_RETURN_IF(!keeps_way(w, main_out, way), refuse_way(w, main_out));
        weight = (struct vc_pickle_bytes){name + way, own - way};
    }
    for (size_t i = 0; i <= n; i++) {
        write_key(w, &weight, w->names[main_out + i] + own);
        vc_torch_write_out(w, main_out + i);
    }
    return VC_OK;
}

/* ---- containers ---- */

/* An entry at the top that belongs to a part which is not wanted (--drop). */
static bool is_dropped(const struct torch_writer *w)
{
    for (size_t i = 0; w->depth == 1 && i < w->source->n_parts; i++) {
        const struct vc_part *part = &w->source->parts[i];

        if (!part->chosen && w->outs->drop[part->role] && strcmp(part->name, w->path.data) == 0) {
            return true;
        }
    }
    return false;
}

/* The tensor at the path has other tensors beside it in the output, or another key. */
static bool is_renamed(const struct torch_writer *w, size_t main_out)
{
    const char *here = vc_torch_here(w)[0] != '\0' ? vc_torch_here(w) : name_before(w, main_out); /* of an empty key */

    return vc_torch_parts_of(w, main_out) != 0 || strcmp(here, w->names[main_out]) != 0;
}

/* Key and value at the path, or neither. */
static enum vc_status write_pair(struct torch_writer *w, struct vc_pickle_node *key, struct vc_pickle_node *value)
{
    size_t main_out = vc_torch_is_tensor(value) ? vc_torch_out_here(w) : VC_NO_TENSOR;

    if ((main_out == VC_NO_TENSOR && !can_write(w, value)) || !is_plain(w, key)) {
        note_left(w, value);
        return VC_OK;
    }
    if (main_out != VC_NO_TENSOR && is_renamed(w, main_out)) {
        return write_weight(w, key, main_out);
    }
    VC_CALL(write_value(w, key));
    if (main_out == VC_NO_TENSOR) {
        VC_CALL(write_value(w, value));
    } else {
        vc_torch_write_out(w, main_out);
    }
    return VC_OK;
}

/* The items of a dict; a new mark after each batch, as Python does it. */
static enum vc_status write_pairs(struct torch_writer *w, const struct vc_pickle_node *node)
{
    struct vc_pickle_iter iter = vc_pickle_iterate(node);
    struct vc_pickle_node *key;
    size_t n = w->path.n;
    size_t i = 0;

    while ((key = vc_pickle_next(&iter)) != NULL) {
        struct vc_pickle_node *value = vc_pickle_next(&iter);

        w->steps += vc_torch_key_steps(key);
        VC_CALL(vc_torch_path_enter(w->ctx, &w->path, key, i++));
        size_t before = names_from(w, value);
        if (!is_dropped(w)) {
            VC_CALL(write_pair(w, key, value));
        }
        w->names_at = before;
        vc_torch_path_leave(&w->path, n);
        if (i % TORCH_BATCH == 0) {
            vc_torch_emit_byte(&w->e, 'u');
            vc_torch_emit_byte(&w->e, '(');
        }
    }
    return VC_OK;
}

/* A dict or an OrderedDict; other subclasses become plain dicts, which load without code. */
static enum vc_status write_mapping(struct torch_writer *w, const struct vc_pickle_node *node)
{
    struct vc_pickle_node *state = vc_pickle_state(node);
    bool ordered = vc_torch_is_ordered_dict(node);

    if (ordered) {
        vc_torch_emit_new_ordered_dict(&w->e);
    } else {
        vc_torch_emit_byte(&w->e, '}');
    }
    vc_torch_emit_byte(&w->e, '(');
    VC_CALL(write_pairs(w, node));
    vc_torch_emit_byte(&w->e, 'u');
    if (ordered && state != NULL && is_plain(w, state)) { /* _metadata: versions of the modules */
        VC_CALL(write_value(w, state));
        vc_torch_emit_byte(&w->e, 'b');
    }
    return VC_OK;
}

/* An item of a list has its place for a name. */
static enum vc_status check_item(const struct torch_writer *w, size_t main_out)
{
    const char *name = vc_out_at(w->outs, main_out).name;

    return strcmp(name, name_before(w, main_out)) == 0 ? VC_OK : refuse_way(w, main_out);
}

/* Items keep their places: None stands for what cannot be written. */
static enum vc_status write_items(struct torch_writer *w, const struct vc_pickle_node *node)
{
    struct vc_pickle_iter iter = vc_pickle_iterate(node);
    struct vc_pickle_node *item;
    size_t n = w->path.n;
    size_t i = 0;

    while ((item = vc_pickle_next(&iter)) != NULL) {
        VC_CALL(vc_torch_path_enter(w->ctx, &w->path, NULL, i++));
        size_t before = names_from(w, item);
        if (can_write(w, item)) {
            if (vc_torch_is_tensor(item)) {
                VC_CALL(check_item(w, vc_torch_out_here(w)));
            }
            w->flat |= vc_torch_is_tensor(item) && vc_torch_parts_of(w, vc_torch_out_here(w)) != 0;
            VC_CALL(write_value(w, item));
        } else {
            note_left(w, item);
            vc_torch_emit_byte(&w->e, 'N');
        }
        w->names_at = before;
        vc_torch_path_leave(&w->path, n);
        if (node->kind == VC_PICKLE_LIST && i % TORCH_BATCH == 0) {
            vc_torch_emit_byte(&w->e, 'e');
            vc_torch_emit_byte(&w->e, '(');
        }
    }
    return VC_OK;
}

/* An object as the dict of the tensors in it, scales included. */
static enum vc_status write_object(struct torch_writer *w)
{
    size_t n = strlen(vc_torch_here(w));
    size_t skip = n == 0 ? 0 : n + 1;
    size_t first, last;

    vc_torch_emit_new_ordered_dict(&w->e);
    vc_torch_emit_byte(&w->e, '(');
    if (vc_torch_find_below(w, &first, &last)) {
        size_t end = w->main_out[last] + 1 + vc_torch_parts_of(w, w->main_out[last]);

        for (size_t i = w->main_out[first]; i < end; i++) {
            VC_RETURN_IF(vc_out_at(w->outs, i).role == VC_PART_CODES && !keeps_way(w, i, skip), refuse_way(w, i));
            vc_torch_emit_string(&w->e, w->names[i] + skip, strlen(w->names[i] + skip));
            vc_torch_write_out(w, i);
        }
    }
    vc_torch_emit_byte(&w->e, 'u');
    return VC_OK;
}

/* What a call becomes: a tensor, itself, a number, a dict. */
static enum vc_status write_call(struct torch_writer *w, struct vc_pickle_node *node)
{
    const struct vc_pickle_node *function = node->u.call.function;
    struct vc_pickle_node number;

    if (vc_torch_is_tensor(node)) {
        w->flat |= vc_torch_parts_of(w, vc_torch_out_here(w)) != 0;
        vc_torch_write_out(w, vc_torch_out_here(w));
    } else if (vc_torch_is_known_call(node) && is_plain(w, node)) {
        vc_text_add(w->e.to, "c%.*s\n%.*s\n", (int)function->u.global.module.n, function->u.global.module.p,
                    (int)function->u.global.name.n, function->u.global.name.p);
        VC_CALL(write_value(w, node->u.call.args));
        vc_torch_emit_byte(&w->e, 'R');
    } else if (vc_torch_numpy_number(node, &number)) {
        VC_CALL(write_value(w, &number));
    } else if (vc_pickle_is_mapping(node)) {
        VC_CALL(write_mapping(w, node));
    } else {
        VC_CALL(write_object(w));
    }
    return VC_OK;
}

/* A value with others in it. */
static enum vc_status write_container(struct torch_writer *w, struct vc_pickle_node *node)
{
    switch ((enum vc_pickle_kind)node->kind) {
    case VC_PICKLE_TUPLE:
        vc_torch_emit_byte(&w->e, '(');
        VC_CALL(write_items(w, node));
        vc_torch_emit_byte(&w->e, 't');
        break;
    case VC_PICKLE_LIST:
        vc_torch_emit_byte(&w->e, ']');
        vc_torch_emit_byte(&w->e, '(');
        VC_CALL(write_items(w, node));
        vc_torch_emit_byte(&w->e, 'e');
        break;
    case VC_PICKLE_SET: /* set([...]) */
        vc_torch_emit_global(&w->e, "__builtin__", "set");
        vc_torch_emit_byte(&w->e, ']');
        vc_torch_emit_byte(&w->e, '(');
        VC_CALL(write_items(w, node));
        vc_torch_emit_byte(&w->e, 'e');
        vc_torch_emit_byte(&w->e, 0x85); /* TUPLE1 */
        vc_torch_emit_byte(&w->e, 'R');
        break;
    case VC_PICKLE_DICT:
        VC_CALL(write_mapping(w, node));
        break;
    default:
        VC_CALL(write_call(w, node));
        break;
    }
    return VC_OK;
}

/* ---- shared values ---- */

/* Nodes are the same where their addresses are: the tree shares what the file shares. */
static uint64_t hash_of_node(const struct vc_pickle_node *node)
{
    return vc_hash_mix(0, (uint64_t)(uintptr_t)node);
}

static uint64_t hash_of(const void *memo, size_t number)
{
    return hash_of_node(((const struct torch_memo *)memo)[number].node);
}

/* A node that is looked for in the memo. */
struct key {
    const struct torch_memo *memo;
    const struct vc_pickle_node *node;
};

static bool is_same(const void *user, size_t number)
{
    const struct key *key = user;

    return key->memo[number].node == key->node;
}

/* A shared value that was written; NULL: it was not. */
static const struct torch_memo *find_memo(const struct torch_writer *w, const struct vc_pickle_node *node)
{
    const struct key key = {w->memo, node};
    size_t at = vc_hash_find(&w->by_node, hash_of_node(node), is_same, &key);

    return at != SIZE_MAX ? &w->memo[at] : NULL;
}

/* slot: in the memo of the output, and 1; 0: it is not there. */
static enum vc_status add_memo(struct torch_writer *w, const struct vc_pickle_node *node, unsigned slot)
{
    VC_CALL(VC_GROW(w->ctx, VC_TAG_NAMES, w->memo, w->memo_capacity, w->n_memo + 1));
    VC_CALL(vc_hash_grow(w->ctx, &w->by_node, w->n_memo, hash_of, w->memo));
    vc_hash_add(&w->by_node, hash_of_node(node), w->n_memo);
    w->memo[w->n_memo++] = (struct torch_memo){node, slot};
    return VC_OK;
}

/* The value is the same wherever it is written, and longer than a reference to it. What tensors are in is different at
 * each path. */
static bool is_worth_memo(struct torch_writer *w, const struct vc_pickle_node *node)
{
    switch ((enum vc_pickle_kind)node->kind) {
    case VC_PICKLE_LONG:
    case VC_PICKLE_STRING:
    case VC_PICKLE_BYTES:
    case VC_PICKLE_GLOBAL:
        return true;
    case VC_PICKLE_TUPLE:
        return node->n_items != 0 && is_plain(w, node);
    case VC_PICKLE_LIST:
    case VC_PICKLE_DICT:
    case VC_PICKLE_SET:
    case VC_PICKLE_CALL:
        return is_plain(w, node);
    default:
        return false;
    }
}

/* ---- any value ---- */

/* A value that nothing is in, or a container. */
static enum vc_status write_new(struct torch_writer *w, struct vc_pickle_node *node)
{
    enum vc_status status = VC_OK;

    switch ((enum vc_pickle_kind)node->kind) {
    case VC_PICKLE_NONE:
        vc_torch_emit_byte(&w->e, 'N');
        break;
    case VC_PICKLE_BOOL:
        vc_torch_emit_byte(&w->e, node->u.integer != 0 ? 0x88 : 0x89);
        break;
    case VC_PICKLE_INT:
        vc_torch_emit_int(&w->e, node->u.integer);
        break;
    case VC_PICKLE_LONG:
        vc_torch_emit_long(&w->e, &node->u.text);
        break;
    case VC_PICKLE_FLOAT:
        vc_torch_emit_float(&w->e, node->u.real);
        break;
    case VC_PICKLE_STRING:
        vc_torch_emit_string(&w->e, node->u.text.p, node->u.text.n);
        break;
    case VC_PICKLE_BYTES:
        vc_torch_emit_bytes(&w->e, &node->u.text);
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
    return status;
}

/* Shared dicts with tensors are written at each of their places, and with them what else they hold. An output far
 * larger than the input's pickle and its tensors can account for is refused. */
static enum vc_status check_length(const struct torch_writer *w)
{
    uint64_t most = FREE_OUTPUT + MAX_GROWTH * (uint64_t)w->source->pickle.n_bytes + BYTES_AN_OUT * w->outs->n;

    VC_REFUSE_IF(w->e.to->n > most, w->ctx, VC_E_UNSUPPORTED,
                 "its values contain each other so often that its pickle of %zu bytes would be written as more "
                 "than %" PRIu64,
                 w->source->pickle.n_bytes, most);
    return VC_OK;
}

/* Any value that can_write accepted. What the source has in several places is written once, and taken from the memo in
 * the others: lists stay the same list, and a long text stays one. */
static enum vc_status write_value(struct torch_writer *w, struct vc_pickle_node *node)
{
    const struct torch_memo *known = node->shared ? find_memo(w, node) : NULL;
    bool memo = node->shared && known == NULL && is_worth_memo(w, node);

    VC_CALL(vc_torch_step(w->ctx, w->source, &w->steps));
    VC_CALL(w->e.to->status);
    VC_CALL(check_length(w));
    if (known != NULL && known->slot != 0) {
        vc_torch_emit_get(&w->e, known->slot);
        return VC_OK;
    }
    VC_CALL(write_new(w, node));
    if (node->shared && known == NULL) {
        VC_CALL(add_memo(w, node, memo ? vc_torch_emit_put(&w->e) : 0));
    }
    return VC_OK;
}

/* A tree whose root cannot be written (an object of a class) becomes one dict. */
enum vc_status vc_torch_write_tree(struct torch_writer *w)
{
    struct vc_pickle_node *root = w->source->pickle.root;

    if (can_write(w, root)) {
        VC_CALL(write_value(w, root));
    } else {
        w->flat = true;
    }
    VC_CALL(vc_torch_step(w->ctx, w->source, &w->steps)); /* there may have been too many already */
    return VC_OK;
}
