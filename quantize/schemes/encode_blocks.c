/* encode_blocks.c - see encode_blocks.h. A tile of rows becomes blocks, is decoded again, and the difference is
 * measured: kernels do all three. Steps are f16, so magnitudes have an upper end (vc_largest_fitting), which is refused
 * under every policy but "keep". Scales of NVFP4 are E4M3, which has no small numbers: values are divided by a number
 * for each matrix, of which the largest magnitude becomes 448 * 6.
 *
 *     x --[ / scale of the matrix ]--> blocks --> y --[ * scale ]--> error of y        only NVFP4 has the scale */
#include "quantize/schemes/encode_blocks.h"

#include <float.h>

#include "kernels/arith.h"
#include "kernels/grid_codes.h"
#include "passes/statistics/calibration.h"
#include "quantize/schemes/int8.h"

/* The kernels of a type. */
struct block_kernels {
    enum vc_dtype dtype;
    int (*encode)(const struct vc_kernels *k, const float *x, size_t n_rows, size_t row_len,
                  const struct vc_block_how *how, uint8_t *blocks);
    int (*decode)(const struct vc_kernels *k, const uint8_t *blocks, size_t n, float *y);
};

/* For each type two functions that call its member of the table of kernels: a row here serves the tables of all
 * devices. */
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

/* The row of the type; NULL: there are no such blocks. */
static const struct block_kernels *kernels_of(enum vc_dtype type)
{
    size_t i = 0;

    while (i < sizeof types / sizeof types[0] && types[i].dtype != type) {
        i++;
    }
    return i < sizeof types / sizeof types[0] ? &types[i] : NULL;
}

/* One tensor's step. */
struct blocks_state {
    struct vc_policy policy; /* first: its functions are the step's calibrate and explain */
    const struct vc_quantize_options *options;
    const struct block_kernels *kernels;
    size_t block; /* elements */
    struct vc_calibration calibration;
    float *importance; /* of the columns, from begin to end; NULL: all alike */

    /* NVFP4 */
    size_t n_scales; /* numbers beside the blocks; 0 if there are none */
    uint64_t matrix; /* elements for each */
    float *scale;    /* from begin to end */
    uint32_t *top;   /* the bits of their largest magnitudes */
    pthread_mutex_t mutex;
    bool has_mutex;
};

/* Arrays of floats as large as a tile, one after another in the scratch: the decoded values; with the policy "zero" a
 * clean copy, which is also where values are divided; x where the input is no f32. Magnitudes of the blocks follow. */
static size_t n_floats(const struct vc_step *step, const struct blocks_state *s)
{
    return (size_t)1 + (s->options->nonfinite == VC_NONFINITE_ZERO || s->n_scales != 0) +
           (step->in.dtype != VC_DTYPE_F32);
}

/* Bytes of one of these arrays. */
static size_t floats_bytes(const struct vc_step *step)
{
    return vc_scratch_room(vc_tile_elems(step) * sizeof(float));
}

/* What the tiles share: weights of the columns, and of NVFP4 the scales of the matrices. */
static enum vc_status blocks_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct blocks_state *s = step->state;
    size_t n = (size_t)vc_calibration_elems(&s->calibration);
    enum vc_status status = VC_OK;

    if (n != 0) {
        VC_TRY_ALLOC(s->importance = vc_alloc_array(ctx, VC_TAG_SCALES, n, sizeof *s->importance));
        VC_TRY(vc_calibration_load(ctx, &s->calibration, s->importance));
    }
    if (s->n_scales != 0) {
        VC_REFUSE_IF(pthread_mutex_init(&s->mutex, NULL) != 0, ctx, VC_E_NOMEM, "cannot create a mutex");
        s->has_mutex = true;
        VC_TRY(VC_ZEROS(ctx, VC_TAG_SCALES, s->top, s->n_scales));
        VC_TRY(VC_ARRAY(ctx, VC_TAG_SCALES, s->scale, s->n_scales));
    }
out:
    return status; /* end frees what is there */
}

static void blocks_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct blocks_state *s = step->state;

    if (s->has_mutex) {
        (void)pthread_mutex_destroy(&s->mutex);
        s->has_mutex = false;
    }
    VC_FREE_ALL(ctx, s->importance, s->top, s->scale);
    s->importance = NULL;
    s->top = NULL;
    s->scale = NULL;
}

/* Elements of the tile from number `at` on that lie in one matrix. */
static size_t in_matrix(const struct blocks_state *s, const struct vc_tile *tile, size_t at)
{
    return (size_t)vc_min_u64(tile->n_elems - at, s->matrix - (tile->first + at) % s->matrix);
}

