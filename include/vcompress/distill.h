/* distill.h - trains a model until the model answers as another model does: what pruning or quantizing lost comes
 * back, and small models learn from large models. Definitions of losses and optimizers: docs/distillation.md.
 *
 *     data -> teacher -> logits -> loss -> gradients -> weights of the student -> the job and writers of every pass
 *
 * Labels are optional: by default the student learns from the teacher alone (alpha 1). The result is a function of the
 * files, the options and the machine's arithmetic; threads and time change nothing.
 *
 * Experimental: see experimental.h.
 */
#ifndef VCOMPRESS_DISTILL_H
#define VCOMPRESS_DISTILL_H

#include <vcompress/graph.h>
#include <vcompress/job.h>
#include <vcompress/memory.h>
#include <vcompress/prune.h>
#include <vcompress/ranks.h>
#include <vcompress/word.h>

VC_BEGIN_C

/* ---- networks and data ---- */

/* Numbers of all enums of this header are stable. */

/* What a network is for: by which loss it learns from the labels y, and by which figure it is judged.
 *
 *     CLASSES      one class for each row: y has integers from 0 on; cross-entropy; accuracy
 *     TOKENS       the same for each position of a row
 *     LABELS       several of many: y has 0 or 1 for each output; binary cross-entropy; F1
 *     REGRESSION   numbers: y has floats, as many for each row as the output; squared error or Huber loss; R2
 *     MAPS         a class for each place: the output is [rows, classes, height, width], y has integers; cross-entropy; IoU
 *     EMBEDDINGS   directions: y has floats, as many for each row as the output; 1 - cosine; cosine
 *     SPANS        first and last position of a part of the row: two outputs [rows, positions], or one [rows, positions, 2];
 *                  y has two integers for each row; the mean of both cross-entropies; exact match
 *
 * AUTO, the default: what y, the graph and "problem_type" of a config.json say (docs/distillation.md, "Tasks"). A loss that is
 * named (enum vc_teacher_loss) says it, too. */
enum vc_net_task {
    VC_NET_TASK_AUTO = 0,
    VC_NET_TASK_CLASSES = 1,
    VC_NET_TASK_TOKENS = 2,
    VC_NET_TASK_LABELS = 3,
    VC_NET_TASK_REGRESSION = 4,
    VC_NET_TASK_EMBEDDINGS = 5,
    VC_NET_TASK_MAPS = 6,
    VC_NET_TASK_SPANS = 7
};

/* A network: the computation and its weights. `beside` has the parameters for which `weights` has no tensors: the ONNX
 * file of the graph, if the graph was built with vc_graph_options.weights. NULL: `weights` has all parameters. */
struct vc_network {
    struct vc_graph *graph;
    const struct vc_model *weights;
    const struct vc_model *beside;
};

/* One of several outputs of a network, with a task and a y of its own: the array of the output's name (or that of
 * vc_data_options.arrays). The loss is the sum of weight * loss of each; the weight goes in a line to weight_end at the last step. */
struct vc_output_task {
    const char *output;    /* its name in the graph */
    enum vc_net_task task; /* AUTO: by y and the output */
    double weight;         /* above 0 */
    double weight_end;     /* 0: the weight stays */
};
#define VC_MOST_OUTPUTS 8

/* Rows of a file: an array for each input of the graph, whose first dimension counts rows. Optional arrays: the labels
 * `y`, integers, and the mask `mask`, 0 for rows that do not count. A row with a label below 0 has no label. Of a network for
 * spans, start_positions and end_positions may be in place of y. `y` of
 * floats are targets: the values that the output should have, as many for each row as the output has. */
struct vc_data_options {
    size_t struct_size; /* set by vc_data_defaults */
    const char *path;   /* any file that vc_model_open reads; has to be set */
    /* "x=train_images": the input x is the array train_images; y and mask are named in the same way. Other inputs are
     * arrays of their own names. A file with a single array gives this array to a single input, whatever the name.  */
    const char *const *arrays;
    size_t n_arrays;
    double scale;          /* float inputs become (value * scale - mean) / deviation */
    const char *mean;      /* "0.1307", or a number for each channel: "0.485,0.456,0.406"; NULL: 0 */
    const char *deviation; /* the same; NULL: 1 */
    uint64_t n_rows;       /* the first n_rows rows of the file; 0: all */
    const char *labels;    /* another file, whose single array is y, as in idx files; NULL: none */
    /* Not 0: the file has tokens and nothing else, `length` of them in a row (vc_open_options.row_tokens). */
    uint64_t length, token_bits;
    /* A part of the rows that are left: in an order drawn from part_seed, the rows from part_from % to part_to %. Parts
     * that do not overlap have no row in common: 0 to 60, 60 to 100. part_to 0: all rows. */
    uint64_t part_from, part_to, part_seed;
    int64_t ignored_label; /* a row with this label has none, as one with a label below 0; -1: no other label */
    /* `path` is a text: whose tokenizer makes tokens of it (vc_open_options.tokenizer). NULL: that beside the weights of the
     * network; of a student that has none, that of the teacher. */
    const char *tokenizer;
    /* The outputs that are judged and trained. 0: without y those that an array of the data is named as, with weight 1; else the
     * first output of floats. */
    const struct vc_output_task *outputs;
    size_t n_outputs;
};

