/* cmd_graph.c - vcompress graph: what a model computes. The library builds the graph, runs it, and makes the document
 * and the drawing; print_graph.c has the tables.
 *
 * In one run there may be a table (blocks, or nodes with --full), a text (--text, --couplings), a drawing (--svg), a
 * document, a page, and values that were computed (--data, --outputs). */
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/options/data_rows.h"
#include "tools/show/documents.h"
#include "tools/show/print_graph.h"

#define MAX_NAMES 1024

struct graph_cli {
    struct graph_source source;                        /* first */
    struct vc_graph_file_options run;                  /* of --data and --outputs */
    const char *svg;                                   /* NULL: no drawing */
    const char *values[MAX_NAMES], *arrays[MAX_NAMES]; /* of --value and --array */
    size_t n_values, n_arrays;
    bool full, text, couplings;     /* the switches of their names */
    struct vc_graph_blocks *blocks; /* owned; NULL where nothing shows blocks */
};

/* Adds to one of the lists of names. */
static bool take_one(const char **list, size_t *n, const char *value)
{
    if (*n == MAX_NAMES) {
        return false;
    }
    list[(*n)++] = value;
    return true;
}

/* May be repeated, up to MAX_NAMES times. */
static bool take_value(void *group, const char *value)
{
    struct graph_cli *cli = group;

    return take_one(cli->values, &cli->n_values, value);
}

/* NAME=ARRAY: a value without '=' is refused. */
static bool take_array(void *group, const char *value)
{
    struct graph_cli *cli = group;

    return strchr(value, '=') != NULL && take_one(cli->arrays, &cli->n_arrays, value);
}

/* --length N of files of tokens. */
static bool take_length(void *group, const char *value)
{
    struct graph_cli *cli = group;

    return options_count(value, &cli->run.length) && cli->run.length != 0;
}

/* What is shown. */
/* clang-format off */
static const struct opt graph_opts[] = {
    /* in place of the table of blocks */
    {.name = "full", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct graph_cli, full),
     .help = "list every node with its inputs and outputs, in place of blocks"},
    {.name = "text", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct graph_cli, text),
     .help = "print only the graph, in ONNX's textual syntax"},
    {.name = "couplings", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct graph_cli, couplings),
     .help = "print only the couplings, in the form of a file for prune --couplings: rows and columns of tensors that "
             "must be removed together"},
    /* beside it */
    {.name = "svg", .value = "FILE", .file = FILE_WRITTEN, .kind = OPT_TEXT, .field = offsetof(struct graph_cli, svg),
     .help = "also draw the graph; replaces an older drawing, but no other file"},
    GRAPH_SOURCE_OPTIONS,
};
/* What is computed. */
static const struct opt run_opts[] = {
    /* inputs and outputs are arrays in files */
    {.name = "data", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, OPT_FIELD(struct graph_cli, run.data),
     .help = "compute the graph: the arrays of this file are the inputs (npz, safetensors, ...)"},
    {.name = "outputs", .value = "FILE", .file = FILE_WRITTEN, .kind = OPT_TEXT, OPT_FIELD(struct graph_cli, run.outputs),
     .help = "file for the computed values: npz, safetensors, ..."},
    {.name = "array", .value = "INPUT=NAME", .kind = OPT_CALL, .call = take_array, .option = "arrays",
     .needs = "outputs", .help = "take this input from this array of --data (default: the array of the same name)"},
    TOKEN_ROWS(struct graph_cli, take_length, run, "outputs"),
    NORMALIZE_ROWS(struct graph_cli, run, "outputs"),
    /* how it computes */
    {.name = "batch", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct graph_cli, run.batch),
     .needs = "outputs", .help = "compute N rows of the inputs at a time, such as 1 for a graph that was exported with one row (default: all)"},
    {.name = "value", .value = "NAME", .kind = OPT_CALL, .call = take_value,
     .needs = "outputs", .help = "compute this value, by its name in --full; repeatable (default: the outputs)"},
    {.name = "precision", OPT_WORDS({"f32", VC_GRAPH_F32}, {"f64", VC_GRAPH_F64}), OPT_FIELD(struct graph_cli, run.precision),
     .needs = "outputs", .help = "of all floats (default f32)"},
    {.name = "force", .letter = 'f', .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct graph_cli, run.force),
     .needs = "outputs", .help = "replace an existing file"},
};
/* clang-format on */
static const struct opt_group group_graph = OPT_GROUP("Graph", graph_opts);
static const struct opt_group group_compute = OPT_GROUP("Computing", run_opts);
static const struct opt_group *const groups[] = {&group_graph, &group_compute, &group_known,  &group_run,
                                                 &group_json,  &group_page,    &group_report, &group_help};

