/* decode.c - values from codes (q - z) * s, and exact conversions between float types. Scales are f32, f16 or bf16, or
 * absolute maxima. What is too large for f32 is decided by policy where the caller gives one. */
#include "passes/decode.h"

#include <string.h>

#include "core/base/checked.h"
#include "kernels/arith.h"
#include "kernels/kernels.h"
#include "passes/nonfinite.h"

struct decode_state {
    struct vc_quant quant; /* scheme NONE: a conversion only */
    uint64_t row_len, n_groups, group, inner, n_scales;
    bool by_rows;
    float *scale; /* from begin to end */
    int8_t *zero;

    enum vc_overflow overflow; /* of a finite scale's product */
    bool finite_scales;        /* others are refused */
    bool may_overflow;         /* some product can, and the policy changes or refuses it */
    struct vc_finding finding;
};

bool vc_decode_can(const struct vc_desc *desc)
{
    return desc->quant != NULL || vc_dtype_is_float(desc->dtype) || vc_dtype_is_quantized(desc->dtype);
}

static void map_scales(struct decode_state *s, const struct vc_item *item, const struct vc_desc *desc)
{
    uint64_t n_rows;
    unsigned d;

    s->quant = *desc->quant;
    s->n_scales = item->model->tensors[vc_quant_scale(&s->quant)].n_elems;
    vc_rows_of(desc->shape, desc->n_dims, &n_rows, &s->row_len);
    s->by_rows = s->quant.granularity == VC_GRANULARITY_GROUP ||
                 (s->quant.granularity == VC_GRANULARITY_CHANNEL && s->quant.axis == 0 && desc->n_dims >= 2);
    s->group = s->quant.granularity == VC_GRANULARITY_GROUP ? s->quant.group_size : s->row_len;
    s->n_groups = s->row_len == 0 ? 0 : vc_ceil_div_u64(s->row_len, s->group);
    s->inner = s->quant.granularity == VC_GRANULARITY_TENSOR ? vc_max_u64(1, desc->n_elems) : 1;
    for (d = s->quant.axis + 1; s->quant.granularity == VC_GRANULARITY_CHANNEL && d < desc->n_dims; d++) {
        s->inner *= desc->shape[d];
    }
}

/* As f32, in place: scales of 16 bits are read into the upper half, which the floats never catch up with. */
static enum vc_status read_scales(struct vc_ctx *ctx, const struct vc_model *model, struct decode_state *s)
{
    const struct vc_tensor *tensor = &model->tensors[vc_quant_scale(&s->quant)];
    bool absmax = vc_quant_find(&s->quant, VC_PART_ABSMAX) != VC_NO_TENSOR;
    size_t n = (size_t)s->n_scales;
    size_t n_bytes = n * vc_dtype_size(tensor->dtype);
    unsigned char *from = (unsigned char *)s->scale + (n * sizeof *s->scale - n_bytes);
    enum vc_status status;
    size_t i;

    VC_TRY(vc_source_read_any(ctx, model, vc_quant_scale(&s->quant), VC_FORM_VALUES, 0, from, n_bytes));
    for (i = 0; i < n && tensor->dtype != VC_DTYPE_F32; i++) {
        uint16_t h = vc_le16(from + 2 * i);

        s->scale[i] = tensor->dtype == VC_DTYPE_F16 ? vc_f16_to_f32(h) : vc_bf16_to_f32(h);
    }
    for (i = 0; i < n && absmax; i++) {
        s->scale[i] = vc_int8_scale_of_absmax(s->scale[i]);
    }
out:
    return status;
}

/* Whether the scales are such that tiles have to be looked at. */
static enum vc_status check_scales(struct vc_ctx *ctx, struct decode_state *s, const struct vc_tensor *tensor)
{
    struct vc_finding finding;
    enum vc_status status = VC_OK;
    size_t i;

    s->may_overflow = false;
    for (i = 0; i < s->n_scales; i++) {
        s->may_overflow |= s->overflow != VC_OVERFLOW_INF && vc_int8_steps_overflow(255.0f, s->scale[i]);
    }
    if (!s->finite_scales || !vc_has_nonfinite(VC_DTYPE_F32, s->scale, (size_t)s->n_scales)) {
        return VC_OK;
    }
    VC_TRY(vc_finding_init(ctx, &finding, vc_largest_fitting(VC_DTYPE_F32)));
    vc_finding_add(&finding, VC_DTYPE_F32, s->scale, (size_t)s->n_scales, 0);
    status = vc_finding_fail_nonfinite(ctx, &finding, tensor, "scales", VC_ADVICE_EXCLUDE);
    vc_finding_release(&finding);
out:
    return status;
}

