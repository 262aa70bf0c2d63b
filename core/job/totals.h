/* totals.h - the sums of a report. */
#ifndef VC_CORE_TOTALS_H
#define VC_CORE_TOTALS_H

#include <vcompress/report.h>

/* Everything in totals but file_before and file_after, from the rows. Errors are summed exactly: the total does not
 * depend on the order of the tensors. */
void vc_totals_compute(const struct vc_report_row *rows, size_t n, struct vc_report_totals *totals);

/* 10 log10(x2 / e2); INFINITY when e2 is 0. */
double vc_sqnr_db(double x2, double e2);

#endif