/* Where the input is f32 the array is that of the decoded values or of the copy, and is not used for x. */
static float *x_of(const struct vc_step *step, const struct blocks_state *s, void *scratch)
{
    return (float *)(void *)((char *)scratch + (n_floats(step, s) - 1) * floats_bytes(step)); /* the last array */
}

/* Of NVFP4 alone: the largest finite magnitude of each matrix. A tile may hold parts of several. */
static enum vc_status blocks_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct blocks_state *s = step->state;
    struct vc_int8_scratch t = {.x = x_of(step, s, scratch)};
    const float *x;

    VC_CALL(vc_int8_widen(ctx, step, tile, in->data, &t, &x));
    for (size_t at = 0; at < tile->n_elems; at += in_matrix(s, tile, at)) {
        uint32_t top = vc_int8_largest(x + at, in_matrix(s, tile, at));
        uint32_t *all = &s->top[(tile->first + at) / s->matrix];

        (void)pthread_mutex_lock(&s->mutex);
        *all = top > *all ? top : *all;
        (void)pthread_mutex_unlock(&s->mutex);
    }
    return VC_OK;
}

/* The largest magnitude becomes the largest that blocks hold. A scale below the normal numbers would lose bits, so it
 * is raised; a matrix of zeros has 1. */
static enum vc_status blocks_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    const struct blocks_state *s = step->state;

    for (size_t i = 0; i < s->n_scales; i++) {
        float scale = vc_bits_f32(s->top[i]) / (float)vc_largest_fitting(VC_DTYPE_NVFP4);

        scale = scale < FLT_MIN ? FLT_MIN : scale;
        s->scale[i] = s->top[i] == 0 ? 1.0f : scale;
    }
    return VC_OK;
}

/* y: x divided by the numbers of the matrices, or multiplied. Both may be the same array; x may be unaligned. */
static void scale_values(const struct blocks_state *s, const struct vc_tile *tile, bool divide, const float *x,
                         float *y)
{
    for (size_t at = 0, n; at < tile->n_elems; at += n) {
        float scale = s->scale[(tile->first + at) / s->matrix];

        n = in_matrix(s, tile, at);
        for (size_t i = at; i < at + n; i++) {
            y[i] = divide ? vc_float_at(x, i) / scale : vc_float_at(x, i) * scale;
        }
    }
}

/* The tile's rows by matrix, since each matrix of experts has columns of its own. Without statistics all rows are
 * alike, and the tile goes to the kernel in one call. With them a call is for rows of one matrix; where rows are longer
 * than a tile, for a piece of one row. */
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

    if (s->importance == NULL) {
        VC_KERNEL_CALL(s->kernels->encode(k, x, tile->n_rows, tile->row_len, &how, blocks));
        return VC_OK;
    }
    per_row = (size_t)vc_min_u64(row, tile->n_elems);
    while (done < tile->n_elems) {
        uint64_t flat = tile->first + done;
        uint64_t at = flat / row;
        size_t n = (size_t)vc_min_u64((tile->n_elems - done) / per_row, n_rows - at % n_rows);

        how.importance = s->importance + at / n_rows * row + flat % row;
        VC_KERNEL_CALL(
            s->kernels->encode(k, x + done, n, per_row, &how, blocks + vc_dtype_bytes(step->out.dtype, done)));
        done += n * per_row;
    }
    return VC_OK;
}

/* Blocks of a tile, and its figures. Magnitudes come first: of NaN and Inf no block can be made, and one that is too
 * large would be an infinite step. */
static enum vc_status blocks_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                   const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                   struct vc_tile_out *out)
{
    const struct blocks_state *s = step->state;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    float *y = scratch;
    float *clean = (float *)(void *)((char *)scratch + floats_bytes(step));
    uint32_t *bits = (uint32_t *)(void *)((char *)scratch + n_floats(step, s) * floats_bytes(step));
    struct vc_int8_scratch t = {.x = x_of(step, s, scratch)};
    size_t n_blocks = tile->n_elems / s->block;
    const float *x;

