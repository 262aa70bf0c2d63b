/* cmd_devices.c - vcompress devices: which CUDA devices could be used, what could bring ranks together, and why not.
 * The answer is always a success: a machine without a device is no error. */

#include "tools/app.h"
#include "tools/commands/commands.h"

static const struct opt_group *const groups[] = {&group_run, &group_report, &group_help};

/* The table. A device that is not usable has its reason in the last column. False: no memory. */
static bool print_devices(struct app *app, const struct vc_devices *list)
{
    const struct out *out = &app->out;
    struct table table = {.failed = false};

    for (size_t i = 0; i < list->n_devices; i++) {
        const struct vc_device_info *info = &list->devices[i];
        bool known = info->total_bytes > 0;

        table_cell(&table, 'l', "device", INK_NONE, fmt_text(CELL, "cuda:%d", info->index));
        table_cell(&table, 'l', "name", INK_NONE, info->name);
        table_cell(&table, 'r', "capability", INK_NONE, fmt_text(CELL, "%d.%d", info->major, info->minor));
        table_cell(&table, 'r', "memory", INK_NONE, known ? fmt_size(CELL, out, info->total_bytes) : "-");
        table_cell(&table, 'r', "free", INK_NONE, known ? fmt_size(CELL, out, info->free_bytes) : "-");
        table_cell(&table, 'l', "", info->usable ? INK_GOOD : INK_WARN, info->usable ? "usable" : info->reason);
        table_end_row(&table);
    }
    return table_print(&table, out, false);
}

/* "ranks: Open MPI 4.1.4", or why there is no MPI. */
static void print_ranks(struct app *app)
{
    const char *name;
    bool found = vc_ranks_find(app->ctx, &name) == VC_OK;

    say(app->out.to, "ranks: %s%s\n", found ? "" : "none: ", found ? name : vc_ctx_message(app->ctx));
}

/*     cpu: avx2, 16 threads
 *     cuda: ..., or none and why
 *     the table
 *     with -v where the plug-in was looked for */
static bool print_list(struct app *app, const struct vc_devices *list)
{
    const struct out *out = &app->out;
    struct vc_ctx_facts facts;
    bool ok = true;

    vc_ctx_look(app->ctx, &facts);
    fprintf(out->to, "cpu: %s, %u thread%s\n", facts.cpu_level, facts.threads, plural(facts.threads));
    if (list->n_devices > 0) {
        fprintf(out->to, "cuda: %s\n", list->runtime);
        ok = print_devices(app, list);
    } else {
        say(out->to, "cuda: none: %s\n", list->reason);
    }
    for (size_t i = 0; app->common.verbose > 0 && i < list->n_searched; i++) {
        fputs(i == 0 ? "plug-in looked for in\n" : "", out->to);
        say(out->to, "  %s: %s\n", list->searched[i].path, list->searched[i].outcome);
    }
    print_ranks(app);
    return ok;
}

/* Asking devices starts the CUDA plug-in, if there is one. */
static int run_devices(struct app *app, int n_args, char **args)
{
    struct base_options base = {.json = {.on = false}};
    struct vc_devices *list = NULL;
    int rc = app_parse(app, n_args, args, &base);

    GO(rc);
    if (app->parsed.n_args != 0) {
        return app_usage(app, "devices takes no operands, but got '%s'", app->parsed.args[0]);
    }
    GO(app_open(app));
    enum vc_status status = vc_devices_list(app->ctx, &list);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    rc = print_list(app, list) ? EXIT_YES : app_refuse(app, VC_E_NOMEM, "not enough memory to print the list");
    vc_result_free(list);
    return rc;
}

const struct command command_devices = {
    .name = "devices",
    .usage = "[-v] [options]",
    .summary = "list the CUDA devices, or the reason why no device is usable",
    .text = "Without a CUDA device everything works on the CPU, with the same results. -v shows the search paths of "
            "the plug-in. The last line is the MPI library, with which processes started by mpirun or srun train "
            "together (distill --ranks).",
    OPT_GROUPS(groups),
    .run = run_devices,
};
