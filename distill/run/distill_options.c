/* distill_options.c - the options of distill: defaults, and what contradicts itself or lies out of range. */
#include "core/base/option_struct.h"
#include "distill/run/distill_pass.h"
#include "distill/run/trainer.h"

/* All that is not named above is 0, false or NULL. A weight_decay of -1 stands for the optimizer's own
 * default. */
/* ---- options ---- */

/* A number with its limits. */
struct range {
    const char *option;
    double value, least, most; /* least is excluded where `above` */
    bool above;
};

/* Numbers with a least and a most value, by a table. NaN is in no range. */
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
        {"moving.temperature_end", o->moving.temperature_end, 0, VC_MAX_TEMPERATURE, false},
        {"moving.alpha_end", o->moving.alpha_end, -1, 1, false},
        {"label_smoothing", o->answers.label_smoothing, 0, 0.999999, false},
        {"huber_delta", o->answers.huber_delta, 0, 1e30, true},
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
    VC_REFUSE_IF(o->moving.alpha_end < 0 && o->moving.alpha_end > -1, ctx, VC_E_ARGUMENT,
                 "%s: %.9g is not at least 0 and at most 1", vc_option(ctx, "moving.alpha_end"), o->moving.alpha_end);
    return VC_OK;
}

/* What vc_distill, vc_evaluate and vc_logits have in common; the names are those of fields. */
const char *vc_trainer_wrong_option(uint64_t batch, double temperature, enum vc_graph_precision precision,
                                    enum vc_teacher_loss loss, uint64_t net_task)
{
    const struct {
        bool wrong;
        const char *field;
    } options[] = {
        {loss > VC_TEACHER_LOSS_HUBER, "loss"},
        {vc_word(VC_WORDS_NET_TASK, (unsigned)net_task) == NULL, "net_task"},
        {precision > VC_GRAPH_F64, "precision"},
        {!(temperature > 0 && temperature <= VC_MAX_TEMPERATURE), "temperature"},
        {batch == 0 || batch > (uint64_t)1 << 32, "batch"},
    };

    for (size_t k = 0; k < sizeof options / sizeof options[0]; k++) {
        if (options[k].wrong) {
            return options[k].field;
        }
    }
    return NULL;
}

/* One that a run can have. */
static bool has_optimizer(enum vc_optimizer optimizer)
{
    return optimizer <= VC_OPTIMIZER_ADAMW || optimizer == VC_OPTIMIZER_ADAM8BIT;
}

/* Choices, counts, and options that contradict each other. */
static enum vc_status check_counts(struct vc_ctx *ctx, const struct vc_distill_options *o)
{
    const struct {
        bool wrong;
        const char *field;
    } choices[] = {
        {!has_optimizer(o->optimizer.kind), "optimizer.kind"},
        {o->schedule.kind > VC_SCHEDULE_STEP, "schedule.kind"},
        {o->loss.kind > VC_TEACHER_LOSS_HUBER, "loss.kind"},
        {vc_word(VC_WORDS_NET_TASK, o->answers.net_task) == NULL, "net_task"},
        {o->training.order > VC_ORDER_FILE, "training.order"},
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

/* Kinds and weights of pairs. */
static enum vc_status check_matches(struct vc_ctx *ctx, const struct vc_distill_options *o)
{
    for (size_t k = 0; k < o->loss.n_matches; k++) {
        const struct vc_match *m = &o->loss.matches[k];

        double end = m->weight + m->weight_change;
        bool weighs = m->weight >= 0 && end >= 0 && m->weight + end > 0 && m->weight <= 1e6 && end <= 1e6;
        VC_REFUSE_IF(m->kind > VC_MATCH_GRAM || !weighs, ctx, VC_E_ARGUMENT,
                     m->kind > VC_MATCH_GRAM ? "%s: %s: there is no such kind of match"
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

/* 16 bits go with f32 arithmetic, and a scale of the loss with fp16. */
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

/* Options of recomputation that need each other. */
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

/* Reads the caller's options, fills in what depends on others, and refuses what contradicts itself. */
enum vc_status vc_distill_check(struct vc_ctx *ctx, const struct vc_distill_options *given,
                                struct vc_distill_options *o)
{
    VC_CALL(vc_options_read(ctx, VC_OPTIONS(distill), given, o));
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
