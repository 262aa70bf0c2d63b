/* ranks.h - ranks: several processes that train one student together, started by mpirun or srun with the same options.
 *
 *     vc_ranks_join                  they find each other
 *     vc_distill_options.parallel    each trains with its share of the rows; the bits are those of one process
 *     vc_ranks_agree                 did it work on all of them?
 *     vc_ranks_leave
 *
 * Rank 0 writes all files and gets all callbacks. All ranks return the same statuses and sentences.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_RANKS_H
#define VCOMPRESS_RANKS_H

#include <stdbool.h>
#include <stddef.h>

#include <vcompress/context.h>

VC_BEGIN_C

struct vc_ranks;

enum vc_ranks_kind {
    VC_RANKS_AUTO = 0, /* MPI if a launcher started this process as one of several; else NONE */
    VC_RANKS_NONE = 1, /* this process trains alone, even under a launcher */
    VC_RANKS_MPI = 2
};

/* Connects the ranks that were started together. *out is NULL if there is only one rank. A process connects once only:
 * MPI cannot start twice. VC_E_DEVICE if the process is one of several and cannot connect: the plug-in is missing, or
 * torchrun, which has no MPI, started the processes. */
VC_API enum vc_status vc_ranks_join(struct vc_ctx *ctx, enum vc_ranks_kind kind, struct vc_ranks **out);

/* What a vc_ranks begins with, for reading; the functions have 0 and 1, 0 (all processors), false and NULL if ranks is NULL. */
struct vc_ranks_facts {
    unsigned rank, size; /* number of this rank, from 0, and number of ranks */
    unsigned threads;    /* processors for each rank of this machine, at least 1 */
    bool lost;           /* a rank did not answer: no further exchange is possible */
    const char *library; /* of MPI, "Open MPI 4.1.4"; NULL without MPI */
};

static inline unsigned vc_ranks_rank(const struct vc_ranks *ranks)
{
    return ranks != NULL ? ((const struct vc_ranks_facts *)(const void *)ranks)->rank : 0;
}
static inline unsigned vc_ranks_size(const struct vc_ranks *ranks)
{
    return ranks != NULL ? ((const struct vc_ranks_facts *)(const void *)ranks)->size : 1;
}
static inline unsigned vc_ranks_threads(const struct vc_ranks *ranks)
{
    return ranks != NULL ? ((const struct vc_ranks_facts *)(const void *)ranks)->threads : 0;
}
static inline bool vc_ranks_lost(const struct vc_ranks *ranks)
{
    return ranks != NULL && ((const struct vc_ranks_facts *)(const void *)ranks)->lost;
}
static inline const char *vc_ranks_library(const struct vc_ranks *ranks)
{
    return ranks != NULL ? ((const struct vc_ranks_facts *)(const void *)ranks)->library : NULL;
}
/* If the device of the context is "cuda", picks a device for this rank: "cuda:0" for the first rank of a machine,
 * "cuda:1" for the second, and so on, or the only device that the launcher shows (CUDA_VISIBLE_DEVICES). Other devices
 * are not changed. VC_E_DEVICE if the machine has fewer devices than ranks; then call vc_ranks_agree to tell the other
 * ranks. */
VC_API enum vc_status vc_ranks_pick_device(struct vc_ctx *ctx, const struct vc_ranks *ranks); /* accepts NULL */

/* Exchanges the statuses of all ranks. Returns VC_OK if all ranks have VC_OK, else the status of the first failed rank;
 * the sentence is the failed rank's, after "rank 2: ", or the common sentence if all ranks say the same. A rank that
 * fails must call this function, or the other ranks wait; work in progress of other ranks then ends. sentence: of this
 * rank's failure; NULL: vc_ctx_message. */
VC_API enum vc_status vc_ranks_agree(struct vc_ctx *ctx, struct vc_ranks *ranks, enum vc_status status,
                                     const char *sentence);
VC_API void vc_ranks_leave(struct vc_ranks *ranks); /* accepts NULL */

/* Finds the MPI library of this machine: "Open MPI 4.1.4", a string that is valid until the program ends. Searches the
 * plug-in, but does not start MPI. VC_E_DEVICE if the plug-in is missing; the sentence lists the searched paths. */
VC_API enum vc_status vc_ranks_find(struct vc_ctx *ctx, const char **name);

/* Reads the rank and the number of ranks that a launcher set in the environment. *launcher: "mpirun". Any pointer may
 * be NULL. Returns false if the process was not started as one of several. */
VC_API bool vc_ranks_launched(unsigned *rank, unsigned *size, const char **launcher);

VC_END_C
#endif
