/* calibration.h - statistics of data from a file, for encoders that weigh errors: how much an error in a column of a
 * weight matters to what the layer computes. The file is what llama-imatrix writes, or arrays of the same names:
 *
 *     blk.0.ffn_down.weight.in_sum2  f32 [columns] (experts: [experts, columns])   sums of the squares of the inputs
 *     blk.0.ffn_down.weight.counts   f32 [1] (experts: [experts])                  how many inputs; without: 1
 *
 * The importance of column j is in_sum2[j] / count, E[x_j^2]; where a matrix was never called (count 0, or all sums
 * 0), all columns count alike. A file without statistics of any tensor, or with another number of columns, is of
 * another model, and refused. */
#ifndef VC_PASSES_CALIBRATION_H
#define VC_PASSES_CALIBRATION_H

#include "core/chain/pass.h"

/* What the file says of one tensor. */
struct vc_calibration {
    const struct vc_model *file;
    size_t sums, counts; /* tensors of the file; sums VC_NO_TENSOR: it says nothing; counts may be missing, too */
    uint64_t n_matrices; /* of the tensor: experts, else 1 */
    uint64_t row;        /* columns */
};

/* Refuses a file without statistics of any tensor of the model. */
enum vc_status vc_calibration_check(struct vc_ctx *ctx, const struct vc_model *file, const struct vc_model *model);

/* Finds the statistics of the item, by its name in the output. VC_E_UNSUPPORTED where they do not fit its shape. */
enum vc_status vc_calibration_find(struct vc_ctx *ctx, const struct vc_model *file, const struct vc_item *item,
                                   struct vc_calibration *out);

/* Floats that vc_calibration_load needs room for; 0: nothing is said of the tensor. */
uint64_t vc_calibration_elems(const struct vc_calibration *calibration);

/* The importance of every column, one matrix after the other. Refuses NaN, infinite and negative numbers. */
enum vc_status vc_calibration_load(struct vc_ctx *ctx, const struct vc_calibration *calibration, float *importance);

#endif
