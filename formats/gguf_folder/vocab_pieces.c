/* vocab_pieces.c - SentencePiece's vocabularies: the protobuf ModelProto, and BPE with byte fallback in tokenizer.json.
 *
 *     ModelProto   1 piece {1 text, 2 score f32, 3 type}    2 trainer {3 kind: 1 Unigram, 2 BPE}
 *                  3 normalizer {2 table of characters, 3 a space goes in front, 4 spaces are joined}
 *
 * Types of pieces have the numbers that GGUF has. */
#include "formats/gguf_folder/vocab.h"

#include <string.h>

#include "formats/io/protobuf_wire.h"

#define MOST_TEXT     ((uint64_t)1 << 16)  /* bytes of a piece */
#define MOST_CHARSMAP ((uint64_t)16 << 20) /* bytes of the table of characters */

#define UNIGRAM 1
#define BPE     2

/* kind: UNIGRAM where the trainer says none, which is the field's default in the protobuf. */
struct reading {
    struct vocab *v;
    struct vc_wire wire;
    uint64_t n_pieces;
    uint64_t kind;
};

/* The bytes of a field, in the arena, with a NUL behind. A text longer than `most` is refused before memory is
 * taken. */
static enum vc_status take_bytes(struct reading *r, const struct vc_field *field, uint64_t most, char **out)
{
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "a text"));
    VC_REFUSE_IF(field->data.n > most, r->v->ctx, VC_E_FORMAT, "has a text of %llu bytes",
                 (unsigned long long)field->data.n);
    *out = vc_arena_alloc(r->v->ctx, r->v->arena, (size_t)field->data.n + 1);
    VC_CALL_ALLOC(*out);
    VC_CALL(vc_wire_read(&r->wire, field->data.at, *out, (size_t)field->data.n));
    (*out)[field->data.n] = '\0';
    return VC_OK;
}

/* One piece; its number is its place in the file. `rest` moves behind each field. */
static enum vc_status take_piece(struct reading *r, struct vc_span rest)
{
    char *text = NULL;
    size_t n = 0;
    uint64_t type = VOCAB_NORMAL;
    float score = 0;
    struct vc_field field;

    while (rest.n != 0) {
        VC_CALL(vc_wire_field(&r->wire, &rest, &field));
        if (field.number == 1) {
            VC_CALL(take_bytes(r, &field, MOST_TEXT, &text));
            n = (size_t)field.data.n;
        } else if (field.number == 2) {
            uint32_t bits = (uint32_t)field.value;

            VC_CALL(vc_wire_expect(&r->wire, &field, VC_WIRE_FIXED32, "a score"));
            memcpy(&score, &bits, sizeof score);
        } else if (field.number == 3) {
            type = field.value;
        }
    }
    VC_REFUSE_IF(text == NULL || type < VOCAB_NORMAL || type > VOCAB_BYTE, r->v->ctx, VC_E_FORMAT,
                 "piece %llu has no text, or a type that is not known", (unsigned long long)r->n_pieces);
    return vc_vocab_set(r->v, r->n_pieces++, text, n, (int32_t)type, score);
}

/* Only the kind of the model counts; the other fields say how it was trained. */
static enum vc_status take_trainer(struct reading *r, struct vc_span rest)
{
    struct vc_field field;

    while (rest.n != 0) {
        VC_CALL(vc_wire_field(&r->wire, &rest, &field));
        r->kind = field.number == 3 && field.type == VC_WIRE_VARINT ? field.value : r->kind;
    }
    return VC_OK;
}

/* Spaces and the table of characters. */
static enum vc_status take_normalizer(struct reading *r, struct vc_span rest)
{
    struct vocab *v = r->v;
    struct vc_field field;
    char *bytes;

    while (rest.n != 0) {
        VC_CALL(vc_wire_field(&r->wire, &rest, &field));
        if (field.number == 2) {
            VC_CALL(take_bytes(r, &field, MOST_CHARSMAP, &bytes));
            v->charsmap = (const unsigned char *)bytes;
            v->n_charsmap = (size_t)field.data.n;
        } else if (field.number == 3 && field.type == VC_WIRE_VARINT) {
            v->space_prefix = field.value != 0;
        } else if (field.number == 4 && field.type == VC_WIRE_VARINT) {
            v->spaces = field.value != 0;
        }
    }
    return VC_OK;
}

/* The fields of ModelProto, in whatever order; self tests and denormalizers are skipped. */
static enum vc_status take_model(struct reading *r, struct vc_span rest)
{
    struct vc_field field;

    while (rest.n != 0) {
        VC_CALL(vc_check_cancelled(r->v->ctx));
        VC_CALL(vc_wire_field(&r->wire, &rest, &field));
        if (field.number < 1 || field.number > 3) {
            continue;
        }
        VC_CALL(vc_wire_expect(&r->wire, &field, VC_WIRE_BYTES, "a message"));
        if (field.number == 1) {
            VC_CALL(take_piece(r, field.data));
        } else if (field.number == 2) {
            VC_CALL(take_trainer(r, field.data));
        } else {
            VC_CALL(take_normalizer(r, field.data));
        }
    }
    return VC_OK;
}

/* BPE with a table of characters is refused: llama.cpp would tokenize such texts otherwise. */
enum vc_status vc_vocab_read_pieces(struct vocab *v, const char *path)
{
    struct reading r = {.v = v, .kind = UNIGRAM};
    struct vc_infile *file = NULL;
    enum vc_status status;

