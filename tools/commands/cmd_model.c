/* cmd_model.c - vcompress MODEL: what a model is, the memory that the model takes, where the model fits, and the
 * commands that come next. Reads headers only. */

#include "tools/commands/commands.h"
#include "tools/model/memory_cli.h"

/* clang-format off */
static const struct opt model_opts[] = {
    GRAPH_SOURCE_OPTIONS,
    {.name = "ctx", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct memory_cli, memory.context_tokens),
     .help = "keys and values of N positions are kept for every sequence"},
};
/* clang-format on */
static const struct opt_group group_whole = OPT_GROUP("Model", model_opts);
static const struct opt_group *const groups[] = {&group_whole, &group_run, &group_report, &group_help};

/* The file that --graph or the command line names as the model. */
static const char *path_of(const struct app *app, const struct graph_source *source)
{
    return source->model == NULL && source->weights != NULL ? source->weights : app->subject;
}

/* "m.npz: npz, 6 tensors, 301,066 parameters, 1.15 MiB" */
static int print_what(struct app *app, const struct memory_cli *cli)
{
    const struct vc_model *model = graph_source_model(&cli->source);
    struct vc_inspection *in = NULL;
    char buf[CELL_BYTES];
    enum vc_status status;

    print_clean(app->out.to, path_of(app, &cli->source));
    fputs(": ", app->out.to);
    if (model == NULL) {
        fprintf(app->out.to, "a graph without weights, %s parameters\n", fmt_count(buf, cli->report.n_params));
        return GO_ON;
    }
    status = vc_inspect(app->ctx, model, false, &in);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    fprintf(app->out.to, "%s, %s tensors, ", vc_model_format(model), fmt_count(buf, in->n_own));
    fprintf(app->out.to, "%s parameters, ", fmt_count(buf, in->n_params));
    fprintf(app->out.to, "%s\n ", fmt_size(buf, &app->out, vc_model_file_bytes(model)));
    for (size_t k = 0; k < in->n_dtypes; k++) {
        fprintf(app->out.to, "%s %s ", k == 0 ? "" : ",", vc_dtype_name(in->dtypes[k].dtype));
        fputs(fmt_percent(buf, (double)in->dtypes[k].size_bytes, (double)in->value_bytes), app->out.to);
    }
    fprintf(app->out.to, "%s; %s\n", in->n_quantized != 0 ? "; quantized weights" : "",
            cli->source.graph != NULL ? "the graph is known" : "no graph is known: figures count weights alone");
    vc_inspection_free(in);
    return GO_ON;
}

/* The smallest of the cards on which the weights of a column fit. */
static const struct vc_gpu *smallest_card(const struct vc_fit_matrix *m, size_t column)
{
    for (size_t r = 0; r < m->n_rows; r++) {
        if (m->fits[r * m->n_columns + column].verdict == VC_FITS) {
            return m->gpus[r];
        }
    }
    return NULL;
}

/* A line for each type of the weights: bytes, the need on a device, the smallest common card. */
static bool print_matrix(const struct app *app, const struct vc_fit_matrix *m)
{
    static const char *const titles[] = {"weights as", "size", "need in inference", "fits from"};
    struct table table;
    char buf[CELL_BYTES];

    table_init(&table, "lrrl");
    for (size_t k = 0; k < sizeof titles / sizeof titles[0]; k++) {
        table_add(&table, INK_DIM, titles[k]);
    }
    for (size_t c = 0; c < m->n_columns; c++) {
        const struct vc_gpu *gpu = smallest_card(m, c);

        table_add(&table, INK_NONE, m->columns[c].name);
        table_add(&table, INK_NONE, fmt_size(buf, &app->out, m->columns[c].weight_bytes));
        table_add(&table, INK_NONE, fmt_size(buf, &app->out, m->fits[c].need_bytes));
        table_add(&table, gpu != NULL ? INK_GOOD : INK_BAD, gpu != NULL ? gpu->name : "no common card");
    }
    return table_print(&table, &app->out, true);
}

static int print_where(struct app *app, const struct memory_cli *cli)
{
    struct vc_gpus *gpus = NULL;
    struct vc_fit_matrix *matrix = NULL;
    enum vc_status status = vc_gpus_open(app->ctx, NULL, &gpus);
    int rc = GO_ON;

    if (status == VC_OK) {
        status = vc_fit_matrix_make(app->ctx, cli->source.graph, graph_source_model(&cli->source), &cli->memory, NULL,
                                    gpus, NULL, 0, &matrix);
    }
    if (status != VC_OK) {
        rc = app_fail(app, status);
    } else if (!print_matrix(app, matrix)) {
        rc = app_refuse(app, VC_E_NOMEM, "not enough memory to print the table");
    }
    vc_fit_matrix_free(matrix);
    vc_gpus_close(gpus);
    return rc;
}

/* "  vcompress inspect m.npz"; with the graph if the command takes --graph. */
static void print_command(const struct app *app, const struct graph_source *source, const char *before, bool graph)
{
    fprintf(app->out.to, "  vcompress %s", before);
    if (graph && source->model == NULL && source->weights != NULL) {
        fputs(" --graph", app->out.to);
        (void)print_shell_word(app->out.to, app->subject);
    }
    fputs(path_of(app, source)[0] == '-' ? " --" : "", app->out.to);
    (void)print_shell_word(app->out.to, path_of(app, source));
    fputc('\n', app->out.to);
}

/* The commands that come next, ready to run. */
static void print_next(const struct app *app, const struct memory_cli *cli)
{
    const struct graph_source *source = &cli->source;
    bool weights = graph_source_model(source) != NULL;

    fputs("next:\n", app->out.to);
    if (weights) {
        print_command(app, source, "shrink --ratio 4", true);
    }
    print_command(app, source, source->graph != NULL ? "fit --all-gpus" : "fit --all-gpus --weights-only", true);
    print_command(app, source, weights ? "inspect" : "graph", false);
}

static int run_model(struct app *app, int n_args, char **args)
{
    struct memory_cli cli = {.batch = 0};
    int rc;

    vc_memory_defaults(&cli.memory);
    cli.memory.allocator = VC_ALLOCATOR_PYTORCH; /* as fit */
    rc = app_parse(app, n_args, args, &cli);
    if (rc == GO_ON && app->parsed.n_args != 1) {
        rc = app_usage(app, "one MODEL, or a command; see vcompress --help");
    }
    GO(rc);
    app->subject = app->parsed.args[0];
    rc = app_open(app);
    rc = rc == GO_ON ? memory_cli_count(app, &cli) : rc;
    if (rc == GO_ON && !app->common.quiet) {
        rc = print_what(app, &cli);
        rc = rc == GO_ON ? print_where(app, &cli) : rc;
    }
    if (rc == GO_ON && !app->common.quiet) {
        print_next(app, &cli);
    }
    rc = rc == GO_ON ? memory_cli_refused(app, &cli) : rc;
    app_print_memory(app);
    memory_cli_close(&cli);
    return rc == GO_ON ? EXIT_YES : rc;
}

const struct command command_model = {
    .name = "MODEL",
    .usage = "[options]",
    .summary = "tell what a model is, where it fits, and which commands come next",
    .text = "MODEL is a path that exists and no command's name: a weight file or folder, a config.json, an ONNX file, "
            "or the text of a graph.",
    .groups = groups,
    .n_groups = sizeof(groups) / sizeof(groups[0]),
    .run = run_model,
};
