/* batch.h - what is known of the rows of one batch beside their inputs: labels, mask, a network teacher's logits. */
#pragma once

#include "distill/data/rows.h"
#include "distill/math/step_math.h"

/* Arrays for the largest batch, by row, or by position of each row. */
struct vc_batch {
    int64_t *labels; /* VC_NO_LABEL if there is none */
    void *targets;   /* y of floats, as the network has them; NULL if there are none */
    uint8_t *mask;   /* 0: it does not count */
    void *teacher_logits;
    double *row; /* VC_LOSS_ROOM * n_classes for each worker, and sums of each row: step_loss.c */
};

/* Copies the labels, targets (as double: f64, or float) and the mask of n rows, by their numbers. */
void vc_batch_gather(struct vc_batch *batch, const struct vc_rows *rows, bool f64, const uint64_t *numbers, size_t n);
/* What a loss is told of them. */
static inline struct vc_label_rows vc_batch_labels(const struct vc_batch *batch, const struct vc_rows *rows)
{
    return (struct vc_label_rows){batch->labels, rows->targets != NULL ? batch->targets : NULL};
}
/* The first of n rows that has an input which is NaN or infinite, and the name of its array; n: all are finite. */
size_t vc_batch_bad_row(struct vc_ctx *ctx, const struct vc_rows_view *view, const uint64_t *numbers, size_t n,
                        const char **array);
