/* device.h - the CUDA devices that this process can use, and why others cannot be used.
 *
 * The CUDA code is a plug-in (vcompress_cuda.so), loaded at first use. Without plug-in, driver or device everything
 * works on the CPU. vc_devices_list says which of the three is missing. */
#ifndef VCOMPRESS_DEVICE_H
#define VCOMPRESS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vcompress/context.h>

VC_BEGIN_C

struct vc_device_info {
    int index;            /* N of "cuda:N" */
    const char *name;     /* the driver's name of the device */
    int major, minor;     /* compute capability */
    uint64_t total_bytes; /* memory of the device; 0 if unknown */
    uint64_t free_bytes;  /* free memory at the moment of the call */
    bool usable;
    const char *reason; /* why the device is not usable; "" if usable */
};

/* A path where the library searched the plug-in. Paths stand in search order; the search ends at the first plug-in
 * found. */
struct vc_device_search {
    const char *path;
    const char *outcome; /* "loaded", "no such file", "made for another version (ABI 2, this program needs 1)", ... */
};

struct vc_devices {
    const char *runtime; /* "CUDA runtime 13.0"; "" without a plug-in */
    const char *reason;  /* why there is no device; "" if n_devices > 0 */
    size_t n_devices;
    const struct vc_device_info *devices;
    size_t n_searched;
    const struct vc_device_search *searched;
};

/* Lists the devices. Without plug-in, driver or device: VC_OK with n_devices == 0 and `reason` set. Reading the free
 * memory of a device starts its driver (0.1 to 0.5 s per device). Free *out with vc_result_free, before ctx. Errors:
 * VC_E_NOMEM. */
VC_API enum vc_status vc_devices_list(struct vc_ctx *ctx, struct vc_devices **out);

VC_END_C
#endif
