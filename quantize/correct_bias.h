/* correct_bias.h - a bias takes the mean of what rounding the weights of its layer loses:
 *
 *     fc1.weight [128, 1568] --int4--> codes, of which W' is what they stand for
 *     fc1.bias   [128]       --------> b' = b + (W - W') mu       mu: the means of the layer's inputs, from statistics
 */
#pragma once

#include "quantize/schemes/schemes.h"

/* In plan_end, with options.calibration: adds the step to the biases of all tensors that become codes of group_codes.c,
 * where the statistics have means. A cast to `rest`, if that is no NULL, follows. */
enum vc_status vc_correct_biases(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_quantize_options *options,
                                 const struct vc_scheme_row *rest);
