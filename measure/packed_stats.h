/* packed_stats.h - statistics of all tensors of a model in little memory: of a histogram the bin of zeros, and those
 * between the first other and the last that are not empty. */
#ifndef VC_MEASURE_PACKED_STATS_H
#define VC_MEASURE_PACKED_STATS_H

#include <vcompress/measure.h>

struct vc_packed_stats;

/* As vc_model_stats. *out is freed with vc_packed_stats_free; NULL after a failure. */
enum vc_status vc_packed_stats_make(struct vc_ctx *ctx, const struct vc_model *model, struct vc_packed_stats **out);
void vc_packed_stats_free(struct vc_ctx *ctx, struct vc_packed_stats *packed); /* accepts NULL */

/* Those of one tensor. */
void vc_packed_stats_get(const struct vc_packed_stats *packed, size_t tensor, struct vc_value_stats *stats);

#endif
