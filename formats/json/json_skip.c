/* json_skip.c - see json_skip.h. Loops with a bit per level: nesting takes no stack.
 *
 * Two strictnesses: vc_json_skip_string and vc_json_skip_space believe the text, for counting brackets;
 * vc_json_skip_value checks each byte of a value as RFC 8259 has it, because what it steps over is seen by no other
 * parser. */
#include "formats/json/json_skip.h"

#include "core/text/text.h"

size_t vc_json_skip_space(const char *text, size_t n, size_t at)
{
    while (at < n && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r')) {
        at++;
    }
    return at;
}

/* From the quote at `at`; n where the string does not end. */
size_t vc_json_skip_string(const char *text, size_t n, size_t at)
{
    for (at++; at < n && text[at] != '"'; at++) {
        at += text[at] == '\\';
    }
    return at < n ? at + 1 : n;
}

/* ---- single values ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Behind the escape whose backslash is at `at`; 0 if it is not one. */
static size_t escape_end(const char *text, size_t n, size_t at)
{
    size_t i;

    if (n - at < 2 || memchr("\"\\/bfnrtu", text[at + 1], 9) == NULL) {
        return 0;
    }
    if (text[at + 1] != 'u') {
        return at + 2;
    }
    for (i = at + 2; i < at + 6; i++) {
        if (i >= n || !is_hex(text[i])) {
            return 0;
        }
    }
    return i;
}

/* Behind the string at `at`; 0 if it is not one. Control characters and texts that are not UTF-8 are no strings. */
static size_t string_end(const char *text, size_t n, size_t at)
{
    size_t begin = at + 1;

    if (at >= n || text[at] != '"') {
        return 0;
    }
    for (at++; at < n && text[at] != '"';) {
        at = text[at] == '\\' ? escape_end(text, n, at) : (unsigned char)text[at] >= 0x20 ? at + 1 : 0;
        if (at == 0) {
            return 0;
        }
    }
    return at < n && vc_utf8_valid(text + begin, at - begin) ? at + 1 : 0;
}

/* Behind the digits at `at`; 0 if there are none. */
static size_t digits_end(const char *text, size_t n, size_t at)
{
    size_t begin = at;

    while (at < n && is_digit(text[at])) {
        at++;
    }
    return at != begin ? at : 0;
}

/* -12.5e+3; no leading zeros, no point without digits on both sides. 0 if it is not one. */
static size_t number_end(const char *text, size_t n, size_t at)
{
    at += at < n && text[at] == '-';
    size_t begin = at;
    at = digits_end(text, n, at);
    if (at == 0 || (text[begin] == '0' && at != begin + 1)) {
        return 0;
    }
    if (at < n && text[at] == '.') {
        at = digits_end(text, n, at + 1);
    }
    if (at != 0 && at < n && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        at += at < n && (text[at] == '+' || text[at] == '-');
        at = digits_end(text, n, at);
    }
    return at;
}

/* A value without brackets. */
static size_t scalar_end(const char *text, size_t n, size_t at)
{
    static const char *const words[] = {"true", "false", "null"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n_word = strlen(words[i]);

        if (n - at >= n_word && memcmp(text + at, words[i], n_word) == 0) {
            return at + n_word;
        }
    }
    return at < n && text[at] == '"' ? string_end(text, n, at) : number_end(text, n, at);
}

/* ---- nested ones ---- */

struct levels {
    size_t depth;
    unsigned char is_object[VC_JSON_LEVELS / 8 + 1]; /* a bit per level */
};

/* Whether the innermost bracket is '{'. */
static bool in_object(const struct levels *levels)
{
    return (levels->is_object[levels->depth / 8] >> levels->depth % 8 & 1) != 0;
}

/* False: more levels than VC_JSON_LEVELS. */
static bool enter(struct levels *levels, bool object)
{
    unsigned bit;

    if (levels->depth == VC_JSON_LEVELS) {
        return false;
    }
    levels->depth++;
    bit = 1u << levels->depth % 8;
    levels->is_object[levels->depth / 8] =
        (unsigned char)((levels->is_object[levels->depth / 8] & ~bit) | (object ? bit : 0));
    return true;
}

