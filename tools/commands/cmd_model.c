/* cmd_model.c - vcompress MODEL: what a model is, the memory that the model takes, where the model fits, and the
 * commands that come next. Each of these was planned in a dry run and found possible. Reads headers only.
 *
 * The stages: memory_cli_count (opens and counts), print_what, print_where, print_next. */

#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/model/memory_cli.h"
#include "tools/possible.h"

/* What MODEL holds, which decides what is advised. */
enum contents {
    OF_TEXT = 1,      /* no weights: a configuration, the text of a graph */
    OF_WIDE = 2,      /* floats, most bytes in f32 or f64 */
    OF_HALF = 4,      /* floats, most bytes in f16 or bf16 */
    OF_CODES = 8,     /* quantized weights */
    OF_BLOCKS = 16,   /* the codes of a GGUF file */
    OF_TRAINING = 32, /* a checkpoint with the states of an optimizer */
};

/* A command that may come next. */
struct advice {
    const char *words;
    unsigned of; /* sum of enum contents; 0: of all */
    bool graph;  /* takes --graph */
    bool sizes;  /* takes --size and --ctx */
    bool gains;  /* is for a smaller file: planned with a gate for the gain */
};

/* For each aim the first command that is possible is printed. */
static const struct advice smaller[] = {
    {.words = "quantize --int8 --rest fp16 --drop optimizer", .of = OF_TRAINING, .gains = true},
    {.words = "convert --drop optimizer", .of = OF_TRAINING, .gains = true},
    {.words = "shrink --ratio 4", .of = OF_WIDE, .graph = true},
    {.words = "shrink --ratio 2", .of = OF_WIDE | OF_HALF, .graph = true},
    {.words = "shrink --ratio 1.5", .of = OF_WIDE | OF_HALF, .graph = true},
    {.words = "quantize --int8 --rest fp16", .of = OF_WIDE, .gains = true},
    {.words = "quantize --fp16 --rest fp16", .of = OF_WIDE, .gains = true},
    {.words = "quantize --int8", .of = OF_HALF, .gains = true},
    {.words = "quantize --gguf Q4_K_M --requantize", .of = OF_BLOCKS, .gains = true},
    {.words = "dequantize", .of = OF_CODES | OF_BLOCKS},
};
/* Where it would run, with figures that the command adds to. */
static const struct advice where[] = {
    {.words = "fit --all-gpus", .graph = true, .sizes = true},
    {.words = "fit --all-gpus --weights-only", .graph = true},
    {.words = "estimate", .graph = true, .sizes = true},
};
/* What is in it. */
static const struct advice inside[] = {{.words = "graph", .of = OF_TEXT}, {.words = "inspect"}};
#define N(rows) (sizeof(rows) / sizeof(rows)[0])

/* What the commands that come next are about. */
struct about {
    const char *path;
    const char *graph;            /* the file of --graph; NULL: none */
    const struct memory_cli *cli; /* --size and --ctx */
    uint64_t bytes;               /* of the file */
    unsigned contents;            /* one enum contents */
};

/* clang-format off */
static const struct opt model_opts[] = {
    GRAPH_SOURCE_OPTIONS,
    {.name = "ctx", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct memory_cli, memory.context_tokens),
     .help = "keys and values of N positions are kept for every sequence"},
};
/* clang-format on */
static const struct opt_group group_whole = OPT_GROUP("Model", model_opts);
static const struct opt_group *const groups[] = {&group_whole, &group_known, &group_run, &group_report, &group_help};

/* The file with the weights: that of --weights, or MODEL where --graph names the graph; else the operand. */
static const char *path_of(const struct app *app, const struct graph_source *source)
{
    return source->model == NULL && source->weights != NULL ? source->weights : app->subject;
}

/* Half of the bytes decide between wide and half: a file of f16 may have norms in f32. */
static unsigned contents_of(const struct vc_model *model, const struct vc_inspection *in)
{
    uint64_t wide = 0;

    for (size_t i = 0; i < in->n_tensors; i++) {
        if (vc_model_tensor(model, i)->role == VC_ROLE_OPTIMIZER) {
            return OF_TRAINING;
        }
    }
    for (size_t k = 0; k < in->n_dtypes; k++) {
        wide +=
            in->dtypes[k].dtype == VC_DTYPE_F32 || in->dtypes[k].dtype == VC_DTYPE_F64 ? in->dtypes[k].size_bytes : 0;
    }
    if (in->n_quantized != 0) {
        return strcmp(vc_model_facts(model)->format, "gguf") == 0 ? OF_BLOCKS : OF_CODES;
    }
    return wide > in->value_bytes / 2 ? OF_WIDE : OF_HALF;
}

