/* tok_normalize.c - the normalizers of tokenizer.json, and SentencePiece's. See tokenizer_parts.h.
 *
 *     each step makes a new text of the one before; a character keeps the place of the byte that it comes from
 *
 *     NFD, NFC, NFKD, NFKC    normal_form          Lowercase, Nmt, Strip, StripAccents    by character
 *     Prepend, Replace        texts in texts       BertNormalizer                         several of these
 *     Precompiled             SentencePiece's table */

#include "formats/tokenizer/tokenizer_parts.h"

/* The character at place i of a text; i moves behind it. */
static uint32_t take(const struct tok_text *text, size_t *i)
{
    size_t n;
    uint32_t c = vc_utf8_at(text->s + *i, &n);

    *i += n;
    return c;
}

/* ------------------------------------------------------------------------------------------------ normal forms */

/* A character of a decomposed text. order: its place, for marks of equal classes. */
struct letter {
    uint32_t c, at, order;
    uint32_t mark_class;
};

/* Stable: marks of one class stay in their order. */
static int by_class(const void *a, const void *b)
{
    const struct letter *x = a;
    const struct letter *y = b;

    return VC_FIRST_ORDER(VC_ORDER(x->mark_class, y->mark_class), VC_ORDER(x->order, y->order));
}

/* Marks behind a letter, in the order of their classes. */
static void order_marks(struct letter *letters, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;

        if (letters[i].mark_class != 0) {
            while (end < n && letters[end].mark_class != 0) {
                end++;
            }
            qsort(&letters[i], end - i, sizeof *letters, by_class);
        }
        i = end;
    }
}

/* Letters and marks that are one character become it; returns how many are left. */
static size_t compose(struct letter *letters, size_t n)
{
    size_t kept = 0;
    size_t starter = SIZE_MAX;

    for (size_t i = 0; i < n; i++) {
        struct letter letter = letters[i];
        bool next = starter != SIZE_MAX && kept == starter + 1;
        bool blocked = starter == SIZE_MAX || (!next && letters[kept - 1].mark_class >= letter.mark_class);
        uint32_t both = blocked ? 0 : vc_unicode_compose(letters[starter].c, letter.c);

        if (both != 0) {
            letters[starter].c = both;
            continue;
        }
        starter = letter.mark_class == 0 ? kept : starter;
        letters[kept++] = letter;
    }
    return kept;
}

/* All characters taken apart, marks put in order, and for NFC and NFKC put together again. */
static enum vc_status normal_form(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                                  const struct tok_text *from, struct tok_text *to)
{
    VC_SCOPED struct letter *letters = NULL;
    size_t n = 0;
    size_t capacity = 0;

    for (size_t i = 0; i < from->n;) {
        uint32_t parts[VC_MOST_DECOMPOSED];
        uint32_t at = from->at[i];
        size_t more = vc_unicode_decompose(take(from, &i), step->flags[0], parts);

        VC_CALL(VC_GROW(ctx, VC_TAG_SCRATCH, letters, capacity, n + more));
        for (size_t k = 0; k < more; k++, n++) {
            letters[n] = (struct letter){parts[k], at, (uint32_t)n, vc_unicode_class(parts[k])};
        }
    }
    order_marks(letters, n);
    n = step->flags[1] ? compose(letters, n) : n;
    for (size_t i = 0; i < n; i++) {
        VC_CALL(vc_tok_put_char(ctx, to, letters[i].c, letters[i].at));
    }
    return VC_OK;
}

/* flags: compatibility, composed. */
static enum vc_status read_form(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part, struct tok_step *step)
{
    const char *type = json_string_value(json_object_get(part, "type"));

