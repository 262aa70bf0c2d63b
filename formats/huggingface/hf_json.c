/* hf_json.c - see hf_json.h. */
#include "formats/huggingface/hf_json.h"

#include <stdbool.h>
#include <string.h>

/* A place in the text, and whether it lies in a string. */
struct reading {
    const char *text;
    size_t n, at;
    size_t n_blank; /* bytes of such a number that are still to come */
    bool in_string, escaped;
};

/* Bytes of such a number at that place; 0: there is none. */
static size_t number_at(const char *text, size_t n)
{
    static const char *const numbers[] = {"NaN", "Infinity", "-Infinity"};
    size_t i;

    for (i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        size_t n_number = strlen(numbers[i]);

        if (n >= n_number && memcmp(text, numbers[i], n_number) == 0) {
            return n_number;
        }
    }
    return 0;
}

/* The next byte, as JSON has it. */
static char next_byte(struct reading *r)
{
    char c = r->text[r->at];
    size_t n_number;

    if (r->n_blank != 0) {
        r->n_blank--;
        c = ' ';
    } else if (r->in_string) {
        r->in_string = c != '"' || r->escaped;
        r->escaped = c == '\\' && !r->escaped;
    } else if (c == '"') {
        r->in_string = true;
    } else if ((c == 'N' || c == 'I' || c == '-') && (n_number = number_at(r->text + r->at, r->n - r->at)) != 0) {
        r->n_blank = n_number - 1;
        c = '0';
    }
    r->at++;
    return c;
}

/* For jansson: the next bytes of the text. */
static size_t read_some(void *buffer, size_t n, void *data)
{
    struct reading *r = data;
    char *to = buffer;
    size_t i;

    for (i = 0; i < n && r->at < r->n; i++) {
        to[i] = next_byte(r);
    }
    return i;
}

json_t *vc_hf_json_load(const char *text, size_t n, json_error_t *error)
{
    struct reading r = {.text = text, .n = n};

    return json_load_callback(read_some, &r, JSON_REJECT_DUPLICATES, error);
}

void vc_hf_json_make_plain(char *text, size_t n)
{
    struct reading r = {.text = text, .n = n};
    size_t i;

    for (i = 0; i < n; i++) {
        text[i] = next_byte(&r);
    }
}
