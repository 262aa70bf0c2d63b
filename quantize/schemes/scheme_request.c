/* scheme_request.c - what a scheme asks the dialect of the output: with which options, in what model, of which tensor.
 *
 *     vc_scheme_group           elements of a group for one tensor: 128, or 64 where 128 does not divide its rows
 *     vc_scheme_common_group    the same for all tensors that have to agree
 *     vc_scheme_request         the options, as a dialect is asked about them */
#include "quantize/schemes/schemes.h"

#include "core/model/code_schemes.h"
#include "passes/select.h"

/* ---- groups ---- */

bool vc_scheme_of_one_kind(const struct vc_item *item)
{
    const struct vc_dialect *dialect = item->set->dialect;

    return dialect != NULL && dialect->of_one_kind != NULL &&
           dialect->of_one_kind(item->set->model, item->set->model->tensors[item->source].name);
}

/* Whether rows get groups of a size that divides them: of codes whose groups have a size of their own they do not. */
static bool divides_rows(const struct vc_scheme_row *row, const struct vc_quantize_options *options,
                         const struct vc_item *item)
{
    const struct vc_code_scheme *codes = vc_code_scheme(row->scheme);

    return options->granularity == VC_GRANULARITY_GROUP && item->set->dialect != NULL &&
           item->set->dialect->whole_groups && item->desc->n_dims == 2 && (codes == NULL || codes->group == 0);
}

/* Where nothing divides the rows the group stays, and the dialect gives the reason. */
uint64_t vc_scheme_group(const struct vc_scheme_row *row, const struct vc_quantize_options *options,
                         const struct vc_item *item)
{
    uint64_t group = options->group_size;

    if (divides_rows(row, options, item) && !options->asymmetric && !vc_scheme_of_one_kind(item)) {
        group = vc_code_whole_group(group, item->desc->shape[1]);
    }
    return group != 0 ? group : options->group_size;
}

/* Tensors that the pass would leave anyway do not make the groups smaller. */
uint64_t vc_scheme_common_group(const struct vc_scheme_row *row, const struct vc_quantize_options *options,
                                const struct vc_plan *plan)
{
    uint64_t common = options->group_size;

    for (size_t i = 0; i < plan->n_items; i++) {
        const struct vc_item *item = &plan->items[i];
        const struct vc_tensor *own;
        uint64_t group;

        (void)vc_model_of(item->set->model, item->source, &own);
        if (divides_rows(row, options, item) && (options->asymmetric || vc_scheme_of_one_kind(item)) &&
            vc_keep_reason(own) == NULL && item->desc->n_elems >= options->min_elems) {
            group = vc_code_whole_group(common, item->desc->shape[1]);
            common = group != 0 ? group : common;
        }
    }
    return common;
}

/* ---- questions to the dialect ---- */

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
    struct vc_dialect_request request =
        vc_scheme_request(row, options, vc_model_of(item->set->model, item->source, &own));

    request.group_size = vc_scheme_group(row, options, item);
    return request;
}

/* The name and the index are those of the model that the tensor is from: a plan may join several. */
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
