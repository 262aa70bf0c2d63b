/* decode.c - values from codes (q - z) * s, and exact conversions between float types. */
#include "quantize/decode.h"

#include <string.h>

#include "core/checked.h"
#include "kernels/kernels.h"

struct decode_state {
    struct vc_quant quant; /* scheme NONE: a conversion only */
    uint64_t row_len, n_groups, group, inner, n_scales;
    bool by_rows;
    float *scale; /* from begin to end */
    int8_t *zero;
};

bool vc_decode_can(const struct vc_desc *desc)
{
    return desc->quant != NULL || vc_dtype_is_float(desc->dtype);
}

static void map_scales(struct decode_state *s, const struct vc_item *item, const struct vc_desc *desc)
{
    uint64_t n_rows;
    unsigned d;

    s->quant = *desc->quant;
    s->n_scales = item->model->tensors[s->quant.scale].n_elems;
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
    VC_TRY(vc_source_read_any(ctx, model, s->quant.scale, VC_FORM_VALUES, 0, s->scale,
                              (size_t)s->n_scales * sizeof *s->scale));
    if (s->quant.zero_point != VC_NO_TENSOR) {
        s->zero = vc_alloc_array(ctx, VC_TAG_SCALES, (size_t)s->n_scales, sizeof *s->zero);
        VC_TRY_ALLOC(s->zero);
        VC_TRY(vc_source_read_any(ctx, model, s->quant.zero_point, VC_FORM_VALUES, 0, s->zero, (size_t)s->n_scales));
    }
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
        return decode_codes(ctx, k, s, tile, in, out->data);
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
    vc_free(ctx, stage->state);
    stage->state = NULL;
}

static void decode_free(struct vc_ctx *ctx, struct vc_pass *pass)
{
    (void)ctx;
    (void)pass; /* static */
}

static const struct vc_pass_ops decode_ops = {.name = "decode",
                                              .begin = decode_begin,
                                              .apply = decode_apply,
                                              .end = decode_end,
                                              .forget = decode_forget,
                                              .free = decode_free};
static struct vc_pass decode_pass = {.ops = &decode_ops, .command = "decode"};

static enum vc_status add(struct vc_ctx *ctx, struct vc_item *item, enum vc_dtype target)
{
    struct decode_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_stage *stage;

    if (s == NULL) {
        return VC_E_NOMEM;
    }
    stage = vc_item_add_stage(ctx, item, &decode_pass);
    if (stage == NULL) {
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
        stage->state_bytes = (size_t)s->n_scales * (s->quant.zero_point != VC_NO_TENSOR ? 5 : 4);
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
    return add(ctx, item, VC_DTYPE_F32);
}

enum vc_status vc_decode_add_f64(struct vc_ctx *ctx, struct vc_item *item)
{
    return add(ctx, item, VC_DTYPE_F64);
}
