/* blocks.c - the step that sets whole blocks of a matrix to zero: those with the smallest sums of squares. The matrix
 * has the output channels as rows and everything else as columns; blocks at its lower and right edge may be smaller.
 *
 * Looks find the threshold over the sums (keys.h), a last scan marks the blocks, then tiles are written.
 *
 *     4 x 4 blocks of a [10, 12] matrix         scores: sums of squares of each block
 *     +----+----+----+
 *     | 0  | 1  | 2  |                          the blocks with the smallest sums go, of equal ones the first;
 *     +----+----+----+                          the last row of blocks has two rows only, and is compared as it is
 *     | 3  | 4  | 5  |
 *     +----+----+----+
 *     | 6  | 7  | 8  |
 *     +----+----+----+ */
#include "prune/prune_steps.h"

/* Rows and columns of the matrix, and blocks beside each other. */
struct layout {
    uint64_t n_rows, n_cols, across;
};

static struct layout layout_of(const struct vc_prune_options *options, const struct vc_desc *desc)
{
    struct layout l;

    vc_rows_of(desc->shape, desc->n_dims, &l.n_rows, &l.n_cols);
    l.across = vc_ceil_div_u64(l.n_cols, options->block_cols);
    return l;
}

uint64_t vc_blocks_count(const struct vc_prune_options *options, const struct vc_desc *desc)
{
    struct layout l = layout_of(options, desc);

    return vc_ceil_div_u64(l.n_rows, options->block_rows) * l.across;
}

/* Bit i, the lowest of a byte first. */
static bool get_bit(const uint8_t *bits, uint64_t i)
{
    return (bits[i / 8] >> i % 8 & 1) != 0;
}

/* What is done with the scores of bands: bins of a round, or marks. */
struct scoring {
    struct vc_step *step;
    bool mark;
};

/* Sets the bits of n blocks from `block` on: s->mask of those below the threshold, s->ties of those that equal it.
 * Scores are not negative, so their bits have their order. */
static void mark(struct vc_prune_state *s, uint64_t block, const double *scores, size_t n)
{
    (void)pthread_mutex_lock(&s->bands.mutex);
    for (size_t i = 0; i < n; i++) {
        uint8_t bit = (uint8_t)(1u << (block + i) % 8);
        uint64_t key;

        memcpy(&key, &scores[i], sizeof key);
        s->mask[(block + i) / 8] |= key < s->keys.cut.threshold ? bit : 0;
        s->ties[(block + i) / 8] |= key == s->keys.cut.threshold ? bit : 0;
    }
    (void)pthread_mutex_unlock(&s->bands.mutex);
}

/* A vc_band_fn: gets whole rows of blocks, scores them, and counts or marks. */
static enum vc_status score(struct vc_ctx *ctx, void *user, uint64_t first, const void *values, size_t n)
{
    const struct scoring *scoring = user;
    struct vc_step *step = scoring->step;
    struct vc_prune_state *s = step->state;
    const struct vc_prune_options *o = s->options;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    struct layout l = layout_of(o, &step->in);
    size_t n_rows = n / (size_t)l.n_cols;
    size_t n_blocks = (size_t)(vc_ceil_div_u64(n_rows, o->block_rows) * l.across);
    VC_SCOPED double *scores = vc_alloc_array(ctx, VC_TAG_SCRATCH, n_blocks, sizeof *scores);
    VC_SCOPED uint32_t *bins = NULL;

    VC_CALL_ALLOC(scores);
    if (step->in.dtype == VC_DTYPE_F64) {
        VC_KERNEL_CALL(k->block_squares_f64(values, n_rows, (size_t)l.n_cols, o->block_rows, o->block_cols, scores));
    } else {
        VC_KERNEL_CALL(k->block_squares_f32(values, n_rows, (size_t)l.n_cols, o->block_rows, o->block_cols, scores));
    }
    if (scoring->mark) {
        mark(s, first / l.n_cols / o->block_rows * l.across, scores, n_blocks);
        return VC_OK;
    }
    VC_CALL(VC_ZEROS(ctx, VC_TAG_SCRATCH, bins, s->keys.range.n_bins));
    VC_KERNEL_CALL(k->magnitude_bins_f64(scores, n_blocks, &s->keys.range, bins));
    vc_keys_add(&s->keys, bins);
    return VC_OK;
}

/* The tile as f32 or f64 goes to the bands, which call `score`. */
static enum vc_status add_tile(struct vc_ctx *ctx, struct vc_step *step, const struct vc_tile *tile, const void *data,
                               void *scratch, bool marks)
{
    struct scoring scoring = {.step = step, .mark = marks};
    struct vc_prune_state *s = step->state;
    char *room = scratch;
    const void *values;

    VC_CALL(vc_prune_values(ctx, step->in.dtype, data, tile->n_elems, &room, &values));
    return vc_bands_add(ctx, &s->bands, tile, values, score, &scoring);
}

