/* measure_tile.h - the figures of a tile whose values have changed (struct vc_tile_stats): sums of squares, the largest
 * error, zeros before. Zeros after and what was clipped are the caller's. Elements that are not finite count in none.
 */
#pragma once

#include "core/values/tile.h"
#include "kernels/kernels.h"

/* x: before, need not be aligned; y: after. */
enum vc_status vc_measure_tile(struct vc_ctx *ctx, const struct vc_tile *tile, const float *x, const float *y,
                               struct vc_tile_stats *stats);

/* How many of n values, which need not be aligned, are 0 or -0. */
size_t vc_count_zeros(const float *x, size_t n);

/* Element i of the type f32, f16 or bf16, which need not be aligned. */
float vc_load_float(enum vc_dtype dtype, const void *data, size_t i);
/* Stores x as element i of the type f32, f16 or bf16, and returns what is stored; a value beyond f16 stays `before`. */
float vc_store_float(enum vc_dtype dtype, float x, float before, char *data, size_t i);
