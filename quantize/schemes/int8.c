/* int8.c - int8 codes: one scale per tensor, channel or group; symmetric or with zero points.
 *
 *     s = absmax / 127            q = clamp(rint(x / s), -127, 127)            x' = q * s
 *
 * docs/numerics.md has the definitions; kernels/arith.h has the arithmetic. This file plans the step and decides which
 * kernel does a tile: where a tile holds every element of its scales, one kernel makes scales and codes in one go
 * (int8_rows); else a scan over all tiles (int8_scan.c) finds the scales first. */
#include "quantize/schemes/int8.h"

/* ---- one tile ---- */

/* Symmetric, f32 scales, and the tile holds every element of them: one kernel finds them and makes the codes. NaN or
 * Inf show in the magnitudes; the tile is then done again from a clean copy. */
static enum vc_status apply_symmetric(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_int8_state *s,
                                      const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                                      struct vc_int8_scratch *t, const float *x, struct vc_tile_out *out)
{
    VC_KERNEL_CALL(k->int8_rows(x, tile->n_rows, tile->row_len, map->group, t->pos, t->scale, out->data, out->stats));
    if (vc_int8_any_nonfinite(t->pos, map->n_local)) {
        const float *clean = x;

        if (s->options->nonfinite != VC_NONFINITE_ZERO) {
            return vc_int8_refuse(ctx);
        }
        VC_CALL(vc_int8_clean_tile(ctx, k, tile, map, t, false, &clean, &out->nonfinite));
        VC_KERNEL_CALL(
            k->int8_rows(clean, tile->n_rows, tile->row_len, map->group, t->pos, t->scale, out->data, out->stats));
        VC_CALL(vc_int8_measure(ctx, tile, map, x, t->scale, NULL, t->clean, out));
    }
    return VC_OK;
}

/* The same with scales that are rounded to a narrower type before the codes are made. */
static enum vc_status apply_rounded(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_int8_state *s,
                                    const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                                    struct vc_int8_scratch *t, const float *x, struct vc_tile_out *out)
{
    const float *clean = x;

    VC_CALL(vc_int8_magnitudes(ctx, k, s, tile, map, t, &clean, &out->nonfinite));
    vc_int8_scales(s, t->pos, map->n_local, t->scale, t->stored);
    VC_KERNEL_CALL(
        k->int8_rows_given(clean, tile->n_rows, tile->row_len, map->group, t->scale, NULL, out->data, out->stats));
    if (clean != x) {
        VC_CALL(vc_int8_measure(ctx, tile, map, x, t->scale, NULL, t->clean, out));
    }
    return VC_OK;
}

/* With zero points; the tile holds every element of its scales. */
static enum vc_status apply_asymmetric(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_int8_state *s,
                                       const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                                       struct vc_int8_scratch *t, const float *x, struct vc_tile_out *out)
{
    const float *clean = x;

    VC_KERNEL_CALL(k->range_rows(x, tile->n_rows, tile->row_len, map->group, t->pos, t->neg));
    if (vc_int8_any_nonfinite(t->pos, map->n_local) || vc_int8_any_nonfinite(t->neg, map->n_local)) {
        if (s->options->nonfinite != VC_NONFINITE_ZERO) {
            return vc_int8_refuse(ctx);
        }
        VC_CALL(vc_int8_clean_tile(ctx, k, tile, map, t, true, &clean, &out->nonfinite));
    }
    vc_int8_asym_scales(s, t->pos, t->neg, map->n_local, t->scale, t->stored, t->zero);
    VC_KERNEL_CALL(
        k->int8_rows_given(clean, tile->n_rows, tile->row_len, map->group, t->scale, t->zero, out->data, out->stats));
    if (clean != x) {
        VC_CALL(vc_int8_measure(ctx, tile, map, x, t->scale, t->zero, t->clean, out));
    }
    return VC_OK;
}

/* Scales from the scan. */
static enum vc_status apply_given(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_int8_state *s,
                                  const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                                  struct vc_int8_scratch *t, const float *x, struct vc_tile_out *out)
{
    const float *scale = s->scale + map->first_scale;
    const int8_t *zero = s->zero != NULL ? s->zero + map->first_scale : NULL;

    if (s->has_nonfinite) {
        out->nonfinite = vc_int8_sanitize(x, tile, map, s->pos + map->first_scale,
                                          s->neg != NULL ? s->neg + map->first_scale : NULL, t->clean);
    }
    VC_KERNEL_CALL(k->int8_axis_given(out->nonfinite != 0 ? t->clean : x, tile->n_rows, tile->row_len, &map->axis,
                                      scale, zero, out->data, out->stats));
    if (out->nonfinite != 0) {
        VC_CALL(vc_int8_measure(ctx, tile, map, x, scale, zero, t->clean, out));
    }
    return VC_OK;
}

