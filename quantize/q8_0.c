/* q8_0.c - see q8_0.h. Bit for bit what llama.cpp's reference quantizer makes: docs/numerics.md. The step of a block is
 * an f16, so values have an upper end; whatever is beyond it is refused, because the format has no better place. */
#include "quantize/q8_0.h"

#include "core/base/checked.h"
#include "kernels/arith.h"
#include "quantize/int8.h"

#define BLOCK 32

static size_t tile_elems(const struct vc_stage *stage)
{
    return (size_t)vc_min_u64(stage->in.n_elems, VC_TILE_ELEMS);
}

/* Room for the tile as f32 and, cleaned, once more; then the magnitudes of its blocks. */
static size_t copies(const struct vc_stage *stage, const struct vc_q8_0_state *s)
{
    return (size_t)(stage->in.dtype != VC_DTYPE_F32) + (s->options->nonfinite == VC_NONFINITE_ZERO);
}

enum vc_status vc_q8_0_add(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item,
                           const struct vc_quantize_options *options)
{
    struct vc_q8_0_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_stage *stage;

    if (s == NULL) {
        return VC_E_NOMEM;
    }
    s->options = options;
    if (vc_finding_init(ctx, &s->finding, vc_largest_fitting(VC_DTYPE_Q8_0)) != VC_OK) {
        vc_free(ctx, s);
        return ctx->status;
    }
    stage = vc_item_add_stage(ctx, item, pass);
    if (stage == NULL) {
        vc_finding_release(&s->finding);
        vc_free(ctx, s);
        return ctx->status;
    }
    stage->state = s;
    stage->action = VC_ACTION_QUANTIZED;
    stage->scheme = "q8_0";
    stage->survey = options->nonfinite == VC_NONFINITE_KEEP;
    stage->out.dtype = VC_DTYPE_Q8_0;
    stage->scratch_bytes =
        copies(stage, s) * (tile_elems(stage) * sizeof(float) + 64) + tile_elems(stage) / BLOCK * sizeof(uint32_t) + 64;
    item->desc = stage->out;
    return VC_OK;
}

/* The tile without NaN and Inf, and what replaced them: 0, and the largest finite magnitude of the block. */
static enum vc_status clean_tile(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_tile *tile,
                                 const float *x, uint32_t *bits, float *clean, uint64_t *replaced)
{
    const struct vc_int8_tile_map map = {.rows = true, .group = BLOCK, .n_local = tile->n_elems / BLOCK};
    enum vc_status status = VC_OK;

    (void)vc_int8_sanitize(x, tile, &map, NULL, NULL, clean);
    VC_KERNEL_TRY(k->absmax_rows(clean, tile->n_rows, tile->row_len, BLOCK, bits));
    *replaced = vc_int8_sanitize(x, tile, &map, bits, NULL, clean);
out:
    return status;
}

static uint32_t largest(const uint32_t *bits, size_t n)
{
    uint32_t most = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        most = bits[i] > most ? bits[i] : most;
    }
    return most;
}

enum vc_status vc_q8_0_apply(struct vc_ctx *ctx, struct vc_stage *stage, const struct vc_item *item,
                             const struct vc_tile *tile, const void *in, void *scratch, struct vc_tile_out *out)
{
    const struct vc_q8_0_state *s = stage->state;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    size_t room = (tile_elems(stage) * sizeof(float) + 63) & ~(size_t)63;
    struct vc_int8_scratch t = {.x = scratch};
    uint32_t *bits = (uint32_t *)(void *)((char *)scratch + copies(stage, s) * room);
    float *clean = (float *)(void *)((char *)bits - room); /* the last of the copies */
    size_t n_blocks = tile->n_elems / BLOCK;
    uint32_t most;
    const float *x;
    enum vc_status status = VC_OK;

    (void)item;
    if (k == NULL) {
        return ctx->status;
    }
    VC_TRY(vc_int8_widen(ctx, stage, tile, in, &t, &x));
    VC_KERNEL_TRY(k->q8_0_rows(x, tile->n_rows, tile->row_len, bits, out->data, out->stats));
    most = largest(bits, n_blocks);
    if (most >= VC_F32_INF_BITS && s->options->nonfinite == VC_NONFINITE_ZERO) {
        VC_TRY(clean_tile(ctx, k, tile, x, bits, clean, &out->nonfinite));
        VC_KERNEL_TRY(k->q8_0_rows(clean, tile->n_rows, tile->row_len, bits, out->data, out->stats));
        VC_KERNEL_TRY(k->q8_0_to_f32(out->data, tile->n_elems, clean));
        VC_TRY(vc_int8_measure_finite(ctx, tile, x, clean, out->stats));
        most = largest(bits, n_blocks);
    }
    if (most >= VC_Q8_0_TOO_LARGE_BITS) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "a value does not fit q8_0"); /* the survey says which, and how many */
    }
    out->measured = true;
out:
    return status;
}
