/* distill.h - training a model until it answers as another one does: what pruning or quantizing lost comes back, and
 * small models learn from large ones. Definitions of losses and optimizers: docs/distillation.md.
 *
 *     data -> teacher -> logits -> loss -> gradients -> weights of the student -> the job and writers of every pass
 *
 * Labels are not needed: by default the student learns from the teacher alone (alpha 1). The result is a function of
 * the files, the options and the machine's arithmetic, not of threads or time. */
#ifndef VCOMPRESS_DISTILL_H
#define VCOMPRESS_DISTILL_H

#include <vcompress/graph.h>
#include <vcompress/job.h>
#include <vcompress/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers of all enums here are stable. */
enum vc_schedule { VC_SCHEDULE_CONSTANT = 0, VC_SCHEDULE_COSINE = 1, VC_SCHEDULE_LINEAR = 2, VC_SCHEDULE_STEP = 3 };

/* The teacher's term: the divergence of the softened answers, or the squared error of the logits. */
enum vc_teacher_loss { VC_TEACHER_LOSS_KD = 0, VC_TEACHER_LOSS_MSE = 1 };

/* Rows of an epoch: in an order drawn from the seed, a new one for each epoch; or as they lie in the file. */
enum vc_row_order { VC_ORDER_SHUFFLED = 0, VC_ORDER_FILE = 1 };

#ifdef __cplusplus
}
#endif
#endif
