/* vocab_ranks.c - byte-level BPE as tiktoken's files have it, of models whose tokenizer is a Python file beside it.
 *
 *     IQ== 0             the bytes of a token in base64, and its rank: its number, and when it is merged
 *     ...
 *     IHRoZQ== 275       " the"
 *
 * It has no merges. A token is what two parts give: those that the ranks before its own make of its bytes. So the tree that
 * tokenizer.json would be is made of it, and read as such. What the Python file knows beside that (how texts are cut,
 * names of tokens behind the last rank) is the row of the file's name. */
#include "formats/gguf_folder/vocab.h"

#include <stdlib.h>

#include "formats/json/json_walk.h"
#include "formats/tokenizer/pieces.h"
#include "formats/tokenizer/unicode.h"

#define MOST_BYTES 1024 /* of a token */

static const struct vocab_ranks {
    const char *file, *pre;
    bool counts;         /* a token's number is its line's, without those that came before; else the second word */
    const char *names;   /* of the tokens behind them, */
    const char *further; /* and, with a number behind, of `n` more: the token's own; counts: 0, 1, 2, ... */
    size_t n;
} files[] = {
    {"tiktoken.model", "kimi-k2", false, "", "<|reserved_token_", 258}, /* Kimi K2 */
    {"hy.tiktoken", "hunyuan", true, "<|endoftext|> <|startoftext|> <|bos|> <|eos|> <|pad|> ", "<|extra_",
     205}, /* A13B */
};

/* The letters of a token's bytes. */
static void put_letters(struct vc_text *to, const unsigned char *bytes, size_t n)
{
    char letter[4];

    to->n = 0;
    for (size_t i = 0; i < n; i++) {
        vc_text_add_bytes(to, letter, vc_utf8_put(vc_tok_byte_letter(bytes[i]), letter));
    }
}

/* "IHRoZQ== 275\n" at *at, which goes behind it. */
static enum vc_status take_line(struct vocab *v, const struct vocab_ranks *row, char **at, json_t *ranks)
{
    size_t n = strcspn(*at, "\n");
    char *end = *at + n + ((*at)[n] != '\0');
    char *word = *at + strcspn(*at, " \n");
    const unsigned char *bytes;
    VC_SCOPED_TEXT struct vc_text letters = {.ctx = v->ctx};

    (*at)[n] = '\0';
    if (n != 0) {
        VC_REFUSE_IF(word == *at || *word != ' ' || strspn(word + 1, "0123456789") == 0, v->ctx, VC_E_FORMAT,
                     "'%.40s' is no token with a rank", *at);
        *word = '\0';
        VC_CALL(vc_base64_decode(v->ctx, v->arena, *at, "a token", &bytes, &n));
        VC_REFUSE_IF(n == 0 || n > MOST_BYTES, v->ctx, VC_E_FORMAT, "a token has %zu bytes", n);
        put_letters(&letters, bytes, n);
        VC_CALL(letters.status);
        if (json_object_get(ranks, letters.data) == NULL || !row->counts) {
            json_int_t rank = row->counts ? (json_int_t)json_object_size(ranks) : strtoll(word + 1, NULL, 10);

            VC_CALL_ALLOC(json_object_set_new(ranks, letters.data, json_integer(rank)) == 0 ? ranks : NULL);
        }
    }
    *at = end;
    return VC_OK;
}