    v->space_prefix = 1; /* what SentencePiece takes where the file does not say */
    v->spaces = 1;
    v->has_scores = true;
    v->pre = "default";
    VC_TRY(vc_infile_open(v->ctx, path, &file));
    VC_TRY(vc_wire_open(v->ctx, file, &r.wire));
    VC_TRY(take_model(&r, (struct vc_span){0, file->size_bytes}));
    if (r.n_pieces == 0 || (r.kind != UNIGRAM && r.kind != BPE)) {
        VC_TRY(vc_fail(v->ctx, VC_E_UNSUPPORTED, "is no SentencePiece model of BPE or Unigram"));
    }
    v->kind = r.kind == BPE ? "llama" : "t5";
    if (r.kind == BPE && v->n_charsmap != 0) {
        VC_TRY(vc_fail(v->ctx, VC_E_UNSUPPORTED,
                       "replaces characters of a text (precompiled_charsmap), which llama.cpp does not with BPE"));
    }
out:
    vc_wire_close(&r.wire);
    vc_infile_close(v->ctx, file);
    return status == VC_OK ? VC_OK : vc_context(v->ctx, "%s", strrchr(path, '/') + 1);
}

/* ---- tokenizer.json ---- */

/* "<0x0A>" The token of a byte. */
static bool is_byte(const char *text)
{
    return strlen(text) == 6 && strncmp(text, "<0x", 3) == 0 && text[5] == '>' &&
           strspn(text + 3, "0123456789ABCDEF") == 2;
}

/* The parts of a merge, "left right" or ["left", "right"], joined in `to`; false: it is no merge. */
static bool join(const json_t *merge, struct vc_text *to)
{
    const char *left = json_string_value(json_array_get(merge, 0));
    const char *right = json_string_value(json_array_get(merge, 1));
    const char *both = json_string_value(merge);
    const char *space = both != NULL ? strchr(both, ' ') : NULL;

    to->n = 0;
    if (left != NULL && right != NULL) {
        vc_text_add(to, "%s%s", left, right);
    } else if (space != NULL) {
        vc_text_add(to, "%.*s%s", (int)(space - both), both, space + 1);
    }
    return to->n != 0;
}

/* llama.cpp merges what gives the token of the highest score: the first merge has to have the highest. Merge i gets
 * score -i. Backwards, so that of several merges that give one token the first wins. */
static enum vc_status score(struct vocab *v, const json_t *vocabulary, const json_t *merges)
{
    struct vc_text text;
    enum vc_status status = VC_OK;

    vc_text_init(&text, v->ctx);
    for (size_t i = json_array_size(merges); i-- > 0;) {
        bool is = join(json_array_get(merges, i), &text);
        const json_t *id = is ? json_object_get(vocabulary, text.data) : NULL;

        VC_TRY(text.status);
        if (!json_is_integer(id) || (uint64_t)json_integer_value(id) >= v->n) {
            VC_TRY(vc_fail(v->ctx, VC_E_FORMAT, "tokenizer.json: merge %zu gives no token", i));
        }
        v->tokens[json_integer_value(id)].score = -(float)i;
    }
out:
    vc_text_release(&text);
    return status;
}

/* Whether a step of the normalizer puts a space in front of a text. A step Prepend, alone or in a sequence; else
 * Metaspace's "prepend_scheme", or its older "add_prefix_space". */
static bool puts_space(const json_t *tokenizer)
{
    const json_t *normalizer = json_object_get(tokenizer, "normalizer");
    const json_t *pre = json_object_get(tokenizer, "pre_tokenizer");
    const json_t *steps = json_object_get(normalizer, "normalizers");
    const char *scheme = json_string_value(json_object_get(pre, "prepend_scheme"));
    const char *type = json_string_value(json_object_get(normalizer, "type"));
    bool puts = type != NULL && strcmp(type, "Prepend") == 0;

    for (size_t i = 0; i < json_array_size(steps); i++) {
        type = json_string_value(json_object_get(json_array_get(steps, i), "type"));
        puts = puts || (type != NULL && strcmp(type, "Prepend") == 0);
    }
    return puts ||
           (scheme != NULL ? strcmp(scheme, "never") != 0 : json_is_true(json_object_get(pre, "add_prefix_space")));
}

/* BPE over characters with tokens for bytes. Tokens that no merge gives have the lowest score. vocabulary: {"text":
 * id}. */
enum vc_status vc_vocab_read_merged(struct vocab *v)
{
    const json_t *model = json_object_get(v->tokenizer.root, "model");
    json_t *vocabulary = json_object_get(model, "vocab");
    const json_t *merges = json_object_get(model, "merges");
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    float last = -(float)json_array_size(merges);
    const char *text;
    json_t *id;

    v->kind = "llama";
    v->pre = "default";
    v->has_scores = true;
    v->space_prefix = puts_space(v->tokenizer.root);
    if (strcmp(v->family->gguf, "gemma4") == 0) { /* merged in the order of the list */
        v->kind = v->pre = "gemma4";
        v->merges = merges;
    }
    json_object_foreach(vocabulary, text, id)
    {
        int32_t type = is_byte(text)                                   ? VOCAB_BYTE
                       : unknown != NULL && strcmp(text, unknown) == 0 ? VOCAB_UNKNOWN
                                                                       : VOCAB_NORMAL;

        VC_REFUSE_IF(!json_is_integer(id) || json_integer_value(id) < 0, v->ctx, VC_E_FORMAT,
                     "tokenizer.json: token '%.60s' has no number", text);
        VC_CALL(vc_vocab_set(v, (uint64_t)json_integer_value(id), text, strlen(text), type, last));
    }
    return score(v, vocabulary, merges);
}
