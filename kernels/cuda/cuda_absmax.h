/* cuda_absmax.h - starts the kernels of cuda_absmax.cu from other files. */
#ifndef VC_CUDA_ABSMAX_H
#define VC_CUDA_ABSMAX_H

#include "kernels/cuda/cuda_pipeline.h"

/* pos[k] and neg[k]: largest magnitude of scale k of the unit by sign; neg NULL: pos gets both. Cleared before. */
void vc_cuda_launch_range(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit, const float *x,
                          uint32_t *pos, uint32_t *neg);

#endif
