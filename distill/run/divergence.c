/* divergence.c - a run that is further from its aim in the end than in the beginning. Where the rows of an evaluation
 * judge the student, they say so; here the losses of the steps do, which are of other rows each:
 *
 *     late    the mean of the last 16 losses, of fewer where there were fewer steps
 *     grown   late is several times the first loss, 4 times where a step has 32 rows or more; or, of 64 steps and more,
 *             it is 1.5 times the mean of the first 16, and more than noise of 4 standard errors makes
 *
 * Gradual pruning may raise the loss, so a run that prunes is not judged by it. A loss or a gradient that is no number
 * ends every run. */

#include "distill/run/trainer.h"

#define MANY_STEPS (4 * VC_LATE_LOSSES)

/* Notes the loss of a step that is done. The last ones lie in a ring. */
void vc_divergence_note(struct vc_trainer *t, double loss)
{
    struct vc_run_figures *f = &t->progress.figures;
    uint64_t step = t->progress.counts.step; /* that is done */

    f->first = step == 1 ? loss : f->first;
    if (step <= VC_LATE_LOSSES) {
        f->early += loss;
        f->early_squares += loss * loss;
    }
    f->late[step % VC_LATE_LOSSES] = loss;
}

/* How often the first loss is too much. Losses of few rows vary more, so more is allowed. */
static double factor_of(const struct vc_trainer *t)
{
    double rows = (double)vc_min_u64(t->steps.rows, t->data.rows.n) * (double)t->student.net.positions;

    return rows >= 32 ? 4 : rows >= 8 ? 10 : 100;
}

/* The mean of the last n losses, and the sum of the squares of what they differ from it. */
static double late_mean(const struct vc_trainer *t, unsigned n, double *squares)
{
    double sum = 0;

    *squares = 0;
    for (unsigned k = 0; k < n; k++) {
        sum += t->progress.figures.late[(t->progress.counts.step - k) % VC_LATE_LOSSES];
    }
    for (unsigned k = 0; k < n; k++) {
        double d = t->progress.figures.late[(t->progress.counts.step - k) % VC_LATE_LOSSES] - sum / n;

        *squares += d * d;
    }
    return sum / n;
}

/* Behind the last step. Two tests: several times the first loss, or a rise that noise does not explain. */
enum vc_status vc_divergence_judge(struct vc_trainer *t)
{
    const struct vc_run_figures *f = &t->progress.figures;
    const double n = VC_LATE_LOSSES;
    unsigned n_late = (unsigned)vc_min_u64(VC_LATE_LOSSES, t->progress.counts.step - (t->progress.counts.step != 0));
    double squares, noise, late, early;

    if (t->eval.open || t->student.gradual != NULL || n_late == 0) {
        return VC_OK;
    }
    late = late_mean(t, n_late, &squares);
    early = f->early / n;
    noise = sqrt((squares + fmax(0, f->early_squares - n * early * early)) / (n - 1) / n);
    bool grown = late > factor_of(t) * f->first;
    if (!grown && (t->progress.counts.step < MANY_STEPS || late <= 1.5 * early || late - early <= 4 * noise)) {
        return VC_OK;
    }
    return vc_fail(
        t->ctx, VC_E_GATE,
        "the loss grew from %.4g in the first %s to %.4g in the last %u: a smaller %s than %g, or %s, keeps the "
        "student from diverging; with %s other rows judge it",
        grown ? f->first : early, grown ? "step" : "16 steps", late, n_late, vc_option(t->ctx, "optimizer.lr"),
        t->options.optimizer.lr, vc_option(t->ctx, "optimizer.clip"), vc_option(t->ctx, "eval.rows"));
}

/* Turns the failure into a missed gate of the report. */
enum vc_status vc_divergence_tell(struct vc_trainer *t, struct vc_arena *arena)
{
    t->report->missed =
        vc_arena_printf(t->ctx, arena, "%s%s", t->progress.control ? "the control run: " : "", vc_ctx_message(t->ctx));
    VC_CALL_ALLOC(t->report->missed);
    vc_clear_error(t->ctx);
    t->progress.control = false;
    t->report->evaluated = false;
    t->report->has_control = false;
    VC_CALL(vc_trainer_reload(t)); /* what a chain goes on with is finite */
    vc_trainer_release(t);
    return VC_OK;
}
