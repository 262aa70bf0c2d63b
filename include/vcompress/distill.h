/* distill.h - training a model until it answers as another one does: what pruning or quantizing lost comes back, and
 * small models learn from large ones. Definitions of losses and optimizers: docs/distillation.md.
 *
 *     data -> teacher -> logits -> loss -> gradients -> weights of the student -> the job and writers of every pass
 *
 * Labels are not needed: by default the student learns from the teacher alone (alpha 1). The result is a function of
 * the files, the options and the machine's arithmetic, not of threads or time.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_DISTILL_H
#define VCOMPRESS_DISTILL_H

#include <vcompress/graph.h>
#include <vcompress/job.h>
#include <vcompress/memory.h>
#include <vcompress/prune.h>
#include <vcompress/ranks.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- networks and data ---- */

/* A network: what it computes, and its weights. `beside` has the parameters that `weights` has no tensors for: the ONNX
 * file that the graph is from, where the graph was built with vc_graph_options.weights; NULL: all are in `weights`. */
struct vc_network {
    struct vc_graph *graph;
    const struct vc_model *weights;
    const struct vc_model *beside;
};

/* Rows of a file: an array for each input of the graph, whose first dimension counts rows, and, where they are there,
 * the labels `y`, integers, and the mask `mask`, 0 for rows that do not count. A label below 0: the row has none. */
struct vc_data_options {
    size_t struct_size; /* set by vc_data_defaults */
    const char *path;   /* any file that vc_model_open reads; has to be set */
    /* "x=train_images": the input x, or y, or mask, is that array. Others have their own names; a single array is the
     * single input whatever it is called. */
    const char *const *arrays;
    size_t n_arrays;
    double scale;          /* inputs that are floats are (value * scale - mean) / deviation */
    const char *mean;      /* "0.1307", or one for each channel, "0.485,0.456,0.406"; NULL: 0 */
    const char *deviation; /* the same; NULL: 1 */
    uint64_t n_rows;       /* only the first so many; 0: all */
    const char *labels;    /* another file, whose single array is y, as idx files have them; NULL: none */
    /* Not 0: the file is nothing but tokens, of which so many are a row (vc_open_options.row_tokens). */
    uint64_t length, token_bits;
};

VC_API void vc_data_defaults_sized(struct vc_data_options *options, size_t struct_size);

/* No path, which has to be set; values as they are, all rows. */
static inline void vc_data_defaults(struct vc_data_options *options)
{
    vc_data_defaults_sized(options, sizeof *options);
}

/* ---- distillation ---- */

/* Numbers of all enums here are stable. */
enum vc_schedule { VC_SCHEDULE_CONSTANT = 0, VC_SCHEDULE_COSINE = 1, VC_SCHEDULE_LINEAR = 2, VC_SCHEDULE_STEP = 3 };

/* The teacher's term: the divergence of the softened answers; the squared error of the outputs; 1 - their cosine, for
 * outputs that are no logits, as those of sentence encoders. */
enum vc_teacher_loss { VC_TEACHER_LOSS_KD = 0, VC_TEACHER_LOSS_MSE = 1, VC_TEACHER_LOSS_COSINE = 2 };
/* What vc_quality.kd is then called: "divergence", "squared error", "1 - cosine"; NULL for another number. */
VC_API const char *vc_teacher_loss_measure(enum vc_teacher_loss loss);

/* Rows of an epoch: in an order drawn from the seed, a new one for each epoch; or as they lie in the file. */
enum vc_row_order { VC_ORDER_SHUFFLED = 0, VC_ORDER_FILE = 1 };

/* How a value inside the student is compared with one inside the teacher: the squared error; the difference of
 * attention maps, sums of squares over the channels; 1 - cosine. docs/distillation.md has the formulas. */
enum vc_match_kind { VC_MATCH_MSE = 0, VC_MATCH_ATTENTION = 1, VC_MATCH_COSINE = 2 };

