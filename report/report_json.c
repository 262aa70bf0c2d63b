/* report_json.c - a report as one JSON document, schema vcompress.report/1 (report-1.schema.json):
 *
 *     {
 *       "schema": "vcompress.report/1",
 *       "tool": "vcompress 0.1.0",
 *       "command": "quantize --int8 --granularity channel",
 *       "input": {"path": "digits.npz", "format": "npz", "compressed": false, "file_bytes": 646918},
 *       ...
 *       "tensors": [
 *         {"name": "fc1.weight", "action": "quantized", ..., "bytes_before": 262144, "bytes_after": 66048, ...},
 *         ...
 *
 * Keys come in a fixed order, one tensor per line, so that two documents can be compared with diff. Sizes are integers
 * in bytes. What is not known is null: figures of the run before it ran, the size of a deflated output, an SQNR without
 * an error (then "exact" is true). Decides nothing and computes only ratios. */
#include <math.h>
#include <stdio.h>

#include <vcompress/fit.h>

#include "report/document_parts.h"

static const char *action_name(enum vc_action action)
{
    static const char *const names[] = {[VC_ACTION_KEPT] = "kept",       [VC_ACTION_QUANTIZED] = "quantized",
                                        [VC_ACTION_CAST] = "cast",       [VC_ACTION_DEQUANTIZED] = "dequantized",
                                        [VC_ACTION_DROPPED] = "dropped", [VC_ACTION_TIED] = "tied",
                                        [VC_ACTION_PRUNED] = "pruned",   [VC_ACTION_CUT] = "cut",
                                        [VC_ACTION_TRAINED] = "trained", [VC_ACTION_REFITTED] = "refitted"};

    return names[action];
}

const char *vc_role_name(enum vc_role role)
{
    return role == VC_ROLE_WEIGHT ? "weight" : role == VC_ROLE_OPTIMIZER ? "optimizer" : "other";
}

/* NULL and "" are null: every string of a report means "not known" or "none" when it is empty. */
static void write_string(struct vc_json *json, const char *key, const char *value)
{
    vc_json_string(json, key, value != NULL && value[0] != '\0' ? value : NULL);
}

static void write_ratio(struct vc_json *json, uint64_t before, uint64_t after)
{
    vc_json_real(json, "ratio", after == 0 ? (double)NAN : (double)before / (double)after);
}

/* ---- parts ---- */

/* "layout": {"name": "plain", ...}, or null. */
void vc_write_layout(struct vc_json *json, const struct vc_layout *layout)
{
    if (layout == NULL) {
        vc_json_null(json, "layout");
        return;
    }
    vc_json_begin(json, "layout", '{', true);
    vc_json_string(json, "name", layout->name);
    write_string(json, "loader", layout->loader);
    write_string(json, "tried", layout->tried);
    write_string(json, "needs", layout->needs);
    vc_json_end(json, '}');
}

static const struct vc_layout *layout_of(const struct vc_report *report, size_t output)
{
    return report->layouts != NULL && output < report->n_outputs ? report->layouts[output] : NULL;
}

