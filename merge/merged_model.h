/* merged_model.h - a folder as `merge` would write it, for what is made of it: the GGUF model that llama.cpp runs has
 * other names and rows in another order, so adapters come before it (vc_open_options.merge). */
#pragma once

#include <vcompress/merge.h>

#include "core/model/source.h"

/* Makes *model the merged one of what it is, which belongs to it from now on, also after a failure. Values are added up
 * as they are read. Refuses what the pass refuses, and models of codes. The adapters must outlive the model. */
enum vc_status vc_merged_model_make(struct vc_ctx *ctx, const struct vc_merge_options *options,
                                    struct vc_model **model);
