/* blocks.h - GGUF's block types, element by element: where its bits lie in the block and what it stands for. For C, C++
 * and CUDA, as arith.h. Layouts are those of the format (docs/formats.md has the picture); products and sums are f32,
 * each rounded once, in the order written here.
 *
 * Steps, minima and scales of steps that come from a file may be anything. A result that is no number is the one NaN
 * 0x7fc00000: what hardware makes of 0 * Inf has another sign on every one. */
#ifndef VC_KERNELS_BLOCKS_H
#define VC_KERNELS_BLOCKS_H

#include "kernels/arith.h"

#define VC_Q4_0_BYTES 18 /* per 32 elements */
#define VC_Q4_1_BYTES 20
#define VC_Q5_0_BYTES 22
#define VC_Q5_1_BYTES 24
#define VC_Q8_0_BYTES 34
#define VC_Q4_K_BYTES 144 /* per 256 elements */
#define VC_Q5_K_BYTES 176
#define VC_Q6_K_BYTES 210

/* ---- pieces ---- */

VC_HD float vc_block_f16(const uint8_t *p)
{
    return vc_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

VC_HD uint32_t vc_block_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

VC_HD float vc_one_nan(float y)
{
    return y != y ? vc_bits_f32(0x7fc00000u) : y;
}

/* 4-bit code i of 32: the first half lies in the low bits, the second in the high bits of the same 16 bytes. */
VC_HD uint32_t vc_nibble_32(const uint8_t *codes, uint32_t i)
{
    return i < 16 ? codes[i] & 15u : (uint32_t)codes[i - 16] >> 4;
}

/* ... i of 256: the same with 32 bytes for each 64 elements. */
VC_HD uint32_t vc_nibble_256(const uint8_t *codes, uint32_t i)
{
    return (uint32_t)codes[i / 64 * 32 + i % 32] >> (i % 64 < 32 ? 0 : 4) & 15u;
}

/* Scale and minimum number j (of 8, six bits each) of the 12 bytes at p. */
VC_HD uint32_t vc_k_scale(const uint8_t *p, uint32_t j)
{
    return j < 4 ? p[j] & 63u : (p[j + 4] & 15u) | (uint32_t)p[j - 4] >> 6 << 4;
}

VC_HD uint32_t vc_k_min(const uint8_t *p, uint32_t j)
{
    return j < 4 ? p[j + 4] & 63u : (uint32_t)p[j + 4] >> 4 | (uint32_t)p[j] >> 6 << 4;
}

/* ---- element i of a block ---- */

VC_HD float vc_q4_0_value(const uint8_t *b, uint32_t i)
{
    return vc_one_nan((float)((int32_t)vc_nibble_32(b + 2, i) - 8) * vc_block_f16(b));
}

VC_HD float vc_q4_1_value(const uint8_t *b, uint32_t i)
{
    return vc_one_nan((float)vc_nibble_32(b + 4, i) * vc_block_f16(b) + vc_block_f16(b + 2));
}

VC_HD float vc_q5_0_value(const uint8_t *b, uint32_t i)
{
    uint32_t code = vc_nibble_32(b + 6, i) | (vc_block_u32(b + 2) >> i & 1u) << 4;

    return vc_one_nan((float)((int32_t)code - 16) * vc_block_f16(b));
}

VC_HD float vc_q5_1_value(const uint8_t *b, uint32_t i)
{
    uint32_t code = vc_nibble_32(b + 8, i) | (vc_block_u32(b + 4) >> i & 1u) << 4;

    return vc_one_nan((float)code * vc_block_f16(b) + vc_block_f16(b + 2));
}

VC_HD float vc_q8_0_value(const uint8_t *b, uint32_t i)
{
    return vc_one_nan((float)(int8_t)b[2 + i] * vc_block_f16(b));
}

VC_HD float vc_q4_k_value(const uint8_t *b, uint32_t i)
{
    float step = vc_block_f16(b) * (float)vc_k_scale(b + 4, i / 32);
    float least = vc_block_f16(b + 2) * (float)vc_k_min(b + 4, i / 32);

    return vc_one_nan(step * (float)vc_nibble_256(b + 16, i) - least);
}

VC_HD float vc_q5_k_value(const uint8_t *b, uint32_t i)
{
    float step = vc_block_f16(b) * (float)vc_k_scale(b + 4, i / 32);
    float least = vc_block_f16(b + 2) * (float)vc_k_min(b + 4, i / 32);
    uint32_t code = vc_nibble_256(b + 48, i) | ((uint32_t)b[16 + i % 32] >> i / 32 & 1u) << 4;

    return vc_one_nan(step * (float)code - least);
}

/* For each 128 elements: 64 bytes of low bits, 32 bytes of high bits, 8 scales. */
VC_HD float vc_q6_k_value(const uint8_t *b, uint32_t i)
{
    uint32_t half = i / 128;
    uint32_t part = i % 128 / 32;
    uint32_t low = (uint32_t)b[half * 64 + part % 2 * 32 + i % 32] >> (part < 2 ? 0 : 4) & 15u;
    uint32_t high = (uint32_t)b[128 + half * 32 + i % 32] >> 2 * part & 3u;
    float step = vc_block_f16(b + 208) * (float)(int8_t)b[192 + i / 16];

    return vc_one_nan(step * (float)((int32_t)(low | high << 4) - 32));
}

/* ---- making Q8_0 ---- */

/* The step of 32 elements whose largest magnitude is given (as bits, finite): f32 division. It is stored as f16; the
 * codes are made with the unrounded one. */
VC_HD float vc_q8_0_step(uint32_t absmax_bits)
{
    return vc_bits_f32(absmax_bits) / 127.0f;
}

/* What values are multiplied with: 1 / step, or 0 where that would be infinite (the stored step is 0 then). */
VC_HD float vc_q8_0_inverse(float step)
{
    return vc_f32_bits(step) > 0x00200000u ? 1.0f / step : 0.0f; /* above 2^-128 */
}

/* Rounds half away from zero. |x * inverse| is below 127.5 where inverse comes from the functions above; other values
 * (NaN too) are cut, so that the conversion is defined. */
VC_HD int8_t vc_q8_0_encode(float x, float inverse)
{
    float t = x * inverse;
    float a = vc_bits_f32(vc_f32_magnitude(t));
    int32_t k;

    a = a < 127.0f ? a : 127.0f;
    k = (int32_t)a;
    k += a - (float)k >= 0.5f;
    return (int8_t)(t < 0 ? -k : k);
}

#endif
