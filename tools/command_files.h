/* command_files.h - all files that a command reads and writes, and the one place that keeps them apart: none that is
 * written is one of the others, whatever names and links they are called by. Which options name files, and whether
 * these are read or written, say the tables of options (struct opt, `file`). */
#pragma once

#include "tools/options/options.h"

struct app;

struct named_file {
    char *path;         /* owned */
    const char *option; /* "--data" or "-o"; NULL: an operand */
    enum opt_file use;
};

struct command_files {
    struct named_file *list; /* in the order given; options first, then operands */
    size_t n;
};

/* Adds the files of a command line, or of a pass in a recipe. GO_ON or a status. Called once for the command line
 * (app_parse) and once for each line of a recipe; files_free ends the list. */
int files_add(struct app *app, const struct parsed *parsed, const struct command *command);

/* "-o rows.npz is the file of --data, too": found before anything is opened or written. From then on app->ctx replaces
 * none of those that are read, also when it finds its names later. Devices and pipes may be given twice, and
 * --checkpoint may be the file of --resume. GO_ON or a status. */
int files_check(struct app *app);

/* The same for an output whose name we made ourselves. *path is a default name, such as model.int8.npz, or one that
 * vcompress run joins. GO_ON or a status. */
int files_check_made(struct app *app, const char *path);

void files_free(struct command_files *files);
