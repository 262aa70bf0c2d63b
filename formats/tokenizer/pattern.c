/* pattern.c - see pattern.h. An expression becomes a list of instructions:
 *
 *     a(?:b|c)+?     0 SET a   1 SPLIT 2 4   2 SET b   3 JUMP 5   4 SET c   5 SPLIT 6 1   6 MATCH
 *
 * Each SPLIT goes on at the first number and remembers the second; a failure goes back to what was remembered last.
 *
 * Three parts: sets, which characters fit one place; compiling, by recursive descent; running, with a stack of frames
 * in memory of its own, so that long texts take no stack of the program. */
#include "formats/tokenizer/pattern.h"

#include "core/base/array.h"
#include "formats/tokenizer/unicode.h"

/* Limits of an expression, far above those of tokenizers, so that a broken file takes no memory and no time. */
#define MOST_CODE   20000
#define MOST_DEPTH  100 /* of groups in groups */
#define MOST_REPEAT 1000
#define NO_LIMIT    UINT32_MAX
#define MOST_STEPS  ((uint64_t)1 << 31) /* of one search */

/* Instructions; a, b and c are those of struct code. */
enum op {
    OP_SET,       /* a: number of the set */
    OP_RUN,       /* a: the set; b: at least; c: at most. Greedy */
    OP_RUN_WHOLE, /* the same, and none of it is given back */
    OP_SPLIT,     /* a first, b later */
    OP_JUMP,      /* a */
    OP_AHEAD,     /* what follows up to its MATCH fits here; b: goes on at a; c: does not fit */
    OP_BEHIND,    /* a: the set of the character before; c: it is not */
    OP_WHOLE,     /* what follows up to its MATCH, of which nothing is tried again; goes on at a */
    OP_BEGIN,     /* of the text; b: or of a line */
    OP_END,       /* of the text; b: or before a line end */
    OP_MATCH
};

/* One instruction. */
struct code {
    enum op op;
    uint32_t a, b, c;
};

/* What an entry of a class may be. */
enum item_kind { ITEM_RANGE, ITEM_CATEGORIES, ITEM_SPACE, ITEM_WORD, ITEM_HAN, ITEM_SET, ITEM_HEX };

/* One entry of a class. */
struct item {
    enum item_kind kind;
    bool negated;
    uint32_t low, high; /* RANGE; CATEGORIES and SET: low */
};

/* A class, or a single character: what fits one place of the text. ASCII is looked up, the rest is compared. */
struct set {
    bool negated, any_case;
    uint32_t also;     /* another set that has to fit, too, and 1; 0: none */
    size_t first, n;   /* items */
    uint64_t ascii[2]; /* what of ASCII fits */
};

/* All of it lies in the arena. */
struct vc_pattern {
    struct code *code;
    struct set *sets;
    struct item *items;
    size_t n_code, n_sets, n_items, code_capacity, set_capacity, item_capacity;
};

/* Where to go on after a failure. */
struct vc_pattern_frame {
    uint32_t at;         /* the instruction to go on with */
    size_t place, least; /* least < place: a run, that gives back one character at a time */
};

/* ------------------------------------------------------------------------------------------------ sets */

