/* prune_tile.c - what the steps of pruning do with a tile: its values as floats, and a mask applied to it.
 *
 * Scratch of a tile, one part behind the other, each aligned to 64 bytes:
 *
 *     the step's own  |  values as f32, of f16 and bf16  |  masks that are outputs  |  least squares */
#include "passes/decode.h"
#include "prune/prune_steps.h"

/* Types whose arithmetic is done in f32. */
static bool is_short(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16;
}

size_t vc_prune_scratch(const struct vc_step *step, size_t own)
{
    size_t widened = is_short(step->in.dtype) ? vc_prune_tile(step) * sizeof(float) : 0;

    return VC_POOL_ALIGNED(own) + VC_POOL_ALIGNED(widened) +
           (step->n_made != 0 ? 2 * VC_POOL_ALIGNED(VC_MASK_PART_SCRATCH) : 0) +
           VC_POOL_ALIGNED(vc_reconstruct_scratch(step)) + 128;
}

/* f32 and f64 are used where they lie. */
enum vc_status vc_prune_values(struct vc_ctx *ctx, enum vc_dtype dtype, const void *data, size_t n, char **scratch,
                               const void **values)
{
    float *wide = (float *)(void *)*scratch;

    *values = data;
    if (!is_short(dtype)) {
        return VC_OK;
    }
    VC_CALL(vc_decode_floats(ctx, dtype, data, n, wide));
    *values = wide;
    *scratch += VC_POOL_ALIGNED(n * sizeof *wide);
    return VC_OK;
}

/* The mask of a tile as an output, with what the step before removes. *scratch moves behind what that takes. also: the
 * mask of a joined pair removes weights before this step does; the mask that is written has both. */
static enum vc_status give_mask(struct vc_ctx *ctx, const struct vc_step *step, const struct vc_tile *tile,
                                const uint8_t *mask, uint64_t first, char **scratch, struct vc_part_view *view)
{
    struct vc_prune_state *s = step->state;
    uint8_t *both = (uint8_t *)*scratch;

    /* A weight stays if both masks keep it. The step before has its mask in memory, for the whole tensor. */
    if (s->also != NULL) {
        memset(both, 0, (tile->n_elems + 7) / 8);
        for (size_t i = 0; i < tile->n_elems; i++) {
            uint64_t at = tile->first + i;
            unsigned own = mask[(first + i) / 8];
            unsigned other = s->also->mask[at / 8];
            unsigned bit = own >> (first + i) % 8 & other >> at % 8 & 1u;

            both[i / 8] |= (uint8_t)(bit << i % 8);
        }
        mask = both;
        first = 0;
        *scratch += VC_POOL_ALIGNED(VC_MASK_PART_SCRATCH);
    }
    both = (uint8_t *)*scratch;
    *scratch += VC_POOL_ALIGNED(VC_MASK_PART_SCRATCH);
    return vc_mask_part_give(ctx, &s->part, step->in.n_elems, tile, mask, first, both, view);
}

/* Values that stay are copied bit by bit: f16 and bf16 are not rounded again. Statistics are over the values as f32 or
 * f64. */
enum vc_status vc_prune_apply(struct vc_ctx *ctx, const struct vc_step *step, const struct vc_tile *tile,
                              const void *data, const uint8_t *mask, uint64_t first, char *scratch,
                              struct vc_tile_out *out)
{
    const struct vc_kernels *k = vc_kernels_get(ctx);
    size_t r = tile->n_rows;
    size_t c = tile->row_len;
    struct vc_prune_state *s = step->state;

    /* the mask first: it needs scratch of its own */
    if (s->part.made) {
        VC_CALL(give_mask(ctx, step, tile, mask, first, &scratch, &out->parts[0]));
    }
    const void *values = data;
    if (step->in.dtype == VC_DTYPE_F64) {
        VC_KERNEL_CALL(k->mask_apply_f64(data, mask, first, r, c, out->data, out->stats));
    } else if (step->in.dtype == VC_DTYPE_F32) {
        VC_KERNEL_CALL(k->mask_apply_f32(data, mask, first, r, c, out->data, out->stats));
        /* Types of two bytes: what is written is copied, what is measured is widened. */
    } else {
        VC_KERNEL_CALL(k->mask_apply_u16(data, mask, first, tile->n_elems, out->data));
        VC_CALL(vc_prune_values(ctx, step->in.dtype, data, tile->n_elems, &scratch, &values));
        VC_KERNEL_CALL(k->mask_apply_f32(values, mask, first, r, c, NULL, out->stats));
    }
    /* weights that stay change: the tile is written and measured again */
    if (s->refitted || s->fitted != NULL) {
        VC_CALL(vc_reconstruct(ctx, step, tile, values, mask, first, scratch, out));
    }
    return VC_OK;
}

