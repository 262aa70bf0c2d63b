/* prune_candidates.h - patterns of zeros as candidates. */
#pragma once

#include "core/chain/candidate.h"

/* Patterns that need no figure of how much: 2:4. */
enum vc_status vc_prune_candidates(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_candidate_list *list);
