/* tok_added.c - added tokens: found in a text whatever is around them, the longest first. See tokenizer_parts.h.
 *
 *     "a <eos>b"     raw set: sought in the text as it is          "a "  <eos>  "b"
 *     "A <PAD> b"    normalized set: sought behind the normalizer   "a "  <pad>  " b" */
#include "formats/tokenizer/tokenizer_parts.h"

/* Puts a token into the set. Its text is normalized where the text is that it is sought in. */
static enum vc_status put(struct vc_ctx *ctx, struct vc_tokenizer *t, struct tok_added_set *set, struct tok_added token)
{
    t->text.n = t->other.n = 0;
    VC_CALL(vc_tok_put(ctx, &t->text, token.s, token.n, 0));
    if (token.normalized) {
        VC_CALL(vc_tok_normalize(ctx, t, t->text.s, t->text.at, t->text.n, &t->other));
        token.s = vc_arena_copy(ctx, &t->arena, t->other.n != 0 ? t->other.s : "", t->other.n);
        token.n = t->other.n;
        VC_CALL_ALLOC(token.s);
    }
    if (token.n == 0) {
        return VC_OK;
    }
    VC_CALL(VC_ARENA_GROW(ctx, &t->arena, set->items, set->capacity, set->n + 1));
    set->items[set->n] = token;
    return vc_tok_vocab_add(ctx, &t->arena, &set->texts, token.s, token.n, (uint32_t)set->n++, 0);
}

/* A special token is sought in the text as it is, others in the normalized one, unless the entry says otherwise. The
 * number of the model's own token with that text goes before the entry's. */
static enum vc_status read_one(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *entry, size_t number)
{
    struct tok_added token = {.single_word = vc_tok_flag(entry, "single_word", false),
                              .left = vc_tok_flag(entry, "lstrip", false),
                              .right = vc_tok_flag(entry, "rstrip", false)};

    token.normalized = vc_tok_flag(entry, "normalized", !vc_tok_flag(entry, "special", false));
    VC_CALL(vc_tok_text_of(ctx, t, entry, "content", &token.s, &token.n));
    token.id = vc_tok_number(json_object_get(entry, "id"));
    VC_REFUSE_IF(token.s == NULL || token.id == VC_NO_ID, ctx, VC_E_FORMAT, "added token %zu has no text, or no number",
                 number);
    const struct tok_entry *known = vc_tok_vocab_find(&t->model.vocab, token.s, token.n);
    token.id = known != NULL ? known->id : token.id;
    VC_CALL(vc_tok_vocab_add(ctx, &t->arena, &t->contents, token.s, token.n, token.id, 0));
    return put(ctx, t, token.normalized ? &t->normalized : &t->raw, token);
}

/* Sorted, so that vc_tok_next_prefix finds the longest. */
enum vc_status vc_tok_read_added(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        VC_CALL(read_one(ctx, t, json_array_get(list, i), i));
    }
    VC_CALL(vc_tok_vocab_sort(ctx, &t->raw.texts));
    return vc_tok_vocab_sort(ctx, &t->normalized.texts);
}

/* ------------------------------------------------------------------------------------------------ finding */

/* Letters, numbers and what joins them. */
static bool is_word(uint32_t c)
{
    return vc_unicode_is_alphanumeric(c) || c == 0x200c || c == 0x200d;
}

/* No letter is before `begin` and behind `end`. */
static bool stands_alone(const char *s, size_t n, size_t begin, size_t end)
{
    size_t bytes;

    return (begin == 0 || !is_word(vc_utf8_at(s + begin - vc_utf8_before(s, begin), &bytes))) &&
           (end == n || !is_word(vc_utf8_at(s + end, &bytes)));
}

/* The spaces before and behind, as far as the token takes them. */
static void take_spaces(const struct tok_added *token, const char *s, size_t n, size_t *begin, size_t *end)
{
    size_t bytes;

    while (token->left && *begin > 0 &&
           vc_unicode_is_space(vc_utf8_at(s + *begin - vc_utf8_before(s, *begin), &bytes))) {
        *begin -= bytes;
    }
    while (token->right && *end < n && vc_unicode_is_space(vc_utf8_at(s + *end, &bytes))) {
        *end += bytes;
    }
}

/* From left to right; a token that may not stand there is passed over, and so are all its bytes. */
enum vc_status vc_tok_cut_added(struct vc_ctx *ctx, struct vc_tokenizer *t, const void *by,
                                const struct tok_piece *word)
{
    const struct tok_added_set *set = by;
    const char *s = t->text.s + word->begin;
    size_t n = word->end - word->begin;
    size_t done = 0;

    for (size_t i = 0; set->n != 0 && i < n;) {
        struct tok_prefixes walk = vc_tok_prefixes(&set->texts, s + i);
        const struct tok_entry *entry;
        const struct tok_added *token = NULL;
        size_t begin = i;

        while ((entry = vc_tok_next_prefix(&set->texts, &walk, s + i, n - i)) != NULL) {
            token = &set->items[entry->id];
        }
        i += token != NULL ? token->n : 1;
        size_t end = i;
        if (token == NULL || (token->single_word && !stands_alone(s, n, begin, end))) {
            continue;
        }
        take_spaces(token, s, n, &begin, &end);
        begin = token->left && begin < done ? done : begin; /* else spaces that the last token took are taken again */
        VC_CALL(vc_tok_add_part(ctx, &t->text, word, done, begin, VC_NO_ID, &t->others));
        VC_CALL(vc_tok_add_part(ctx, &t->text, word, begin, end, token->id, &t->others));
        done = end;
    }
    return vc_tok_add_part(ctx, &t->text, word, done, n, VC_NO_ID, &t->others);
}
