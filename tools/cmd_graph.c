/* cmd_graph.c - vcompress graph: what a model computes. The library builds the graph, runs it, and makes the document
 * and the drawing; print_graph.c has the tables. */
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/print_graph.h"

#define MAX_NAMES 64

struct graph_cli {
    struct base_options base;
    struct vc_graph_file_options run;
    const char *weights, *svg;
    const char *sizes[MAX_NAMES], *values[MAX_NAMES], *arrays[MAX_NAMES];
    size_t n_sizes, n_values, n_arrays;
    bool full, text, couplings;
    /* what was opened */
    struct vc_model *model, *checkpoint;
    struct vc_graph *graph;
    struct vc_graph_blocks *blocks;
};

static bool take_one(const char **list, size_t *n, const char *value)
{
    if (*n == MAX_NAMES) {
        return false;
    }
    list[(*n)++] = value;
    return true;
}

static bool take_size(void *group, const char *value)
{
    struct graph_cli *cli = group;

    return strchr(value, '=') != NULL && take_one(cli->sizes, &cli->n_sizes, value);
}

static bool take_value(void *group, const char *value)
{
    struct graph_cli *cli = group;

    return take_one(cli->values, &cli->n_values, value);
}

static bool take_array(void *group, const char *value)
{
    struct graph_cli *cli = group;

    return strchr(value, '=') != NULL && take_one(cli->arrays, &cli->n_arrays, value);
}

/* clang-format off */
static const struct opt graph_opts[] = {
    {.name = "full", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct graph_cli, full),
     .help = "list every node with the values that it takes and makes, in place of blocks"},
    {.name = "text", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct graph_cli, text),
     .help = "print it in ONNX's textual syntax, and nothing else"},
    {.name = "couplings", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct graph_cli, couplings),
     .help = "print which rows and columns of which tensors can only be removed together, as a file of couplings has "
             "it, and nothing else"},
    {.name = "svg", .value = "FILE", .kind = OPT_TEXT, .field = offsetof(struct graph_cli, svg),
     .help = "draw it, too; replaces an older drawing, nothing else"},
    {.name = "size", .value = "NAME=N", .kind = OPT_CALL, .call = take_size,
     .help = "a size of the inputs that the model leaves open, such as batch=8 or sequence=512 (default: batch=1, "
             "sequence=128, others stay open)"},
    {.name = "weights", .value = "FILE", .kind = OPT_TEXT, OPT_FIELD(struct graph_cli, weights),
     .help = "the checkpoint that a text's parameters are in, or that has the names which an ONNX file has lost"},
};
static const struct opt run_opts[] = {
    {.name = "data", .value = "FILE", .kind = OPT_TEXT, OPT_FIELD(struct graph_cli, run.data),
     .help = "compute it: the arrays of this file are the inputs (npz, safetensors, ...)"},
    {.name = "outputs", .value = "FILE", .kind = OPT_TEXT, OPT_FIELD(struct graph_cli, run.outputs),
     .help = "where the values that are computed go, as npz, safetensors, ..."},
    {.name = "array", .value = "INPUT=NAME", .kind = OPT_CALL, .call = take_array, .option = "arrays",
     .help = "the input is that array of --data (default: the one of its name)"},
    {.name = "value", .value = "NAME", .kind = OPT_CALL, .call = take_value,
     .help = "compute this value, by its name in --full; repeat it for more (default: the outputs)"},
    {.name = "precision", .value = "f32|f64", .kind = OPT_CHOICE, OPT_FIELD(struct graph_cli, run.precision),
     .help = "of all floats (default f32)"},
    {.name = "force", .letter = 'f', .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct graph_cli, run.force),
     .help = "replace the file of --outputs"},
};
/* clang-format on */
static const struct opt_group group_graph = {"Graph", graph_opts, sizeof(graph_opts) / sizeof(graph_opts[0]), 0};
static const struct opt_group group_compute = {"Computing", run_opts, sizeof(run_opts) / sizeof(run_opts[0]), 0};
static const struct opt_group *const groups[] = {&group_graph, &group_compute, &group_run,
                                                 &group_json,  &group_report,  &group_help};

/* ---- building ---- */

/* All that is wrong with the graph: the first sentence as every failure, the others under it. */
static int refuse_graph(struct app *app, const struct graph_cli *cli, enum vc_status status)
{
    int rc = app_fail(app, status);
    const char *problem;

    for (uint32_t k = 1; cli->graph != NULL && (problem = vc_graph_problem(cli->graph, k)) != NULL; k++) {
        fputs("           ", stderr);
        print_clean(stderr, problem);
        fputc('\n', stderr);
    }
    return rc;
}

