/* trained.h - the step by which trained weights leave: each tensor that was trained gets its new values, in the type
 * that the student has it in; all others are copied bit for bit. */
#pragma once

#include "core/chain/pass.h"
#include "engine/weights.h"

/* Plans a tensor of the student: adds the step that gives its new values, or says why it has none. `weights` outlive
 * the item. statistics: those of BatchNormalization have changed, too. dry_plan: nothing was trained, and the step
 * gives the values that it gets. */
enum vc_status vc_trained_plan(struct vc_ctx *ctx, struct vc_item *item, struct vc_weights *weights, bool statistics,
                               bool dry_plan);

/* Rounds the weights to the types that the model has them in, so that they are what is written. VC_E_UNSUPPORTED: one
 * of them is no plain float in the file, so it cannot be trained. */
enum vc_status vc_weights_round(struct vc_ctx *ctx, struct vc_weights *weights, const struct vc_model *model,
                                bool statistics);
/* The same check without rounding, before any training. */
enum vc_status vc_weights_check(struct vc_ctx *ctx, const struct vc_weights *weights, const struct vc_model *model);
