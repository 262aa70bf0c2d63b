/* changes.c - what differs between two documents: changes.h. Members are paired by their paths, items of lists by their
 * names:
 *
 *     {"totals": {"bits_per_weight": 8.2}, "tensors": [{"name": "fc1.weight", "bytes_after": 66048}]}
 *     {"totals": {"bits_per_weight": 4.5}, "tensors": [{"name": "fc1.weight", "bytes_after": 35840}]}
 *
 *     totals.bits_per_weight            8.2    4.5
 *     tensors  fc1.weight  bytes_after  66048  35840 */
#include <vcompress/changes.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/text/text.h"

#define MOST_DEPTH 16 /* deeper values are compared as wholes */

struct comparison {
    struct vc_changes out; /* first */
    struct vc_ctx *ctx;
    struct vc_arena arena;
    struct vc_change *changes;
    size_t capacity;
    const char *last; /* name of the item of the last change */
};

/* Of every run another one, or made by a page. */
static bool is_left_out(const char *path)
{
    static const char *const paths[] = {"run.seconds",        "run.threads",    "run.device", "run.peak_pool_bytes",
                                        "run.peak_rss_bytes", "tool",           "version",    "schema",
                                        "command_line",       "histograms",     "gpus",       "timeline",
                                        "baseline",           "baseline_bytes", "steps"};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (strcmp(path, paths[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_null(const json_t *value)
{
    return value == NULL || json_is_null(value);
}

static bool are_equal(const json_t *a, const json_t *b)
{
    return (is_null(a) && is_null(b)) || json_equal(a, b) ||
           (json_is_number(a) && json_is_number(b) && json_number_value(a) == json_number_value(b));
}

static bool holds_objects(const json_t *value)
{
    return json_is_array(value) && json_is_object(json_array_get(value, 0));
}

/* JSON of a value; NULL for null. */
static enum vc_status copy_value(struct comparison *c, const json_t *value, const char **to)
{
    char *text;

    *to = NULL;
    if (is_null(value)) {
        return VC_OK;
    }
    text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    *to = text == NULL ? NULL : vc_arena_copy(c->ctx, &c->arena, text, strlen(text));
    free(text);
    return *to == NULL ? vc_fail(c->ctx, VC_E_NOMEM, "not enough memory to compare documents") : VC_OK;
}

/* What is compared at a place. */
struct place {
    const char *list, *name, *path; /* in the arena */
    unsigned depth;
};

static enum vc_status add_change(struct comparison *c, const struct place *at, const json_t *a, const json_t *b)
{
    struct vc_change *change;
    enum vc_status status = VC_GROW(c->ctx, VC_TAG_REPORT, c->changes, c->capacity, c->out.n + 1);

    if (status != VC_OK) {
        return status;
    }
    change = &c->changes[c->out.n];
    *change = (struct vc_change){.list = at->list, .name = at->name, .member = at->path};
    change->numbers = json_is_number(a) && json_is_number(b);
    change->x = json_number_value(a);
    change->y = json_number_value(b);
    status = copy_value(c, a, &change->a);
    if (status == VC_OK) {
        status = copy_value(c, b, &change->b);
    }
    if (status == VC_OK) {
        c->out.n++;
        c->out.n_items += at->name != NULL && at->name != c->last;
        c->last = at->name;
    }
    return status;
}

static enum vc_status compare(struct comparison *c, const struct place *at, json_t *a, json_t *b);

static enum vc_status compare_member(struct comparison *c, const struct place *at, const char *key, json_t *a,
                                     json_t *b)
{
    struct place inside = *at;

    inside.path = *at->path == '\0' ? vc_arena_copy(c->ctx, &c->arena, key, strlen(key))
                                    : vc_arena_printf(c->ctx, &c->arena, "%s.%s", at->path, key);
    inside.depth++;
    if (inside.path == NULL) {
        return VC_E_NOMEM;
    }
    return at->list == NULL && is_left_out(inside.path) ? VC_OK : compare(c, &inside, a, b);
}

static enum vc_status compare_objects(struct comparison *c, const struct place *at, json_t *a, json_t *b)
{
    enum vc_status status = VC_OK;
    const char *key;
    json_t *value;

    json_object_foreach(a, key, value)
    {
        if (status == VC_OK) {
            status = compare_member(c, at, key, value, json_object_get(b, key));
        }
    }
    json_object_foreach(b, key, value)
    {
        if (status == VC_OK && json_object_get(a, key) == NULL) {
            status = compare_member(c, at, key, NULL, value);
        }
    }
    return status;
}

/* What an item is called; without a name its place. */
static const char *name_of(const json_t *item, size_t place, char *room, size_t n_room)
{
    static const char *const keys[] = {"name", "tensor", "gpu", "what", "path", "id", "dtype", "output", "step"};
    const char *name = NULL;

    for (size_t k = 0; k < sizeof keys / sizeof *keys && name == NULL; k++) {
        name = json_string_value(json_object_get(item, keys[k]));
    }
    (void)snprintf(room, n_room, "%zu", place);
    return name != NULL ? name : room;
}

/* Items by their names, the first of those with one name. NULL: no memory. */
static json_t *index_of(const json_t *list)
{
    json_t *index = json_object();
    char room[32];

    for (size_t i = 0; index != NULL && i < json_array_size(list); i++) {
        json_t *item = json_array_get(list, i);
        const char *name = name_of(item, i, room, sizeof room);

        if (json_object_get(index, name) == NULL && json_object_set(index, name, item) != 0) {
            json_decref(index);
            return NULL;
        }
    }
    return index;
}

/* at: of the list. */
static enum vc_status compare_lists(struct comparison *c, const struct place *at, const json_t *a, const json_t *b)
{
    json_t *items_a = index_of(a);
    json_t *items_b = index_of(b);
    enum vc_status status = VC_OK;
    const char *name;
    json_t *item;

    if (items_a == NULL || items_b == NULL) {
        status = vc_fail(c->ctx, VC_E_NOMEM, "not enough memory to compare documents");
    }
    for (int side = 0; status == VC_OK && side < 2; side++) {
        json_object_foreach(side == 0 ? items_a : items_b, name, item)
        {
            json_t *other = json_object_get(side == 0 ? items_b : items_a, name);
            struct place inside = {at->path, vc_arena_copy(c->ctx, &c->arena, name, strlen(name)), "", at->depth + 1};

            if (status != VC_OK || (side == 1 && other != NULL)) {
                continue;
            }
            status = inside.name == NULL ? VC_E_NOMEM
                     : other == NULL
                         ? add_change(c, &inside, side == 0 ? json_true() : NULL, side == 0 ? NULL : json_true())
                         : compare(c, &inside, item, other);
        }
    }
    json_decref(items_b);
    json_decref(items_a);
    return status;
}

static enum vc_status compare(struct comparison *c, const struct place *at, json_t *a, json_t *b)
{
    if (are_equal(a, b)) {
        return VC_OK;
    }
    if (at->depth < MOST_DEPTH && json_is_object(a) && json_is_object(b)) {
        return compare_objects(c, at, a, b);
    }
    if (at->list == NULL && holds_objects(a) && holds_objects(b)) {
        return compare_lists(c, at, a, b);
    }
    return add_change(c, at, a, b);
}

/* ---- files ---- */

/* NULL: the context has the reason. */
static json_t *read_document(struct vc_ctx *ctx, const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    const char *schema = json_string_value(json_object_get(root, "schema"));

    if (root == NULL && json_error_code(&error) == json_error_numeric_overflow) {
        root = json_load_file(path, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
        schema = json_string_value(json_object_get(root, "schema"));
    }
    if (root == NULL) {
        (void)vc_fail(ctx, json_error_code(&error) == json_error_cannot_open_file ? VC_E_IO : VC_E_FORMAT, "%s: %s",
                      path, error.text);
    } else if (schema == NULL || strncmp(schema, "vcompress.", 10) != 0) {
        (void)vc_fail(ctx, VC_E_FORMAT, "%s: is no document of vcompress", path);
    } else if (json_object_get(root, "error") != NULL) {
        (void)vc_fail(ctx, VC_E_FORMAT, "%s: is the document of a failure", path);
    } else {
        return root;
    }
    json_decref(root);
    return NULL;
}

static enum vc_status copy_strings(struct comparison *c, const json_t *a, const json_t *b, const char *path_a,
                                   const char *path_b)
{
    const struct {
        const char **to, *from;
    } strings[] = {{&c->out.schema, json_string_value(json_object_get(a, "schema"))},
                   {&c->out.path_a, path_a},
                   {&c->out.path_b, path_b},
                   {&c->out.command_a, json_string_value(json_object_get(a, "command"))},
                   {&c->out.command_b, json_string_value(json_object_get(b, "command"))}};

    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        if (strings[i].from != NULL) {
            *strings[i].to = vc_arena_copy(c->ctx, &c->arena, strings[i].from, strlen(strings[i].from));
            if (*strings[i].to == NULL) {
                return VC_E_NOMEM;
            }
        }
    }
    return VC_OK;
}

/* What a document says as a whole comes first. */
static enum vc_status put_items_last(struct comparison *c)
{
    struct vc_change *sorted = vc_alloc_array(c->ctx, VC_TAG_REPORT, c->out.n + 1, sizeof *sorted);
    size_t n = 0;

    if (sorted == NULL) {
        return VC_E_NOMEM;
    }
    for (int items = 0; items < 2; items++) {
        for (size_t i = 0; i < c->out.n; i++) {
            if ((c->changes[i].list != NULL) == (items == 1)) {
                sorted[n++] = c->changes[i];
            }
        }
    }
    vc_free(c->ctx, c->changes);
    c->changes = sorted;
    c->out.changes = sorted;
    return VC_OK;
}

enum vc_status vc_changes_of_documents(struct vc_ctx *ctx, const char *path_a, const char *path_b,
                                       struct vc_changes **out)
{
    const struct place top = {NULL, NULL, "", 0};
    struct comparison *c = NULL;
    json_t *b = NULL;
    json_t *a;
    enum vc_status status = VC_OK;

    *out = NULL;
    vc_clear_error(ctx);
    a = read_document(ctx, path_a);
    b = a == NULL ? NULL : read_document(ctx, path_b);
    if (b == NULL) {
        status = ctx->status;
        goto out;
    }
    c = vc_calloc_array(ctx, VC_TAG_REPORT, 1, sizeof *c);
    VC_TRY_ALLOC(c);
    c->ctx = ctx;
    VC_TRY(copy_strings(c, a, b, path_a, path_b));
    if (!json_equal(json_object_get(a, "schema"), json_object_get(b, "schema"))) {
        status = vc_fail(ctx, VC_E_FORMAT, "%s has the schema %s, %s has %s: no two documents of one kind", path_a,
                         c->out.schema, path_b, json_string_value(json_object_get(b, "schema")));
        goto out;
    }
    VC_TRY(compare(c, &top, a, b));
    VC_TRY(put_items_last(c));
    *out = &c->out;
    c = NULL;
out:
    vc_changes_free(c == NULL ? NULL : &c->out);
    json_decref(b);
    json_decref(a);
    return status;
}

void vc_changes_free(struct vc_changes *changes)
{
    struct comparison *c = (struct comparison *)changes;
    struct vc_ctx *ctx;

    if (c != NULL) {
        ctx = c->ctx;
        vc_free(ctx, c->changes);
        vc_arena_release(ctx, &c->arena);
        vc_free(ctx, c);
    }
}

/* ---- the document ---- */

static void add_string(struct vc_text *text, const char *before, const char *string)
{
    vc_text_add(text, "%s", before);
    if (string == NULL) {
        vc_text_add(text, "null");
    } else {
        vc_text_add_json_string(text, string);
    }
}

static void add_side(struct vc_text *text, const char *key, const char *path, const char *command)
{
    vc_text_add(text, "  \"%s\": ", key);
    add_string(text, "{\"path\": ", path);
    add_string(text, ", \"command\": ", command);
    vc_text_add(text, "},\n");
}

enum vc_status vc_changes_json(struct vc_ctx *ctx, const struct vc_changes *changes, char **out)
{
    struct vc_text text;

    vc_text_init(&text, ctx);
    vc_text_add(&text, "{\n  \"schema\": \"vcompress.changes/1\",\n");
    add_string(&text, "  \"of\": ", changes->schema);
    vc_text_add(&text, ",\n");
    add_side(&text, "a", changes->path_a, changes->command_a);
    add_side(&text, "b", changes->path_b, changes->command_b);
    vc_text_add(&text, "  \"same\": %s,\n  \"changes\": [", changes->n == 0 ? "true" : "false");
    for (size_t i = 0; i < changes->n; i++) {
        const struct vc_change *change = &changes->changes[i];

        add_string(&text, i == 0 ? "\n    {\"list\": " : ",\n    {\"list\": ", change->list);
        add_string(&text, ", \"name\": ", change->name);
        add_string(&text, ", \"member\": ", change->member);
        vc_text_add(&text, ", \"a\": %s", change->a == NULL ? "null" : change->a);
        vc_text_add(&text, ", \"b\": %s}", change->b == NULL ? "null" : change->b);
    }
    vc_text_add(&text, "%s]\n}\n", changes->n == 0 ? "" : "\n  ");
    *out = vc_text_detach(&text);
    return text.status;
}
