/* compare.h - measures the error of a whole chain of steps: the values that the output stands for against those that
 * the source stands for, tile by tile.
 *
 * Where one step of a chain is lossy, its own figures are those of the chain and nothing here is used. The errors of
 * several lossy steps do not add up, so the tile that entered the chain and the tile that left it are both decoded to
 * floats and compared, as `diff` does with two files. Core knows no scheme and cannot decode: a job gets a comparer
 * when it is made (passes/comparer.h has it). The plan creates a comparison per item (job_plan.c); the executor calls
 * the rest. */
#pragma once

#include "core/chain/steps.h"

struct vc_compare;

struct vc_comparer {
    /* Plans the decoding of both ends: of the input of step `from`, which is 0 (the source) or the step after the last
     * change of shape, and of what the last step makes. *out is NULL, with VC_OK, where one of the ends holds no values
     * that can be decoded. Borrows the item's model and descriptors; free ends it. */
    enum vc_status (*create)(struct vc_ctx *ctx, const struct vc_item *item, size_t from, struct vc_compare **out);
    void (*free)(struct vc_ctx *ctx, struct vc_compare *compare);

    /* Adds what decoding needs to the sizes of a worker's two sets of buffers; returns the bytes that begin allocates.
     */
    size_t (*sizes)(struct vc_compare *compare, struct vc_buffer_sizes *before, struct vc_buffer_sizes *after);

    /* Around the tiles of the item, one thread. end also after a begin that failed. */
    enum vc_status (*begin)(struct vc_ctx *ctx, struct vc_compare *compare);
    void (*end)(struct vc_ctx *ctx, struct vc_compare *compare);

    /* One tile, from any thread with buffers of its own: `source` is what entered the steps, `result` what came out of
     * them, with one view for each of its parts. Fills the sums (stats->chunk_sums points to after->sums), the largest
     * error and zeros_before; the rest of the statistics is 0, because decoding cannot tell it. */
    enum vc_status (*tile)(struct vc_ctx *ctx, struct vc_compare *compare, const struct vc_tile *tile,
                           const struct vc_tile_in *source, const struct vc_tile_in *result, struct vc_buffers *before,
                           struct vc_buffers *after, struct vc_tile_stats *stats);
};

/* A comparison begins with who made it. */
struct vc_compare {
    const struct vc_comparer *ops;
};