    step->flags[0] = type[2] == 'K';
    step->flags[1] = type[strlen(type) - 1] == 'C';
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ characters */

/* The capital I with a dot becomes two characters. */
static enum vc_status put_lower(struct vc_ctx *ctx, struct tok_text *to, uint32_t c, uint32_t at)
{
    if (c == 0x130) {
        VC_CALL(vc_tok_put_char(ctx, to, 'i', at));
        return vc_tok_put_char(ctx, to, 0x307, at);
    }
    return vc_tok_put_char(ctx, to, vc_unicode_lower(c), at);
}

static enum vc_status lowercase(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                                const struct tok_text *from, struct tok_text *to)
{
    for (size_t i = 0; i < from->n;) {
        uint32_t at = from->at[i];

        VC_CALL(put_lower(ctx, to, take(from, &i), at));
    }
    return VC_OK;
}

/* All but the characters of these categories. */
static enum vc_status leave_out(struct vc_ctx *ctx, const struct tok_text *from, uint32_t categories,
                                struct tok_text *to)
{
    for (size_t i = 0; i < from->n;) {
        size_t begin = i;

        if (!vc_unicode_in(take(from, &i), categories)) {
            VC_CALL(vc_tok_copy(ctx, to, from->s + begin, from->at + begin, i - begin));
        }
    }
    return VC_OK;
}

/* Marks of a text that was decomposed before. */
static enum vc_status strip_accents(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                                    const struct tok_text *from, struct tok_text *to)
{
    return leave_out(ctx, from, VC_MARKS, to);
}

static enum vc_status read_strip(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part, struct tok_step *step)
{
    step->flags[0] = vc_tok_flag(part, "strip_left", true);
    step->flags[1] = vc_tok_flag(part, "strip_right", true);
    return VC_OK;
}

/* Spaces at either end. */
static enum vc_status strip(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                            const struct tok_text *from, struct tok_text *to)
{
    size_t begin = 0;
    size_t end = from->n;

    for (size_t i = 0; step->flags[0] && i < from->n && vc_unicode_is_space(take(from, &i));) {
        begin = i;
    }
    while (step->flags[1] && end > begin) {
        size_t i = end - vc_utf8_before(from->s, end);
        size_t at = i;

        if (!vc_unicode_is_space(take(from, &i))) {
            break;
        }
        end = at;
    }
    return vc_tok_copy(ctx, to, from->s + begin, from->at + begin, end - begin);
}

/* Control characters of SentencePiece's nmt rules go, and odd spaces become ' '. */
static enum vc_status nmt(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                          const struct tok_text *from, struct tok_text *to)
{
    for (size_t i = 0; i < from->n;) {
        uint32_t at = from->at[i];
        uint32_t c = take(from, &i);
        bool gone = (c >= 1 && c <= 8) || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
        bool space = c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                     c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;

        if (!gone) {
            VC_CALL(vc_tok_put_char(ctx, to, space ? ' ' : c, at));
        }
    }
    return VC_OK;
}

/* Each byte becomes a letter that can be seen: GPT-2's alphabet. */
static enum vc_status byte_letters(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                                   const struct tok_text *from, struct tok_text *to)
{
    for (size_t i = 0; i < from->n; i++) {
        VC_CALL(vc_tok_put_char(ctx, to, vc_tok_byte_letter((unsigned char)from->s[i]), from->at[i]));
    }
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ texts in texts */

static enum vc_status read_prepend(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part,
                                   struct tok_step *step)
{
    VC_CALL(vc_tok_text_of(ctx, t, part, "prepend", &step->content, &step->n_content));
    VC_REFUSE_IF(step->content == NULL, ctx, VC_E_FORMAT, "Prepend has no text");
    return VC_OK;
}

/* Not to an empty text. */
static enum vc_status prepend(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                              const struct tok_text *from, struct tok_text *to)
{
    if (from->n != 0) {
        VC_CALL(vc_tok_put(ctx, to, step->content, step->n_content, from->at[0]));
    }
    return vc_tok_copy(ctx, to, from->s, from->at, from->n);
}

static enum vc_status read_replace(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part,
                                   struct tok_step *step)
{
    VC_CALL(vc_tok_read_sought(ctx, t, json_object_get(part, "pattern"), step));
    VC_CALL(vc_tok_text_of(ctx, t, part, "content", &step->content, &step->n_content));
    VC_REFUSE_IF(step->content == NULL, ctx, VC_E_FORMAT, "Replace has no content");
    return VC_OK;
}

/* Each match, in order; what is put there has the place where the match began. */
static enum vc_status replace(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                              const struct tok_text *from, struct tok_text *to)
{
    size_t done = 0;

