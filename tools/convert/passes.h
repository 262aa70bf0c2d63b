/* passes.h - the commands that are passes (quantize, prune, ...), as rows: a command of its own runs one of them, `run`
 * several in one job. */
#pragma once

#include "tools/convert/convert.h"

struct pass_row {
    const struct command *command; /* its name and its options */
    size_t size;                   /* of the command's structure, which begins with a struct convert_options */

    void (*begin)(void *cli); /* sets what holds without an option; convert_defaults was called, the rest is zero */
    /* After the options in app->parsed were parsed into it: refuses what does not go together, fills what->tag and
     * what->more_tensors. GO_ON or a status. */
    int (*ready)(struct app *app, void *cli, struct conversion *what);
    /* Adds the pass to a job of the model. */
    enum vc_status (*add)(struct vc_ctx *ctx, struct vc_job *job, const struct vc_model *model, void *cli);
    /* In a chain, before the first input and after the last one, where `rc` is the status so far. GO_ON or a status;
     * the status. May be NULL. */
    int (*start)(struct app *app, void *cli, bool dry_run);
    int (*finish)(struct app *app, void *cli, int rc);
    void (*end)(void *cli); /* frees; may be NULL */
};

/* NULL behind the last. */
extern const struct pass_row *const pass_rows[];

/* The row of that name; NULL: there is no such pass. */
const struct pass_row *pass_find(const char *name);

/* What convert_defaults and row->begin leave; free ends it with row->end. NULL: no memory. */
void *pass_options_create(const struct pass_row *row);
void pass_options_free(const struct pass_row *row, void *cli);

/* A whole command that runs this pass alone. Returns the exit status. */
int pass_run(struct app *app, const struct pass_row *row, int n_args, char **args);

extern const struct pass_row pass_quantize;
extern const struct pass_row pass_prune;
extern const struct pass_row pass_merge;
extern const struct pass_row pass_dequantize;
extern const struct pass_row pass_distill; /* not by pass_run: as a command it has a report of its own */

/* Options of distill that are those of the run in a chain. */
extern const struct opt_group group_distill_output;
