/* json_walk.c - see json_walk.h.
 *
 *     { "a": ... , "b": ... , "c": ... }
 *     ^          ^          ^            a comma becomes the closing bracket of what is before it, jansson reads that,
 *                                        and then the opening bracket of what is behind it
 *
 * Where the commas are is found by counting brackets. That is right for valid text; and if every piece is a valid
 * object then so is the whole, wherever it was cut.
 *
 * A header may have a hundred thousand members; a tree of all of them would take some 15 times its text. So a tree is
 * made of one member at a time, and the pool is charged for it before. */
#include "formats/json/json_walk.h"

#include "formats/json/json_skip.h"

/* What jansson takes, from its structures, rounded up: per bracket (an object with its table, an array), per name, per
 * element; strings have their own bytes. */
#define VC_BRACKET_BYTES ((uint64_t)256)
#define VC_NAME_BYTES    ((uint64_t)96)
#define VC_ELEMENT_BYTES ((uint64_t)64)
#define VC_SMALL_TREE    ((uint64_t)64 << 10) /* not worth counting */
#define VC_LARGE_TREE    ((uint64_t)1 << 20)  /* of what is not wanted, none is made from here on */

/* What a tree of n bytes of text may take: names and numbers take some 15 times their text, empty objects 100 times. */
#define VC_FREE_TREE   ((uint64_t)16 << 20)
#define VC_TREE_A_BYTE ((uint64_t)24)

/* What counting brackets tells of one member. */
struct scan {
    size_t end; /* the comma, or n */
    uint64_t tree_bytes;
    size_t deep_at; /* the bracket that is one level too deep, where the scan ended; 0: none */
    bool minus_zero;
};

/* The '-' at `at` begins a "-0" that is an integer to jansson: its sign would be lost. */
static bool is_minus_zero(const char *text, size_t n, size_t at)
{
    return at + 2 < n && text[at + 1] == '0' && text[at + 2] != '.' && text[at + 2] != 'e' && text[at + 2] != 'E';
}

/* From the bracket or comma at `at` to the comma behind the member. tree_bytes is an upper estimate; twice the text
 * stands for strings and their copies. */
static struct scan find_end(const char *text, size_t n, size_t at)
{
    struct scan scan = {.end = n, .tree_bytes = VC_BRACKET_BYTES};
    size_t start = at;
    size_t depth = 1;

    for (at++; at < n;) {
        char c = text[at];

        if (c == '"') {
            at = vc_json_skip_string(text, n, at);
            continue;
        }
        if (c == ',' && depth == 1) {
            scan.end = at;
            break;
        }
        if (c == '{' || c == '[') {
            if (++depth > VC_JSON_LEVELS) {
                scan.deep_at = at;
                break;
            }
            scan.tree_bytes += VC_BRACKET_BYTES;
        } else if (c == '}' || c == ']') {
            depth--;
        } else if (c == ',') {
            scan.tree_bytes += VC_ELEMENT_BYTES;
        } else if (c == ':') {
            scan.tree_bytes += VC_NAME_BYTES;
        } else if (c == '-' && is_minus_zero(text, n, at)) {
            scan.minus_zero = true;
        }
        at++;
    }
    scan.tree_bytes += 2 * (uint64_t)(scan.end - start);
    return scan;
}

/* Behind the bracket that closes the one at `at`; n: none does. The kinds of brackets are not compared: jansson does
 * that. */
size_t vc_json_object_end(const char *text, size_t n, size_t at)
{
    size_t depth = 0;

    while (at < n) {
        char c = text[at];

        if (c == '"') {
            at = vc_json_skip_string(text, n, at);
            continue;
        }
        at++;
        if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return at;
        }
    }
    return n;
}

void vc_json_walk_begin(struct json_walk *walk, char *text, size_t n)
{
    *walk = (struct json_walk){.text = text, .n = n};
}

/* The object that begins at `begin` of a longer text. */
void vc_json_walk_inside(struct json_walk *walk, char *text, size_t begin, size_t n)
{
    *walk = (struct json_walk){.text = text, .n = n, .begin = begin, .at = begin};
}

/* Steps over the member of that name, if it is the next one, and an object: *begin..*end is its text. False: the walk
 * stays. */
