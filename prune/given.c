/* given.c - the step that sets to zero what a mask from a file says, and how masks are found in that file.
 *
 *     fc.weight.mask  u8 [1024]       a bit per weight in C order, the lowest bit of a byte first, 1 = kept
 *     fc.weight.mask  bool [64, 128]  or u8 with 0 and 1: the shape of the weight
 *     fc.weight       bool [64, 128]  the same under the weight's own name
 *
 * The mask of a tensor is read before its first tile and takes a bit per weight in memory. */
#include "prune/given.h"

#include "core/chain/source_reader.h"

#define SUFFIX      ".mask"
#define CHUNK_BYTES ((size_t)1 << 16) /* read at once; a multiple of 8 */

/* ---- finding masks ---- */

/* Masks of programs are bool or u8. */
static bool is_mask_type(const struct vc_tensor *t)
{
    return t->quant == NULL && (t->dtype == VC_DTYPE_BOOL || t->dtype == VC_DTYPE_U8);
}

/* The tensor has exactly this shape. */
static bool has_shape(const struct vc_tensor *t, unsigned n_dims, const uint64_t *shape)
{
    return t->n_dims == n_dims && (n_dims == 0 || memcmp(t->shape, shape, n_dims * sizeof *shape) == 0);
}

/* A bit for each weight. */
static bool is_packed(const struct vc_tensor *t, uint64_t n_elems)
{
    uint64_t n_bytes = vc_ceil_div_u64(n_elems, 8);

    return t->dtype == VC_DTYPE_U8 && has_shape(t, 1, &n_bytes);
}

/* A name without ".mask" at its end: its length. 0: it does not end so. */
static size_t stem_of(const char *name)
{
    size_t n = strlen(name);
    size_t end = sizeof SUFFIX - 1;

    return n > end && strcmp(name + n - end, SUFFIX) == 0 ? n - end : 0;
}

/* NAME.mask is preferred to NAME: a file may have both weights and masks. */
enum vc_status vc_given_find(struct vc_ctx *ctx, const struct vc_model *masks, const struct vc_item *item, size_t *mask)
{
    const char *name = item->set->model->tensors[item->source].name;
    char *long_name = vc_arena_printf(ctx, item->set->arena, "%s" SUFFIX, name);
    const struct vc_desc *desc = item->desc;

    VC_CALL_ALLOC(long_name);
    /* by NAME.mask, else by NAME */
    *mask = vc_model_find(masks, long_name);
    if (*mask == VC_NO_TENSOR) {
        *mask = vc_model_find(masks, name);
        if (*mask == VC_NO_TENSOR || !is_mask_type(&masks->tensors[*mask])) { /* weights lie beside masks */
            *mask = VC_NO_TENSOR;
            return VC_OK;
        }
    }
    const struct vc_tensor *t = &masks->tensors[*mask];
    VC_REFUSE_IF(!is_mask_type(t), ctx, VC_E_FORMAT, "%s: %s is %s; a mask is bool or u8", masks->path, t->name,
                 t->quant != NULL ? "quantized" : vc_dtype_name(t->dtype));
    VC_REFUSE_IF(!has_shape(t, desc->n_dims, desc->shape) && !is_packed(t, desc->n_elems), ctx, VC_E_FORMAT,
                 "%s: %s has %llu elements of %s in %u dimensions; a mask has the shape of its weight, or is u8 "
                 "[%llu], a bit for each of the %llu weights",
                 masks->path, t->name, (unsigned long long)t->n_elems, vc_dtype_name(t->dtype), t->n_dims,
                 (unsigned long long)vc_ceil_div_u64(desc->n_elems, 8), (unsigned long long)desc->n_elems);
    return VC_OK;
}

/* Every mask must belong to a tensor, so that a misspelled name is noticed. */
enum vc_status vc_given_check(struct vc_ctx *ctx, const struct vc_model *masks, const struct vc_model *model)
{
    size_t n_masks = 0;

    for (size_t i = 0; i < masks->n_tensors; i++) {
        const struct vc_tensor *t = &masks->tensors[i];
        size_t stem = stem_of(t->name);
        char *name;

        /* weights that lie in the same file are no masks */
        if (stem == 0 && !is_mask_type(t)) {
            continue;
        }
        size_t of = vc_model_find(model, t->name);
        if (of == VC_NO_TENSOR && stem != 0) {
            VC_CALL_ALLOC(name = vc_strdup(ctx, VC_TAG_NAMES, t->name));
            name[stem] = '\0';
            of = vc_model_find(model, name);
            vc_free(ctx, name);
        }
        VC_REFUSE_IF(of == VC_NO_TENSOR, ctx, VC_E_FORMAT, "%s: %s is the mask of a tensor that is not there",
                     masks->path, t->name);
        VC_REFUSE_IF(model->tensors[of].alias_of != VC_NO_TENSOR, ctx, VC_E_FORMAT,
                     "%s: %s belongs to a second name of %s; the mask goes by that name", masks->path, t->name,
                     model->tensors[model->tensors[of].alias_of].name);
        n_masks++;
    }
    return n_masks != 0 ? VC_OK
                        : vc_fail(ctx, VC_E_FORMAT, "%s: has no masks: bool or u8, named as the weight with " SUFFIX,
                                  masks->path);
}

