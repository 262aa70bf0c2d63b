/* step_sum.c - the gradient of a step from those of its batches, whoever computed them.
 *
 *     g0, g1, ...   of batch 0, 1, ... of the step, each complete: its sums begin at 0
 *     of the step   ((g0 + g1) + g2) + ...      element by element, in the type of the run
 *
 * So one process that computes all batches has the bits of several ranks that share them: rank r computes the batches
 * r, r + size, ... in rounds of `size` batches. In a round each rank adds up one slice of the gradient, for which it
 * gets the slices of the others, piece by piece; after the last round every rank gets all slices:
 *
 *     rank 0   g0: | slice 0 | slice 1 |                     total: | slice 0 of g0 + g1 |
 *     rank 1   g1: | slice 0 | slice 1 |   ---- pieces ---->        | slice 1 of g0 + g1 |  --> both slices to both
 *
 * Running statistics of batch normalization move once for each batch, in their order, too: a rank computes those of its
 * batch alone, and all ranks move theirs by all of them. */

#include "distill/math/real.h"
#include "distill/run/trainer.h"
#include "distill/update/device_step.h"

#define PER_PIECE 65536 /* elements that one rank gets of another one at a time */
#define PER_BLOCK 16384 /* elements that one thread adds at a time */
#define SLICE     16    /* slices begin at a multiple of so many elements: 64 bytes */

static size_t real_bytes(const struct vc_trainer *t)
{
    return vc_real_bytes(t->options.precision.kind);
}

/* Elements of all gradients. */
static uint64_t n_elems(const struct vc_trainer *t)
{
    return t->student.net.weights->grad_bytes / real_bytes(t);
}

/* Elements of a slice; the last ones may be shorter, or empty. */
static uint64_t slice_elems(const struct vc_trainer *t)
{
    uint64_t n = vc_ceil_div_u64(n_elems(t), vc_ranks_size(t->options.parallel.ranks));

    return vc_ceil_div_u64(n, SLICE) * SLICE;
}

/* The first element of a rank's slice; that of rank `size` is the end. */
static uint64_t slice_begin(const struct vc_trainer *t, unsigned rank)
{
    return vc_min_u64(rank * slice_elems(t), n_elems(t));
}

/* Elements of all running statistics; 0 where they stay as they are. */
static uint64_t n_statistics(const struct vc_trainer *t)
{
    uint64_t n = 0;

    for (size_t k = 0; !t->options.trained.frozen_norm && k < t->student.net.weights->n; k++) {
        n += t->student.net.weights->items[k].statistic ? t->student.net.weights->items[k].n : 0;
    }
    return n;
}

/* This rank's slice of the sum. One batch needs no sum. */
uint64_t vc_trainer_total_bytes(const struct vc_trainer *t)
{
    return t->options.training.accum > 1 && !vc_device_sums(&t->student) ? slice_elems(t) * real_bytes(t) : 0;
}

/* Pieces of all ranks. */
uint64_t vc_trainer_received_bytes(const struct vc_trainer *t)
{
    unsigned size = vc_ranks_size(t->options.parallel.ranks);

    return size > 1 && !vc_device_sums(&t->student) ? size * vc_min_u64(slice_elems(t), PER_PIECE) * real_bytes(t) : 0;
}

/* Statistics of all ranks, and those before the batch. */
uint64_t vc_trainer_norm_bytes(const struct vc_trainer *t)
{
    unsigned size = vc_ranks_size(t->options.parallel.ranks);

    return size > 1 ? (size + 1) * n_statistics(t) * real_bytes(t) : 0;
}

/* ---- gradients ---- */

/* A part of this rank's slice. */
struct adding {
    struct vc_trainer *t;
    bool first;       /* it is that of batch 0 */
    uint64_t at, n;   /* within the slice */
    unsigned n_parts; /* batches, one of each of the first ranks */
    const void *own;  /* of this rank: where it lies among the gradients */
    size_t per_rank;  /* bytes between the parts that were received */
};

