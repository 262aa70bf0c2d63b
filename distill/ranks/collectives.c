/* collectives.c - see collectives.h.
 *
 * Why nobody waits for a rank that has gone: each all-gather has a number, the same on all ranks, and
 * carries the status of all. A rank that has failed skips what it was about to do and calls the next
 * all-gather; there all learn of it, and every later call returns the same failure without any exchange
 * (`over`). Only a rank that dies without a word is `lost`: the transport then fails, or a user interrupts.
 *
 *     rank 0    batch -- all-gather 7: OK ------------ fails as rank 1 does
 *     rank 1    batch fails -- all-gather 7: why ----- over
 *     rank 2    batch -- all-gather 7: OK ------------ fails as rank 1 does
 */
#include "distill/ranks/collectives.h"

#include "core/base/clock.h"

#define PATIENCE 0.1 /* seconds that an interrupted rank still waits for the others: mpirun kills after one */

/* What a rank tells in an all-gather. */
struct note {
    uint32_t number; /* of the collective: the same on all ranks */
    int32_t status;
    double numbers[VC_COLLECTIVE_NUMBERS];
    char text[VC_MESSAGE_BYTES]; /* of a failure */
};

/* One process among several. Notes and pieces have room for all ranks, so that no collective allocates. */
struct vc_ranks {
    struct vc_ranks_facts facts; /* first: what programs read */
    struct vc_ctx *ctx;          /* of the memory */
    const struct vc_transport *transport;
    void *handle;
    unsigned place; /* among the ranks of this machine */
    uint32_t n_collectives;
    bool over;              /* a failure is known to all ranks, or one is lost */
    enum vc_status failure; /* that ended it, with its sentence */
    char text[VC_MESSAGE_BYTES];
    struct note *notes; /* by rank */
    struct vc_piece *pieces;
    struct vc_piece *note_pieces;
    double (*numbers)[VC_COLLECTIVE_NUMBERS];
};

/* After a failure the transport stays open and the caller's. */
enum vc_status vc_ranks_create(struct vc_ctx *ctx, const struct vc_transport *transport, void *handle, unsigned rank,
                               unsigned size, struct vc_ranks **out)
{
    struct vc_ranks *r = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *r);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(r);
    *r = (struct vc_ranks){.ctx = ctx,
                           .transport = transport,
                           .handle = handle,
                           .facts = {.rank = rank, .size = size, .threads = 1, .library = transport->name}};
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, r->notes, size));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, r->pieces, (size_t)2 * size));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, r->note_pieces, (size_t)2 * size));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, r->numbers, size));
    *out = vc_give(&r);
out:
    if (r != NULL) {
        r->transport = NULL; /* it stays the caller's */
        vc_ranks_leave(r);
    }
    return status;
}

/* A rank that is lost closes without waiting for the others. */
void vc_ranks_leave(struct vc_ranks *r)
{
    if (r == NULL) {
        return;
    }
    if (r->transport != NULL) {
        r->transport->close(r->handle, !r->facts.lost);
    }
    VC_FREE_ALL(r->ctx, r->notes, r->pieces, r->note_pieces, r->numbers, r);
}

void vc_ranks_set_machine(struct vc_ranks *r, unsigned threads, unsigned before)
{
    r->facts.threads = threads;
    r->place = before;
}

unsigned vc_ranks_place(const struct vc_ranks *r)
{
    return r != NULL ? r->place : 0;
}

struct vc_piece *vc_ranks_pieces(struct vc_ranks *r)
{
    return r->pieces;
}

double (*vc_ranks_numbers(struct vc_ranks *r))[VC_COLLECTIVE_NUMBERS]
{
    return r->numbers;
}

/* ---- an exchange ---- */

/* A rank that is interrupted while it waits: the others will call this collective, unless they are gone. */
struct wait {
    struct vc_ctx *ctx;
    double since; /* 0: not interrupted yet */
};

