/* totals.h - the sums of a report. */
#pragma once

#include <vcompress/report.h>

#include "core/values/exact_sum.h"

/* While rows are added up, in their order. Errors are summed exactly: the total does not depend on that. */
struct vc_totals {
    struct vc_report_totals totals;
    struct vc_exact_sum x2, e2;
    double worst_db;
    uint64_t n_params_after, n_elems_after; /* without and with statistics of normalizations */
};

void vc_totals_begin(struct vc_totals *sum);
void vc_totals_add(struct vc_totals *sum, const struct vc_report_row *row);
/* Sets everything in totals but file_before and file_after, and the parameters of the output. */
void vc_totals_end(const struct vc_totals *sum, struct vc_report_totals *totals, uint64_t *n_params_after);

/* 10 log10(x2 / e2); INFINITY when e2 is 0. */
double vc_sqnr_db(double x2, double e2);