/* All rows, values unchanged. The caller sets the path. */
static inline void vc_data_defaults(struct vc_data_options *options)
{
    vc_options_defaults("vc_data_options", options, sizeof *options);
}

/* ---- distillation ---- */

enum vc_schedule { VC_SCHEDULE_CONSTANT = 0, VC_SCHEDULE_COSINE = 1, VC_SCHEDULE_LINEAR = 2, VC_SCHEDULE_STEP = 3 };

/* The teacher's term of the loss, and, but for KD, REVERSE and JS, the term of y, if y has floats. KD: the divergence of the
 * softened answers. REVERSE: the divergence of the teacher's answers from the student's. JS: the Jensen-Shannon divergence
 * of both. BCE: the divergence of yes and no for each output (LABELS). MSE: the squared error of the outputs. HUBER: the same,
 * linear where the error is large. COSINE: 1 - the cosine of the outputs, for outputs that are not logits (sentence
 * encoders). AUTO, the default: KD for classes and tokens, BCE for labels, MSE for regression, COSINE for embeddings. Outputs
 * that do not look like logits (made by Relu, LayerNormalization, a division by a norm, ...) are refused if neither task nor
 * loss is named. */
enum vc_teacher_loss {
    VC_TEACHER_LOSS_KD = 0,
    VC_TEACHER_LOSS_MSE = 1,
    VC_TEACHER_LOSS_COSINE = 2,
    VC_TEACHER_LOSS_AUTO = 3,
    VC_TEACHER_LOSS_REVERSE = 4,
    VC_TEACHER_LOSS_JS = 5,
    VC_TEACHER_LOSS_BCE = 6,
    VC_TEACHER_LOSS_HUBER = 7
};
struct vc_teacher_loss_info {
    const char *word;    /* of --loss, "kd" */
    const char *measure; /* the name of vc_quality.kd: "divergence", "squared error", "1 - cosine", ... */
};
/* What is known of a loss, static, never NULL; both words are NULL for an unknown number. AUTO has no measure. */
VC_API const struct vc_teacher_loss_info *vc_teacher_loss_facts(enum vc_teacher_loss loss);

/* What a network answers with. LOGITS: the output as it is, taken for logits of classes. SOFTMAX: the output is shares
 * that add up to 1, made by Softmax or by what computes the same, and the answers are the logits before it. LOGARITHM:
 * the output is such shares, and the answers are their logarithm. SIGMOID: the output is the share of one class, and
 * the answers are logits of two classes: 0, and what is before the Sigmoid. PAIR: the same of an output that is a
 * logit. VALUES: the output as it is, compared by MSE, HUBER or COSINE. SIGMOIDS: the output has several shares of
 * their own, made by Sigmoid, and the answers are the logits before it. */
enum vc_answer_kind {
    VC_ANSWERS_LOGITS = 0,
    VC_ANSWERS_SOFTMAX = 1,
    VC_ANSWERS_LOGARITHM = 2,
    VC_ANSWERS_SIGMOID = 3,
    VC_ANSWERS_PAIR = 4,
    VC_ANSWERS_VALUES = 5,
    VC_ANSWERS_SIGMOIDS = 6
};

/* Rows of an epoch. SHUFFLED: in an order drawn from the seed, a new order for each epoch. FILE: in the order of the
 * file. */
enum vc_row_order { VC_ORDER_SHUFFLED = 0, VC_ORDER_FILE = 1 };

/* How a value inside the student is compared with a value inside the teacher. MSE: the squared error. ATTENTION: the
 * difference of attention maps, sums of squares over the channels. COSINE: 1 - cosine. DISTANCES, ANGLES, GRAM: how the rows of
 * a batch lie to each other: their distances, the angles they make, their products. Formulas: docs/distillation.md.
 */
enum vc_match_kind {
    VC_MATCH_MSE = 0,
    VC_MATCH_ATTENTION = 1,
    VC_MATCH_COSINE = 2,
    VC_MATCH_DISTANCES = 3,
    VC_MATCH_ANGLES = 4,
    VC_MATCH_GRAM = 5
};

/* A further term of the loss. `teacher` and `student` are names of values in the graphs (vc_graph_value.name). */
struct vc_match {
    const char *teacher, *student;
    enum vc_match_kind kind;
    double weight;
    double weight_change; /* the weight goes in a line to weight + weight_change at the last step; 0: it stays */
};

