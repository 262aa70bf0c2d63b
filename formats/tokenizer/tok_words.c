/* tok_words.c - the pre-tokenizers of tokenizer.json: a text becomes words. See tokenizer_parts.h.
 *
 *     "I'm  here"    Whitespace          "I"  "'"  "m"  "here"
 *                    WhitespaceSplit     "I'm"  "here"
 *                    ByteLevel           "I"  "'m"  " "  " here"     then each byte as a letter */
#include "formats/tokenizer/tokenizer_parts.h"

/* ------------------------------------------------------------------------------------------------ cutting */

/* The next part of a piece, [*begin, *end), which matches or does not. *end is where the part ends; a part that does
 * not match goes up to the next match. */
static enum vc_status next_part(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step, const char *s,
                                size_t n, size_t from, size_t *end, bool *matches)
{
    size_t begin = from;

    if (step->row->fits == NULL) {
        VC_CALL(vc_tok_find(ctx, t, step, s, n, from, &begin, end));
    } else {
        size_t bytes = 0;

        while (begin < n && !step->row->fits(vc_utf8_at(s + begin, &bytes))) {
            begin += bytes;
        }
        *end = begin < n ? begin + bytes : n;
    }
    *matches = (begin == from && begin < n) != step->inverted;
    *end = begin == from ? *end : begin;
    return VC_OK;
}

/* One piece by the rules of the library's SplitDelimiterBehavior. Of "a-b" with cuts at '-': Removed a, b; Isolated a,
 * -, b; MergedWithPrevious a-, b; MergedWithNext a, -b; Contiguous as Isolated, but matches that follow each other are
 * one. */
static enum vc_status cut_piece(struct vc_ctx *ctx, struct vc_tokenizer *t, const void *by,
                                const struct tok_piece *piece)
{
    const struct tok_step *step = by;
    enum tok_behavior behavior = step->behavior;
    const char *s = t->text.s + piece->begin;
    size_t n = piece->end - piece->begin;
    size_t open = 0; /* begin of the part that is not added yet */
    bool before = false;

    for (size_t at = 0; at < n;) {
        bool matches;
        size_t end;

        VC_CALL(next_part(ctx, t, step, s, n, at, &end, &matches));
        if (behavior == TOK_REMOVED || behavior == TOK_ISOLATED) {
            if (behavior == TOK_ISOLATED || !matches) {
                VC_CALL(vc_tok_add_part(ctx, &t->text, piece, at, end, VC_NO_ID, &t->others));
            }
            open = end;
        } else if ((behavior == TOK_CONTIGUOUS && matches != before) ||
                   (behavior == TOK_WITH_PREVIOUS && (!matches || before)) ||
                   (behavior == TOK_WITH_NEXT && (matches || !before))) {
            VC_CALL(vc_tok_add_part(ctx, &t->text, piece, open, at, VC_NO_ID, &t->others));
            open = at;
        }
        before = matches;
        at = end;
    }
    return vc_tok_add_part(ctx, &t->text, piece, open, n, VC_NO_ID, &t->others);
}

/* All pieces that are no tokens, by the step's pattern, or by what its row says of characters. */
static enum vc_status cut(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step)
{
    return vc_tok_cut_words(ctx, t, step, cut_piece);
}

/* ---- characters that cut ---- */

static bool is_number(uint32_t c)
{
    return vc_unicode_in(c, VC_NUMBERS);
}

/* Unicode's punctuation, and the symbols of ASCII that BERT counts to it. */
static bool is_punctuation(uint32_t c)
{
    return vc_unicode_in(c, VC_PUNCTUATION) || (c < 0x80 && c > 0 && strchr("$+<=>^`|~", (int)c) != NULL);
}

/* ------------------------------------------------------------------------------------------------ steps */

static enum vc_status read_behavior(struct vc_ctx *ctx, const json_t *part, struct tok_step *step)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *name = json_string_value(json_object_get(part, "behavior"));

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (name != NULL && strcmp(name, names[i]) == 0) {
            step->behavior = (enum tok_behavior)i;
            return VC_OK;
        }
    }
    return vc_fail(ctx, VC_E_UNSUPPORTED, "the behavior '%.60s' is not known", name != NULL ? name : "null");
}

