/* checkpoint.h - the state of a run in a file, from which it goes on as if it had never stopped.
 *
 *     version   i64 [1]
 *     options   u8 [..]          text: a line for each option that the result depends on, and digests of networks and rows
 *     counts    u64 [..]         struct vc_run_counts: steps that are done, ...
 *     figures   f64 [..]         struct vc_trainer_figures
 *     weight.W  f32, f64 [..]    by tensor of the student's graph: weights and running statistics
 *     keep.W    u8 [..]          of each tensor that is masked: 1 where a weight is kept
 *     states    u8 [..]          of the optimizer
 *     answers   u8 [rows]        of a control run that is done: 1 where a row of eval was answered rightly
 *
 * Rows, their order and random numbers are functions of the seed and the number of the step. */
#pragma once

#include "distill/run/trainer.h"

/* Opens options.checkpoint.resume and refuses what belongs to another run; sees that options.checkpoint.path can be
 * written. The weights are those of the student's file. Nothing where neither was asked for. */
enum vc_status vc_checkpoint_open(struct vc_trainer *t);

/* For a dry run, which has no digests to compare: whether options.checkpoint.resume is a file that can be read. */
enum vc_status vc_checkpoint_try(const struct vc_trainer *t);
void vc_checkpoint_close(struct vc_trainer *t);

/* The state of the file that is resumed, into a run that has begun. False in *loaded: there is no such file, or it is
 * of the other one of run and control. */
enum vc_status vc_checkpoint_load(struct vc_trainer *t, bool *loaded);
/* The file that is resumed has a control run behind it: t->progress.counts, figures and control_answers are its, once
 * vc_checkpoint_load has read them. */
bool vc_checkpoint_has_control(const struct vc_trainer *t);

/* Before a step: remembers what a step that is broken off has changed already. */
enum vc_status vc_checkpoint_mark(struct vc_trainer *t);
/* After a step: writes the file when it is time to. One that cannot be written is told in the report, and the run goes
 * on. */
enum vc_status vc_checkpoint_step(struct vc_trainer *t);
/* The run was interrupted: writes the file and fails with a sentence about it. */
enum vc_status vc_checkpoint_interrupted(struct vc_trainer *t, enum vc_status why);