static void write_files(struct vc_json *json, const struct vc_report *report)
{
    vc_json_begin(json, "input", '{', true);
    write_string(json, "path", report->input);
    write_string(json, "format", report->input_format);
    vc_json_bool(json, "compressed", report->input_compressed);
    vc_json_uint(json, "file_bytes", report->totals.file_before);
    vc_json_end(json, '}');
    vc_json_begin(json, "output", '{', true);
    write_string(json, "path", report->output);
    write_string(json, "format", report->output_format);
    vc_json_known(json, "file_bytes", report->totals.file_after);
    vc_json_bool(json, "written", report->written);
    vc_write_layout(json, layout_of(report, 0));
    vc_json_end(json, '}');
    vc_json_begin(json, "outputs", '[', false);
    for (size_t i = 0; i < report->n_outputs; i++) {
        const struct vc_report_output *output = &report->outputs[i];

        vc_json_begin(json, NULL, '{', true);
        write_string(json, "path", output->path);
        write_string(json, "format", output->format);
        vc_json_known(json, "file_bytes", output->file_bytes);
        vc_json_bool(json, "written", output->written);
        vc_write_layout(json, layout_of(report, i));
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
    vc_json_bool(json, "dry_run", report->dry_run);
}

/* {"id": "max_bytes", "limit": 200000, "value": 176646, "passed": true} */
static void write_gate(struct vc_json *json, const struct vc_report_gate *gate)
{
    vc_json_begin(json, NULL, '{', true);
    vc_json_string(json, "id", gate->id);
    vc_json_real(json, "limit", gate->limit);
    vc_json_real(json, "value", gate->value);
    if (gate->judged) {
        vc_json_bool(json, "passed", gate->passed);
    } else {
        vc_json_null(json, "passed");
    }
    vc_json_end(json, '}');
}

static void write_gates(struct vc_json *json, const struct vc_report *report)
{
    vc_json_begin(json, "gates", '{', true);
    vc_json_bool(json, "met", report->gate_missed == NULL || report->gate_missed[0] == '\0');
    write_string(json, "missed", report->gate_missed);
    vc_json_begin(json, "each", '[', true);
    for (size_t i = 0; i < report->n_gates; i++) {
        write_gate(json, &report->gates[i]);
    }
    vc_json_end(json, ']');
    vc_json_end(json, '}');
    write_string(json, "note", report->note);
    vc_json_begin(json, "notes", '[', report->n_notes == 0);
    for (size_t i = 0; i < report->n_notes; i++) {
        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "id", report->notes[i].id);
        vc_json_string(json, "text", report->notes[i].text);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

/* Every file that was written, where digests were asked for. */
static void write_digests(struct vc_json *json, const struct vc_report *report)
{
    vc_json_begin(json, "files", '[', report->n_files == 0);
    for (size_t i = 0; i < report->n_files; i++) {
        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "path", report->files[i].path);
        vc_json_uint(json, "bytes", report->files[i].size_bytes);
        vc_json_string(json, "sha256", report->files[i].sha256);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

/* {"before": 24, "after": 14} on a line of its own. */
static void write_change(struct vc_json *json, const char *key, uint64_t before, uint64_t after, bool with_ratio)
{
    vc_json_line(json);
    vc_json_begin(json, key, '{', true);
    vc_json_uint(json, "before", before);
    vc_json_uint(json, "after", after);
    if (with_ratio) {
        write_ratio(json, before, after);
    }
    vc_json_end(json, '}');
}

static void write_sizes(struct vc_json *json, const struct vc_report_totals *totals,
                        const struct vc_report_pruning *pruning)
{
    vc_json_line(json);
    vc_json_begin(json, "file", '{', true);
    vc_json_uint(json, "before", totals->file_before);
    vc_json_known(json, "after", totals->file_after);
    write_ratio(json, totals->file_before, totals->file_after);
    vc_json_end(json, '}');
    write_change(json, "host", totals->host_before, totals->host_after, true);
    vc_json_line(json);
    vc_json_begin(json, "device", '{', true);
    vc_json_uint(json, "before", totals->host_before);
    vc_json_uint(json, "native", totals->device_native);
    vc_json_uint(json, "dequantized", totals->device_dequantized);
    if (pruning != NULL && pruning->n_sparse_2_4 != 0) {
        vc_json_uint(json, "sparse_2_4", pruning->device_sparse_2_4);
    } else {
        vc_json_null(json, "sparse_2_4");
    }
    vc_json_end(json, '}');
    write_change(json, "optimizer", totals->optimizer_before, totals->optimizer_after, false);
    write_change(json, "other", totals->other_before, totals->other_after, false);
    vc_json_line(json);
    vc_json_uint(json, "scale_bytes", totals->scale_bytes);
    vc_json_real(json, "bits_per_weight", totals->bits_per_weight);
}

/* "pruning": {"tensors": 2, "weights": 1000, "zeros": {"before": 0, "after": 500}, ...}, or null. */
static void write_pruning(struct vc_json *json, const struct vc_report_pruning *pruning)
{
    if (pruning == NULL) {
        vc_json_null(json, "pruning");
        return;
    }
    vc_json_begin(json, "pruning", '{', true);
    vc_json_uint(json, "tensors", pruning->n_tensors);
    vc_json_uint(json, "weights", pruning->n_weights);
    if (pruning->measured) {
        vc_json_begin(json, "zeros", '{', true);
        vc_json_uint(json, "before", pruning->zeros_before);
        vc_json_uint(json, "after", pruning->zeros_after);
        vc_json_end(json, '}');
    } else {
        vc_json_null(json, "zeros");
    }
    vc_json_real(json, "sparsity", pruning->measured ? pruning->sparsity : (double)NAN);
    vc_json_real(json, "model_sparsity", pruning->measured ? pruning->model_sparsity : (double)NAN);
    vc_json_known(json, "mask_and_values_bytes", pruning->mask_and_values);
    vc_json_uint(json, "sparse_2_4_tensors", pruning->n_sparse_2_4);
    if (pruning->n_pattern != 0) {
        vc_json_begin(json, "pattern", '{', true);
        vc_json_uint(json, "keep", pruning->pattern_keep);
        vc_json_uint(json, "group", pruning->pattern_group);
        vc_json_uint(json, "tensors", pruning->n_pattern);
        vc_json_uint(json, "groups", pruning->n_groups);
        vc_json_end(json, '}');
    } else {
        vc_json_null(json, "pattern");
    }
    vc_json_uint(json, "mask_bytes", pruning->mask_bytes);
    vc_json_uint(json, "pruned_bytes", pruning->pruned_bytes);
    vc_json_end(json, '}');
}

/* "layers": {"list": "model.layers", "before": 12, "after": 10, "left_out": [3, 7]}, or null. */
static void write_layers(struct vc_json *json, const struct vc_report_layers *layers)
{
    if (layers == NULL) {
        vc_json_null(json, "layers");
        return;
    }
    vc_json_begin(json, "layers", '{', true);
    write_string(json, "list", layers->list);
    vc_json_uint(json, "before", layers->before);
    vc_json_uint(json, "after", layers->after);
    vc_json_begin(json, "left_out", '[', true);
    for (size_t i = 0; i < layers->n_left_out; i++) {
        vc_json_uint(json, NULL, layers->left_out[i]);
    }
    vc_json_end(json, ']');
    vc_json_end(json, '}');
}

/* [0.1, 0.5] */
static void write_range(struct vc_json *json, const char *key, double least, double most)
{
    vc_json_begin(json, key, '[', true);
    vc_json_real(json, NULL, least);
    vc_json_real(json, NULL, most);
    vc_json_end(json, ']');
}

/* {"name": "fc1.weight:0", "kind": "neurons", "before": 128, "after": 90, "removed": [3, 7], ...} on a line. */
static void write_group(struct vc_json *json, const struct vc_report_group *group)
{
    vc_json_begin(json, NULL, '{', true);
    vc_json_string(json, "name", group->name);
    vc_json_string(json, "kind", group->kind);
    vc_json_uint(json, "before", group->n_before);
    vc_json_uint(json, "after", group->n_after);
    write_string(json, "reason", group->reason);
    vc_json_begin(json, "members", '[', true);
    for (size_t i = 0; i < group->n_members; i++) {
        vc_json_string(json, NULL, group->members[i]);
    }
    vc_json_end(json, ']');
    vc_json_begin(json, "removed", '[', true);
    for (size_t i = 0; i < group->n_removed; i++) {
        vc_json_uint(json, NULL, group->removed[i]);
    }
    vc_json_end(json, ']');
    if (group->scored) {
        vc_json_begin(json, "scores", '{', true);
        write_range(json, "removed", group->removed_min, group->removed_max);
        write_range(json, "kept", group->kept_min, group->kept_max);
        vc_json_end(json, '}');
    } else {
        vc_json_null(json, "scores");
    }
    vc_json_end(json, '}');
}

/* "removal": {"groups": [...], "multiply_adds": {...}}, or null. */
static void write_removal(struct vc_json *json, const struct vc_report_removal *removal)
{
    if (removal == NULL) {
        vc_json_null(json, "removal");
        return;
    }
    vc_json_begin(json, "removal", '{', false);
    vc_json_begin(json, "groups", '[', false);
    for (size_t i = 0; i < removal->n_groups; i++) {
        write_group(json, &removal->groups[i]);
    }
    vc_json_end(json, ']');
    if (removal->macs_at != NULL) {
        vc_json_begin(json, "multiply_adds", '{', true);
        vc_json_string(json, "inputs", removal->macs_at);
        vc_json_uint(json, "before", removal->macs_before);
        vc_json_uint(json, "after", removal->macs_after);
        vc_json_end(json, '}');
    } else {
        vc_json_null(json, "multiply_adds");
    }
    vc_json_end(json, '}');
}

static void write_totals(struct vc_json *json, const struct vc_report *report)
{
    const struct vc_report_totals *totals = &report->totals;
    struct vc_report_row worst;
    bool has_worst = vc_report_get_row(report, totals->worst, &worst);

    vc_json_begin(json, "totals", '{', true);
    vc_json_line(json);
    vc_json_uint(json, "tensors", totals->n_tensors);
    vc_json_uint(json, "changed", totals->n_changed);
    vc_json_uint(json, "kept", totals->n_kept);
    vc_json_uint(json, "dropped", totals->n_dropped);
    vc_json_uint(json, "tied", totals->n_tied);
    vc_json_uint(json, "parameters", totals->n_params);
    vc_json_uint(json, "parameters_after", report->n_params_after);
    write_sizes(json, totals, report->pruning);
    vc_json_line(json);
    vc_json_real(json, "sqnr_db", totals->measured ? totals->sqnr_db : (double)NAN);
    vc_json_bool(json, "exact", totals->measured && isinf(totals->sqnr_db));
    write_string(json, "worst_tensor", has_worst ? worst.name : NULL);
    vc_json_line(json);
    write_pruning(json, report->pruning);
    vc_json_line(json);
    write_layers(json, report->layers);
    vc_json_end(json, '}');
}

static void write_run(struct vc_json *json, const struct vc_report *report)
{
    vc_json_begin(json, "run", '{', true);
    vc_json_real(json, "seconds", report->seconds > 0 ? report->seconds : (double)NAN);
    vc_json_known(json, "threads", report->threads);
    write_string(json, "device", report->device);
    vc_json_known(json, "peak_pool_bytes", report->peak_pool_bytes);
    vc_json_known(json, "peak_rss_bytes", report->peak_rss_bytes);
    vc_json_end(json, '}');
}

static void write_measures(struct vc_json *json, const struct vc_report_row *row)
{
    if (!row->measured) {
        vc_json_null(json, "measured");
        return;
    }
    vc_json_begin(json, "measured", '{', true);
    vc_json_real(json, "sqnr_db", row->sqnr_db);
    vc_json_bool(json, "exact", isinf(row->sqnr_db));
    vc_json_real(json, "max_abs_error", row->max_abs_error);
    vc_json_real(json, "sum_x2", row->sum_x2);
    vc_json_real(json, "sum_e2", row->sum_e2);
    vc_json_uint(json, "zeros_before", row->zeros_before);
    vc_json_uint(json, "zeros_after", row->zeros_after);
    vc_json_uint(json, "clipped", row->clipped);
    vc_json_uint(json, "nonfinite", row->nonfinite);
    vc_json_end(json, '}');
}

static void write_shape(struct vc_json *json, const char *key, unsigned n_dims, const uint64_t *shape)
{
    vc_json_begin(json, key, '[', true);
    for (unsigned i = 0; i < n_dims; i++) {
        vc_json_uint(json, NULL, shape[i]);
    }
    vc_json_end(json, ']');
}

/* [{"role": "scale", "dtype": "f32", "shape": [64, 1], "bytes": 256}] */
static void write_parts(struct vc_json *json, const struct vc_report_row *row)
{
    vc_json_begin(json, "parts", '[', true);
    for (size_t i = 0; i < row->n_parts; i++) {
        const struct vc_report_part *part = &row->parts[i];

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "role", vc_part_role_name(part->role));
        vc_json_string(json, "dtype", vc_dtype_name(part->dtype));
        write_shape(json, "shape", part->n_dims, part->shape);
        vc_json_uint(json, "bytes", part->bytes);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

/* [{"pass": "quantize", "scheme": "f16", "dtype": "f16", "shape": [64, 128], "bytes": 16384, "sqnr_db": 73.8, ...}] */
static void write_steps(struct vc_json *json, const struct vc_report_row *row)
{
    vc_json_begin(json, "steps", '[', true);
    for (size_t i = 0; i < row->n_steps; i++) {
        const struct vc_report_step *step = &row->steps[i];

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "pass", step->pass);
        write_string(json, "scheme", step->scheme);
        vc_json_string(json, "dtype", vc_dtype_name(step->dtype));
        write_shape(json, "shape", step->n_dims, step->shape);
        vc_json_uint(json, "bytes", step->bytes);
        vc_json_real(json, "sqnr_db", step->measured ? step->sqnr_db : (double)NAN); /* null, too, without an error */
        vc_json_uint_if(json, "zeros", step->measured, step->zeros);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

/* name_after: in the output; NULL: the same. */
static void write_row(struct vc_json *json, const struct vc_report_row *row, const char *name_after)
{
    vc_json_begin(json, NULL, '{', true);
    vc_json_string(json, "name", row->name);
    if (name_after != NULL) {
        vc_json_string(json, "name_after", name_after);
    }
    vc_json_string(json, "action", action_name(row->action));
    write_string(json, "reason", row->reason);
    vc_json_string(json, "role", vc_role_name(row->role));
    vc_json_string(json, "dtype_before", vc_dtype_name(row->dtype_before));
    vc_json_string(json, "dtype_after", vc_dtype_name(row->dtype_after));
    write_string(json, "scheme", row->scheme);
    write_shape(json, "shape", row->n_dims, row->shape);
    vc_json_uint(json, "elements", row->n_elems);
    vc_json_uint(json, "bytes_before", row->bytes_before);
    vc_json_uint(json, "bytes_after", row->bytes_after);
    write_ratio(json, row->bytes_before, row->bytes_after);
    vc_json_uint(json, "scale_bytes", row->scale_bytes);
    vc_json_uint(json, "scales", row->n_scales);
    vc_json_uint(json, "file_bytes_before", row->file_bytes_before);
    vc_json_uint(json, "dequantized_bytes", row->dequantized_bytes);
    write_measures(json, row);
    write_shape(json, "shape_after", row->n_dims_after, row->shape_after);
    write_parts(json, row);
    write_steps(json, row);
    vc_json_end(json, '}');
}

static void write_fit(struct vc_json *json, const char *key, const struct vc_fit *fit)
{
    vc_json_line(json);
    vc_json_begin(json, key, '{', true);
    vc_json_string(json, "verdict", vc_verdict_name(fit->verdict));
    vc_json_uint(json, "need_bytes", fit->need_bytes);
    vc_json_uint(json, "usable_bytes", fit->usable_bytes);
    vc_json_int(json, "headroom_bytes", fit->headroom_bytes);
    vc_json_end(json, '}');
}

/* "fit": [{"gpu": "Tesla T4", "before": {"verdict": "does not fit", ...}, "after": {...}}], or null. */
static void write_fits(struct vc_json *json, const struct vc_report *report)
{
    static const char *const runtimes[] = {"native", "dequantize", "layerwise"};

    if (report->n_fits == 0) {
        vc_json_null(json, "fit");
        return;
    }
    vc_json_begin(json, "fit", '[', false);
    for (size_t i = 0; i < report->n_fits; i++) {
        const struct vc_fit_change *change = &report->fits[i];

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "gpu", change->gpu->name);
        vc_json_uint(json, "count", change->count);
        vc_json_bool(json, "weights_only", change->weights_only);
        vc_json_string(json, "runtime", runtimes[change->runtime]);
        write_fit(json, "before", &change->before);
        write_fit(json, "after", &change->after);
        write_fit(json, "native", &change->native);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

#define TRAINING
#include "report/rows_write.inc"

#include "report/quality.inc"

TABLE(distillation, const struct vc_distill_options *o, const struct vc_distillation *d, const char *output)
#include "report/training.inc"
END_TABLE

/* "distillations": [{"student": "digits.npz", ..., "eval": {...}, "missed": null}], or null. */
static void write_distillations(struct vc_json *json, const struct vc_report *report)
{
    if (report->n_distillations == 0) {
        vc_json_null(json, "distillations");
        return;
    }
    vc_json_begin(json, "distillations", '[', false);
    for (size_t i = 0; i < report->n_distillations; i++) {
        rows_distillation(json, NULL, LINES, report->distillations[i]->options, report->distillations[i],
                          report->written ? report->output : NULL);
    }
    vc_json_end(json, ']');
}

enum vc_status vc_report_json(struct vc_ctx *ctx, const struct vc_report *report, char **out)
{
    struct vc_json json;
    struct vc_text text;
    char tool[64];

    (void)snprintf(tool, sizeof tool, "vcompress %s", vc_version());
    vc_json_open(&json, &text, ctx, '{', "vcompress.report/1");
    vc_json_string(&json, "tool", tool);
    write_string(&json, "command", report->command);
    write_files(&json, report);
    write_digests(&json, report);
    write_gates(&json, report);
    write_totals(&json, report);
    write_run(&json, report);
    vc_json_begin(&json, "tensors", '[', false);
    for (size_t i = 0; i < report->n_rows; i++) {
        struct vc_report_row row;

        (void)vc_report_get_row(report, i, &row);
        write_row(&json, &row, vc_report_name_after(report, i));
    }
    vc_json_end(&json, ']');
    write_removal(&json, report->removal);
    write_fits(&json, report);
    write_distillations(&json, report);
    vc_json_end(&json, '}');
    return vc_json_finish(&json, out);
}
