/* remote_inputs.h - INPUTs of other machines, "hf:OWNER/NAME" and "https://...", for commands that may read them: those that
 * look at headers alone, and others with --remote. */
#pragma once

#include "tools/app.h"

/* Opens each operand that is one, so that its name is a path from then on. GO_ON or a status. */
int remote_inputs_open(struct app *app);

/* With --verbose a line says how much was read. The models are closed. */
void remote_inputs_close(struct app *app);