/* One more term of the loss: values by their names in the graphs (vc_graph_value.name). */
struct vc_match {
    const char *teacher, *student;
    enum vc_match_kind kind;
    double weight;
};

enum vc_all_reduce {
    VC_ALL_REDUCE_AUTO = 0, /* NCCL, where all ranks have it; else the host */
    VC_ALL_REDUCE_HOST = 1, /* in the order of the batches, through the memory of the hosts: the bits of one process */
    VC_ALL_REDUCE_NCCL = 2  /* from device to device: in an order that depends on their number, within rounding */
};

/* Numbers of 16 bits that f32 is rounded to, to nearest even: bf16 has the range of f32, f16 ends at 65504. */
enum vc_half { VC_HALF_NONE = 0, VC_HALF_BF16 = 1, VC_HALF_F16 = 2 };

/* What is done with the student. VC_TASK_RECALIBRATE: only the running statistics of batch normalization, which become
 * those of the rows of `data`; no teacher and no labels are needed. */
enum vc_distill_task { VC_TASK_TRAIN = 0, VC_TASK_RECALIBRATE = 1 };

struct vc_quality;

/* Classes of the teacher and of the student. COMMON: the first ones, that both have; the others are rows that pad a
 * vocabulary. Those of the teacher alone are left out of its answers (a file of its largest logits cannot say what is
 * left then, and is refused), those of the student alone are never the teacher's. */
enum vc_classes { VC_CLASSES_SAME = 0, VC_CLASSES_COMMON = 1 };

/* Which weights are written where there were evaluations on the way. */
enum vc_keep { VC_KEEP_BEST = 0, VC_KEEP_LAST = 1 };

/* One optimizer step, as soon as it is done. Losses are means over the rows of the step: kd over those that count, ce
 * over those that have a label. A term that the run does not have is NaN. */
struct vc_distill_step {
    uint64_t step, n_steps; /* from 1 on */
    bool control;           /* it is one of the control run */
    double loss, kd, ce;    /* loss = alpha * kd + (1 - alpha) * ce, before the step */
    double grad_norm;       /* of all gradients together, before clipping */
    double lr;
    double scale;                      /* of the loss: 1 but for VC_HALF_F16 */
    uint64_t host_bytes, device_bytes; /* in use */
    double seconds;                    /* since the run began */
    uint64_t reserved_bytes; /* of the host: in use or kept for reuse; and the most that was reserved so far */
    uint64_t peak_bytes;
    /* NULL: a step. Else an evaluation behind step number `step` (eval.every), and what belongs to a step is NaN. */
    const struct vc_quality *eval;
    double sparsity;       /* of the tensors that gradual pruning works on, in this step; NaN: there is none */
    const double *matches; /* the term of each of options.loss.matches, without its weight; loss has weight times it */
    size_t n_matches;
    /* VC_HALF_F16: a gradient was not finite with this scale, so that no weight was moved, and the next scale is half
     * of it; grad_norm is not finite. */
    bool skipped;
};

/* How long, and with which rows at a time. */
struct vc_distill_training {
    uint64_t steps, epochs; /* one of both: optimizer steps, or walks over the data */
    uint64_t batch;         /* rows computed at a time */
    uint64_t accum;         /* batches of one step, whose gradients are those of one batch of accum * batch rows */
    bool keep_batch;        /* batch and accum stay as they are, whatever memory there is */
    enum vc_row_order order;
    uint64_t seed; /* of the order, and of new weights */
};

/* What the loss is made of. */
struct vc_distill_loss {
    enum vc_teacher_loss kind; /* the teacher's term */
    double alpha;              /* its share; the rest is cross-entropy with the labels */
    double temperature;
    enum vc_classes classes;
    /* Values inside both networks that the student learns from, too: the loss has weight times the term of each pair.
     * The teacher has to be a network. Where the widths of a pair differ (mse, cosine), a linear map is trained between
     * them, which is not written. */
    const struct vc_match *matches;
    size_t n_matches;
};

