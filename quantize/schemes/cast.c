/* cast.c - to f16 and bf16 by one rounding to nearest even. What does not fit is decided by policy, never by the
 * conversion: a tile whose result holds an infinity or NaN is looked at value by value.
 *
 *     widen     f16, bf16 -> f32; f32 and f64 as they are
 *     convert   a kernel rounds, and measures the error
 *     settle    only with NaN or Inf in the result: what policies say of each value
 *     measure   only where values were made the largest: their errors are finite, and count */
#include "quantize/schemes/cast.h"
#include "quantize/schemes/schemes.h"

#include "kernels/arith.h"
#include "kernels/kernels.h"

/* Whether the scratch has a copy of the tile as f32. */
static bool needs_widening(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16;
}

/* The tile as f32 or f64; *scratch moves behind what that took. */
static enum vc_status widen(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_step *step,
                            const struct vc_tile *tile, const void *in, char **scratch, const void **x)
{
    float *f = (float *)(void *)*scratch;

    *x = in;
    if (needs_widening(step->in.dtype)) {
        if (step->in.dtype == VC_DTYPE_F16) {
            VC_KERNEL_CALL(k->f16_to_f32(in, tile->n_elems, f));
        } else {
            VC_KERNEL_CALL(k->bf16_to_f32(in, tile->n_elems, f));
        }
        *x = f;
        *scratch += vc_scratch_room(vc_tile_elems(step) * sizeof(float));
    }
    return VC_OK;
}

/* The kernel of the pair of types. Casts to f32 are of f64 alone. */
static enum vc_status convert(struct vc_ctx *ctx, const struct vc_kernels *k, bool is_f64, enum vc_dtype target,
                              const struct vc_tile *tile, const void *x, struct vc_tile_out *out)
{
    size_t r = tile->n_rows;
    size_t c = tile->row_len;

    if (target == VC_DTYPE_F32) {
        VC_KERNEL_CALL(k->cast_f64_f32(x, r, c, out->data, out->stats));
    } else if (target == VC_DTYPE_F16) {
        VC_KERNEL_CALL(is_f64 ? k->cast_f64_f16(x, r, c, out->data, out->stats)
                              : k->cast_f32_f16(x, r, c, out->data, out->stats));
    } else {
        VC_KERNEL_CALL(is_f64 ? k->cast_f64_bf16(x, r, c, out->data, out->stats)
                              : k->cast_f32_bf16(x, r, c, out->data, out->stats));
    }
    return VC_OK;
}

/* Element i of the input, which may be unaligned. */
static double value_at(const void *x, bool is_f64, size_t i)
{
    float f;
    double d;

    if (is_f64) {
        memcpy(&d, (const char *)x + 8 * i, sizeof d);
        return d;
    }
    memcpy(&f, (const char *)x + 4 * i, sizeof f);
    return (double)f;
}

/* The largest finite number of the type, in place of an infinity. */
static void put_largest(void *y, enum vc_dtype target, size_t i, bool negative)
{
    uint16_t h = (uint16_t)((negative ? 0x8000u : 0u) | (target == VC_DTYPE_F16 ? VC_F16_MAX_BITS : VC_BF16_MAX_BITS));
    uint32_t u = (negative ? 0x80000000u : 0u) | 0x7f7fffffu;

    if (target == VC_DTYPE_F32) {
        memcpy((char *)y + 4 * i, &u, sizeof u);
    } else {
        memcpy((char *)y + 2 * i, &h, sizeof h);
    }
}

/* In place of a NaN. */
static void put_zero(void *y, enum vc_dtype target, size_t i)
{
    memset((char *)y + i * vc_dtype_size(target), 0, vc_dtype_size(target));
}

/* Applies the policies to a converted tile that holds NaN or Inf. Returns false when they say no. Inf of the source is
 * told apart from numbers beyond the type's end: the first is a matter of `nonfinite`, the second of `overflow`. Under
 * VC_OVERFLOW_INF the kernel's infinity stays. */
static bool settle(const struct vc_policy *s, const struct vc_tile *tile, const void *x, bool is_f64,
                   struct vc_tile_out *out)
{
    double limit = s->specials.limit;

    for (size_t i = 0; i < tile->n_elems; i++) {
        double v = value_at(x, is_f64, i);

        if (isnan(v) || isinf(v)) {
            if (s->nonfinite != VC_NONFINITE_ZERO) {
                return false;
            }
            out->nonfinite++;
            if (isnan(v)) {
                put_zero(out->data, s->room, i);
                out->stats->zeros_after++;
            } else {
                put_largest(out->data, s->room, i, v < 0);
            }
        } else if (fabs(v) > limit) {
            if (s->overflow == VC_OVERFLOW_ERROR) {
                return false;
            }
            if (s->overflow == VC_OVERFLOW_SATURATE) {
                put_largest(out->data, s->room, i, v < 0);
            }
        }
    }
    return true;
}

