/* check_config.h - what the config.json of a Hugging Face folder says about quantized modules, against the tensors; for
 * a verification. */
#pragma once

#include "core/model/source.h"

/* Notes modules that are said to be quantized and are not, those that are and are not said to be, and other bits,
 * groups or zero points than are said. The model is complete, and a folder. A folder without config.json is right. */
enum vc_status vc_check_config(struct vc_ctx *ctx, const struct vc_model *model);
