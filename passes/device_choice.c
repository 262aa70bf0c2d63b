/* device_choice.c - see device_choice.h. */
#include "passes/device_choice.h"

#include "kernels/kernels.h"
#include "kernels/rates.h"

/* Seconds of what is the same wherever a job runs and what is not. */
struct work {
    double all_on_cpu; /* of the processors, if they do everything */
    double beside;     /* ... and of what stays with them when there is a card */
    double card, bus;
};

/* Adds a step of n weights; true where a card is to have it. */
static bool add_step(struct work *work, const struct vc_step *step, uint64_t n, unsigned n_threads)
{
    const struct vc_rate *rate = vc_rate_of(step->work != NULL ? step->work : step->scheme);

    if (rate == NULL) {
        return false;
    }
    double cpu = (double)n / (rate->cpu * n_threads);
    bool on_card = n >= VC_CARD_MIN_ELEMS && rate->card > rate->cpu * n_threads;
    work->all_on_cpu += cpu;
    work->beside += on_card ? (double)n / (vc_machine_rate(VC_CARD_BESIDE) * n_threads) : cpu;
    if (on_card) {
        work->card += (double)n / rate->card;
        work->bus += (double)n * sizeof(float) / vc_machine_rate(VC_CARD_BUS);
    }
    return on_card;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* A pass has trained a network, and chose for it: what comes behind takes little time beside that. */
static bool take_training(struct vc_ctx *ctx, struct vc_device_choice *choice)
{
    bool trained = ctx->shared->training.cpu_seconds > 0;

    if (trained) {
        choice->cpu_seconds = ctx->shared->training.cpu_seconds;
        choice->card_seconds = ctx->shared->training.card_seconds;
        choice->why = ctx->shared->training.by_card ? "" : ctx->shared->training.why;
        ctx->shared->training.cpu_seconds = 0;
    }
    return trained;
}

/* A card that was named gets everything but small tensors. */
static void choose(struct vc_ctx *ctx, const struct vc_plan *plan, uint64_t file_bytes, unsigned n_threads, bool wait,
                   struct vc_device_choice *choice)
{
    bool automatic = strcmp(vc_ctx_device(ctx), "auto") == 0;
    struct work work = {0};

    *choice = (struct vc_device_choice){.why = ""};
    for (size_t i = 0; i < plan->n_items; i++) {
        struct vc_item *item = &plan->items[i];
        bool for_card = false;

        for (size_t k = 0; k < item->chain->n_steps; k++) {
            for_card |= add_step(&work, item->chain->steps[k], item->chain->steps[k]->in.n_elems, n_threads);
        }
        item->on_cpu = automatic ? !for_card : item->first->n_elems < VC_CARD_MIN_ELEMS;
    }
    if (!automatic || take_training(ctx, choice)) {
        return;
    }
    double files = (double)file_bytes / vc_machine_rate(VC_FILES);
    choice->cpu_seconds = larger(files, work.all_on_cpu);
    choice->card_seconds =
        vc_machine_rate(VC_CARD_START) + larger(larger(files, work.beside), larger(work.card, work.bus));
    if (choice->card_seconds < choice->cpu_seconds) {
        vc_kernels_card_begin(ctx);
        if (wait) {
            vc_device_chooser.end(ctx, choice);
        }
        return;
    }
    choice->why = "it is expected to be faster";
    for (size_t i = 0; i < plan->n_items; i++) { /* a card may be open, from a job before */
        plan->items[i].on_cpu = true;
    }
}

static void end(struct vc_ctx *ctx, struct vc_device_choice *choice)
{
    const char *why = vc_kernels_card_end(ctx);

    choice->why = why != NULL && choice->why[0] == '\0' ? why : choice->why;
}

const struct vc_chooser vc_device_chooser = {.choose = choose, .end = end};

enum vc_status vc_device_check(struct vc_ctx *ctx)
{
    VC_REFUSE_IF(strcmp(vc_ctx_device(ctx), "auto") == 0 && vc_machine_rate(VC_CARD_START) < 0, ctx, VC_E_ARGUMENT,
                 VC_CARD_START_VARIABLE ": '%s' is no number of seconds from 0 to 1000",
                 getenv(VC_CARD_START_VARIABLE));
    return VC_OK;
}
