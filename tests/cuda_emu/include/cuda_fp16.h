/* cuda_fp16.h - stands in for NVIDIA's header of that name: two 16-bit floats in a word, by the definitions of
 * kernels/arith.h, which the real instructions give for all numbers but NaN. */
#pragma once

#include <cuda_runtime.h>

#include "kernels/arith.h"

struct __half2 {
    uint16_t x, y;
};

static inline __half2 __floats2half2_rn(float a, float b)
{
    __half2 h = {vc_f32_to_f16(a), vc_f32_to_f16(b)};

    return h;
}

static inline float2 __half22float2(__half2 h)
{
    return make_float2(vc_f16_to_f32(h.x), vc_f16_to_f32(h.y));
}
