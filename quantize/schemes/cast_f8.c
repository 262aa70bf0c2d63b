/* cast_f8.c - floats cast to E4M3 without a scale, as torch's float8_e4m3fn has them: single files of networks that make
 * pictures, which ComfyUI and diffusers cast back as they compute.
 *
 *     w  bf16 [3072, 64] --f8_e4m3--> f8_e4m3 [3072, 64]      0.0312 -> 2^-5; 500 -> 448 with overflow=sat
 *
 * One rounding to nearest even. 464 and less become 448 at most; the type has no Inf, so what is beyond is refused or
 * becomes 448. f64 is rounded to f32 first, as torch does. */

#include "kernels/arith.h"
#include "kernels/grid_codes.h"
#include "quantize/schemes/int8.h"

/* Scratch: the tile as f32, and what its codes stand for. */
static enum vc_status f8_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                               const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                               struct vc_tile_out *out)
{
    const struct vc_policy *policy = step->state;
    struct vc_int8_scratch room = {.x = scratch};
    float *y = (float *)(void *)((char *)scratch + vc_scratch_room(vc_tile_elems(step) * sizeof(float)));
    unsigned char *to = out->data;
    const float *x;

    VC_CALL(vc_int8_widen(ctx, step, tile, in->data, &room, &x));
    for (size_t i = 0; i < tile->n_elems; i++) {
        float value = vc_float_at(x, i);
        bool large = !(fabsf(value) <= (float)policy->specials.limit);

        VC_REFUSE_IF(large && (isfinite(value) ? policy->overflow != VC_OVERFLOW_SATURATE
                                               : policy->nonfinite != VC_NONFINITE_ZERO),
                     ctx, VC_E_UNSUPPORTED, "a value does not fit %s", vc_dtype_name(policy->room));
        out->nonfinite += isfinite(value) ? 0 : 1;
        to[i] = isnan(value) ? 0 : vc_e4m3_of(value);
        y[i] = vc_e4m3_value(to[i]);
    }
    return vc_int8_measure_values(ctx, tile, x, y, out->stats);
}

static const struct vc_step_ops f8_ops = {
    .calibrate = vc_policy_calibrate, .explain = vc_policy_explain, .apply = f8_apply, .forget = vc_policy_forget};

static enum vc_status add_f8(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                             enum vc_dtype weights)
{
    struct vc_policy *policy;
    struct vc_step *step;

    VC_REFUSE_IF(options->overflow == VC_OVERFLOW_INF, ctx, VC_E_ARGUMENT, "f8_e4m3 has no Inf (%s)",
                 vc_option(ctx, "overflow"));
    VC_CALL_ALLOC(policy = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *policy));
    *policy = (struct vc_policy){.nonfinite = options->nonfinite,
                                 .overflow = options->overflow,
                                 .room = VC_DTYPE_F8_E4M3,
                                 .advice = VC_ADVICE_NONFINITE};
    VC_CALL(vc_policy_add_step(ctx, item, &f8_ops, policy, &step));
    step->action = VC_ACTION_CAST;
    step->scheme = vc_dtype_name(VC_DTYPE_F8_E4M3);
    step->lossy = true;
    step->out.dtype = VC_DTYPE_F8_E4M3;
    step->scratch_bytes = 2 * vc_scratch_room(vc_tile_elems(step) * sizeof(float));
    vc_item_replan(item);
    return VC_OK;
}

const struct vc_scheme_row vc_scheme_f8_e4m3 = {.target = VC_TARGET_F8_E4M3,
                                                .name = "f8_e4m3",
                                                .flag = "--scheme f8_e4m3",
                                                .result = VC_DTYPE_F8_E4M3,
                                                .of_layers = true,
                                                .no_aim = true,
                                                .add = add_f8};
