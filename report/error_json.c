/* error_json.c - a failure as a JSON document, in the place of the one that was asked for.
 *
 * schema: of the document that could not be made, so that a reader knows what it has in hand. */
#include <vcompress/report.h>

#include "report/document_rows.h"

#include "report/rows_write.inc"

#include "report/error.inc"

enum vc_status vc_error_json(struct vc_ctx *ctx, const char *schema, enum vc_status status, const char *message,
                             char **out)
{
    struct vc_json json;
    struct vc_text text;

    vc_json_open(&json, &text, ctx, '{', schema);
    rows_error(&json, "error", LINES, status, message);
    vc_json_end(&json, '}');
    return vc_json_finish(&json, out);
}
