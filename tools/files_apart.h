/* files_apart.h - a command that reads and writes many files: none that is written is another one. */
#ifndef VC_TOOLS_FILES_APART_H
#define VC_TOOLS_FILES_APART_H

#include "tools/app.h"

struct named_file {
    const char *option, *path; /* path NULL: it was not given */
    bool written;
};

/* "-o rows.npz is the file of --data, too": found before anything is written. GO_ON or a status. Devices and pipes may
 * be given twice, and --checkpoint may be the file of --resume. */
int files_apart(struct app *app, const struct named_file *files, size_t n);

#endif
