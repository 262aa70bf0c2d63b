/* train.c - the steps of a run: rows, teacher, loss, gradients, update.
 *
 * One step, of one rank; batches of other ranks come in through the all-gather and the sum:
 *
 *     choose_rows        rows of the step, from the order of the epoch
 *     for each round     batch: teacher, student forward, losses, gradients
 *                        all-gather of the losses; sum of the gradients (step_sum.c)
 *     measure            the norm of all gradients
 *     not finite         fp16: the step is left out, and the scale is halved; else the run ends with a reason
 *     update             weights move; fake quantization makes values on the grid of them
 *     note               figures of the report, the caller, evaluation, checkpoint
 *
 * A loss that is not finite is looked into before it ends the run: bad rows, a bad teacher, values beyond
 * 16 bits, or a rate that is too large each have their own sentence. */

#include "core/base/clock.h"
#include "distill/loss/match.h"
#include "distill/loss/step_loss.h"
#include "distill/math/real.h"
#include "distill/run/checkpoint.h"
#include "distill/update/device_step.h"
#include "distill/update/fake_quant.h"
#include "distill/update/gradual.h"
#include "distill/update/schedule.h"
#include "distill/update/update.h"
#include "passes/random.h"

/* Terms of the loss, without their shares. */
enum { KD, CE, MATCHES, N_TERMS = MATCHES + VC_MATCH_MOST };

/* One optimizer step in work.
 * The terms of a step are sums over all its rows on all ranks, each divided by the number of rows that
 * count for it. */
struct work {
    uint64_t step; /* from 0 on */
    double part;   /* of the run that is behind this step: 0 at the first one, 1 at the last one */
    const uint64_t *numbers;
    size_t n;
    struct vc_loss_spec spec;
    struct vc_match_counts counts;
    double sums[N_TERMS], own[N_TERMS]; /* of the step so far; of the last batch that was computed here */
    double grad_norm;
    bool skipped; /* no weight was moved */
    uint64_t counted[2];
    const uint64_t *ends; /* SPANS: the rows with a start, and with an end; else NULL */
    bool late;            /* the losses of a step of one batch may come with its norm */
};

/* ---- rows ---- */

/* The rows of the step, in the order of its epoch. The last step of an epoch may have fewer. */
static void choose_rows(struct vc_trainer *t, struct work *w)
{
    uint64_t epoch = w->step / t->steps.per_epoch;
    uint64_t first = w->step % t->steps.per_epoch * t->steps.rows;

    if (epoch != t->steps.epoch) {
        t->steps.epoch = epoch;
        if (t->options.training.order == VC_ORDER_SHUFFLED) {
            vc_random_order(t->options.training.seed, epoch, t->steps.order, (size_t)t->data.rows.n);
        }
        for (uint64_t i = 0; t->options.training.order == VC_ORDER_FILE && i < t->data.rows.n; i++) {
            t->steps.order[i] = i;
        }
    }
    w->numbers = t->steps.order + first;
    w->n = (size_t)vc_min_u64(t->steps.rows, t->data.rows.n - first);
}

/* The inputs of this rank's batches of the next step, and a teacher's answers to them, while this step computes. The
 * order of another epoch is not known yet. */
static void announce_next(struct vc_trainer *t, const struct work *w)
{
    uint64_t first = (w->step + 1) % t->steps.per_epoch * t->steps.rows;
    bool known = first != 0 && w->step + 1 < t->steps.n;
    uint64_t n = known ? vc_min_u64(t->steps.rows, t->data.rows.n - first) : 0;
    uint64_t stride = vc_ranks_size(t->options.parallel.ranks) * t->options.training.batch;

    for (uint64_t at = vc_ranks_rank(t->options.parallel.ranks) * t->options.training.batch; at < n; at += stride) {
        const uint64_t *numbers = t->steps.order + first + at;
        size_t n_rows = (size_t)vc_min_u64(t->options.training.batch, n - at);

        vc_rows_ahead(&t->data.rows, numbers, n_rows);
        if (!t->progress.control) {
            vc_teacher_files_ahead(&t->data.files, numbers, n_rows);
        }
    }
}

/* ---- what went wrong ---- */

/* Of a teacher whose logits are NaN or infinite. */
static enum vc_status refuse_teacher(struct vc_trainer *t, unsigned long long step)
{
    const struct vc_weights *w = t->runs_teacher ? t->teacher.weights : NULL;

