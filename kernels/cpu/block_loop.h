/* block_loop.h - the loop that makes blocks of rows by block_encode.h and block_best.h. kernel_ref_blocks.c has every
 * type; loops_blocks.h compiles it once more, with the vectors of each level, for types whose inner loops compilers
 * make vectors of. */
#pragma once

#include "kernels/block_best.h"
#include "kernels/cpu/access.h"
#include "kernels/kernels.h"

/* The mean square of a row, added in the order of its elements. */
static inline float row_mean(const float *x, size_t first, size_t row_len)
{
    float sum = 0.0f;

    for (size_t i = 0; i < row_len; i++) {
        float v = vc_get_f32(x, first + i);

        sum += v * v;
    }
    return sum / (float)row_len;
}

/* Defines the kernel `function` of a type. Elements are copied, for x and the importance may be unaligned. */
#define VC_BLOCKS_LOOP(function, type, elems, bytes)                                                             \
    int function(const float *x, size_t n_rows, size_t row_len, const struct vc_block_how *how, uint8_t *blocks) \
    {                                                                                                            \
        struct vc_block_room room;                                                                               \
                                                                                                                 \
        for (size_t row = 0; row < n_rows; row++) {                                                              \
            float mean = how->importance != NULL ? row_mean(x, row * row_len, row_len) : 0.0f;                   \
                                                                                                                 \
            for (size_t col = 0; col < row_len; col += (elems), blocks += (bytes)) {                             \
                const float *weights = NULL;                                                                     \
                float values[elems];                                                                             \
                float h[elems];                                                                                  \
                                                                                                                 \
                memcpy(values, (const char *)x + (row * row_len + col) * sizeof *x, sizeof values);              \
                if (how->importance != NULL) {                                                                   \
                    memcpy(h, (const char *)how->importance + col * sizeof *h, sizeof h);                        \
                    weights = h;                                                                                 \
                }                                                                                                \
                memcpy(blocks,                                                                                   \
                       how->best ? vc_##type##_best(values, weights, mean, &room)                                \
                                 : vc_##type##_make(values, weights, mean, &room),                               \
                       bytes);                                                                                   \
            }                                                                                                    \
        }                                                                                                        \
        return 0;                                                                                                \
    }
