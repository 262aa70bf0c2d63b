/* trainer.h - one distillation from inside: what vc_distill opens, trains, judges and closes.
 *
 *     distill.c   options, order of the work, gates; distill_pass.c has the pass that does it in a job
 *     setup.c     opens data and networks, checks that they fit each other
 *     memory_choice.c  makes programs that fit into the memory there is, counts it, takes it
 *     train.c     steps
 *     step_loss.c the loss of a batch, on all threads
 *     step_sum.c  the gradient of a step from those of its batches, also over ranks (ranks/, device_ranks.c)
 *     scale.c     what the loss is multiplied by, so that gradients of 16 bits do not vanish
 *     update.c    norms of gradients, the optimizer's step; optimizer_states.c  what it keeps for each weight
 *     gradual.c   masks that grow on the way
 *     grid.c      weights that are rounded to what codes can say
 *     match.c     values inside both networks that are compared
 *     judge.c     answers on rows that are not trained with
 *     recalibrate.c  statistics without training
 *     device_step.c  losses, norms and updates on a device
 *     looks.c     the same while it trains: the best weights, and when to stop
 *     logits.c    answers into a file, which teacher_file.c reads */
#ifndef VC_DISTILL_TRAINER_H
#define VC_DISTILL_TRAINER_H

#include <math.h>

#include "core/base/arena.h"
#include "distill/network.h"
#include "distill/ranks/meeting.h"
#include "distill/step_table.h"
#include "distill/teacher_file.h"
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

/* The whole of a run: opens, trains, judges. With options.dry_run it ends when everything is checked and counted. The
 * sentence of a missed gate, report->missed, is in the arena. vc_trainer_close after it, also after a failure. */
enum vc_status vc_trainer_work(struct vc_trainer *t, struct vc_arena *arena);

enum vc_status vc_trainer_open(struct vc_trainer *t);
/* The programs of the run, whose memory is counted: those that fit into options.memory_bytes. */
enum vc_status vc_trainer_fit(struct vc_trainer *t);
/* Takes the memory that vc_trainer_open counted, and reads the weights. */
enum vc_status vc_trainer_prepare(struct vc_trainer *t);
/* Reads the student's weights once more; states, masks and counts are new. */
enum vc_status vc_trainer_begin(struct vc_trainer *t);
/* Reads the student's weights once more; what reading takes has the place of the arena meanwhile. */
enum vc_status vc_trainer_reload(struct vc_trainer *t);
/* Frees what only steps and judgements need, so that the output can be written within the same memory. */
void vc_trainer_release(struct vc_trainer *t);
/* The bytes of t->state_block, and its division between the weights: all states are 0. */
uint64_t vc_trainer_state_bytes(const struct vc_trainer *t);
void vc_trainer_place_states(struct vc_trainer *t);
void vc_trainer_close(struct vc_trainer *t);

/* Copies the labels and the mask of n rows to those of the trainer. */
void vc_trainer_gather(struct vc_trainer *t, const struct vc_rows *rows, const uint64_t *numbers, size_t n);
/* The first of n rows that has an input which is no finite number, and the name of its array; n: none. */
size_t vc_trainer_bad_row(struct vc_trainer *t, const struct vc_rows_view *view, const uint64_t *numbers, size_t n,
                          const char **array);
/* The teacher's answers to n rows, which are taught; valid until the next call. of_logits: vc_teacher_files_read. */
enum vc_status vc_trainer_ask(struct vc_trainer *t, struct vc_trainer_rows *rows, bool of_logits,
                              const uint64_t *numbers, size_t n, struct vc_teacher_rows *out);

/* Writes the gradients of the student to options.gradients; only_plan: refuses what can be refused about that file, and
 * writes nothing. */
enum vc_status vc_trainer_dump(struct vc_trainer *t, bool only_plan);

/* The bytes of t->total, t->received and t->norms. */
uint64_t vc_trainer_total_bytes(const struct vc_trainer *t);
uint64_t vc_trainer_received_bytes(const struct vc_trainer *t);
uint64_t vc_trainer_norm_bytes(const struct vc_trainer *t);
/* Before the forward pass of a batch that is trained with. */
enum vc_status vc_trainer_before_batch(struct vc_trainer *t, struct vc_engine_pass *pass);
/* Behind the batches from `first` on, one of each rank, and the meeting behind them: adds their gradients to those of
 * the step, and moves running statistics. Behind the last batch of the step the gradients of the weights are those of
 * the step, on all ranks. */
