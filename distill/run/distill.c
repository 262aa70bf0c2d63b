/* distill.c - checks the options, and goes through the work: control, training, judgement. vc_distill is a job of one
 * pass that does it (distill_pass.c). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/option_struct.h"
#include "distill/data/identity.h"
#include "distill/derive.h"
#include "distill/run/checkpoint.h"
#include "distill/run/distill_pass.h"
#include "distill/run/trainer.h"
#include "distill/trained.h"
#include "distill/update/device_ranks.h"
#include "distill/update/fake_quant.h"
#include "distill/update/masks.h"
#include "passes/graph_params.h"

static const struct vc_distill_options distill_defaults = {
    .training = {.batch = 64, .accum = 1},
    .loss = {.kind = VC_TEACHER_LOSS_AUTO, .alpha = 1, .temperature = 2},
    .optimizer = {.kind = VC_OPTIMIZER_ADAMW,
                  .lr = 1e-3,
                  .momentum = 0.9,
                  .beta1 = 0.9,
                  .beta2 = 0.999,
                  .eps = 1e-8,
                  .weight_decay = -1},
    .schedule = {.step_every = 100, .step_factor = 0.1},
    .gates = {.max_drop = 1},
};
static const struct vc_options_kind distill_kind = {"vc_distill_options", "vc_distill_defaults", &distill_defaults,
                                                    sizeof distill_defaults};

void vc_distill_defaults_sized(struct vc_distill_options *options, size_t struct_size)
{
    vc_options_fill(&distill_kind, options, struct_size);
}

/* What the caller gets, with the job that trained and wrote. */
struct result {
    struct vc_distillation report; /* first */
    struct vc_ctx *ctx;
    struct vc_job *job;
    struct vc_couplings *couplings; /* of a student that is made of its teacher; the job needs them */
    char heads_kept[VC_MESSAGE_BYTES];
};

/* ---- options ---- */

struct range {
    const char *option;
    double value, least, most; /* least is excluded where `above` */
    bool above;
};

static enum vc_status check_ranges(struct vc_ctx *ctx, const struct vc_distill_options *o)
{
    const struct range ranges[] = {
        {"optimizer.lr", o->optimizer.lr, 0, 1e6, true},
        {"optimizer.momentum", o->optimizer.momentum, 0, 1, false},
        {"optimizer.beta1", o->optimizer.beta1, 0, 0.9999999, false},
        {"optimizer.beta2", o->optimizer.beta2, 0, 0.9999999, false},
        {"optimizer.eps", o->optimizer.eps, 0, 1, false},
        {"optimizer.weight_decay", o->optimizer.weight_decay, 0, 1e3, false},
        {"optimizer.clip", o->optimizer.clip, 0, 1e30, false},
        {"loss.temperature", o->loss.temperature, 0, VC_MAX_TEMPERATURE, true},
        {"loss.alpha", o->loss.alpha, 0, 1, false},
        {"schedule.step_factor", o->schedule.step_factor, 0, 1, true},
        {"gates.min_accuracy", o->gates.min_accuracy, 0, 1, false},
        {"gates.max_drop", o->gates.max_drop, 0, 1, false},
        {"gates.expect_sparsity", o->gates.expect_sparsity, 0, 1, false},
    };

    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++) {
        const struct range *r = &ranges[k];

        VC_REFUSE_IF(!(r->above ? r->value > r->least : r->value >= r->least) || !(r->value <= r->most), ctx,
                     VC_E_ARGUMENT, "%s: %.9g is not %s %.9g and at most %.9g", vc_option(ctx, r->option), r->value,
                     r->above ? "above" : "at least", r->least, r->most);
    }
    return VC_OK;
}

static bool has_optimizer(enum vc_optimizer optimizer)
{
    return optimizer <= VC_OPTIMIZER_ADAMW || optimizer == VC_OPTIMIZER_ADAM8BIT;
}

static enum vc_status check_counts(struct vc_ctx *ctx, const struct vc_distill_options *o)
{
    const struct {
        bool wrong;
        const char *field;
    } choices[] = {
        {!has_optimizer(o->optimizer.kind), "optimizer.kind"}, {o->schedule.kind > VC_SCHEDULE_STEP, "schedule.kind"},
        {o->loss.kind > VC_TEACHER_LOSS_AUTO, "loss.kind"},    {o->training.order > VC_ORDER_FILE, "training.order"},
        {o->precision.kind > VC_GRAPH_F64, "precision.kind"},
    };
    const struct {
        bool set;
        const char *field;
    } of_runs[] = {
        {o->trained.frozen_norm, "trained.frozen_norm"},
        {o->eval.control, "eval.control"},
        {o->eval.every != 0, "eval.every"},
        {o->checkpoint.path != NULL, "checkpoint.path"},
        {o->checkpoint.resume != NULL, "checkpoint.resume"},
    };

