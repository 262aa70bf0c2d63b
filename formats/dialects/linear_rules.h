/* linear_rules.h - rules that the loaders of transformers share: they make quantized modules of linear layers, whose
 * weights are [out, in] with their scales along the rows. */
#ifndef VC_FORMATS_LINEAR_RULES_H
#define VC_FORMATS_LINEAR_RULES_H

#include "core/model/dialect.h"

/* Refuses zero points, scales along another axis or for a whole tensor, and groups unless they are allowed. The
 * sentence calls the dialect by its name. */
enum vc_status vc_linear_check(struct vc_ctx *ctx, const char *dialect, const struct vc_dialect_request *request,
                               bool allow_groups);

/* Why loaders make no quantized layer of the tensor; NULL: they do. */
const char *vc_linear_reason(const struct vc_dialect_tensor *tensor);

#endif
