/* diff_json.c - the difference of two checkpoints as one JSON document, schema vcompress.diff/1; its members are in diff.inc. */
#include <math.h>

#include <vcompress/measure.h>

#include "core/base/option_struct.h"
#include "report/document_rows.h"

/* No error at all: an infinite SQNR, which JSON cannot say. */
static bool is_exact(double sqnr_db)
{
    return isinf(sqnr_db) && sqnr_db > 0;
}

#include "report/rows_write.inc"

#include "report/model_file.inc"

#include "report/diff.inc"

enum vc_status vc_diff_json(struct vc_ctx *ctx, const struct vc_model *a, const struct vc_model *b,
                            const struct vc_diff *diff, const struct vc_diff_limits *limits, char **out)
{
    struct vc_diff_limits own;

    *out = NULL;
    VC_CALL(vc_options_read(ctx, VC_OPTIONS(diff_limits), limits, &own));
    return document_diff(ctx, out, a, b, diff, &own);
}
