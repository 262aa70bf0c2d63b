/* encode_blocks.c - see encode_blocks.h. A tile of rows becomes blocks, is decoded again, and the difference is
 * measured: kernels do all three. Steps are f16, so magnitudes have an upper end (vc_largest_fitting), which is refused
 * under every policy but "keep". */
#include "quantize/schemes/encode_blocks.h"

#include "core/base/checked.h"
#include "kernels/arith.h"
#include "kernels/kernels.h"
#include "passes/nonfinite.h"
#include "passes/statistics/calibration.h"
#include "quantize/schemes/int8.h"
#include "quantize/schemes/schemes.h"

/* The kernels of a type. */
struct block_kernels {
    enum vc_dtype dtype;
    int (*encode)(const struct vc_kernels *k, const float *x, size_t n_rows, size_t row_len,
                  const struct vc_block_how *how, uint8_t *blocks);
    int (*decode)(const struct vc_kernels *k, const uint8_t *blocks, size_t n, float *y);
};

#define VC_BLOCK_TYPE(type, TYPE, elems, bytes, decoding, encoding)                                     \
    static int type##_encode(const struct vc_kernels *k, const float *x, size_t n_rows, size_t row_len, \
                             const struct vc_block_how *how, uint8_t *blocks)                           \
    {                                                                                                   \
        return k->type##_blocks(x, n_rows, row_len, how, blocks);                                       \
    }                                                                                                   \
                                                                                                        \
    static int type##_decode(const struct vc_kernels *k, const uint8_t *blocks, size_t n, float *y)     \
    {                                                                                                   \
        return k->type##_to_f32(blocks, n, y);                                                          \
    }
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE

static const struct block_kernels types[] = {
#define VC_BLOCK_TYPE(type, TYPE, elems, bytes, decoding, encoding) {VC_DTYPE_##TYPE, type##_encode, type##_decode},
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE
};

static const struct block_kernels *kernels_of(enum vc_dtype type)
{
    size_t i = 0;

    while (i < sizeof types / sizeof types[0] && types[i].dtype != type) {
        i++;
    }
    return i < sizeof types / sizeof types[0] ? &types[i] : NULL;
}

struct blocks_state {
    struct vc_policy policy; /* first: its functions are the step's calibrate and explain */
    const struct vc_quantize_options *options;
    const struct block_kernels *kernels;
    size_t block; /* elements */
    struct vc_calibration calibration;
    float *importance; /* of the columns, from begin to end; NULL: all alike */
};

/* Arrays of floats as large as a tile, one after another in the scratch: the decoded values; with the policy "zero" a
 * clean copy; x where the input is no f32. Magnitudes of the blocks follow. */
static size_t n_floats(const struct vc_step *step, const struct blocks_state *s)
{
    return (size_t)1 + (s->options->nonfinite == VC_NONFINITE_ZERO) + (step->in.dtype != VC_DTYPE_F32);
}

static size_t floats_bytes(const struct vc_step *step)
{
    return vc_scratch_room(vc_tile_elems(step) * sizeof(float));
}

static enum vc_status blocks_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct blocks_state *s = step->state;
    size_t n = (size_t)vc_calibration_elems(&s->calibration);
    enum vc_status status = VC_OK;

    if (n != 0) {
        s->importance = vc_alloc_array(ctx, VC_TAG_SCALES, n, sizeof *s->importance);
        VC_TRY_ALLOC(s->importance);
        VC_TRY(vc_calibration_load(ctx, &s->calibration, s->importance));
    }
out:
    return status; /* end frees what is there */
}

static void blocks_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct blocks_state *s = step->state;

    vc_free(ctx, s->importance);
    s->importance = NULL;
}

