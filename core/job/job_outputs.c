/* job_outputs.c - the files of a job: their sink, what they cannot hold, their sizes. */
#include <sys/stat.h>

#include "core/job/job_passes.h"
#include "core/job/job_state.h"
#include "core/run/null_sink.h"
#include "core/run/tee_sink.h"
#include "core/text/text.h"

/* ---- names ---- */

static bool same_inode(const char *a, const char *b)
{
    struct stat sa;
    struct stat sb;

    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

/* The folder of a path as a path of its own. */
static const char *folder_of(struct vc_ctx *ctx, struct vc_job *job, const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    int n = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);

    return vc_arena_printf(ctx, &job->arena, "%.*s", n, slash == NULL ? "." : path);
}

/* Without slashes at its end: a folder has the same name with and without. */
static const char *trimmed(struct vc_ctx *ctx, struct vc_job *job, const char *path)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    return vc_arena_printf(ctx, &job->arena, "%.*s", (int)n, path);
}

/* Two names of one file, whether it is there already or not. */
static enum vc_status refuse_same_file(struct vc_ctx *ctx, struct vc_job *job, const char *a, const char *b)
{
    const char *name_a = trimmed(ctx, job, a);
    const char *name_b = trimmed(ctx, job, b);
    const char *folder_a = folder_of(ctx, job, name_a);
    const char *folder_b = folder_of(ctx, job, name_b);

    if (name_a == NULL || name_b == NULL || folder_a == NULL || folder_b == NULL) {
        return VC_E_NOMEM;
    }
    bool same = strcmp(name_a, name_b) == 0;
    if (!same && strcmp(a, "-") != 0 && strcmp(b, "-") != 0) {
        same = same_inode(a, b) ||
               (strcmp(vc_base_name(name_a), vc_base_name(name_b)) == 0 && same_inode(folder_a, folder_b));
    }
    return same ? vc_fail(ctx, VC_E_ARGUMENT, "%s: would be written twice by one run", b) : VC_OK;
}

static enum vc_status add_output(struct vc_ctx *ctx, struct vc_job *job, const char *path)
{
    struct vc_report *report = &job->report;
    struct vc_report_output *output = &job->outputs[report->n_outputs];

    *output = (struct vc_report_output){.path = vc_arena_printf(ctx, &job->arena, "%s", path), .format = ""};
    VC_CALL_ALLOC(output->path);
    for (size_t i = 0; i < report->n_outputs; i++) {
        VC_CALL(refuse_same_file(ctx, job, job->outputs[i].path, path));
    }
    report->n_outputs++;
    return VC_OK;
}

/* The file of a pass's parts is the last output. */
static enum vc_status list_parts_file(struct vc_ctx *ctx, struct vc_job *job)
{
    for (size_t i = 0; i < job->n_passes; i++) {
        const struct vc_part_file *file = job->passes[i]->part_file;
        const char *role = file != NULL ? vc_part_role_name(file->role) : NULL;

        if (file == NULL) {
            continue;
        }
        VC_REFUSE_IF(job->parts_file.path != NULL, ctx, VC_E_ARGUMENT, "%s: only one pass of a run writes %ss",
                     file->path, role);
        VC_REFUSE_IF(strcmp(file->path, "-") == 0 || job->writers->format_of_name(file->path) == NULL, ctx,
                     VC_E_ARGUMENT, "%s: %ss go to a file whose extension says its format, such as .npz", file->path,
                     role);
        VC_REFUSE_IF(job->options.n_shards != 0, ctx, VC_E_ARGUMENT,
                     "%s: the workers of %s would all write the same file of %ss", file->path, vc_option(ctx, "shard"),
                     role);
        VC_CALL(add_output(ctx, job, file->path));
        job->parts_file = *file;
        job->parts_file.path = job->outputs[job->report.n_outputs - 1].path;
    }
    return VC_OK;
}

static enum vc_status list_outputs(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_write_options *options = &job->options;

    VC_REFUSE_IF(options->format != NULL && options->n_emit != 0, ctx, VC_E_ARGUMENT,
                 "%s is for one output; with %s the names say the formats", vc_option(ctx, "format"),
                 vc_option(ctx, "emit"));
    VC_REFUSE_IF(options->n_emit > VC_MAX_OUTPUTS - (options->path != NULL), ctx, VC_E_ARGUMENT,
                 "more than %d outputs of one run", VC_MAX_OUTPUTS);
    VC_CALL_ALLOC(job->outputs = vc_arena_alloc(ctx, &job->arena, (options->n_emit + 2) * sizeof *job->outputs));
    if (options->path != NULL || options->n_emit == 0) {
        VC_CALL(add_output(ctx, job, options->path != NULL ? options->path : ""));
    }
    for (size_t i = 0; i < options->n_emit; i++) {
        VC_CALL(add_output(ctx, job, options->emit[i]));
    }
    VC_CALL(list_parts_file(ctx, job));
    job->report.outputs = job->outputs;
    return VC_OK;
}

