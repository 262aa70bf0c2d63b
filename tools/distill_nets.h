/* distill_nets.h - networks and rows of the commands that run them: distill, evaluate. */
#ifndef VC_TOOLS_DISTILL_NETS_H
#define VC_TOOLS_DISTILL_NETS_H

#include "tools/app.h"

#define MAX_NET_ARRAYS 64

/* Their options; a command's structure begins with it. */
struct nets_cli {
    struct base_options base;
    const char *graph, *teacher_graph; /* --graph, --teacher-graph */
    const char *teacher;               /* --teacher */
    struct vc_data_options data;
    const char *arrays[MAX_NET_ARRAYS];
};

/* --teacher, --graph, --data and what belongs to them. */
extern const struct opt_group group_nets;

/* A network that was opened. */
struct net {
    struct vc_model *weights, *beside;
    struct vc_graph *graph;
};

/* Opens the checkpoint at `path`, and what it computes: the graph in `graph`, a text or an ONNX file; NULL: what it
 * says itself, or else what `other` says. GO_ON or a status, with all that is wrong printed. */
int net_open(struct app *app, const char *path, const char *graph, const char *other, struct net *net);
void net_close(struct net *net);
struct vc_network net_of(const struct net *net);

/* "98.2 %", "-" for NaN */
const char *fmt_share(char *buf, double share);

#endif