enum vc_all_reduce {
    VC_ALL_REDUCE_AUTO = 0, /* NCCL if all ranks have NCCL; else HOST */
    VC_ALL_REDUCE_HOST = 1, /* in the order of the batches, through host memory: the bits of one process */
    VC_ALL_REDUCE_NCCL =
        2 /* from device to device, in an order that depends on the number of ranks: equal within rounding */
};

/* Types of 16 bits to which f32 is rounded, to nearest even. bf16 has the range of f32; f16 ends at 65504. */
enum vc_half { VC_HALF_NONE = 0, VC_HALF_BF16 = 1, VC_HALF_F16 = 2 };

/* What is done with the student. VC_TASK_RECALIBRATE: the running statistics of batch normalization become the
 * statistics of the rows of `data`; nothing else changes. This task needs no teacher and no labels. */
enum vc_distill_task { VC_TASK_TRAIN = 0, VC_TASK_RECALIBRATE = 1 };

struct vc_quality;

/* Classes of the teacher and of the student. SAME: both have the same classes. COMMON: both have the first classes; the
 * others are rows that pad a vocabulary. Classes of the teacher alone are left out of the teacher's answers; a file
 * with the teacher's largest logits is refused then, because the file cannot give the sum over the other classes. The
 * teacher's probability of a class of the student alone is 0. */
enum vc_classes { VC_CLASSES_SAME = 0, VC_CLASSES_COMMON = 1 };

/* Which weights are written, if there were evaluations during training. */
enum vc_keep { VC_KEEP_BEST = 0, VC_KEEP_LAST = 1 };

/* One optimizer step, told when the step is done. Losses are means over the rows of the step: kd over the rows that
 * count, ce over the rows with a label. A term that the run does not have is NaN. */
struct vc_distill_step {
    uint64_t step, n_steps; /* the first step is 1 */
    bool control;           /* a step of the control run */
    double loss, kd, ce;    /* loss = alpha * kd + (1 - alpha) * ce, before the step */
    double grad_norm;       /* norm of all gradients together, before clipping */
    double lr;
    double scale;                      /* scale of the loss; 1 unless VC_HALF_F16 */
    uint64_t host_bytes, device_bytes; /* in use */
    double seconds;                    /* since the run began */
    uint64_t reserved_bytes; /* of the host: in use or kept for reuse; peak_bytes is the largest figure so far */
    uint64_t peak_bytes;
    /* NULL: a step. Else an evaluation after step number `step` (eval.every); the figures of a step are NaN then. */
    const struct vc_quality *eval;
    double sparsity;       /* share of zeros in the tensors of gradual pruning, in this step; NaN: no gradual pruning */
    const double *matches; /* the term of each of options.loss.matches, without its weight; `loss` has weight * term */
    size_t n_matches;
    /* VC_HALF_F16: a gradient was NaN or infinite with this scale, and so is grad_norm. No weight was moved; the next
     * scale is half of this scale. */
    bool skipped;
};

/* How many steps, and which rows in each step. */
struct vc_distill_training {
    uint64_t steps, epochs; /* give one of both: optimizer steps, or walks over the data */
    uint64_t batch;         /* rows computed at a time */
    uint64_t accum;  /* batches of one step; the gradients are the gradients of one batch of accum * batch rows */
    bool keep_batch; /* batch and accum never change to save memory */
    enum vc_row_order order;
    uint64_t seed; /* seed of the order and of new weights */
};

/* The terms of the loss. */
struct vc_distill_loss {
    enum vc_teacher_loss kind; /* the teacher's term */
    double alpha;              /* the share of the teacher's term; the rest is cross-entropy with the labels */
    double temperature;
    enum vc_classes classes;
    /* Values inside both networks: the loss gets weight * term for each pair. The teacher has to be a network. If the
     * widths of a pair differ (mse, cosine), a linear map between the two values is trained, and not written. */
    const struct vc_match *matches;
    size_t n_matches;
};

struct vc_distill_optimizer {
    enum vc_optimizer kind; /* any except adafactor */
    double lr, momentum, beta1, beta2, eps, weight_decay;
    bool nesterov;
    bool decay_1d; /* weight decay also moves tensors of one dimension: biases and scales of norms */
    double clip;   /* the largest norm of all gradients together; 0: no limit */
};

/* The learning rate of each step, from optimizer.lr. */
struct vc_distill_schedule {
    enum vc_schedule kind;
    uint64_t warmup;     /* number of steps in which the rate rises */
    uint64_t step_every; /* VC_SCHEDULE_STEP */
    double step_factor;
};

/* Which tensors are trained. */
struct vc_distill_trained {
    const char *const *freeze; /* globs, "encoder.*": tensors that are not trained */
    size_t n_freeze;
    bool frozen_norm; /* BatchNormalization computes with its running statistics, which stay */
    /* A tensor that an ONNX file calls by several names is trained as one tensor. Exporters write equal tensors once,
     * under several names; training would make such tensors different. Without this option they are refused. */
    bool allow_tied;
};

