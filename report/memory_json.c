/* memory_json.c - what memory a model takes, and where it fits, as JSON: vcompress.estimate/1 and vcompress.fit/1, which has the
 * first one's members, too. The members are in estimate.inc, fit.inc and memory.inc. */

#include "report/document_json.h"
#include "report/document_rows.h"

/* NULL behind the last symbol, and without a graph: the map of sizes is then empty. */
static const char *symbol_name(const struct vc_graph *graph, size_t k)
{
    return graph == NULL ? NULL : vc_graph_symbol(graph, (uint32_t)k, NULL);
}

/* -1 without a size. */
static int64_t symbol_size(const struct vc_graph *graph, size_t k)
{
    int64_t size = -1;

    (void)vc_graph_symbol(graph, (uint32_t)k, &size);
    return size;
}

/* NULL, which becomes null, for "as it is stored". */
static const char *type_name(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_NONE ? NULL : vc_dtype_name(dtype);
}

#include "report/rows_write.inc"

#include "report/memory_parts.inc"

#include "report/estimate.inc"
#include "report/fit.inc"

enum vc_status vc_write_estimate(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    return document_estimate(ctx, text, d->of, d->memory, d->graph, d->path, d->layers);
}

enum vc_status vc_write_fit(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    return document_fit(ctx, text, d->of, d->memory, d->graph, d->path, d->rows, d->n);
}
