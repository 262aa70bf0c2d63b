/* trainer.h - one distillation from inside: what vc_distill opens, trains, judges and closes. The state that all
 * folders share, and nothing that works on it:
 *
 *     math/    losses, sums and updates of arrays
 *     data/    rows, answers of teachers in files, a network with its programs
 *     ranks/   processes that train together
 *     loss/    the loss of a batch; values inside both networks that are compared (match.c)
 *     update/  norms of gradients, the optimizer's step, on the CPU and on a device; masks; grids of codes
 *     run/     the order of the work: trainer_run.h */
#ifndef VC_DISTILL_TRAINER_H
#define VC_DISTILL_TRAINER_H

#include <math.h>

#include "core/base/arena.h"
#include "distill/data/network.h"
#include "distill/data/teacher_file.h"
#include "distill/math/step_table.h"
#include "distill/ranks/meeting.h"
#include "kernels/train_codes.h"

/* What rows of data look like to both networks. */
struct vc_trainer_rows {
    struct vc_rows rows;
    bool open;
    struct vc_rows_view student, teacher;
    struct vc_teacher_files files; /* answers to these rows */
    bool taught;                   /* there is a teacher for them: the network, or files */
};

/* The answers of one judgement: for each row 1 where it is right: the label's, or, without labels, the teacher's. */
struct vc_answers {
    uint8_t *right;
    uint64_t n;
};

/* What a run has come to, beside weights and states. Both lie in checkpoints as they are: fields are only added. */
struct vc_trainer_counts {
    uint64_t step;         /* steps that are done */
    uint64_t control;      /* 1: these are steps of the control run */
    uint64_t control_done; /* 1: the control run is over */
    uint64_t saved;        /* the step of the last checkpoint */
    uint64_t looked;       /* the step of the last evaluation */
    uint64_t best_step;    /* of the best one; 0: there is none yet */
    uint64_t waited;       /* evaluations since then */
    uint64_t n_evals;      /* of the run; of the control none is kept */
};

#define VC_LATE_LOSSES 16

struct vc_trainer_figures {
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

/* Weights that are updated together (update.c). */
struct vc_update_block {
    size_t weight; /* entry of the student's weights */
    size_t first, n;
    double squares; /* of its gradients */
};

struct vc_trainer {
    struct vc_ctx *ctx;
    struct vc_distill_options options;
    struct vc_distillation *report;
    bool f64;
    const struct vc_step_table *step; /* losses and updates, for this processor */
    bool runs_teacher;                /* the teacher is a network */
    bool judge_only;                  /* options.data are the rows of eval; nothing is trained */
    bool unjudged; /* judge_only: answers are all that is wanted, so neither labels nor a teacher are needed */
    struct vc_trainer_rows data, eval;
    struct vc_net student, teacher;
    uint64_t n_steps, per_step, steps_per_epoch;
    uint64_t *order; /* of the rows of `epoch` */
    uint64_t epoch;  /* UINT64_MAX: there is no order yet */
    void *arena;     /* all programs take turns in it */
    void *state_block;
    struct vc_trainer_state {
        void *m, *v;                  /* numbers, or codes, of train_codes.h ... */
        float *m_factors, *v_factors; /* ... of each block of which this is the factor; NULL: numbers */
        void *master;  /* what the optimizer moves, where the network computes with what is made of it; else NULL */
        uint8_t *keep; /* NULL: nothing is masked */
        uint64_t n_masked;
    } * states; /* by entry of the student's weights */
    size_t n_states;
    struct vc_trainer_zeros {
        uint64_t n;  /* weights that are 0 in the student's file, of a tensor with two or more dimensions */
        bool masked; /* a mask of the file, or its zeros, are kept from being trained */
    } * zeros;       /* by entry of the student's weights: masks.c */
    struct vc_dynamic_maps *maps;   /* of codes; NULL: no states are coded */
    struct vc_update_block *blocks; /* of weights that are updated together: update.c */
    size_t n_blocks;
    void *total;    /* of the gradients of the step, this rank's slice of them; NULL: a step is one batch */
    void *received; /* of other ranks; NULL: there are none */
    void *norms;    /* running statistics, then those of the batch of each rank; NULL: one process, or none move */
    struct vc_train_device *device;   /* NULL: the CPU computes */
    struct vc_device_step *on_device; /* device_step.h */
    void *device_arena;   /* all programs take turns in it; then `arena` has what the host reads and writes */
    void *device_room;    /* host memory of device_step.c */
    double *row;          /* n_classes for each worker, and sums of each row: step_loss.c */
    void *teacher_logits; /* of one batch */
    int64_t *labels;      /* of one batch */
    uint8_t *mask;        /* of one batch */
    double began;         /* seconds */
    bool control;         /* this run is the control's */
    struct vc_trainer_counts counts;
    struct vc_trainer_figures figures;
    struct vc_loss_scale scale;
    struct vc_answers control_answers;
    struct vc_checkpoint *checkpoint; /* NULL: none is written, none was resumed */
    void *spare, *best;               /* weights and statistics: a copy for a moment; those of the best evaluation */
    struct vc_distill_eval *evals;    /* report->evals */
    uint64_t evals_room;
    struct vc_arena *texts;           /* the report's */
    struct vc_gradual *gradual;       /* gradual.h; NULL: masks stay as they begin */
    struct vc_grids *grids;           /* grid.h; NULL: the network computes with the weights that the optimizer moves */
    struct vc_matches *match;         /* match.h; NULL: only answers are compared */
    struct vc_match_figures *matched; /* report->matches */
};

double vc_seconds(void);

/* What the optimizer moves: of entry k of the student's weights. */
static inline void *vc_trainer_master(const struct vc_trainer *t, size_t k)
{
    return t->states[k].master != NULL ? t->states[k].master : t->student.weights->items[k].data;
}

/* There are no answers that are right or wrong: the teacher's term alone tells how near the outputs are. */
static inline bool vc_is_measured(const struct vc_quality *q)
{
    return q->n_labels == 0 && isnan(q->agreement);
}

/* The figure that a student is called better or worse by. */
static inline double vc_figure_of(const struct vc_quality *q)
{
    return vc_is_measured(q) ? -q->kd : q->n_labels == 0 ? q->agreement : q->accuracy;
}

#endif
