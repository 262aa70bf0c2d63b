/* ranks_check.c - what ranks have to have in common: options, networks and rows before a run, weights behind it. */

#include "distill/data/identity.h"
#include "distill/run/run_options.h"

/* Rank 0 tells and writes; the others only compute. */
void vc_trainer_ranks_quiet(struct vc_trainer *t)
{
    if (vc_ranks_rank(t->options.parallel.ranks) != 0) {
        t->options.tell = NULL;
        t->options.gradients = NULL;
        t->options.checkpoint.path = NULL;
        t->options.checkpoint.every = 0;
    }
}

/* A step must have a batch for each rank at least. Statistics that several nodes move have an order that
 * only one process keeps. */
enum vc_status vc_trainer_ranks_fit(struct vc_trainer *t)
{
    unsigned n_ranks = vc_ranks_size(t->options.parallel.ranks);

    if (n_ranks == 1 || t->options.task != VC_TASK_TRAIN) {
        return VC_OK;
    }
    VC_REFUSE_IF(t->options.training.accum < n_ranks, t->ctx, VC_E_ARGUMENT,
                 "%u ranks share the batches of a step, and %s makes %llu of them; %s %u, and a %s of fewer rows "
                 "than %llu, give each rank one",
                 n_ranks, vc_option(t->ctx, "training.accum"), (unsigned long long)t->options.training.accum,
                 vc_option(t->ctx, "training.accum"), n_ranks, vc_option(t->ctx, "training.batch"),
                 (unsigned long long)t->options.training.batch);
    for (size_t k = 0; !t->options.trained.frozen_norm && k < t->student.net.weights->n; k++) {
        const struct vc_weight *item = &t->student.net.weights->items[k];

        VC_REFUSE_IF(item->statistic && item->norm_share < 0, t->ctx, VC_E_UNSUPPORTED,
                     "%s belongs to several nodes, so that %u ranks cannot move it as one process does; %s leaves "
                     "it as it is",
                     item->name, n_ranks, vc_option(t->ctx, "trained.frozen_norm"));
    }
    return VC_OK;
}

/* All ranks have the same text: versions, options, networks and rows. */
enum vc_status vc_trainer_ranks_check(struct vc_trainer *t)
{
    struct vc_text text;
    char *own = NULL;
    enum vc_status status = VC_OK;

    if (t->options.parallel.ranks == NULL) {
        return VC_OK;
    }
    vc_text_init(&text, t->ctx);
    vc_text_add(&text, "version %s\nsteps %llu\n", vc_version(), (unsigned long long)t->steps.n);
    vc_text_add(&text, "all_reduce %d\n", (int)t->options.parallel.all_reduce);
    VC_TRY(vc_run_options_text(t, &text));
    VC_TRY_ALLOC(own = vc_text_detach(&text));
    VC_TRY(vc_ranks_same(t->ctx, t->options.parallel.ranks, own, vc_run_options_of_ranks));
out:
    vc_text_free(own);
    vc_text_release(&text);
    return status;
}

static enum vc_status other_weights(struct vc_ctx *ctx, const char *theirs, const char *ours)
{
    return vc_fail(ctx, VC_E_INTERNAL,
                   "its weights (%.8s) are not those of rank 0 (%.8s): are the machines of one kind?", ours, theirs);
}

/* Behind the run all ranks must have the same weights, bit for bit. */
enum vc_status vc_trainer_ranks_compare(struct vc_trainer *t)
{
    const struct vc_weights *w = t->student.net.weights;
    char hex[VC_SHA256_HEX_BYTES];
    struct vc_sha256 sha;

    if (t->options.parallel.ranks == NULL) {
        return VC_OK;
    }
    vc_sha256_begin(&sha);
    for (size_t k = 0; k < w->n; k++) {
        if (!w->items[k].integers) {
            vc_sha256_add(&sha, w->items[k].data, (size_t)w->items[k].n * vc_real_bytes(w->precision));
        }
    }
    vc_sha256_end(&sha, hex);
    return vc_ranks_same(t->ctx, t->options.parallel.ranks, hex, other_weights);
}