bool vc_json_walk_over(struct json_walk *walk, const char *name, size_t *begin, size_t *end)
{
    const char *text = walk->text;
    size_t n = walk->n;
    size_t n_name = strlen(name);
    size_t at = walk->at;

    if (at >= n || text[at] != (at == walk->begin ? '{' : ',')) {
        return false;
    }
    at = vc_json_skip_space(text, n, at + 1);
    if (n_name + 2 > n - at || text[at] != '"' || memcmp(text + at + 1, name, n_name) != 0 ||
        text[at + 1 + n_name] != '"') {
        return false;
    }
    at = vc_json_skip_space(text, n, at + n_name + 2);
    if (at == n || text[at] != ':') {
        return false;
    }
    *begin = vc_json_skip_space(text, n, at + 1);
    if (*begin == n || text[*begin] != '{') {
        return false;
    }
    *end = vc_json_object_end(text, n, *begin);
    at = vc_json_skip_space(text, n, *end);
    if (at == n || (text[at] != ',' && (text[at] != '}' || vc_json_skip_space(text, n, at + 1) != n))) {
        return false;
    }
    walk->at = text[at] == ',' ? at : n;
    return true;
}

void vc_json_tree_free(struct vc_ctx *ctx, json_t *root, uint64_t counted)
{
    json_decref(root);
    vc_pool_account(ctx->shared->pool, VC_TAG_NAMES, -(int64_t)counted);
}

/* Frees the tree of the last step. */
static void drop_member(struct vc_ctx *ctx, struct json_walk *walk)
{
    vc_json_tree_free(ctx, walk->member, walk->counted);
    walk->member = NULL;
    walk->counted = 0;
}

/* A text of more levels than anybody writes, which jansson would refuse after it has made most of the tree. jansson's
 * own limit is deeper. */
static enum vc_status refuse_levels(struct vc_ctx *ctx, const struct scan *scan)
{
    return scan->deep_at == 0 ? VC_OK
                              : vc_fail(ctx, VC_E_FORMAT, "byte %zu: nested too deep, more than %zu levels",
                                        scan->deep_at, VC_JSON_LEVELS);
}

/* jansson allocates by itself, so the size is estimated before. Two refusals: a text made of brackets, whose tree would
 * be out of proportion, and a tree that the memory limit has no room for. */
enum vc_status vc_json_tree_count(struct vc_ctx *ctx, size_t at, size_t n, uint64_t bytes, uint64_t *counted)
{
    uint64_t used = vc_pool_in_use(ctx->shared->pool);

    if (bytes <= VC_SMALL_TREE) {
        return VC_OK;
    }
    VC_REFUSE_IF(bytes > VC_FREE_TREE + VC_TREE_A_BYTE * n, ctx, VC_E_FORMAT,
                 "byte %zu: %zu bytes of little but brackets and commas, which would take about %" PRIu64
                 " bytes of memory",
                 at, n, bytes);
    uint64_t limit = vc_ctx_max_memory(ctx);
    VC_REFUSE_IF(bytes > limit - vc_min_u64(used, limit), ctx, VC_E_NOMEM,
                 "byte %zu: reading this takes about %" PRIu64 " bytes of memory, %s allows %" PRIu64, at, bytes,
                 vc_option(ctx, "max_memory"), limit);
    vc_pool_account(ctx->shared->pool, VC_TAG_NAMES, (int64_t)bytes);
    *counted = bytes;
    return VC_OK;
}

/* jansson's complaint, with the byte in the whole text. */
static enum vc_status refuse(struct vc_ctx *ctx, size_t at, const json_error_t *error)
{
    VC_REFUSE_IF(json_error_code(error) == json_error_out_of_memory, ctx, VC_E_NOMEM,
                 "byte %zu: cannot allocate memory for what is here", at);
    return vc_fail(ctx, VC_E_FORMAT, "byte %zu: %s", at + (size_t)error->position, error->text);
}

/* Bytes that the tree of the whole text would take; refuses one of too many levels. */
static enum vc_status measure(struct vc_ctx *ctx, const char *text, size_t n, uint64_t *bytes)
{
    size_t at = 0;

    *bytes = 0;
    while (at < n) {
        struct scan scan = find_end(text, n, at);

        VC_CALL(refuse_levels(ctx, &scan));
        *bytes += scan.tree_bytes;
        at = scan.end;
    }
    return VC_OK;
}

/* Only where the tree would be large. */
enum vc_status vc_json_tree_trim(struct vc_ctx *ctx, char *text, size_t n, const char *const *wanted)
{
    size_t start = vc_json_skip_space(text, n, 0);
    uint64_t bytes;

    VC_CALL(measure(ctx, text, n, &bytes));
    if (bytes > VC_LARGE_TREE && start < n && text[start] == '{') {
        vc_json_trim(text + start, n - start, wanted);
    }
    return VC_OK;
}

enum vc_status vc_json_tree_charge(struct vc_ctx *ctx, const char *text, size_t n, uint64_t *counted)
{
    uint64_t bytes;

    *counted = 0;
    VC_CALL(measure(ctx, text, n, &bytes));
    return vc_json_tree_count(ctx, 0, n, bytes, counted);
}

