/* trained.h - the pass by which trained weights leave: each tensor that was trained gets its new values, in the type
 * that the file has it in; all others are copied bit for bit. */
#ifndef VC_DISTILL_TRAINED_H
#define VC_DISTILL_TRAINED_H

#include "core/chain/pass.h"
#include "distill/engine/weights.h"

/* `weights` and `command` outlive the job. statistics: those of BatchNormalization have changed, too. */
enum vc_status vc_job_add_trained(struct vc_ctx *ctx, struct vc_job *job, const struct vc_weights *weights,
                                  bool statistics, const char *command, const struct vc_recipe_entry *recipe,
                                  size_t n_recipe);

/* Rounds the weights to the types that the model has them in, so that they are what is written. VC_E_UNSUPPORTED: one
 * of them is no plain float in the file, so it cannot be trained. */
enum vc_status vc_weights_round(struct vc_ctx *ctx, const struct vc_weights *weights, const struct vc_model *model,
                                bool statistics);
/* The same check without rounding, before any training. */
enum vc_status vc_weights_check(struct vc_ctx *ctx, const struct vc_weights *weights, const struct vc_model *model);

#endif
