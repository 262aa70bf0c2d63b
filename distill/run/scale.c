/* scale.c - the scale of the loss of fp16. Gradients below 6e-8 are 0 in 16 bits; so the loss is multiplied by a power
 * of two, and the gradients of the weights, which are floats, are divided by it before they are used:
 *
 *     some gradient is not finite      the step is left out, the scale is halved; below 1 the run ends
 *     2000 good steps in a row         the scale is doubled
 *     options.precision.loss_scale               it never changes, and a gradient that is not finite ends the run
 *
 * It begins at 65536; torch.amp.GradScaler does the same, without an end. */

#include "distill/run/trainer.h"

#define FIRST_SCALE 65536.0
#define LARGEST     0x1p126 /* a float, and so are gradients below 2 times it */
#define GROWS_AFTER 2000    /* good steps */

/* fp16 without a scale of the caller's. */
static bool adapts(const struct vc_trainer *t)
{
    return t->options.precision.half == VC_HALF_F16 && t->options.precision.loss_scale == 0;
}

/* The scale at the beginning of a run; 1 in all other precisions. */
void vc_scale_begin(struct vc_trainer *t)
{
    t->progress.scale =
        (struct vc_loss_scale){.value = adapts(t)                              ? FIRST_SCALE
                                        : t->options.precision.loss_scale != 0 ? t->options.precision.loss_scale
                                                                               : 1};
    if (!t->progress.control) {
        vc_scale_report(t);
    }
}

/* The state of a checkpoint is one that a run may have: a power of two in range. */
bool vc_scale_holds(const struct vc_trainer *t)
{
    const struct vc_loss_scale *s = &t->progress.scale;
    int exponent;

    return s->value >= 1 && s->value <= LARGEST && frexp(s->value, &exponent) == 0.5 && s->good >= 0 &&
           s->good < GROWS_AFTER && s->skipped >= 0 && s->skipped <= (double)t->progress.counts.step;
}

void vc_scale_report(struct vc_trainer *t)
{
    t->report->n_skipped = (uint64_t)t->progress.scale.skipped;
    t->report->loss_scale = t->progress.scale.value;
}

/* A step moved the weights. */
void vc_scale_good(struct vc_trainer *t)
{
    if (adapts(t) && ++t->progress.scale.good == GROWS_AFTER) {
        t->progress.scale.good = 0;
        t->progress.scale.value *= t->progress.scale.value < LARGEST ? 2 : 1;
    }
}

/* Halves the scale; false: the step may not be left out. */
bool vc_scale_skip(struct vc_trainer *t)
{
    if (!adapts(t) || t->progress.scale.value < 2) {
        return false;
    }
    t->progress.scale.value /= 2;
    t->progress.scale.good = 0;
    t->progress.scale.skipped++;
    return true;
}

/* The sentence for a gradient that is not finite even so. */
enum vc_status vc_scale_refuse(struct vc_trainer *t, uint64_t step, const char *tensor, size_t element)
{
    VC_REFUSE_IF(t->options.precision.loss_scale > 1, t->ctx, VC_E_ARGUMENT,
                 "step %llu: the gradient of %s is NaN or infinite at element %zu: gradients times %s %g are "
                 "beyond 65504, where fp16 ends; a smaller one, or none, which adapts itself, leaves them room",
                 (unsigned long long)step, tensor, element, vc_option(t->ctx, "precision.loss_scale"),
                 t->options.precision.loss_scale);
    return vc_fail(
        t->ctx, VC_E_GATE,
        "step %llu: the gradient of %s is NaN or infinite at element %zu, even with a scale of the loss of 1: "
        "gradients are beyond 65504, where fp16 ends; %s bf16 has room for them, and a smaller %s than %g keeps "
        "them from diverging",
        (unsigned long long)step, tensor, element, vc_option(t->ctx, "precision.kind"),
        vc_option(t->ctx, "optimizer.lr"), t->options.optimizer.lr);
}
