/* aim_exact.h - the best choice of one point per tensor within a number of bytes: a knapsack of several choices, solved
 * exactly where that is not too much work. Used by aim_choose.c. */
#pragma once

#include "core/base/ctx.h"

/* A candidate of one tensor, or the tensor as it is. */
struct vc_aim_point {
    uint32_t candidate;
    uint64_t bytes;
    double error; /* sum of squares */
    double sqnr_db;
};

/* The points of one tensor, from the smallest on; each larger one has less error. */
struct vc_aim_points {
    size_t n;
    const struct vc_aim_point *points;
};

/* No choice within `room` has less error than this: of every tensor the point that costs least where a byte costs
 * `price`. The closest bound is that of the price at which the cheapest steps fill the room. */
double vc_aim_bound(const struct vc_aim_points *tensors, size_t n, uint64_t room, double price);

/* *better: there is a choice within `room` with less error than `error` by more than a ten-thousandth, and `chosen` is
 * the best one. False as well where finding it takes more than VC_AIM_STATES partial choices. VC_E_NOMEM. */
#define VC_AIM_STATES ((size_t)1 << 18)
enum vc_status vc_aim_exact(struct vc_ctx *ctx, const struct vc_aim_points *tensors, size_t n, uint64_t room,
                            double price, double error, size_t *chosen, bool *better);
