/* search_exact.h - the best choice of one point for each part within a number of bytes: a knapsack of several choices, solved
 * exactly where that is not too much work. Used by search_parts.c. */
#pragma once

#include "search/search_parts.h"

/* No choice within `room` has less error than this: of every part the point that costs least where a byte costs
 * `price`. The closest bound is that of the price at which the cheapest steps fill the room. */
double vc_search_bound(const struct vc_search_part *parts, size_t n, uint64_t room, double price);

/* *better: there is a choice within `room` with less error than `error` by more than a ten-thousandth, and `chosen` is
 * the best one. False as well where finding it takes more than VC_SEARCH_STATES partial choices. VC_E_NOMEM. */
#define VC_SEARCH_STATES ((size_t)1 << 18)
enum vc_status vc_search_exact(struct vc_ctx *ctx, const struct vc_search_part *parts, size_t n, uint64_t room,
                               double price, double error, size_t *chosen, bool *better);
