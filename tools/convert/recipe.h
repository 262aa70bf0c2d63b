/* recipe.h - passes as text: a line of words as on the command line, given by --pass or in a recipe, a text file with
 * one pass per line:
 *
 *     # half of the weights, then codes for the others
 *     prune --sparsity 0.5
 *     quantize --int8 --exclude 'lm_head*'
 *
 * What is read and written belongs to `run`; lines have only what their passes do. */
#pragma once

#include "tools/convert/passes.h"

#define MAX_PASSES       32
#define MAX_RECIPE_BYTES ((size_t)64 << 10)
#define TAG_BYTES        256

/* One line, parsed. */
struct chain_pass {
    const struct pass_row *row; /* the command */
    void *cli;                  /* owned; its structure, with the options of the line */
    struct words words;         /* the options point into them */
    struct conversion what;     /* what ready() has said of the output */
};

struct chain {
    size_t n; /* lines that are passes */
    struct chain_pass pass[MAX_PASSES];
    char tag[TAG_BYTES]; /* "pruned.int8" */
};

/* Adds a line to the chain; a line without words adds nothing. `where` begins the sentences: "recipe.txt:3". GO_ON or a
 * status. app->command and app->parsed are as before when it returns. */
int recipe_add_line(struct app *app, struct chain *chain, const char *where, const char *line, size_t n);

/* Adds the lines of a text, which has to have a pass; `name` is that of the file. GO_ON or a status. */
int recipe_add_text(struct app *app, struct chain *chain, const char *name, const char *text, size_t n);

/* Frees what the lines hold, and the chain, which malloc made. */
void chain_free(struct chain *chain);
