/* fake_quant.h - fake quantization: in training, the network computes with weights that are rounded to the values of a
 * scheme. For the weights of a quantized student, and for weights that options.precision.fake_quant (--fake-quant)
 * names.
 *
 *     master weights, plain floats --- quantize, dequantize ---> the weights that the network computes with
 *            ^                                                        |
 *            +------------- optimizer's step --- gradient ------------+      straight through: the same array
 *
 * Scales are made of the masters before every step, by the kernels and formulas of the quantize pass. They may be
 * learned, too (fake_quant_scales.h). Every scheme has a code for 0, so masks hold. What is written says exactly these
 * values: as floats, of which quantize changes none, or as codes (fake_quant_codes.h). */
#pragma once

#include "core/text/text.h"
#include "distill/update/learner.h"

/* The scheme whose codes are written in place of floats, static: "int4"; NULL: none. Refuses options that quantize
 * refuses. `model`: any. */
enum vc_status vc_fake_quant_writes(struct vc_ctx *ctx, const struct vc_model *model,
                                    const struct vc_distill_options *options, const char **codes);
/* Finds the tensors: l->fake_quants; NULL if there are none. Sets vc_weight.coded of those for which codes are written.
 * After the student is open. */
enum vc_status vc_fake_quant_open(struct vc_learner *l);
/* The block of a run that masters and scales lie in. */
uint64_t vc_fake_quant_bytes(const struct vc_learner *l);
void **vc_fake_quant_room(struct vc_learner *l);

/* A run begins: the weights, as they were read and masked, become masters. */
enum vc_status vc_fake_quant_begin(struct vc_learner *l);
/* The gradients of the step are whole: of weights that are cut off they become 0, and shares of learned scales get
 * theirs (fake_quant_scales.h). On all threads. */
void vc_fake_quant_gradients(struct vc_learner *l, struct vc_engine *engine);
/* The weights of the network become those of the masters as they are now. On the threads of the engine, where scales
 * are searched; NULL: on this thread. */
enum vc_status vc_fake_quant_apply(struct vc_learner *l, struct vc_engine *engine);
/* The same on a device: its weights are made of its masters there. `room`: its copy of the block of vc_fake_quant_room.
 */
enum vc_status vc_fake_quant_apply_device(struct vc_learner *l, void *room);
/* Of `copy`, one of all weights as they lie in weights->data_block: the masters in place of what was made of them; and
 * back, from the weights themselves. */
void vc_fake_quant_copy_masters(const struct vc_learner *l, void *copy);
void vc_fake_quant_take_masters(struct vc_learner *l);
/* After the last evaluation: where codes are written, the weights become the masters, of which the codes are made. */
void vc_fake_quant_finish(struct vc_learner *l);
void vc_fake_quant_close(struct vc_learner *l);

/* What of it changes the result, for checkpoints. */
void vc_fake_quant_text(const struct vc_learner *l, struct vc_text *text);
