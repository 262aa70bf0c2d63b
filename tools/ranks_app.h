/* ranks_app.h - a command that several processes run together: rank 0 speaks for all of them.
 *
 *     ranks_begin     before options are read: what mpirun started beside rank 0 is silent from here on, and a failure
 *                     is kept until the others know of it
 *     ranks_join      they find each other, behind a failure, too: it may be that of one rank alone
 *     ranks_agree     behind the work of the library
 *     ranks_settle    at the end; a failure that was kept is told to the others, and rank 0 says it */
#pragma once

#include "tools/app.h"

/* With --ranks none among the arguments each process speaks for itself. */
void ranks_begin(struct app *app, int n_args, char **args);
/* kind: of --ranks. Each rank gets its share of the processors, unless --threads says how many, and a device of
 * its own. GO_ON or a status. */
int ranks_join(struct app *app, enum vc_ranks_kind kind, struct vc_ranks **out);
enum vc_status ranks_agree(struct app *app, struct vc_ranks *ranks, enum vc_status status);
/* rc: GO_ON or what the command came to. Frees the ranks. Returns the status to exit with. */
int ranks_settle(struct app *app, struct vc_ranks *ranks, int rc);
/* Refuses work that the ranks cannot share, such as a recipe. GO_ON or a status. */
int ranks_refuse(struct app *app, enum vc_ranks_kind kind, const char *what);
