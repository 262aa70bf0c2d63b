/* evaluate_net.c - vc_evaluate: how well a network answers on the rows of a file. */

#include "core/base/option_struct.h"
#include "distill/run/trainer.h"
#include "kernels/kernels.h"

/* A trainer that only judges: the network is its student, the rows its evaluation. */
enum vc_status vc_evaluate(struct vc_ctx *ctx, const struct vc_evaluate_options *options, struct vc_quality *out)
{
    struct vc_distillation report = {.n_rows = 0};
    struct vc_trainer t = {.ctx = ctx, .report = &report, .judge_only = true};
    struct vc_evaluate_options o;
    enum vc_status status = VC_OK;

    vc_call_begin(ctx);
    VC_TRY(vc_options_read(ctx, VC_OPTIONS(evaluate), options, &o));
    const char *wrong = vc_trainer_wrong_option(o.batch, o.temperature, o.precision, o.loss, o.net_task);
    if (wrong == NULL && !(o.huber_delta > 0 && isfinite(o.huber_delta))) {
        wrong = "huber_delta";
    }
    if (wrong != NULL) {
        VC_TRY(vc_fail(ctx, VC_E_ARGUMENT, "%s is out of range", vc_option(ctx, wrong)));
    }
    vc_distill_defaults(&t.options);
    t.options.student = o.network;
    t.options.teacher = o.teacher;
    t.options.data = o.data;
    t.options.training.batch = o.batch;
    t.options.loss.temperature = o.temperature;
    t.options.precision.kind = o.precision;
    t.options.loss.kind = o.loss;
    t.options.answers = (struct vc_distill_answers){.net_task = o.net_task, .huber_delta = o.huber_delta};
    t.parts = o.parts;
    VC_TRY(vc_trainer_open(&t));
    VC_TRY(vc_trainer_prepare(&t));
    VC_TRY(vc_trainer_judge(&t, false, out, NULL));
out:
    vc_trainer_close(&t);
    return vc_call_end(ctx, status);
}
