/* decode.c - values from codes, x = (q - z) * s, from blocks, and conversions between float types. Scales are f32, f16
 * or bf16, or absolute maxima (s = absmax / 127). Those of the source are read whole when the tensor begins; those that
 * a step before this one makes come with each tile. What is too large for f32 is decided by policy where the caller
 * gives one. Writes no codes: schemes do that. */
#include "passes/decode.h"

#include <string.h>

#include "core/base/checked.h"
#include "kernels/arith.h"
#include "kernels/kernels.h"
#include "passes/nonfinite.h"

struct decode_state {
    bool codes; /* else a conversion only */
    struct vc_quant quant;
    size_t scale_part, zero_part; /* among step->in.parts; zero_part SIZE_MAX: symmetric */
    uint64_t row_len, n_groups, group, inner, n_scales;
    bool by_rows;

    float *scale; /* of the whole tensor, from begin to end; NULL: they come with each tile */
    int8_t *zero;
    bool may_overflow; /* some product of these can, and the policy changes or refuses it */

    enum vc_overflow overflow; /* of a finite scale's product */
    bool finite_scales;        /* others are refused */
    struct vc_finding finding;
};

/* The scales that a tile needs: those of the tensor from number `first` on. */
struct tile_scales {
    const float *scale;
    const int8_t *zero;
    uint64_t first;
    bool may_overflow;
};

bool vc_decode_can(const struct vc_desc *desc)
{
    return desc->quant != NULL || vc_dtype_is_float(desc->dtype) || vc_dtype_is_quantized(desc->dtype);
}

static void map_scales(struct decode_state *s, const struct vc_desc *desc)
{
    const struct vc_quant *quant = desc->quant;
    uint64_t n_rows;
    unsigned d;

    s->codes = true;
    s->quant = *quant;
    s->scale_part = vc_desc_find_part(desc, VC_PART_ABSMAX);
    s->scale_part = s->scale_part != SIZE_MAX ? s->scale_part : vc_desc_find_part(desc, VC_PART_SCALE);
    s->zero_part = vc_desc_find_part(desc, VC_PART_ZERO_POINT);
    s->n_scales = desc->parts[s->scale_part].n_elems;
    vc_rows_of(desc->shape, desc->n_dims, &n_rows, &s->row_len);
    s->by_rows = quant->granularity == VC_GRANULARITY_GROUP ||
                 (quant->granularity == VC_GRANULARITY_CHANNEL && quant->axis == 0 && desc->n_dims >= 2);
    s->group = quant->granularity == VC_GRANULARITY_GROUP ? quant->group_size : s->row_len;
    s->n_groups = s->row_len == 0 ? 0 : vc_ceil_div_u64(s->row_len, s->group);
    s->inner = quant->granularity == VC_GRANULARITY_TENSOR ? vc_max_u64(1, desc->n_elems) : 1;
    for (d = quant->axis + 1; quant->granularity == VC_GRANULARITY_CHANNEL && d < desc->n_dims; d++) {
        s->inner *= desc->shape[d];
    }
}

/* ---- scales ---- */

/* n stored scales as f32. `from` may be the upper half of the room at `scale`, with scales of 16 bits: going upwards, a
 * float is never written over a scale that has not been read. */
static void widen_scales(const struct vc_part_desc *part, const unsigned char *from, size_t n, float *scale)
{
    size_t i;

    for (i = 0; i < n; i++) {
        float value;
        uint16_t h;

        if (part->dtype == VC_DTYPE_F32) {
            memcpy(&value, from + 4 * i, sizeof value);
        } else {
            h = vc_le16(from + 2 * i);
            value = part->dtype == VC_DTYPE_F16 ? vc_f16_to_f32(h) : vc_bf16_to_f32(h);
        }
        scale[i] = part->role == VC_PART_ABSMAX ? vc_int8_scale_of_absmax(value) : value;
    }
}

