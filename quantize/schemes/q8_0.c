/* q8_0.c - the scheme Q8_0: blocks of 32 codes with an f16 step, what int8 is in a GGUF file. Bit for bit what
 * llama.cpp's reference quantizer makes: docs/numerics.md. The step is an f16, so values have an upper end; whatever is
 * beyond it is refused, because the format has no better place. */
#include "kernels/arith.h"
#include "passes/measure_tile.h"
#include "quantize/schemes/int8.h"

#define BLOCK 32

struct q8_0_state {
    struct vc_policy policy; /* first: its functions are the step's calibrate and explain */
    const struct vc_quantize_options *options;
};

/* How many f32 copies of a tile the scratch has: one where the input has another type, one without NaN and Inf under
 * the policy "zero". The magnitudes of the tile's blocks follow them. */
static size_t copies(const struct vc_step *step, const struct q8_0_state *s)
{
    return (size_t)(step->in.dtype != VC_DTYPE_F32) + (s->options->nonfinite == VC_NONFINITE_ZERO);
}

/* The kernel makes blocks, measures, and gives the magnitudes of the blocks. With NaN or Inf under "zero" it runs again
 * on a clean copy, and figures are made against the source. */
static enum vc_status q8_0_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                 const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                 struct vc_tile_out *out)
{
    const struct q8_0_state *s = step->state;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    size_t room = vc_scratch_room(vc_tile_elems(step) * sizeof(float));
    struct vc_int8_scratch t = {.x = scratch};
    uint32_t *bits = (uint32_t *)(void *)((char *)scratch + copies(step, s) * room);
    float *clean = (float *)(void *)((char *)bits - room); /* the last of the copies */
    size_t n_blocks = tile->n_elems / BLOCK;
    const float *x;

    VC_CALL_FOUND(ctx, k);
    VC_CALL(vc_int8_widen(ctx, step, tile, in->data, &t, &x));
    VC_KERNEL_CALL(k->q8_0_rows(x, tile->n_rows, tile->row_len, bits, out->data, out->stats));
    uint32_t most = vc_int8_most(bits, n_blocks);
    if (most >= VC_F32_INF_BITS && s->options->nonfinite == VC_NONFINITE_ZERO) {
        VC_CALL(vc_int8_clean_blocks(ctx, k, BLOCK, tile, x, bits, clean, &out->nonfinite));
        VC_KERNEL_CALL(k->q8_0_rows(clean, tile->n_rows, tile->row_len, bits, out->data, out->stats));
        VC_KERNEL_CALL(k->q8_0_to_f32(out->data, tile->n_elems, clean));
        VC_CALL(vc_measure_tile(ctx, tile, x, clean, out->stats));
        most = vc_int8_most(bits, n_blocks);
    }
    if (most >= VC_Q8_0_TOO_LARGE_BITS) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "a value does not fit q8_0"); /* explain says which, and how many */
    }
    return VC_OK;
}

static const struct vc_step_ops q8_0_ops = {
    .calibrate = vc_policy_calibrate, .explain = vc_policy_explain, .apply = q8_0_apply, .forget = vc_policy_forget};

static enum vc_status add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                          enum vc_dtype weights)
{
    struct q8_0_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_step *step;

    VC_CALL_ALLOC(s);
    s->options = options;
    VC_CALL(vc_blocks_add_step(ctx, item, &q8_0_ops, options, VC_DTYPE_Q8_0, &s->policy, &step));
    step->scratch_bytes = copies(step, s) * (vc_tile_elems(step) * sizeof(float) + 64) +
                          vc_tile_elems(step) / BLOCK * sizeof(uint32_t) + 64;
    vc_item_replan(item);
    return VC_OK;
}

/* Blocks lie along the last axis and are never short. */
static const char *reason(const struct vc_quantize_options *options, const struct vc_desc *desc)
{
    bool whole = desc->n_dims != 0 && desc->shape[desc->n_dims - 1] % BLOCK == 0;

    return whole ? NULL : "the last axis is no multiple of 32";
}

const struct vc_scheme_row vc_scheme_q8_0 = {.target = VC_TARGET_INT8,
                                             .name = "int8",
                                             .flag = "--int8",
                                             .result = VC_DTYPE_Q8_0,
                                             .codes = true,
                                             .own_granularity = true,
                                             .reason = reason,
                                             .add = add};
