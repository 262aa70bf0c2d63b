/* plan_json.c - recipes for making a model fit, as JSON, schema vcompress.plan/1; its members are in plan.inc. */
#include <vcompress/plan.h>

#include "report/document_json.h"
#include "report/document_rows.h"

/* An error of 0 is exact: nothing was changed, or nothing that changes values. */
static const char *error_known(const struct vc_recipe *recipe)
{
    if (recipe->error == 0) {
        return "exact";
    }
    return recipe->measured ? "measured" : "assumed";
}

#include "report/rows_write.inc"

#include "report/plan.inc"

enum vc_status vc_write_plan(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    return document_plan(ctx, text, d->of, d->gpu, d->path, d->lines);
}
