/* packed_stats.h - statistics of all tensors of a model in little memory: some 60 bytes for a small tensor, where
 * struct vc_value_stats has 2 KiB.
 *
 *     min, max, mean, rms                          four doubles
 *     elements, NaN, Inf, zeros, subnormals        counts: 7 bits a byte, the lowest first, and 0x80 where more follow
 *     bin 0, first, n                              ... of the histogram: zeros; then bins first to first + n - 1,
 *     n bins                                       which are all that are not empty */
#pragma once

#include <vcompress/measure.h>

struct vc_packed_stats;

/* stats.c: of all tensors of the model. *out is freed with vc_packed_stats_free; NULL after a failure. */
enum vc_status vc_packed_stats_make(struct vc_ctx *ctx, const struct vc_model *model, struct vc_packed_stats **out);

/* Room for n tensors, none of which has statistics yet; NULL after a failure. */
enum vc_status vc_packed_stats_create(struct vc_ctx *ctx, size_t n, struct vc_packed_stats **out);
void vc_packed_stats_free(struct vc_ctx *ctx, struct vc_packed_stats *packed); /* accepts NULL */

/* Keeps those of one tensor, which are valid; from any thread, once for each tensor. */
enum vc_status vc_packed_stats_set(struct vc_ctx *ctx, struct vc_packed_stats *packed, size_t tensor,
                                   const struct vc_value_stats *stats);
/* Those of one tensor; all zeros, and not valid, where none were kept. */
void vc_packed_stats_get(const struct vc_packed_stats *packed, size_t tensor, struct vc_value_stats *stats);
