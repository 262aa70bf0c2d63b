/* verify_json.c - what was found in a checkpoint as one JSON document, schema vcompress.verify/1; its members are in verify.inc. */
#include <math.h>

#include <vcompress/verify.h>

#include "report/document_rows.h"

#include "report/rows_write.inc"

#include "report/verify.inc"

enum vc_status vc_verify_json(struct vc_ctx *ctx, const struct vc_verification *v, bool strict, char **out)
{
    return document_verify(ctx, out, v, strict);
}
