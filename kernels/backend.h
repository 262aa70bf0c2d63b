/* backend.h - the contract between the library and the CUDA plug-in (vcompress_cuda), which is loaded with dlopen.
 *
 * The plug-in exports one function, vc_backend_entry. Both sides check abi and struct_size before anything else. */
#ifndef VC_KERNELS_BACKEND_H
#define VC_KERNELS_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VC_BACKEND_ABI    2
#define VC_BACKEND_SYMBOL "vc_backend_entry"
#define VC_BACKEND_FILE   "vcompress_cuda.so"

struct vc_backend_device {
    char name[96];
    int major, minor; /* compute capability */
    uint64_t total_bytes, free_bytes;
    int usable; /* this build has code for it */
};

struct vc_backend {
    uint32_t abi;
    uint32_t struct_size;
    const char *runtime; /* "CUDA runtime 13.0" */

    /* Number of devices, or -1 with the reason in `why` ("no NVIDIA driver", "driver 12.4 < runtime 13.0"). */
    int (*device_count)(char *why, size_t why_bytes);
    int (*device_info)(int device, struct vc_backend_device *info, char *why, size_t why_bytes);

    /* Opens a device for use by several threads; account is told of every device or pinned allocation (bytes > 0) and
     * release (bytes < 0). NULL with the reason. limit_bytes bounds device memory taken by this handle; 0 = none. */
    void *(*open)(int device, uint64_t limit_bytes, void (*account)(void *user, int64_t bytes), void *user, char *why,
                  size_t why_bytes);
    void (*close)(void *handle);

    /* Fills the table with the variants this plug-in has; entries it lacks are left as they are. One handle is open at
     * a time per process and the kernels use it. */
    void (*fill)(void *handle, struct vc_kernels *table);

    const char *(*error)(int result); /* sentence for a kernel's nonzero result */
};

typedef const struct vc_backend *vc_backend_entry_fn(void);

#ifdef __cplusplus
}
#endif
#endif
