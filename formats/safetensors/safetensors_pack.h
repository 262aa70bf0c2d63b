/* safetensors_pack.h - int8 codes as compressed-tensors packs them, by ranges.
 *
 *     row of codes   q0 q1 q2 q3 q4                       int8, -128..127
 *     packed row     q0+128 q1+128 q2+128 q3+128 | q4+128 0 0 0     little-endian 32-bit words
 *
 * A byte of the packed array is its code with the top bit turned over; every row is padded to whole words with zeros.
 * Positions count bytes, from the start of the array. */
#ifndef VC_FORMATS_SAFETENSORS_PACK_H
#define VC_FORMATS_SAFETENSORS_PACK_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a packed row. row > 0. */
static inline uint64_t safetensors_packed_row(uint64_t row)
{
    return row / 4 * 4 + (row % 4 != 0 ? 4 : 0);
}

/* Where code number `at` lies. */
static inline uint64_t safetensors_packed_at(uint64_t row, uint64_t at)
{
    return at / row * safetensors_packed_row(row) + at % row;
}

/* Bytes of n codes packed, at most, wherever they start; min_row: the shortest row that is padded, 0 if none is. */
size_t vc_safetensors_pack_bound(uint64_t min_row, size_t n);

/* Packs the n codes from number `at` on; the padding of the rows that end among them goes with them. Returns the bytes
 * written, which belong at safetensors_packed_at(row, at). */
size_t vc_safetensors_pack(uint64_t row, uint64_t at, const void *codes, size_t n, void *packed);

/* Takes the codes out of the n packed bytes from position `at` on, in place and in order; returns how many there are.
 */
size_t vc_safetensors_unpack(uint64_t row, uint64_t at, void *packed, size_t n);

#endif
