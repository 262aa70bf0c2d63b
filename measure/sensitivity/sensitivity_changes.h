/* sensitivity_changes.h - the weights of a tensor after one of the candidates of vc_model_sensitivity, in memory, as
 * f32: what a model is computed with to see what its outputs lose. */
#pragma once

#include <vcompress/couplings.h>

#include "core/chain/candidate.h"

/* The k smallest magnitudes become zero; of equal ones the first go, as in prune. */
enum vc_status vc_change_prune(struct vc_ctx *ctx, float *values, size_t n, uint64_t k);

/* What the candidate makes of a tensor of n elements. */
enum vc_status vc_change_tensor(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                const struct vc_candidate *candidate, float *values);

/* Adds, for each unit of the group, the squares of its elements in a member's tensor, which has those values. */
void vc_change_add_norms(const struct vc_coupling *group, const struct vc_coupling_member *member,
                         const struct vc_tensor *tensor, const float *values, double *norms);
/* The elements of the units that go become zero. The member is not `whole`. */
void vc_change_remove(const struct vc_coupling *group, const struct vc_coupling_member *member,
                      const struct vc_tensor *tensor, const bool *goes, float *values);
