/* device_ranks.c - see device_ranks.h.
 *
 * Who adds up the gradients of the ranks is decided once, by all together: NCCL if every rank has a CUDA
 * device of its own and the library; else the hosts. All ranks must compute on the same kind of device, as
 * their results would differ.
 *
 * A call of NCCL waits for the other ranks with no way to learn of a failure. So it is asked for without
 * waiting, and ranks wait in slices; between two slices they gather their statuses:
 *
 *     rank 0   add ----- slice -- gather -- slice -- gather: all done
 *     rank 1   add - FAILS ------ gather: all end here
 */
#include "distill/update/device_ranks.h"

#include "core/base/clock.h"
#include "distill/ranks/collectives.h"
#include "distill/update/device_step.h"

#define PATIENCE 300 /* seconds until a call of NCCL is given up, which all ranks have asked for */
#define SLICE    0.2 /* of them, until ranks hear of each other */

static const struct vc_train_sums *sums_of(const struct vc_learner *l)
{
    return l->device->table->sums;
}

/* With the other way to add up. */
static enum vc_status fail(struct vc_learner *l, const char *why)
{
    return vc_fail(l->ctx, VC_E_DEVICE, "NCCL, which adds up the gradients of the ranks: %s (%s host does without it)",
                   why, vc_option(l->ctx, "parallel.all_reduce"));
}

/* NCCL was asked for, and there is no device. */
static enum vc_status no_device(struct vc_learner *l)
{
    return vc_fail(l->ctx, VC_E_ARGUMENT, "NCCL adds up what lies on CUDA devices, so %s nccl needs %s cuda",
                   vc_option(l->ctx, "parallel.all_reduce"), vc_option(l->ctx, "device"));
}

/* The ranks compute on different kinds of device. */
static enum vc_status mixed(struct vc_learner *l, unsigned rank, bool on_device)
{
    return vc_fail(
        l->ctx, VC_E_ARGUMENT,
        "rank 0 computes on %s, rank %u on %s: %s has to say the same for all, so that they have the same bits",
        on_device ? "the CPU" : "a CUDA device", rank, on_device ? "a CUDA device" : "the CPU",
        vc_option(l->ctx, "device"));
}

/* Two ranks share a device. */
static enum vc_status same_device(struct vc_learner *l, unsigned a, unsigned b)
{
    return vc_fail(l->ctx, VC_E_DEVICE,
                   "ranks %u and %u have the same CUDA device, and NCCL takes no such ranks (%s host does)", a, b,
                   vc_option(l->ctx, "parallel.all_reduce"));
}

/* Behind the first two of a rank's numbers: the words of its device's UUID. */
#define N_NUMBERS (2 + VC_TRAIN_UUID / 4)

/* The device's UUID as numbers that an all-gather takes, four bytes each. */
static enum vc_status describe_device(struct vc_learner *l, double *words)
{
    unsigned char uuid[VC_TRAIN_UUID];

    VC_RETURN_IF(sums_of(l)->uuid(uuid) != 0, fail(l, sums_of(l)->why()));
    for (size_t k = 0; k < VC_TRAIN_UUID / 4; k++) {
        uint32_t word;

        memcpy(&word, uuid + 4 * k, sizeof word);
        words[k] = word;
    }
    return VC_OK;
}

/* An earlier rank that has the device of rank k; k where there is none. */
static unsigned shares_with(double (*all)[VC_COLLECTIVE_NUMBERS], unsigned k)
{
    for (unsigned j = 0; j < k; j++) {
        if (memcmp(all[j] + 2, all[k] + 2, (N_NUMBERS - 2) * sizeof all[k][0]) == 0) {
            return j;
        }
    }
    return k;
}

/* *nccl: all ranks can. A rank that cannot still takes part in the gathering, so that none waits for it. */
enum vc_status vc_device_ranks_choose(struct vc_learner *l, bool *nccl)
{
    struct vc_ranks *ranks = l->options->parallel.ranks;
    bool wanted = l->options->parallel.all_reduce == VC_ALL_REDUCE_NCCL;
    bool on_device = l->device != NULL;
    bool here = on_device && l->options->parallel.all_reduce != VC_ALL_REDUCE_HOST && sums_of(l)->name() != NULL;
    double own[N_NUMBERS] = {on_device, here};
    double(*all)[VC_COLLECTIVE_NUMBERS];
    unsigned other;
    enum vc_status status = VC_OK;

