/* verify_json.c - what was found in a checkpoint as one JSON document, schema vcompress.verify/1; its members are in verify.inc. */
#include <math.h>

#include "report/document_json.h"
#include "report/document_rows.h"

#include "report/rows_write.inc"

#include "report/verify.inc"

enum vc_status vc_write_verify(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    return document_verify(ctx, text, d->of, d->strict);
}
