/* graph_values.h - what static quantization of a graph asks for beside the sums of layers: the range of every value
 * that the file of the graph has, and for each layer some of the vectors that it got, as they were.
 *
 *     relu1.range            f32 [2]      smallest, largest
 *     fc1.weight.in_sample   f32 [n, K]   of 64 rows at equal distances, up to four vectors of each */
#pragma once

#include "distill/calibrate/collect.h"

struct vc_graph_sample {
    const char *tensor;
    const struct vc_collector *of;
    uint64_t n;
    size_t per_row;
    float *vectors;
    uint32_t next; /* sample of the same value, a number from 1 on; 0: none */
};

struct vc_graph_range {
    uint32_t value;
    float ends[2]; /* inf, -inf: nothing was seen */
};

/* Starts as zeros; nothing is listed for a graph whose values have no names in a file. */
struct vc_graph_values {
    uint64_t n_rows;
    struct vc_graph_range *ranges; /* ascending by value */
    size_t n_ranges;
    uint32_t *first; /* by value: the first of its samples, a number from 1 on; 0: none */
    struct vc_graph_sample *samples;
    size_t n_samples;
};

/* Lists inputs and results that the file names. Of n_rows rows; with room for samples of n_layers layers. */
enum vc_status vc_graph_values_begin(struct vc_ctx *ctx, struct vc_graph_values *v, const struct vc_graph *graph,
                                     uint64_t n_rows, size_t n_layers);
void vc_graph_values_end(struct vc_ctx *ctx, struct vc_graph_values *v);

/* The layer gets a sample of what the collector sees. */
enum vc_status vc_graph_values_sample(struct vc_ctx *ctx, struct vc_graph_values *v, const struct vc_graph *graph,
                                      const char *tensor, const struct vc_collector *of);

/* A value of the graph, as soon as it is there. */
enum vc_status vc_graph_values_take(struct vc_ctx *ctx, struct vc_graph_values *v, const struct vc_graph *graph,
                                    uint32_t value, const struct vc_run_value *elements,
                                    const struct vc_collect_rows *rows);
