/* remote_inputs.c - see remote_inputs.h. */
#include "tools/remote_inputs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WEIGHTS 15 /* whose headers take fewer than 20 requests with all else */

/* The config.json takes the place of a model whose weights were left out. */
static int open_one(struct app *app, char **name)
{
    if (!app->command->reads_headers && !options_seen(&app->parsed, "remote")) {
        return app_refuse(
            app, VC_E_ARGUMENT,
            "%s lies on another machine: inspect, fit, estimate, plan and graph read what they need of it; "
            "quantize, run, convert, prune, merge and dequantize read all of it, with --remote",
            *name);
    }
    enum vc_status status =
        vc_remote_open(app->ctx, *name, app->command->takes_config ? MOST_WEIGHTS : 0, &app->remotes[app->n_remotes]);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    if (strncmp(*name, "hf:", 3) != 0) {
        (*name)[strcspn(*name, "?#")] = '\0'; /* the model's name */
    }
    const struct vc_remote_info *facts = vc_remote_facts(app->remotes[app->n_remotes++]);
    const char *config = facts->config;
    if (config != NULL && !app->common.quiet) {
        fprintf(app_notes(app),
                "note: %s: config.json answers; the headers of its %zu files of weights, which inspect reads, were not "
                "asked for\n",
                *name, facts->n_left_out);
    }
    *name = config != NULL ? (char *)(uintptr_t)config : *name;
    return GO_ON;
}

int remote_inputs_open(struct app *app)
{
    int rc = GO_ON;

    for (int i = 0; i < app->parsed.n_args && rc == GO_ON; i++) {
        if (!vc_remote_is(app->parsed.args[i])) {
            continue;
        }
        if (app->remotes == NULL) {
            app->remotes = calloc((size_t)app->parsed.n_args, sizeof *app->remotes);
        }
        rc = app->remotes != NULL ? open_one(app, &app->parsed.args[i])
                                  : app_refuse(app, VC_E_NOMEM, "not enough memory for the names of the files");
    }
    return rc;
}

void remote_inputs_close(struct app *app)
{
    for (size_t i = 0; i < app->n_remotes; i++) {
        const struct vc_remote_info *facts = vc_remote_facts(app->remotes[i]);

        if (app->common.verbose > 0 && !app->common.quiet) {
            fprintf(app_notes(app), "vcompress: %" PRIu64 " requests, %" PRIu64 " bytes read\n", facts->n_requests,
                    facts->n_bytes);
        }
        vc_result_free(app->remotes[i]);
    }
    free(app->remotes);
    app->remotes = NULL;
    app->n_remotes = 0;
}
