/* ranks_app.c - see ranks_app.h. Eight processes that mpirun started run the same command; without this file, a wrong
 * option would be printed eight times, and one process that fails alone would leave seven waiting.
 *
 *     app->silent    rank 0 speaks for this process
 *     app->holds     a failure is kept in app->held until all ranks know of it
 *     app->met       the ranks have found each other */
#include "tools/ranks_app.h"

#include <string.h>

/* --ranks none is among the words. It is looked for by hand: a wrong option before it would keep the parser from it. */
static bool each_by_itself(int n_args, char **args)
{
    for (int i = 0; i < n_args && strcmp(args[i], "--") != 0; i++) {
        if (strcmp(args[i], "--ranks=none") == 0 ||
            (strcmp(args[i], "--ranks") == 0 && i + 1 < n_args && strcmp(args[i + 1], "none") == 0)) {
            return true;
        }
    }
    return false;
}

/* Whether this process is one of several; *silent: and not the one that speaks. The launcher's variables say it,
 * without MPI. */
static bool one_of_several(bool *silent)
{
    unsigned rank;
    bool launched = vc_ranks_launched(&rank, NULL, NULL);

    *silent = launched && rank != 0;
    return launched;
}

void ranks_begin(struct app *app, int n_args, char **args)
{
    app->holds = !each_by_itself(n_args, args) && one_of_several(&app->silent);
}

/* What failed before the ranks met, where they cannot meet. */
static int say_held(struct app *app)
{
    app->subject = NULL; /* it is in the sentence */
    return app_refuse(app, app->held_status, "%s", app->held);
}

/* A failure before this point is taken along: the others wait for this rank, and must learn that it has failed. */
int ranks_join(struct app *app, enum vc_ranks_kind kind, struct vc_ranks **out)
{
    bool failed = app->held_status != VC_OK;
    enum vc_status status = VC_OK;

    app->silent = app->silent && kind != VC_RANKS_NONE;
    app->holds = false;
    if (app->ctx == NULL) {
        status = vc_ctx_create(&app->ctx);
    }
    if (status == VC_OK) {
        status = vc_ranks_join(app->ctx, kind, out);
    }
    if (failed && *out == NULL) {
        return say_held(app);
    }
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    app->silent = vc_ranks_rank(*out) != 0;
    app->met = *out != NULL;
    app->holds = *out != NULL;
    if (failed) {
        return EXIT_SYSTEM; /* ranks_settle tells it to the others, and says how it ends */
    }
    if (*out != NULL && !options_seen(&app->parsed, "threads")) {
        status = vc_ctx_set_threads(app->ctx, vc_ranks_threads(*out));
    }
    status = status == VC_OK ? vc_ranks_pick_device(app->ctx, *out) : status;
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

/* The ranks may have been lost in between (a launcher that ends them): then every process speaks for itself. */
enum vc_status ranks_agree(struct app *app, struct vc_ranks *ranks, enum vc_status status)
{
    status = vc_ranks_agree(app->ctx, ranks, status, NULL);
    app->holds = false;
    app->silent = app->silent && !vc_ranks_lost(ranks);
    return status;
}

/* Only a failure that was kept makes the ranks talk again here. */
int ranks_settle(struct app *app, struct vc_ranks *ranks, int rc)
{
    if (app->holds) {
        enum vc_status status =
            vc_ranks_agree(app->ctx, ranks, app->held_status, app->held_status != VC_OK ? app->held : NULL);

        app->holds = false;
        app->subject = NULL; /* it is in the sentence */
        app->silent = app->silent && !vc_ranks_lost(ranks);
        rc = status != VC_OK ? app_fail(app, status) : rc;
    }
    vc_ranks_leave(ranks);
    return rc;
}

int ranks_refuse(struct app *app, enum vc_ranks_kind kind, const char *what)
{
    const char *launcher;
    unsigned size;

    if (kind == VC_RANKS_NONE || (kind == VC_RANKS_AUTO && !vc_ranks_launched(NULL, NULL, NULL))) {
        return GO_ON;
    }
    (void)one_of_several(&app->silent);
    if (!vc_ranks_launched(NULL, &size, &launcher)) {
        return app_usage(app, "--ranks: %s is work for one process", what);
    }
    return app_usage(
        app,
        "%s is work for one process, and this is one of %u that %s started; --ranks none: each of them does "
        "all of it",
        what, size, launcher);
}
