/* json_plain.h - a cursor over JSON that looks as every writer makes it: strings of ASCII without escapes, numbers of
 * up to 18 digits without a sign, spaces anywhere.
 *
 * Large objects have a million members, and a tree for each is where reading them would spend its time. What looks
 * different is left to jansson (json_walk.h): functions return false then, and refuse nothing. */
#pragma once

#include "core/text/text.h"

struct vc_json_cursor {
    const char *text;
    size_t n, at;
};

static inline void vc_json_skip_space(struct vc_json_cursor *c)
{
    while (c->at < c->n &&
           (c->text[c->at] == ' ' || c->text[c->at] == '\t' || c->text[c->at] == '\n' || c->text[c->at] == '\r')) {
        c->at++;
    }
}

/* The character, with spaces around it. */
static inline bool vc_json_take(struct vc_json_cursor *c, char what)
{
    vc_json_skip_space(c);
    if (c->at >= c->n || c->text[c->at] != what) {
        return false;
    }
    c->at++;
    vc_json_skip_space(c);
    return true;
}

/* A string of ASCII without escapes; s points into the text. */
static inline bool vc_json_take_string(struct vc_json_cursor *c, const char **s, size_t *n)
{
    if (c->at >= c->n || c->text[c->at] != '"') {
        return false;
    }
    size_t begin = ++c->at;
    c->at += vc_json_plain_bytes(c->text + c->at, c->n - c->at);
    *s = c->text + begin;
    *n = c->at - begin;
    if (c->at >= c->n || c->text[c->at] != '"') {
        return false;
    }
    c->at++;
    return true;
}

static inline bool vc_json_take_number(struct vc_json_cursor *c, uint64_t *out)
{
    size_t begin = c->at;
    uint64_t v = 0;

    while (c->at < c->n && c->text[c->at] >= '0' && c->text[c->at] <= '9' && c->at - begin < 19) {
        v = v * 10 + (uint64_t)(c->text[c->at++] - '0');
    }
    *out = v;
    return c->at != begin && c->at - begin < 19 && (c->at - begin == 1 || c->text[begin] != '0');
}

/* Members of an object are taken one by one, from the bracket or the comma before one. */
static inline bool vc_json_take_member(struct vc_json_cursor *c, const char **name, size_t *n_name)
{
    if (c->at >= c->n || c->text[c->at] != (c->at == 0 ? '{' : ',')) {
        return false;
    }
    c->at++;
    vc_json_skip_space(c);
    return vc_json_take_string(c, name, n_name) && vc_json_take(c, ':');
}

/* Behind the value of a member: *end is the comma that follows, or n where the object ends with the text. */
static inline bool vc_json_end_member(struct vc_json_cursor *c, size_t *end)
{
    vc_json_skip_space(c);
    if (c->at < c->n && c->text[c->at] == ',') {
        *end = c->at;
        return true;
    }
    *end = c->n;
    return vc_json_take(c, '}') && c->at == c->n;
}
