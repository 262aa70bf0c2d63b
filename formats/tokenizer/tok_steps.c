/* tok_steps.c - what steps of a tokenizer.json have in common: their list, and what they seek. See tokenizer_parts.h. */
#include "formats/tokenizer/tokenizer_parts.h"

#define MOST_DEPTH 8 /* of Sequences in each other */

/* *out NULL: the member is absent or null. */
enum vc_status vc_tok_text_of(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part, const char *key,
                              const char **out, size_t *n)
{
    const json_t *value = json_object_get(part, key);

    *out = NULL;
    *n = json_string_length(value);
    if (value == NULL || json_is_null(value)) {
        return VC_OK;
    }
    VC_REFUSE_IF(!json_is_string(value), ctx, VC_E_FORMAT, "'%s' is no text", key);
    *out = vc_arena_copy(ctx, &t->arena, json_string_value(value), *n);
    return *out != NULL ? VC_OK : VC_E_NOMEM;
}

uint32_t vc_tok_number(const json_t *value)
{
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;

    return number >= 0 && number <= INT32_MAX ? (uint32_t)number : VC_NO_ID;
}

/* `otherwise` also where the member is no flag. */
bool vc_tok_flag(const json_t *part, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(part, key);

    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* A pattern is a regular expression, or a text that is sought as it is. */
enum vc_status vc_tok_read_sought(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *pattern,
                                  struct tok_step *step)
{
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const json_t *text = json_is_string(pattern) ? pattern : json_object_get(pattern, "String");

    if (regex != NULL) {
        return vc_pattern_compile(ctx, &t->arena, regex, &step->pattern);
    }
    VC_REFUSE_IF(!json_is_string(text) || json_string_length(text) == 0, ctx, VC_E_FORMAT,
                 "a pattern is neither a String nor a Regex");
    step->n_text = json_string_length(text);
    VC_CALL_ALLOC(step->text = vc_arena_copy(ctx, &t->arena, json_string_value(text), step->n_text));
    return VC_OK;
}

/* *begin is n where nothing is found. */
enum vc_status vc_tok_find(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step, const char *s,
                           size_t n, size_t from, size_t *begin, size_t *end)
{
    const char *found = s + from;

    if (step->pattern != NULL) {
        return vc_pattern_find(ctx, step->pattern, &t->pattern_work, s, n, from, begin, end);
    }
    while ((found = memchr(found, step->text[0], n - (size_t)(found - s))) != NULL) {
        size_t at = (size_t)(found - s);

        if (n - at >= step->n_text && memcmp(found, step->text, step->n_text) == 0) {
            *begin = at;
            *end = at + step->n_text;
            return VC_OK;
        }
        found++;
    }
    *begin = *end = n;
    return VC_OK;
}

/* A step, or those of a Sequence. */
static enum vc_status read_step(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part, const char *list,
                                const char *what, const struct tok_step_row *rows, size_t n_rows,
                                struct tok_steps *steps, unsigned depth)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *parts = json_object_get(part, list);
    struct tok_step step = {.n_text = 0};

    VC_REFUSE_IF(type == NULL || depth > MOST_DEPTH, ctx, VC_E_FORMAT, "a %s has no type", what);
    if (strcmp(type, "Sequence") == 0) {
        for (size_t i = 0; i < json_array_size(parts); i++) {
            VC_CALL(read_step(ctx, t, json_array_get(parts, i), list, what, rows, n_rows, steps, depth + 1));
        }
        return VC_OK;
    }
    for (size_t i = 0; i < n_rows; i++) {
        if (strcmp(rows[i].type, type) == 0) {
            step.row = &rows[i];
            if (rows[i].read != NULL) {
                VC_CALL(rows[i].read(ctx, t, part, &step));
            }
            VC_CALL(VC_ARENA_GROW(ctx, &t->arena, steps->items, steps->capacity, steps->n + 1));
            steps->items[steps->n++] = step;
            return VC_OK;
        }
    }
    return vc_fail(ctx, VC_E_UNSUPPORTED, "the %s '%.60s' is not known", what, type);
}

/* Nothing where the part is absent or null. */
enum vc_status vc_tok_read_steps(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part, const char *list,
                                 const char *what, const struct tok_step_row *rows, size_t n_rows,
                                 struct tok_steps *steps)
{
    return part == NULL || json_is_null(part) ? VC_OK : read_step(ctx, t, part, list, what, rows, n_rows, steps, 0);
}