    for (size_t k = 0; w != NULL && k < w->n; k++) {
        const struct vc_weight *item = &w->items[k];
        size_t bad =
            item->data != NULL ? vc_first_nonfinite(t->student.f64, item->data, (size_t)item->n) : (size_t)item->n;

        VC_REFUSE_IF(bad != item->n, t->ctx, VC_E_FORMAT,
                     "%s: %s has a NaN or infinite value at element %zu, and so have the teacher's "
                     "logits in step %llu",
                     t->options.teacher.weights->path, item->name, bad, step);
    }
    return vc_fail(t->ctx, VC_E_FORMAT, "%s%sstep %llu: the teacher's logits are NaN or infinite",
                   w != NULL ? t->options.teacher.weights->path : "", w != NULL ? ": " : "", step);
}

/* Why the loss of a batch is no number. */
static enum vc_status refuse_loss(struct vc_trainer *t, const struct work *w, const struct vc_engine *engine,
                                  size_t first, size_t n, const struct vc_teacher_rows *teacher)
{
    const uint64_t *numbers = w->numbers + first;
    const struct vc_engine_value *logits = vc_engine_output(engine, 0);
    unsigned long long step = (unsigned long long)w->step + 1;
    size_t n_elems = n * t->student.net.positions * (teacher->classes != NULL ? teacher->k : t->student.net.n_classes);
    const char *array = NULL;
    size_t bad = vc_batch_bad_row(t->ctx, &t->data.student, numbers, n, &array);

    VC_REFUSE_IF(bad != n, t->ctx, VC_E_FORMAT, "%s: row %llu of %s has a NaN or infinite value (step %llu)",
                 t->data.rows.model->path, (unsigned long long)vc_rows_in_file(&t->data.rows, numbers[bad]), array,
                 step);
    if (teacher->logits != NULL && vc_first_nonfinite(t->student.f64, teacher->logits, n_elems) != n_elems) {
        return refuse_teacher(t, step);
    }
    VC_REFUSE_IF(w->step == 0 && vc_first_nonfinite(t->student.f64, logits->data, (size_t)logits->n) != logits->n &&
                     t->options.precision.half == VC_HALF_NONE,
                 t->ctx, VC_E_FORMAT, "%s: the student's logits are NaN or infinite before its first step",
                 t->options.student.weights->path);
    if (isfinite(w->own[KD]) && isfinite(w->own[CE])) {
        VC_CALL(vc_match_refuse(t->match, engine, n, step, w->own + MATCHES));
    }
    VC_REFUSE_IF(t->options.precision.half == VC_HALF_F16, t->ctx, VC_E_GATE,
                 "step %llu: the loss is NaN: values inside the student are beyond 65504, where fp16 ends; %s "
                 "bf16 has room for them, and a smaller %s than %g keeps them from diverging",
                 step, vc_option(t->ctx, "precision.kind"), vc_option(t->ctx, "optimizer.lr"), t->options.optimizer.lr);
    return vc_fail(t->ctx, VC_E_GATE,
                   "step %llu: the loss is NaN: the student's logits are %s; a smaller %s than %g, or %s, keeps "
                   "it from diverging",
                   step,
                   vc_first_nonfinite(t->student.f64, logits->data, (size_t)logits->n) != logits->n ? "NaN or infinite"
                                                                                                    : "too large",
                   vc_option(t->ctx, "optimizer.lr"), t->options.optimizer.lr, vc_option(t->ctx, "optimizer.clip"));
}

/* Names the tensor and the element. Weights' gradients are on the host by now. */
static enum vc_status refuse_gradient(struct vc_trainer *t, const struct work *w)
{
    for (size_t k = 0; k < t->student.net.weights->n; k++) {
        const struct vc_weight *item = &t->student.net.weights->items[k];
        size_t bad = item->trained ? vc_first_nonfinite(t->student.f64, item->grad, (size_t)item->n) : (size_t)item->n;

        if (bad != item->n && t->options.precision.half == VC_HALF_F16) {
            return vc_scale_refuse(t, w->step + 1, item->name, bad);
        }
        VC_REFUSE_IF(bad != item->n, t->ctx, VC_E_GATE,
                     "step %llu: the gradient of %s is NaN or infinite at element %zu; a smaller %s than %g "
                     "keeps it from diverging",
                     (unsigned long long)w->step + 1, item->name, bad, vc_option(t->ctx, "optimizer.lr"),
                     t->options.optimizer.lr);
    }
    return vc_fail(t->ctx, VC_E_GATE, "step %llu: the gradients are too large", (unsigned long long)w->step + 1);
}

