/* device.h - which CUDA devices this process could use, and why not.
 *
 * The CUDA code is a plug-in (vcompress_cuda.so) that is loaded when it is first needed. Without it, or without a
 * driver or a device, everything works on the CPU; this is how to find out which of these is missing. */
#ifndef VCOMPRESS_DEVICE_H
#define VCOMPRESS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vcompress/context.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vc_device_info {
    int index;            /* N of "cuda:N" */
    const char *name;     /* as the driver calls it */
    int major, minor;     /* compute capability */
    uint64_t total_bytes; /* memory of the device; 0 where it could not be asked */
    uint64_t free_bytes;  /* ... not taken by anyone at this moment */
    bool usable;
    const char *reason; /* why it is not usable; "" otherwise */
};

/* A place where the plug-in was looked for, in this order, until one was found. */
struct vc_device_search {
    const char *path;
    const char *outcome; /* "loaded", "no such file", "made for another version (ABI 2, this program needs 1)", ... */
};

struct vc_devices {
    const char *runtime; /* "CUDA runtime 13.0"; "" without a plug-in */
    const char *reason;  /* why there is no device at all; "" when n_devices is not 0 */
    size_t n_devices;
    const struct vc_device_info *devices;
    size_t n_searched;
    const struct vc_device_search *searched;
};

/* Lists them. No plug-in, no driver and no device are answers, not errors: VC_OK with n_devices == 0 and `reason` set.
 * Asking for the free memory of a device starts its driver (some 0.1 to 0.5 s per device). The list belongs to the
 * caller and must be freed before ctx. Errors: VC_E_NOMEM. */
VC_API enum vc_status vc_devices_list(struct vc_ctx *ctx, struct vc_devices **out);
VC_API void vc_devices_free(struct vc_devices *devices); /* accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
