/* curve.h - what pruning by magnitude leaves of one tensor at several sparsities: of each the sum of squares of the k
 * smallest values, from two walks over the tensor in bounded memory.
 *
 *     count   every tile: how many magnitudes fall into each of 65,536 bins
 *     cut     finds the bins that hold a k-th smallest one
 *     sum     every tile: sums of squares between these bins, and how often each magnitude inside of them occurs
 *
 *     f32, k = 700     bins ... | 600 | 250 | ...     the k-th is in the second one: its 32,768 magnitudes are counted
 *
 * Exact but for the rounding of sums. The bins of 16-bit floats are single magnitudes, so `sum` has nothing to do for
 * them; those of f64 are cut into parts with ends 2^-20 apart, whose values count as the middle: the square root of a
 * sum is off by less than 5e-7 of itself. Values that are not finite give figures that mean nothing.
 *
 * Tiles are counted and summed from many threads; the result does not depend on their order. */
#pragma once

#include <vcompress/dtype.h>

#include "core/base/ctx.h"
#include "core/values/exact_sum.h"

#define VC_CURVE_POINTS 16   /* most sparsities */
#define VC_CURVE_FEW    1024 /* so many magnitudes are kept and sorted; the figures are the same */

/* A bin that holds a k-th smallest magnitude. */
struct vc_curve_mark {
    size_t bin;
    size_t table; /* of its parts, number in `parts`; SIZE_MAX: all of the bin stays */
};

/* One tensor's curve. The members behind `zeros` are curve.c's own. */
struct vc_curve {
    enum vc_dtype dtype; /* f16, bf16, f32 or f64 */
    uint64_t n;          /* elements */
    size_t n_points;
    uint64_t k[VC_CURVE_POINTS]; /* ascending, each below the number of elements */

    /* From end on. */
    double sum_x2, sum_e2[VC_CURVE_POINTS];
    uint64_t zeros;

    pthread_mutex_t mutex;
    bool has_mutex;
    uint64_t *bins; /* NULL where n is at most VC_CURVE_FEW: the magnitudes are there instead */
    uint64_t *few;  /* rising once both walks may read them; n_few so far */
    size_t n_few;
    uint8_t *classes; /* of each bin: 2 * segment, or 2 * mark + 1 where its parts are counted */
    uint64_t *parts;
    size_t n_marks, n_tables;
    struct vc_curve_mark marks[VC_CURVE_POINTS];
    size_t mark_of[VC_CURVE_POINTS]; /* of each point ... */
    uint64_t need[VC_CURVE_POINTS];  /* ... and how many of the mark's bin go */
    struct vc_exact_sum *segments;   /* sums of squares before each mark, and after the last */
};

/* floor(n * percent / 100), exactly: how many elements go at that sparsity. */
uint64_t vc_curve_count_of(uint64_t n, unsigned percent);

/* Bytes that the curve allocates, and scratch that count and sum take for a tile of n elements. */
size_t vc_curve_state_bytes(enum vc_dtype dtype, uint64_t n, size_t n_points);
size_t vc_curve_scratch_bytes(enum vc_dtype dtype, size_t n);

/* dtype, n, n_points and k are set. vc_curve_end frees everything, also after a failure. */
enum vc_status vc_curve_begin(struct vc_ctx *ctx, struct vc_curve *c);
enum vc_status vc_curve_count(struct vc_ctx *ctx, struct vc_curve *c, const void *values, size_t n, void *scratch);
enum vc_status vc_curve_cut(struct vc_ctx *ctx, struct vc_curve *c);
void vc_curve_sum(struct vc_curve *c, const void *values, size_t n, void *scratch);
void vc_curve_end(struct vc_ctx *ctx, struct vc_curve *c);