/* Weights that are 0 and stay 0. Without keep and refill, zeros stay in tensors of two or more dimensions of which 20
 * to 99.9 % are 0, as pruning leaves them; tensors in which all weights are 0 are trained, because new layers begin so.
 * The report has the list: vc_distillation.zeros. */
struct vc_distill_sparsity {
    bool keep;   /* zeros stay in all tensors with two or more dimensions */
    bool refill; /* zeros are trained like other weights */
    /* A file with masks (docs/formats.md): weights that a mask does not keep become 0 and stay 0. Tensors without a
     * mask follow the rules above. The file has to stay open during the call. NULL: none. */
    const struct vc_model *mask;
    /* Gradual pruning: which tensors, and their sparsity at the end (sparsity, scope, min_keep, rules, min_elems; the
     * other options keep their defaults). After step prune_first, then every prune_every steps, and for the last time
     * after step prune_last, the smallest weights become 0 and stay 0: docs/distillation.md. All three 0: 20 times over
     * the first three quarters of the steps. NULL: none. */
    const struct vc_prune_options *prune;
    uint64_t prune_first, prune_last, prune_every;
};

/* The types that the networks compute with. */
struct vc_distill_precision {
    enum vc_graph_precision kind;
    /* With VC_GRAPH_F32: while the student trains, its values, their gradients and the copies of the weights that
     * compute are rounded to 16 bits: the results are the results of hardware with 16 bits, bit by bit. Values that
     * wait for the backward pass lie in memory in 16 bits. The weights that are moved and written, all gradients,
     * losses and evaluations are f32. */
    enum vc_half half;
    double loss_scale; /* VC_HALF_F16: a power of two by which the loss is multiplied; 0: a scale that adapts itself
                          (docs/distillation.md) */
    /* In every step the network computes with weights that are rounded as a quantize pass with these options would
     * leave them: in the tensors that this pass changes, symmetric, without aims. INT8, F16, BF16: the output has these
     * values, and quantizing the output changes none. Other targets: the output has codes that say these values.
     * Tensors that are quantized in the student's file are trained in this way without this option, too, and written as
     * codes again. NULL: none. */
    const struct vc_quantize_options *fake_quant;
    /* Each scale of int8 and Q8_0 (of fake_quant, or of a student with codes) is a share of the scale that the largest
     * magnitude gives. The share is trained, too; larger magnitudes are cut off. false: the share is 1. */
    bool learn_scales;
};

struct vc_distill_memory {
    /* The largest peak of the run in bytes; 0: no limit. A run with a larger peak gets smaller batches that accumulate
     * (not with training.keep_batch, and not with batch normalization, whose statistics would change); then parts are
     * computed again (if `recompute` is VC_RECOMPUTE_NONE). */
    uint64_t max_memory;
    /* If a device computes (vc_ctx_set_device): the same limit for device memory. 0: the memory of the device. */
    uint64_t device_memory;
    /* What of the forward pass is computed again in the backward pass, so that less memory is needed; the bits are the
     * same. None, sqrt, every, layer as in vc_memory_options; auto: the fewest multiply-adds with which the arena of
     * the programs takes at most `budget` bytes, or the bytes that max_memory leaves for the arena. */
    enum vc_recompute recompute;
    unsigned recompute_every;
    uint64_t budget;
};

/* Student and teacher judged by rows that are not in the training data. */
struct vc_distill_evaluation {
    const struct vc_data_options *rows; /* NULL: no evaluation */
    /* Instead of `teacher`: files with its answers to these rows, as in vc_distill_options.logits. */
    const struct vc_model *const *logits;
    size_t n_logits;
    /* Steps between two evaluations; 0: none before the last step. The last step has an evaluation, too. */
    uint64_t every;
    /* The run ends after this many evaluations in a row that are not better than the best; 0: never. */
    uint64_t early_stop;
    enum vc_keep keep; /* the weights of the best evaluation, or of the last step; without `every` of the last step */
    bool control;      /* a second run: the same student, rows and steps, with labels and without the teacher */
};

/* The state of the run in a file. */
struct vc_distill_checkpoint {
    /* npz or safetensors; written after every `every` steps, and when the call is cancelled. every 0: only when the
     * call is cancelled. An existing file is replaced if write->force is set, or if the run resumes from this file. */
    const char *path;
    uint64_t every;
    const char *resume; /* a checkpoint: the run continues from there, with the bits of a run without interruption */
};

struct vc_distill_parallel {
    struct vc_ranks *ranks; /* the processes that share the batches of each step (ranks.h); NULL: this process alone */
    enum vc_all_reduce all_reduce; /* what adds up gradients, if each rank has a device */
};

/* Conditions at the end of the run. If one fails, nothing is written, and the status is VC_E_GATE. */
struct vc_distill_gates {
    double min_accuracy; /* accuracy on eval.rows, a share from 0 to 1; 0: no gate */
    double max_drop;     /* how far the accuracy may be below the accuracy of the teacher; 1: no gate */
    /* A share of zeros: the tensors of vc_distillation.zeros, except tensors of zeros alone, and the tensors of
     * sparsity.prune together need as many zeros as pruning each tensor to this share makes. 0: no gate. */
    double expect_sparsity;
};

