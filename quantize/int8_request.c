/* int8_request.c - puts int8's questions to the dialect of the output: which tensors its loader takes as codes, and
 * which scales it expects. What the answers are is the dialect's business. */
#include "kernels/arith.h"
#include "quantize/int8.h"

struct vc_dialect_request vc_int8_request(const struct vc_quantize_options *options)
{
    bool axis_given = options->axis != VC_AXIS_OUTPUT;

    return (struct vc_dialect_request){.scheme = "int8",
                                       .granularity = options->granularity,
                                       .granularity_given = options->granularity_given,
                                       .axis_given = axis_given,
                                       .axis = axis_given ? options->axis : 0,
                                       .group_size = options->group_size,
                                       .symmetric = !options->asymmetric};
}

struct vc_dialect_tensor vc_int8_tensor(const struct vc_item *item, bool included)
{
    const struct vc_tensor *tensor = &item->model->tensors[item->source];

    return (struct vc_dialect_tensor){.name = tensor->name,
                                      .n_dims = item->desc.n_dims,
                                      .shape = item->desc.shape,
                                      .channel_axis = tensor->channel_axis,
                                      .weights_dtype =
                                          tensor->quant != NULL ? tensor->quant->source_dtype : item->desc.dtype,
                                      .included = included};
}

void vc_int8_choose_scale(const struct vc_item *item, struct vc_int8_state *s)
{
    const struct vc_dialect_request request = vc_int8_request(s->options);
    const struct vc_dialect_tensor tensor = vc_int8_tensor(item, false);
    enum vc_dtype absmax = vc_dialect_part_type(item->dialect, &request, &tensor, VC_PART_ABSMAX, VC_DTYPE_RAW);

    s->absmax = absmax != VC_DTYPE_RAW;
    s->scale_dtype =
        s->absmax ? absmax : vc_dialect_part_type(item->dialect, &request, &tensor, VC_PART_SCALE, VC_DTYPE_F32);
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
