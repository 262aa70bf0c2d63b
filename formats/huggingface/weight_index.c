/* weight_index.c - see weight_index.h. Opens no files.
 *
 * The index of a large model has 100,000 entries and more, and nearly every writer makes it alike. So entries are first
 * read as plain text (json_plain.h), two strings at a time and without an allocation; only where the text looks
 * different does jansson read it. The map is read twice: once for the names of files, once, from the file in a window,
 * to check each tensor. */
#include "formats/huggingface/weight_index.h"

#include "core/base/array.h"
#include "core/base/findings.h"
#include "formats/json/json_plain.h"
#include "formats/json/json_walk.h"

#define WINDOW_BYTES ((size_t)1 << 20)  /* of the map that are in memory at a time */
#define AHEAD_BYTES  ((size_t)64 << 10) /* of the window are left when it moves on */

/* A name of a file in the folder, not a path that leads elsewhere. */
static bool is_plain_name(const char *name, size_t n)
{
    return n != 0 && memchr(name, '/', n) == NULL && !(n == 1 && name[0] == '.') &&
           !(n == 2 && memcmp(name, "..", 2) == 0);
}

/* ---- the entries of the map, one by one ---- */

/* An entry; strings are not terminated. */
struct entry {
    const char *tensor, *file; /* file NULL: it is no string */
    size_t n_tensor, n_file;
};

/* Whether the entry names a file; others are refused, or with findings noted and left out. */
static bool is_good(const struct entry *entry)
{
    return entry->file != NULL && is_plain_name(entry->file, entry->n_file);
}

/* What each_entry calls for every entry of the map; its strings live until the next entry. */
typedef enum vc_status entry_fn(struct vc_ctx *ctx, void *user, const struct entry *entry);

/* ,"model.embed.weight": "model-00001-of-00002.safetensors" Moves the walk behind the entry, if it looks so; else the
 * walk stays. */
static bool take_plain(struct json_walk *walk, struct entry *entry)
{
    struct vc_json_cursor c = {.text = walk->text, .n = walk->n, .at = walk->at};
    size_t end;

    if (!vc_json_take_member(&c, &entry->tensor, &entry->n_tensor) ||
        !vc_json_take_string(&c, &entry->file, &entry->n_file) || !vc_json_end_member(&c, &end)) {
        return false;
    }
    walk->at = end;
    return true;
}

/* The text of the map, or the part of it that is looked at.
 *
 *     {"a": "1", "b": "1", ... "x": "2", "y": "2", ... "z": "3"}
 *                            [ window              )                 begins with the byte before the next comma */
struct window {
    const struct vc_infile *file;
    uint64_t next, end; /* in the file: what follows the window; the end of the map */
    char *text;
    size_t capacity;
    struct json_walk walk;
};

/* Moves the window to what comes next, or makes it as large as asked for. `from` is the byte before the walk's place,
 * which the walk looks back at. A larger capacity copies what is left into new memory. */
static enum vc_status move_window(struct vc_ctx *ctx, struct window *w, size_t capacity)
{
    size_t from = w->walk.at != 0 ? w->walk.at - 1 : 0;
    size_t left = w->walk.n - from;
    size_t part = (size_t)vc_min_u64(capacity - left, w->end - w->next);
    char *text = w->text;

    if (capacity > w->capacity) {
        VC_CALL_ALLOC(text = vc_alloc(ctx, VC_TAG_NAMES, capacity));
    }
    if (left != 0) {
        memmove(text, w->text + from, left);
    }
    if (text != w->text) {
        vc_free(ctx, w->text);
        w->text = text;
        w->capacity = capacity;
    }
    VC_CALL(vc_infile_read(ctx, w->file, w->next, text + left, part));
    w->next += part;
    w->walk.text = text;
    w->walk.n = left + part;
    w->walk.at -= from;
    return VC_OK;
}

/* The next entry; *more false if there is none. An entry that is cut by the window's end cannot be plain: AHEAD_BYTES
 * hold any usual one. */
static enum vc_status next_entry(struct vc_ctx *ctx, struct window *w, struct entry *entry, bool *more)
{
    struct json_walk *walk = &w->walk;
    const char *name;
    json_t *value;

