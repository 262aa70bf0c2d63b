/* distill_nets.c - see distill_nets.h. */
#include "tools/distill_nets.h"

#include <math.h>
#include <string.h>

static bool take_array(void *group, const char *value)
{
    struct nets_cli *cli = group;

    if (strchr(value, '=') == NULL || cli->data.n_arrays == MAX_NET_ARRAYS) {
        return false;
    }
    cli->arrays[cli->data.n_arrays++] = value;
    cli->data.arrays = cli->arrays;
    return true;
}

#define NETS(member) .field = offsetof(struct nets_cli, member)

/* clang-format off */
static const struct opt teacher_opts[] = {
    {.name = "teacher", .value = "FILE", .kind = OPT_TEXT, NETS(teacher), .option = "teacher",
     .help = "the network whose answers are the aim; distill also takes a file of vcompress logits, or several: A,B are one "
             "teacher with the mean of their probabilities"},
    {.name = "teacher-graph", .value = "FILE", .kind = OPT_TEXT, NETS(teacher_graph),
     .help = "what the teacher computes, where it is another one"},
};

static const struct opt rows_opts[] = {
    {.name = "graph", .value = "FILE", .kind = OPT_TEXT, NETS(graph),
     .help = "what the networks compute: a text or an ONNX file, as for vcompress graph (default: what each says itself)"},
    {.name = "data", .value = "FILE", .kind = OPT_TEXT, NETS(data.path),
     .help = "rows: an array for each input of the graph and, where they are known, labels y and a mask (npz, safetensors, "
             "idx, idx.gz, ...)"},
    {.name = "array", .value = "NAME=ARRAY", .kind = OPT_CALL, .call = take_array, .option = "arrays",
     .help = "the input of that name, or y, or mask, is that array (default: the one of its name; a single array is the "
             "single input)"},
    {.name = "labels", .value = "FILE", .kind = OPT_TEXT, OPT_FIELD(struct nets_cli, data.labels),
     .help = "another file, whose single array is y"},
    {.name = "rows", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct nets_cli, data.n_rows), .help = "the first N rows only"},
    {.name = "scale", .value = "X", .kind = OPT_REAL, OPT_FIELD(struct nets_cli, data.scale),
     .help = "multiply inputs that are floats by it, such as 0.00392156862745098 for bytes (default 1)"},
    {.name = "mean", .value = "X,...", .kind = OPT_TEXT, OPT_FIELD(struct nets_cli, data.mean),
     .help = "then subtract it: one number, or one for each channel"},
    {.name = "std", .value = "X,...", .kind = OPT_TEXT, OPT_FIELD(struct nets_cli, data.deviation),
     .help = "then divide by it: one number, or one for each channel"},
};
/* clang-format on */
const struct opt_group group_teacher = {"Teacher", teacher_opts, sizeof(teacher_opts) / sizeof(teacher_opts[0]), 0};
const struct opt_group group_rows = {"Networks and rows", rows_opts, sizeof(rows_opts) / sizeof(rows_opts[0]), 0};

/* All that is wrong with the graph: the first sentence as every failure, the others under it. */
static int refuse(struct app *app, const struct vc_graph *graph, enum vc_status status)
{
    int rc = app_fail(app, status);
    const char *problem;

    for (uint32_t k = 1; graph != NULL && (problem = vc_graph_problem(graph, k)) != NULL; k++) {
        fputs("           ", stderr);
        print_clean(stderr, problem);
        fputc('\n', stderr);
    }
    return rc;
}

/* The graph in a file of its own, with the network's weights. */
static enum vc_status read_graph(struct app *app, const char *path, struct net *net)
{
    struct vc_graph_options options;
    enum vc_status status;

    vc_graph_defaults(&options);
    options.weights = net->weights;
    if (vc_graph_is_text(path)) {
        return vc_graph_read_text(app->ctx, path, &options, &net->graph);
    }
    status = vc_model_open(app->ctx, path, NULL, &net->beside);
    return status == VC_OK ? vc_graph_build(app->ctx, net->beside, &options, &net->graph) : status;
}

int net_open(struct app *app, const char *path, const char *graph, const char *other, struct net *net)
{
    enum vc_status status = vc_model_open(app->ctx, path, NULL, &net->weights);

    app->subject = path;
    if (status == VC_OK) {
        status =
            graph != NULL ? read_graph(app, graph, net) : vc_graph_build(app->ctx, net->weights, NULL, &net->graph);
    }
    if (status == VC_E_UNSUPPORTED && net->graph == NULL && net->weights != NULL && graph == NULL && other != NULL) {
        status = read_graph(app, other, net);
    }
    return status == VC_OK ? GO_ON : refuse(app, net->graph, status);
}

void net_close(struct net *net)
{
    vc_graph_close(net->graph);
    vc_model_close(net->beside);
    vc_model_close(net->weights);
}

struct vc_network net_of(const struct net *net)
{
    return (struct vc_network){.graph = net->graph, .weights = net->weights, .beside = net->beside};
}

/* Files that are not of that kind are no teachers together with others. */
static int open_answers(struct app *app, const char *path, bool alone, struct answer_files *files)
{
    struct vc_model *model = NULL;
    enum vc_status status = vc_model_open(app->ctx, path, NULL, &model);

    if (status != VC_OK) {
        app->subject = path;
        return app_fail(app, status);
    }
    if (vc_logits_is(model)) {
        files->models[files->n++] = model;
        return GO_ON;
    }
    vc_model_close(model);
    return alone ? GO_ON : app_usage(app, "%s: is no file of vcompress logits; several teachers are such files", path);
}

int answers_open(struct app *app, const char *paths, struct answer_files *files)
{
    bool alone = strchr(paths, ',') == NULL;
    const char *end;
    char path[4096];
    int rc = GO_ON;

    for (const char *at = paths; rc == GO_ON && at != NULL; at = end != NULL ? end + 1 : NULL) {
        end = strchr(at, ',');
        if (files->n == MAX_TEACHERS) {
            return app_usage(app, "--teacher: more than %d files", MAX_TEACHERS);
        }
        if (snprintf(path, sizeof(path), "%.*s", end != NULL ? (int)(end - at) : (int)strlen(at), at) >=
            (int)sizeof(path)) {
            return app_usage(app, "--teacher: a name is too long");
        }
        rc = open_answers(app, path, alone, files);
    }
    return rc;
}

void answers_close(struct answer_files *files)
{
    for (size_t k = 0; k < files->n; k++) {
        vc_model_close(files->models[k]);
    }
}

const char *fmt_share(char *buf, double share)
{
    if (isnan(share)) {
        return "-";
    }
    snprintf(buf, CELL_BYTES, "%.2f %%", 100 * share);
    return buf;
}
