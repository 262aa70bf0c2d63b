/* probe.h - the steps that measure one tensor for vc_model_sensitivity: they calibrate and change nothing.
 *
 *     w --[ decode, if it is quantized ]--[ survey: scans ]--[ probe: calibrates ]
 *
 * The survey counts magnitudes, and candidates that need the whole tensor see it; the probe sums and tries them. */
#pragma once

#include "core/chain/candidate.h"
#include "measure/curve.h"
#include "passes/candidate_runs.h"
#include "passes/nonfinite.h"

struct vc_probe {
    struct vc_policy policy; /* first: the values found that are not finite */
    const struct vc_candidate_list *candidates;
    enum vc_dtype weights;
    const unsigned *percents; /* sparsities; the caller's, as `candidates` are */
    size_t n_percents;
    struct vc_curve *curve;        /* from begin to end */
    struct vc_candidate_runs runs; /* results in the item's arena */

    /* From end on: of the curve, in the item's arena. */
    uint64_t zeros;
    double sum_x2;
    double *sum_e2; /* one per percent */
};

/* Adds the steps to an item of a float or quantized tensor; `percents` are the sparsities, rising. What is
 * given outlives the item. */
enum vc_status vc_probe_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_candidate_list *candidates,
                            const unsigned *percents, size_t n_percents);

/* After calibration: NULL where the item has no probe any more. */
const struct vc_probe *vc_probe_of(const struct vc_item *item);

/* After calibration: an item whose values are not all finite loses its steps and gets the reason. */
enum vc_status vc_probe_settle(struct vc_ctx *ctx, struct vc_item *item);
