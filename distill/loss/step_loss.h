/* step_loss.h - the loss of a batch, on all threads of an engine. */
#pragma once

#include "distill/data/batch.h"
#include "distill/data/network.h"
#include "distill/math/step_table.h"

struct vc_step_loss {
    const struct vc_step_table *math;
    const struct vc_net *net;     /* the student */
    const struct vc_batch *batch; /* its mask and its row */
    const struct vc_loss_spec *spec;
    const struct vc_teacher_rows *teacher;
    struct vc_label_rows labels;
    /* SPANS: how many of the step's rows have a start, and an end; each is half of the term. Else NULL. */
    const uint64_t *ends;
};

/* The bytes of vc_batch.row, for batches of so many rows of logits. */
uint64_t vc_step_loss_bytes(const struct vc_net *net, uint64_t n_rows);
/* The same of row r of the batch alone; `room` has n_classes doubles. gradient: that of the batch, or NULL. */
struct vc_loss_sums vc_step_loss_row(const struct vc_step_loss *loss, size_t r, const void *logits, double *room,
                                     void *gradient);
/* The loss of n_rows rows of logits, those of the mask that count, and its gradient: vc_loss_f32 (step_math.h). */
struct vc_loss_sums vc_step_loss(const struct vc_step_loss *loss, struct vc_engine *engine, size_t n_rows,
                                 const void *logits, void *gradient);