struct vc_distill_optimizer {
    enum vc_optimizer kind; /* all but adafactor */
    double lr, momentum, beta1, beta2, eps, weight_decay;
    bool nesterov;
    bool decay_1d; /* weight decay also for tensors of one dimension: biases and scales of norms */
    double clip;   /* the largest norm of all gradients together; 0: any */
};

/* The learning rate of each step, from optimizer.lr. */
struct vc_distill_schedule {
    enum vc_schedule kind;
    uint64_t warmup;     /* steps in which the rate rises */
    uint64_t step_every; /* VC_SCHEDULE_STEP */
    double step_factor;
};

/* Which tensors are trained. */
struct vc_distill_trained {
    const char *const *freeze; /* globs: tensors that are not trained */
    size_t n_freeze;
    bool frozen_norm; /* BatchNormalization keeps its running statistics and computes with them */
    /* Tensors that an ONNX file calls by several names are trained as one. Exporters that keep equal tensors once write
     * so, and such tensors would become different ones in training: without the option they are refused. */
    bool allow_tied;
};

/* Weights that are 0 and stay so. Unless keep or refill say otherwise, zeros stay in tensors of two or more dimensions
 * of which 20 to 99.9 % are 0, as pruning leaves them; tensors of nothing but zeros are trained, as new layers are. The
 * report has the list: vc_distillation.zeros. */
struct vc_distill_sparsity {
    bool keep;   /* zeros stay in all tensors with two or more dimensions */
    bool refill; /* zeros are trained as all other weights */
    /* A file with masks (docs/formats.md): weights that are not kept become 0 and stay 0; for tensors without a mask
     * the rules above hold. NULL: none. It has to stay open during the call. */
    const struct vc_model *mask;
    /* Gradual pruning: which tensors, and how much in the end (sparsity, scope, min_keep, rules, min_elems; the rest as
     * the defaults have it). Behind prune_first steps, then every prune_every, and for the last time behind prune_last,
     * the smallest weights become 0 and stay 0: docs/distillation.md. All three 0: over the first three quarters of the
     * steps, 20 times. NULL: none. */
    const struct vc_prune_options *prune;
    uint64_t prune_first, prune_last, prune_every;
};

/* Numbers that the networks compute with. */
struct vc_distill_precision {
    enum vc_graph_precision kind;
    /* With VC_GRAPH_F32: while the student trains, its values, their gradients and the copies of the weights that it
     * computes with are rounded to 16 bits. Arrays stay f32, so this takes no less memory: it is what hardware with 16
     * bits does, bit by bit. The weights that are moved and written, their gradients, losses and evaluations are f32.
     */
    enum vc_half half;
    double loss_scale; /* VC_HALF_F16: a power of two that the loss is multiplied by; 0: one that adapts itself, as
                          docs/distillation.md says */
    /* The network computes with weights that are rounded as a quantize pass with these options would leave them, in
     * every step: of the tensors that it works on, symmetric, without aims. The output has these values, so that
     * quantizing it changes none. Tensors that are quantized in the student's file are trained so, too, without this
     * option, and written as codes again. NULL: none. */
    const struct vc_quantize_options *fake_quant;
    /* Scales of int8 and Q8_0 (of fake_quant, or of a student with codes) are a share of what the largest magnitude
     * gives, which is trained, too; what is larger is cut off. Else they are those of the largest magnitudes. */
    bool learn_scales;
};

struct vc_distill_memory {
    /* The peak of the run has to be within so many bytes; 0: it is as it is. Where it is not, batches become smaller
     * and accumulate (not with training.keep_batch, nor with batch normalization, whose statistics would change), then
     * parts are computed again (where `recompute` is none). */
    uint64_t max_memory;
    /* Where a device computes (vc_ctx_set_device): the same of its memory. 0: no limit but the device's own. */
    uint64_t device_memory;
    /* What of the forward pass is computed again in the backward pass, so that less is kept: the bits are the same.
     * None, sqrt, every, layer as in vc_memory_options; auto: as few multiply-adds as let the arena of the programs be
     * within `budget` bytes, or within what max_memory leaves it. */
    enum vc_recompute recompute;
    unsigned recompute_every;
    uint64_t budget;
};

