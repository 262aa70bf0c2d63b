/* normalize.h - what inputs of floats become before a network reads them: (value * scale - mean) / deviation,
 * mean and deviation one number, or one for each channel (the second dimension). All commands that read rows ask
 * this. */
#pragma once

#include <vcompress/graph.h>

#include "core/base/arena.h"

struct vc_normalize {
    double scale;
    size_t n_mean, n_deviation; /* 0: a mean of 0, a deviation of 1 */
    double *mean, *deviation;   /* the arena's */
};

/* mean, deviation: "0.485,0.456,0.406", or NULL. VC_E_ARGUMENT: no such list, or a scale of 0. */
enum vc_status vc_normalize_read(struct vc_ctx *ctx, struct vc_arena *arena, double scale, const char *mean,
                                 const char *deviation, struct vc_normalize *out);
/* VC_E_ARGUMENT: they would change nothing, since no input of these graphs (NULL: none) has floats. */
enum vc_status vc_normalize_check_used(struct vc_ctx *ctx, const struct vc_normalize *n,
                                       const struct vc_graph *const *graphs, size_t n_graphs);
/* VC_E_ARGUMENT: there are other numbers of them than channels. */
enum vc_status vc_normalize_check(struct vc_ctx *ctx, const struct vc_normalize *n, size_t channels, const char *input);

static inline bool vc_normalize_is_none(const struct vc_normalize *n)
{
    return n->scale == 1 && n->n_mean == 0 && n->n_deviation == 0;
}

/* One element of that channel. */
static inline double vc_normalize_number(const struct vc_normalize *n, size_t channel, double x)
{
    double mean = n->n_mean == 0 ? 0 : n->mean[n->n_mean == 1 ? 0 : channel];
    double deviation = n->n_deviation == 0 ? 1 : n->deviation[n->n_deviation == 1 ? 0 : channel];

    return (x * n->scale - mean) / deviation;
}