    VC_REFUSE_IF(o->training.steps != 0 && o->training.epochs != 0, ctx, VC_E_ARGUMENT,
                 "%s and %s say the same in two ways: one of them", vc_option(ctx, "training.steps"),
                 vc_option(ctx, "training.epochs"));
    VC_REFUSE_IF(o->training.batch == 0 || o->training.accum == 0 || o->training.batch > (uint64_t)1 << 32 ||
                     o->training.accum > (uint64_t)1 << 32,
                 ctx, VC_E_ARGUMENT, "%s: a number from 1 to 4294967296",
                 vc_option(ctx, o->training.batch == 0 || o->training.batch > (uint64_t)1 << 32 ? "training.batch"
                                                                                                : "training.accum"));
    VC_REFUSE_IF(o->schedule.kind == VC_SCHEDULE_STEP && o->schedule.step_every == 0, ctx, VC_E_ARGUMENT,
                 "%s: a number from 1 on", vc_option(ctx, "schedule.step_every"));
    for (size_t k = 0; k < sizeof choices / sizeof choices[0]; k++) {
        VC_REFUSE_IF(choices[k].wrong, ctx, VC_E_ARGUMENT, "%s has no such value", vc_option(ctx, choices[k].field));
    }
    VC_REFUSE_IF((o->eval.every != 0 && o->eval.rows == NULL) || (o->eval.early_stop != 0 && o->eval.every == 0), ctx,
                 VC_E_ARGUMENT, "%s needs %s", vc_option(ctx, o->eval.every != 0 ? "eval.every" : "eval.early_stop"),
                 vc_option(ctx, o->eval.every != 0 ? "eval.rows" : "eval.every"));
    VC_REFUSE_IF(o->eval.keep > VC_KEEP_LAST || o->task > VC_TASK_RECALIBRATE, ctx, VC_E_ARGUMENT,
                 "%s has no such value", vc_option(ctx, o->eval.keep > VC_KEEP_LAST ? "eval.keep" : "task"));
    VC_REFUSE_IF(o->sparsity.keep && o->sparsity.refill, ctx, VC_E_ARGUMENT, "%s and %s: one of them",
                 vc_option(ctx, "sparsity.keep"), vc_option(ctx, "sparsity.refill"));
    for (size_t k = 0; k < sizeof of_runs / sizeof of_runs[0]; k++) {
        VC_REFUSE_IF(o->task == VC_TASK_RECALIBRATE && of_runs[k].set, ctx, VC_E_ARGUMENT,
                     "%s trains nothing: %s belongs to a run", vc_option(ctx, "task"),
                     vc_option(ctx, of_runs[k].field));
    }
    VC_REFUSE_IF(o->checkpoint.every != 0 && o->checkpoint.path == NULL, ctx, VC_E_ARGUMENT, "%s needs %s, the file",
                 vc_option(ctx, "checkpoint.every"), vc_option(ctx, "checkpoint.path"));
    VC_REFUSE_IF(o->optimizer.nesterov && (o->optimizer.kind != VC_OPTIMIZER_MOMENTUM || o->optimizer.momentum == 0),
                 ctx, VC_E_ARGUMENT, "%s is a kind of %s, which this optimizer has not",
                 vc_option(ctx, "optimizer.nesterov"), vc_option(ctx, "optimizer.momentum"));
    return VC_OK;
}

static enum vc_status check_matches(struct vc_ctx *ctx, const struct vc_distill_options *o)
{
    for (size_t k = 0; k < o->loss.n_matches; k++) {
        const struct vc_match *m = &o->loss.matches[k];

        VC_REFUSE_IF(m->kind > VC_MATCH_COSINE || !(m->weight > 0 && m->weight <= 1e6), ctx, VC_E_ARGUMENT,
                     m->kind > VC_MATCH_COSINE ? "%s: %s: there is no such kind of match"
                                               : "%s: %s: the weight is not above 0 and at most 1e6",
                     vc_option(ctx, "loss.matches"), m->teacher);
    }
    VC_REFUSE_IF(o->loss.n_matches != 0 && o->task == VC_TASK_RECALIBRATE, ctx, VC_E_ARGUMENT,
                 "%s trains nothing: %s belongs to a run", vc_option(ctx, "task"), vc_option(ctx, "loss.matches"));
    return VC_OK;
}

