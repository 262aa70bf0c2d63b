/* changes.c - what differs between two documents: page.h. Members are paired by their paths, items of lists by their
 * names:
 *
 *     {"totals": {"bits_per_weight": 8.2}, "tensors": [{"name": "fc1.weight", "bytes_after": 66048}]}
 *     {"totals": {"bits_per_weight": 4.5}, "tensors": [{"name": "fc1.weight", "bytes_after": 35840}]}
 *
 *     totals.bits_per_weight            8.2    4.5
 *     tensors  fc1.weight  bytes_after  66048  35840
 *
 * The members of the document are in changes.inc.
 *
 * What is compared:
 *
 *     objects            by the names of their members
 *     lists of objects   by the names of their items, so that a tensor more does not shift all others
 *     everything else    as wholes; null and a missing member are equal */
#include <vcompress/page.h>

#include "report/document_rows.h"
#include "report/document_tree.h"

#define MOST_DEPTH 16 /* deeper values are compared as wholes */
#define MOST_PATH  256

/* The documents are compared twice: the changes of the documents themselves come before the changes of items. */
struct comparison {
    struct vc_json *json; /* where changes are written */
    const char *schema;   /* of both documents */
    bool items;           /* this walk writes changes of items; the other one those of the documents */
    size_t n;             /* changes that were written */
};

/* What is compared: the documents, or items of `list` with that name; the path of the member in them. */
struct place {
    const char *list, *name, *path;
    unsigned depth;
};

/* Of every run another one, or made by a page. A different time or another version of the program is no difference
 * between two results. */
static bool is_left_out(const struct comparison *c, const char *path)
{
    return vc_is_one_of(path, "run.seconds|run.threads|run.device|run.device_reason|run.expected_cpu_seconds|run."
                              "expected_card_seconds|run.peak_pool_bytes|run.peak_rss_bytes|tool|version|"
                              "schema|command") ||
           vc_is_page_member(c->schema, path);
}

static bool is_null(const json_t *value)
{
    return value == NULL || json_is_null(value);
}

/* 1 and 1.0 are equal, as numbers. */
static bool are_equal(const json_t *a, const json_t *b)
{
    return (is_null(a) && is_null(b)) || json_equal(a, b) ||
           (json_is_number(a) && json_is_number(b) && json_number_value(a) == json_number_value(b));
}

/* A list whose first item is an object. */
static bool holds_objects(const json_t *value)
{
    return json_is_array(value) && json_is_object(json_array_get(value, 0));
}

/* jansson gives no reason for NULL: it is memory. */
static void out_of_memory(struct vc_text *text)
{
    if (text->status == VC_OK) {
        text->status = vc_fail(text->ctx, VC_E_NOMEM, "not enough memory to compare documents");
    }
}

/* Any value as it is; null for none. */
static void write_value(struct vc_json *json, const char *key, const json_t *value)
{
    char *text = value == NULL ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

    if (value != NULL && text == NULL) {
        out_of_memory(json->text);
    }
    vc_json_value(json, key, text == NULL ? "null" : text);
    free(text);
}

static void write_changes(struct vc_json *json, struct comparison *c, json_t *a, json_t *b);

#include "report/rows_write.inc"

#include "report/changes.inc"

/* A change of the kind that this walk writes. */
static void add_change(struct comparison *c, const struct place *at, const json_t *a, const json_t *b)
{
    if (c->items == (at->list != NULL)) {
        rows_changed(c->json, NULL, FLAT, at, a, b);
        c->n++;
    }
}

static void compare(struct comparison *c, const struct place *at, json_t *a, json_t *b);

