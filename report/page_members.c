/* page_members.c - members that only a page has beside those of its document: how values lie, where a model fits,
 * memory over a run, the steps of a distillation. Each is JSON of its own, which vc_document_add puts at the end of a
 * document:
 *
 *     {"schema": "vcompress.report/1", ..., "distillations": null,
 *     "histograms": [{"tensor": "fc1.weight", "reach": 0.5, "bins": [0, 3, ...], ...}]
 *     }
 */

#include <vcompress/page.h>

#include "report/document_json.h"
#include "report/document_rows.h"

/* Components without bytes are left out: a point of a long run would be mostly zeros. */
static void write_point(struct vc_json *json, const struct vc_memory_point *point)
{
    vc_json_begin(json, NULL, '{', true);
    vc_json_uint(json, "step", point->step);
    for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        if (point->bytes[k] != 0) {
            vc_json_uint(json, vc_word(VC_WORDS_MEMORY, k), point->bytes[k]);
        }
    }
    vc_json_end(json, '}');
}

#include "report/rows_write.inc"

#include "report/page_members.inc"

/* Cuts the last bracket off and puts the member before a new one. The old text is freed only once the new one is
 * there. */
enum vc_status vc_document_add(struct vc_ctx *ctx, char **document, const char *key, const char *json,
                               const char *string)
{
    const char *end = strrchr(*document, '}');
    struct vc_text text = {.ctx = ctx};

    vc_clear_error(ctx);
    VC_REFUSE_IF(end == NULL, ctx, VC_E_FORMAT, "the document is no JSON object: it has no '}'");
    while (end > *document && strchr(" \n", end[-1]) != NULL) {
        end--;
    }
    vc_text_room(&text, (size_t)(end - *document) + strlen(key) + strlen(json != NULL ? json : string) + 16);
    vc_text_add_bytes(&text, *document, (size_t)(end - *document));
    vc_text_add(&text, ",\n");
    vc_text_add_json_string(&text, key);
    vc_text_add(&text, ": ");
    if (json != NULL) {
        vc_text_add_bytes(&text, json, strlen(json));
    } else {
        vc_text_add_json_string(&text, string);
    }
    vc_text_add(&text, "\n}\n");
    char *longer = vc_text_detach(&text);
    if (longer != NULL) {
        vc_text_free(*document);
        *document = longer;
    }
    return text.status;
}

enum vc_status vc_write_histograms(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    const struct vc_value_histograms *histograms = d->of;
    struct vc_json json;
    struct vc_text out;

    vc_json_open(&json, &out, ctx, '[', NULL);
    for (size_t i = 0; i < histograms->n; i++) {
        rows_histogram(&json, NULL, FLAT, &histograms->histograms[i]);
    }
    vc_json_end(&json, ']');
    return vc_json_finish(&json, text);
}

enum vc_status vc_write_fit_matrix(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    struct vc_text out;
    struct vc_json json = {.text = &out};

    vc_text_init(&out, ctx);
    rows_fit_matrix(&json, NULL, LINES, d->of);
    return vc_json_finish(&json, text);
}

enum vc_status vc_write_timeline(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    struct vc_text out;
    struct vc_json json = {.text = &out};

    vc_text_init(&out, ctx);
    rows_timeline(&json, NULL, LINES, d->of);
    return vc_json_finish(&json, text);
}

/* Without the steps of the control run and without evaluations, which the document has. */
enum vc_status vc_write_steps(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    const struct vc_distill_step *steps = d->of;
    struct vc_json json;
    struct vc_text out;

    vc_json_open(&json, &out, ctx, '[', NULL);
    for (size_t i = 0; i < d->n; i++) {
        if (!steps[i].control && steps[i].eval == NULL) {
            rows_step(&json, NULL, FLAT, &steps[i]);
        }
    }
    vc_json_end(&json, ']');
    return vc_json_finish(&json, text);
}