    while (done < from->n) {
        size_t begin, end;

        VC_CALL(vc_tok_find(ctx, t, step, from->s, from->n, done, &begin, &end));
        VC_CALL(vc_tok_copy(ctx, to, from->s + done, from->at + done, begin - done));
        if (begin < from->n) {
            VC_CALL(vc_tok_put(ctx, to, step->content, step->n_content, from->at[begin]));
        }
        done = end;
    }
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ BERT */

/* The ranges of BERT's own code. */
static bool is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* Flags of the step. */
enum { CLEAN, CHINESE, ACCENTS, LOWER };

static enum vc_status read_bert(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part, struct tok_step *step)
{
    step->flags[CLEAN] = vc_tok_flag(part, "clean_text", true);
    step->flags[CHINESE] = vc_tok_flag(part, "handle_chinese_chars", true);
    step->flags[LOWER] = vc_tok_flag(part, "lowercase", true);
    step->flags[ACCENTS] = vc_tok_flag(part, "strip_accents", step->flags[LOWER]);
    return VC_OK;
}

/* One character, cleaned and with spaces around it where it is Chinese. */
static enum vc_status clean(struct vc_ctx *ctx, const struct tok_step *step, uint32_t c, uint32_t at,
                            struct tok_text *to)
{
    bool is_line = c == '\t' || c == '\n' || c == '\r';

    if (step->flags[CLEAN]) {
        if (c == 0 || c == 0xfffd || (!is_line && vc_unicode_in(c, VC_OF(VC_CC) | VC_OF(VC_CF) | VC_OF(VC_CO)))) {
            return VC_OK;
        }
        c = is_line || vc_unicode_is_space(c) ? ' ' : c;
    }
    size_t n_space = step->flags[CHINESE] && is_chinese(c) ? 1 : 0;
    VC_CALL(vc_tok_put(ctx, to, " ", n_space, at));
    VC_CALL(vc_tok_put_char(ctx, to, c, at));
    return vc_tok_put(ctx, to, " ", n_space, at);
}

/* Cleaned first; accents are marks of the decomposed text. */
static enum vc_status bert(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                           const struct tok_text *from, struct tok_text *to)
{
    static const struct tok_step decompose = {.row = NULL};
    struct tok_text a = {.n = 0};
    struct tok_text b = {.n = 0};
    enum vc_status status = VC_OK;

    for (size_t i = 0; i < from->n;) {
        uint32_t at = from->at[i];

        VC_TRY(clean(ctx, step, take(from, &i), at, &a));
    }
    if (step->flags[ACCENTS]) {
        VC_TRY(normal_form(ctx, t, &decompose, &a, &b));
        a.n = 0;
        VC_TRY(leave_out(ctx, &b, VC_OF(VC_MN), &a));
    }
    status = step->flags[LOWER] ? lowercase(ctx, t, step, &a, to) : vc_tok_copy(ctx, to, a.s, a.at, a.n);
out:
    vc_tok_release(ctx, &a);
    vc_tok_release(ctx, &b);
    return status;
}

/* ------------------------------------------------------------------------------------------------ precompiled */

/* SentencePiece's table. */
static enum vc_status read_precompiled(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part,
                                       struct tok_step *step)
{
    const char *text;
    const unsigned char *bytes;
    size_t n;