/* What the network is for, and how it learns from y. */
struct vc_distill_answers {
    enum vc_net_task net_task;
    double huber_delta; /* HUBER: up to this error the loss is quadratic */
    /* Of the cross-entropy with the labels of classes and tokens, as PyTorch has them: this share of each label is spread
     * over all classes, from 0 to below 1; and a weight for each class, "1,1,5" (NULL: 1 each): the term is divided by the
     * sum of the weights of the labels of the step. */
    double label_smoothing;
    const char *class_weights;
};

/* For vc_distill: the student is made from the teacher, and `student` is not set. */
struct vc_distill_derive {
    /* The share of units that stays in every group of neurons, channels or heads that can be cut (structured.h), a
     * decimal above 0 and below 1: "0.5". The units with the largest weights stay. NULL: all. Heads stay if the
     * output's configuration cannot state fewer heads (vc_distillation.heads_kept). */
    const char *width;
    const char *keep_layers; /* the layers that stay, as in vc_depth_options.keep; NULL: all */
    const char *layers;      /* vc_depth_options.layers */
};

/* Gates by the figures of a quality, each in its own unit; 0: no gate. A figure that the rows do not measure is refused. */
struct vc_metric_limits {
    double min_agreement, min_f1, min_r2, min_cosine, min_iou;
    double max_cross_entropy, max_mae, max_mse;
};

/* Where loss.temperature and loss.alpha are at the last step: they go there in a line, from the first step on. */
struct vc_distill_moving {
    double temperature_end; /* 0: it stays */
    double alpha_end;       /* below 0: it stays */
};

struct vc_distill_options {
    size_t struct_size; /* set by vc_distill_defaults */
    enum vc_distill_task task;
    struct vc_network student;
    struct vc_network teacher; /* graph NULL: no teacher; loss.alpha has to be 0 */
    /* Instead of `teacher`: files with its answers to the rows of `data`, as vc_logits writes them. Several files are
     * one teacher, whose probabilities are the mean of the files'. The files have to stay open. */
    const struct vc_model *const *logits;
    size_t n_logits;
    /* The computation of the student, a text or an ONNX file. NULL: with vc_job_add_distill what the source says
     * itself, or else the file of the teacher; with vc_distill the same for a student that is made from the teacher. */
    const char *graph_path;
    struct vc_distill_derive derive;
    const struct vc_data_options *data;   /* has to be set */
    const struct vc_write_options *write; /* the output; NULL, or a path of NULL: nothing is written */
    bool dry_run;                         /* check and count everything, train nothing */

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

    /* A file for the gradients of the first step, under the names of their tensors; NULL: none. An existing file is
     * replaced if write->force is set, or in a run that resumes; else the run is refused before its first step. */
    const char *gradients;
    void (*tell)(void *user, const struct vc_distill_step *step); /* may be NULL */
    void *user;
    struct vc_distill_answers answers;
    struct vc_metric_limits limits; /* of the student on eval.rows at the end, as `gates` */
    struct vc_distill_moving moving;
};

/* 400 steps of 64 rows by AdamW at 0.001, loss AUTO, temperature 2, alpha 1, f32. The caller sets student, data and teacher. */
static inline void vc_distill_defaults(struct vc_distill_options *options)
{
    vc_options_defaults("vc_distill_options", options, sizeof *options);
}

/* How well a network answers. Shares are from 0 to 1; NaN: the data have no labels, or there is no teacher. Outputs
 * that are compared by squared error or cosine have no agreement; without labels they are judged by kd, with targets by
 * squared_error. */
