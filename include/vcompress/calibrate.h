/* calibrate.h - statistics of what the layers of a network get to see, in a file: `quantize --calibration` weighs
 * errors by them. docs/formats.md, statistics, has the
 * arrays. Experimental: see experimental.h. */
#ifndef VCOMPRESS_CALIBRATE_H
#define VCOMPRESS_CALIBRATE_H

#include <vcompress/distill.h>

VC_BEGIN_C

struct vc_calibrate_options {
    size_t struct_size; /* set by vc_calibrate_defaults */
    struct vc_network network;
    const struct vc_data_options *data;   /* has to be set */
    const struct vc_write_options *write; /* has to have a path */
    uint64_t batch;                       /* rows that are computed at a time */
    /* Also sums of x x^T, columns * columns of each layer: what GPTQ needs. */
    bool second_moments;
};

/* 64 rows at a time, without second moments. */
static inline void vc_calibrate_defaults(struct vc_calibrate_options *options)
{
    vc_options_defaults("vc_calibrate_options", options, sizeof *options);
}

/* A graph of an ONNX file: also the range of every value that the file names, and a sample of the inputs of layers,
 * which VC_ACTIVATIONS_STATIC of quantize.h reads. */

/* What one layer got: n_vectors inputs of n_columns numbers. A linear layer has a vector for each token or row, a
 * convolution one for each window, padding included. */
struct vc_calibrated_layer {
    const char *tensor; /* its weights */
    uint64_t n_columns, n_vectors;
    double min, max, rms; /* NaN: the file does not say */
    uint64_t n_dead;      /* columns that were 0 in all vectors */
};

struct vc_calibration_report {
    uint64_t n_rows; /* that count; 0: the file does not say */
    size_t n_layers;
    const struct vc_calibrated_layer *layers; /* in the order of the graph */
    size_t n_left_out;                        /* products with a weight of the file and without statistics */
    const char *left_out;                     /* the tensor of the first of them, and why: "w: ..."; NULL: none */
};

/* Computes the network for all rows in f32 and writes the statistics. The same bits for any number of threads on one
 * machine. VC_E_FORMAT: an input of a layer is NaN or infinite; the sentence names tensor and row. VC_E_UNSUPPORTED: no
 * product of the graph has weights of the file. *out is freed with vc_result_free, and NULL after a
 * failure. */
VC_API enum vc_status vc_calibrate(struct vc_ctx *ctx, const struct vc_calibrate_options *options,
                                   struct vc_calibration_report **out);

/* What a file of statistics says, of vc_calibrate or an importance matrix; nothing is left out. VC_E_UNSUPPORTED: it
 * has none. */
VC_API enum vc_status vc_statistics_read(struct vc_ctx *ctx, const struct vc_model *file,
                                         struct vc_calibration_report **out);

/* One file from the statistics of the same model with other rows: sums add, extremes combine, histograms widen and add.
 * Parts of rows that are cut where a multiple of 64 rows ends give the arrays of one run over all of them, bit for bit.
 * An output of GGUF is an importance matrix, as llama-quantize reads it: the sums of squares and the counts alone. One
 * file is written as it is. VC_E_UNSUPPORTED: the statistics are those of another model. VC_E_ARGUMENT: two files have
 * seen the same rows, or one has seen those of all others. Files that have some rows in common cannot be told: those
 * rows count twice. */
VC_API enum vc_status vc_statistics_merge(struct vc_ctx *ctx, const struct vc_model *const *files, size_t n_files,
                                          const struct vc_write_options *write);

VC_END_C
#endif
