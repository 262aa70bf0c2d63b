/* trainer.h - a run of a distillation: what vc_distill opens, trains, judges and closes, and the parts of the run,
 * between its files:
 *
 *     distill_options.c  the options
 *     trainer_work.c  order of the work, gates; distill_pass.c has the pass that does it in a job (distill.c)
 *     setup.c     opens data and networks, checks that they fit each other
 *     memory_choice.c  makes programs that fit into the memory there is, counts it, takes it
 *     train.c     steps
 *     step_sum.c  the gradient of a step from those of its batches, also over ranks
 *     ranks_check.c  what ranks have in common
 *     scale.c     what the loss is multiplied by, so that gradients of 16 bits do not vanish
 *     divergence.c  losses that grow
 *     judge.c     answers on rows that are not trained with
 *     evaluations.c     the same while it trains: the best weights, and when to stop
 *     recalibrate.c  statistics without training
 *     metric.c    the figures that networks are judged by
 *     outputs.c   several outputs, each with a task of its own
 *     logits.c    answers into a file, which data/teacher_file.c reads */
#pragma once

#include "distill/data/batch.h"
#include "distill/data/teacher_file.h"
#include "distill/ranks/collectives.h"
#include "distill/run/progress.h"
#include "distill/update/learner.h"

#define VC_MAX_TEMPERATURE 1e4 /* of logits: any higher one makes all classes alike */

/* The steps of a run, and the rows of each. */
struct vc_run_steps {
    uint64_t n;         /* of the run */
    uint64_t rows;      /* of one step */
    uint64_t per_epoch; /* steps */
    uint64_t *order;    /* of the rows of `epoch` */
    uint64_t epoch;     /* UINT64_MAX: there is no order yet */
    /* Rows of a batch and batches of a step as the options had them, and what the number of rows made of the former. */
    uint64_t asked_batch, asked_accum, cut_batch;
};

/* The gradient of a step from those of its batches: step_sum.c. */
struct vc_step_sum {
    void *total;    /* of the gradients of the step, this rank's slice of them; NULL: a step is one batch */
    void *received; /* of other ranks; NULL if there are none */
    void *norms;    /* running statistics, then those of the batch of each rank; NULL: one process, or none move */
};

/* One of several outputs while its rows are compared: outputs.c. */
struct vc_head_work {
    struct vc_batch batch;
    void *logits, *teacher, *gradient; /* its part of the answers, a row behind the other */
    struct vc_loss_spec spec;          /* of the step */
    double weight;
    uint64_t counted[2]; /* SPANS: rows of the step with a start, and with an end */
};

/* Evaluations on the way: evaluations.c. */
struct vc_run_evals {
    struct vc_distill_eval *items; /* report->evals */
    uint64_t room;
    void *spare, *best; /* weights and statistics: a copy for a moment; those of the best evaluation */
};

struct vc_trainer {
    struct vc_ctx *ctx;
    struct vc_distill_options options;
    struct vc_distillation *report;
    struct vc_arena *texts; /* the report's */
    bool runs_teacher;      /* the teacher is a network */
    bool judge_only;        /* options.data are the rows of eval; nothing is trained */
    bool unjudged;          /* judge_only: answers are all that is wanted, so neither labels nor a teacher are needed */
    struct vc_taught_rows data, eval;
    struct vc_learner student;
    struct vc_net teacher;
    double *class_weights;    /* of the student's classes; NULL: they count alike */
    struct vc_matches *match; /* loss/match.h; NULL: only answers are compared */
    struct vc_run_steps steps;
    void *arena; /* all programs take turns in it; where a device computes, what the host reads and writes */
    struct vc_batch batch;
    struct vc_head_work *heads; /* of each output, where the network has several */
    struct vc_quality *parts;   /* judge_only: room for the figures of each; NULL: nobody asks */
    struct vc_step_sum sum;
    struct vc_run_evals evals;
    struct vc_run_progress progress;
    struct vc_checkpoint *checkpoint; /* NULL: none is written, none was resumed */
};

