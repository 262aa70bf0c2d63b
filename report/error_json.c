/* error_json.c - a failure as a JSON document, in the place of the one that was asked for. */
#include <vcompress/report.h>

#include "core/text/json_write.h"

enum vc_status vc_error_json(struct vc_ctx *ctx, const char *schema, enum vc_status status, const char *message,
                             char **out)
{
    struct vc_json json;
    struct vc_text text;

    vc_json_open(&json, &text, ctx, '{', schema);
    vc_json_begin(&json, "error", '{', false);
    vc_json_string(&json, "code", vc_status_name(status));
    vc_json_string(&json, "message", message);
    vc_json_end(&json, '}');
    vc_json_end(&json, '}');
    return vc_json_finish(&json, out);
}
