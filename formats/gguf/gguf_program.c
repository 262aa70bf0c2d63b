/* gguf_program.c - GGUF's metadata as a program (core/model/program.h): keys with numbers and texts, for graph/. Arrays
 * have their length, and their integers where there are few: a vocabulary is only counted. The pairs were checked when
 * the file was opened. */
#include "formats/gguf/gguf.h"

#define MAX_TEXT     ((uint64_t)1 << 16)
#define MAX_INTEGERS ((uint64_t)1 << 14)

/* A string in the arena; one that is longer than any that means something is skipped, and is empty. */
static enum vc_status take_text(struct gguf_cursor *cursor, struct vc_arena *arena, const char **out)
{
    uint64_t n = 0;

    VC_CALL(vc_gguf_take_u64(cursor, &n));
    *out = "";
    if (n > MAX_TEXT) {
        return vc_gguf_skip(cursor, n);
    }
    char *text = vc_arena_alloc(cursor->ctx, arena, (size_t)n + 1);
    VC_CALL_ALLOC(text);
    VC_CALL(vc_gguf_take(cursor, text, (size_t)n));
    text[n] = '\0';
    *out = text;
    return VC_OK;
}

/* A number of any kind; *is_integer: it is one. */
static enum vc_status take_number(struct gguf_cursor *cursor, uint32_t kind, int64_t *integer, double *number,
                                  bool *is_integer)
{
    unsigned char bytes[8] = {0};
    float single;

    VC_CALL(vc_gguf_take(cursor, bytes, vc_gguf_kind_bytes(kind)));
    uint64_t u = vc_le64(bytes);
    *is_integer = kind != GGUF_F32 && kind != GGUF_F64 && (kind != GGUF_U64 || u <= INT64_MAX);
    *integer = vc_gguf_integer(kind, bytes);
    *number = kind == GGUF_U64 ? (double)u : (double)*integer;
    if (kind == GGUF_F32) {
        memcpy(&single, bytes, sizeof single);
        *number = single;
    } else if (kind == GGUF_F64) {
        memcpy(number, bytes, sizeof *number);
    }
    return VC_OK;
}

/* An array with a fraction, or of many elements, has its length and no integers. */
static enum vc_status take_list(struct gguf_cursor *cursor, struct vc_arena *arena, struct vc_program_key *key)
{
    uint32_t kind = 0;
    uint64_t n = 0;
    int64_t *integers = NULL;

    VC_CALL(vc_gguf_take_u32(cursor, &kind));
    VC_CALL(vc_gguf_take_u64(cursor, &n));
    key->n = (size_t)n;
    if (kind == GGUF_STRING) {
        for (uint64_t i = 0; i < n; i++) {
            uint64_t length = 0;

            VC_CALL(vc_gguf_take_u64(cursor, &length));
            VC_CALL(vc_gguf_skip(cursor, length));
        }
        return VC_OK;
    }
    if (n > MAX_INTEGERS) {
        return vc_gguf_skip(cursor, n * vc_gguf_kind_bytes(kind));
    }
    VC_CALL_ALLOC(integers = vc_arena_alloc(cursor->ctx, arena, ((size_t)n + 1) * sizeof *integers));
    key->integers = integers;
    for (uint64_t i = 0; i < n; i++) {
        double number;
        bool is_integer;

        VC_CALL(take_number(cursor, kind, &integers[i], &number, &is_integer));
        if (!is_integer) {
            key->integers = NULL;
        }
    }
    return VC_OK;
}

/* One pair. */
static enum vc_status take_key(struct gguf_cursor *cursor, struct vc_arena *arena, struct vc_program_key *key)
{
    uint32_t kind = 0;

    VC_CALL(take_text(cursor, arena, &key->key));
    VC_CALL(vc_gguf_take_u32(cursor, &kind));
    if (kind == GGUF_STRING) {
        key->is_text = true;
        VC_CALL(take_text(cursor, arena, &key->text));
    } else if (kind == GGUF_ARRAY) {
        VC_CALL(take_list(cursor, arena, key));
    } else {
        key->is_number = true;
        VC_CALL(take_number(cursor, kind, &key->integer, &key->number, &key->is_integer));
    }
    return VC_OK;
}

/* vc_program_sizes.says. */
static enum vc_status says(struct vc_ctx *ctx, const struct vc_program *program, enum vc_edit_key key, uint64_t number,
                           const char *tensor, bool *out)
{
    /* whichever tensor: keys are about all of the model */
    *out = vc_gguf_says(program, key, number);
    return VC_OK;
}

const struct vc_program_sizes vc_gguf_program_sizes = {.says = says, .edit = vc_gguf_edit_keys};

/* vc_source_ops.program: the pairs of the first file, which has those of the model. */
enum vc_status vc_gguf_program(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                               struct vc_program *out)
{
    const struct gguf *self = model->self;
    const struct gguf_shard *shard = &self->shards[0];
    VC_SCOPED_CURSOR struct gguf_cursor cursor = {.ctx = ctx};
    struct vc_program_key *keys;

    if (shard->file == NULL) {
        return VC_OK;
    }
    VC_CALL(vc_gguf_cursor_init(ctx, shard->file, &cursor));
    cursor.at = shard->metadata.begin;
    cursor.start = cursor.at;
    VC_CALL_ALLOC(keys = vc_arena_alloc(ctx, arena, (size_t)(shard->metadata.n_pairs + 1) * sizeof *keys));
    memset(keys, 0, (size_t)(shard->metadata.n_pairs + 1) * sizeof *keys);
    for (uint64_t k = 0; k < shard->metadata.n_pairs; k++) {
        VC_CALL(take_key(&cursor, arena, &keys[k]));
    }
    *out = (struct vc_program){.kind = VC_PROGRAM_KEYS,
                               .n_keys = (size_t)shard->metadata.n_pairs,
                               .keys = keys,
                               .sizes = &vc_gguf_program_sizes};
    return VC_OK;
}
