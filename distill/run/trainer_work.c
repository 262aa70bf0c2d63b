/* trainer_work.c - the work of a run, in its order: control, training, judgement (trainer.h). */
#include "distill/data/identity.h"
#include "distill/run/checkpoint.h"
#include "distill/trained.h"
#include "distill/update/device_ranks.h"
#include "distill/update/fake_quant.h"
#include "distill/update/masks.h"

/* ---- control ---- */

/* Mean and standard error of the differences of two answers to each row, those that count.
 *     d = 1, 0 or -1 for each row;   gain = mean of d;   error = sqrt(variance of d / n)
 *
 * The pairs make the error small: rows that both answer alike add nothing to it. */
static void compare_answers(const struct vc_trainer *t, const struct vc_answers *with, const struct vc_answers *without,
                            double *gain, double *error)
{
    const struct vc_rows *rows = &t->eval.rows;
    double sum = 0;
    double squares = 0;
    double n = 0;
    size_t step = t->student.net.task == VC_NET_TASK_SPANS ? 2 : 1; /* both ends are one answer */

    for (uint64_t i = 0; i < rows->n * rows->positions; i += step) {
        bool counts = rows->mask == NULL || (rows->mask[i] != 0 && rows->mask[i + step - 1] != 0);
        double d = (double)with->right[i] - (double)without->right[i];

        if (counts &&
            (rows->labels == NULL || (rows->labels[i] != VC_NO_LABEL && rows->labels[i + step - 1] != VC_NO_LABEL))) {
            n++;
            sum += d;
            squares += d * d;
        }
    }
    *gain = sum / n;
    *error = n > 1 ? sqrt((squares - sum * sum / n) / (n - 1) / n) : NAN;
}

/* Loads the checkpoint if it is of this run, trains, compares ranks, and rounds the weights to the types of
 * the file. */
static enum vc_status run(struct vc_trainer *t)
{
    bool loaded;

    VC_CALL(vc_checkpoint_load(t, &loaded));
    t->report->resumed = loaded && !t->progress.control ? t->progress.counts.step : 0;
    VC_CALL(vc_trainer_run(t));
    VC_CALL(vc_trainer_ranks_compare(t));
    return vc_weights_round(t->ctx, t->student.net.weights, t->options.student.weights,
                            !t->options.trained.frozen_norm);
}

/* The same student, rows and steps by labels alone. Its result outlives an interruption of the run behind it.
 * It is trained first, so that the report of a run that is interrupted later has it, too. */
static enum vc_status run_control(struct vc_trainer *t)
{
    struct vc_quality *q = &t->report->control;
    struct vc_run_figures *f = &t->progress.figures;
    enum vc_status status = VC_OK;

    if (t->student.net.n_heads != 0) {
        t->report->control_reason = "a control compares answers of one output, and several have a task";
        return VC_OK;
    }
    if (t->data.rows.labels == NULL) {
        t->report->control_reason = "the data have no labels";
        return VC_OK;
    }
    if (t->eval.rows.labels == NULL && vc_loss_compares(t->options.loss.kind) != VC_OF_CLASSES) {
        t->report->control_reason = "the rows of the evaluation have no labels, and outputs are no answers";
        return VC_OK;
    }
    if (!t->data.taught || (t->options.loss.alpha == 0 && t->match == NULL)) {
        t->report->control_reason = "the run itself learns from labels alone";
        return VC_OK;
    }
    t->report->has_control = true;
    if (vc_checkpoint_has_control(t)) {
        return VC_OK;
    }
    t->progress.control = true;
    VC_TRY(vc_trainer_begin(t));
    VC_TRY(run(t));
    VC_TRY(vc_trainer_judge(t, false, q, &t->progress.control_answers));
    t->progress.counts.control_done = 1;
    f->control_accuracy = q->accuracy;
    f->control_ce = q->ce;
    f->control_agreement = q->agreement;
    f->control_kd = q->kd;
out:
    t->progress.control = false;
    return status;
}

/* What the control run of a checkpoint came to; its rows are those of the run. */
static void take_control(struct vc_trainer *t)
{
    t->report->control = t->report->before;
    t->report->control.accuracy = t->progress.figures.control_accuracy;
    t->report->control.ce = t->progress.figures.control_ce;
    t->report->control.agreement = t->progress.figures.control_agreement;
    t->report->control.kd = t->progress.figures.control_kd;
}

/* ---- judgement ---- */

