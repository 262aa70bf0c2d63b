/* given.h - masks that come from a file: which tensor of it is the mask of a weight. The step is in given.c, too. */
#pragma once

#include "prune/prune_steps.h"

/* The mask of the item's tensor among those of `masks`; VC_NO_TENSOR if there is none. Refuses one that does not fit. */
enum vc_status vc_given_find(struct vc_ctx *ctx, const struct vc_model *masks, const struct vc_item *item,
                             size_t *mask);

/* Refuses a file that has masks for tensors that the model does not have, or for none at all. */
enum vc_status vc_given_check(struct vc_ctx *ctx, const struct vc_model *masks, const struct vc_model *model);

/* The step that applies tensor `mask` of `masks`, which outlives it: a form of mask as above, or floats that are 0 and
 * 1. */
enum vc_status vc_given_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_prune_options *options,
                            const struct vc_model *masks, size_t mask, const char *scheme);
