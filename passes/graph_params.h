/* graph_params.h - the elements of a graph's parameters, from the tensors of a checkpoint: what vc_graph_run and the
 * measurements with data read with. */
#pragma once

#include <vcompress/graph.h>

#include "core/model/source.h"
#include "core/values/tile.h"
#include "kernels/arith.h"

/* Where the elements of a tensor go: those of the slice, with the last two axes swapped. */
struct vc_place {
    uint64_t inner, length; /* elements behind the sliced axis, and its length in the tensor */
    uint64_t first, count;  /* of it */
    uint64_t rows, columns; /* of what is sliced, before they are swapped; 0: not swapped */
};

/* Of all elements, as they lie; of a parameter. */
struct vc_place vc_place_whole(void);
struct vc_place vc_place_of_param(const struct vc_graph_param *param);

/* The values of a tensor as floats, or as doubles, each at its place in `elements`. */
enum vc_status vc_place_values(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                               const struct vc_place *place, bool to_f64, void *elements);
/* The same of a tensor of integers, which is read whole. */
enum vc_status vc_place_integers(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                 const struct vc_place *place, int64_t *elements);
bool vc_is_integer(enum vc_dtype dtype);
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
/* The same of n floats of a tensor that lie in memory. */
void vc_place_floats(const struct vc_place *place, const float *values, size_t n, float *elements);

/* The model's tensor of a parameter: the one with its number where that has its name, else the one of its name. Fails
 * where there is none, or one of another shape. */
enum vc_status vc_param_find(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_graph_param *param,
                             size_t *out);

/* The elements of a parameter as the graph uses it: integers as int64_t, else floats or doubles. Sentences begin with
 * the model's file. */
enum vc_status vc_param_read(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_graph_param *param,
                             bool integers, bool to_f64, void *elements);