/* The first step has gradients, but for tensors that get theirs later, or never, which the report counts: weights of a
 * state that begins with zeros, weights before a layer of zeros, those of the other branch of an If. */
static enum vc_status check_gradients(struct vc_trainer *t, const struct work *w)
{
    if (w->grad_norm == 0 && t->student.gradual != NULL) {
        return VC_OK; /* it may be the teacher itself, until weights go */
    }
    VC_REFUSE_IF(w->grad_norm == 0, t->ctx, VC_E_ARGUMENT,
                 t->progress.control || !t->data.taught
                     ? "the student does not change: all gradients of the first step are 0"
                     : "the student does not change: all gradients of the first step are 0; it answers as "
                       "the teacher does already");
    for (size_t k = 0; !t->progress.control && k < t->student.net.weights->n; k++) {
        const struct vc_weight *item = &t->student.net.weights->items[k];

        if (item->trained && !item->shares && t->student.optimizer.states[k].n_masked < item->n &&
            t->student.math->square_sum(item->grad, (size_t)item->n) == 0 && t->report->n_idle++ == 0) {
            VC_CALL_ALLOC(t->report->idle = vc_arena_copy(t->ctx, t->texts, item->name, strlen(item->name)));
        }
    }
    return VC_OK;
}

/* ---- a step ---- */

/* Norms of both terms at the logits of the first batch, each with its share of the loss. */
static void compare_terms(struct vc_trainer *t, struct vc_engine *engine, const struct work *w, size_t n,
                          const struct vc_engine_value *logits, const struct vc_teacher_rows *teacher)
{
    const struct vc_teacher_rows none = {.logits = NULL};
    struct vc_loss_spec spec = w->spec;
    struct vc_step_loss loss = {t->student.math, &t->student.net, &t->batch, &spec, teacher, {NULL, NULL}, w->ends};
    size_t n_rows = n * t->student.net.positions;
    size_t n_elems = n_rows * t->student.net.n_classes;

    spec.scale = 1;
    (void)vc_step_loss(&loss, engine, n_rows, logits->data, logits->grad);
    t->report->kd_gradient = sqrt(t->student.math->square_sum(logits->grad, n_elems));
    loss.teacher = &none;
    loss.labels = vc_batch_labels(&t->batch, &t->data.rows);
    (void)vc_step_loss(&loss, engine, n_rows, logits->data, logits->grad);
    t->report->ce_gradient = sqrt(t->student.math->square_sum(logits->grad, n_elems));
}

/* All terms are numbers. */
static bool is_finite(const double terms[N_TERMS])
{
    bool finite = true;

    for (size_t k = 0; k < N_TERMS; k++) {
        finite = finite && isfinite(terms[k]);
    }
    return finite;
}

/* One batch of this rank: its losses into w->own, its gradients into the weights. The loss may be computed
 * on the device, if nobody asks for what lies on the host: matches inside the networks, and the comparison
 * of terms in the first batch. */
static enum vc_status batch(struct vc_trainer *t, struct work *w, size_t first, size_t n)
{
    struct vc_engine_pass pass = {.training = true, .step = w->step, .row = first, .norm_share = -1};
    struct vc_teacher_rows teacher = {.logits = NULL};
    const struct vc_step_loss loss = {t->student.math, &t->student.net, &t->batch,
                                      &w->spec,        &teacher,        vc_batch_labels(&t->batch, &t->data.rows),
                                      w->ends};
    const struct vc_match_batch inside = {.numbers = w->numbers + first,
                                          .n = n,
                                          .mask = t->batch.mask,
                                          .scale = t->progress.scale.value,
                                          .part = w->part,
                                          .counts = &w->counts};
    const struct vc_engine_value *logits;
    struct vc_engine *engine;
    struct vc_loss_sums sums;
    bool heads = t->student.net.n_heads != 0;
    bool compares = w->step == 0 && first == 0 && !t->progress.control && !heads;
    bool stays =
        !heads && vc_device_has_loss(&t->student, &w->spec, &teacher, &loss.labels) && t->match == NULL && !compares;
    bool late;