/* First the members of a, then those that only b has, each in the order of its document. */
static void compare_members(struct comparison *c, const struct place *at, json_t *a, json_t *b)
{
    char path[MOST_PATH];
    struct place inside = {at->list, at->name, path, at->depth + 1};
    const char *key;
    json_t *value;

    for (int side = 0; side < 2; side++) {
        json_object_foreach(side == 0 ? a : b, key, value)
        {
            (void)snprintf(path, sizeof path, "%s%s%s", at->path, at->path[0] == '\0' ? "" : ".", key);
            if (at->list == NULL && is_left_out(c, path)) {
                continue;
            }
            /* members that both have, and those that only a has; then those that only b has */
            if (side == 0) {
                compare(c, &inside, value, json_object_get(b, key));
            } else if (json_object_get(a, key) == NULL) {
                compare(c, &inside, NULL, value);
            }
        }
    }
}

/* What an item is called: its first member of these; without one its place, as a text in `room`. */
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

/* Items by their names; of several with one name only the first is compared. NULL: no memory. */
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

/* at: the place of the list. An item that only one document has is a change without a member: true against nothing. */
static void compare_lists(struct comparison *c, const struct place *at, const json_t *a, const json_t *b)
{
    json_t *items[2] = {index_of(a), index_of(b)};
    struct place inside = {at->path, NULL, "", at->depth + 1};
    json_t *item;

    if (items[0] == NULL || items[1] == NULL) {
        out_of_memory(c->json->text);
    }
    for (int side = 0; c->json->text->status == VC_OK && side < 2; side++) {
        json_object_foreach(items[side], inside.name, item)
        {
            json_t *other = json_object_get(items[1 - side], inside.name);

            if (other == NULL) {
                add_change(c, &inside, side == 0 ? json_true() : NULL, side == 0 ? NULL : json_true());
            } else if (side == 0) {
                compare(c, &inside, item, other);
            }
        }
    }
    json_decref(items[0]);
    json_decref(items[1]);
}

/* Members of items are compared as deep as members of documents; lists within items are compared as wholes. */
static void compare(struct comparison *c, const struct place *at, json_t *a, json_t *b)
{
    if (are_equal(a, b)) {
        return;
    }
    if (at->depth < MOST_DEPTH && json_is_object(a) && json_is_object(b)) {
        compare_members(c, at, a, b);
    } else if (at->list == NULL && holds_objects(a) && holds_objects(b)) {
        compare_lists(c, at, a, b);
    } else {
        add_change(c, at, a, b);
    }
}

static void write_changes(struct vc_json *json, struct comparison *c, json_t *a, json_t *b)
{
    const struct place top = {NULL, NULL, "", 0};

    c->json = json;
    vc_json_begin(json, "changes", '[', false);
    for (unsigned pass = 0; pass < 2; pass++) {
        c->items = pass == 1;
        compare(c, &top, a, b);
    }
    vc_json_end(json, ']');
}

enum vc_status vc_changes_json(struct vc_ctx *ctx, const char *path_a, const char *path_b, size_t *n, char **out)
{
    const char *const paths[2] = {path_a, path_b};
    struct comparison c = {.n = 0};
    struct vc_document_tree trees[2] = {{.root = NULL}, {.root = NULL}};
    json_t *a, *b;
    enum vc_status status;

    *out = NULL;
    *n = 0;
    vc_clear_error(ctx);
    VC_TRY(vc_document_read(ctx, path_a, &trees[0]));
    VC_TRY(vc_document_read(ctx, path_b, &trees[1]));
    a = trees[0].root;
    b = trees[1].root;
    if (!json_equal(json_object_get(a, "schema"), json_object_get(b, "schema"))) {
        status = vc_fail(ctx, VC_E_FORMAT, "%s has the schema %s, %s has %s: no two documents of one kind", path_a,
                         json_string_value(json_object_get(a, "schema")), path_b,
                         json_string_value(json_object_get(b, "schema")));
        goto out;
    }
    c.schema = json_string_value(json_object_get(a, "schema"));
    status = document_changes(ctx, out, &c, paths, a, b);
    *n = c.n;
out:
    vc_document_tree_free(ctx, &trees[1]);
    vc_document_tree_free(ctx, &trees[0]);
    return status;
}
