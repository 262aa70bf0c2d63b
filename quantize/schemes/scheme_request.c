/* scheme_request.c - what a scheme asks the dialect of the output: with which options, in what model, of which tensor. */
#include "quantize/schemes/schemes.h"

struct vc_dialect_request vc_scheme_request(const struct vc_scheme_row *row, const struct vc_quantize_options *options,
                                            const struct vc_model *model)
{
    bool axis_given = options->axis != VC_AXIS_OUTPUT;

    return (struct vc_dialect_request){.scheme = row->name,
                                       .granularity = options->granularity,
                                       .granularity_given = options->granularity_given,
                                       .axis_given = axis_given,
                                       .axis = axis_given ? options->axis : 0,
                                       .group_size = options->group_size,
                                       .symmetric = !options->asymmetric,
                                       .double_quant = options->double_quant,
                                       .model = model};
}

struct vc_dialect_request vc_scheme_request_for(const struct vc_scheme_row *row,
                                                const struct vc_quantize_options *options, const struct vc_item *item)
{
    const struct vc_tensor *own;

    return vc_scheme_request(row, options, vc_model_of(item->set->model, item->source, &own));
}

struct vc_dialect_tensor vc_scheme_tensor(const struct vc_item *item, enum vc_dtype weights, bool included)
{
    const struct vc_tensor *tensor;
    const struct vc_model *own = vc_model_of(item->set->model, item->source, &tensor);

    return (struct vc_dialect_tensor){.name = tensor->name,
                                      .n_dims = item->desc->n_dims,
                                      .shape = item->desc->shape,
                                      .channel_axis = tensor->channel_axis,
                                      .weights_dtype = weights,
                                      .included = included,
                                      .index = (size_t)(tensor - own->tensors)};
}