/* Some code could be beyond f32 with one of these scales, and the policy does something about it. */
static bool any_overflows(const struct decode_state *s, const float *scale, size_t n)
{
    size_t i = 0;

    if (s->overflow == VC_OVERFLOW_INF) {
        return false;
    }
    while (i < n && !vc_int8_steps_overflow(255.0f, scale[i])) {
        i++;
    }
    return i < n;
}

/* NaN and Inf among all scales of the tensor, where they are refused. */
static enum vc_status check_scales(struct vc_ctx *ctx, const struct decode_state *s, const struct vc_part_desc *part)
{
    const struct vc_desc desc = {
        .dtype = part->dtype, .n_dims = part->n_dims, .shape = part->shape, .n_elems = part->n_elems};
    struct vc_finding finding;
    enum vc_status status = VC_OK;

    if (!s->finite_scales || !vc_has_nonfinite(VC_DTYPE_F32, s->scale, (size_t)s->n_scales)) {
        return VC_OK;
    }
    VC_TRY(vc_finding_init(ctx, &finding, vc_largest_fitting(VC_DTYPE_F32)));
    vc_finding_add(&finding, VC_DTYPE_F32, s->scale, (size_t)s->n_scales, 0);
    status = vc_finding_fail_nonfinite(ctx, &finding, &desc, "scales", VC_ADVICE_EXCLUDE);
    vc_finding_release(&finding);
out:
    return status;
}

/* Reads the scales and zero points that are tensors of the source. */
static enum vc_status decode_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct decode_state *s = step->state;
    const struct vc_part_desc *part;
    enum vc_status status = VC_OK;
    size_t n = (size_t)s->n_scales;
    unsigned char *upper;

    if (!s->codes || step->in.parts[s->scale_part].maker != NULL) {
        return VC_OK;
    }
    part = &step->in.parts[s->scale_part];
    s->scale = vc_alloc_array(ctx, VC_TAG_SCALES, n, sizeof *s->scale);
    VC_TRY_ALLOC(s->scale);
    upper = (unsigned char *)s->scale + n * (sizeof *s->scale - vc_dtype_size(part->dtype));
    VC_TRY(vc_part_load(ctx, item, part, upper));
    widen_scales(part, upper, n, s->scale);
    if (s->zero_part != SIZE_MAX) {
        s->zero = vc_alloc_array(ctx, VC_TAG_SCALES, n, sizeof *s->zero);
        VC_TRY_ALLOC(s->zero);
        VC_TRY(vc_part_load(ctx, item, &step->in.parts[s->zero_part], s->zero));
    }
    s->may_overflow = any_overflows(s, s->scale, n);
    VC_TRY(check_scales(ctx, s, part));
out:
    return status; /* end frees what is there */
}

static void decode_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct decode_state *s = step->state;

    vc_free(ctx, s->scale);
    vc_free(ctx, s->zero);
    s->scale = NULL;
    s->zero = NULL;
}

/* The scales of a tile: the tensor's, or those that came with the tile, as f32 in scratch. */
static enum vc_status find_scales(struct vc_ctx *ctx, const struct vc_step *step, const struct vc_tile_in *in,
                                  void *scratch, struct tile_scales *out)
{
    const struct decode_state *s = step->state;
    const struct vc_part_view *view;

    *out = (struct tile_scales){s->scale, s->zero, 0, s->may_overflow};
    if (s->scale != NULL) {
        return VC_OK;
    }
    view = &in->parts[s->scale_part];
    if (view->data == NULL) {
        return vc_fail(ctx, VC_E_INTERNAL, "its scales did not come with the codes");
    }
    widen_scales(&step->in.parts[s->scale_part], view->data, view->n, scratch);
    out->scale = scratch;
    out->zero = s->zero_part != SIZE_MAX ? in->parts[s->zero_part].data : NULL;
    out->first = view->first;
    out->may_overflow = any_overflows(s, scratch, view->n);
    return VC_OK;
}

/* ---- codes ---- */

