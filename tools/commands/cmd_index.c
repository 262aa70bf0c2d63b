/* cmd_index.c - vcompress index: the index of a folder of safetensors files.
 *
 * It is the step after workers that wrote parts of one model (--shard); the library checks that the parts belong
 * together. */
#include <inttypes.h>

#include "tools/app.h"
#include "tools/commands/commands.h"

static const struct opt_group *const groups[] = {&group_run, &group_report, &group_help};

/* The summary is of the index that was written. */
static int run_index(struct app *app, int n_args, char **args)
{
    struct base_options base = {.json = {.on = false}};
    struct vc_index_summary summary;
    int rc = app_parse(app, n_args, args, &base);

    GO(rc);
    if (app->parsed.n_args != 1) {
        return app_usage(app, "index takes one FOLDER, but got %d operands", app->parsed.n_args);
    }
    app->subject = app->parsed.args[0];
    GO(app_open(app));
    enum vc_status status = vc_index_write(app->ctx, app->subject, &summary);
    if (status == VC_OK && !app->common.quiet) {
        fprintf(app->out.to, "wrote %s/%s: %zu tensors in %zu files, %" PRIu64 " bytes\n", app->subject, summary.name,
                summary.n_tensors, summary.n_files, summary.total_size);
    }
    app_print_memory(app);
    return status == VC_OK ? EXIT_YES : app_fail(app, status);
}

const struct command command_index = {
    .name = "index",
    .usage = "[options] FOLDER",
    .summary = "write the index of a folder of safetensors files",
    .text =
        "Reads the headers of every safetensors file in FOLDER and writes model.safetensors.index.json, replacing the "
        "one that is there. The last step after workers with --shard have done their files; a file that is missing "
        "(by the numbers in the names of the others), a tensor that occurs twice, or files that were not made by one "
        "job are refused.\n"
        "  for i in 1 2 3; do\n"
        "      vcompress quantize --int8 --shard $i/3 model -o model.int8 &\n"
        "  done; wait\n"
        "  vcompress index model.int8",
    .first = "verbose quiet diffable",
    OPT_GROUPS(groups),
    .args = "FOLDER",
    .run = run_index,
};
