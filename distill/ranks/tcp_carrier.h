/* tcp_carrier.h - bytes between ranks by TCP, for processes that torchrun or a script has started without MPI.
 *
 *     rank 0 listens on host:port        every other rank connects to it and sends a hello (token, rank, its own port)
 *     rank 0 sends the list of places    rank k connects to the ranks 1 to k - 1, and each pair has a connection
 *
 * Nothing is encrypted and the token is no secret: it keeps two jobs apart. The network has to be a trusted one, as for
 * MPI. All machines have one byte order. */
#ifndef VC_DISTILL_TCP_CARRIER_H
#define VC_DISTILL_TCP_CARRIER_H

#include "core/base/ctx.h"
#include "distill/ranks/carrier.h"

struct vc_tcp_where {
    const char *host; /* of rank 0; "localhost", "127.0.0.1" and "::1": only this machine is listened to */
    unsigned port;
    unsigned rank, size;
    uint64_t token;  /* of the job */
    double patience; /* seconds until all have to be here */
};

extern const struct vc_carrier vc_tcp_carrier; /* its open is NULL: vc_tcp_open is in its place */

/* VC_E_DEVICE: the ranks did not find each other; VC_E_CANCELLED. The handle is closed by the carrier's close. */
enum vc_status vc_tcp_open(struct vc_ctx *ctx, const struct vc_tcp_where *where, void **handle);

#endif