/* Element i of the result as f64. */
static double result_at(const void *y, enum vc_dtype target, size_t i)
{
    uint16_t h;

    if (target == VC_DTYPE_F32) {
        return value_at(y, false, i);
    }
    memcpy(&h, (const char *)y + 2 * i, sizeof h);
    return (double)(target == VC_DTYPE_F16 ? vc_f16_to_f32(h) : vc_bf16_to_f32(h));
}

/* The error with saturated values counted in: measured again from the output, chunk by chunk, in f64. */
static enum vc_status measure_again(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_tile *tile,
                                    const void *x, bool is_f64, enum vc_dtype target, double *scratch,
                                    struct vc_tile_out *out)
{
    double *wide_x = scratch;
    double *wide_y = scratch + VC_CHUNK_ELEMS;
    size_t chunk = 0;

    out->stats->max_abs_error = 0.0;
    for (size_t row = 0; row < tile->n_rows; row++) {
        for (size_t col = 0; col < tile->row_len; col += VC_CHUNK_ELEMS, chunk++) {
            size_t n = (size_t)vc_min_u64(VC_CHUNK_ELEMS, tile->row_len - col);
            double four[4];
            struct vc_diff_sums sums = {.chunk_sums = four};

            for (size_t i = 0; i < n; i++) {
                wide_x[i] = value_at(x, is_f64, row * tile->row_len + col + i);
                wide_y[i] = result_at(out->data, target, row * tile->row_len + col + i);
            }
            VC_KERNEL_CALL(k->diff_f64(wide_x, wide_y, 1, n, &sums));
            out->stats->chunk_sums[2 * chunk] = four[0];
            out->stats->chunk_sums[2 * chunk + 1] = four[1];
            out->stats->max_abs_error = fmax(out->stats->max_abs_error, sums.max_abs_error);
        }
    }
    return VC_OK;
}

/* Most tiles have neither NaN nor Inf in the result and need one call of a kernel. */
static enum vc_status cast_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                 const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                 struct vc_tile_out *out)
{
    const struct vc_policy *s = step->state;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    bool is_f64 = step->in.dtype == VC_DTYPE_F64;
    char *room = scratch;
    const void *x;

    VC_CALL_FOUND(ctx, k);
    VC_CALL(widen(ctx, k, step, tile, in->data, &room, &x));
    VC_CALL(convert(ctx, k, is_f64, s->room, tile, x, out));
    if (vc_has_nonfinite(s->room, out->data, tile->n_elems)) {
        VC_REFUSE_IF(!settle(s, tile, x, is_f64, out), ctx, VC_E_UNSUPPORTED, "a value does not fit %s",
                     vc_dtype_name(s->room));
        if (s->overflow == VC_OVERFLOW_SATURATE && out->stats->clipped != 0) {
            VC_CALL(measure_again(ctx, k, tile, x, is_f64, s->room, (double *)(void *)room, out));
        }
    }
    return VC_OK;
}

static const struct vc_step_ops cast_ops = {
    .calibrate = vc_policy_calibrate, .explain = vc_policy_explain, .apply = cast_apply, .forget = vc_policy_forget};

/* Saturation needs two chunks of f64 more, for measure_again. */
enum vc_status vc_cast_add(struct vc_ctx *ctx, struct vc_item *item, enum vc_dtype target, enum vc_nonfinite nonfinite,
                           enum vc_overflow overflow, enum vc_action action, const char *advice)
{
    struct vc_policy *policy = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *policy);
    struct vc_step *step;

    VC_CALL_ALLOC(policy);
    *policy = (struct vc_policy){.nonfinite = nonfinite, .overflow = overflow, .room = target, .advice = advice};
    VC_CALL(vc_policy_add_step(ctx, item, &cast_ops, policy, &step));
    step->action = action;
    step->scheme = vc_dtype_name(target);
    step->lossy = true;
    step->out.dtype = target;
    step->scratch_bytes = needs_widening(step->in.dtype) ? vc_tile_elems(step) * sizeof(float) + 64 : 0;
    if (overflow == VC_OVERFLOW_SATURATE) {
        step->scratch_bytes += 2 * VC_CHUNK_ELEMS * sizeof(double);
    }
    vc_item_replan(item);
    return VC_OK;
}

/* ---- the schemes f16 and bf16 ---- */

static enum vc_status add_f16(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                              enum vc_dtype weights)
{
    return vc_cast_add(ctx, item, VC_DTYPE_F16, options->nonfinite, options->overflow, VC_ACTION_CAST,
                       VC_ADVICE_NONFINITE);
}

static enum vc_status add_bf16(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                               enum vc_dtype weights)
{
    return vc_cast_add(ctx, item, VC_DTYPE_BF16, options->nonfinite, options->overflow, VC_ACTION_CAST,
                       VC_ADVICE_NONFINITE);
}

const struct vc_scheme_row vc_scheme_f16 = {
    .target = VC_TARGET_F16, .name = "f16", .flag = "--fp16", .result = VC_DTYPE_F16, .add = add_f16};
const struct vc_scheme_row vc_scheme_bf16 = {
    .target = VC_TARGET_BF16, .name = "bf16", .flag = "--bf16", .result = VC_DTYPE_BF16, .add = add_bf16};
