/* quantize_candidates.h - the schemes as candidates. */
#pragma once

#include "core/chain/candidate.h"

/* Every scheme that there is, with each granularity that aims try. What the candidates point to lives in the arena. */
enum vc_status vc_quantize_candidates(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_candidate_list *list);

/* See vc_candidate_of_codes in facade/all_candidates.h. */
enum vc_status vc_quantize_candidate_of(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_desc *desc,
                                        struct vc_candidate *candidate);

/* See vc_candidates_decide in facade/all_candidates.h. */
enum vc_status vc_quantize_candidates_decide(struct vc_ctx *ctx, struct vc_plan *plan);