    VC_CALL(vc_tok_text_of(ctx, t, part, "precompiled_charsmap", &text, &n));
    if (text == NULL) {
        return VC_OK;
    }
    VC_CALL(vc_base64_decode(ctx, &t->arena, text, "precompiled_charsmap", &bytes, &n));
    return vc_charsmap_open(ctx, bytes, n, &step->charsmap);
}

#define CONTROLS (VC_OF(VC_CC) | VC_OF(VC_CF) | VC_OF(VC_ZL) | VC_OF(VC_ZP))

/* The bytes that one cluster has, as far as short ones need: a character with what stays behind it. */
static size_t cluster_bytes(const char *s, size_t n)
{
    size_t at;
    uint32_t c = vc_utf8_at(s, &at);
    unsigned kind = vc_unicode_flags(c);
    bool joins = (kind & VC_STAYS_BEFORE) != 0;

    if (c == '\r' && at < n && s[at] == '\n') {
        return 2;
    }
    if (kind == 0 && vc_unicode_in(c, CONTROLS)) {
        return at;
    }
    while (at < n) {
        size_t bytes;
        uint32_t next = vc_utf8_at(s + at, &bytes);
        unsigned flags = vc_unicode_flags(next);

        if ((flags & VC_STAYS_BEHIND) == 0 && (!joins || (flags == 0 && vc_unicode_in(next, CONTROLS)))) {
            break;
        }
        joins = (flags & VC_STAYS_BEHIND) == 0 && (flags & VC_STAYS_BEFORE) != 0;
        at += bytes;
    }
    return at;
}

/* As the library does it: a short cluster that begins with a key is replaced as a whole, other ones character by
 * character. */
static enum vc_status precompiled(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                                  const struct tok_text *from, struct tok_text *to)
{
    for (size_t i = 0; i < from->n;) {
        size_t cluster = cluster_bytes(from->s + i, from->n - i);
        size_t used;
        const char *other = cluster < 6 ? vc_charsmap_find(&step->charsmap, from->s + i, cluster, false, &used) : NULL;

        if (other != NULL) { /* the whole cluster, however short the key is */
            VC_CALL(vc_tok_put(ctx, to, other, strlen(other), from->at[i]));
            i += cluster;
            continue;
        }
        for (size_t end = i + cluster; i < end;) {
            size_t begin = i;

            (void)take(from, &i);
            other = vc_charsmap_find(&step->charsmap, from->s + begin, i - begin, false, &used);
            if (other != NULL) {
                VC_CALL(vc_tok_put(ctx, to, other, strlen(other), from->at[begin]));
            } else {
                VC_CALL(vc_tok_copy(ctx, to, from->s + begin, from->at + begin, i - begin));
            }
        }
    }
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ the table */

static const struct tok_step_row rows[] = {
    {.type = "NFC", .read = read_form, .normalize = normal_form, .in_turn = true},
    {.type = "NFD", .read = read_form, .normalize = normal_form, .in_turn = true},
    {.type = "NFKC", .read = read_form, .normalize = normal_form, .in_turn = true},
    {.type = "NFKD", .read = read_form, .normalize = normal_form, .in_turn = true},
    {.type = "Lowercase", .normalize = lowercase},
    {.type = "StripAccents", .normalize = strip_accents},
    {.type = "Strip", .read = read_strip, .normalize = strip},
    {.type = "Nmt", .normalize = nmt},
    {.type = "ByteLevel", .normalize = byte_letters},
    {.type = "Prepend", .read = read_prepend, .normalize = prepend},
    {.type = "Replace", .read = read_replace, .normalize = replace},
    {.type = "BertNormalizer", .read = read_bert, .normalize = bert},
    {.type = "Precompiled", .read = read_precompiled, .normalize = precompiled, .in_turn = true},
};

enum vc_status vc_tok_read_normalizers(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part)
{
    return vc_tok_read_steps(ctx, t, part, "normalizers", "normalizer", rows, sizeof rows / sizeof rows[0],
                             &t->normalizers);
}

enum vc_status vc_tok_normalize(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, const uint32_t *at, size_t n,
                                struct tok_text *to)
{
    struct tok_text a = {.n = 0};
    struct tok_text b = {.n = 0};
    enum vc_status status = VC_OK;

