/* cmd_calibrate.c - vcompress calibrate: statistics of the inputs of layers, in a file for quantize and prune.
 *
 * Two commands in one: with --data a model is run and its layers are watched (calibrate); without it, files of
 * statistics are added up (merge). The library does both. */
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/convert/distill_nets.h"
#include "tools/show/print_graph.h"
#include "tools/show/print_inspect.h"

struct calibrate_cli {
    struct nets_cli nets;                  /* first */
    struct vc_calibrate_options calibrate; /* what vc_calibrate gets */
    struct vc_write_options write;         /* the output */
};

/* What is counted, and where it goes. */
/* clang-format off */
static const struct opt calibrate_opts[] = {
    {.name = "second-moments", .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct calibrate_cli, calibrate.second_moments),
     .help = "also the products of all pairs of columns, which GPTQ needs: 8 bytes * columns * columns of memory, and as "
             "much in the file, for each layer"},
    {.name = "batch", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct calibrate_cli, calibrate.batch),
     .help = "rows computed at a time (default 64)"},
    {.name = "output", .letter = 'o', .by_letter = true, .value = "FILE", .file = FILE_WRITTEN, .kind = OPT_TEXT,
     OPT_FIELD(struct calibrate_cli, write.path), .help = "output file: npz or safetensors, by the extension; of statistics also gguf"},
    {.name = "force", .letter = 'f', .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct calibrate_cli, write.force),
     .help = "replace an existing file (never the input)"},
};
/* clang-format on */
static const struct opt_group group_calibrate = OPT_GROUP("Statistics", calibrate_opts);
static const struct opt_group *const groups[] = {&group_rows, &group_calibrate, &group_known,
                                                 &group_run,  &group_report,    &group_help};

/* The table of layers and what was written. False: no memory. */
static bool print(struct app *app, const struct calibrate_cli *cli, const struct vc_calibration_report *r)
{
    FILE *to = app->out.to;

    say(to, "%s: %s rows, %zu layer%s\n", app->subject, fmt_count(CELL, r->n_rows), r->n_layers, plural(r->n_layers));
    if (!print_calibrated(app, r)) {
        return false;
    }
    if (r->n_left_out != 0) {
        say(to, "  no statistics of %zu: %s\n", r->n_left_out, r->left_out);
    }
    say(to, "wrote %s\n", cli->write.path);
    return true;
}

/* Runs the model and writes the statistics. Returns the exit status. */
static int calibrate(struct app *app, struct calibrate_cli *cli, const struct net *net)
{
    struct vc_calibration_report *report = NULL;

    cli->calibrate.network = net_of(net);
    cli->calibrate.data = &cli->nets.data;
    cli->calibrate.write = &cli->write;
    app->subject = NULL; /* sentences name the file that they are about */
    progress_begin(app);
    enum vc_status status = vc_calibrate(app->ctx, &cli->calibrate, &report);
    progress_end();
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    app->subject = app->parsed.args[0];
    if (!app->common.quiet) {
        if (!print(app, cli, report)) {
            vc_result_free(report);
            return app_fail(app, VC_E_NOMEM);
        }
        print_graph_notes(&app->out, net->graph);
    }
    vc_result_free(report);
    app_print_memory(app);
    return EXIT_YES;
}

/* llama-quantize finds rows of an importance matrix by the names of GGUF tensors: a note where the output ends in .gguf
 * and no tensor is called "blk.N...". */
static void note_names(struct app *app, const struct vc_model *file, const char *output)
{
    size_t n = strlen(output);
    bool found = n < 5 || strcmp(output + n - 5, ".gguf") != 0;

    for (size_t i = 0; !found && i < vc_model_facts(file)->n_tensors; i++) {
        found = strncmp(vc_model_tensor(file, i)->name, "blk.", 4) == 0;
    }
    if (!found) {
        fprintf(app->out.to,
                "%snote:%s llama-quantize looks for the names of a GGUF model (blk.0.attn_q.weight), and these are "
                "others: run calibrate --data on the GGUF file itself\n",
                out_ink(&app->out, INK_WARN), out_ink(&app->out, INK_NONE));
    }
}