static enum vc_status decode_begin(struct vc_ctx *ctx, struct vc_stage *stage, const struct vc_item *item)
{
    struct decode_state *s = stage->state;
    const struct vc_model *model = item->model;
    enum vc_status status = VC_OK;

    if (s->quant.scheme == VC_SCHEME_NONE) {
        return VC_OK;
    }
    s->scale = vc_alloc_array(ctx, VC_TAG_SCALES, (size_t)s->n_scales, sizeof *s->scale);
    VC_TRY_ALLOC(s->scale);
    VC_TRY(read_scales(ctx, model, s));
    if (vc_quant_find(&s->quant, VC_PART_ZERO_POINT) != VC_NO_TENSOR) {
        s->zero = vc_alloc_array(ctx, VC_TAG_SCALES, (size_t)s->n_scales, sizeof *s->zero);
        VC_TRY_ALLOC(s->zero);
        VC_TRY(vc_source_read_any(ctx, model, vc_quant_find(&s->quant, VC_PART_ZERO_POINT), VC_FORM_VALUES, 0, s->zero,
                                  (size_t)s->n_scales));
    }
    VC_TRY(check_scales(ctx, s, &model->tensors[vc_quant_scale(&s->quant)]));
out:
    return status; /* end frees what is there */
}

static void decode_end(struct vc_ctx *ctx, struct vc_stage *stage)
{
    struct decode_state *s = stage->state;

    vc_free(ctx, s->scale);
    vc_free(ctx, s->zero);
    s->scale = NULL;
    s->zero = NULL;
}

static enum vc_status decode_codes(struct vc_ctx *ctx, const struct vc_kernels *k, const struct decode_state *s,
                                   const struct vc_tile *tile, const void *in, float *y)
{
    enum vc_status status = VC_OK;

    if (s->by_rows && tile->whole_rows) {
        uint64_t first = tile->row0 * s->n_groups;

        VC_KERNEL_TRY(k->int8_decode_rows(in, tile->n_rows, tile->row_len, (size_t)s->group, s->scale + first,
                                          s->zero != NULL ? s->zero + first : NULL, y));
    } else if (s->by_rows) { /* a piece of one row that may begin inside a group */
        uint64_t first = tile->row0 * s->n_groups + tile->col0 / s->group;
        struct vc_axis_map map = {tile->col0 % s->group, s->group, s->n_groups - tile->col0 / s->group};

        VC_KERNEL_TRY(k->int8_decode_axis(in, tile->n_elems, &map, s->scale + first,
                                          s->zero != NULL ? s->zero + first : NULL, y));
    } else {
        struct vc_axis_map map = {tile->first, s->inner, s->n_scales};

        VC_KERNEL_TRY(k->int8_decode_axis(in, tile->n_elems, &map, s->scale, s->zero, y));
    }
out:
    return status;
}

static size_t scale_of(const struct decode_state *s, uint64_t flat)
{
    return (size_t)(s->by_rows ? flat / s->row_len * s->n_groups + flat % s->row_len / s->group
                               : flat / s->inner % s->n_scales);
}

