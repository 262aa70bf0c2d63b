/* gguf_json.c - GGUF's metadata as a JSON object, for the way back to a folder (formats/gguf_folder/). All of it,
 * vocabulary and all, so the pool counts what the tree takes. The pairs were checked when the file was opened. */

#include "formats/gguf/gguf.h"
#include "formats/json/json_walk.h"

#define TREE_BYTES ((uint64_t)8) /* of the tree for a byte of the file, at most: many short texts */

/* A text, NULL where it is no UTF-8 or has a NUL. */
static enum vc_status take_text(struct gguf_cursor *cursor, json_t **out)
{
    uint64_t n = 0;
    VC_SCOPED char *text = NULL;

    VC_CALL(vc_gguf_take_u64(cursor, &n));
    VC_CALL_ALLOC(text = vc_alloc(cursor->ctx, VC_TAG_IO, (size_t)n));
    VC_CALL(vc_gguf_take(cursor, text, (size_t)n));
    *out = memchr(text, '\0', (size_t)n) == NULL ? json_stringn(text, (size_t)n) : NULL;
    return VC_OK;
}

/* A number; NULL: it is not finite. */
static enum vc_status take_number(struct gguf_cursor *cursor, uint32_t kind, json_t **out)
{
    unsigned char bytes[8] = {0};
    float single;
    double real;

    VC_CALL(vc_gguf_take(cursor, bytes, vc_gguf_kind_bytes(kind)));
    if (kind == GGUF_BOOL) {
        *out = json_boolean(bytes[0] != 0);
    } else if (kind == GGUF_F32) {
        memcpy(&single, bytes, sizeof single);
        *out = json_real(single);
    } else if (kind == GGUF_F64) {
        memcpy(&real, bytes, sizeof real);
        *out = json_real(real);
    } else {
        *out = json_integer(vc_gguf_integer(kind, bytes));
    }
    return VC_OK;
}

/* Arrays of arrays are refused when the file is opened, so the depth is 2 at most. */
static enum vc_status take_value(struct gguf_cursor *cursor, uint32_t kind, json_t **out)
{
    uint64_t n = 0;
    json_t *element;

    if (kind != GGUF_ARRAY) {
        return kind == GGUF_STRING ? take_text(cursor, out) : take_number(cursor, kind, out);
    }
    *out = json_array();
    VC_CALL(vc_gguf_take_u32(cursor, &kind));
    VC_CALL(vc_gguf_take_u64(cursor, &n));
    for (uint64_t i = 0; i < n && *out != NULL; i++) {
        VC_CALL(take_value(cursor, kind, &element));
        (void)json_array_append_new(*out, element != NULL ? element : json_null());
    }
    return VC_OK;
}

/* A pair whose key is no text is left out: json_object_set_new takes no NULL. */
enum vc_status vc_gguf_json(struct vc_ctx *ctx, const struct gguf_shard *shard, json_t **out, uint64_t *counted)
{
    uint64_t n = shard->metadata.end - shard->metadata.begin;
    struct gguf_cursor cursor = {.ctx = ctx};
    json_t *key = NULL;
    uint32_t kind = 0;
    enum vc_status status;

    *counted = 0;
    *out = json_object();
    VC_TRY(vc_json_tree_count(ctx, (size_t)shard->metadata.begin, (size_t)n, TREE_BYTES * n, counted));
    VC_TRY(vc_gguf_cursor_init(ctx, shard->file, &cursor));
    cursor.at = cursor.start = shard->metadata.begin;
    for (uint64_t i = 0; i < shard->metadata.n_pairs; i++) {
        json_t *value = NULL;

        VC_TRY(take_text(&cursor, &key));
        VC_TRY(vc_gguf_take_u32(&cursor, &kind));
        status = take_value(&cursor, kind, &value);
        (void)json_object_set_new(*out, json_string_value(key), value != NULL ? value : json_null());
        json_decref(key);
        VC_TRY(status);
    }
out:
    vc_gguf_cursor_release(&cursor);
    return status;
}
