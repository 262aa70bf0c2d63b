/* ranks_app.c - see ranks_app.h. */
#include "tools/ranks_app.h"

void ranks_begin(struct app *app)
{
    unsigned rank;

    app->silent = vc_ranks_launched(&rank, NULL, NULL) && rank != 0;
}

int ranks_join(struct app *app, enum vc_ranks_kind kind, struct vc_ranks **out)
{
    enum vc_status status;

    app->silent = app->silent && kind != VC_RANKS_NONE;
    status = vc_ranks_join(app->ctx, kind, out);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    app->silent = vc_ranks_rank(*out) != 0;
    app->holds = *out != NULL;
    if (*out != NULL && !options_seen(&app->parsed, "threads")) {
        status = vc_ctx_set_threads(app->ctx, vc_ranks_threads(*out));
    }
    status = status == VC_OK ? vc_ranks_pick_device(app->ctx, *out) : status;
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

enum vc_status ranks_agree(struct app *app, struct vc_ranks *ranks, enum vc_status status)
{
    status = vc_ranks_agree(app->ctx, ranks, status, NULL);
    app->holds = false;
    app->silent = app->silent && !vc_ranks_lost(ranks);
    return status;
}

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
    ranks_begin(app);
    if (!vc_ranks_launched(NULL, &size, &launcher)) {
        return app_usage(app, "--ranks: %s is work for one process", what);
    }
    return app_usage(
        app,
        "%s is work for one process, and this is one of %u that %s started; --ranks none: each of them does "
        "all of it",
        what, size, launcher);
}
