/* removed.h - a model whose units are really removed, in memory, and what it computes: for groups whose units cannot be
 * made to do nothing. A normalization takes its mean over all channels, also over those that are zero.
 *
 *     model -- prune --remove --> plan -- planned model --> weights and graph with the new shapes -> outputs */
#pragma once

#include "measure/output_runs.h"

/* What the outputs lose without the units that go. Where prune cannot remove them, or the model does not say itself
 * what it computes, out->reason, in the arena, is why. */
enum vc_status vc_removed_run(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_output_runs *runs,
                              const struct vc_coupling *group, const bool *goes, struct vc_output_change *out);
