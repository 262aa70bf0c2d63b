/* batch.h - what is known of the rows of one batch beside their inputs: labels, mask, a network teacher's logits. */
#ifndef VC_DISTILL_BATCH_H
#define VC_DISTILL_BATCH_H

#include "distill/data/rows.h"

/* Arrays for the largest batch, by row, or by position of each row. */
struct vc_batch {
    int64_t *labels; /* VC_NO_LABEL: there is none */
    uint8_t *mask;   /* 0: it does not count */
    void *teacher_logits;
    double *row; /* n_classes for each worker, and sums of each row: step_loss.c */
};

/* Copies the labels and the mask of n rows, by their numbers. */
void vc_batch_gather(struct vc_batch *batch, const struct vc_rows *rows, const uint64_t *numbers, size_t n);
/* The first of n rows that has an input which is NaN or infinite, and the name of its array; n: all are finite. */
size_t vc_batch_bad_row(struct vc_ctx *ctx, const struct vc_rows_view *view, const uint64_t *numbers, size_t n,
                        const char **array);

#endif