/* A text that jansson takes in pieces, between which a wish to cancel is granted. */
struct pieces {
    struct vc_ctx *ctx;
    const char *text; /* what is left of it */
    size_t n;
    enum vc_status status;
};

/* json_load_callback's reader: (size_t)-1 ends it. */
static size_t next_piece(void *buffer, size_t room, void *user)
{
    struct pieces *pieces = user;
    size_t n = pieces->n < room ? pieces->n : room;

    pieces->status = vc_check_cancelled(pieces->ctx);
    if (pieces->status != VC_OK) {
        return (size_t)-1;
    }
    memcpy(buffer, pieces->text, n);
    pieces->text += n;
    pieces->n -= n;
    return n;
}

/* The tree of text[0..n], which lies at `start` of what sentences count from. */
static enum vc_status make_tree(struct vc_ctx *ctx, const char *text, size_t n, size_t start, json_t **root)
{
    struct pieces pieces = {ctx, text, n, VC_OK};
    json_error_t error;

    *root = json_load_callback(next_piece, &pieces, JSON_REJECT_DUPLICATES, &error);
    return *root != NULL ? VC_OK : pieces.status != VC_OK ? pieces.status : refuse(ctx, start, &error);
}

/* Charges the pool for the whole tree before jansson makes it. */
enum vc_status vc_json_tree_load(struct vc_ctx *ctx, const char *text, size_t n, json_t **root, uint64_t *counted)
{
    *root = NULL;
    VC_CALL(vc_json_tree_charge(ctx, text, n, counted));
    enum vc_status status = make_tree(ctx, text, n, 0, root);
    if (*root == NULL) {
        vc_json_tree_free(ctx, NULL, *counted);
        *counted = 0;
    }
    return status;
}

/* text[at..end] as an object: its two ends become braces while jansson looks at it. The two bytes are put back, also
 * after a failure, so the text stays what it was. */
static enum vc_status parse(struct vc_ctx *ctx, struct json_walk *walk, size_t end)
{
    char before = walk->text[walk->at];
    size_t n = end < walk->n ? end - walk->at + 1 : walk->n - walk->at;

    walk->text[walk->at] = '{';
    if (end < walk->n) {
        walk->text[end] = '}';
    }
    enum vc_status status = make_tree(ctx, walk->text + walk->at, n, walk->at, &walk->member);
    walk->text[walk->at] = before;
    if (end < walk->n) {
        walk->text[end] = ',';
    }
    return status;
}

/* Each step frees the tree of the one before it. An empty object is one step without a member; anywhere else a member
 * has to be there. */
enum vc_status vc_json_walk_next(struct vc_ctx *ctx, struct json_walk *walk, const char **name, json_t **value)
{
    size_t start = walk->at;
    void *member;

    *name = NULL;
    *value = NULL;
    drop_member(ctx, walk);
    VC_REFUSE_IF(start == walk->begin && (start >= walk->n || walk->text[start] != '{'), ctx, VC_E_FORMAT,
                 "byte %zu: '{' expected", start);
    if (start >= walk->n) {
        return VC_OK;
    }
    struct scan scan = find_end(walk->text, walk->n, start);
    VC_CALL(refuse_levels(ctx, &scan));
    walk->minus_zero = walk->minus_zero || scan.minus_zero;
    if (walk->wanted != NULL && scan.tree_bytes > VC_LARGE_TREE) {
        vc_json_trim(walk->text + start, scan.end - start, walk->wanted);
        scan = find_end(walk->text, walk->n, start);
    }
    VC_CALL(vc_json_tree_count(ctx, start, scan.end - start, scan.tree_bytes, &walk->counted));
    VC_CALL(parse(ctx, walk, scan.end));
    walk->at = scan.end;
    member = json_object_iter(walk->member);
    VC_REFUSE_IF(member == NULL && (start != walk->begin || scan.end < walk->n), ctx, VC_E_FORMAT,
                 "byte %zu: a member expected behind this comma", start != walk->begin ? start : scan.end);
    if (member != NULL) {
        *name = json_object_iter_key(member);
        *value = json_object_iter_value(member);
    }
    return VC_OK;
}

void vc_json_walk_end(struct vc_ctx *ctx, struct json_walk *walk)
{
    drop_member(ctx, walk);
}

bool vc_json_says(const json_t *object, const char *key, const char *text)
{
    const char *found = json_string_value(json_object_get(object, key));

    return found != NULL && strcmp(found, text) == 0;
}

uint64_t vc_json_count(const json_t *value)
{
    json_int_t n = json_integer_value(value);

    return n > 0 ? (uint64_t)n : 0;
}
