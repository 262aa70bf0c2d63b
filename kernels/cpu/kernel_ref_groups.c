/* kernel_ref_groups.c - the definition of the kernels for codes with a scale per group, as kernel_ref.c is for the
 * others. The arithmetic is that of grid_codes.h. */
#include "kernels/cpu/group_loop.h"
#include "kernels/cpu/variants.h"

int vc_group_codes_rows_ref(const float *x, size_t n_rows, size_t row_len, size_t group,
                            const struct vc_group_codes *how, const uint32_t *bits, struct vc_float_scale *scale,
                            uint8_t *q, float *y)
{
    return vc_groups_walk(x, n_rows, row_len, group, how, bits, scale, q, y, vc_group_plain);
}

static void decode_run(const float *values, const uint8_t *q, size_t first, size_t n, float scale, float *y)
{
    for (size_t i = first; i < first + n; i++) {
        vc_put_f32(y, i, vc_grid_decode(values[q[i]], scale));
    }
}

int vc_grid_decode_rows_ref(const uint8_t *q, size_t n_rows, size_t row_len, size_t group, enum vc_grid grid,
                            const float *scale, float *y)
{
    float values[256];
    size_t g = 0;

    vc_float_values(grid, values);
    for (size_t row = 0; row < n_rows; row++) {
        for (size_t first = 0, n; first < row_len; first += n, g++) {
            n = group < row_len - first ? group : row_len - first;
            decode_run(values, q, row * row_len + first, n, vc_get_f32(scale, g), y);
        }
    }
    return 0;
}

int vc_grid_decode_axis_ref(const uint8_t *q, size_t n, const struct vc_axis_map *map, enum vc_grid grid,
                            const float *scale, float *y)
{
    float values[256];

    vc_float_values(grid, values);
    for (size_t i = 0, m; i < n; i += m) {
        uint64_t left = map->inner - (map->first + i) % map->inner;

        m = left < n - i ? (size_t)left : n - i;
        decode_run(values, q, i, m, vc_get_f32(scale, (size_t)((map->first + i) / map->inner % map->n_channels)), y);
    }
    return 0;
}
