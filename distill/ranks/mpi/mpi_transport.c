/* mpi_transport.c - the plug-in vcompress_mpi.so: bytes between ranks by MPI (transport.h). Compiled with the headers
 * of one MPI, whose numbers differ from those of another one, so it is a file of its own that is loaded where ranks
 * are.
 */
#include <mpi.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "distill/ranks/transport.h"

#define MOST   ((size_t)1 << 30) /* bytes of one message: MPI counts in int */
#define TAG    7
#define EAGER  1000  /* looks in a row, before a wait sleeps between them */
#define NAP_NS 20000 /* nanoseconds */

static struct {
    MPI_Comm comm;
    int rank, size;
    MPI_Request *requests; /* 2 * size */
    MPI_Status *statuses;  /* of them */
    bool ours;             /* MPI was begun here */
} state;

static char name[128] = "MPI";

/* "Open MPI v4.1.4, package: ..." or "MPICH Version:\t4.0.2\nMPICH Release date: ...": up to the first comma or line.
 */
static void read_name(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    size_t n = 0;

    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) {
        return;
    }
    for (const char *at = text; *at != '\0' && *at != ',' && *at != '\n' && n + 1 < sizeof name; at++) {
        if (!isspace((unsigned char)*at) || (n != 0 && name[n - 1] != ' ')) {
            name[n++] = isspace((unsigned char)*at) ? ' ' : *at;
        }
    }
    name[n] = '\0';
}

/* false: the sentence of MPI is in why. */
static bool worked(int result, char why[VC_TRANSPORT_WHY])
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;

    if (result == MPI_SUCCESS) {
        return true;
    }
    if (MPI_Error_string(result, text, &length) != MPI_SUCCESS) {
        (void)snprintf(text, sizeof text, "MPI error %d", result);
    }
    (void)snprintf(why, VC_TRANSPORT_WHY, "%.*s", VC_TRANSPORT_WHY - 1, text);
    return false;
}

/* A communicator of its own, so that messages of the program around it do not mix with these. Errors are
 * returned; MPI would end the process otherwise. */
static bool mpi_open(unsigned *rank, unsigned *size, char why[VC_TRANSPORT_WHY], void **handle)
{
    int is = 0;
    int level;

    if (!worked(MPI_Initialized(&is), why)) {
        return false;
    }
    if (is == 0 && !worked(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), why)) {
        return false;
    }
    state.ours = is == 0;
    if (!worked(MPI_Comm_dup(MPI_COMM_WORLD, &state.comm), why) ||
        !worked(MPI_Comm_set_errhandler(state.comm, MPI_ERRORS_RETURN), why) ||
        !worked(MPI_Comm_rank(state.comm, &state.rank), why) || !worked(MPI_Comm_size(state.comm, &state.size), why)) {
        return false;
    }
    state.requests = malloc(2 * (size_t)state.size * sizeof(MPI_Request));
    state.statuses = malloc(2 * (size_t)state.size * sizeof(MPI_Status));
    if (state.requests == NULL || state.statuses == NULL) {
        (void)snprintf(why, VC_TRANSPORT_WHY, "not enough memory");
        return false;
    }
    read_name();
    *rank = (unsigned)state.rank;
    *size = (unsigned)state.size;
    *handle = &state;
    return true;
}

/* Until all requests are done. The processor is left to others while nothing comes: ranks may be more than cores. */
static bool wait_for(int n, vc_transport_stop_fn *stop, void *user, char why[VC_TRANSPORT_WHY])
{
    const struct timespec nap = {0, NAP_NS};
    int done = 0;

    for (unsigned k = 0;; k++) {
        if (!worked(MPI_Testall(n, state.requests, &done, state.statuses), why)) {
            return false;
        }
        if (done != 0) {
            return true;
        }
        if (stop(user)) {
            (void)snprintf(why, VC_TRANSPORT_WHY, "the wait was given up");
            return false;
        }
        if (k >= EAGER) {
            (void)nanosleep(&nap, NULL);
        }
    }
}

/* What lies at the offset, at most one message; false: nothing does. */
static bool part_of(const struct vc_piece *piece, size_t offset, char **at, int *n)
{
    size_t rest = piece->bytes > offset ? piece->bytes - offset : 0;

    *at = (char *)piece->at + (rest != 0 ? offset : 0);
    *n = (int)(rest < MOST ? rest : MOST);
    return rest != 0;
}

/* Pieces of more than MOST bytes go in several messages, the same number on both sides. */
static bool mpi_exchange(void *handle, const struct vc_piece *out, const struct vc_piece *in,
                         vc_transport_stop_fn *stop, void *user, char why[VC_TRANSPORT_WHY])
{
    bool more = true;

    for (size_t offset = 0; more; offset += MOST) {
        int n = 0;

        more = false;
        for (int way = 0; way < 2; way++) { /* receives first */
            for (int k = 0; k < state.size; k++) {
                const struct vc_piece *piece = way == 0 ? &in[k] : &out[k];
                char *at;
                int bytes;

                if (k == state.rank || !part_of(piece, offset, &at, &bytes)) {
                    continue;
                }
                more = more || piece->bytes - offset > MOST;
                if (!worked(way == 0 ? MPI_Irecv(at, bytes, MPI_BYTE, k, TAG, state.comm, &state.requests[n])
                                     : MPI_Isend(at, bytes, MPI_BYTE, k, TAG, state.comm, &state.requests[n]),
                            why)) {
                    return false;
                }
                n++;
            }
        }
        if (!wait_for(n, stop, user, why)) {
            return false;
        }
    }
    return true;
}

/* MPI is finalized only if it was begun here. */
static void mpi_close(void *handle, bool whole)
{
    if (!whole) {
        return; /* messages may be on their way into memory that is freed: MPI is not called any more */
    }
    free(state.requests);
    free(state.statuses);
    state.requests = NULL;
    state.statuses = NULL;
    (void)MPI_Comm_free(&state.comm);
    if (state.ours) {
        (void)MPI_Finalize();
    }
}

static const struct vc_transport transport = {.abi = VC_TRANSPORT_ABI,
                                              .struct_size = sizeof transport,
                                              .name = name,
                                              .open = mpi_open,
                                              .exchange = mpi_exchange,
                                              .close = mpi_close};

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
vc_transport_entry_fn vc_transport_entry;

const struct vc_transport *vc_transport_entry(void)
{
    return &transport;
}
