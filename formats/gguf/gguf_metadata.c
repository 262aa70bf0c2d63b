/* gguf_metadata.c - the head of a GGUF file with its key-value pairs, and the cursor that reads them.
 *
 *     u64 12 | "general.name" | u32 8 (string) | u64 5 | "llama"
 *     u64 17 | "general.alignment" | u32 4 (u32) | u32 32
 *     u64 21 | "tokenizer.ggml.tokens" | u32 9 (array) | u32 8 (of strings) | u64 32000 | u64 5 | "<unk>" | ...
 *
 * Every pair is checked (kinds, lengths against the file, keys that occur twice), few are understood, none is held in
 * memory: a vocabulary has megabytes. A writer copies the pairs from the file. */
#include "formats/gguf/gguf.h"

#include <strings.h>

#include "core/base/findings.h"
#include "core/text/text.h"

#define CURSOR_BYTES ((size_t)64 << 10)
#define FACT_BYTES   200 /* of a string that is shown */

/* ---- the cursor ---- */

enum vc_status vc_gguf_cursor_init(struct vc_ctx *ctx, const struct vc_infile *file, struct gguf_cursor *cursor)
{
    *cursor = (struct gguf_cursor){.ctx = ctx, .file = file};
    cursor->buffer = vc_alloc(ctx, VC_TAG_IO, CURSOR_BYTES);
    return cursor->buffer == NULL ? VC_E_NOMEM : VC_OK;
}

void vc_gguf_cursor_release(struct gguf_cursor *cursor)
{
    vc_free(cursor->ctx, vc_give(&cursor->buffer));
}

const char *vc_gguf_where(struct gguf_cursor *cursor)
{
    if (cursor->entry != 0 && cursor->tensor != NULL) {
        (void)snprintf(cursor->where, sizeof cursor->where, "the entry of tensor '%s'", cursor->tensor);
    } else if (cursor->entry != 0) {
        (void)snprintf(cursor->where, sizeof cursor->where, "tensor entry %" PRIu64 " of %" PRIu64, cursor->entry,
                       cursor->n_entries);
    }
    return cursor->where;
}

/* The file has n bytes more from the cursor on. The cursor never passes the end of the file, so the difference cannot
 * wrap. */
static enum vc_status need(struct gguf_cursor *cursor, uint64_t n)
{
    uint64_t left = cursor->file->size_bytes - cursor->at;

    cursor->cut = n > left;
    return n <= left ? VC_OK
                     : vc_fail(cursor->ctx, VC_E_FORMAT,
                               "ends inside %s: that needs %" PRIu64 " bytes more, the file has %" PRIu64,
                               vc_gguf_where(cursor), n, left);
}

/* The next piece of the file into the buffer. */
static enum vc_status refill(struct gguf_cursor *cursor)
{
    cursor->start = cursor->at;
    cursor->n = (size_t)vc_min_u64(CURSOR_BYTES, cursor->file->size_bytes - cursor->at);
    return vc_infile_read(cursor->ctx, cursor->file, cursor->start, cursor->buffer, cursor->n);
}

/* From the buffer, which is filled again where it ends. Large strings pass through it as well. */
enum vc_status vc_gguf_take(struct gguf_cursor *cursor, void *dst, size_t n)
{
    unsigned char *to = dst;
    enum vc_status status = need(cursor, n);

    while (status == VC_OK && n != 0) {
        uint64_t into = cursor->at - cursor->start;

        if (into >= cursor->n) {
            status = refill(cursor);
        } else {
            size_t part = (size_t)vc_min_u64(n, cursor->n - into);

            memcpy(to, cursor->buffer + into, part);
            to += part;
            n -= part;
            cursor->at += part;
        }
    }
    return status;
}

enum vc_status vc_gguf_take_u32(struct gguf_cursor *cursor, uint32_t *v)
{
    unsigned char bytes[4] = {0};
    enum vc_status status = vc_gguf_take(cursor, bytes, sizeof bytes);

    *v = vc_le32(bytes);
    return status;
}

enum vc_status vc_gguf_take_u64(struct gguf_cursor *cursor, uint64_t *v)
{
    unsigned char bytes[8] = {0};
    enum vc_status status = vc_gguf_take(cursor, bytes, sizeof bytes);

    *v = vc_le64(bytes);
    return status;
}

