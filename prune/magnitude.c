/* magnitude.c - the step that sets the smallest weights to zero. Looks at the data until the threshold is known
 * (keys.h); then every tile makes its mask and applies it. Of the weights that equal the threshold the first ones go:
 * where these lie in several tiles, a scan counts them first.
 *
 *     keys: the bits of |w| as an integer           begin    of round r
 *     calibrate: every tile adds its counts         vc_prune_decide narrows the range
 *     ...
 *     scan: ties of each tile, where they matter
 *     apply: bit = key > threshold, or one of the ties that stay; then values and zeros are written */
#include "prune/prune_steps.h"

/* Keys of NaN and infinite values. All keys from here on are infinite or NaN. */
static uint64_t first_nonfinite(const struct vc_step *step, enum vc_key_type type)
{
    static const uint64_t firsts[] = {[VC_KEY_F32] = 0x7f800000u, [VC_KEY_F64] = 0x7ff0000000000000u};

    return type != VC_KEY_U16 ? firsts[type] : step->in.dtype == VC_DTYPE_F16 ? 0x7c00u : 0x7f80u;
}

/* Values of a tile in the type of the keys. f32 becomes f64 only where tensors of both share a threshold. *scratch
 * moves behind what that takes. */
static enum vc_status key_values(struct vc_ctx *ctx, const struct vc_step *step, const struct vc_tile *tile,
                                 const void *data, char **scratch, const void **values)
{
    const struct vc_prune_state *s = step->state;

    *values = data;
    /* the keys are the bits themselves */
    if (s->key_type == VC_KEY_U16) {
        return VC_OK;
    }
    VC_CALL(vc_prune_values(ctx, step->in.dtype, data, tile->n_elems, scratch, values));
    if (s->key_type == VC_KEY_F64 && step->in.dtype != VC_DTYPE_F64) {
        double *wide = (double *)(void *)*scratch;
        for (size_t i = 0; i < tile->n_elems; i++) {
            float f;

            memcpy(&f, (const char *)*values + i * sizeof f, sizeof f);
            wide[i] = (double)f;
        }
        *scratch += VC_POOL_ALIGNED(tile->n_elems * sizeof *wide);
        *values = wide;
    }
    return VC_OK;
}

/* bins: a count for each range of keys. f16 and bf16 have 2^15 keys, which are counted one by one. */
static enum vc_status count_bins(struct vc_ctx *ctx, enum vc_key_type type, const void *values, size_t n,
                                 const struct vc_bin_range *range, uint32_t *bins)
{
    const struct vc_kernels *k = vc_kernels_get(ctx);

    memset(bins, 0, range->n_bins * sizeof *bins);
    if (type == VC_KEY_U16 && range->shift == 0 && range->first == 0 && range->n_bins == 32768) {
        VC_KERNEL_CALL(k->magnitude_bins_u16(values, n, bins));
    } else if (type == VC_KEY_F32) {
        VC_KERNEL_CALL(k->magnitude_bins_f32(values, n, range, bins));
    } else {
        VC_KERNEL_CALL(k->magnitude_bins_f64(values, n, range, bins));
    }
    return VC_OK;
}

/* Adds the tile to the bins. NaN and Inf are in the last bins of the first round: only then each value is looked at. */
static enum vc_status magnitude_calibrate(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                          const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct vc_prune_state *s = step->state;
    const struct vc_bin_range *range = &s->keys.range;
    uint32_t *bins = scratch;
    char *room = (char *)scratch + VC_KEY_BINS * sizeof *bins;
    const void *values;
    uint32_t bad = 0;

    if (s->keys.bins == NULL) { /* the figures of a refusal are wanted, no threshold */
        return vc_policy_calibrate(ctx, step, item, tile, in, scratch);
    }
    VC_CALL(key_values(ctx, step, tile, in->data, &room, &values));
    if (s->keys.few) {
        bad = range->first == 0 && vc_has_nonfinite(step->in.dtype, in->data, tile->n_elems);
        vc_keys_add_few(&s->keys, values, tile->n_elems);
    } else {
        VC_CALL(count_bins(ctx, s->key_type, values, tile->n_elems, range, bins));
        for (size_t i = (size_t)(first_nonfinite(step, s->key_type) >> range->shift);
             range->first == 0 && i < range->n_bins; i++) {
            bad |= bins[i];
        }
        vc_keys_add(&s->keys, bins);
    }
    if (bad != 0) {
        VC_CALL(vc_policy_calibrate(ctx, step, item, tile, in, scratch));
    }
    if (s->lamp != NULL) {
        vc_lamp_add(s->lamp, &s->keys.mutex, values, tile->n_elems);
    }
    return VC_OK;
}

/* Counts the elements of the tile that equal the threshold. tile_ties is the number for each tile of the tensor. */
static enum vc_status magnitude_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                     const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct vc_prune_state *s = step->state;
    const struct vc_bin_range one = {.first = s->keys.cut.threshold, .shift = 0, .n_bins = 1};
    uint32_t *bins = scratch;
    char *room = (char *)scratch + VC_KEY_BINS * sizeof *bins;
    const void *values;
    size_t i;

    VC_CALL(key_values(ctx, step, tile, in->data, &room, &values));
    if (s->key_type == VC_KEY_U16) {
        const struct vc_bin_range all = {.n_bins = 32768};

        VC_CALL(count_bins(ctx, s->key_type, values, tile->n_elems, &all, bins));
        i = (size_t)one.first;
    } else {
        VC_CALL(count_bins(ctx, s->key_type, values, tile->n_elems, &one, bins));
        i = 0;
    }
    s->tile_ties[tile->index] = bins[i];
    return VC_OK;
}