    if (t->normalizers.n == 0) {
        return vc_tok_copy(ctx, to, s, at, n);
    }
    VC_TRY(vc_tok_copy(ctx, &a, s, at, n));
    for (size_t i = 0; i < t->normalizers.n; i++) {
        const struct tok_step *step = &t->normalizers.items[i];
        struct tok_text before = a;

        b.n = 0;
        VC_TRY(step->row->normalize(ctx, t, step, &before, &b));
        for (size_t k = 0; step->row->in_turn && k < b.n && (k == 0 || (b.s[k] & 0xc0) == 0x80); k++) {
            b.at[k] = before.at[0];
        }
        a = b;
        b = before;
    }
    status = vc_tok_copy(ctx, to, a.s, a.at, a.n);
out:
    vc_tok_release(ctx, &a);
    vc_tok_release(ctx, &b);
    return status;
}

/* ------------------------------------------------------------------------------------------------ SentencePiece */

/* What the text begins with, changed: *n bytes of the result, *used of the text. */
static const char *changed(const struct vc_tokenizer *t, const struct vc_charsmap *map, const char *s, size_t room,
                           size_t *n, size_t *used)
{
    struct tok_prefixes walk = vc_tok_prefixes(&t->model.symbols, s);
    const struct tok_entry *symbol;

    *n = 0;
    while ((symbol = vc_tok_next_prefix(&t->model.symbols, &walk, s, room)) != NULL) {
        *n = symbol->n;
    }
    if (*n != 0) {
        *used = *n;
        return s;
    }
    const char *other = vc_charsmap_find(map, s, room, true, used);
    if (other != NULL) {
        *n = strlen(other);
        return other;
    }
    (void)vc_utf8_at(s, n);
    *used = *n;
    return s;
}

/* Where spaces are joined, those at both ends go. What goes in front stands only before a text of which something is left. */
enum vc_status vc_tok_normalize_pieces(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, size_t n,
                                       struct tok_text *to)
{
    const struct vc_piece_rules *rules = &t->rules;
    const char *space = rules->escapes_spaces ? "\xe2\x96\x81" : " ";
    size_t n_space = strlen(space);
    bool behind_space = rules->joins_spaces;
    bool began = false;
    struct vc_charsmap map;
    size_t more, used;

    VC_CALL(vc_charsmap_open(ctx, rules->charsmap, rules->n_charsmap, &map));
    for (size_t i = 0; i < n; i += used) {
        const char *text = changed(t, &map, s + i, n - i, &more, &used);

        if (!began && (!rules->joins_spaces || more != 1 || text[0] != ' ')) {
            began = true;
            VC_CALL(vc_tok_put(ctx, to, space, rules->space_prefix && !rules->space_behind ? n_space : 0, 0));
        }
        while (behind_space && more != 0 && text[0] == ' ') {
            text++;
            more--;
        }
        for (size_t k = 0; k < more; k++) {
            bool blank = text[k] == ' ';
            uint32_t at = (uint32_t)(i + (text >= s && text < s + n ? k : 0));

            VC_CALL(vc_tok_put(ctx, to, blank ? space : text + k, blank ? n_space : 1, at));
        }
        behind_space = (more != 0 ? text[more - 1] == ' ' : behind_space) && rules->joins_spaces;
    }
    while (rules->joins_spaces && to->n >= n_space && memcmp(to->s + to->n - n_space, space, n_space) == 0) {
        to->n -= n_space;
    }
    return vc_tok_put(ctx, to, space, began && rules->space_prefix && rules->space_behind ? n_space : 0, (uint32_t)n);
}
