/* report_json.c - a report as one JSON document, schema vcompress.report/1; its members are in report.inc:
 *
 *     {
 *       "schema": "vcompress.report/1",
 *       "tool": "vcompress 0.1.0",
 *       "command": "quantize --int8 --granularity channel",
 *       "input": {"path": "digits.npz", "format": "npz", "compressed": false, "file_bytes": 646918},
 *       ...
 *       "tensors": [
 *         {"name": "fc1.weight", "action": "quantized", ..., "bytes_before": 262144, "bytes_after": 66048, ...},
 *         ...
 *
 * Keys come in a fixed order, one tensor per line, so that two documents can be compared with diff. Sizes are integers
 * in bytes. What is not known is null: figures of the run before it ran, the size of a deflated output, an SQNR without
 * an error (then "exact" is true). Decides nothing and computes only ratios. */
#include <math.h>

#include "core/model/source.h"
#include "report/document_json.h"
#include "report/document_parts.h"

/* NaN, which becomes null, where nothing is left. */
static double ratio(uint64_t before, uint64_t after)
{
    return after == 0 ? (double)NAN : (double)before / (double)after;
}

/* NULL for an output without quantized tensors. */
static const struct vc_layout *layout_of(const struct vc_report *report, size_t output)
{
    return report->layouts != NULL && output < report->n_outputs ? report->layouts[output] : NULL;
}

/* The text belongs to the report, not to the copied row. NULL: nothing was measured. */
static const char *worst_tensor(const struct vc_report *report)
{
    struct vc_report_row worst;

    return vc_report_get_row(report, report->totals.worst, &worst) ? worst.name : NULL;
}

#define TRAINING
#include "report/rows_write.inc"

#include "report/layout.inc"
#include "report/quality.inc"

#include "report/report.inc"

enum vc_status vc_write_report(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    char tool[64];

    (void)snprintf(tool, sizeof tool, "vcompress %s", vc_version());
    return document_report(ctx, text, d->of, tool);
}