/* Judging student and teacher by rows that are not trained with. */
struct vc_distill_evaluation {
    const struct vc_data_options *rows; /* NULL: nothing is judged */
    /* In place of `teacher`: files with its answers to these rows, as vc_distill_options.logits. */
    const struct vc_model *const *logits;
    size_t n_logits;
    uint64_t every;      /* steps between two evaluations; 0: none on the way. The last step has one, too */
    uint64_t early_stop; /* the run ends when so many evaluations in a row were not better than the best; 0: never */
    enum vc_keep keep;   /* the weights of the best evaluation, or of the last step; without `every` the latter */
    bool control;        /* the same student, rows and steps once more with labels and without the teacher */
};

/* The state of the run in a file. */
struct vc_distill_checkpoint {
    /* npz or safetensors; written after every so many steps, and when the call is cancelled. every 0: only then. A file
     * that is there is replaced where write->force is set, or where it is resumed. */
    const char *path;
    uint64_t every;
    const char *resume; /* a checkpoint: the run goes on from there, with the bits of one that was never interrupted */
};

struct vc_distill_parallel {
    struct vc_ranks *ranks; /* the processes that share the batches of each step, ranks.h; NULL: this one alone */
    enum vc_all_reduce all_reduce; /* ranks that have a device each: what adds up their gradients */
};

/* What has to hold in the end; else nothing is written, and the status is VC_E_GATE. */
struct vc_distill_gates {
    double min_accuracy; /* on eval.rows, a share from 0 to 1; 0: any */
    double max_drop;     /* how far the accuracy may be below that of the teacher; 1: any */
    /* Of the tensors of vc_distillation.zeros together, but for those of nothing but zeros, and of those of
     * sparsity.prune: at least so many weights are 0 as pruning each to this share makes. 0: any. */
    double expect_sparsity;
};

/* vc_distill: the student is made of the teacher, and `student` is not set. */
struct vc_distill_derive {
    /* Every group of neurons, channels or heads that can be cut (structured.h) keeps that share of them, those of the
     * largest weights; 0: all. Heads stay where the output's configuration cannot say that there are fewer
     * (vc_distillation.heads_kept). */
    double width;
    const char *keep_layers; /* ... and only these layers stay, as in vc_depth_options.keep; NULL: all */
    const char *layers;      /* vc_depth_options.layers */
};

struct vc_distill_options {
    size_t struct_size; /* set by vc_distill_defaults */
    enum vc_distill_task task;
    struct vc_network student;
    struct vc_network teacher; /* graph NULL: there is none, and loss.alpha has to be 0 */
    /* In place of `teacher`: files with its answers to the rows of `data`, as vc_logits writes them. Several are one
     * teacher, whose probabilities are the mean of theirs. They have to stay open. */
    const struct vc_model *const *logits;
    size_t n_logits;
    /* vc_job_add_distill: what the student computes, a text or an ONNX file; NULL: what the source says itself, or else
     * the file of the teacher. vc_distill: the same of a student that is made of the teacher. */
    const char *graph_path;
    struct vc_distill_derive derive;
    const struct vc_data_options *data;   /* has to be set */
    const struct vc_write_options *write; /* the output; NULL, or without a path: nothing is written */
    bool dry_run;                         /* everything is checked and counted, nothing is trained */

    struct vc_distill_training training;
    struct vc_distill_loss loss;
    struct vc_distill_optimizer optimizer;
    struct vc_distill_schedule schedule;
    struct vc_distill_trained trained;
    struct vc_distill_sparsity sparsity;
    struct vc_distill_precision precision;
    struct vc_distill_memory memory;
    struct vc_distill_evaluation eval;
    struct vc_distill_checkpoint checkpoint;
    struct vc_distill_parallel parallel;
    struct vc_distill_gates gates;

