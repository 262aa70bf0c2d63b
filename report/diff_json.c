/* diff_json.c - the difference of two checkpoints as one JSON document, schema vcompress.diff/1; its members are in diff.inc. */
#include <math.h>

#include <vcompress/measure.h>

#include "core/base/option_struct.h"
#include "report/document_json.h"
#include "report/document_rows.h"

/* No error at all: an infinite SQNR, which JSON cannot say. */
static bool is_exact(double sqnr_db)
{
    return isinf(sqnr_db) && sqnr_db > 0;
}

static size_t beyond(const struct vc_diff_limits *limits, const struct vc_diff *diff)
{
    size_t n = 0;

    for (size_t i = 0; i < diff->n_rows; i++) {
        n += !vc_diff_within(limits, &diff->rows[i]);
    }
    return n;
}

#include "report/rows_write.inc"

#include "report/model_file.inc"

#include "report/diff.inc"

enum vc_status vc_write_diff(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    struct vc_diff_limits own;

    VC_CALL(vc_options_read(ctx, VC_OPTIONS(diff_limits), d->limits, &own));
    return document_diff(ctx, text, d->a, d->b, d->of, &own);
}
