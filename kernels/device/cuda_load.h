/* cuda_load.h - finds and loads the CUDA plug-in (backend.h) and gives its kernels to a context.
 * plugin.h says where it is looked for: VCOMPRESS_BACKEND_PATH, and the usual places.
 *
 * One device is open per process; contexts that ask for the same one share it. */
#pragma once

#include "core/base/ctx.h"
#include "core/base/plugin.h"
#include "kernels/device/backend.h"

/* Loads the plug-in unless it is loaded already; it stays for the life of the process, and so does what is returned.
 * NULL: *search tells why. Opens no device. From any thread. */
const struct vc_backend *vc_cuda_plugin(struct vc_plugin_search *search);

/* Opens that device, unless it is open, and puts its kernels over those of *table, which the caller has filled with CPU
 * variants (vc_kernels_fill): an entry that the plug-in lacks stays as it is. *n_kernels tells how many of the
 * VC_KERNEL_ID_COUNT entries are the plug-in's now, at least one; table->device names the device ("cuda:0 NAME").
 * VC_E_DEVICE with the reason and the places that were searched, or VC_E_NOMEM; *table is unchanged then. Each success
 * is paired with one vc_cuda_unload. */
enum vc_status vc_cuda_load(struct vc_ctx *ctx, int device, struct vc_kernels *table, unsigned *n_kernels);

/* The second table of the plug-in whose kernels the context has, which vc_cuda_load opened a device for. *out is NULL
 * where the context trains on the CPU; VC_E_UNSUPPORTED: the plug-in does not train, or does it as another version.
 */
enum vc_status vc_cuda_train(struct vc_ctx *ctx, const struct vc_train_backend **out);

/* Memory of the open device that nobody has taken; 0: not known, or none is open. */
uint64_t vc_cuda_free_bytes(void);

/* The context no longer calls these kernels; the last one closes the device. Before the context's pool goes away. */
void vc_cuda_unload(struct vc_ctx *ctx);

/* Turns the nonzero result of a CUDA kernel into a status, with the sentence set: VC_E_NOMEM when device or pinned
 * memory ran out, else VC_E_DEVICE. */
enum vc_status vc_cuda_fail(struct vc_ctx *ctx, int result);