    if (w->next < w->end && walk->n - walk->at < AHEAD_BYTES) {
        VC_CALL(move_window(ctx, w, w->capacity));
    }
    *more = walk->at < walk->n;
    if (!*more || take_plain(walk, entry)) {
        return VC_OK;
    }
    if (w->next < w->end) { /* it looks different, or is very long: jansson wants to see where it ends */
        VC_CALL(move_window(ctx, w, walk->n + (size_t)(w->end - w->next)));
    }
    if (vc_json_walk_next(ctx, walk, &name, &value) != VC_OK) {
        VC_CALL(vc_context(ctx, ctx->status == VC_E_FORMAT ? "is no valid JSON" : "is an index"));
    }
    *more = name != NULL;
    if (*more) {
        *entry = (struct entry){.tensor = name,
                                .n_tensor = strlen(name),
                                .file = json_string_value(value),
                                .n_file = json_string_length(value)};
    }
    return VC_OK;
}

/* text: the map, where it is in memory; NULL: it is read from the file. text is not freed. */
static enum vc_status each_entry(struct vc_ctx *ctx, const struct weight_index *index, char *text, entry_fn *fn,
                                 void *user)
{
    struct window w = {.file = index->file, .next = index->map, .end = index->map + index->map_n};
    struct entry entry;
    enum vc_status status = VC_OK;
    bool more = true;

    vc_json_walk_begin(&w.walk, text, text != NULL ? index->map_n : 0);
    if (text != NULL) {
        w.next = w.end;
    } else {
        w.capacity = (size_t)vc_min_u64(WINDOW_BYTES, index->map_n);
        VC_TRY_ALLOC(w.text = vc_alloc(ctx, VC_TAG_NAMES, w.capacity));
    }
    for (;;) {
        VC_TRY(next_entry(ctx, &w, &entry, &more));
        if (!more) {
            break;
        }
        VC_TRY(fn(ctx, user, &entry));
    }
out:
    vc_json_walk_end(ctx, &w.walk);
    vc_free(ctx, w.text);
    return status;
}

/* ---- reading ---- */

/* The list that index->numbers finds numbers in. */
static struct vc_name_list files_of(const struct weight_index *index)
{
    return VC_NAME_LIST(index->files, sizeof *index->files);
}

/* The number of the entry's file; SIZE_MAX if the index does not name that file. Entries of one file follow each other mostly:
 * *last is that of the entry before. */
static size_t file_number(const struct weight_index *index, const struct entry *entry, size_t *last)
{
    const char *before = *last < index->n_files ? index->files[*last] : NULL;

    if (before == NULL || strncmp(before, entry->file, entry->n_file) != 0 || before[entry->n_file] != '\0') {
        *last = vc_name_table_find(&index->numbers, files_of(index), entry->file, entry->n_file);
    }
    return *last;
}

/* Adds the file if it is a new one. */
static enum vc_status add_file(struct vc_ctx *ctx, struct weight_index *index, const struct entry *entry)
{
    if (file_number(index, entry, &index->last) != SIZE_MAX) {
        return VC_OK;
    }
    VC_CALL(VC_ARENA_GROW(ctx, &index->arena, index->files, index->files_capacity, index->n_files + 1));
    VC_CALL(vc_name_table_grow(ctx, &index->numbers, files_of(index), index->n_files));
    VC_CALL_ALLOC(index->files[index->n_files] = vc_arena_copy(ctx, &index->arena, entry->file, entry->n_file));
    (void)vc_name_table_add(&index->numbers, files_of(index), index->n_files++);
    return VC_OK;
}

/* entry_fn of the first reading: adds the entry's file, or refuses an entry that names none. */
static enum vc_status read_entry(struct vc_ctx *ctx, void *user, const struct entry *entry)
{
    char tensor[200];

    if (is_good(entry)) {
        return add_file(ctx, user, entry);
    }
    (void)snprintf(tensor, sizeof tensor, "%.*s", (int)(entry->n_tensor < 199 ? entry->n_tensor : 199), entry->tensor);
    enum vc_status status =
        entry->file == NULL
            ? vc_fail(ctx, VC_E_FORMAT, "%s: its file in \"weight_map\" is no string", tensor)
            : vc_fail(ctx, VC_E_FORMAT, "%s: its file in \"weight_map\" is '%.*s', expected a name without folders",
                      tensor, (int)(entry->n_file < 200 ? entry->n_file : 200), entry->file);
    return vc_collect(ctx, status, "index", tensor);
}

