/* tok_words.c - the pre-tokenizers of tokenizer.json: a text becomes words. See tokenizer_parts.h.
 *
 *     "I'm  here"    Whitespace          "I"  "'"  "m"  "here"
 *                    WhitespaceSplit     "I'm"  "here"
 *                    ByteLevel           "I"  "'m"  " "  " here"     then each byte as a letter */
#include "formats/tokenizer/tokenizer_parts.h"

/* What cuts: tells the first match in s[from .. n) as vc_tok_find does. */
struct cutter {
    struct vc_tokenizer *t;
    const struct tok_step *step;
    bool (*fits)(const struct cutter *cutter, uint32_t c); /* a character that cuts; NULL: the step's pattern does */
    uint32_t categories, c;
    bool inverted; /* what does not match does */
};

/* ------------------------------------------------------------------------------------------------ cutting */

/* The next part of a piece, [*begin, *end), which matches or does not. *end is where the part ends; a part that does
 * not match goes up to the next match. */
static enum vc_status next_part(struct vc_ctx *ctx, const struct cutter *cutter, const char *s, size_t n, size_t from,
                                size_t *end, bool *matches)
{
    size_t begin = from;

    if (cutter->fits == NULL) {
        VC_CALL(vc_tok_find(ctx, cutter->t, cutter->step, s, n, from, &begin, end));
    } else {
        size_t bytes = 0;

        while (begin < n && !cutter->fits(cutter, vc_utf8_at(s + begin, &bytes))) {
            begin += bytes;
        }
        *end = begin < n ? begin + bytes : n;
    }
    *matches = (begin == from && begin < n) != cutter->inverted;
    *end = begin == from ? *end : begin;
    return VC_OK;
}

/* Adds [begin, end) of a piece of the text. */
static enum vc_status add_part(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_piece *piece, size_t begin,
                               size_t end)
{
    struct tok_piece part = {
        .begin = (uint32_t)(piece->begin + begin), .end = (uint32_t)(piece->begin + end), .id = VC_NO_ID};

    if (begin == end) {
        return VC_OK;
    }
    part.at = begin == 0 ? piece->at : t->text.at[part.begin];
    return vc_tok_add_piece(ctx, &t->others, part);
}

/* One piece by the rules of the library's SplitDelimiterBehavior. Of "a-b" with cuts at '-': Removed a, b; Isolated a,
 * -, b; MergedWithPrevious a-, b; MergedWithNext a, -b; Contiguous as Isolated, but matches that follow each other are
 * one. */
static enum vc_status cut_piece(struct vc_ctx *ctx, const struct cutter *cutter, const struct tok_piece *piece,
                                enum tok_behavior behavior)
{
    struct vc_tokenizer *t = cutter->t;
    const char *s = t->text.s + piece->begin;
    size_t n = piece->end - piece->begin;
    size_t open = 0; /* begin of the part that is not added yet */
    bool before = false;

    for (size_t at = 0; at < n;) {
        bool matches;
        size_t end;

        VC_CALL(next_part(ctx, cutter, s, n, at, &end, &matches));
        if (behavior == TOK_REMOVED || behavior == TOK_ISOLATED) {
            if (behavior == TOK_ISOLATED || !matches) {
                VC_CALL(add_part(ctx, t, piece, at, end));
            }
            open = end;
        } else if ((behavior == TOK_CONTIGUOUS && matches != before) ||
                   (behavior == TOK_WITH_PREVIOUS && (!matches || before)) ||
                   (behavior == TOK_WITH_NEXT && (matches || !before))) {
            VC_CALL(add_part(ctx, t, piece, open, at));
            open = at;
        }
        before = matches;
        at = end;
    }
    return add_part(ctx, t, piece, open, n);
}

/* The new list becomes the list. */
static void swap_pieces(struct vc_tokenizer *t)
{
    struct tok_pieces pieces = t->pieces;

    t->pieces = t->others;
    t->others = pieces;
}

/* All pieces that are no tokens. */
static enum vc_status cut_all(struct vc_ctx *ctx, const struct cutter *cutter, enum tok_behavior behavior)
{
    struct vc_tokenizer *t = cutter->t;

    t->others.n = 0;
    for (size_t i = 0; i < t->pieces.n; i++) {
        const struct tok_piece piece = t->pieces.items[i];

        if (piece.id != VC_NO_ID) {
            VC_CALL(vc_tok_add_piece(ctx, &t->others, piece));
        } else {
            VC_CALL(cut_piece(ctx, cutter, &piece, behavior));
        }
    }
    swap_pieces(t);
    return VC_OK;
}

/* ---- who cuts ---- */

static bool is_space(const struct cutter *cutter, uint32_t c)
{
    return vc_unicode_is_space(c);
}

static bool is_in(const struct cutter *cutter, uint32_t c)
{
    return vc_unicode_in(c, cutter->categories);
}

/* Unicode's punctuation, and the symbols of ASCII that BERT counts to it. */
static bool is_punctuation(const struct cutter *cutter, uint32_t c)
{
    return vc_unicode_in(c, VC_PUNCTUATION) || (c < 0x80 && c > 0 && strchr("$+<=>^`|~", (int)c) != NULL);
}

