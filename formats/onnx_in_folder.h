/* onnx_in_folder.h - an output that is a folder with an ONNX file: it stands on the rooms onnx and huggingface, so it lies
 * here. */
#pragma once

#include "core/run/sink.h"

/* The writer of a model that was made of a folder (onnx_made.create_folder): model.onnx and its data, what goes along with
 * the folder's weights, and of a decoder with a cache genai_config.json. */
enum vc_status vc_onnx_folder_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                          const struct vc_write_options *options, struct vc_sink **out);
