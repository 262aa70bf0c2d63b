/* bias_codes.c - biases of products on codes: whole numbers of 32 bits, by scales that the product has.
 *
 *     q = rint(b / s), x' = q * s        s = (scale of the inputs) * (scale of the weights of that output)
 *
 * The scales are so large that each code fits (quantize/activations/act_scales.c). */
#include <math.h>

#include "passes/measure_tile.h"
#include "quantize/schemes/int8.h"

/* The tile is copied, since the input may be unaligned. A quotient beyond 32 bits comes from NaN or Inf alone. */
static enum vc_status bias_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                 const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                 struct vc_tile_out *out)
{
    const struct vc_int8_state *s = step->state;
    float *x = scratch;
    float *y = x + vc_tile_elems(step);
    int32_t *q = out->data;

    memcpy(x, in->data, tile->n_elems * sizeof *x);
    out->stats->clipped = 0;
    out->stats->zeros_after = 0;
    for (size_t i = 0; i < tile->n_elems; i++) {
        float scale = s->given[s->n_scales == 1 ? 0 : tile->first + i];
        double code = rint((double)x[i] / (double)scale);

        if (!(fabs(code) <= INT32_MAX)) {
            return vc_int8_refuse(ctx);
        }
        q[i] = (int32_t)code;
        y[i] = (float)q[i] * scale;
        out->stats->zeros_after += q[i] == 0;
    }
    VC_CALL(vc_measure_tile(ctx, tile, x, y, out->stats));
    out->parts[0] = (struct vc_part_view){.data = s->given, .n = (size_t)s->n_scales, .write = tile->index == 0};
    return VC_OK;
}

static const struct vc_step_ops bias_ops = {
    .calibrate = vc_policy_calibrate, .explain = vc_policy_explain, .apply = bias_apply, .forget = vc_policy_forget};

/* A row outside of the table: nobody asks for such codes by an option. */
static const struct vc_scheme_row bias_row = {.target = VC_TARGET_INT8,
                                              .name = "int32",
                                              .flag = "--int8",
                                              .result = VC_DTYPE_I32,
                                              .scheme = VC_SCHEME_INT32,
                                              .codes = true};

enum vc_status vc_bias_codes_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                                 const float *scale)
{
    struct vc_int8_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_step *step;

    VC_CALL_ALLOC(s);
    s->given = scale;
    VC_CALL(vc_int8_add_step(ctx, item, &bias_row, &bias_ops, options, vc_desc_weight_dtype(item->desc), s, &step));
    step->scratch_bytes = 2 * vc_tile_elems(step) * sizeof(float);
    return VC_OK;
}
