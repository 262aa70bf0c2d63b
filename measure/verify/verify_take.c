/* verify_take.c - faults of a file that do not end its verification. */
#include "measure/verify/verify_parts.h"

/* An error about the content becomes a sentence of the report, and the call goes on. Others (no memory, a
 * file that cannot be read) end it. */
enum vc_status vc_verify_take(struct vc_ctx *ctx, enum vc_status status, char **sentence)
{
    if (status != VC_E_FORMAT && status != VC_E_UNSUPPORTED) {
        return status;
    }
    VC_CALL_ALLOC(*sentence = vc_strdup(ctx, VC_TAG_REPORT, ctx->message));
    vc_clear_error(ctx);
    return VC_OK;
}