/* ---- telling ---- */

/* --svg. GO_ON or a status. */
static int draw(struct app *app, const struct graph_cli *cli)
{
    return document_svg(
        app, cli->svg,
        &(struct vc_document){
            .kind = VC_DOCUMENT_GRAPH, .of = cli->source.graph, .blocks = cli->blocks, .path = app->subject});
}

/* --text: the graph in ONNX's textual syntax, which vcompress reads back. GO_ON or a status. */
static int print_text(struct app *app, const struct graph_cli *cli)
{
    char *text = NULL;
    enum vc_status status = vc_graph_print_text(app->ctx, cli->source.graph, &text);
    int rc = GO_ON;

    if (status == VC_OK) {
        fputs(text, app->out.to);
    } else {
        rc = app_fail(app, status);
    }
    vc_text_free(text);
    return rc;
}

/* --couplings: a line per group, the form that prune --couplings reads. GO_ON or a status. */
static int print_couplings(struct app *app, const struct graph_cli *cli)
{
    struct vc_couplings *couplings = NULL;
    char *text = NULL;
    enum vc_status status = vc_couplings_of_graph(app->ctx, cli->source.graph, &couplings);
    int rc = GO_ON;

    if (status == VC_OK) {
        status = vc_couplings_print(app->ctx, couplings, &text);
    }
    if (status == VC_OK) {
        fputs(text, app->out.to);
    } else {
        rc = app_fail(app, status);
    }
    vc_text_free(text);
    vc_result_free(couplings);
    return rc;
}

/* vc_graph_file_options.tell: a line for each value that was computed and goes into the file. */
static void tell_value(void *user, const struct vc_graph_array *array)
{
    const struct app *app = user;

    if (app_prints(app)) {
        say(app->out.to, "%s: %s %s %s\n", app->output, array->name, vc_dtype_name(array->dtype),
            fmt_shape(CELL, &app->out, array->n_dims, array->shape));
    }
}

