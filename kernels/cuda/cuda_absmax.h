/* cuda_absmax.h - starts the kernels of cuda_absmax.cu from other files. */
#pragma once

#include "kernels/cuda/cuda_pipeline.h"

/* Starts the kernels that find the largest magnitudes of a unit: pos[k] and neg[k] are those of its scale k, by sign;
 * with neg NULL pos gets both signs. All are device memory; pos and neg have been set to 0. For int8_rows and Q8_0,
 * which go on from there. */
void vc_cuda_launch_range(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit, const float *x,
                          uint32_t *pos, uint32_t *neg);