/* A short sentence: the step's `explain` replaces it by one that says which values, where, and how many. */
enum vc_status vc_prune_refuse(struct vc_ctx *ctx)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED, "a value is not finite");
}

/* Sets or clears bit `at`. */
static void put_bit(uint8_t *dst, uint64_t at, unsigned bit)
{
    uint8_t place = (uint8_t)(1u << at % 8);

    dst[at / 8] = bit != 0 ? dst[at / 8] | place : dst[at / 8] & (uint8_t)~place;
}

/* Whole bytes where the target begins at one. */
void vc_bits_copy(uint8_t *dst, uint64_t at, const uint8_t *src, size_t n)
{
    size_t i = 0;

    if (at % 8 == 0) {
        memcpy(dst + at / 8, src, n / 8);
        i = n / 8 * 8;
    }
    for (; i < n; i++) {
        put_bit(dst, at + i, (unsigned)src[i / 8] >> i % 8 & 1u);
    }
}

/* ---- steps ---- */

/* `also` is set where the step right before is one of pruning in the same pass: the mask of a pair. */
enum vc_status vc_prune_add_step(struct vc_ctx *ctx, struct vc_item *item, const struct vc_step_ops *ops,
                                 const struct vc_prune_options *options, const char *scheme,
                                 struct vc_prune_state **state, struct vc_step **step)
{
    struct vc_prune_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    uint64_t n_rows, row_len;

    if (s == NULL || scheme == NULL) {
        vc_free(ctx, s);
        return VC_E_NOMEM;
    }
    if (item->chain->n_steps > item->chain->pass_first &&
        item->chain->steps[item->chain->n_steps - 1]->action == VC_ACTION_PRUNED) {
        s->also = item->chain->steps[item->chain->n_steps - 1]->state;
    }
    s->options = options;
    s->policy = (struct vc_policy){.nonfinite = options->nonfinite,
                                   .overflow = VC_OVERFLOW_INF,
                                   .room = VC_DTYPE_F64,
                                   .advice = "{nonfinite}=keep leaves the tensor as it is"};
    VC_CALL(vc_policy_add_step(ctx, item, ops, &s->policy, step));
    vc_desc_grid(item->desc, &n_rows, &row_len);
    s->n_tiles = vc_tile_count(n_rows, row_len);
    (*step)->action = VC_ACTION_PRUNED;
    (*step)->scheme = scheme;
    (*step)->lossy = true;
    *state = s;
    VC_CALL(vc_reconstruct_plan(ctx, item, *step));
    return options->mask_path == NULL ? VC_OK : vc_mask_part_add(ctx, item, *step, &s->part, s->n_tiles);
}

/* Called for every step after its tiles, also where begin failed in the middle. */
void vc_prune_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct vc_prune_state *s = step->state;

    if (s->keys.bins != NULL && vc_keys_end(ctx, &s->keys) != VC_OK) {
        s->keys.failed = true;
    }
    step->n_checked = atomic_load(&s->n_checked);
    vc_bands_release(ctx, &s->bands);
    VC_FREE_ALL(ctx, s->tile_ties, s->mask, s->ties, s->importance);
    vc_compensation_free(ctx, s->compensation);
    VC_FREE_ALL(ctx, s->fitted, s->moments);
    s->tile_ties = NULL;
    s->mask = s->ties = NULL;
    s->importance = s->fitted = s->moments = NULL;
    s->compensation = NULL;
}

/* The step leaves the plan: what lives longer than a round. */
void vc_prune_forget(struct vc_ctx *ctx, struct vc_step *step)
{
    struct vc_prune_state *s = step->state;

    vc_keys_release(ctx, &s->keys);
    vc_bands_release(ctx, &s->bands);
    vc_mask_part_release(ctx, &s->part);
    vc_free(ctx, s->lamp);
    vc_policy_forget(ctx, step);
}
