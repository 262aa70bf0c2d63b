/* distill_effects.c - see distill_effects.h. A new option of distill that some other option makes useless is a new row
 * here, if `needs` of its row in cmd_distill.c cannot say it: more than one option decides, or a default. What the library
 * refuses by itself (its sentences say why) is not among them. */
#include "tools/convert/distill_effects.h"

#include "tools/options/distill_words.h"

/* Whether an option has an effect beside the others. */
typedef bool holds_fn(const struct effects_of *of);

/* The optimizer has second moments. */
static bool by_adam(const struct effects_of *of)
{
    return of->options->optimizer.kind != VC_OPTIMIZER_SGD && of->options->optimizer.kind != VC_OPTIMIZER_MOMENTUM;
}

/* -1: not given; the default of adamw decays. */
static bool decays(const struct effects_of *of)
{
    double decay = of->options->optimizer.weight_decay;

    return decay > 0 || (decay == -1 && of->options->optimizer.kind == VC_OPTIMIZER_ADAMW);
}

/* The loss has the teacher's term in some step. */
static bool is_taught(const struct effects_of *of)
{
    return of->options->loss.alpha > 0 || of->options->moving.alpha_end > 0;
}

/* The teacher's answers are compared with somewhere: in the loss, or on other rows. */
static bool compares(const struct effects_of *of)
{
    return is_taught(of) || (of->teacher && of->eval);
}

/* The loss, or the evaluation, softens answers by the temperature. */
static bool by_divergence(const struct effects_of *of)
{
    return loss_has_temperature(of->options->loss.kind) && compares(of);
}

/* The loss softens answers by the temperature of its step. */
static bool by_moving(const struct effects_of *of)
{
    return loss_has_temperature(of->options->loss.kind) && is_taught(of);
}

/* Some losses compare with y, too, if it has floats. */
static bool has_loss(const struct effects_of *of)
{
    enum vc_teacher_loss kind = of->options->loss.kind;

    return compares(of) ||
           (kind != VC_TEACHER_LOSS_KD && kind != VC_TEACHER_LOSS_REVERSE && kind != VC_TEACHER_LOSS_JS);
}

/* --graph says what the networks compute, so the teacher's file is not needed for that. */
static bool needs_teacher(const struct effects_of *of)
{
    const struct vc_distill_options *o = of->options;

    return is_taught(of) || of->eval || of->derived || o->loss.n_matches != 0 || o->task == VC_TASK_RECALIBRATE;
}

/* An option, when it has an effect, and what it belongs to, for the sentence. */
static const struct row {
    const char *option;
    holds_fn *holds;
    const char *belongs; /* to what */
} rows[] = {
    {"betas", by_adam, "--optimizer adam, adamw or adam8bit"},
    {"eps", by_adam, "--optimizer adam, adamw or adam8bit"},
    {"decay-1d", decays, "a --weight-decay above 0"},
    {"loss", has_loss, "the teacher's term, which --alpha 0 leaves out of the loss"},
    {"classes", compares, "the teacher's term, which --alpha 0 leaves out of the loss"},
    {"temperature", by_divergence, "the divergence from the teacher (--loss kd, reverse, js or bce, --alpha above 0)"},
    {"temperature-end", by_moving, "the divergence from the teacher (--loss kd, reverse, js or bce, --alpha above 0)"},
};

/* Words alone, before a file is opened. */
int effects_check(struct app *app, const struct effects_of *of)
{
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        if (options_seen(&app->parsed, rows[k].option) && !rows[k].holds(of)) {
            return app_usage(app, "--%s belongs to %s: here it would change nothing", rows[k].option, rows[k].belongs);
        }
    }
    if (options_seen(&app->parsed, "teacher") && options_seen(&app->parsed, "graph") && !needs_teacher(of)) {
        return app_usage(app,
                         "--teacher: with --alpha 0, and without --eval and --match, no answer of a teacher is asked "
                         "for: leave it out");
    }
    return GO_ON;
}
