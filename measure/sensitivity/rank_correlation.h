/* rank_correlation.h - how well one figure predicts the order of another. */
#pragma once

#include <stddef.h>

struct vc_rank_pair {
    double x, y;
};

/* Spearman's rank correlation; equal ones have the mean of their ranks. NaN: fewer than three pairs, or all of one side
 * are equal. The pairs are changed. */
double vc_rank_correlation(struct vc_rank_pair *pairs, size_t n);
