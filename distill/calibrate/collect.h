/* collect.h - sums over the vectors that products of a graph multiply with their weights: what vc_calibrate gathers. */
#pragma once

#include "core/base/thread_pool.h"
#include "graph/ops/window.h"

/* Vectors of one length. Two products that read the same value in the same way, as queries, keys and values do, share
 * them. The sums are the same whatever the number of threads and the batches, and those of two parts of the rows can be
 * added. */
struct vc_collector {
    uint32_t value;                   /* of the graph */
    const struct vc_graph_node *conv; /* vectors are the windows of this convolution; NULL: rows along the last axis */
    enum vc_cpu_level level;          /* of the loops; the sums are the same at each */
    uint64_t n_columns;               /* of all groups of a convolution: channels * elements of the window */
    uint64_t n_vectors;
    double *sum, *sum2; /* n_columns each */
    float *min, *max;
    double *moments; /* n_columns * n_columns, sums of x_i x_j with i <= j; NULL: not wanted */
    double *steps;   /* of the tile that is added: the square roots of what sum2 is a multiple of */
    float *tile;     /* `filled` vectors that are not added yet; NULL: none */
    size_t filled;
    /* Vectors of an expert: those of tokens that reach it. */
    uint32_t routes;      /* value [tokens][n_experts], 0 for tokens that do not; VC_NO_VALUE: of no expert */
    size_t expert;        /* its number */
    const float *weights; /* elements of `routes` while vectors are added */
    size_t n_experts;
};

/* n rows of `width` positions of the data begin with row `first`; mask: 0 for a position that does not count; NULL:
 * all count. */
struct vc_collect_rows {
    uint64_t first;
    const uint64_t *numbers; /* of the rows in the file */
    size_t n, width;
    const uint8_t *mask; /* [n][width] */
};

/* Memory for the sums; VC_E_NOMEM with the tensor's name and the size where there is none. */
enum vc_status vc_collector_begin(struct vc_ctx *ctx, struct vc_collector *c, const char *tensor, bool moments);
void vc_collector_end(struct vc_ctx *ctx, struct vc_collector *c);

/* Adds the vectors of a value of `graph` (f32), which are finite. */
enum vc_status vc_collector_add(struct vc_ctx *ctx, struct vc_collector *c, struct vc_thread_pool *pool,
                                const struct vc_graph *graph, const struct vc_run_value *value,
                                const struct vc_collect_rows *rows);
/* `n` vectors of row number `row` of these, at places far apart; those of positions that do not count stay as they are.
 */
enum vc_status vc_collector_look(struct vc_ctx *ctx, const struct vc_collector *c, const struct vc_graph *graph,
                                 const struct vc_run_value *value, const struct vc_collect_rows *rows, size_t row,
                                 size_t n, float *to);
/* After all rows: what is not added yet. */
void vc_collector_finish(struct vc_collector *c, struct vc_thread_pool *pool);