/* Sorts the files, and numbers them anew. */
static enum vc_status sort_files(struct vc_ctx *ctx, struct weight_index *index)
{
    if (index->n_files > 1) {
        qsort(index->files, index->n_files, sizeof *index->files, vc_compare_texts);
    }
    VC_CALL(vc_name_table_make(ctx, index->n_files, &index->numbers));
    for (size_t i = 0; i < index->n_files; i++) {
        (void)vc_name_table_add(&index->numbers, files_of(index), i);
    }
    return VC_OK;
}

/* From the bracket that opens the map: reads entries as every writer makes them, and leaves the cursor behind the map.
 * *done false: something looks different. Files that were added before it stopped stay: each_entry finds them again. */
static enum vc_status take_entries(struct vc_ctx *ctx, struct weight_index *index, struct vc_json_cursor *c, bool *done)
{
    struct entry entry;
    bool more = true;

    *done = false;
    while (more) {
        VC_CALL(vc_check_cancelled(ctx));
        c->at++;
        vc_json_skip_space(c);
        if (!vc_json_take_string(c, &entry.tensor, &entry.n_tensor) || !vc_json_take(c, ':') ||
            !vc_json_take_string(c, &entry.file, &entry.n_file) || !is_good(&entry)) {
            return VC_OK;
        }
        VC_CALL(add_file(ctx, index, &entry));
        vc_json_skip_space(c);
        more = c->at < c->n && c->text[c->at] == ',';
    }
    if (c->at < c->n && c->text[c->at] == '}') {
        c->at++;
        *done = true;
    }
    return VC_OK;
}

/* The member behind walk->at is "weight_map", an object: notes where that lies and which files it names, and steps over
 * it. *taken false: it is something else. index->map counts from the walk's begin here; read_top adds what is in front
 * of it. */
static enum vc_status take_map(struct vc_ctx *ctx, struct json_walk *walk, struct weight_index *index, bool *taken)
{
    struct vc_json_cursor c = {.text = walk->text, .n = walk->n, .at = walk->at};
    const char *name;
    size_t n_name, end;

    *taken = false;

    if (!vc_json_take_member(&c, &name, &n_name) || n_name != 10 || memcmp(name, "weight_map", 10) != 0 ||
        c.at >= c.n || c.text[c.at] != '{') {
        return VC_OK;
    }
    index->map = c.at;
    VC_CALL(take_entries(ctx, index, &c, &index->listed));
    c.at = index->listed ? c.at : vc_json_object_end(c.text, c.n, index->map);
    index->map_n = c.at - index->map;
    if (!vc_json_end_member(&c, &end)) {
        index->map_n = 0;
        return VC_OK;
    }
    walk->at = end;
    *taken = true;
    return VC_OK;
}

/* Everything but the entries of the map, from the whole text. A second "weight_map" is refused, as jansson would refuse
 * two members of one name. */
static enum vc_status read_top(struct vc_ctx *ctx, struct weight_index *index, char *text, size_t n)
{
    static const char *const wanted[] = {NULL}; /* of everything else, numbers are all there is */
    struct json_walk walk;
    enum vc_status status = VC_OK;
    const char *name = "";
    size_t begin = 0;
    json_t *value;

    while (begin < n && strchr(" \t\r\n", text[begin]) != NULL) {
        begin++;
    }
    VC_REFUSE_IF(begin == n || text[begin] != '{', ctx, VC_E_FORMAT, "has no object \"weight_map\"");
    vc_json_walk_begin(&walk, text + begin, n - begin);
    walk.wanted = wanted;
    while (name != NULL) {
        bool map = false;

        if (index->map_n == 0) {
            VC_TRY(take_map(ctx, &walk, index, &map));
        }
        if (map) {
            name = walk.at < walk.n ? "" : NULL;
            index->map += begin;
            continue;
        }
        if (vc_json_walk_next(ctx, &walk, &name, &value) != VC_OK) {
            VC_TRY(vc_context(ctx, ctx->status == VC_E_FORMAT ? "is no valid JSON" : "is an index"));
        }
        if (name != NULL && strcmp(name, "weight_map") == 0) {
            VC_TRY(vc_fail(ctx, VC_E_FORMAT,
                           index->map_n != 0 ? "has two members \"weight_map\"" : "has no object \"weight_map\""));
        }
        if (name != NULL && strcmp(name, "metadata") == 0) {
            const json_t *total = json_object_get(value, "total_size");

            index->has_total = json_is_integer(total);
            index->total_size = json_integer_value(total);
        }
    }
    if (index->map_n == 0) {
        VC_TRY(vc_fail(ctx, VC_E_FORMAT, "has no object \"weight_map\""));
    }
out:
    vc_json_walk_end(ctx, &walk);
    return status;
}

