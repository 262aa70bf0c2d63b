/* distill_nets.c - what distill, evaluate and logits share: the options of networks and rows, and opening a network or
 * the files with a teacher's answers. The library reads the rows (vc_data_options in include/vcompress/distill.h). */
#include "tools/convert/distill_nets.h"

#include "tools/options/distill_words.h"

#include <string.h>

#include "tools/model/graph_source.h"
#include "tools/options/data_rows.h"

/* --array NAME=ARRAY, repeatable: the library cuts the text at its first equals sign. */
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

/* The last '=' ends the name of the output, in which there may be others; colons end the word and the weight. */
bool take_output_task(void *group, const char *value)
{
    struct nets_cli *cli = group;
    const char *equals = strrchr(value, '=');
    size_t n = (size_t)(equals - value);
    size_t n_word = strcspn(equals + 1, ":");
    const char *weight = equals + 1 + n_word;
    const char *end = *weight != '\0' ? weight + 1 + strcspn(weight + 1, ":") : weight;
    char first[64];

    if (cli->data.n_outputs == VC_MOST_OUTPUTS || n == 0 || n >= sizeof cli->names[0] ||
        (size_t)(end - weight) >= sizeof first) {
        return false;
    }
    struct vc_output_task *task = &cli->outputs[cli->data.n_outputs];
    (void)snprintf(first, sizeof first, "%.*s", (int)(end - weight), weight); /* with its colon */
    *task = (struct vc_output_task){.weight = 1};
    if ((*weight != '\0' && (!options_real(first + 1, &task->weight) || !(task->weight > 0))) ||
        (*end != '\0' && (!options_real(end + 1, &task->weight_end) || !(task->weight_end > 0)))) {
        return false;
    }
    memcpy(cli->names[cli->data.n_outputs], value, n);
    task->output = cli->names[cli->data.n_outputs];
    for (size_t k = 0; task_word(k) != NULL; k++) {
        if (strlen(task_word(k)) == n_word && strncmp(task_word(k), equals + 1, n_word) == 0) {
            task->task = (enum vc_net_task)k;
            cli->data.outputs = cli->outputs;
            cli->data.n_outputs++;
            return true;
        }
    }
    return false;
}

/* --rows and --length: 0 is refused, since the structure has 0 for an option that was not given. */
static bool take_rows(void *group, const char *value)
{
    struct nets_cli *cli = group;

    return options_count(value, &cli->data.n_rows) && cli->data.n_rows != 0;
}

static bool take_length(void *group, const char *value)
{
    struct nets_cli *cli = group;

    return options_count(value, &cli->data.length) && cli->data.length != 0;
}

/* --part 60-80: whole percentages, from below to. The number in front of the dash is at most 23 digits here; a longer
 * one is cut and refused as too large. */
static bool take_part(void *group, const char *value)
{
    struct vc_data_options *data = &((struct nets_cli *)group)->data;
    char from[24];
    size_t n = strcspn(value, "-");

    snprintf(from, sizeof(from), "%.*s", (int)n, value);
    return value[n] == '-' && options_count(from, &data->part_from) && options_count(value + n + 1, &data->part_to) &&
           data->part_from < data->part_to && data->part_to <= 100;
}

/* A member that the library has no name for, or that a row names itself. */
#define NETS(member) .field = offsetof(struct nets_cli, member)

/* The teacher, for distill and for evaluate --teacher. */
/* clang-format off */
static const struct opt teacher_opts[] = {
    {.name = "teacher", .value = "FILE", .file = FILE_READ, .file_list = true, .kind = OPT_TEXT, NETS(teacher), .option = "teacher",
     .help = "the network whose answers are the target; distill also takes a file of vcompress logits, or several: "
             "A,B are one teacher with the mean of their probabilities. Default in a recipe: the input of the run"},
    {.name = "teacher-graph", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, NETS(teacher_graph),
     .help = "the graph of the teacher, if different from the student's"},
};

/* Networks and rows. Rows of text models (tokens, length) and of images (mean, std) come from
 * tools/options/data_rows.h. */
static const struct opt rows_opts[] = {
    {.name = "graph", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, NETS(graph),
     .help = "the graph of the networks: a text or an ONNX file, as for vcompress graph (default: the graph in each "
             "model)"},
    {.name = "data", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, NETS(data.path),
     .help = "rows: an array for each input of the graph and optionally labels y and a mask (npz, safetensors, idx, "
             "idx.gz, ...)"},
    {.name = "array", .value = "NAME=ARRAY", .kind = OPT_CALL, .call = take_array, .option = "arrays",
     .needs = "data", .help = "take this input, or y, or mask, from this array (default: the array of the same name; a single array is "
             "the single input)"},
    {.name = "labels", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, OPT_FIELD(struct nets_cli, data.labels),
     .needs = "data", .help = "another file, whose single array is y"},
    {.name = "ignore-label", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct nets_cli, data.ignored_label),
     .needs = "data", .help = "rows, or positions, with this number as their label have none, as those below 0: 255 of masks, 0 of padding"},
    {.name = "rows", .value = "N", .kind = OPT_CALL, .call = take_rows, .option = "n_rows",
     .wanted = "a number from 1 on", .needs = "data", .help = "the first N rows only"},
    {.name = "part", .value = "FROM-TO", .kind = OPT_CALL, .call = take_part, .option = "part_to",
     .wanted = "two percentages, such as 60-80",
     .needs = "data", .help = "of these rows, in an order drawn from --part-seed, those from FROM % to TO %: parts that do not overlap "
             "have no row in common"},
    {.name = "part-seed", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct nets_cli, data.part_seed),
     .needs = "part", .help = "seed of the order (default 0)"},
    TOKEN_ROWS(struct nets_cli, take_length, data, "data"),
    NORMALIZE_ROWS(struct nets_cli, data, "data"),
};
/* clang-format on */
const struct opt_group group_teacher = OPT_GROUP("Teacher", teacher_opts);
const struct opt_group group_rows = OPT_GROUP("Networks and rows", rows_opts);