/* The end of the second line: what the figures below it are of. */
static const char *what_is_known(const struct memory_cli *cli)
{
    if (cli->source.graph != NULL) {
        return "the graph is known";
    }
    return cli->report.unknown == NULL ? "no graph is known: activations are a bound by the metadata"
                                       : "no graph is known: figures count weights alone";
}

/* Two lines: "m.npz: npz, 6 tensors, 301,066 parameters, 1.15 MiB", then types and what is known. Fills *about. GO_ON
 * or a status. */
static int print_what(struct app *app, const struct memory_cli *cli, struct about *about)
{
    const struct vc_model *model = graph_source_model(&cli->source);
    struct vc_inspection *in = NULL;

    say(app->out.to, "%s: ", path_of(app, &cli->source));
    if (model == NULL) {
        say(app->out.to, "a graph without weights, %s parameters\n", fmt_count(CELL, cli->report.n_params));
        return GO_ON;
    }
    enum vc_status status = vc_inspect(app->ctx, model, false, &in);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    say(app->out.to, "%s, %s tensors, %s parameters, %s\n", vc_model_facts(model)->format, fmt_count(CELL, in->n_own),
        fmt_count(CELL, in->n_params), fmt_size(CELL, &app->out, vc_model_facts(model)->file_bytes));
    for (size_t k = 0; k < in->n_dtypes; k++) {
        say(app->out.to, "%s %s %s", k == 0 ? " " : ",", vc_dtype_name(in->dtypes[k].dtype),
            fmt_percent(CELL, (double)in->dtypes[k].size_bytes, (double)in->value_bytes));
    }
    fputs(in->n_dtypes == 0 ? " " : "", app->out.to);
    fprintf(app->out.to, "%s; %s\n", in->n_quantized != 0 ? "; quantized weights" : "", what_is_known(cli));
    about->contents = contents_of(model, in);
    about->bytes = vc_model_facts(model)->file_bytes;
    vc_result_free(in);
    return GO_ON;
}

/* The smallest GPU of the matrix, whose rows rise, on which the weights of a column fit; NULL: none. */
static const struct vc_gpu *smallest_card(const struct vc_fit_matrix *m, size_t column)
{
    for (size_t r = 0; r < m->n_rows; r++) {
        if (m->fits[r * m->n_columns + column].verdict == VC_FITS) {
            return m->gpus[r];
        }
    }
    return NULL;
}

/* A line for each type of the weights: bytes, the need on a device, the smallest common card. False: no memory. */
static bool print_matrix(const struct app *app, const struct vc_fit_matrix *m)
{
    struct table table = {.failed = false};

    for (size_t c = 0; c < m->n_columns; c++) {
        const struct vc_gpu *gpu = smallest_card(m, c);
        bool known = m->fits[c].verdict != VC_FITS_UNKNOWN;
        const char *none = known ? "no common card" : "not known";

        table_cell(&table, 'l', "weights as", INK_NONE, m->columns[c].name);
        table_cell(&table, 'r', "size", INK_NONE, fmt_size(CELL, &app->out, m->columns[c].weight_bytes));
        table_cell(&table, 'r', "need in inference", INK_NONE,
                   known ? fmt_size(CELL, &app->out, m->fits[c].need_bytes) : "?");
        table_cell(&table, 'l', "fits from", gpu != NULL ? INK_GOOD : INK_BAD, gpu != NULL ? gpu->name : none);
        table_end_row(&table);
    }
    return table_print(&table, &app->out, true);
}

/* What the figures count with, and what they cannot count. fit: of the first GPU, for what does not depend on the
 * GPU. */
static void print_notes(const struct app *app, const struct memory_cli *cli, const struct vc_fit *fit)
{
    const struct vc_layout *layout =
        graph_source_model(&cli->source) != NULL ? vc_model_layout(graph_source_model(&cli->source)) : NULL;
    bool known = fit->verdict != VC_FITS_UNKNOWN;

    if (known) {
        fprintf(app->out.to, "need: %s and %s of the device's runtime",
                cli->report.unknown == NULL ? "what lives at the peak" : "the weights",
                fmt_size(CELL, &app->out, fit->context_bytes + fit->slack_bytes));
        memory_cli_print_sizes(app, cli, "; counted with ");
        fputs(cli->source.graph != NULL && vc_graph_symbol(cli->source.graph, 0, NULL) != NULL ? " (--size NAME=N)\n"
                                                                                               : "\n",
              app->out.to);
    }
    if (layout != NULL && cli->memory.runtime == VC_RUNTIME_DEQUANTIZE) {
        fputs("note: the usual loader decodes the codes to floats (as loaded); for one that keeps codes ask fit or "
              "estimate "
              "with --runtime native\n",
              app->out.to);
    }
    if (cli->source.refused != NULL && cli->report.unknown != NULL) {
        say(app->out.to, "note: figures count weights alone: %s\n", cli->source.refused);
    } else if (cli->source.graph != NULL && cli->report.unknown != NULL) {
        say(app->out.to, "note: the need is not known: %s%s%s\n", cli->report.unknown,
            cli->report.unknown_name != NULL ? ": " : "",
            cli->report.unknown_name != NULL ? cli->report.unknown_name : "");
        memory_cli_print_open(app, cli);
    }
}