/* The whole text is in memory for this one reading, and freed before the tensors are looked at. */
enum vc_status vc_weight_index_read(struct vc_ctx *ctx, const struct vc_infile *file, struct weight_index *out)
{
    VC_SCOPED char *text = NULL;

    *out = (struct weight_index){.file = file};
    VC_CALL(vc_infile_text(ctx, file, VC_INDEX_MAX_BYTES, &text));
    VC_CALL(read_top(ctx, out, text, (size_t)file->size_bytes));
    if (!out->listed) {
        VC_CALL(each_entry(ctx, out, text + out->map, read_entry, out));
    }
    return sort_files(ctx, out);
}

/* ---- checking ---- */

struct checking {
    const struct weight_index *index;
    const char *name; /* of the index */
    const bool *lost;
    struct vc_model *model;
    uint32_t *said;   /* by tensor: the number of its file and 1; 0: the index does not have it */
    size_t next;      /* the tensor behind that of the entry before: mostly the one that comes */
    size_t file;      /* of the entry before */
    size_t n_unknown; /* entries of tensors that are not there */
};

/* total_size against the tensors. Loaders do not look at it, so a wrong one becomes a note and is no reason to refuse.
 * */
static enum vc_status check_total(struct vc_ctx *ctx, const struct weight_index *index, const char *name,
                                  uint64_t bytes, struct vc_model *model)
{
    static const char sentence[] = "%s: its total_size is %lld, but the tensors have %" PRIu64 " bytes";

    if (!index->has_total || (uint64_t)index->total_size == bytes) {
        return VC_OK;
    }
    if (vc_collecting(ctx)) { /* tensors that are left out explain it */
        return ctx->findings->n_errors != 0
                   ? VC_OK
                   : vc_find(ctx, VC_SEVERITY_WARNING, "total-size", NULL, sentence, name, index->total_size, bytes);
    }
    return vc_model_add_fact(ctx, model, VC_FACT_NOTE, sentence, name, index->total_size, bytes);
}

/* The tensor that the entry names. */
static size_t tensor_of(struct checking *c, const struct entry *entry)
{
    const char *name = c->next < c->model->n_tensors ? c->model->tensors[c->next].name : NULL;

    if (name == NULL || strncmp(name, entry->tensor, entry->n_tensor) != 0 || name[entry->n_tensor] != '\0') {
        return vc_model_find_bytes(c->model, entry->tensor, entry->n_tensor);
    }
    return c->next;
}

/* Notes what the entry says of its tensor. */
static enum vc_status check_entry(struct vc_ctx *ctx, void *user, const struct entry *entry)
{
    struct checking *c = user;
    enum vc_status status;

    if (!is_good(entry)) {
        return VC_OK; /* told when it was read */
    }
    size_t tensor = tensor_of(c, entry);
    if (tensor == VC_NO_TENSOR) {
        c->n_unknown++;
        return VC_OK;
    }
    c->next = tensor + 1;
    if (c->said[tensor] != 0) {
        status = vc_fail(ctx, VC_E_FORMAT, "%s: %s has it twice", c->model->tensors[tensor].name, c->name);
        return vc_collect(ctx, status, "index", c->model->tensors[tensor].name);
    }
    c->said[tensor] = (uint32_t)file_number(c->index, entry, &c->file) + 1;
    return VC_OK;
}

/* A tensor that was found in a file has to be in the index, with that file. One that is in two files (only with
 * findings) has its entry with the first. */
static enum vc_status check_tensor(struct vc_ctx *ctx, const struct checking *c, size_t i)
{
    const char *tensor = c->model->tensors[i].name;
    unsigned shard = c->model->io[i].shard;
    uint32_t said = c->said[i] != 0 ? c->said[i] : c->said[vc_model_find(c->model, tensor)];
    enum vc_status status = VC_OK;

    if (said == shard + 1 || (said == 0 && vc_collecting(ctx) && vc_findings_has(ctx->findings, tensor))) {
        return VC_OK; /* it is right; or it has an entry that cannot be used */
    }
    if (said == 0) {
        status = vc_fail(ctx, VC_E_FORMAT, "%s: lies in %s, but %s does not have it", tensor, c->index->files[shard],
                         c->name);
    } else {
        status = vc_fail(ctx, VC_E_FORMAT, "%s: lies in %s, but %s has it in %s", tensor, c->index->files[shard],
                         c->name, c->index->files[said - 1]);
    }
    return vc_collect(ctx, status, "index", tensor);
}