struct vc_quality {
    uint64_t n_rows, n_labels; /* rows that count; rows of these with a label */
    double accuracy;           /* share of rows whose largest logit is at the label */
    double ce;                 /* mean of -log softmax at the label */
    double agreement;          /* share of rows whose largest logit is at the teacher's largest */
    double kd; /* mean of the teacher's term, by options.loss.kind: the divergence at the temperature times the square
                * of the temperature, the squared error, or 1 - cosine */
    enum vc_teacher_loss loss;   /* by which answers are compared: never AUTO */
    enum vc_net_task task;       /* never AUTO */
    enum vc_answer_kind answers; /* what the answers are */
    uint32_t output;      /* number among the outputs of the graph; here, so that there are no bytes between members */
    uint64_t n_outputs;   /* classes, or values, of a row, or of each position of a row */
    uint64_t n_targets;   /* rows that count, if the data have targets; else 0 */
    double squared_error; /* mean of (output - target)^2 over all values; NaN: no targets */
    double r2;            /* 1 - squared errors / squared distances of the targets from the mean of each value; NaN:
                                    no targets, or `undefined` */
    /* MSE: the same with the teacher's outputs in place of targets. NaN: no teacher, another loss, or several ranks. */
    double teacher_r2;
    double absolute_error; /* mean of |output - target|; NaN: no targets */
    /* LABELS with targets: 2 right / (2 right + wrong + missed) of all yes. SPANS with labels: the same of the positions of both
     * spans, the mean of the rows. NaN: none, or `undefined`. */
    double f1;
    double cosine; /* EMBEDDINGS with targets: the mean cosine; NaN: none */
    /* MAPS with labels: intersection over union, the mean of the classes that y or the answers have; NaN: none, or several
     * ranks. */
    double iou;
    const char *undefined; /* why r2 or f1 is not defined for these rows, a sentence; NULL: it is */
    /* The data are a text: the bytes of it that the tokens with a label cover, and ce in bits for each of them; 0, NaN: none. */
    uint64_t n_bytes;
    double bits_per_byte;
    /* Of several outputs: the figures of each, n_parts at `parts`; those of all are n_rows, the worst accuracy, and kd,
     * the weighted sum of their losses.
     * A part has the name of its output, cut where it is longer. */
    size_t n_parts;
    struct vc_quality *parts;
    char name[64];
    /* SPANS with labels: share of the rows with both ends right, which is the accuracy, too; NaN: none */
    double exact_match;
};

/* A figure that a network is judged by. AUTO: the one of its task: accuracy, IoU, F1, R2, cosine or exact match with labels, else agreement with the
 * teacher (classes, tokens, labels), R2 or cosine of the teacher's outputs. */
enum vc_metric {
    VC_METRIC_AUTO = 0,
    VC_METRIC_ACCURACY = 1,
    VC_METRIC_AGREEMENT = 2,
    VC_METRIC_CROSS_ENTROPY = 3,
    VC_METRIC_F1 = 4,
    VC_METRIC_R2 = 5,
    VC_METRIC_MAE = 6, /* mean absolute error */
    VC_METRIC_MSE = 7, /* mean squared error */
    VC_METRIC_COSINE = 8,
    VC_METRIC_IOU = 9,
    VC_METRIC_EXACT_MATCH = 10
};
struct vc_metric_value {
    enum vc_metric metric;
    double value; /* of several outputs the worst one that has it; NaN: it was not measured */
    bool rises;   /* larger values are better */
};
/* The figure of a metric. AUTO: that of the task; of several outputs each has its own, and the whole has none. */
VC_API struct vc_metric_value vc_metric_figure(const struct vc_quality *quality, enum vc_metric metric);

/* A limit that is not met. */
struct vc_metric_miss {
    enum vc_metric metric;
    double value, limit; /* value NaN: it was not measured */
    const char *field;   /* "limits.min_r2", static */
};
/* One that was not measured, if there is such a one, else the first. False: all are met, or there are none. quality NULL: nothing was measured. */
VC_API bool vc_metric_missed(const struct vc_quality *quality, const struct vc_metric_limits *limits,
                             struct vc_metric_miss *out);

struct vc_distill_eval {
    uint64_t step;
    struct vc_quality quality;
};

/* The result of one of options.loss.matches: the term of the first step and of the last step, and whether a linear map
 * was trained between the two values. */
struct vc_match_figures {
    double first, last;
    bool projected;
};

/* A tensor of the student with zeros in its file. */
struct vc_distill_zeros {
    const char *name;
    uint64_t n, before, after; /* number of weights; zeros before and after training; `after` is 0 in a dry run */
    bool kept;                 /* zeros stayed 0; false: they were trained like other weights */
};

