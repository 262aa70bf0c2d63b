/* compressed_tensors.c - the dialect of compressed-tensors' `pack-quantized`, which vLLM and transformers load.
 *
 *     m.weight_packed  I32 [out, ceil(in/4)]   four codes a word, each plus 128, rows padded to whole words
 *     m.weight_scale   [out, 1] or [out, in/group], of the type that the weights had
 *     m.weight_shape   I64 [2] = out, in */
#include "formats/dialects/dialects.h"
#include "formats/dialects/linear_rules.h"

/* Rows that fill one 32-bit word could be 4-bit codes as well: a reader could not tell. */
#define MIN_ROW 5

static enum vc_status ct_check(struct vc_ctx *ctx, const struct vc_dialect_request *request)
{
    return vc_linear_check(ctx, vc_dialect_compressed_tensors.name, request, true);
}

static const char *ct_reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    const char *reason = vc_linear_reason(tensor);

    if (reason == NULL && tensor->shape[1] < MIN_ROW) {
        return "rows shorter than 5";
    }
    if (reason == NULL && request->granularity == VC_GRANULARITY_GROUP && tensor->shape[1] % request->group_size != 0) {
        return "rows are no multiple of the group";
    }
    return reason;
}

static enum vc_dtype ct_part_type(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor,
                                  enum vc_part_role role, enum vc_dtype usual)
{
    bool halves =
        role == VC_PART_SCALE && (tensor->weights_dtype == VC_DTYPE_F16 || tensor->weights_dtype == VC_DTYPE_BF16);

    (void)request;
    return halves ? tensor->weights_dtype : usual;
}

const struct vc_dialect vc_dialect_compressed_tensors = {.name = "compressed-tensors",
                                                         .is_choice = true,
                                                         .takes_codes = true,
                                                         .rows_only = true,
                                                         .check = ct_check,
                                                         .reason = ct_reason,
                                                         .part_type = ct_part_type};
