/* memory_cli.h - options and tables that estimate and fit share: how a model is used, and what that takes. */
#ifndef VC_TOOLS_MEMORY_CLI_H
#define VC_TOOLS_MEMORY_CLI_H

#include "tools/graph_source.h"

struct memory_cli {
    struct graph_source source; /* first */
    struct vc_memory_options memory;
    uint64_t batch, sequence, every;
    struct vc_memory_report report;
};

extern const struct opt_group group_model, group_memory;

/* Opens app->subject, binds sizes, and counts. GO_ON or a status. */
int memory_cli_count(struct app *app, struct memory_cli *cli);
/* What is assumed, a table of components, one of moments. False: no memory. */
bool memory_cli_print(struct app *app, const struct memory_cli *cli);

#endif
