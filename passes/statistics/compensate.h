/* compensate.h - rounding that makes up for its own errors (GPTQ, Frantar et al. 2022): what rounding one weight of a
 * row loses is given to the weights that are not rounded yet, so that the row's answer to the inputs changes least.
 *
 *     H = sum of x x^T over the inputs / their number + damp * mean of its diagonal on the diagonal       [K, K]
 *     U = upper factor of the inverse, H^-1 = U^T U, columns in descending order of H_jj
 *     for j = 0 .. K-1:   q = the grid's value of w_j     e = (w_j - q) / U_jj     w_i -= e U_ji for i > j
 *
 * damp is 0.01 with inputs enough (at least 4 K of them), up to 0.1 with fewer. Columns that were always 0 are rounded
 * as they are, and have an infinite U_jj. A weight that is 0 stays 0, so pruned ones do, and every grid has to have 0.
 * Scales are chosen before, from the weights as they were. Bits: f64 for U, f32 for rows, each sum in one order. */
#pragma once

#include "passes/statistics/calibration.h"

#define VC_COMPENSATE_ROWS 8 /* rows at a time */

struct vc_compensation;

/* What vc_compensation_make takes, with its result, in bytes. */
uint64_t vc_compensation_bytes(uint64_t k);

/* moments: K * K sums of x_i x_j over `count` inputs, those of the calibration, centred or not. sorted: columns in
 * descending order of H_jj, else in that of the file. VC_E_FORMAT: they cannot be such sums. */
enum vc_status vc_compensation_make(struct vc_ctx *ctx, const struct vc_calibration *calibration, const float *moments,
                                    double count, bool sorted, struct vc_compensation **out);
float vc_compensation_diagonal(const struct vc_compensation *c, size_t j); /* U_jj */
void vc_compensation_free(struct vc_ctx *ctx, struct vc_compensation *c);  /* accepts NULL */

/* n rows of K weights become what the grid is to round instead: rounding each of them with the scale of its column
 * gives the codes. value: what column j of row `row` is after rounding, or 0 for a weight that goes. work: K *
 * VC_COMPENSATE_ROWS floats. n is at most VC_COMPENSATE_ROWS. Columns from..to - 1 of the order, 0..K for all. */
void vc_compensate(const struct vc_compensation *c, size_t from, size_t to, float *rows, size_t n, float *work,
                   float (*value)(const void *user, size_t row, size_t column, float x), const void *user);

/* Then coordinate descent on the codes themselves, for grids of so few values that rounding in one order is far from
 * the best: at most VC_DESCENT_SWEEPS times all columns, each weight becomes the grid's value nearest to the least of
 *
 *     (q - w) H (q - w)^T        h: damped, of vc_refit_prepare
 *
 * with the others as they are, so the sum never rises. before: w, need not be aligned; rows: what vc_compensate left,
 * become values of the grid. work: as above. */
#define VC_DESCENT_SWEEPS 10
void vc_descend(const float *h, size_t k, const float *before, float *rows, size_t n, float *work,
                float (*value)(const void *user, size_t row, size_t column, float x), const void *user);
