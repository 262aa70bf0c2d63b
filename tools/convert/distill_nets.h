/* distill_nets.h - networks and rows of the commands that run them: distill, evaluate, logits. */
#ifndef VC_TOOLS_DISTILL_NETS_H
#define VC_TOOLS_DISTILL_NETS_H

#include "tools/convert/convert.h"

#define MAX_NET_ARRAYS 64

/* Their options; a command's structure begins with it. */
struct nets_cli {
    struct convert_options convert;    /* first: of distill as a pass; else only what all commands share */
    const char *graph, *teacher_graph; /* --graph, --teacher-graph */
    const char *teacher;               /* --teacher */
    struct vc_data_options data;
    const char *arrays[MAX_NET_ARRAYS];
};

/* --graph, --data and what belongs to them; --teacher and --teacher-graph. */
extern const struct opt_group group_rows, group_teacher;

/* A network that was opened. */
struct net {
    struct vc_model *weights, *beside;
    struct vc_graph *graph;
};

/* What the checkpoint net->weights computes: as net_open says. */
enum vc_status net_build(struct vc_ctx *ctx, const char *graph, const char *other, struct net *net);
/* Opens the checkpoint at `path`, and what it computes: the graph in `graph`, a text or an ONNX file; NULL: what it
 * says itself, or else what `other` says. GO_ON or a status, with all that is wrong printed. */
int net_open(struct app *app, const char *path, const char *graph, const char *other, struct net *net);
void net_close(struct net *net);

#define MAX_TEACHERS     16
#define MAX_TEACHER_NAME 4096

/* Files with a teacher's answers, which were opened. */
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

struct vc_network net_of(const struct net *net);

#endif
