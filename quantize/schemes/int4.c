/* int4.c - int4 codes: a scale per row of axis 0, or per group of one, found by a search; no zero points.
 *
 *     w  f32 [64, 512] --int4/group:128--> codes i4 [64, 512] with the part scale [64, 4]      x' = q * s, q = -8 .. 7
 *     byte i of the codes: element 2 i in the low four bits, element 2 i + 1 in the high ones, two's complement
 *
 * docs/numerics.md has the definitions; kernels/int4.h has the arithmetic. The step is planned as that of int8 is. */
#include "quantize/schemes/int8.h"

#include "core/base/checked.h"
#include "kernels/int4.h"
#include "passes/measure_tile.h"

/* Scratch of one tile: that of int8, and behind it the codes a byte each, and what they stand for. */
struct int4_scratch {
    struct vc_int8_scratch shared;
    int8_t *q;
    float *y;
};

static size_t round_up(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

static size_t tile_elems(const struct vc_step *step)
{
    return (size_t)vc_min_u64(step->in.n_elems, VC_TILE_ELEMS);
}

static size_t scratch_bytes(const struct vc_step *step, const struct vc_int8_state *s)
{
    return round_up(vc_int8_scratch_bytes(step, s)) + tile_elems(step) * sizeof(float) + 64 + tile_elems(step);
}

static void carve(const struct vc_step *step, const struct vc_int8_state *s, void *memory, struct int4_scratch *out)
{
    char *at = memory;

    vc_int8_scratch_carve(step, s, memory, &out->shared);
    out->y = (float *)(void *)(at + round_up(vc_int8_scratch_bytes(step, s)));
    out->q = (int8_t *)(out->y + tile_elems(step));
}

/* The scale of one group, in `stored` as it is stored, and its codes. */
static void encode_group(const struct vc_int8_state *s, const float *x, size_t n, uint32_t absmax_bits, float *scale,
                         uint16_t *stored, int8_t *q)
{
    int zero;
    size_t i;

    *scale = vc_int4_scale(x, n, absmax_bits, s->scale_dtype, &zero);
    if (s->scale_dtype != VC_DTYPE_F32) {
        *stored = s->scale_dtype == VC_DTYPE_F16 ? vc_f32_to_f16(*scale) : vc_f32_to_bf16(*scale);
    }
    for (i = 0; i < n; i++) {
        q[i] = zero ? 0 : vc_int4_encode(vc_int4_at(x, i), *scale);
    }
}

static void encode_tile(const struct vc_int8_state *s, const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                        const float *x, struct int4_scratch *t)
{
    size_t k = 0;
    size_t row;
    size_t first;

    for (row = 0; row < tile->n_rows; row++) {
        for (first = 0; first < tile->row_len; first += map->group, k++) {
            size_t n = (size_t)vc_min_u64(map->group, tile->row_len - first);
            size_t at = row * tile->row_len + first;

            encode_group(s, x + at, n, t->shared.pos[k], &t->shared.scale[k], &t->shared.stored[k], t->q + at);
        }
    }
}

static uint64_t count_zeros(const int8_t *q, size_t n)
{
    uint64_t zeros = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        zeros += q[i] == 0;
    }
    return zeros;
}

static enum vc_status int4_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                 const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                 struct vc_tile_out *out)
{
    const struct vc_int8_state *s = step->state;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    struct vc_int8_tile_map map;
    struct int4_scratch t;
    const float *source;
    const float *x;
    enum vc_status status = VC_OK;

    (void)item;
    if (k == NULL) {
        return ctx->status;
    }
    carve(step, s, scratch, &t);
    vc_int8_map_tile(s, tile, &map);
    VC_TRY(vc_int8_widen(ctx, step, tile, in->data, &t.shared, &source));
    x = source;
    VC_TRY(vc_int8_magnitudes(ctx, k, s, tile, &map, &t.shared, &x, &out->nonfinite));
    encode_tile(s, tile, &map, x, &t);
    out->stats->clipped = 0; /* the search chooses what to clip */
    out->stats->zeros_after = count_zeros(t.q, tile->n_elems);
    VC_KERNEL_TRY(k->int8_decode_rows(t.q, tile->n_rows, tile->row_len, map.group, t.shared.scale, NULL, t.y));
    VC_TRY(vc_measure_tile(ctx, tile, source, t.y, out->stats));
    vc_int4_pack(t.q, tile->n_elems, out->data);
    out->parts[0] =
        (struct vc_part_view){.data = s->scale_dtype != VC_DTYPE_F32 ? (const void *)t.shared.stored : t.shared.scale,
                              .first = map.first_scale,
                              .n = map.n_local,
                              .write = true};
out:
    return status;
}

/* ---- the row ---- */

static const struct vc_step_ops int4_ops = {
    .calibrate = vc_policy_calibrate, .explain = vc_policy_explain, .apply = int4_apply, .forget = vc_policy_forget};

static enum vc_status int4_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                               enum vc_dtype weights)
{
    struct vc_int8_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_step *step;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(s);
    VC_TRY(vc_int8_add_step(ctx, item, &vc_scheme_int4, &int4_ops, options, weights, s, &step));
    step->scratch_bytes = scratch_bytes(step, s);
out:
    return status;
}

const struct vc_scheme_row vc_scheme_int4 = {.target = VC_TARGET_INT4,
                                             .name = "int4",
                                             .flag = "--int4",
                                             .result = VC_DTYPE_I4,
                                             .scheme = VC_SCHEME_INT4,
                                             .codes = true,
                                             .rows_only = true,
                                             .no_aim = true,
                                             .usual_group = 128,
                                             .reason = vc_scheme_rows_reason,
                                             .add = int4_add};
