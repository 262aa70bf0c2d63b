/* identity.h - digests by which a run knows files again: those of networks, of the rows that they read, and of what
 * runs leave in files of their own. */
#pragma once

#include "distill/data/network.h"
#include "passes/sha256.h"

/* VC_E_UNSUPPORTED: this build has no SHA-256. */
enum vc_status vc_identity_check(struct vc_ctx *ctx);
/* Of the graph as text, and of the values of all weights, which are loaded, as doubles: the same in every format. */
enum vc_status vc_identity_net(const struct vc_net *net, char hex[VC_SHA256_HEX_BYTES]);
/* Of the rows that are taken, of one input: type, size, elements as they are stored, and how they are normalized. */
enum vc_status vc_identity_input(const struct vc_rows_view *view, size_t k, char hex[VC_SHA256_HEX_BYTES]);

/* Files that only this library writes, checkpoints and answers, have a digest of all else that is in them, so that no
 * damage and no missing array is read as another run or other answers, in whatever format they lie. */
#define VC_DIGEST_NAME "digest" /* u8 [64], digits */

/* Of names, types, shapes and elements of all tensors but that one, in the order of their names. */
enum vc_status vc_identity_content(struct vc_ctx *ctx, const struct vc_model *model, char hex[VC_SHA256_HEX_BYTES]);
/* VC_E_FORMAT: it is not that of the file, or not there. */
enum vc_status vc_identity_content_check(struct vc_ctx *ctx, const struct vc_model *model);
