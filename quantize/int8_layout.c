/* int8_layout.c - int8 for the loaders of other programs: which tensors they take as codes, and which scales they
 * expect. Names and bytes of the files are the format's part. */
#include <stdbool.h>

#include "core/model/names.h"
#include "kernels/arith.h"
#include "quantize/int8.h"

/* Rows that fill one 32-bit word could be 4-bit codes as well: a reader could not tell. */
#define MIN_PACKED_ROW 5

static bool is_foreign(enum vc_layout layout)
{
    return layout == VC_LAYOUT_COMPRESSED_TENSORS || layout == VC_LAYOUT_BITSANDBYTES;
}

static const char *layout_name(enum vc_layout layout)
{
    return layout == VC_LAYOUT_COMPRESSED_TENSORS ? "compressed-tensors" : "bitsandbytes";
}

enum vc_status vc_int8_check_layout(struct vc_ctx *ctx, enum vc_layout layout,
                                    const struct vc_quantize_options *options)
{
    const char *what = NULL;

    if (!is_foreign(layout)) {
        return VC_OK;
    }
    if (options->asymmetric) {
        what = "no zero points (--asymmetric)";
    } else if (options->axis != 0 && options->axis != VC_AXIS_OUTPUT) {
        what = "scales along axis 0 only (--axis)";
    } else if (options->granularity == VC_GRANULARITY_TENSOR) {
        what = "scales per row, not per tensor (--granularity)";
    } else if (options->granularity == VC_GRANULARITY_GROUP && layout == VC_LAYOUT_BITSANDBYTES) {
        what = "one scale per row, no groups (--granularity)";
    }
    return what == NULL ? VC_OK
                        : vc_fail(ctx, VC_E_ARGUMENT, "the layout %s takes %s; --layout plain takes all",
                                  layout_name(layout), what);
}

const char *vc_int8_layout_reason(const struct vc_item *item, const struct vc_quantize_options *options, bool included)
{
    const char *name = item->model->tensors[item->source].name;
    const struct vc_desc *desc = &item->desc;
    size_t n_path;

    if (!is_foreign(item->layout)) {
        return NULL;
    }
    /* One with its outputs on the other axis is not [out, in]. */
    if (desc->n_dims != 2 || !vc_name_is_module_weight(name, &n_path) ||
        item->model->tensors[item->source].channel_axis != 0) {
        return "no weight of a linear layer";
    }
    if (vc_name_is_embedding(name)) {
        return "embedding";
    }
    if (vc_name_is_head(name) && !included) {
        return "output head";
    }
    if (item->layout == VC_LAYOUT_COMPRESSED_TENSORS && desc->shape[1] < MIN_PACKED_ROW) {
        return "rows shorter than 5";
    }
    if (options->granularity == VC_GRANULARITY_GROUP && desc->shape[1] % options->group_size != 0) {
        return "rows are no multiple of the group";
    }
    return NULL;
}

void vc_int8_choose_scale(const struct vc_item *item, struct vc_int8_state *s)
{
    const struct vc_tensor *tensor = &item->model->tensors[item->source];
    enum vc_dtype source = tensor->quant != NULL ? tensor->quant->source_dtype : item->desc.dtype;

    s->scale_dtype = VC_DTYPE_F32;
    s->absmax = item->layout == VC_LAYOUT_BITSANDBYTES;
    if (item->layout == VC_LAYOUT_COMPRESSED_TENSORS && (source == VC_DTYPE_F16 || source == VC_DTYPE_BF16)) {
        s->scale_dtype = source;
    }
}

void vc_int8_scales(const struct vc_int8_state *s, const uint32_t *bits, size_t n, float *scale, uint16_t *stored)
{
    size_t i;

    for (i = 0; i < n; i++) {
        switch (s->scale_dtype) {
        case VC_DTYPE_F16:
            stored[i] = vc_int8_scale_f16(bits[i]);
            scale[i] = vc_f16_to_f32(stored[i]);
            break;
        case VC_DTYPE_BF16:
            stored[i] = vc_int8_scale_bf16(bits[i]);
            scale[i] = vc_bf16_to_f32(stored[i]);
            break;
        default:
            scale[i] = vc_int8_scale(bits[i]);
            break;
        }
    }
}