/* A vc_transport_stop_fn: an interrupted rank waits a moment longer, since the others may be about to learn
 * of it. */
static bool gives_up(void *user)
{
    struct wait *wait = user;

    if (atomic_load_explicit(&wait->ctx->shared->cancelled, memory_order_relaxed) == 0) {
        return false;
    }
    wait->since = wait->since == 0 ? vc_seconds() : wait->since;
    return vc_seconds() - wait->since > PATIENCE;
}

/* The failure that ended it, which every later call returns. */
static enum vc_status end_with(struct vc_ctx *ctx, struct vc_ranks *r, enum vc_status failure, const char *text)
{
    r->over = true;
    r->failure = failure;
    (void)snprintf(r->text, sizeof r->text, "%s", text);
    return vc_fail(ctx, failure, "%s", r->text);
}

/* An exchange that failed is the last one: messages may be half on their way. */
static enum vc_status exchange(struct vc_ctx *ctx, struct vc_ranks *r, const struct vc_piece *out,
                               const struct vc_piece *in)
{
    struct wait wait = {ctx, 0};
    char why[VC_TRANSPORT_WHY] = "unknown reason";
    char text[VC_TRANSPORT_WHY + 64];

    if (r->transport->exchange(r->handle, out, in, gives_up, &wait, why)) {
        return VC_OK;
    }
    r->facts.lost = true;
    if (wait.since != 0) {
        (void)snprintf(text, sizeof text, "rank %u: interrupted while another rank did not answer", r->facts.rank);
        return end_with(ctx, r, VC_E_CANCELLED, text);
    }
    (void)snprintf(text, sizeof text, "rank %u: another rank does not answer: %s", r->facts.rank, why);
    return end_with(ctx, r, VC_E_IO, text);
}

enum vc_status vc_ranks_exchange(struct vc_ctx *ctx, struct vc_ranks *r, const struct vc_piece *out,
                                 const struct vc_piece *in)
{
    return r == NULL ? VC_OK : r->over ? vc_fail(ctx, r->failure, "%s", r->text) : exchange(ctx, r, out, in);
}

/* ---- an all-gather ---- */

/* Where all ranks say the same it is said once, as by one process: an option that none of them can have. */
static bool all_say(const struct vc_ranks *r)
{
    for (unsigned k = 1; k < r->facts.size; k++) {
        if (r->notes[k].status != r->notes[0].status || strcmp(r->notes[k].text, r->notes[0].text) != 0) {
            return false;
        }
    }
    return true;
}

/* The status of all ranks. A failure of a rank counts more than an interruption, which the failure may have caused. */
static enum vc_status judge(struct vc_ctx *ctx, struct vc_ranks *r)
{
    char text[VC_MESSAGE_BYTES];
    unsigned worst = r->facts.size;

    for (unsigned k = 0; k < r->facts.size; k++) {
        r->notes[k].text[VC_MESSAGE_BYTES - 1] = '\0';
        if (r->notes[k].status != VC_OK && (worst == r->facts.size || (r->notes[worst].status == VC_E_CANCELLED &&
                                                                       r->notes[k].status != VC_E_CANCELLED))) {
            worst = k;
        }
    }
    for (unsigned k = 0; worst == r->facts.size && k < r->facts.size; k++) {
        if (r->notes[k].number != r->n_collectives) {
            (void)snprintf(text, sizeof text, "rank %u is at collective %u, rank %u at %u: they do not do the same",
                           r->facts.rank, (unsigned)r->n_collectives, k, (unsigned)r->notes[k].number);
            return end_with(ctx, r, VC_E_INTERNAL, text);
        }
    }
    if (worst == r->facts.size) {
        return VC_OK;
    }
    if (all_say(r) || r->notes[worst].status == VC_E_CANCELLED) {
        return end_with(ctx, r, (enum vc_status)r->notes[worst].status, r->notes[worst].text);
    }
    (void)snprintf(text, sizeof text, "rank %u: %.*s", worst, (int)sizeof text - 32, r->notes[worst].text);
    return end_with(ctx, r, (enum vc_status)r->notes[worst].status, text);
}

