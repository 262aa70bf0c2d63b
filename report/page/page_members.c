/* page_members.c - members that only a page has beside those of its document: how values lie, where a model fits,
 * memory over a run, the steps of a distillation. Each is JSON of its own, which vc_document_add puts at the end of a
 * document:
 *
 *     {"schema": "vcompress.report/1", ..., "distillations": null,
 *     "histograms": [{"tensor": "fc1.weight", "reach": 0.5, "bins": [0, 3, ...], ...}]
 *     }
 */
#include <string.h>

#include <vcompress/page.h>

#include "core/text/json_write.h"

enum vc_status vc_document_add(struct vc_ctx *ctx, char **document, const char *key, const char *value)
{
    const char *end = strrchr(*document, '}');
    struct vc_text text;
    char *longer;

    vc_clear_error(ctx);
    if (end == NULL) {
        return vc_fail(ctx, VC_E_FORMAT, "the document is no JSON object: it has no '}'");
    }
    while (end > *document && strchr(" \n", end[-1]) != NULL) {
        end--;
    }
    vc_text_init(&text, ctx);
    vc_text_room(&text, (size_t)(end - *document) + strlen(key) + strlen(value) + 16);
    vc_text_add_bytes(&text, *document, (size_t)(end - *document));
    vc_text_add(&text, ",\n");
    vc_text_add_json_string(&text, key);
    vc_text_add(&text, ": ");
    vc_text_add_bytes(&text, value, strlen(value));
    vc_text_add(&text, "\n}\n");
    longer = vc_text_detach(&text);
    if (longer != NULL) {
        vc_text_free(*document);
        *document = longer;
    }
    return text.status;
}

enum vc_status vc_document_add_string(struct vc_ctx *ctx, char **document, const char *key, const char *string)
{
    struct vc_text text;
    enum vc_status status;

    vc_text_init(&text, ctx);
    vc_text_add_json_string(&text, string);
    status = text.status == VC_OK ? vc_document_add(ctx, document, key, text.data) : text.status;
    vc_text_release(&text);
    return status;
}

static void write_counts(struct vc_json *json, const char *key, const uint64_t *counts, size_t n)
{
    vc_json_begin(json, key, '[', true);
    for (size_t i = 0; i < n; i++) {
        vc_json_uint(json, NULL, counts[i]);
    }
    vc_json_end(json, ']');
}

static void write_histogram(struct vc_json *json, const struct vc_value_histogram *h)
{
    vc_json_begin(json, NULL, '{', true);
    vc_json_string(json, "tensor", h->name);
    vc_json_string(json, "scheme", h->scheme);
    vc_json_real(json, "sqnr_db", h->sqnr_db);
    vc_json_uint(json, "elements", h->n_elems);
    vc_json_uint(json, "seen", h->n_seen);
    vc_json_uint(json, "zeros", h->n_zeros);
    vc_json_uint(json, "nonfinite", h->n_nonfinite);
    vc_json_real(json, "reach", h->reach);
    write_counts(json, "bins", h->bins, VC_VALUE_HISTOGRAM_BINS);
    if (h->compared) {
        vc_json_uint(json, "zeros_after", h->n_zeros_after);
        vc_json_real(json, "error_reach", h->error_reach);
        write_counts(json, "error_bins", h->error_bins, VC_VALUE_HISTOGRAM_ERROR_BINS);
        vc_json_uint(json, "level_row", h->level_row);
        vc_json_begin(json, "levels", '[', true);
        for (size_t i = 0; i < h->n_levels; i++) {
            vc_json_real(json, NULL, h->levels[i]);
        }
        vc_json_end(json, ']');
        write_counts(json, "level_counts", h->level_counts, h->n_levels);
    }
    vc_json_end(json, '}');
}

enum vc_status vc_value_histograms_json(struct vc_ctx *ctx, const struct vc_value_histograms *histograms, char **out)
{
    struct vc_json json;
    struct vc_text text;

    vc_json_open(&json, &text, ctx, '[', NULL);
    for (size_t i = 0; i < histograms->n; i++) {
        write_histogram(&json, &histograms->histograms[i]);
    }
    vc_json_end(&json, ']');
    return vc_json_finish(&json, out);
}

