/* verify_json.c - what was found in a checkpoint as one JSON document, schema vcompress.verify/1
 * (verify-1.schema.json). */
#include <math.h>

#include <vcompress/verify.h>

#include "core/text/json_write.h"

static const char *severity_name(enum vc_severity severity)
{
    return severity == VC_SEVERITY_ERROR ? "error" : "warning";
}

static void write_file(struct vc_json *json, const struct vc_verification *v)
{
    vc_json_begin(json, "input", '{', true);
    vc_json_string(json, "path", v->path);
    vc_json_string(json, "format", v->format);
    vc_json_uint(json, "file_bytes", v->file_bytes);
    vc_json_uint(json, "tensors", v->n_tensors);
    vc_json_end(json, '}');
}

static void write_dtypes(struct vc_json *json, const struct vc_verification *v)
{
    vc_json_begin(json, "dtypes", '[', false);
    for (size_t i = 0; i < v->n_dtypes; i++) {
        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "dtype", vc_dtype_name(v->dtypes[i].dtype));
        vc_json_uint(json, "tensors", v->dtypes[i].n_tensors);
        vc_json_uint(json, "value_bytes", v->dtypes[i].size_bytes);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

static void write_findings(struct vc_json *json, const struct vc_verification *v)
{
    vc_json_uint(json, "errors", v->n_errors);
    vc_json_uint(json, "warnings", v->n_warnings);
    vc_json_begin(json, "findings", '[', false);
    for (size_t i = 0; i < v->n_findings; i++) {
        const struct vc_finding *finding = &v->findings[i];

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "severity", severity_name(finding->severity));
        vc_json_string(json, "id", finding->id);
        vc_json_string(json, "tensor", finding->tensor[0] != '\0' ? finding->tensor : NULL);
        vc_json_string(json, "sentence", finding->sentence);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

static void write_against(struct vc_json *json, const struct vc_verification *v)
{
    if (v->against[0] == '\0') {
        vc_json_null(json, "against");
        return;
    }
    vc_json_begin(json, "against", '{', true);
    vc_json_string(json, "path", v->against);
    vc_json_uint(json, "compared", v->n_compared);
    vc_json_uint(json, "identical", v->n_identical);
    vc_json_real(json, "sqnr_db", v->measured ? v->sqnr_db : (double)NAN);
    vc_json_string(json, "worst_tensor", v->measured ? v->rows[v->worst].name : NULL);
    vc_json_end(json, '}');
}

static void write_row(struct vc_json *json, const struct vc_verify_row *row)
{
    vc_json_begin(json, NULL, '{', true);
    vc_json_string(json, "name", row->name);
    vc_json_string(json, "dtype", vc_dtype_name(row->dtype));
    vc_json_uint(json, "elements", row->n_elems);
    vc_json_bool(json, "read", row->read);
    vc_json_uint(json, "nans", row->nans);
    vc_json_uint(json, "infs", row->infs);
    vc_json_string(json, "sha256", row->sha256[0] != '\0' ? row->sha256 : NULL);
    if (row->compared) {
        vc_json_begin(json, "compared", '{', true);
        vc_json_bool(json, "identical", row->identical);
        vc_json_bool(json, "exact", row->identical || (row->numeric && isinf(row->sqnr_db) && row->sqnr_db > 0));
        vc_json_real(json, "sqnr_db", row->numeric ? row->sqnr_db : (double)NAN);
        vc_json_real(json, "max_abs_error", row->numeric ? row->max_abs_error : (double)NAN);
        vc_json_end(json, '}');
    } else {
        vc_json_null(json, "compared");
    }
    vc_json_end(json, '}');
}

enum vc_status vc_verify_json(struct vc_ctx *ctx, const struct vc_verification *v, bool strict, char **out)
{
    struct vc_json json;
    struct vc_text text;

    vc_json_open(&json, &text, ctx, '{', "vcompress.verify/1");
    write_file(&json, v);
    write_dtypes(&json, v);
    vc_json_bool(&json, "data", v->data);
    vc_json_bool(&json, "fine", v->n_errors == 0 && (!strict || v->n_warnings == 0));
    write_findings(&json, v);
    write_against(&json, v);
    vc_json_uint(&json, "pattern_weights", v->n_pattern);
    vc_json_begin(&json, "tensors", '[', false);
    for (size_t i = 0; i < v->n_rows; i++) {
        write_row(&json, &v->rows[i]);
    }
    vc_json_end(&json, ']');
    vc_json_end(&json, '}');
    return vc_json_finish(&json, out);
}