    memset(w->own, 0, sizeof w->own);
    VC_CALL(vc_weights_clear(t->student.net.weights));
    vc_batch_gather(&t->batch, &t->data.rows, t->student.f64, w->numbers + first, n);
    if (t->data.taught && !t->progress.control) {
        VC_CALL(vc_trainer_ask(t, &t->data, vc_loss_compares(w->spec.kind) != VC_OF_CLASSES, w->numbers + first, n,
                               stays && w->late, &teacher));
    }
    stays = stays && teacher.classes == NULL;
    late = stays && w->late;
    VC_CALL(vc_net_engine(&t->student.net, n, true, &engine));
    VC_CALL(vc_trainer_before_batch(t, &pass));
    vc_engine_keep_outputs(engine, stays);
    vc_engine_ask_faults_later(engine, late);
    VC_CALL(vc_net_forward(&t->student.net, engine, &t->data.student, w->numbers + first, n, &pass, &logits));
    if (compares) {
        compare_terms(t, engine, w, n, logits, &teacher);
    }
    if (heads) {
        sums = vc_heads_loss(t, engine, w->numbers + first, n, logits, &teacher);
    } else if (stays) {
        VC_CALL(vc_device_loss(&t->student, engine, &t->batch, &w->spec, n, &teacher, late, &sums));
    } else {
        sums = vc_step_loss(&loss, engine, n * t->student.net.positions, logits->data, logits->grad);
    }
    w->own[KD] = sums.kd;
    w->own[CE] = sums.ce;
    if (t->match != NULL) {
        VC_CALL(vc_match_batch(t->match, engine, &inside, t->progress.control ? NULL : w->own + MATCHES));
    }
    if (!is_finite(w->own)) {
        VC_CALL(vc_engine_fetch(engine, 0));
        return refuse_loss(t, w, engine, first, n, &teacher);
    }
    return vc_engine_backward(engine);
}

/* The batches of a step, of which this rank computes its share: losses, and gradients, added up in their order. */
static enum vc_status batches(struct vc_trainer *t, struct work *w, struct vc_engine *engine)
{
    struct vc_ranks *ranks = t->options.parallel.ranks;
    uint64_t n_batches = vc_ceil_div_u64(w->n, t->options.training.batch);
    uint64_t n_ranks = vc_ranks_size(ranks);
    size_t n_terms = MATCHES + t->options.loss.n_matches;

    for (uint64_t first = 0; first < n_batches; first += n_ranks) {
        uint64_t at = (first + vc_ranks_rank(ranks)) * t->options.training.batch;
        double own[N_TERMS] = {0};
        double alone[1][VC_COLLECTIVE_NUMBERS];
        double(*all)[VC_COLLECTIVE_NUMBERS] = ranks != NULL ? vc_ranks_numbers(ranks) : alone;
        enum vc_status status = VC_OK;

        if (at < w->n) {
            status = batch(t, w, (size_t)at, (size_t)vc_min_u64(t->options.training.batch, w->n - at));
            memcpy(own, w->own, sizeof own);
        }
        VC_CALL(vc_ranks_all_gather(t->ctx, ranks, status, own, n_terms, all));
        for (uint64_t k = 0; k < n_ranks && first + k < n_batches; k++) {
            for (size_t i = 0; i < n_terms; i++) {
                w->sums[i] += all[k][i];
            }
        }
        VC_CALL(vc_trainer_sum(t, engine, first, n_batches));
    }
    return VC_OK;
}

/* Losses that came with the norm. Where they, or indices, are none, the batch is computed once more, step by step, which finds
 * the reason. */
static enum vc_status take_late(struct vc_trainer *t, struct work *w)
{
    struct vc_loss_sums sums;
    bool late, fault;

    VC_CALL(vc_device_late(&t->student, &late, &sums, &fault));
    if (!late) {
        return VC_OK;
    }
    w->own[KD] = sums.kd;
    w->own[CE] = sums.ce;
    if (fault || !is_finite(w->own)) {
        w->late = false;
        VC_CALL(batch(t, w, 0, w->n));
    }
    w->sums[KD] += w->own[KD];
    w->sums[CE] += w->own[CE];
    return VC_OK;
}

