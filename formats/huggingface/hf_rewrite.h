/* hf_rewrite.h - the one place where config.json is written anew: all that a job changes about a model that loaders
 * learn from it. The sizes of the model (hf_edit.h), the type of its weights (hf_dtype.h), and how they are quantized
 * (hf_config.h). Every other byte of the text stays. */
#pragma once

#include "formats/huggingface/config/hf_config.h"

/* Whether the job changes anything that the text could say. */
bool vc_hf_rewrite_needed(const struct vc_hf_change *change);

/* Adds the new text to `out`. Fails where one of the three does. */
enum vc_status vc_hf_rewrite(struct vc_ctx *ctx, const char *text, size_t n, const struct vc_hf_change *change,
                             struct vc_text *out);
