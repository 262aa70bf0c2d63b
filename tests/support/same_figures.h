/* same_figures.h - two structs of figures are the same, member by member. Not memcmp over a struct: the bytes between
 * its members are nobody's, and a copy of it may or may not carry them. Numbers with a point are compared by their bits,
 * so that NaN is NaN. */
#pragma once

struct vc_quality;
struct vc_report_totals;
struct vc_value_stats;

void expect_same_quality(const struct vc_quality *a, const struct vc_quality *b);
void expect_same_totals(const struct vc_report_totals *a, const struct vc_report_totals *b);
void expect_same_stats(const struct vc_value_stats *a, const struct vc_value_stats *b);
