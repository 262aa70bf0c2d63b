/* kernel_ref_blocks.c - the definition of the kernels for GGUF's block types, as kernel_ref.c is for the others. The
 * arithmetic and the layouts are those of blocks.h. */
#include "kernels/cpu/block_loop.h"
#include "kernels/cpu/variants.h"

#define LANES 64 /* of the tree of sums, kernels.h */

static int finite32(float x)
{
    return vc_f32_magnitude(x) < VC_F32_INF_BITS;
}

/* Sums of one chunk so far: lanes of x*x and of e*e. */
struct sums {
    double lane[2][LANES];
};

/* Counts element i of a chunk: source x, decoded output y. As in kernel_ref.c; nothing is clipped in Q8_0. */
static void stats_add(struct vc_tile_stats *stats, struct sums *sums, size_t i, float x, float y)
{
    double e = (double)x - (double)y;

    stats->zeros_before += x == 0;
    stats->zeros_after += y == 0;
    if (finite32(x) && finite32(y)) {
        sums->lane[0][i % LANES] += (double)x * (double)x;
        sums->lane[1][i % LANES] += e * e;
        stats->max_abs_error = fabs(e) > stats->max_abs_error ? fabs(e) : stats->max_abs_error;
    }
}

/* ---- Q8_0 from weights ---- */

/* The block of the 32 elements from `first`: its largest magnitude into bits, step and codes into the 34 bytes at
 * `block`. Codes are made with the step before it was rounded to f16. */
static void encode_block(const float *x, size_t first, uint32_t *bits, uint8_t *block)
{
    size_t g = first / 32;
    uint32_t most = 0;

    for (size_t i = 0; i < 32; i++) {
        uint32_t m = vc_f32_magnitude(vc_get_f32(x, first + i));

        most = m > most ? m : most;
    }
    vc_put_u32(bits, g, most);
    uint16_t stored = vc_f32_to_f16(vc_q8_0_step(most));
    float inverse = vc_q8_0_inverse(vc_q8_0_step(most));
    block[0] = (uint8_t)stored;
    block[1] = (uint8_t)(stored >> 8);
    for (size_t i = 0; i < 32; i++) {
        block[2 + i] = (uint8_t)vc_q8_0_encode(vc_get_f32(x, first + i), inverse);
    }
}

/* Blocks first, statistics after, from what the blocks decode to. row_len is a multiple of 32, so blocks do not cross
 * rows. */
int vc_q8_0_rows_ref(const float *x, size_t n_rows, size_t row_len, uint32_t *bits, uint8_t *blocks,
                     struct vc_tile_stats *stats)
{
    size_t chunk = 0;

    for (size_t first = 0; first < n_rows * row_len; first += 32) {
        encode_block(x, first, bits, blocks + first / 32 * VC_Q8_0_BYTES);
    }
    if (stats == NULL) {
        return 0;
    }
    stats->max_abs_error = 0;
    stats->zeros_before = stats->zeros_after = stats->clipped = 0;
    for (size_t row = 0; row < n_rows; row++) {
        for (size_t col = 0; col < row_len; col += VC_CHUNK_ELEMS, chunk++) {
            struct sums sums = {{{0}}};

            for (size_t i = col; i < row_len && i < col + VC_CHUNK_ELEMS; i++) {
                size_t at = row * row_len + i;

                stats_add(stats, &sums, i - col, vc_get_f32(x, at),
                          vc_q8_0_value(blocks + at / 32 * VC_Q8_0_BYTES, at % 32));
            }
            stats->chunk_sums[2 * chunk] = sum_of_lanes(sums.lane[0]);
            stats->chunk_sums[2 * chunk + 1] = sum_of_lanes(sums.lane[1]);
        }
    }
    return 0;
}

/* ---- blocks from weights, and back ---- */

/* n elements of whole blocks, one after another; and the blocks of each row. */
#define VC_BLOCK_TYPE(type, TYPE, elems, bytes, decoding, encoding)                                       \
    int vc_##type##_to_f32_ref(const uint8_t *blocks, size_t n, float *y)                                 \
    {                                                                                                     \
        for (size_t i = 0; i < n; i++) {                                                                  \
            vc_put_f32(y, i, vc_##type##_value(blocks + i / (elems) * (bytes), (uint32_t)(i % (elems)))); \
        }                                                                                                 \
        return 0;                                                                                         \
    }                                                                                                     \
                                                                                                          \
    VC_BLOCKS_LOOP(vc_##type##_blocks_ref, type, elems, bytes)
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE
