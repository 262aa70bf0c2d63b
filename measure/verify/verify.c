/* verify.c - vc_verify: lists everything that is wrong with a checkpoint. The reader notes what it would
 * refuse (core/base/findings.h); then the values are read (verify_data.c) and compared with the source
 * (verify_against.c), where that was asked for. The checks of headers are the readers' own.
 *
 *     open_both            while ctx->findings is set, the reader notes faults and goes on
 *     find_notes           what the reader wants to be known, tensors that it refuses
 *     vc_verify_codes      scales and zero points that a graph tells
 *     vc_verify_data       values, checksums, digests, the same weights twice
 *     vc_verify_pattern    N:M or blocks
 *     vc_verify_against    what the file was made from
 *
 * Each adds findings; a finding is no failure of the call. */

#include "core/base/option_struct.h"
#include "measure/verify/verify_parts.h"
#include "passes/sha256.h"

/* What the reader wants to be known of the file: its notes, and tensors that it cannot read and that no
 * finding names yet. */
static enum vc_status find_notes(struct vc_ctx *ctx, const struct vc_model *model)
{
    for (size_t i = 0; i < model->n_facts; i++) {
        if (strcmp(model->facts[i].key, VC_FACT_NOTE) == 0) {
            bool is_name = &model->facts[i] == model->wrong_name;

            VC_CALL(
                vc_find(ctx, VC_SEVERITY_WARNING, is_name ? "extension" : "note", NULL, "%s", model->facts[i].value));
        }
    }
    for (size_t i = 0; i < model->n_refused; i++) {
        if (!vc_findings_has(ctx->findings, model->refused[i].name)) {
            VC_CALL(vc_find(ctx, VC_SEVERITY_WARNING, "refused", model->refused[i].name, "cannot be read here: %s",
                            model->refused[i].why));
        }
    }
    return VC_OK;
}

/* What the reader noticed while values were read, such as a checksum that is wrong. */
static enum vc_status find_late_note(struct vc_ctx *ctx, const struct vc_model *model)
{
    char note[VC_MESSAGE_BYTES] = "";

    if (model->ops != NULL && model->ops->late_note != NULL) {
        model->ops->late_note(model, note, sizeof note);
    }
    return note[0] == '\0' ? VC_OK : vc_find(ctx, VC_SEVERITY_WARNING, "checksum", NULL, "%s", note);
}

/* Errors first, then warnings, both in the order in which they were found. */
static enum vc_status sort_findings(struct vc_ctx *ctx, struct verify *v)
{
    struct vc_finding *list = vc_alloc_array(ctx, VC_TAG_REPORT, v->findings.n, sizeof *list);
    size_t n = 0;

    VC_CALL_ALLOC(list);
    for (int severity = VC_SEVERITY_ERROR; severity <= VC_SEVERITY_WARNING; severity++) {
        for (size_t i = 0; i < v->findings.n; i++) {
            if ((int)v->findings.list[i].severity == severity) {
                list[n++] = v->findings.list[i];
            }
        }
    }
    vc_free(ctx, v->findings.list);
    v->findings.list = list;
    v->findings.capacity = v->findings.n;
    return VC_OK;
}

/* One row for each tensor of the file, in its order. */
static enum vc_status make_rows(struct vc_ctx *ctx, struct verify *v)
{
    size_t n = v->model->n_tensors;

    VC_CALL(VC_ZEROS(ctx, VC_TAG_REPORT, v->rows, n));
    for (size_t i = 0; i < n; i++) {
        const struct vc_tensor *t = &v->model->tensors[i];

        v->rows[i] = (struct vc_verify_row){.name = t->name, .dtype = t->dtype, .n_elems = t->n_elems};
    }
    v->result.n_rows = n;
    v->result.rows = v->rows;
    return VC_OK;
}

/* Opens the file with faults noted, and the source without: a source that cannot be opened is a failure of
 * the call. */
static enum vc_status open_both(struct vc_ctx *ctx, struct verify *v, const char *path)
{
    struct vc_open_options options;
    enum vc_status status = VC_OK;

    vc_open_defaults(&options);
    options.void_as = v->options.void_as;
    ctx->findings = &v->findings;
    status = vc_model_open(ctx, path, &options, &v->model);
    ctx->findings = NULL;
    if (status == VC_OK && v->options.against != NULL) {
        status = vc_model_open(ctx, v->options.against, &options, &v->source);
    }
    return status;
}

