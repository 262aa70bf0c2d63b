/* cmd_inspect.c - vcompress inspect: what is in a checkpoint, from its headers; --stats reads the values as well. The
 * library counts (vc_inspect); print_inspect.c has the tables. */
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/convert/convert.h"
#include "tools/show/documents.h"
#include "tools/show/print_inspect.h"

/* The options of the command. */
struct inspect_cli {
    struct base_options base;
    struct vc_open_options open; /* --key and --void-as */
    bool stats;                  /* --stats */
};

/* bf16 is the only type that NumPy stores as void. */
static bool take_void_as(void *group, const char *value)
{
    ((struct inspect_cli *)group)->open.void_as = VC_DTYPE_BF16;
    return strcmp(value, "bf16") == 0;
}

/* What is read. */
/* clang-format off */
static const struct opt inspect_opts[] = {
    {.name = "stats", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct inspect_cli, stats),
     .help = "read the values: NaN, Inf, zeros, ranges, and how the magnitudes are spread"},
    {.name = "key", .value = "NAME", .kind = OPT_TEXT, OPT_FIELD(struct inspect_cli, open.key),
     .help = "PyTorch files: the dict whose tensors are the weights, such as ema or nets.0 (default: the usual names)"},
    {.name = "void-as", .value = "bf16", .kind = OPT_CALL, .call = take_void_as, .option = "void_as",
     .help = "what NumPy's raw 2-byte elements (V2) mean"},
};
/* clang-format on */
static const struct opt_group group_inspect = OPT_GROUP("Inspect", inspect_opts);
static const struct opt_group *const groups[] = {&group_inspect, &group_known,  &group_run, &group_json,
                                                 &group_page,    &group_report, &group_help};

/* A file of statistics (vcompress calibrate) also gets the table of its layers. Other files are VC_E_UNSUPPORTED here,
 * which is no failure. GO_ON or a status. */
static int tell_statistics(struct app *app, const struct vc_model *model)
{
    struct vc_calibration_report *report = NULL;
    enum vc_status status = vc_statistics_read(app->ctx, model, &report);

    if (status != VC_OK) {
        return status == VC_E_UNSUPPORTED ? GO_ON : app_fail(app, status);
    }
    fprintf(app->out.to, "\n  statistics of %s rows, %zu layer%s\n\n",
            report->n_rows != 0 ? fmt_count(CELL, report->n_rows) : "unknown", report->n_layers,
            plural(report->n_layers));
    status = print_calibrated(app, report) ? VC_OK : VC_E_NOMEM;
    vc_result_free(report);
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

/* The tables, the document. Returns the exit status. */
static int tell(struct app *app, const struct vc_inspection *in)
{
    bool prints = app_prints(app);
    int rc = GO_ON;

    signals_end_printing();
    if (prints && !print_inspection(app, in)) {
        rc = app_refuse(app, VC_E_NOMEM, "not enough memory to print the report");
    }
    rc = rc == GO_ON && prints ? tell_statistics(app, in->model) : rc;
    rc = rc == GO_ON ? document_inspect(app, in) : rc;
    app_print_memory(app);
    return rc == GO_ON ? EXIT_YES : rc;
}

/* Reads headers, or with --stats all values; only that takes long enough for a progress line. */
static int look(struct app *app, const struct vc_model *model, bool stats)
{
    struct vc_inspection *in = NULL;

    if (stats) {
        progress_begin(app);
    }
    enum vc_status status = vc_inspect(app->ctx, model, stats, &in);
    progress_end();
    int rc = status == VC_OK ? tell(app, in) : app_fail(app, status);
    vc_result_free(in);
    return rc;
}

/* inputs_each calls this for every INPUT. */
static int inspect_input(struct app *app, void *user)
{
    const struct inspect_cli *cli = user;
    struct vc_model *model = NULL;
    enum vc_status status = vc_model_open(app->ctx, app->subject, &cli->open, &model);

    if (status != VC_OK) {
        return app_fail(app, status);
    }
    int rc = check_key(app, model, cli->open.key);
    if (rc == GO_ON) {
        rc = look(app, model, cli->stats);
    }
    vc_model_close(model);
    return rc;
}

/* A call (call.h) may bring a reader in place of the file. */
static int run_inspect(struct app *app, int n_args, char **args)
{
    struct inspect_cli cli = {.stats = false};

    vc_open_defaults(&cli.open);
    GO(app_begin(app, n_args, args, &cli));
    cli.open.reader = app->call != NULL ? app->call->reader : NULL;
    return inputs_each(app, inspect_input, &cli);
}

const struct command command_inspect = {
    .name = "inspect",
    .usage = "[--stats] [options] INPUT...",
    .summary = "list the tensors of a checkpoint",
    .text = "Reads headers only, unless --stats is given. Tensors whose names differ only in a number share a line; "
            "-v lists every tensor. The sizes after int8 and fp16 are the exact sizes that quantize writes.\n"
            "  vcompress inspect -v model.safetensors\n"
            "  vcompress inspect hf:OWNER/NAME\n"
            "  vcompress inspect --stats --html model.html model.npz",
    .first = "stats json html quiet verbose",
    OPT_GROUPS(groups),
    .needs = "an INPUT file",
    .args = "FILE",
    .reads_headers = true,
    .schema = "vcompress.inspect/1",
    .run = run_inspect,
};
