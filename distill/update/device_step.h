/* device_step.h - what a device does of a step beside the programs: losses, the sum over batches, norms, updates. With
 * the copies that this takes: states of the optimizer, masks, the teacher's logits, labels.
 *
 * Every function that is called for a learner without a device does nothing, or says that it did not. */
#pragma once

#include "distill/data/batch.h"
#include "distill/update/learner.h"

/* Opens the device that the context computes on, unless it computes on the processor: l->device. VC_E_UNSUPPORTED: the run
 * is one that only the CPU computes. */
enum vc_status vc_device_open(struct vc_learner *l);
void vc_device_close(struct vc_learner *l); /* after networks and engines */

/* Bytes of device memory that the whole run takes, programs and weights included; 0 without a device. */
uint64_t vc_device_bytes(const struct vc_learner *l, const struct vc_net *teacher);
/* Bytes of host memory for it. */
uint64_t vc_device_room_bytes(const struct vc_learner *l);
/* Takes that memory; a second call finds it taken. */
enum vc_status vc_device_prepare(struct vc_learner *l);
void vc_device_release(struct vc_learner *l);

/* States or masks of the host are others than before: the device gets them before it needs them. */
void vc_device_changed(struct vc_learner *l);
/* Weights, masters and states, to the host: before they are written or compared. */
enum vc_status vc_device_to_host(struct vc_learner *l);

/* The logits of n rows that a teacher's program has left on the device, for the loss. */
enum vc_status vc_device_keep_teacher(struct vc_learner *l, struct vc_engine *engine, size_t n);

/* The losses of n rows of the batch whose outputs stayed on the device (vc_engine_keep_outputs), and their gradient. late: the
 * losses are 0 here, and known behind vc_device_measure, so that the host need not wait (vc_device_late). */
enum vc_status vc_device_loss(struct vc_learner *l, struct vc_engine *engine, const struct vc_batch *batch,
                              const struct vc_loss_spec *spec, size_t n, const struct vc_teacher_rows *teacher,
                              bool late, struct vc_loss_sums *sums);
/* Behind vc_device_measure: whether the losses of the batch were late, and they. *fault: forward passes that did not ask for
 * faults (vc_engine_ask_faults_later) had one; it is forgotten. */
enum vc_status vc_device_late(struct vc_learner *l, bool *late, struct vc_loss_sums *sums, bool *fault);
/* Whether that can be done there: all logits of the teacher are known. */
bool vc_device_has_loss(const struct vc_learner *l, const struct vc_loss_spec *spec,
                        const struct vc_teacher_rows *teacher, const struct vc_label_rows *labels);

/* Ranks add their gradients up from device to device (device_ranks.h). */
bool vc_device_uses_nccl(const struct vc_learner *l);
/* The sum of the gradients over the batches is made on the device; else on the host, as ranks do it. */
bool vc_device_sums(const struct vc_learner *l);
/* As vc_trainer_sum, vc_learner_measure and vc_learner_update; fake-quantized weights are rounded again. */
enum vc_status vc_device_sum(struct vc_learner *l, uint64_t first, uint64_t n_batches);
enum vc_status vc_device_measure(struct vc_learner *l, double scale, double *norm);
enum vc_status vc_device_update(struct vc_learner *l, const struct vc_update *update, double by);