/* The whole of a run: opens, trains, judges. With options.dry_run it ends when everything is checked and counted. The
 * sentence of a missed gate, report->missed, is in the arena. vc_trainer_close after it, also after a failure. */
enum vc_status vc_trainer_work(struct vc_trainer *t, struct vc_arena *arena);

/* train_auto.c: with the device "auto" on the CPU or on a card, whichever is expected to be done sooner. */
enum vc_status vc_trainer_open(struct vc_trainer *t);
enum vc_status vc_trainer_open_here(struct vc_trainer *t); /* where the context says now */
/* The programs of the run, whose memory is counted: those that fit into options.memory.max_memory. */
enum vc_status vc_trainer_fit(struct vc_trainer *t);
/* Takes the memory that vc_trainer_open counted, and reads the weights. */
enum vc_status vc_trainer_prepare(struct vc_trainer *t);
/* Reads the student's weights once more; states, masks and counts are new. */
enum vc_status vc_trainer_begin(struct vc_trainer *t);
/* Reads the student's weights once more; what reading takes has the place of the arena meanwhile. */
enum vc_status vc_trainer_reload(struct vc_trainer *t);
/* Frees what only steps and judgements need, so that the output can be written within the same memory. */
void vc_trainer_release(struct vc_trainer *t);
void vc_trainer_close(struct vc_trainer *t);

/* The teacher's answers to n rows, which are taught; valid until the next call. of_logits: vc_teacher_files_read. stays: answers
 * of a network of the student's classes may stay on the device, for its loss. */
enum vc_status vc_trainer_ask(struct vc_trainer *t, struct vc_taught_rows *rows, bool of_logits,
                              const uint64_t *numbers, size_t n, bool stays, struct vc_teacher_rows *out);

/* Writes the gradients of the student to options.gradients; only_plan: refuses what can be refused about that file, and
 * writes nothing. */
enum vc_status vc_trainer_dump(struct vc_trainer *t, bool only_plan);

/* The bytes of t->sum.total, t->sum.received and t->sum.norms. */
uint64_t vc_trainer_total_bytes(const struct vc_trainer *t);
uint64_t vc_trainer_received_bytes(const struct vc_trainer *t);
uint64_t vc_trainer_norm_bytes(const struct vc_trainer *t);
/* Before the forward pass of a batch that is trained with. */
enum vc_status vc_trainer_before_batch(struct vc_trainer *t, struct vc_engine_pass *pass);
/* Behind the batches from `first` on, one of each rank, and the all-gather behind them: adds their gradients to those
 * of the step, and moves running statistics. Behind the last batch of the step the gradients of the weights are those
 * of the step, on all ranks. */
enum vc_status vc_trainer_sum(struct vc_trainer *t, struct vc_engine *engine, uint64_t first, uint64_t n_batches);
/* What the ranks have to have in common, before anything is trained. */
enum vc_status vc_trainer_ranks_check(struct vc_trainer *t);
/* On all but rank 0: nothing is told, nor written. */
void vc_trainer_ranks_quiet(struct vc_trainer *t);
/* The options let the ranks share a step; before memory is taken. */
enum vc_status vc_trainer_ranks_fit(struct vc_trainer *t);
/* Behind a run: all ranks have the same weights. */
enum vc_status vc_trainer_ranks_compare(struct vc_trainer *t);

/* A run begins: t->progress.scale. What was read of a checkpoint may be one; and it goes to the report. */
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

/* After a step: evaluates the student where it is time to, as options.eval.every says. *stop: there was no better one
 * for so long that the run is over. */
enum vc_status vc_trainer_evaluate(struct vc_trainer *t, bool *stop);
/* Room for n evaluations in the report. */
enum vc_status vc_trainer_room_for_evals(struct vc_trainer *t, uint64_t n);
/* After the last step: the weights become those that options.eval.keep asks for. */
enum vc_status vc_trainer_choose(struct vc_trainer *t);

/* Of the options that all calls have that only ask networks: the field of the first that is out of range; NULL: none. */
const char *vc_trainer_wrong_option(uint64_t batch, double temperature, enum vc_graph_precision precision,
                                    enum vc_teacher_loss loss, uint64_t net_task);