/* Moves on without reading: the file is read by range, so skipped bytes cost nothing. */
enum vc_status vc_gguf_skip(struct gguf_cursor *cursor, uint64_t n)
{
    enum vc_status status = need(cursor, n);

    cursor->at += status == VC_OK ? n : 0;
    return status;
}

/* ---- one pair ---- */

/* A pair while it is looked at. */
struct pair {
    const char *key;
    uint32_t kind;
    uint64_t value;        /* of unsigned scalars */
    char text[FACT_BYTES]; /* the beginning of a string */
    struct gguf_place place;
};

/* Keys seen so far, one after the other with their NULs, so that those that occur twice can be found at the end. */
struct keys {
    struct vc_text text;
    size_t *starts;
    size_t n;
};

/* Reads a string and keeps its beginning: up to capacity - 1 bytes go to `start`; capacity 0: it is only skipped. */
static enum vc_status take_string(struct gguf_cursor *cursor, char *start, size_t capacity)
{
    uint64_t n = 0;

    VC_CALL(vc_gguf_take_u64(cursor, &n));
    VC_CALL(need(cursor, n));
    size_t part = (size_t)vc_min_u64(n, capacity == 0 ? 0 : capacity - 1);
    VC_CALL(vc_gguf_take(cursor, start, part));
    if (capacity != 0) {
        start[part] = '\0';
    }
    return vc_gguf_skip(cursor, n - part);
}

/* Checks and skips an array. Strings have to be walked one by one, since each has its own length; before that, the
 * count is held against the file, so that a wrong one cannot keep this busy. */
static enum vc_status take_array(struct gguf_cursor *cursor)
{
    uint32_t kind = 0;
    uint64_t count = 0;
    uint64_t n_bytes = 0;

    VC_CALL(vc_gguf_take_u32(cursor, &kind));
    VC_CALL(vc_gguf_take_u64(cursor, &count));
    VC_REFUSE_IF(kind == GGUF_ARRAY, cursor->ctx, VC_E_UNSUPPORTED, "%s: is an array of arrays, which no loader reads",
                 cursor->where);
    if (kind == GGUF_STRING) {
        VC_CALL(need(cursor, count > UINT64_MAX / 8 ? UINT64_MAX : count * 8)); /* before walking them */
        for (uint64_t i = 0; i < count; i++) {
            VC_CALL(take_string(cursor, NULL, 0));
        }
        return VC_OK;
    }
    VC_REFUSE_IF(vc_gguf_kind_bytes(kind) == 0, cursor->ctx, VC_E_FORMAT,
                 "%s: is an array of kind %" PRIu32 ", which does not exist", cursor->where, kind);
    return vc_gguf_skip(cursor, vc_mul_u64(count, vc_gguf_kind_bytes(kind), &n_bytes) ? n_bytes : UINT64_MAX);
}

/* A value of any kind. Numbers are kept in pair->value as 64 bits, strings in pair->text; arrays are skipped. */
static enum vc_status take_value(struct gguf_cursor *cursor, struct pair *pair)
{
    unsigned char bytes[8] = {0};

    if (pair->kind == GGUF_STRING) {
        return take_string(cursor, pair->text, sizeof pair->text);
    }
    if (pair->kind == GGUF_ARRAY) {
        return take_array(cursor);
    }
    VC_REFUSE_IF(vc_gguf_kind_bytes(pair->kind) == 0, cursor->ctx, VC_E_FORMAT,
                 "%s: is of kind %" PRIu32 ", which does not exist", cursor->where, pair->kind);
    VC_CALL(vc_gguf_take(cursor, bytes, vc_gguf_kind_bytes(pair->kind)));
    pair->value = vc_le64(bytes);
    return VC_OK;
}

/* Reads a key and adds it to the list of those seen. pair->key points into that list until the next key is added. */
static enum vc_status take_key(struct gguf_cursor *cursor, struct keys *keys, struct pair *pair)
{
    size_t at = keys->text.n;
    VC_SCOPED char *key = NULL;
    uint64_t n = 0;

