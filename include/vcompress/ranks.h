/* ranks.h - several processes that train one student together: started by mpirun or srun, each with the same options.
 *
 *     vc_distill_options.ranks       each trains with its share of the rows; the bits are those of one process
 *     vc_ranks_agree                 did it work on all of them?
 *     vc_ranks_leave
 *
 * Rank 0 writes all files and has all that is told. The others return the same statuses with the same sentences. */
#ifndef VCOMPRESS_RANKS_H
#define VCOMPRESS_RANKS_H

#include <stdbool.h>

#include <vcompress/context.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vc_ranks;

/* NULL: rank 0 of 1. */
VC_API unsigned vc_ranks_rank(const struct vc_ranks *ranks);
VC_API unsigned vc_ranks_size(const struct vc_ranks *ranks);
/* Processors for each rank of this machine, at least 1; 0: as many as there are, because ranks is NULL. */
VC_API unsigned vc_ranks_threads(const struct vc_ranks *ranks);
/* What brings them together, such as "Open MPI 4.1.4"; NULL: nothing does. */
VC_API const char *vc_ranks_name(const struct vc_ranks *ranks);

/* Every rank tells what came of its work, and hears of the others: VC_OK where all of them had VC_OK, else the status
 * of the first rank that had not, with its sentence behind "rank 2: ". A rank that has failed has to call it, or the
 * others wait; it may be anywhere else in their work, which ends then. */
VC_API enum vc_status vc_ranks_agree(struct vc_ctx *ctx, struct vc_ranks *ranks, enum vc_status status);
/* A rank did not answer: nobody can say more to the others. */
VC_API bool vc_ranks_lost(const struct vc_ranks *ranks);
VC_API void vc_ranks_leave(struct vc_ranks *ranks); /* accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
