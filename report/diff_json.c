/* diff_json.c - the difference of two checkpoints as one JSON document, schema vcompress.diff/1 (diff-1.schema.json).
 */
#include <math.h>

#include <vcompress/measure.h>

#include "core/base/option_struct.h"
#include "report/document_parts.h"

void vc_write_file(struct vc_json *json, const char *key, const struct vc_model *model)
{
    vc_json_begin(json, key, '{', true);
    vc_json_string(json, "path", vc_model_path(model));
    vc_json_string(json, "format", vc_model_format(model));
    vc_json_uint(json, "file_bytes", vc_model_file_bytes(model));
    vc_json_end(json, '}');
}

static void write_figures(struct vc_json *json, bool numeric, double max_abs_error, double sqnr_db)
{
    vc_json_real(json, "max_abs_error", numeric ? max_abs_error : (double)NAN);
    vc_json_real(json, "sqnr_db", numeric ? sqnr_db : (double)NAN);
    vc_json_bool(json, "exact", numeric && isinf(sqnr_db) && sqnr_db > 0);
}

static void write_row(struct vc_json *json, const struct vc_diff_limits *limits, const struct vc_diff_row *row)
{
    static const char *const kinds[] = {
        [VC_DIFF_SAME] = "same",     [VC_DIFF_VALUES] = "values", [VC_DIFF_SHAPE] = "shape",
        [VC_DIFF_ONLY_A] = "only_a", [VC_DIFF_ONLY_B] = "only_b",
    };

    vc_json_begin(json, NULL, '{', true);
    vc_json_string(json, "name", row->name);
    vc_json_string(json, "kind", kinds[row->kind]);
    vc_json_bool(json, "within", vc_diff_within(limits, row));
    vc_json_string(json, "dtype_a", row->dtype_a == VC_DTYPE_NONE ? NULL : vc_dtype_name(row->dtype_a));
    vc_json_string(json, "dtype_b", row->dtype_b == VC_DTYPE_NONE ? NULL : vc_dtype_name(row->dtype_b));
    vc_json_uint(json, "elements", row->n_elems);
    write_figures(json, row->numeric, row->max_abs_error, row->sqnr_db);
    vc_json_real(json, "cosine", row->numeric ? row->cosine : (double)NAN);
    vc_json_end(json, '}');
}

static void write_limits(struct vc_json *json, const struct vc_diff_limits *limits)
{
    vc_json_begin(json, "limits", '{', true);
    vc_json_real(json, "tolerance", limits->by_value ? limits->tolerance : (double)NAN);
    vc_json_real(json, "min_sqnr_db", limits->by_sqnr ? limits->min_sqnr_db : (double)NAN);
    vc_json_end(json, '}');
}

static void write_totals(struct vc_json *json, const struct vc_diff *diff, size_t n_beyond)
{
    vc_json_begin(json, "totals", '{', true);
    vc_json_uint(json, "tensors", diff->n_rows);
    vc_json_uint(json, "different", diff->n_different);
    vc_json_uint(json, "beyond", n_beyond);
    write_figures(json, true, diff->max_abs_error, diff->sqnr_db);
    vc_json_end(json, '}');
}

/* The caller's limits as the library lays them out. */
static enum vc_status read_limits(struct vc_ctx *ctx, const struct vc_diff_limits *limits, struct vc_diff_limits *own)
{
    struct vc_diff_limits defaults;
    const struct vc_options_kind kind = {"vc_diff_limits", "vc_diff_limits_defaults", &defaults, sizeof defaults};

    vc_diff_limits_defaults(&defaults);
    return vc_options_read(ctx, &kind, limits, own);
}

enum vc_status vc_diff_json(struct vc_ctx *ctx, const struct vc_model *a, const struct vc_model *b,
                            const struct vc_diff *diff, const struct vc_diff_limits *limits, char **out)
{
    size_t n_beyond;
    struct vc_diff_limits own;
    struct vc_json json;
    struct vc_text text;

    *out = NULL;
    VC_CALL(read_limits(ctx, limits, &own));
    n_beyond = vc_diff_beyond(&own, diff);
    vc_json_open(&json, &text, ctx, '{', "vcompress.diff/1");
    vc_write_file(&json, "a", a);
    vc_write_file(&json, "b", b);
    write_limits(&json, &own);
    vc_json_bool(&json, "within", n_beyond == 0);
    write_totals(&json, diff, n_beyond);
    vc_json_begin(&json, "tensors", '[', false);
    for (size_t i = 0; i < diff->n_rows; i++) {
        write_row(&json, &own, &diff->rows[i]);
    }
    vc_json_end(&json, ']');
    vc_json_end(&json, '}');
    return vc_json_finish(&json, out);
}