enum vc_status vc_trainer_sum(struct vc_trainer *t, struct vc_engine *engine, uint64_t first, uint64_t n_batches);
/* What the ranks have to have in common, before anything is trained. */
enum vc_status vc_trainer_ranks_check(struct vc_trainer *t);
/* On all but rank 0: nothing is told, nor written. */
void vc_trainer_ranks_quiet(struct vc_trainer *t);
/* The options let the ranks share a step; before memory is taken. */
enum vc_status vc_trainer_ranks_fit(struct vc_trainer *t);
/* Behind a run: all ranks have the same weights. */
enum vc_status vc_trainer_ranks_compare(struct vc_trainer *t);

/* The bytes of t->row, for batches of so many rows of logits. */
uint64_t vc_trainer_row_bytes(const struct vc_trainer *t, uint64_t n_rows);
/* The loss of n_rows rows of logits, those of t->mask that count, and its gradient: vc_loss_f32 (step_math.h). */
struct vc_loss_sums vc_trainer_loss(struct vc_trainer *t, struct vc_engine *engine, const struct vc_loss_spec *spec,
                                    size_t n_rows, const void *logits, const struct vc_teacher_rows *teacher,
                                    const int64_t *labels, void *gradient);

/* The bytes of t->blocks, and what is in them: the weights, cut into blocks for both functions below. */
uint64_t vc_trainer_cut_bytes(const struct vc_trainer *t);
void vc_trainer_cut(struct vc_trainer *t);
/* Divides the gradients by the scale of the loss. The norm of all of them; those of masked weights become 0. */
enum vc_status vc_trainer_measure(struct vc_trainer *t, struct vc_engine *engine, double *norm);
/* Clips, then moves the weights: step number `step`, from 0, of those that were not left out. */
enum vc_status vc_trainer_update(struct vc_trainer *t, struct vc_engine *engine, uint64_t step, double grad_norm,
                                 double lr);

/* A run begins: t->scale. What was read of a checkpoint may be one; and it goes to the report. */
void vc_scale_begin(struct vc_trainer *t);
bool vc_scale_holds(const struct vc_trainer *t);
void vc_scale_report(struct vc_trainer *t);
/* Behind a step whose gradients are finite; and behind one where they are not: false: it is no smaller scale that
 * helps, or none may be tried. */
void vc_scale_good(struct vc_trainer *t);
bool vc_scale_skip(struct vc_trainer *t);
/* The sentence for the latter. */
enum vc_status vc_scale_refuse(struct vc_trainer *t, uint64_t step, const char *tensor, size_t element);

/* Behind a step, its loss; then, behind the last one, VC_E_GATE where losses grew. */
void vc_divergence_note(struct vc_trainer *t, double loss);
enum vc_status vc_divergence_judge(struct vc_trainer *t);
/* A run ended with VC_E_GATE: its sentence is the gate that was missed, in the arena; the weights are the file's. */
enum vc_status vc_divergence_tell(struct vc_trainer *t, struct vc_arena *arena);

/* All steps of a run, with the teacher or, for the control, without. */
enum vc_status vc_trainer_run(struct vc_trainer *t);

/* VC_TASK_RECALIBRATE: the student has statistics; and they become those of the rows. */
enum vc_status vc_trainer_recalibrate_check(struct vc_trainer *t);
enum vc_status vc_trainer_recalibrate(struct vc_trainer *t);

/* After a step: evaluates the student where it is time to, as options.eval_every says. *stop: there was no better one
 * for so long that the run is over. */
enum vc_status vc_trainer_look(struct vc_trainer *t, bool *stop);
/* Room for n evaluations in the report. */
enum vc_status vc_trainer_room_for_looks(struct vc_trainer *t, uint64_t n);
/* After the last step: the weights become those that options.keep asks for. */
enum vc_status vc_trainer_choose(struct vc_trainer *t);

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

/* Judges the student, or the teacher itself, by the rows of t->eval. answers may be NULL. */
enum vc_status vc_trainer_judge(struct vc_trainer *t, bool the_teacher, struct vc_quality *quality,
                                struct vc_answers *answers);

#endif
