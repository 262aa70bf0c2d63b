/* compare.h - the error of a whole chain: what the output stands for against what the source stands for, tile by tile.
 *
 * Where one step of a chain is lossy, its own figures are those of the chain. Where several are, they do not add up:
 * the values of both ends are decoded and compared, as `diff` does with two files. Passes decode (passes/compare.c
 * defines these functions), because core knows no scheme. */
#ifndef VC_CORE_COMPARE_H
#define VC_CORE_COMPARE_H

#include "core/chain/steps.h"

/* Plans the decoding of both ends. The item keeps its shape behind step `from`; `from` is 0 but after a change of
 * shape, where what that step made is taken for the source. Freed with vc_compare_free. */
enum vc_status vc_compare_create(struct vc_ctx *ctx, const struct vc_item *item, size_t from, struct vc_compare **out);
void vc_compare_free(struct vc_ctx *ctx, struct vc_compare *compare); /* accepts NULL */

/* Adds what a worker's two sets of buffers need, and returns what begin allocates. */
size_t vc_compare_room(struct vc_compare *compare, struct vc_room *before, struct vc_room *after);

enum vc_status vc_compare_begin(struct vc_ctx *ctx, struct vc_compare *compare);
void vc_compare_end(struct vc_ctx *ctx, struct vc_compare *compare);

/* One tile: `source` is what entered the steps, `result` what came out of them with one view for each of its parts.
 * Fills the sums (which are in after->sums), the largest error and zeros_before; the rest of the statistics is 0. */
enum vc_status vc_compare_tile(struct vc_ctx *ctx, struct vc_compare *compare, const struct vc_tile *tile,
                               const struct vc_tile_in *source, const struct vc_tile_in *result,
                               struct vc_buffers *before, struct vc_buffers *after, struct vc_tile_stats *stats);

#endif