/* The tile's rows by matrix, since each matrix of experts has columns of its own. */
static enum vc_status encode(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_step *step,
                             const struct vc_tile *tile, const float *x, uint8_t *blocks)
{
    const struct blocks_state *s = step->state;
    const struct vc_desc *desc = &step->in;
    struct vc_block_how how = {.best = s->options->encoder == VC_ENCODER_BEST};
    uint64_t n_rows = desc->n_dims < 2 ? 1 : desc->shape[desc->n_dims - 2]; /* of a matrix */
    uint64_t row = desc->n_dims == 0 ? 1 : desc->shape[desc->n_dims - 1];
    size_t per_row = tile->row_len; /* elements of the tile in one of its rows */
    size_t done = 0;
    size_t elems;
    size_t bytes;

    if (s->importance == NULL) {
        VC_KERNEL_CALL(s->kernels->encode(k, x, tile->n_rows, tile->row_len, &how, blocks));
        return VC_OK;
    }
    vc_dtype_block(step->out.dtype, &elems, &bytes);
    per_row = (size_t)vc_min_u64(row, tile->n_elems);
    while (done < tile->n_elems) {
        uint64_t flat = tile->first + done;
        uint64_t at = flat / row;
        size_t n = (size_t)vc_min_u64((tile->n_elems - done) / per_row, n_rows - at % n_rows);

        how.importance = s->importance + at / n_rows * row + flat % row;
        VC_KERNEL_CALL(s->kernels->encode(k, x + done, n, per_row, &how, blocks + done / elems * bytes));
        done += n * per_row;
    }
    return VC_OK;
}

static enum vc_status blocks_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                   const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                   struct vc_tile_out *out)
{
    const struct blocks_state *s = step->state;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    float *y = scratch;
    float *clean = (float *)(void *)((char *)scratch + floats_bytes(step));
    uint32_t *bits = (uint32_t *)(void *)((char *)scratch + n_floats(step, s) * floats_bytes(step));
    struct vc_int8_scratch t = {.x = (float *)(void *)((char *)bits - floats_bytes(step))}; /* the last of the arrays */
    size_t n_blocks = tile->n_elems / s->block;
    const float *x;
    const float *from;

    VC_CALL_FOUND(ctx, k);
    VC_CALL(vc_int8_widen(ctx, step, tile, in->data, &t, &x));
    from = x;
    VC_KERNEL_CALL(k->absmax_rows(x, tile->n_rows, tile->row_len, s->block, bits));
    if (vc_int8_most(bits, n_blocks) >= VC_F32_INF_BITS && s->options->nonfinite == VC_NONFINITE_ZERO) {
        VC_CALL(vc_int8_clean_blocks(ctx, k, s->block, tile, x, bits, clean, &out->nonfinite));
        VC_KERNEL_CALL(k->absmax_rows(clean, tile->n_rows, tile->row_len, s->block, bits));
        from = clean;
    }
    if (!((double)vc_bits_f32(vc_int8_most(bits, n_blocks)) <= s->policy.specials.limit)) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "a value does not fit"); /* explain says which, and how many */
    }
    VC_CALL(encode(ctx, k, step, tile, from, out->data));
    VC_KERNEL_CALL(s->kernels->decode(k, out->data, tile->n_elems, y));
    return vc_int8_measure_values(ctx, tile, x, y, out->stats);
}

static const struct vc_step_ops blocks_ops = {.calibrate = vc_policy_calibrate,
                                              .explain = vc_policy_explain,
                                              .begin = blocks_begin,
                                              .apply = blocks_apply,
                                              .end = blocks_end,
                                              .forget = vc_policy_forget};

enum vc_status vc_encode_blocks_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                                    enum vc_dtype type)
{
    struct blocks_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_step *step;
    size_t bytes;

    VC_CALL_ALLOC(s);
    if (vc_calibration_find(ctx, options->calibration, item, false, &s->calibration) != VC_OK) {
        vc_free(ctx, s);
        return ctx->status;
    }
    s->options = options;
    s->kernels = kernels_of(type);
    vc_dtype_block(type, &s->block, &bytes);
    VC_CALL(vc_blocks_add_step(ctx, item, &blocks_ops, options, type, &s->policy, &step));
    step->state_bytes = (size_t)vc_calibration_elems(&s->calibration) * sizeof(float);
    step->why = options->calibration != NULL && s->calibration.sums == VC_NO_TENSOR ? "no statistics" : step->why;
    step->scratch_bytes =
        n_floats(step, s) * floats_bytes(step) + vc_tile_elems(step) / s->block * sizeof(uint32_t) + 64;
    vc_item_replan(item);
    return VC_OK;
}

const struct vc_scheme_row vc_scheme_gguf = {.target = VC_TARGET_GGUF,
                                             .name = "gguf",
                                             .flag = "--gguf",
                                             .statistics = true,
                                             .result = VC_DTYPE_RAW,
                                             .codes = true,
                                             .own_granularity = true};
