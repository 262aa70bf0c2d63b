/* json_writer.c - see json_writer.h. Bytes that are no UTF-8 become U+FFFD, so that the document is valid whatever a
 * file holds. */
#include "tools/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/print.h"

void json_init(struct json *json, FILE *to)
{
    *json = (struct json){.to = to};
}

static void indent(struct json *json)
{
    if (json->flat[json->depth]) {
        return;
    }
    fputc('\n', json->to);
    for (unsigned i = 0; i < json->depth; i++) {
        fputs("  ", json->to);
    }
}

/* ASCII at the front that needs no escape. */
static size_t plain_bytes(const char *s)
{
    size_t n = 0;

    while (s[n] >= 0x20 && s[n] < 0x7f && s[n] != '"' && s[n] != '\\') {
        n++;
    }
    return n;
}

/* What stands for itself is written in runs: a call per character is what a long report would spend its time on. */
static void put_string(FILE *to, const char *s)
{
    size_t n = strlen(s);

    fputc('"', to);
    for (size_t i = 0; i < n;) {
        size_t run = plain_bytes(s + i);
        size_t len = run != 0 ? run : text_sequence(s + i, n - i);
        unsigned char c = (unsigned char)s[i];

        if (len == 0) {
            fputs("\xef\xbf\xbd", to);
        } else if (c == '"' || c == '\\') {
            fprintf(to, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            fprintf(to, "\\u%04x", (unsigned)c);
        } else {
            fwrite(s + i, 1, len, to);
        }
        i += len == 0 ? 1 : len;
    }
    fputc('"', to);
}

/* Separator, line and key of the next member. */
static void next(struct json *json, const char *key)
{
    if (json->depth > 0) {
        if (json->some[json->depth]) {
            fputs(json->flat[json->depth] ? ", " : ",", json->to);
        }
        indent(json);
    }
    json->some[json->depth] = true;
    if (key != NULL) {
        put_string(json->to, key);
        fputs(": ", json->to);
    }
}

void json_begin(struct json *json, const char *key, char bracket, bool flat)
{
    next(json, key);
    fputc(bracket, json->to);
    json->depth++;
    json->some[json->depth] = false;
    json->flat[json->depth] = flat;
}

void json_end(struct json *json, char bracket)
{
    bool some = json->some[json->depth];
    bool flat = json->flat[json->depth];

    json->depth--;
    if (some && !flat) {
        bool outer = json->flat[json->depth];

        json->flat[json->depth] = false;
        indent(json);
        json->flat[json->depth] = outer;
    }
    fputc(bracket, json->to);
    if (json->depth == 0) {
        fputc('\n', json->to);
    }
}

void json_string(struct json *json, const char *key, const char *value)
{
    next(json, key);
    if (value == NULL) {
        fputs("null", json->to);
    } else {
        put_string(json->to, value);
    }
}

void json_uint(struct json *json, const char *key, uint64_t value)
{
    next(json, key);
    fprintf(json->to, "%" PRIu64, value);
}

void json_real(struct json *json, const char *key, double value)
{
    char digits[40];

    if (!isfinite(value)) {
        json_null(json, key);
        return;
    }
    for (int precision = 1; precision <= 17; precision++) { /* the fewest digits that read back the same */
        snprintf(digits, sizeof(digits), "%.*g", precision, value);
        if (strtod(digits, NULL) == value) {
            break;
        }
    }
    next(json, key);
    fputs(digits, json->to);
}

void json_bool(struct json *json, const char *key, bool value)
{
    next(json, key);
    fputs(value ? "true" : "false", json->to);
}

void json_null(struct json *json, const char *key)
{
    next(json, key);
    fputs("null", json->to);
}
