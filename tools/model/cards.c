/* cards.c - see cards.h.
 *
 * --gpus-file comes first, else the user's own file, else the built-in catalogue alone. */
#include "tools/model/cards.h"

#include <stdlib.h>
#include <unistd.h>

#define OWN_CARDS "vcompress/gpus.csv"

/* The user's own rows: of $XDG_CONFIG_HOME, else of ~/.config. False: there is no such file. */
static bool find_own(char *path, size_t size)
{
    const char *folder = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int n = -1;

    if (folder != NULL && folder[0] == '/') { /* a path that is not absolute is to be ignored */
        n = snprintf(path, size, "%s/" OWN_CARDS, folder);
    } else if (home != NULL && home[0] == '/') {
        n = snprintf(path, size, "%s/.config/" OWN_CARDS, home);
    }
    return n > 0 && (size_t)n < size && access(path, F_OK) == 0;
}

/* *out is the caller's. */
enum vc_status cards_open(struct app *app, const char *file, struct vc_gpus **out)
{
    char own[4096];

    if (file == NULL && find_own(own, sizeof own)) {
        file = own;
    }
    enum vc_status status = vc_gpus_open(app->ctx, file, out);
    if (status != VC_OK) {
        app->subject = NULL; /* the sentence names the table, and is not about a model */
    }
    return status;
}
