/* run_options.h - what the result of a run depends on, as text: the same text, the same run. */
#pragma once

#include "core/text/text.h"
#include "distill/run/trainer.h"

/* A line for each option, "lr 0.001", and for each digest, "student 9f86d0...". The student's weights are those of its
 * file. */
enum vc_status vc_run_options_text(struct vc_trainer *t, struct vc_text *text);

/* Refuses a run whose text is another one than `theirs`, which is that of the file at `path`: names the first option
 * that differs. */
enum vc_status vc_run_options_compare(struct vc_ctx *ctx, const char *path, const char *theirs, const char *ours);

/* The same of two ranks: the sentence of one whose text is another one than that of rank 0. */
enum vc_status vc_run_options_of_ranks(struct vc_ctx *ctx, const char *of_rank_0, const char *ours);
