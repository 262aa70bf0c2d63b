/* blocks.h - GGUF's block types, element by element: where the bits of element i lie in its block, and what they
 * stand for. For C, C++ and CUDA, as arith.h. kernel_ref_blocks.c, loops_blocks.h and cuda_blocks.cu make kernels of
 * it; it knows no tensor and no file. Layouts are those of ggml (docs/formats.md); products and sums are f32, each
 * rounded once, in the order written here.
 *
 * Bytes of a block, f16 and integers little-endian. d: step, m: minimum, dmin: step of the minima.
 *
 *   Q4_0   d[2] codes[16]                              32 elements   (q - 8) * d
 *   Q4_1   d[2] m[2] codes[16]                         32            q * d + m
 *   Q5_0   d[2] high[4] codes[16]                      32            (q - 16) * d
 *   Q5_1   d[2] m[2] high[4] codes[16]                 32            q * d + m
 *   Q8_0   d[2] q[32]                                  32            q * d
 *   Q4_K   d[2] dmin[2] scales[12] codes[128]          256           (d * scale) * q - dmin * min
 *   Q5_K   d[2] dmin[2] scales[12] high[32] codes[128] 256           (d * scale) * q - dmin * min
 *   Q6_K   low[128] high[64] scales[16] d[2]           256           (d * scale) * (q - 32)
 *   Q2_K   scales[16] codes[64] d[2] dmin[2]           256           (d * scale) * q - dmin * min
 *   Q3_K   high[32] codes[64] scales[12] d[2]          256           (d * (scale - 32)) * (q - 4)
 *   IQ4_NL d[2] codes[16]                              32            d * T[q], T: vc_iq4_value
 *   IQ4_XS d[2] scales[2] scales[4] codes[128]         256           (d * (scale - 32)) * T[q]
 *   MXFP4  e[1] codes[16]                              32            2^(e - 127) * E2M1
 *   NVFP4  s[4] codes[32]                              64            s (E4M3 without sign, of 16 elements) * E2M1
 *   Q1_0   d[2] bits[16]                               128           bit ? d : -d
 *   Q2_0   d[2] codes[16]                              64            (q - 1) * d
 *   TQ1_0  codes[48] rest[4] d[2]                      256           (q - 1) * d, five base-3 digits a byte
 *   TQ2_0  codes[64] d[2]                              256           (q - 1) * d
 *
 * Steps, minima and scales come from a file and may be anything. A result that is no number is the one NaN
 * 0x7fc00000: what hardware makes of 0 * Inf has another sign on every one. */
#pragma once

#include "kernels/arith.h"

/* Bytes of a block. */
#define VC_Q4_0_BYTES 18 /* per 32 elements */
#define VC_Q4_1_BYTES 20
#define VC_Q5_0_BYTES 22
#define VC_Q5_1_BYTES 24
#define VC_Q8_0_BYTES 34
#define VC_Q4_K_BYTES 144 /* per 256 elements */
#define VC_Q5_K_BYTES 176
#define VC_Q6_K_BYTES 210
#define VC_Q2_K_BYTES 84
#define VC_Q3_K_BYTES 110

/* ---- pieces ---- */

