/* int8_clean.c - what --nonfinite=zero does to a tile: NaN and Inf are replaced before the codes are made, and left out
 * of the figures, which are those of the source.
 *
 *     x        1  NaN  -Inf  3        first copy   1 0 0 3     magnitudes without NaN and Inf: 3
 *                                     second copy  1 0 -3 3    an infinity becomes the largest of its scale */

#include "kernels/arith.h"
#include "kernels/grid_codes.h"
#include "passes/measure_tile.h"
#include "quantize/schemes/int8.h"

/* The number of element i's scale among those that the tile touches. */
static size_t local_index(const struct vc_tile *tile, const struct vc_int8_tile_map *map, size_t i)
{
    if (map->rows) {
        return i / tile->row_len * (tile->row_len / map->group + (tile->row_len % map->group != 0)) +
               i % tile->row_len / map->group;
    }
    return (size_t)((map->axis.first + i) / map->axis.inner % map->axis.n_channels);
}

/* NaN, Inf and the sign are read off the bits. */
uint64_t vc_int8_sanitize(const float *x, const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                          const uint32_t *pos, const uint32_t *neg, float *clean)
{
    uint64_t replaced = 0;

    for (size_t i = 0; i < tile->n_elems; i++) {
        uint32_t bits;

        memcpy(&bits, (const char *)x + i * sizeof bits, sizeof bits); /* the tile may be unaligned */
        if ((bits & VC_F32_ABS_MASK) >= VC_F32_INF_BITS) {
            replaced++;
            if ((bits & VC_F32_ABS_MASK) > VC_F32_INF_BITS || pos == NULL) {
                bits = 0;
            } else {
                const uint32_t *from = (bits >> 31) != 0 && neg != NULL ? neg : pos;

                bits = (bits & 0x80000000u) | from[local_index(tile, map, i)];
            }
        }
        clean[i] = vc_bits_f32(bits);
    }
    return replaced;
}

/* What the codes stand for, by groups of rows or by an axis. */
static enum vc_status decode(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_tile *tile,
                             const struct vc_int8_tile_map *map, const int8_t *q, const float *scale,
                             const int8_t *zero, float *y)
{
    if (map->rows) {
        VC_KERNEL_CALL(k->int8_decode_rows(q, tile->n_rows, tile->row_len, map->group, scale, zero, y));
    } else {
        VC_KERNEL_CALL(k->int8_decode_axis(q, tile->n_elems, &map->axis, scale, zero, y));
    }
    return VC_OK;
}

/* Kernels measure against the clean copy; figures of the source are made here again. */
enum vc_status vc_int8_measure(struct vc_ctx *ctx, const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                               const float *x, const float *scale, const int8_t *zero, float *y,
                               struct vc_tile_out *out)
{
    enum vc_status status = decode(ctx, vc_kernels_get(ctx), tile, map, out->data, scale, zero, y);

    return status == VC_OK ? vc_measure_tile(ctx, tile, x, y, out->stats) : status;
}

enum vc_status vc_int8_measure_values(struct vc_ctx *ctx, const struct vc_tile *tile, const float *x, const float *y,
                                      struct vc_tile_stats *stats)
{
    stats->clipped = 0;
    stats->zeros_after = vc_count_zeros(y, tile->n_elems);
    return vc_measure_tile(ctx, tile, x, y, stats);
}

uint32_t vc_int8_largest(const float *x, size_t n)
{
    uint32_t top = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits = vc_f32_magnitude(vc_float_at(x, i));

        top = bits < VC_F32_INF_BITS && bits > top ? bits : top;
    }
    return top;
}

uint32_t vc_int8_most(const uint32_t *bits, size_t n)
{
    uint32_t most = 0;

    for (size_t i = 0; i < n; i++) {
        most = bits[i] > most ? bits[i] : most;
    }
    return most;
}

enum vc_status vc_int8_clean_blocks(struct vc_ctx *ctx, const struct vc_kernels *k, size_t block,
                                    const struct vc_tile *tile, const float *x, uint32_t *bits, float *clean,
                                    uint64_t *replaced)
{
    const struct vc_int8_tile_map map = {.rows = true, .group = block, .n_local = tile->n_elems / block};

    (void)vc_int8_sanitize(x, tile, &map, NULL, NULL, clean);
    VC_KERNEL_CALL(k->absmax_rows(clean, tile->n_rows, tile->row_len, block, bits));
    *replaced = vc_int8_sanitize(x, tile, &map, bits, NULL, clean);
    return VC_OK;
}

enum vc_status vc_blocks_add_step(struct vc_ctx *ctx, struct vc_item *item, const struct vc_step_ops *ops,
                                  const struct vc_quantize_options *options, enum vc_dtype type,
                                  struct vc_policy *policy, struct vc_step **out)
{
    *policy = (struct vc_policy){.nonfinite = options->nonfinite,
                                 .overflow = options->overflow,
                                 .room = type,
                                 .codes = true,
                                 .strict = true,
                                 .advice = VC_ADVICE_NONFINITE};
    VC_CALL(vc_policy_add_step(ctx, item, ops, policy, out));
    (*out)->action = VC_ACTION_QUANTIZED;
    (*out)->scheme = vc_dtype_name(type);
    (*out)->lossy = true;
    (*out)->out.dtype = type;
    return VC_OK;
}

/* ---- tiles of the schemes with scales beside the codes ---- */

enum vc_status vc_int8_refuse(struct vc_ctx *ctx)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED, "a value is not finite"); /* explain says which, where, how many */
}

/* Magnitudes as bits are in the order of the floats, and behind Inf lie NaN. */
bool vc_int8_any_nonfinite(const uint32_t *bits, size_t n)
{
    uint32_t top = 0;

    for (size_t i = 0; bits != NULL && i < n; i++) {
        top = bits[i] > top ? bits[i] : top;
    }
    return top >= VC_F32_INF_BITS;
}

enum vc_status vc_int8_clean_tile(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_tile *tile,
                                  const struct vc_int8_tile_map *map, struct vc_int8_scratch *t, bool asymmetric,
                                  const float **x, uint64_t *replaced)
{
    (void)vc_int8_sanitize(*x, tile, map, NULL, NULL, t->clean);
    if (asymmetric) {
        VC_KERNEL_CALL(k->range_rows(t->clean, tile->n_rows, tile->row_len, map->group, t->pos, t->neg));
    } else {
        VC_KERNEL_CALL(k->absmax_rows(t->clean, tile->n_rows, tile->row_len, map->group, t->pos));
    }
    *replaced = vc_int8_sanitize(*x, tile, map, t->pos, asymmetric ? t->neg : NULL, t->clean);
    *x = t->clean;
    return VC_OK;
}

enum vc_status vc_int8_magnitudes(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_int8_state *s,
                                  const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                                  struct vc_int8_scratch *t, const float **x, uint64_t *replaced)
{
    VC_KERNEL_CALL(k->absmax_rows(*x, tile->n_rows, tile->row_len, map->group, t->pos));
    if (vc_int8_any_nonfinite(t->pos, map->n_local)) {
        if (s->options->nonfinite != VC_NONFINITE_ZERO) {
            return vc_int8_refuse(ctx);
        }
        VC_CALL(vc_int8_clean_tile(ctx, k, tile, map, t, false, x, replaced));
    }
    return VC_OK;
}
