/* evaluate_json.c - how well a network answers, as JSON, schema vcompress.evaluate/1; its members are in evaluate.inc. */
#include <vcompress/distill.h>

#include "report/document_json.h"
#include "report/document_rows.h"

/* The metric of the task; whether a larger value is better is not in the document, since the metric's name says it. */
static double vc_task_value(const struct vc_quality *q)
{
    return vc_metric_figure(q, VC_METRIC_AUTO).value;
}

#include "report/rows_write.inc"

#include "report/quality.inc"

#include "report/evaluate.inc"

enum vc_status vc_write_evaluate(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    return document_evaluate(ctx, text, d->evaluate, d->of, d->missed);
}
