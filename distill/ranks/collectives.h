/* collectives.h - the collectives of ranks: gathering of statuses and numbers, exchange of arrays, sums.
 *
 * Every step of the common work begins with an all-gather, in which each rank tells its status:
 *
 *     rank 0: compute -- gather -- exchange arrays -- compute -- gather -- ...
 *     rank 1: compute -- gather -- exchange arrays -- FAILS ---- gather     all end here, with the sentence of rank 1
 *
 * Arrays are exchanged directly behind an all-gather, with nothing between that can fail. So a rank that has failed
 * calls one all-gather, whichever the others are at, and all ranks learn of the failure; no rank waits for a rank that
 * has gone. After an all-gather with a failure there is no other collective: calls return the failure at once.
 *
 * In all functions ranks NULL is a process on its own. */
#pragma once

#include <vcompress/ranks.h>

#include "core/base/ctx.h"
#include "distill/ranks/transport.h"

#define VC_RANKS_MOST         1024
#define VC_COLLECTIVE_NUMBERS 24

/* Ranks over a transport that is open. */
enum vc_status vc_ranks_create(struct vc_ctx *ctx, const struct vc_transport *transport, void *handle, unsigned rank,
                               unsigned size, struct vc_ranks **out);

/* status: of this rank's work since the last all-gather; then `n` numbers of each rank, numbers[k] of rank k. Failures
 * as vc_ranks_agree has them. */
enum vc_status vc_ranks_all_gather(struct vc_ctx *ctx, struct vc_ranks *ranks, enum vc_status status, const double *own,
                                   size_t n, double (*numbers)[VC_COLLECTIVE_NUMBERS]);

/* What vc_ranks_threads tells, 1 until then, and how many ranks of this machine come before this one. */
void vc_ranks_set_machine(struct vc_ranks *ranks, unsigned threads, unsigned before);
unsigned vc_ranks_place(const struct vc_ranks *ranks); /* the latter; 0 where ranks is NULL */

/* Pieces to and from every rank; those of the own rank are not looked at. Directly behind an all-gather. */
enum vc_status vc_ranks_exchange(struct vc_ctx *ctx, struct vc_ranks *ranks, const struct vc_piece *out,
                                 const struct vc_piece *in);
/* Room for the pieces of one exchange, 2 * size. */
struct vc_piece *vc_ranks_pieces(struct vc_ranks *ranks);

/* The numbers of an all-gather, if the caller has no room for them. */
double (*vc_ranks_numbers(struct vc_ranks *ranks))[VC_COLLECTIVE_NUMBERS];

/* All ranks have the same text as rank 0; else VC_E_ARGUMENT on all. differs(user, theirs, ours) sets the sentence of a
 * rank with another text. A collective of its own. */
enum vc_status vc_ranks_same(struct vc_ctx *ctx, struct vc_ranks *ranks, const char *text,
                             enum vc_status (*differs)(struct vc_ctx *ctx, const char *theirs, const char *ours));
