/* meeting.h - what ranks do together: meetings and sums.
 *
 * Every step of the common work begins with a meeting, in which each rank tells whether it is well:
 *
 *     rank 0: compute -- meet -- exchange arrays -- compute -- meet -- ...
 *     rank 1: compute -- meet -- exchange arrays -- FAILS ---- meet       all end here, with the sentence of rank 1
 *
 * Arrays are exchanged directly behind a meeting, with nothing between that can fail. So a rank that has failed goes
 * to one meeting, whichever the others are at, and all know it; none waits for another one that has gone. Behind a
 * meeting with a failure there is no other: calls return that failure at once.
 *
 * In all functions ranks NULL is a process on its own. */
#ifndef VC_DISTILL_MEETING_H
#define VC_DISTILL_MEETING_H

#include <vcompress/ranks.h>

#include "core/base/ctx.h"
#include "distill/ranks/carrier.h"

#define VC_RANKS_MOST      1024
#define VC_MEETING_NUMBERS 24

/* Ranks over a carrier that is open. */
enum vc_status vc_ranks_create(struct vc_ctx *ctx, const struct vc_carrier *carrier, void *handle, unsigned rank,
                               unsigned size, struct vc_ranks **out);

/* status: of this rank's work since the last meeting; then `n` numbers of each rank, numbers[k] of rank k. Failures as
 * vc_ranks_agree has them. */
enum vc_status vc_ranks_meet(struct vc_ctx *ctx, struct vc_ranks *ranks, enum vc_status status, const double *own,
                             size_t n, double (*numbers)[VC_MEETING_NUMBERS]);

/* What vc_ranks_threads tells, 1 until then, and how many ranks of this machine come before this one. */
void vc_ranks_set_machine(struct vc_ranks *ranks, unsigned threads, unsigned before);
unsigned vc_ranks_place(const struct vc_ranks *ranks); /* the latter; 0 where ranks is NULL */

/* Pieces to and from every rank; those of the own rank are not looked at. Directly behind a meeting. */
enum vc_status vc_ranks_exchange(struct vc_ctx *ctx, struct vc_ranks *ranks, const struct vc_piece *out,
                                 const struct vc_piece *in);
/* Room for the pieces of one exchange, 2 * size. */
struct vc_piece *vc_ranks_pieces(struct vc_ranks *ranks);

/* Numbers of the last meeting that the caller has no room for. */
double (*vc_ranks_numbers(struct vc_ranks *ranks))[VC_MEETING_NUMBERS];

/* All ranks have the same text as rank 0; else VC_E_ARGUMENT on all. differs(user, theirs, ours) sets the sentence of a
 * rank with another text. A meeting of its own. */
enum vc_status vc_ranks_same(struct vc_ctx *ctx, struct vc_ranks *ranks, const char *text,
                             enum vc_status (*differs)(struct vc_ctx *ctx, const char *theirs, const char *ours));

#endif