static enum vc_status decode_codes(struct vc_ctx *ctx, const struct vc_kernels *k, const struct decode_state *s,
                                   const struct tile_scales *t, const struct vc_tile *tile, const void *in, float *y)
{
    enum vc_status status = VC_OK;

    if (s->by_rows && tile->whole_rows) {
        uint64_t first = tile->row0 * s->n_groups - t->first;

        VC_KERNEL_TRY(k->int8_decode_rows(in, tile->n_rows, tile->row_len, (size_t)s->group, t->scale + first,
                                          t->zero != NULL ? t->zero + first : NULL, y));
    } else if (s->by_rows) { /* a piece of one row that may begin inside a group */
        uint64_t first = tile->row0 * s->n_groups + tile->col0 / s->group - t->first;
        struct vc_axis_map map = {tile->col0 % s->group, s->group, s->n_groups - tile->col0 / s->group};

        VC_KERNEL_TRY(k->int8_decode_axis(in, tile->n_elems, &map, t->scale + first,
                                          t->zero != NULL ? t->zero + first : NULL, y));
    } else {
        struct vc_axis_map map = {tile->first, s->inner, s->n_scales};

        VC_KERNEL_TRY(k->int8_decode_axis(in, tile->n_elems, &map, t->scale, t->zero, y));
    }
out:
    return status;
}

/* The number of the scale of an element among those of the tile. */
static size_t scale_of(const struct decode_state *s, const struct tile_scales *t, uint64_t flat)
{
    return (size_t)((s->by_rows ? flat / s->row_len * s->n_groups + flat % s->row_len / s->group
                                : flat / s->inner % s->n_scales) -
                    t->first);
}

/* Infinities that came from a finite scale become the largest f32. False where the policy refuses them. */
static bool settle(const struct decode_state *s, const struct tile_scales *t, const struct vc_tile *tile, char *y)
{
    size_t i;

    for (i = 0; i < tile->n_elems; i++) {
        uint32_t bits;

        memcpy(&bits, y + i * sizeof bits, sizeof bits);
        if ((bits & VC_F32_ABS_MASK) != VC_F32_INF_BITS ||
            vc_f32_magnitude(t->scale[scale_of(s, t, tile->first + i)]) >= VC_F32_INF_BITS) {
            continue;
        }
        if (s->overflow == VC_OVERFLOW_ERROR) {
            return false;
        }
        bits--; /* the largest finite value with its sign */
        memcpy(y + i * sizeof bits, &bits, sizeof bits);
    }
    return true;
}

/* n elements of whole blocks. */
static int decode_blocks(const struct vc_kernels *k, enum vc_dtype dtype, const uint8_t *blocks, size_t n, float *y)
{
    switch (dtype) {
    case VC_DTYPE_Q4_0:
        return k->q4_0_to_f32(blocks, n, y);
    case VC_DTYPE_Q4_1:
        return k->q4_1_to_f32(blocks, n, y);
    case VC_DTYPE_Q5_0:
        return k->q5_0_to_f32(blocks, n, y);
    case VC_DTYPE_Q5_1:
        return k->q5_1_to_f32(blocks, n, y);
    case VC_DTYPE_Q4_K:
        return k->q4_k_to_f32(blocks, n, y);
    case VC_DTYPE_Q5_K:
        return k->q5_k_to_f32(blocks, n, y);
    case VC_DTYPE_Q6_K:
        return k->q6_k_to_f32(blocks, n, y);
    default:
        return k->q8_0_to_f32(blocks, n, y);
    }
}

#define SURVEY_ELEMS ((size_t)256) /* a multiple of every block */

