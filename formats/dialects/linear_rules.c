/* linear_rules.c - see linear_rules.h.
 *
 * Called by dialects whose codes are of linear layers (compressed-tensors, bitsandbytes, fp8, ...): what a job may ask
 * of them, and which tensors stay floats, with the reason that the report shows. */
#include "formats/dialects/linear_rules.h"

#include "core/model/names.h"
#include "formats/dialects/dialects.h"

/* Refuses a model whose loader takes no codes of the dialect, and names a layout that it takes. */
static enum vc_status check_family(struct vc_ctx *ctx, const struct vc_dialect *dialect, const struct vc_family *family)
{
    const char *refused = vc_family_refused(family, dialect->file->loads);
    const struct vc_dialect *other = vc_family_other_layout(family, dialect);

    VC_REFUSE_IF(refused != NULL, ctx, VC_E_UNSUPPORTED,
                 "models of type %s cannot be loaded in the layout %s: %s; %s %s can be made", family->type,
                 dialect->name, refused, vc_option(ctx, "layout"), other != NULL ? other->name : VC_LAYOUT_PLAIN);
    return VC_OK;
}

/* Models like GPT-2 have Conv1D instead of linear layers. Refuses such a model if the dialect does not support Conv1D:
 * no layer could be quantized. */
static enum vc_status check_conv1d(struct vc_ctx *ctx, const struct vc_dialect *dialect, const struct vc_model *model)
{
    VC_REFUSE_IF(model->conv1d && !dialect->file->takes_conv1d, ctx, VC_E_UNSUPPORTED,
                 "models of type %s keep their matrices transposed (Conv1D), which loaders of the layout %s do not "
                 "take; %s " VC_LAYOUT_BITSANDBYTES " can be made",
                 model->family != NULL ? model->family->type : "gpt2", dialect->name, vc_option(ctx, "layout"));
    return VC_OK;
}

/* Options first: they are wrong for any model. model NULL: the options alone are checked. */
enum vc_status vc_linear_check(struct vc_ctx *ctx, const struct vc_dialect *dialect,
                               const struct vc_dialect_request *request, bool allow_groups)
{
    const char *what = NULL;
    const char *field = "granularity";

    if (!request->symmetric && !dialect->zero_points) {
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
    if (what == NULL && request->model == NULL) {
        return VC_OK;
    }
    if (what == NULL) {
        return check_conv1d(ctx, dialect, request->model) == VC_OK ? check_family(ctx, dialect, request->model->family)
                                                                   : ctx->status;
    }
    return vc_fail(ctx, VC_E_ARGUMENT, "the layout %s takes %s (%s); %s plain takes all", dialect->name, what,
                   vc_option(ctx, field), vc_option(ctx, "layout"));
}

bool vc_linear_is_expert(const char *name)
{
    static const char parent[] = ".experts.";
    const char *at = strstr(name, parent);

    return at != NULL && at[sizeof parent - 1] >= '0' && at[sizeof parent - 1] <= '9';
}

/* True for the output layer of PyTorch's own attention (input weights are one tensor). The attention reads this weight
 * without calling the layer. */
static bool is_of_fused_attention(const struct vc_model *model, const char *name, size_t n_path)
{
    static const char tail[] = ".out_proj";
    char beside[512];
    size_t n = sizeof tail - 1;

    if (n_path <= n || memcmp(name + n_path - n, tail, n) != 0 || n_path >= sizeof beside - sizeof ".in_proj_weight") {
        return false;
    }
    (void)snprintf(beside, sizeof beside, "%.*s.in_proj_weight", (int)(n_path - n), name);
    return vc_model_find(model, beside) != VC_NO_TENSOR;
}

/* From what is no linear layer to what would be one: tables, embeddings, attention of PyTorch, what the family keeps,
 * heads. included: the user named the tensor, which outweighs "output head" alone. */
const char *vc_linear_reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor,
                             enum vc_loads loads)
{
    const struct vc_model *model = request->model;
    size_t n_path;

    /* The loader wants [out, in]; a matrix with its outputs on axis 1 is [in, out]. */
    if (tensor->n_dims != 2 || !vc_name_is_module_weight(tensor->name, &n_path) || tensor->channel_axis != 0 ||
        (model != NULL && vc_family_has_table(model->family, tensor->name))) {
        return "no weight of a linear layer";
    }
    if (vc_name_is_embedding(tensor->name)) {
        return "embedding";
    }
    if (model != NULL) {
        if (is_of_fused_attention(model, tensor->name, n_path)) {
            return "attention of PyTorch";
        }
        const char *kept = vc_family_keeps(model->family, loads, tensor->name);
        if (kept != NULL) {
            return kept;
        }
        if (vc_family_has_head(model->family, tensor->name, n_path) && !tensor->included) {
            return "output head";
        }
    }
    return vc_name_is_head(tensor->name) && !tensor->included ? "output head" : NULL;
}

enum vc_dtype vc_linear_part_type(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor,
                                  enum vc_part_role role, enum vc_dtype usual)
{
    bool halves =
        role == VC_PART_SCALE && (tensor->weights_dtype == VC_DTYPE_F16 || tensor->weights_dtype == VC_DTYPE_BF16);

    return halves ? tensor->weights_dtype : usual;
}
