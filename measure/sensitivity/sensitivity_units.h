/* sensitivity_units.h - the units of a group of couplings by their weights: which of them go first, as prune
 * --structured chooses them by its defaults (passes/scores/unit_scores.h), and what their share is. For
 * vc_sensitivity_measure. */
#pragma once

#include <vcompress/couplings.h>

#include "core/model/source.h"

/* All values of a tensor, as it lies, decoded. *values is freed with vc_free, also after a failure. */
enum vc_status vc_units_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, float **values);

/* For each unit of the group the sum of squares over the tensors that make it. */
enum vc_status vc_units_norms(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_coupling *group,
                              double *norms);

/* For each unit of the group its score. *reason, in the arena: the units cannot be compared, and what prune says of
 * that; else NULL. */
enum vc_status vc_units_scores(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_coupling *group,
                               struct vc_arena *arena, double *scores, const char **reason);

/* Marks the n units with the lowest scores; of equal ones the later. goes has one entry for each unit. */
enum vc_status vc_units_lowest(struct vc_ctx *ctx, const struct vc_coupling *group, const double *scores, uint64_t n,
                               bool *goes);

/* The share that the marked units have of the norm of all: the square root of that of the squares. */
double vc_units_share(const struct vc_coupling *group, const double *norms, const bool *goes);
