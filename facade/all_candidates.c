/* all_candidates.c - see all_candidates.h. */
#include "facade/all_candidates.h"

#include "prune/prune_candidates.h"
#include "quantize/quantize_candidates.h"

enum vc_status vc_candidates_list(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_candidate_list *list)
{
    enum vc_status status = vc_prune_candidates(ctx, arena, list);

    return status == VC_OK ? vc_quantize_candidates(ctx, arena, list) : status;
}

enum vc_status vc_candidate_of_codes(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_desc *desc,
                                     struct vc_candidate *candidate)
{
    return vc_quantize_candidate_of(ctx, arena, desc, candidate);
}

enum vc_status vc_candidates_decide(struct vc_ctx *ctx, struct vc_plan *plan)
{
    return vc_quantize_candidates_decide(ctx, plan);
}
