/* cast_f8.c - floats cast to E4M3 or E5M2 without a scale, as torch's float8_e4m3fn and float8_e5m2 have them: single
 * files of networks that make pictures, which ComfyUI and diffusers cast back as they compute.
 *
 *     w  bf16 [3072, 64] --f8_e4m3--> f8_e4m3 [3072, 64]      0.0312 -> 2^-5; 500 -> 448 with overflow=sat
 *     w  bf16 [3072, 64] --f8_e5m2--> f8_e5m2 [3072, 64]      the upper half of an f16: 0.0312 -> 2^-5; 500 -> 512
 *
 * One rounding to nearest even. Of E4M3 464 and less become 448 at most; the type has no Inf, so what is beyond is refused
 * or becomes 448. Of E5M2 61440 and more are beyond 57344, and Inf. f64 is rounded to f32 first, as torch does. */

#include "kernels/arith.h"
#include "kernels/grid_codes.h"
#include "quantize/schemes/int8.h"

/* The nearest number, ties to even; 61440 and more are Inf. NaN has been dealt with. */
static unsigned char e5m2_of(float x)
{
    uint32_t a = vc_f32_bits(x) & VC_F32_ABS_MASK;
    unsigned char sign = (unsigned char)(vc_f32_bits(x) >> 24 & 0x80u);

    if (a >= 0x47700000u) { /* 61440 */
        return sign | 0x7c;
    }
    if (a < 0x38800000u) { /* 2^-14: steps of 2^-16 */
        return (unsigned char)(sign | (uint32_t)((vc_bits_f32(a) * 65536.0f + 12582912.0f) - 12582912.0f));
    }
    a += 0xfffffu + (a >> 21 & 1u);
    return (unsigned char)(sign | ((a - 0x38000000u) >> 21));
}

/* What becomes of it: the largest where that is asked for, since E4M3 has no Inf. */
static unsigned char code_of(const struct vc_policy *policy, float value)
{
    if (isnan(value)) {
        return 0;
    }
    if (policy->room == VC_DTYPE_F8_E4M3) {
        return vc_e4m3_of(value);
    }
    return policy->overflow == VC_OVERFLOW_INF && isfinite(value) ? e5m2_of(value)
                                                                  : e5m2_of(fminf(fmaxf(value, -57344.0f), 57344.0f));
}

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

        VC_REFUSE_IF(
            large && (isfinite(value) ? policy->overflow == VC_OVERFLOW_ERROR : policy->nonfinite != VC_NONFINITE_ZERO),
            ctx, VC_E_UNSUPPORTED, "a value does not fit %s", vc_dtype_name(policy->room));
        out->nonfinite += isfinite(value) ? 0 : 1;
        to[i] = code_of(policy, value);
        y[i] = policy->room == VC_DTYPE_F8_E4M3 ? vc_e4m3_value(to[i]) : vc_f16_to_f32((uint16_t)(to[i] << 8));
    }
    return vc_int8_measure_values(ctx, tile, x, y, out->stats);
}

static const struct vc_step_ops f8_ops = {
    .calibrate = vc_policy_calibrate, .explain = vc_policy_explain, .apply = f8_apply, .forget = vc_policy_forget};

static enum vc_status add_f8(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                             enum vc_dtype weights)
{
    enum vc_dtype type = options->target == VC_TARGET_F8_E4M3 ? VC_DTYPE_F8_E4M3 : VC_DTYPE_F8_E5M2;
    struct vc_policy *policy;
    struct vc_step *step;

    VC_REFUSE_IF(options->overflow == VC_OVERFLOW_INF && type == VC_DTYPE_F8_E4M3, ctx, VC_E_ARGUMENT,
                 "f8_e4m3 has no Inf (%s)", vc_option(ctx, "overflow"));
    VC_CALL_ALLOC(policy = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *policy));
    *policy = (struct vc_policy){
        .nonfinite = options->nonfinite, .overflow = options->overflow, .room = type, .advice = VC_ADVICE_NONFINITE};
    VC_CALL(vc_policy_add_step(ctx, item, &f8_ops, policy, &step));
    step->action = VC_ACTION_CAST;
    step->scheme = vc_dtype_name(type);
    step->lossy = true;
    step->out.dtype = type;
    step->scratch_bytes = 2 * vc_scratch_room(vc_tile_elems(step) * sizeof(float));
    vc_item_replan(item);
    return VC_OK;
}

#define F8_ROW(ROW, NAME, TYPE)                                   \
    const struct vc_scheme_row ROW = {.target = VC_TARGET_##TYPE, \
                                      .name = (NAME),             \
                                      .flag = "--scheme " NAME,   \
                                      .result = VC_DTYPE_##TYPE,  \
                                      .of_layers = true,          \
                                      .no_aim = true,             \
                                      .add = add_f8}

F8_ROW(vc_scheme_f8_e4m3, "f8_e4m3", F8_E4M3);
F8_ROW(vc_scheme_f8_e5m2, "f8_e5m2", F8_E5M2);