/* A line for the caller. Terms that the loss does not have are NaN. */
static void tell(struct vc_trainer *t, const struct work *w, double loss, double lr)
{
    struct vc_distill_step step = {.step = w->step + 1,
                                   .n_steps = t->steps.n,
                                   .control = t->progress.control,
                                   .loss = loss,
                                   .kd = t->data.taught && !t->progress.control ? w->sums[KD] : NAN,
                                   .ce = w->spec.ce_rows != 0 ? w->sums[CE] : NAN,
                                   .grad_norm = w->grad_norm,
                                   .lr = lr,
                                   .scale = w->spec.scale,
                                   .skipped = w->skipped,
                                   .host_bytes = vc_pool_in_use(t->ctx->shared->pool),
                                   .device_bytes = t->student.device != NULL ? t->student.device->bytes : 0,
                                   .seconds = vc_seconds() - t->progress.began,
                                   .reserved_bytes = vc_pool_reserved(t->ctx->shared->pool),
                                   .peak_bytes = vc_pool_peak(t->ctx->shared->pool),
                                   .sparsity = vc_gradual_sparsity(&t->student),
                                   .matches = w->sums + MATCHES,
                                   .n_matches = t->progress.control ? 0 : t->options.loss.n_matches};

    t->report->peak_bytes = vc_max_u64(t->report->peak_bytes, step.host_bytes);
    t->report->device_peak_bytes = t->student.device != NULL ? t->student.device->peak_bytes : 0;
    if (t->options.tell != NULL) {
        t->options.tell(t->options.user, &step);
    }
}

/* The loss from its terms and their shares. steady: pairs have the larger end of their weight in every step, so that losses of
 * different steps can be compared. */
static double total_of(const struct vc_trainer *t, const struct work *w, bool steady)
{
    double loss = w->spec.alpha * w->sums[KD] + (1 - w->spec.alpha) * w->sums[CE];

    for (size_t k = 0; !t->progress.control && k < t->options.loss.n_matches; k++) {
        const struct vc_match *match = &t->options.loss.matches[k];
        double part = steady ? match->weight_change > 0 : w->part;

        loss += vc_match_weight(match, part) * w->sums[MATCHES + k];
    }
    return loss;
}

/* Values that are equal to the last bit, as those of a copy are, leave nothing to learn. Of logits this is a mistake. */
static bool has_nothing_to_learn(const struct vc_trainer *t, const struct work *w)
{
    return w->step == 0 && !t->progress.control && t->student.net.answers == VC_ANSWERS_VALUES && w->grad_norm == 0 &&
           w->sums[KD] == 0 && t->options.loss.alpha == 1 && t->match == NULL && t->student.gradual == NULL;
}

/* The gradients of a step that is not left out: looked at in the first one, and weights move. */
static enum vc_status use_gradients(struct vc_trainer *t, const struct work *w, struct vc_engine *engine, double lr)
{
    uint64_t moved = w->step - (uint64_t)t->progress.scale.skipped; /* steps before this one that moved weights */

    if (moved == 0 || !isfinite(w->grad_norm)) {
        VC_CALL(vc_weights_grads_to_host(t->student.net.weights));
    }
    VC_RETURN_IF(!isfinite(w->grad_norm), refuse_gradient(t, w));
    if (has_nothing_to_learn(t, w)) {
        t->report->nothing_to_learn = true;
        return VC_OK;
    }
    if (moved == 0) {
        VC_CALL(check_gradients(t, w));
    }
    if (moved == 0 && !t->progress.control && t->options.gradients != NULL) {
        VC_CALL(vc_trainer_dump(t, false));
    }
    VC_CALL(vc_learner_update(&t->student, engine, moved, w->grad_norm, lr));
    /* a device's update does it */
    if (t->student.device == NULL) {
        VC_CALL(vc_fake_quant_apply(&t->student, engine));
    }
    vc_scale_good(t);
    return VC_OK;
}

/* What the labels of the step come to by the weights of their classes. */
static void weigh_labels(const struct vc_trainer *t, struct work *w)
{
    const struct vc_rows *rows = &t->data.rows;

    w->spec.label_smoothing = t->options.answers.label_smoothing;
    w->spec.class_weights = t->class_weights;
    for (size_t i = 0; t->class_weights != NULL && rows->labels != NULL && i < w->n * rows->positions; i++) {
        uint64_t at = w->numbers[i / rows->positions] * rows->positions + i % rows->positions;

        if (rows->labels[at] != VC_NO_LABEL && (rows->mask == NULL || rows->mask[at] != 0)) {
            w->spec.ce_weight += t->class_weights[rows->labels[at]];
        }
    }
    if (t->class_weights != NULL && w->spec.ce_weight == 0) { /* all labels are of classes that do not count */
        w->spec.ce_rows = 0;
    }
}

