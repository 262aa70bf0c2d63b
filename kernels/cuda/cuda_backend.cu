/* cuda_backend.cu - what the plug-in shows to the library: one function and the struct behind it
 * (kernels/device/backend.h says what each member does). The only symbol of the plug-in that is visible from outside.
 */
#include <stdio.h>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/train/cuda_train_table.h"

static char runtime[64];

/* This plug-in has a variant of every kernel of the list that it was built from. */
static const struct vc_kernels kernels = {
    NULL, /* device: backend.label tells */
#define VC_KERNEL(name, result, params) vc_cuda_##name,
#include "kernels/kernels.inc"
#undef VC_KERNEL
};

static const struct vc_backend backend = {
    VC_BACKEND_ABI,
    (uint32_t)sizeof(struct vc_backend),
    sizeof kernels,
    &kernels,
    runtime,
    vc_cuda_device_count,
    vc_cuda_device_info,
    vc_cuda_open,
    vc_cuda_close,
    vc_cuda_device_label,
    vc_cuda_error,
    &vc_cuda_train_table,
};

extern "C" VC_API const struct vc_backend *vc_backend_entry(void)
{
    (void)snprintf(runtime, sizeof runtime, "%s %d.%d", VC_CUDA_RUNTIME_NAME, CUDART_VERSION / 1000,
                   CUDART_VERSION % 1000 / 10);
    return &backend;
}
