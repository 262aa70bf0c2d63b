/* recalibrate.c - running statistics of batch normalization from data, without training: what pruning or quantizing
 * changed in front of them, they do not know. See trainer.h. */
#include "distill/run/trainer.h"
#include "distill/trained.h"

/* There are statistics to recalibrate. */
enum vc_status vc_trainer_recalibrate_check(struct vc_trainer *t)
{
    for (size_t k = 0; k < t->student.net.weights->n; k++) {
        if (t->student.net.weights->items[k].statistic) {
            return VC_OK;
        }
    }
    return vc_fail(t->ctx, VC_E_ARGUMENT, "%s: the student has no batch normalization with running statistics",
                   vc_option(t->ctx, "task"));
}

/* Each batch counts for its share of all rows so far, so that in the end every row counts the same. */
enum vc_status vc_trainer_recalibrate(struct vc_trainer *t)
{
    VC_SCOPED uint64_t *numbers =
        vc_alloc_array(t->ctx, VC_TAG_MISC, (size_t)t->options.training.batch, sizeof *numbers);
    const struct vc_engine_value *logits;
    struct vc_engine *engine;
    uint64_t n;

    VC_CALL_ALLOC(numbers);
    for (uint64_t first = 0; first < t->data.rows.n; first += n) {
        struct vc_engine_pass pass = {.training = true};

        n = vc_min_u64(t->options.training.batch, t->data.rows.n - first);
        pass.norm_share = (double)n / (double)(first + n);
        for (uint64_t i = 0; i < n; i++) {
            numbers[i] = first + i;
        }
        VC_CALL(vc_net_engine(&t->student.net, n, false, &engine));
        VC_CALL(vc_net_forward(&t->student.net, engine, &t->data.student, numbers, (size_t)n, &pass, &logits));
        VC_CALL(vc_check_cancelled(t->ctx));
    }
    return vc_weights_round(t->ctx, t->student.net.weights, t->options.student.weights, true);
}
