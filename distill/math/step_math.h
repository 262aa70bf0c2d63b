/* step_math.h - what a training step computes beside the network: losses with their gradients, sums over gradients,
 * updates of weights. Arrays in, arrays out; every function exists for float and for double, from one source
 * (loops/). All sums are doubles in one fixed order, so the same arrays give the same bits.
 *
 * Definitions: docs/distillation.md. */
#pragma once

#include <vcompress/distill.h>

#include "kernels/train_codes.h"

#define VC_NO_LABEL (-1)
/* The teacher's logit of a class that only the student has: its probability is 0 at every temperature that there is. */
#define VC_NEVER_LOGIT (-1e30)

/* ---- losses ---- */

/* What a loss compares: logits by their Softmax, logits by a Sigmoid each, or values. */
enum vc_loss_of { VC_OF_CLASSES, VC_OF_LABELS, VC_OF_VALUES };

static inline enum vc_loss_of vc_loss_compares(enum vc_teacher_loss kind)
{
    static const enum vc_loss_of of[] = {
#define VC_LOSS(KIND, word, OF, of_y, measure) [VC_TEACHER_LOSS_##KIND] = VC_OF_##OF,
#include "distill/math/losses.inc"
#undef VC_LOSS
    };

    return of[kind];
}

/* What the teacher says about one batch of rows. Either all logits, or the largest of them. */
struct vc_teacher_rows {
    const void *logits;     /* [n_rows, n_classes]; of top-k: [n_rows, k]. NULL: there is no teacher */
    const int32_t *classes; /* top-k: which class each of the k logits belongs to, [n_rows, k]; NULL: all are there */
    const double *rest;     /* top-k: log of the sum of exp(t / T) over all classes, [n_rows] */
    size_t k;
    bool on_device; /* what logits points to is not filled: they lie on the device (device_step.h) */
};

/* What y says about one batch of rows: classes, or floats, or nothing. */
struct vc_label_rows {
    const int64_t *classes; /* [n_rows], VC_NO_LABEL where there is none; NULL: y has no classes */
    const void *targets;    /* [n_rows, n_classes], of the type of the logits; NULL: y has no floats */
};

/* Which terms the loss has, and what they are divided by: the same for all batches of a step. */
struct vc_loss_spec {
    double alpha;                /* of the teacher's term; 1 - alpha: of the labels' */
    double temperature;          /* T */
    enum vc_teacher_loss kind;   /* the teacher's term, losses.inc; of top-k: KD */
    enum vc_teacher_loss y_kind; /* the term of y, if it has floats */
    double huber_delta;          /* HUBER */
    /* Rows of the whole optimizer step, of all of its micro-batches: those that the teacher's term counts, and those
     * with a label or targets. A term with no rows is 0. */
    uint64_t kd_rows, ce_rows;
    /* Of the labels' cross-entropy: loss_ce.h. With weights ce_weight is the sum of those of the labels of the step. */
    double label_smoothing, ce_weight;
    const double *class_weights; /* NULL: none */
    double scale;                /* a power of two that the gradient is multiplied by, before it is rounded; 0: as 1 */
};

/* Of one batch, to be added up over the micro-batches of a step. Already divided by the rows of the step; without
 * alpha. */
struct vc_loss_sums {
    double kd, ce;
};

/* The losses of n_rows rows of logits [n_rows, n_classes] and their gradient, of alpha * kd + (1 - alpha) * ce:
 *
 *     kd = T^2 / R * sum of p (log p - log q),  p = softmax(t / T),  q = softmax(z / T)
 *     ce = -1 / R * sum of log softmax(z)[y]
 *     d / dz = alpha * T / R * (q - p) + (1 - alpha) / R * (softmax(z) - onehot(y))
 *
 * Other kinds of kd, and ce of targets, are those of losses.inc. labels, mask: NULL, or one per row of the mask, 0 where it
 * does not count. gradient may be NULL; row has room for VC_LOSS_ROOM * n_classes doubles. Terms with p = 0 are 0. A row's
 * arithmetic is double; the gradient is rounded once. */
#define VC_LOSS_ROOM 3 /* a row's gradient, and the exponentials of both answers */
struct vc_loss_sums vc_loss_f32(const struct vc_loss_spec *spec, size_t n_rows, size_t n_classes, const float *logits,
                                const struct vc_teacher_rows *teacher, const struct vc_label_rows *labels,
                                const uint8_t *mask, double *row, float *gradient);
struct vc_loss_sums vc_loss_f64(const struct vc_loss_spec *spec, size_t n_rows, size_t n_classes, const double *logits,
                                const struct vc_teacher_rows *teacher, const struct vc_label_rows *labels,
                                const uint8_t *mask, double *row, double *gradient);

/* The class with the largest logit, the first of several; n_classes where one is NaN. */
size_t vc_answer_f32(const float *logits, size_t n_classes);
size_t vc_answer_f64(const double *logits, size_t n_classes);

/* ---- gradients ---- */

double vc_square_sum_f32(const float *x, size_t n);
double vc_square_sum_f64(const double *x, size_t n);
void vc_scale_f32(float *x, size_t n, double by);
void vc_scale_f64(double *x, size_t n, double by);
void vc_add_f32(float *to, const float *x, size_t n);
void vc_add_f64(double *to, const double *x, size_t n);
/* Running statistics behind one more batch, which counts for `share`, as batch normalization moves its own. */
void vc_move_statistics_f32(float *running, const float *of_batch, size_t n, double share);
void vc_move_statistics_f64(double *running, const double *of_batch, size_t n, double share);
/* The first element that is NaN or infinite; n: none. */
size_t vc_first_nonfinite_f32(const float *x, size_t n);
size_t vc_first_nonfinite_f64(const double *x, size_t n);

/* ---- updates ---- */

enum vc_update_kind { VC_UPDATE_SGD, VC_UPDATE_ADAM, VC_UPDATE_ADAMW };

/* One step of one tensor of n weights w with gradient g, as PyTorch's optimizers do it. t: number of the step, from 1.
 *
 *     SGD     g += decay w;  m = momentum m + g;  w -= lr (nesterov ? g + momentum m : m);   without momentum w -= lr g
 *     Adam    g += decay w;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
 *             w -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
 *     AdamW   w *= 1 - lr decay;  then Adam without decay */
struct vc_update {
    enum vc_update_kind kind;
    double lr, momentum, beta1, beta2, eps, decay;
    bool nesterov;
    uint64_t t;
};

/* m: of SGD with momentum and Adam; v: of Adam; else NULL. They begin as zeros. keep: NULL, or one per weight: where it
 * is 0 the weight is 0, and its gradient and states become 0, so nothing ever revives it. */
void vc_update_f32(const struct vc_update *update, size_t n, float *w, float *g, float *m, float *v,
                   const uint8_t *keep);
void vc_update_f64(const struct vc_update *update, size_t n, double *w, double *g, double *m, double *v,
                   const uint8_t *keep);

/* States as codes, a factor for each VC_CODED_BLOCK of them: the largest magnitude. */
struct vc_coded_states {
    const struct vc_dynamic_maps *maps;
    uint8_t *m, *v;
    float *m_factors, *v_factors;
};

/* The same with coded states, which are numbers for as long as their block is updated. */
void vc_update_coded_f32(const struct vc_update *update, size_t n, float *w, float *g,
                         const struct vc_coded_states *states, const uint8_t *keep);
void vc_update_coded_f64(const struct vc_update *update, size_t n, double *w, double *g,
                         const struct vc_coded_states *states, const uint8_t *keep);
