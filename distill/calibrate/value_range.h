/* value_range.h - the smallest and the largest element of a value of a graph, and how many elements lie where.
 *
 *     width 2^e, the least with all elements inside:   bin 0 ............ 1023 | 1024 ............ 2047
 *                                                  -1024 w .. -1023 w   -w .. 0 | 0 .. w     1023 w .. 1024 w
 *
 * A bin has its lower end and not its upper. A larger element doubles w: two neighbours become one bin. So the counts
 * depend on the elements alone, not on their order, and two ranges add exactly. */
#pragma once

#include "distill/calibrate/collect.h"

#define VC_RANGE_BINS 2048

struct vc_value_range {
    uint32_t value; /* of the graph */
    float min, max; /* inf, -inf: nothing was seen */
    int exponent;   /* of the width of a bin */
    uint64_t bins[VC_RANGE_BINS];
};

void vc_value_range_begin(struct vc_value_range *range, uint32_t value);

/* Adds the elements of the value (f32); elements at positions that do not count are left out. VC_E_FORMAT if one is NaN
 * or infinite; the sentence has the row. */
enum vc_status vc_value_range_add(struct vc_ctx *ctx, struct vc_value_range *range, struct vc_thread_pool *pool,
                                  const struct vc_run_value *value, const struct vc_collect_rows *rows);