/* Without ranks the own numbers are those of rank 0. */
enum vc_status vc_ranks_all_gather(struct vc_ctx *ctx, struct vc_ranks *r, enum vc_status status, const double *own,
                                   size_t n, double (*numbers)[VC_COLLECTIVE_NUMBERS])
{
    if (r == NULL || r->over) {
        VC_REFUSE_IF(r != NULL && status == VC_OK, ctx, r->failure, "%s", r->text);
        if (status == VC_OK && n != 0) {
            memcpy(numbers[0], own, n * sizeof *own);
        }
        return status;
    }
    struct note *mine = &r->notes[r->facts.rank];
    memset(mine, 0, sizeof *mine);
    mine->number = ++r->n_collectives;
    mine->status = (int32_t)status;
    if (n != 0) {
        memcpy(mine->numbers, own, n * sizeof *own);
    }
    if (status != VC_OK) {
        (void)snprintf(mine->text, sizeof mine->text, "%s", vc_ctx_message(ctx));
    }
    for (unsigned k = 0; k < r->facts.size; k++) {
        r->note_pieces[k] = (struct vc_piece){mine, sizeof *mine};
        r->note_pieces[r->facts.size + k] = (struct vc_piece){&r->notes[k], sizeof *mine};
    }
    if (exchange(ctx, r, r->note_pieces, r->note_pieces + r->facts.size) != VC_OK || judge(ctx, r) != VC_OK) {
        return r->failure;
    }
    for (unsigned k = 0; n != 0 && k < r->facts.size; k++) {
        memcpy(numbers[k], r->notes[k].numbers, n * sizeof *own);
    }
    return VC_OK;
}

enum vc_status vc_ranks_agree(struct vc_ctx *ctx, struct vc_ranks *r, enum vc_status status, const char *sentence)
{
    if (status != VC_OK && sentence != NULL) {
        (void)vc_fail(ctx, status, "%s", sentence);
    }
    return vc_ranks_all_gather(ctx, r, status, NULL, 0, NULL);
}

/* ---- the same text ---- */

/* First the lengths, then rank 0 sends its text to all, then each says whether its own is the same. */
enum vc_status vc_ranks_same(struct vc_ctx *ctx, struct vc_ranks *r, const char *text,
                             enum vc_status (*differs)(struct vc_ctx *ctx, const char *theirs, const char *ours))
{
    double own = (double)strlen(text);
    VC_SCOPED char *theirs = NULL;

    if (r == NULL) {
        return VC_OK;
    }
    VC_CALL(vc_ranks_all_gather(ctx, r, VC_OK, &own, 1, r->numbers));
    size_t n = (size_t)r->numbers[0][0];
    theirs = vc_alloc(ctx, VC_TAG_MISC, n + 1);
    VC_CALL(vc_ranks_all_gather(ctx, r, theirs != NULL ? VC_OK : VC_E_NOMEM, NULL, 0, NULL));
    theirs[n] = '\0';
    memset(r->pieces, 0, (size_t)2 * r->facts.size * sizeof *r->pieces);
    for (unsigned k = 1; r->facts.rank == 0 && k < r->facts.size; k++) {
        r->pieces[k] = (struct vc_piece){(void *)(uintptr_t)text, n};
    }
    if (r->facts.rank != 0) {
        r->pieces[r->facts.size] = (struct vc_piece){theirs, n};
    }
    VC_CALL(vc_ranks_exchange(ctx, r, r->pieces, r->pieces + r->facts.size));
    return vc_ranks_all_gather(
        ctx, r, r->facts.rank != 0 && strcmp(text, theirs) != 0 ? differs(ctx, theirs, text) : VC_OK, NULL, 0, NULL);
}