/* A thread's part: adds the pieces of all batches of the round, in their order. */
static void add_block(void *user, unsigned worker, size_t block)
{
    const struct adding *a = user;
    size_t size = real_bytes(a->t);
    size_t first = block * PER_BLOCK;
    size_t n = (size_t)vc_min_u64(PER_BLOCK, a->n - first);
    char *total = (char *)a->t->sum.total + (a->at + first) * size;

    for (unsigned k = 0; k < a->n_parts; k++) {
        const char *part =
            k == vc_ranks_rank(a->t->options.parallel.ranks) ? a->own : (char *)a->t->sum.received + k * a->per_rank;

        if (a->first && k == 0) {
            memcpy(total, part + first * size, n * size);
        } else {
            vc_add(a->t->student.f64, total, part + first * size, n);
        }
    }
}

/* The slices of all ranks to the owners, a piece of each at a time. */
static enum vc_status add_round(struct vc_trainer *t, struct vc_engine *engine, bool first, unsigned n_parts)
{
    struct vc_ranks *ranks = t->options.parallel.ranks;
    unsigned rank = vc_ranks_rank(ranks);
    unsigned n_ranks = vc_ranks_size(ranks);
    size_t size = real_bytes(t);
    uint64_t slice = slice_elems(t);
    uint64_t most = n_ranks > 1 ? vc_min_u64(slice, PER_PIECE) : slice;
    char *grad = t->student.net.weights->grad_block;

    for (uint64_t at = 0; at < slice; at += most) {
        struct adding a = {t, first, at, 0, n_parts, grad + (slice_begin(t, rank) + at) * size, (size_t)most * size};

        for (unsigned k = 0; k < n_ranks; k++) {
            uint64_t begin = vc_min_u64(slice_begin(t, k) + at, slice_begin(t, k + 1));
            uint64_t n = vc_min_u64(most, slice_begin(t, k + 1) - begin);

            a.n = k == rank ? n : a.n;
            if (n_ranks > 1) {
                vc_ranks_pieces(ranks)[k] =
                    (struct vc_piece){grad + begin * size, rank < n_parts ? (size_t)n * size : 0};
            }
        }
        for (unsigned k = 0; n_ranks > 1 && k < n_ranks; k++) {
            vc_ranks_pieces(ranks)[n_ranks + k] =
                (struct vc_piece){(char *)t->sum.received + k * a.per_rank, k < n_parts ? (size_t)a.n * size : 0};
        }
        if (n_ranks > 1) {
            VC_CALL(vc_ranks_exchange(t->ctx, ranks, vc_ranks_pieces(ranks), vc_ranks_pieces(ranks) + n_ranks));
        }
        vc_engine_each(engine, (size_t)vc_ceil_div_u64(a.n, PER_BLOCK), add_block, &a);
    }
    return VC_OK;
}

/* The finished slices to all ranks, as the gradients of the weights. */
static enum vc_status spread(struct vc_trainer *t)
{
    struct vc_ranks *ranks = t->options.parallel.ranks;
    unsigned rank = vc_ranks_rank(ranks);
    unsigned n_ranks = vc_ranks_size(ranks);
    size_t size = real_bytes(t);
    char *grad = t->student.net.weights->grad_block;
    size_t n_bytes = (size_t)(slice_begin(t, rank + 1) - slice_begin(t, rank)) * size;
    char *own = grad + slice_begin(t, rank) * size;

    memcpy(own, t->sum.total, n_bytes);
    if (n_ranks == 1) {
        return VC_OK;
    }
    for (unsigned k = 0; k < n_ranks; k++) {
        vc_ranks_pieces(ranks)[k] = (struct vc_piece){own, n_bytes};
        vc_ranks_pieces(ranks)[n_ranks + k] = (struct vc_piece){
            grad + slice_begin(t, k) * size, (size_t)(slice_begin(t, k + 1) - slice_begin(t, k)) * size};
    }
    return vc_ranks_exchange(t->ctx, ranks, vc_ranks_pieces(ranks), vc_ranks_pieces(ranks) + n_ranks);
}

/* ---- running statistics ---- */

/* All statistics, to an array or back. */
static void copy_statistics(struct vc_trainer *t, void *array, bool back)
{
    char *at = array;

    for (size_t k = 0; k < t->student.net.weights->n; k++) {
        struct vc_weight *item = &t->student.net.weights->items[k];
        size_t n_bytes = item->statistic ? (size_t)item->n * real_bytes(t) : 0;

        if (n_bytes != 0) {
            memcpy(back ? item->data : at, back ? at : item->data, n_bytes);
        }
        at += n_bytes;
    }
}