/* ---- the sink ---- */

enum vc_status vc_job_create_sink(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_model *model = job->model;
    bool nothing = job->options.path == NULL && job->options.n_emit == 0;

    VC_CALL(list_outputs(ctx, job));
    job->options.path = nothing ? NULL : job->outputs[0].path;
    job->options.emit = NULL; /* the caller's */
    job->options.n_emit = 0;
    if (job->report.n_outputs > 1 && !(nothing && model->format == NULL)) {
        return vc_tee_create(ctx, job->writers, model, &job->options, job->outputs, job->report.n_outputs,
                             job->parts_file.path != NULL ? &job->parts_file : NULL, &job->sink);
    }
    if (nothing && model->format == NULL) { /* no file behind it, and none wanted */
        return vc_null_sink_create(ctx, &job->sink);
    }
    return job->writers->create(ctx, model, &job->options, &job->sink);
}

void vc_job_output_sizes(struct vc_job *job, uint64_t first_bytes)
{
    job->outputs[0].format = job->sink->format;
    job->outputs[0].file_bytes = first_bytes;
    job->report.totals.file_after = first_bytes;
}

enum vc_status vc_job_list_beside(struct vc_ctx *ctx, struct vc_job *job)
{
    size_t n = job->report.n_outputs;

    VC_CALL_ALLOC(job->beside = vc_arena_alloc(ctx, &job->arena, (n + 1) * sizeof *job->beside));
    for (size_t i = 0; i < n; i++) {
        const char *path = vc_sink_of_output(job->sink, i)->beside;

        job->beside[i] = path != NULL ? vc_arena_printf(ctx, &job->arena, "%s", path) : NULL;
        if (path != NULL && job->beside[i] == NULL) {
            return VC_E_NOMEM;
        }
    }
    return VC_OK;
}

void vc_job_written(struct vc_job *job)
{
    job->report.written = job->options.path != NULL;
    job->outputs[0].written = job->report.written;
}

/* Lists and lays out the outputs for another sink of the same kind, which then goes. */
enum vc_status vc_plan_file_bytes(struct vc_ctx *ctx, struct vc_plan *plan, uint64_t *bytes)
{
    struct vc_job *job = plan->job;
    struct vc_write_options options = job->options;
    struct vc_sink *own = job->sink;
    struct vc_sink *sink = NULL;
    enum vc_status status = VC_OK;

    *bytes = 0;
    VC_REFUSE_IF(job->report.n_outputs != 1 || vc_sink_is_null(own), ctx, VC_E_ARGUMENT,
                 "%s is about one file, and this run writes %s", vc_option(ctx, "aim_bytes"),
                 job->report.n_outputs > 1 ? "several" : "none");
    options.dry_run = true;
    VC_TRY(job->writers->create(ctx, job->model, &options, &sink));
    job->sink = sink;
    vc_job_settle_parts(job);
    VC_TRY(vc_job_list_outs(ctx, job));
    vc_job_choose_recipe(job);
    VC_TRY(sink->ops->layout(ctx, sink, &job->outs, bytes));
    if (*bytes == 0) {
        status = vc_fail(ctx, VC_E_ARGUMENT,
                         "%s needs to know what the output takes before it is written; deflated ones tell "
                         "afterwards",
                         vc_option(ctx, "aim_bytes"));
    }
out:
    if (sink != NULL) {
        sink->ops->free(ctx, sink);
    }
    vc_job_free_outs(ctx, job);
    job->sink = own;
    return status;
}

/* ---- what cannot be held ---- */

#define VC_NAMED_TENSORS 5

struct refused {
    size_t n;
    size_t items[VC_NAMED_TENSORS];
};

static void note_refused(struct refused *refused, size_t item)
{
    if (refused->n < VC_NAMED_TENSORS) {
        refused->items[refused->n] = item;
    }
    refused->n++;
}

/* "; nor 12 more: b (q4_0), c (q6_k), ..." */
static const char *name_others(struct vc_ctx *ctx, struct vc_job *job, const struct refused *refused, bool types)
{
    const char *text = "";

    for (size_t i = 1; text != NULL && i < refused->n && i < VC_NAMED_TENSORS; i++) {
        const struct vc_tensor *t = &job->model->tensors[refused->items[i]];

        text = vc_arena_printf(ctx, &job->arena, "%s%s%.60s", text, i == 1 ? "" : ", ", t->name);
        if (types && text != NULL) {
            text = vc_arena_printf(ctx, &job->arena, "%s (%s)", text, vc_dtype_name(t->dtype));
        }
    }
    if (text == NULL || refused->n == 1) {
        return text;
    }
    return vc_arena_printf(ctx, &job->arena, "; and so for %zu more: %s%s", refused->n - 1, text,
                           refused->n > VC_NAMED_TENSORS ? ", ..." : "");
}