/* Oniguruma's \w: what is alphabetic, marks, decimal numbers, connectors, and six numbers of Latin-1. */
static bool is_word(uint32_t c)
{
    return vc_unicode_is_alphanumeric(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || (c >= 0xbc && c <= 0xbe);
}

static bool is_hex(uint32_t c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static bool set_fits(const struct vc_pattern *p, uint32_t number, uint32_t c);

/* Whether the entry has the character. */
static bool item_fits(const struct vc_pattern *p, const struct item *item, uint32_t c)
{
    bool fits = false;

    switch (item->kind) {
    case ITEM_RANGE:
        fits = c >= item->low && c <= item->high;
        break;
    case ITEM_CATEGORIES:
        fits = vc_unicode_in(c, item->low);
        break;
    case ITEM_SPACE:
        fits = vc_unicode_is_space(c);
        break;
    case ITEM_WORD:
        fits = is_word(c);
        break;
    case ITEM_HAN:
        fits = (vc_unicode_flags(c) & VC_IS_HAN) != 0;
        break;
    case ITEM_SET:
        fits = set_fits(p, item->low, c);
        break;
    case ITEM_HEX:
        fits = is_hex(c);
        break;
    }
    return fits != item->negated;
}

/* Any of the entries. */
static bool items_fit(const struct vc_pattern *p, const struct set *set, uint32_t c)
{
    for (size_t i = set->first; i < set->first + set->n; i++) {
        if (item_fits(p, &p->items[i], c)) {
            return true;
        }
    }
    return false;
}

/* Without the table for ASCII, which is made by this. */
static bool set_looks(const struct vc_pattern *p, const struct set *set, uint32_t c)
{
    bool fits = items_fit(p, set, c);

    if (!fits && set->any_case) {
        uint32_t low = c == 0x17f ? 's' : vc_unicode_lower(c); /* with U+212A the two that fold to ASCII's letters */

        fits = items_fit(p, set, low) || (low >= 'a' && low <= 'z' && items_fit(p, set, low - 32));
    }
    fits = fits && (set->also == 0 || set_fits(p, set->also - 1, c));
    return fits != set->negated;
}

/* With the table. */
static bool set_fits(const struct vc_pattern *p, uint32_t number, uint32_t c)
{
    const struct set *set = &p->sets[number];

    return c < 128 ? (set->ascii[c / 64] >> c % 64 & 1) != 0 : set_looks(p, set, c);
}

/* ------------------------------------------------------------------------------------------------ compiling */

/* While the expression is read. any_case: "(?i)" holds here. */
struct compiling {
    struct vc_ctx *ctx;
    struct vc_arena *arena;
    struct vc_pattern *p;
    const char *text;
    size_t at, n;
    bool any_case;
    unsigned depth;
};

/* The sentence names the expression, the place and what is not known. */
static enum vc_status refuse(const struct compiling *c, const char *what)
{
    return vc_fail(c->ctx, VC_E_UNSUPPORTED,
                   "the regular expression '%.200s' has %s at byte %zu, which is not known here", c->text, what, c->at);
}

/* Adds an instruction at the end. */
static enum vc_status emit(struct compiling *c, enum op op, uint32_t a, uint32_t b, uint32_t d)
{
    struct vc_pattern *p = c->p;

    VC_RETURN_IF(p->n_code >= MOST_CODE, refuse(c, "too many parts"));
    VC_CALL(VC_ARENA_GROW(c->ctx, c->arena, p->code, p->code_capacity, p->n_code + 1));
    p->code[p->n_code++] = (struct code){.op = op, .a = a, .b = b, .c = d};
    return VC_OK;
}

/* Adds an entry to the list of all sets. */
static enum vc_status add_item(struct compiling *c, struct item item)
{
    struct vc_pattern *p = c->p;

    VC_CALL(VC_ARENA_GROW(c->ctx, c->arena, p->items, p->item_capacity, p->n_items + 1));
    p->items[p->n_items++] = item;
    return VC_OK;
}

/* The set of items, which lie at the end of the list; *number: of the set. */
static enum vc_status add_set(struct compiling *c, struct set set, uint32_t *number)
{
    struct vc_pattern *p = c->p;

    VC_CALL(VC_ARENA_GROW(c->ctx, c->arena, p->sets, p->set_capacity, p->n_sets + 1));
    set.any_case = c->any_case;
    for (uint32_t k = 0; k < 128; k++) {
        set.ascii[k / 64] |= (uint64_t)set_looks(p, &set, k) << k % 64;
    }
    *number = (uint32_t)p->n_sets;
    p->sets[p->n_sets++] = set;
    return VC_OK;
}

/* Whether the word comes next; then it is read. */
static bool take(struct compiling *c, const char *word)
{
    size_t n = strlen(word);

    if (c->n - c->at < n || memcmp(c->text + c->at, word, n) != 0) {
        return false;
    }
    c->at += n;
    return true;
}

/* The text is valid UTF-8, so a character has all its bytes. */
static uint32_t next_character(struct compiling *c)
{
    size_t n;
    uint32_t found = vc_utf8_at(c->text + c->at, &n);

    c->at += n;
    return found;
}

/* General categories in the order of enum vc_category. */
static const char category_names[] = "CnCcCfCoCsLlLmLoLtLuMcMeMnNdNlNoPcPdPePfPiPoPsScSkSmSoZlZpZs";

/* "Lu", or "L" for all that begin so; 0: no category has that name. */
static uint32_t categories_of(const char *name, size_t n)
{
    uint32_t found = 0;

    for (unsigned k = 0; (n == 1 || n == 2) && category_names[2 * (size_t)k] != '\0'; k++) {
        found |= memcmp(name, category_names + 2 * (size_t)k, n) == 0 ? VC_OF(k) : 0;
    }
    return found;
}

/* "L", "Lu", "^N", "Han": behind \p, categories and one script. */
static enum vc_status parse_property(struct compiling *c, bool negated, struct item *item)
{
    bool other = take(c, "{^");
    size_t n;

    VC_RETURN_IF(!other && !take(c, "{"), refuse(c, "\\p without a brace"));
    const char *name = c->text + c->at;
    const char *end = memchr(name, '}', c->n - c->at);
    VC_RETURN_IF(end == NULL, refuse(c, "\\p without an end"));
    n = (size_t)(end - name);
    *item = (struct item){.kind = ITEM_CATEGORIES, .negated = negated != other, .low = categories_of(name, n)};
    if (n == 3 && memcmp(name, "Han", 3) == 0) {
        item->kind = ITEM_HAN;
    } else if (item->low == 0) {
        return refuse(c, "a property");
    }
    c->at += n + 1;
    return VC_OK;
}

/* Up to `most` hexadecimal digits. */
static uint32_t take_hex(struct compiling *c, size_t most)
{
    uint32_t value = 0;

    for (size_t i = 0; i < most && c->at < c->n && is_hex((unsigned char)c->text[c->at]); i++) {
        unsigned digit = (unsigned char)c->text[c->at++];

        value = value << 4 | (digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
    }
    return value;
}

/* Behind a backslash: a class, or one character as a range. */
static enum vc_status parse_escape(struct compiling *c, struct item *item)
{
    static const char names[] = "nrtfvae0";
    static const char characters[] = "\n\r\t\f\v\a\x1b";
    static const char classes[] = "swhd";
    static const struct item items[] = {
        {.kind = ITEM_SPACE}, {.kind = ITEM_WORD}, {.kind = ITEM_HEX}, {.kind = ITEM_CATEGORIES, .low = VC_OF(VC_ND)}};
    uint32_t letter = c->at < c->n ? next_character(c) : 0;
    bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
    const char *class_at = is_letter ? strchr(classes, (int)(letter | 0x20)) : NULL;
    const char *name_at = letter != 0 && letter < 0x80 ? strchr(names, (int)letter) : NULL;

    VC_RETURN_IF(letter == 0, refuse(c, "a backslash at its end"));
    if (class_at != NULL) { /* capitals are the others */
        *item = items[class_at - classes];
        item->negated = letter < 'a';
        return VC_OK;
    }
    if (letter == 'p' || letter == 'P') {
        return parse_property(c, letter == 'P', item);
    }
    if (name_at != NULL) {
        letter = (unsigned char)characters[name_at - names];
    } else if (letter == 'u' || letter == 'x') {
        bool braces = letter == 'x' && take(c, "{");
        letter = take_hex(c, braces ? 8 : (letter == 'u') * 2 + 2);
        VC_RETURN_IF(braces && !take(c, "}"), refuse(c, "\\x without an end"));
    } else if (is_letter || (letter >= '1' && letter <= '9')) {
        return refuse(c, "an escape");
    }
    *item = (struct item){.kind = ITEM_RANGE, .low = letter, .high = letter};
    return VC_OK;
}

/* An escape, or a character as it is. */
static enum vc_status parse_character(struct compiling *c, struct item *item)
{
    if (take(c, "\\")) {
        return parse_escape(c, item);
    }
    item->low = item->high = next_character(c);
    return VC_OK;
}

static enum vc_status parse_class(struct compiling *c, uint32_t *number);

/* One entry of a class: an escape, a class in it, a character or a range. */
static enum vc_status parse_entry(struct compiling *c, struct item *item)
{
    *item = (struct item){.kind = ITEM_RANGE};
    VC_RETURN_IF(take(c, "[:"), refuse(c, "a POSIX class"));
    if (take(c, "[")) {
        item->kind = ITEM_SET;
        return parse_class(c, &item->low);
    }
    VC_CALL(parse_character(c, item));
    if (item->kind == ITEM_RANGE && c->at + 1 < c->n && c->text[c->at] == '-' && c->text[c->at + 1] != ']') {
        struct item high = {.kind = ITEM_RANGE};

        c->at++;
        VC_CALL(parse_character(c, &high));
        VC_RETURN_IF(high.kind != ITEM_RANGE || high.high < item->low, refuse(c, "a range"));
        item->high = high.high;
    }
    return VC_OK;
}

/* Behind "[". Items of classes inside lie before its own, which are added last. */
static enum vc_status parse_class(struct compiling *c, uint32_t *number)
{
    struct set set = {.negated = take(c, "^")};
    struct item *own = NULL;
    size_t n = 0;
    size_t capacity = 0;
    bool first = true;

    VC_RETURN_IF(++c->depth > MOST_DEPTH, refuse(c, "too many classes in each other"));
    while (first || c->at == c->n || c->text[c->at] != ']') {
        VC_RETURN_IF(c->at == c->n, refuse(c, "a class without an end"));
        if (take(c, "&&")) { /* the rest up to the end is a class that has to fit, too */
            bool negated = set.negated;

            VC_CALL(parse_class(c, &set.also));
            set.also++;
            c->at--; /* its "]" is ours */
            set.negated = negated;
            break;
        }
        VC_CALL(VC_ARENA_GROW(c->ctx, c->arena, own, capacity, n + 1));
        VC_CALL(parse_entry(c, &own[n++]));
        first = false;
    }
    c->at++;
    c->depth--;
    set.first = c->p->n_items;
    set.n = n;
    for (size_t i = 0; i < n; i++) {
        VC_CALL(add_item(c, own[i]));
    }
    return add_set(c, set, number);
}

/* Decimal digits; without one it is 0. */
static uint32_t take_number(struct compiling *c)
{
    char *end;
    unsigned long number = strtoul(c->text + c->at, &end, 10);

    c->at = (size_t)(end - c->text);
    return (uint32_t)number;
}

/* How often: behind an atom. *kind: 0 greedy, 1 lazy, 2 possessive. False: once, nothing is said. A brace that says no
 * number is a character. */
static bool parse_times(struct compiling *c, uint32_t *least, uint32_t *most, unsigned *kind)
{
    size_t begin = c->at;
    bool braces = take(c, "{");
    bool counts = braces && (c->text[c->at] == ',' || (c->text[c->at] >= '0' && c->text[c->at] <= '9'));

    *least = counts ? take_number(c) : take(c, "+");
    *most = c->at == begin && take(c, "?") ? 1 : NO_LIMIT;
    if (counts) {
        *most = !take(c, ",") ? *least : c->text[c->at] == '}' ? NO_LIMIT : take_number(c);
    }
    if (braces ? !counts || !take(c, "}") : c->at == begin && !take(c, "*")) {
        c->at = begin;
        return false;
    }
    *kind = take(c, "?") ? 1 : !braces && take(c, "+") ? 2 : 0;
    return true;
}

/* Moves what an instruction says of others by number: SPLIT, JUMP, AHEAD and WHOLE do. */
static struct code moved(struct code code, uint32_t move)
{
    bool targets = code.op == OP_SPLIT || code.op == OP_JUMP || code.op == OP_AHEAD || code.op == OP_WHOLE;

    code.a += targets ? move : 0;
    code.b += code.op == OP_SPLIT ? move : 0;
    return code;
}

/* A copy of instructions [from, to) at the end. */
static enum vc_status copy_code(struct compiling *c, size_t from, size_t to)
{
    uint32_t move = (uint32_t)(c->p->n_code - from);

    for (size_t i = from; i < to; i++) {
        struct code code = moved(c->p->code[i], move);

        VC_CALL(emit(c, code.op, code.a, code.b, code.c));
    }
    return VC_OK;
}

/* Moves [from, end) one place up for an instruction in front. */
static enum vc_status insert(struct compiling *c, size_t from, struct code code)
{
    struct vc_pattern *p = c->p;

    VC_CALL(emit(c, OP_JUMP, 0, 0, 0));
    for (size_t i = p->n_code - 1; i > from; i--) {
        p->code[i] = moved(p->code[i - 1], 1);
    }
    p->code[from] = code;
    return VC_OK;
}

/* SPLIT that takes the way in first, or, lazy, the way out. */
static struct code split(size_t in, size_t out, bool lazy)
{
    return (struct code){.op = OP_SPLIT, .a = (uint32_t)(lazy ? out : in), .b = (uint32_t)(lazy ? in : out)};
}

/* The atom [from, end), of at least `width` characters, so often. One set that is repeated, greedy or possessive, is a
 * RUN: no frame for each character. Anything else is copied as often as it has to be there, with a SPLIT before each
 * copy that may be missing.
 *
 *     a{2}    a a                a+    0 a   1 SPLIT 0 2        a*    0 SPLIT 1 3   1 a   2 JUMP 0
 *     a{1,3}  a SPLIT a SPLIT a  a?    0 SPLIT 1 2   1 a */
static enum vc_status repeat(struct compiling *c, size_t from, size_t width, uint32_t least, uint32_t most,
                             unsigned kind)
{
    struct vc_pattern *p = c->p;
    size_t end = p->n_code;
    bool lazy = kind == 1;

    if (least > MOST_REPEAT || most == 0 || (most != NO_LIMIT && (most > MOST_REPEAT || most < least))) {
        return refuse(c, "a number of repetitions");
    }
    if (end - from == 1 && p->code[from].op == OP_SET && !lazy) {
        p->code[from] = (struct code){kind == 2 ? OP_RUN_WHOLE : OP_RUN, p->code[from].a, least, most};
        return VC_OK;
    }
    VC_RETURN_IF(most == NO_LIMIT && width == 0, refuse(c, "an endless repetition of what may be nothing"));
    if (kind == 2) {
        VC_CALL(insert(c, from, (struct code){.op = OP_WHOLE}));
        from++;
        end++;
    }
    for (uint32_t i = 1; i < least; i++) {
        VC_CALL(copy_code(c, from, end));
    }
    if (least == 0 && most == NO_LIMIT) { /* SPLIT in out, atom, JUMP */
        VC_CALL(insert(c, from, split(from + 1, p->n_code + 2, lazy)));
        VC_CALL(emit(c, OP_JUMP, (uint32_t)from, 0, 0));
    } else if (most == NO_LIMIT) { /* the last copy again and again */
        struct code again = split(p->n_code - (end - from), p->n_code + 1, lazy);

        VC_CALL(emit(c, again.op, again.a, again.b, 0));
    } else if (least == 0 && most != 0) {
        VC_CALL(insert(c, from, split(from + 1, p->n_code + 1, lazy)));
        for (uint32_t i = 1; i < most; i++) {
            VC_CALL(copy_code(c, from, end + 1));
        }
    } else {
        for (uint32_t i = least; i < most; i++) {
            size_t here = p->n_code;
            struct code may = split(here + 1, here + 1 + (end - from), lazy);

            VC_CALL(emit(c, may.op, may.a, may.b, 0));
            VC_CALL(copy_code(c, from, end));
        }
    }
    if (kind == 2) {
        VC_CALL(emit(c, OP_MATCH, 0, 0, 0));
        p->code[from - 1].a = (uint32_t)p->n_code;
    }
    return VC_OK;
}

static enum vc_status parse_choice(struct compiling *c, size_t *width);

/* (?=..) and (?!..), which take no character, (?>..): a body of its own. */
static enum vc_status parse_apart(struct compiling *c, enum op op, bool negated, size_t *width)
{
    size_t here = c->p->n_code;

    VC_CALL(emit(c, op, 0, 0, negated));
    VC_CALL(parse_choice(c, width));
    VC_CALL(emit(c, OP_MATCH, 0, 0, 0));
    c->p->code[here].a = (uint32_t)c->p->n_code;
    *width = op == OP_AHEAD ? 0 : *width;
    return take(c, ")") ? VC_OK : refuse(c, "a group without an end");
}

/* (?<=c) and (?<!c). */
static enum vc_status parse_behind(struct compiling *c, bool negated)
{
    size_t here = c->p->n_code;
    size_t width;

    VC_CALL(parse_choice(c, &width));
    if (c->p->n_code != here + 1 || c->p->code[here].op != OP_SET || !take(c, ")")) {
        return refuse(c, "a look behind at more than one character");
    }
    c->p->code[here] = (struct code){.op = OP_BEHIND, .a = c->p->code[here].a, .c = negated};
    return VC_OK;
}

/* Behind "(". "(?i)" holds up to the end of the group around it. */
static enum vc_status parse_group(struct compiling *c, size_t *width)
{
    bool before = c->any_case;

    *width = 0;
    if (take(c, "?=") || take(c, "?!")) {
        return parse_apart(c, OP_AHEAD, c->text[c->at - 1] == '!', width);
    }
    if (take(c, "?<=") || take(c, "?<!")) {
        return parse_behind(c, c->text[c->at - 1] == '!');
    }
    if (take(c, "?>")) {
        return parse_apart(c, OP_WHOLE, false, width);
    }
    if (take(c, "?i)")) {
        c->any_case = true;
        return VC_OK;
    }
    if (take(c, "?i:")) {
        c->any_case = true;
    } else if (!take(c, "?:") && take(c, "?")) {
        return refuse(c, "a group");
    }
    VC_CALL(parse_choice(c, width));
    c->any_case = before;
    return take(c, ")") ? VC_OK : refuse(c, "a group without an end");
}

/* A set of one entry. */
static enum vc_status emit_item(struct compiling *c, struct item item)
{
    struct set set = {.first = c->p->n_items, .n = 1};
    uint32_t number;

    VC_CALL(add_item(c, item));
    VC_CALL(add_set(c, set, &number));
    return emit(c, OP_SET, number, 0, 0);
}

/* One atom; *width: the fewest characters that it takes. */
static enum vc_status parse_atom(struct compiling *c, size_t *width)
{
    struct item item = {.kind = ITEM_RANGE};
    uint32_t number;

    *width = 1;
    if (take(c, "(")) {
        return parse_group(c, width);
    }
    if (take(c, "[")) {
        VC_CALL(parse_class(c, &number));
        return emit(c, OP_SET, number, 0, 0);
    }
    if (take(c, ".")) {
        return emit_item(c, (struct item){.kind = ITEM_RANGE, .negated = true, .low = '\n', .high = '\n'});
    }
    if (take(c, "^") || take(c, "\\A")) {
        *width = 0;
        return emit(c, OP_BEGIN, 0, c->text[c->at - 1] == '^', 0);
    }
    if (take(c, "$") || take(c, "\\z")) {
        *width = 0;
        return emit(c, OP_END, 0, c->text[c->at - 1] == '$', 0);
    }
    VC_RETURN_IF(strchr("*+?", c->text[c->at]) != NULL, refuse(c, "nothing to repeat"));
    VC_CALL(parse_character(c, &item));
    return emit_item(c, item);
}

/* Atoms, each with its repetition, up to '|', ')' or the end; *width: the fewest characters of all of them. */
static enum vc_status parse_sequence(struct compiling *c, size_t *width)
{
    *width = 0;
    while (c->at < c->n && c->text[c->at] != '|' && c->text[c->at] != ')') {
        size_t from = c->p->n_code;
        uint32_t least, most;
        unsigned kind;
        size_t one;

        VC_CALL(parse_atom(c, &one));
        while (parse_times(c, &least, &most, &kind)) {
            VC_CALL(repeat(c, from, one, least, most, kind));
            one = one * least;
            if (strchr("*+?", c->text[c->at]) != NULL && c->at < c->n) {
                return refuse(c, "a repetition of a repetition");
            }
        }
        *width += one;
    }
    return VC_OK;
}

/* a|b|c: SPLIT a, or SPLIT b, or c; each jumps to the end. */
static enum vc_status parse_choice(struct compiling *c, size_t *width)
{
    size_t from = c->p->n_code;
    size_t last_jump = SIZE_MAX; /* jumps are a chain until the end is known */
    bool any_case = c->any_case;

    VC_RETURN_IF(++c->depth > MOST_DEPTH, refuse(c, "too many groups in each other"));
    VC_CALL(parse_sequence(c, width));
    while (take(c, "|")) {
        size_t other;

        VC_CALL(insert(c, from, split(from + 1, c->p->n_code + 2, false)));
        VC_CALL(emit(c, OP_JUMP, last_jump == SIZE_MAX ? UINT32_MAX : (uint32_t)last_jump, 0, 0));
        last_jump = c->p->n_code - 1;
        from = c->p->n_code;
        VC_CALL(parse_sequence(c, &other));
        *width = other < *width ? other : *width;
    }
    while (last_jump != SIZE_MAX) {
        uint32_t before = c->p->code[last_jump].a;

        c->p->code[last_jump].a = (uint32_t)c->p->n_code;
        last_jump = before == UINT32_MAX ? SIZE_MAX : before;
    }
    c->any_case = any_case;
    c->depth--;
    return VC_OK;
}

enum vc_status vc_pattern_compile(struct vc_ctx *ctx, struct vc_arena *arena, const char *text, struct vc_pattern **out)
{
    struct compiling c = {.ctx = ctx, .arena = arena, .text = text, .n = strlen(text)};
    size_t width;

    VC_CALL_ALLOC(c.p = vc_arena_alloc(ctx, arena, sizeof *c.p));
    *c.p = (struct vc_pattern){.n_code = 0};
    VC_CALL(parse_choice(&c, &width));
    VC_RETURN_IF(c.at != c.n, refuse(&c, "an end of a group that has no begin"));
    VC_CALL(emit(&c, OP_MATCH, 0, 0, 0));
    *out = c.p;
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ matching */

struct matching {
    struct vc_ctx *ctx;
    const struct vc_pattern *p;
    struct vc_pattern_work *work;
    const char *s;
    size_t n;
};

static enum vc_status push(struct matching *m, uint32_t at, size_t place, size_t least)
{
    struct vc_pattern_work *w = m->work;

    VC_CALL(VC_GROW(m->ctx, VC_TAG_SCRATCH, w->frames, w->capacity, w->n + 1));
    w->frames[w->n++] = (struct vc_pattern_frame){at, place, least};
    return VC_OK;
}

/* Where the run that begins at `place` ends; *least: the first place at which it may. False: it is too short. */
static bool run_end(const struct matching *m, const struct code *code, size_t *place, size_t *least)
{
    uint32_t count = 0;

    *least = *place;
    while (count != code->c && *place < m->n) {
        size_t bytes;

        if (!set_fits(m->p, code->a, vc_utf8_at(m->s + *place, &bytes))) {
            break;
        }
        *place += bytes;
        m->work->steps++;
        if (++count == code->b) {
            *least = *place;
        }
    }
    return count >= code->b;
}

/* From instruction `at` on at `place`; *end: where the match ends, SIZE_MAX if there is none. depth: of bodies of their own. */
static enum vc_status match(struct matching *m, uint32_t at, size_t place, size_t *end)
{
    struct vc_pattern_work *w = m->work;
    size_t bottom = w->n;

    for (;;) {
        const struct code *code = &m->p->code[at];
        bool fits = true;
        size_t bytes = 0;
        size_t least = place;
        size_t inner;

        VC_REFUSE_IF(++w->steps > MOST_STEPS, m->ctx, VC_E_UNSUPPORTED,
                     "a regular expression takes more than %llu steps on a text of %zu bytes",
                     (unsigned long long)MOST_STEPS, m->n);
        switch (code->op) {
        case OP_SET:
            fits = place < m->n && set_fits(m->p, code->a, vc_utf8_at(m->s + place, &bytes));
            place += fits ? bytes : 0;
            break;
        case OP_RUN:
        case OP_RUN_WHOLE:
            fits = run_end(m, code, &place, &least);
            if (fits && least < place && code->op == OP_RUN) {
                VC_CALL(push(m, at + 1, place, least));
            }
            break;
        case OP_SPLIT:
            VC_CALL(push(m, code->b, place, place));
            at = code->a;
            continue;
        case OP_JUMP:
            at = code->a;
            continue;
        case OP_AHEAD:
        case OP_WHOLE:
            VC_CALL(match(m, at + 1, place, &inner));
            fits = (inner != SIZE_MAX) != (code->c != 0);
            place = fits && code->op == OP_WHOLE ? inner : place;
            at = code->a - 1;
            break;
        case OP_BEHIND:
            fits = place > 0 && set_fits(m->p, code->a, vc_utf8_at(m->s + place - vc_utf8_before(m->s, place), &bytes));
            fits = fits != (code->c != 0);
            break;
        case OP_BEGIN:
            fits = place == 0 || (code->b != 0 && m->s[place - 1] == '\n');
            break;
        case OP_END:
            fits = place == m->n || (code->b != 0 && m->s[place] == '\n');
            break;
        case OP_MATCH:
            *end = place;
            w->n = bottom;
            return VC_OK;
        }
        at++;
        if (fits) {
            continue;
        }
        if (w->n == bottom) {
            *end = SIZE_MAX;
            return VC_OK;
        }
        w->n--;
        at = w->frames[w->n].at;
        place = w->frames[w->n].place;
        if (w->frames[w->n].least < place) { /* a run gives back one character, and is asked again */
            place -= vc_utf8_before(m->s, place);
            w->frames[w->n].place = place;
            w->n += w->frames[w->n].least < place;
        }
    }
}

enum vc_status vc_pattern_find(struct vc_ctx *ctx, const struct vc_pattern *pattern, struct vc_pattern_work *work,
                               const char *s, size_t n, size_t from, size_t *begin, size_t *end)
{
    struct matching m = {.ctx = ctx, .p = pattern, .work = work, .s = s, .n = n};

    work->steps = 0;
    for (*begin = from; *begin < n;) {
        size_t bytes;

        work->n = 0;
        VC_CALL(match(&m, 0, *begin, end));
        if (*end != SIZE_MAX && *end > *begin) {
            return VC_OK;
        }
        (void)vc_utf8_at(s + *begin, &bytes);
        *begin += bytes;
    }
    *end = n;
    return VC_OK;
}

void vc_pattern_work_release(struct vc_ctx *ctx, struct vc_pattern_work *work)
{
    vc_free(ctx, work->frames);
    *work = (struct vc_pattern_work){.n = 0};
}
