/* cuda_load.h - finds and loads the CUDA plug-in (backend.h) and gives its kernels to a context.
 *
 * Where it is looked for, and nowhere else (never the current directory):
 *   1. the file or folder that VCOMPRESS_BACKEND_PATH names (an absolute path); if that is set, only there
 *   2. <libdir>/vcompress/ of the installation this was built for
 *   3. ../lib/vcompress/ beside the folder of the running program
 *
 * One device is open per process; contexts that ask for the same one share it. */
#ifndef VC_KERNELS_CUDA_LOAD_H
#define VC_KERNELS_CUDA_LOAD_H

#include "core/ctx.h"
#include "kernels/kernels.h"

/* Fills *table with the kernels of that device, none of them NULL; table->device names it ("cuda:0 NAME"). VC_E_DEVICE
 * with the reason and the places that were searched. Each success is paired with one vc_cuda_unload. */
enum vc_status vc_cuda_load(struct vc_ctx *ctx, int device, struct vc_kernels *table);

/* The context no longer calls these kernels; the last one closes the device. Before the context's pool goes away. */
void vc_cuda_unload(struct vc_ctx *ctx);

/* Turns the nonzero result of a CUDA kernel into a status, with the sentence set: VC_E_NOMEM when device or pinned
 * memory ran out, else VC_E_DEVICE. */
enum vc_status vc_cuda_fail(struct vc_ctx *ctx, int result);

#endif