/* The sentence for a student that was better before. */
static const char *became_worse(struct vc_trainer *t, const struct vc_distillation *r, struct vc_arena *arena)
{
    if (r->after.n_parts != 0) {
        return vc_arena_printf(t->ctx, arena,
                               "the weighted sum of the losses rose from %.4g to %.4g: the student was better before",
                               r->before.kd, r->after.kd);
    }
    if (r->after.n_targets != 0 && r->after.task == VC_NET_TASK_REGRESSION) {
        return vc_arena_printf(t->ctx, arena,
                               "the squared error of y rose from %.4g to %.4g: the student was better before",
                               r->before.squared_error, r->after.squared_error);
    }
    if (r->after.n_targets != 0) {
        return vc_arena_printf(t->ctx, arena, "%s fell from %.4f to %.4f: the student was better before",
                               r->after.task == VC_NET_TASK_LABELS ? "F1" : "the cosine with y",
                               vc_figure_of(&r->before), vc_figure_of(&r->after));
    }
    if (vc_is_measured(&r->after)) {
        return vc_arena_printf(t->ctx, arena, "%s rose from %.4g to %.4g: the student was nearer to the teacher before",
                               vc_teacher_loss_facts(t->options.loss.kind)->measure, r->before.kd, r->after.kd);
    }
    return vc_arena_printf(t->ctx, arena, "%s fell from %.4f to %.4f: the student was better before",
                           isnan(r->after.accuracy) ? "agreement with the teacher" : "accuracy",
                           vc_figure_of(&r->before), vc_figure_of(&r->after));
}

/* Before the first step: gates by figures that these rows do not measure. */
static enum vc_status check_limits(struct vc_trainer *t)
{
    const struct vc_quality *q = &t->report->before;
    struct vc_metric_miss miss;

    VC_REFUSE_IF(vc_metric_missed(q, &t->options.limits, &miss) && isnan(miss.value), t->ctx, VC_E_ARGUMENT,
                 "%s: the rows of %s have no %s%s%s", vc_option(t->ctx, miss.field), vc_option(t->ctx, "eval.rows"),
                 vc_word(VC_WORDS_METRIC, miss.metric), q->undefined != NULL ? ": " : "",
                 q->undefined != NULL ? q->undefined : "");
    return VC_OK;
}

/* The first gate that is missed: zeros, accuracy, the distance to the teacher, and that nothing became
 * worse. Gradual pruning may make it worse. */
static enum vc_status check_gates(struct vc_trainer *t, struct vc_arena *arena)
{
    struct vc_distillation *r = t->report;
    double drop = r->teacher.accuracy - r->after.accuracy;
    struct vc_metric_miss miss;
    const char *missed = NULL;

    VC_CALL(vc_masks_gate(&t->student, arena, &r->missed));
    if (!r->evaluated || r->missed != NULL) {
        return VC_OK;
    }
    if (t->options.gates.min_accuracy > 0 && !(r->after.accuracy >= t->options.gates.min_accuracy)) {
        missed = vc_arena_printf(t->ctx, arena, "accuracy %.4f is below %s %g", r->after.accuracy,
                                 vc_option(t->ctx, "gates.min_accuracy"), t->options.gates.min_accuracy);
    } else if (t->options.gates.max_drop < 1 && !(drop <= t->options.gates.max_drop)) {
        missed =
            vc_arena_printf(t->ctx, arena, "accuracy %.4f is %.4f below the teacher's, %s %g allows less",
                            r->after.accuracy, drop, vc_option(t->ctx, "gates.max_drop"), t->options.gates.max_drop);
    } else if (vc_metric_missed(&r->after, &t->options.limits, &miss)) {
        missed =
            vc_arena_printf(t->ctx, arena, "%s %.4g is %s %s %g", vc_word(VC_WORDS_METRIC, miss.metric), miss.value,
                            miss.value < miss.limit ? "below" : "above", vc_option(t->ctx, miss.field), miss.limit);
    } else if (t->student.gradual == NULL && vc_figure_of(&r->after) < vc_figure_of(&r->before)) {
        missed = became_worse(t, r, arena);
    } else {
        return VC_OK;
    }
    VC_CALL_ALLOC(missed);
    r->missed = missed;
    return VC_OK;
}

/* Some trained tensor has other values than in the file. */
static enum vc_status check_changed(struct vc_trainer *t)
{
    const struct vc_model *model = t->options.student.weights;
    struct vc_place place = vc_place_whole();
    bool changed = false;
    enum vc_status status = VC_OK;

    for (size_t k = 0; k < t->student.net.weights->n && !changed; k++) {
        const struct vc_weight *item = &t->student.net.weights->items[k];
        size_t n_bytes = (size_t)item->n * vc_real_bytes(t->options.precision.kind);

        if (!item->trained || item->initialized) {
            continue;
        }
        void *before = vc_alloc(t->ctx, VC_TAG_TILES, n_bytes + 1);
        VC_CALL_ALLOC(before);
        status = vc_place_values(t->ctx, model, vc_model_find(model, item->name), &place, t->student.f64, before);
        changed = status == VC_OK && memcmp(before, item->data, n_bytes) != 0;
        vc_free(t->ctx, before);
        VC_CALL(status);
    }
    VC_REFUSE_IF(!changed && t->report->n_skipped == t->report->n_steps, t->ctx, VC_E_ARGUMENT,
                 "the student did not change: all %llu steps were left out, because gradients times the scale of "
                 "the loss were beyond 65504, where fp16 ends; each halved the scale, which is %g now: more %s, "
                 "or %s, are what it takes",
                 (unsigned long long)t->report->n_steps, t->report->loss_scale, vc_option(t->ctx, "training.steps"),
                 vc_option(t->ctx, "precision.loss_scale"));
    VC_REFUSE_IF(!changed, t->ctx, VC_E_ARGUMENT,
                 "the student did not change in %llu steps: every step was smaller than the last digit of its "
                 "weights; %s %g is too small",
                 (unsigned long long)t->steps.n, vc_option(t->ctx, "optimizer.lr"), t->options.optimizer.lr);
    return VC_OK;
}