/* Computes --outputs from --data. GO_ON or a status. */
static int compute(struct app *app, struct graph_cli *cli)
{
    enum vc_status status;

    cli->run.values = cli->values;
    cli->run.n_values = cli->n_values;
    cli->run.arrays = cli->arrays;
    cli->run.n_arrays = cli->n_arrays;
    cli->run.weights = cli->source.checkpoint;
    cli->run.tell = tell_value;
    cli->run.user = app;
    app->output = cli->run.outputs;
    status = vc_graph_run_files(app->ctx, cli->source.graph, graph_source_model(&cli->source), &cli->run);
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

/* Everything that was asked for, in a fixed order. Blocks are made once, for whatever shows them. Returns the exit
 * status. */
static int tell(struct app *app, struct graph_cli *cli)
{
    enum vc_status status = VC_OK;
    bool tables = app_prints(app) && !cli->text && !cli->couplings && cli->run.outputs == NULL;
    int rc = GO_ON;

    /* the blocks, for whatever shows them */
    if ((tables && !cli->full) || cli->svg != NULL || app->json.on || app->json.html != NULL) {
        status = vc_graph_blocks_make(app->ctx, cli->source.graph, graph_source_model(&cli->source),
                                      cli->source.checkpoint, &cli->blocks);
    }
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    if (cli->run.outputs == NULL) { /* else it computes, behind what is printed */
        signals_end_printing();
    }
    if (cli->text) {
        rc = print_text(app, cli);
    }
    if (cli->couplings) {
        rc = print_couplings(app, cli);
    }
    if (tables && !(cli->full ? print_graph_nodes(app, cli->source.graph)
                              : print_graph_blocks(app, cli->source.graph, cli->blocks))) {
        rc = app_refuse(app, VC_E_NOMEM, "not enough memory to print the table");
    }
    if (rc == GO_ON && cli->svg != NULL) {
        rc = draw(app, cli);
    }
    rc = rc == GO_ON ? document_graph(app, cli->source.graph, cli->blocks, graph_source_model(&cli->source)) : rc;
    if (rc == GO_ON && cli->run.outputs != NULL) {
        rc = compute(app, cli);
        if (rc == GO_ON && app_prints(app)) {
            print_graph_notes(&app->out, cli->source.graph);
        }
    }
    app_print_memory(app);
    return rc == GO_ON ? EXIT_YES : rc;
}

/* Refuses options that want the same stream, or of which one would do nothing. GO_ON or a status. */
static int check(struct app *app, const struct graph_cli *cli)
{
    if ((cli->run.data != NULL) != (cli->run.outputs != NULL) && cli->run.outputs == NULL) {
        return app_usage(app, "--data needs --outputs FILE for the values");
    }
    if ((cli->text || cli->couplings) && app->json.on && app->json.path == NULL) {
        return app_usage(app, "--%s and --json both go to standard output; give one a file: --json=FILE",
                         cli->text ? "text" : "couplings");
    }
    if (cli->full && (cli->text || cli->couplings || cli->run.outputs != NULL)) {
        return app_usage(app, "--full lists nodes in the table, which %s leaves out",
                         cli->text        ? "--text"
                         : cli->couplings ? "--couplings"
                                          : "--outputs");
    }
    if (cli->text && cli->couplings) {
        return app_usage(app, "--text and --couplings both go to standard output; choose one");
    }
    return GO_ON;
}

/* Options, the graph with its sizes, then what is told about it. */
static int run_graph(struct app *app, int n_args, char **args)
{
    struct graph_cli cli = {.full = false};

    vc_graph_file_defaults(&cli.run);
    GO(app_parse(app, n_args, args, &cli));
    GO(check(app, &cli));
    app->subject = app->parsed.args[0];
    GO(app_open(app));
    GO(cli.svg != NULL ? svg_check(app, cli.svg) : GO_ON);
    GO(json_check(app));
    int rc = graph_source_open(app, &cli.source, GRAPH_ALWAYS);
    rc = rc == GO_ON ? graph_source_bind(app, &cli.source) : rc;
    rc = rc == GO_ON ? tell(app, &cli) : rc;
    vc_result_free(cli.blocks);
    graph_source_close(&cli.source);
    return rc;
}

const struct command command_graph = {
    .name = "graph",
    .usage = "[options] MODEL",
    .summary = "show the graph of a model",
    .text =
        "MODEL is an ONNX file, or a text: a list of layers or ONNX's textual syntax. The table has a line for each "
        "block; equal blocks share a line. Multiply-adds are of products, convolutions and attention. With --data the "
        "model is computed, in f32 like evaluate, or with --precision f64 by the plain loops that define the "
        "operators: for comparison, not for speed.\n"
        "  vcompress graph --full model.onnx\n"
        "  vcompress graph --svg model.svg model.onnx",
    .first = "full text svg size data outputs json html",
    OPT_GROUPS(groups),
    .needs = "one MODEL",
    .one = true,
    .args = "FILE",
    .reads_headers = true,
    .takes_config = true,
    .schema = "vcompress.graph/1",
    .run = run_graph,
};
