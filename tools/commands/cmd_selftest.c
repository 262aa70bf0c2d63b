/* cmd_selftest.c - vcompress selftest: every kernel of this machine against the reference, and a round trip. The
 * library does it (vc_selftest) and says it in lines of text. */
#include "tools/app.h"
#include "tools/commands/commands.h"

static const struct opt_group *const groups[] = {&group_run, &group_report, &group_help};

/* The library tests itself; here are its summary and the exit status. */
static int run_selftest(struct app *app, int n_args, char **args)
{
    struct base_options base = {.json = {.on = false}};
    char *summary = NULL;
    int rc = app_parse(app, n_args, args, &base);

    GO(rc);
    if (app->parsed.n_args != 0) {
        return app_usage(app, "selftest takes no operands, but got '%s'", app->parsed.args[0]);
    }
    GO(app_open(app));
    enum vc_status status = vc_selftest(app->ctx, NULL, &summary);
    if (summary != NULL && !app->common.quiet) {
        fputs(summary, app->out.to);
    }
    vc_text_free(summary);
    app_print_memory(app);
    return status == VC_OK ? EXIT_YES : app_fail(app, status);
}

const struct command command_selftest = {
    .name = "selftest",
    .usage = "[options]",
    .summary = "check the kernels of this machine",
    .text =
        "Compares every kernel variant of this processor (and, with --device cuda, of this GPU) with the reference on "
        "small inputs, and does a round trip through a temporary file in $TMPDIR. Takes a second or two. For results "
        "that look wrong.",
    OPT_GROUPS(groups),
    .run = run_selftest,
};