    /* The gradients of the first step go to this file, by the names of their tensors; NULL. One that is there is
     * replaced where write->force is set, or in a run that is resumed; else it is refused before any step. */
    const char *gradients;
    void (*tell)(void *user, const struct vc_distill_step *step); /* may be NULL */
    void *user;
};

VC_API void vc_distill_defaults_sized(struct vc_distill_options *options, size_t struct_size);

/* 400 steps of 64 rows by AdamW at 0.001, temperature 2, alpha 1, f32. Student, data and teacher have to be set. */
static inline void vc_distill_defaults(struct vc_distill_options *options)
{
    vc_distill_defaults_sized(options, sizeof *options);
}

/* How well a network answers. Shares from 0 to 1; NaN: the data have no labels, or there is no teacher. Without labels
 * outputs that are compared by their squared error or cosine have no agreement, and are judged by kd. */
struct vc_quality {
    uint64_t n_rows, n_labels; /* that count, and those of them with a label */
    double accuracy;           /* rows whose largest logit is the label's */
    double ce;                 /* mean of -log softmax at the label */
    double agreement;          /* rows whose largest logit is the teacher's */
    double kd;                 /* mean of the teacher's term: the divergence at the temperature, times its square; or
                                * the squared error, or 1 - cosine, as options.loss.kind says */
};

struct vc_distill_eval {
    uint64_t step;
    struct vc_quality quality;
};

/* What one of options.loss.matches came to: the term of the first step and that of the last, and whether a linear map
 * was trained between the two values. */
struct vc_match_figures {
    double first, last;
    bool projected;
};

/* A tensor of the student that came with zeros. */
struct vc_distill_zeros {
    const char *name;
    uint64_t n, before, after; /* weights; those that are 0; `after` is not there (0) in a dry run */
    bool kept;                 /* zeros stay 0; else they were trained as all others */
};