/* The n scales from number `first` on, in the form that is stored. */
static void give_scales(const struct vc_int8_state *s, struct vc_tile_out *out, const float *scale,
                        const uint16_t *stored, const uint32_t *absmax, uint64_t first, size_t n)
{
    const void *data = s->absmax ? (const void *)absmax : s->scale_dtype != VC_DTYPE_F32 ? (const void *)stored : scale;

    out->parts[0] = (struct vc_part_view){.data = data, .first = first, .n = n, .write = true};
}

/* The n zero points from number `first` on. */
static void give_zeros(struct vc_tile_out *out, const int8_t *zero, uint64_t first, size_t n)
{
    out->parts[1] = (struct vc_part_view){.data = zero, .first = first, .n = n, .write = true};
}

/* The codes of a tile, by one of the four ways:
 *
 *     scan                scales of several tiles          apply_given
 *     asymmetric          with zero points                 apply_asymmetric
 *     scale_dtype f16     scales are rounded before        apply_rounded
 *     else                                                 apply_symmetric */
static enum vc_status int8_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                 const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                 struct vc_tile_out *out)
{
    const struct vc_int8_state *s = step->state;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    struct vc_int8_scratch t;
    struct vc_int8_tile_map map;
    const float *x;

    VC_CALL_FOUND(ctx, k);
    vc_int8_scratch_carve(step, s, scratch, &t);
    vc_int8_map_tile(s, tile, &map);
    VC_CALL(vc_int8_widen(ctx, step, tile, in->data, &t, &x));
    if (s->scan) { /* all scales are known: each tile gives them to the next step, tile 0 has them written */
        VC_CALL(apply_given(ctx, k, s, tile, &map, &t, x, out));
        give_scales(s, out, s->scale, s->stored, s->pos, 0, (size_t)s->n_scales);
        out->parts[0].write = tile->index == 0;
        if (s->zero != NULL) {
            give_zeros(out, s->zero, 0, (size_t)s->n_scales);
            out->parts[1].write = tile->index == 0;
        }
        return VC_OK;
    }
    if (s->options->asymmetric) {
        VC_CALL(apply_asymmetric(ctx, k, s, tile, &map, &t, x, out));
        give_zeros(out, t.zero, map.first_scale, map.n_local);
    } else if (s->scale_dtype != VC_DTYPE_F32) {
        VC_CALL(apply_rounded(ctx, k, s, tile, &map, &t, x, out));
    } else {
        VC_CALL(apply_symmetric(ctx, k, s, tile, &map, &t, x, out));
    }
    give_scales(s, out, t.scale, t.stored, t.pos, map.first_scale, map.n_local);
    return VC_OK;
}

/* ---- the row ---- */

static const struct vc_step_ops int8_ops = {.calibrate = vc_policy_calibrate,
                                            .explain = vc_policy_explain,
                                            .begin = vc_int8_begin,
                                            .scan = vc_int8_scan,
                                            .scan_end = vc_int8_scan_end,
                                            .apply = int8_apply,
                                            .end = vc_int8_end,
                                            .forget = vc_policy_forget};

/* given NULL: the scales come from the values. */
static enum vc_status add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                          enum vc_dtype weights, const float *given)
{
    struct vc_int8_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_step *step;

    VC_CALL_ALLOC(s);
    s->given = given;
    s->zeros = given != NULL;
    VC_CALL(vc_int8_add_step(ctx, item, &vc_scheme_int8, &int8_ops, options, weights, s, &step));
    step->scan = s->scan;
    step->state_bytes = s->scan ? (size_t)s->n_scales * (options->asymmetric || s->zeros ? 15 : 10) : 0;
    step->scratch_bytes = vc_int8_scratch_bytes(step, s);
    return VC_OK;
}

static enum vc_status int8_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                               enum vc_dtype weights)
{
    return add(ctx, item, options, weights, NULL);
}

enum vc_status vc_int8_add_given(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                                 const float *scale)
{
    return add(ctx, item, options, vc_desc_weight_dtype(item->desc), scale);
}

static const struct vc_scheme_granularity granularities[] = {{VC_GRANULARITY_TENSOR, 0},
                                                             {VC_GRANULARITY_CHANNEL, 0},
                                                             {VC_GRANULARITY_GROUP, 128},
                                                             {VC_GRANULARITY_GROUP, 64},
                                                             {VC_GRANULARITY_GROUP, 32}};

const struct vc_scheme_row vc_scheme_int8 = {.target = VC_TARGET_INT8,
                                             .name = "int8",
                                             .flag = "--int8",
                                             .result = VC_DTYPE_I8,
                                             .scheme = VC_SCHEME_INT8,
                                             .codes = true,
                                             .n_granularities = sizeof granularities / sizeof granularities[0],
                                             .granularities = granularities,
                                             .add = int8_add};