/* Infinities that came from a finite scale. False when the policy says no. */
static bool settle(const struct decode_state *s, const struct vc_tile *tile, char *y)
{
    size_t i;

    for (i = 0; i < tile->n_elems; i++) {
        uint32_t bits;

        memcpy(&bits, y + i * sizeof bits, sizeof bits);
        if ((bits & VC_F32_ABS_MASK) != VC_F32_INF_BITS ||
            vc_f32_magnitude(s->scale[scale_of(s, tile->first + i)]) >= VC_F32_INF_BITS) {
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

static enum vc_status survey_blocks(struct vc_ctx *ctx, const struct vc_stage *stage, const struct vc_tile *tile,
                                    const uint8_t *blocks)
{
    struct decode_state *s = stage->state;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    enum vc_status status = VC_OK;
    float values[SURVEY_ELEMS];
    size_t i;

    if (k == NULL) {
        return ctx->status;
    }
    for (i = 0; i < tile->n_elems; i += SURVEY_ELEMS) {
        size_t n = (size_t)vc_min_u64(SURVEY_ELEMS, tile->n_elems - i);

        VC_KERNEL_TRY(decode_blocks(k, stage->in.dtype, blocks + vc_dtype_bytes(stage->in.dtype, i), n, values));
        vc_finding_add(&s->finding, VC_DTYPE_F32, values, n, tile->first + i);
    }
out:
    return status;
}

static enum vc_status decode_survey(struct vc_ctx *ctx, struct vc_stage *stage, const struct vc_item *item,
                                    const struct vc_tile *tile, const void *in)
{
    struct decode_state *s = stage->state;
    const int8_t *q = in;
    double values[SURVEY_ELEMS];
    size_t n = 0;
    size_t i;

    (void)item;
    if (s->finite_scales && vc_dtype_is_quantized(stage->in.dtype)) {
        return survey_blocks(ctx, stage, tile, in);
    }
    for (i = 0; s->may_overflow && i < tile->n_elems; i++) {
        size_t k = scale_of(s, tile->first + i);

        values[n++] = (double)((int32_t)q[i] - (s->zero != NULL ? s->zero[k] : 0)) * (double)s->scale[k];
        if (n == SURVEY_ELEMS || i + 1 == tile->n_elems) {
            vc_finding_add(&s->finding, VC_DTYPE_F64, values, n, tile->first + i + 1 - n);
            n = 0;
        }
    }
    return VC_OK;
}

static enum vc_status decode_survey_end(struct vc_ctx *ctx, struct vc_stage *stage, struct vc_item *item)
{
    const struct decode_state *s = stage->state;

    if (s->finding.nonfinite != 0 && s->finite_scales && vc_dtype_is_quantized(stage->in.dtype)) {
        return vc_finding_fail_nonfinite(ctx, &s->finding, &item->model->tensors[item->source], "values",
                                         VC_ADVICE_EXCLUDE);
    }
    if (s->finding.overflows != 0 && s->overflow == VC_OVERFLOW_ERROR) {
        return vc_finding_fail_overflow(ctx, &s->finding, &item->model->tensors[item->source], VC_DTYPE_F32,
                                        VC_ADVICE_OVERFLOW);
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

static enum vc_status decode_apply(struct vc_ctx *ctx, struct vc_stage *stage, const struct vc_item *item,
                                   const struct vc_tile *tile, const void *in, void *scratch, struct vc_tile_out *out)
{
    const struct decode_state *s = stage->state;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    enum vc_status status = VC_OK;

    (void)item;
    (void)scratch;
    if (k == NULL) {
        return ctx->status;
    }
    if (s->quant.scheme != VC_SCHEME_NONE) {
        VC_TRY(decode_codes(ctx, k, s, tile, in, out->data));
        if (s->may_overflow && vc_has_nonfinite(VC_DTYPE_F32, out->data, tile->n_elems) &&
            !settle(s, tile, out->data)) {
            return vc_fail(ctx, VC_E_UNSUPPORTED, "a value does not fit f32");
        }
        return VC_OK;
    }
    if (vc_dtype_is_quantized(stage->in.dtype)) {
        VC_KERNEL_TRY(decode_blocks(k, stage->in.dtype, in, tile->n_elems, out->data));
        return s->finite_scales && vc_has_nonfinite(VC_DTYPE_F32, out->data, tile->n_elems)
                   ? vc_fail(ctx, VC_E_UNSUPPORTED, "a step is not finite")
                   : VC_OK;
    }
    switch (stage->in.dtype) {
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

static void decode_forget(struct vc_ctx *ctx, struct vc_stage *stage)
{
    struct decode_state *s = stage->state;

    vc_finding_release(&s->finding);
    vc_free(ctx, s);
    stage->state = NULL;
}

static void decode_free(struct vc_ctx *ctx, struct vc_pass *pass)
{
    (void)ctx;
    (void)pass; /* static */
}

static const struct vc_pass_ops decode_ops = {.name = "decode",
                                              .survey = decode_survey,
                                              .survey_end = decode_survey_end,
                                              .begin = decode_begin,
                                              .apply = decode_apply,
                                              .end = decode_end,
                                              .forget = decode_forget,
                                              .free = decode_free};
static struct vc_pass decode_pass = {.ops = &decode_ops, .command = "decode"};

static enum vc_status add(struct vc_ctx *ctx, struct vc_item *item, enum vc_dtype target, enum vc_overflow overflow,
                          bool finite_scales)
{
    struct decode_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_stage *stage;

    if (s == NULL) {
        return VC_E_NOMEM;
    }
    s->overflow = overflow;
    s->finite_scales = finite_scales;
    if (vc_finding_init(ctx, &s->finding, vc_largest_fitting(VC_DTYPE_F32)) != VC_OK) {
        vc_free(ctx, s);
        return ctx->status;
    }
    stage = vc_item_add_stage(ctx, item, &decode_pass);
    if (stage == NULL) {
        vc_finding_release(&s->finding);
        vc_free(ctx, s);
        return ctx->status;
    }
    stage->state = s;
    stage->action = VC_ACTION_DEQUANTIZED;
    stage->scheme = vc_dtype_name(target);
    stage->out.dtype = target;
    stage->out.quant = NULL;
    if (item->desc.quant != NULL) {
        map_scales(s, item, &item->desc);
        stage->state_bytes =
            (size_t)s->n_scales * (vc_quant_find(&s->quant, VC_PART_ZERO_POINT) != VC_NO_TENSOR ? 5 : 4);
    }
    item->desc = stage->out;
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
