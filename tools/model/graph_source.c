/* graph_source.c - see graph_source.h. What MODEL may be, in the order in which it is tried:
 *
 *     x.json                       a config.json by itself, whatever it is called; no weights
 *     the text of a graph          with --weights, or without any weights
 *     a checkpoint                 which may say what it computes (ONNX, GGUF, a folder of Hugging Face)
 *     a folder without weights     its config.json
 *
 * --graph FILE MODEL is the same as --weights MODEL FILE. */
#include "tools/model/graph_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --size NAME=N, repeatable; graph_source_bind cuts it. */
bool graph_source_size(void *group, const char *value)
{
    struct graph_source *source = group;

    if (strchr(value, '=') == NULL || source->n_sizes == MAX_SIZES) {
        return false;
    }
    source->sizes[source->n_sizes++] = value;
    return true;
}

int graph_refuse(struct app *app, const struct vc_graph *graph, enum vc_status status)
{
    int rc = app_fail(app, status);
    const char *problem;

    for (uint32_t k = 1; graph != NULL && (problem = vc_graph_problem(graph, k)) != NULL; k++) {
        say(app_notes(app), "           %s\n", problem);
    }
    return rc;
}

/* Compares with case. */
static bool ends_in(const char *path, const char *end)
{
    size_t n = strlen(path);
    size_t k = strlen(end);

    return n >= k && strcmp(path + n - k, end) == 0;
}

bool graph_source_is_config(const char *path)
{
    return ends_in(path, ".json") && !ends_in(path, ".index.json");
}

/* A folder without weights is the config.json in it: app->subject becomes that file, in app->own_names. False: there is
 * none, or no memory. */
static bool take_config_in(struct app *app)
{
    size_t n = strlen(app->subject) + sizeof "/config.json";
    char *path = app->own_names == NULL ? malloc(n) : NULL;

    if (path == NULL) {
        return false;
    }
    snprintf(path, n, "%s%sconfig.json", app->subject, ends_in(app->subject, "/") ? "" : "/");
    if (access(path, F_OK) != 0) {
        free(path);
        return false;
    }
    app->own_names = path; /* until the end */
    app->subject = path;
    return true;
}

bool graph_source_take_sizes(struct app *app, struct graph_source *source, const struct vc_model *model,
                             const char *path)
{
    vc_graph_close(source->graph);
    source->graph = NULL;
    if (vc_graph_build_sizes(app->ctx, model, path, &source->graph) == VC_OK) {
        return true;
    }
    vc_graph_close(source->graph);
    source->graph = NULL;
    return false;
}

/* The graph of a config.json. Where its architecture is not known, its sizes do where weights alone would, too. */
static enum vc_status build_config(struct app *app, struct graph_source *source, enum graph_wanted wanted)
{
    enum vc_status status = vc_graph_open(app->ctx, app->subject, NULL, false, &source->model, &source->graph);

    if (status == VC_E_FORMAT && wanted == GRAPH_OR_WEIGHTS &&
        graph_source_take_sizes(app, source, NULL, app->subject)) {
        return VC_OK;
    }
    if (status == VC_E_FORMAT && source->graph == NULL) { /* once more, for its sentences */
        status = vc_graph_open(app->ctx, app->subject, NULL, false, &source->model, &source->graph);
    }
    return status;
}

/* The model is open and its graph cannot be built: whether the command can work without one. GRAPH_WHERE_SAID accepts a
 * file that does not say what it computes; GRAPH_OR_WEIGHTS also accepts one that says it wrongly, and remembers the
 * sentence (refused). */
static bool goes_without(struct app *app, struct graph_source *source, enum graph_wanted wanted, enum vc_status status)
{
    if (wanted == GRAPH_WHERE_SAID) {
        return status == VC_E_UNSUPPORTED && source->graph == NULL;
    }
    if (wanted != GRAPH_OR_WEIGHTS || (status != VC_E_UNSUPPORTED && status != VC_E_FORMAT)) {
        return false;
    }
    if (status == VC_E_FORMAT || source->graph != NULL) {
        source->refused = strdup(vc_ctx_message(app->ctx));
    }
    if (graph_source_take_sizes(app, source, source->model, NULL)) {
        free(source->refused);
        source->refused = NULL;
    }
    return true;
}

int graph_source_open(struct app *app, struct graph_source *source, enum graph_wanted wanted)
{
    struct vc_graph_options options;
    enum vc_status status;

    if (source->graph_file != NULL && source->weights != NULL) {
        return app_usage(app, "--graph names the graph of MODEL, --weights the checkpoint of MODEL; give only one");
    }
    if (source->graph_file != NULL) {
        source->weights = app->subject;
        app->subject = source->graph_file;
        if (access(source->graph_file, R_OK) != 0) {
            return app_refuse(app, VC_E_IO, "cannot open: %s", strerror(errno));
        }
        if (!graph_source_is_config(source->graph_file) && !vc_graph_is_text(source->graph_file)) {
            return app_refuse(app, VC_E_UNSUPPORTED,
                              "--graph takes a text or a config.json here; a file with weights of its own is MODEL");
        }
    }
    vc_graph_defaults(&options);
    if (source->weights != NULL) {
        status = vc_model_open(app->ctx, source->weights, NULL, &source->checkpoint);
        if (status != VC_OK) {
            return app_fail(app, status);
        }
        options.weights = source->checkpoint;
    }
    if (graph_source_is_config(app->subject)) {
        status = build_config(app, source, wanted);
    } else if (vc_graph_is_text(app->subject)) {
        status = vc_graph_open(app->ctx, app->subject, source->checkpoint, false, &source->model, &source->graph);
    } else {
        status = vc_model_open(app->ctx, app->subject, NULL, &source->model);
        if (status == VC_E_UNSUPPORTED && take_config_in(app)) {
            status = build_config(app, source, wanted);
        } else if (status == VC_OK) {
            status = vc_graph_build(app->ctx, source->model, &options, &source->graph);
            if (status != VC_OK && goes_without(app, source, wanted, status)) {
                return GO_ON;
            }
        }
    }
    return status == VC_OK ? GO_ON : graph_refuse(app, source->graph, status);
}

/* "NAME=N" for a size that the graph leaves open. GO_ON or a status. */
static int bind_one(struct app *app, struct graph_source *source, const char *text)
{
    const char *equals = strchr(text, '=');
    char name[128] = "";
    uint64_t n = 0;

    if ((size_t)(equals - text) < sizeof name) {
        memcpy(name, text, (size_t)(equals - text));
    }
    if (!options_count(equals + 1, &n) || n > INT32_MAX) {
        return app_usage(app, "--size %s: '%s' is no number from 1 on", name, equals + 1);
    }
    enum vc_status status = vc_graph_bind(app->ctx, source->graph, name, (int64_t)n);
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

int graph_source_bind(struct app *app, struct graph_source *source)
{
    int rc = GO_ON;

    if (vc_graph_bind_usual(app->ctx, source->graph) != VC_OK) {
        return app_fail(app, VC_E_INTERNAL);
    }
    for (size_t k = 0; k < source->n_sizes && rc == GO_ON; k++) {
        rc = bind_one(app, source, source->sizes[k]);
    }
    return rc;
}

const struct vc_model *graph_source_model(const struct graph_source *source)
{
    return source->model != NULL ? source->model : source->checkpoint;
}

void graph_source_close(struct graph_source *source)
{
    vc_graph_close(source->graph);
    vc_model_close(source->model);
    vc_model_close(source->checkpoint);
    free(source->refused);
}
