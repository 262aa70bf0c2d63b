/* gpus_json.c - the catalogue of GPUs as one JSON document, schema vcompress.gpus/1; its members are in gpus.inc. */

#include <vcompress/gpus.h>

#include "report/document_json.h"
#include "report/document_rows.h"

/* The next GPU that is asked for, from *place on; NULL: no more. The list in gpus.inc calls it once for each item. */
static const struct vc_gpu *next_match(const struct vc_gpus *gpus, const char *match, size_t *place)
{
    const struct vc_gpu *gpu;

    do {
        gpu = vc_gpu(gpus, (*place)++);
    } while (gpu != NULL && match != NULL && !vc_gpu_matches(gpu, match));
    return gpu;
}

#include "report/rows_write.inc"

#include "report/gpus.inc"

enum vc_status vc_write_gpus(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    return document_gpus(ctx, text, d->of, d->match);
}
