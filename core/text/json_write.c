/* json_write.c - see json_write.h. What a string and a number look like is in text.c. */
#include "core/text/json_write.h"

#include <assert.h>
#include <sys/stat.h>

#include <vcompress/stream.h>

/* Measured: 9 times the text of documents that have a line a tensor. */
#define TREE_TIMES 10

#define PIECE 65536 /* bytes that a writer gets together */

void vc_json_open(struct vc_json *json, struct vc_text *text, struct vc_ctx *ctx, char bracket, const char *schema)
{
    vc_text_init(text, ctx);
    *json = (struct vc_json){.text = text};
    vc_json_begin(json, NULL, bracket, false);
    if (schema != NULL) {
        vc_json_string(json, "schema", schema);
    }
}

/* The writer gets what is there. */
static void send(struct vc_json *json)
{
    const struct vc_writer *writer = json->writer;
    struct vc_text *text = json->text;

    if (text->status == VC_OK && !writer->write(writer->user, json->n_written, text->data, text->n)) {
        text->status = vc_fail(text->ctx, VC_E_IO, "the document cannot be written");
    }
    json->n_written += text->n;
    text->n = 0;
}

enum vc_status vc_json_finish(struct vc_json *json, char **out)
{
    if (json->writer != NULL) {
        send(json);
    }
    *out = vc_text_detach(json->text);
    return *out != NULL ? VC_OK : json->text->status;
}

static void new_line(struct vc_json *json)
{
    vc_text_add(json->text, "\n%*s", (int)(2 * json->depth), "");
}

/* What separates the next member from the one before, and its key. */
static void next(struct vc_json *json, const char *key)
{
    if (json->writer != NULL && json->text->n >= PIECE) {
        send(json);
    }
    bool own_line = !json->level[json->depth].flat || json->line;

    if (json->depth > 0) {
        if (json->level[json->depth].some) {
            vc_text_add(json->text, own_line ? "," : ", ");
        }
        if (own_line) {
            new_line(json);
        }
        json->level[json->depth].some = true;
        json->level[json->depth].broken = json->level[json->depth].broken || own_line;
    }
    json->line = false;
    if (key != NULL) {
        vc_text_add_json_string(json->text, key);
        vc_text_add_bytes(json->text, ": ", 2);
    }
}

void vc_json_begin(struct vc_json *json, const char *key, char bracket, bool flat)
{
    next(json, key);
    vc_text_add_bytes(json->text, &bracket, 1);
    json->depth++;
    assert(json->depth < VC_JSON_MAX_DEPTH);
    json->level[json->depth].some = false;
    json->level[json->depth].flat = flat;
    json->level[json->depth].broken = false;
}

void vc_json_end(struct vc_json *json, char bracket)
{
    bool broken = json->level[json->depth].broken;

    json->depth--;
    if (broken) {
        new_line(json);
    }
    vc_text_add_bytes(json->text, &bracket, 1);
    if (json->depth == 0) {
        vc_text_add_bytes(json->text, "\n", 1);
    }
}

void vc_json_line(struct vc_json *json)
{
    json->line = true;
}

void vc_json_string(struct vc_json *json, const char *key, const char *value)
{
    if (value == NULL) {
        vc_json_null(json, key);
        return;
    }
    next(json, key);
    vc_text_add_json_string(json->text, value);
}

void vc_json_word(struct vc_json *json, const char *key, const char *words, unsigned number)
{
    next(json, key);
    for (; number > 0 && *words != '\0'; number--) { /* a number beyond the last word: "" */
        words += strcspn(words, "|");
        words += *words == '|';
    }
    vc_text_add(json->text, "\"%.*s\"", (int)strcspn(words, "|"), words);
}

void vc_json_uint(struct vc_json *json, const char *key, uint64_t value)
{
    next(json, key);
    vc_text_add(json->text, "%" PRIu64, value);
}

void vc_json_int(struct vc_json *json, const char *key, int64_t value)
{
    next(json, key);
    vc_text_add(json->text, "%" PRId64, value);
}

void vc_json_known(struct vc_json *json, const char *key, uint64_t value)
{
    if (value == 0) {
        vc_json_null(json, key);
    } else {
        vc_json_uint(json, key, value);
    }
}

void vc_json_real(struct vc_json *json, const char *key, double value)
{
    next(json, key);
    vc_text_add_json_number(json->text, value);
}

void vc_json_bool(struct vc_json *json, const char *key, bool value)
{
    next(json, key);
    vc_text_add(json->text, value ? "true" : "false");
}

void vc_json_null(struct vc_json *json, const char *key)
{
    vc_json_value(json, key, "null");
}

void vc_json_value(struct vc_json *json, const char *key, const char *value)
{
    next(json, key);
    vc_text_add_bytes(json->text, value, strlen(value));
}

enum vc_status vc_json_charge(struct vc_ctx *ctx, const char *what, uint64_t n, uint64_t *counted)
{
    return vc_charge(ctx, what, TREE_TIMES * vc_min_u64(n, UINT64_MAX / TREE_TIMES), counted);
}

enum vc_status vc_json_charge_file(struct vc_ctx *ctx, const char *path, uint64_t *counted)
{
    struct stat is;

    *counted = 0;
    return stat(path, &is) != 0 || is.st_size < 0 ? VC_OK : vc_json_charge(ctx, path, (uint64_t)is.st_size, counted);
}
