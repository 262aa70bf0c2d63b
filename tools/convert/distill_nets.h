/* distill_nets.h - networks and rows of the commands that run them: distill, evaluate, logits. */
#pragma once

#include "tools/convert/convert.h"

#define MAX_NET_ARRAYS 64

/* Options of these commands; the options of each command begin with this structure. */
struct nets_cli {
    struct convert_options convert; /* first member; all options for distill as a pass, else only the common options */
    const char *graph, *teacher_graph; /* --graph, --teacher-graph */
    const char *teacher;               /* --teacher */
    struct vc_data_options data;       /* --data, --array, --rows ... */
    const char *arrays[MAX_NET_ARRAYS];
    struct vc_output_task outputs[VC_MOST_OUTPUTS]; /* --task OUTPUT=TASK */
    char names[VC_MOST_OUTPUTS][256];
};

/* --task OUTPUT=TASK[:WEIGHT[:END]], repeatable: vc_data_options.outputs. */
bool take_output_task(void *group, const char *value);

/* --graph, --data and related options; --teacher and --teacher-graph. */
extern const struct opt_group group_rows, group_teacher;

/* An open network. */
struct net {
    struct vc_model *weights, *beside;
    struct vc_graph *graph; /* built from them; beside: the ONNX file of --graph, which has parameters of its own */
    bool student;           /* its weights are written in another way than they lie there */
};

/* Opens the graph of the checkpoint net->weights, by the rules of net_open. */
enum vc_status net_build(struct vc_ctx *ctx, const char *graph, const char *other, struct net *net);
/* Opens the checkpoint at `path` and its graph: from the file `graph` (a text or ONNX), or, if NULL, from the
 * checkpoint, else from `other`. Returns GO_ON, or an exit status after printing all errors. app->subject is set to
 * `path`. */
int net_open(struct app *app, const char *path, const char *graph, const char *other, struct net *net);
void net_close(struct net *net);

#define MAX_TEACHERS     16
#define MAX_TEACHER_NAME 4096

/* Open files with a teacher's answers. */
struct answer_files {
    struct vc_model *models[MAX_TEACHERS];
    size_t n;
    char failed[MAX_TEACHER_NAME]; /* the file that could not be opened */
};

/* Opens the answer files that `paths` names, with commas between them ("a.npz,b.npz"). Where `paths` is one file of
 * another kind, a network, files->n is 0. Returns GO_ON or an exit status. */
int answers_open(struct app *app, const char *paths, struct answer_files *files);
void answers_close(struct answer_files *files);
/* The same in two steps. answers_check judges the names alone, before files are opened; answers_read opens the files
 * without an app, and leaves files of another kind for the library to refuse. */
int answers_check(struct app *app, const char *paths);
enum vc_status answers_read(struct vc_ctx *ctx, const char *paths, struct answer_files *files);

/* The network as functions of the library take it: borrowed from *net. */
struct vc_network net_of(const struct net *net);
