/* linear_rules.h - rules that the loaders of transformers share: they make quantized modules of linear layers, whose
 * weights are [out, in] with their scales along the rows. */
#pragma once

#include "formats/dialects/family.h"

/* Refuses zero points, scales along another axis or for a whole tensor, and groups unless they are allowed; and models
 * of families that the loader cannot load. The sentence calls the dialect by its name. */
enum vc_status vc_linear_check(struct vc_ctx *ctx, const struct vc_dialect *dialect,
                               const struct vc_dialect_request *request, bool allow_groups);

/* The layer of an expert by number, "mlp.experts.7.up_proj.weight": transformers 5 makes one tensor of all of them. */
bool vc_linear_is_expert(const char *name);

/* Why that loader makes no quantized layer of the tensor; NULL: it does. */
const char *vc_linear_reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor,
                             enum vc_loads loads);

/* vc_dialect.part_type: scales have the type of the weights where it is f16 or bf16, since loaders decode to the type of
 * the scales. */
enum vc_dtype vc_linear_part_type(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor,
                                  enum vc_part_role role, enum vc_dtype usual);
