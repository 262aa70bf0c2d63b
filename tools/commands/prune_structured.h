/* prune_structured.h - the part of `vcompress prune` that removes units: its options, the file of --remove, and where
 * couplings come from. */
#pragma once

#include "tools/convert/convert.h"

struct structured_cli {
    struct vc_structured_options options;
    const char *remove;    /* --remove FILE */
    const char *couplings; /* --couplings FILE */
    const char *graph;     /* --graph FILE */
    const char *dims;      /* --dims LIST */
    /* made of them */
    struct vc_structured_units *units;
    size_t n_units;
    size_t n_listed;           /* numbers in all of them */
    struct vc_couplings *read; /* for the last input */
    char *graph_text;          /* ... of its graph */
};

/* One of its options was given that says what goes. */
bool structured_asked(const struct structured_cli *cli);

/* Reads what the file of --remove has. GO_ON or a status. */
int structured_read(struct app *app, struct structured_cli *cli, FILE *from);

/* Reads the file of --remove and the words of --dims. GO_ON or a status. */
int structured_ready(struct app *app, struct structured_cli *cli);

enum vc_status structured_add(struct vc_ctx *ctx, struct vc_job *job, const struct vc_model *model,
                              struct structured_cli *cli);

void structured_end(struct structured_cli *cli);
