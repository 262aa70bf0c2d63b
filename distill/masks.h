/* masks.h - which weights of a student stay 0: those that are 0 in its file, or that a file of masks says. */
#ifndef VC_DISTILL_MASKS_H
#define VC_DISTILL_MASKS_H

#include "distill/trainer.h"

/* Every mask of options.mask fits a tensor that is trained, or one that no logits depend on; before any training. */
enum vc_status vc_masks_check(const struct vc_trainer *t);
/* Of a tensor that no logits depend on: its weights are 0 where the mask says so, since nothing writes it. */
enum vc_status vc_masks_check_unread(const struct vc_trainer *t, const struct vc_weight *item);
/* Fills `keep` and `n_masked` of the tensor's state, and sets the weights to 0 that are not kept. */
enum vc_status vc_masks_make(struct vc_trainer *t, const struct vc_weight *item, struct vc_trainer_state *state);

#endif
