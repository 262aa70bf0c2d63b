/* hf_json.c - see hf_json.h.
 *
 *     "time_step_limit": [0.0, Infinity]      read as  [0.0, 0       ]
 *     "model_max_length": 1000000000000000019884624838656   read as  0 and blanks
 *
 * The copy has the same length, so that line numbers in sentences are those of the file. */
#include "formats/huggingface/config/hf_json.h"

#include "formats/huggingface/config/hf_config.h"
#include "formats/io/infile.h"
#include "formats/io/side_file.h"
#include "formats/json/json_walk.h"

#define MOST_JSON   ((uint64_t)256 << 20) /* bytes; tokenizer.json of large vocabularies has some 30 MB */
#define MOST_DIGITS 19                    /* of an integer from 1 on that may be too large for 64 bits */

/* A place in the text, and whether it lies in a string. */
struct reading {
    const char *text;
    size_t n, at;
    size_t n_blank; /* bytes of such a number that are still to come */
    bool in_string, escaped;
    char before; /* the byte before that place; 0 at the begin */
};

/* Whether a value may begin behind that byte: "1eNaN" has no NaN in it. */
static bool may_begin_behind(char before)
{
    return before == '\0' || strchr(" \t\r\n,:[", before) != NULL;
}

/* Bytes of such a number at that place; 0 if there is none. 19 digits are 10^18 or more, which may exceed 2^63 - 1; a
 * number with a fraction or an exponent is a real one, and fits. */
static size_t number_at(const char *text, size_t n)
{
    static const char *const numbers[] = {"NaN", "Infinity", "-Infinity"};
    size_t n_digits = 0;

    while (n_digits < n && text[n_digits] >= '0' && text[n_digits] <= '9') {
        n_digits++;
    }
    if (n_digits >= MOST_DIGITS && n_digits < n && strchr(".eE", text[n_digits]) == NULL) {
        return n_digits;
    }

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        size_t n_number = strlen(numbers[i]);

        if (n >= n_number && memcmp(text, numbers[i], n_number) == 0) {
            return n_number;
        }
    }
    return 0;
}

/* The next byte, as JSON has it. Outside of strings only; `escaped` says that the byte before was a backslash which
 * counts. */
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
    } else if ((c == 'N' || c == 'I' || c == '-' || (c >= '1' && c <= '9')) && may_begin_behind(r->before) &&
               (n_number = number_at(r->text + r->at, r->n - r->at)) != 0) {
        r->n_blank = n_number - 1;
        c = '0';
    }
    r->before = r->text[r->at++];
    return c;
}

/* A copy of the text in which 0 and blanks stand for these numbers; NULL: no memory. */
static char *copy_plain(struct vc_ctx *ctx, const char *text, size_t n)
{
    struct reading r = {.text = text, .n = n};
    char *copy = vc_alloc(ctx, VC_TAG_IO, n);

    for (size_t i = 0; copy != NULL && i < n; i++) {
        copy[i] = next_byte(&r);
    }
    return copy;
}

/* The tree of a copy, which is freed. Memory of the tree is counted before jansson takes it (vc_json_tree_charge),
 * because jansson does not ask the pool. */
static enum vc_status load(struct vc_ctx *ctx, char *copy, size_t n, const char *const *wanted, struct hf_json *out)
{
    json_error_t error;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(copy);
    if (wanted != NULL) {
        VC_TRY(vc_json_tree_trim(ctx, copy, n, wanted));
    }
    VC_TRY(vc_json_tree_charge(ctx, copy, n, &out->counted));
    out->root = json_loadb(copy, n, JSON_REJECT_DUPLICATES, &error);
    if (out->root == NULL && json_error_code(&error) == json_error_out_of_memory) {
        status = vc_fail(ctx, VC_E_NOMEM, "cannot allocate memory for its %zu bytes", n);
    } else if (out->root == NULL) {
        status = vc_fail(ctx, VC_E_FORMAT, "line %d: %s", error.line, error.text);
    }
out:
    vc_free(ctx, copy);
    return status;
}

enum vc_status vc_hf_json_load(struct vc_ctx *ctx, const char *text, size_t n, bool whole, struct hf_json *out)
{
    static const char *const wanted[] = {"quantization_config", "quantization", "architectures", NULL};

    *out = (struct hf_json){.ctx = ctx};
    enum vc_status status = load(ctx, copy_plain(ctx, text, n), n, whole ? NULL : wanted, out);
    return status == VC_E_FORMAT ? vc_context(ctx, "is no valid JSON") : status;
}

enum vc_status vc_hf_json_look(struct vc_ctx *ctx, const char *text, size_t n, struct hf_json *out)
{
    enum vc_status status = vc_hf_json_load(ctx, text, n, false, out);

    if (status == VC_E_FORMAT) {
        vc_clear_error(ctx);
        status = VC_OK;
    }
    return status;
}

static enum vc_status read_file(struct vc_ctx *ctx, const char *path, struct hf_json *out)
{
    struct vc_infile *file = NULL;
    char *text = NULL;
    enum vc_status status;

    VC_TRY(vc_infile_open(ctx, path, &file));
    VC_TRY(vc_infile_text(ctx, file, MOST_JSON, &text));
    VC_TRY(vc_hf_json_load(ctx, text, (size_t)file->size_bytes, true, out));
out:
    vc_free(ctx, text);
    vc_infile_close(ctx, file);
    return status;
}

enum vc_status vc_hf_json_beside(struct vc_ctx *ctx, const char *folder, const char *name, struct hf_json *out)
{
    VC_SCOPED char *path = vc_hf_path_beside(ctx, folder, name);
    bool there = false;

    *out = (struct hf_json){.ctx = ctx};
    VC_CALL_FOUND(ctx, path);
    VC_CALL(vc_side_check(ctx, folder, name, &there));
    return !there || read_file(ctx, path, out) == VC_OK ? VC_OK : vc_context(ctx, "%s", name);
}

void vc_hf_json_free(struct hf_json *json)
{
    if (json->ctx != NULL) {
        vc_json_tree_free(json->ctx, json->root, json->counted);
    }
    *json = (struct hf_json){.root = NULL};
}

enum vc_status vc_hf_config_parse(struct vc_ctx *ctx, const char *text, size_t n, bool whole, struct hf_json *out)
{
    enum vc_status status;

    VC_TRY(vc_hf_json_load(ctx, text, n, whole, out));
    if (!json_is_object(out->root)) {
        status = vc_fail(ctx, VC_E_FORMAT, "is no JSON object");
    }
out:
    return status == VC_E_FORMAT ? vc_context(ctx, VC_HF_CONFIG_NAME) : status;
}
