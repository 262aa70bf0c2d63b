/* update.h - the norm of the gradients and the optimizer's step (update.c), and what the optimizer keeps for each
 * weight (optimizer_states.c). */
#ifndef VC_DISTILL_UPDATE_H
#define VC_DISTILL_UPDATE_H

#include "distill/trainer.h"

/* The bytes of t->state_block, and its division between the weights: all states are 0. */
uint64_t vc_trainer_state_bytes(const struct vc_trainer *t);
void vc_trainer_place_states(struct vc_trainer *t);

/* The bytes of t->blocks, and what is in them: the weights, cut into blocks for both functions below. */
uint64_t vc_trainer_cut_bytes(const struct vc_trainer *t);
void vc_trainer_cut(struct vc_trainer *t);
/* Divides the gradients by the scale of the loss. The norm of all of them; those of masked weights become 0. */
enum vc_status vc_trainer_measure(struct vc_trainer *t, struct vc_engine *engine, double *norm);
/* Clips, then moves the weights: step number `step`, from 0, of those that were not left out. */
enum vc_status vc_trainer_update(struct vc_trainer *t, struct vc_engine *engine, uint64_t step, double grad_norm,
                                 double lr);

#endif
