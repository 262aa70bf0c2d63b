/* masks.h - which weights of a student stay 0: those that are 0 in its file, or that a file of masks says. */
#pragma once

#include "distill/update/learner.h"

/* Every mask of options.sparsity.mask fits a tensor that is trained, or one that no logits depend on; before any
 * training. */
enum vc_status vc_masks_check(const struct vc_learner *l);
/* Of a tensor that no logits depend on: its weights are 0 where the mask says so, since nothing writes it. */
enum vc_status vc_masks_check_unread(const struct vc_learner *l, const struct vc_weight *item);
/* Counts the zeros of the student's file: which tensors have a mask, before any memory is planned. */
enum vc_status vc_masks_open(struct vc_learner *l);
/* That entry of the weights has a mask from the first step on, of its zeros or of the file; not those of gradual.h. */
bool vc_masks_has(const struct vc_learner *l, size_t entry);
/* Fills `keep` and `n_masked` of the entry's state, and sets the weights to 0 that are not kept. */
enum vc_status vc_masks_make(struct vc_learner *l, size_t entry);
/* The zeros of all tensors that came with some, before and after, into the report. */
enum vc_status vc_masks_report(struct vc_learner *l);
/* options.gates.expect_sparsity, behind it: the sentence of a missed gate in the arena. */
enum vc_status vc_masks_gate(struct vc_learner *l, struct vc_arena *arena, const char **missed);
