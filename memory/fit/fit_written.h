/* fit_written.h - whether a model fits with the weights that are written of it, not with its own. */
#pragma once

#include "memory/written.h"

/* vc_fit_cpu_moe of the model with `written` as its weights; NULL: with its own. */
enum vc_status vc_fit_cpu_moe_written(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                      const struct vc_planned_weights *written, const struct vc_memory_options *memory,
                                      uint64_t visible_bytes, const struct vc_fit_options *options, uint64_t *least,
                                      uint64_t *n, bool *fits);
