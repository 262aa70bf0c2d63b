/* sensitivity_units.h - the units of a group of couplings by their weights: which of them go first, and what their
 * share is. For vc_sensitivity_measure; prune --structured has scores of its own. */
#ifndef VC_MEASURE_SENSITIVITY_UNITS_H
#define VC_MEASURE_SENSITIVITY_UNITS_H

#include <vcompress/couplings.h>

#include "core/model/source.h"

/* All values of a tensor, as it lies, decoded. *values is freed with vc_free, also after a failure. */
enum vc_status vc_units_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, float **values);

/* For each unit of the group the sum of squares over the tensors that make it. */
enum vc_status vc_units_norms(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_coupling *group,
                              double *norms);

/* Marks the n units with the smallest norms; of equal ones the first. goes has one entry for each unit. */
enum vc_status vc_units_smallest(struct vc_ctx *ctx, const struct vc_coupling *group, const double *norms, uint64_t n,
                                 bool *goes);

/* The share that the marked units have of the norm of all: the square root of that of the squares. */
double vc_units_share(const struct vc_coupling *group, const double *norms, const bool *goes);

#endif
