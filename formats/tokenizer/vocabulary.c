/* vocabulary.c - texts of tokens, and texts on their way. See tokenizer_parts.h.
 *
 * A text on its way (tok_text) has beside each byte the place in the caller's text that it is about, which the steps
 * keep. */
#include <stdlib.h>

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
    vc_free(ctx, text->s);
    vc_free(ctx, text->at);
    *text = (struct tok_text){.n = 0};
}

enum vc_status vc_tok_add_piece(struct vc_ctx *ctx, struct tok_pieces *pieces, struct tok_piece piece)
{
    VC_CALL(VC_GROW(ctx, VC_TAG_SCRATCH, pieces->items, pieces->capacity, pieces->n + 1));
    pieces->items[pieces->n++] = piece;
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

/* SIZE_MAX: there is none. */
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
    int order = memcmp(x->s, y->s, x->n < y->n ? x->n : y->n);

    return order != 0 ? order : (x->n > y->n) - (x->n < y->n);
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
    vc_free(ctx, vocab->entries);
    vc_free(ctx, vocab->sorted);
    vc_hash_release(ctx, &vocab->table);
}

/* Before the first call of vc_tok_next_prefix. */
struct tok_prefixes vc_tok_prefixes(const struct tok_vocab *vocab, const char *s)
{
    unsigned byte = (unsigned char)s[0];

    return vocab->sorted == NULL ? (struct tok_prefixes){0, 0, 0}
                                 : (struct tok_prefixes){vocab->first[byte], vocab->first[byte + 1], 0};
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