/* ---- what it was made from ---- */

/* The digest of all inputs: of the single one its own, else of theirs one behind the other. */
static enum vc_status identify_rows(struct vc_trainer *t, char hex[VC_SHA256_HEX_BYTES])
{
    const struct vc_rows_view *view = &t->data.student;
    struct vc_sha256 sha;

    vc_sha256_begin(&sha);
    for (size_t k = 0; k < view->n; k++) {
        VC_CALL(vc_identity_input(view, k, hex));
        vc_sha256_add(&sha, hex, VC_SHA256_HEX_BYTES - 1);
    }
    if (view->n != 1) {
        vc_sha256_end(&sha, hex);
    }
    return VC_OK;
}

/* digests: room for both, taken before memory is counted. */
static enum vc_status identify(struct vc_trainer *t, char digests[2][VC_SHA256_HEX_BYTES])
{
    if (!vc_sha256_built_in()) {
        return VC_OK;
    }
    if (t->runs_teacher) {
        VC_CALL(vc_identity_net(&t->teacher, digests[0]));
        t->report->teacher_sha256 = digests[0];
    }
    VC_CALL(identify_rows(t, digests[1]));
    t->report->data_sha256 = digests[1];
    return VC_OK;
}

/* ---- the work ---- */

/* Everything of a run in its order:
 *
 *     open, prepare             memory and networks; in a dry run only what can be checked
 *     teacher                   judged on the evaluation's rows
 *     control                   the same student from labels alone, judged
 *     before, run, after        the student judged, trained, judged again
 *     gates                     what the result has to be
 *
 * A missed gate is no failure: the report says it. */
enum vc_status vc_trainer_work(struct vc_trainer *t, struct vc_arena *arena)
{
    struct vc_answers with = {NULL, 0};
    char(*digests)[VC_SHA256_HEX_BYTES] = vc_arena_alloc(t->ctx, arena, 2 * sizeof *digests);
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(digests);
    t->texts = arena;
    vc_trainer_ranks_quiet(t);
    VC_TRY(vc_trainer_open(t));
    if (t->options.dry_run) {
        VC_TRY(vc_checkpoint_try(t));
        return vc_masks_report(&t->student);
    }
    VC_TRY(vc_trainer_prepare(t));
    VC_TRY(identify(t, digests));
    VC_TRY(vc_trainer_ranks_check(t));
    if (t->student.device != NULL) {
        VC_TRY(vc_device_ranks_begin(&t->student));
    }
    t->report->evaluated = t->eval.open;
    if (t->eval.open) {
        VC_TRY_ALLOC(with.right = vc_alloc(t->ctx, VC_TAG_MISC, (size_t)t->eval.rows.n * t->student.net.positions));
        t->progress.control_answers.right =
            vc_alloc(t->ctx, VC_TAG_MISC, (size_t)t->eval.rows.n * t->student.net.positions);
        VC_TRY_ALLOC(t->progress.control_answers.right);
    }
    VC_TRY(vc_checkpoint_open(t));
    if (t->options.gradients != NULL) {
        VC_TRY(vc_trainer_dump(t, true));
    }
    if (t->eval.open) {
        if (t->eval.taught) {
            VC_TRY(vc_trainer_judge(t, true, &t->report->teacher, NULL));
        }
        if (t->options.eval.control) {
            VC_TRY(run_control(t));
        }
    }
    VC_TRY(vc_trainer_begin(t));
    if (t->eval.open) {
        VC_TRY(vc_trainer_judge(t, false, &t->report->before, NULL));
        VC_TRY(check_limits(t));
    }
    if (t->options.task == VC_TASK_RECALIBRATE) {
        VC_TRY(vc_trainer_recalibrate(t));
    } else {
        VC_TRY(run(t));
    }
    if (t->eval.open) {
        VC_TRY(vc_trainer_judge(t, false, &t->report->after, &with));
        if (t->report->has_control) {
            take_control(t);
            compare_answers(t, &with, &t->progress.control_answers, &t->report->gain, &t->report->gain_error);
        }
    }
    vc_trainer_release(t); /* what reads and writes tensors has its place */
    if (t->options.task != VC_TASK_RECALIBRATE && !t->report->nothing_to_learn) {
        VC_TRY(check_changed(t));
    }
    VC_TRY(vc_masks_report(&t->student));
    VC_TRY(check_gates(t, arena));
    vc_fake_quant_finish(&t->student);
out:
    status = status == VC_E_GATE ? vc_divergence_tell(t, arena) : status;
    vc_free(t->ctx, with.right);
    return status;
}
