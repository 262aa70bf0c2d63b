/* limits_read.c - limits for a run from files: the gates of a pipeline, and the figures of an earlier report that a run is
 * compared with.
 *
 *     {"min_sqnr": 40, "must_fit": ["RTX 4060"],      vcompress quantize: --min-sqnr=40 '--must-fit=RTX 4060'
 *      "evaluate": {"min_accuracy": 0.98}}            vcompress evaluate: ... --min-accuracy=0.98
 *
 * Files are untrusted: only objects of known forms are taken, and names must look like names of options, since they
 * become words of a command line. */
#include <vcompress/report.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>

#include "core/text/json_write.h"

/* The object that the file holds, whose tree is charged: json_decref, then vc_uncharge of *counted. */
static enum vc_status load(struct vc_ctx *ctx, const char *path, json_t **root, uint64_t *counted)
{
    json_error_t error;

    vc_clear_error(ctx);
    VC_CALL(vc_json_charge_file(ctx, path, counted));
    *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (*root != NULL) {
        return VC_OK;
    }
    vc_uncharge(ctx, *counted);
    VC_REFUSE_IF(json_error_code(&error) == json_error_cannot_open_file, ctx, VC_E_IO, "%s: cannot open: %s", path,
                 strerror(errno));
    return vc_fail(ctx, VC_E_FORMAT, "%s: line %d: %s", path, error.line, error.text);
}

/* ---- gates ---- */

/* Adds the word "--name=value"; the value true is "--name", and null is left out: a gate that is not set. False is
 * refused: an option without a value cannot be taken back. */
static enum vc_status add_word(struct vc_ctx *ctx, struct vc_text *words, const char *path, const char *name,
                               const json_t *value)
{
    struct vc_text word = {.ctx = ctx};

    VC_REFUSE_IF(name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")] != '\0' || name[0] == '\0' ||
                     name[0] == '-',
                 ctx, VC_E_FORMAT, "%s: '%s' is no name of an option", path, name);
    VC_REFUSE_IF(json_is_object(value) || json_is_array(value) || json_is_false(value), ctx, VC_E_FORMAT,
                 "%s: '%s' is neither a number nor a text, nor a list of these", path, name);
    if (json_is_null(value)) {
        return VC_OK;
    }
    vc_text_add(&word, "--");
    for (const char *p = name; *p != '\0'; p++) {
        vc_text_add_bytes(&word, *p == '_' ? "-" : p, 1);
    }
    if (json_is_string(value)) {
        vc_text_add(&word, "=%s", json_string_value(value));
    } else if (json_is_number(value)) {
        vc_text_add(&word, "=");
        vc_text_add_json_number(&word, json_number_value(value));
    }
    if (word.status == VC_OK) {
        vc_text_add_shell_word(words, word.data);
    }
    vc_text_release(&word);
    return word.status;
}

/* The members of an object: of a list a word for each of its items, of an object its name (of the command `own` none).
 * own: "" for the members of the command's own object, in which further objects are names of no command. */
static enum vc_status add_words(struct vc_ctx *ctx, struct vc_text *words, const char *path, json_t *limits,
                                const char *own)
{
    const char *name;
    json_t *value;

    json_object_foreach(limits, name, value)
    {
        /* names of other commands go along, so that the caller can refuse those that are none */
        if (json_is_object(value) && strcmp(name, own) != 0) {
            vc_text_add_shell_word(words, name);
        } else if (!json_is_array(value) && !json_is_object(value)) {
            VC_CALL(add_word(ctx, words, path, name, value));
        }
        for (size_t i = 0; i < json_array_size(value); i++) {
            VC_CALL(add_word(ctx, words, path, name, json_array_get(value, i)));
        }
    }
    return words->status;
}

/* Members of all commands first, then those of the command's own object. A file without any gate for this command is
 * refused: a gate that is never judged is mostly a wrong name. */
static enum vc_status words_of(struct vc_ctx *ctx, const char *path, json_t *root, const char *command, char **out)
{
    json_t *own = json_object_get(root, command);
    struct vc_text words = {.ctx = ctx};

    VC_REFUSE_IF(!json_is_object(root) || (own != NULL && !json_is_object(own)), ctx, VC_E_FORMAT,
                 "%s: is no object of limits, such as {\"min_sqnr\": 40, \"evaluate\": {\"min_accuracy\": 0.98}}",
                 path);
    enum vc_status status = add_words(ctx, &words, path, root, command);
    if (status == VC_OK && own != NULL) {
        status = add_words(ctx, &words, path, own, "");
    }
    if (status == VC_OK && (words.n == 0 || strstr(words.data, "--") == NULL)) {
        status = vc_fail(ctx, VC_E_FORMAT, "%s: has no gate for %s", path, command);
    }
    if (status != VC_OK) {
        vc_text_release(&words);
        return status;
    }
    *out = vc_text_detach(&words);
    return words.status;
}

enum vc_status vc_gates_read(struct vc_ctx *ctx, const char *path, const char *command, char **words)
{
    uint64_t counted;
    json_t *root;

    *words = NULL;
    VC_CALL(load(ctx, path, &root, &counted));
    enum vc_status status = words_of(ctx, path, root, command, words);
    json_decref(root);
    vc_uncharge(ctx, counted);
    return status;
}

/* ---- a baseline ---- */

/* NaN: null, which is "not measured", or no number. */
static double number(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* The largest output of the run; its SQNR over all tensors. */
static enum vc_status figures_of(struct vc_ctx *ctx, const char *path, const json_t *root, uint64_t *file_bytes,
                                 double *sqnr_db)
{
    const char *schema = json_string_value(json_object_get(root, "schema"));
    const json_t *outputs = json_object_get(root, "outputs");

    VC_REFUSE_IF(schema == NULL || strcmp(schema, "vcompress.report/1") != 0, ctx, VC_E_FORMAT,
                 "%s: is no document of the schema vcompress.report/1", path);
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        json_int_t bytes = json_integer_value(json_object_get(json_array_get(outputs, i), "file_bytes"));

        *file_bytes = bytes > 0 && (uint64_t)bytes > *file_bytes ? (uint64_t)bytes : *file_bytes;
    }
    *sqnr_db = number(json_object_get(json_object_get(root, "totals"), "sqnr_db"));
    return VC_OK;
}

enum vc_status vc_report_read_baseline(struct vc_ctx *ctx, const char *path, uint64_t *file_bytes, double *sqnr_db)
{
    uint64_t counted;
    json_t *root;

    *file_bytes = 0;
    *sqnr_db = (double)NAN;
    VC_CALL(load(ctx, path, &root, &counted));
    enum vc_status status = figures_of(ctx, path, root, file_bytes, sqnr_db);
    json_decref(root);
    vc_uncharge(ctx, counted);
    return status;
}
