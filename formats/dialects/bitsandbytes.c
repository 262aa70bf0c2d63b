/* bitsandbytes.c - the dialect of bitsandbytes' 8 bits (LLM.int8), which transformers loads.
 *
 *     m.weight         I8  [out, in]   codes
 *     m.SCB            F32 [out]       largest magnitude of each row: value = code * SCB / 127
 *     m.weight_format  U8  []          0: the codes lie row by row */
#include "formats/dialects/dialects.h"
#include "formats/dialects/linear_rules.h"

static enum vc_status bitsandbytes_check(struct vc_ctx *ctx, const struct vc_dialect_request *request)
{
    return vc_linear_check(ctx, vc_dialect_bitsandbytes.name, request, false);
}

static const char *bitsandbytes_reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    (void)request;
    return vc_linear_reason(tensor);
}

static enum vc_dtype bitsandbytes_part_type(const struct vc_dialect_request *request,
                                            const struct vc_dialect_tensor *tensor, enum vc_part_role role,
                                            enum vc_dtype usual)
{
    (void)request;
    (void)tensor;
    return role == VC_PART_SCALE ? VC_DTYPE_RAW : role == VC_PART_ABSMAX ? VC_DTYPE_F32 : usual;
}

const struct vc_dialect vc_dialect_bitsandbytes = {.name = "bitsandbytes",
                                                   .is_choice = true,
                                                   .takes_codes = true,
                                                   .rows_only = true,
                                                   .check = bitsandbytes_check,
                                                   .reason = bitsandbytes_reason,
                                                   .part_type = bitsandbytes_part_type};
