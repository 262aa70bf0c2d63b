/* identity.h - digests by which a run knows files again: those of networks and of the rows that they read. */
#ifndef VC_DISTILL_IDENTITY_H
#define VC_DISTILL_IDENTITY_H

#include "distill/network.h"
#include "passes/sha256.h"

/* VC_E_UNSUPPORTED: this build has no SHA-256. */
enum vc_status vc_identity_check(struct vc_ctx *ctx);
/* Of the graph as text, and of the values of all weights, which are loaded, as doubles: the same in every format. */
enum vc_status vc_identity_net(const struct vc_net *net, char hex[VC_SHA256_HEX_BYTES]);
/* Of the rows that are taken, of one input: type, size, elements as they are stored, and how they are normalized. */
enum vc_status vc_identity_input(const struct vc_rows_view *view, size_t k, char hex[VC_SHA256_HEX_BYTES]);

#endif
