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
