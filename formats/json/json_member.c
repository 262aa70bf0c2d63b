/* json_member.c - see json_member.h. Used to change config.json without touching the rest of it.
 *
 *     {"a": 1, "b": [2, 3], "c": 4}      member 1:  key at "b", value at [, end behind ], before behind 1, next at "c"
 */
#include "formats/json/json_member.h"

#include "formats/json/json_skip.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Behind any value, nested ones whole. The text is valid, so counting brackets is enough. */
static size_t skip_value(const char *text, size_t n, size_t at)
{
    size_t depth = 0;

    while (at < n) {
        char c = text[at];

        if (c == '"') {
            at = vc_json_skip_string(text, n, at);
        } else if (c == '{' || c == '[') {
            depth++;
            at++;
            continue;
        } else if (c == '}' || c == ']') {
            if (depth == 0) {
                return at;
            }
            depth--;
            at++;
        } else if (depth == 0 && (c == ',' || is_space(c))) {
            return at;
        } else {
            at++;
            continue;
        }
        if (depth == 0) { /* behind a string, or a closing bracket */
            return at;
        }
    }
    return at;
}

/* Goes from member to member: name, colon, value, comma. */
bool vc_json_member_find(const char *text, size_t n, size_t index, struct json_member *out)
{
    size_t at = vc_json_skip_space(text, n, 0) + 1; /* the '{' */

    for (size_t i = 0;; i++) {
        out->before = at;
        at = vc_json_skip_space(text, n, at);
        at = at < n && text[at] == ',' ? vc_json_skip_space(text, n, at + 1) : at;
        if (at >= n || text[at] != '"') {
            return false;
        }
        out->key = at;
        at = vc_json_skip_space(text, n, vc_json_skip_string(text, n, at)) + 1; /* the ':' */
        out->value = vc_json_skip_space(text, n, at);
        at = skip_value(text, n, out->value);
        out->end = at;
        if (i == index) {
            at = vc_json_skip_space(text, n, at);
            out->next = at < n && text[at] == ',' ? vc_json_skip_space(text, n, at + 1) : out->end;
            return true;
        }
    }
}

/* A member that goes takes one comma along: the one before it, or behind it where it is the first. */
void vc_json_member_replace(const char *text, size_t n, size_t index, const char *value, struct vc_text *out)
{
    struct json_member m;

    if (!vc_json_member_find(text, n, index, &m)) {
        vc_text_add_bytes(out, text, n);
    } else if (value != NULL) {
        vc_text_add_bytes(out, text, m.value);
        vc_text_add(out, "%s", value);
        vc_text_add_bytes(out, text + m.end, n - m.end);
    } else if (index != 0) { /* with the comma before it */
        vc_text_add_bytes(out, text, m.before);
        vc_text_add_bytes(out, text + m.end, n - m.end);
    } else { /* with the comma behind it */
        vc_text_add_bytes(out, text, m.key);
        vc_text_add_bytes(out, text + m.next, n - m.next);
    }
}

/* Looks for a member that there cannot be, which leads to the end of the object. */
void vc_json_member_append(const char *text, size_t n, const char *name, const char *value, struct vc_text *out)
{
    struct json_member m;

    (void)vc_json_member_find(text, n, SIZE_MAX, &m);
    vc_text_add_bytes(out, text, m.before);
    vc_text_add(out, "%s\n  ", text[m.before - 1] == '{' ? "" : ",");
    vc_text_add_json_string(out, name);
    vc_text_add(out, ": %s%s", value, text[m.before - 1] == '{' ? "\n" : "");
    vc_text_add_bytes(out, text + m.before, n - m.before);
}

void vc_json_list_drop(const char *text, size_t n, const uint64_t *numbers, size_t n_numbers, struct vc_text *out)
{
    size_t at = 1; /* behind the '[', or behind an element */
    size_t first = vc_json_skip_space(text, n, at);
    bool any = false;
    size_t k = 0;

    vc_text_add_bytes(out, text, first); /* what stands before the first element stays before what is first now */
    for (uint64_t i = 0; first < n && text[first] != ']'; i++) {
        size_t begin = i == 0 ? first : vc_json_skip_space(text, n, vc_json_skip_space(text, n, at) + 1);
        size_t end = skip_value(text, n, begin);

        if (k < n_numbers && numbers[k] == i) {
            k++;
        } else {
            vc_text_add_bytes(out, text + (any ? at : begin), end - (any ? at : begin));
            any = true;
        }
        at = end;
        if (vc_json_skip_space(text, n, at) >= n || text[vc_json_skip_space(text, n, at)] != ',') {
            break;
        }
    }
    vc_text_add_bytes(out, text + at, n - at);
}
