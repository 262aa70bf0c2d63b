/* error_json.c - a failure as a JSON document, in the place of the one that was asked for.
 *
 * The schema is that of the document that could not be made, so that a reader knows what it has in hand. */
#include "report/document_json.h"
#include "report/document_rows.h"

#include "report/rows_write.inc"

#include "report/error.inc"

enum vc_status vc_write_error(struct vc_ctx *ctx, const struct vc_document *d, char **out)
{
    struct vc_json json;
    struct vc_text text;

    vc_json_open(&json, &text, ctx, '{', d->of);
    rows_error(&json, "error", LINES, d->failure, d->missed);
    vc_json_end(&json, '}');
    return vc_json_finish(&json, out);
}