    *nccl = false;
    if (ranks == NULL) {
        return !wanted || on_device ? VC_OK : no_device(l);
    }
    all = vc_ranks_numbers(ranks);
    if (here) {
        status = describe_device(l, own + 2);
    } else if (wanted && on_device) {
        status = fail(l, sums_of(l)->why());
    }
    VC_CALL(vc_ranks_all_gather(l->ctx, ranks, status, own, N_NUMBERS, all));
    *nccl = true;
    for (unsigned k = 0; k < vc_ranks_size(ranks); k++) {
        if (all[k][0] != all[0][0]) {
            VC_CALL(mixed(l, k, all[k][0] != 0));
        }
        *nccl = *nccl && all[k][1] != 0;
    }
    for (unsigned k = 0; *nccl && k < vc_ranks_size(ranks); k++) {
        other = shares_with(all, k);
        if (other != k && wanted) {
            VC_CALL(same_device(l, other, k));
        }
        *nccl = other == k;
    }
    if (on_device) {
        l->report->all_reduce = *nccl ? sums_of(l)->name() : "host";
    } else if (wanted) {
        return no_device(l);
    }
    return VC_OK;
}

/* ---- calls that wait for the others ---- */

/* Asked while one goes on. */
struct slice {
    struct vc_ctx *ctx;
    double until;
};

/* A slice ends with its time, or when the user interrupts. */
static bool is_over(void *user)
{
    const struct slice *s = user;

    return atomic_load_explicit(&s->ctx->shared->cancelled, memory_order_relaxed) != 0 || vc_seconds() > s->until;
}

/* *done: 1 when what this rank has asked for is. */
static enum vc_status wait_slice(struct vc_learner *l, double since, double *done)
{
    struct slice slice = {l->ctx, vc_seconds() + SLICE};
    int outcome = sums_of(l)->wait(l->device->session, is_over, &slice);

    *done = outcome == 0;
    VC_RETURN_IF(outcome == 1, fail(l, sums_of(l)->why()));
    VC_RETURN_IF(outcome == 2 && vc_seconds() - since > PATIENCE, fail(l, "the other ranks were waited for too long"));
    return vc_check_cancelled(l->ctx);
}

/* status: of this rank's asking. Ranks gather their statuses between slices of the waiting, so that no rank waits for
 * a rank that has failed or gone. */
static enum vc_status wait_for_all(struct vc_learner *l, enum vc_status status)
{
    struct vc_ranks *ranks = l->options->parallel.ranks;
    double(*all)[VC_COLLECTIVE_NUMBERS] = vc_ranks_numbers(ranks);
    double since = vc_seconds();
    double own = 0;

    for (;;) {
        status = vc_ranks_all_gather(l->ctx, ranks, status, &own, 1, all);
        if (status != VC_OK) {
            sums_of(l)->end(l->device->session, false); /* before anything waits for the device */
            return status;
        }
        bool all_done = true;
        for (unsigned k = 0; k < vc_ranks_size(ranks); k++) {
            all_done = all_done && all[k][0] != 0;
        }
        if (all_done) {
            return VC_OK;
        }
        status = own == 0 ? wait_slice(l, since, &own) : VC_OK;
    }
}

/* Rank 0 makes the number that ranks of NCCL find each other by, and sends it to all. */
enum vc_status vc_device_ranks_begin(struct vc_learner *l)
{
    struct vc_ranks *ranks = l->options->parallel.ranks;
    unsigned char id[VC_TRAIN_SUMS_ID] = {0};
    unsigned rank = vc_ranks_rank(ranks);
    unsigned size = vc_ranks_size(ranks);
    enum vc_status status;

    if (!vc_device_uses_nccl(l)) {
        return VC_OK;
    }
    VC_CALL(vc_ranks_all_gather(
        l->ctx, ranks, rank == 0 && sums_of(l)->id(id) != 0 ? fail(l, sums_of(l)->why()) : VC_OK, NULL, 0, NULL));
    struct vc_piece *pieces = vc_ranks_pieces(ranks);
    for (unsigned k = 0; k < size; k++) {
        pieces[k] = (struct vc_piece){id, rank == 0 ? sizeof id : 0};
        pieces[size + k] = (struct vc_piece){id, rank != 0 && k == 0 ? sizeof id : 0};
    }
    VC_CALL(vc_ranks_exchange(l->ctx, ranks, pieces, pieces + size));
    status = sums_of(l)->begin(l->device->session, id, rank, size) != 0 ? fail(l, sums_of(l)->why()) : VC_OK;
    return wait_for_all(l, status);
}

/* The sum over all ranks in place, on the device. */
enum vc_status vc_device_ranks_add(struct vc_learner *l, float *data, uint64_t n)
{
    int outcome = sums_of(l)->add(l->device->session, data, n);

    return wait_for_all(l, outcome != 0 ? fail(l, sums_of(l)->why()) : VC_OK);
}

void vc_device_ranks_end(struct vc_learner *l)
{
    if (l->device != NULL && vc_device_uses_nccl(l)) {
        sums_of(l)->end(l->device->session, !vc_ranks_lost(l->options->parallel.ranks));
    }
}