enum vc_status vc_fit_matrix_json(struct vc_ctx *ctx, const struct vc_fit_matrix *m, char **out)
{
    struct vc_json json;
    struct vc_text text;

    vc_json_open(&json, &text, ctx, '{', NULL);
    vc_json_bool(&json, "weights_only", m->weights_only);
    vc_json_begin(&json, "columns", '[', true);
    for (size_t c = 0; c < m->n_columns; c++) {
        vc_json_begin(&json, NULL, '{', true);
        vc_json_string(&json, "name", m->columns[c].name);
        vc_json_uint(&json, "weight_bytes", m->columns[c].weight_bytes);
        vc_json_end(&json, '}');
    }
    vc_json_end(&json, ']');
    vc_json_begin(&json, "rows", '[', false);
    for (size_t r = 0; r < m->n_rows; r++) {
        const struct vc_fit *fits = &m->fits[r * m->n_columns];

        vc_json_begin(&json, NULL, '{', true);
        vc_json_string(&json, "gpu", m->gpus[r]->name);
        vc_json_uint(&json, "visible_bytes", m->n_columns == 0 ? 0 : fits[0].visible_bytes);
        vc_json_begin(&json, "fits", '[', true);
        for (size_t c = 0; c < m->n_columns; c++) {
            vc_json_begin(&json, NULL, '{', true);
            vc_json_string(&json, "verdict", vc_fit_word(&fits[c]));
            vc_json_int(&json, "headroom_bytes", fits[c].headroom_bytes);
            vc_json_end(&json, '}');
        }
        vc_json_end(&json, ']');
        vc_json_end(&json, '}');
    }
    vc_json_end(&json, ']');
    vc_json_end(&json, '}');
    return vc_json_finish(&json, out);
}

enum vc_status vc_memory_timeline_json(struct vc_ctx *ctx, const struct vc_memory_timeline *t, char **out)
{
    struct vc_json json;
    struct vc_text text;

    vc_json_open(&json, &text, ctx, '{', NULL);
    vc_json_uint(&json, "steps", t->n_steps);
    vc_json_uint(&json, "backward", t->backward);
    vc_json_uint(&json, "peak", t->peak);
    vc_json_begin(&json, "points", '[', false);
    for (size_t i = 0; i < t->n_points; i++) {
        vc_json_begin(&json, NULL, '{', true);
        vc_json_uint(&json, "step", t->points[i].step);
        for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
            if (t->points[i].bytes[k] != 0) {
                vc_json_uint(&json, vc_memory_kind_name(k), t->points[i].bytes[k]);
            }
        }
        vc_json_end(&json, '}');
    }
    vc_json_end(&json, ']');
    vc_json_end(&json, '}');
    return vc_json_finish(&json, out);
}

static void write_step(struct vc_json *json, const struct vc_distill_step *s)
{
    vc_json_begin(json, NULL, '{', true);
    vc_json_uint(json, "step", s->step);
    vc_json_real(json, "loss", s->loss);
    vc_json_real(json, "kd", s->kd);
    vc_json_real(json, "ce", s->ce);
    vc_json_real(json, "lr", s->lr);
    vc_json_real(json, "grad_norm", s->grad_norm);
    vc_json_real(json, "sparsity", s->sparsity);
    vc_json_uint(json, "host_bytes", s->host_bytes);
    vc_json_begin(json, "matches", '[', true);
    for (size_t k = 0; k < s->n_matches; k++) {
        vc_json_real(json, NULL, s->matches[k]);
    }
    vc_json_end(json, ']');
    vc_json_end(json, '}');
}

/* Without the steps of the control run and without evaluations, which the document has. */
enum vc_status vc_distill_steps_json(struct vc_ctx *ctx, const struct vc_distill_step *steps, size_t n, char **out)
{
    struct vc_json json;
    struct vc_text text;

    vc_json_open(&json, &text, ctx, '[', NULL);
    for (size_t i = 0; i < n; i++) {
        if (!steps[i].control && steps[i].eval == NULL) {
            write_step(&json, &steps[i]);
        }
    }
    vc_json_end(&json, ']');
    return vc_json_finish(&json, out);
}
