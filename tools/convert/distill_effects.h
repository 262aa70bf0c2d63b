/* distill_effects.h - options of distill that change nothing beside others. */
#pragma once

#include "tools/app.h"

/* What else the command line says. */
struct effects_of {
    const struct vc_distill_options *options;
    bool teacher, eval, derived; /* --teacher (a recipe has one always), --eval; --width or --keep-layers */
};

/* Refuses an option that was given and has no effect. GO_ON or a status. */
int effects_check(struct app *app, const struct effects_of *of);