/* Temperature and alpha of this step: on the line from the first step to the last. */
static void move_shares(const struct vc_trainer *t, struct work *w)
{
    const struct vc_distill_options *o = &t->options;

    w->part = t->steps.n > 1 ? (double)w->step / (double)(t->steps.n - 1) : 0;
    w->spec.alpha = o->loss.alpha;
    w->spec.temperature = o->loss.temperature;
    if (o->moving.alpha_end >= 0) {
        w->spec.alpha += (o->moving.alpha_end - o->loss.alpha) * w->part;
    }
    if (o->moving.temperature_end > 0) {
        w->spec.temperature += (o->moving.temperature_end - o->loss.temperature) * w->part;
    }
    if (t->progress.control) {
        w->spec.alpha = 0;
    }
}

/* One optimizer step. `number` is from 0 on. */
static enum vc_status step(struct vc_trainer *t, const struct vc_lr_plan *rates, uint64_t number)
{
    struct work w = {.step = number,
                     .spec.kind = t->options.loss.kind,
                     .spec.y_kind = t->student.net.y_loss,
                     .spec.huber_delta = t->options.answers.huber_delta};
    double lr = vc_lr_of(rates, number);
    struct vc_engine *engine;

    choose_rows(t, &w);
    announce_next(t, &w);
    vc_rows_count(&t->data.rows, w.numbers, w.n, &w.spec.kd_rows, &w.spec.ce_rows);
    if (t->student.net.task == VC_NET_TASK_SPANS) {
        vc_rows_count_ends(&t->data.rows, w.numbers, w.n, w.counted);
        w.ends = w.counted;
    }
    if (t->match != NULL) {
        vc_match_count(t->match, w.numbers, w.n, &w.counts);
    }
    weigh_labels(t, &w);
    move_shares(t, &w);
    w.spec.scale = t->progress.scale.value;
    vc_heads_step(t, &w.spec, w.part, w.numbers, w.n);
    VC_CALL(vc_net_engine(&t->student.net, vc_min_u64(t->options.training.batch, w.n), true, &engine));
    w.late = t->options.parallel.ranks == NULL && w.n <= t->options.training.batch;
    VC_CALL(batches(t, &w, engine));
    vc_fake_quant_gradients(&t->student, engine);
    VC_CALL(vc_learner_measure(&t->student, engine, t->progress.scale.value, &w.grad_norm));
    VC_CALL(take_late(t, &w));
    double loss = total_of(t, &w, false);
    w.skipped = !isfinite(w.grad_norm) && vc_scale_skip(t);
    if (!w.skipped) {
        VC_CALL(use_gradients(t, &w, engine, lr));
    }
    t->progress.counts.step = number + 1;
    vc_divergence_note(t, total_of(t, &w, true));
    if (!t->progress.control) {
        t->report->first_loss = number == 0 ? loss : t->report->first_loss;
        t->report->last_loss = loss;
        vc_match_note(t->match, number == 0, w.sums + MATCHES);
        t->report->n_steps = number + 1;
        vc_scale_report(t);
    }
    tell(t, &w, loss, lr);
    return VC_OK;
}

/* Steps until the last one, or until evaluations stop it. Interrupted, and with a rank lost, the state is
 * kept. */
enum vc_status vc_trainer_run(struct vc_trainer *t)
{
    const struct vc_lr_plan rates = {.schedule = t->options.schedule.kind,
                                     .lr = t->options.optimizer.lr,
                                     .n_steps = t->steps.n,
                                     .warmup = t->options.schedule.warmup,
                                     .every = t->options.schedule.step_every,
                                     .factor = t->options.schedule.step_factor};
    bool stop = false;
    enum vc_status status = VC_OK;

    t->steps.epoch = UINT64_MAX;
    vc_optimizer_cut(&t->student);
    VC_TRY(vc_checkpoint_mark(t));
    VC_TRY(vc_trainer_evaluate(t, &stop)); /* of a run that was interrupted in it */
    while (!stop && !t->report->nothing_to_learn && t->progress.counts.step < t->steps.n) {
        VC_TRY(vc_gradual_grow(&t->student, t->progress.counts.step));
        VC_TRY(step(t, &rates, t->progress.counts.step));
        VC_TRY(vc_checkpoint_mark(t));
        VC_TRY(vc_trainer_evaluate(t, &stop));
        VC_TRY(vc_checkpoint_step(t));
        VC_TRY(vc_check_cancelled(t->ctx));
    }
    VC_TRY(vc_divergence_judge(t));
    VC_TRY(vc_trainer_choose(t));
    t->report->prune_end = vc_gradual_masked(&t->student);
out:
    return status == VC_E_CANCELLED || (status != VC_OK && vc_ranks_lost(t->options.parallel.ranks))
               ? vc_checkpoint_interrupted(t, status)
               : status;
}
