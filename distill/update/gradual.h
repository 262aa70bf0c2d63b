/* gradual.h - pruning while a student is trained: masks that grow by a cubic schedule, and then stay.
 *
 *     done steps    FIRST            ...                    LAST
 *     sparsity      the student's    steep first, then flat   as asked for, to the element
 *
 * Before step number t + 1, for t = FIRST, FIRST + EVERY, ... and LAST, the weights with the smallest magnitudes
 * become 0 and stay 0, so many that the sparsity is
 *
 *     s(l) = s_f + (s_i - s_f) (1 - (t - FIRST) / (LAST - FIRST))^3
 *
 * s_i is what the student's file has, s_f is options.sparsity.prune->sparsity. Tensors are those that `prune` works on.
 */
#pragma once

#include "core/text/text.h"
#include "distill/update/learner.h"

/* Checks options.sparsity.prune, chooses the tensors and the schedule: l->gradual; NULL: none is asked for. After the
 * networks are open and the steps are counted. */
enum vc_status vc_gradual_open(struct vc_learner *l, uint64_t n_steps);
/* Bytes of a run for finding thresholds, and the block that holds their place between steps. */
uint64_t vc_gradual_bytes(const struct vc_learner *l);
void **vc_gradual_room(struct vc_learner *l);
/* The mask of that entry of the weights grows. */
bool vc_gradual_has(const struct vc_learner *l, size_t entry);

/* A run begins: masks of the tensors, where the student's weights are 0. After vc_masks_make for all of them. */
enum vc_status vc_gradual_begin(struct vc_learner *l);
/* Before a step: where it is time to, masks grow. */
enum vc_status vc_gradual_grow(struct vc_learner *l, uint64_t step);
/* The masks have grown for the last time, so these weights may be what is written. */
bool vc_gradual_done(const struct vc_learner *l, uint64_t step);
/* The tensors' weights that stay 0; 0: there is no gradual pruning. */
uint64_t vc_gradual_masked(const struct vc_learner *l);
/* The share of the tensors' weights that stay 0; NaN: there is no gradual pruning. */
double vc_gradual_sparsity(const struct vc_learner *l);
void vc_gradual_close(struct vc_learner *l);

/* What of it changes the result, for checkpoints. */
void vc_gradual_text(const struct vc_learner *l, struct vc_text *text);
