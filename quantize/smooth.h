/* smooth.h - SmoothQuant (Xiao et al. 2022): where a few columns of a layer's inputs are much larger than the others,
 * codes for all columns are coarse. What makes the columns is divided by s, the weights are multiplied, and the answers
 * stay the same:
 *
 *     input_layernorm.weight [128]   / s              the gain of a norm; or up_proj's rows, before down_proj
 *     q_proj.weight [128, 128]       * s, by column   all that read the norm are such weights
 *
 * s is a power of two, so that no bit of a float is lost. */
#pragma once

#include <vcompress/quantize.h>

#include "core/chain/pass.h"

struct vc_smooth_fold;

/* In plan_begin: what becomes of each tensor, by number, in the plan's arena; *out NULL: options.smooth is 0. Reads all
 * weights in question once. VC_E_UNSUPPORTED: no graph is known, or the graph has nothing to smooth; the sentence names
 * a norm. *note: how much is smoothed. */
enum vc_status vc_smooth_begin(struct vc_ctx *ctx, const struct vc_plan *plan,
                               const struct vc_quantize_options *options, struct vc_smooth_fold ***out,
                               const char **note);

/* Before all other steps of the pass: the step of an item. fold NULL if there is none. */
enum vc_status vc_smooth_add(struct vc_ctx *ctx, struct vc_smooth_fold *fold, struct vc_item *item);

/* s of the inputs of a weight; NULL: they stay as they are. */
const float *vc_smooth_inputs(const struct vc_smooth_fold *fold);
