/* pieces.c - see pieces.h. */
#include "formats/tokenizer/pieces.h"

#include "formats/io/protobuf_wire.h"

/* Limits, so that a broken file takes no memory. */
#define MOST_TEXT     ((uint64_t)1 << 16)
#define MOST_CHARSMAP ((uint64_t)16 << 20)

/* While the messages are read. Fields that are not known are passed over, as protobuf wants it. */
struct reading {
    struct vc_ctx *ctx;
    struct vc_arena *arena;
    struct vc_piece_rules *rules;
    struct vc_wire wire;
    uint64_t n_pieces;
    enum vc_status (*take)(void *user, uint64_t number, const struct vc_piece *piece);
    void *user;
};

/* The bytes of a field, in the arena, with a NUL behind. */
static enum vc_status take_bytes(struct reading *r, const struct vc_field *field, uint64_t most, char **out)
{
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "a text"));
    VC_REFUSE_IF(field->data.n > most, r->ctx, VC_E_FORMAT, "has a text of %llu bytes",
                 (unsigned long long)field->data.n);
    VC_CALL_ALLOC(*out = vc_arena_alloc(r->ctx, r->arena, (size_t)field->data.n + 1));
    VC_CALL(vc_wire_read(&r->wire, field->data.at, *out, (size_t)field->data.n));
    (*out)[field->data.n] = '\0';
    return VC_OK;
}

/* Field 1 its text, 2 its score, 3 its type. */
static enum vc_status take_piece(struct reading *r, struct vc_span rest)
{
    struct vc_piece piece = {.type = VC_PIECE_NORMAL};
    char *text = NULL;
    uint64_t type = VC_PIECE_NORMAL;

    VC_EACH_FIELD(field, &r->wire, rest) {
        if (field.number == 1) {
            VC_CALL(take_bytes(r, &field, MOST_TEXT, &text));
            piece.n = (size_t)field.data.n;
        } else if (field.number == 2) {
            uint32_t bits = (uint32_t)field.value;

            VC_CALL(vc_wire_expect(&r->wire, &field, VC_WIRE_FIXED32, "a score"));
            memcpy(&piece.score, &bits, sizeof piece.score);
        } else if (field.number == 3) {
            type = field.value;
        }
    }
    VC_REFUSE_IF(text == NULL || type < VC_PIECE_NORMAL || type > VC_PIECE_BYTE, r->ctx, VC_E_FORMAT,
                 "piece %llu has no text, or a type that is not known", (unsigned long long)r->n_pieces);
    piece.text = text;
    piece.type = (int32_t)type;
    r->rules->unknown = type == VC_PIECE_UNKNOWN ? r->n_pieces : r->rules->unknown;
    return r->take(r->user, r->n_pieces++, &piece);
}

/* Of hundreds of fields those that tell how texts are taken apart. */
static enum vc_status take_trainer(struct reading *r, struct vc_span rest)
{
    struct vc_piece_rules *rules = r->rules;

    VC_EACH_FIELD(field, &r->wire, rest) {
        if (field.type != VC_WIRE_VARINT) {
            continue;
        }
        if (field.number == 3) {
            rules->kind = field.value;
        } else if (field.number == 24 || field.number == 35) {
            *(field.number == 24 ? &rules->space_behind : &rules->byte_fallback) = field.value != 0;
        } else if (field.number == 41 || field.number == 42) { /* numbers below 0, of 64 bits: there is no such token */
            *(field.number == 41 ? &rules->begin : &rules->end) = field.value > INT32_MAX ? UINT64_MAX : field.value;
        }
    }
    return VC_OK;
}

/* Fields 3 to 5 are flags that follow each other. */
static enum vc_status take_normalizer(struct reading *r, struct vc_span rest)
{
    struct vc_piece_rules *rules = r->rules;
    char *bytes;

    VC_EACH_FIELD(field, &r->wire, rest) {
        if (field.number == 2) {
            VC_CALL(take_bytes(r, &field, MOST_CHARSMAP, &bytes));
            rules->charsmap = (const unsigned char *)bytes;
            rules->n_charsmap = (size_t)field.data.n;
        } else if (field.type == VC_WIRE_VARINT && field.number >= 3 && field.number <= 5) {
            bool *flags[] = {&rules->space_prefix, &rules->joins_spaces, &rules->escapes_spaces};

            *flags[field.number - 3] = field.value != 0;
        }
    }
    return VC_OK;
}

