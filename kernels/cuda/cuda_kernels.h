/* cuda_kernels.h - declares the plug-in's variant of every kernel of kernels.inc: vc_cuda_<name>. Contracts as in
 * kernels.h: host pointers in and out; 0, or the code of the CUDA call that failed. */
#pragma once

#include "kernels/kernels.h"

#define VC_KERNEL(name, result, params) result vc_cuda_##name params;
#include "kernels/kernels.inc"
#undef VC_KERNEL
