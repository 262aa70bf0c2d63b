/* inspect.h - the contents of a checkpoint: counts by type, the size after a plain quantize, statistics of values on
 * request.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_INSPECT_H
#define VCOMPRESS_INSPECT_H

#include <vcompress/measure.h>
#include <vcompress/model.h>

VC_BEGIN_C

/* The tensors of one type. Tied tensors all count in n_tensors; their values count once. */
struct vc_inspect_dtype {
    enum vc_dtype dtype;
    uint64_t n_tensors, n_elems, size_bytes;
};

struct vc_inspection {
    const struct vc_model *model; /* the inspected model, which has the tensors */
    size_t n_tensors;             /* all tensors */
    size_t n_own;                 /* without scales and zero points */
    size_t n_quantized;           /* of n_own */
    size_t n_tied;                /* tensors that are second names of others */
    uint64_t n_params;            /* elements of weights without running statistics; tied weights count once */
    uint64_t value_bytes;         /* bytes of all values; tied tensors count once */
    bool compressed;              /* some tensor is compressed in the file */
    size_t n_dtypes;
    const struct vc_inspect_dtype *dtypes; /* in the order of enum vc_dtype */
    /* Exact size of the file that quantize would write. 0: unknown, because weights are quantized already, for example.
     */
    uint64_t int8_bytes, fp16_bytes;
    bool has_stats; /* values were read: vc_inspect_get_stats works */
};

/* Inspects the headers, and with `stats` the values, too. The result borrows from the model: model and
 * context must outlive the result. Free *out with vc_result_free. Errors: VC_E_NOMEM; with `stats` also the
 * failures of reading values (vc_model_read). */
VC_API enum vc_status vc_inspect(struct vc_ctx *ctx, const struct vc_model *model, bool stats,
                                 struct vc_inspection **out);
/* Copies the statistics of one tensor, which vc_inspect keeps in some 60 bytes. Returns false if values were not read, or index is no tensor. */
VC_API bool vc_inspect_get_stats(const struct vc_inspection *inspection, size_t index, struct vc_value_stats *stats);

VC_END_C
#endif