    VC_CALL(vc_gguf_take_u64(cursor, &n));
    VC_REFUSE_IF(n == 0 || n > VC_GGUF_MAX_KEY, cursor->ctx, VC_E_FORMAT,
                 "%s: its key has %" PRIu64 " bytes; 1 to %d are allowed", cursor->where, n, VC_GGUF_MAX_KEY);
    VC_CALL(need(cursor, n));
    VC_CALL_ALLOC(key = vc_alloc(cursor->ctx, VC_TAG_IO, (size_t)n + 1));
    VC_CALL(vc_gguf_take(cursor, key, (size_t)n));
    key[n] = '\0';
    if (!vc_utf8_valid(key, (size_t)n)) {
        pair->key = "";
        return vc_collect(cursor->ctx, vc_fail(cursor->ctx, VC_E_FORMAT, "%s: its key is no UTF-8", cursor->where),
                          "metadata", NULL);
    }
    vc_text_add_bytes(&keys->text, key, (size_t)n + 1);
    VC_CALL(keys->text.status);
    keys->starts[keys->n++] = at;
    pair->key = keys->text.data + at; /* until the next key */
    (void)snprintf(cursor->where, sizeof cursor->where, "metadata key '%s'", pair->key);
    return VC_OK;
}

/* ---- what is understood ---- */

const char *const vc_gguf_known_keys[GGUF_KNOWN_COUNT] = {[GGUF_FILE_TYPE] = "general.file_type",
                                                          [GGUF_QUANTIZER] = "general.quantization_version",
                                                          [GGUF_SPLIT_NO] = "split.no",
                                                          [GGUF_SPLIT_COUNT] = "split.count",
                                                          [GGUF_SPLIT_TENSORS] = "split.tensors.count"};

/* True for a number of a kind that has only whole numbers from 0 on, or a signed one that is not negative. */
static bool is_whole(const struct pair *pair)
{
    switch (pair->kind) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
        return true;
    case GGUF_I32:
        return pair->value <= INT32_MAX;
    default:
        return false;
    }
}

/* general.alignment: a power of two, as u32. Loaders compute the place of the data with it, so nothing else will do. */
static enum vc_status note_alignment(const struct gguf_cursor *cursor, const struct pair *pair,
                                     struct gguf_metadata *metadata)
{
    VC_REFUSE_IF(pair->kind != GGUF_U32, cursor->ctx, VC_E_FORMAT, "%s: is of kind %" PRIu32 ", expected %d (u32)",
                 cursor->where, pair->kind, GGUF_U32);
    VC_REFUSE_IF(pair->value == 0 || (pair->value & (pair->value - 1)) != 0, cursor->ctx, VC_E_FORMAT,
                 "%s: is %" PRIu64 ", expected a power of two", cursor->where, pair->value);
    metadata->alignment = (uint32_t)pair->value;
    return VC_OK;
}

/* Looks whether the pair is one of the few that mean something here: the alignment, the known pairs (their place is
 * kept for the writer), and what `inspect` shows. */
static enum vc_status note(const struct gguf_cursor *cursor, const struct pair *pair, struct vc_model *model,
                           struct gguf_metadata *metadata)
{
    static const struct {
        const char *key, *fact;
    } shown[] = {{VC_GGUF_KEY_ARCHITECTURE, "architecture"}, {"general.name", "name"}};

    if (strcmp(pair->key, VC_GGUF_KEY_ALIGNMENT) == 0) {
        return vc_collect(cursor->ctx, note_alignment(cursor, pair, metadata), "metadata", NULL);
    }
    for (size_t i = 0; i < GGUF_KNOWN_COUNT; i++) {
        if (strcmp(pair->key, vc_gguf_known_keys[i]) == 0) {
            metadata->known[i] = pair->place;
            metadata->values[i] = is_whole(pair) ? pair->value : 0;
        }
    }
    metadata->has_shapes =
        metadata->has_shapes || strncmp(pair->key, VC_GGUF_KEY_SHAPE, strlen(VC_GGUF_KEY_SHAPE)) == 0;
    if (model == NULL) {
        return VC_OK;
    }
    if (strcmp(pair->key, vc_gguf_known_keys[GGUF_FILE_TYPE]) == 0) {
        const char *name = is_whole(pair) ? vc_gguf_file_type_name(pair->value) : NULL;

        return name != NULL ? vc_model_add_fact(cursor->ctx, model, "file type", "mostly %s", name) : VC_OK;
    }
    for (size_t i = 0; pair->kind == GGUF_STRING && i < sizeof shown / sizeof shown[0]; i++) {
        if (strcmp(pair->key, shown[i].key) == 0 && pair->text[0] != '\0') {
            return vc_model_add_fact(cursor->ctx, model, shown[i].fact, "%s", pair->text);
        }
    }
    return VC_OK;
}

