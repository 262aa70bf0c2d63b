/* ranks.h - several processes that train one student together: started by mpirun or srun, each with the same
 * options.
 *
 *     vc_ranks_join                  they find each other
 *     vc_distill_options.ranks       each trains with its share of the rows; the bits are those of one process
 *     vc_ranks_agree                 did it work on all of them?
 *     vc_ranks_leave
 *
 * Rank 0 writes all files and has all that is told. The others return the same statuses with the same sentences.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_RANKS_H
#define VCOMPRESS_RANKS_H

#include <stdbool.h>

#include <vcompress/context.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vc_ranks;

enum vc_ranks_kind {
    VC_RANKS_AUTO = 0, /* MPI where the process was started as one of several, else none */
    VC_RANKS_NONE = 1, /* this process trains alone, whoever started it */
    VC_RANKS_MPI = 2
};

/* The ranks that this process was started with; *out is NULL where there is one. They are found once in a process: MPI
 * cannot begin twice. VC_E_DEVICE: the process is one of several, and they do not find each other: no plug-in, or
 * torchrun has started them, which knows no MPI. */
VC_API enum vc_status vc_ranks_join(struct vc_ctx *ctx, enum vc_ranks_kind kind, struct vc_ranks **out);

/* NULL: rank 0 of 1. */
VC_API unsigned vc_ranks_rank(const struct vc_ranks *ranks);
VC_API unsigned vc_ranks_size(const struct vc_ranks *ranks);
/* Processors for each rank of this machine, at least 1; 0: as many as there are, because ranks is NULL. */
VC_API unsigned vc_ranks_threads(const struct vc_ranks *ranks);
/* Gives a context whose device is "cuda" one of its own: the first rank of a machine "cuda:0", the second one "cuda:1",
 * and so on, or the only one that the launcher lets the process see (CUDA_VISIBLE_DEVICES). Any other device stays what
 * it is. VC_E_DEVICE: the machine has fewer devices than ranks; the others have to hear of it (vc_ranks_agree). */
VC_API enum vc_status vc_ranks_pick_device(struct vc_ctx *ctx, const struct vc_ranks *ranks); /* accepts NULL */
/* What brings them together, such as "Open MPI 4.1.4"; NULL: nothing does. */
VC_API const char *vc_ranks_name(const struct vc_ranks *ranks);

/* Every rank tells what came of its work, and hears of the others: VC_OK where all of them had VC_OK, else the status
 * of the first rank that had not, with its sentence behind "rank 2: ", or, where all say the same, that. A rank that
 * has failed has to call it, or the others wait; they may be anywhere else in their work, which ends then. sentence:
 * of this rank's failure; NULL: that of the context. */
VC_API enum vc_status vc_ranks_agree(struct vc_ctx *ctx, struct vc_ranks *ranks, enum vc_status status,
                                     const char *sentence);
/* A rank did not answer: nobody can say more to the others. */
VC_API bool vc_ranks_lost(const struct vc_ranks *ranks);
VC_API void vc_ranks_leave(struct vc_ranks *ranks); /* accepts NULL */

/* What would bring ranks together by MPI on this machine, such as "Open MPI 4.1.4"; the name lives as long as the
 * program. Looks for the plug-in and begins nothing. VC_E_DEVICE: there is none; the sentence says where it was looked
 * for. */
VC_API enum vc_status vc_ranks_find(struct vc_ctx *ctx, const char **name);

/* The rank that a launcher gave this process, as the environment says; false: it was not started as one of several.
 * *launcher: "mpirun". Any pointer may be NULL. */
VC_API bool vc_ranks_launched(unsigned *rank, unsigned *size, const char **launcher);

#ifdef __cplusplus
}
#endif
#endif
