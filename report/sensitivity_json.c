/* sensitivity_json.c - what each tensor would lose as one JSON document, schema vcompress.sensitivity/1
 * (sensitivity-1.schema.json). */
#include <math.h>

#include <vcompress/sensitivity.h>

#include "core/base/json_write.h"

static void write_ways(struct vc_json *json, const struct vc_sensitivity *s)
{
    static const char *const kinds[] = {[VC_SENSITIVITY_MAGNITUDE] = "magnitude",
                                        [VC_SENSITIVITY_PATTERN] = "pattern",
                                        [VC_SENSITIVITY_SCHEME] = "scheme"};

    vc_json_begin(json, "ways", '[', false);
    for (size_t i = 0; i < s->n_ways; i++) {
        const struct vc_sensitivity_way *way = &s->ways[i];
        bool magnitude = way->kind == VC_SENSITIVITY_MAGNITUDE;

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "name", way->name);
        vc_json_string(json, "kind", kinds[way->kind]);
        vc_json_real(json, "sparsity", magnitude ? (double)way->percent / 100.0 : (double)NAN);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

static void write_error(struct vc_json *json, const char *way, const struct vc_sensitivity_error *error)
{
    bool known = error->reason == NULL;

    vc_json_begin(json, way, '{', true);
    vc_json_real(json, "relative", known ? error->relative : (double)NAN);
    vc_json_real(json, "sqnr_db", known ? error->sqnr_db : (double)NAN);
    vc_json_bool(json, "exact", known && error->relative == 0.0);
    vc_json_known(json, "bytes", known ? error->bytes : 0);
    vc_json_string(json, "reason", error->reason);
    vc_json_end(json, '}');
}

static void write_row(struct vc_json *json, const struct vc_sensitivity *s, const struct vc_sensitivity_row *row)
{
    vc_json_begin(json, NULL, '{', true);
    vc_json_string(json, "name", row->name);
    vc_json_string(json, "dtype", vc_dtype_name(row->dtype));
    vc_json_uint(json, "elements", row->n_elems);
    vc_json_string(json, "reason", row->reason);
    vc_json_string(json, "prune_keeps", row->prune_keeps);
    if (row->errors != NULL) {
        vc_json_uint(json, "zeros", row->n_zeros);
        vc_json_real(json, "rms", row->rms);
        vc_json_begin(json, "errors", '{', true);
        for (size_t i = 0; i < s->n_ways; i++) {
            vc_json_line(json);
            write_error(json, s->ways[i].name, &row->errors[i]);
        }
        vc_json_end(json, '}');
    } else {
        vc_json_null(json, "zeros");
        vc_json_null(json, "rms");
        vc_json_null(json, "errors");
    }
    vc_json_end(json, '}');
}

static void write_advice(struct vc_json *json, const char *key, const struct vc_sensitivity *s,
                         const struct vc_sensitivity_advice *advice)
{
    bool known = advice->way != VC_NO_TENSOR;

    vc_json_begin(json, key, '{', true);
    vc_json_string(json, "way", known ? s->ways[advice->way].name : NULL);
    vc_json_real(json, "median", known ? advice->median : (double)NAN);
    vc_json_real(json, "limit", known ? advice->limit : (double)NAN);
    vc_json_begin(json, "picks", '[', false);
    for (size_t i = 0; i < advice->n_picks; i++) {
        const struct vc_sensitivity_pick *pick = &advice->picks[i];

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "name", s->rows[pick->row].name);
        vc_json_real(json, "relative", pick->relative);
        vc_json_real(json, "sparsity", (double)pick->percent / 100.0);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
    vc_json_end(json, '}');
}

enum vc_status vc_sensitivity_json(struct vc_ctx *ctx, const struct vc_sensitivity *s, char **out)
{
    struct vc_json json;
    struct vc_text text;

    *out = NULL;
    vc_text_init(&text, ctx);
    vc_json_init(&json, &text);
    vc_json_begin(&json, NULL, '{', false);
    vc_json_string(&json, "schema", "vcompress.sensitivity/1");
    vc_json_begin(&json, "input", '{', true);
    vc_json_string(&json, "path", vc_model_path(s->model));
    vc_json_string(&json, "format", vc_model_format(s->model));
    vc_json_uint(&json, "file_bytes", vc_model_file_bytes(s->model));
    vc_json_end(&json, '}');
    vc_json_uint(&json, "measured", s->n_measured);
    vc_json_string(&json, "note", s->note);
    vc_json_begin(&json, "advice", '{', false);
    write_advice(&json, "prune", s, &s->prune);
    write_advice(&json, "quantize", s, &s->quantize);
    vc_json_end(&json, '}');
    write_ways(&json, s);
    vc_json_begin(&json, "tensors", '[', false);
    for (size_t i = 0; i < s->n_rows; i++) {
        write_row(&json, s, &s->rows[i]);
    }
    vc_json_end(&json, ']');
    vc_json_end(&json, '}');
    *out = vc_text_detach(&text);
    return text.status;
}