static enum vc_status look_at_blocks(struct vc_ctx *ctx, const struct vc_step *step, const struct vc_tile *tile,
                                     const uint8_t *blocks)
{
    struct decode_state *s = step->state;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    enum vc_status status = VC_OK;
    float values[SURVEY_ELEMS];
    size_t i;

    if (k == NULL) {
        return ctx->status;
    }
    for (i = 0; i < tile->n_elems; i += SURVEY_ELEMS) {
        size_t n = (size_t)vc_min_u64(SURVEY_ELEMS, tile->n_elems - i);

        VC_KERNEL_TRY(decode_blocks(k, step->in.dtype, blocks + vc_dtype_bytes(step->in.dtype, i), n, values));
        vc_finding_add(&s->finding, VC_DTYPE_F32, values, n, tile->first + i);
    }
out:
    return status;
}

static enum vc_status decode_look(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct decode_state *s = step->state;
    const int8_t *q = in->data;
    struct tile_scales t;
    double values[SURVEY_ELEMS];
    enum vc_status status = VC_OK;
    size_t n = 0;
    size_t i;

    (void)item;
    if (!s->codes) {
        return s->finite_scales && vc_dtype_is_quantized(step->in.dtype) ? look_at_blocks(ctx, step, tile, in->data)
                                                                         : VC_OK;
    }
    VC_TRY(find_scales(ctx, step, in, scratch, &t));
    for (i = 0; t.may_overflow && i < tile->n_elems; i++) {
        size_t k = scale_of(s, &t, tile->first + i);

        values[n++] = (double)((int32_t)q[i] - (t.zero != NULL ? t.zero[k] : 0)) * (double)t.scale[k];
        if (n == SURVEY_ELEMS || i + 1 == tile->n_elems) {
            vc_finding_add(&s->finding, VC_DTYPE_F64, values, n, tile->first + i + 1 - n);
            n = 0;
        }
    }
out:
    return status;
}

static enum vc_status decode_explain(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    const struct decode_state *s = step->state;

    (void)item;
    if (s->finding.nonfinite != 0 && s->finite_scales && vc_dtype_is_quantized(step->in.dtype)) {
        return vc_finding_fail_nonfinite(ctx, &s->finding, &step->in, "values", VC_ADVICE_EXCLUDE);
    }
    if (s->finding.overflows != 0 && s->overflow == VC_OVERFLOW_ERROR) {
        return vc_finding_fail_overflow(ctx, &s->finding, &step->in, VC_DTYPE_F32, VC_ADVICE_OVERFLOW);
    }
    return VC_OK;
}

static void widen_to_f64(const char *x, size_t n, char *y)
{
    size_t i;

    for (i = 0; i < n; i++) {
        float f;
        double d;

        memcpy(&f, x + 4 * i, sizeof f);
        d = (double)f;
        memcpy(y + 8 * i, &d, sizeof d);
    }
}

static enum vc_status apply_codes(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_step *step,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch, void *y)
{
    const struct decode_state *s = step->state;
    struct tile_scales t;
    enum vc_status status;

    VC_TRY(find_scales(ctx, step, in, scratch, &t));
    VC_TRY(decode_codes(ctx, k, s, &t, tile, in->data, y));
    if (t.may_overflow && vc_has_nonfinite(VC_DTYPE_F32, y, tile->n_elems) && !settle(s, &t, tile, y)) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "a value does not fit f32");
    }
out:
    return status;
}

static enum vc_status decode_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                   const struct vc_tile *tile, const struct vc_tile_in *tile_in, void *scratch,
                                   struct vc_tile_out *out)
{
    const struct decode_state *s = step->state;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    const void *in = tile_in->data;
    enum vc_status status = VC_OK;

    (void)item;
    if (k == NULL) {
        return ctx->status;
    }
    if (s->codes) {
        return apply_codes(ctx, k, step, tile, tile_in, scratch, out->data);
    }
    if (vc_dtype_is_quantized(step->in.dtype)) {
        VC_KERNEL_TRY(decode_blocks(k, step->in.dtype, in, tile->n_elems, out->data));
        return s->finite_scales && vc_has_nonfinite(VC_DTYPE_F32, out->data, tile->n_elems)
                   ? vc_fail(ctx, VC_E_UNSUPPORTED, "a step is not finite")
                   : VC_OK;
    }
    switch (step->in.dtype) {
    case VC_DTYPE_F16:
        VC_KERNEL_TRY(k->f16_to_f32(in, tile->n_elems, out->data));
        break;
    case VC_DTYPE_BF16:
        VC_KERNEL_TRY(k->bf16_to_f32(in, tile->n_elems, out->data));
        break;
    case VC_DTYPE_F64:
        VC_KERNEL_TRY(k->f64_to_f32(in, tile->n_elems, out->data));
        break;
    default:
        widen_to_f64(in, tile->n_elems, out->data);
        break;
    }
out:
    return status;
}

