/* linear_rules.c - see linear_rules.h. */
#include "formats/dialects/linear_rules.h"

#include "core/model/names.h"

enum vc_status vc_linear_check(struct vc_ctx *ctx, const char *dialect, const struct vc_dialect_request *request,
                               bool allow_groups)
{
    const char *what = NULL;
    const char *field = "granularity";

    if (!request->symmetric) {
        what = "no zero points";
        field = "asymmetric";
    } else if (request->axis_given && request->axis != 0) {
        what = "scales along axis 0 only";
        field = "axis";
    } else if (request->granularity == VC_GRANULARITY_TENSOR) {
        what = "scales per row, not per tensor";
    } else if (request->granularity == VC_GRANULARITY_GROUP && !allow_groups) {
        what = "one scale per row, no groups";
    }
    return what == NULL ? VC_OK
                        : vc_fail(ctx, VC_E_ARGUMENT, "the layout %s takes %s (%s); %s plain takes all", dialect, what,
                                  vc_option(ctx, field), vc_option(ctx, "layout"));
}

const char *vc_linear_reason(const struct vc_dialect_tensor *tensor)
{
    size_t n_path;

    /* A matrix with its outputs on the other axis is not [out, in]. */
    if (tensor->n_dims != 2 || !vc_name_is_module_weight(tensor->name, &n_path) || tensor->channel_axis != 0) {
        return "no weight of a linear layer";
    }
    if (vc_name_is_embedding(tensor->name)) {
        return "embedding";
    }
    return vc_name_is_head(tensor->name) && !tensor->included ? "output head" : NULL;
}
