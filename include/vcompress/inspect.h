/* inspect.h - what is in a checkpoint: counts by type, what a plain quantize would make of it, values on request.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_INSPECT_H
#define VCOMPRESS_INSPECT_H

#include <vcompress/measure.h>
#include <vcompress/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What of the file has one type. Tied tensors are counted as tensors, their values once. */
struct vc_inspect_dtype {
    enum vc_dtype dtype;
    uint64_t n_tensors, n_elems, size_bytes;
};

struct vc_inspection {
    const struct vc_model *model; /* the one that was looked at; the tensors themselves are there */
    size_t n_tensors;             /* all of them */
    size_t n_own;                 /* without scales and zero points */
    size_t n_quantized;           /* of n_own */
    size_t n_tied;                /* second names of others */
    uint64_t n_params;            /* elements of weights, tied ones once; without running statistics */
    uint64_t value_bytes;         /* of all tensors, tied ones once */
    bool compressed;              /* some tensor is, in the file */
    size_t n_dtypes;
    const struct vc_inspect_dtype *dtypes; /* in the order of enum vc_dtype */
    uint64_t int8_bytes, fp16_bytes;       /* size of the file that quantize would write, exactly; 0: not known, as
                                              where weights are quantized already */
    const struct vc_value_stats *stats;    /* one per tensor of the model; NULL unless values were read by vc_inspect */
    bool has_stats;                        /* values were read: vc_inspect_get_stats gives them */
};

/* Looks at the headers, and with `stats` at the values, too (vc_model_stats). The result borrows from the model, which
 * must outlive it as the context must, and is freed with vc_inspection_free. Errors: as the file or the system has them
 * when values are read; VC_E_NOMEM. */
VC_API enum vc_status vc_inspect(struct vc_ctx *ctx, const struct vc_model *model, bool stats,
                                 struct vc_inspection **out);
/* The same with the values looked at, in a tenth of the memory: `stats` stays NULL. */
VC_API enum vc_status vc_inspect_values(struct vc_ctx *ctx, const struct vc_model *model, struct vc_inspection **out);
/* The statistics of one tensor, however they are kept. False: values were not read, or there is no such tensor. */
VC_API bool vc_inspect_get_stats(const struct vc_inspection *inspection, size_t index, struct vc_value_stats *stats);
VC_API void vc_inspection_free(struct vc_inspection *inspection); /* accepts NULL */

/* Renders it as one JSON document, schema vcompress.inspect/1 (installed as inspect-1.schema.json). *text is
 * NUL-terminated and freed with vc_text_free. */
VC_API enum vc_status vc_inspect_json(struct vc_ctx *ctx, const struct vc_inspection *inspection, char **text);

#ifdef __cplusplus
}
#endif
#endif