    VC_CALL_FOUND(ctx, k);
    VC_CALL(vc_int8_widen(ctx, step, tile, in->data, &t, &x));
    const float *from = x;
    VC_KERNEL_CALL(k->absmax_rows(x, tile->n_rows, tile->row_len, s->block, bits));
    if (vc_int8_most(bits, n_blocks) >= VC_F32_INF_BITS && s->options->nonfinite == VC_NONFINITE_ZERO) {
        VC_CALL(vc_int8_clean_blocks(ctx, k, s->block, tile, x, bits, clean, &out->nonfinite));
        VC_KERNEL_CALL(k->absmax_rows(clean, tile->n_rows, tile->row_len, s->block, bits));
        from = clean;
    }
    if (!((double)vc_bits_f32(vc_int8_most(bits, n_blocks)) <= s->policy.specials.limit)) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "a value does not fit"); /* explain says which, and how many */
    }
    if (s->n_scales != 0) {
        scale_values(s, tile, true, from, clean);
        from = clean;
        out->parts[0] = (struct vc_part_view){.data = s->scale, .n = s->n_scales, .write = tile->index == 0};
    }
    VC_CALL(encode(ctx, k, step, tile, from, out->data));
    VC_KERNEL_CALL(s->kernels->decode(k, out->data, tile->n_elems, y));
    if (s->n_scales != 0) {
        scale_values(s, tile, false, y, y);
    }
    return vc_int8_measure_values(ctx, tile, x, y, out->stats);
}

static const struct vc_step_ops blocks_ops = {.calibrate = vc_policy_calibrate,
                                              .explain = vc_policy_explain,
                                              .begin = blocks_begin,
                                              .scan = blocks_scan,
                                              .scan_end = blocks_scan_end,
                                              .apply = blocks_apply,
                                              .end = blocks_end,
                                              .forget = vc_policy_forget};

/* The numbers of NVFP4: with them any magnitude fits. A tensor of three axes is a stack of matrices, of which each has
 * a number. */
static enum vc_status add_scales(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step, struct blocks_state *s)
{
    const struct vc_desc *desc = item->desc;
    struct vc_quant *quant = vc_arena_alloc(ctx, item->set->arena, sizeof *quant);
    uint64_t *shape = vc_arena_alloc(ctx, item->set->arena, sizeof *shape);

    VC_CALL_ALLOC(quant);
    VC_CALL_ALLOC(shape);
    *quant = (struct vc_quant){.scheme = VC_SCHEME_NVFP4, .symmetric = true, .source_dtype = VC_DTYPE_F32};
    *shape = desc->n_dims == 3 ? vc_max_u64(1, desc->shape[0]) : 1;
    s->n_scales = (size_t)*shape;
    s->matrix = vc_max_u64(1, desc->n_elems / *shape);
    s->policy.specials.limit = vc_largest_fitting(VC_DTYPE_F32);
    step->out.quant = quant;
    step->scan = true;
    step->state_bytes += s->n_scales * (sizeof *s->scale + sizeof *s->top);
    return vc_step_add_part(ctx, item, step, VC_PART_SCALE, VC_DTYPE_F32, 1, shape);
}

/* The state is the step's from vc_blocks_add_step on. */
enum vc_status vc_encode_blocks_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                                    enum vc_dtype type, bool scaled)
{
    struct blocks_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_step *step;

    VC_CALL_ALLOC(s);
    if (vc_calibration_find(ctx, options->calibration, item, false, &s->calibration) != VC_OK) {
        vc_free(ctx, s);
        return ctx->status;
    }
    s->options = options;
    s->kernels = kernels_of(type);
    s->block = vc_dtype_facts(type)->block_elems;
    VC_CALL(vc_blocks_add_step(ctx, item, &blocks_ops, options, type, &s->policy, &step));
    step->state_bytes = (size_t)vc_calibration_elems(&s->calibration) * sizeof(float);
    if (scaled && type == VC_DTYPE_NVFP4) {
        VC_CALL(add_scales(ctx, item, step, s));
    }
    step->work = options->encoder == VC_ENCODER_LLAMA ? "llama" : NULL;
    step->why = options->calibration != NULL && s->calibration.sums == VC_NO_TENSOR ? "no statistics" : step->why;
    step->scratch_bytes =
        n_floats(step, s) * floats_bytes(step) + vc_tile_elems(step) / s->block * sizeof(uint32_t) + 64;
    vc_item_replan(item);
    return VC_OK;
}

/* No `add`: the pass adds the steps itself, since mixtures choose a type for each tensor. */
const struct vc_scheme_row vc_scheme_gguf = {.target = VC_TARGET_GGUF,
                                             .name = "gguf",
                                             .flag = "--gguf",
                                             .statistics = true,
                                             .result = VC_DTYPE_RAW,
                                             .codes = true,
                                             .own_granularity = true};