/* A config.json by itself: a model without its weights. */
static bool is_config(const char *path)
{
    const char *slash = strrchr(path, '/');

    return strcmp(slash == NULL ? path : slash + 1, "config.json") == 0;
}

static int build(struct app *app, struct graph_cli *cli)
{
    struct vc_graph_options options;
    enum vc_status status;

    vc_graph_defaults(&options);
    if (cli->weights != NULL) {
        status = vc_model_open(app->ctx, cli->weights, NULL, &cli->checkpoint);
        if (status != VC_OK) {
            return app_fail(app, status);
        }
        options.weights = cli->checkpoint;
    }
    if (is_config(app->subject)) {
        status = vc_graph_build_config(app->ctx, app->subject, &cli->graph);
    } else if (vc_graph_is_text(app->subject)) {
        status = vc_graph_read_text(app->ctx, app->subject, &options, &cli->graph);
    } else {
        status = vc_model_open(app->ctx, app->subject, NULL, &cli->model);
        if (status == VC_OK) {
            status = vc_graph_build(app->ctx, cli->model, &options, &cli->graph);
        }
    }
    return status == VC_OK ? GO_ON : refuse_graph(app, cli, status);
}

/* The weights that the graph was built from. */
static const struct vc_model *model_of(const struct graph_cli *cli)
{
    return cli->model != NULL ? cli->model : cli->checkpoint;
}

