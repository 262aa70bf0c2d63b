/* safetensors_entry.c - reads the members of a header that look as every writer makes them, without a tree.
 *
 *     ,"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}
 *      name  the three keys in any order, each once; numbers of up to 18 digits without a sign; spaces anywhere
 *
 * A header has up to a million of them, and a tree for each is where reading it would spend its time. Whatever looks
 * different is left to jansson (json_walk.h): this file refuses nothing. */
#include "formats/safetensors/safetensors_entry.h"

#include <string.h>

struct cursor {
    const char *text;
    size_t n, at;
};

static void skip_space(struct cursor *c)
{
    while (c->at < c->n &&
           (c->text[c->at] == ' ' || c->text[c->at] == '\t' || c->text[c->at] == '\n' || c->text[c->at] == '\r')) {
        c->at++;
    }
}

/* The character, with spaces around it. */
static bool take(struct cursor *c, char what)
{
    skip_space(c);
    if (c->at >= c->n || c->text[c->at] != what) {
        return false;
    }
    c->at++;
    skip_space(c);
    return true;
}

/* A string of ASCII without escapes. */
static bool take_string(struct cursor *c, const char **s, size_t *n)
{
    size_t begin;

    if (c->at >= c->n || c->text[c->at] != '"') {
        return false;
    }
    begin = ++c->at;
    while (c->at < c->n && c->text[c->at] >= 0x20 && c->text[c->at] < 0x7f && c->text[c->at] != '"' &&
           c->text[c->at] != '\\') {
        c->at++;
    }
    *s = c->text + begin;
    *n = c->at - begin;
    if (c->at >= c->n || c->text[c->at] != '"') {
        return false;
    }
    c->at++;
    return true;
}

static bool take_number(struct cursor *c, uint64_t *out)
{
    size_t begin = c->at;
    uint64_t v = 0;

    while (c->at < c->n && c->text[c->at] >= '0' && c->text[c->at] <= '9' && c->at - begin < 19) {
        v = v * 10 + (uint64_t)(c->text[c->at++] - '0');
    }
    *out = v;
    return c->at != begin && c->at - begin < 19 && (c->at - begin == 1 || c->text[begin] != '0');
}

/* [1, 2, 3], up to `most` numbers. */
static bool take_numbers(struct cursor *c, uint64_t *out, size_t most, size_t *n)
{
    *n = 0;
    if (!take(c, '[')) {
        return false;
    }
    if (take(c, ']')) {
        return true;
    }
    do {
        if (*n == most || !take_number(c, &out[*n])) {
            return false;
        }
        (*n)++;
    } while (take(c, ','));
    return take(c, ']');
}

/* One of the three keys and its value. */
static bool take_field(struct cursor *c, struct safetensors_plain_entry *out, unsigned *seen)
{
    const char *key;
    size_t n;
    unsigned field;

    if (!take_string(c, &key, &n) || !take(c, ':')) {
        return false;
    }
    if (n == 5 && memcmp(key, "dtype", 5) == 0) {
        field = 1;
        if (!take_string(c, &out->dtype, &out->n_dtype)) {
            return false;
        }
    } else if (n == 5 && memcmp(key, "shape", 5) == 0) {
        field = 2;
        if (!take_numbers(c, out->shape, VC_MAX_DIMS, &out->n_dims)) {
            return false;
        }
    } else if (n == 12 && memcmp(key, "data_offsets", 12) == 0) {
        size_t n_ends;

        field = 4;
        if (!take_numbers(c, out->ends, 2, &n_ends) || n_ends != 2) {
            return false;
        }
    } else {
        return false;
    }
    if ((*seen & field) != 0) {
        return false;
    }
    *seen |= field;
    skip_space(c);
    return true;
}

bool vc_safetensors_plain_entry(const char *text, size_t n, size_t at, struct safetensors_plain_entry *out, size_t *end)
{
    struct cursor c = {.text = text, .n = n, .at = at};
    unsigned seen = 0;
    unsigned i;

    if (at >= n || text[at] != (at == 0 ? '{' : ',')) {
        return false;
    }
    c.at++;
    skip_space(&c);
    if (!take_string(&c, &out->name, &out->n_name) || !take(&c, ':') || !take(&c, '{')) {
        return false;
    }
    for (i = 0; i < 3; i++) {
        if ((i != 0 && !take(&c, ',')) || !take_field(&c, out, &seen)) {
            return false;
        }
    }
    if (!take(&c, '}')) {
        return false;
    }
    if (c.at < n && text[c.at] == ',') {
        *end = c.at;
        return true;
    }
    *end = n; /* the last one: the object's own end, and spaces */
    return take(&c, '}') && c.at == n;
}
