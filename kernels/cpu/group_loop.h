/* group_loop.h - the walk over the groups of a tile (group_codes_rows of kernels.h): the scale of each, its codes, what
 * they stand for. How a group is made is the caller's. Valid as C11 and C++. */
#pragma once

#include "kernels/cpu/access.h"
#include "kernels/grid_codes.h"

/* Makes a group: returns its scale; q and y NULL: no codes. */
typedef struct vc_float_scale (*vc_group_make)(const struct vc_group_codes *c, const float *x, size_t n,
                                               uint32_t absmax_bits, uint8_t *q, float *y);

static inline struct vc_float_scale vc_group_plain(const struct vc_group_codes *c, const float *x, size_t n,
                                                   uint32_t absmax_bits, uint8_t *q, float *y)
{
    struct vc_float_scale scale = vc_group_search(c, x, n, absmax_bits);

    vc_group_encode(c, &scale, x, n, q, y);
    return scale;
}

static inline int vc_groups_walk(const float *x, size_t n_rows, size_t row_len, size_t group,
                                 const struct vc_group_codes *how, const uint32_t *bits, struct vc_float_scale *scale,
                                 uint8_t *q, float *y, vc_group_make make)
{
    size_t g = 0;

    for (size_t row = 0; row < n_rows; row++) {
        for (size_t first = 0; first < row_len; g++) {
            size_t n = group < row_len - first ? group : row_len - first;
            size_t at = row * row_len + first;
            struct vc_group_codes own = *how;
            struct vc_float_scale found;

            own.weights = how->weights == NULL ? NULL : how->weights + first;
            found = make(&own, x + at, n, vc_get_u32(bits, g), q == NULL ? NULL : q + at, q == NULL ? NULL : y + at);
            memcpy((char *)scale + g * sizeof found, &found, sizeof found);
            first += n;
        }
    }
    return 0;
}
