/* cholesky.h - symmetric positive matrices and their lower factors, in f64, each sum in one order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* m = M M^T with M lower, in the place of m [k, k], of which only the lower triangle is read. False if m is not
 * positive. */
bool vc_cholesky_factor(double *m, size_t k);

/* M M^T x = y in the place of y, of which VC_CHOLESKY_SIDES lie side by side: [k][VC_CHOLESKY_SIDES]. */
#define VC_CHOLESKY_SIDES 8
void vc_cholesky_solve(const double *factor, size_t k, double *y);