/* The library's; freed with vc_distillation_free. */
struct vc_distillation {
    uint64_t n_rows, n_steps; /* of the data; done */
    double epochs;
    uint64_t batch, accum;
    size_t n_tensors;   /* that are trained */
    uint64_t n_weights; /* of them */
    uint64_t n_masked;  /* of them, that stay 0 */
    size_t n_frozen;    /* tensors of the graph that the options, or its own file, keep from being trained */
    /* Bytes: of the arena that the programs of student and teacher take turns in, the least that any arrangement would
     * take, and that without reuse; of the student's weights, gradients and optimizer states; of the teacher's weights.
     */
    uint64_t arena_bytes, least_bytes, naive_bytes;
    uint64_t weight_bytes, gradient_bytes, state_bytes, teacher_bytes;
    double first_loss, last_loss;
    double kd_gradient, ce_gradient; /* norms of both terms at the logits of the first step, with their alphas */
    bool evaluated;                  /* the four below are there: with options.eval.rows */
    struct vc_quality teacher, before, after;
    const char *control_reason; /* why there is no control run; NULL: there is one, or none was asked for */
    bool has_control;
    struct vc_quality control;
    /* Of accuracy, or of agreement where there are no labels: after less control, and its standard error, from the
     * rows' pairs of answers. */
    double gain, gain_error;
    const char *missed;              /* the gate that was missed; NULL: none */
    const struct vc_report *written; /* of the job that wrote the output; NULL: none did */
    double seconds;
    /* Of files with its answers: the share of the rows with a label that they answer rightly; NaN: there are no labels,
     * or no files. */
    double teacher_accuracy;
    const struct vc_distill_options *options; /* of the run, with what was not given as it was taken */
    /* Checkpoints that could not be written, and why the last of them could not; NULL: all could. */
    uint64_t n_unsaved;
    const char *unsaved;
    uint64_t resumed; /* steps that a checkpoint had behind it */
    /* Of the programs that train the student: multiply-adds that a backward pass computes again, and those of a forward
     * pass, of one batch. */
    uint64_t macs_again, macs_forward;
    /* Bytes that the library has in use while steps are made, as planned, and the most that there were; of both
     * networks' programs that only answer, which evaluation needs. With masks the plan has a byte for every weight that
     * may have one. */
    uint64_t planned_bytes, peak_bytes, eval_bytes;
    uint64_t n_evals; /* on the way, with options.eval.every */
    const struct vc_distill_eval *evals;
    uint64_t best_step;  /* of the best of them; 0: there are none */
    bool stopped;        /* by options.eval.early_stop, before all steps were done */
    uint64_t copy_bytes; /* of weights, for evaluations on the way */
    /* SHA-256 as digits: of the teacher, of its graph as text and its weights as doubles, as vc_logits writes it; NULL:
     * the teacher is no network. Of the rows that were trained with, of all inputs. NULL, too, after a dry run, and
     * where the build has no SHA-256. */
    const char *teacher_sha256, *data_sha256;
    uint64_t n_planned; /* steps of the whole run, as the options say */
    /* Gradual pruning: weights of its tensors, 0 where there is none; those of them that were 0 before the first step,
     * and those that stay 0 in the end; the schedule. */
    uint64_t prune_weights, prune_begin, prune_end;
    uint64_t prune_first, prune_last, prune_every;
    size_t n_unread; /* tensors of the graph that are not trained because no logits depend on them */
    /* Weights on the grid of a quantization: tensors and their weights; what is kept of them in floats, with scales, in
     * bytes; the scheme of the first, "int8/channel". 0 and NULL: there are none. */
    uint64_t n_grid_tensors, n_grid_weights, grid_bytes;
    const char *grid;
    /* Memory of the device that computes, as planned and the most that there was; 0: none does. */
    uint64_t device_planned_bytes, device_peak_bytes;
    const struct vc_match_figures *matches; /* in the order of options.loss.matches */
    size_t n_matches;
    uint64_t n_skipped; /* steps in which no weight was moved (vc_distill_step.skipped) */
    double loss_scale;  /* that the next step would have: 1 but for VC_HALF_F16 */
    double
        grid_share; /* options.precision.learn_scales: the mean of all shares in the end; NaN: scales are not learned */
    const char
        *all_reduce; /* what added up the gradients of ranks with a device each: "NCCL 2.27.3", "host"; else NULL */
    const char *unscaled;   /* an input of floats that looks as if it were bytes, 0 to 255 and not scaled; NULL */
    const char *heads_kept; /* options.derive.width: why only neurons and channels were left out, but no heads; NULL */
    /* Trained tensors of two or more dimensions of which at least 20 % were 0, or of which zeros are kept. */
    const struct vc_distill_zeros *zeros;
    size_t n_zeros;
    const char *note; /* of the student's graph, where it computes otherwise than its file says (vc_graph_note); NULL */
};

/* Adds distillation to a job: the student is what the passes before it leave of the job's source. options->student and
 * options->write are not looked at (of options->student the graph, where no earlier pass changes anything), nor is
 * dry_run, which vc_write_options has. All that the options point to outlives the job.
 *
 * vc_job_plan trains: it plans all passes without training, so that everything is checked before the first step,
 * trains, and plans the passes behind it with the trained weights. With vc_write_options.dry_run it does the first of
 * these only. A missed gate (min_accuracy, max_drop, a student that was better before) is one of the job: vc_job_plan
 * returns VC_E_GATE, and the report is complete. vc_report.distillations has the figures. */
VC_API enum vc_status vc_job_add_distill(struct vc_ctx *ctx, struct vc_job *job,
                                         const struct vc_distill_options *options);

/* A job with that one pass: trains, evaluates, writes. VC_E_GATE: a gate was missed, or the student answers worse on
 * `eval` than it did before; *out is complete, nothing was written. VC_E_UNSUPPORTED: nodes that cannot be trained; the
 * sentence is the first. *out is NULL after other failures. */
