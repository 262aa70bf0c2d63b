/* step_loss.h - the loss of a batch, on all threads of an engine. */
#ifndef VC_DISTILL_STEP_LOSS_H
#define VC_DISTILL_STEP_LOSS_H

#include "distill/trainer.h"

/* The bytes of t->row, for batches of so many rows of logits. */
uint64_t vc_trainer_row_bytes(const struct vc_trainer *t, uint64_t n_rows);
/* The loss of n_rows rows of logits, those of t->mask that count, and its gradient: vc_loss_f32 (step_math.h). */
struct vc_loss_sums vc_trainer_loss(struct vc_trainer *t, struct vc_engine *engine, const struct vc_loss_spec *spec,
                                    size_t n_rows, const void *logits, const struct vc_teacher_rows *teacher,
                                    const int64_t *labels, void *gradient);

#endif
