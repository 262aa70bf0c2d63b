/* update.h - the norm of the gradients and the optimizer's step (update.c), and what the optimizer keeps for each
 * weight (optimizer_states.c). */
#pragma once

#include "distill/update/learner.h"

/* The division of l->optimizer.block, of vc_weights_state_bytes, between the weights: all states are 0. */
void vc_optimizer_place(struct vc_learner *l);

/* The bytes of l->optimizer.blocks, and what is in them: the weights, cut into blocks for both functions below. */
uint64_t vc_optimizer_cut_bytes(const struct vc_learner *l);
void vc_optimizer_cut(struct vc_learner *l);
/* Divides the gradients by the scale of the loss. The norm of all of them; those of masked weights become 0. */
enum vc_status vc_learner_measure(struct vc_learner *l, struct vc_engine *engine, double scale, double *norm);
/* Clips, then moves the weights: step number `step`, from 0, of those that were not left out. */
enum vc_status vc_learner_update(struct vc_learner *l, struct vc_engine *engine, uint64_t step, double grad_norm,
                                 double lr);