/* tile_ties becomes, for each tile, how many of its ties go: the first n_ties in the order of the tensor, so that the
 * result does not depend on which thread took which tile. */
static enum vc_status magnitude_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_prune_state *s = step->state;
    uint64_t left = s->keys.cut.n_ties;

    for (uint64_t i = 0; i < s->n_tiles; i++) {
        s->tile_ties[i] = (uint32_t)vc_min_u64(s->tile_ties[i], left);
        left -= s->tile_ties[i];
    }
    return VC_OK;
}

/* A round of counting, or, once the threshold is known, the run. */
static enum vc_status magnitude_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_prune_state *s = step->state;

    if (!s->keys.done) {
        if (s->lamp != NULL) {
            vc_lamp_begin(s->lamp);
        }
        return step->calibrate ? vc_keys_begin(ctx, &s->keys) : VC_OK;
    }
    if (step->scan) {
        s->tile_ties = vc_calloc_array(ctx, VC_TAG_SCRATCH, (size_t)s->n_tiles, sizeof *s->tile_ties);
    }
    return step->scan && s->tile_ties == NULL ? VC_E_NOMEM : vc_reconstruct_begin(ctx, step);
}

/* Makes the mask of the tile from its keys, and applies it. */
static enum vc_status magnitude_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                      const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                      struct vc_tile_out *out)
{
    struct vc_prune_state *s = step->state;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    struct vc_mask_cut cut = s->keys.cut;
    uint8_t *mask = scratch;
    char *room = (char *)scratch + VC_POOL_ALIGNED(VC_TILE_ELEMS / 8);
    char *after = room;
    const void *values;

    /* this tile's share of the ties */
    if (s->tile_ties != NULL) {
        cut.n_ties = s->tile_ties[tile->index];
    }
    VC_CALL(key_values(ctx, step, tile, in->data, &after, &values));
    if (s->key_type == VC_KEY_U16) {
        VC_KERNEL_CALL(k->mask_above_u16(values, tile->n_elems, &cut, mask));
    } else if (s->key_type == VC_KEY_F32) {
        VC_KERNEL_CALL(k->mask_above_f32(values, tile->n_elems, &cut, mask));
    } else {
        VC_KERNEL_CALL(k->mask_above_f64(values, tile->n_elems, &cut, mask));
    }
    return vc_prune_apply(ctx, step, tile, in->data, mask, 0, room, out);
}

static const struct vc_step_ops magnitude_ops = {.calibrate = magnitude_calibrate,
                                                 .explain = vc_policy_explain,
                                                 .begin = magnitude_begin,
                                                 .scan = magnitude_scan,
                                                 .scan_end = magnitude_scan_end,
                                                 .apply = magnitude_apply,
                                                 .end = vc_prune_end,
                                                 .forget = vc_prune_forget};

/* No scan where the ties all go, or all stay, or there is one tile. */
void vc_magnitude_settled(struct vc_step *step)
{
    struct vc_prune_state *s = step->state;
    const struct vc_keys *keys = &s->keys;

    step->scan = s->n_tiles > 1 && keys->cut.n_ties != 0 && keys->cut.n_ties != keys->n_equal;
    step->state_bytes = (step->scan ? (size_t)s->n_tiles * sizeof *s->tile_ties : 0) + vc_reconstruct_state(step);
}

/* The keys of a tensor may be wider than its type, where tensors of several types share a threshold. */
void vc_magnitude_set_type(struct vc_step *step, enum vc_key_type type)
{
    static const unsigned bits[] = {[VC_KEY_U16] = 15, [VC_KEY_F32] = 31, [VC_KEY_F64] = 63};
    struct vc_prune_state *s = step->state;

    s->key_type = type;
    vc_keys_init(&s->keys, bits[type], step->in.n_elems, s->keys.limit);
    s->keys.few = step->in.n_elems <= VC_KEY_FEW;
    step->state_bytes = vc_keys_bytes(&s->keys);
    step->scratch_bytes = vc_prune_scratch(step, VC_KEY_BINS * sizeof(uint32_t) +
                                                     (type == VC_KEY_F64 ? vc_prune_tile(step) * sizeof(double) : 0));
}

/* Scores of LAMP divide by sums of squares, which the step adds up beside its counts. */
enum vc_status vc_magnitude_set_lamp(struct vc_ctx *ctx, struct vc_step *step)
{
    struct vc_prune_state *s = step->state;

    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, s->lamp, 1));
    s->lamp->type = s->key_type;
    s->lamp->level = ctx->shared->cpu_level;
    s->lamp->dtype = step->in.dtype;
    return VC_OK;
}

/* The keys are those of the tensor's type, and are looked at from the first round on. */
enum vc_status vc_magnitude_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_prune_options *options,
                                enum vc_key_type type, uint64_t limit, const char *scheme)
{
    struct vc_prune_state *s;
    struct vc_step *step;

    VC_CALL(vc_prune_add_step(ctx, item, &magnitude_ops, options, scheme, &s, &step));
    s->keys.limit = limit;
    vc_magnitude_set_type(step, type);
    step->calibrate = true;
    vc_item_replan(item);
    return VC_OK;
}