/* `invert`: what matches are the words, not what is between them. */
static enum vc_status read_split(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part, struct tok_step *step)
{
    step->inverted = vc_tok_flag(part, "invert", false);
    VC_CALL(read_behavior(ctx, part, step));
    return vc_tok_read_sought(ctx, t, json_object_get(part, "pattern"), step);
}

/* \w of the crate regex, which the library takes for this: alphabetic, marks, decimal numbers, connectors, joiners. */
#define WORD                                                                                                       \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\u200c\\u200d\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}" \
    "\\x{1f170}-\\x{1f189}"

/* \w+|[^\w\s]+ */
static enum vc_status read_whitespace(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part,
                                      struct tok_step *step)
{
    step->inverted = true;
    return vc_pattern_compile(ctx, &t->arena, "[" WORD "]+|[^" WORD "\\s]+", &step->pattern);
}

/* At spaces, which go, and at punctuation, which stays. */
static enum vc_status bert_words(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step)
{
    static const struct tok_step_row row = {.fits = vc_unicode_is_space};
    static const struct tok_step at_spaces = {.row = &row, .behavior = TOK_REMOVED};

    VC_CALL(cut(ctx, t, &at_spaces));
    return cut(ctx, t, step);
}

static enum vc_status read_digits(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part, struct tok_step *step)
{
    step->behavior = vc_tok_flag(part, "individual_digits", false) ? TOK_ISOLATED : TOK_CONTIGUOUS;
    return VC_OK;
}

static enum vc_status read_punctuation(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part,
                                       struct tok_step *step)
{
    step->behavior = TOK_ISOLATED;
    return json_object_get(part, "behavior") != NULL ? read_behavior(ctx, part, step) : VC_OK;
}

/* One character. */
static enum vc_status read_delimiter(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part,
                                     struct tok_step *step)
{
    VC_CALL(vc_tok_text_of(ctx, t, part, "delimiter", &step->text, &step->n_text));
    VC_REFUSE_IF(step->n_text == 0, ctx, VC_E_FORMAT, "CharDelimiterSplit has no delimiter");
    (void)vc_utf8_at(step->text, &step->n_text);
    return VC_OK;
}

/* ---- steps that change the text, too ---- */

/* Into the new text. */
static enum vc_status copy_piece(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_piece *piece)
{
    return vc_tok_copy(ctx, &t->other, t->text.s + piece->begin, t->text.at + piece->begin, piece->end - piece->begin);
}

/* flags: a space in front; the pattern of GPT-2. */
static enum vc_status read_byte_level(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part,
                                      struct tok_step *step)
{
    step->flags[0] = vc_tok_flag(part, "add_prefix_space", true);
    step->flags[1] = vc_tok_flag(part, "use_regex", true);
    step->behavior = TOK_ISOLATED;
    return vc_pattern_compile(ctx, &t->arena,
                              "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
                              &step->pattern);
}

/* A space in front, unless there is one. */
static enum vc_status put_prefix(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                                 const struct tok_piece *piece)
{
    if (t->text.s[piece->begin] != ' ') {
        VC_CALL(vc_tok_put(ctx, &t->other, " ", 1, t->text.at[piece->begin]));
    }
    return copy_piece(ctx, t, piece);
}

/* GPT-2's alphabet. */
static enum vc_status put_letters(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                                  const struct tok_piece *piece)
{
    for (size_t i = piece->begin; i < piece->end; i++) {
        VC_CALL(vc_tok_put_char(ctx, &t->other, vc_tok_byte_letter((unsigned char)t->text.s[i]), t->text.at[i]));
    }
    return VC_OK;
}