/* From a device, or to it. */
static enum vc_status bring_statistics(struct vc_trainer *t, bool back)
{
    struct vc_weights *w = t->student.net.weights;

    for (size_t k = 0; k < w->n; k++) {
        if (w->items[k].statistic) {
            if (back) {
                VC_CALL(vc_weights_entry_to_device(w, k));
            } else {
                VC_CALL(vc_weights_entry_to_host(w, k));
            }
        }
    }
    return VC_OK;
}

/* With ranks: keeps the statistics before the batch, and has the batch leave its own in their place. */
enum vc_status vc_trainer_before_batch(struct vc_trainer *t, struct vc_engine_pass *pass)
{
    if (t->sum.norms != NULL) {
        VC_CALL(bring_statistics(t, false));
        copy_statistics(t, t->sum.norms, false);
        pass->norm_share = 1; /* what is left behind is that of the batch */
    }
    return VC_OK;
}

/* norms: those before the round, then those of the batch of each rank. */
static enum vc_status move_statistics(struct vc_trainer *t, unsigned n_parts)
{
    struct vc_ranks *ranks = t->options.parallel.ranks;
    unsigned rank = vc_ranks_rank(ranks);
    unsigned n_ranks = vc_ranks_size(ranks);
    size_t n_bytes = (size_t)n_statistics(t) * real_bytes(t);
    char *of_ranks = (char *)t->sum.norms + n_bytes;

    if (t->sum.norms == NULL) {
        return VC_OK;
    }
    if (rank < n_parts) {
        VC_CALL(bring_statistics(t, false));
        copy_statistics(t, of_ranks + rank * n_bytes, false);
        copy_statistics(t, t->sum.norms, true);
    }
    for (unsigned k = 0; k < n_ranks; k++) {
        vc_ranks_pieces(ranks)[k] = (struct vc_piece){of_ranks + rank * n_bytes, rank < n_parts ? n_bytes : 0};
        vc_ranks_pieces(ranks)[n_ranks + k] = (struct vc_piece){of_ranks + k * n_bytes, k < n_parts ? n_bytes : 0};
    }
    VC_CALL(vc_ranks_exchange(t->ctx, ranks, vc_ranks_pieces(ranks), vc_ranks_pieces(ranks) + n_ranks));
    for (unsigned k = 0; k < n_parts; k++) {
        const char *at = of_ranks + k * n_bytes;

        for (size_t i = 0; i < t->student.net.weights->n; i++) {
            struct vc_weight *item = &t->student.net.weights->items[i];

            if (item->statistic) {
                vc_move_statistics(t->student.f64, item->data, at, (size_t)item->n, item->norm_share);
                at += item->n * real_bytes(t);
            }
        }
    }
    return bring_statistics(t, true);
}

/* ---- a round ---- */

/* Behind a round of batches, of which `first` is the first. On a device the gradients stay there, and only
 * statistics go between the ranks here. */
enum vc_status vc_trainer_sum(struct vc_trainer *t, struct vc_engine *engine, uint64_t first, uint64_t n_batches)
{
    unsigned n_parts = (unsigned)vc_min_u64(vc_ranks_size(t->options.parallel.ranks), n_batches - first);

    if (vc_device_sums(&t->student)) {
        VC_CALL(vc_device_sum(&t->student, first, n_batches));
        return t->sum.norms != NULL ? move_statistics(t, n_parts) : VC_OK;
    }
    if (t->options.parallel.ranks == NULL && n_batches == 1) {
        return VC_OK; /* its gradient is that of the step */
    }
    if (vc_ranks_rank(t->options.parallel.ranks) < n_parts) {
        VC_CALL(vc_weights_grads_to_host(t->student.net.weights));
    }
    VC_CALL(add_round(t, engine, first == 0, n_parts));
    if (t->sum.norms != NULL) {
        VC_CALL(move_statistics(t, n_parts));
    }
    if (first + n_parts == n_batches) {
        VC_CALL(spread(t));
        VC_CALL(vc_weights_grads_to_device(t->student.net.weights));
    }
    return VC_OK;
}
