/* cmd_logits.c - vcompress logits: what a network answers to every row, in a file that distill takes as a teacher.
 *
 * The file holds the digests of the network and of the rows (vc_logits), so that distill refuses it for other rows. */
#include <math.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/convert/distill_nets.h"
#include "tools/options/distill_words.h"
#include "tools/show/print_answers.h"
#include "tools/show/print_graph.h"

/* The options of the command. */
struct logits_cli {
    struct nets_cli nets;            /* first */
    struct vc_logits_options logits; /* what vc_logits gets */
    struct vc_write_options write;   /* the output */
    enum vc_net_task task;
};

/* --dtype of the file; the arithmetic is that of --precision. */
static bool take_dtype(void *group, const char *value)
{
    static const enum vc_dtype dtypes[] = {VC_DTYPE_F16, VC_DTYPE_F32, VC_DTYPE_F64};
    struct logits_cli *cli = group;

    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(value, vc_dtype_name(dtypes[i])) == 0) {
            cli->logits.dtype = dtypes[i];
            return true;
        }
    }
    return false;
}

#define LOGITS(member) OPT_FIELD(struct logits_cli, logits.member)

/* What is kept of each row, and where it goes. */
/* clang-format off */
static const struct opt logits_opts[] = {
    {.name = "topk", .value = "K", .kind = OPT_COUNT, LOGITS(topk),
     .help = "only the K largest logits of each row, and the sum of all (default: all logits)"},
    {.name = "temperature", .value = "T", .kind = OPT_REAL, LOGITS(temperature),
     .needs = "topk", .help = "of that sum; distill has to use the same (default 2)"},
    TASK_ROWS(struct logits_cli, task, logits.loss),
    {.name = "dtype", .value = "f16|f32|f64", .kind = OPT_CALL, .call = take_dtype, .option = "dtype",
     .wanted = "f16, f32 or f64", .help = "of the logits in the file (default f32)"},
    {.name = "batch", .value = "N", .kind = OPT_COUNT, LOGITS(batch), .help = "rows computed at a time (default 64)"},
    {.name = "precision", OPT_WORDS({"f32", VC_GRAPH_F32}, {"f64", VC_GRAPH_F64}), LOGITS(precision), .help = "of the arithmetic (default f32)"},
    {.name = "output", .letter = 'o', .by_letter = true, .value = "FILE", .file = FILE_WRITTEN, .kind = OPT_TEXT,
     OPT_FIELD(struct logits_cli, write.path), .help = "output file: npz or safetensors, by the extension"},
    {.name = "force", .letter = 'f', .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct logits_cli, write.force),
     .help = "replace an existing file (never the input)"},
};
/* clang-format on */
static const struct opt_group group_logits = OPT_GROUP("Logits", logits_opts);
static const struct opt_group *const groups[] = {&group_rows, &group_logits, &group_known,
                                                 &group_run,  &group_report, &group_help};

/* Runs the network and writes its answers. Returns the exit status. */
static int logits(struct app *app, struct logits_cli *cli, const struct net *net)
{
    struct vc_quality quality;
    struct vc_quality parts[VC_MOST_OUTPUTS];

    cli->logits.network = net_of(net);
    cli->logits.net_task = cli->task;
    cli->logits.data = &cli->nets.data;
    cli->logits.parts = parts;
    cli->logits.write = &cli->write;
    app->subject = NULL; /* sentences name the file that they are about */
    progress_begin(app);
    enum vc_status status = vc_logits(app->ctx, &cli->logits, &quality);
    progress_end();
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    app->subject = app->parsed.args[0];
    if (!app->common.quiet) {
        print_quality(app, &quality, net->graph);
        say(app->out.to, "wrote %s\n", cli->write.path);
        print_answers(app, &quality, net->graph);
        print_graph_notes(&app->out, net->graph);
    }
    app_print_memory(app);
    return EXIT_YES;
}

/* Options, the network, its answers. The file is written by the library, under a temporary name until it is whole. */
static int run_logits(struct app *app, int n_args, char **args)
{
    struct logits_cli cli;
    struct net net = {.graph = NULL};

    memset(&cli, 0, sizeof cli);
    vc_logits_defaults(&cli.logits);
    vc_data_defaults(&cli.nets.data);
    vc_write_defaults(&cli.write);
    int rc = app_parse(app, n_args, args, &cli);
    if (rc == GO_ON && (app->parsed.n_args != 1 || cli.nets.data.path == NULL || cli.write.path == NULL)) {
        rc = app_usage(app, "logits needs one TEACHER, --data FILE and -o FILE; see vcompress logits --help");
    }
    if (rc == GO_ON && strcmp(cli.write.path, "-") == 0) {
        rc = app_usage(app, "-o -: logits go into a file");
    }
    GO(rc);
    app->output = cli.write.path;
    rc = app_open(app);
    rc = rc == GO_ON ? net_open(app, app->parsed.args[0], cli.nets.graph, NULL, &net) : rc;
    rc = rc == GO_ON ? logits(app, &cli, &net) : rc;
    net_close(&net);
    return rc;
}

const struct command command_logits = {
    .name = "logits",
    .usage = "--data FILE [--graph FILE] [options] -o OUTPUT TEACHER",
    .summary = "write the answers of a network, as a teacher for distill",
    .text = "Runs the network on every row of the data and writes its logits, with SHA-256 of the network and of the "
            "rows. distill takes the file as --teacher, without the teacher in memory, and refuses the file for other "
            "rows or another order of rows.\n"
            "  vcompress logits --graph digits.layers.txt --data images.npz \\\n"
            "    --array test_images=train_images \\\n"
            "    digits.npz -o answers.npz",
    .first = "graph data labels topk dtype batch output force",
    OPT_GROUPS(groups),
    .args = "FILE",
    .run = run_logits,
};