/* The result, owned by the library; freed with vc_result_free. */
struct vc_distillation {
    uint64_t n_rows, n_steps; /* rows of the data; steps done */
    double epochs;
    uint64_t batch, accum;
    size_t n_tensors;   /* tensors that are trained */
    uint64_t n_weights; /* weights of these tensors */
    uint64_t n_masked;  /* weights of these tensors that stay 0 */
    size_t n_frozen;    /* tensors of the graph that options, or the file, keep from being trained */
    /* Bytes of the arena, in which the programs of student and teacher take turns: its size, the least size of any
     * arrangement, its size without reuse. Bytes of the student's weights, gradients and optimizer states, and of the
     * teacher's weights. */
    uint64_t arena_bytes, least_bytes, naive_bytes;
    uint64_t weight_bytes, gradient_bytes, state_bytes, teacher_bytes;
    double first_loss, last_loss;
    double kd_gradient,
        ce_gradient; /* norms of the gradients of both terms at the logits of the first step, with alpha */
    bool evaluated;  /* options.eval.rows was given: `teacher`, `before` and `after` are set */
    struct vc_quality teacher, before, after;
    const char *control_reason; /* why there is no control run; NULL: there is a control run, or none was asked for */
    bool has_control;
    struct vc_quality control;
    /* Accuracy (agreement if there are no labels): `after` minus `control`, and the standard error of the difference,
     * from the pairs of answers to each row. */
    double gain, gain_error;
    const char *missed;              /* the gate that failed; NULL: no gate failed */
    const struct vc_report *written; /* report of the job that wrote the output; NULL: nothing was written */
    double seconds;
    /* The accuracy of the teacher's answers in files, over the rows with a label; NaN: no labels, or no files. */
    double teacher_accuracy;
    /* The options of the run; options that were not given have the values that the run took. */
    const struct vc_distill_options *options;
    /* Number of checkpoints that could not be written, and why the last of these failed; NULL: all were written. */
    uint64_t n_unsaved;
    const char *unsaved;
    uint64_t resumed; /* number of steps in the checkpoint from which the run resumed */
    /* Programs that train the student, for one batch: multiply-adds that a backward pass computes again, multiply-adds
     * of a forward pass. */
    uint64_t macs_again, macs_forward;
    /* Bytes that the library uses during steps: as planned, and the largest figure that was seen. Bytes of the programs
     * of both networks that only answer, for evaluation. With masks the plan counts a byte for every weight that may
     * have a mask. */
    uint64_t planned_bytes, peak_bytes, eval_bytes;
    uint64_t n_evals; /* evaluations before the end (options.eval.every) */
    const struct vc_distill_eval *evals;
    uint64_t best_step;  /* step of the best evaluation; 0: no evaluations */
    bool stopped;        /* ended by options.eval.early_stop, before all steps were done */
    uint64_t copy_bytes; /* bytes of the copy of the weights, for evaluations before the end */
    /* SHA-256 as hexadecimal digits, of the teacher (the graph as text, the weights as doubles, as in vc_logits; NULL:
     * the teacher is files) and of all inputs of the rows in the training data. NULL after a dry run, and in a build
     * without SHA-256. */
    const char *teacher_sha256, *data_sha256;
    uint64_t n_planned; /* steps of the whole run, by the options */
    /* Gradual pruning: number of weights in its tensors (0: no gradual pruning); zeros of these before the first step;
     * zeros at the end; the schedule. */
    uint64_t prune_weights, prune_begin, prune_end;
    uint64_t prune_first, prune_last, prune_every;
    size_t n_unread; /* tensors of the graph that are not trained, because no logit depends on them */
    /* Fake quantization: number of tensors, number of weights, bytes of the float copies with their
     * scales, scheme of the first tensor: "int8/channel". 0 and NULL: none. */
    uint64_t n_fake_quant_tensors, n_fake_quant_weights, fake_quant_bytes;
    const char *fake_quant;
    /* Memory of the device that computes: as planned, and the largest figure that was seen; 0: no device. */
    uint64_t device_planned_bytes, device_peak_bytes;
    const struct vc_match_figures *matches; /* in the order of options.loss.matches */
    size_t n_matches;
    uint64_t n_skipped;      /* steps in which no weight was moved (vc_distill_step.skipped) */
    double loss_scale;       /* scale of the loss in the next step; 1 unless VC_HALF_F16 */
    double fake_quant_share; /* options.precision.learn_scales: mean of all shares at the end; NaN: scales are not
                                learned */
    const char *all_reduce;  /* if each rank has a device: "NCCL 2.27.3" or "host" added up the gradients; else NULL */
    const char *unscaled;    /* name of a float input that holds bytes, 0 to 255 without scaling; NULL: none */
    const char *heads_kept;  /* options.derive.width: why neurons and channels were cut and no heads; else NULL */
    const char *no_graphs; /* why the device was asked for each instruction by itself, not for CUDA graphs; else NULL */
    /* Trained tensors of two or more dimensions with at least 20 % zeros, or with zeros that are kept. */
    const struct vc_distill_zeros *zeros;
    size_t n_zeros;
    const char *note;            /* the note of the student's graph, if the graph computes otherwise than its file says
                         (vc_graph_lists.note); NULL: none */
    enum vc_answer_kind answers; /* what the student answers with */
    uint64_t n_outputs;          /* classes, or values, of a row or of a position */
    enum vc_net_task net_task;   /* what the student is for; never AUTO */
    const char *tasks;           /* of several outputs: "kind: classes, price: regression"; NULL: there is one */
    bool nothing_to_learn;       /* MSE, COSINE: the student's outputs are the teacher's already; no weight was moved */
    /* Device "auto": seconds that the steps are expected to take on 16 processors and on a card; 0: a device was named. Why
     * the CPU trains; NULL: a card does, or the device was named. */
    double expected_cpu_seconds, expected_card_seconds;
    const char *device_reason;
    /* Tensors that are trained, and whose gradient in the first step is 0 everywhere, as that of the weights of a state
     * that begins with zeros; the first one. */
    size_t n_idle;
    const char *idle;
};

