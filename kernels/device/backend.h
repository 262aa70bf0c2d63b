/* backend.h - the contract between the library and the CUDA plug-in (vcompress_cuda.so), which the library loads with
 * dlopen (cuda_load.c) and which exports one function, vc_backend_entry (cuda/cuda_backend.cu).
 *
 * Library and plug-in may come from different builds. The library looks at abi first, then at struct_size and
 * kernels_size, and refuses the plug-in before it uses anything else:
 *
 *   abi           must be equal. It goes up with every change that is not listed below as safe.
 *   struct_size   bytes of the plug-in's struct vc_backend. New members go to its end.
 *   kernels_size  bytes of the plug-in's struct vc_kernels, its table. New kernels go to its end (kernels.inc).
 *
 * Both sizes may be larger than the library's own, and smaller: down to VC_BACKEND_MIN_BYTES, and to a table of one
 * kernel. The library reads the part that both know.
 *
 *   plug-in's table    | device | absmax_rows | NULL        | range_rows |            from an older kernels.inc
 *   library's table    | device | absmax_rows | absmax_axis | range_rows | range_axis |
 *   what a context has            CUDA          CPU           CUDA         CPU
 *
 * Mixed tables are safe because kernels take host memory only and every variant gives the same bits. */
#pragma once

#include "kernels/device/train_backend.h"
#include "kernels/kernels.h"

VC_BEGIN_C

/* Raised when an existing kernel changes its place, parameters or results, when a struct that kernels take or struct
 * vc_backend_device changes, and when struct vc_backend changes before its end. */
#define VC_BACKEND_ABI    4
#define VC_BACKEND_SYMBOL "vc_backend_entry"
#define VC_BACKEND_FILE   "vcompress_cuda.so"

/* A size beyond this is no size, but something that was never a struct vc_backend. Room for 8,191 kernels. */
#define VC_BACKEND_MAX_BYTES 65536

/* Device memory that the kernels of one thread work in, and as much pinned memory: what the library asks for by the number of
 * its threads. A plug-in whose threads take another size works as well, with more or fewer of them at a time. */
#define VC_BACKEND_THREAD_BYTES (((uint64_t)4 << 20) + ((uint64_t)256 << 10))

struct vc_backend_device {
    char name[96];    /* as the driver calls it, 0-terminated: "NVIDIA H200" */
    int major, minor; /* compute capability */
    uint64_t total_bytes, free_bytes;
    int usable; /* 1: this build has code for it, and it answers */
};

/* Every pointer is set. Texts and the table live as long as the plug-in, others as said. */
struct vc_backend {
    uint32_t abi;         /* VC_BACKEND_ABI of the plug-in; always the first member */
    uint32_t struct_size; /* sizeof(struct vc_backend) of the plug-in; always the second */

    /* The plug-in's kernels. NULL where it has none; `device` is not used. */
    size_t kernels_size; /* sizeof(struct vc_kernels) of the plug-in */
    const struct vc_kernels *kernels;

    const char *runtime; /* "CUDA runtime 13.0" */

    /* Number of devices, or -1 with the reason in `why` ("no NVIDIA driver is installed"). */
    int (*device_count)(char *why, size_t why_bytes);

    /* Describes device 0 ... count - 1. 0, and with usable == 0 the reason in `why`; or -1 with the reason, *info 0. */
    int (*device_info)(int device, struct vc_backend_device *info, char *why, size_t why_bytes);

    /* Opens a device for use by several threads; account is told of every device or pinned allocation (bytes > 0) and
     * release (bytes < 0). NULL with the reason in `why`. limit_bytes bounds the device memory that kernels
     * work in, which is taken for all threads at once when a second one comes; 0: no bound. One handle is open at a time per process, and the kernels use it: none is called without. */
    void *(*open)(int device, uint64_t limit_bytes, void (*account)(void *user, int64_t bytes), void *user, char *why,
                  size_t why_bytes);
    void (*close)(void *handle);

    const char *(*label)(const void *handle); /* "cuda:0 NAME"; valid until another device is opened */
    const char *(*error)(int result);         /* sentence for a kernel's nonzero result */
    /* ABI 4 ends here. */

    const struct vc_train_backend *train; /* train_backend.h; NULL: it does not train */
};

/* What a plug-in of this ABI has at least. Stays as it is when members are added. */
#define VC_BACKEND_MIN_BYTES (offsetof(struct vc_backend, error) + sizeof(const char *(*)(int)))

typedef const struct vc_backend *vc_backend_entry_fn(void);

VC_END_C
