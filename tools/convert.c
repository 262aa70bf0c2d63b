/* convert.c - from the command line to a finished conversion: names, plan, run, report, gates. Decides nothing about
 * tensors. */
#include "tools/convert.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- options ---- */

static bool add_rule(void *group, const char *glob, bool include)
{
    struct select_options *select = &((struct convert_options *)group)->select;

    if (select->n_rules == MAX_RULES || glob[0] == '\0') {
        return false;
    }
    select->rules[select->n_rules++] = (struct vc_rule){.glob = glob, .include = include};
    return true;
}

static bool take_include(void *group, const char *value)
{
    return add_rule(group, value, true);
}

static bool take_exclude(void *group, const char *value)
{
    return add_rule(group, value, false);
}

static bool take_deflate(void *group, const char *value)
{
    struct convert_options *options = group;
    int word = value == NULL ? 0 : options_word("zlib|isal", value);

    options->write.deflate = word == 0 ? VC_DEFLATE_ZLIB : VC_DEFLATE_ISAL;
    return word >= 0;
}

static bool take_void_as(void *group, const char *value)
{
    ((struct convert_options *)group)->void_as = VC_DTYPE_BF16;
    return strcmp(value, "bf16") == 0;
}

#define WRITE(member) offsetof(struct convert_options, write.member)

/* clang-format off */
static const struct opt select_opts[] = {
    {.name = "include", .value = "GLOB", .kind = OPT_CALL, .call = take_include,
     .help = "work on tensors whose name matches, whatever the default rules say; the last match wins"},
    {.name = "exclude", .value = "GLOB", .kind = OPT_CALL, .call = take_exclude,
     .help = "keep tensors whose name matches; the last match wins"},
};

static const struct opt write_opts[] = {
    {.name = "output", .letter = 'o', .value = "FILE", .kind = OPT_TEXT, .field = WRITE(output),
     .help = "where to write; the extension .npz, .npy, .safetensors or .gguf chooses the format, else it is the input's; - is "
             "standard output (default: a name beside the input, such as model.int8.npz)"},
    {.name = "force", .letter = 'f', .kind = OPT_BOOL, .set = 1, .field = WRITE(force),
     .help = "replace an existing file (never the input)"},
    {.name = "deflate", .value = "zlib|isal", .optional = true, .kind = OPT_CALL, .call = take_deflate,
     .help = "compress the members; isal is several times faster (default: stored, readable in place)"},
    {.name = "dry-run", .letter = 'n', .kind = OPT_BOOL, .set = 1, .field = WRITE(dry_run),
     .help = "print the report, write nothing; sizes are exact"},
    {.name = "max-bytes", .value = "SIZE", .kind = OPT_SIZE, .field = WRITE(max_bytes),
     .help = "gate: write nothing and exit 1 when the output would be larger; SIZE in bytes, or with KiB, MiB, GiB"},
    {.name = "min-sqnr", .value = "DB", .kind = OPT_REAL, .field = WRITE(min_sqnr_db),
     .help = "gate: write nothing and exit 1 when a changed tensor stays below this SQNR"},
    {.name = "void-as", .value = "bf16", .kind = OPT_CALL, .call = take_void_as,
     .help = "what NumPy's raw 2-byte elements (V2) mean"},
};
/* clang-format on */

const struct opt_group group_select = {"Selection", select_opts, 2, 0};
const struct opt_group group_write = {"Output", write_opts, sizeof(write_opts) / sizeof(write_opts[0]), 0};

/* ---- names ---- */

/* <stem>.<tag><extension> in the folder of the input; a name without an extension is its own stem. */
static char *default_output(const char *input, const char *tag, const char *extension)
{
    const char *slash = strrchr(input, '/');
    const char *base = slash != NULL ? slash + 1 : input;
    const char *point = strrchr(base, '.');
    size_t stem = point != NULL && point != base ? (size_t)(point - input) : strlen(input);
    size_t n = stem + strlen(tag) + strlen(extension) + 3;
    char *name = malloc(n);

    if (name != NULL) {
        snprintf(name, n, "%.*s.%s%s", (int)stem, input, tag, extension);
    }
    return name;
}

