/* train_codes.h - numbers from -1 to 1, or from 0 to 1, as one byte: the states of 8-bit Adam.
 *
 * A code is the number of an entry of a map of 256 numbers, which ascend (Dettmers et al., arXiv 2110.02861). In each
 * decade are as many as halve its cells once more than in the decade below, so small numbers keep their size and large
 * ones two digits:
 *
 *     with a sign   -0.993 ... -5.5e-7, 0 (code 127), 5.5e-7, 3.25e-6, 7.75e-6, ... 0.979, 0.993, 1
 *     without       0, 3.25e-7, 7.75e-7, ... 0.9965, 1
 *
 * Valid as C11, C++ and CUDA; dynamic_codes.c makes the maps. States lie in blocks of VC_CODED_BLOCK; a state
 * is its entry of the map times the largest magnitude of its block. */
#pragma once

#include <stdbool.h>

#include "kernels/arith.h"

#define VC_CODED_BLOCK 256

/* Numbers are looked up by the upper half of their bits (exponent and 7 bits behind it), from 2^-23 to 1. No such cell
 * has two borders between codes. */
#define VC_DYNAMIC_FIRST 0x3400u /* of 2^-23, below the smallest border */
#define VC_DYNAMIC_CELLS (0x3f80u - VC_DYNAMIC_FIRST + 1)

struct vc_dynamic_map {
    float value[256];
    unsigned zero;                /* the code of 0 */
    float border[256];            /* between code zero + k and the one above it; behind the last one infinite */
    uint8_t at[VC_DYNAMIC_CELLS]; /* k at the lower end of each cell */
};

struct vc_dynamic_maps {
    struct vc_dynamic_map with_sign, without;
};

void vc_dynamic_maps_make(struct vc_dynamic_maps *maps);

/* The code of the entry that is nearest to x, the one nearer to 0 of two; what is below 0 never gets the code of 0. x
 * is from -1 to 1; NaN: 1. */
VC_HD uint8_t vc_dynamic_code(const struct vc_dynamic_map *map, float x)
{
    float magnitude = fabsf(x);
    unsigned cell, k;

    magnitude = magnitude < 1 ? magnitude : 1;
    cell = vc_f32_bits(magnitude) >> 16;
    k = cell < VC_DYNAMIC_FIRST ? 0 : map->at[cell - VC_DYNAMIC_FIRST];
    k += magnitude > map->border[k];
    if (!(x < 0)) {
        return (uint8_t)(map->zero + k);
    }
    k = k > map->zero ? map->zero : k == 0 ? 1 : k;
    return (uint8_t)(map->zero - k);
}