static int bind_one(struct app *app, struct graph_cli *cli, const char *text)
{
    const char *equals = strchr(text, '=');
    char name[128] = "";
    uint64_t n = 0;
    enum vc_status status;

    if ((size_t)(equals - text) < sizeof name) {
        memcpy(name, text, (size_t)(equals - text));
    }
    if (!options_count(equals + 1, &n) || n > INT32_MAX) {
        return app_usage(app, "--size %s: '%s' is no number from 1 on", name, equals + 1);
    }
    status = vc_graph_bind(app->ctx, cli->graph, name, (int64_t)n);
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

/* What people leave out, then what they said. */
static int bind_sizes(struct app *app, struct graph_cli *cli)
{
    static const struct {
        const char *name;
        int64_t size;
    } usual[] = {{"batch", 1}, {"batch_size", 1}, {"sequence", 128}, {"sequence_length", 128}};
    int rc = GO_ON;

    for (size_t k = 0; k < sizeof usual / sizeof *usual; k++) {
        const char *name;

        for (uint32_t i = 0; (name = vc_graph_symbol(cli->graph, i)) != NULL; i++) {
            if (strcmp(name, usual[k].name) == 0 && vc_graph_bind(app->ctx, cli->graph, name, usual[k].size) != VC_OK) {
                return app_fail(app, VC_E_INTERNAL);
            }
        }
    }
    for (size_t k = 0; k < cli->n_sizes && rc == GO_ON; k++) {
        rc = bind_one(app, cli, cli->sizes[k]);
    }
    return rc;
}

/* ---- telling ---- */

static int print_json(struct app *app, const struct graph_cli *cli)
{
    char *text = NULL;
    enum vc_status status = vc_graph_json(app->ctx, cli->graph, cli->blocks, model_of(cli), &text);
    int rc = status == VC_OK ? json_print(app, text) : app_fail(app, status);

    vc_text_free(text);
    return rc;
}

static int draw(struct app *app, const struct graph_cli *cli)
{
    char *text = NULL;
    enum vc_status status = vc_graph_svg(app->ctx, cli->graph, cli->blocks, app->subject, &text);
    int rc = status == VC_OK ? svg_write(app, cli->svg, text) : app_fail(app, status);

    vc_text_free(text);
    return rc;
}

static int print_text(struct app *app, const struct graph_cli *cli)
{
    char *text = NULL;
    enum vc_status status = vc_graph_print_text(app->ctx, cli->graph, &text);
    int rc = GO_ON;

    if (status == VC_OK) {
        fputs(text, app->out.to);
    } else {
        rc = app_fail(app, status);
    }
    vc_text_free(text);
    return rc;
}

static int print_couplings(struct app *app, const struct graph_cli *cli)
{
    struct vc_couplings *couplings = NULL;
    char *text = NULL;
    enum vc_status status = vc_couplings_of_graph(app->ctx, cli->graph, &couplings);
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
    vc_couplings_free(couplings);
    return rc;
}

/* A value that was computed and goes into the file. */
static void tell_value(void *user, const struct vc_graph_array *array)
{
    const struct app *app = user;
    char shape[CELL_BYTES];

    if (!app->common.quiet && !(app->json.on && app->json.path == NULL)) {
        print_clean(app->out.to, app->output);
        fputs(": ", app->out.to);
        print_clean(app->out.to, array->name);
        fprintf(app->out.to, " %s %s\n", vc_dtype_name(array->dtype),
                fmt_shape(shape, &app->out, array->n_dims, array->shape));
    }
}

static int compute(struct app *app, struct graph_cli *cli)
{
    enum vc_status status;

    cli->run.values = cli->values;
    cli->run.n_values = cli->n_values;
    cli->run.arrays = cli->arrays;
    cli->run.n_arrays = cli->n_arrays;
    cli->run.weights = cli->checkpoint;
    cli->run.tell = tell_value;
    cli->run.user = app;
    app->output = cli->run.outputs;
    status = vc_graph_run_files(app->ctx, cli->graph, model_of(cli), &cli->run);
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

static int tell(struct app *app, struct graph_cli *cli)
{
    enum vc_status status = vc_graph_blocks_make(app->ctx, cli->graph, model_of(cli), &cli->blocks);
    bool tables = !app->common.quiet && !cli->text && !cli->couplings && cli->run.outputs == NULL &&
                  !(app->json.on && app->json.path == NULL);
    int rc = GO_ON;

    if (status != VC_OK) {
        return app_fail(app, status);
    }
    if (cli->text) {
        rc = print_text(app, cli);
    }
    if (cli->couplings) {
        rc = print_couplings(app, cli);
    }
    if (tables &&
        !(cli->full ? print_graph_nodes(app, cli->graph) : print_graph_blocks(app, cli->graph, cli->blocks))) {
        rc = app_refuse(app, VC_E_NOMEM, "not enough memory to print the table");
    }
    if (rc == GO_ON && cli->svg != NULL) {
        rc = draw(app, cli);
    }
    if (rc == GO_ON && app->json.on) {
        rc = print_json(app, cli);
    }
    if (rc == GO_ON && cli->run.outputs != NULL) {
        rc = compute(app, cli);
    }
    app_print_memory(app);
    return rc == GO_ON ? EXIT_YES : rc;
}

/* What the options say together. GO_ON or a status. */
static int check(struct app *app, const struct graph_cli *cli)
{
    if (app->parsed.n_args != 1) {
        return app_usage(app, "graph needs one MODEL; see vcompress graph --help");
    }
    if ((cli->run.data != NULL) != (cli->run.outputs != NULL) && cli->run.outputs == NULL) {
        return app_usage(app, "--data needs --outputs FILE, where the values go");
    }
    if (cli->run.outputs == NULL && (cli->n_values != 0 || cli->n_arrays != 0)) {
        return app_usage(app, "--value and --array need --data and --outputs");
    }
    if ((cli->text || cli->couplings) && app->json.on && app->json.path == NULL) {
        return app_usage(app, "--%s and --json both go to standard output; give one a file: --json=FILE",
                         cli->text ? "text" : "couplings");
    }
    if (cli->text && cli->couplings) {
        return app_usage(app, "--text and --couplings both go to standard output; choose one");
    }
    return cli->svg == NULL ? GO_ON : svg_check(app, cli->svg);
}

static int run_graph(struct app *app, int n_args, char **args)
{
    struct graph_cli cli = {.full = false};
    int rc;

    vc_graph_file_defaults(&cli.run);
    rc = app_parse(app, n_args, args, &cli);
    if (rc == GO_ON) {
        rc = check(app, &cli);
    }
    if (rc != GO_ON) {
        return rc;
    }
    app->subject = app->parsed.args[0];
    rc = app_open(app);
    if (rc == GO_ON) {
        rc = json_check(app);
    }
    if (rc == GO_ON) {
        rc = build(app, &cli);
    }
    if (rc == GO_ON) {
        rc = bind_sizes(app, &cli);
    }
    if (rc == GO_ON) {
        rc = tell(app, &cli);
    }
    vc_graph_blocks_free(cli.blocks);
    vc_graph_close(cli.graph);
    vc_model_close(cli.model);
    vc_model_close(cli.checkpoint);
    return rc;
}

const struct command command_graph = {
    .name = "graph",
    .usage = "[options] MODEL",
    .summary = "tell what a model computes",
    .text =
        "MODEL is an ONNX file, or a text: a list of layers or ONNX's textual syntax. The table has a line for each "
        "block, and one for all that repeat; multiply-adds are those of products, convolutions and attention. With "
        "--data the model is computed by plain loops, which define the operators: for comparing, not for speed.",
    .groups = groups,
    .n_groups = sizeof(groups) / sizeof(groups[0]),
    .args = "FILE",
    .schema = "vcompress.graph/1",
    .run = run_graph,
};