/* Refuses what can be seen from the words alone. */
static int check_words(struct app *app, const struct convert_options *options)
{
    const struct write_options *write = &options->write;
    bool piped = write->output != NULL && strcmp(write->output, "-") == 0;

    if (app->parsed.n_args == 0) {
        return app_usage(app, "%s needs an INPUT file; see vcompress %s --help", app->command->name,
                         app->command->name);
    }
    if (app->parsed.n_args > 1) {
        return app_usage(app, "%s takes one INPUT, but got %d: '%s', '%s'%s", app->command->name, app->parsed.n_args,
                         app->parsed.args[0], app->parsed.args[1], app->parsed.n_args > 2 ? ", ..." : "");
    }
    if (write->output == NULL && !write->dry_run && strcmp(app->parsed.args[0], "-") == 0) {
        return app_usage(app, "reading standard input needs a name for the output: -o FILE, or -o - for a pipe");
    }
    if (write->min_sqnr_db < 0) {
        return app_usage(app, "--min-sqnr: %g is no gate: it must be above 0", write->min_sqnr_db);
    }
    if (piped && app->json.on && app->json.path == NULL) {
        app->json.on = false;
        return app_usage(app, "--json and -o - both want standard output; use --json=FILE");
    }
    if (piped && !write->dry_run && !write->force && isatty(1) == 1) {
        return app_usage(app, "-o -: not writing a model to the terminal; use a pipe, or --force");
    }
    if (piped && app->stdout_closed) {
        return app_refuse(app, VC_E_IO, "-o -: standard output is closed");
    }
    return GO_ON;
}

int convert_open(struct app *app, struct convert_options *options, const char *tag, struct vc_model **model)
{
    struct vc_open_options open = {.void_as = options->void_as};
    enum vc_status status;
    int rc = check_words(app, options);

    *model = NULL;
    if (rc != GO_ON) {
        return rc;
    }
    app->subject = app->parsed.args[0];
    app->output = options->write.output;
    if (app->output != NULL && strcmp(app->output, "-") == 0) {
        app_report_to(app, stderr);
    }
    rc = app_open(app);
    if (rc != GO_ON) {
        return rc;
    }
    status = vc_model_open(app->ctx, app->subject, &open, model);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    if (app->output == NULL && strcmp(app->subject, "-") != 0) {
        const char *own = vc_model_extension(*model);
        const char *extension = strcmp(tag, "int8") == 0 && strcmp(own, ".npy") == 0 ? ".npz" : own;

        app->own_output = default_output(app->subject, tag, extension);
        app->output = app->own_output;
        if (app->output == NULL) {
            rc = app_refuse(app, VC_E_NOMEM, "no memory for the name of the output");
        }
    }
    if (rc == GO_ON) {
        rc = json_check(app);
    }
    if (rc != GO_ON) {
        vc_model_close(*model);
        *model = NULL;
    }
    return rc;
}

/* ---- the run ---- */

/* What differs between two runs of the same conversion. */
static void make_diffable(struct vc_report *report)
{
    report->seconds = 0;
    report->threads = 0;
    report->device = "";
    report->peak_pool_bytes = 0;
    report->peak_rss_bytes = 0;
}

static int print_json(struct app *app, const struct vc_report *report)
{
    char *text = NULL;
    enum vc_status status = vc_report_json(app->ctx, report, &text);
    int rc = status == VC_OK ? json_print(app, text, NULL, NULL) : app_fail(app, status);

    vc_text_free(text);
    return rc;
}

static int show(struct app *app, struct vc_report report)
{
    int rc = GO_ON;

    if (app->common.diffable) {
        make_diffable(&report);
    }
    if (!app->common.quiet && !(app->json.on && app->json.path == NULL) && !print_report(app, &report)) {
        rc = app_refuse(app, VC_E_NOMEM, "not enough memory to print the report");
    }
    if (rc == GO_ON && app->json.on) {
        rc = print_json(app, &report);
    }
    app_print_memory(app);
    return rc;
}

int convert_finish(struct app *app, const struct convert_options *options, struct vc_job *job)
{
    const struct vc_write_options write = {
        .path = app->output,
        .force = options->write.force,
        .deflate = (enum vc_deflate)options->write.deflate,
        .dry_run = options->write.dry_run,
        .max_bytes = options->write.max_bytes,
        .min_sqnr_db = options->write.min_sqnr_db,
    };
    const struct vc_report *report;
    enum vc_status status;
    int rc;

    progress_begin(app);
    status = vc_job_plan(app->ctx, job, &write);
    if (status == VC_OK && !write.dry_run) {
        status = vc_job_run(app->ctx, job);
    }
    progress_end();
    if (status != VC_OK && status != VC_E_GATE) {
        return app_fail(app, status);
    }
    report = vc_job_report(job);
    app->written = report->written;
    rc = show(app, *report);
    if (rc != GO_ON) {
        return rc;
    }
    if (report->gate_missed != NULL && report->gate_missed[0] != '\0') {
        return app_gate(app, report->gate_missed);
    }
    return status == VC_E_GATE ? app_gate(app, vc_ctx_message(app->ctx)) : EXIT_YES;
}