/* ---- all pairs ---- */

/* Two pairs of one key would be read differently by different loaders. Sorted, the same keys are neighbours. */
static enum vc_status check_unique(struct vc_ctx *ctx, const struct keys *keys)
{
    VC_SCOPED const char **sorted = vc_alloc_array(ctx, VC_TAG_IO, keys->n, sizeof(const char *));

    VC_CALL_ALLOC(sorted);
    for (size_t i = 0; i < keys->n; i++) {
        sorted[i] = keys->text.data + keys->starts[i];
    }
    if (keys->n > 1) {
        qsort(sorted, keys->n, sizeof *sorted, vc_compare_texts);
    }
    for (size_t i = 1; i < keys->n; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0) {
            VC_CALL(vc_collect(ctx, vc_fail(ctx, VC_E_FORMAT, "metadata key '%s' occurs twice", sorted[i]), "metadata",
                               NULL));
        }
    }
    return VC_OK;
}

/* Pair by pair; every sentence names the pair or its key. */
static enum vc_status read_pairs(struct gguf_cursor *cursor, struct vc_model *model, uint64_t n_pairs,
                                 struct gguf_metadata *metadata)
{
    struct keys keys = {.n = 0};
    struct pair pair;
    enum vc_status status = VC_OK;

    *metadata = (struct gguf_metadata){.begin = cursor->at, .n_pairs = n_pairs, .alignment = VC_GGUF_ALIGN};
    vc_text_init(&keys.text, cursor->ctx);
    VC_REFUSE_IF(n_pairs > VC_GGUF_MAX_PAIRS, cursor->ctx, VC_E_UNSUPPORTED,
                 "announces %" PRIu64 " pairs of metadata; %" PRIu64 " are allowed", n_pairs, VC_GGUF_MAX_PAIRS);
    VC_TRY(VC_ARRAY(cursor->ctx, VC_TAG_IO, keys.starts, (size_t)n_pairs));
    for (uint64_t i = 0; i < n_pairs; i++) {
        pair = (struct pair){.place.begin = cursor->at};
        (void)snprintf(cursor->where, sizeof cursor->where, "metadata pair %" PRIu64 " of %" PRIu64, i + 1, n_pairs);
        VC_TRY(take_key(cursor, &keys, &pair));
        VC_TRY(vc_gguf_take_u32(cursor, &pair.kind));
        VC_TRY(take_value(cursor, &pair));
        pair.place.end = cursor->at;
        VC_TRY(note(cursor, &pair, model, metadata));
    }
    metadata->end = cursor->at;
    VC_TRY(check_unique(cursor->ctx, &keys));
    if (model != NULL) {
        model->left_behind = n_pairs != 0 ? "the metadata of the GGUF file is not carried over" : NULL;
        status =
            vc_model_add_fact(cursor->ctx, model, "metadata", "%" PRIu64 " pair%s", n_pairs, n_pairs == 1 ? "" : "s");
    }
out:
    vc_text_release(&keys.text);
    vc_free(cursor->ctx, keys.starts);
    return status;
}

/* ---- shapes of tensors that were folded ---- */

#define MAX_FOLDED_DIMS 8

/* The array behind a key, i32 [n], as the shape of the tensor; nothing where it is no such array, or fits no tensor. */
static enum vc_status restore(struct gguf_cursor *cursor, uint64_t value, const char *name, struct vc_arena *arena,
                              struct vc_model *model)
{
    size_t index = vc_model_find(model, name);
    unsigned char bytes[12 + 4 * MAX_FOLDED_DIMS];
    uint64_t n_elems = 1;

