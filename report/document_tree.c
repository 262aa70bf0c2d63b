/* document_tree.c - documents as trees of jansson, see document_tree.h. jansson allocates by itself, so what a tree
 * takes is charged to the pool before.
 *
 *     {"tensors": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}     of at most one item:
 *     {"tensors": [{"name": "a"}, 2]}
 *
 * Texts are cut before jansson sees them: a report of a million tensors would take gigabytes as a tree, and its page
 * shows 2000 rows. The cutter only counts brackets and skips strings; what is no JSON is left for jansson to refuse. */
#include "report/document_tree.h"

#include <errno.h>

#include "core/text/json_write.h"

#define LEVELS 32 /* deeper lists stay as they are */

/* An open bracket. */
struct level {
    bool is_list;          /* the bracket is '[' */
    bool cut;              /* the last item was left out */
    size_t kept, left_out; /* objects of the list so far */
};

/* A document on its way through. */
struct cutter {
    struct vc_text out;
    const struct vc_document_cut *cut;
    struct level levels[LEVELS];
    size_t depth;
};

/* Behind the string that begins at p, with its escapes; at the end of the text if it is not closed. */
static const char *skip_string(const char *p)
{
    for (p++; *p != '\0' && *p != '"'; p++) {
        if (*p == '\\' && p[1] != '\0') {
            p++;
        }
    }
    return *p == '"' ? p + 1 : p;
}

/* Behind the object that begins at p, by counting brackets. A text that ends before that is skipped to its end. */
static const char *skip_object(const char *p)
{
    size_t depth = 0;

    while (*p != '\0') {
        char c = *p;

        p = c == '"' ? skip_string(p) : p + 1;
        if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            break;
        }
    }
    return p;
}

/* Whether an item of a list stays: lists have at most `most`, and with beyond_only no item that says "within": true. An
 * item that is no JSON stays, so that jansson tells what is wrong with it. */
static bool is_kept(const struct cutter *c, const struct level *list, const char *item, size_t n)
{
    bool full = list->kept >= c->cut->most;

    if (!full && !c->cut->beyond_only) {
        return true;
    }
    json_t *tree = json_loadb(item, n, JSON_DECODE_INT_AS_REAL, NULL);
    bool kept = tree == NULL || (!full && !json_is_true(json_object_get(tree, "within")));
    json_decref(tree);
    return kept;
}

/* An object begins at p, as an item of the list. Returns p if it stays, else the place behind it and its comma. */
static const char *step_over(struct cutter *c, struct level *list, const char *p)
{
    const char *end = skip_object(p);

    list->cut = !is_kept(c, list, p, (size_t)(end - p));
    list->kept += !list->cut;
    if (!list->cut) {
        return p;
    }
    list->left_out++;
    end += strspn(end, " \t\r\n");
    return *end == ',' ? end + 1 + strspn(end + 1, " \t\r\n") : end;
}

/* Levels beyond LEVELS are counted and not cut: level 0 has no list. */
static void open_bracket(struct cutter *c, char bracket)
{
    c->depth++;
    if (c->depth < LEVELS) {
        c->levels[c->depth] = (struct level){.is_list = bracket == '['};
    }
}

/* Closes a level, and writes how many items were left out as a last item: a number, behind a comma unless the comma of
 * the item before is still there. */
static void close_bracket(struct cutter *c)
{
    const struct level *level = &c->levels[c->depth < LEVELS ? c->depth : 0];

    if (level->left_out != 0) {
        vc_text_add(&c->out, "%s%zu", level->cut ? "" : ", ", level->left_out);
    }
    c->depth -= c->depth != 0;
}

/* Copies the text up to the next bracket or string, decides, goes on. Strings are copied as a whole, since they may
 * have brackets. */
static void copy_without(struct cutter *c, const char *p)
{
    while (*p != '\0') {
        struct level *level = &c->levels[c->depth < LEVELS ? c->depth : 0];
        const char *end = p + strcspn(p, "\"{}[]");

        vc_text_add_bytes(&c->out, p, (size_t)(end - p));
        p = end;
        if (*p == '{' && level->is_list) {
            p = step_over(c, level, p);
            if (level->cut) {
                continue;
            }
        }
        if (*p == '{' || *p == '[') {
            open_bracket(c, *p);
        } else if (*p == '}' || *p == ']') {
            close_bracket(c);
        }
        end = *p == '"' ? skip_string(p) : p + (*p != '\0');
        vc_text_add_bytes(&c->out, p, (size_t)(end - p));
        p = end;
    }
}