/* Adds distillation to a job. The student is what the passes before this pass leave of the job's source. Ignored are
 * options->student (except its graph, if no earlier pass changes anything), options->write and dry_run:
 * vc_write_options has a dry_run. Everything that the options point to outlives the job.
 *
 * vc_job_plan trains: it plans all passes without training, so that everything is checked before the first step, then
 * trains, then plans the later passes with the trained weights. With vc_write_options.dry_run vc_job_plan plans and
 * does not train. If a gate fails (min_accuracy, max_drop, a student that was better before), vc_job_plan returns
 * VC_E_GATE, and the report is complete. vc_report.distillations has the figures. */
VC_API enum vc_status vc_job_add_distill(struct vc_ctx *ctx, struct vc_job *job,
                                         const struct vc_distill_options *options);

/* A job with this pass alone: trains, evaluates, writes. Returns VC_E_GATE if a gate failed, or if the student answers
 * worse on `eval` than before; *out is complete then, and nothing was written. Returns VC_E_UNSUPPORTED if nodes cannot
 * be trained; the sentence names the first. *out is NULL after every failure except VC_E_GATE. */
VC_API enum vc_status vc_distill(struct vc_ctx *ctx, const struct vc_distill_options *options,
                                 struct vc_distillation **out);

/* Weight initialization of a new network: the tensors of a text (vc_graph_is_text), with the shapes that follow from
 * the text, as f32. Weights with two or more dimensions, and their biases, are uniform between -b and b, b = 1 /
 * sqrt(inputs of one output); norms begin as the identity. The same seed gives the same numbers everywhere. The caller
 * closes the model with vc_model_close. As a student the model needs the graph of vc_graph_open with
 * `weights` = *out. */
VC_API enum vc_status vc_network_init_weights(struct vc_ctx *ctx, const char *path, uint64_t seed,
                                              struct vc_model **out);

/* ---- evaluation ---- */

struct vc_evaluate_options {
    size_t struct_size; /* set by vc_evaluate_defaults */
    struct vc_network network;
    struct vc_network teacher;          /* graph NULL: no teacher */
    const struct vc_data_options *data; /* has to be set */
    uint64_t batch;
    double temperature;
    enum vc_graph_precision precision;
    enum vc_teacher_loss loss; /* how outputs are compared, with the teacher or with targets */
    enum vc_net_task net_task;
    double huber_delta;
    struct vc_quality *parts; /* room for VC_MOST_OUTPUTS, to which vc_quality.parts points; NULL: not asked for */
};

/* 64 rows at a time, temperature 2, f32, loss AUTO. */
static inline void vc_evaluate_defaults(struct vc_evaluate_options *options)
{
    vc_options_defaults("vc_evaluate_options", options, sizeof *options);
}

VC_API enum vc_status vc_evaluate(struct vc_ctx *ctx, const struct vc_evaluate_options *options,
                                  struct vc_quality *out);

/* The n layers of options->network, a model whose own file says what it computes, without which alone its answers
 * change least by vc_quality.kd, with the network itself as the teacher. layers: as in vc_depth_options. *drop: their
 * numbers for vc_depth_options.drop, "7,3"; *why: the figures of all layers that can go. The caller frees both with
 * vc_text_free. VC_E_ARGUMENT: so many cannot go. */
VC_API enum vc_status vc_layers_least(struct vc_ctx *ctx, const struct vc_evaluate_options *options, const char *layers,
                                      uint64_t n, char **drop, char **why);

/* ---- answers in a file ---- */

struct vc_logits_options {
    size_t struct_size; /* set by vc_logits_defaults */
    struct vc_network network;
    const struct vc_data_options *data;   /* has to be set */
    const struct vc_write_options *write; /* has to have a path */
    uint64_t batch;
    uint64_t topk;       /* the topk largest logits of each row, and the sum over all; 0: all logits */
    double temperature;  /* temperature of this sum, at which a student can learn from the topk logits */
    enum vc_dtype dtype; /* type of the logits: f16, f32, f64 */
    enum vc_graph_precision precision;
    enum vc_teacher_loss loss; /* MSE, HUBER, COSINE: the file has the values of the output, for such a loss */
    uint64_t net_task;         /* an enum vc_net_task */
    struct vc_quality *parts;  /* as in vc_evaluate_options */
};

/* All logits as f32, 64 rows at a time, temperature 2, loss AUTO. */
static inline void vc_logits_defaults(struct vc_logits_options *options)
{
    vc_options_defaults("vc_logits_options", options, sizeof *options);
}

/* Writes the answers of the network to every row, with digests of the network and of the rows: the teacher of a
 * distillation without a teacher in memory. docs/distillation.md has the arrays. *out: how well the network answers, if
 * there are labels. */
VC_API enum vc_status vc_logits(struct vc_ctx *ctx, const struct vc_logits_options *options, struct vc_quality *out);

/* Whether the file has answers from vc_logits; the names of its arrays say so. */
VC_API bool vc_logits_is(const struct vc_model *model);

VC_END_C
#endif
