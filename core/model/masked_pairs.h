/* masked_pairs.h - weights that torch.nn.utils.prune has pruned: until its function remove is called, a checkpoint has
 * two tensors for each.
 *
 *     c.weight_orig  f32 [64, 32]    and    c.weight_mask  f32 [64, 32] of 0 and 1        the file
 *     c.weight       f32 [64, 32]    with that mask beside it (part_of)              the model, joined
 *
 * The values of the joined tensor are still those of c.weight_orig: prune applies the mask (vc_open_options.pairs). */
#pragma once

#include "core/model/source.h"

/* Joins the pairs of an open model: those of one shape, of floats, whose third name is free. After a failure *model is
 * closed and NULL. */
enum vc_status vc_pairs_join(struct vc_ctx *ctx, struct vc_model **model);

/* The name of a tensor that would be called otherwise once it is joined, "c.weight_orig". */
bool vc_pairs_may_rename(const char *name);

/* The mask of a joined tensor; VC_NO_TENSOR if it is not one. */
size_t vc_pairs_mask(const struct vc_model *model, size_t tensor);

/* The joined tensor that the file calls so, "c.weight_orig"; VC_NO_TENSOR: none is. */
size_t vc_pairs_find(const struct vc_model *model, const char *name);
