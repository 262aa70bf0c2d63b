/* json_writer.h - writes a JSON document to a stream, in the order of the calls. Reads none. */
#ifndef VC_TOOLS_JSON_WRITER_H
#define VC_TOOLS_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_MAX_DEPTH 8

/* Objects and arrays that are opened with `flat` keep their members on one line. */
struct json {
    FILE *to;
    unsigned depth;
    bool some[JSON_MAX_DEPTH]; /* something was written at this depth */
    bool flat[JSON_MAX_DEPTH];
};

void json_init(struct json *json, FILE *to);

/* key is NULL inside arrays and for the document itself. */
void json_begin(struct json *json, const char *key, char bracket, bool flat); /* '{' or '[' */
void json_end(struct json *json, char bracket);                               /* '}' or ']' */

void json_string(struct json *json, const char *key, const char *value); /* NULL: null */
void json_uint(struct json *json, const char *key, uint64_t value);
void json_real(struct json *json, const char *key, double value); /* null when it is not finite */
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);

#endif
