/* fuzz_json.c - any bytes as a JSON text, behind values that nobody asks for: what is skipped is JSON to jansson, too;
 * what is left of a text has the same members, of which those that are wanted say what they said; and a walk over the
 * members ends as jansson does. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json/json_skip.h"
#include "formats/json/json_walk.h"
#include "fuzz_target.h"

static const char *const wanted[] = {"shape", "keep", NULL};

/* jansson refuses numbers that it cannot hold, and characters that it cannot keep; nobody looks at them here. */
static bool is_about_values(const json_error_t *error)
{
    return json_error_code(error) == json_error_numeric_overflow ||
           json_error_code(error) == json_error_null_character || strstr(error->text, "Unicode") != NULL ||
           strstr(error->text, "\\u0000") != NULL;
}

/* One object of the first or the second level, before and after. */
static void same_members(json_t *before, json_t *after, unsigned level, const struct vc_ctx *ctx)
{
    const char *key;
    json_t *value;

    fuzz_promise(json_object_size(before) == json_object_size(after), "members stay", ctx);
    json_object_foreach(before, key, value)
    {
        json_t *now = json_object_get(after, key);
        bool is_wanted = strcmp(key, wanted[0]) == 0 || strcmp(key, wanted[1]) == 0;

        if (is_wanted || !(json_is_array(value) || json_is_object(value))) {
            fuzz_promise(json_equal(value, now), "what is wanted stays", ctx);
        } else if (json_is_array(value) || level == 2) {
            fuzz_promise(json_is_integer(now) && json_integer_value(now) == 0, "what is not wanted goes", ctx);
        } else {
            same_members(value, now, level + 1, ctx);
        }
    }
}

static void trim(const char *text, size_t n, json_t *before, const struct vc_ctx *ctx)
{
    size_t start = vc_json_skip_space(text, n, 0);
    char *copy = malloc(n);
    json_t *after;

    if (copy == NULL) {
        abort();
    }
    memcpy(copy, text, n);
    vc_json_trim(copy + start, n - start, wanted);
    after = json_loadb(copy, n, JSON_REJECT_DUPLICATES, NULL);
    if (before != NULL) {
        fuzz_promise(json_is_object(after), "what is left is JSON", ctx);
        same_members(before, after, 1, ctx);
    }
    json_decref(after);
    free(copy);
}

static void walk(const char *text, size_t n, bool valid)
{
    struct vc_ctx *ctx = fuzz_ctx();
    char *copy = malloc(n + 1);
    struct json_walk walk;
    const char *name = NULL;
    json_t *value = NULL;
    enum vc_status status;

    if (copy == NULL) {
        abort();
    }
    memcpy(copy, text, n);
    vc_clear_error(ctx);
    vc_json_walk_begin(&walk, copy, n);
    do {
        status = vc_json_walk_next(ctx, &walk, &name, &value);
    } while (status == VC_OK && name != NULL);
    vc_json_walk_end(ctx, &walk);
    fuzz_promise(!valid || status == VC_OK, "a good object is walked through", ctx);
    fuzz_promise(memcmp(copy, text, n) == 0, "the text is put back", ctx);
    fuzz_promise(fuzz_in_use() == 0, "all memory is given back", ctx);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data;
    json_error_t error;
    json_t *value;
    size_t end;

    if (n == 0 || memchr(text, '\0', n) != NULL) { /* jansson takes a zero byte for the end */
        return 0;
    }
    value = json_loadb(text, n, JSON_DECODE_ANY, &error);
    end = vc_json_skip_value(text, n, 0);
    end = end == 0 ? 0 : vc_json_skip_space(text, n, end);
    fuzz_promise(value == NULL || end == n, "what jansson reads can be skipped", fuzz_ctx());
    fuzz_promise(value != NULL || end != n || is_about_values(&error), "what is skipped is JSON", fuzz_ctx());
    json_decref(value);
    value = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    if (data[0] == '{') {
        walk(text, n, json_is_object(value));
    }
    if (vc_json_skip_space(text, n, 0) < n && text[vc_json_skip_space(text, n, 0)] == '{') {
        trim(text, n, json_is_object(value) ? value : NULL, fuzz_ctx());
    }
    json_decref(value);
    return 0;
}