/* A power of two: the product rounds nothing. */
static bool is_scale(double x)
{
    int exponent;

    return x >= 1 && x <= 0x1p40 && frexp(x, &exponent) == 0.5;
}

static enum vc_status check_half(struct vc_ctx *ctx, const struct vc_distill_options *o)
{
    const char *name = o->precision.half == VC_HALF_BF16 ? "bf16" : "fp16";

    VC_REFUSE_IF(o->precision.half > VC_HALF_F16, ctx, VC_E_ARGUMENT, "half has no such value");
    VC_REFUSE_IF(o->precision.half != VC_HALF_NONE && o->precision.kind != VC_GRAPH_F32, ctx, VC_E_ARGUMENT,
                 "%s: %s has values of 16 bits and arithmetic in f32, not in f64", vc_option(ctx, "precision.kind"),
                 name);
    VC_REFUSE_IF(o->precision.half != VC_HALF_NONE && o->task == VC_TASK_RECALIBRATE, ctx, VC_E_ARGUMENT,
                 "%s trains nothing: %s %s belongs to a run", vc_option(ctx, "task"), vc_option(ctx, "precision.kind"),
                 name);
    VC_REFUSE_IF(o->precision.loss_scale != 0 && o->precision.half != VC_HALF_F16, ctx, VC_E_ARGUMENT,
                 "%s is for %s fp16, whose small gradients become 0 without it", vc_option(ctx, "precision.loss_scale"),
                 vc_option(ctx, "precision.kind"));
    VC_REFUSE_IF(o->precision.loss_scale != 0 && !is_scale(o->precision.loss_scale), ctx, VC_E_ARGUMENT,
                 "%s: %g is no power of two from 1 to 2^40, such as 65536", vc_option(ctx, "precision.loss_scale"),
                 o->precision.loss_scale);
    return VC_OK;
}

static enum vc_status check_memory(struct vc_ctx *ctx, const struct vc_distill_options *o)
{
    bool automatic = o->memory.recompute == VC_RECOMPUTE_AUTO;

    VC_REFUSE_IF(o->memory.recompute > VC_RECOMPUTE_AUTO || o->memory.recompute == VC_RECOMPUTE_SELECTIVE ||
                     (o->memory.recompute == VC_RECOMPUTE_EVERY && o->memory.recompute_every == 0),
                 ctx, VC_E_ARGUMENT, "%s has no such value", vc_option(ctx, "memory.recompute"));
    VC_REFUSE_IF(automatic && o->memory.budget == 0 && o->memory.max_memory == 0, ctx, VC_E_ARGUMENT,
                 "%s auto needs a budget: %s for the programs, or %s for the whole run",
                 vc_option(ctx, "memory.recompute"), vc_option(ctx, "memory.budget"), vc_option(ctx, "max_memory"));
    VC_REFUSE_IF(!automatic && o->memory.budget != 0, ctx, VC_E_ARGUMENT, "%s changes nothing without %s auto",
                 vc_option(ctx, "memory.budget"), vc_option(ctx, "memory.recompute"));
    return VC_OK;
}

enum vc_status vc_distill_check(struct vc_ctx *ctx, const struct vc_distill_options *given,
                                struct vc_distill_options *o)
{
    VC_CALL(vc_options_read(ctx, &distill_kind, given, o));
    o->training.steps = o->training.steps == 0 && o->training.epochs == 0 ? 400 : o->training.steps;
    o->optimizer.weight_decay = o->optimizer.weight_decay == -1 ? (o->optimizer.kind == VC_OPTIMIZER_ADAMW ? 0.01 : 0)
                                                                : o->optimizer.weight_decay;
    VC_REFUSE_IF(o->data == NULL, ctx, VC_E_ARGUMENT, "there are no data");
    VC_CALL(check_ranges(ctx, o));
    VC_CALL(check_counts(ctx, o));
    VC_CALL(check_matches(ctx, o));
    VC_CALL(check_half(ctx, o));
    VC_CALL(check_memory(ctx, o));
    VC_REFUSE_IF(o->eval.control && o->eval.rows == NULL, ctx, VC_E_ARGUMENT,
                 "%s compares answers on the rows of %s, which is not given", vc_option(ctx, "eval.control"),
                 vc_option(ctx, "eval.rows"));
    return VC_OK;
}

/* ---- control ---- */

