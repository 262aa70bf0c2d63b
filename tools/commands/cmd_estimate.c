/* cmd_estimate.c - vcompress estimate: what memory a model takes, by component and by moment. Options, counting and
 * tables are in memory_cli.c, which fit and plan share. */
#include "tools/commands/commands.h"
#include "tools/show/documents.h"

static const struct opt_group *const groups[] = {&group_model, &group_memory, &group_kind, &group_devices, &group_known,
                                                 &group_run,   &group_json,   &group_page, &group_report,  &group_help};

/* Counts each layer where somebody wants to see it: the table of -v, JSON, the page. These are figures of PyTorch, so
 * --trainer vcompress has no table of layers. GO_ON or a status. */
static int make_layers(struct app *app, struct memory_cli *cli)
{
    if ((app->common.verbose == 0 && !app->json.on && app->json.html == NULL) ||
        cli->memory.trainer == VC_MEMORY_VCOMPRESS) {
        return GO_ON;
    }
    enum vc_status status = vc_memory_layers_make(app->ctx, cli->source.graph, graph_source_model(&cli->source),
                                                  &cli->memory, &cli->layers);
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

/* The tables and the document. GO_ON or a status. */
static int tell(struct app *app, const struct memory_cli *cli)
{
    int rc = GO_ON;

    signals_end_printing();
    if (app_prints(app) && !memory_cli_print(app, cli)) {
        rc = app_refuse(app, VC_E_NOMEM, "not enough memory to print the table");
    }
    return rc == GO_ON ? document_estimate(app, cli) : rc;
}

/* The estimate is printed before a damaged graph or a missed budget decides the exit status. */
static int run_estimate(struct app *app, int n_args, char **args)
{
    struct memory_cli cli = {.tell_device = true};

    vc_memory_defaults(&cli.memory);
    GO(app_begin(app, n_args, args, &cli));
    int rc = memory_cli_count(app, &cli);
    rc = rc == GO_ON ? make_layers(app, &cli) : rc;
    rc = rc == GO_ON ? tell(app, &cli) : rc;
    rc = rc == GO_ON ? memory_cli_refused(app, &cli) : rc;
    app_print_memory(app);
    rc = rc == GO_ON ? memory_cli_check_budget(app, &cli) : rc;
    memory_cli_close(&cli);
    return rc == GO_ON ? EXIT_YES : rc;
}

const struct command command_estimate = {
    .name = "estimate",
    .usage = "[options] MODEL",
    .summary = "estimate the memory of a model, for inference or for training",
    .schema = "vcompress.estimate/1",
    .text =
        "MODEL is a weight file or folder, a config.json alone, an ONNX file, or the text of a graph. Only headers "
        "are read, and no GPU is needed. Each figure has a quality: exact figures are counted from sizes, modelled "
        "figures follow PyTorch. -v prints a table of layers: parameters, bytes of weights, activations at the peak "
        "(in training: kept for the backward pass), and all outputs.\n"
        "  vcompress estimate --ctx 8192 llama/\n"
        "  vcompress estimate --mode train --optimizer adamw --batch 32 model.onnx",
    .first = "batch seq size dtype ctx mode optimizer graph html json",
    OPT_GROUPS(groups),
    .needs = "one MODEL",
    .one = true,
    .args = "FILE",
    .reads_headers = true,
    .takes_config = true,
    .run = run_estimate,
};
