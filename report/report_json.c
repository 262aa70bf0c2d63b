/* report_json.c - a report as one JSON document, schema vcompress.report/1 (report-1.schema.json).
 *
 * Keys come in a fixed order, one tensor per line, so that two documents can be compared with diff. Sizes are integers
 * in bytes. What is not known is null: figures of the run before it ran, the size of a deflated output, an SQNR without
 * an error (then "exact" is true). Decides nothing and computes only ratios. */
#include <inttypes.h>
#include <math.h>

#include <vcompress/report.h>

#include "core/base/text.h"

static const char *action_name(enum vc_action action)
{
    switch (action) {
    case VC_ACTION_KEPT:
        return "kept";
    case VC_ACTION_QUANTIZED:
        return "quantized";
    case VC_ACTION_CAST:
        return "cast";
    case VC_ACTION_DEQUANTIZED:
        return "dequantized";
    case VC_ACTION_DROPPED:
        return "dropped";
    case VC_ACTION_TIED:
        return "tied";
    }
    return "kept";
}

static const char *role_name(enum vc_role role)
{
    return role == VC_ROLE_WEIGHT ? "weight" : role == VC_ROLE_OPTIMIZER ? "optimizer" : "other";
}

/* ---- members: each is preceded by what separates it, "" for the first ---- */

static void add_key(struct vc_text *text, const char *separator, const char *key)
{
    vc_text_add(text, "%s\"%s\": ", separator, key);
}

/* NULL and "" are null: every string of a report means "not known" or "none" when it is empty. */
static void add_string(struct vc_text *text, const char *separator, const char *key, const char *value)
{
    add_key(text, separator, key);
    if (value == NULL || value[0] == '\0') {
        vc_text_add(text, "null");
    } else {
        vc_text_add_json_string(text, value);
    }
}

static void add_uint(struct vc_text *text, const char *separator, const char *key, uint64_t value)
{
    vc_text_add(text, "%s\"%s\": %" PRIu64, separator, key, value);
}

/* null where 0 means "not known". */
static void add_known(struct vc_text *text, const char *separator, const char *key, uint64_t value)
{
    add_key(text, separator, key);
    if (value == 0) {
        vc_text_add(text, "null");
    } else {
        vc_text_add(text, "%" PRIu64, value);
    }
}

static void add_real(struct vc_text *text, const char *separator, const char *key, double value)
{
    add_key(text, separator, key);
    vc_text_add_json_number(text, value);
}

static void add_bool(struct vc_text *text, const char *separator, const char *key, bool value)
{
    vc_text_add(text, "%s\"%s\": %s", separator, key, value ? "true" : "false");
}

static double ratio(uint64_t before, uint64_t after)
{
    return after == 0 ? (double)NAN : (double)before / (double)after;
}

/* ---- parts ---- */

static void add_files(struct vc_text *text, const struct vc_report *report)
{
    const struct vc_report_totals *totals = &report->totals;

    add_string(text, ",\n  \"input\": {", "path", report->input);
    add_string(text, ", ", "format", report->input_format);
    add_bool(text, ", ", "compressed", report->input_compressed);
    add_uint(text, ", ", "file_bytes", totals->file_before);
    add_string(text, "},\n  \"output\": {", "path", report->output);
    add_string(text, ", ", "format", report->output_format);
    add_known(text, ", ", "file_bytes", totals->file_after);
    add_bool(text, ", ", "written", report->written);
    vc_text_add(text, "},\n  \"outputs\": [");
    for (size_t i = 0; i < report->n_outputs; i++) {
        const struct vc_report_output *output = &report->outputs[i];

        add_string(text, i == 0 ? "\n    {" : ",\n    {", "path", output->path);
        add_string(text, ", ", "format", output->format);
        add_known(text, ", ", "file_bytes", output->file_bytes);
        add_bool(text, ", ", "written", output->written);
        vc_text_add(text, "}");
    }
    add_bool(text, "\n  ],\n  ", "dry_run", report->dry_run);
}

static void add_gates(struct vc_text *text, const struct vc_report *report)
{
    bool missed = report->gate_missed != NULL && report->gate_missed[0] != '\0';

    add_bool(text, ",\n  \"gates\": {", "met", !missed);
    add_string(text, ", ", "missed", report->gate_missed);
    vc_text_add(text, "}");
    add_string(text, ",\n  ", "note", report->note);
}

