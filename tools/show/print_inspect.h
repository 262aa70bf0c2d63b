/* print_inspect.h - the report of vcompress inspect as tables. */
#pragma once

#include "tools/app.h"

/* False: no memory. */
bool print_inspection(struct app *app, const struct vc_inspection *in);
/* What layers get to see; the same. */
bool print_calibrated(struct app *app, const struct vc_calibration_report *r);
