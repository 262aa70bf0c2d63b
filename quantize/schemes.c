/* schemes.c - see schemes.h. */
#include "quantize/schemes.h"

static const struct vc_scheme_row *const rows[] = {&vc_scheme_int8, &vc_scheme_q8_0, &vc_scheme_f16, &vc_scheme_bf16};

struct vc_dialect_request vc_scheme_request(const struct vc_scheme_row *row, const struct vc_quantize_options *options)
{
    bool axis_given = options->axis != VC_AXIS_OUTPUT;

    return (struct vc_dialect_request){.scheme = row->name,
                                       .granularity = options->granularity,
                                       .granularity_given = options->granularity_given,
                                       .axis_given = axis_given,
                                       .axis = axis_given ? options->axis : 0,
                                       .group_size = options->group_size,
                                       .symmetric = !options->asymmetric};
}

struct vc_dialect_tensor vc_scheme_tensor(const struct vc_item *item, enum vc_dtype weights, bool included)
{
    const struct vc_tensor *tensor = &item->model->tensors[item->source];

    return (struct vc_dialect_tensor){.name = tensor->name,
                                      .n_dims = item->desc.n_dims,
                                      .shape = item->desc.shape,
                                      .channel_axis = tensor->channel_axis,
                                      .weights_dtype = weights,
                                      .included = included};
}

/* Of several rows for one target (int8 as codes, or as Q8_0 blocks) the one whose codes the dialect stores. */
const struct vc_scheme_row *vc_scheme_choose(const struct vc_quantize_options *options,
                                             const struct vc_dialect *dialect)
{
    size_t i;

    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct vc_scheme_row *row = rows[i];
        const struct vc_dialect_request request = vc_scheme_request(row, options);

        if (row->target == options->target &&
            (!row->codes || vc_dialect_part_type(dialect, &request, NULL, VC_PART_CODES, VC_DTYPE_I8) == row->result)) {
            return row;
        }
    }
    return NULL;
}