/* jansson's integers are signed 64 bits; a document with larger ones (a hash, a count without a sign) is read with
 * reals. */
static json_t *load(const char *text, json_error_t *error)
{
    json_t *root = json_loads(text, 0, error);

    if (root == NULL && json_error_code(error) == json_error_numeric_overflow) {
        root = json_loads(text, JSON_DECODE_INT_AS_REAL, error);
    }
    return root;
}

/* Puts into `out` what of the document becomes a tree, which is charged to the pool (*counted). Lists are halved until
 * the tree fits the memory, down to cut->least. */
static enum vc_status cut_to_fit(struct vc_ctx *ctx, const char *document, const struct vc_document_cut *cut,
                                 struct vc_text *out, uint64_t *counted)
{
    struct vc_document_cut now = *cut;

    for (;; now.most /= 2) {
        struct cutter c = {.cut = &now};
        enum vc_status status;

        vc_text_init(&c.out, ctx);
        vc_text_add_bytes(&c.out, "", 0);
        copy_without(&c, document);
        *out = c.out;
        VC_CALL(c.out.status);
        status = vc_json_charge(ctx, "a document", c.out.n, counted);
        if (status == VC_OK || now.most / 2 < cut->least) {
            return status;
        }
        vc_clear_error(ctx);
        vc_text_release(out);
    }
}

enum vc_status vc_document_tree(struct vc_ctx *ctx, const char *document, const struct vc_document_cut *cut,
                                struct vc_document_tree *tree)
{
    struct vc_text out;
    json_error_t error;

    *tree = (struct vc_document_tree){.root = NULL};
    enum vc_status status = cut_to_fit(ctx, document, cut, &out, &tree->counted);
    if (status == VC_OK) {
        tree->root = load(out.data, &error);
        if (tree->root == NULL) {
            status = json_error_code(&error) == json_error_out_of_memory
                         ? vc_fail(ctx, VC_E_NOMEM, "not enough memory to read a document")
                         : vc_fail(ctx, VC_E_FORMAT, "the document is no JSON: line %d: %s", error.line, error.text);
            vc_document_tree_free(ctx, tree);
        }
    }
    vc_text_release(&out);
    return status;
}

/* The last item of a list that was cut is a number; items of documents are objects. */
size_t vc_document_left_out(const json_t *list)
{
    const json_t *last = json_array_get(list, json_array_size(list) - 1);

    return json_is_number(last) ? (size_t)json_number_value(last) : 0;
}

void vc_document_tree_free(struct vc_ctx *ctx, struct vc_document_tree *tree)
{
    json_decref(tree->root);
    vc_uncharge(ctx, tree->counted);
    *tree = (struct vc_document_tree){.root = NULL};
}

/* The whole file, without cuts. Duplicate members are refused: two programs might read different values. */
static enum vc_status read_file(struct vc_ctx *ctx, const char *path, struct vc_document_tree *tree)
{
    json_error_t error;

    VC_CALL(vc_json_charge_file(ctx, path, &tree->counted));
    tree->root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (tree->root == NULL && json_error_code(&error) == json_error_numeric_overflow) {
        tree->root = json_load_file(path, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    }
    VC_REFUSE_IF(tree->root == NULL && json_error_code(&error) == json_error_cannot_open_file, ctx, VC_E_IO,
                 "%s: cannot open: %s", path, strerror(errno));
    VC_REFUSE_IF(tree->root == NULL, ctx, VC_E_FORMAT, "%s: %s", path, error.text);
    return VC_OK;
}

enum vc_status vc_document_read(struct vc_ctx *ctx, const char *path, struct vc_document_tree *tree)
{
    *tree = (struct vc_document_tree){.root = NULL};
    enum vc_status status = read_file(ctx, path, tree);
    const char *schema = json_string_value(json_object_get(tree->root, "schema"));
    if (status == VC_OK && (schema == NULL || strncmp(schema, "vcompress.", 10) != 0)) {
        status = vc_fail(ctx, VC_E_FORMAT, "%s: is no document of vcompress", path);
    } else if (status == VC_OK && json_object_get(tree->root, "error") != NULL) {
        status = vc_fail(ctx, VC_E_FORMAT, "%s: is the document of a failure", path);
    }
    if (status != VC_OK) {
        vc_document_tree_free(ctx, tree);
    }
    return status;
}
