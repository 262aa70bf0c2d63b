/* cmd_sensitivity.c - vcompress sensitivity: what each tensor would lose. The library measures (vc_model_sensitivity),
 * makes the document and the drawing; print_sensitivity.c has the tables. */
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/convert/convert.h"
#include "tools/options/data_rows.h"
#include "tools/show/documents.h"
#include "tools/show/print_sensitivity.h"

#define MAX_ARRAYS 64
#define LONG       2.0 /* seconds from which on the time is said beforehand */

struct sensitivity_cli {
    struct convert_options convert;               /* first: the common options, --include and --exclude */
    struct vc_sensitivity_options measure;        /* from the weights alone */
    struct vc_sensitivity_data_options with_data; /* from the outputs, with --data */
    const char *svg, *graph;
    const char *arrays[MAX_ARRAYS]; /* of --array */
    size_t n_arrays;
};

/* --array INPUT=NAME, repeatable. */
static bool take_array(void *group, const char *value)
{
    struct sensitivity_cli *cli = group;

    if (strchr(value, '=') == NULL || cli->n_arrays == MAX_ARRAYS) {
        return false;
    }
    cli->arrays[cli->n_arrays++] = value;
    return true;
}

/* As of inspect. */
static bool take_void_as(void *group, const char *value)
{
    ((struct sensitivity_cli *)group)->convert.open.void_as = VC_DTYPE_BF16;
    return strcmp(value, "bf16") == 0;
}

/* The measurement of the weights and its drawing. */
/* clang-format off */
static const struct opt sensitivity_opts[] = {
    {.name = "svg", .value = "FILE", .file = FILE_WRITTEN, .kind = OPT_TEXT, .field = offsetof(struct sensitivity_cli, svg),
     .help = "also draw a heat map of all tensors, and the curves of the tensors that pruning hurts most; replaces an "
             "older drawing, nothing else"},
    {.name = "min-elements", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct sensitivity_cli, measure.min_elems),
     .help = "leave out tensors with fewer elements (default 0)"},
    {.name = "key", .value = "NAME", .kind = OPT_TEXT, OPT_FIELD(struct sensitivity_cli, convert.open.key),
     .help = "PyTorch files: the dict whose tensors are the weights, such as ema or nets.0 (default: the usual names)"},
    {.name = "void-as", .value = "bf16", .kind = OPT_CALL, .call = take_void_as, .option = "void_as",
     .help = "what NumPy's raw 2-byte elements (V2) mean"},
};
/* --length N of files of tokens. */
/* clang-format on */
static bool take_length(void *group, const char *value)
{
    struct sensitivity_cli *cli = group;

    return options_count(value, &cli->with_data.length) && cli->with_data.length != 0;
}

/* The measurement of the outputs. */
/* clang-format off */
static const struct opt data_opts[] = {
    {.name = "data", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, OPT_FIELD(struct sensitivity_cli, with_data.data),
     .help = "also compute the model with the arrays of this file as inputs (npz, safetensors, ...): the error of the "
             "outputs if only one tensor changes, or coupled units are removed"},
    {.name = "graph", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, OPT_FIELD(struct sensitivity_cli, graph),
     .needs = "data", .help = "the graph of the model: a text or an ONNX file, as for vcompress graph (default: the graph in INPUT)"},
    {.name = "array", .value = "INPUT=NAME", .kind = OPT_CALL, .call = take_array, .option = "arrays",
     .needs = "data", .help = "take this input from this array of --data (default: the array of the same name)"},
    TOKEN_ROWS(struct sensitivity_cli, take_length, with_data, "data"),
    NORMALIZE_ROWS(struct sensitivity_cli, with_data, "data"),
    {.name = "rows", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct sensitivity_cli, with_data.n_rows),
     .needs = "data", .help = "compute the first N rows of the data (default 8)"},
    {.name = "batch", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct sensitivity_cli, with_data.batch),
     .needs = "data", .help = "compute N rows at a time, such as 1 for a graph exported with one row (default: all)"},
};
/* clang-format on */
static const struct opt_group group_data = OPT_GROUP("With data", data_opts);
static const struct opt_group group_sensitivity = OPT_GROUP("Sensitivity", sensitivity_opts);
static const struct opt_group *const groups[] = {
    &group_sensitivity, &group_data, &group_select, &group_known, &group_run,
    &group_json,        &group_page, &group_report, &group_help,
};

/* The tables, the drawing, the document. request: what commands that the report proposes have to repeat. Returns the
 * exit status. */
static int tell(struct app *app, const struct sensitivity_cli *cli, const struct vc_sensitivity *s)
{
    const struct sensitivity_request request = {.rules = cli->convert.rules,
                                                .n_rules = cli->convert.n_rules,
                                                .key = cli->convert.open.key,
                                                .void_as = cli->convert.open.void_as};
    int rc = GO_ON;

    signals_end_printing();
    if (app_prints(app) && !print_sensitivity(app, s, &request)) {
        rc = app_refuse(app, VC_E_NOMEM, "not enough memory to print the report");
    }
    if (rc == GO_ON && cli->svg != NULL) {
        rc = document_svg(app, cli->svg, &(struct vc_document){.kind = VC_DOCUMENT_SENSITIVITY, .of = s});
    }
    rc = rc == GO_ON ? document_sensitivity(app, s) : rc;
    app_print_memory(app);
    return rc == GO_ON ? EXIT_YES : rc;
}