/* Without bins only NaN and Inf are looked for. */
static enum vc_status blocks_calibrate(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                       const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct vc_prune_state *s = step->state;

    if (s->keys.bins == NULL || vc_has_nonfinite(step->in.dtype, in->data, tile->n_elems)) {
        return vc_policy_calibrate(ctx, step, item, tile, in, scratch);
    }
    return add_tile(ctx, step, tile, in->data, scratch, false);
}

static enum vc_status blocks_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    return add_tile(ctx, step, tile, in->data, scratch, true);
}

/* Of the blocks that equal the threshold the first ones go. */
static enum vc_status blocks_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_prune_state *s = step->state;
    uint64_t left = s->keys.cut.n_ties;

    for (uint64_t i = 0; left != 0 && i < s->keys.n; i++) {
        if (get_bit(s->ties, i)) {
            s->mask[i / 8] |= (uint8_t)(1u << i % 8);
            left--;
        }
    }
    return VC_OK;
}

/* A round of counting, or the last scan, which needs two bits for each block. */
static enum vc_status blocks_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_prune_state *s = step->state;
    struct vc_band_grid grid = s->bands.grid;
    size_t value = vc_dtype_size(step->in.dtype == VC_DTYPE_F64 ? VC_DTYPE_F64 : VC_DTYPE_F32);
    size_t n_bytes = (size_t)((s->keys.n + 7) / 8);

    VC_CALL(vc_bands_init(ctx, &s->bands, &grid, value));
    if (!s->keys.done) {
        return step->calibrate ? vc_keys_begin(ctx, &s->keys) : VC_OK;
    }
    if (step->scan) {
        VC_CALL_ALLOC(s->mask = vc_calloc_array(ctx, VC_TAG_SCRATCH, n_bytes, 1));
        VC_CALL_ALLOC(s->ties = vc_calloc_array(ctx, VC_TAG_SCRATCH, n_bytes, 1));
    }
    return vc_reconstruct_begin(ctx, step);
}

/* The mask of a tile's elements, from that of the blocks, in which 1 is a block that goes. Bit 1 of an element's mask:
 * it stays. */
static void spread(const struct vc_step *step, const struct vc_tile *tile, uint8_t *mask)
{
    const struct vc_prune_state *s = step->state;
    const struct vc_prune_options *o = s->options;
    struct layout l = layout_of(o, &step->in);
    size_t i = 0;

    memset(mask, 0, (tile->n_elems + 7) / 8);
    for (size_t r = 0; r < tile->n_rows; r++) {
        uint64_t block = (tile->row0 + r) / o->block_rows * l.across;

        for (size_t c = 0; c < tile->row_len; c++, i++) {
            if (!get_bit(s->mask, block + (tile->col0 + c) / o->block_cols)) {
                mask[i / 8] |= (uint8_t)(1u << i % 8);
            }
        }
    }
}

static enum vc_status blocks_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                   const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                   struct vc_tile_out *out)
{
    uint8_t *mask = scratch;

    if (vc_has_nonfinite(step->in.dtype, in->data, tile->n_elems)) {
        return vc_prune_refuse(ctx);
    }
    spread(step, tile, mask);
    return vc_prune_apply(ctx, step, tile, in->data, mask, 0, (char *)scratch + VC_POOL_ALIGNED(VC_TILE_ELEMS / 8),
                          out);
}

static const struct vc_step_ops blocks_ops = {.calibrate = blocks_calibrate,
                                              .explain = vc_policy_explain,
                                              .begin = blocks_begin,
                                              .scan = blocks_scan,
                                              .scan_end = blocks_scan_end,
                                              .apply = blocks_apply,
                                              .end = vc_prune_end,
                                              .forget = vc_prune_forget};

/* The marks are always made by a scan: tiles and blocks do not end at the same places. */
void vc_blocks_settled(struct vc_step *step)
{
    struct vc_prune_state *s = step->state;

    step->scan = true;
    step->state_bytes += (size_t)((s->keys.n + 7) / 8) * 2 + vc_reconstruct_state(step);
}

enum vc_status vc_blocks_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_prune_options *options,
                             uint64_t limit, const char *scheme)
{
    struct vc_prune_state *s;
    struct vc_step *step;

    VC_CALL(vc_prune_add_step(ctx, item, &blocks_ops, options, scheme, &s, &step));
    struct layout l = layout_of(options, &step->in);
    s->key_type = VC_KEY_F64;
    vc_keys_init(&s->keys, 63, vc_blocks_count(options, &step->in), limit);
    s->bands.grid = (struct vc_band_grid){.n_elems = step->in.n_elems,
                                          .block = step->in.n_elems,
                                          .band = vc_min_u64(options->block_rows, l.n_rows) * l.n_cols};
    step->calibrate = true;
    step->state_bytes = vc_keys_bytes(&s->keys) + vc_bands_bytes(&s->bands.grid, sizeof(double), s->n_tiles);
    step->scratch_bytes = vc_prune_scratch(step, VC_TILE_ELEMS / 8 + 64);
    vc_item_replan(item);
    return VC_OK;
}