/* What is counted over rows of answers: sums, so that ranks can add theirs up. */
struct vc_tally {
    uint64_t n, n_labels, right, agree;
    double ce, kd, error, absolute; /* sums, but ce of SPANS, the mean; error: squared, of targets */
    /* LABELS with targets: yes where y has it, yes where it has not, no where y has yes. */
    uint64_t hits, wrong, missed;
    double overlap;   /* SPANS with labels: F1 of each row */
    uint64_t ends[2]; /* ... rows with a start, and with an end, among all */
    /* n_places: of MAPS with labels, three lists side by side: of each class the places that both have, those of y, those of
     * the answers. Behind them n_spread: of the teacher's outputs the mean of each value, the squared distances from it, and
     * of how many rows. Either may be 0: not asked for. received: the lists of a batch of each rank. */
    double *lists, *received;
    size_t n_places, n_spread;
    struct vc_tally *heads; /* of each output, where the network has several; NULL: it has not */
};

/* outputs.c: several outputs, each judged and trained as if it were the only one. */
bool vc_trainer_has_y(const struct vc_rows *rows);      /* y, or that of some output */
bool vc_trainer_has_labels(const struct vc_rows *rows); /* the same of labels of classes */
/* Work space, for batches of the run's size; vc_heads_bytes is what it takes. */
enum vc_status vc_heads_open(struct vc_trainer *t);
uint64_t vc_heads_bytes(const struct vc_trainer *t);
void vc_heads_close(struct vc_trainer *t);
/* What the rows of eval have to be for the outputs of the student, whose view of them is there. */
enum vc_status vc_heads_fit(struct vc_trainer *t, struct vc_taught_rows *rows);
/* The step that begins: rows that count, weights, shares. of_step: its teacher's share, temperature and scale. */
void vc_heads_step(struct vc_trainer *t, const struct vc_loss_spec *of_step, double part, const uint64_t *numbers,
                   size_t n);
/* The weighted sum of the losses of n rows, with the gradient of all answers. */
struct vc_loss_sums vc_heads_loss(struct vc_trainer *t, struct vc_engine *engine, const uint64_t *numbers, size_t n,
                                  const struct vc_engine_value *answers, const struct vc_teacher_rows *teacher);
/* The run with output k alone, for what is computed of it. */
struct vc_trainer vc_heads_view(const struct vc_trainer *t, size_t k);
/* An output's part of n rows, out of the rows of all outputs or back into them. */
void vc_heads_move(const struct vc_net *net, const struct vc_net *head, size_t n, void *all, void *part, bool back);
/* The teacher's part, in t->heads[k]; none where there is no teacher. */
struct vc_teacher_rows vc_heads_teacher(const struct vc_trainer *t, size_t k, size_t n,
                                        const struct vc_teacher_rows *teacher);
/* Labels of rows are classes of that network. */
enum vc_status vc_trainer_check_labels(struct vc_trainer *t, const struct vc_net *net, const struct vc_rows *rows);

enum vc_status vc_tally_begin(const struct vc_trainer *t, struct vc_tally *tally);
void vc_tally_end(const struct vc_trainer *t, struct vc_tally *tally);
/* Counts n rows of t->eval by their numbers, gathered in t->batch, with the logits that `network` answers (NULL: they are not known)
 * and the teacher's. right: 1 for each answer of all rows that is right; NULL: nobody asks. */
enum vc_status vc_tally_add(struct vc_trainer *t, const struct vc_network *network, const uint64_t *numbers, size_t n,
                            const void *logits, const struct vc_teacher_rows *teacher, struct vc_tally *tally,
                            uint8_t *right);
enum vc_status vc_tally_quality(const struct vc_trainer *t, const struct vc_tally *tally, struct vc_quality *quality);
/* Judges the student, or the teacher itself, by the rows of t->eval. answers may be NULL. */
enum vc_status vc_trainer_judge(struct vc_trainer *t, bool the_teacher, struct vc_quality *quality,
                                struct vc_answers *answers);
