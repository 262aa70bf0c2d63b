/* check_names.h - what the names of tensors say about each other, for a verification. */
#pragma once

#include "core/model/source.h"

/* Notes parts of quantized weights that are missing, left over or contradict each other. The model is complete; nothing
 * here keeps it from being read, so no reader refuses it. is_shard: other parts may lie in other files. */
enum vc_status vc_check_names(struct vc_ctx *ctx, const struct vc_model *model, bool is_shard);