static void add_totals(struct vc_text *text, const struct vc_report *report)
{
    const struct vc_report_totals *totals = &report->totals;
    const struct vc_report_row *worst = totals->worst < report->n_rows ? &report->rows[totals->worst] : NULL;
    bool measured = totals->measured;

    add_uint(text, ",\n  \"totals\": {\n    ", "tensors", totals->n_tensors);
    add_uint(text, ", ", "changed", totals->n_changed);
    add_uint(text, ", ", "kept", totals->n_kept);
    add_uint(text, ", ", "dropped", totals->n_dropped);
    add_uint(text, ", ", "tied", totals->n_tied);
    add_uint(text, ", ", "parameters", totals->n_params);
    add_uint(text, ",\n    \"file\": {", "before", totals->file_before);
    add_known(text, ", ", "after", totals->file_after);
    add_real(text, ", ", "ratio", ratio(totals->file_before, totals->file_after));
    add_uint(text, "},\n    \"host\": {", "before", totals->host_before);
    add_uint(text, ", ", "after", totals->host_after);
    add_real(text, ", ", "ratio", ratio(totals->host_before, totals->host_after));
    add_uint(text, "},\n    \"device\": {", "before", totals->host_before);
    add_uint(text, ", ", "native", totals->device_native);
    add_uint(text, ", ", "dequantized", totals->device_dequantized);
    add_uint(text, "},\n    \"optimizer\": {", "before", totals->optimizer_before);
    add_uint(text, ", ", "after", totals->optimizer_after);
    add_uint(text, "},\n    \"other\": {", "before", totals->other_before);
    add_uint(text, ", ", "after", totals->other_after);
    add_uint(text, "},\n    ", "scale_bytes", totals->scale_bytes);
    add_real(text, ", ", "bits_per_weight", totals->bits_per_weight);
    add_real(text, ",\n    ", "sqnr_db", measured ? totals->sqnr_db : (double)NAN);
    add_bool(text, ", ", "exact", measured && isinf(totals->sqnr_db));
    add_string(text, ", ", "worst_tensor", worst != NULL ? worst->name : NULL);
    vc_text_add(text, "\n  }");
}

static void add_run(struct vc_text *text, const struct vc_report *report)
{
    add_real(text, ",\n  \"run\": {", "seconds", report->seconds > 0 ? report->seconds : (double)NAN);
    add_known(text, ", ", "threads", report->threads);
    add_string(text, ", ", "device", report->device);
    add_known(text, ", ", "peak_pool_bytes", report->peak_pool_bytes);
    add_known(text, ", ", "peak_rss_bytes", report->peak_rss_bytes);
    vc_text_add(text, "}");
}

static void add_measures(struct vc_text *text, const struct vc_report_row *row)
{
    if (!row->measured) {
        vc_text_add(text, ", \"measured\": null}");
        return;
    }
    add_real(text, ", \"measured\": {", "sqnr_db", row->sqnr_db);
    add_bool(text, ", ", "exact", isinf(row->sqnr_db));
    add_real(text, ", ", "max_abs_error", row->max_abs_error);
    add_real(text, ", ", "sum_x2", row->sum_x2);
    add_real(text, ", ", "sum_e2", row->sum_e2);
    add_uint(text, ", ", "zeros_before", row->zeros_before);
    add_uint(text, ", ", "zeros_after", row->zeros_after);
    add_uint(text, ", ", "clipped", row->clipped);
    add_uint(text, ", ", "nonfinite", row->nonfinite);
    vc_text_add(text, "}}");
}

static void add_row(struct vc_text *text, const struct vc_report_row *row)
{
    add_key(text, "    {", "name");
    vc_text_add_json_string(text, row->name);
    add_string(text, ", ", "action", action_name(row->action));
    add_string(text, ", ", "reason", row->reason);
    add_string(text, ", ", "role", role_name(row->role));
    add_string(text, ", ", "dtype_before", vc_dtype_name(row->dtype_before));
    add_string(text, ", ", "dtype_after", vc_dtype_name(row->dtype_after));
    add_string(text, ", ", "scheme", row->scheme);
    add_key(text, ", ", "shape");
    vc_text_add(text, "[");
    for (unsigned i = 0; i < row->n_dims; i++) {
        vc_text_add(text, "%s%" PRIu64, i > 0 ? ", " : "", row->shape[i]);
    }
    add_uint(text, "], ", "elements", row->n_elems);
    add_uint(text, ", ", "bytes_before", row->bytes_before);
    add_uint(text, ", ", "bytes_after", row->bytes_after);
    add_real(text, ", ", "ratio", ratio(row->bytes_before, row->bytes_after));
    add_uint(text, ", ", "scale_bytes", row->scale_bytes);
    add_uint(text, ", ", "scales", row->n_scales);
    add_uint(text, ", ", "file_bytes_before", row->file_bytes_before);
    add_uint(text, ", ", "dequantized_bytes", row->dequantized_bytes);
    add_measures(text, row);
}

enum vc_status vc_report_json(struct vc_ctx *ctx, const struct vc_report *report, char **out)
{
    struct vc_text text;

    *out = NULL;
    vc_text_init(&text, ctx);
    vc_text_add(&text, "{\n  \"schema\": \"vcompress.report/1\",\n  \"tool\": \"vcompress %s\"", vc_version());
    add_string(&text, ",\n  ", "command", report->command);
    add_files(&text, report);
    add_gates(&text, report);
    add_totals(&text, report);
    add_run(&text, report);
    vc_text_add(&text, ",\n  \"tensors\": [");
    for (size_t i = 0; i < report->n_rows; i++) {
        vc_text_add(&text, i > 0 ? ",\n" : "\n");
        add_row(&text, &report->rows[i]);
    }
    vc_text_add(&text, "%s]\n}\n", report->n_rows > 0 ? "\n  " : "");
    *out = vc_text_detach(&text);
    return text.status;
}