/* Mean and standard error of the differences of two answers to each row, those that count. */
static void compare_answers(const struct vc_trainer *t, const struct vc_answers *with, const struct vc_answers *without,
                            double *gain, double *error)
{
    const struct vc_rows *rows = &t->eval.rows;
    double sum = 0;
    double squares = 0;
    double n = 0;

    for (uint64_t i = 0; i < rows->n * rows->positions; i++) {
        bool counts = rows->mask == NULL || rows->mask[i] != 0;
        double d = (double)with->right[i] - (double)without->right[i];

        if (counts && (rows->labels == NULL || rows->labels[i] != VC_NO_LABEL)) {
            n++;
            sum += d;
            squares += d * d;
        }
    }
    *gain = sum / n;
    *error = n > 1 ? sqrt((squares - sum * sum / n) / (n - 1) / n) : NAN;
}

/* A run from the beginning, or from the checkpoint that is resumed, where that is of this run. */
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

/* The same student, rows and steps by labels alone. Its result outlives an interruption of the run behind it. */
static enum vc_status run_control(struct vc_trainer *t)
{
    struct vc_quality *q = &t->report->control;
    struct vc_run_figures *f = &t->progress.figures;
    enum vc_status status = VC_OK;

    if (t->data.rows.labels == NULL) {
        t->report->control_reason = "the data have no labels";
        return VC_OK;
    }
    if (t->eval.rows.labels == NULL && t->options.loss.kind != VC_TEACHER_LOSS_KD) {
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

const char *vc_teacher_loss_measure(enum vc_teacher_loss loss)
{
    static const char *const measures[] = {"divergence", "squared error", "1 - cosine"};

    return (size_t)loss < sizeof measures / sizeof *measures ? measures[loss] : NULL;
}

const char *vc_answer_kind_name(enum vc_answer_kind kind)
{
    static const char *const names[] = {"logits", "softmax", "logarithm", "sigmoid", "pair", "values"};

    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

/* The sentence for a student that was better before. */
static const char *became_worse(struct vc_trainer *t, const struct vc_distillation *r, struct vc_arena *arena)
{
    if (r->after.n_targets != 0) {
        return vc_arena_printf(t->ctx, arena,
                               "the squared error of y rose from %.4g to %.4g: the student was better before",
                               r->before.squared_error, r->after.squared_error);
    }
    if (vc_is_measured(&r->after)) {
        return vc_arena_printf(t->ctx, arena, "%s rose from %.4g to %.4g: the student was nearer to the teacher before",
                               vc_teacher_loss_measure(t->options.loss.kind), r->before.kd, r->after.kd);
    }
    return vc_arena_printf(t->ctx, arena, "%s fell from %.4f to %.4f: the student was better before",
                           isnan(r->after.accuracy) ? "agreement with the teacher" : "accuracy",
                           vc_figure_of(&r->before), vc_figure_of(&r->after));
}

static enum vc_status check_gates(struct vc_trainer *t, struct vc_arena *arena)
{
    struct vc_distillation *r = t->report;
    double drop = r->teacher.accuracy - r->after.accuracy;
    const char *missed = NULL;

    VC_CALL(vc_masks_gate(&t->student, arena, &r->missed));
    if (!r->evaluated || r->missed != NULL) {
        return VC_OK;
    }
    if (t->options.gates.min_accuracy > 0 && r->after.accuracy < t->options.gates.min_accuracy) {
        missed = vc_arena_printf(t->ctx, arena, "accuracy %.4f is below %s %g", r->after.accuracy,
                                 vc_option(t->ctx, "gates.min_accuracy"), t->options.gates.min_accuracy);
    } else if (t->options.gates.max_drop < 1 && drop > t->options.gates.max_drop) {
        missed =
            vc_arena_printf(t->ctx, arena, "accuracy %.4f is %.4f below the teacher's, %s %g allows less",
                            r->after.accuracy, drop, vc_option(t->ctx, "gates.max_drop"), t->options.gates.max_drop);
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
        void *before;

        if (!item->trained || item->initialized) {
            continue;
        }
        before = vc_alloc(t->ctx, VC_TAG_TILES, n_bytes + 1);
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
        with.right = vc_alloc(t->ctx, VC_TAG_MISC, (size_t)t->eval.rows.n * t->student.net.positions);
        VC_TRY_ALLOC(with.right);
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

/* ---- a job of its own ---- */

/* The caller's options of the output, which may be shorter or longer than those of the library, as a dry run. */
static void make_dry(const struct vc_write_options *given, struct vc_write_options *own)
{
    vc_write_defaults(own);
    if (given != NULL) {
        memcpy(own, given, given->struct_size < sizeof *own ? given->struct_size : sizeof *own);
        own->struct_size = sizeof *own;
    }
    own->dry_run = true;
}

static void drop_job(struct result *result)
{
    vc_job_free(result->job);
    vc_couplings_free(result->couplings);
    result->job = NULL;
    result->couplings = NULL;
}

/* The passes of the job: the student may be made of the teacher first. */
static enum vc_status make_job(struct vc_ctx *ctx, const struct vc_distill_options *o, struct result *result)
{
    bool derives = vc_derives(o);

    VC_CALL(vc_job_create(ctx, derives ? o->teacher.weights : o->student.weights, &result->job));
    if (derives) {
        VC_CALL(vc_derive_add(ctx, o, result->job, result->heads_kept[0] == '\0', &result->couplings));
    }
    return vc_distill_add(ctx, result->job, o);
}

/* Configurations of many families cannot say that there are fewer heads of the same size (BERT's have no head_dim). A
 * plan without training tells; where one without heads holds, heads stay. */
static enum vc_status try_heads(struct vc_ctx *ctx, const struct vc_distill_options *o, bool writes,
                                struct result *result)
{
    struct vc_write_options dry;
    enum vc_status status;

    if (o->derive.width == NULL) {
        return VC_OK;
    }
    make_dry(writes ? o->write : NULL, &dry);
    status = vc_job_plan(ctx, result->job, &dry);
    if (status != VC_E_UNSUPPORTED) {
        return status == VC_E_GATE ? VC_OK : status;
    }
    (void)snprintf(result->heads_kept, sizeof result->heads_kept, "%s", vc_ctx_message(ctx));
    drop_job(result);
    VC_TRY(make_job(ctx, o, result));
    status = vc_job_plan(ctx, result->job, &dry);
    status = status == VC_E_UNSUPPORTED ? vc_fail(ctx, status, "%s", result->heads_kept) : status;
out:
    return status == VC_E_GATE ? VC_OK : status;
}

/* Plans the job, which trains, and runs it, which writes. */
static enum vc_status run_job(struct vc_ctx *ctx, const struct vc_distill_options *o, struct result *result)
{
    bool writes =
        o->write != NULL && (o->write->path != NULL || o->write->n_emit != 0) && vc_ranks_rank(o->parallel.ranks) == 0;
    const struct vc_report *report;
    struct vc_write_options own;
    enum vc_status status;

    vc_write_defaults(&own);
    if (o->dry_run) {
        make_dry(writes ? o->write : NULL, &own);
    }
    VC_TRY(make_job(ctx, o, result));
    VC_TRY(try_heads(ctx, o, writes, result));
    VC_TRY(vc_job_plan(ctx, result->job, writes && !o->dry_run ? o->write : &own));
    if (writes && !o->dry_run && !o->write->dry_run) {
        VC_TRY(vc_job_run(ctx, result->job));
    }
out:
    report = result->job != NULL ? vc_job_report(result->job) : NULL;
    if (report != NULL && report->n_distillations != 0 && (status == VC_OK || status == VC_E_GATE)) {
        result->report = *report->distillations[0];
        result->report.written = report->written ? report : NULL;
        result->report.heads_kept = result->heads_kept[0] != '\0' ? result->heads_kept : NULL;
    }
    return status;
}

enum vc_status vc_distill(struct vc_ctx *ctx, const struct vc_distill_options *options, struct vc_distillation **out)
{
    struct vc_distill_options own;
    struct result *result = NULL;
    enum vc_status status = VC_OK;

    *out = NULL;
    vc_call_begin(ctx);
    VC_TRY(vc_distill_check(ctx, options, &own));
    if (own.student.weights == NULL && (!vc_derives(&own) || own.teacher.weights == NULL)) {
        status =
            vc_fail(ctx, VC_E_ARGUMENT,
                    vc_derives(&own) ? "there is no network to make a student of: a teacher" : "there is no student");
        goto out;
    }
    VC_TRY(VC_ZEROS(ctx, VC_TAG_REPORT, result, 1));
    result->ctx = ctx;
    VC_TRY(run_job(ctx, &own, result));
out:
    if (result != NULL && (status == VC_OK || status == VC_E_GATE)) {
        *out = &result->report;
    } else if (result != NULL) {
        vc_distillation_free(&result->report);
    }
    return vc_call_end(ctx, status);
}

void vc_distillation_free(struct vc_distillation *distillation)
{
    struct result *result = (struct result *)distillation;

    if (result != NULL) {
        struct vc_ctx *ctx = result->ctx;

        vc_job_free(result->job);
        vc_couplings_free(result->couplings);
        vc_free(ctx, result);
    }
}
