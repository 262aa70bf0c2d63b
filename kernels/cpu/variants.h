/* variants.h - declares every variant of every kernel, from kernels.inc: vc_<kernel>_ref, _base, _avx2, _avx512,
 * _neon, for example vc_int8_rows_avx2. Private to kernels/; which of them exist in a build, and which a table holds,
 * is decided in kernels/CMakeLists.txt and kernels.c. (CUDA's are in cuda/cuda_kernels.h.) */
#pragma once

#include "kernels/kernels.h"

#define VC_KERNEL(name, result, params) \
    result vc_##name##_ref params;      \
    result vc_##name##_base params;     \
    result vc_##name##_avx2 params;     \
    result vc_##name##_avx512 params;   \
    result vc_##name##_neon params;
#define VC_KERNEL_PLAIN(name, result, params) result vc_##name##_ref params;
#include "kernels/kernels.inc"
#undef VC_KERNEL
