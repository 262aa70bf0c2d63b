/* cards.h - the catalogue of GPUs that a command asks. */
#pragma once

#include "tools/app.h"

/* With the rows of --gpus-file; without one (NULL) those of the user's own file, vcompress/gpus.csv in $XDG_CONFIG_HOME
 * or ~/.config, where there is one. As vc_gpus_open. */
enum vc_status cards_open(struct app *app, const char *file, struct vc_gpus **out);