VC_API enum vc_status vc_distill(struct vc_ctx *ctx, const struct vc_distill_options *options,
                                 struct vc_distillation **out);
VC_API void vc_distillation_free(struct vc_distillation *distillation); /* accepts NULL */

/* A network that nobody has trained: the tensors of a text (vc_graph_is_text) whose shapes follow from it, as f32. Of
 * weights with two or more dimensions, and of their biases, numbers are even between -b and b, b = 1 / sqrt(inputs of
 * one output); norms begin as the identity. The same seed gives the same numbers everywhere. Closed with
 * vc_model_close; it can be a student: its graph is that of vc_graph_read_text with it as vc_graph_options.weights. */
VC_API enum vc_status vc_network_draw(struct vc_ctx *ctx, const char *path, uint64_t seed, struct vc_model **out);

/* ---- evaluation ---- */

struct vc_evaluate_options {
    size_t struct_size; /* set by vc_evaluate_defaults */
    struct vc_network network;
    struct vc_network teacher;          /* graph NULL: there is none */
    const struct vc_data_options *data; /* has to be set */
    uint64_t batch;
    double temperature;
    enum vc_graph_precision precision;
    enum vc_teacher_loss loss; /* what the outputs are compared by */
};

VC_API void vc_evaluate_defaults_sized(struct vc_evaluate_options *options, size_t struct_size);

/* 64 rows at a time, temperature 2, f32. */
static inline void vc_evaluate_defaults(struct vc_evaluate_options *options)
{
    vc_evaluate_defaults_sized(options, sizeof *options);
}

VC_API enum vc_status vc_evaluate(struct vc_ctx *ctx, const struct vc_evaluate_options *options,
                                  struct vc_quality *out);

/* What came of it as one JSON document, schema vcompress.evaluate/1 (installed as evaluate-1.schema.json). missed: the
 * sentence of a gate of the caller's; NULL: none was missed. *text is freed with vc_text_free. */
VC_API enum vc_status vc_evaluate_json(struct vc_ctx *ctx, const struct vc_evaluate_options *options,
                                       const struct vc_quality *quality, const char *missed, char **text);

/* ---- answers in a file ---- */

struct vc_logits_options {
    size_t struct_size; /* set by vc_logits_defaults */
    struct vc_network network;
    const struct vc_data_options *data;   /* has to be set */
    const struct vc_write_options *write; /* has to have a path */
    uint64_t batch;
    uint64_t topk;       /* only the so many largest logits of each row, and the sum of all; 0: all */
    double temperature;  /* of that sum: what a student can learn at from them */
    enum vc_dtype dtype; /* of the logits: f16, f32, f64 */
    enum vc_graph_precision precision;
};

VC_API void vc_logits_defaults_sized(struct vc_logits_options *options, size_t struct_size);

/* All logits as f32, 64 rows at a time, temperature 2. */
static inline void vc_logits_defaults(struct vc_logits_options *options)
{
    vc_logits_defaults_sized(options, sizeof *options);
}

/* Writes what the network answers to every row, with digests of the network and of the rows: the teacher of a
 * distillation that has no teacher in memory. docs/distillation.md has the arrays. *out: how well it answers, as far as
 * there are labels. */
VC_API enum vc_status vc_logits(struct vc_ctx *ctx, const struct vc_logits_options *options, struct vc_quality *out);

/* The file has answers that vc_logits wrote; the names of its arrays say so. */
VC_API bool vc_logits_is(const struct vc_model *model);

/* The report of a distillation as one JSON document, schema vcompress.distill/1 (installed as distill-1.schema.json).
 * *text is freed with vc_text_free. */
VC_API enum vc_status vc_distill_json(struct vc_ctx *ctx, const struct vc_distill_options *options,
                                      const struct vc_distillation *distillation, char **text);

#ifdef __cplusplus
}
#endif
#endif