/* Where the two parts meet, tokens both, that ranks below `own` make of the letters; 0: they make more, or there is one. */
static size_t meeting(const json_t *ranks, const char *text, size_t n, json_int_t own)
{
    uint16_t at[MOST_BYTES + 1];
    size_t parts = 0;

    for (size_t i = 0; i < n; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) {
            at[parts++] = (uint16_t)i;
        }
    }
    at[parts] = (uint16_t)n;
    for (size_t where = 0; where != parts && parts > 2;) {
        json_int_t best = own;

        where = parts;
        for (size_t i = 0; i + 2 <= parts; i++) {
            const json_t *rank = json_object_getn(ranks, text + at[i], (size_t)(at[i + 2] - at[i]));

            if (rank != NULL && json_integer_value(rank) < best) {
                best = json_integer_value(rank);
                where = i;
            }
        }
        if (where != parts) {
            memmove(&at[where + 1], &at[where + 2], (parts - where - 1) * sizeof *at);
            parts--;
            where = 0;
        }
    }
    return parts == 2 && json_object_getn(ranks, text, at[1]) != NULL &&
                   json_object_getn(ranks, text + at[1], n - at[1]) != NULL
               ? at[1]
               : 0;
}

/* The list that tokenizer.json has, in the order of the ranks. */
static enum vc_status find_merges(struct vocab *v, json_t *ranks, json_t *merges)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct vocab_token *t = &v->tokens[i];
        size_t split = t->text != NULL ? meeting(ranks, t->text, t->n, (json_int_t)i) : 0;

        if (i % 1024 == 0) {
            VC_CALL(vc_check_cancelled(v->ctx));
        }
        if (split != 0) {
            json_t *merge = json_sprintf("%.*s %s", (int)split, t->text, t->text + split);

            VC_CALL_ALLOC(json_array_append_new(merges, merge) == 0 ? merges : NULL);
        }
    }
    return VC_OK;
}

/* Names of tokens behind the last rank: control tokens, unless a file says otherwise (vc_vocab_add comes later). */
static enum vc_status name_rest(struct vocab *v, const struct vocab_ranks *row, size_t first)
{
    const char *at = row->names;
    size_t named = 0;

    for (size_t i = first; i < v->n && (*at != '\0' || i < first + named + row->n); i++) {
        size_t n = strcspn(at, " ");
        const char *text =
            n != 0 ? vc_arena_copy(v->ctx, v->arena, at, n)
                   : vc_arena_printf(v->ctx, v->arena, "%s%zu|>", row->further, row->counts ? i - first - named : i);

        VC_CALL_ALLOC(text);
        VC_CALL(vc_vocab_set(v, i, text, strlen(text), VOCAB_CONTROL, 0));
        named += n != 0;
        at += n + (n != 0);
    }
    return VC_OK;
}

/* The file of row `row`, if the folder has it. */
static enum vc_status read_ranks(struct vocab *v, const struct vocab_ranks *row, bool *found)
{
    char *at;
    size_t first = 0;

    VC_CALL(vc_vocab_text(v, row->file, VOCAB_FILE, "list of tokens", &at));
    *found = at != NULL;
    if (!*found) {
        return VC_OK;
    }
    json_t *ranks = json_object();
    json_t *merges = json_array();
    v->tokenizer.root =
        json_pack("{s:{s:o, s:o}}", "model", "vocab", ranks, "merges", merges); /* freed with the files */
    VC_CALL_ALLOC(v->tokenizer.root);
    /* a token takes an entry of the object, a text and a number; a merge a text: some 300 bytes for a line of 15 */
    VC_CALL(vc_json_tree_count(v->ctx, 0, strlen(at), 20 * strlen(at), &v->tokenizer.counted));
    while (*at != '\0') {
        if (take_line(v, row, &at, ranks) != VC_OK) {
            return vc_context(v->ctx, "%s", row->file);
        }
    }
    v->pre = v->pre != NULL ? v->pre : row->pre;
    VC_CALL(vc_vocab_read_bytes(v));
    VC_CALL(find_merges(v, ranks, merges));
    for (size_t i = 0; i < v->n; i++) {
        first = v->tokens[i].text != NULL ? i + 1 : first;
    }
    return name_rest(v, row, first);
}

enum vc_status vc_vocab_read_ranks(struct vocab *v, bool *found)
{
    *found = false;
    for (size_t i = 0; i < sizeof files / sizeof files[0] && !*found; i++) {
        VC_CALL(read_ranks(v, &files[i], found));
    }
    return VC_OK;
}
