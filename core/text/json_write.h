/* json_write.h - a JSON document as text, member by member, in the order of the calls. Every document of the library is
 * written with it. Reading JSON is jansson's work (formats/).
 *
 *     vc_json_open(&json, &text, ctx, '{', NULL);        {
 *     vc_json_string(&json, "name", "fc1.weight");         "name": "fc1.weight",
 *     vc_json_begin(&json, "shape", '[', true);            "shape": [512, 64]
 *     vc_json_uint(&json, NULL, 512);                    }
 *     vc_json_uint(&json, NULL, 64);
 *     vc_json_end(&json, ']');
 *     vc_json_end(&json, '}');
 *
 * The layout is part of the calls, so that a document has one tensor a line and two of them can be compared with diff.
 */
#pragma once

#include "core/text/text.h"

struct vc_writer; /* <vcompress/stream.h> */

#define VC_JSON_MAX_DEPTH 32

struct vc_json {
    struct vc_text *text; /* borrowed; holds the first failure */
    unsigned depth;
    struct {
        bool some;   /* it has a member already */
        bool flat;   /* members follow on one line */
        bool broken; /* flat, but some member began a line: the closing bracket does so, too */
    } level[VC_JSON_MAX_DEPTH];
    bool line;                      /* vc_json_line was called */
    const struct vc_writer *writer; /* gets the text piece by piece; vc_json_finish gives "" then. NULL: it is kept */
    uint64_t n_written;
};

/* Begins a text with an object or an array; its first member is the schema, unless that is NULL. */
void vc_json_open(struct vc_json *json, struct vc_text *text, struct vc_ctx *ctx, char bracket, const char *schema);
/* jansson is about to make a tree of `what`, n bytes of a document (or of that file, if there is one): what the tree takes
 * is charged to the pool, see vc_charge. */
enum vc_status vc_json_charge(struct vc_ctx *ctx, const char *what, uint64_t n, uint64_t *counted);
enum vc_status vc_json_charge_file(struct vc_ctx *ctx, const char *path, uint64_t *counted);

/* The text, for vc_text_free, behind vc_json_end; NULL, with the status that tells why. */
enum vc_status vc_json_finish(struct vc_json *json, char **out);

/* An object '{' or an array '['. key is NULL inside arrays and for the document itself. With `flat` the members stay on
 * one line; without, each has a line of its own. */
void vc_json_begin(struct vc_json *json, const char *key, char bracket, bool flat);
void vc_json_end(struct vc_json *json, char bracket); /* '}' or ']' */

/* Inside a flat object: the next member begins a line. */
void vc_json_line(struct vc_json *json);

void vc_json_string(struct vc_json *json, const char *key, const char *value);                /* null for NULL */
void vc_json_word(struct vc_json *json, const char *key, const char *words, unsigned number); /* 1 of "a|b": "b" */
void vc_json_uint(struct vc_json *json, const char *key, uint64_t value);
void vc_json_int(struct vc_json *json, const char *key, int64_t value);
void vc_json_known(struct vc_json *json, const char *key, uint64_t value); /* null for 0, where that is "not known" */
void vc_json_real(struct vc_json *json, const char *key, double value);    /* null for NaN and infinities */
void vc_json_bool(struct vc_json *json, const char *key, bool value);
void vc_json_null(struct vc_json *json, const char *key);
void vc_json_value(struct vc_json *json, const char *key, const char *value); /* JSON, as it is */