/* f16 and u32 at any address of a block. Blocks have no alignment, so they are read byte by byte. */
VC_HD float vc_block_f16(const uint8_t *p)
{
    return vc_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

VC_HD uint32_t vc_block_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* y, with every NaN replaced by the one that this program writes. */
VC_HD float vc_one_nan(float y)
{
    return y != y ? vc_bits_f32(0x7fc00000u) : y;
}

/* 4-bit code i of 32, from 16 bytes: elements 0 to 15 lie in the low halves of the bytes, 16 to 31 in the high
 * halves. */
VC_HD uint32_t vc_nibble_32(const uint8_t *codes, uint32_t i)
{
    return i < 16 ? codes[i] & 15u : (uint32_t)codes[i - 16] >> 4;
}

/* 4-bit code i of 256, from 128 bytes: the same for each 64 elements in turn, with 32 bytes each. */
VC_HD uint32_t vc_nibble_256(const uint8_t *codes, uint32_t i)
{
    return (uint32_t)codes[i / 64 * 32 + i % 32] >> (i % 64 < 32 ? 0 : 4) & 15u;
}

/* Scale (vc_k_scale) and minimum (vc_k_min) number j of the eight of a Q4_K or Q5_K block: six bits each, packed into
 * the 12 bytes at p. Four of either lie whole in bytes 0 to 7; those bytes' upper two bits are the upper bits of the
 * others:
 *
 *   byte j      (j < 4)  scale j     | upper bits of scale j + 4, two
 *   byte j + 4  (j < 4)  minimum j   | upper bits of minimum j + 4, two
 *   byte j + 8  (j < 4)  lower bits of scale j + 4, four | lower bits of minimum j + 4, four */
VC_HD uint32_t vc_k_scale(const uint8_t *p, uint32_t j)
{
    return j < 4 ? p[j] & 63u : (p[j + 4] & 15u) | (uint32_t)p[j - 4] >> 6 << 4;
}

VC_HD uint32_t vc_k_min(const uint8_t *p, uint32_t j)
{
    return j < 4 ? p[j + 4] & 63u : (uint32_t)p[j + 4] >> 4 | (uint32_t)p[j] >> 6 << 4;
}

/* ---- element i of a block ---- */

/* Each: the value of element i (0 to 31, or 0 to 255) of the block at b. The product q * d is exact in f32 (at most 8
 * bits times 11); the sums and the products of three factors round as written in the table above. */
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

/* Q6_K: for each 128 elements 64 bytes of lower bits (four per code), 32 bytes of upper bits (two per code) and 8
 * scales. Element i is number i % 32 of part 0 to 3 of its half; parts 0 and 1 have the low halves of bytes 0 to 31
 * and 32 to 63, parts 2 and 3 their high halves, and part p has bits 2 p and 2 p + 1 of the upper bytes. */
VC_HD float vc_q6_k_value(const uint8_t *b, uint32_t i)
{
    uint32_t half = i / 128;
    uint32_t part = i % 128 / 32;
    uint32_t low = (uint32_t)b[half * 64 + part % 2 * 32 + i % 32] >> (part < 2 ? 0 : 4) & 15u;
    uint32_t high = (uint32_t)b[128 + half * 32 + i % 32] >> 2 * part & 3u;
    float step = vc_block_f16(b + 208) * (float)(int8_t)b[192 + i / 16];

    return vc_one_nan(step * (float)((int32_t)(low | high << 4) - 32));
}

/* 2-bit code i of 256, from 64 bytes: for each 128 elements 32 bytes, each with the codes of elements l, l + 32, l + 64
 * and l + 96. */
VC_HD uint32_t vc_pair_256(const uint8_t *codes, uint32_t i)
{
    return (uint32_t)codes[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3u;
}

VC_HD float vc_q2_k_value(const uint8_t *b, uint32_t i)
{
    float step = vc_block_f16(b + 80) * (float)(b[i / 16] & 15);
    float least = vc_block_f16(b + 82) * (float)(b[i / 16] >> 4);

    return vc_one_nan(step * (float)vc_pair_256(b + 16, i) - least);
}

/* Six-bit scale j of 16 in the 12 bytes at p: four low bits in byte j % 8, two high ones in byte 8 + j % 4. */
VC_HD int32_t vc_q3_k_scale(const uint8_t *p, uint32_t j)
{
    uint32_t low = (uint32_t)p[j % 8] >> (j < 8 ? 0 : 4) & 15u;

    return (int32_t)(low | ((uint32_t)p[8 + j % 4] >> j / 4 * 2 & 3u) << 4) - 32;
}

VC_HD float vc_q3_k_value(const uint8_t *b, uint32_t i)
{
    uint32_t code = vc_pair_256(b + 32, i) | ((uint32_t)b[i % 32] >> i / 32 & 1u) << 2;
    float step = vc_block_f16(b + 108) * (float)vc_q3_k_scale(b + 96, i / 16);

    return vc_one_nan(step * (float)((int32_t)code - 4));
}

/* The 16 values of IQ4_NL and IQ4_XS, in order. */
VC_HD float vc_iq4_value(uint32_t code)
{
    const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

    return (float)values[code & 15u];
}

VC_HD float vc_iq4_nl_value(const uint8_t *b, uint32_t i)
{
    return vc_one_nan(vc_block_f16(b) * vc_iq4_value(vc_nibble_32(b + 2, i)));
}

VC_HD float vc_iq4_xs_value(const uint8_t *b, uint32_t i)
{
    uint32_t j = i / 32;
    uint32_t scale = ((uint32_t)b[4 + j / 2] >> (j % 2 == 0 ? 0 : 4) & 15u) | ((uint32_t)b[2 + j / 4] >> j % 4 * 2 & 3u)
                                                                                  << 4;
    float step = vc_block_f16(b) * (float)((int32_t)scale - 32);

    return vc_one_nan(step * vc_iq4_value(vc_nibble_32(b + 8 + 16 * j, i % 32)));
}

/* E2M1, four bits: sign, then 0, 0.5, 1, 1.5, 2, 3, 4, 6. Twice the value, which is an integer. */
VC_HD float vc_e2m1_twice(uint32_t code)
{
    const int8_t values[8] = {0, 1, 2, 3, 4, 6, 8, 12};

    return (float)((code & 8u) != 0 ? -values[code & 7u] : values[code & 7u]);
}

/* Half of the step that an exponent byte of MXFP4 means, 2^(e - 127). */
VC_HD float vc_e8m0_half(uint8_t e)
{
    return vc_bits_f32(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

VC_HD float vc_mxfp4_value(const uint8_t *b, uint32_t i)
{
    return vc_e2m1_twice(vc_nibble_32(b + 1, i)) * vc_e8m0_half(b[0]);
}

/* The value of E4M3 without its sign; 0x7f, which is NaN in E4M3, counts as 0, and the eighth bit is not looked at. */
VC_HD float vc_ue4m3_value(uint8_t s)
{
    uint32_t e = s >> 3 & 15u;
    uint32_t m = s & 7u;

    return (s & 0x7f) == 0x7f ? 0.0f : e == 0 ? (float)m / 512.0f : vc_bits_f32((e + 120) << 23 | m << 20);
}

VC_HD float vc_nvfp4_value(const uint8_t *b, uint32_t i)
{
    uint32_t code = (uint32_t)b[4 + i / 16 * 8 + i % 8] >> (i % 16 < 8 ? 0 : 4) & 15u;

    return vc_e2m1_twice(code) * (vc_ue4m3_value(b[i / 16]) * 0.5f);
}

VC_HD float vc_q1_0_value(const uint8_t *b, uint32_t i)
{
    float d = vc_block_f16(b);

    return vc_one_nan((b[2 + i / 8] >> i % 8 & 1) != 0 ? d : -d);
}

VC_HD float vc_q2_0_value(const uint8_t *b, uint32_t i)
{
    return vc_one_nan((float)((b[2 + i / 4] >> i % 4 * 2 & 3) - 1) * vc_block_f16(b));
}

/* Base-3 digit k of a byte, the first digit most significant. */
VC_HD uint32_t vc_trit(uint8_t byte, uint32_t k)
{
    const uint8_t powers[5] = {1, 3, 9, 27, 81};

    return (uint32_t)(uint8_t)(byte * powers[k]) * 3 >> 8;
}

/* 160 elements as five runs of 32, 80 as five of 16, 16 as four of 4. */
VC_HD float vc_tq1_0_value(const uint8_t *b, uint32_t i)
{
    uint32_t q = i < 160   ? vc_trit(b[i % 32], i / 32)
                 : i < 240 ? vc_trit(b[32 + i % 16], (i - 160) / 16)
                           : vc_trit(b[48 + i % 4], (i - 240) / 4);

    return vc_one_nan((float)((int32_t)q - 1) * vc_block_f16(b + 52));
}

VC_HD float vc_tq2_0_value(const uint8_t *b, uint32_t i)
{
    return vc_one_nan((float)((int32_t)vc_pair_256(b, i) - 1) * vc_block_f16(b + 64));
}

/* ---- making Q8_0 ---- */

/* The step of a Q8_0 block, from the largest magnitude A of its 32 elements (bits, finite): d = A / 127, f32
 * division. The block stores it as f16; the codes are made with the unrounded one, as by llama.cpp's
 * quantize_row_q8_0_ref. A from 8321040 on has no finite f16 step (VC_Q8_0_TOO_LARGE_BITS). */
VC_HD float vc_q8_0_step(uint32_t absmax_bits)
{
    return vc_bits_f32(absmax_bits) / 127.0f;
}

/* What values are multiplied with: 1 / d, or 0 where that is infinite (d <= 2^-128; the stored step is then 0 as
 * well, and the block decodes to zeros). */
VC_HD float vc_q8_0_inverse(float step)
{
    return vc_f32_bits(step) > 0x00200000u ? 1.0f / step : 0.0f; /* above 2^-128 */
}

/* Code of x: x * inverse, rounded with halves away from zero, as C's roundf and llama.cpp do. |x * inverse| is below
 * 127.5 where inverse comes from the functions above. Other values, Inf and NaN too, are cut to 127, so that the
 * conversion to an integer is defined; the caller sees from the maximum's bits that the block is not finite. */
VC_HD int8_t vc_q8_0_encode(float x, float inverse)
{
    float t = x * inverse;
    float a = vc_bits_f32(vc_f32_magnitude(t));

    a = a < 127.0f ? a : 127.0f;
    int32_t k = (int32_t)a;
    k += a - (float)k >= 0.5f;
    return (int8_t)(t < 0 ? -k : k);
}