    if (index == VC_NO_TENSOR || cursor->file->size_bytes - value < 12) {
        return VC_OK;
    }
    VC_CALL(vc_infile_read(cursor->ctx, cursor->file, value, bytes, 12));
    uint64_t n = vc_le64(bytes + 4);
    if (vc_le32(bytes) != GGUF_I32 || n == 0 || n > MAX_FOLDED_DIMS || cursor->file->size_bytes - value - 12 < 4 * n) {
        return VC_OK;
    }
    VC_CALL(vc_infile_read(cursor->ctx, cursor->file, value + 12, bytes + 12, (size_t)(4 * n)));
    struct vc_unfolded *whole = vc_arena_alloc(cursor->ctx, arena, sizeof *whole + (size_t)n * sizeof *whole->shape);
    VC_CALL_ALLOC(whole);
    whole->n_dims = (unsigned)n;
    struct vc_tensor *t = &model->tensors[index];
    for (uint64_t d = 0; d < n; d++) {
        whole->shape[d] = vc_le32(bytes + 12 + 4 * d);
        if (whole->shape[d] > INT32_MAX || !vc_mul_u64(n_elems, whole->shape[d], &n_elems)) {
            return VC_OK;
        }
    }
    if (n_elems != t->n_elems) {
        return VC_OK;
    }
    if (vc_dtype_is_float(t->dtype)) {
        t->n_dims = whole->n_dims;
        t->shape = whole->shape;
        return VC_OK;
    }
    if (model->unfolded == NULL) {
        size_t n_bytes = model->n_tensors * sizeof *model->unfolded;

        VC_CALL_ALLOC(model->unfolded = vc_arena_alloc(cursor->ctx, arena, n_bytes));
        memset(model->unfolded, 0, n_bytes);
    }
    model->unfolded[index] = whole;
    return VC_OK;
}

enum vc_status vc_gguf_restore_shapes(struct vc_ctx *ctx, const struct gguf_shard *shard, struct vc_arena *arena,
                                      struct vc_model *model)
{
    const size_t n = strlen(VC_GGUF_KEY_SHAPE);
    struct gguf_cursor cursor = {.ctx = ctx};
    struct keys keys = {.n = 0};
    enum vc_status status = VC_OK;

    vc_text_init(&keys.text, ctx);
    VC_TRY(vc_gguf_cursor_init(ctx, shard->file, &cursor));
    cursor.at = shard->metadata.begin;
    VC_TRY(VC_ARRAY(ctx, VC_TAG_IO, keys.starts, (size_t)shard->metadata.n_pairs));
    for (uint64_t i = 0; i < shard->metadata.n_pairs; i++) {
        struct pair pair = {.place.begin = cursor.at};

        VC_TRY(take_key(&cursor, &keys, &pair));
        VC_TRY(vc_gguf_take_u32(&cursor, &pair.kind));
        uint64_t value = cursor.at;
        VC_TRY(take_value(&cursor, &pair));
        if (pair.kind == GGUF_ARRAY && strncmp(pair.key, VC_GGUF_KEY_SHAPE, n) == 0) {
            VC_TRY(restore(&cursor, value, pair.key + n, arena, model));
        }
    }
out:
    vc_gguf_cursor_release(&cursor);
    vc_text_release(&keys.text);
    vc_free(ctx, keys.starts);
    return status;
}

/* ---- the head of the file ---- */

/* Version 0 is a header that was written first and never completed. A big-endian file has its version in the other two
 * bytes. Version 1 had other sizes and is not made any more. */
static enum vc_status check_version(struct vc_ctx *ctx, uint32_t version)
{
    VC_REFUSE_IF(version == 0, ctx, VC_E_FORMAT, "is a GGUF file of version 0: its header was not written to the end");
    VC_REFUSE_IF((version & 0xffff) == 0, ctx, VC_E_UNSUPPORTED,
                 "is a big-endian GGUF file; only little-endian ones can be read");
    VC_REFUSE_IF(version == 1 || version > VC_GGUF_VERSION, ctx, VC_E_UNSUPPORTED,
                 "is a GGUF file of version %" PRIu32 "; 2 and 3 can be read", version);
    return VC_OK;
}

/* Magic, version, two counts, then the pairs. */
enum vc_status vc_gguf_read_head(struct gguf_cursor *cursor, struct vc_model *model, uint64_t *n_tensors,
                                 struct gguf_metadata *metadata)
{
    unsigned char magic[4];
    uint32_t version = 0;
    uint64_t n_pairs = 0;

    (void)snprintf(cursor->where, sizeof cursor->where, "the GGUF header");
    VC_CALL(vc_gguf_take(cursor, magic, sizeof magic));
    VC_CALL(vc_gguf_take_u32(cursor, &version));
    VC_CALL(check_version(cursor->ctx, version));
    VC_CALL(vc_gguf_take_u64(cursor, n_tensors));
    VC_CALL(vc_gguf_take_u64(cursor, &n_pairs));
    return read_pairs(cursor, model, n_pairs, metadata);
}
