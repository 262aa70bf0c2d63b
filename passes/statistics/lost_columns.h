/* lost_columns.h - least squares on the columns that all rows of a weight keep, when the others are removed: each row
 * answers to the inputs as before as far as they can. With d the columns that go, k those that stay:
 *
 *     C = E[x x^T] - mu mu^T with a bias, which then takes the mean; else E[x x^T]
 *     w'_k = w_k + (C_kk + damp * mean(diagonal of C) I)^-1 C_kd w_d        b' = b + w_d mu_d - (w'_k - w_k) mu_k
 *
 * damp is 0.01 with inputs enough (at least 4 K), up to 0.1 with fewer, as in refit.h. One factor serves all rows, in
 * f64. A weight that was 0 stays 0: the few rows that have such weights are solved one by one, by refit.h. */
#pragma once

#include "passes/statistics/calibration.h"
#include "passes/statistics/refit.h"

#define VC_LOST_ROWS VC_REFIT_ROWS /* rows at a time */

struct vc_lost_columns;

/* C of K columns, damped; centred: its means, too, else they stay. */
enum vc_status vc_lost_columns_load(struct vc_ctx *ctx, const struct vc_calibration *calibration, bool centred,
                                    float *h, float *means);

/* What vc_lost_columns_make takes, with its result, in bytes. */
uint64_t vc_lost_columns_bytes(uint64_t k);

/* For the statistics of a weight with one matrix and moments; gone: by column, some of which stay. */
enum vc_status vc_lost_columns_make(struct vc_ctx *ctx, const struct vc_calibration *calibration, const bool *gone,
                                    bool centred, struct vc_lost_columns **out);
void vc_lost_columns_free(struct vc_ctx *ctx, struct vc_lost_columns *c); /* accepts NULL */

/* n rows of K weights, at most VC_LOST_ROWS, become what they are without the columns that go, which are 0. gains: what
 * is added to the bias of each, or NULL. work: vc_lost_columns_work(K) bytes, aligned. */
size_t vc_lost_columns_work(size_t k);
void vc_lost_columns_rows(const struct vc_lost_columns *c, float *rows, size_t n, void *work, double *gains);
