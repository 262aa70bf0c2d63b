/* cuda_load.h - finds and loads the CUDA plug-in (backend.h) and gives its kernels to a context.
 *
 * Where it is looked for, and nowhere else (never the current directory):
 *   1. the file or folder that VCOMPRESS_BACKEND_PATH names (an absolute path); if that is set, only there
 *   2. <libdir>/vcompress/ of the installation this was built for
 *   3. lib/vcompress/ beside the folder of the running program (<prefix>/bin/vcompress: <prefix>/lib/vcompress/)
 *
 * One device is open per process; contexts that ask for the same one share it. */
#ifndef VC_KERNELS_CUDA_LOAD_H
#define VC_KERNELS_CUDA_LOAD_H

#include "core/base/ctx.h"
#include "kernels/backend.h"

#define VC_CUDA_MAX_PLACES 2 /* of the list above: 1 alone, or 2 and 3 */

/* The places that were searched and what was found there, up to the one that was loaded. */
struct vc_cuda_search {
    unsigned n_places;
    struct {
        char path[4096];
        char outcome[256];
    } places[VC_CUDA_MAX_PLACES];
};

/* Loads the plug-in unless it is loaded already; it stays for the life of the process, and so does what is returned.
 * NULL: *search tells why. Opens no device. From any thread. */
const struct vc_backend *vc_cuda_plugin(struct vc_cuda_search *search);

/* Opens that device, unless it is open, and puts its kernels over those of *table, which the caller has filled with CPU
 * variants (vc_kernels_fill): an entry that the plug-in lacks stays as it is. *n_kernels tells how many of the
 * VC_KERNEL_ID_COUNT entries are the plug-in's now, at least one; table->device names the device ("cuda:0 NAME").
 * VC_E_DEVICE with the reason and the places that were searched, or VC_E_NOMEM; *table is unchanged then. Each success
 * is paired with one vc_cuda_unload. */
enum vc_status vc_cuda_load(struct vc_ctx *ctx, int device, struct vc_kernels *table, unsigned *n_kernels);

/* The context no longer calls these kernels; the last one closes the device. Before the context's pool goes away. */
void vc_cuda_unload(struct vc_ctx *ctx);

/* Turns the nonzero result of a CUDA kernel into a status, with the sentence set: VC_E_NOMEM when device or pinned
 * memory ran out, else VC_E_DEVICE. */
enum vc_status vc_cuda_fail(struct vc_ctx *ctx, int result);

#endif
