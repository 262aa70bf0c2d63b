/* calibration.h - statistics of data from a file, for passes that weigh errors: how much an error in a column of a
 * weight matters to what the layer computes. The file is what `calibrate` or llama-imatrix writes, or arrays of the
 * same names (docs/formats.md, statistics):
 *
 *     blk.0.ffn_down.weight.in_sum2  f32 [columns] (experts: [experts, columns])   sums of the squares of the inputs
 *     blk.0.ffn_down.weight.counts   f32 [1] (experts: [experts])                  how many inputs; without: 1
 *
 * The importance of column j is in_sum2[j] / count, E[x_j^2]; where a matrix was never called (count 0, or all sums
 * 0), all columns count alike. A file without statistics of any tensor, or with another number of columns, is of
 * another model, and refused. */
#pragma once

#include "core/chain/pass.h"
#include "passes/sha256.h"

/* Of a whole file: how many rows were seen, and a digest of them. */
#define VC_STATISTICS_ROWS "__rows__"
#define VC_STATISTICS_DATA "__data__"

/* ... and a digest of the graph's text. Of each tensor of the graph: vc_calibration_digest. Statistics of other programs
 * have neither. */
#define VC_STATISTICS_GRAPH    "__graph__"
#define VC_WEIGHT_DIGEST       ".digest"
#define VC_WEIGHT_DIGEST_ELEMS 5 /* four numbers of a SHA-256, and the number of the tensor's type */

/* Elements of the weights that were measured, behind the tensor's name: what tells two trainings apart. */
#define VC_SAMPLE       ".sample"
#define VC_SAMPLE_ELEMS 64

/* What the file says of one tensor. */
struct vc_calibration {
    const struct vc_model *file;
    size_t sums, counts; /* tensors of the file; sums VC_NO_TENSOR: it says nothing; counts may be missing, too */
    size_t moments;      /* sums of x_i x_j, of one matrix; VC_NO_TENSOR if there are none */
    size_t means;        /* sums of x_i; VC_NO_TENSOR if there are none */
    /* Each with statistics of its own, for as many rows: experts, groups of a convolution; else 1. */
    uint64_t n_matrices;
    uint64_t row; /* columns */
    /* It has statistics, but the tensor is [in, out] (Conv1D), so that its rows are not what they are of. */
    bool turned;
};

/* The array of that tail for a name, "relu1" and ".range"; VC_NO_TENSOR if there is none. */
enum vc_status vc_calibration_array(struct vc_ctx *ctx, const struct vc_model *file, const char *name, const char *tail,
                                    size_t *out);

/* Refuses a file without statistics of any tensor of the model, or of no input of any; and, unless `anyway`, one
 * of another training: where the samples of its weights are not those of the model, nor what pruning, rounding
 * or more training makes of them (their correlation, a mean over all tensors, is below 0.25). *note, in the
 * arena: some tensor has another digest, or, of another type or without a digest, a sample that is not near what
 * the model has; which tensors have statistics of no input, or zeros. NULL: neither, or no file. */
enum vc_status vc_calibration_check(struct vc_ctx *ctx, const struct vc_model *file, const struct vc_model *model,
                                    bool anyway, struct vc_arena *arena, const char **note);

/* Refuses statistics of another graph than the one of this text (vc_graph_print_text), as far as digests tell, unless
 * `anyway`. file and text may be NULL. */
enum vc_status vc_calibration_check_graph(struct vc_ctx *ctx, const struct vc_model *file, const char *text,
                                          bool anyway);
/* The digest of a graph's text: zeros where the build has no SHA-256. */
void vc_calibration_graph_digest(const char *text, int64_t out[4]);

/* What tells a tensor from one of other values and the same type, cheaply: the SHA-256 of its bytes as they are stored,
 * all of at most 256 KiB, else 16 pieces of 16 KiB at equal distances. The build has a SHA-256. */
enum vc_status vc_calibration_digest(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                     int64_t out[VC_WEIGHT_DIGEST_ELEMS]);
/* Digits of a SHA-256 as four numbers. */
void vc_calibration_numbers_of(const char hex[VC_SHA256_HEX_BYTES], int64_t out[4]);

/* VC_SAMPLE_ELEMS values of a tensor's first tile, far apart, or all of fewer. *n 0: it is not there, or no floats. */
enum vc_status vc_calibration_sample(struct vc_ctx *ctx, const struct vc_model *model, const char *tensor,
                                     float out[VC_SAMPLE_ELEMS], uint64_t *n);

/* Finds the statistics of the item, by its name. axis_rows: of rows that are what is behind axis 0, as those of a
 * convolution are; else of rows along the last axis. VC_E_UNSUPPORTED where they do not fit its shape. file NULL, or a
 * tensor that is stored as [in, out]: nothing is said. */
enum vc_status vc_calibration_find(struct vc_ctx *ctx, const struct vc_model *file, const struct vc_item *item,
                                   bool axis_rows, struct vc_calibration *out);

/* Floats that vc_calibration_load needs room for; 0: nothing is said of the tensor. */
uint64_t vc_calibration_elems(const struct vc_calibration *calibration);

/* The importance of every column, one matrix after the other. Refuses NaN, infinite and negative numbers. */
enum vc_status vc_calibration_load(struct vc_ctx *ctx, const struct vc_calibration *calibration, float *importance);

/* The sums of x_i x_j, row * row of them, and over how many inputs; where calibration->moments is there. Zeros alone,
 * or sums of no input, become the unit matrix. Refuses NaN, infinite numbers, a matrix that is not symmetric, or has
 * another diagonal than in_sum2. Whoever reads moments factors them, damped, which refuses others. */
enum vc_status vc_calibration_load_moments(struct vc_ctx *ctx, const struct vc_calibration *calibration, float *moments,
                                           double *count);

/* vc_cholesky_factor of damped moments, or of k of their rows and columns. VC_E_FORMAT: they are no sums of products
 * of inputs. */
enum vc_status vc_calibration_factor(struct vc_ctx *ctx, const struct vc_calibration *calibration, double *m, size_t k);

/* The means of the columns of one matrix; where calibration->means is there. */
enum vc_status vc_calibration_load_means(struct vc_ctx *ctx, const struct vc_calibration *calibration, float *means);

/* Takes count * mean_i * mean_j from each of the k * k moments: what the bias of a layer can do nothing about. */
void vc_calibration_centre(float *moments, double count, const float *means, size_t k);

/* fc1.bias of the item fc1.weight [out, ...]: plain floats [out], and the means of the inputs are known. *bias is
 * VC_NO_TENSOR if there is no such tensor. */
enum vc_status vc_calibration_bias(struct vc_ctx *ctx, const struct vc_calibration *calibration,
                                   const struct vc_item *item, size_t *bias);
