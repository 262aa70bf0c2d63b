/* n_of_m.c - the step that keeps N of every M weights along the input channels, for hardware that skips the others.
 *
 *     [out, in]            groups are M weights that follow each other in a row
 *     [out, in, h, w]      M input channels at one place of the kernel: h * w apart
 *     [in, out]            M rows, at one column (matrices that are stored transposed)
 *
 * Where every tile holds whole groups, it is pruned by itself. Otherwise a scan makes the mask of the tensor first. */
#include "prune/prune_steps.h"

/* The mask of n elements, whole groups inside one block of n_len x n_inner, or whole blocks. Of equal magnitudes the
 * kernels keep the first ones. */
static enum vc_status mask_of(struct vc_ctx *ctx, const struct vc_step *step, const void *values, size_t n,
                              uint8_t *mask)
{
    const struct vc_prune_state *s = step->state;
    const struct vc_prune_options *o = s->options;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    size_t inner = (size_t)s->n_inner;
    size_t len = (size_t)vc_min_u64(s->n_len, n / inner);
    size_t n_blocks = n / (len * inner);

    if (step->in.dtype == VC_DTYPE_F64) {
        VC_KERNEL_CALL(k->mask_n_of_m_f64(values, n_blocks, len, inner, o->keep, o->group, mask));
    } else {
        VC_KERNEL_CALL(k->mask_n_of_m_f32(values, n_blocks, len, inner, o->keep, o->group, mask));
    }
    return VC_OK;
}

/* ---- the check ---- */

/* Groups that keep more than they may, where each is a field of 2, 4 or 8 bits of the mask: counts are made side by side
 * in the fields, and a count above `keep` carries into the top bit of its field. keep is below group. */
static uint64_t bad_in_fields(const uint8_t *mask, uint64_t n_bits, unsigned keep, unsigned group)
{
    uint64_t ones = UINT64_MAX / ((1u << group) - 1); /* the lowest bit of each field */
    uint64_t carry = ones * ((1u << (group - 1)) - 1 - keep);
    uint64_t n_bad = 0;

    for (uint64_t i = 0; i < n_bits / 8; i += 8) {
        uint64_t w = 0;

        memcpy(&w, mask + i, (size_t)vc_min_u64(8, n_bits / 8 - i));
        w -= w >> 1 & 0x5555555555555555u;
        w = group > 2 ? (w & 0x3333333333333333u) + (w >> 2 & 0x3333333333333333u) : w;
        w = group > 4 ? (w + (w >> 4)) & 0x0f0f0f0f0f0f0f0fu : w;
        for (w = (w + carry) >> (group - 1) & ones; w != 0; w &= w - 1) {
            n_bad++;
        }
    }
    return n_bad;
}

/* Groups that keep more than they may, of n_bits from bit 0: whole blocks of len x n_inner. *n_groups: all of them. The
 * last group along an axis may be short; it may keep as many. */
static uint64_t bad_groups(const struct vc_prune_state *s, const uint8_t *mask, uint64_t n_bits, uint64_t len,
                           uint64_t *n_groups)
{
    const struct vc_prune_options *o = s->options;
    uint64_t n_bad = 0;
    uint64_t n;

    *n_groups = n_bits / (len * s->n_inner) * vc_ceil_div_u64(len, o->group) * s->n_inner;
    if (s->n_inner == 1 && len % 8 == 0 && (o->group == 2 || o->group == 4 || o->group == 8)) {
        return bad_in_fields(mask, n_bits, o->keep, o->group);
    }
    for (uint64_t first = 0; first < n_bits / s->n_inner;
         first += n) { /* rows of n_inner bits, as many as a group has */
        n = vc_min_u64(o->group, len - first % len);
        for (uint64_t inner = 0; inner < s->n_inner; inner++) {
            unsigned kept = 0;

            for (uint64_t k = 0; k < n; k++) {
                uint64_t at = (first + k) * s->n_inner + inner;

                kept += (unsigned)mask[at / 8] >> at % 8 & 1u;
            }
            n_bad += kept > o->keep;
        }
    }
    return n_bad;
}

/* Looks whether the mask that is applied to n elements has the pattern: whole groups, as mask_of takes them. A mask
 * that breaks the pattern would be a fault of a kernel, and hardware would compute wrong products without a word. */
enum vc_status vc_n_of_m_check(struct vc_ctx *ctx, struct vc_prune_state *s, const uint8_t *mask, uint64_t n)
{
    uint64_t n_groups;
    uint64_t n_bad = bad_groups(s, mask, n, vc_min_u64(s->n_len, n / s->n_inner), &n_groups);

    VC_REFUSE_IF(n_bad != 0, ctx, VC_E_INTERNAL, "%llu of %llu groups would keep more than %u of %u weights",
                 (unsigned long long)n_bad, (unsigned long long)n_groups, s->options->keep, s->options->group);
    (void)atomic_fetch_add(&s->n_checked, n_groups);
    return VC_OK;
}

/* The type that magnitudes are compared in. */
static enum vc_dtype value_type(const struct vc_step *step)
{
    return step->in.dtype == VC_DTYPE_F64 ? VC_DTYPE_F64 : VC_DTYPE_F32;
}

