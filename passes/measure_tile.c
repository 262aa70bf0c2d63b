/* measure_tile.c - see measure_tile.h.
 *
 * Sums are made for chunks of a row and kept apart: who adds them up does it in the order of the elements,
 * so that no cut into tiles and no number of threads changes a bit of a report. */
#include "passes/measure_tile.h"

#include "core/base/ctx.h"
#include "kernels/arith.h"

/* Both zeros count. `x` need not be aligned. */
size_t vc_count_zeros(const float *x, size_t n)
{
    size_t zeros = 0;

    for (size_t i = 0; i < n;) {
        size_t end = i + (size_t)vc_min_u64(n - i, VC_CHUNK_ELEMS);
        uint32_t some = 0; /* as wide as an element, so that vectors count */

        for (; i < end; i++) {
            uint32_t bits;

            memcpy(&bits, (const char *)x + i * sizeof bits, sizeof bits);
            some += (bits & VC_F32_ABS_MASK) == 0;
        }
        zeros += some;
    }
    return zeros;
}

/* Of values before (x) and after (y): zeros, the largest difference, and for each chunk the sums of squares
 * of x and of y - x. */
enum vc_status vc_measure_tile(struct vc_ctx *ctx, const struct vc_tile *tile, const float *x, const float *y,
                               struct vc_tile_stats *stats)
{
    const struct vc_kernels *k = vc_kernels_get(ctx);
    size_t chunk = 0;
    size_t first = 0;

    stats->max_abs_error = 0.0;
    stats->zeros_before = vc_count_zeros(x, tile->n_elems);
    while (first < tile->n_elems) { /* chunks end with their row */
        size_t n = (size_t)vc_min_u64(VC_CHUNK_ELEMS, tile->row_len - first % tile->row_len);
        double four[4];
        struct vc_diff_sums sums = {.chunk_sums = four};

        VC_KERNEL_CALL(k->diff_f32(x + first, y + first, 1, n, &sums));
        stats->chunk_sums[2 * chunk] = four[0];
        stats->chunk_sums[2 * chunk + 1] = four[1];
        stats->max_abs_error = fmax(stats->max_abs_error, sums.max_abs_error);
        first += n;
        chunk++;
    }
    return VC_OK;
}

/* Element i of F32, F16 or BF16; data need not be aligned. */
float vc_load_float(enum vc_dtype dtype, const void *data, size_t i)
{
    uint16_t h;
    float x;

    if (dtype == VC_DTYPE_F32) {
        memcpy(&x, (const char *)data + i * sizeof x, sizeof x);
        return x;
    }
    memcpy(&h, (const char *)data + i * sizeof h, sizeof h);
    return dtype == VC_DTYPE_F16 ? vc_f16_to_f32(h) : vc_bf16_to_f32(h);
}

/* Stores x, rounded to the type, and returns what was stored. Where rounding would make it infinite, the
 * element stays as it was before. */
float vc_store_float(enum vc_dtype dtype, float x, float before, char *data, size_t i)
{
    if (dtype == VC_DTYPE_F32) {
        memcpy(data + i * sizeof x, &x, sizeof x);
        return x;
    }
    uint16_t h = dtype == VC_DTYPE_F16 ? vc_f32_to_f16(x) : vc_f32_to_bf16(x);
    x = dtype == VC_DTYPE_F16 ? vc_f16_to_f32(h) : vc_bf16_to_f32(h);
    if (!isfinite(x)) {
        x = before;
        h = dtype == VC_DTYPE_F16 ? vc_f32_to_f16(x) : vc_f32_to_bf16(x);
    }
    memcpy(data + i * sizeof h, &h, sizeof h);
    return x;
}
