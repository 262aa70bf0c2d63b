/* shrink_json.c - the result of a search as JSON, schema vcompress.shrink/1; its members are in shrink.inc. */

#include <vcompress/shrink.h>

#include "report/document_json.h"
#include "report/document_rows.h"

#include "report/rows_write.inc"

#include "report/quality.inc"

#include "report/shrink.inc"

enum vc_status vc_write_shrink(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    return document_shrink(ctx, text, d->of, ((const struct vc_shrinkage *)d->of)->options);
}
