/* progress.h - how far a run has come: what of it lies in checkpoints, beside weights and states. */
#pragma once

#include <math.h>

#include <vcompress/distill.h>

/* The answers of one judgement: for each row 1 where it is right: the label's, or, without labels, the teacher's. */
struct vc_answers {
    uint8_t *right;
    uint64_t n;
};

/* Counts and figures lie in checkpoints as they are: fields are only added. */
struct vc_run_counts {
    uint64_t step;         /* steps that are done */
    uint64_t control;      /* 1: these are steps of the control run */
    uint64_t control_done; /* 1: the control run is over */
    uint64_t saved;        /* the step of the last checkpoint */
    uint64_t looked;       /* the step of the last evaluation */
    uint64_t best_step;    /* of the best one; 0 if there is none yet */
    uint64_t waited;       /* evaluations since then */
    uint64_t n_evals;      /* of the run; of the control none is kept */
};

#define VC_LATE_LOSSES 16

struct vc_run_figures {
    double first_loss, last_loss, kd_gradient, ce_gradient;
    double control_accuracy, control_ce, control_agreement, control_kd;
    double best_figure, best_loss;
    /* Of the losses: the first, the sum of the first 16 and of their squares, and the last 16, that of step n at n %
     * 16: divergence.c. */
    double first, early, early_squares, late[VC_LATE_LOSSES];
};

/* Of the loss: scale.c. In checkpoints of runs with fp16, as it is. */
struct vc_loss_scale {
    double value;   /* in the next step */
    double good;    /* steps since it changed */
    double skipped; /* steps in which no weight was moved */
};

struct vc_run_progress {
    double began; /* seconds */
    bool control; /* this run is the control's */
    struct vc_run_counts counts;
    struct vc_run_figures figures;
    struct vc_loss_scale scale;
    struct vc_answers control_answers;
};

/* There are no answers that are right or wrong: the teacher's term alone tells how near the outputs are. */
static inline bool vc_is_measured(const struct vc_quality *q)
{
    return q->n_labels == 0 && isnan(q->agreement);
}

/* The figure that a student is called better or worse by. */
static inline double vc_figure_of(const struct vc_quality *q)
{
    if (q->n_targets != 0 && q->task == VC_NET_TASK_LABELS) {
        return isnan(q->f1) ? 1 : q->f1; /* no yes anywhere: all are right */
    }
    if (q->n_targets != 0) {
        return q->task == VC_NET_TASK_EMBEDDINGS ? q->cosine : -q->squared_error;
    }
    return vc_is_measured(q) ? -q->kd : q->n_labels == 0 ? q->agreement : q->accuracy;
}