/* Refuses an entry of a tensor that is not there, unless a finding about it, or about its file as a whole, explains
 * that already. */
static enum vc_status check_unknown(struct vc_ctx *ctx, void *user, const struct entry *entry)
{
    struct checking *c = user;
    size_t file = is_good(entry)
                      ? vc_name_table_find(&c->index->numbers, files_of(c->index), entry->file, entry->n_file)
                      : SIZE_MAX;
    VC_SCOPED char *tensor = NULL;

    if (file == SIZE_MAX || vc_model_find_bytes(c->model, entry->tensor, entry->n_tensor) != VC_NO_TENSOR) {
        return VC_OK;
    }
    VC_CALL_ALLOC(tensor = vc_alloc(ctx, VC_TAG_NAMES, entry->n_tensor + 1));
    memcpy(tensor, entry->tensor, entry->n_tensor);
    tensor[entry->n_tensor] = '\0';
    if (!vc_collecting(ctx) && c->lost[file]) {
        c->model->unseen[c->model->n_unseen++] =
            (struct vc_unseen){vc_arena_printf(ctx, &c->model->arena, "%s", tensor), c->index->files[file]};
        VC_CALL_ALLOC(c->model->unseen[c->model->n_unseen - 1].name);
    } else if (!vc_collecting(ctx) || !(vc_findings_has(ctx->findings, tensor) || c->lost[file])) {
        enum vc_status status = vc_fail(ctx, VC_E_FORMAT, "%s: %s has it in %s, which does not hold it", tensor,
                                        c->name, c->index->files[file]);

        return vc_collect(ctx, status, "index", tensor);
    }
    return VC_OK;
}

/* Three passes: entries name tensors, tensors have entries, and, only if some entry named no tensor, a pass for
 * those. */
enum vc_status vc_weight_index_check(struct vc_ctx *ctx, const struct weight_index *index, const char *name,
                                     const bool *lost, struct vc_model *model)
{
    struct checking c = {.index = index, .name = name, .lost = lost, .model = model};
    enum vc_status status = VC_OK;
    uint64_t bytes = 0;

    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, c.said, model->n_tensors));
    VC_TRY(each_entry(ctx, index, NULL, check_entry, &c));
    for (size_t i = 0; i < model->n_tensors; i++) {
        bytes += model->tensors[i].size_bytes;
        VC_TRY(vc_check_cancelled(ctx));
        VC_TRY(check_tensor(ctx, &c, i));
    }
    if (c.n_unknown != 0) {
        VC_TRY(VC_ARRAY(ctx, VC_TAG_NAMES, model->unseen, c.n_unknown));
        VC_TRY(each_entry(ctx, index, NULL, check_unknown, &c));
    }
    if (model->n_unseen != 0) { /* the first member is the name */
        qsort(model->unseen, model->n_unseen, sizeof *model->unseen, vc_compare_texts);
    } else {
        status = check_total(ctx, index, name, bytes, model);
    }
out:
    vc_free(ctx, c.said);
    return status;
}

void vc_weight_index_forget(struct vc_ctx *ctx, struct weight_index *index)
{
    vc_name_table_release(ctx, &index->numbers);
    index->file = NULL;
}

void vc_weight_index_release(struct vc_ctx *ctx, struct weight_index *index)
{
    vc_weight_index_forget(ctx, index);
    vc_arena_release(ctx, &index->arena);
    *index = (struct weight_index){.n_files = 0};
}

/* ---- writing ---- */

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct weight_index_entry *)a)->tensor, ((const struct weight_index_entry *)b)->tensor);
}

enum vc_status vc_weight_index_text(uint64_t total_size, size_t n, struct weight_index_entry *entries,
                                    struct vc_text *text)
{
    if (n > 1) {
        qsort(entries, n, sizeof *entries, compare_entries);
    }
    vc_text_add(text, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {", total_size);
    for (size_t i = 0; i < n; i++) {
        vc_text_add(text, "%s\n    ", i == 0 ? "" : ",");
        vc_text_add_json_string(text, entries[i].tensor);
        vc_text_add(text, ": ");
        vc_text_add_json_string(text, entries[i].file);
    }
    vc_text_add(text, "%s}\n}\n", n == 0 ? "" : "\n  ");
    return text->status;
}