/* ---- the step ---- */

/* The bits of 1.0 in a type of `size` bytes: of bf16 they are those of f32 without the lower half. */
static uint64_t one_of(enum vc_dtype dtype)
{
    if (dtype == VC_DTYPE_F64) {
        return 0x3ff0000000000000ULL;
    }
    if (dtype == VC_DTYPE_F32) {
        return 0x3f800000u;
    }
    if (dtype == VC_DTYPE_F16) {
        return 0x3c00u;
    }
    if (dtype == VC_DTYPE_BF16) {
        return 0x3f80u;
    }
    return 1u;
}

/* Adds n elements of a mask in the weight's shape to the bits, which are 0 there. */
static enum vc_status pack(struct vc_ctx *ctx, const struct vc_tensor *t, const uint8_t *bytes, uint64_t first,
                           size_t n, uint8_t *bits)
{
    size_t size = vc_dtype_size(t->dtype);
    uint64_t one = one_of(t->dtype);

    for (size_t i = 0; i < n; i++) {
        uint64_t value = 0;

        for (size_t k = size; k-- > 0;) {
            value = value << 8 | bytes[i * size + k];
        }
        VC_REFUSE_IF(value != 0 && value != one, ctx, VC_E_FORMAT,
                     "%s: element %llu is neither 0 nor 1; a mask has 0 and 1", t->name,
                     (unsigned long long)(first + i));
        bits[(first + i) / 8] |= (uint8_t)((value != 0) << (first + i) % 8);
    }
    return VC_OK;
}

/* Reads the mask of n weights. packed: the bytes are read to their place; else elements are read in chunks and
 * packed. */
static enum vc_status read_mask(struct vc_ctx *ctx, const struct vc_model *masks, size_t index, uint64_t n,
                                uint8_t *bits)
{
    const struct vc_tensor *t = &masks->tensors[index];
    bool packed = is_packed(t, n) && t->n_elems != n;
    size_t size = vc_dtype_size(t->dtype);
    uint8_t *chunk = packed ? NULL : vc_alloc(ctx, VC_TAG_SCRATCH, CHUNK_BYTES);
    struct vc_source_reader reader = {0};
    enum vc_status status = VC_OK;

    if (!packed) {
        VC_TRY_ALLOC(chunk);
    }
    VC_TRY(vc_source_reader_start(ctx, masks, index, &reader));
    for (uint64_t at = 0; at < t->n_elems; at += CHUNK_BYTES / size) {
        size_t n_here = (size_t)vc_min_u64(CHUNK_BYTES / size, t->n_elems - at);

        VC_TRY(vc_source_reader_read(ctx, &reader, packed ? bits + at : chunk, n_here * size));
        if (!packed) {
            VC_TRY(pack(ctx, t, chunk, at, n_here, bits));
        }
    }
    VC_TRY(vc_source_reader_finish(ctx, &reader));
    if (packed && n % 8 != 0 && bits[n / 8] >> n % 8 != 0) {
        status = vc_fail(ctx, VC_E_FORMAT, "%s: has bits behind that of weight %llu, the last one", t->name,
                         (unsigned long long)(n - 1));
    }
out:
    vc_source_reader_stop(ctx, &reader);
    vc_free(ctx, chunk);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", masks->path);
}

/* The mask of the whole tensor, before its first tile. */
static enum vc_status given_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_prune_state *s = step->state;

    s->mask = vc_calloc_array(ctx, VC_TAG_SCRATCH, (size_t)vc_ceil_div_u64(step->in.n_elems, 8), 1);
    if (s->mask == NULL || read_mask(ctx, s->given_from, s->given, step->in.n_elems, s->mask) != VC_OK) {
        return s->mask == NULL ? VC_E_NOMEM : ctx->status;
    }
    return vc_reconstruct_begin(ctx, step);
}

static enum vc_status given_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                  struct vc_tile_out *out)
{
    struct vc_prune_state *s = step->state;

    if (vc_has_nonfinite(step->in.dtype, in->data, tile->n_elems)) {
        return vc_prune_refuse(ctx);
    }
    return vc_prune_apply(ctx, step, tile, in->data, s->mask, tile->first, scratch, out);
}

static const struct vc_step_ops given_ops = {.calibrate = vc_policy_calibrate,
                                             .explain = vc_policy_explain,
                                             .begin = given_begin,
                                             .apply = given_apply,
                                             .end = vc_prune_end,
                                             .forget = vc_prune_forget};

enum vc_status vc_given_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_prune_options *options,
                            const struct vc_model *masks, size_t mask, const char *scheme)
{
    struct vc_prune_state *s;
    struct vc_step *step;

    VC_CALL(vc_prune_add_step(ctx, item, &given_ops, options, scheme, &s, &step));
    s->given_from = masks;
    s->given = mask;
    step->state_bytes = (size_t)vc_ceil_div_u64(step->in.n_elems, 8) + CHUNK_BYTES + vc_reconstruct_state(step);
    step->scratch_bytes = vc_prune_scratch(step, 0);
    vc_item_replan(item);
    return VC_OK;
}