/* The matrix of the catalogue's common cards. GO_ON or a status. */
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
    } else {
        print_notes(app, cli, &matrix->fits[0]);
    }
    vc_result_free(matrix);
    vc_result_free(gpus);
    return rc;
}

/* ---- what comes next ---- */

/* "vcompress shrink --ratio 4 m.npz", with the options of this command that the advice takes. "--" stands before a path
 * that begins with a dash. The caller frees it. NULL: no memory. */
static char *make_line(const struct advice *advice, const struct about *about)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    bool ok = to != NULL;

    if (to == NULL) {
        return NULL;
    }
    fprintf(to, "vcompress %s", advice->words);
    if (advice->sizes && about->cli->memory.context_tokens != 0) {
        fprintf(to, " --ctx %llu", (unsigned long long)about->cli->memory.context_tokens);
    }
    if (advice->graph && about->graph != NULL) {
        fputs(" --graph", to);
        ok = print_shell_word(to, about->graph);
    }
    for (size_t k = 0; advice->sizes && k < about->cli->source.n_sizes; k++) {
        fputs(" --size", to);
        ok = print_shell_word(to, about->cli->source.sizes[k]) && ok;
    }
    fputs(about->path[0] == '-' ? " --" : "", to);
    ok = print_shell_word(to, about->path) && ok;
    ok = fclose(to) == 0 && ok;
    if (!ok) {
        free(text);
        text = NULL;
    }
    return text;
}

/* Prints the first advice that is for such contents and possible; *title is printed before the first line of all. */
static void print_first(const struct app *app, const struct advice *rows, size_t n, const struct about *about,
                        const char **title)
{
    bool found = false;

    for (size_t k = 0; k < n && !found; k++) {
        char *line = rows[k].of == 0 || (rows[k].of & about->contents) != 0 ? make_line(&rows[k], about) : NULL;

        found = line != NULL && line_is_possible(app, line, rows[k].gains ? POSSIBLE_GAIN(about->bytes) : 0);
        if (found) {
            fputs(*title, app->out.to);
            say(app->out.to, "  %s\n", line);
            *title = "";
        }
        free(line);
    }
}

/* The commands that come next, ready to run. */
static void print_next(struct app *app, const struct about *about)
{
    const char *title = "next:\n";

    signals_end_printing(); /* nothing is written from here on: signals end the process */
    print_first(app, smaller, N(smaller), about, &title);
    print_first(app, where, N(where), about, &title);
    print_first(app, inside, N(inside), about, &title);
}

/* The model is closed before the dry runs, which open it again with their own limits of memory. */
static int run_model(struct app *app, int n_args, char **args)
{
    struct memory_cli cli = {.own_allocator = true}; /* as fit */
    struct about about = {.cli = &cli, .contents = OF_TEXT};

    vc_memory_defaults(&cli.memory);
    int rc = app_parse(app, n_args, args, &cli);
    if (rc == GO_ON && app->parsed.n_args != 1) {
        rc = app_usage(app, "one MODEL, or a command; see vcompress --help");
    }
    GO(rc);
    app->subject = app->parsed.args[0];
    rc = app_open(app);
    rc = rc == GO_ON ? memory_cli_count(app, &cli) : rc;
    if (rc == GO_ON && !app->common.quiet) {
        rc = print_what(app, &cli, &about);
        rc = rc == GO_ON ? print_where(app, &cli) : rc;
    }
    about.path = path_of(app, &cli.source);
    about.graph = cli.source.model == NULL && cli.source.weights != NULL ? app->subject : NULL;
    memory_cli_close(&cli);
    if (rc == GO_ON && !app->common.quiet) {
        print_next(app, &about);
    }
    app_print_memory(app);
    return rc == GO_ON ? EXIT_YES : rc;
}

const struct command command_model = {
    .reads_headers = true,
    .name = "MODEL",
    .usage = "[options]",
    .summary = "tell what a model is, where it fits, and which commands come next",
    .text = "MODEL is a path that exists and no command's name: a weight file or folder, a config.json, an ONNX file, "
            "or the text of a graph. The commands that are printed were planned (dry runs, from headers alone) and are "
            "possible.",
    OPT_GROUPS(groups),
    .run = run_model,
};