/* vc_sensitivity_data_options.estimate: a line on standard error before a run that takes LONG seconds or more. */
static void tell_estimate(void *user, size_t n_runs, double seconds)
{
    const struct app *app = user;

    if (seconds >= LONG && app->call == NULL && !app->common.quiet) {
        say(stderr, "vcompress: %s: %zu runs of the model, about %.0f %s\n", app->subject, n_runs,
            seconds < 120 ? seconds : seconds / 60, seconds < 120 ? "s" : "min");
    }
}

/* Builds the graph of --graph or of the model, and measures with it; the figures are added to *s. */
static enum vc_status measure_outputs(struct app *app, const struct sensitivity_cli *cli, const struct vc_model *model,
                                      struct vc_sensitivity *s)
{
    /* a copy: each input has its own graph */
    struct vc_sensitivity_data_options options = cli->with_data;
    struct vc_model *other = NULL;
    struct vc_graph *graph = NULL;
    enum vc_status status = vc_graph_open(app->ctx, cli->graph, model, true, &other, &graph);

    if (status == VC_OK) {
        options.graph = graph;
        options.graph_model = other;
        options.arrays = cli->arrays;
        options.n_arrays = cli->n_arrays;
        options.estimate = tell_estimate;
        options.user = app;
        status = vc_sensitivity_measure(app->ctx, s, &options);
    }
    vc_graph_close(graph);
    vc_model_close(other);
    return status;
}

/* One open model: the weights, then the outputs, then the report. Returns the exit status. */
static int measure(struct app *app, const struct sensitivity_cli *cli, const struct vc_model *model)
{
    struct vc_sensitivity *s = NULL;
    int rc = check_key(app, model, cli->convert.open.key);

    GO(rc);
    progress_begin(app);
    enum vc_status status = vc_model_sensitivity(app->ctx, model, &cli->measure, &s);
    if (status == VC_OK && cli->with_data.data != NULL) {
        status = measure_outputs(app, cli, model, s);
    }
    progress_end();
    rc = status == VC_OK ? tell(app, cli, s) : app_fail(app, status);
    vc_result_free(s);
    return rc;
}

/* inputs_each calls this for every INPUT. */
static int measure_input(struct app *app, void *user)
{
    const struct sensitivity_cli *cli = user;
    struct vc_model *model = NULL;
    enum vc_status status = vc_model_open(app->ctx, app->subject, &cli->convert.open, &model);

    if (status != VC_OK) {
        return app_fail(app, status);
    }
    int rc = measure(app, cli, model);
    vc_model_close(model);
    return rc;
}

/* A drawing is of one input, and into a file that is no other than a drawing. GO_ON or a status. */
static int check_svg(struct app *app, const char *path)
{
    if (path == NULL) {
        return GO_ON;
    }
    if (app->parsed.n_args > 1) {
        return app_usage(app, "--svg draws one INPUT, got %d", app->parsed.n_args);
    }
    if (path[0] == '\0' || strcmp(path, "-") == 0) {
        return app_usage(app, "--svg: '%s' is no file; /dev/stdout is standard output", path);
    }
    return svg_check(app, path);
}

/* Rows belong to one input. GO_ON or a status. */
static int check_data(struct app *app, const struct sensitivity_cli *cli)
{
    if (cli->with_data.data != NULL && app->parsed.n_args > 1) {
        return app_usage(app, "--data is for one INPUT, got %d", app->parsed.n_args);
    }
    return cli->with_data.n_rows == 0 ? app_usage(app, "--rows: expected a number from 1 on") : GO_ON;
}

static int run_sensitivity(struct app *app, int n_args, char **args)
{
    struct sensitivity_cli cli;

    memset(&cli, 0, sizeof cli);
    vc_open_defaults(&cli.convert.open);
    vc_sensitivity_defaults(&cli.measure);
    vc_sensitivity_data_defaults(&cli.with_data);
    GO(app_parse(app, n_args, args, &cli));
    /* options, before the context */
    GO(check_data(app, &cli));
    cli.measure.rules = cli.convert.rules;
    cli.measure.n_rules = cli.convert.n_rules;
    app->subject = app->parsed.args[0];
    GO(app_open(app));
    GO(json_check(app));
    GO(check_svg(app, cli.svg));
    return inputs_each(app, measure_input, &cli);
}

const struct command command_sensitivity = {
    .name = "sensitivity",
    .usage = "[--svg FILE] [--data FILE] [options] INPUT...",
    .summary = "measure the error of pruning and quantizing each tensor",
    .text =
        "Measures, per tensor, the error of pruning by magnitude to 10 to 95 %, of the pattern 2:4, and of every "
        "scheme of quantize, from the weights alone; writes no checkpoint. Error is the RMS of the change over the "
        "RMS of the tensor. The report ends with the tensors of high error, and command lines that spare them. "
        "Quantized weights are decoded first. Each tensor is read twice. With --data the model is computed once for "
        "each change, and the advice comes from the error of the outputs. A run of 2 s or more is announced with its "
        "time.\n"
        "  vcompress sensitivity model.npz\n"
        "  vcompress sensitivity --graph model.onnx --data x.npz model.npz\n"
        "  vcompress sensitivity --svg model.svg --json=model.json model.safetensors",
    .first = "graph data exclude svg json html",
    OPT_GROUPS(groups),
    .needs = "an INPUT file",
    .args = "FILE",
    .schema = "vcompress.sensitivity/1",
    .run = run_sensitivity,
};