/* Operands are files of statistics: their sums become one file. Returns the exit status. */
static int merge(struct app *app, const struct calibrate_cli *cli)
{
    size_t n = (size_t)app->parsed.n_args;
    struct vc_model **files = calloc(n + 1, sizeof *files);
    enum vc_status status = files == NULL ? VC_E_NOMEM : VC_OK;

    app->subject = NULL;
    for (size_t k = 0; k < n && status == VC_OK; k++) {
        status = vc_model_open(app->ctx, app->parsed.args[k], NULL, &files[k]);
    }
    if (status == VC_OK) {
        status = vc_statistics_merge(app->ctx, (const struct vc_model *const *)files, n, &cli->write);
    }
    if (status == VC_OK && !app->common.quiet) {
        say(app->out.to, "wrote %s\n", cli->write.path);
        note_names(app, files[0], cli->write.path);
    }
    for (size_t k = 0; k < n && files != NULL; k++) {
        vc_model_close(files[k]);
    }
    free(files);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    app_print_memory(app);
    return EXIT_YES;
}

/* Checks what the two commands have in common, and calls one of them. */
static int run_calibrate(struct app *app, int n_args, char **args)
{
    struct calibrate_cli cli;
    struct net net = {.graph = NULL};

    memset(&cli, 0, sizeof cli);
    vc_calibrate_defaults(&cli.calibrate);
    vc_data_defaults(&cli.nets.data);
    vc_write_defaults(&cli.write);
    int rc = app_parse(app, n_args, args, &cli);
    /* with --data one model; without it files of statistics, which have no graph */
    if (rc == GO_ON && (app->parsed.n_args == 0 || (app->parsed.n_args != 1 && cli.nets.data.path != NULL) ||
                        (cli.nets.data.path == NULL && cli.nets.graph != NULL) || cli.write.path == NULL)) {
        rc = app_usage(app,
                       "calibrate needs one MODEL, --data FILE and -o FILE, or files of statistics and -o FILE; see "
                       "vcompress calibrate --help");
    }
    if (rc == GO_ON && strcmp(cli.write.path, "-") == 0) {
        rc = app_usage(app, "-o -: statistics go into a file");
    }
    GO(rc);
    app->output = cli.write.path;
    rc = app_open(app);
    if (rc == GO_ON && cli.nets.data.path == NULL) {
        return merge(app, &cli);
    }
    rc = rc == GO_ON ? net_open(app, app->parsed.args[0], cli.nets.graph, NULL, &net) : rc;
    rc = rc == GO_ON ? calibrate(app, &cli, &net) : rc;
    net_close(&net);
    return rc;
}

const struct command command_calibrate = {
    .name = "calibrate",
    .usage = "--data FILE [--graph FILE] [options] -o OUTPUT MODEL, or -o OUTPUT STATISTICS...",
    .summary = "gather what layers get to see, for quantize and prune",
    .text = "Runs the network on every row of the data and writes, for each layer, sums over the inputs that are "
            "multiplied with its weights. quantize --calibration weighs errors by them.\n"
            "Without --data, several files of statistics become one: each saw other rows of the same model (--part; "
            "rows that several have seen count several times). An output that ends in .gguf is an importance matrix "
            "for llama-quantize, of statistics of a GGUF model, whose names it looks for.\n"
            "  vcompress calibrate --graph digits.layers.txt --data images.npz \\\n"
            "    --array test_images=train_images -o stats.npz digits.npz\n"
            "  vcompress quantize --int4 --calibration stats.npz digits.npz",
    .first = "graph data labels length batch output force",
    OPT_GROUPS(groups),
    .args = "FILE",
    .run = run_calibrate,
};
