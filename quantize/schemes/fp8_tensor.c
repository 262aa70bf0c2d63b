/* fp8_tensor.c - fp8 with one scale for the whole tensor, which ComfyUI's files have.
 *
 *     s = absmax / 448            q = e4m3(x / s)            x' = q * s
 *
 *     w  f32 [64, 512] --fp8/tensor--> codes f8_e4m3 [64, 512], scale f32 []
 *
 * The largest magnitude is found by a scan over all tiles, as that of int8 (int8_scan.c); the scale and the codes are
 * those of fp8 per row (kernels/grid_codes.h). */
#include "core/model/code_schemes.h"
#include "kernels/grid_codes.h"
#include "quantize/schemes/int8.h"

struct tensor_state {
    struct vc_int8_state shared; /* first */
    struct vc_group_codes how;
    struct vc_float_scale scale; /* after the scan */
};

/* Scratch: that of int8, and behind it what the codes of the tile stand for. */
static float *values_of(const struct vc_step *step, const struct tensor_state *s, void *scratch)
{
    return (float *)(void *)((char *)scratch + vc_scratch_room(vc_int8_scratch_bytes(step, &s->shared)));
}

/* All tiles are seen: the scale, and the same in the type that the layout stores. */
static enum vc_status tensor_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct tensor_state *s = step->state;

    s->scale = vc_e4m3_scale(&s->how, vc_bits_f32(s->shared.pos[0]));
    s->shared.scale[0] = s->scale.value;
    if (s->shared.stored != NULL) {
        s->shared.stored[0] =
            s->shared.scale_dtype == VC_DTYPE_F16 ? vc_f32_to_f16(s->scale.value) : vc_f32_to_bf16(s->scale.value);
    }
    return VC_OK;
}

/* The codes of a tile, by the scale of the tensor, which tile 0 has written. */
static enum vc_status tensor_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                   const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                   struct vc_tile_out *out)
{
    const struct tensor_state *s = step->state;
    const struct vc_int8_state *shared = &s->shared;
    float *y = values_of(step, s, scratch);
    struct vc_int8_scratch t;
    struct vc_int8_tile_map map;
    const float *source;

    vc_int8_scratch_carve(step, shared, scratch, &t);
    vc_int8_map_tile(shared, tile, &map);
    VC_CALL(vc_int8_widen(ctx, step, tile, in->data, &t, &source));
    const float *x = source;
    if (shared->has_nonfinite) {
        out->nonfinite = vc_int8_sanitize(x, tile, &map, shared->pos, NULL, t.clean);
        x = out->nonfinite != 0 ? t.clean : x;
    }
    vc_group_encode(&s->how, &s->scale, x, tile->n_elems, out->data, y);
    out->parts[0] = (struct vc_part_view){.data = shared->stored != NULL ? (const void *)shared->stored : shared->scale,
                                          .n = 1,
                                          .write = tile->index == 0};
    return vc_int8_measure_values(ctx, tile, source, y, out->stats);
}

static const struct vc_step_ops tensor_ops = {.calibrate = vc_policy_calibrate,
                                              .explain = vc_policy_explain,
                                              .begin = vc_int8_begin,
                                              .scan = vc_int8_scan,
                                              .scan_end = tensor_scan_end,
                                              .apply = tensor_apply,
                                              .end = vc_int8_end,
                                              .forget = vc_policy_forget};

enum vc_status vc_fp8_tensor_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_scheme_row *row,
                                 const struct vc_quantize_options *options, enum vc_dtype weights)
{
    struct tensor_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_step *step;

    VC_CALL_ALLOC(s);
    VC_CALL(vc_int8_add_step(ctx, item, row, &tensor_ops, options, weights, &s->shared, &step));
    s->how = vc_code_groups(vc_code_scheme(row->scheme), s->shared.scale_dtype, item->set->dialect);
    step->scan = true;
    step->state_bytes = 10;
    step->scratch_bytes =
        vc_scratch_room(vc_int8_scratch_bytes(step, &s->shared)) + 64 + vc_tile_elems(step) * sizeof(float);
    return VC_OK;
}
