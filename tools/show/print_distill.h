/* print_distill.h - the report of a distillation. */
#pragma once

#include "tools/app.h"

/* False: no memory. teacher, student: as they are to be named; teacher NULL: labels alone taught. options: those of the
 * run, whose data and eval have the names of files. */
bool print_distillation(struct app *app, const struct vc_distill_options *options, const char *teacher,
                        const char *student, const struct vc_distillation *d);
