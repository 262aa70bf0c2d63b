/* search_parts.h - a choice for each part of a model: which of its points every tensor becomes, so that the sum of errors is
 * as small as a file of some bytes allows, or the file as small as a sum of errors allows. What a point is only the caller
 * knows: quantize's aims have a candidate of the schemes for each. */
#pragma once

#include "core/base/ctx.h"
#include "search/search_budget.h"
#include "search/search_points.h"

struct vc_search_part {
    size_t n;                       /* of the points */
    struct vc_search_point *points; /* vc_search_front; the last one is the part as it is, without error */
    size_t chosen;                  /* of the points */
    size_t barred;                  /* no step leads below this one; for search_parts.c */
};

struct vc_search_whole {
    struct vc_search_part *parts;
    size_t n;
    double bound; /* afterwards: no choice of that size has less error, or of that error fewer bytes; 0: not known */
    /* The bytes of the file in which every part is its chosen point. */
    enum vc_status (*lay_out)(void *user, uint64_t *file_bytes);
    void *user;
};

uint64_t vc_search_bytes(const struct vc_search_whole *whole);
double vc_search_error(const struct vc_search_whole *whole);

/* Chooses for a file within the budget; where there is none, the smallest one. The file was laid out as it was
 * chosen. VC_E_NOMEM, VC_E_CANCELLED, what lay_out returns. */
enum vc_status vc_search_by_size(struct vc_ctx *ctx, struct vc_search_whole *whole,
                                 const struct vc_search_budget *budget);
/* Chooses the fewest bytes whose errors add up to at most that. */
enum vc_status vc_search_by_error(struct vc_ctx *ctx, struct vc_search_whole *whole, double limit);

/* ---- search_exact.c: a knapsack of several choices, solved exactly where that is not too much work ---- */

/* No choice within `room` has less error than this: of every part the point that costs least where a byte costs
 * `price`. The closest bound is that of the price at which the cheapest steps fill the room. */
double vc_search_bound(const struct vc_search_part *parts, size_t n, uint64_t room, double price);

/* *better: there is a choice within `room` with less error than `error` by more than a ten-thousandth, and `chosen` is
 * the best one. False as well where finding it takes more than VC_SEARCH_STATES partial choices. VC_E_NOMEM. */
#define VC_SEARCH_STATES ((size_t)1 << 18)
enum vc_status vc_search_exact(struct vc_ctx *ctx, const struct vc_search_part *parts, size_t n, uint64_t room,
                               double price, double error, size_t *chosen, bool *better);
