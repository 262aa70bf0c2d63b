/* train_auto.c - a run with the device "auto": on the CPU, or on the first card.
 *
 * First everything is opened for the CPU, which tells how large the network is and how many steps there are. A card is taken where
 * that is expected to be done sooner by the constants of kernels/rates.inc: multiply-adds of all steps over those a second, and the
 * start of a card. The number of threads means nothing to it, nor has any time that was measured: the last bits of a trained
 * network depend on the device. Then everything is opened once more. Where the card or its memory does not suffice, the CPU stays,
 * and the report says why. */

#include "core/text/text.h"
#include "distill/run/trainer.h"
#include "kernels/kernels.h"
#include "kernels/rates.h"
#include "passes/device_choice.h"

/* What a card has no kernels for, or is not known to be faster at. */
static const char *not_for_cards(const struct vc_trainer *t)
{
    const struct vc_graph *graph = t->options.student.graph;

    for (uint32_t k = 0; k < vc_graph_node_count(graph); k++) {
        if (vc_is_one_of(vc_graph_node(graph, k)->op, "LSTM|GRU|RNN")) {
            return "the time of recurrent cells on a card is not estimated";
        }
    }
    return t->student.f64                      ? "float64 computes on the CPU only"
           : t->options.precision.learn_scales ? "learned scales compute on the CPU only"
                                               : NULL;
}

/* The seconds of the whole run. Of a step that trains, the backward pass has twice the multiply-adds of the forward one. */
static void expect(const struct vc_trainer *t, double *cpu_seconds, double *card_seconds)
{
    const struct vc_net *net = &t->student.net;
    uint64_t again = 0;
    uint64_t forward = 0;
    uint64_t most = 0;

    for (size_t k = 0; k < net->n_engines; k++) {
        if (net->engines[k].rows > most) {
            most = net->engines[k].rows;
            vc_engine_recomputed(net->engines[k].engine, &again, &forward);
        }
    }
    double step = (double)forward * (t->judge_only ? 1 : 3) + (double)again + (t->runs_teacher ? (double)forward : 0);
    double n = t->judge_only ? (double)vc_ceil_div_u64(t->eval.rows.n, t->options.training.batch)
                             : (double)t->steps.n * (double)t->options.training.accum;
    double on_card = step / vc_machine_rate(VC_TRAIN_CARD);
    double least = vc_machine_rate(VC_TRAIN_STEP);

    *cpu_seconds = n * step / vc_machine_rate(VC_TRAIN_CPU);
    *card_seconds = vc_machine_rate(VC_CARD_START) + n * (on_card > least ? on_card : least);
}

/* The CPU has the run. */
static enum vc_status refuse_card(struct vc_trainer *t, const char *why)
{
    struct vc_shared *shared = t->ctx->shared;

    shared->training.by_card = false;
    (void)snprintf(shared->training.why, sizeof shared->training.why, "%s", why);
    if (!t->judge_only) {
        t->report->device_reason = vc_arena_copy(t->ctx, t->texts, shared->training.why, strlen(shared->training.why));
        VC_CALL_ALLOC(t->report->device_reason);
    }
    return VC_OK;
}

/* NULL, or why the run that was just opened for the card cannot be there. */
static const char *too_large(const struct vc_trainer *t, char text[256])
{
    uint64_t needed = t->report->device_planned_bytes;
    uint64_t there = vc_train_free_bytes(t->student.device);

    (void)snprintf(text, 256, "the run takes %llu bytes of device memory, %llu are free", (unsigned long long)needed,
                   (unsigned long long)there);
    return there != 0 && needed > there ? text : NULL;
}

enum vc_status vc_trainer_open(struct vc_trainer *t)
{
    const struct vc_trainer before = *t;
    struct vc_ctx *ctx = t->ctx;
    double cpu_seconds, card_seconds;
    char text[256];

    if (strcmp(vc_ctx_device(ctx), "auto") != 0 || vc_ranks_size(t->options.parallel.ranks) > 1 ||
        t->options.memory.device_memory != 0) {
        return vc_trainer_open_here(t);
    }
    VC_CALL(vc_device_check(ctx));
    ctx->shared->training.by_card = false;
    VC_CALL(vc_trainer_open_here(t));
    expect(t, &cpu_seconds, &card_seconds);
    if (!t->judge_only) { /* the job's report has them */
        ctx->shared->training.cpu_seconds = cpu_seconds;
        ctx->shared->training.card_seconds = card_seconds;
        t->report->expected_cpu_seconds = cpu_seconds;
        t->report->expected_card_seconds = card_seconds;
    }
    const char *why = not_for_cards(t);
    if (why == NULL && card_seconds >= cpu_seconds) {
        why = "it is expected to be faster";
    }
    if (why == NULL) {
        vc_kernels_card_begin(ctx);
        why = vc_kernels_card_end(ctx);
    }
    VC_RETURN_IF(why != NULL, refuse_card(t, why));
    ctx->shared->training.by_card = true;
    (void)vc_kernels_card_end(ctx); /* its name */
    vc_trainer_close(t);
    *t = before;
    enum vc_status status = vc_trainer_open_here(t);
    why = status == VC_OK ? too_large(t, text) : ctx->message;
    if (status != VC_OK ? status != VC_E_DEVICE && status != VC_E_NOMEM && status != VC_E_UNSUPPORTED : why == NULL) {
        return status;
    }
    VC_CALL(refuse_card(t, why));
    vc_clear_error(ctx);
    vc_trainer_close(t);
    *t = before;
    return vc_trainer_open_here(t);
}
