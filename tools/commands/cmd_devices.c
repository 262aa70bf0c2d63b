/* cmd_devices.c - vcompress devices: which CUDA devices could be used, what could bring ranks together, and why not.
 * The answer is always a success: a machine without a device is no error. */
#include <vcompress/device.h>
#include <vcompress/ranks.h>

#include "tools/app.h"
#include "tools/commands/commands.h"

static const struct opt_group *const groups[] = {&group_run, &group_report, &group_help};

/* The table. A device that is not usable has its reason in the last column. False: no memory. */
static bool print_devices(struct app *app, const struct vc_devices *list)
{
    static const char *const titles[] = {"device", "name", "capability", "memory", "free", ""};
    const struct out *out = &app->out;
    struct table table;
    char buf[CELL_BYTES];

    table_init(&table, "llrrrl");
    for (size_t i = 0; i < 6; i++) {
        table_add(&table, INK_DIM, titles[i]);
    }
    for (size_t i = 0; i < list->n_devices; i++) {
        const struct vc_device_info *info = &list->devices[i];

        snprintf(buf, sizeof(buf), "cuda:%d", info->index);
        table_add(&table, INK_NONE, buf);
        table_add(&table, INK_NONE, info->name);
        snprintf(buf, sizeof(buf), "%d.%d", info->major, info->minor);
        table_add(&table, INK_NONE, buf);
        table_add(&table, INK_NONE, info->total_bytes > 0 ? fmt_size(buf, out, info->total_bytes) : "-");
        table_add(&table, INK_NONE, info->total_bytes > 0 ? fmt_size(buf, out, info->free_bytes) : "-");
        table_add(&table, info->usable ? INK_GOOD : INK_WARN, info->usable ? "usable" : info->reason);
    }
    return table_print(&table, out, false);
}

/* "ranks: Open MPI 4.1.4", or why there is no MPI. */
static void print_ranks(struct app *app)
{
    const struct out *out = &app->out;
    const char *name;

    if (vc_ranks_find(app->ctx, &name) == VC_OK) {
        fputs("ranks: ", out->to);
        print_clean(out->to, name);
    } else {
        fputs("ranks: none: ", out->to);
        print_clean(out->to, vc_ctx_message(app->ctx));
    }
    fputc('\n', out->to);
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
    fprintf(out->to, "cpu: %s, %u thread%s\n", facts.cpu_level, facts.threads, facts.threads == 1 ? "" : "s");
    if (list->n_devices > 0) {
        fprintf(out->to, "cuda: %s\n", list->runtime);
        ok = print_devices(app, list);
    } else {
        fputs("cuda: none: ", out->to);
        print_clean(out->to, list->reason);
        fputc('\n', out->to);
    }
    for (size_t i = 0; app->common.verbose > 0 && i < list->n_searched; i++) {
        fputs(i == 0 ? "plug-in looked for in\n  " : "  ", out->to);
        print_clean(out->to, list->searched[i].path);
        fputs(": ", out->to);
        print_clean(out->to, list->searched[i].outcome);
        fputc('\n', out->to);
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
    .groups = groups,
    .n_groups = sizeof(groups) / sizeof(groups[0]),
    .run = run_devices,
};