/* ---- tiles that hold parts of groups: the scan ---- */

static enum vc_status n_of_m_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_prune_state *s = step->state;

    atomic_store(&s->n_checked, 0);
    if (step->scan) {
        struct vc_band_grid grid = s->bands.grid;

        VC_CALL(vc_bands_init(ctx, &s->bands, &grid, vc_dtype_size(value_type(step))));
        VC_CALL_ALLOC(s->mask = vc_calloc_array(ctx, VC_TAG_SCRATCH, (size_t)((step->in.n_elems + 7) / 8), 1));
    }
    return vc_reconstruct_begin(ctx, step);
}

/* A vc_band_fn: whole groups, whose mask goes to its place in the mask of the tensor. */
static enum vc_status add_bands(struct vc_ctx *ctx, void *user, uint64_t first, const void *values, size_t n)
{
    struct vc_step *step = user;
    struct vc_prune_state *s = step->state;
    VC_SCOPED uint8_t *mask = vc_alloc(ctx, VC_TAG_SCRATCH, (n + 7) / 8);

    VC_CALL_ALLOC(mask);
    VC_CALL(mask_of(ctx, step, values, n, mask));
    (void)pthread_mutex_lock(&s->bands.mutex); /* bands share bytes */
    vc_bits_copy(s->mask, first, mask, n);
    (void)pthread_mutex_unlock(&s->bands.mutex);
    return VC_OK;
}

static enum vc_status n_of_m_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct vc_prune_state *s = step->state;
    char *room = scratch;
    const void *values;

    VC_CALL(vc_prune_values(ctx, step->in.dtype, in->data, tile->n_elems, &room, &values));
    return vc_bands_add(ctx, &s->bands, tile, values, add_bands, step);
}

/* The whole mask is there. */
static enum vc_status n_of_m_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_prune_state *s = step->state;

    return vc_n_of_m_check(ctx, s, s->mask, step->in.n_elems);
}

/* ---- every tile ---- */

/* The mask of the tensor, if a scan has made it, or of this tile. */
static enum vc_status n_of_m_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                   const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                   struct vc_tile_out *out)
{
    struct vc_prune_state *s = step->state;
    uint8_t *mask = scratch;
    char *room = (char *)scratch + VC_POOL_ALIGNED(VC_TILE_ELEMS / 8);
    char *after = room;
    const void *values;

    if (vc_has_nonfinite(step->in.dtype, in->data, tile->n_elems)) {
        return vc_prune_refuse(ctx);
    }
    if (s->mask != NULL) {
        return vc_prune_apply(ctx, step, tile, in->data, s->mask, tile->first, room, out);
    }
    VC_CALL(vc_prune_values(ctx, step->in.dtype, in->data, tile->n_elems, &after, &values));
    VC_CALL(mask_of(ctx, step, values, tile->n_elems, mask));
    VC_CALL(vc_n_of_m_check(ctx, s, mask, tile->n_elems));
    return vc_prune_apply(ctx, step, tile, in->data, mask, 0, room, out);
}

static const struct vc_step_ops n_of_m_ops = {.calibrate = vc_policy_calibrate,
                                              .explain = vc_policy_explain,
                                              .begin = n_of_m_begin,
                                              .scan = n_of_m_scan,
                                              .scan_end = n_of_m_scan_end,
                                              .apply = n_of_m_apply,
                                              .end = vc_prune_end,
                                              .forget = vc_prune_forget};

/* n_len: elements along the input axis; n_inner: how far apart two of them lie. */
enum vc_status vc_n_of_m_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_prune_options *options,
                             const char *scheme)
{
    unsigned axis = vc_input_axis(&item->set->model->tensors[item->source]);
    struct vc_prune_state *s;
    struct vc_step *step;
    uint64_t n_rows, row_len;

    VC_CALL(vc_prune_add_step(ctx, item, &n_of_m_ops, options, scheme, &s, &step));
    step->keep = options->keep;
    step->group = options->group;
    s->n_len = step->in.shape[axis];
    s->n_inner = 1;
    for (unsigned d = axis + 1; d < step->in.n_dims; d++) {
        s->n_inner *= step->in.shape[d];
    }
    s->bands.grid = (struct vc_band_grid){.n_elems = step->in.n_elems,
                                          .block = s->n_len * s->n_inner,
                                          .band = vc_min_u64(options->group, s->n_len) * s->n_inner};
    vc_desc_grid(&step->in, &n_rows, &row_len);
    step->scan = !vc_bands_fit_tiles(&s->bands.grid, n_rows, row_len);
    step->state_bytes = vc_reconstruct_state(step);
    if (step->scan) {
        step->state_bytes += (size_t)(step->in.n_elems / 8) +
                             vc_bands_bytes(&s->bands.grid, vc_dtype_size(value_type(step)), s->n_tiles);
    }
    step->scratch_bytes = vc_prune_scratch(step, VC_TILE_ELEMS / 8 + 64);
    vc_item_replan(item);
    return VC_OK;
}