/* Messages in the order of the file. */
static enum vc_status take_model(struct reading *r, struct vc_span span)
{
    VC_EACH_FIELD(field, &r->wire, span) {
        VC_CALL(vc_check_cancelled(r->ctx));
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

enum vc_status vc_pieces_read(struct vc_ctx *ctx, struct vc_arena *arena, const char *path,
                              struct vc_piece_rules *rules,
                              enum vc_status (*take)(void *user, uint64_t number, const struct vc_piece *piece),
                              void *user)
{
    struct reading r = {.ctx = ctx, .arena = arena, .rules = rules, .take = take, .user = user};
    struct vc_infile *file = NULL;
    enum vc_status status;

    /* what SentencePiece takes where the file does not say */
    *rules = (struct vc_piece_rules){.kind = VC_PIECES_UNIGRAM,
                                     .space_prefix = true,
                                     .joins_spaces = true,
                                     .escapes_spaces = true,
                                     .unknown = UINT64_MAX,
                                     .begin = 1,
                                     .end = 2};
    VC_TRY(vc_infile_open(ctx, path, &file));
    VC_TRY(vc_wire_open(ctx, file, &r.wire));
    VC_TRY(take_model(&r, (struct vc_span){0, file->size_bytes}));
    if (r.n_pieces == 0 || (rules->kind != VC_PIECES_UNIGRAM && rules->kind != VC_PIECES_BPE)) {
        VC_TRY(vc_fail(ctx, VC_E_UNSUPPORTED, "is no SentencePiece model of BPE or Unigram"));
    }
out:
    vc_wire_close(&r.wire);
    vc_infile_close(ctx, file);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", strrchr(path, '/') + 1);
}

/* ------------------------------------------------------------------------------------------------ characters
 *
 *     offset  bytes  what
 *          0      4  bytes of the trie
 *          4      n  units u32 of a double array (Darts): 8 bits label, bit 8 a leaf follows, 10 and up offset
 *        4+n    ...  texts, each with a NUL behind; the value of a leaf is the place of its text */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void vc_base64_put(struct vc_text *to, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i += 3) {
        uint32_t bits =
            (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) | (i + 2 < n ? bytes[i + 2] : 0);

        for (size_t k = 0; k < 4; k++) {
            vc_text_add_bytes(to, i + k <= n ? &digits[bits >> (18 - 6 * k) & 63] : "=", 1);
        }
    }
}

/* 4 digits are 3 bytes; up to the first '='. */
enum vc_status vc_base64_decode(struct vc_ctx *ctx, struct vc_arena *arena, const char *text, const char *what,
                                const unsigned char **out, size_t *n)
{
    unsigned char *bytes = vc_arena_alloc(ctx, arena, strlen(text) / 4 * 3 + 3);
    uint32_t bits = 0;

    VC_CALL_ALLOC(bytes);
    *n = 0;
    for (size_t i = 0; text[i] != '\0' && text[i] != '='; i++) {
        const char *digit = strchr(digits, text[i]);

        VC_REFUSE_IF(digit == NULL, ctx, VC_E_FORMAT, "%s is no base64 at byte %zu", what, i);
        bits = bits << 6 | (uint32_t)(digit - digits);
        if (i % 4 != 0) {
            bytes[(*n)++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
        }
    }
    *out = bytes;
    return VC_OK;
}

/* Only sizes are checked here: what a leaf says is checked when it is read. */
enum vc_status vc_charsmap_open(struct vc_ctx *ctx, const unsigned char *bytes, size_t n, struct vc_charsmap *out)
{
    uint64_t n_trie = n >= 4 ? vc_le32(bytes) : 0;

    *out = (struct vc_charsmap){.n_units = 0};
    if (n == 0) {
        return VC_OK;
    }
    VC_REFUSE_IF(n < 4 || n_trie % 4 != 0 || n_trie > n - 4 || (n_trie != 0 && (n == n_trie + 4 || bytes[n - 1] != 0)),
                 ctx, VC_E_FORMAT,
                 "precompiled_charsmap has no trie of the size that it says, or texts without an end");
    out->trie = bytes + 4;
    out->n_units = (size_t)n_trie / 4;
    out->texts = bytes + 4 + n_trie;
    out->n_texts = n - 4 - (size_t)n_trie;
    return VC_OK;
}

/* Unit number `at`, if there is one with that label. */
static bool unit_at(const struct vc_charsmap *map, size_t at, uint32_t label, uint32_t *unit)
{
    if (at >= map->n_units) {
        return false;
    }
    *unit = vc_le32(map->trie + 4 * at);
    return (*unit & ((uint32_t)1 << 31 | 0xff)) == label;
}

/* Large offsets are stored in units of 256. */
static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & (1U << 9)) >> 6);
}

/* A walk through the double array: the place of a child is that of its parent, by exclusive or with the offset and the
 * byte. */
const char *vc_charsmap_find(const struct vc_charsmap *map, const char *s, size_t n, bool longest, size_t *used)
{
    const char *found = NULL;

    if (map->n_units == 0) {
        return NULL;
    }
    uint32_t unit = vc_le32(map->trie);
    size_t at = offset_of(unit);
    for (size_t i = 0; i < n && (longest || found == NULL); i++) {
        uint32_t value;

        at ^= (unsigned char)s[i];
        if (s[i] == '\0' || !unit_at(map, at, (unsigned char)s[i], &unit)) {
            break;
        }
        at ^= offset_of(unit);
        if ((unit >> 8 & 1) != 0 && at < map->n_units) { /* a leaf: its value has bit 31 */
            value = vc_le32(map->trie + 4 * at) & 0x7fffffff;
            if (value < map->n_texts) {
                found = (const char *)map->texts + value;
                *used = i + 1;
            }
        }
    }
    return found;
}
