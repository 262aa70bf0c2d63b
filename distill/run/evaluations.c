/* evaluations.c - evaluations during a run: which weights were the best, and when to stop.
 *
 *     every `every` steps   the student, rounded as it would be written, answers the rows of the evaluation
 *     better than before    its weights are copied to `best`, and waiting begins again
 *     not better            `waited` counts; at early_stop the run stops
 *     behind the run        the best weights, or the last ones, are what is written
 */

#include "core/base/clock.h"
#include "distill/run/trainer.h"
#include "distill/trained.h"
#include "distill/update/device_step.h"
#include "distill/update/fake_quant.h"
#include "distill/update/gradual.h"

/* Of two evaluations with the same figure, the one with the smaller loss is better. */
static double loss_of(const struct vc_quality *q)
{
    return isnan(q->ce) ? q->kd : q->ce;
}

/* So many evaluations without a better one have passed. */
static bool is_over(const struct vc_trainer *t)
{
    return t->options.eval.early_stop != 0 && t->progress.counts.waited >= t->options.eval.early_stop;
}

/* Behind this step, and not twice for the same one. */
static bool is_due(const struct vc_trainer *t)
{
    uint64_t every = t->options.eval.every;
    uint64_t step = t->progress.counts.step;

    return every != 0 && step != 0 && step != t->progress.counts.looked && (step % every == 0 || step == t->steps.n);
}

/* The list grows in the arena of texts, which the report keeps. */
enum vc_status vc_trainer_room_for_evals(struct vc_trainer *t, uint64_t n)
{
    struct vc_distillation *r = t->report;
    struct vc_distill_eval *more;

    if (n <= t->evals.room) {
        return VC_OK;
    }
    t->evals.room = 2 * n + 16;
    VC_CALL_ALLOC(more = vc_arena_alloc(t->ctx, t->texts, (size_t)t->evals.room * sizeof *more));
    if (r->n_evals != 0) {
        memcpy(more, r->evals, (size_t)r->n_evals * sizeof *more);
    }
    t->evals.items = more;
    r->evals = more;
    return VC_OK;
}

/* The student as it would be written, rounded to the file's types; its weights are the same afterwards. */
static enum vc_status judge(struct vc_trainer *t, struct vc_quality *quality)
{
    struct vc_weights *w = t->student.net.weights;
    enum vc_status status;

    status = t->student.fake_quants != NULL ? vc_device_to_host(&t->student) : vc_weights_to_host(w); /* masters, too */
    if (status != VC_OK) {
        return status;
    }
    memcpy(t->evals.spare, w->data_block, (size_t)w->data_bytes);
    VC_TRY(vc_weights_round(t->ctx, w, t->options.student.weights, !t->options.trained.frozen_norm));
    VC_TRY(vc_trainer_judge(t, false, quality, NULL));
out:
    memcpy(w->data_block, t->evals.spare, (size_t)w->data_bytes);
    vc_weights_changed(w);
    return status;
}

/* Adds the evaluation to the report and tells the caller. */
static enum vc_status note(struct vc_trainer *t, const struct vc_quality *quality)
{
    const struct vc_distill_step told = {.step = t->progress.counts.step,
                                         .n_steps = t->steps.n,
                                         .control = t->progress.control,
                                         .loss = (double)NAN,
                                         .kd = (double)NAN,
                                         .ce = (double)NAN,
                                         .grad_norm = (double)NAN,
                                         .lr = (double)NAN,
                                         .scale = (double)NAN,
                                         .sparsity = vc_gradual_sparsity(&t->student),
                                         .host_bytes = vc_pool_in_use(t->ctx->shared->pool),
                                         .device_bytes = t->student.device != NULL ? t->student.device->bytes : 0,
                                         .seconds = vc_seconds() - t->progress.began,
                                         .eval = quality};

    if (!t->progress.control) {
        VC_CALL(vc_trainer_room_for_evals(t, t->report->n_evals + 1));
        t->evals.items[t->report->n_evals] =
            (struct vc_distill_eval){.step = t->progress.counts.step, .quality = *quality};
        t->progress.counts.n_evals = ++t->report->n_evals;
    }
    if (t->options.tell != NULL) {
        t->options.tell(t->options.user, &told);
    }
    return VC_OK;
}

/* While gradual pruning is not done no evaluation counts: such weights are not written. */
enum vc_status vc_trainer_evaluate(struct vc_trainer *t, bool *stop)
{
    struct vc_quality quality;
    double figure, loss;

    *stop = is_over(t);
    if (!is_due(t)) {
        return VC_OK;
    }
    VC_CALL(judge(t, &quality));
    figure = vc_figure_of(&quality);
    loss = loss_of(&quality);
    t->progress.counts.looked = t->progress.counts.step;
    t->progress.counts.waited += vc_gradual_done(
        &t->student, t->progress.counts.step); /* weights of a lower sparsity than asked for are not written */
    if (!vc_gradual_done(&t->student, t->progress.counts.step)) {
        return note(t, &quality);
    }
    if (t->progress.counts.best_step == 0 || figure > t->progress.figures.best_figure ||
        (figure == t->progress.figures.best_figure && loss < t->progress.figures.best_loss)) {
        t->progress.counts.best_step = t->progress.counts.step;
        t->progress.counts.waited = 0;
        t->progress.figures.best_figure = figure;
        t->progress.figures.best_loss = loss;
        memcpy(t->evals.best, t->evals.spare, (size_t)t->student.net.weights->data_bytes);
        vc_fake_quant_copy_masters(&t->student, t->evals.best);
    }
    VC_CALL(note(t, &quality));
    *stop = is_over(t);
    return VC_OK;
}

/* Behind the last step: weights to the host, and the best in place of the last where that was asked for. */
enum vc_status vc_trainer_choose(struct vc_trainer *t)
{
    enum vc_status status = vc_device_to_host(&t->student);

    if (status == VC_OK && t->options.eval.every != 0 && t->options.eval.keep == VC_KEEP_BEST &&
        t->progress.counts.best_step != 0) {
        memcpy(t->student.net.weights->data_block, t->evals.best, (size_t)t->student.net.weights->data_bytes);
        vc_fake_quant_take_masters(&t->student);
        status = vc_fake_quant_apply(&t->student, NULL);
        vc_weights_changed(t->student.net.weights);
        vc_device_changed(&t->student);
    }
    if (!t->progress.control) {
        t->report->best_step = t->progress.counts.best_step;
        t->report->stopped = t->progress.counts.step < t->steps.n;
    }
    return status;
}
