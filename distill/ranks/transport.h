/* transport.h - how bytes get from one rank to the others: what a plug-in offers the library (VC_TRANSPORT_SYMBOL), and
 * what tests have threads do. Everything that ranks do together is made of one operation, the exchange. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VC_TRANSPORT_ABI    1
#define VC_TRANSPORT_SYMBOL "vc_transport_entry"
#define VC_TRANSPORT_FILE   "vcompress_mpi.so"
#define VC_TRANSPORT_WHY    256

struct vc_piece {
    void *at;
    size_t bytes; /* 0: nothing is sent, and nobody waits for it */
};

/* A rank that waits asks now and then; returns true if the wait is over. */
typedef bool vc_transport_stop_fn(void *user);

struct vc_transport {
    uint32_t abi;
    uint32_t struct_size;
    const char *name; /* "Open MPI 4.1.4" */
    /* Finds the other ranks; false: why has the reason. Once in a process. */
    bool (*open)(unsigned *rank, unsigned *size, char why[VC_TRANSPORT_WHY], void **handle);
    /* Sends out[k] to rank k and fills in[k] with what rank k sends here, for all k but the own rank, and returns when
     * both is done. The other side has the same number of bytes. false: why has the reason; behind it nothing can be
     * exchanged any more. */
    bool (*exchange)(void *handle, const struct vc_piece *out, const struct vc_piece *in, vc_transport_stop_fn *stop,
                     void *user, char why[VC_TRANSPORT_WHY]);
    /* whole: all ranks are here and leave together; else the others may be gone. */
    void (*close)(void *handle, bool whole);
};

typedef const struct vc_transport *vc_transport_entry_fn(void);
