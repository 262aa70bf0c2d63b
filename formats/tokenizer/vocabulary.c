/* vocabulary.c - texts of tokens, and texts on their way. See tokenizer_parts.h.
 *
 * A text on its way (tok_text) has beside each byte the place in the caller's text that it is about, which the steps
 * keep. */

#include "formats/tokenizer/tokenizer_parts.h"

/* ------------------------------------------------------------------------------------------------ texts */

/* Room for n bytes more. */
static enum vc_status room(struct vc_ctx *ctx, struct tok_text *text, size_t n)
{
    VC_REFUSE_IF(text->n + n > UINT32_MAX / 2, ctx, VC_E_NOMEM, "a text becomes too long on its way to tokens");
    VC_CALL(VC_GROW(ctx, VC_TAG_SCRATCH, text->s, text->capacity, text->n + n + 1));
    return VC_GROW(ctx, VC_TAG_SCRATCH, text->at, text->at_capacity, text->n + n + 1);
}

/* All n bytes are about one place. */
enum vc_status vc_tok_put(struct vc_ctx *ctx, struct tok_text *text, const char *s, size_t n, uint32_t at)
{
    VC_CALL(room(ctx, text, n));
    memcpy(text->s + text->n, s, n);
    for (size_t i = 0; i < n; i++) {
        text->at[text->n++] = at;
    }
    return VC_OK;
}

/* Each byte keeps its place. */
enum vc_status vc_tok_copy(struct vc_ctx *ctx, struct tok_text *text, const char *s, const uint32_t *from, size_t n)
{
    VC_CALL(room(ctx, text, n));
    if (n != 0) {
        memcpy(text->s + text->n, s, n);
        memcpy(text->at + text->n, from, n * sizeof *from);
    }
    text->n += n;
    return VC_OK;
}

enum vc_status vc_tok_put_char(struct vc_ctx *ctx, struct tok_text *text, uint32_t c, uint32_t at)
{
    char bytes[4];
    size_t n = vc_utf8_put(c, bytes);

    return vc_tok_put(ctx, text, bytes, n, at);
}

void vc_tok_release(struct vc_ctx *ctx, struct tok_text *text)
{
    VC_FREE_ALL(ctx, text->s, text->at);
    *text = (struct tok_text){.n = 0};
}

enum vc_status vc_tok_add_piece(struct vc_ctx *ctx, struct tok_pieces *pieces, struct tok_piece piece)
{
    VC_CALL(VC_GROW(ctx, VC_TAG_SCRATCH, pieces->items, pieces->capacity, pieces->n + 1));
    pieces->items[pieces->n++] = piece;
    return VC_OK;
}

/* The place of what is there: the part's own, or, at the begin, the piece's. */
enum vc_status vc_tok_add_part(struct vc_ctx *ctx, const struct tok_text *text, const struct tok_piece *piece,
                               size_t begin, size_t end, uint32_t id, struct tok_pieces *to)
{
    struct tok_piece part = {(uint32_t)(piece->begin + begin), (uint32_t)(piece->begin + end), piece->at, id};

    part.at = begin != 0 && begin < end ? text->at[part.begin] : part.at;
    return begin < end ? vc_tok_add_piece(ctx, to, part) : VC_OK;
}

/* Tokens stay as they are. */
enum vc_status vc_tok_cut_words(struct vc_ctx *ctx, struct vc_tokenizer *t, const void *by,
                                enum vc_status (*cut)(struct vc_ctx *ctx, struct vc_tokenizer *t, const void *by,
                                                      const struct tok_piece *word))
{
    struct tok_pieces pieces = t->pieces;

    t->others.n = 0;
    for (size_t i = 0; i < pieces.n; i++) {
        const struct tok_piece *piece = &pieces.items[i];

        if (piece->id == VC_NO_ID) {
            VC_CALL(cut(ctx, t, by, piece));
        } else {
            VC_CALL(vc_tok_add_piece(ctx, &t->others, *piece));
        }
    }
    t->pieces = t->others;
    t->others = pieces;
    return VC_OK;
}

/* Of a token nothing is in the new text. */
enum vc_status vc_tok_change_words(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                                   enum vc_status (*change)(struct vc_ctx *ctx, struct vc_tokenizer *t,
                                                            const struct tok_step *step, const struct tok_piece *word))
{
    struct tok_text text = t->text;

    t->other.n = 0;
    for (size_t i = 0; i < t->pieces.n; i++) {
        struct tok_piece *piece = &t->pieces.items[i];
        uint32_t begin = (uint32_t)t->other.n;

        if (piece->id == VC_NO_ID) {
            VC_CALL(change(ctx, t, step, piece));
        }
        piece->begin = begin;
        piece->end = (uint32_t)t->other.n;
    }
    t->text = t->other;
    t->other = text;
    return VC_OK;
}

/* GPT-2 has a letter for each byte: printable ones are themselves, the others follow from U+0100 on. */
uint32_t vc_tok_byte_letter(unsigned char byte)
{
    if ((byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad)) {
        return byte;
    }
    if (byte <= ' ') {
        return 0x100U + byte;
    }
    return byte == 0xad ? 0x143U : 0x100U + 33U + (byte - 0x7fU);
}

/* ------------------------------------------------------------------------------------------------ vocabulary */

/* A text that is looked for. */
struct text_key {
    const struct tok_entry *entries;
    const char *s;
    size_t n;
};