static bool is_it(const struct cutter *cutter, uint32_t c)
{
    return c == cutter->c;
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
    step->flags[0] = vc_tok_flag(part, "invert", false);
    VC_CALL(read_behavior(ctx, part, step));
    return vc_tok_read_sought(ctx, t, json_object_get(part, "pattern"), step);
}

static enum vc_status split(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step)
{
    struct cutter cutter = {.t = t, .step = step, .inverted = step->flags[0]};

    return cut_all(ctx, &cutter, step->behavior);
}

/* \w of the crate regex, which the library takes for this: alphabetic, marks, decimal numbers, connectors, joiners. */
#define WORD                                                                                                       \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\u200c\\u200d\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}" \
    "\\x{1f170}-\\x{1f189}"

/* \w+|[^\w\s]+ */
static enum vc_status read_whitespace(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part,
                                      struct tok_step *step)
{
    step->flags[0] = true;
    step->behavior = TOK_REMOVED;
    return vc_pattern_compile(ctx, &t->arena, "[" WORD "]+|[^" WORD "\\s]+", &step->pattern);
}

static enum vc_status whitespace_split(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step)
{
    struct cutter cutter = {.t = t, .step = step, .fits = is_space};

    return cut_all(ctx, &cutter, TOK_REMOVED);
}

/* At spaces, which go, and at punctuation, which stays. */
static enum vc_status bert_words(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step)
{
    struct cutter cutter = {.t = t, .step = step, .fits = is_punctuation};

    VC_CALL(whitespace_split(ctx, t, step));
    return cut_all(ctx, &cutter, TOK_ISOLATED);
}

static enum vc_status read_digits(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part, struct tok_step *step)
{
    step->behavior = vc_tok_flag(part, "individual_digits", false) ? TOK_ISOLATED : TOK_CONTIGUOUS;
    return VC_OK;
}

static enum vc_status digits(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step)
{
    struct cutter cutter = {.t = t, .step = step, .fits = is_in, .categories = VC_NUMBERS};

    return cut_all(ctx, &cutter, step->behavior);
}

static enum vc_status read_punctuation(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part,
                                       struct tok_step *step)
{
    step->behavior = TOK_ISOLATED;
    return json_object_get(part, "behavior") != NULL ? read_behavior(ctx, part, step) : VC_OK;
}

static enum vc_status punctuation(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step)
{
    struct cutter cutter = {.t = t, .step = step, .fits = is_punctuation};

    return cut_all(ctx, &cutter, step->behavior);
}

/* One character. */
static enum vc_status read_delimiter(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part,
                                     struct tok_step *step)
{
    VC_CALL(vc_tok_text_of(ctx, t, part, "delimiter", &step->text, &step->n_text));
    VC_REFUSE_IF(step->n_text == 0, ctx, VC_E_FORMAT, "CharDelimiterSplit has no delimiter");
    return VC_OK;
}

static enum vc_status delimiter(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step)
{
    size_t bytes;
    struct cutter cutter = {.t = t, .step = step, .fits = is_it, .c = vc_utf8_at(step->text, &bytes)};

    return cut_all(ctx, &cutter, TOK_REMOVED);
}

/* ---- steps that change the text, too ---- */

/* Makes a new text of all words by `change`, then cuts it. */
static enum vc_status change_all(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                                 enum vc_status (*change)(struct vc_ctx *ctx, struct vc_tokenizer *t,
                                                          const struct tok_step *step, const struct tok_piece *piece))
{
    struct tok_text text;

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
    text = t->text;
    t->text = t->other;
    t->other = text;
    return VC_OK;
}

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
    struct cutter cutter = {.t = t, .step = step};

    if (step->flags[0]) {
        VC_CALL(change_all(ctx, t, step, put_prefix));
    }
    if (step->flags[1]) {
        VC_CALL(cut_all(ctx, &cutter, TOK_ISOLATED));
    }
    return change_all(ctx, t, step, put_letters);
}

/* flags: in front of every piece; of the first one; cut. `text` is what stands for a space. */
static enum vc_status read_metaspace(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part,
                                     struct tok_step *step)
{
    const char *scheme = json_string_value(json_object_get(part, "prepend_scheme"));

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
    struct cutter cutter = {.t = t, .step = step};

    VC_CALL(change_all(ctx, t, step, put_metaspace));
    return step->flags[2] ? cut_all(ctx, &cutter, TOK_WITH_NEXT) : VC_OK;
}

/* ------------------------------------------------------------------------------------------------ the table */

/* Steps by the name of their "type". */
static const struct tok_step_row rows[] = {
    {.type = "ByteLevel", .read = read_byte_level, .cut = byte_level},
    {.type = "Split", .read = read_split, .cut = split},
    {.type = "Whitespace", .read = read_whitespace, .cut = split},
    {.type = "WhitespaceSplit", .cut = whitespace_split},
    {.type = "BertPreTokenizer", .cut = bert_words},
    {.type = "Metaspace", .read = read_metaspace, .cut = metaspace},
    {.type = "Digits", .read = read_digits, .cut = digits},
    {.type = "Punctuation", .read = read_punctuation, .cut = punctuation},
    {.type = "CharDelimiterSplit", .read = read_delimiter, .cut = delimiter},
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