/* Tensors and bytes by type; types that do not occur are left out. Tied tensors take no bytes of their own. */
static void count_dtypes(struct verify *v)
{
    struct vc_verify_dtype all[VC_DTYPE_COUNT] = {{0}};

    for (size_t i = 0; i < v->model->n_tensors; i++) {
        const struct vc_tensor *t = &v->model->tensors[i];

        all[t->dtype].n_tensors++;
        all[t->dtype].size_bytes += t->alias_of == VC_NO_TENSOR ? t->size_bytes : 0;
    }
    for (size_t i = 0; i < VC_DTYPE_COUNT; i++) {
        if (all[i].n_tensors != 0) {
            all[i].dtype = (enum vc_dtype)i;
            v->dtypes[v->result.n_dtypes++] = all[i];
        }
    }
    v->result.dtypes = v->dtypes;
}

/* The figures that the caller sees, at the end. */
static void fill_result(struct verify *v)
{
    struct vc_verification *r = &v->result;

    r->path = v->model->path;
    r->format = v->model->format_name;
    r->file_bytes = v->model->file_bytes;
    r->n_tensors = v->model->n_tensors;
    count_dtypes(v);
    r->against = v->source != NULL ? v->source->path : "";
    r->n_findings = v->findings.n;
    r->findings = v->findings.list;
    r->n_errors = v->findings.n_errors;
    r->n_warnings = v->findings.n_warnings;
}

/* All checks after opening; findings go to the list until the end. */
static enum vc_status check(struct vc_ctx *ctx, struct verify *v)
{
    enum vc_status status;

    ctx->findings = &v->findings;
    VC_TRY(find_notes(ctx, v->model));
    VC_TRY(vc_verify_codes(ctx, v));
    if (v->result.data) {
        VC_TRY(make_rows(ctx, v));
        VC_TRY(vc_verify_data(ctx, v));
        VC_TRY(find_late_note(ctx, v->model));
    }
    if (v->options.pattern != NULL) {
        VC_TRY(vc_verify_pattern(ctx, v));
    }
    if (v->source != NULL) {
        VC_TRY(vc_verify_against(ctx, v));
    }
    VC_TRY(sort_findings(ctx, v));
out:
    ctx->findings = NULL;
    return status;
}

static void end(void *result)
{
    struct verify *v = result;

    vc_findings_release(v->ctx, &v->findings);
    vc_free(v->ctx, v->rows);
    vc_model_close(v->source);
    vc_model_close(v->model);
}

/* A file that changes while it is verified ends the call: what was found would be of no file that there is. */
static enum vc_status verify(struct vc_ctx *ctx, const char *path, const struct vc_verify_options *options,
                             struct vc_verification **out)
{
    VC_SCOPED_RESULT struct verify *v = vc_result_new(ctx, VC_TAG_REPORT, sizeof *v, end);

    *out = NULL;
    VC_CALL_ALLOC(v);
    v->ctx = ctx;
    v->result.worst = VC_NO_TENSOR;
    VC_CALL(vc_options_read(ctx, VC_OPTIONS(verify), options, &v->options));
    v->result.data = v->options.data || v->options.sha256 || v->options.against != NULL;
    VC_REFUSE_IF(v->options.sha256 && !vc_sha256_built_in(), ctx, VC_E_UNSUPPORTED,
                 "this build has no SHA-256: nettle was not there when it was made");
    VC_CALL(open_both(ctx, v, path));
    enum vc_status status = check(ctx, v);
    if (status != VC_OK) {
        (void)vc_context(ctx, "%s", path);
    }
    status = vc_model_unchanged(ctx, v->model, status); /* what was found is of no file that there is */
    if (v->source != NULL) {
        VC_CALL(vc_model_unchanged(ctx, v->source, status));
    } else {
        VC_CALL(status);
    }
    fill_result(v);
    *out = vc_give(&v);
    return VC_OK;
}

enum vc_status vc_verify(struct vc_ctx *ctx, const char *path, const struct vc_verify_options *options,
                         struct vc_verification **out)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, verify(ctx, path, options, out));
}