/* Behind the name and the colon at `at`, or 0; in a list: at. */
static size_t name_end(const char *text, size_t n, size_t at, const struct levels *levels)
{
    if (!in_object(levels)) {
        return at;
    }
    at = string_end(text, n, vc_json_skip_space(text, n, at));
    if (at == 0) {
        return 0;
    }
    at = vc_json_skip_space(text, n, at);
    return at < n && text[at] == ':' ? at + 1 : 0;
}

/* Behind the brackets that close at `at`; *more: behind a comma instead, where a value follows. 0: neither. */
static size_t close_levels(const char *text, size_t n, size_t at, struct levels *levels, bool *more)
{
    *more = false;
    while (levels->depth != 0 && !*more) {
        at = vc_json_skip_space(text, n, at);
        if (at >= n) {
            return 0;
        }
        if (text[at] == ',') {
            *more = true;
        } else if (text[at] == (in_object(levels) ? '}' : ']')) {
            levels->depth--;
        } else {
            return 0;
        }
        at++;
    }
    return at;
}

/* Behind the value at `at`; 0 if it is not one. Each turn takes a name (in objects) and a scalar or an opening bracket;
 * after a value, brackets close up to the next comma. */
size_t vc_json_skip_value(const char *text, size_t n, size_t at)
{
    struct levels levels = {0};
    bool more = true;

    while (more) {
        bool empty = false;

        at = name_end(text, n, at, &levels);
        if (at == 0 && levels.depth != 0) {
            return 0;
        }
        at = vc_json_skip_space(text, n, at);
        if (at < n && (text[at] == '{' || text[at] == '[')) {
            char close = text[at] == '{' ? '}' : ']';
            size_t inside = vc_json_skip_space(text, n, at + 1);

            if (!enter(&levels, text[at] == '{')) {
                return 0;
            }
            empty = inside < n && text[inside] == close;
            at = empty ? inside : at + 1;
        } else {
            at = scalar_end(text, n, at);
            empty = true; /* nothing is inside */
            if (at == 0) {
                return 0;
            }
        }
        if (empty) {
            at = close_levels(text, n, at, &levels, &more);
            if (at == 0) {
                return 0;
            }
        }
    }
    return at;
}

/* ---- out of the way ---- */

/* wanted ends in NULL. */
static bool is_wanted(const char *const *wanted, const char *name, size_t n)
{
    while (*wanted != NULL && (strlen(*wanted) != n || memcmp(*wanted, name, n) != 0)) {
        wanted++;
    }
    return *wanted != NULL;
}

/* An object that is not empty: its members are looked at one by one. */
static bool has_members(const char *text, size_t n, size_t at)
{
    size_t inside = at < n && text[at] == '{' ? vc_json_skip_space(text, n, at + 1) : n;

    return inside < n && text[inside] == '"';
}

/* Lines keep their numbers, for sentences about the text. A 0 and blanks take the place of the value. */
static void blank(char *text, size_t at, size_t end)
{
    text[at] = '0';
    for (at++; at < end; at++) {
        text[at] = text[at] == '\n' ? '\n' : ' ';
    }
}

/* Two levels are looked at: members of the top, and members of the objects in it. Lists, and objects of the second
 * level, that nobody wants become 0. A text that looks different is left from there on: its parser refuses it. */
void vc_json_trim(char *text, size_t n, const char *const *wanted)
{
    unsigned level = 1;
    size_t at = 1; /* behind the bracket or comma */

    while (level != 0) {
        size_t key = vc_json_skip_space(text, n, at);
        size_t end = string_end(text, n, key);
        size_t value = end == 0 ? n : vc_json_skip_space(text, n, end);

        if (value >= n || text[value] != ':') {
            return;
        }
        value = vc_json_skip_space(text, n, value + 1);
        bool wanted_too = is_wanted(wanted, text + key + 1, end - key - 2);
        if (level == 1 && !wanted_too && has_members(text, n, value)) {
            at = value + 1;
            level = 2;
            continue;
        }
        at = vc_json_skip_value(text, n, value);
        if (at == 0) {
            return;
        }
        if ((text[value] == '[' || (text[value] == '{' && level == 2)) && !wanted_too) {
            blank(text, value, at);
        }
        for (at = vc_json_skip_space(text, n, at); level != 0 && at < n && text[at] == '}';) {
            level--;
            at = vc_json_skip_space(text, n, at + 1);
        }
        if (level != 0 && (at >= n || text[at++] != ',')) {
            return;
        }
    }
}
