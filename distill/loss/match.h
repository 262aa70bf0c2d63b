/* match.h - values inside the student that learn from values inside the teacher (vc_distill_options.matches).
 *
 *     match_names.c   which values of the graphs are meant
 *     match.c         what fits what; projectors; memory; the terms of a batch and their gradients
 *     match_row.c     the losses of one row of data
 *
 * Both networks keep these values in their programs (struct vc_net_options.kept). Teacher and student take turns in one
 * arena, so the teacher's are copied as soon as it has answered. Where a pair has two widths, a projector stands
 * between: weight [teacher's width, student's width] and bias, entries of the student's weights that are in no file.
 * So they are updated, clipped, added up over batches and ranks, and kept in checkpoints like any other.
 *
 * Where a device computes, the values come to the host, which computes these terms, and their gradients go back. */
#ifndef VC_DISTILL_MATCH_H
#define VC_DISTILL_MATCH_H

#include "core/text/text.h"
#include "distill/trainer.h"

#define VC_MATCH_MOST 16 /* pairs */

/* What the terms are divided by: of the whole step. */
struct vc_match_counts {
    uint64_t rows;      /* of data, in which anything counts */
    uint64_t positions; /* of those of a sequence that count */
    /* The same by attention_mask, of networks with one answer for each row. */
    uint64_t token_rows, tokens;
};

/* Finds the values, before the networks are opened; t->matches stays NULL where there are no pairs. */
enum vc_status vc_match_find(struct vc_trainer *t);
/* The values that the networks keep. */
void vc_match_keep_values(const struct vc_trainer *t, struct vc_net_options *student, struct vc_net_options *teacher);
/* Shapes, once the networks are open; adds projectors to the student's weights. */
enum vc_status vc_match_open(struct vc_trainer *t);
/* What only the programs tell. */
enum vc_status vc_match_check_programs(struct vc_trainer *t);
/* The block that vc_match_room points to. */
uint64_t vc_match_bytes(const struct vc_trainer *t);
void **vc_match_room(struct vc_trainer *t);
void vc_match_close(struct vc_trainer *t);

/* Copies the teacher's values of n rows, from the program that has just answered. */
void vc_match_take(struct vc_trainer *t, const struct vc_engine *engine, size_t n);
void vc_match_count(const struct vc_trainer *t, const uint64_t *numbers, size_t n, struct vc_match_counts *counts);
/* After the forward pass of n rows, by their numbers, once the gradient of the logits is written: those of the other
 * values that are kept, and of the projectors. sums: a term for each pair, without its weight, is added. In a control
 * run the gradients are 0. */
enum vc_status vc_match_batch(struct vc_trainer *t, struct vc_engine *engine, const uint64_t *numbers, size_t n,
                              const struct vc_match_counts *counts, double *sums);

/* After vc_match_batch, with its sums: refuses a term that is NaN or infinite, by its pair and the side that makes it
 * so. VC_OK: all are finite. */
enum vc_status vc_match_refuse(struct vc_trainer *t, const struct vc_engine *engine, size_t n, uint64_t step,
                               const double *sums);

/* For run_options.c. */
void vc_match_text(const struct vc_trainer *t, struct vc_text *text);

#endif