static void decode_forget(struct vc_ctx *ctx, struct vc_step *step)
{
    struct decode_state *s = step->state;

    vc_finding_release(&s->finding);
    vc_free(ctx, s);
    step->state = NULL;
}

static const struct vc_step_ops decode_ops = {.look = decode_look,
                                              .explain = decode_explain,
                                              .begin = decode_begin,
                                              .apply = decode_apply,
                                              .end = decode_end,
                                              .forget = decode_forget};

/* Scales come whole with the source: memory while the tensor is in work. From another step: scratch for as many as come
 * with a tile. */
static void plan_memory(const struct decode_state *s, struct vc_step *step)
{
    uint64_t most = s->by_rows ? vc_min_u64(s->n_scales, VC_TILE_ELEMS + 2) : s->n_scales;

    if (step->in.parts[s->scale_part].maker == NULL) {
        step->state_bytes = (size_t)s->n_scales * (s->zero_part != SIZE_MAX ? 5 : 4);
    } else {
        step->scratch_bytes = (size_t)(s->by_rows && s->row_len > VC_TILE_ELEMS ? s->n_scales : most) * sizeof(float);
    }
}

static enum vc_status add(struct vc_ctx *ctx, struct vc_item *item, enum vc_dtype target, enum vc_overflow overflow,
                          bool finite_scales)
{
    struct decode_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_step *step;

    if (s == NULL) {
        return VC_E_NOMEM;
    }
    s->overflow = overflow;
    s->finite_scales = finite_scales;
    if (vc_finding_init(ctx, &s->finding, vc_largest_fitting(VC_DTYPE_F32)) != VC_OK) {
        vc_free(ctx, s);
        return ctx->status;
    }
    step = vc_item_add_step(ctx, item, &decode_ops);
    if (step == NULL) {
        vc_finding_release(&s->finding);
        vc_free(ctx, s);
        return ctx->status;
    }
    step->state = s;
    step->action = VC_ACTION_DEQUANTIZED;
    step->scheme = vc_dtype_name(target);
    if (step->in.quant != NULL) {
        map_scales(s, &step->in);
        plan_memory(s, step);
        if (vc_step_drop_coding(ctx, item, step) != VC_OK) {
            return ctx->status;
        }
    }
    step->out.dtype = target;
    vc_item_replan(item);
    return VC_OK;
}

enum vc_status vc_decode_add(struct vc_ctx *ctx, struct vc_item *item, bool narrow)
{
    if (!vc_decode_can(&item->desc)) {
        return vc_fail(ctx, VC_E_INTERNAL, "%s holds no floats", vc_dtype_name(item->desc.dtype));
    }
    if (item->desc.quant == NULL &&
        (item->desc.dtype == VC_DTYPE_F32 || (item->desc.dtype == VC_DTYPE_F64 && !narrow))) {
        return VC_OK;
    }
    return add(ctx, item, VC_DTYPE_F32, VC_OVERFLOW_INF, false);
}

enum vc_status vc_decode_add_codes(struct vc_ctx *ctx, struct vc_item *item, enum vc_overflow overflow,
                                   bool finite_scales)
{
    return add(ctx, item, VC_DTYPE_F32, overflow, finite_scales);
}

enum vc_status vc_decode_add_f64(struct vc_ctx *ctx, struct vc_item *item)
{
    return add(ctx, item, VC_DTYPE_F64, VC_OVERFLOW_INF, false);
}
