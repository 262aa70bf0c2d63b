/* refit.h - least squares on the weights of a row that stay: they change so that the row's answers to the inputs change
 * least by those that went.
 *
 *     least sum over inputs of ((w' - w) x)^2 + damp * mean(diagonal of H) * |w' - w|^2,   w'_j = 0 where the mask has 0
 *
 * with H = sum of x x^T / their number, by conjugate gradients (preconditioned by the diagonal) from w with its zeros
 * on, at most VC_REFIT_STEPS of them. damp is 0.01 with inputs enough (at least 4 K), up to 0.1 with fewer. In f32,
 * each sum in one order. */
#pragma once

#include "core/base/ctx.h"

#define VC_REFIT_ROWS  8 /* rows at a time */
#define VC_REFIT_STEPS 60

/* H from the sums of x_i x_j over `count` inputs, in place: damped. */
void vc_refit_prepare(float *moments, double count, size_t k);

/* n rows of k weights, at most VC_REFIT_ROWS, become others; bit r * k + j of the mask, behind `first`, is that of
 * weight j of row r. work: vc_refit_floats(k) floats. */
size_t vc_refit_floats(size_t k);
void vc_refit(const float *h, size_t k, const uint8_t *mask, size_t first, float *rows, size_t n, float *work);
