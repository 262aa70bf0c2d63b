/* inspect_json.c - what is in a checkpoint as one JSON document, schema vcompress.inspect/1; its members are in inspect.inc. */
#include <vcompress/inspect.h>

#include "core/model/code_schemes.h"
#include "core/model/source.h"
#include "report/document_json.h"
#include "report/document_parts.h"

/* NULL for no tensor: such members are null. */
static const char *name_of(const struct vc_model *model, size_t index)
{
    return index == VC_NO_TENSOR ? NULL : vc_model_tensor(model, index)->name;
}

/* Structures have a group size for every granularity; documents only where groups share a scale. */
static uint64_t group_size(const struct vc_quant *quant)
{
    bool grouped = quant->granularity == VC_GRANULARITY_GROUP || quant->granularity == VC_GRANULARITY_BLOCK;

    return grouped ? quant->group_size : 0;
}

/* Up to the last bin that is not empty. */
static size_t bins_in_use(const struct vc_value_stats *stats)
{
    size_t n = VC_HISTOGRAM_BINS;

    while (n > 0 && stats->histogram[n - 1] == 0) {
        n--;
    }
    return n;
}

#include "report/rows_write.inc"

#include "report/layout.inc"

#include "report/inspect.inc"

enum vc_status vc_write_inspect(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    return document_inspect(ctx, text, d->of);
}