/* The graph comes from the first of these that has one: the file `graph`; the checkpoint itself, or the files of its
 * folder; the file `other`, which is tried only if the checkpoint says nothing about what it computes (a damaged graph
 * is an error, not a reason to look further).
 *
 * plain: a student's weights will be written in another way than its file has them, so that inputs of its quantized
 * layers stay floats in the graph (vc_graph_options.plain_inputs). */
enum vc_status net_build(struct vc_ctx *ctx, const char *graph, const char *other, struct net *net)
{
    bool plain = net->student && graph == NULL;
    enum vc_status status = vc_graph_open(ctx, graph, net->weights, plain, &net->beside, &net->graph);
    if (status == VC_E_UNSUPPORTED && net->graph == NULL && graph == NULL && other != NULL) {
        status = vc_graph_open(ctx, other, net->weights, false, &net->beside, &net->graph);
    }
    return status;
}

/* A file of answers is refused by name: it opens as a model, and its graph would be missed with a sentence that helps
 * nobody. */
int net_open(struct app *app, const char *path, const char *graph, const char *other, struct net *net)
{
    enum vc_status status = vc_model_open(app->ctx, path, NULL, &net->weights);

    app->subject = path;
    if (status == VC_OK && vc_logits_is(net->weights)) {
        return app_usage(
            app,
            "%s: has the answers of a network (vcompress logits), where the network itself is needed; only "
            "distill --teacher takes answers",
            path);
    }
    status = status == VC_OK ? net_build(app->ctx, graph, other, net) : status;
    if (status == VC_E_UNSUPPORTED && graph == NULL && net->graph == NULL) {
        return app_refuse(app, status, "%s; --graph FILE says it", vc_ctx_message(app->ctx));
    }
    return status == VC_OK ? GO_ON : graph_refuse(app, net->graph, status);
}

/* Accepts a net that was never opened: closing NULL does nothing. */
void net_close(struct net *net)
{
    vc_graph_close(net->graph);
    vc_model_close(net->beside);
    vc_model_close(net->weights);
}

/* What the library's functions take: a view, valid while *net is open. */
struct vc_network net_of(const struct net *net)
{
    return (struct vc_network){.graph = net->graph, .weights = net->weights, .beside = net->beside};
}

/* Takes the next name of "a.npz,b.npz"; false behind the last. *at is moved behind the name, and becomes NULL behind
 * the last one, so that "a.npz," ends with an empty name, which answers_check refuses. A name that is too long is cut
 * to MAX_TEACHER_NAME - 1 bytes; answers_check refuses that length. */
static bool next_name(const char **at, char path[MAX_TEACHER_NAME])
{
    size_t n = *at != NULL ? strcspn(*at, ",") : 0;

    if (*at == NULL) {
        return false;
    }
    snprintf(path, MAX_TEACHER_NAME, "%.*s", (int)n, *at);
    *at = (*at)[n] == ',' ? *at + n + 1 : NULL;
    return true;
}

/* The number of files is judged with their names, so that answers_read needs no bound of its own. */
int answers_check(struct app *app, const char *paths)
{
    char path[MAX_TEACHER_NAME];
    size_t n = 0;

    while (next_name(&paths, path)) {
        if (path[0] == '\0') {
            return app_usage(app, "--teacher: an empty name; names stand between single commas, as in A,B");
        }
        if (strlen(path) + 1 == sizeof(path)) {
            return app_usage(app, "--teacher: a name is too long");
        }
        n++;
    }
    return n <= MAX_TEACHERS ? GO_ON : app_usage(app, "--teacher: more than %d files", MAX_TEACHERS);
}

/* A single file that is no file of answers is a network, and is closed again: n stays 0. With commas every file has to
 * be one of answers; who calls this checks that. On failure files->failed names the file. */
enum vc_status answers_read(struct vc_ctx *ctx, const char *paths, struct answer_files *files)
{
    bool alone = strchr(paths, ',') == NULL;
    char path[MAX_TEACHER_NAME];
    enum vc_status status = VC_OK;

    while (status == VC_OK && next_name(&paths, path)) {
        struct vc_model *model = NULL;

        status = vc_model_open(ctx, path, NULL, &model);
        if (status == VC_OK && alone && !vc_logits_is(model)) {
            vc_model_close(model);
        } else if (status == VC_OK) {
            files->models[files->n++] = model;
        } else {
            snprintf(files->failed, sizeof(files->failed), "%s", path);
        }
    }
    return status;
}

/* Several files, with commas between them. A file that is a model is a teacher by itself, and none beside others. */
int answers_open(struct app *app, const char *paths, struct answer_files *files)
{
    int rc = answers_check(app, paths);
    enum vc_status status = rc == GO_ON ? answers_read(app->ctx, paths, files) : VC_OK;

    if (status != VC_OK) {
        app->subject = files->failed;
        return app_fail(app, status);
    }
    for (size_t k = 0; rc == GO_ON && k < files->n; k++) { /* files of another kind are no teachers with others */
        if (!vc_logits_is(files->models[k])) {
            rc = app_usage(app, "%s: is no file of vcompress logits; several teachers are such files",
                           vc_model_facts(files->models[k])->path);
        }
    }
    return rc;
}

/* Files that were opened, also where one of them failed. */
void answers_close(struct answer_files *files)
{
    for (size_t k = 0; k < files->n; k++) {
        vc_model_close(files->models[k]);
    }
}