/* In this order: spaces, cuts, letters, since the pattern is about characters. */
static enum vc_status byte_level(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step)
{
    if (step->flags[0]) {
        VC_CALL(vc_tok_change_words(ctx, t, step, put_prefix));
    }
    if (step->flags[1]) {
        VC_CALL(cut(ctx, t, step));
    }
    return vc_tok_change_words(ctx, t, step, put_letters);
}

/* flags: in front of every piece; of the first one; cut. `text` is what stands for a space. */
static enum vc_status read_metaspace(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part,
                                     struct tok_step *step)
{
    const char *scheme = json_string_value(json_object_get(part, "prepend_scheme"));

    step->behavior = TOK_WITH_NEXT;
    VC_CALL(vc_tok_text_of(ctx, t, part, "replacement", &step->text, &step->n_text));
    VC_REFUSE_IF(step->n_text == 0, ctx, VC_E_FORMAT, "Metaspace has no replacement");
    VC_REFUSE_IF(scheme != NULL && strcmp(scheme, "always") != 0 && strcmp(scheme, "first") != 0 &&
                     strcmp(scheme, "never") != 0,
                 ctx, VC_E_UNSUPPORTED, "the prepend_scheme '%.60s' of Metaspace is not known", scheme);
    step->flags[0] = scheme != NULL ? strcmp(scheme, "always") == 0 : vc_tok_flag(part, "add_prefix_space", true);
    step->flags[1] = scheme != NULL && strcmp(scheme, "first") == 0;
    step->flags[2] = vc_tok_flag(part, "split", true);
    return VC_OK;
}

/* Spaces become the replacement; one goes in front where the piece does not begin so. */
static enum vc_status put_metaspace(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                                    const struct tok_piece *piece)
{
    const char *s = t->text.s + piece->begin;
    size_t n = piece->end - piece->begin;
    bool begins = s[0] == ' ' || (n >= step->n_text && memcmp(s, step->text, step->n_text) == 0);

    if (!begins && (step->flags[0] || (step->flags[1] && piece->at == 0))) {
        VC_CALL(vc_tok_put(ctx, &t->other, step->text, step->n_text, t->text.at[piece->begin]));
    }
    for (size_t i = piece->begin; i < piece->end; i++) {
        bool space = t->text.s[i] == ' ';

        VC_CALL(
            vc_tok_put(ctx, &t->other, space ? step->text : t->text.s + i, space ? step->n_text : 1, t->text.at[i]));
    }
    return VC_OK;
}

/* A word begins with its space. */
static enum vc_status metaspace(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step)
{
    VC_CALL(vc_tok_change_words(ctx, t, step, put_metaspace));
    return step->flags[2] ? cut(ctx, t, step) : VC_OK;
}

/* ------------------------------------------------------------------------------------------------ the table */

/* Steps by the name of their "type". */
static const struct tok_step_row rows[] = {
    {.type = "ByteLevel", .read = read_byte_level, .cut = byte_level},
    {.type = "Split", .read = read_split, .cut = cut},
    {.type = "Whitespace", .read = read_whitespace, .cut = cut},
    {.type = "WhitespaceSplit", .cut = cut, .fits = vc_unicode_is_space},
    {.type = "BertPreTokenizer", .read = read_punctuation, .cut = bert_words, .fits = is_punctuation},
    {.type = "Metaspace", .read = read_metaspace, .cut = metaspace},
    {.type = "Digits", .read = read_digits, .cut = cut, .fits = is_number},
    {.type = "Punctuation", .read = read_punctuation, .cut = cut, .fits = is_punctuation},
    {.type = "CharDelimiterSplit", .read = read_delimiter, .cut = cut},
};

enum vc_status vc_tok_read_words(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part)
{
    return vc_tok_read_steps(ctx, t, part, "pretokenizers", "pre-tokenizer", rows, sizeof rows / sizeof rows[0],
                             &t->words);
}

enum vc_status vc_tok_make_words(struct vc_ctx *ctx, struct vc_tokenizer *t)
{
    for (size_t i = 0; i < t->words.n; i++) {
        VC_CALL(t->words.items[i].row->cut(ctx, t, &t->words.items[i]));
    }
    return VC_OK;
}