static bool is_text(const void *key, size_t number)
{
    const struct text_key *text = key;
    const struct tok_entry *entry = &text->entries[number];

    return entry->n == text->n && memcmp(entry->s, text->s, text->n) == 0;
}

static uint64_t hash_of(const void *user, size_t number)
{
    const struct tok_entry *entries = user;

    return vc_hash_bytes(vc_hash_seed(), entries[number].s, entries[number].n);
}

/* SIZE_MAX if there is none. */
static size_t find_number(const struct tok_vocab *vocab, const char *s, size_t n)
{
    struct text_key key = {vocab->entries, s, n};

    return vocab->n != 0 ? vc_hash_find(&vocab->table, vc_hash_bytes(vc_hash_seed(), s, n), is_text, &key) : SIZE_MAX;
}

/* A text that is there already gets the new number and score. */
enum vc_status vc_tok_vocab_add(struct vc_ctx *ctx, struct vc_arena *arena, struct tok_vocab *vocab, const char *s,
                                size_t n, uint32_t id, double score)
{
    size_t there = find_number(vocab, s, n);

    vocab->most = id > vocab->most ? id : vocab->most;
    if (there != SIZE_MAX) {
        vocab->entries[there].id = id;
        vocab->entries[there].score = score;
        return VC_OK;
    }
    VC_REFUSE_IF(n > UINT32_MAX / 4, ctx, VC_E_FORMAT, "a token has %zu bytes", n);
    VC_CALL(VC_GROW(ctx, VC_TAG_NAMES, vocab->entries, vocab->capacity, vocab->n + 1));
    VC_CALL(vc_hash_grow(ctx, &vocab->table, vocab->n, hash_of, vocab->entries));
    struct tok_entry *entry = &vocab->entries[vocab->n];
    *entry = (struct tok_entry){.s = vc_arena_copy(ctx, arena, s, n), .n = (uint32_t)n, .id = id, .score = score};
    VC_CALL_ALLOC(entry->s);
    vc_hash_add(&vocab->table, vc_hash_bytes(vc_hash_seed(), s, n), vocab->n++);
    return VC_OK;
}

const struct tok_entry *vc_tok_vocab_find(const struct tok_vocab *vocab, const char *s, size_t n)
{
    size_t at = find_number(vocab, s, n);

    return at != SIZE_MAX ? &vocab->entries[at] : NULL;
}

/* By bytes, and what is shorter first: all texts with one beginning follow each other. */
static int by_text(const void *a, const void *b)
{
    const struct tok_entry *x = *(const struct tok_entry *const *)a;
    const struct tok_entry *y = *(const struct tok_entry *const *)b;

    return VC_FIRST_ORDER(memcmp(x->s, y->s, x->n < y->n ? x->n : y->n), VC_ORDER(x->n, y->n));
}

/* For searches by prefix: first[b] is where texts that begin with byte b begin. */
enum vc_status vc_tok_vocab_sort(struct vc_ctx *ctx, struct tok_vocab *vocab)
{
    size_t at = 0;

    VC_CALL(VC_ARRAY(ctx, VC_TAG_NAMES, vocab->sorted, vocab->n + 1));
    for (size_t i = 0; i < vocab->n; i++) {
        vocab->sorted[i] = &vocab->entries[i];
    }
    qsort(vocab->sorted, vocab->n, sizeof *vocab->sorted, by_text);
    while (at < vocab->n && vocab->sorted[at]->n == 0) {
        at++;
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        vocab->first[byte] = at;
        while (at < vocab->n && (unsigned char)vocab->sorted[at]->s[0] == byte) {
            at++;
        }
    }
    vocab->first[256] = vocab->n;
    return VC_OK;
}

void vc_tok_vocab_release(struct vc_ctx *ctx, struct tok_vocab *vocab)
{
    VC_FREE_ALL(ctx, vocab->entries, vocab->sorted);
    vc_hash_release(ctx, &vocab->table);
}

/* Before the first call of vc_tok_next_prefix. */
struct tok_prefixes vc_tok_prefixes(const struct tok_vocab *vocab, const char *s)
{
    unsigned byte = (unsigned char)s[0];

    return (struct tok_prefixes){vocab->first[byte], vocab->first[byte + 1], 0}; /* none where nothing is sorted */
}

/* Of sorted entries [low, high), which agree in `length` bytes: the first whose next byte is `byte` or more; those that end
 * there come first. */
static size_t bisect(const struct tok_vocab *vocab, size_t low, size_t high, size_t length, unsigned byte)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct tok_entry *entry = vocab->sorted[middle];

        if (entry->n <= length || (unsigned char)entry->s[length] < byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The next longer entry that s begins with; NULL: no more. Each byte narrows the range of entries. */
const struct tok_entry *vc_tok_next_prefix(const struct tok_vocab *vocab, struct tok_prefixes *at, const char *s,
                                           size_t n)
{
    while (at->length < n && at->low < at->high) {
        if (at->length != 0) {
            unsigned byte = (unsigned char)s[at->length];

            at->low = bisect(vocab, at->low, at->high, at->length, byte);
            at->high = bisect(vocab, at->low, at->high, at->length, byte + 1);
        }
        at->length++;
        if (at->low < at->high && vocab->sorted[at->low]->n == at->length) {
            return vocab->sorted[at->low++];
        }
    }
    return NULL;
}
