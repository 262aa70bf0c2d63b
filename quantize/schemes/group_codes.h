/* group_codes.h - what the pass asks the schemes of group_codes.c (schemes.h has their rows) beyond a row's functions.
 */
#pragma once

#include "passes/statistics/calibration.h"

/* After each look at all values: gives every tensor that becomes nvfp4 its global scale, layers that runtimes join the
 * same, and ends what vc_group_codes_measure asked for. Does nothing where no tensor needs a look. */
enum vc_status vc_group_codes_decide(struct vc_ctx *ctx, struct vc_plan *plan);

/* From plan_end on: the bias of the item (vc_calibration_bias). *bias is VC_NO_TENSOR if the pass that is being planned
 * does not make codes of group_codes.c, or the statistics are of several matrices. */
enum vc_status vc_group_codes_bias(struct vc_ctx *ctx, const struct vc_item *item, size_t *bias);

/* Of an item with a bias: returns an array that gets, for each row, the sum over columns of (w - w') * mean, and NULL
 * if memory is short. The codes are made once more for that, while the job is planned, unless the plan is dry. Rounding
 * then takes care of the rest alone. */
double *vc_group_codes_measure(struct vc_ctx *ctx, struct vc_item *item, bool dry);
