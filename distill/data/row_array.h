/* row_array.h - an array of a file whose first dimension counts rows, read row by row in any order. Arrays that are
 * compressed, or small beside the memory limit, are held in memory as they are stored; others are read by range. */
#pragma once

#include "core/model/source.h"
#include "core/values/tile.h"
#include "kernels/arith.h"
#include "passes/graph_params.h"

struct vc_row_array {
    const struct vc_model *model; /* outlives it */
    size_t tensor;
    size_t n_elems; /* of a row */
    size_t n_bytes; /* of a row */
    void *held;     /* NULL: it is read from the file */
    void *row;      /* the last row that was read from there */
};

/* The tensor has rows. Freed with vc_row_array_close, after a failure, too. */
enum vc_status vc_row_array_open(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                 struct vc_row_array *array);
void vc_row_array_close(struct vc_ctx *ctx, struct vc_row_array *array);

/* Row `number` as it is stored, valid until the next one is read. */
enum vc_status vc_row_array_read(struct vc_ctx *ctx, const struct vc_row_array *array, uint64_t number,
                                 const void **out);

/* Row `number` is read soon: the system may fetch it meanwhile. */
void vc_row_array_ahead(const struct vc_row_array *array, uint64_t number);

/* Element i of an array of floats or integers. */
static inline double vc_number_at(enum vc_dtype dtype, const void *data, size_t i)
{
    switch (dtype) {
    case VC_DTYPE_F64:
        return ((const double *)data)[i];
    case VC_DTYPE_F32:
        return (double)((const float *)data)[i];
    case VC_DTYPE_F16:
        return (double)vc_f16_to_f32(((const uint16_t *)data)[i]);
    case VC_DTYPE_BF16:
        return (double)vc_bf16_to_f32(((const uint16_t *)data)[i]);
    case VC_DTYPE_U64:
        return (double)((const uint64_t *)data)[i];
    default:
        return (double)vc_integer_at(dtype, data, i);
    }
}
