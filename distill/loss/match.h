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
#pragma once

#include "core/text/text.h"
#include "distill/data/network.h"
#include "distill/data/teacher_file.h"

#define VC_MATCH_MOST 16 /* pairs */

/* What the terms are divided by: of the whole step. */
struct vc_match_counts {
    uint64_t rows;      /* of data, in which anything counts */
    uint64_t positions; /* of those of a sequence that count */
    /* The same by attention_mask, of networks with one answer for each row. */
    uint64_t token_rows, tokens;
};

/* A batch, for the values inside. */
struct vc_match_batch {
    const uint64_t *numbers; /* of its n rows of data */
    size_t n;
    const uint8_t *mask; /* as struct vc_batch has it */
    double scale;        /* of the loss */
    double part;         /* of the run that is behind this step: 0 at the first one, 1 at the last one */
    const struct vc_match_counts *counts;
};

struct vc_matches;

/* The weight of a pair in a step. */
static inline double vc_match_weight(const struct vc_match *match, double part)
{
    return match->weight + match->weight_change * part;
}

/* Finds the values, before the networks are opened; *out stays NULL where there are no pairs, which all functions here
 * know. The options outlive it. */
enum vc_status vc_match_find(struct vc_ctx *ctx, const struct vc_distill_options *options, struct vc_matches **out);
/* The values that the networks keep. */
void vc_match_keep_values(const struct vc_matches *m, struct vc_net_options *student, struct vc_net_options *teacher);
/* Shapes, once the networks are open, all of which outlive it; adds projectors to the student's weights. texts: has the
 * figures. */
enum vc_status vc_match_open(struct vc_matches *m, const struct vc_net *student, const struct vc_net *teacher,
                             const struct vc_taught_rows *data, struct vc_arena *texts);
/* What only the programs tell. */
enum vc_status vc_match_check_programs(const struct vc_matches *m);
/* The block that vc_match_room points to. */
uint64_t vc_match_bytes(const struct vc_matches *m);
void **vc_match_room(struct vc_matches *m);
void vc_match_close(struct vc_matches *m);

/* Copies the teacher's values of n rows, from the program that has just answered. */
void vc_match_take(struct vc_matches *m, const struct vc_engine *engine, size_t n);
void vc_match_count(const struct vc_matches *m, const uint64_t *numbers, size_t n, struct vc_match_counts *counts);
/* After the forward pass of a batch, once the gradient of the logits is written: those of the other values that are
 * kept, and of the projectors. sums: a term for each pair, without its weight, is added. NULL, in a control run: the
 * gradients are 0. */
enum vc_status vc_match_batch(const struct vc_matches *m, struct vc_engine *engine, const struct vc_match_batch *batch,
                              double *sums);
/* Behind a step, the first or another, with its sums: the figures of all pairs, for the report. */
void vc_match_note(struct vc_matches *m, bool first, const double *sums);
const struct vc_match_figures *vc_match_figures(const struct vc_matches *m);

/* After vc_match_batch, with its sums: refuses a term that is NaN or infinite, by its pair and the side that makes it
 * so. VC_OK: all are finite. */
enum vc_status vc_match_refuse(const struct vc_matches *m, const struct vc_engine *engine, size_t n, uint64_t step,
                               const double *sums);

/* For run_options.c. */
void vc_match_text(const struct vc_matches *m, struct vc_text *text);