/* What of it can be left out is said: beside weights there may be text and the like. */
static enum vc_status refuse_types(struct vc_ctx *ctx, struct vc_job *job, const struct refused *refused)
{
    const struct vc_tensor *t = &job->model->tensors[refused->items[0]];
    const char *others = name_others(ctx, job, refused, true);
    const char *pass = vc_option(ctx, "pass");
    const char *blocks = !vc_dtype_is_quantized(t->dtype)
                             ? ""
                             : vc_arena_printf(ctx, &job->arena,
                                               ", which dequantize turns into floats, and vcompress run %s dequantize "
                                               "%s \"quantize ...\" into other codes",
                                               pass, pass);
    const char *remedy = "";

    if (t->dtype == VC_DTYPE_VOID && t->size_bytes / 2 == t->n_elems && blocks != NULL) {
        blocks = vc_arena_printf(ctx, &job->arena, "; elements of two bytes are read as bfloat16 by %s bf16",
                                 vc_option(ctx, "void_as"));
    }
    VC_CALL_ALLOC(others);
    VC_CALL_ALLOC(blocks);
    if (t->role == VC_ROLE_OTHER) {
        remedy = vc_arena_printf(ctx, &job->arena, "; what is beside the weights is left out by %s other",
                                 vc_option(ctx, "vc_job_drop"));
        VC_CALL_ALLOC(remedy);
    }
    return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: %s cannot hold elements of type %s%s%s%s", t->name,
                   vc_sink_refusing(job->sink, t->dtype)->format, vc_dtype_name(t->dtype), blocks, others, remedy);
}

/* Codes and scales are kept in a layout that the output does not have, or that only some of the outputs have. */
static enum vc_status refuse_layout(struct vc_ctx *ctx, struct vc_job *job, const struct refused *refused)
{
    const char *name = job->model->tensors[refused->items[0]].name;
    const char *scheme = vc_scheme_name(job->plan.items[refused->items[0]].desc->quant->scheme);
    const char *others = name_others(ctx, job, refused, false);

    VC_CALL_ALLOC(others);
    VC_REFUSE_IF(job->sink->dialect == NULL, ctx, VC_E_UNSUPPORTED,
                 "%s: %s weights lie differently in the formats of these outputs; write them by runs of their "
                 "own%s",
                 name, scheme, others);
    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   "%s: is %s codes with scales, which %s keeps in another way; dequantize it first%s", name, scheme,
                   job->sink->format, others);
}

/* The item's result is codes with scales that are not copied with their format's own bytes. */
static bool is_plain_codes(const struct vc_item *item, bool raw)
{
    return item->desc->quant != NULL && (item->chain->n_steps != 0 || !raw);
}

enum vc_status vc_job_check_held(struct vc_ctx *ctx, struct vc_job *job)
{
    struct refused types = {0};
    struct refused layouts = {0};

    if (vc_sink_is_null(job->sink)) {
        return VC_OK;
    }

    for (size_t i = 0; i < job->model->n_tensors; i++) {
        const struct vc_item *item = &job->plan.items[i];
        bool raw = vc_sink_of_tensor(job->sink, i)->accepts_raw;

        if (vc_item_is_idle(item)) {
            continue;
        }
        /* Parts of codes are a matter of the layout. */
        if (item->chain->n_steps == 0 && !raw && item->desc->quant == NULL &&
            job->model->tensors[i].part_of == VC_NO_TENSOR && vc_sink_refusing(job->sink, item->desc->dtype) != NULL) {
            note_refused(&types, i);
        }
        if (is_plain_codes(item, raw) &&
            (item->set->dialect == NULL || (item->chain->n_steps == 0 && (!item->set->dialect->takes_codes ||
                                                                          vc_quant_is_special(item->desc->quant))))) {
            note_refused(&layouts, i);
        }
    }
    VC_RETURN_IF(types.n != 0, refuse_types(ctx, job, &types));
    return layouts.n != 0 ? refuse_layout(ctx, job, &layouts) : VC_OK;
}

/* What a file says of how it was made: the last pass, as if every pass had written a file of its own; without a pass
 * what the source says. */
void vc_job_choose_recipe(struct vc_job *job)
{
    const struct vc_pass *last = job->n_passes != 0 ? job->passes[job->n_passes - 1] : NULL;

    job->outs.n_recipe = last != NULL ? last->n_recipe : job->model->n_recipe;
    job->outs.recipe = last != NULL ? last->recipe : job->model->recipe;
}
