/* decode_blocks.c - the decoders of GGUF's blocks, which have their scales inside: a row of the table for each type. */
#include "kernels/kernels.h"
#include "passes/decoders.h"
#include "passes/nonfinite.h"

struct blocks_state {
    struct vc_policy policy; /* first */
    const struct vc_decoder *decoder;
    bool finite_values; /* others are refused */
    uint64_t matrix;    /* elements that share a number beside the blocks */
    float *scale;       /* these numbers, from begin to end; NULL if there are none */
};

#define LOOK_ELEMS ((size_t)256) /* a multiple of every block */

/* Where values that are not finite are refused: decodes the blocks a piece at a time and counts those. */
static enum vc_status blocks_calibrate(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                       const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct blocks_state *s = step->state;
    const uint8_t *blocks = in->data;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    float values[LOOK_ELEMS];

    VC_CALL_FOUND(ctx, k);
    for (size_t i = 0; s->finite_values && i < tile->n_elems; i += LOOK_ELEMS) {
        size_t n = (size_t)vc_min_u64(LOOK_ELEMS, tile->n_elems - i);

        VC_KERNEL_CALL(s->decoder->blocks_to_f32(k, blocks + vc_dtype_bytes(step->in.dtype, i), n, values));
        vc_specials_add(&s->policy.specials, VC_DTYPE_F32, values, n, tile->first + i);
    }
    return VC_OK;
}

/* The sentence that names the first such value. */
static enum vc_status blocks_explain(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    const struct blocks_state *s = step->state;

    return s->policy.specials.nonfinite != 0 && s->finite_values
               ? vc_specials_fail_nonfinite(ctx, &s->policy.specials, &step->in, "values", VC_ADVICE_EXCLUDE)
               : VC_OK;
}

/* Blocks of NVFP4 may have a number beside them, for each matrix. */
static enum vc_status blocks_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct blocks_state *s = step->state;
    const struct vc_part_desc *part = step->in.n_parts != 0 ? &step->in.parts[0] : NULL;

    if (part == NULL) {
        return VC_OK;
    }
    s->matrix = step->in.n_elems / part->n_elems;
    if (part->maker != NULL) { /* it comes with the tiles */
        return VC_OK;
    }
    VC_CALL(VC_ARRAY(ctx, VC_TAG_SCALES, s->scale, (size_t)part->n_elems));
    return vc_part_load(ctx, item, part, s->scale);
}

static void blocks_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct blocks_state *s = step->state;

    vc_free(ctx, vc_give(&s->scale));
}

/* Decodes a tile, and multiplies by the number beside the blocks, if there is one. */
static enum vc_status blocks_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                   const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                   struct vc_tile_out *out)
{
    const struct blocks_state *s = step->state;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    const float *scale = s->scale != NULL || step->in.n_parts == 0 ? s->scale : in->parts[0].data;

    VC_CALL_FOUND(ctx, k);
    VC_KERNEL_CALL(s->decoder->blocks_to_f32(k, in->data, tile->n_elems, out->data));
    for (size_t i = 0; scale != NULL && i < tile->n_elems; i++) {
        ((float *)out->data)[i] *= scale[(tile->first + i) / s->matrix];
    }
    VC_REFUSE_IF(s->finite_values && vc_has_nonfinite(VC_DTYPE_F32, out->data, tile->n_elems), ctx, VC_E_UNSUPPORTED,
                 "a step is not finite");
    return VC_OK;
}

static const struct vc_step_ops blocks_ops = {.calibrate = blocks_calibrate,
                                              .explain = blocks_explain,
                                              .begin = blocks_begin,
                                              .apply = blocks_apply,
                                              .end = blocks_end,
                                              .forget = vc_policy_forget};

/* A decoder of blocks is a step that drops the coding: values come out as f32. */
static enum vc_status blocks_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_decoder *decoder,
                                 enum vc_overflow overflow, bool finite_values)
{
    struct blocks_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_step *step;

    /* no step of a block times a code is beyond f32 */
    VC_CALL_ALLOC(s);
    s->decoder = decoder;
    s->finite_values = finite_values;
    s->policy = (struct vc_policy){.room = VC_DTYPE_F32};
    VC_CALL(vc_policy_add_step(ctx, item, &blocks_ops, &s->policy, &step));
    step->action = VC_ACTION_DEQUANTIZED;
    step->scheme = vc_dtype_name(VC_DTYPE_F32);
    if (step->in.n_parts != 0) {
        step->state_bytes = (size_t)step->in.parts[0].n_elems * sizeof(float);
        VC_CALL(vc_step_drop_coding(ctx, item, step));
    }
    step->out.dtype = VC_DTYPE_F32;
    vc_item_replan(item);
    return VC_OK;
}

#define VC_BLOCK_TYPE(type, TYPE, elems, bytes, decoding, encoding)                        \
    static int type(const struct vc_kernels *k, const uint8_t *blocks, size_t n, float *y) \
    {                                                                                      \
        return k->type##_to_f32(blocks, n, y);                                             \
    }
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE

const struct vc_decoder vc_decoders_blocks[] = {
#define VC_BLOCK_TYPE(type, TYPE, elems, bytes, decoding, encoding) \
    {.dtype = VC_DTYPE_##TYPE, .add = blocks_add, .blocks_to_f32 = type},
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE
};
const size_t vc_n_decoders_blocks = sizeof vc_decoders_blocks / sizeof vc_decoders_blocks[0];
