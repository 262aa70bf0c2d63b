/* print_report.h - the report of a conversion as tables. */
#pragma once

#include "tools/app.h"

/* False: no memory. */
bool print_report(struct app *app, const struct vc_report *report);
/* print_removal.c: the groups of units that were removed, as a part of it. False: no memory. */
bool print_removal(struct app *app, const struct vc_report *report);
/* The lines of --digest, which are data: with --quiet, too. */
void print_digests(const struct out *out, const struct vc_report *report);
