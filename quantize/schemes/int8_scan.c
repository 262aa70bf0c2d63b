/* int8_scan.c - scales whose elements are spread over several tiles: one per tensor, per channel of another axis than
 * the first, per row longer than a tile. Every tile's magnitudes are merged by an integer maximum, so the order of the
 * tiles does not matter. */

#include "kernels/arith.h"
#include "quantize/schemes/int8.h"

/* What the scan fills: magnitudes by scale, then the scales. */
enum vc_status vc_int8_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_int8_state *s = step->state;
    enum vc_status status = VC_OK;
    size_t n = (size_t)s->n_scales;

    if (!s->scan) {
        return VC_OK;
    }
    VC_REFUSE_IF(pthread_mutex_init(&s->mutex, NULL) != 0, ctx, VC_E_NOMEM, "cannot create a mutex");
    s->has_mutex = true;
    s->has_nonfinite = false;
    VC_TRY(VC_ZEROS(ctx, VC_TAG_SCALES, s->pos, n));
    VC_TRY(VC_ARRAY(ctx, VC_TAG_SCALES, s->scale, n));
    if (s->scale_dtype != VC_DTYPE_F32) {
        VC_TRY(VC_ARRAY(ctx, VC_TAG_SCALES, s->stored, n));
    }
    if (s->zeros) {
        VC_TRY(VC_ZEROS(ctx, VC_TAG_SCALES, s->zero, n));
    }
    if (s->options->asymmetric) {
        VC_TRY(VC_ZEROS(ctx, VC_TAG_SCALES, s->neg, n));
        VC_TRY(VC_ARRAY(ctx, VC_TAG_SCALES, s->zero, n));
    }
out:
    return status; /* end frees what is there */
}

/* May be called without begin, or after one that failed. */
void vc_int8_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct vc_int8_state *s = step->state;

    if (s->has_mutex) {
        (void)pthread_mutex_destroy(&s->mutex);
        s->has_mutex = false;
    }
    VC_FREE_ALL(ctx, s->pos, s->neg, s->scale, s->stored, s->zero);
    s->pos = NULL;
    s->neg = NULL;
    s->scale = NULL;
    s->stored = NULL;
    s->zero = NULL;
}

/* The largest magnitudes in the tile, by scale, as the bits of floats: into t->pos and, asymmetric, t->neg. */
static enum vc_status magnitudes(struct vc_ctx *ctx, const struct vc_int8_state *s, const struct vc_tile *tile,
                                 const struct vc_int8_tile_map *map, struct vc_int8_scratch *t, const float *x)
{
    const struct vc_kernels *k = vc_kernels_get(ctx);

    memset(t->pos, 0, map->n_local * sizeof *t->pos);
    memset(t->neg, 0, map->n_local * sizeof *t->neg);
    if (s->options->asymmetric) {
        VC_KERNEL_CALL(k->range_axis(x, tile->n_elems, &map->axis, t->pos, t->neg));
    } else {
        VC_KERNEL_CALL(k->absmax_axis(x, tile->n_elems, &map->axis, t->pos));
    }
    return VC_OK;
}

/* Adds what a tile found to what all tiles found. `dirty`: the tile has NaN or Inf, so the tiles have to be cleaned
 * when codes are made. */
static void merge(struct vc_int8_state *s, const struct vc_int8_tile_map *map, const struct vc_int8_scratch *t,
                  bool dirty)
{
    (void)pthread_mutex_lock(&s->mutex);
    for (size_t i = 0; i < map->n_local; i++) {
        uint32_t *pos = &s->pos[map->first_scale + i];

        *pos = t->pos[i] > *pos ? t->pos[i] : *pos;
    }
    for (size_t i = 0; s->neg != NULL && i < map->n_local; i++) {
        uint32_t *neg = &s->neg[map->first_scale + i];

        *neg = t->neg[i] > *neg ? t->neg[i] : *neg;
    }
    s->has_nonfinite |= dirty;
    (void)pthread_mutex_unlock(&s->mutex);
}

/* The kernels' magnitudes tell: Inf and NaN are larger than any number. */
static bool tile_is_finite(const struct vc_int8_tile_map *map, const struct vc_int8_scratch *t)
{
    for (size_t i = 0; i < map->n_local; i++) {
        if (t->pos[i] >= VC_F32_INF_BITS || t->neg[i] >= VC_F32_INF_BITS) {
            return false;
        }
    }
    return true;
}

/* A tile with NaN or Inf is looked at twice: magnitudes are those of the finite values. */
enum vc_status vc_int8_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                            const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct vc_int8_state *s = step->state;
    struct vc_int8_scratch t;
    struct vc_int8_tile_map map;
    const float *x;
    bool dirty = false;

    vc_int8_scratch_carve(step, s, scratch, &t);
    vc_int8_map_tile(s, tile, &map);
    VC_CALL(vc_int8_widen(ctx, step, tile, in->data, &t, &x));
    VC_CALL(magnitudes(ctx, s, tile, &map, &t, x));
    if (!tile_is_finite(&map, &t)) {
        if (s->options->nonfinite != VC_NONFINITE_ZERO) {
            return vc_int8_refuse(ctx);
        }
        dirty = true;
        (void)vc_int8_sanitize(x, tile, &map, NULL, NULL, t.clean);
        VC_CALL(magnitudes(ctx, s, tile, &map, &t, t.clean));
    }
    merge(s, &map, &t, dirty);
    return VC_OK;
}

/* Scales that were given take the place of what the scan has found. */
enum vc_status vc_int8_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_int8_state *s = step->state;

    if (s->given != NULL) {
        memcpy(s->scale, s->given, (size_t)s->n_scales * sizeof *s->scale);
        return VC_OK;
    }
    if (s->zero == NULL) {
        vc_int8_scales(s, s->pos, (size_t)s->n_scales, s->scale, s->stored);
        return VC_OK;
    }
    vc_int8_asym_scales(s, s->pos, s->neg, (size_t)s->n_scales, s->scale, s->stored, s->zero);
    return VC_OK;
}
