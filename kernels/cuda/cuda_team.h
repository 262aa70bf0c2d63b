/* cuda_team.h - a warp as the team that makes a GGUF block (block_search.h, which this file comes before): its threads take
 * parts and trials, and keep what belongs to the block in shared memory. */
#pragma once

#include "kernels/cuda/cuda_common.h"

#define VC_TEAM        static __device__ __forceinline__
#define VC_TEAM_INLINE VC_TEAM
#define VC_PARTS(j, parts) \
    for (uint32_t j = threadIdx.x % 32 / VC_HANDS(parts), j##_once = 1; j##_once != 0; j##_once = 0)
#define VC_HANDS(parts)                       (32u / (parts))
#define VC_HAND(parts)                        (threadIdx.x % VC_HANDS(parts))
#define VC_EACH(i, n, parts)                  for (uint32_t i = VC_HAND(parts); i < (n); i += VC_HANDS(parts))
#define VC_OF(parts, v, k)                    __shfl_sync(VC_CUDA_WARP_MASK, v, (k), VC_HANDS(parts))
#define VC_ANY(condition)                     __any_sync(VC_CUDA_WARP_MASK, condition)
#define VC_TOGETHER()                         __syncwarp()
#define VC_LEAST(parts, error, number, value) vc_cuda_least(VC_HANDS(parts), &(error), &(number), &(value))
#define VC_PITCH(n)                           ((n) + 1u) /* so that parts begin in different banks */
#define VC_PLACE(i, n)                        ((i) + (i) / (n))
#define VC_UNROLL                             VC_CUDA_UNROLL

/* The value of the least error among neighbours, of equal ones of the lowest number. */
template <class E, class V>
static __device__ __forceinline__ void vc_cuda_least(uint32_t hands, E *error, int32_t *number, V *value)
{
    for (uint32_t k = hands / 2; k > 0; k /= 2) {
        E e = __shfl_xor_sync(VC_CUDA_WARP_MASK, *error, k);
        int32_t i = __shfl_xor_sync(VC_CUDA_WARP_MASK, *number, k);
        V v = __shfl_xor_sync(VC_CUDA_WARP_MASK, *value, k);

        if (e < *error || (e == *error && i < *number)) {
            *error = e;
            *number = i;
            *value = v;
        }
    }
}
