/* each_input.h - what has to be known of several INPUTs before the work on the first begins. inputs_each is in app.h.
 */
#pragma once

#include "tools/app.h"

/* outputs[i]: what operand i will become, or NULL where that is not known. Refuses two of one name, and one that is an
 * operand. GO_ON or a status. */
int inputs_check_names(struct app *app, char *const *outputs);

/* Makes the folder unless it is there; *made: it was made. GO_ON or a status. */
int inputs_make_folder(struct app *app, const char *folder, bool *made);
