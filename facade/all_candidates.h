/* all_candidates.h - the candidates of all passes, for callers that try them and do not know the passes. */
#pragma once

#include "core/chain/candidate.h"

/* Appends the patterns of prune, then the schemes of quantize. What the candidates point to lives in the arena. */
enum vc_status vc_candidates_list(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_candidate_list *list);

/* The candidate that makes codes like those of a quantized tensor: the same scheme, with scales of the same elements.
 * *candidate lives in the arena. Returns VC_E_UNSUPPORTED if no scheme makes such codes. */
enum vc_status vc_candidate_of_codes(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_desc *desc,
                                     struct vc_candidate *candidate);

/* After a round of calibration (vc_pass_ops.decide): steps that candidates have added, and that looked at all weights,
 * decide what the tensors of the plan share. */
enum vc_status vc_candidates_decide(struct vc_ctx *ctx, struct vc_plan *plan);
